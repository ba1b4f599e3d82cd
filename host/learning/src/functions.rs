//! For programs that embed the loop: a reflector made from a function, and ports that store everything in memory.

use crate::harness::{HarnessPlan, HarnessPorts, HarnessStage, Reflecting};
use crate::memory::MemoryStore;
use crate::report::IterationReport;
use crate::{LearnObserver, LearnPorts};
use async_trait::async_trait;
use clawhost_core::{
    About, Change, Clock, Context, Entry, Environment, Episode, Failure, Meter, Playbook, PluginIdentity, Proposal,
    Reflector, Reward, Usage,
};
use clawhost_play::{ChatPolicy, Environments, Ports, ScoringRule};
use std::sync::Arc;

/// A reflector that calls a function with a group; the function returns lessons.
pub struct ReflectorFunction<F> {
    identity: PluginIdentity,
    about: About,
    suggest: F,
}

impl<F: Fn(&[Arc<Episode>]) -> Vec<String> + Send + Sync> ReflectorFunction<F> {
    /// A reflector with this name.
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
        let entry = |text| Entry { id: String::new(), text, tags: Vec::new(), needs: Vec::new(), extra: Vec::new() };
        let proposal =
            |text| Proposal { change: Change::Add(entry(text)), evidence: Vec::new(), expected_effect: String::new() };
        Ok((self.suggest)(group).into_iter().map(proposal).collect())
    }
}

/// A clock that always shows 0: in-memory runs have no dates.
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

/// An observer that ignores all events.
impl LearnObserver for () {
    fn phase(&self, _: &str, _: u64) {}

    fn iteration(&self, _: &IterationReport, _: u64) {}
}

impl LearnPorts {
    /// Ports of a run that learns a playbook and stores everything in memory.
    pub fn in_memory(
        environment: impl Environment + 'static,
        reward: impl Reward + 'static,
        policy: ChatPolicy,
        reflector: impl Reflector + 'static,
    ) -> Self {
        let store = Arc::new(MemoryStore::default());
        let harness = HarnessPorts {
            reflectors: vec![Reflecting { reflector: Arc::new(reflector), options: Vec::new() }],
            evolver: None,
            embedder: None,
            playbook: environment.identity().name.clone(),
            initial: Default::default(),
        };
        Self {
            play: Ports {
                environments: Environments::One(Arc::new(environment)),
                rewards: vec![ScoringRule::new(Arc::new(reward), Vec::new())],
                policy,
                store: store.clone(),
                clock: Arc::new(NoClock),
                meter: Arc::new(NoMeter),
            },
            learning: store,
            stages: vec![Box::new(HarnessStage::new(HarnessPlan::default(), harness))],
            source: None,
        }
    }
}
