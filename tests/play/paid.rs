//! What was paid for when the budget is spent.

use super::*;
use async_trait::async_trait;
use clawhost_core::{Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin, Role, Usage};
use clawhost_play::Observer;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// A model whose budget the first request spends. That one is answered when `answer` is notified; others are refused.
struct Last {
    asked: AtomicU64,
    answer: Arc<Notify>,
}

#[async_trait]
impl Llm for Last {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "fake".into(), model: "last".into(), version: "1".into() }
    }

    async fn complete(&self, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
        if self.asked.fetch_add(1, Ordering::Relaxed) > 0 {
            return Err(ModelError::Budget("50 of 50 tokens".into()));
        }
        self.answer.notified().await;
        let message = Message::text(Role::Assistant, Origin::Policy, "paid");
        Ok(ModelResponse::new(message, Usage { prompt_tokens: 50, ..Usage::default() }, "stop"))
    }
}

/// Notifies when an episode was recorded: by then the run knows that its budget is spent.
struct Answers(Arc<Notify>);

impl Observer for Answers {
    fn recorded(&self, _: &EpisodeSummary, _: u64, _: u64) {
        self.0.notify_one();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_episode_whose_last_answer_was_paid_for_ends_as_usual_after_the_budget_is_spent() {
    let (store, answer) = (Arc::new(Memory::default()), Arc::new(Notify::new()));
    let model = Last { asked: AtomicU64::new(0), answer: answer.clone() };
    let policy = ChatPolicy::new(Arc::new(model), None, Sampling::default());
    let environment = Counting { turns: 1, ..Counting::default() };
    let ports = Ports { policy, ..ports(environment, vec![Judge::giving(1.0)], store.clone()) };
    let request = RunRequest::new(RunId("run-test".into()), Plan { concurrency: 2, ..plan(2) }, ports);
    let report = play_run(request, &Cancel::default(), &Answers(answer)).await.unwrap().report;
    assert_eq!((report.stopped, report.scored), (Some(StopReason::ModelBudget), 1));
    let paid: Vec<u64> = store.episodes().iter().map(|episode| episode.turns.len() as u64).collect();
    assert_eq!(paid.iter().sum::<u64>(), 1, "{paid:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_need_not_wait_for_the_last_answer() {
    /// Stops the run when an episode was recorded.
    struct Stops(Cancel);
    impl Observer for Stops {
        fn recorded(&self, _: &EpisodeSummary, _: u64, _: u64) {
            self.0.request();
        }
    }
    let (store, cancel) = (Arc::new(Memory::default()), Cancel::default());
    let model = Last { asked: AtomicU64::new(0), answer: Arc::default() };
    let policy = ChatPolicy::new(Arc::new(model), None, Sampling::default());
    let ports = Ports { policy, ..ports(Counting::default(), vec![], store) };
    let request = RunRequest::new(RunId("run-test".into()), Plan { concurrency: 2, ..plan(2) }, ports);
    let report = play_run(request, &cancel, &Stops(cancel.clone())).await.unwrap().report;
    assert_eq!(report.stopped, Some(StopReason::ModelBudget));
}
