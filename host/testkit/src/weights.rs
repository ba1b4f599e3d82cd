//! Weights that are one number, and the model that they answer with.

use crate::environments::right;
use async_trait::async_trait;
use clawhost_core::{
    Digest, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin, Role, TokenRecord, Usage,
};
use clawhost_follower::Follower;
use clawhost_learn::policy::Generated;
use clawhost_learn::{Batch, CheckpointKind, Forward, Layer, LearnError, Measurements, Metric, Step, Weights};
use clawhost_learning::TrainingThread;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Weights that are one number: so many of eight lights are answered rightly. Every call must come from the training thread.
#[derive(Default)]
pub struct Dial {
    /// The number.
    pub value: u64,
    /// What the next step adds to it.
    pub pending: u64,
    /// The number that answers.
    pub published: Arc<AtomicU64>,
    /// Demonstrations of every supervised step.
    pub shown: Vec<usize>,
    /// What demonstrations left behind, beside the number.
    pub momentum: bool,
    /// What was written down, with the number of then.
    pub kept: Vec<(CheckpointKind, u64)>,
    /// Every batch that it was handed.
    pub taught: Vec<Batch>,
    /// Names of the calls that it had, all of them on the training thread.
    pub calls: Mutex<BTreeSet<&'static str>>,
    /// The loss that it measures; none: 0.5.
    pub loss: Option<f64>,
    /// The batch of this number is refused.
    pub refuses: Option<u64>,
    /// The step on the batch of this number fails.
    pub breaks: Option<u64>,
    /// The step on the batch of this number panics.
    pub panics: Option<u64>,
}

impl Dial {
    /// What a snapshot of it holds now.
    pub fn bytes(&self) -> Vec<u8> {
        [&self.value.to_le_bytes()[..], &[u8::from(self.momentum)]].concat()
    }

    fn answer(&mut self) {
        self.published.store(self.value, Ordering::SeqCst);
    }

    /// Asserts that this is the training thread.
    fn note(&self, call: &'static str) {
        let thread = std::thread::current();
        assert_eq!(thread.name(), Some(TrainingThread::NAME), "`{call}` runs on the training thread, and nowhere else");
        self.calls.lock().unwrap().insert(call);
    }

    fn number(&self) -> Option<u64> {
        self.taught.last().map(|batch| batch.number)
    }
}

impl Layer for Dial {
    fn name(&self) -> &'static str {
        "weights"
    }

    fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError> {
        self.note("forward_backward");
        let mut members = batch.groups.iter().flat_map(|group| &group.members);
        assert!(members.all(|member| member.generated.is_some()), "every member comes with its tokens");
        assert!(!self.momentum, "what demonstrations left behind is forgotten");
        self.taught.push(batch.clone());
        if self.refuses == self.number() {
            return Err(LearnError::Layer { layer: "weights".into(), why: "no gradient today".into() });
        }
        self.pending = 1;
        Ok(Forward { metrics: Measurements::from([(Metric::Loss, self.loss.unwrap_or(0.5))]) })
    }

    fn optim_step(&mut self) -> Result<Step, LearnError> {
        self.note("optim_step");
        self.value += std::mem::take(&mut self.pending);
        self.answer();
        assert_ne!(self.panics, self.number(), "a bug in the step");
        if self.breaks == self.number() {
            return Err(LearnError::Layer { layer: "weights".into(), why: "no step today".into() });
        }
        let metrics = Measurements::from([(Metric::Version, self.value as f64)]);
        Ok(Step { updates: 1, metrics, ..Step::default() })
    }

    fn snapshot(&self) -> Result<Vec<u8>, LearnError> {
        self.note("snapshot");
        Ok(self.bytes())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), LearnError> {
        self.note("restore");
        self.value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        self.momentum = bytes[8] == 1;
        self.answer();
        Ok(())
    }

    fn clear_pending(&mut self) {
        self.note("clear_pending");
        self.pending = 0;
    }

    fn digest(&self) -> Digest {
        self.note("digest");
        Digest::of(&self.bytes())
    }
}

impl Weights for Dial {
    fn supervise(&mut self, demonstrations: &[Arc<Generated>], _: f64) -> Result<f64, LearnError> {
        self.note("supervise");
        self.shown.push(demonstrations.len());
        self.momentum = true;
        self.value += 1;
        Ok(1.0 / self.value as f64)
    }

    fn publish(&mut self) -> Result<(), LearnError> {
        self.note("publish");
        self.answer();
        Ok(())
    }

    fn end_supervision(&mut self) {
        self.note("end_supervision");
        self.momentum = false;
    }

    fn keep(&mut self, kept: CheckpointKind) -> Result<(), LearnError> {
        self.note("keep");
        self.kept.push((kept, self.value));
        Ok(())
    }
}

/// Answers rightly as often as the published number says, or always, as a demonstrator. Else it follows its prompt.
pub struct Dialled {
    /// The number that answers.
    pub published: Arc<AtomicU64>,
    /// Whether it always answers rightly.
    pub demonstrates: bool,
    /// One time in so many it is lucky; 0: never.
    pub luck: u64,
}

#[async_trait]
impl Llm for Dialled {
    fn identity(&self) -> LlmIdentity {
        let version = self.published.load(Ordering::SeqCst).to_string();
        LlmIdentity { provider: "dial".into(), model: "dial".into(), version }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let text = request.messages.last().unwrap().plain_text();
        let (light, colour) = text.split_once("\ncolour: ").unwrap();
        let number: u64 = light.strip_prefix("light ").unwrap().parse().unwrap();
        let published = self.published.load(Ordering::SeqCst);
        let lucky = self.luck > 0 && request.seed.unwrap_or(0).is_multiple_of(self.luck);
        let message = match self.demonstrates || lucky || number % 8 < published {
            true => Message::text(Role::Assistant, Origin::Policy, right(colour)),
            false => Follower.complete(request).await?.message,
        };
        let record = TokenRecord {
            version: published,
            shared: 0,
            prompt: vec![1, 2],
            tokens: vec![3],
            logprob_model: vec![-0.5],
            logprob_sampled: vec![-0.5],
            temperature: 1.0,
            restricted: false,
        };
        Ok(ModelResponse { tokens: Some(Box::new(record)), ..ModelResponse::new(message, Usage::default(), "stop") })
    }
}
