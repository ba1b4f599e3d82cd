//! A local model whose weights are replaced while it answers.

use crate::Bench;
use crate::client::{chat, post, user};
use clawhost_core::{Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin, Role, Usage};
use clawhost_gateway::{ModelSource, ServedModel};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// Replacements.
const SWAPS: usize = 100;
/// Conversations at the same time.
const CONVERSATIONS: usize = 8;

/// Weights of a version, which it says. It answers after the next replacement has happened.
struct Weights {
    version: usize,
    replaced: watch::Receiver<usize>,
    /// Whether a request has begun.
    asked: AtomicBool,
}

#[async_trait::async_trait]
impl Llm for Weights {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "local".into(), model: "tiny".into(), version: format!("v{}", self.version) }
    }

    async fn complete(&self, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
        self.asked.store(true, Ordering::Relaxed);
        let mut replaced = self.replaced.clone();
        let _ = replaced.wait_for(|now| *now > self.version || *now == SWAPS).await;
        let said = Message::text(Role::Assistant, Origin::Policy, format!("v{}", self.version));
        Ok(ModelResponse::new(said, Usage { prompt_tokens: 3, completion_tokens: 1, ..Usage::default() }, "stop"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_swaps_of_weights_refuse_no_request_and_lose_no_row() {
    let (swapped, replaced) = watch::channel(0);
    let weights =
        move |version| Arc::new(Weights { version, replaced: replaced.clone(), asked: AtomicBool::new(false) });
    let mut current = weights(0);
    let served = |weights: &Arc<Weights>| vec![ServedModel::new("m", ModelSource::Local(weights.clone()))];
    let mut bench = Bench::with(served(&current), |_| {}).await;
    let mut asking = Vec::new();
    for number in 0..CONVERSATIONS {
        let (address, over) = (bench.address.clone(), swapped.subscribe());
        asking.push(tokio::spawn(async move {
            let mut answers = 0;
            while *over.borrow() < SWAPS {
                let mut body = chat(&[user(&format!("{number}: {answers}"))]);
                let streams = answers % 2 == 1;
                body["stream"] = json!(streams);
                let answer = post(&address, "/v1/chat/completions", &[], &body).await;
                assert_eq!(answer.status, 200, "{answer:?}");
                let said = match streams {
                    true => answer.text(),
                    false => answer.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned(),
                };
                assert_eq!(answer.header("x-clawhost-model"), format!("tiny {said}"));
                answers += 1;
            }
            answers
        }));
    }
    for version in 1..=SWAPS {
        // A request to the version before is under way.
        while !current.asked.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        current = weights(version);
        bench.set_models(served(&current));
        swapped.send_replace(version);
    }
    let mut answers = 0;
    for asking in asking {
        answers += asking.await.unwrap();
    }
    let counts = bench.stop().await;
    assert_eq!((counts.recorded, counts.missed), (answers, 0));
    let episodes = bench.episodes().await;
    assert_eq!(episodes.len() as u64, answers);
    let mut versions = std::collections::BTreeSet::new();
    for turn in episodes.iter().flat_map(|episode| &episode.turns) {
        let by = turn.answered_by.as_ref().and_then(|model| model.version.clone());
        assert_eq!(by.as_ref(), Some(&turn.action.plain_text()), "the record names the weights that answered");
        versions.extend(by);
    }
    assert!(versions.len() >= SWAPS, "{} versions answered", versions.len());
}
