//! A weights layer with a single number, and the model that answers with it.

use crate::environments::right;
use async_trait::async_trait;
use clawhost_core::{
    Digest, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin, Role, TokenRecord, Usage,
};
use clawhost_follower::Follower;
use clawhost_learn::policy::Generated;
use clawhost_learn::{
    Batch, CheckpointKind, Forward, Interrupt, Layer, LearnError, Measurements, Metric, Step, Weights,
};
use clawhost_learning::TrainingThread;
use clawhost_play::Cancel;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Weights that are one number: how many of eight lights the model answers correctly. Asserts that every call comes from the
/// training thread.
#[derive(Default)]
pub struct Dial {
    /// The number of the current weights.
    pub value: u64,
    /// The change that the next step applies.
    pub pending: u64,
    /// The published number, with which the model answers.
    pub published: Arc<AtomicU64>,
    /// Number of demonstrations of every supervised step.
    pub shown: Vec<usize>,
    /// Whether the optimiser has state from demonstrations.
    pub momentum: bool,
    /// The written checkpoints, with the number at that time.
    pub kept: Vec<(CheckpointKind, u64)>,
    /// Every received batch.
    pub taught: Vec<Batch>,
    /// Names of the received calls.
    pub calls: Mutex<BTreeSet<&'static str>>,
    /// The reported loss. `None`: 0.5.
    pub loss: Option<f64>,
    /// The batch with this number is refused.
    pub refuses: Option<u64>,
    /// The step on the batch with this number fails.
    pub breaks: Option<u64>,
    /// The step on the batch with this number panics.
    pub panics: Option<u64>,
    /// The operator stops the run while the batch with this number is learned from.
    pub stops: Option<(u64, Cancel)>,
    /// What is asked in the middle of a pass.
    pub interrupt: Interrupt,
}

impl Dial {
    /// The bytes of a snapshot.
    pub fn bytes(&self) -> Vec<u8> {
        [&self.value.to_le_bytes()[..], &[u8::from(self.momentum)]].concat()
    }

    fn answer(&mut self) {
        self.published.store(self.value, Ordering::SeqCst);
    }

    /// Asserts that this is the training thread, and keeps the name of the call.
    fn note(&self, call: &'static str) {
        let thread = std::thread::current();
        assert_eq!(thread.name(), Some(TrainingThread::NAME), "`{call}` must run on the training thread");
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
        assert!(members.all(|member| member.generated.is_some()), "every member has its generated tokens");
        assert!(!self.momentum, "optimiser state from demonstrations was cleared");
        self.taught.push(batch.clone());
        if self.refuses == self.number() {
            return Err(LearnError::Layer { layer: "weights".into(), why: "no gradient today".into() });
        }
        if let Some((number, cancel)) = &self.stops
            && Some(*number) == self.number()
        {
            cancel.request();
        }
        if self.interrupt.is_requested() {
            return Err(LearnError::Interrupted);
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

    fn stop_when(&mut self, interrupt: Interrupt) {
        self.interrupt = interrupt;
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

/// Answers the published number of eight lights correctly; a demonstrator answers all of them correctly. Otherwise it follows its
/// prompt.
pub struct Dialled {
    /// The published number of the weights.
    pub published: Arc<AtomicU64>,
    /// Whether all answers are correct.
    pub demonstrates: bool,
    /// An additional share of answers that are correct by chance: one in this number. 0: none.
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
            grammar: None,
        };
        Ok(ModelResponse { tokens: Some(Box::new(record)), ..ModelResponse::new(message, Usage::default(), "stop") })
    }
}
