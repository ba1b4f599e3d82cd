//! The arms of the harness demonstration. All of them use a shop, its reward, a reflector and the follower.

use super::halted::{Part, whole};
use super::plant::{Plant, SCOUTED, plant};
use super::plugins::DemoPlugins;
use super::step::{DemoStep, HarnessArm};
use super::{HarnessDemo, NoMeter};
use crate::events::Watch;
use crate::{AppError, Event, EventSink, SystemClock};
use clawhost_core::{Attributes, RunId, RunLabels, Sampling, SpecDocument};
use clawhost_engine::ReflectorPlugin;
use clawhost_follower::Follower;
use clawhost_learn::Lesson;
use clawhost_learn::budget::BudgetPlan;
use clawhost_learn::gate::ALPHA;
use clawhost_learn::harness::{Admission, HarnessSettings, PlaybookView};
use clawhost_learn::playbook::Playbook;
use clawhost_learning::{
    GatePlan, HarnessPlan, HarnessPorts, HarnessStage, LearnPlan, LearnPorts, LearnReport, LearnStart, LearningError,
    Mean, MemoryStore, Reflecting, Schedule, evaluate_playbooks, learn,
};
use clawhost_play::{Cancel, ChatPolicy, Environments, Plan, PlayedRun, Ports, RunRequest, play_run};
use std::sync::Arc;

/// Number of pairs of test episodes.
pub const TEST_PAIRS: u64 = 200;
/// Episodes per iteration.
pub const EPISODES: u64 = 64;
/// The name of the playbook in every arm.
const PLAYBOOK: &str = "demo";

/// The ports and settings that all arms share.
pub(super) struct HarnessArms<'a> {
    ports: Ports,
    reflector: Arc<ReflectorPlugin>,
    play: Plan,
    iterations: u64,
    cancel: &'a Cancel,
    events: &'a dyn EventSink,
}

/// The differences between arms: the option `mode` of the reflector, and the rule of admission.
fn design(arm: HarnessArm) -> (&'static str, Admission) {
    match arm {
        HarnessArm::Full => ("rules", Admission::Measured),
        HarnessArm::SilentReflector => ("silent", Admission::Measured),
        HarnessArm::ShuffledProposals => ("shuffled", Admission::Measured),
        HarnessArm::EverythingAdmitted => ("rules", Admission::Everything),
    }
}

/// Whether a harmful lesson is planted in an arm.
fn is_planted(arm: HarnessArm) -> bool {
    matches!(arm, HarnessArm::Full | HarnessArm::EverythingAdmitted)
}

impl<'a> HarnessArms<'a> {
    /// Loads the plugins.
    pub(super) async fn new(
        demo: &HarnessDemo,
        plugins: &DemoPlugins<'_>,
        cancel: &'a Cancel,
        events: &'a dyn EventSink,
    ) -> Part<Self> {
        let environment = plugins.environment("env_shop.wasm").await?;
        let reward = plugins.reward("reward_state.wasm", &Attributes::new()).await?;
        let reflector = plugins.reflector("reflector_rules.wasm").await?;
        let ports = Ports {
            environments: Environments::One(environment),
            rewards: vec![reward],
            policy: ChatPolicy::new(Arc::new(Follower), None, Sampling::default()),
            store: Arc::new(MemoryStore::default()),
            clock: Arc::new(SystemClock::default()),
            meter: Arc::new(NoMeter),
        };
        let play = Plan {
            concurrency: usize::from(demo.concurrency),
            max_turns: 16,
            episode_bytes: plugins.host.limits().episode_bytes,
            failure_budget: 0.0,
            ..Plan::new(EPISODES, 4, demo.seed)
        };
        Ok(Self { ports, reflector, play, iterations: demo.iterations, cancel, events })
    }

    /// Runs one arm to its end. Returns the report and the learned playbook.
    pub(super) async fn learn(&self, arm: HarnessArm, planted: &[Lesson]) -> Part<(LearnReport, Playbook)> {
        let (mode, admission) = design(arm);
        let plan = HarnessPlan {
            settings: HarnessSettings { admission, ..HarnessSettings::default() },
            reflect_every: 1,
            gate: GatePlan { every: 10, pairs: 512, alpha: ALPHA },
            evolve: None,
            budget: None,
            allowance: None,
            planted: if is_planted(arm) { planted.to_vec() } else { Vec::new() },
        };
        self.run(mode, plan, (self.iterations, self.play.clone())).await
    }

    /// Learns with a small number of episodes. Nothing is planted.
    pub(super) async fn learn_with(&self, arm: HarnessArm, budget: BudgetPlan) -> Part<LearnReport> {
        let plan = HarnessPlan {
            settings: HarnessSettings { admission: Admission::Bundle, ..HarnessSettings::default() },
            reflect_every: 1,
            gate: GatePlan { every: budget.batches, pairs: budget.pairs, alpha: ALPHA },
            evolve: None,
            budget: Some(budget),
            allowance: None,
            planted: Vec::new(),
        };
        let play = Plan { episodes: budget.batch, group: 1, ..self.play.clone() };
        Ok(self.run(design(arm).0, plan, (budget.batches, play)).await?.0)
    }

    async fn run(
        &self,
        mode: &str,
        plan: HarnessPlan,
        (iterations, play): (u64, Plan),
    ) -> Part<(LearnReport, Playbook)> {
        let learning = Arc::new(MemoryStore::default());
        let harness = HarnessPorts {
            reflectors: vec![Reflecting {
                reflector: self.reflector.clone(),
                options: vec![("mode".to_owned(), mode.to_owned())],
            }],
            evolver: None,
            embedder: None,
            playbook: PLAYBOOK.to_owned(),
            initial: Playbook::default(),
        };
        let ports = LearnPorts {
            play: Ports { store: learning.clone(), ..self.ports.clone() },
            learning: learning.clone(),
            stages: vec![Box::new(HarnessStage::new(plan, harness))],
            source: None,
        };
        let plan = LearnPlan { iterations, play, test_pairs: TEST_PAIRS, schedule: Schedule::Joint };
        let run = RunId(format!("demo-{mode}"));
        // The run is never stored.
        let start = LearnStart::New(SpecDocument::none());
        let mut report = learn(run, plan, ports, start, self.cancel, &Watch(self.events)).await?;
        whole(report.stopped.take())?;
        Ok((report, newest_playbook(&learning, PLAYBOOK)?))
    }

    /// Plays training tasks without a playbook, and makes a harmful lesson from the episodes.
    pub(super) async fn scout(&self) -> Part<Option<Plant>> {
        self.events.event(Event::Demo(DemoStep::Scouting { episodes: SCOUTED }));
        self.events.event(Event::Phase { name: "scout".to_owned(), episodes: SCOUTED });
        let plan = Plan { episodes: SCOUTED, group: 1, ..self.play.clone() };
        let request = RunRequest::new(RunId("demo-scout".to_owned()), plan, self.ports.clone());
        let request = RunRequest { keeps_episodes: true, ..request };
        let PlayedRun { report, episodes } = play_run(request, self.cancel, &Watch(self.events)).await?;
        whole(report.stopped)?;
        Ok(plant(&episodes))
    }

    /// Mean test reward of a policy whose prompt has every rule.
    pub(super) async fn ceiling(&self) -> Part<Option<Mean>> {
        self.events.event(Event::Demo(DemoStep::Ceiling));
        self.events.event(Event::Phase { name: "ceiling".to_owned(), episodes: TEST_PAIRS * 2 });
        let play = Plan { options: vec![("handbook".to_owned(), "all".to_owned())], ..self.play.clone() };
        let nothing = || PlaybookView::serving(Playbook::default(), &Default::default(), 0);
        let (evaluation, report) = evaluate_playbooks(
            RunId("demo-oracle".to_owned()),
            &play,
            TEST_PAIRS,
            self.ports.clone(),
            [nothing(), nothing()],
            (SpecDocument::none(), RunLabels::default()),
            (self.cancel, &Watch(self.events)),
        )
        .await?;
        whole(report.stopped)?;
        Ok(evaluation.after)
    }
}

/// The newest version of a playbook in the store of a run; empty if it deployed none.
pub(super) fn newest_playbook(store: &MemoryStore, name: &str) -> Part<Playbook> {
    let newest = store.versions(name).into_iter().next_back();
    let playbook = newest.map(|version| serde_json::from_value(version.document)).transpose();
    let damaged =
        |error: serde_json::Error| LearningError::Playbook { playbook: name.to_owned(), why: error.to_string() };
    Ok(playbook.map_err(|error| AppError::from(damaged(error)))?.unwrap_or_default())
}
