//! Evolution over fakes: a world of four kinds of tasks, each of which wants one line in the prompt.

use super::fakes::*;
use super::plan;
use async_trait::async_trait;
use clawhost_core::*;
use clawhost_learn::evolve::Why;
use clawhost_learn::gate::Decision;
use clawhost_learn::harness::HarnessSettings;
use clawhost_learn::playbook::Playbook as Book;
use clawhost_runtime::learn::{
    EvolutionReport, EvolvePlan, GatePlan, IterationReport, LearnObserver, LearnPlan, LearnPorts, LearnReport,
    Reflecting, learn_run, resume_learning,
};
use clawhost_runtime::{
    Cancel, ChatPolicy, EpisodeSummary, Observer, Plan, Ports, RuntimeError, ScoringRule, StopReason, play_run,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const KINDS: u64 = 4;
const BUDGET: u64 = 200;
const RUN: &str = "run-evolve";

/// What a task wants to stand in the prompt.
fn wanted(task: &Task) -> String {
    let number: u64 = task.id.trim_start_matches('t').parse().unwrap();
    format!("deed {}", number % KINDS)
}

/// Says what it was told.
struct Echo;

#[async_trait]
impl Llm for Echo {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "fake".into(), model: "echo".into(), version: "1".into() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let told = request.messages.iter().find(|message| message.role == Role::System).unwrap().plain_text();
        let message = Message::text(Role::Assistant, Origin::Policy, told);
        Ok(ModelResponse { message, usage: Usage::default(), finish: "stop".into(), tokens: None })
    }
}

/// Gives 1 for an answer that holds what the task wants, else 0.
struct Wants {
    identity: PluginIdentity,
    description: RewardDescription,
    /// The first time it is asked about a seed, its model is down.
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
            Verdict::Scored(ScoreCard {
                value,
                confidence: 1.0,
                parts: vec![],
                rationale: String::new(),
                per_turn: vec![],
                extra: vec![],
            })
        };
        let mut asked = self.asked.lock().unwrap();
        let times = asked.entry(group[0].seed).or_default();
        *times += 1;
        let verdicts = match self.flaky && *times == 1 {
            true => Err(Failure::new(FailureKind::Llm, code::UNAVAILABLE, "the judge is down")),
            false => Ok(group.iter().map(card).collect()),
        };
        Scoring { verdicts, log: vec![], journal: vec![] }
    }
}

/// How a reflector answers.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// The section with the first line that is missing.
    Helpful,
    /// The same, with a word that no call says again.
    NeverTheSame,
    /// About another section.
    Elsewhere,
    /// A text that must not be stored.
    Secret,
    Broken,
}

struct Scribe {
    identity: PluginIdentity,
    about: About,
    manner: Manner,
    calls: AtomicU64,
    /// Splits of the episodes that it was shown, and whether they fit the sections beside them.
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
        let missing = group.iter().map(|episode| wanted(&episode.task)).find(|deed| !old.contains(deed));
        let propose = |change| Proposal { change, evidence: vec![], expected_effect: String::new() };
        let text = missing.map(|deed| format!("{old}\n{deed}").trim().to_owned());
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

/// A store that can be cut off: from one write on nothing is kept, as if the process had been killed.
#[derive(Default)]
struct Shelf {
    writes: AtomicU64,
    cut_off_at: Mutex<Option<u64>>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    runs: BTreeMap<RunId, Option<serde_json::Value>>,
    episodes: BTreeMap<RunId, BTreeMap<u64, Arc<Episode>>>,
    state: Option<(u64, serde_json::Value)>,
    reports: Vec<serde_json::Value>,
    versions: Vec<PlaybookVersion>,
}

impl Shelf {
    fn write<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> Result<T, StoreError> {
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        match *self.cut_off_at.lock().unwrap() {
            Some(at) if number >= at => Err(StoreError::Full("shelf".into())),
            _ => Ok(change(&mut self.kept.lock().unwrap())),
        }
    }

    /// Episodes that the evolution played.
    fn evolved(&self) -> Vec<Arc<Episode>> {
        let kept = self.kept.lock().unwrap();
        let own = kept.episodes.iter().filter(|(run, _)| run.0.contains(".evolve-") && !run.0.contains("gate"));
        own.flat_map(|(_, episodes)| episodes.values().cloned()).collect()
    }
}

#[async_trait]
impl EpisodeStore for Shelf {
    async fn begin_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        self.write(|kept| drop(kept.runs.insert(run.id.clone(), None)))
    }

    async fn resume_run(&self, run: &RunId) -> Result<(), StoreError> {
        self.write(|kept| drop(kept.runs.insert(run.clone(), None)))
    }

    async fn append(&self, run: &RunId, episodes: Vec<Recorded>, _: Usage) -> Result<(), StoreError> {
        self.write(|kept| {
            let known = kept.episodes.entry(run.clone()).or_default();
            known.extend(episodes.into_iter().map(|one| (one.episode.index, one.episode)));
        })
    }

    async fn judge(&self, _: Vec<Judged>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn finish_run(&self, run: &RunId, summary: &serde_json::Value, _: Usage) -> Result<(), StoreError> {
        self.write(|kept| drop(kept.runs.insert(run.clone(), Some(summary.clone()))))
    }
}

#[async_trait]
impl LearningStore for Shelf {
    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        self.write(|kept| {
            // Through text, as on a disk.
            let state = serde_json::from_str(&checkpoint.state.to_string()).unwrap();
            kept.state = Some((checkpoint.iteration, state));
            kept.versions.extend(checkpoint.versions);
            if !checkpoint.report.is_null() {
                kept.reports.push(checkpoint.report);
            }
        })
    }

    async fn last_checkpoint(&self, _: &RunId) -> Result<Option<(u64, serde_json::Value)>, StoreError> {
        Ok(self.kept.lock().unwrap().state.clone())
    }

    async fn weights(&self, _: &RunId) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    async fn iterations(&self, _: &RunId) -> Result<Vec<serde_json::Value>, StoreError> {
        Ok(self.kept.lock().unwrap().reports.clone())
    }

    async fn phase(&self, phase: &RunId) -> Result<PhaseState, StoreError> {
        Ok(match self.kept.lock().unwrap().runs.get(phase) {
            None => PhaseState::Absent,
            Some(Some(summary)) if summary["stopped"].is_null() => PhaseState::Finished,
            Some(_) => PhaseState::Open,
        })
    }

    async fn episodes(&self, phase: &RunId) -> Result<Vec<Arc<Episode>>, StoreError> {
        let kept = self.kept.lock().unwrap();
        Ok(kept.episodes.get(phase).map(|episodes| episodes.values().cloned().collect()).unwrap_or_default())
    }

    async fn playbook(&self, _: &str) -> Result<Option<PlaybookVersion>, StoreError> {
        Ok(self.kept.lock().unwrap().versions.last().cloned())
    }

    async fn ledger(&self, _: &str) -> Result<Option<PlaybookLedger>, StoreError> {
        Ok(None)
    }

    async fn add_version(&self, _: PlaybookVersion, _: Option<PlaybookLedger>) -> Result<(), StoreError> {
        Ok(())
    }
}

#[derive(Default)]
struct Watching(Mutex<Vec<EvolutionReport>>);

impl Observer for Watching {
    fn recorded(&self, _: &EpisodeSummary, _: u64, _: u64) {}
}

impl LearnObserver for Watching {
    fn phase(&self, _: &str, _: u64) {}
    fn evolved(&self, report: &EvolutionReport) {
        self.0.lock().unwrap().push(report.clone());
    }
    fn iteration(&self, _: &IterationReport, _: u64) {}
}

/// A world to evolve in.
struct World {
    shelf: Arc<Shelf>,
    scribe: Arc<Scribe>,
    ports: LearnPorts,
    plan: LearnPlan,
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
    let (shelf, scribe) = (Arc::new(Shelf::default()), Arc::new(Scribe::new(manner)));
    let play = Ports {
        environment: Arc::new(environment),
        rewards: vec![ScoringRule::new(reward, vec![])],
        policy: ChatPolicy::new(Arc::new(Echo), None, Sampling::default()),
        store: shelf.clone(),
        clock: Arc::new(Still),
        meter: Arc::new(Free),
    };
    let ports = LearnPorts {
        play,
        reflectors: vec![],
        embedder: None,
        weights: None,
        demonstrator: None,
        evolver: Some(Reflecting { reflector: scribe.clone(), options: vec![] }),
        learning: shelf.clone(),
        playbook: "book".into(),
        beginning: Book::default(),
    };
    let plan = LearnPlan {
        iterations: 1,
        play: Plan { group: 4, ..plan(4) },
        harness: HarnessSettings::default(),
        reflect_every: 1,
        gate: GatePlan { every: 1, pairs: 96, alpha: 0.05 },
        weights: None,
        evolve: Some(EvolvePlan { budget: BUDGET, minibatch: 3, pareto: 16, section: "rules".into() }),
        test_pairs: 8,
        planted: vec![],
    };
    World { shelf, scribe, ports, plan, watching: Watching::default() }
}

impl World {
    async fn learn(&self) -> Result<LearnReport, RuntimeError> {
        let (plan, ports, config) = (self.plan.clone(), self.ports.clone(), serde_json::Value::Null);
        learn_run(RunId(RUN.into()), plan, ports, config, &Cancel::default(), &self.watching).await
    }

    async fn resume(&self) -> Result<LearnReport, RuntimeError> {
        let (plan, ports) = (self.plan.clone(), self.ports.clone());
        resume_learning(RunId(RUN.into()), plan, ports, &Cancel::default(), &self.watching).await
    }

    async fn evolution(&self) -> EvolutionReport {
        self.learn().await.unwrap().evolution.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_evolves_on_training_tasks_within_its_budget_and_passes_the_gate() {
    let world = world(Manner::Helpful);
    let report = world.learn().await.unwrap();
    let evolution = report.evolution.clone().unwrap();
    let means: Vec<f64> = evolution.progress.curve.iter().map(|point| point.mean).collect();
    assert_eq!((means[0], means.last()), (0.0, Some(&1.0)), "{means:?}");
    assert!(means.is_sorted(), "{means:?}");
    assert_eq!(evolution.why, Some(Why::Perfect));
    let best: BTreeSet<&str> = evolution.best["rules"].lines().collect();
    assert_eq!(best, BTreeSet::from(["deed 0", "deed 1", "deed 2", "deed 3"]));

    let played = world.shelf.evolved();
    assert_eq!(played.len() as u64, evolution.progress.evaluations, "one episode each");
    assert!(evolution.progress.evaluations <= BUDGET);
    assert!(played.iter().all(|episode| episode.task.split == "train"), "nothing else teaches");
    let seeds: BTreeSet<_> =
        played.iter().map(|episode| (episode.task.id.clone(), episode.seed, episode.policy.seed)).collect();
    let tasks: BTreeSet<_> = played.iter().map(|episode| episode.task.id.clone()).collect();
    assert_eq!(seeds.len(), tasks.len(), "all candidates meet a task with the same seeds");
    let asked = world.scribe.shown.lock().unwrap().clone();
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|(split, own)| split == "train" && *own), "the parent's own episodes, with its sections");
    assert_eq!(evolution.reflector.ignored, evolution.progress.reflections, "what is not about a section is counted");

    let gate = evolution.gate.clone().unwrap();
    assert_eq!((gate.decision, gate.rewritten.as_slice()), (Decision::Promote, &["rules".to_owned()][..]));
    let versions = world.shelf.kept.lock().unwrap().versions.clone();
    assert_eq!(versions.len(), 1);
    let served: Book = serde_json::from_value(versions[0].document.clone()).unwrap();
    assert_eq!((&served.sections, served.digest()), (&evolution.best, report.playbook));
    assert!(versions[0].why.contains("sections rewritten: rules"), "{}", versions[0].why);
    assert_eq!(report.layers, ["harness", "evolution"]);
    assert_eq!(report.iterations[0].reward, Some(1.0), "lessons are measured in the prompt that passed");
    let lift = report.evaluation.unwrap();
    assert_eq!((lift.before.unwrap().mean, lift.after.unwrap().mean), (0.0, 1.0));
    assert_eq!(world.watching.0.lock().unwrap().as_slice(), &[evolution]);
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_at_any_write_it_comes_to_the_same() {
    let whole = world(Manner::Helpful);
    let expected = whole.learn().await.unwrap();
    let writes = whole.shelf.writes.load(Ordering::Relaxed);
    let id = |episode: &Arc<Episode>| (episode.run.clone(), episode.id.clone());
    let played: Vec<_> = whole.shelf.evolved().iter().map(id).collect();
    let mut interrupted = 0;
    for at in 1..writes {
        let world = world(Manner::Helpful);
        *world.shelf.cut_off_at.lock().unwrap() = Some(at);
        // How episodes are gathered into writes is a matter of time, so one that is cut off late may be over by then.
        let report = match world.learn().await {
            Ok(report) => report,
            Err(_) => {
                interrupted += 1;
                *world.shelf.cut_off_at.lock().unwrap() = None;
                world.resume().await.unwrap()
            }
        };
        assert_eq!(report, expected, "after write {at}");
        assert_eq!(world.shelf.evolved().iter().map(id).collect::<Vec<_>>(), played, "after write {at}");
    }
    assert!(interrupted > 30, "{interrupted} of {writes} writes are too few to tell");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reflector_that_never_says_the_same_cannot_make_an_interrupted_run_pass_its_budget() {
    for at in (1..100).step_by(3) {
        let mut world = world(Manner::NeverTheSame);
        world.plan.evolve.as_mut().unwrap().budget = 120;
        *world.shelf.cut_off_at.lock().unwrap() = Some(at);
        if world.learn().await.is_ok() {
            continue;
        }
        *world.shelf.cut_off_at.lock().unwrap() = None;
        let evolution = world.resume().await.unwrap().evolution.unwrap();
        assert!(evolution.progress.evaluations <= 120);
        let played = world.shelf.evolved();
        assert_eq!(played.len() as u64, evolution.progress.evaluations, "nothing was played in vain");
        let told = |episode: &&Arc<Episode>| {
            episode.policy.playbook.as_ref().is_some_and(|told| told.text.contains(&evolution.best["rules"]))
        };
        let own = played.iter().filter(told).count();
        assert!(own >= 16, "cut off at write {at}: what is best was played itself, and not another of its number");
    }
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
async fn what_fails_is_no_number_and_what_may_pass_is_asked_again() {
    let flaky = Wants { flaky: true, ..Wants::new() };
    let mut world = world_of(Manner::Helpful, three_splits(), Arc::new(flaky));
    world.plan.play.failure_budget = 1.0;
    let evolution = world.evolution().await;
    let failures = evolution.progress.failures;
    assert!(failures.transient > 0, "{failures:?}");
    assert_eq!((failures.permanent, failures.left_out), (0, 0), "it went well the second time");
    assert_eq!(evolution.progress.curve[0].mean, 0.0);
    assert_eq!(world.shelf.evolved().len() as u64, evolution.progress.evaluations, "what failed is paid for");

    let failing = Counting { failing: 2, ..three_splits() };
    let mut world = world_of(Manner::Helpful, failing, Arc::new(Wants::new()));
    world.plan.play.failure_budget = 1.0;
    let evolution = world.evolution().await;
    let failures = evolution.progress.failures;
    assert!(failures.permanent > 0 && failures.transient == 0, "{failures:?}");
    assert_eq!(failures.left_out, failures.permanent, "a trap is not asked again");
    let played = world.shelf.evolved();
    let failed = played.iter().filter(|episode| episode.reward.is_none()).count() as u64;
    assert_eq!((played.len() as u64, failed), (evolution.progress.evaluations, failures.permanent));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_failures_stop_it_and_with_a_larger_budget_it_goes_on() {
    let failing = Counting { failing: 2, ..three_splits() };
    let mut world = world_of(Manner::Helpful, failing, Arc::new(Wants::new()));
    world.plan.play.failure_budget = 0.005;
    let report = world.learn().await.unwrap();
    assert!(matches!(report.stopped, Some(StopReason::FailureBudget { allowed: 1, .. })), "{:?}", report.stopped);
    assert_eq!((report.evolution.unwrap().why, report.iterations.len()), (None, 0));
    world.plan.play.failure_budget = 1.0;
    let report = world.resume().await.unwrap();
    assert_eq!(report.stopped, None);
    assert!(report.evolution.unwrap().why.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_reflector_says_beside_the_point_is_counted_and_changes_nothing() {
    let check = async |manner: Manner, counted: fn(&EvolutionReport) -> u64| {
        let world = world(manner);
        let report = world.learn().await.unwrap();
        let evolution = report.evolution.unwrap();
        assert_eq!((evolution.why, evolution.progress.children), (Some(Why::Fruitless), 0));
        assert_eq!((counted(&evolution), evolution.best.len()), (evolution.progress.reflections, 0));
        assert_eq!((evolution.gate, report.layers.len()), (None, 1), "there is nothing to judge");
        assert_eq!(report.iterations.len(), 1, "the run goes on");
    };
    check(Manner::Elsewhere, |report| report.reflector.ignored).await;
    check(Manner::Secret, |report| report.reflector.refused.values().sum()).await;
    check(Manner::Broken, |report| report.reflector.failed.values().sum()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_evolve_is_refused_before_anything_is_played() {
    let check = async |change: fn(&mut World), says: &str| {
        let mut world = world(Manner::Helpful);
        change(&mut world);
        let error = world.learn().await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert_eq!(world.shelf.evolved().len(), 0, "{error}");
    };
    check(|world| world.plan.evolve.as_mut().unwrap().budget = 20, "lets no child in").await;
    check(|world| world.ports.evolver = None, "nobody rewrites sections").await;
    let of_groups = |world: &mut World| {
        world.ports.play.rewards = vec![ScoringRule::new(Arc::new(Judge::of_groups()), vec![])];
    };
    check(of_groups, "compares the episodes of a group").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_plays_exactly_the_positions_that_it_is_given() {
    let play = async |plan: Plan| {
        let store = Arc::new(Memory::default());
        let ports = Ports { store: store.clone(), ..world(Manner::Helpful).ports.play };
        let id = RunId("run-positions".into());
        play_run(id, plan, ports, serde_json::Value::Null, &Cancel::default(), &Silent).await.unwrap();
        let mut episodes = store.episodes();
        episodes.sort_by_key(|episode| episode.index);
        episodes
    };
    let about = |episode: &Arc<Episode>| (episode.task.id.clone(), episode.seed, episode.policy.seed);
    for (group, paired) in [(1, true), (1, false), (2, false)] {
        let every = play(Plan { group, paired, ..plan(20 * u64::from(group)) }).await;
        let positions = Some(vec![5, 19, 2]);
        let chosen = play(Plan { group, paired, positions, ..plan(3 * u64::from(group)) }).await;
        let expected = [5, 19, 2].into_iter().flat_map(|position| {
            let first = position * group as usize;
            every[first..first + group as usize].iter().map(about)
        });
        assert_eq!(chosen.iter().map(about).collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{group} {paired}");
        let ids: BTreeSet<_> = every.iter().chain(&chosen).map(|episode| episode.id.clone()).collect();
        assert_eq!(ids.len(), every.len() + chosen.len(), "episodes of different plans have different names");
    }
}
