//! A teacher behind an endpoint: what is asked, and which answers can be learned from.

use super::*;
use async_trait::async_trait;
use clawhost_core::{
    AnsweringModel, ScoredTokens, Teacher as _, TokenAnswer, TokenModel, TokenRequest, TokenSink, Usage,
};
use clawhost_providers::{EndpointTeacher, MeteredTeacher};
use serde_json::{Value, json};
use stub::Received;

/// The model that learns: its tokens are letters, and the last is a part of a character.
struct Letters;

fn letter(id: u32) -> String {
    if id == 25 { "\u{fffd}".to_owned() } else { char::from(b'a' + id as u8).to_string() }
}

#[async_trait]
impl TokenModel for Letters {
    fn model(&self) -> AnsweringModel {
        AnsweringModel { model: "letters".into(), version: None }
    }

    fn context(&self) -> usize {
        64
    }

    fn vocabulary(&self) -> usize {
        26
    }

    async fn tokenize(&self, _: &str, _: bool) -> Result<Vec<u32>, ModelError> {
        Err(ModelError::Refused("not asked".into()))
    }

    async fn detokenize(&self, _: &[u32]) -> Result<String, ModelError> {
        Err(ModelError::Refused("not asked".into()))
    }

    async fn token_texts(&self, tokens: &[u32]) -> Result<Vec<String>, ModelError> {
        Ok(tokens.iter().map(|id| letter(*id)).collect())
    }

    async fn score(&self, _: &[u32], _: u8) -> Result<ScoredTokens, ModelError> {
        Err(ModelError::Refused("not asked".into()))
    }

    async fn sample(&self, _: &TokenRequest, _: Option<&mut dyn TokenSink>) -> Result<TokenAnswer, ModelError> {
        Err(ModelError::Refused("not asked".into()))
    }
}

/// The tokens of a request.
fn sent(request: &Received) -> Vec<u32> {
    request.body["prompt"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// How an endpoint names tokens.
#[derive(Clone, Copy, PartialEq)]
enum Names {
    Ids,
    Texts,
}

/// The answer of an endpoint: the log-prob of each token is minus its number, and the likely ones are 1, 2, 3 and so on.
fn scored(request: &Received, names: Names) -> Value {
    let name = |id: u32| match names {
        Names::Ids if request.body["return_tokens_as_token_ids"] == true => format!("token_id:{id}"),
        _ => letter(id),
    };
    let tokens = sent(request);
    let count = request.body["logprobs"].as_u64().unwrap() as u32;
    let mut tops = vec![Value::Null];
    for id in tokens.iter().skip(1) {
        // As vLLM: the most likely ones, and the token itself.
        let likely = (1..=count).chain([*id]).map(|id| (name(id), json!(-f64::from(id))));
        tops.push(likely.collect());
    }
    let first = std::iter::once(Value::Null);
    let logprobs: Vec<Value> = first.chain(tokens.iter().skip(1).map(|id| json!(-f64::from(*id)))).collect();
    let names: Vec<String> = tokens.iter().map(|id| name(*id)).collect();
    json!({"choices": [{"index": 0, "text": "", "logprobs":
        {"tokens": names, "token_logprobs": logprobs, "top_logprobs": tops}}]})
}

fn reply(body: Value) -> Reply {
    Reply::Http(200, vec![], body.to_string())
}

fn teacher(stub: &Stub) -> EndpointTeacher {
    EndpointTeacher::new(client(stub, |_| {}), Arc::new(Letters))
}

fn metered(stub: &Stub, tokens: Option<u64>, account: &Arc<Account>) -> MeteredTeacher {
    MeteredTeacher::new(teacher(stub), Budget { tokens, cost: None }, None, account.clone())
}

#[tokio::test]
async fn given_tokens_are_scored_by_their_ids() {
    let stub = Stub::start(|_, request| reply(scored(request, Names::Ids)));
    let taught = teacher(&stub).teach(&[4, 7, 2], 1.0, 2).await.unwrap();
    assert_eq!(taught.iter().map(|token| token.logprob).collect::<Vec<_>>(), [-7.0, -2.0], "from the second token on");
    assert_eq!(taught[0].likely, [(1, -1.0), (2, -2.0)], "the token itself is left out if it is less likely");
    let seen = &stub.requests()[0];
    assert_eq!(seen.path, "/v1/completions");
    let expected = json!({"model": "stub", "prompt": [4, 7, 2], "max_tokens": 0, "echo": true, "logprobs": 2,
        "return_tokens_as_token_ids": true});
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn an_endpoint_that_names_texts_teaches_by_the_drawn_tokens() {
    let stub = Stub::start(|_, request| reply(scored(request, Names::Texts)));
    let taught = teacher(&stub).teach(&[4, 7, 25], 1.0, 0).await.unwrap();
    assert_eq!(
        taught.iter().map(|token| (token.logprob, token.likely.len())).collect::<Vec<_>>(),
        [(-7.0, 0), (-25.0, 0)]
    );
    let refused = teacher(&stub).teach(&[4, 7], 1.0, 2).await.unwrap_err().to_string();
    assert!(refused.contains("named by their texts") && refused.contains("return_tokens_as_token_ids"), "{refused}");
}

#[tokio::test]
async fn a_server_that_must_generate_generates_one_token_that_is_cut_off() {
    let stub = Stub::start(|_, request| {
        if request.body["max_tokens"] == 0 {
            return Reply::Http(
                400,
                vec![],
                json!({"error": {"message": "max_tokens must be at least 1"}}).to_string(),
            );
        }
        let mut body = scored(request, Names::Ids);
        let logprobs = &mut body["choices"][0]["logprobs"];
        for (list, item) in
            [("tokens", json!("token_id:9")), ("token_logprobs", json!(-0.5)), ("top_logprobs", json!({}))]
        {
            logprobs[list].as_array_mut().unwrap().push(item);
        }
        reply(body)
    });
    let teacher = teacher(&stub);
    for _ in 0..2 {
        assert_eq!(teacher.teach(&[4, 7, 2], 1.0, 1).await.unwrap().len(), 2);
    }
    assert_eq!(stub.requests().len(), 3, "the endpoint is asked once how it wants it");
}

#[tokio::test]
async fn other_tokens_are_refused_with_what_differs() {
    let check = async |change: fn(&mut Value), expect: &str| {
        let stub = Stub::start(move |_, request| {
            let mut body = scored(request, Names::Ids);
            change(&mut body["choices"][0]["logprobs"]);
            reply(body)
        });
        let error = teacher(&stub).teach(&[4, 7, 2], 1.0, 2).await.unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
        assert_eq!(stub.requests().len(), 1, "nothing is asked again");
    };
    let same = "needs the same tokenizer";
    check(
        |logprobs| drop(logprobs["tokens"].as_array_mut().unwrap().pop()),
        "the answer has 2 tokens, and 3 were sent",
    )
    .await;
    check(|logprobs| drop(logprobs["tokens"].as_array_mut().unwrap().pop()), same).await;
    check(
        |logprobs| logprobs["tokens"][1] = json!("token_id:8"),
        "the endpoint scored token 8 at position 1, and 7 was sent",
    )
    .await;
    check(|logprobs| logprobs["tokens"][1] = json!("x"), "token 7 at position 1 is `h` here and `x` there").await;
    check(|logprobs| logprobs["token_logprobs"][2] = Value::Null, "at position 2 the token has no log-prob").await;
    check(
        |logprobs| logprobs["top_logprobs"][1] = json!({"token_id:1": -1.0}),
        "named 1 likely tokens where 2 were requested",
    )
    .await;
    check(|logprobs| *logprobs = Value::Null, "no log-probs of the tokens of its prompt").await;
}

#[tokio::test]
async fn a_teacher_is_checked_by_the_texts_of_its_tokens_before_it_is_learned_from() {
    let account = Arc::new(Account::default());
    let stub = Stub::start(|_, request| reply(scored(request, Names::Ids)));
    metered(&stub, None, &account).check(0).await.unwrap();
    let seen = &stub.requests()[0];
    assert_eq!(sent(seen), (0..26).collect::<Vec<u32>>(), "all of a small vocabulary");
    assert_eq!(seen.body.get("return_tokens_as_token_ids"), None, "an id says nothing of a text");
    assert_eq!(account.spent().usage, Usage { prompt_tokens: 26, ..Usage::default() });
    // Likely tokens are asked for by their ids, once.
    metered(&stub, None, &account).check(3).await.unwrap();
    assert_eq!((stub.requests().len(), account.spent().usage.prompt_tokens), (3, 3 * 26));
    let texts = Stub::start(|_, request| reply(scored(request, Names::Texts)));
    let error = metered(&texts, None, &account).check(3).await.unwrap_err().to_string();
    assert!(error.contains("return_tokens_as_token_ids"), "{error}");
    // The same ids with other texts.
    let other = Stub::start(|_, request| {
        let mut body = scored(request, Names::Texts);
        let tokens = body["choices"][0]["logprobs"]["tokens"].as_array_mut().unwrap();
        tokens.rotate_left(1);
        reply(body)
    });
    let error = metered(&other, None, &account).check(0).await.unwrap_err().to_string();
    assert!(
        error.contains("token 0 at position 0 is `a` here and `b` there") && error.contains("the same tokenizer"),
        "{error}"
    );
    // A space that a token alone loses, and parts of characters.
    let spaced = Stub::start(|_, request| {
        let mut body = scored(request, Names::Texts);
        body["choices"][0]["logprobs"]["tokens"][3] = json!(" d");
        body["choices"][0]["logprobs"]["tokens"][25] = json!("z");
        reply(body)
    });
    metered(&spaced, None, &account).check(0).await.unwrap();
}

#[tokio::test]
async fn a_teacher_is_asked_again_and_its_reading_is_paid_for() {
    let stub = Stub::start(|count, request| match count {
        0 => Reply::Http(503, vec![("retry-after", "0".to_owned())], "busy".to_owned()),
        _ => reply(scored(request, Names::Ids)),
    });
    let account = Arc::new(Account::default());
    let teacher = metered(&stub, Some(5), &account);
    assert_eq!(teacher.teach(&[4, 7, 2], 1.0, 0).await.unwrap().len(), 2);
    assert_eq!((stub.requests().len(), account.spent().usage.prompt_tokens, account.spent().calls), (2, 3, 1));
    teacher.teach(&[4, 7], 1.0, 0).await.unwrap();
    let spent = teacher.teach(&[4, 7], 1.0, 0).await.unwrap_err();
    assert!(matches!(spent, ModelError::Budget(_)), "{spent}");
    let cold = teacher.teach(&[4, 7], 0.7, 0).await;
    assert!(cold.is_err());
}

#[tokio::test]
async fn an_endpoint_scores_at_temperature_one_only() {
    let stub = Stub::start(|_, request| reply(scored(request, Names::Ids)));
    let error = teacher(&stub).teach(&[4, 7], 0.7, 0).await.unwrap_err().to_string();
    assert!(error.contains("an endpoint scores at temperature 1, and the answers were drawn at 0.7"), "{error}");
    assert!(stub.requests().is_empty());
}

#[tokio::test]
async fn a_key_reaches_the_teacher_and_no_message() {
    let stub = Stub::start(|_, request| {
        let key = request.headers.iter().find(|(name, _)| name == "authorization").unwrap().1.clone();
        Reply::Http(400, vec![], format!("no echo for {key}"))
    });
    let endpoint = client(&stub, |config| config.key = Secret::new("sk-test-teacher-1"));
    let error = EndpointTeacher::new(endpoint, Arc::new(Letters)).teach(&[4, 7], 1.0, 0).await.unwrap_err().to_string();
    assert!(error.contains("no echo for") && !error.contains("sk-test-teacher-1"), "{error}");
}
