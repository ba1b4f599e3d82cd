//! A run in which weights learn: demonstrations, rewards, test before and after, and the same after interruptions.

use crate::world::*;
use clawhost_core::{Episode, RewardSource, Sampling};
use clawhost_learn::policy::{Difficulty, Watched};
use clawhost_learn::{CheckpointKind, Group};
use clawhost_learning::{
    LearnPlan, LearnPorts, LearnReport, LearningStage, Outcome, SharedWeights, WarmStart, WarmStartReport,
    WarningSubject, WeightsPlan, WeightsPorts, WeightsStage,
};
use clawhost_play::{ChatPolicy, ScoringRule, StopReason};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Settings of a small run.
#[derive(Clone)]
pub(crate) struct Plans {
    pub(crate) run: LearnPlan,
    pub(crate) weights: WeightsPlan,
}

pub(crate) fn plan(warm_start: Option<WarmStart>) -> Plans {
    let weights = WeightsPlan {
        settings: serde_json::Value::Null,
        warm_start,
        refills: 0,
        difficulty: None,
        evaluate_every: 0,
        evaluate_episodes: 0,
    };
    Plans { run: LearnPlan { iterations: 3, ..small().run() }, weights }
}

fn warm() -> WarmStart {
    WarmStart {
        demonstrations: 10,
        options: vec![],
        batch: 4,
        rate: 0.1,
        last_rate: 0.1,
        target: 0.5,
        every: 2,
        episodes: 80,
        steps: 100,
    }
}

/// The stage of weights that the test can inspect.
pub(crate) fn stage(plan: &WeightsPlan, dial: &Arc<Mutex<Dial>>) -> Box<dyn LearningStage> {
    let published = dial.lock().unwrap().published.clone();
    let weights: SharedWeights = dial.clone();
    let demonstrator = Some(Arc::new(Dialled { published, demonstrates: true, luck: 0 }) as _);
    Box::new(WeightsStage::new(plan.clone(), WeightsPorts { weights, demonstrator, teaching: None, routed: None }))
}

/// The policy of these weights.
pub(crate) fn policy(dial: &Arc<Mutex<Dial>>, luck: u64, prompt: Option<&str>) -> ChatPolicy {
    let published = dial.lock().unwrap().published.clone();
    let model = Dialled { published, demonstrates: false, luck };
    ChatPolicy::new(Arc::new(model), prompt.map(str::to_owned), Sampling::default())
}

/// The ports and initial weights of a process.
fn ports(world: &World, plans: &Plans) -> (LearnPorts, Arc<Mutex<Dial>>) {
    lucky_ports(world, plans, 0)
}

fn lucky_ports(world: &World, plans: &Plans, luck: u64) -> (LearnPorts, Arc<Mutex<Dial>>) {
    let dial = Arc::new(Mutex::new(Dial::default()));
    let mut ports = world.ports(vec![stage(&plans.weights, &dial)]);
    ports.play.policy = policy(&dial, luck, None);
    (ports, dial)
}

async fn learn(world: &World, plans: &Plans) -> (LearnReport, Arc<Mutex<Dial>>) {
    let (ports, dial) = ports(world, plans);
    (world.begin(plans.run.clone(), ports).await.unwrap(), dial)
}

async fn learn_with_luck(world: &World, plans: &Plans, luck: u64) -> (LearnReport, Arc<Mutex<Dial>>) {
    let (ports, dial) = lucky_ports(world, plans, luck);
    (world.begin(plans.run.clone(), ports).await.unwrap(), dial)
}

fn warmed(report: &LearnReport) -> WarmStartReport {
    report.weights().unwrap().warm_start.clone().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_start_ends_at_its_target_and_the_test_is_played_before_and_after() {
    let world = World::new(Proposer::of(&[]));
    let (report, dial) = learn(&world, &plan(Some(warm()))).await;
    let warmed = warmed(&report);
    assert_eq!((warmed.demonstrations, warmed.demonstrated, warmed.steps), (10, Some(1.0), 4));
    assert_eq!((warmed.looks, warmed.reached, warmed.finished), (vec![(2, Some(0.25)), (4, Some(0.5))], true, true));
    assert_eq!(dial.lock().unwrap().shown, [4; 4]);
    let rewards: Vec<f64> = report.iterations.iter().map(|one| one.reward.unwrap()).collect();
    assert_eq!(rewards, [0.5, 0.625, 0.75], "each iteration uses the weights of the previous step");
    let evaluation = report.evaluation.clone().unwrap();
    assert_eq!((evaluation.before.unwrap().mean, evaluation.after.unwrap().mean), (0.5, 0.875));
    assert_eq!((evaluation.pairs, report.outcome), (32, Outcome::Improved));
    assert_eq!(report.layer_names(), ["weights"]);
    assert!(report.iterations.iter().all(|one| one.metrics().keys().all(|name| name.contains('.'))));
}

#[tokio::test(flavor = "multi_thread")]
async fn rewards_apply_from_the_first_step_without_demonstrations_and_a_missed_target_is_reported() {
    let (report, dial) = learn(&World::new(Proposer::of(&[])), &plan(None)).await;
    assert_eq!((&report.weights().unwrap().warm_start, dial.lock().unwrap().value), (&None, 3));
    let short = WarmStart { target: 0.9, steps: 4, ..warm() };
    let (report, dial) = learn(&World::new(Proposer::of(&[])), &plan(Some(short))).await;
    let warmed = warmed(&report);
    assert_eq!((warmed.steps, warmed.reached, warmed.finished, dial.lock().unwrap().value), (4, false, true, 7));
}

/// The published and the written weights are those of the last checkpoint. Where nothing was learned, none are written.
fn assert_stands_at_the_checkpoint(world: &World, dial: &Arc<Mutex<Dial>>) {
    let known = world.store.large(&World::run())["weights"].clone();
    let dial = dial.lock().unwrap();
    assert_eq!(dial.bytes()[..], known[..]);
    let value = dial.value;
    let written = (value > 0).then_some((CheckpointKind::Last, value));
    assert_eq!((dial.published.load(Ordering::SeqCst), dial.kept.last()), (value, written.as_ref()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_after_a_step_rolls_it_back() {
    let mut plan = plan(None);
    plan.run.test_pairs = 0;
    (plan.weights.evaluate_every, plan.weights.evaluate_episodes) = (1, 16);
    let world = World::new(Proposer::of(&[]));
    // The starting weights are validated. The second iteration's step is done, its validation is not.
    *world.environment.cancel_at.lock().unwrap() = Some((16 + 64 + 16 + 64 + 4, world.cancel.clone()));
    let (stopped, dial) = learn(&world, &plan).await;
    assert_eq!((stopped.stopped, stopped.iterations.len()), (Some(StopReason::Cancelled), 1));
    assert_eq!(dial.lock().unwrap().value, 1);
    assert_stands_at_the_checkpoint(&world, &dial);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_the_middle_of_a_pass_ends_the_run_at_its_last_checkpoint() {
    let plan = plan(None);
    let (expected, _) = learn(&World::new(Proposer::of(&[])), &plan).await;
    let world = World::new(Proposer::of(&[]));
    let (ports_of_run, dial) = ports(&world, &plan);
    dial.lock().unwrap().stops = Some((1, world.cancel.clone()));
    let stopped = world.begin(plan.run.clone(), ports_of_run).await.unwrap();
    assert_eq!((stopped.stopped, stopped.iterations.len()), (Some(StopReason::Cancelled), 1));
    assert_stands_at_the_checkpoint(&world, &dial);
    let later = World { store: world.store.clone(), ..World::new(Proposer::of(&[])) };
    let (ports, dial) = ports(&later, &plan);
    let report = later.resume(plan.run.clone(), ports).await.unwrap();
    assert_eq!((&report, dial.lock().unwrap().value), (&expected, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_start_ends_at_its_step_limit_or_if_nothing_is_scored() {
    let few = WarmStart { target: 0.9, steps: 3, ..warm() };
    let (report, _) = learn(&World::new(Proposer::of(&[])), &plan(Some(few))).await;
    let warmed = warmed(&report);
    assert_eq!((warmed.steps, warmed.looks.len(), warmed.finished), (3, 2, true));

    let world = World { marks: Arc::new(Marks::by(|_| None)), ..World::new(Proposer::of(&[])) };
    let (report, dial) = learn(&world, &plan(Some(warm()))).await;
    assert_eq!(report.stopped, Some(StopReason::Unscored { why: "marks has nothing to say: no opinion".into() }));
    assert_eq!(dial.lock().unwrap().shown.len(), 2, "no further step is taken");
}

/// Some rewards apply only to episodes with a certain action, such as a tool call: at first there is none, and
/// demonstrations show how.
#[tokio::test(flavor = "multi_thread")]
async fn a_warm_start_continues_while_only_demonstrations_are_scored() {
    // The first two lights are never scored, the others if answered correctly: of eight, two steps teach two.
    let judged = |episode: &Episode| {
        let asked = episode.turns.first().unwrap().observation.last().unwrap().plain_text();
        let (light, _) = asked.split_once("\ncolour: ").unwrap();
        light.strip_prefix("light ").unwrap().parse::<u64>().unwrap() % 8 >= 2
    };
    let marks = Marks::by(move |episode| (judged(episode) && is_right(episode)).then_some(1.0));
    let world = World { marks: Arc::new(marks), ..World::new(Proposer::of(&[])) };
    let (report, _) = learn(&world, &plan(Some(warm()))).await;
    let warmed = warmed(&report);
    assert_eq!((warmed.looks, warmed.reached), (vec![(2, None), (4, Some(1.0))], true));
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_stopped_at_any_phase_and_resumed_give_the_same_result() {
    let plan = plan(Some(warm()));
    let (expected, dial) = learn(&World::new(Proposer::of(&[])), &plan).await;
    let expected_value = dial.lock().unwrap().value;
    // During the demonstrations, a measurement, the test before, each of the iterations, and the test after.
    for at in [3, 50, 140, 190, 230, 290, 360, 410] {
        let world = World::new(Proposer::of(&[]));
        *world.environment.cancel_at.lock().unwrap() = Some((at, world.cancel.clone()));
        let (stopped, dial) = learn(&world, &plan).await;
        assert_eq!(stopped.stopped, Some(StopReason::Cancelled), "{at}");
        assert_stands_at_the_checkpoint(&world, &dial);
        let later = World { store: world.store.clone(), ..World::new(Proposer::of(&[])) };
        let (ports, dial) = ports(&later, &plan);
        let report = later.resume(plan.run.clone(), ports).await.unwrap();
        assert_eq!((&report, dial.lock().unwrap().value), (&expected, expected_value), "stopped at episode {at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_without_variance_are_replaced_for_learning_but_not_in_reports() {
    let mut plan = plan(None);
    (plan.run.iterations, plan.run.test_pairs, plan.weights.refills) = (1, 0, 3);
    let (report, dial) = learn_with_luck(&World::new(Proposer::of(&[])), &plan, 9).await;
    let (first, groups) = (&report.iterations[0], plan.run.groups());
    let [share, refilled] =
        ["zero_variance_share", "refilled_groups"].map(|name| first.metrics()[&format!("train.{name}")]);
    assert!(share > 0.4 && refilled >= share * groups as f64, "{share} {refilled}");
    let taught: Vec<Vec<f64>> = {
        let dial = dial.lock().unwrap();
        let rewards = |group: &Group| group.members.iter().map(|member| member.reward).collect();
        dial.taught.last().unwrap().groups.iter().map(rewards).collect()
    };
    let flat = taught.iter().filter(|group| group.iter().all(|reward| *reward == group[0])).count();
    assert_eq!(taught.len() as u64, groups, "one group per position");
    assert!((flat as f64) < share * groups as f64, "{flat}");
    let mean = taught.iter().flatten().sum::<f64>() / taught.iter().flatten().count() as f64;
    assert!(first.reward.unwrap() < mean, "the reported reward is without selection");
    assert_eq!(first.episodes, plan.run.play.episodes);
    // The same without replacements.
    plan.weights.refills = 0;
    let (plain, _) = learn_with_luck(&World::new(Proposer::of(&[])), &plan, 9).await;
    assert_eq!(
        (plain.iterations[0].reward, plain.iterations[0].metrics()["train.refilled_groups"]),
        (first.reward, 0.0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_weights_by_validation_and_the_last_are_kept() {
    let mut plan = plan(None);
    (plan.run.iterations, plan.run.test_pairs) = (11, 0);
    (plan.weights.evaluate_every, plan.weights.evaluate_episodes) = (2, 16);
    let (report, dial) = learn(&World::new(Proposer::of(&[])), &plan).await;
    let looks: Vec<(u64, f64)> =
        report.iterations.iter().filter_map(|one| Some((one.iteration, *one.metrics().get("val.reward")?))).collect();
    assert_eq!(looks, [(2, 0.25), (4, 0.5), (6, 0.75), (8, 1.0), (10, 1.0)]);
    let best = report.weights().unwrap().best.clone().unwrap();
    assert_eq!((best.iteration, best.reward), (8, 1.0), "ties go to the earlier");
    let weights = report.weights().unwrap();
    assert_eq!((weights.start, weights.last), (Some(0.0), Some(1.0)));
    let kept = [
        (CheckpointKind::Best, 0),
        (CheckpointKind::Best, 2),
        (CheckpointKind::Best, 4),
        (CheckpointKind::Best, 6),
        (CheckpointKind::Best, 8),
        (CheckpointKind::Last, 11),
    ];
    assert_eq!(dial.lock().unwrap().kept, kept);
}

/// A world in which every wrong answer has a reward: the weights get worse with every step.
fn declining() -> World {
    World { marks: Arc::new(Marks::by(|episode| Some(f64::from(!is_right(episode))))), ..World::new(Proposer::of(&[])) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_starting_weights_are_the_best_if_learning_only_harmed() {
    let mut plan = plan(None);
    (plan.run.iterations, plan.run.test_pairs) = (4, 0);
    (plan.weights.evaluate_every, plan.weights.evaluate_episodes) = (2, 16);
    let (report, dial) = learn(&declining(), &plan).await;
    let weights = report.weights().unwrap();
    let best = weights.best.clone().unwrap();
    assert_eq!((best.iteration, best.reward, weights.start, weights.last), (0, 1.0, Some(1.0), Some(0.5)));
    assert_eq!(dial.lock().unwrap().kept, [(CheckpointKind::Best, 0), (CheckpointKind::Last, 4)]);
    let published = report.published();
    assert_eq!(
        (&published["best"]["iteration"], &published["start"], &published["last"]),
        (&0.into(), &1.0.into(), &0.5.into())
    );
    // Stopped in the validation of the starting weights, and resumed.
    let world = declining();
    *world.environment.cancel_at.lock().unwrap() = Some((4, world.cancel.clone()));
    let (stopped, dial) = learn(&world, &plan).await;
    assert_eq!(stopped.stopped, Some(StopReason::Cancelled));
    assert_eq!(dial.lock().unwrap().kept, [], "nothing was learned that could be written");
    let later = World { store: world.store.clone(), ..declining() };
    let (ports, _) = ports(&later, &plan);
    assert_eq!(later.resume(plan.run.clone(), ports).await.unwrap(), report);
    // Without a later validation there is nothing to compare them with.
    plan.weights.evaluate_every = 5;
    let (report, dial) = learn(&declining(), &plan).await;
    assert_eq!((report.weights().unwrap().best.clone(), dial.lock().unwrap().kept.len()), (None, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fall_of_the_reward_is_told_as_a_fall() {
    let mut plan = plan(None);
    (plan.run.iterations, plan.run.test_pairs) = (14, 0);
    let (report, _) = learn(&declining(), &plan).await;
    let (_, last) = report.iterations[13].weights().unwrap();
    assert_eq!(report.iterations[13].reward, Some(0.0));
    let fall = last.fall.clone().unwrap();
    assert!(
        fall.contains("the mean reward fell from 1.000 of the possible range (of the starting weights) to 0.0"),
        "{fall}"
    );
    assert!(last.signal.is_none(), "not: take easier tasks. {:?}", last.signal);
    assert_eq!(report.published()["iterations"][13]["fall"], fall);
    assert_eq!(report.iterations[2].weights().unwrap().1.fall, None, "too early to tell");
}

/// The reported lack of signal of an iteration.
fn signal(report: &LearnReport, place: usize) -> Option<String> {
    report.iterations[place].weights().unwrap().1.signal.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_learning_signal_is_reported_with_the_remedy() {
    let world = World::new(Proposer::of(&[]));
    let mut plan = plan(None);
    (plan.run.iterations, plan.run.test_pairs) = (6, 0);
    let report = learn(&world, &plan).await.0;
    let reported: Vec<bool> = (0..6).map(|place| signal(&report, place).is_some()).collect();
    assert_eq!(reported, [false, false, false, false, true, true]);
    let text = signal(&report, 4).unwrap();
    assert!(
        text.contains("rewards differ in 0.000 of the groups of the last 5 iterations; use larger groups"),
        "{text}"
    );
}

/// A run of 24 iterations whose second reward, which decides nothing, changes from one value to another after ten of them.
async fn with_style(before: f64, after: f64) -> LearnReport {
    let world = World::new(Proposer::of(&[]));
    let mut plan = plan(None);
    (plan.run.iterations, plan.run.test_pairs) = (24, 0);
    let (mut ports, dial) = ports(&world, &plan);
    let published = dial.lock().unwrap().published.clone();
    let style = Marks::by(move |_| Some(if published.load(Ordering::SeqCst) < 10 { before } else { after }));
    let style = style.named("style");
    ports.play.rewards.push(ScoringRule { weight: 0.0, ..ScoringRule::new(Arc::new(style), vec![]) });
    world.begin(plan.run, ports).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reward_that_rises_while_another_falls_is_reported_as_possible_hacking() {
    let report = with_style(0.75, 0.25).await;
    let suspicions = |place: usize| {
        report.iterations[place]
            .weights()
            .unwrap()
            .1
            .suspicions
            .iter()
            .map(|one| one.watched.clone())
            .collect::<Vec<_>>()
    };
    assert!((0..19).all(|place| suspicions(place).is_empty()), "twenty iterations are compared");
    assert_eq!(suspicions(19), [Watched::Reward("style".into())]);
    let events: Vec<(u64, String)> = report
        .iterations
        .iter()
        .filter_map(|one| Some((one.iteration, one.weights()?.0.events.first()?.clone())))
        .collect();
    assert_eq!(events.len(), 1, "told once: {events:?}");
    assert_eq!(events[0].0, 20);
    assert!(events[0].1.contains("while the reward style fell from 0.750 to 0.250 of its range"), "{events:?}");
    let published = &report.published()["iterations"][19];
    assert_eq!(published["suspicions"][0]["watched"], serde_json::json!({ "reward": "style" }));
    assert_eq!(
        (&published["suspicions"][0]["before"], &published["suspicions"][0]["after"]),
        (&0.75.into(), &0.25.into())
    );
    assert_eq!(published["events"][0], events[0].1);
    let metrics = report.iterations[19].metrics();
    assert_eq!((metrics["train.suspicions"], metrics["train.reward.style"]), (1.0, 0.25));
    assert_eq!(metrics["train.reward.marks"], report.iterations[19].reward.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn rewards_that_rise_together_are_not_suspicious() {
    let report = with_style(0.25, 0.75).await;
    assert!(report.iterations.iter().all(|one| {
        one.weights().unwrap().1.warnings().iter().all(|(subject, _)| !matches!(subject, WarningSubject::Hacking(_)))
    }));
    assert!(report.iterations.iter().all(|one| one.metrics()["train.suspicions"] == 0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_possible_range_is_that_of_the_deciding_rewards() {
    let world = World { marks: Arc::new(Marks::by(|_| Some(0.0))), ..World::new(Proposer::of(&[])) };
    let mut plan = plan(None);
    (plan.run.iterations, plan.run.test_pairs) = (5, 0);
    let (mut ports, _) = ports(&world, &plan);
    // Applies only if the first does not, which never happens.
    let mut other = Marks::by(|_| Some(0.0));
    other.description.minimum = -1.0;
    let rule = ScoringRule { source: RewardSource::Judge, ..ScoringRule::new(Arc::new(other), vec![]) };
    ports.play.rewards.push(rule);
    let report = world.begin(plan.run, ports).await.unwrap();
    let text = signal(&report, 4).unwrap();
    assert!(text.contains("is 0.000 of the possible range, so almost all episodes fail"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_without_variance_are_skipped() {
    let world = World::new(Proposer::of(&[]));
    // There are 400 tasks; after two rounds all are known.
    let mut plan = plan(None);
    (plan.run.iterations, plan.run.test_pairs) = (60, 0);
    plan.weights.difficulty = Some(Difficulty::default());
    let report = learn(&world, &plan).await.0;
    let passed: Vec<f64> = report.iterations.iter().map(|one| one.metrics()["train.tasks_passed_over"]).collect();
    assert_eq!(passed[24], 0.0, "after one round: one group per task is not enough");
    assert!(passed[49] > 300.0, "{passed:?}");
}
