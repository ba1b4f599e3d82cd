//! A small world to learn in: lights of some colour, each of which wants one answer. The policy is the follower, which does
//! what its prompt says, so whatever is learned stands in the playbook.

use super::shelf::Shelf;
use crate::fakes::{Free, Still, about, identity};
use async_trait::async_trait;
use clawhost_core::*;
use clawhost_follower::Follower;
use clawhost_learn::harness::HarnessSettings;
use clawhost_learn::playbook::Playbook as Document;
use clawhost_runtime::learn::{
    GatePlan, IterationReport, LearnObserver, LearnPlan, LearnPorts, LearnReport, Reflecting, learn_run,
    resume_learning,
};
use clawhost_runtime::{Cancel, ChatPolicy, EpisodeSummary, Observer, Plan, Ports, RuntimeError, ScoringRule};
use std::sync::{Arc, Mutex};

/// Colours come in turn. Whoever was told nothing waits: right for grey and white.
pub(crate) const COLOURS: [&str; 4] = ["red", "green", "grey", "white"];
pub(crate) const RED: &str = "when colour is red: answer stop";
pub(crate) const GREEN: &str = "when colour is green: answer go";
/// What is done without it too.
pub(crate) const NEUTRAL: &str = "when colour is grey: answer wait";
pub(crate) const FALSE: &str = "when colour is white: answer run";

/// What a light wants.
pub(crate) fn right(colour: &str) -> &'static str {
    match colour {
        "red" => "stop",
        "green" => "go",
        _ => "wait",
    }
}

type Fails = Box<dyn Fn(&Task, u64) -> bool + Send + Sync>;

pub(crate) struct Lights {
    pub(crate) identity: PluginIdentity,
    pub(crate) description: EnvironmentDescription,
    pub(crate) hint: Option<String>,
    /// The colour of a task, by split and position.
    pub(crate) colour: fn(&str, u64) -> &'static str,
    /// What is wanted there.
    pub(crate) wanted: fn(&str, &str) -> &'static str,
    /// Whether an episode fails in its step.
    pub(crate) fails: Fails,
    /// Whether it fails at this answer, by split.
    pub(crate) breaks: fn(&str, &str) -> bool,
    /// Whether it does not even begin.
    pub(crate) refuses: Fails,
    /// When so many have begun, the run is stopped.
    pub(crate) cancel_at: Mutex<Option<(usize, Cancel)>>,
    /// Task and seed of every episode that was begun.
    pub(crate) begun: Mutex<Vec<(String, u64)>>,
}

impl Lights {
    pub(crate) fn new(splits: &[(&str, u64)]) -> Self {
        let splits = splits.iter().map(|(name, tasks)| Split { name: (*name).into(), tasks: *tasks }).collect();
        Self {
            identity: identity("lights"),
            description: EnvironmentDescription { about: about("lights"), splits },
            hint: None,
            colour: |_, position| COLOURS[position as usize % COLOURS.len()],
            wanted: |_, colour| right(colour),
            fails: Box::new(|_, _| false),
            breaks: |_, _| false,
            refuses: Box::new(|_, _| false),
            cancel_at: Mutex::default(),
            begun: Mutex::default(),
        }
    }
}

impl Default for Lights {
    fn default() -> Self {
        Self::new(&[("train", 400), ("val", 400), ("test", 400)])
    }
}

#[async_trait]
impl Environment for Lights {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn description(&self) -> &EnvironmentDescription {
        &self.description
    }

    async fn tasks(&self, _: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>, Failure> {
        let count = self.description.splits.iter().find(|known| known.name == split).map_or(0, |known| known.tasks);
        let task = |position| {
            let colour = (self.colour)(split, position);
            Task {
                id: format!("{split}-{position}"),
                split: split.into(),
                input: format!("light {position}\ncolour: {colour}"),
                reference: Some(format!("\"canary {}\"", (self.wanted)(split, colour))),
                tags: vec![],
                extra: vec![],
            }
        };
        Ok((offset..count.min(offset + u64::from(limit))).map(task).collect())
    }

    async fn start(&self, params: StartParams) -> Result<(Box<dyn LiveEpisode>, Opening), Failure> {
        assert_eq!(params.task.reference, None, "an environment never sees a reference");
        let (task, seed) = (params.task, params.context.seed);
        let begun = {
            let mut begun = self.begun.lock().unwrap();
            begun.push((task.id.clone(), seed));
            begun.len()
        };
        let cancel = self.cancel_at.lock().unwrap().clone();
        if let Some((at, cancel)) = cancel
            && begun >= at
        {
            cancel.request();
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        if (self.refuses)(&task, seed) {
            return Err(Failure::new(FailureKind::Plugin, code::PLUGIN_ERROR, "no light today"));
        }
        let observation = vec![Message::text(Role::User, Origin::Environment, task.input.clone())];
        let live = Light { fails: (self.fails)(&task, seed), breaks: self.breaks, split: task.split };
        Ok((Box::new(live), Opening { observation, tools: vec![], system_hint: self.hint.clone(), artefacts: vec![] }))
    }
}

struct Light {
    fails: bool,
    breaks: fn(&str, &str) -> bool,
    split: String,
}

#[async_trait]
impl LiveEpisode for Light {
    async fn step(&mut self, action: &Message, _: &[Message]) -> Result<StepResult, Failure> {
        // Others play meanwhile: what comes first must not matter.
        tokio::task::yield_now().await;
        if self.fails || (self.breaks)(&self.split, &action.plain_text()) {
            return Err(Failure::new(FailureKind::Trap, code::UNREACHABLE, "the bulb broke"));
        }
        Ok(StepResult { observation: vec![], status: Status::Terminated, signals: vec![], artefacts: vec![] })
    }

    async fn snapshot(&mut self) -> Result<Snapshot, Failure> {
        Err(Failure::new(FailureKind::Plugin, code::PLUGIN_ERROR, "no snapshots"))
    }

    fn last_fuel(&self) -> Option<u64> {
        Some(1)
    }

    fn host_calls(&self) -> Digest {
        Digest::of(b"")
    }

    fn take_records(&mut self) -> EpisodeRecords {
        EpisodeRecords::default()
    }
}

/// Whether an episode's answer is the one that was wanted.
pub(crate) fn is_right(episode: &Episode) -> bool {
    let said = episode.turns.last().unwrap().action.plain_text();
    episode.task.reference.as_deref() == Some(format!("\"canary {said}\"").as_str())
}

/// Marks between 0 and 1; none: it has nothing to say.
pub(crate) struct Marks {
    identity: PluginIdentity,
    pub(crate) description: RewardDescription,
    give: Box<dyn Fn(&Episode) -> Option<f64> + Send + Sync>,
}

impl Marks {
    pub(crate) fn by(give: impl Fn(&Episode) -> Option<f64> + Send + Sync + 'static) -> Self {
        let description = RewardDescription {
            about: about("marks"),
            minimum: 0.0,
            maximum: 1.0,
            source: RewardSource::Outcome,
            scope: RewardScope::Each,
        };
        Self { identity: identity("marks"), description, give: Box::new(give) }
    }
}

impl Default for Marks {
    fn default() -> Self {
        Self::by(|episode| Some(f64::from(u8::from(is_right(episode)))))
    }
}

#[async_trait]
impl Reward for Marks {
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
        let verdict = |episode: &Arc<Episode>| match (self.give)(episode) {
            Some(value) => Verdict::Scored(ScoreCard {
                value,
                confidence: 1.0,
                parts: vec![],
                rationale: String::new(),
                per_turn: vec![],
                extra: vec![],
            }),
            None => Verdict::NotApplicable("no opinion".into()),
        };
        Scoring { verdicts: Ok(group.iter().map(verdict).collect()), log: vec![], journal: vec![] }
    }
}

/// What a reflector was given.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(crate) context: Context,
    pub(crate) playbook: Playbook,
    pub(crate) group: Vec<Arc<Episode>>,
}

type Proposes = Box<dyn Fn(&Shown) -> Result<Vec<Proposal>, Failure> + Send + Sync>;

/// Proposes what it is told to, and remembers what it was shown.
pub(crate) struct Proposer {
    identity: PluginIdentity,
    about: About,
    propose: Proposes,
    pub(crate) shown: Mutex<Vec<Shown>>,
}

/// A new lesson.
pub(crate) fn lesson(text: &str) -> Proposal {
    let entry = Entry { id: String::new(), text: text.into(), tags: vec![], extra: vec![] };
    Proposal { change: Change::Add(entry), evidence: vec![], expected_effect: String::new() }
}

impl Proposer {
    pub(crate) fn by(propose: impl Fn(&Shown) -> Result<Vec<Proposal>, Failure> + Send + Sync + 'static) -> Arc<Self> {
        let (identity, about) = (identity("proposer"), about("proposer"));
        Arc::new(Self { identity, about, propose: Box::new(propose), shown: Mutex::default() })
    }

    pub(crate) fn of(lessons: &'static [&'static str]) -> Arc<Self> {
        Self::by(|_| Ok(lessons.iter().map(|text| lesson(text)).collect()))
    }

    /// Phase and group of everything it was shown, in the order of the plan.
    pub(crate) fn groups(&self) -> Vec<(RunId, u64)> {
        let shown = self.shown.lock().unwrap();
        let mut groups: Vec<_> = shown.iter().map(|one| (one.group[0].run.clone(), one.group[0].group)).collect();
        groups.sort();
        groups
    }
}

#[async_trait]
impl Reflector for Proposer {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn about(&self) -> &About {
        &self.about
    }

    async fn reflect(
        &self,
        context: &Context,
        playbook: &Playbook,
        group: &[Arc<Episode>],
    ) -> Result<Vec<Proposal>, Failure> {
        let shown = Shown { context: context.clone(), playbook: playbook.clone(), group: group.to_vec() };
        self.shown.lock().unwrap().push(shown.clone());
        tokio::task::yield_now().await;
        (self.propose)(&shown)
    }
}

/// Notes the phases that were begun, and the iterations that came to their end.
#[derive(Default)]
pub(crate) struct Watching {
    pub(crate) phases: Mutex<Vec<String>>,
    pub(crate) iterations: Mutex<Vec<u64>>,
}

impl Observer for Watching {
    fn recorded(&self, _: &EpisodeSummary, _: u64, _: u64) {}
}

impl LearnObserver for Watching {
    fn phase(&self, name: &str, _: u64) {
        self.phases.lock().unwrap().push(name.to_owned());
    }

    fn iteration(&self, report: &IterationReport, _: u64) {
        self.iterations.lock().unwrap().push(report.iteration);
    }
}

/// Everything that a learning run needs, and what is kept of it.
pub(crate) struct World {
    pub(crate) environment: Arc<Lights>,
    pub(crate) marks: Arc<Marks>,
    pub(crate) prompt: Option<String>,
    pub(crate) reflectors: Vec<Arc<Proposer>>,
    pub(crate) store: Arc<Shelf>,
    pub(crate) watching: Watching,
    pub(crate) cancel: Cancel,
}

impl World {
    pub(crate) fn new(reflector: Arc<Proposer>) -> Self {
        Self {
            environment: Arc::new(Lights::default()),
            marks: Arc::default(),
            prompt: Some("always: answer wait".into()),
            reflectors: vec![reflector],
            store: Arc::default(),
            watching: Watching::default(),
            cancel: Cancel::default(),
        }
    }

    /// A world in which two rules help, one changes nothing and one harms; all of them are proposed.
    pub(crate) fn usual() -> Self {
        Self::new(Proposer::of(&[RED, GREEN, NEUTRAL, FALSE]))
    }

    pub(crate) fn run() -> RunId {
        RunId("learn".into())
    }

    pub(crate) fn ports(&self) -> LearnPorts {
        let reflecting = |one: &Arc<Proposer>| Reflecting { reflector: one.clone(), options: vec![] };
        LearnPorts {
            evolver: None,
            weights: None,
            demonstrator: None,
            embedder: None,
            play: Ports {
                environment: self.environment.clone(),
                rewards: vec![ScoringRule::new(self.marks.clone(), vec![])],
                policy: ChatPolicy::new(Arc::new(Follower), self.prompt.clone(), Sampling::default()),
                store: self.store.clone(),
                clock: Arc::new(Still),
                meter: Arc::new(Free),
            },
            reflectors: self.reflectors.iter().map(reflecting).collect(),
            learning: self.store.clone(),
            playbook: "lights".into(),
            beginning: Document::default(),
        }
    }

    pub(crate) async fn try_learn(&self, plan: &LearnPlan) -> Result<LearnReport, RuntimeError> {
        let config = serde_json::json!({});
        learn_run(Self::run(), plan.clone(), self.ports(), config, &self.cancel, &self.watching).await
    }

    pub(crate) async fn learn(&self, plan: &LearnPlan) -> LearnReport {
        self.try_learn(plan).await.unwrap()
    }

    /// The same world, with nothing kept.
    pub(crate) async fn learn_with(&self, plan: &LearnPlan) -> LearnReport {
        let world = Self {
            environment: self.environment.clone(),
            marks: self.marks.clone(),
            prompt: self.prompt.clone(),
            ..Self::new(self.reflectors[0].clone())
        };
        world.learn(plan).await
    }

    /// Goes on with what is kept, however far that came.
    pub(crate) async fn go_on(&self, plan: &LearnPlan, cancel: &Cancel) -> Result<LearnReport, RuntimeError> {
        if !self.store.has_run(&Self::run()) {
            return self.try_learn(plan).await;
        }
        resume_learning(Self::run(), plan.clone(), self.ports(), cancel, &self.watching).await
    }

    /// What is deployed, line by line.
    pub(crate) fn deployed(&self) -> Vec<String> {
        let Some(version) = self.store.versions("lights").pop() else { return Vec::new() };
        let playbook: Document = serde_json::from_value(version.document).unwrap();
        let mut lines: Vec<String> = playbook.entries.iter().map(|entry| entry.lesson.line()).collect();
        lines.sort();
        lines
    }
}

/// Small, and enough to learn two rules with.
pub(crate) fn small() -> LearnPlan {
    LearnPlan {
        evolve: None,
        weights: None,
        iterations: 4,
        play: Plan { episodes: 64, group: 4, failure_budget: 1.0, ..crate::plan(64) },
        harness: HarnessSettings::default(),
        reflect_every: 1,
        gate: GatePlan { every: 1, pairs: 64, alpha: 0.05 },
        test_pairs: 32,
        planted: vec![],
    }
}
