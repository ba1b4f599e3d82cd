//! A small learning set-up: lights as the environment, and the follower as the policy. The follower acts only on its prompt, so
//! everything that is learned is in the playbook.

use crate::environments::Lights;
use crate::environments::lights::{FALSE, GREEN, NEUTRAL, RED};
use crate::observers::Watching;
use crate::reflectors::Proposer;
use crate::rewards::Marks;
use crate::stores::Shelf;
use crate::time::{Free, Still};
use clawhost_core::{RunId, Sampling, SpecDocument};
use clawhost_follower::Follower;
use clawhost_learn::playbook::Playbook;
use clawhost_learning::{
    GatePlan, HarnessPlan, HarnessPorts, HarnessStage, LearnPlan, LearnPorts, LearnReport, LearnStart, LearningError,
    LearningStage, Reflecting, Schedule, learn,
};
use clawhost_play::{Cancel, ChatPolicy, Environments, Plan, Ports, ScoringRule};
use std::sync::Arc;

/// A plan with this number of episodes, in groups of one, with at most 8 turns.
pub fn plan(episodes: u64) -> Plan {
    Plan { concurrency: 4, max_turns: 8, episode_bytes: 1 << 20, ..Plan::new(episodes, 1, 7) }
}

/// The plan of a run in which only the harness learns.
#[derive(Debug, Clone)]
pub struct WorldPlan {
    /// Number of iterations.
    pub iterations: u64,
    /// The settings that all phases share.
    pub play: Plan,
    /// Reflectors are called after every batch of this number, beginning with the first.
    pub reflect_every: u64,
    /// The plan of the gate.
    pub gate: GatePlan,
    /// Pairs of test episodes.
    pub test_pairs: u64,
}

impl WorldPlan {
    /// The plan of the run.
    pub fn run(&self) -> LearnPlan {
        LearnPlan {
            iterations: self.iterations,
            play: self.play.clone(),
            test_pairs: self.test_pairs,
            schedule: Schedule::Joint,
        }
    }

    /// The plan of the harness.
    pub fn harness(&self) -> HarnessPlan {
        HarnessPlan { reflect_every: self.reflect_every, gate: self.gate.clone(), ..HarnessPlan::default() }
    }
}

/// A small plan that suffices to learn two rules.
pub fn small() -> WorldPlan {
    WorldPlan {
        iterations: 4,
        play: Plan { episodes: 64, group: 4, failure_budget: 1.0, ..plan(64) },
        reflect_every: 1,
        gate: GatePlan { every: 1, pairs: 64, alpha: 0.05 },
        test_pairs: 32,
    }
}

/// The ports of a learning run, and its store.
pub struct World {
    /// The environment.
    pub environment: Arc<Lights>,
    /// The reward.
    pub marks: Arc<Marks>,
    /// The operator's system prompt.
    pub prompt: Option<String>,
    /// The reflectors.
    pub reflectors: Vec<Arc<Proposer>>,
    /// The store of everything.
    pub store: Arc<Shelf>,
    /// The observer.
    pub watching: Watching,
    /// Cancels the run.
    pub cancel: Cancel,
}

impl World {
    /// A world with one reflector.
    pub fn new(reflector: Arc<Proposer>) -> Self {
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

    /// A world whose reflector proposes two helpful lessons, one without effect, and a harmful one.
    pub fn usual() -> Self {
        Self::new(Proposer::of(&[RED, GREEN, NEUTRAL, FALSE]))
    }

    /// The id of the run.
    pub fn run() -> RunId {
        RunId("learn".into())
    }

    /// The ports for playing, judging and recording.
    pub fn play_ports(&self) -> Ports {
        Ports {
            environments: Environments::One(self.environment.clone()),
            rewards: vec![ScoringRule::new(self.marks.clone(), vec![])],
            policy: ChatPolicy::new(Arc::new(Follower), self.prompt.clone(), Sampling::default()),
            store: self.store.clone(),
            clock: Arc::new(Still),
            meter: Arc::new(Free),
        }
    }

    /// A harness that learns from this world's reflectors.
    pub fn harness(&self, plan: HarnessPlan) -> HarnessStage {
        let reflecting = |one: &Arc<Proposer>| Reflecting { reflector: one.clone(), options: vec![] };
        let ports = HarnessPorts {
            reflectors: self.reflectors.iter().map(reflecting).collect(),
            evolver: None,
            embedder: None,
            playbook: "lights".into(),
            initial: Playbook::default(),
        };
        HarnessStage::new(plan, ports)
    }

    /// The ports of a run in which these layers learn.
    pub fn ports(&self, stages: Vec<Box<dyn LearningStage>>) -> LearnPorts {
        LearnPorts { play: self.play_ports(), learning: self.store.clone(), stages, source: None }
    }

    /// The ports of a run in which only the harness learns.
    pub fn harness_ports(&self, plan: &WorldPlan) -> LearnPorts {
        self.ports(vec![Box::new(self.harness(plan.harness()))])
    }

    /// Begins a run.
    ///
    /// # Errors
    /// As the loop's.
    pub async fn begin(&self, plan: LearnPlan, ports: LearnPorts) -> Result<LearnReport, LearningError> {
        let start = LearnStart::New(SpecDocument(serde_json::json!({ "kind": "learn" })));
        learn(Self::run(), plan, ports, start, &self.cancel, &self.watching).await
    }

    /// Resumes the run from the store. Begins it if the store does not have it.
    ///
    /// # Errors
    /// As the loop's.
    pub async fn resume(&self, plan: LearnPlan, ports: LearnPorts) -> Result<LearnReport, LearningError> {
        if !self.store.has_run(&Self::run()) {
            return self.begin(plan, ports).await;
        }
        learn(Self::run(), plan, ports, LearnStart::Resumed, &self.cancel, &self.watching).await
    }

    /// Begins a run in which only the harness learns.
    ///
    /// # Errors
    /// As the loop's.
    pub async fn try_learn(&self, plan: &WorldPlan) -> Result<LearnReport, LearningError> {
        self.begin(plan.run(), self.harness_ports(plan)).await
    }

    /// As [`World::try_learn`], for runs that cannot fail.
    pub async fn learn(&self, plan: &WorldPlan) -> LearnReport {
        self.try_learn(plan).await.unwrap()
    }

    /// Learns with another plan in a copy of this world whose store is empty.
    pub async fn learn_with(&self, plan: &WorldPlan) -> LearnReport {
        let world = Self {
            environment: self.environment.clone(),
            marks: self.marks.clone(),
            prompt: self.prompt.clone(),
            ..Self::new(self.reflectors[0].clone())
        };
        world.learn(plan).await
    }

    /// Resumes a run in which only the harness learns.
    ///
    /// # Errors
    /// As the loop's.
    pub async fn go_on(&self, plan: &WorldPlan) -> Result<LearnReport, LearningError> {
        self.resume(plan.run(), self.harness_ports(plan)).await
    }

    /// The deployed lessons, one line each, sorted.
    pub fn deployed(&self) -> Vec<String> {
        let Some(version) = self.store.versions("lights").pop() else { return Vec::new() };
        let playbook: Playbook = serde_json::from_value(version.document).unwrap();
        let mut lines: Vec<String> = playbook.entries.iter().map(|entry| entry.lesson.line()).collect();
        lines.sort();
        lines
    }
}
