//! One step of weights from live sessions.

use super::hints::taught;
use super::material::LiveSession;
use super::section::WeightsPlan;
use crate::AppError;
use clawhost_core::{Digest, EpisodeId, ModelError, StateId, Teacher};
use clawhost_learn::policy::{PolicyGradient, Staleness, Updates};
use clawhost_learn::{Batch, Group, Layer as _, LearnError, Measurements, Member, Metric, Removed};
use clawhost_model::device::ComputeDevice;
use clawhost_model::train::{OptimizerSettings, Rule, Schedule};
use clawhost_model::{LearningSettings, LocalModel, ModelFolder, TokenCalls, WeightsLayer};
use std::sync::Arc;

/// Versions between the weights that answered and those that learn. Older answers say little about the current weights, and are left out.
const MOST_LAG: u64 = 8;
/// The largest fall of log-probs in a step, in nats, on average over the tokens of its sessions. A batch of bad answers should become unlikely, and this is
/// a three-thousandth as likely for each token; a step that goes further has a rate that is too large, and is taken back.
const LARGEST_DIVERGENCE: f64 = 8.0;

/// Weights that learn from sessions.
pub(crate) struct Learner {
    model: Arc<LocalModel>,
    layer: WeightsLayer,
    signal: clawhost_learn::policy::LiveSignal,
    teacher: Arc<dyn Teacher>,
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

fn failed(error: impl std::fmt::Display) -> AppError {
    AppError::Host(format!("weights of a live model: {error}"))
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
            // Small batches give noisy gradients, which Muon would make as large as others.
            optimizer: OptimizerSettings { rule: Rule::AdamW, beta2: 0.999, ..OptimizerSettings::default() },
            schedule: Schedule::constant(plan.rate),
        };
        let (model, mut layer) = folder.open_learning(name, &settings, device)?;
        layer.accept(Staleness { max_version_lag: MOST_LAG });
        if let Some(state) = state {
            layer.restore(state).map_err(failed)?;
        }
        let teacher = Arc::new(TokenCalls::new(model.clone()));
        Ok(Self { model, layer, signal: plan.signal, teacher })
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
        let earlier = self.layer.snapshot().map_err(failed)?;
        let batch = self.batch(number, sessions).await?;
        let logprobs = self.logprobs(&batch).await;
        match self.forward(&batch, logprobs).await {
            Ok(Stepped::Taken(metrics)) => Ok(Stepped::Taken(metrics)),
            Ok(other) => self.taken_back(&earlier, other),
            Err(error) => self.taken_back(&earlier, Stepped::Refused(error.to_string())),
        }
    }

    fn taken_back(&mut self, earlier: &[u8], stepped: Stepped) -> Result<Stepped, AppError> {
        self.layer.restore(earlier).map_err(failed)?;
        Ok(stepped)
    }

    async fn forward(&mut self, batch: &Batch, earlier: Option<Vec<f64>>) -> Result<Stepped, LearnError> {
        let forward = self.layer.forward_backward(batch)?;
        let mut metrics = forward.metrics;
        let step = self.layer.optim_step()?;
        if step.updates == 0 {
            return Ok(Stepped::Nothing(metrics));
        }
        metrics.merge(step.metrics);
        let later = self.logprobs(batch).await;
        match earlier.zip(later).and_then(|(earlier, later)| divergence(&earlier, &later)) {
            Some(divergence) if divergence <= LARGEST_DIVERGENCE => Ok(Stepped::Taken(metrics)),
            Some(divergence) => Ok(Stepped::Refused(format!(
                "the step moved the weights by {divergence:.2} nats per token of its sessions, more than {LARGEST_DIVERGENCE}: \
                 use a smaller rate"
            ))),
            None => Ok(Stepped::Refused("the step gave weights that give no numbers: use a smaller rate".to_owned())),
        }
    }

    /// The log-probs of all tokens that were sampled in a batch, under the current weights. `None`: the model cannot compute them.
    async fn logprobs(&self, batch: &Batch) -> Option<Vec<f64>> {
        let calls = TokenCalls::new(self.model.clone());
        let members = batch.groups.iter().flat_map(|group| &group.members);
        let mut all = Vec::new();
        for generated in members.filter_map(|member| member.generated.as_ref()) {
            for sequence in &generated.sequences {
                let scored = calls.teach(&sequence.tokens, generated.logprob_temperature(), 0).await.ok()?;
                all.extend(sequence.of_sampled(scored).map(|token| token.logprob));
            }
        }
        Some(all)
    }

    async fn batch(&self, number: u64, sessions: Vec<Aged>) -> Result<Batch, AppError> {
        let current = self.model.engine().current().number;
        let mut groups = Vec::with_capacity(sessions.len());
        for (mut session, lag) in sessions {
            // Weights that are not known may have been anything.
            let Some(version) = lag.and_then(|lag| current.checked_sub(lag)) else { continue };
            if self.signal.uses_hints() && !session.hints.is_empty() {
                match taught(&self.model, &*self.teacher, &session).await {
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
