//! The stage of the demo: a shop, its reward, a reflector and the rule follower, and the ways to run the loop on it.

use super::plant::{Plant, SCOUTED, plant};
use crate::args::{Common, DemoHarness};
use crate::data::{self, SystemClock};
use crate::exit::UsageError;
use crate::hosting;
use crate::learn_progress::LearnProgress;
use clawhost_core::{Attributes, RunId, Sampling, Usage};
use clawhost_engine::{Host, ModelGrants};
use clawhost_follower::Follower;
use clawhost_learn::Lesson;
use clawhost_learn::harness::{Admission, HarnessSettings, PlaybookView};
use clawhost_learn::playbook::Playbook;
use clawhost_runtime::learn::{
    GatePlan, LearnPlan, LearnPorts, LearnReport, Mean, MemoryStore, Reflecting, evaluate, learn_run, play_and_keep,
};
use clawhost_runtime::{Cancel, ChatPolicy, Plan, Ports, ScoringRule, StopReason};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Pairs of test episodes.
pub(super) const TEST_PAIRS: u64 = 200;
/// Episodes of an iteration.
pub(super) const EPISODES: u64 = 64;

/// Where the plugins are.
pub(super) fn folder(given: Option<&PathBuf>, needed: &str) -> Result<PathBuf, UsageError> {
    let given = given.cloned().or_else(|| std::env::var_os("CLAWHOST_GUESTS").map(PathBuf::from));
    let folder = given.unwrap_or_else(|| PathBuf::from("target/guests"));
    if folder.join(needed).exists() {
        return Ok(folder);
    }
    Err(UsageError(format!(
        "{}: no {needed} there; build the plugins with `cargo xtask guests`, or name their folder with --plugins",
        folder.display()
    )))
}

/// A part of the demo did not come to its end, so nothing is said about any.
#[derive(Debug)]
pub(super) struct Stopped(pub(super) StopReason);

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            StopReason::Cancelled => "stopped",
            StopReason::ModelBudget => "the token or cost budget is spent",
            StopReason::FailureBudget { .. } | StopReason::Unscored { .. } | StopReason::Reflectors { .. } => {
                "an episode failed, so nothing is proved; build the plugins again with `cargo xtask guests`"
            }
        })
    }
}

impl std::error::Error for Stopped {}

pub(super) fn whole(stopped: Option<StopReason>) -> Result<(), Stopped> {
    stopped.map_or(Ok(()), |reason| Err(Stopped(reason)))
}

/// Everything that the arms share.
pub(super) struct Stage<'a> {
    /// Where the plugins were found.
    pub(super) plugins: PathBuf,
    pub(super) ports: Ports,
    pub(super) cancel: Cancel,
    reflector: Arc<clawhost_engine::ReflectorPlugin>,
    play: Plan,
    iterations: u64,
    progress: &'a LearnProgress,
}

/// One way to run the loop.
pub(super) struct Arm<'a> {
    pub(super) name: &'static str,
    /// What it is for.
    pub(super) purpose: &'static str,
    /// Options of the reflector.
    pub(super) mode: &'static str,
    pub(super) admission: Admission,
    pub(super) planted: &'a [Lesson],
}

pub(super) fn meter() -> Arc<dyn clawhost_core::Meter> {
    struct Nothing;
    impl clawhost_core::Meter for Nothing {
        fn spent(&self) -> Usage {
            Usage::default()
        }
    }
    Arc::new(Nothing)
}

impl<'a> Stage<'a> {
    /// Loads the plugins.
    pub(super) async fn new(
        common: &Common,
        options: &DemoHarness,
        progress: &'a LearnProgress,
    ) -> anyhow::Result<Self> {
        let plugins = folder(options.plugins.as_ref(), "env_shop.wasm")?;
        let data = data::folder(common)?;
        let host = hosting::host(Some(data::cache(&data)?), false, false)?;
        let read = |host: &Host, name: &str| -> anyhow::Result<(String, Vec<u8>)> {
            let path: &Path = &plugins.join(name);
            Ok((path.display().to_string(), host.read(path)?))
        };
        let grants = ModelGrants::default();
        let (name, bytes) = read(&host, "env_shop.wasm")?;
        let environment = Arc::new(host.environment(&name, &bytes, grants.clone()).await?);
        let (name, bytes) = read(&host, "reward_state.wasm")?;
        let reward = Arc::new(host.reward(&name, &bytes, grants.clone()).await?);
        let (name, bytes) = read(&host, "reflector_rules.wasm")?;
        let reflector = Arc::new(host.reflector(&name, &bytes, grants).await?);
        let ports = Ports {
            environment,
            rewards: vec![ScoringRule::new(reward, Attributes::new())],
            policy: ChatPolicy::new(Arc::new(Follower), None, Sampling::default()),
            store: Arc::new(MemoryStore::default()),
            clock: Arc::new(SystemClock::new()),
            meter: meter(),
        };
        let play = Plan {
            episodes: EPISODES,
            group: 4,
            concurrency: usize::from(options.concurrency),
            seed: options.seed,
            split: None,
            options: Attributes::new(),
            max_turns: 16,
            branch_at: None,
            first_group: 0,
            positions: None,
            paired: false,
            episode_bytes: host.limits().episode_bytes,
            failure_budget: 0.0,
        };
        let iterations = options.iterations;
        Ok(Self { plugins, ports, reflector, play, iterations, cancel: Cancel::default(), progress })
    }

    /// Runs one arm to its end, and gives what was learned.
    pub(super) async fn learn(
        &self,
        (number, of): (usize, usize),
        arm: &Arm<'_>,
    ) -> anyhow::Result<(LearnReport, Playbook)> {
        let place = format!("arm {number} of {of}");
        self.progress.mention(&format!("{place}: {}, {}", arm.name, arm.purpose));
        self.progress.within(&place);
        let learning = Arc::new(MemoryStore::default());
        let options = vec![("mode".to_owned(), arm.mode.to_owned())];
        let plan = LearnPlan {
            iterations: self.iterations,
            play: self.play.clone(),
            harness: HarnessSettings { admission: arm.admission, ..HarnessSettings::default() },
            reflect_every: 1,
            gate: GatePlan { every: 10, pairs: 512, alpha: 0.05 },
            evolve: None,
            weights: None,
            test_pairs: TEST_PAIRS,
            planted: arm.planted.to_vec(),
        };
        let ports = LearnPorts {
            play: Ports { store: learning.clone(), ..self.ports.clone() },
            reflectors: vec![Reflecting { reflector: self.reflector.clone(), options }],
            evolver: None,
            weights: None,
            demonstrator: None,
            embedder: None,
            learning: learning.clone(),
            playbook: "demo".to_owned(),
            beginning: Playbook::default(),
        };
        let run = RunId(format!("demo-{}", arm.mode));
        let mut report = learn_run(run, plan, ports, serde_json::Value::Null, &self.cancel, self.progress).await?;
        whole(report.stopped.take())?;
        let newest = learning.versions("demo").into_iter().next_back();
        let playbook = newest.map(|version| serde_json::from_value(version.document)).transpose()?;
        Ok((report, playbook.unwrap_or_default()))
    }

    /// What the usual policy makes of training tasks, and the harmful lesson that comes of it.
    pub(super) async fn scout(&self) -> anyhow::Result<Option<Plant>> {
        self.progress.mention(&format!("first: {SCOUTED} episodes without a playbook, to make a harmful lesson of"));
        let plan = Plan { episodes: SCOUTED, group: 1, ..self.play.clone() };
        let (report, episodes) = play_and_keep(
            RunId("demo-scout".into()),
            plan,
            self.ports.clone(),
            None,
            serde_json::Value::Null,
            (&self.cancel, self.progress),
        )
        .await?;
        whole(report.stopped)?;
        Ok(plant(&episodes))
    }

    /// What is reached by whoever is told everything.
    pub(super) async fn oracle(&self) -> anyhow::Result<Option<Mean>> {
        self.progress.mention("last: the test tasks for who is told every rule, as the ceiling");
        let play = Plan { options: vec![("handbook".to_owned(), "all".to_owned())], ..self.play.clone() };
        let nothing = || PlaybookView::serving(Playbook::default(), &Default::default(), 0);
        let (evaluation, report) = evaluate(
            RunId("demo-oracle".into()),
            &play,
            TEST_PAIRS,
            self.ports.clone(),
            [nothing(), nothing()],
            serde_json::Value::Null,
            (&self.cancel, self.progress),
        )
        .await?;
        whole(report.stopped)?;
        Ok(evaluation.after)
    }
}
