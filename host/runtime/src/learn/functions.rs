//! For programs that embed the loop: ports made of functions, and a run that keeps everything in memory.

use super::LearnObserver;
use super::memory::MemoryStore;
use super::plan::{GatePlan, LearnPlan, LearnPorts, Reflecting};
use super::report::IterationReport;
use crate::ChatPolicy;
use crate::plan::Plan;
use crate::report::EpisodeSummary;
use crate::run::{Observer, Ports, ScoringRule};
use async_trait::async_trait;
use clawhost_core::{
    About, Change, Clock, Context, Entry, Environment, Episode, Failure, FailureKind, Meter, Playbook, PluginIdentity,
    Proposal, Reflector, Reward, RewardDescription, RewardScope, RewardSource, ScoreCard, Scoring, Usage, Verdict,
    code,
};
use clawhost_learn::harness::HarnessSettings;
use std::sync::Arc;

/// A reward that is a function of one episode: a value from 0 to 1, or none where it has nothing to say.
pub struct RewardFunction<F> {
    identity: PluginIdentity,
    description: RewardDescription,
    judge: F,
}

impl<F: Fn(&Episode) -> Option<f64> + Send + Sync> RewardFunction<F> {
    /// A reward of this name. Another function deserves another name: replays and resumed runs go by it.
    pub fn new(name: &str, judge: F) -> Self {
        let description = RewardDescription {
            about: About::named(name),
            minimum: 0.0,
            maximum: 1.0,
            source: RewardSource::Outcome,
            scope: RewardScope::Each,
        };
        Self { identity: PluginIdentity::native(name), description, judge }
    }

    fn verdict(&self, episode: &Episode) -> Verdict {
        match (self.judge)(episode) {
            Some(value) if (0.0..=1.0).contains(&value) => Verdict::Scored(ScoreCard::plain(value)),
            Some(odd) => {
                let why = format!("{}: a reward of {odd}; it must lie between 0 and 1", self.identity.name);
                Verdict::Failed(Failure::new(FailureKind::Plugin, code::PLUGIN_ERROR, why))
            }
            None => Verdict::NotApplicable("nothing to say".to_owned()),
        }
    }
}

#[async_trait]
impl<F: Fn(&Episode) -> Option<f64> + Send + Sync> Reward for RewardFunction<F> {
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
        let verdicts = group.iter().map(|episode| self.verdict(episode)).collect();
        Scoring { verdicts: Ok(verdicts), log: Vec::new(), journal: Vec::new() }
    }
}

/// A reflector that is a function of a group: the lessons that it suggests.
pub struct ReflectorFunction<F> {
    identity: PluginIdentity,
    about: About,
    suggest: F,
}

impl<F: Fn(&[Arc<Episode>]) -> Vec<String> + Send + Sync> ReflectorFunction<F> {
    /// A reflector of this name.
    pub fn new(name: &str, suggest: F) -> Self {
        Self { identity: PluginIdentity::native(name), about: About::named(name), suggest }
    }
}

#[async_trait]
impl<F: Fn(&[Arc<Episode>]) -> Vec<String> + Send + Sync> Reflector for ReflectorFunction<F> {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn about(&self) -> &About {
        &self.about
    }

    async fn reflect(&self, _: &Context, _: &Playbook, group: &[Arc<Episode>]) -> Result<Vec<Proposal>, Failure> {
        let entry = |text| Entry { id: String::new(), text, tags: Vec::new(), extra: Vec::new() };
        let proposal =
            |text| Proposal { change: Change::Add(entry(text)), evidence: Vec::new(), expected_effect: String::new() };
        Ok((self.suggest)(group).into_iter().map(proposal).collect())
    }
}

/// Time does not matter: records are of no date.
struct NoClock;

impl Clock for NoClock {
    fn now_ms(&self) -> u64 {
        0
    }

    fn monotonic_us(&self) -> u64 {
        0
    }
}

struct NoMeter;

impl Meter for NoMeter {
    fn spent(&self) -> Usage {
        Usage::default()
    }
}

/// Nobody watches.
impl Observer for () {
    fn recorded(&self, _: &EpisodeSummary, _: u64, _: u64) {}
}

impl LearnObserver for () {
    fn phase(&self, _: &str, _: u64) {}

    fn iteration(&self, _: &IterationReport, _: u64) {}
}

impl LearnPorts {
    /// Keeps everything in memory, for as long as the process lives.
    pub fn in_memory(
        environment: impl Environment + 'static,
        reward: impl Reward + 'static,
        policy: ChatPolicy,
        reflector: impl Reflector + 'static,
    ) -> Self {
        let store = Arc::new(MemoryStore::default());
        Self {
            playbook: environment.identity().name.clone(),
            play: Ports {
                environment: Arc::new(environment),
                rewards: vec![ScoringRule::new(Arc::new(reward), Vec::new())],
                policy,
                store: store.clone(),
                clock: Arc::new(NoClock),
                meter: Arc::new(NoMeter),
            },
            reflectors: vec![Reflecting { reflector: Arc::new(reflector), options: Vec::new() }],
            evolver: None,
            weights: None,
            demonstrator: None,
            embedder: None,
            learning: store,
            beginning: clawhost_learn::playbook::Playbook::default(),
        }
    }
}

impl LearnPlan {
    /// As the program learns where nothing is chosen: 64 episodes an iteration in groups of 4, and 200 pairs for the report.
    pub fn new(iterations: u64, seed: u64) -> Self {
        Self {
            iterations,
            play: Plan::new(64, 4, seed),
            harness: HarnessSettings::default(),
            reflect_every: 1,
            gate: GatePlan { every: 10, pairs: 512, alpha: clawhost_learn::gate::ALPHA },
            evolve: None,
            weights: None,
            test_pairs: 200,
            planted: Vec::new(),
        }
    }
}
