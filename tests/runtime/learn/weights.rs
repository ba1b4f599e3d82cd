//! A run in which weights learn: demonstrations, rewards, a test before and after, and all of it again after a kill.

use super::world::*;
use async_trait::async_trait;
use clawhost_core::{
    Digest, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin, Role, TokenRecord, Usage,
};
use clawhost_learn::policy::Generated;
use clawhost_learn::{Batch, Forward, Layer, LearnError, Step, Weights};
use clawhost_runtime::learn::{
    LearnPlan, LearnPorts, LearnReport, Verdict as Outcome, WarmStart, WeightsPlan, learn_run, resume_learning,
};
use clawhost_runtime::{ChatPolicy, StopReason};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Weights that are one number: so many of eight lights are answered rightly.
#[derive(Default)]
struct Dial {
    value: u64,
    pending: u64,
    published: Arc<AtomicU64>,
    /// Demonstrations of every step.
    shown: Vec<usize>,
}

impl Layer for Dial {
    fn name(&self) -> &'static str {
        "weights"
    }

    fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError> {
        let generated = batch.groups.iter().flat_map(|group| &group.members).all(|member| member.generated.is_some());
        assert!(generated, "every member comes with its tokens");
        self.pending = 1;
        Ok(Forward::default())
    }

    fn optim_step(&mut self) -> Result<Step, LearnError> {
        self.value += std::mem::take(&mut self.pending);
        self.publish()?;
        Ok(Step { updates: 1, ..Step::default() })
    }

    fn snapshot(&self) -> Result<Vec<u8>, LearnError> {
        Ok(self.value.to_le_bytes().to_vec())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), LearnError> {
        self.value = u64::from_le_bytes(bytes.try_into().unwrap());
        self.publish()
    }

    fn clear_pending(&mut self) {
        self.pending = 0;
    }

    fn digest(&self) -> Digest {
        Digest::of(&self.value.to_le_bytes())
    }
}

impl Weights for Dial {
    fn supervise(&mut self, demonstrations: &[Arc<Generated>], _: f64) -> Result<f64, LearnError> {
        self.shown.push(demonstrations.len());
        self.value += 1;
        Ok(1.0 / self.value as f64)
    }

    fn publish(&mut self) -> Result<(), LearnError> {
        self.published.store(self.value, Ordering::SeqCst);
        Ok(())
    }
}

/// Answers as the published number says; or always rightly, as a demonstrator.
struct Dialled {
    published: Arc<AtomicU64>,
    demonstrates: bool,
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
        let knows = self.demonstrates || number % 8 < self.published.load(Ordering::SeqCst);
        let answer = if knows { right(colour) } else { "nothing" };
        let record = TokenRecord {
            version: self.published.load(Ordering::SeqCst),
            shared: 0,
            prompt: vec![1, 2],
            tokens: vec![3],
            logprob_model: vec![-0.5],
            logprob_sampled: vec![-0.5],
            temperature: 1.0,
            restricted: false,
        };
        let message = Message::text(Role::Assistant, Origin::Policy, answer);
        Ok(ModelResponse { message, usage: Usage::default(), finish: "stop".into(), tokens: Some(Box::new(record)) })
    }
}

fn plan(warm_start: Option<WarmStart>) -> LearnPlan {
    let weights = Some(WeightsPlan { settings: serde_json::Value::Null, warm_start });
    LearnPlan { iterations: 3, weights, ..small() }
}

fn warm() -> WarmStart {
    WarmStart {
        demonstrations: 10,
        options: vec![],
        batch: 4,
        rate: 0.1,
        target: 0.5,
        every: 2,
        episodes: 80,
        steps: 100,
    }
}

/// What a process has at hand.
fn ports(world: &World) -> (LearnPorts, Arc<Mutex<Dial>>) {
    let dial = Arc::new(Mutex::new(Dial::default()));
    let published = dial.lock().unwrap().published.clone();
    let mut ports = world.ports();
    ports.reflectors.clear();
    let model = |demonstrates| Arc::new(Dialled { published: published.clone(), demonstrates });
    ports.play.policy = ChatPolicy::new(model(false), None, clawhost_core::Sampling::default());
    ports.demonstrator = Some(model(true));
    ports.weights = Some(dial.clone());
    (ports, dial)
}

async fn learn(world: &World, plan: &LearnPlan) -> (LearnReport, Arc<Mutex<Dial>>) {
    let (ports, dial) = ports(world);
    let report = learn_run(World::run(), plan.clone(), ports, serde_json::json!({}), &world.cancel, &world.watching)
        .await
        .unwrap();
    (report, dial)
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_imitate_until_rewards_can_teach_them_and_are_tested_before_and_after() {
    let world = World::new(Proposer::of(&[]));
    let (report, dial) = learn(&world, &plan(Some(warm()))).await;
    let warmed = report.warm_start.clone().unwrap();
    assert_eq!((warmed.demonstrations, warmed.demonstrated, warmed.steps), (10, Some(1.0), 4));
    assert_eq!((warmed.looks, warmed.reached, warmed.finished), (vec![(2, 0.25), (4, 0.5)], true, true));
    assert_eq!(dial.lock().unwrap().shown, [4; 4]);
    let rewards: Vec<f64> = report.iterations.iter().map(|one| one.reward.unwrap()).collect();
    assert_eq!(rewards, [0.5, 0.625, 0.75], "each iteration is played with the weights of the step before");
    let evaluation = report.evaluation.clone().unwrap();
    assert_eq!((evaluation.before.unwrap().mean, evaluation.after.unwrap().mean), (0.5, 0.875));
    assert_eq!((evaluation.pairs, report.outcome), (32, Outcome::Improved));
    assert_eq!(report.layers, ["harness", "weights"]);
    assert!(report.iterations.iter().all(|one| one.metrics.keys().all(|name| name.contains('.'))));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_demonstrations_rewards_teach_from_the_first_step_and_too_few_steps_are_told() {
    let (report, dial) = learn(&World::new(Proposer::of(&[])), &plan(None)).await;
    assert_eq!((report.warm_start, dial.lock().unwrap().value), (None, 3));
    let short = WarmStart { target: 0.9, steps: 4, ..warm() };
    let (report, dial) = learn(&World::new(Proposer::of(&[])), &plan(Some(short))).await;
    let warmed = report.warm_start.unwrap();
    assert_eq!((warmed.steps, warmed.reached, warmed.finished, dial.lock().unwrap().value), (4, false, true, 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_anywhere_weights_are_taken_up_again_and_come_to_the_same() {
    let plan = plan(Some(warm()));
    let (expected, dial) = learn(&World::new(Proposer::of(&[])), &plan).await;
    let expected_value = dial.lock().unwrap().value;
    // In the demonstrations, in a look, in the test before, in each of the iterations, in the test after.
    for at in [3, 50, 140, 190, 230, 290, 360, 410] {
        let world = World::new(Proposer::of(&[]));
        *world.environment.cancel_at.lock().unwrap() = Some((at, world.cancel.clone()));
        let (stopped, _) = learn(&world, &plan).await;
        assert_eq!(stopped.stopped, Some(StopReason::Cancelled), "{at}");
        let later = World { store: world.store.clone(), ..World::new(Proposer::of(&[])) };
        let (ports, dial) = ports(&later);
        let report = resume_learning(World::run(), plan.clone(), ports, &later.cancel, &later.watching).await.unwrap();
        assert_eq!((&report, dial.lock().unwrap().value), (&expected, expected_value), "stopped at episode {at}");
    }
}
