//! One step of weights from live sessions.

use super::hints::taught;
use super::material::LiveSession;
use super::pace::Pace;
use super::section::WeightsPlan;
use crate::AppError;
use async_trait::async_trait;
use clawhost_core::{Digest, EpisodeId, ModelError, StateId, Teacher};
use clawhost_learn::policy::{LiveSignal, PolicyGradient, Staleness, Updates};
use clawhost_learn::{Batch, Forward, Group, Layer as _, LearnError, Measurements, Member, Metric, Removed, Step};
use clawhost_model::device::ComputeDevice;
use clawhost_model::generate::{Engine, Generator};
use clawhost_model::train::{OptimizerSettings, Rule, Schedule};
use clawhost_model::{Between, ChatModel, LearningSettings, LocalModel, LocalTeacher, ModelFolder, WeightsLayer};
use std::sync::Arc;

/// Versions between the weights that answered and those that learn. Older answers say little about the current weights, and are left out.
pub(super) const MOST_LAG: u64 = 8;
/// The largest fall of log-probs in a step, in nats, on average over the tokens of its sessions. A batch of bad answers should become unlikely, and this is
/// a three-thousandth as likely for each token; a step that goes further has a rate that is too large, and is taken back.
const LARGEST_DIVERGENCE: f64 = 8.0;

/// Weights that learn from sessions.
pub(crate) struct Learner {
    model: Arc<LocalModel>,
    layer: WeightsLayer,
    signal: LiveSignal,
    teacher: Arc<dyn Teacher>,
    /// Where it rests. `None`: it does not.
    pace: Option<Arc<Pace>>,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stepped {
    /// There are new weights.
    Taken(Measurements),
    /// The sessions teach nothing: rewards are equal, and nobody corrected anything, or all of it is too old.
    Nothing(Measurements),
    /// The step was taken back.
    Refused(String),
}

/// A session with the number of versions since the weights that answered it. `None`: they are not known.
pub(crate) type Aged = (LiveSession, Option<u64>);

pub(super) fn failed(error: impl std::fmt::Display) -> AppError {
    AppError::Host(format!("weights of a live model: {error}"))
}

/// The optimiser. Small batches give noisy gradients, which Muon would make as large as others.
pub(super) fn optimizer() -> OptimizerSettings {
    OptimizerSettings { rule: Rule::AdamW, beta2: 0.999, ..OptimizerSettings::default() }
}

impl Learner {
    /// Opens weights for learning. `state`: the optimiser's, of an earlier step. The teacher of answers with a correction is the model itself.
    ///
    /// # Errors
    /// The weights cannot be opened, the machine lacks memory, or the state belongs to other weights.
    pub(crate) fn open(
        folder: &ModelFolder,
        name: &str,
        plan: &WeightsPlan,
        device: &ComputeDevice,
        state: Option<&[u8]>,
    ) -> Result<Self, AppError> {
        let settings = LearningSettings {
            learned: plan.learned,
            objective: PolicyGradient::live(plan.signal),
            updates: Updates { epochs: plan.epochs, ..Updates::default() },
            optimizer: optimizer(),
            schedule: Schedule::constant(plan.rate),
        };
        let (model, mut layer) = folder.open_learning(name, &settings, device)?;
        layer.accept(Staleness { max_version_lag: MOST_LAG });
        if let Some(state) = state {
            layer.restore(state).map_err(failed)?;
        }
        let teacher = Arc::new(LocalTeacher::new(model.clone()));
        Ok(Self { model, layer, signal: plan.signal, teacher, pace: None })
    }

    /// Sets where it rests: between its passes.
    pub(crate) fn set_pace(&mut self, pace: Arc<Pace>) {
        let own = pace.clone();
        self.layer.call_between(Between::new(move || own.ended_piece()));
        self.pace = Some(pace);
    }

    /// Sets another teacher of answers with a correction. It has the same tokens.
    pub(crate) fn set_teacher(&mut self, teacher: Arc<dyn Teacher>) {
        self.teacher = teacher;
    }

    /// The model as it is now.
    pub(crate) fn model(&self) -> &Arc<LocalModel> {
        &self.model
    }

    /// The optimiser's state, with the weights.
    ///
    /// # Errors
    /// The device does not return it.
    pub(crate) fn state(&self) -> Result<Vec<u8>, AppError> {
        self.layer.snapshot().map_err(failed)
    }

    /// The weights as they are now.
    pub(crate) fn layer(&self) -> &WeightsLayer {
        &self.layer
    }

    /// Takes a step over some sessions, all or nothing.
    ///
    /// # Errors
    /// The teacher does not answer, or the device does not return the weights. They are as before.
    pub(crate) async fn step(&mut self, number: u64, sessions: Vec<Aged>) -> Result<Stepped, AppError> {
        let teacher = self.teacher.clone();
        step(self, (self.signal, &*teacher), number, sessions).await
    }
}

/// Weights that a step changes, wherever they are.
#[async_trait(?Send)]
pub(super) trait Steppable {
    /// What answers with them.
    type Generator: Generator;
    /// To go back to.
    type Snapshot;
    /// The model as it was when learning began: its number and its texts count.
    fn model(&self) -> &ChatModel<Self::Generator>;
    /// What [`Self::restore`] goes back to.
    async fn snapshot(&mut self) -> Result<Self::Snapshot, AppError>;
    /// Goes back, and drops gradients that wait.
    async fn restore(&mut self, earlier: Self::Snapshot) -> Result<(), AppError>;
    /// As [`clawhost_learn::Layer::forward_backward`].
    async fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError>;
    /// As [`clawhost_learn::Layer::optim_step`].
    async fn optim_step(&mut self) -> Result<Step, LearnError>;
    /// The log-probs of all tokens that were sampled in a batch, under the current weights. `None`: they cannot be computed.
    ///
    /// # Errors
    /// [`LearnError::Unavailable`].
    async fn logprobs(&self, batch: &Batch) -> Result<Option<Vec<f64>>, LearnError>;
    /// A conversation was scored on this thread: rests, if training here has a pace.
    fn ended_piece(&self) {}
}

#[async_trait(?Send)]
impl Steppable for Learner {
    type Generator = Engine;
    type Snapshot = Vec<u8>;

    fn model(&self) -> &LocalModel {
        &self.model
    }

    async fn snapshot(&mut self) -> Result<Vec<u8>, AppError> {
        self.state()
    }

    async fn restore(&mut self, earlier: Vec<u8>) -> Result<(), AppError> {
        self.layer.restore(&earlier).map_err(failed)
    }

    async fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError> {
        self.layer.forward_backward(batch)
    }

    async fn optim_step(&mut self) -> Result<Step, LearnError> {
        self.layer.optim_step()
    }

    async fn logprobs(&self, batch: &Batch) -> Result<Option<Vec<f64>>, LearnError> {
        // On this thread, and not on the one that answers: a step keeps its priority and its threads.
        let scores = LocalTeacher::new(self.model.clone());
        let members = batch.groups.iter().flat_map(|group| &group.members);
        let mut all = Vec::new();
        for generated in members.filter_map(|member| member.generated.as_ref()) {
            for sequence in &generated.sequences {
                let scored = scores.teach(&sequence.tokens, generated.logprob_temperature(), 0).await;
                self.ended_piece();
                let Ok(scored) = scored else { return Ok(None) };
                all.extend(sequence.of_sampled(scored).map(|token| token.logprob));
            }
        }
        Ok(Some(all))
    }

    fn ended_piece(&self) {
        if let Some(pace) = &self.pace {
            pace.ended_piece();
        }
    }
}

/// Takes a step over some sessions, all or nothing. `number`: of the version that it may make.
///
/// # Errors
/// The teacher does not answer, or the weights cannot be reached or restored. Open the weights anew and try the same sessions again.
pub(super) async fn step<W: Steppable>(
    weights: &mut W,
    learns: (LiveSignal, &dyn Teacher),
    number: u64,
    sessions: Vec<Aged>,
) -> Result<Stepped, AppError> {
    let earlier = weights.snapshot().await?;
    let batch = batch(weights, learns, number, sessions).await?;
    let stepped = match forward(weights, &batch).await {
        Ok(Stepped::Taken(metrics)) => return Ok(Stepped::Taken(metrics)),
        Ok(other) => other,
        // The caller tries the same sessions again.
        Err(error @ LearnError::Unavailable { .. }) => return Err(failed(error)),
        Err(error) => Stepped::Refused(error.to_string()),
    };
    weights.restore(earlier).await?;
    Ok(stepped)
}

async fn forward<W: Steppable>(weights: &mut W, batch: &Batch) -> Result<Stepped, LearnError> {
    let earlier = weights.logprobs(batch).await?;
    let forward = weights.forward_backward(batch).await?;
    let mut metrics = forward.metrics;
    let step = weights.optim_step().await?;
    if step.updates == 0 {
        return Ok(Stepped::Nothing(metrics));
    }
    metrics.merge(step.metrics);
    let later = weights.logprobs(batch).await?;
    match earlier.zip(later).and_then(|(earlier, later)| divergence(&earlier, &later)) {
        Some(divergence) if divergence <= LARGEST_DIVERGENCE => Ok(Stepped::Taken(metrics)),
        Some(divergence) => Ok(Stepped::Refused(format!(
            "the step moved the weights by {divergence:.2} nats per token of its sessions, more than {LARGEST_DIVERGENCE}: \
             use a smaller rate"
        ))),
        None => Ok(Stepped::Refused("the step gave weights that give no numbers: use a smaller rate".to_owned())),
    }
}

async fn batch<W: Steppable>(
    weights: &W,
    (signal, teacher): (LiveSignal, &dyn Teacher),
    number: u64,
    sessions: Vec<Aged>,
) -> Result<Batch, AppError> {
    let (current, _) = weights.model().engine().weights();
    let mut groups = Vec::with_capacity(sessions.len());
    for (mut session, lag) in sessions {
        // Weights that are not known may have been anything.
        let Some(version) = lag.and_then(|lag| current.checked_sub(lag)) else { continue };
        if signal.uses_hints() && !session.hints.is_empty() {
            let taught = taught(weights.model(), teacher, &session).await;
            weights.ended_piece();
            match taught {
                Ok(taught) => session.generated.taught = taught,
                // Too long with its hint, or answered with nonsense: its reward still counts.
                Err(error @ (ModelError::TooLong(_) | ModelError::Refused(_) | ModelError::InvalidResponse(_))) => {
                    tracing::info!("the correction of {} is not learned from: {error}", session.name);
                }
                // The teacher may come back: nothing is taken yet.
                Err(error) => return Err(failed(error)),
            }
        }
        let LiveSession { name, class, reward, mut generated, .. } = session;
        if generated.taught.is_empty() && reward.is_none() {
            continue;
        }
        (generated.unrewarded, generated.version) = (reward.is_none(), version);
        let (episode, reward) = (EpisodeId(name), reward.unwrap_or_default());
        let member = Member { episode, reward, shown: 0, generated: Some(Arc::new(generated)) };
        groups.push(Group { task: class, seed: 0, drawn: Vec::new(), propensity: 1.0, members: vec![member] });
    }
    let state_id = StateId(Digest::of(b"live weights").extended(&number.to_le_bytes()));
    Ok(Batch { number, state_id, groups, answers: Vec::new(), removed: Removed::default() })
}

/// The mean fall of log-probs in nats. `None`: a number is not finite.
fn divergence(earlier: &[f64], later: &[f64]) -> Option<f64> {
    let falls = earlier.iter().zip(later).map(|(earlier, later)| earlier - later);
    let mean = falls.sum::<f64>() / earlier.len().max(1) as f64;
    mean.is_finite().then_some(mean)
}

/// Numbers of a step for people and for the page.
pub(crate) fn shown(metrics: &Measurements) -> Vec<(String, f64)> {
    [Metric::RewardMean, Metric::Loss, Metric::GradientNorm, Metric::Tokens]
        .into_iter()
        .filter_map(|metric| Some((metric.name().to_owned(), metrics.get(metric)?)))
        .collect()
}
