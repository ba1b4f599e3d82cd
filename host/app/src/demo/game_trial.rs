//! Trains a tiny model in a game, and measures it.

use super::NoMeter;
use super::game::Game;
use super::halted::{Part, whole};
use super::plugins::DemoPlugins;
use super::shuffled::shuffle;
use super::step::{DemoStep, Measurement, Teacher};
use crate::events::Watch;
use crate::{Event, EventSink, SystemClock};
use clawhost_core::{Llm, RunId, Sampling, SpecDocument};
use clawhost_learn::policy::{Generated, Updates};
use clawhost_learn::{Layer as _, LearnError, Weights};
use clawhost_learning::{
    LearnPlan, LearnPorts, LearnReport, LearnStart, MemoryStore, TrainingThread, WarmStart, WeightsPlan, WeightsPorts,
    WeightsStage, learn,
};
use clawhost_model::device::ComputeDevice;
use clawhost_model::train::{OptimizerSettings, Schedule};
use clawhost_model::{Demonstrator, Learned, LearningSettings, LocalModel, TinyModel, WeightsLayer};
use clawhost_play::{
    Cancel, ChatPolicy, Environments, Interval, Plan, PlayedRun, Ports, RunReport, RunRequest, ScoringRule, StopReason,
    play_run,
};
use std::sync::{Arc, Mutex, PoisonError};

/// Group number of the first test episode, far above the group numbers of training, so that seeds differ.
const TESTS_FROM: u64 = 1 << 40;
/// Steps on demonstrations that take about as long as one iteration with rewards.
const IMITATIONS: u64 = 3;
/// Concurrent episodes: all of them, because the model computes the next tokens of all episodes in one batch.
const TOGETHER: usize = 1024;

/// The ports, the model and the settings of one game.
pub(super) struct GameTrial<'a> {
    game: Game,
    seed: u64,
    play: Plan,
    ports: Ports,
    model: Arc<LocalModel>,
    weights: Arc<Mutex<WeightsLayer>>,
    settings: LearningSettings,
    training: TrainingThread,
    cancel: &'a Cancel,
    events: &'a dyn EventSink,
}

/// The results of a model on the test tasks.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Measured {
    /// Mean reward, sampled at temperature 1.
    pub sampled: f64,
    /// Mean reward with greedy decoding.
    pub greedy: f64,
    /// Lower end of the 95 % interval of the sampled reward.
    pub low: f64,
    /// Upper end of the same interval.
    pub high: f64,
    /// Mean turns of the sampled episodes.
    pub turns: f64,
}

impl<'a> GameTrial<'a> {
    /// Loads the plugins and creates the model.
    pub(super) async fn new(
        game: Game,
        plugins: &DemoPlugins<'_>,
        (seed, device): (u64, &ComputeDevice),
        (cancel, events): (&'a Cancel, &'a dyn EventSink),
    ) -> Part<Self> {
        let environment = plugins.environment(game.environment).await?;
        let (file, options) = &game.reward;
        let reward = plugins.reward(file, options).await?;
        let settings = LearningSettings {
            learned: Learned::Full,
            objective: game.objective()?,
            updates: Updates::default(),
            optimizer: OptimizerSettings::default(),
            schedule: Schedule { peak: game.rate, warmup: 5, total: game.iterations, floor: 0.1 },
        };
        let folder = TinyModel { seed, ..TinyModel::default() }.make()?;
        let (model, weights) = folder.open_learning("tiny", &settings, device)?;
        let ports = Ports {
            environments: Environments::One(environment),
            rewards: vec![reward],
            policy: policy(model.clone(), 1.0, game.max_tokens),
            store: Arc::new(MemoryStore::default()),
            clock: Arc::new(SystemClock::default()),
            meter: Arc::new(NoMeter),
        };
        let play = Plan {
            concurrency: TOGETHER,
            options: game.options.clone(),
            max_turns: game.max_turns,
            episode_bytes: plugins.host.limits().episode_bytes,
            failure_budget: 0.0,
            ..Plan::new(game.groups * u64::from(game.group), game.group, seed)
        };
        let (weights, training) = (Arc::new(Mutex::new(weights)), TrainingThread::start()?);
        Ok(Self { game, seed, play, ports, model, weights, settings, training, cancel, events })
    }

    /// Learns from demonstrations until the sampled reward reaches the target.
    pub(super) async fn imitate(&self) -> Part<LearnReport> {
        let warm_start = Some(self.game.warm_start());
        self.learn(Teacher::Demonstrations, 0, warm_start, self.ports.rewards.clone()).await
    }

    /// Learns from rewards, starting from the current weights.
    pub(super) async fn reinforce(&self) -> Part<LearnReport> {
        self.learn(Teacher::Rewards, self.game.iterations, None, self.ports.rewards.clone()).await
    }

    /// Learns from shuffled rewards, which carry no signal, starting from the current weights.
    pub(super) async fn reinforce_shuffled(&self) -> Part<LearnReport> {
        let rewards = self.ports.rewards.iter().map(|rule| shuffle(rule, self.seed)).collect();
        self.learn(Teacher::ShuffledRewards, self.game.iterations, None, rewards).await
    }

    async fn learn(
        &self,
        teacher: Teacher,
        iterations: u64,
        warm_start: Option<WarmStart>,
        rewards: Vec<ScoringRule>,
    ) -> Part<LearnReport> {
        self.events.event(Event::Demo(DemoStep::Learning { game: self.game.name, teacher }));
        let learning = Arc::new(MemoryStore::default());
        let plan = WeightsPlan {
            settings: serde_json::json!(self.settings),
            warm_start,
            refills: 0,
            difficulty: None,
            evaluate_every: 0,
            evaluate_episodes: 0,
        };
        let weights = WeightsPorts {
            weights: self.weights.clone(),
            demonstrator: Some(self.demonstrator()),
            teaching: None,
            routed: None,
        };
        let policy = match teacher {
            Teacher::Demonstrations => self.ports.policy.clone(),
            Teacher::Rewards | Teacher::ShuffledRewards => {
                policy(self.model.clone(), self.game.temperature, self.game.max_tokens)
            }
        };
        let ports = LearnPorts {
            play: Ports { store: learning.clone(), rewards, policy, ..self.ports.clone() },
            learning,
            stages: vec![Box::new(WeightsStage::new(plan, weights))],
            source: None,
        };
        let plan = LearnPlan { play: self.play.clone(), test_pairs: 0, ..LearnPlan::new(iterations, self.seed) };
        let run = RunId(format!("demo-{}", self.game.name));
        // The run is never stored.
        let start = LearnStart::New(SpecDocument::none());
        let mut report = learn(run, plan, ports, start, self.cancel, &Watch(self.events)).await?;
        whole(report.stopped.take())?;
        Ok(report)
    }

    fn demonstrator(&self) -> Arc<dyn Llm> {
        Arc::new(Demonstrator::new(self.model.clone()))
    }

    /// Runs a job on the weights, on the training thread.
    async fn compute<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut WeightsLayer) -> Result<T, LearnError> + Send + 'static,
    ) -> Part<T> {
        let weights = self.weights.clone();
        let locked = move || job(&mut weights.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(self.training.run(locked).await??)
    }

    /// Learns from more of the same demonstrations. The number of steps is chosen to take about as long as learning from rewards.
    pub(super) async fn imitate_on(&self) -> Part<()> {
        let steps = self.game.iterations * IMITATIONS;
        self.events.event(Event::Demo(DemoStep::MoreDemonstrations { game: self.game.name, steps }));
        let mut options = self.play.options.clone();
        options.extend(self.game.demonstrate.iter().cloned());
        let plan = Plan { episodes: self.game.demonstrations, group: 1, options, ..self.play.clone() };
        let policy = ChatPolicy::new(self.demonstrator(), Some(String::new()), Sampling::default());
        let ports = Ports { policy, ..self.ports.clone() };
        let run = format!("{}-demonstrations", self.game.name);
        let PlayedRun { report, episodes } = self.play(run, plan, ports, true).await?;
        whole(report.stopped)?;
        let all: Vec<Arc<Generated>> = episodes.iter().filter_map(|one| Generated::of(one).map(Arc::new)).collect();
        let batch = usize::try_from(self.game.batch).unwrap_or(usize::MAX).max(1);
        for (step, demonstrations) in (0..steps).zip(all.chunks(batch).cycle()) {
            if self.cancel.is_requested() {
                return Err(StopReason::Cancelled.into());
            }
            let left = 1.0 - step as f64 / steps as f64;
            let (demonstrations, rate) = (demonstrations.to_vec(), self.game.rate * left.max(0.1));
            self.compute(move |weights| weights.supervise(&demonstrations, rate)).await?;
            self.events.event(Event::Progress { done: step + 1, total: steps });
        }
        self.compute(Weights::publish).await
    }

    /// Measures the model on the test tasks, sampled and greedy.
    pub(super) async fn measure(&self, measurement: Measurement) -> Part<Measured> {
        let sampled = self.play_tests(measurement, true).await?;
        let greedy = self.play_tests(measurement, false).await?;
        let interval = sampled.reward_interval.unwrap_or(Interval { low: 0.0, high: 1.0 });
        Ok(Measured {
            sampled: sampled.reward_mean.unwrap_or(0.0),
            greedy: greedy.reward_mean.unwrap_or(0.0),
            low: interval.low,
            high: interval.high,
            turns: sampled.steps as f64 / sampled.episodes.len().max(1) as f64,
        })
    }

    async fn play_tests(&self, measurement: Measurement, sampled: bool) -> Part<RunReport> {
        self.events.event(Event::Demo(DemoStep::Measuring { game: self.game.name, measurement, sampled }));
        let temperature = if sampled { 1.0 } else { 0.0 };
        let policy = policy(self.model.clone(), temperature, self.game.max_tokens);
        let ports = Ports { policy, ..self.ports.clone() };
        // Each episode is a group of its own, with a group number that training does not use.
        let plan = Plan {
            episodes: self.game.tests,
            group: 1,
            split: Some("test".to_owned()),
            first_group: TESTS_FROM,
            ..self.play.clone()
        };
        let kind = if sampled { "sampled" } else { "greedy" };
        let run = format!("{}-{}-{kind}", self.game.name, measurement.words());
        let mut report = self.play(run, plan, ports, false).await?.report;
        whole(report.stopped.take())?;
        Ok(report)
    }

    async fn play(&self, run: String, plan: Plan, ports: Ports, keeps_episodes: bool) -> Part<PlayedRun> {
        self.events.event(Event::Phase { name: run.clone(), episodes: plan.episodes });
        let request = RunRequest { keeps_episodes, ..RunRequest::new(RunId(run), plan, ports) };
        Ok(play_run(request, self.cancel, &Watch(self.events)).await?)
    }

    /// A snapshot of the current weights, for [`GameTrial::restore`].
    pub(super) async fn snapshot(&self) -> Part<Vec<u8>> {
        self.compute(|weights| weights.snapshot()).await
    }

    /// Restores a snapshot of the weights.
    pub(super) async fn restore(&self, bytes: &[u8]) -> Part<()> {
        let bytes = bytes.to_vec();
        self.compute(move |weights| weights.restore(&bytes)).await
    }
}

/// A policy of the model without a system prompt.
fn policy(model: Arc<LocalModel>, temperature: f32, max_tokens: u32) -> ChatPolicy {
    ChatPolicy::new(model, Some(String::new()), Sampling { temperature: Some(temperature), top_p: None, max_tokens })
}
