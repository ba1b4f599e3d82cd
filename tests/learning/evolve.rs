//! Evolution with fakes: four kinds of tasks, each of which needs its own line in the prompt.

use async_trait::async_trait;
use clawhost_core::{
    About, Change, Context, Episode, EpisodeId, Failure, FailureKind, Llm, LlmIdentity, Message, ModelError,
    ModelRequest, ModelResponse, Origin, Playbook, PluginIdentity, Proposal, Reflector, Reward, RewardDescription,
    Role, RunId, Sampling, ScoreCard, Scoring, SpecDocument, Split, Task, Usage, Verdict, code,
};
use clawhost_learn::evolve::EndReason;
use clawhost_learn::gate::Decision;
use clawhost_learn::playbook::Playbook as Book;
use clawhost_learning::{
    EvolutionReport, EvolvePlan, GatePlan, HarnessPlan, HarnessPorts, HarnessStage, LearnPlan, LearnPorts, LearnReport,
    LearnStart, LearningError, Reflecting, Schedule, learn,
};
use clawhost_play::{Cancel, ChatPolicy, Environments, Plan, Ports, ScoringRule, StopReason};
use clawhost_testkit::{Counting, Free, Judge, Shelf, Still, Watching, plan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const KINDS: u64 = 4;
const BUDGET: u64 = 200;
const RUN: &str = "run-evolve";

/// The line that a task needs.
fn wanted(task: &Task) -> String {
    let number: u64 = task.id.trim_start_matches('t').parse().unwrap();
    format!("action {}", number % KINDS)
}

/// Answers with its system prompt.
struct Echo;

#[async_trait]
impl Llm for Echo {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "fake".into(), model: "echo".into(), version: "1".into() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let prompt = request.messages.iter().find(|message| message.role == Role::System).unwrap().plain_text();
        let message = Message::text(Role::Assistant, Origin::Policy, prompt);
        Ok(ModelResponse::new(message, Usage::default(), "stop"))
    }
}

/// Gives 1 if the answer contains the task's line, otherwise 0.
struct Wants {
    identity: PluginIdentity,
    description: RewardDescription,
    /// Whether the first call per seed fails with a model error.
    flaky: bool,
    asked: Mutex<BTreeMap<u64, u32>>,
}

impl Wants {
    fn new() -> Self {
        let judge = Judge::giving(0.0);
        let (identity, description) = (judge.identity().clone(), judge.description().clone());
        Self { identity, description, flaky: false, asked: Mutex::default() }
    }
}

#[async_trait]
impl Reward for Wants {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn description(&self) -> &RewardDescription {
        &self.description
    }

    fn judge(&self) -> Option<String> {
        None
    }

    async fn score(&self, _: &Context, group: &[Arc<Episode>]) -> Scoring {
        let card = |episode: &Arc<Episode>| {
            let said = episode.turns.last().unwrap().action.plain_text();
            let value = if said.contains(&wanted(&episode.task)) { 1.0 } else { 0.0 };
            Verdict::Scored(ScoreCard::plain(value))
        };
        let mut asked = self.asked.lock().unwrap();
        let times = asked.entry(group[0].seed()).or_default();
        *times += 1;
        let verdicts = match self.flaky && *times == 1 {
            true => Err(Failure::new(FailureKind::Llm, code::UNAVAILABLE, "the judge is down")),
            false => Ok(group.iter().map(card).collect()),
        };
        Scoring { verdicts, log: vec![], journal: vec![], fuel: None }
    }
}

/// The behaviour of a reflector.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Adds the first missing line to the section.
    Helpful,
    /// The same, with a word that is new in every call.
    NeverTheSame,
    /// Proposes a change of another section.
    Elsewhere,
    /// Proposes a text that the check rejects.
    Secret,
    Broken,
}

struct Scribe {
    identity: PluginIdentity,
    about: About,
    manner: Manner,
    calls: AtomicU64,
    /// Splits of its episodes, and whether they match the given sections.
    shown: Mutex<Vec<(String, bool)>>,
}

impl Scribe {
    fn new(manner: Manner) -> Self {
        let wants = Wants::new();
        let (about, calls, shown) = (wants.description.about, AtomicU64::new(0), Mutex::default());
        Self { identity: wants.identity, about, manner, calls, shown }
    }
}

#[async_trait]
impl Reflector for Scribe {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn about(&self) -> &About {
        &self.about
    }

    async fn reflect(
        &self,
        _: &Context,
        playbook: &Playbook,
        group: &[Arc<Episode>],
    ) -> Result<Vec<Proposal>, Failure> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let old = playbook.sections.iter().find(|(name, _)| name == "rules").map_or("", |(_, text)| text);
        let mut shown = self.shown.lock().unwrap();
        shown.extend(group.iter().map(|episode| {
            let said = episode.turns.last().unwrap().action.plain_text();
            (episode.task.split.clone(), said.contains(old.trim()))
        }));
        let missing = group.iter().map(|episode| wanted(&episode.task)).find(|action| !old.contains(action));
        let propose = |change| Proposal { change, evidence: vec![], expected_effect: String::new() };
        let text = missing.map(|action| format!("{old}\n{action}").trim().to_owned());
        let rewrite = |text: String| propose(Change::RewriteSection("rules".into(), text));
        Ok(match self.manner {
            Manner::Helpful => {
                let retire = propose(Change::Retire("e-1".into()));
                std::iter::once(retire).chain(text.map(rewrite)).collect()
            }
            Manner::NeverTheSame => text.map(|text| rewrite(format!("{text} ({call})"))).into_iter().collect(),
            Manner::Elsewhere => vec![propose(Change::RewriteSection("tone".into(), "kind".into()))],
            Manner::Secret => vec![rewrite("use sk-abcdef1234567890abcdef".into())],
            Manner::Broken => return Err(Failure::new(FailureKind::Trap, code::UNREACHABLE, "broken in `reflect`")),
        })
    }
}

/// A world for evolutions.
struct World {
    store: Arc<Shelf>,
    scribe: Arc<Scribe>,
    environment: Arc<Counting>,
    rewards: Vec<ScoringRule>,
    evolves: bool,
    plan: LearnPlan,
    harness: HarnessPlan,
    watching: Watching,
}

fn three_splits() -> Counting {
    let split = |name: &str| Split { name: name.into(), tasks: 40 };
    let mut environment = Counting { turns: 1, tasks: 40, ..Counting::default() };
    environment.description.splits = ["train", "val", "test"].map(split).to_vec();
    environment
}

fn world(manner: Manner) -> World {
    world_of(manner, three_splits(), Arc::new(Wants::new()))
}

fn world_of(manner: Manner, environment: Counting, reward: Arc<dyn Reward>) -> World {
    let harness = HarnessPlan {
        gate: GatePlan { every: 1, pairs: 96, alpha: 0.05 },
        evolve: Some(EvolvePlan { budget: BUDGET, minibatch: 3, pareto: 16, section: "rules".into() }),
        ..HarnessPlan::default()
    };
    World {
        store: Arc::default(),
        scribe: Arc::new(Scribe::new(manner)),
        environment: Arc::new(environment),
        rewards: vec![ScoringRule::new(reward, vec![])],
        evolves: true,
        plan: LearnPlan { iterations: 1, play: Plan { group: 4, ..plan(4) }, test_pairs: 8, schedule: Schedule::Joint },
        harness,
        watching: Watching::default(),
    }
}

impl World {
    fn ports(&self) -> LearnPorts {
        let play = Ports {
            environments: Environments::One(self.environment.clone()),
            rewards: self.rewards.clone(),
            policy: ChatPolicy::new(Arc::new(Echo), None, Sampling::default()),
            store: self.store.clone(),
            clock: Arc::new(Still),
            meter: Arc::new(Free),
        };
        let harness = HarnessPorts {
            reflectors: vec![],
            evolver: self.evolves.then(|| Reflecting { reflector: self.scribe.clone(), options: vec![] }),
            embedder: None,
            playbook: "book".into(),
            initial: Book::default(),
        };
        let stage = HarnessStage::new(self.harness.clone(), harness);
        LearnPorts { play, learning: self.store.clone(), stages: vec![Box::new(stage)], source: None }
    }

    async fn start(&self, start: LearnStart) -> Result<LearnReport, LearningError> {
        let (run, plan) = (RunId(RUN.into()), self.plan.clone());
        learn(run, plan, self.ports(), start, &Cancel::default(), &self.watching).await
    }

    async fn learn(&self) -> Result<LearnReport, LearningError> {
        self.start(LearnStart::New(SpecDocument::none())).await
    }

    async fn resume(&self) -> Result<LearnReport, LearningError> {
        if !self.store.has_run(&RunId(RUN.into())) {
            return self.learn().await;
        }
        self.start(LearnStart::Resumed).await
    }

    /// Episodes played by the evolution.
    fn evolved(&self) -> Vec<Episode> {
        let mut episodes = self.store.of_phases(".evolve-");
        episodes.retain(|episode| !episode.run.0.contains("gate"));
        episodes
    }

    async fn evolution(&self) -> EvolutionReport {
        evolution(&self.learn().await.unwrap())
    }
}

fn evolution(report: &LearnReport) -> EvolutionReport {
    report.harness().unwrap().evolution.clone().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_evolves_on_training_tasks_within_its_budget_and_passes_the_gate() {
    let world = world(Manner::Helpful);
    let report = world.learn().await.unwrap();
    let evolution = evolution(&report);
    let means: Vec<f64> = evolution.progress.curve.iter().map(|point| point.mean).collect();
    assert_eq!((means[0], means.last()), (0.0, Some(&1.0)), "{means:?}");
    assert!(means.is_sorted(), "{means:?}");
    assert_eq!(evolution.why, Some(EndReason::Perfect));
    let best: BTreeSet<&str> = evolution.best["rules"].lines().collect();
    assert_eq!(best, BTreeSet::from(["action 0", "action 1", "action 2", "action 3"]));

    let played = world.evolved();
    assert_eq!(played.len() as u64, evolution.progress.evaluations, "one episode per evaluation");
    assert!(evolution.progress.evaluations <= BUDGET);
    assert!(played.iter().all(|episode| episode.task.split == "train"), "training tasks only");
    let seeds: BTreeSet<_> =
        played.iter().map(|episode| (episode.task.id.clone(), episode.seed(), episode.policy.seed)).collect();
    let tasks: BTreeSet<_> = played.iter().map(|episode| episode.task.id.clone()).collect();
    assert_eq!(seeds.len(), tasks.len(), "all candidates play a task with the same seeds");
    let asked = world.scribe.shown.lock().unwrap().clone();
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|(split, own)| split == "train" && *own), "the parent's own episodes, with its sections");
    assert_eq!(
        evolution.reflector.ignored, evolution.progress.reflections,
        "proposals about something else are counted"
    );

    let gate = evolution.gate.clone().unwrap();
    assert_eq!((gate.decision, gate.rewritten.as_slice()), (Decision::Promote, &["rules".to_owned()][..]));
    let versions = world.store.versions("book");
    assert_eq!(versions.len(), 1);
    let served: Book = serde_json::from_value(versions[0].document.clone()).unwrap();
    assert_eq!((&served.sections, served.digest()), (&evolution.best, report.harness().unwrap().playbook));
    assert!(versions[0].why.contains("sections rewritten: rules"), "{}", versions[0].why);
    assert_eq!(report.layer_names(), ["harness", "evolution"]);
    assert_eq!(report.iterations[0].reward, Some(1.0), "lessons are measured in the promoted prompt");
    let lift = report.evaluation.unwrap();
    assert_eq!((lift.before.unwrap().mean, lift.after.unwrap().mean), (0.0, 1.0));
    assert_eq!(world.watching.evolved.lock().unwrap().as_slice(), &[evolution]);
}

/// Run and id of every episode of the evolution.
fn names(world: &World) -> Vec<(RunId, EpisodeId)> {
    world.evolved().into_iter().map(|episode| (episode.run, episode.id)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evolution_killed_at_any_store_call_and_resumed_gives_the_same_result() {
    let whole = world(Manner::Helpful);
    let expected = whole.learn().await.unwrap();
    let calls = whole.store.calls();
    let played = names(&whole);
    let mut killed = 0;
    for at in 0..calls {
        let world = World { store: Shelf::dying(at), ..world(Manner::Helpful) };
        // Transactions contain the episodes that are ready, so there may be fewer calls.
        let report = match world.learn().await {
            Ok(report) => report,
            Err(_) => {
                killed += 1;
                world.store.revive(None);
                world.resume().await.unwrap()
            }
        };
        assert_eq!(report, expected, "killed at call {at}");
        assert_eq!(names(&world), played, "killed at call {at}");
    }
    assert!(killed > 60, "{killed} of {calls} calls are too few");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nondeterministic_reflector_cannot_make_an_interrupted_run_exceed_its_budget() {
    let mut killed = 0;
    for at in (1..200).step_by(6) {
        let mut world = World { store: Shelf::dying(at), ..world(Manner::NeverTheSame) };
        world.harness.evolve.as_mut().unwrap().budget = 120;
        if world.learn().await.is_ok() {
            continue;
        }
        killed += 1;
        world.store.revive(None);
        let evolution = evolution(&world.resume().await.unwrap());
        assert!(evolution.progress.evaluations <= 120);
        let played = world.evolved();
        assert_eq!(played.len() as u64, evolution.progress.evaluations, "every episode is an evaluation");
        let shows_best = |episode: &&Episode| {
            episode.policy.playbook.as_ref().is_some_and(|playbook| playbook.text.contains(&evolution.best["rules"]))
        };
        let own = played.iter().filter(shows_best).count();
        assert!(own >= 16, "killed at call {at}: the best candidate itself was played");
    }
    // How many of these calls a run makes depends on how many episodes are gathered into one write.
    assert!(killed >= 10, "{killed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn results_do_not_depend_on_how_many_are_played_at_once() {
    let mut reports = Vec::new();
    for concurrency in [1, 16] {
        let mut world = world(Manner::Helpful);
        world.plan.play.concurrency = concurrency;
        reports.push(world.learn().await.unwrap());
    }
    assert_eq!(reports[0], reports[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_not_scores_and_transient_ones_are_retried() {
    let flaky = Wants { flaky: true, ..Wants::new() };
    let mut world = world_of(Manner::Helpful, three_splits(), Arc::new(flaky));
    world.plan.play.failure_budget = 1.0;
    let evolution = world.evolution().await;
    let failures = evolution.progress.failures;
    assert!(failures.transient > 0, "{failures:?}");
    assert_eq!((failures.permanent, failures.left_out), (0, 0), "the retry succeeded");
    assert_eq!(evolution.progress.curve[0].mean, 0.0);
    assert_eq!(world.evolved().len() as u64, evolution.progress.evaluations, "failures count as evaluations");

    let failing = Counting { failing: 2, ..three_splits() };
    let mut world = world_of(Manner::Helpful, failing, Arc::new(Wants::new()));
    world.plan.play.failure_budget = 1.0;
    let evolution = world.evolution().await;
    let failures = evolution.progress.failures;
    assert!(failures.permanent > 0 && failures.transient == 0, "{failures:?}");
    assert_eq!(failures.left_out, failures.permanent, "a trap is not retried");
    let played = world.evolved();
    let failed = played.iter().filter(|episode| episode.reward.is_none()).count() as u64;
    assert_eq!((played.len() as u64, failed), (evolution.progress.evaluations, failures.permanent));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_failures_stop_it_and_a_larger_budget_resumes_it() {
    let failing = Counting { failing: 2, ..three_splits() };
    let mut world = world_of(Manner::Helpful, failing, Arc::new(Wants::new()));
    world.plan.play.failure_budget = 0.005;
    let report = world.learn().await.unwrap();
    assert!(matches!(report.stopped, Some(StopReason::FailureBudget { allowed: 1, .. })), "{:?}", report.stopped);
    assert_eq!((evolution(&report).why, report.iterations.len()), (None, 0));
    world.plan.play.failure_budget = 1.0;
    let report = world.resume().await.unwrap();
    assert_eq!(report.stopped, None);
    assert!(evolution(&report).why.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_answers_of_a_reflector_are_counted_and_change_nothing() {
    let check = async |manner: Manner, counted: fn(&EvolutionReport) -> u64| {
        let world = world(manner);
        let report = world.learn().await.unwrap();
        let evolution = evolution(&report);
        assert_eq!((evolution.why, evolution.progress.children), (Some(EndReason::Fruitless), 0));
        assert_eq!((counted(&evolution), evolution.best.len()), (evolution.progress.reflections, 0));
        assert_eq!((evolution.gate, report.layer_names().len()), (None, 1), "there is no candidate");
        assert_eq!(report.iterations.len(), 1, "the run continues");
    };
    check(Manner::Elsewhere, |report| report.reflector.ignored).await;
    check(Manner::Secret, |report| report.reflector.refused.values().sum()).await;
    check(Manner::Broken, |report| report.reflector.failed.values().sum()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_impossible_evolution_is_an_error_before_anything_is_played() {
    let check = async |change: fn(&mut World), says: &str| {
        let mut world = world(Manner::Helpful);
        change(&mut world);
        let error = world.learn().await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert_eq!(world.evolved().len(), 0, "{error}");
    };
    check(|world| world.harness.evolve.as_mut().unwrap().budget = 20, "is too small for one child").await;
    check(|world| world.evolves = false, "no reflector rewrites sections").await;
    let of_groups = |world: &mut World| {
        world.rewards = vec![ScoringRule::new(Arc::new(Judge::of_groups()), vec![])];
    };
    check(of_groups, "compares the episodes of a group").await;
}
