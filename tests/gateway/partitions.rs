//! What a model of this process remembers of a conversation is for the key of its client alone.

use crate::Bench;
use crate::client::{Answer, assistant, chat, post, user};
use async_trait::async_trait;
use clawhost_core::{
    AnsweringModel, DeltaSink, Digest, Episode, EpisodeOrigin, Llm, LlmIdentity, ModelError, ModelRequest,
    ModelResponse, Partition, ScoredTokens, TokenAnswer, TokenModel, TokenRecord, TokenRequest, TokenSink,
};
use clawhost_gateway::{ClientKey, ClientKeys, ModelSource, ServedModel};
use clawhost_model::device::ComputeDevice;
use clawhost_model::{LocalModel, TinyModel, TokenCalls};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// A tiny model that notes in which partitions it was asked.
struct Noted {
    model: Arc<LocalModel>,
    tokens: TokenCalls,
    seen: Mutex<Vec<Partition>>,
}

impl Noted {
    fn new() -> Arc<Self> {
        let model = TinyModel { seed: 4, ..TinyModel::default() }.make().unwrap();
        let model = model.open("tiny", &ComputeDevice::processor()).unwrap();
        Arc::new(Self { tokens: TokenCalls::new(model.clone()), model, seen: Mutex::default() })
    }

    fn note(&self, partition: Partition) {
        self.seen.lock().unwrap().push(partition);
    }

    /// The partitions since the last look.
    fn seen(&self) -> Vec<Partition> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

#[async_trait]
impl Llm for Noted {
    fn identity(&self) -> LlmIdentity {
        self.model.identity()
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        self.note(request.partition);
        self.model.complete(request).await
    }

    async fn stream(&self, request: &ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        self.note(request.partition);
        self.model.stream(request, sink).await
    }
}

#[async_trait]
impl TokenModel for Noted {
    fn model(&self) -> AnsweringModel {
        self.tokens.model()
    }

    fn context(&self) -> usize {
        self.tokens.context()
    }

    fn vocabulary(&self) -> usize {
        self.tokens.vocabulary()
    }

    async fn tokenize(&self, text: &str, adds_special: bool) -> Result<Vec<u32>, ModelError> {
        self.tokens.tokenize(text, adds_special).await
    }

    async fn detokenize(&self, tokens: &[u32]) -> Result<String, ModelError> {
        self.tokens.detokenize(tokens).await
    }

    async fn token_texts(&self, tokens: &[u32]) -> Result<Vec<String>, ModelError> {
        self.tokens.token_texts(tokens).await
    }

    async fn score(&self, tokens: &[u32], alternatives: u8) -> Result<ScoredTokens, ModelError> {
        self.tokens.score(tokens, alternatives).await
    }

    async fn sample(
        &self,
        request: &TokenRequest,
        sink: Option<&mut dyn TokenSink>,
    ) -> Result<TokenAnswer, ModelError> {
        self.note(request.partition);
        self.tokens.sample(request, sink).await
    }
}

async fn bench() -> (Bench, Arc<Noted>) {
    let model = Noted::new();
    let source = ModelSource::LocalTokens { model: model.clone(), tokens: model.clone() };
    let keys = ["a", "b"].map(|name| ClientKey::new(name, Digest::of(format!("ch-{name}").as_bytes()), 0));
    let served = vec![ServedModel::new("m", source)];
    (Bench::keyed(served, ClientKeys::new(keys.into()), "127.0.0.1:0").await, model)
}

async fn ask(bench: &Bench, key: &str, path: &str, body: &Value) -> Answer {
    let answer = post(&bench.address, path, &[("authorization", &format!("Bearer ch-{key}"))], body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

/// A conversation with these messages, whose answer draws by a seed.
fn seeded(messages: &[Value], seed: u64) -> Value {
    let mut body = chat(messages);
    let more = json!({"max_tokens": 16, "temperature": 1.0, "seed": seed, "logprobs": true});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

const CHAT: &str = "/v1/chat/completions";

/// The conversation with an answer that a key got, and a further question. The answer is one that ended by itself: its text says
/// which tokens it has.
async fn continued(bench: &Bench, key: &str) -> Vec<Value> {
    for seed in 0..64 {
        let body = ask(bench, key, CHAT, &seeded(&[user("12+34=")], seed)).await.json();
        let choice = &body["choices"][0];
        let text = choice["message"]["content"].as_str().unwrap_or_default();
        if choice["finish_reason"] == "stop" && !text.is_empty() {
            return vec![user("12+34="), assistant(text), user("1+1=")];
        }
    }
    panic!("no answer ended by itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_of_one_key_is_not_known_to_another() {
    let (mut bench, _) = bench().await;
    let history = continued(&bench, "a").await;
    let chat = seeded(&history, 3);
    let messages = json!({"model": "m", "max_tokens": 4, "messages": history});
    let responses = json!({"model": "m", "max_output_tokens": 4, "input": history});
    let mut answers = Vec::new();
    for (path, body, cached) in [
        (CHAT, &chat, "/usage/prompt_tokens_details/cached_tokens"),
        ("/v1/messages", &messages, "/usage/cache_read_input_tokens"),
        ("/v1/responses", &responses, "/usage/input_tokens_details/cached_tokens"),
    ] {
        for (key, is_known) in [("b", false), ("a", true)] {
            let answer = ask(&bench, key, path, body).await.json();
            let cached = answer.pointer(cached).and_then(Value::as_u64).unwrap();
            assert_eq!(cached > 0, is_known, "{key} {path}: {answer}");
            answers.push(answer);
        }
    }
    assert_eq!(
        answers[0]["choices"], answers[1]["choices"],
        "the tokens and their log-probs are those of any other key"
    );

    let episodes = bench.episodes().await;
    let records = |key: &str| {
        let of_key =
            |episode: &&Episode| matches!(&episode.origin, EpisodeOrigin::Live(live) if live.live.agent == key);
        let turns = episodes.iter().filter(of_key).flat_map(|episode| &episode.turns);
        turns.filter_map(|turn| turn.tokens.clone()).collect::<Vec<_>>()
    };
    let (of_a, of_b) = (records("a"), records("b"));
    assert!(of_b.iter().all(|record| record.shared == 0), "{of_b:?}");
    let drawn = |record: &TokenRecord| {
        (record.tokens.clone(), record.logprob_model.clone(), record.logprob_sampled.clone(), record.version)
    };
    let mut shared = of_a.iter().filter(|record| record.shared > 0);
    assert!(shared.any(|record| drawn(record) == drawn(&of_b[0])), "bit by bit: {of_a:?} {of_b:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_api_of_a_local_model_asks_in_the_partition_of_the_key() {
    let (bench, model) = bench().await;
    let prompt = json!({"model": "m", "prompt": "1+1=", "max_tokens": 3, "echo": true, "logprobs": 1, "n": 2});
    let streamed = |mut body: Value| {
        body["stream"] = json!(true);
        body
    };
    let messages = json!({"model": "m", "max_tokens": 4, "messages": [user("1+1=")]});
    let generate = json!({"model": "m", "prompt_ids": [1, 2, 3], "sampling_params": {"max_tokens": 2}});
    for (path, body, requests) in [
        (CHAT, seeded(&[user("1+1=")], 1), 1),
        (CHAT, streamed(chat(&[user("1+1=")])), 1),
        ("/v1/messages", messages.clone(), 1),
        ("/v1/messages", streamed(messages), 1),
        ("/v1/responses", json!({"model": "m", "input": "1+1="}), 1),
        ("/v1/completions", prompt.clone(), 2),
        ("/v1/completions", streamed(prompt), 2),
        ("/generate", generate, 1),
    ] {
        for key in ["a", "b"] {
            ask(&bench, key, path, &body).await;
            assert_eq!(model.seen(), vec![Partition::of_client(key); requests], "{key} {path}");
        }
    }
}
