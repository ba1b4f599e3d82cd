//! Requests in tokens: plain completions with log-probs, and token ids in and out.

use crate::client::{post, send};
use crate::stub::{Reply, Stub};
use crate::{Bench, served, turns};
use async_trait::async_trait;
use clawhost_core::{
    AlternativeToken, AnsweringModel, Digest, KnownSecrets, Llm, LlmIdentity, Message, ModelError, ModelRequest,
    ModelResponse, Origin, Role, ScoredToken, ScoredTokens, Secret, TokenAnswer, TokenDelta, TokenFinish, TokenModel,
    TokenRecord, TokenRequest, TokenSink, TokenVersion, Usage,
};
use clawhost_gateway::{ClientKey, ClientKeys, GatewayConfig, ModelSource, Redaction, RedactionSettings, ServedModel};
use clawhost_providers::{Dialect, Prices};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;

/// A model whose tokens are the letters a to z. It goes on with the next letters of the alphabet, and never answers a prompt that ends with z.
struct Letters {
    /// Told when a request that is never answered begins, and when it is abandoned.
    waiting: mpsc::UnboundedSender<&'static str>,
}

const CONTEXT: usize = 16;

fn letter(id: u32) -> String {
    char::from(b'a' + id as u8).to_string()
}

fn token(place: usize, id: u32, alternatives: u8, is_sampled: bool) -> ScoredToken {
    let logprob = (place > 0 || is_sampled).then(|| -f64::from(id) / 10.0);
    let other = |id: u8| AlternativeToken { id: id.into(), text: letter(id.into()), logprob: -f64::from(id) / 10.0 };
    ScoredToken {
        id,
        text: letter(id),
        offset: place,
        logprob,
        logprob_sampled: logprob.filter(|_| is_sampled),
        alternatives: logprob.map_or_else(Vec::new, |_| (0..alternatives).map(other).collect()),
    }
}

/// Reports when it is dropped.
struct Abandoned(mpsc::UnboundedSender<&'static str>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.send("abandoned").ok();
    }
}

#[async_trait]
impl TokenModel for Letters {
    fn model(&self) -> AnsweringModel {
        AnsweringModel { model: "letters".into(), version: Some("w7".into()) }
    }

    fn context(&self) -> usize {
        CONTEXT
    }

    fn vocabulary(&self) -> usize {
        26
    }

    async fn tokenize(&self, text: &str, _: bool) -> Result<Vec<u32>, ModelError> {
        let id = |byte: u8| byte.is_ascii_lowercase().then(|| u32::from(byte - b'a'));
        text.bytes().map(id).collect::<Option<_>>().ok_or_else(|| ModelError::Refused("letters alone".into()))
    }

    async fn detokenize(&self, tokens: &[u32]) -> Result<String, ModelError> {
        Ok(tokens.iter().map(|id| letter(*id)).collect())
    }

    async fn token_texts(&self, tokens: &[u32]) -> Result<Vec<String>, ModelError> {
        Ok(tokens.iter().map(|id| letter(*id)).collect())
    }

    async fn score(&self, tokens: &[u32], alternatives: u8) -> Result<ScoredTokens, ModelError> {
        let tokens = tokens.iter().enumerate().map(|(place, id)| token(place, *id, alternatives, false)).collect();
        Ok(ScoredTokens { tokens, model: self.model() })
    }

    async fn sample(
        &self,
        request: &TokenRequest,
        sink: Option<&mut dyn TokenSink>,
    ) -> Result<TokenAnswer, ModelError> {
        let last = *request.prompt.last().unwrap();
        if last == 25 {
            self.waiting.send("begun").unwrap();
            let _abandoned = Abandoned(self.waiting.clone());
            std::future::pending::<()>().await;
        }
        let room = (request.max_tokens as usize).min(CONTEXT - request.prompt.len());
        let first = last + 1 + request.choice as u32;
        let mut ids: Vec<u32> = (first..26).take(room).collect();
        let stopped = ids.iter().position(|id| request.stop_tokens.contains(id));
        ids.truncate(stopped.map_or(ids.len(), |place| place + 1));
        let tokens: Vec<_> =
            ids.iter().enumerate().map(|(place, id)| token(place, *id, request.alternatives, true)).collect();
        let shown = ids.len() - usize::from(stopped.is_some());
        let text: String = ids[..shown].iter().map(|id| letter(*id)).collect();
        if let Some(sink) = sink {
            for (place, token) in tokens.iter().enumerate() {
                let text = if place < shown { token.text.clone() } else { String::new() };
                if sink.delta(TokenDelta { text, tokens: vec![token.clone()] }).is_break() {
                    return Err(ModelError::Stopped);
                }
            }
        }
        let logprobs: Vec<f32> = ids.iter().map(|id| -(*id as f32) / 10.0).collect();
        let finish = stopped.map_or(TokenFinish::Length, |place| TokenFinish::StopToken(ids[place]));
        let versions = vec![TokenVersion { version: 7, digest: "w7".into(), tokens: ids.len() }];
        let record = TokenRecord {
            version: 7,
            shared: 0,
            prompt: request.prompt.clone(),
            tokens: ids,
            logprob_model: logprobs.clone(),
            logprob_sampled: logprobs,
            temperature: 1.0,
            restricted: false,
            grammar: None,
        };
        Ok(TokenAnswer { tokens, text, finish, versions, model: self.model(), record })
    }
}

/// The same model answers a conversation with the seed of the request.
#[async_trait]
impl Llm for Letters {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "local".into(), model: "letters".into(), version: "w7".into() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let message = Message::text(Role::Assistant, Origin::Policy, format!("{:?}", request.seed));
        Ok(ModelResponse::new(message, Usage::default(), "stop"))
    }
}

fn letters() -> (ServedModel, mpsc::UnboundedReceiver<&'static str>) {
    let (waiting, told) = mpsc::unbounded_channel();
    let model = Arc::new(Letters { waiting });
    (ServedModel::new("m", ModelSource::LocalTokens { model: model.clone(), tokens: model }), told)
}

async fn bench() -> Bench {
    Bench::with(vec![letters().0], |_| {}).await
}

async fn ask(bench: &Bench, path: &str, body: Value) -> crate::client::Answer {
    post(&bench.address, path, &[], &body).await
}

async fn complete(bench: &Bench, more: Value) -> crate::client::Answer {
    let mut body = json!({"model": "m", "max_tokens": 2});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ask(bench, "/v1/completions", body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_given_text_is_scored_and_not_recorded() {
    let mut bench = bench().await;
    let answer = complete(&bench, json!({"prompt": "abd", "echo": true, "max_tokens": 0, "logprobs": 1, "n": 1})).await;
    let body = answer.json();
    assert_eq!((answer.status, &body["object"], &body["model"]), (200, &json!("text_completion"), &json!("m")));
    assert_eq!(answer.header("x-clawhost-model"), "letters w7");
    let choice = &body["choices"][0];
    assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!("abd"), &json!("length")));
    let expect = json!({
        "tokens": ["a", "b", "d"],
        "token_logprobs": [null, -0.1, -0.3],
        "top_logprobs": [null, {"a": -0.0, "b": -0.1}, {"a": -0.0, "d": -0.3}],
        "text_offset": [0, 1, 2],
    });
    assert_eq!(choice["logprobs"], expect);
    assert_eq!(body["usage"], json!({"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}));
    assert!(bench.episodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_names_its_tokens_and_weights_and_is_recorded() {
    let mut bench = bench().await;
    let asked = json!({"prompt": "ab", "echo": true, "logprobs": 0, "return_token_ids": true});
    let choice = complete(&bench, asked).await.json()["choices"][0].clone();
    assert_eq!(choice["text"], "abcd");
    assert_eq!(choice["logprobs"]["tokens"], json!(["a", "b", "c", "d"]));
    assert_eq!(choice["logprobs"]["text_offset"], json!([0, 1, 2, 3]));
    assert_eq!(choice["logprobs"]["top_logprobs"], Value::Null);
    assert_eq!((&choice["prompt_token_ids"], &choice["token_ids"]), (&json!([0, 1]), &json!([2, 3])));
    assert_eq!(choice["policy_versions"], json!([[7, 2]]));
    let plain = complete(&bench, json!({"prompt": [0, 1]})).await.json()["choices"][0].clone();
    assert_eq!((&plain["text"], &plain["logprobs"], plain.get("token_ids")), (&json!("cd"), &Value::Null, None));
    let episodes = bench.episodes().await;
    let turn = &episodes[0].turns[0];
    let tokens = turn.tokens.as_ref().unwrap();
    assert_eq!((tokens.tokens.as_slice(), tokens.version), (&[2, 3][..], 7));
    assert_eq!(turn.answered_by.as_ref().unwrap().version.as_deref(), Some("w7"));
    assert_eq!(turns(&episodes[0])[0], (vec!["ab".to_owned()], "cd".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_come_prompt_by_prompt() {
    let bench = bench().await;
    let body = complete(&bench, json!({"prompt": ["a", "k"], "n": 2, "max_tokens": 1})).await.json();
    let choices = body["choices"].as_array().unwrap();
    let seen: Vec<_> = choices.iter().map(|choice| (choice["index"].as_u64(), choice["text"].as_str())).collect();
    assert_eq!(seen, [(Some(0), Some("b")), (Some(1), Some("c")), (Some(2), Some("l")), (Some(3), Some("m"))]);
    assert_eq!(body["usage"], json!({"prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 6}));
    let long = complete(&bench, json!({"prompt": "a", "max_tokens": 4_000_000_000_u32})).await.json();
    assert_eq!(long["choices"][0]["text"], "bcdefghijklmnop", "the context bounds it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_completion_equals_the_whole_one() {
    let mut bench = bench().await;
    let asked = json!({"prompt": ["ab", "k"], "echo": true, "logprobs": 1, "max_tokens": 3, "stop_token_ids": [13]});
    let whole = complete(&bench, asked.clone()).await.json();
    let mut streamed = asked;
    streamed["stream"] = json!(true);
    streamed["stream_options"] = json!({"include_usage": true});
    let streamed = complete(&bench, streamed).await;
    assert_eq!(streamed.header("x-clawhost-model"), "letters w7");
    let mut events = streamed.events();
    assert_eq!(events.pop().as_deref(), Some("[DONE]"));
    let events: Vec<Value> = events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    for choice in whole["choices"].as_array().unwrap() {
        let parts = events.iter().flat_map(|event| event["choices"].as_array().unwrap());
        let parts: Vec<&Value> = parts.filter(|part| part["index"] == choice["index"]).collect();
        let text: String = parts.iter().map(|part| part["text"].as_str().unwrap()).collect();
        assert_eq!(json!(text), choice["text"]);
        for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
            let list = parts.iter().filter_map(|part| part["logprobs"][name].as_array()).flatten().cloned();
            assert_eq!(Value::Array(list.collect()), choice["logprobs"][name], "{name}");
        }
        assert_eq!(parts.last().unwrap()["finish_reason"], choice["finish_reason"]);
    }
    assert_eq!(whole["choices"][1]["finish_reason"], "stop");
    assert_eq!(whole["choices"][1]["stop_reason"], 13);
    assert_eq!(events.last().unwrap()["usage"], whole["usage"]);
    assert_eq!(bench.episodes().await.iter().flat_map(turns).count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_local_model_cannot_do_is_refused_by_name() {
    let bench = bench().await;
    for (more, says) in [
        (json!({"prompt": "a", "suffix": "!"}), "suffix: is not supported"),
        (json!({"prompt": "a", "best_of": 3}), "best_of: is not supported"),
        (json!({"prompt": "a", "frequency_penalty": 0.5}), "frequency_penalty: is not supported"),
        (json!({"prompt": "a", "n": 129}), "n: must be at most 128"),
        (json!({"prompt": ["a", "b", "c"], "n": 100}), "prompt: a request has at most 256 answers"),
        (json!({"prompt": "a", "logprobs": 6}), "logprobs: must be at most 5"),
        (json!({"prompt": "a", "temperature": -1}), "temperature: must be a number from 0 to 2"),
        (json!({"prompt": []}), "prompt: is empty"),
        (json!({"prompt": ""}), "prompt: needs at least one token"),
        (json!({"prompt": [[]]}), "prompt: needs at least one token"),
        (json!({"prompt": [-1]}), "prompt: must be a text"),
        (json!({"prompt": [1, "a"]}), "prompt: must be a text"),
        (json!({"prompt": [26]}), "prompt: has the token 26; the model knows 26"),
        (json!({"prompt": "A"}), "letters alone"),
        (json!({"prompt": "aaaaaaaaaaaaaaaa"}), "prompt: has 16 tokens, and the model's context holds 16"),
    ] {
        let answer = complete(&bench, more.clone()).await;
        assert_eq!(answer.status, 400, "{more}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(says), "{more}: {answer:?}");
    }
    let whole = json!({"prompt": "aaaaaaaaaaaaaaaa", "max_tokens": 0, "echo": true, "logprobs": 0});
    assert_eq!(complete(&bench, whole).await.status, 200, "nothing must fit behind a text that is only scored");
    assert_eq!(complete(&bench, json!({"prompt": "a", "best_of": 1})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_abandons_its_answers() {
    let (model, mut told) = letters();
    let mut bench = Bench::with(vec![model], |_| {}).await;
    for stream in [true, false] {
        let body = json!({"model": "m", "prompt": ["az", "bz"], "echo": true, "stream": stream}).to_string();
        let sent = send(&bench.address, "/v1/completions", &[], body.as_bytes());
        for _ in 0..2 {
            assert_eq!(told.recv().await, Some("begun"), "stream: {stream}");
        }
        drop(sent);
        for _ in 0..2 {
            assert_eq!(told.recv().await, Some("abandoned"), "stream: {stream}");
        }
    }
    bench.stop().await;
    for open in bench.open() {
        for document in bench.reader().exchanges(&open.episode.run, &open.episode.id).unwrap() {
            let record: Value = serde_json::from_str(&document).unwrap();
            assert_eq!(record["answer"]["incomplete"]["why"], "the client has gone", "{record}");
        }
    }
    assert!(!bench.open().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn token_ids_are_generated_with_one_log_prob_each() {
    let mut bench = bench().await;
    let asked = json!({"prompt_ids": [0, 1], "sampling_params": {"max_tokens": 3, "temperature": 1.0, "stop_token_ids": [3]}, "image_data": null});
    let answer = ask(&bench, "/generate", asked).await;
    let expect = json!({
        "token_ids": [2, 3], "log_probs": [-0.2_f32, -0.3_f32], "sampled_log_probs": [-0.2_f32, -0.3_f32],
        "stop_reason": "stop", "stopped_by": 3, "model": "letters", "policy_version": 7, "policy_versions": [[7, 2]],
        "weights": "w7",
    });
    assert_eq!((answer.status, answer.json()), (200, expect));
    assert_eq!(answer.header("x-clawhost-model"), "letters w7");
    for (body, status, says) in [
        (json!({"prompt_ids": [0], "sampling_params": {"repetition_penalty": 1.1}}), 400, "repetition_penalty"),
        (json!({"prompt_ids": [0], "image_data": ["x"]}), 400, "image_data: is not supported"),
        (json!({"prompt_ids": [0], "video_data": ["x"]}), 400, "video_data: is not supported"),
        (json!({"prompt_ids": []}), 400, "prompt_ids: needs at least one token"),
        (json!({"prompt_ids": [99]}), 400, "prompt_ids: has the token 99"),
        (json!({"prompt_ids": vec![0; 16]}), 400, "prompt_ids: has 16 tokens"),
        (json!({"sampling_params": {}}), 400, "prompt_ids: is missing"),
        (json!({"prompt_ids": [0], "sampling_params": {"max_tokens": 0}}), 400, "sampling_params.max_tokens"),
        (json!({"prompt_ids": [0], "model": "nobody"}), 404, "there is no model `nobody`"),
    ] {
        let answer = ask(&bench, "/v1/generate", body.clone()).await;
        assert_eq!(answer.status, status, "{body}");
        assert!(answer.body.contains(says), "{body}: {answer:?}");
    }
    let body = br#"{"prompt_ids": [0], "sampling_params": {"temperature": NaN}}"#.to_vec();
    assert_eq!(crate::client::raw(&bench.address, "/generate", &[], body).await.status, 422);
    let named = ask(&bench, "/s/task/v1/generate", json!({"prompt_ids": [4], "model": "m"})).await;
    assert_eq!((named.status, named.header("x-clawhost-session")), (200, "task"));
    let episodes = bench.episodes().await;
    let tokens: Vec<_> = episodes.iter().flat_map(|episode| &episode.turns).map(|turn| turn.tokens.clone()).collect();
    assert_eq!(tokens.len(), 2);
    assert_eq!(tokens[0].as_ref().unwrap().prompt, [0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_tokens_cost_what_the_model_costs() {
    let mut model = letters().0;
    model.first = model.first.priced(Some(Prices { input: 1.0, output: 10.0 }));
    let mut bench = Bench::with(vec![model], |_| {}).await;
    let asked = json!({"prompt_ids": [0, 1], "sampling_params": {"max_tokens": 2}});
    assert_eq!(ask(&bench, "/generate", asked).await.status, 200);
    assert_eq!(complete(&bench, json!({"prompt": "ab"})).await.status, 200);
    let costs: Vec<u64> = bench.episodes().await.iter().map(|episode| episode.turns[0].usage.cost_micros).collect();
    assert_eq!(costs, [22, 22], "two tokens in, two out");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_name_the_only_local_model_generates_and_of_several_none() {
    let remote = |alias: &str| ServedModel { alias: alias.into(), ..served(Dialect::OpenAi, "http://127.0.0.1:1/v1") };
    let asked = json!({"prompt_ids": [0]});
    let check = async |models: Vec<ServedModel>, status: u16, says: &str| {
        let bench = Bench::with(models, |_| {}).await;
        let answer = ask(&bench, "/generate", asked.clone()).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.body.contains(says), "{answer:?}");
    };
    check(vec![remote("a"), letters().0, remote("z")], 200, "\"model\":\"letters\"").await;
    check(vec![remote("a")], 502, "127.0.0.1:1 cannot be reached").await;
    check(vec![remote("a"), remote("z")], 400, "model: must be named, because there are several: a, z").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_returns_token_ids_generates_them() {
    let stub = Stub::start(|_, request| {
        let choice = |more: Value| {
            let mut choice = json!({"index": 0, "text": "cd", "finish_reason": "length"});
            choice.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            Reply::Http(200, vec![], json!({"model": "stub", "choices": [choice]}).to_string())
        };
        let logprobs = |numbers: &[f64]| json!({"tokens": ["c", "d"], "token_logprobs": numbers});
        match request.body["prompt"][0].as_u64() {
            Some(0) => choice(json!({"token_ids": [2, 3], "logprobs": logprobs(&[-0.5, -0.25])})),
            Some(1) => choice(json!({"token_ids": [2, 3, 4], "logprobs": logprobs(&[-0.5, -0.25])})),
            Some(2) => choice(json!({"logprobs": logprobs(&[-0.5, -0.25])})),
            _ => Reply::Http(422, vec![], json!({"error": {"message": "no such token"}}).to_string()),
        }
    });
    let mut bench = Bench::with(vec![served(Dialect::OpenAi, &stub.base_url())], |_| {}).await;
    let params = json!({"max_tokens": 2, "temperature": 1.0, "top_p": 1.0, "seed": 4, "stop_token_ids": [9]});
    let generate = async |first: u32| {
        let body = json!({"prompt_ids": [first, 1], "sampling_params": params});
        post(&bench.address, "/generate", &[], &body).await
    };
    let answer = generate(0).await;
    let body = answer.json();
    assert_eq!((answer.status, &body["token_ids"], &body["log_probs"]), (200, &json!([2, 3]), &json!([-0.5, -0.25])));
    assert_eq!((&body["sampled_log_probs"], &body["policy_version"]), (&json!([-0.5, -0.25]), &Value::Null));
    let sent = json!({
        "model": "stub-model", "prompt": [0, 1], "max_tokens": 2, "logprobs": 1, "return_token_ids": true,
        "temperature": 1.0, "top_p": 1.0, "seed": 4, "stop_token_ids": [9],
    });
    assert_eq!(stub.requests()[0].body, sent);
    for (first, status, says) in
        [(1, 502, "3 token ids and 2 log-probs"), (2, 502, "has no token ids"), (3, 422, "no such token")]
    {
        let answer = generate(first).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.body.contains(says), "{answer:?}");
    }
    let episodes = bench.episodes().await;
    let recorded: Vec<_> = episodes.iter().flat_map(|episode| &episode.turns).collect();
    assert_eq!(recorded.len(), 1, "what is wrong is no turn");
    assert_eq!(recorded[0].tokens.as_ref().unwrap().tokens, [2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_become_tokens_and_tokens_texts() {
    let bench = bench().await;
    let answer = ask(&bench, "/tokenize", json!({"model": "m", "prompt": "abc", "return_token_strs": true})).await;
    let expect = json!({"count": 3, "max_model_len": 16, "tokens": [0, 1, 2], "token_strs": ["a", "b", "c"]});
    assert_eq!((answer.status, answer.json()), (200, expect));
    let answer = ask(&bench, "/detokenize", json!({"tokens": [0, 1, 2]})).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"prompt": "abc"})));
    assert_eq!(ask(&bench, "/detokenize", json!({"tokens": [26]})).await.status, 400);
    let stub = Stub::start(|_, _| Reply::Http(500, vec![], String::new()));
    let remote = Bench::with(vec![served(Dialect::OpenAi, &stub.base_url())], |_| {}).await;
    let answer = ask(&remote, "/tokenize", json!({"model": "m", "prompt": "abc"})).await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("has no API for /tokenize"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_without_a_seed_get_one() {
    let bench = bench().await;
    let said = async |seed: Value, stream: bool| {
        let messages = json!([{"role": "user", "content": "hi"}]);
        let body = json!({"model": "m", "messages": messages, "seed": seed, "stream": stream});
        let answer = ask(&bench, "/v1/chat/completions", body).await;
        match stream {
            true => answer.text(),
            false => answer.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned(),
        }
    };
    for stream in [false, true] {
        assert_eq!(said(json!(4), stream).await, "Some(4)");
        let seeds = [said(Value::Null, stream).await, said(Value::Null, stream).await];
        assert!(seeds[0].starts_with("Some(") && seeds[0] != seeds[1], "equal requests get several answers: {seeds:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_which_something_was_redacted_keeps_no_tokens() {
    let redacts = |config: &mut GatewayConfig| {
        let settings = RedactionSettings { patterns: vec!["abc".into()], ..RedactionSettings::default() };
        config.redaction = Arc::new(Redaction::new(&settings).unwrap());
    };
    let mut bench = Bench::with(vec![letters().0], redacts).await;
    let say = async |bench: &Bench, session: &'static str, prompt: &str| {
        let body = json!({"model": "m", "prompt": prompt, "max_tokens": 2});
        assert_eq!(post(&bench.address, "/v1/completions", &[("x-session-id", session)], &body).await.status, 200);
    };
    say(&bench, "secret", "abc").await;
    say(&bench, "secret", "k").await;
    say(&bench, "plain", "k").await;
    bench.stop().await;
    bench.start(vec![letters().0], KnownSecrets::default(), redacts).await;
    // The prompt of a later turn may have what was redacted in an earlier one.
    say(&bench, "secret", "m").await;
    let episodes = bench.episodes().await;
    let of = |name: &str| {
        let of_session = episodes.iter().filter(|episode| episode.task.id == name);
        of_session.flat_map(|episode| &episode.turns).map(|turn| turn.tokens.is_some()).collect::<Vec<_>>()
    };
    assert_eq!((of("plain"), of("secret")), (vec![true], vec![false; 3]), "{episodes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn scored_texts_count_against_the_tokens_of_a_key() {
    let spender = ClientKey { tokens_per_day: Some(3), ..ClientKey::new("a", Digest::of(b"ch-a"), 0) };
    let bench = Bench::keyed(vec![letters().0], ClientKeys::new(vec![spender]), "127.0.0.1:0").await;
    let body = json!({"model": "m", "prompt": "abd", "echo": true, "max_tokens": 0, "logprobs": 1});
    let ask = async || post(&bench.address, "/v1/completions", &[("x-api-key", "ch-a")], &body).await.status;
    assert_eq!((ask().await, ask().await), (200, 429));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_this_process_is_in_no_text_that_tokens_spell() {
    let secrets = KnownSecrets::default();
    secrets.add(&Secret::new("cdefghijklmnop").unwrap());
    let bench = Bench::with_secrets(vec![letters().0], secrets, |_| {}).await;
    let spelled = ask(&bench, "/detokenize", json!({"model": "m", "tokens": (2..16).collect::<Vec<_>>()})).await;
    assert!(spelled.status == 200 && !spelled.body.contains("cdefghijklmnop"), "{spelled:?}");
    let refused = complete(&bench, json!({"prompt": "ab", "max_tokens": 14})).await;
    assert!(refused.status >= 500 && refused.body.contains("the answer has a key of this process"), "{refused:?}");
    assert!(!refused.body.contains("cdefghijklmnop"), "{refused:?}");
}
