//! A run in which weights learn: demonstrations, rewards, a test before and after, and all of it again after a kill.

use super::world::*;
use async_trait::async_trait;
use clawhost_core::{
    Digest, Episode, LearningStore as _, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin,
    Role, TokenRecord, Usage,
};
use clawhost_learn::policy::Generated;
use clawhost_learn::{Batch, CheckpointKind, Forward, Group, Layer, LearnError, Step, Weights};
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
    /// What demonstrations left behind, beside the number.
    momentum: bool,
    /// What was to be written down, with the number of then.
    kept: Vec<(CheckpointKind, u64)>,
    /// Rewards of every group of the last batch.
    taught: Vec<Vec<f64>>,
}

impl Layer for Dial {
    fn name(&self) -> &'static str {
        "weights"
    }

    fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError> {
        let generated = batch.groups.iter().flat_map(|group| &group.members).all(|member| member.generated.is_some());
        assert!(generated, "every member comes with its tokens");
        let rewards = |group: &Group| group.members.iter().map(|member| member.reward).collect();
        assert!(!self.momentum, "what demonstrations left behind is forgotten");
        self.taught = batch.groups.iter().map(rewards).collect();
        self.pending = 1;
        Ok(Forward::default())
    }

    fn optim_step(&mut self) -> Result<Step, LearnError> {
        self.value += std::mem::take(&mut self.pending);
        self.publish()?;
        Ok(Step { updates: 1, ..Step::default() })
    }

    fn snapshot(&self) -> Result<Vec<u8>, LearnError> {
        Ok([&self.value.to_le_bytes()[..], &[u8::from(self.momentum)]].concat())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), LearnError> {
        self.value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        self.momentum = bytes[8] == 1;
        self.publish()
    }

    fn clear_pending(&mut self) {
        self.pending = 0;
    }

    fn digest(&self) -> Digest {
        Digest::of(&[&self.value.to_le_bytes()[..], &[u8::from(self.momentum)]].concat())
    }
}

impl Weights for Dial {
    fn supervise(&mut self, demonstrations: &[Arc<Generated>], _: f64) -> Result<f64, LearnError> {
        self.shown.push(demonstrations.len());
        self.momentum = true;
        self.value += 1;
        Ok(1.0 / self.value as f64)
    }

    fn publish(&mut self) -> Result<(), LearnError> {
        self.published.store(self.value, Ordering::SeqCst);
        Ok(())
    }

    fn end_supervision(&mut self) {
        self.momentum = false;
    }

    fn keep(&mut self, kept: CheckpointKind) -> Result<(), LearnError> {
        self.kept.push((kept, self.value));
        Ok(())
    }
}

/// Answers as the published number says; or always rightly, as a demonstrator.
struct Dialled {
    published: Arc<AtomicU64>,
    demonstrates: bool,
    /// One time in so many it is lucky; 0: never.
    luck: u64,
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
        let lucky = self.luck > 0 && request.seed.unwrap_or(0).is_multiple_of(self.luck);
        let knows = self.demonstrates || lucky || number % 8 < self.published.load(Ordering::SeqCst);
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
    let weights = Some(WeightsPlan {
        settings: serde_json::Value::Null,
        warm_start,
        refills: 0,
        difficulty: None,
        evaluate_every: 0,
        evaluate_episodes: 0,
    });
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
    lucky_ports(world, 0)
}

fn lucky_ports(world: &World, luck: u64) -> (LearnPorts, Arc<Mutex<Dial>>) {
    let dial = Arc::new(Mutex::new(Dial::default()));
    let published = dial.lock().unwrap().published.clone();
    let mut ports = world.ports();
    ports.reflectors.clear();
    let model = |demonstrates| Arc::new(Dialled { published: published.clone(), demonstrates, luck });
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
    assert_eq!((warmed.looks, warmed.reached, warmed.finished), (vec![(2, Some(0.25)), (4, Some(0.5))], true, true));
    assert_eq!(dial.lock().unwrap().shown, [4; 4]);
    let rewards: Vec<f64> = report.iterations.iter().map(|one| one.reward.unwrap()).collect();
    assert_eq!(rewards, [0.5, 0.625, 0.75], "each iteration is played with the weights of the step before");
    let evaluation = report.evaluation.clone().unwrap();
    assert_eq!((evaluation.before.unwrap().mean, evaluation.after.unwrap().mean), (0.5, 0.875));
    assert_eq!((evaluation.pairs, report.outcome), (32, Outcome::Improved));
    assert_eq!(report.layers, ["weights"]);
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

/// The weights that answer, and those that were written down, are those of the last checkpoint.
async fn told_is_where_it_goes_on_from(world: &World, dial: &Arc<Mutex<Dial>>) {
    let known = world.store.weights(&World::run()).await.unwrap().unwrap();
    let dial = dial.lock().unwrap();
    assert_eq!(dial.snapshot().unwrap(), known);
    let value = dial.value;
    assert_eq!(
        (dial.published.load(Ordering::SeqCst), dial.kept.last()),
        (value, Some(&(CheckpointKind::Last, value)))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_an_iteration_that_was_stopped_after_it_is_taken_back() {
    let mut plan = LearnPlan { test_pairs: 0, ..plan(None) };
    (plan.weights.as_mut().unwrap().evaluate_every, plan.weights.as_mut().unwrap().evaluate_episodes) = (1, 16);
    let world = World::new(Proposer::of(&[]));
    // The second iteration and its step are over, its look at the validation tasks is not.
    *world.environment.cancel_at.lock().unwrap() = Some((64 + 16 + 64 + 4, world.cancel.clone()));
    let (stopped, dial) = learn(&world, &plan).await;
    assert_eq!((stopped.stopped, stopped.iterations.len()), (Some(StopReason::Cancelled), 1));
    assert_eq!(dial.lock().unwrap().value, 1);
    told_is_where_it_goes_on_from(&world, &dial).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn demonstrations_stop_where_their_steps_do_and_where_nobody_judges_what_is_sampled() {
    let few = WarmStart { target: 0.9, steps: 3, ..warm() };
    let (report, _) = learn(&World::new(Proposer::of(&[])), &plan(Some(few))).await;
    let warmed = report.warm_start.unwrap();
    assert_eq!((warmed.steps, warmed.looks.len(), warmed.finished), (3, 2, true));

    let world = World { marks: Arc::new(Marks::by(|_| None)), ..World::new(Proposer::of(&[])) };
    let (report, dial) = learn(&world, &plan(Some(warm()))).await;
    assert_eq!(report.stopped, Some(StopReason::Unscored { why: "marks has nothing to say: no opinion".into() }));
    assert_eq!(dial.lock().unwrap().shown.len(), 2, "no further step is taken");
}

/// Some rewards judge only who does something, as a call of a tool: at first nobody does, and demonstrations show how.
#[tokio::test(flavor = "multi_thread")]
async fn demonstrations_go_on_where_only_they_are_judged_yet() {
    // The first two lights are never judged, and the others where they are answered rightly: of eight, two steps teach two.
    let judged = |episode: &Episode| {
        let asked = episode.turns.first().unwrap().observation.last().unwrap().plain_text();
        let (light, _) = asked.split_once("\ncolour: ").unwrap();
        light.strip_prefix("light ").unwrap().parse::<u64>().unwrap() % 8 >= 2
    };
    let marks = Marks::by(move |episode| (judged(episode) && is_right(episode)).then_some(1.0));
    let world = World { marks: Arc::new(marks), ..World::new(Proposer::of(&[])) };
    let (report, _) = learn(&world, &plan(Some(warm()))).await;
    let warmed = report.warm_start.unwrap();
    assert_eq!((warmed.looks, warmed.reached), (vec![(2, None), (4, Some(1.0))], true));
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
        let (stopped, dial) = learn(&world, &plan).await;
        assert_eq!(stopped.stopped, Some(StopReason::Cancelled), "{at}");
        told_is_where_it_goes_on_from(&world, &dial).await;
        let later = World { store: world.store.clone(), ..World::new(Proposer::of(&[])) };
        let (ports, dial) = ports(&later);
        let report = resume_learning(World::run(), plan.clone(), ports, &later.cancel, &later.watching).await.unwrap();
        assert_eq!((&report, dial.lock().unwrap().value), (&expected, expected_value), "stopped at episode {at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_without_variance_are_replaced_by_others_and_reported_as_they_came() {
    let world = World::new(Proposer::of(&[]));
    let (ports, dial) = lucky_ports(&world, 9);
    let mut plan = LearnPlan { iterations: 1, test_pairs: 0, ..plan(None) };
    plan.weights.as_mut().unwrap().refills = 3;
    let groups = plan.play.episodes / u64::from(plan.play.group);
    let report = learn_run(World::run(), plan.clone(), ports, serde_json::json!({}), &world.cancel, &world.watching)
        .await
        .unwrap();
    let first = &report.iterations[0];
    let [share, refilled] =
        ["zero_variance_share", "refilled_groups"].map(|name| first.metrics[&format!("train.{name}")]);
    assert!(share > 0.4 && refilled >= share * groups as f64, "{share} {refilled}");
    let taught = dial.lock().unwrap().taught.clone();
    let flat = taught.iter().filter(|group| group.iter().all(|reward| *reward == group[0])).count();
    assert_eq!(taught.len() as u64, groups, "others take their places");
    assert!((flat as f64) < share * groups as f64, "{flat}");
    let mean = taught.iter().flatten().sum::<f64>() / taught.iter().flatten().count() as f64;
    assert!(first.reward.unwrap() < mean, "what is reported was not chosen");
    assert_eq!(first.episodes, plan.play.episodes);
    // Everything of it again, without the replacements.
    plan.weights.as_mut().unwrap().refills = 0;
    let world = World::new(Proposer::of(&[]));
    let (ports, _) = lucky_ports(&world, 9);
    let plain =
        learn_run(World::run(), plan, ports, serde_json::json!({}), &world.cancel, &world.watching).await.unwrap();
    assert_eq!((plain.iterations[0].reward, plain.iterations[0].metrics["train.refilled_groups"]), (first.reward, 0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_weights_are_kept_by_the_validation_tasks_and_the_last_at_the_end() {
    let world = World::new(Proposer::of(&[]));
    let (ports, dial) = ports(&world);
    let mut plan = LearnPlan { iterations: 11, test_pairs: 0, ..plan(None) };
    (plan.weights.as_mut().unwrap().evaluate_every, plan.weights.as_mut().unwrap().evaluate_episodes) = (2, 16);
    let report =
        learn_run(World::run(), plan, ports, serde_json::json!({}), &world.cancel, &world.watching).await.unwrap();
    let looks: Vec<(u64, f64)> =
        report.iterations.iter().filter_map(|one| Some((one.iteration, *one.metrics.get("val.reward")?))).collect();
    assert_eq!(looks, [(2, 0.25), (4, 0.5), (6, 0.75), (8, 1.0), (10, 1.0)]);
    let best = report.best.unwrap();
    assert_eq!((best.iteration, best.reward), (8, 1.0), "the first of equals");
    let kept = [
        (CheckpointKind::Best, 2),
        (CheckpointKind::Best, 4),
        (CheckpointKind::Best, 6),
        (CheckpointKind::Best, 8),
        (CheckpointKind::Last, 11),
    ];
    assert_eq!(dial.lock().unwrap().kept, kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn rewards_that_say_nothing_are_told_with_what_helps() {
    let world = World::new(Proposer::of(&[]));
    let report = learn(&world, &LearnPlan { iterations: 6, test_pairs: 0, ..plan(None) }).await.0;
    let told: Vec<bool> = report.iterations.iter().map(|one| one.signal.is_some()).collect();
    assert_eq!(told, [false, false, false, false, true, true]);
    let text = report.iterations[4].signal.clone().unwrap();
    assert!(text.contains("rewards differ in 0.000 of the groups over 5 iterations; make groups larger"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_possible_is_what_the_deciding_rewards_can_say() {
    let world = World { marks: Arc::new(Marks::by(|_| Some(0.0))), ..World::new(Proposer::of(&[])) };
    let (mut ports, _) = ports(&world);
    // Asked where the first has nothing to say, which it never has.
    let mut other = Marks::by(|_| Some(0.0));
    other.description.minimum = -1.0;
    let source = clawhost_core::RewardSource::Judge;
    ports
        .play
        .rewards
        .push(clawhost_runtime::ScoringRule { source, ..clawhost_runtime::ScoringRule::new(Arc::new(other), vec![]) });
    let plan = LearnPlan { iterations: 5, test_pairs: 0, ..plan(None) };
    let report =
        learn_run(World::run(), plan, ports, serde_json::json!({}), &world.cancel, &world.watching).await.unwrap();
    let text = report.iterations[4].signal.clone().unwrap();
    assert!(text.contains("rewards came to 0.000 of what is possible, hardly anything succeeds"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_teach_nothing_are_passed_over() {
    let world = World::new(Proposer::of(&[]));
    // There are 400 tasks; two times around everything is known.
    let mut plan = LearnPlan { iterations: 60, test_pairs: 0, ..plan(None) };
    plan.weights.as_mut().unwrap().difficulty = Some(clawhost_learn::policy::Difficulty::default());
    let report = learn(&world, &plan).await.0;
    let passed: Vec<f64> = report.iterations.iter().map(|one| one.metrics["train.tasks_passed_over"]).collect();
    assert_eq!(passed[24], 0.0, "once around: one group alone says little");
    assert!(passed[49] > 300.0, "{passed:?}");
}
