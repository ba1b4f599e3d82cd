//! A tiny model in a game: who plays, who judges, what learns, and how it is measured.

use super::part::Part;
use super::shuffled::shuffle;
use crate::data::SystemClock;
use crate::demo::stage::{meter, whole};
use crate::learn_progress::LearnProgress;
use clawhost_core::{Llm, RunId, Sampling};
use clawhost_engine::{Host, ModelGrants};
use clawhost_learn::harness::HarnessSettings;
use clawhost_learn::playbook::Playbook;
use clawhost_learn::policy::Generated;
use clawhost_learn::{Layer as _, Weights};
use clawhost_model::device::ComputeDevice;
use clawhost_model::train::{OptimizerSettings, Schedule};
use clawhost_model::{Demonstrator, Learned, LearningSettings, LocalModel, TinyModel, WeightsLayer};
use clawhost_runtime::learn::{
    GatePlan, LearnPlan, LearnPorts, LearnReport, MemoryStore, WarmStart, WeightsPlan, learn_run, play_and_keep,
};
use clawhost_runtime::{Cancel, ChatPolicy, Plan, Ports, RunReport, ScoringRule};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Group of the first test episode: far from every seed of training.
const TESTS_FROM: u64 = 1 << 40;
/// Steps of demonstrations that take about as long as one iteration of rewards.
const IMITATIONS: u64 = 3;

/// Everything that a part needs.
pub(super) struct Stage<'a> {
    part: Part,
    seed: u64,
    play: Plan,
    ports: Ports,
    model: Arc<LocalModel>,
    weights: Arc<Mutex<WeightsLayer>>,
    settings: LearningSettings,
    cancel: &'a Cancel,
    progress: &'a LearnProgress,
}

/// What a model came to on the test tasks.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(super) struct Measured {
    /// Mean reward, sampled at temperature 1.
    pub(super) sampled: f64,
    /// Mean reward of the likeliest answers.
    pub(super) greedy: f64,
    /// Of the first: 95 %.
    pub(super) low: f64,
    pub(super) high: f64,
    /// Mean turns of the sampled episodes.
    pub(super) turns: f64,
}

impl<'a> Stage<'a> {
    /// Loads the plugins and makes the model.
    pub(super) async fn new(
        host: &Host,
        plugins: &Path,
        part: Part,
        (seed, device): (u64, &ComputeDevice),
        (cancel, progress): (&'a Cancel, &'a LearnProgress),
    ) -> anyhow::Result<Self> {
        let read = |name: &str| -> anyhow::Result<(String, Vec<u8>)> {
            let path = plugins.join(name);
            Ok((path.display().to_string(), host.read(&path)?))
        };
        let (name, bytes) = read(part.environment)?;
        let environment = Arc::new(host.environment(&name, &bytes, ModelGrants::default()).await?);
        let (file, options) = &part.reward;
        let (name, bytes) = read(file)?;
        let reward = Arc::new(host.reward(&name, &bytes, ModelGrants::default()).await?);
        let settings = LearningSettings {
            learned: Learned::Full,
            objective: part.objective()?,
            optimizer: OptimizerSettings::default(),
            schedule: Schedule { peak: part.rate, warmup: 5, total: part.iterations, floor: 0.1 },
        };
        let folder = TinyModel { seed, ..TinyModel::default() }.make()?;
        let (model, weights) = folder.open_learning("tiny", &settings, device)?;
        let asked: Arc<dyn Llm> = model.clone();
        let sampling = Sampling { temperature: Some(1.0), max_tokens: part.max_tokens };
        let ports = Ports {
            environment,
            rewards: vec![ScoringRule::new(reward, options.clone())],
            policy: ChatPolicy::new(asked, Some(String::new()), sampling),
            store: Arc::new(MemoryStore::default()),
            clock: Arc::new(SystemClock::new()),
            meter: meter(),
        };
        let play = Plan {
            episodes: part.groups * u64::from(part.group),
            group: part.group,
            // All at once: the model computes the next token of every episode together.
            concurrency: 1024,
            seed,
            split: None,
            options: part.options.clone(),
            max_turns: part.max_turns,
            branch_at: None,
            first_group: 0,
            positions: None,
            paired: false,
            episode_bytes: host.limits().episode_bytes,
            failure_budget: 0.0,
        };
        Ok(Self { part, seed, play, ports, model, weights: Arc::new(Mutex::new(weights)), settings, cancel, progress })
    }

    /// Demonstrations alone, until rewards have something to say.
    pub(super) async fn imitate(&self) -> anyhow::Result<LearnReport> {
        self.learn("demonstrations", 0, Some(self.part.warm_start()), self.ports.rewards.clone()).await
    }

    /// Rewards alone, from the weights as they are; or shuffled ones, which say nothing.
    pub(super) async fn reinforce(&self, shuffled: bool) -> anyhow::Result<LearnReport> {
        let rewards = match shuffled {
            false => self.ports.rewards.clone(),
            true => self.ports.rewards.iter().map(|rule| shuffle(rule, self.seed)).collect(),
        };
        let name = if shuffled { "shuffled rewards" } else { "rewards" };
        self.learn(name, self.part.iterations, None, rewards).await
    }

    async fn learn(
        &self,
        name: &str,
        iterations: u64,
        warm_start: Option<WarmStart>,
        rewards: Vec<ScoringRule>,
    ) -> anyhow::Result<LearnReport> {
        self.progress.within(&format!("{}, {name}", self.part.name));
        let learning = Arc::new(MemoryStore::default());
        let plan = LearnPlan {
            iterations,
            play: self.play.clone(),
            harness: HarnessSettings::default(),
            reflect_every: u64::MAX,
            gate: GatePlan { every: u64::MAX, pairs: 1, alpha: 0.05 },
            evolve: None,
            weights: Some(WeightsPlan {
                settings: serde_json::json!(self.settings),
                warm_start,
                refills: 0,
                difficulty: None,
                evaluate_every: 0,
                evaluate_episodes: 0,
            }),
            test_pairs: 0,
            planted: Vec::new(),
        };
        let ports = LearnPorts {
            play: Ports { store: learning.clone(), rewards, ..self.ports.clone() },
            reflectors: Vec::new(),
            evolver: None,
            weights: Some(self.weights.clone()),
            demonstrator: Some(self.demonstrator()),
            embedder: None,
            learning,
            playbook: "none".to_owned(),
            beginning: Playbook::default(),
        };
        let run = RunId(format!("demo-{}", self.part.name));
        let mut report = learn_run(run, plan, ports, serde_json::Value::Null, self.cancel, self.progress).await?;
        whole(report.stopped.take())?;
        Ok(report)
    }

    fn demonstrator(&self) -> Arc<dyn Llm> {
        Arc::new(Demonstrator::new(self.model.clone()))
    }

    /// More of the same demonstrations, for as many steps as took about as long as the rewards did.
    pub(super) async fn imitate_on(&self) -> anyhow::Result<()> {
        let steps = self.part.iterations * IMITATIONS;
        self.progress.mention(&format!("{}: {steps} more steps of demonstrations, as a control", self.part.name));
        let mut options = self.play.options.clone();
        options.extend(self.part.demonstrate.iter().cloned());
        let plan = Plan { episodes: self.part.demonstrations, group: 1, options, ..self.play.clone() };
        let policy = ChatPolicy::new(self.demonstrator(), Some(String::new()), Sampling::default());
        let ports = Ports { policy, ..self.ports.clone() };
        let run = RunId(format!("{}-demonstrations", self.part.name));
        let nothing = serde_json::Value::Null;
        let (report, episodes) = play_and_keep(run, plan, ports, None, nothing, (self.cancel, self.progress)).await?;
        whole(report.stopped)?;
        let all: Vec<Arc<Generated>> = episodes.iter().filter_map(|one| Generated::of(one).map(Arc::new)).collect();
        let batch = usize::try_from(self.part.batch)?;
        let mut weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
        for (step, demonstrations) in (0..steps).zip(all.chunks(batch.max(1)).cycle()) {
            if self.cancel.is_requested() {
                break;
            }
            let left = 1.0 - step as f64 / steps as f64;
            weights.supervise(demonstrations, self.part.rate * left.max(0.1))?;
        }
        Ok(Weights::publish(&mut *weights)?)
    }

    /// How the model does on the test tasks now.
    pub(super) async fn measure(&self, name: &str) -> anyhow::Result<Measured> {
        let sampled = self.play_tests(&format!("{name}-sampled"), 1.0).await?;
        let greedy = self.play_tests(&format!("{name}-greedy"), 0.0).await?;
        let interval = sampled.reward_interval.unwrap_or(clawhost_runtime::Interval { low: 0.0, high: 1.0 });
        Ok(Measured {
            sampled: sampled.reward_mean.unwrap_or(0.0),
            greedy: greedy.reward_mean.unwrap_or(0.0),
            low: interval.low,
            high: interval.high,
            turns: sampled.steps as f64 / sampled.episodes.len().max(1) as f64,
        })
    }

    async fn play_tests(&self, name: &str, temperature: f32) -> anyhow::Result<RunReport> {
        self.progress.mention(&format!("{}: {name}", self.part.name));
        let sampling = Sampling { temperature: Some(temperature), max_tokens: self.part.max_tokens };
        let asked: Arc<dyn Llm> = self.model.clone();
        let ports = Ports { policy: ChatPolicy::new(asked, Some(String::new()), sampling), ..self.ports.clone() };
        // Far from every seed of training: each episode is a group of its own.
        let plan = Plan {
            episodes: self.part.tests,
            group: 1,
            split: Some("test".to_owned()),
            first_group: TESTS_FROM,
            ..self.play.clone()
        };
        let run = RunId(format!("{}-{name}", self.part.name));
        let nothing = serde_json::Value::Null;
        let (report, _) = play_and_keep(run, plan, ports, None, nothing, (self.cancel, self.progress)).await?;
        whole(report.stopped.clone())?;
        Ok(report)
    }

    /// The weights as they are, to come back to.
    pub(super) fn snapshot(&self) -> anyhow::Result<Vec<u8>> {
        Ok(self.weights.lock().unwrap_or_else(PoisonError::into_inner).snapshot()?)
    }

    /// Back to weights of before.
    pub(super) fn restore(&self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.weights.lock().unwrap_or_else(PoisonError::into_inner).restore(bytes)?)
    }
}
