//! A model at a service as a backend of weights: a version is a file with the service's paths of its weights.

use super::TinkerLearner;
use crate::live::weights::backend::{Base, Made, NewVersion, Start, WeightsBackend};
use crate::live::weights::pace::Pace;
use crate::live::weights::section::WeightsPlan;
use crate::live::weights::step::{Aged, Stepped, failed, step};
use crate::models::ModelSettings;
use crate::tinker::{TinkerModel, TinkerVersion};
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{Clock, KnownSecrets, Secret};
use clawhost_model::Learned;
use clawhost_model::generate::Sampling;
use std::path::Path;
use std::sync::Arc;

/// The part of a version's folder with the file.
const PART: &str = "tinker";

/// Trains a model at a service.
pub(in crate::live::weights) struct TinkerBackend {
    model: TinkerModel,
    key: Option<Secret>,
    plan: WeightsPlan,
    models: ModelSettings,
    secrets: KnownSecrets,
    clock: Arc<dyn Clock>,
}

impl TinkerBackend {
    /// # Errors
    /// The plan has something that a service does not do.
    pub(in crate::live::weights) fn new(
        workspace: &Workspace,
        (model, key): (TinkerModel, Option<Secret>),
        plan: WeightsPlan,
    ) -> Result<Self, AppError> {
        let refused = [
            (
                plan.learned == Learned::Full,
                "adapter_rank: must be more than 0: a Tinker service trains adapters alone",
            ),
            (plan.adapters.is_some(), "adapters: a Tinker service trains one adapter, which answers everybody"),
            (plan.teacher.is_some(), "teacher: with a Tinker service the model itself is the teacher"),
            (plan.memory_bytes.is_some(), "memory_mb: a Tinker service has the weights in its own memory"),
        ];
        if let Some((_, why)) = refused.into_iter().find(|(is_wrong, _)| *is_wrong) {
            let (path, why) = (crate::GATEWAY_FILE.to_owned(), format!("weights.{why}"));
            return Err(RequestError::File { path, why }.into());
        }
        let (models, secrets) = (workspace.settings().models.clone(), workspace.secrets().clone());
        Ok(Self { model, key, plan, models, secrets, clock: workspace.clock() })
    }
}

/// Whether what is sampled has the log-probs that a service gives: those of the model at temperature 1.
fn is_plain(sampling: &Sampling) -> bool {
    sampling.temperature.to_bits() == 1.0_f32.to_bits() && sampling.is_trainable()
}

impl WeightsBackend for TinkerBackend {
    fn part(&self) -> &str {
        PART
    }

    fn base(&self) -> Result<Base, AppError> {
        let texts = self.model.texts(&self.models)?;
        let warning = (!is_plain(&texts.format.sampling)).then(|| {
            format!(
                "the model {} draws with a temperature other than 1, or from a part of its tokens (generation_config.json): only requests that \
                 set both teach its weights at a Tinker service",
                self.plan.model
            )
        });
        Ok(Base { digest: self.model.weights(None).1.to_string(), warning })
    }

    fn step(&self, start: &Start, mut sessions: Vec<Aged>, _: &Arc<Pace>) -> Result<Made, AppError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| AppError::Host(format!("training cannot begin: {error}")))?;
        let version = start.folder.as_ref().map(|folder| {
            let missing = || failed(format!("version {} does not say where its weights are", start.number));
            TinkerVersion::read(&folder.join(PART))?.ok_or_else(missing)
        });
        let version = version.transpose()?;
        let service = self.model.service(&self.models, &self.secrets, self.key.clone(), None)?;
        let model = self.model.open(self.model.texts(&self.models)?, &service, version.as_ref(), start.number)?;
        // A service scores at temperature 1.
        sessions.retain(|(session, _)| session.generated.temperature.to_bits() == 1.0_f32.to_bits());
        let tokens: usize = sessions.iter().map(|(session, _)| session.generated.written()).sum();
        let number = start.number + 1;
        runtime.block_on(async {
            let teacher = model.engine().sampler().clone();
            let base = (&service, self.model.base.as_str());
            let mut learner = TinkerLearner::begin(model, base, version.as_ref(), &self.plan).await?;
            let begun = self.clock.monotonic_us();
            let stepped = step(&mut learner, (self.plan.signal, &*teacher), number, sessions).await?;
            let seconds = self.clock.monotonic_us().saturating_sub(begun) as f64 / 1e6;
            let is_taken = matches!(stepped, Stepped::Taken(_));
            let kept = if is_taken { Some(learner.keep(number).await?) } else { None };
            learner.end().await;
            Ok(Made {
                stepped,
                tokens_per_second: (is_taken && seconds > 0.0).then(|| tokens as f64 / seconds),
                version: kept.map(|kept| Box::new(Kept(kept)) as Box<dyn NewVersion>),
            })
        })
    }
}

/// Weights that the service keeps.
struct Kept(TinkerVersion);

impl NewVersion for Kept {
    fn digest(&self) -> String {
        self.0.digest().to_string()
    }

    fn write(&self, folder: &Path) -> Result<(), AppError> {
        self.0.write(&folder.join(PART))
    }
}
