//! Weights of a local model, trained by this process.

use super::backend::{Base, Made, NewVersion, Start, WeightsBackend};
use super::pace::Pace;
use super::section::WeightsPlan;
use super::step::{Aged, Learner, Stepped};
use crate::events::Silent;
use crate::model_folders::{folder_name, read_folder};
use crate::models::{ModelFactory, ModelSettings};
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{Clock, KnownSecrets};
use clawhost_learn::policy::HINT_TOP;
use clawhost_model::{AdapterFolder, ModelFolder, TokenCalls, digest};
use clawhost_run_config::BudgetSpec;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file of the optimiser's state in the folder of a version.
const STATE: &str = "state.bin";
/// The folder of an adapter in the folder of a version.
const ADAPTER: &str = "adapter";
/// Largest size of an optimiser's state in bytes: three numbers for each of ten billion weights.
const STATE_BYTES: u64 = 128 << 30;
/// Longest name that a message repeats, in bytes.
const SHOWN_BYTES: usize = 200;
/// Concurrent calls of a teacher.
const CONCURRENCY: usize = 4;

/// Trains the model of a folder.
pub(super) struct LocalBackend {
    folder: PathBuf,
    name: String,
    plan: WeightsPlan,
    models: ModelSettings,
    secrets: KnownSecrets,
    clock: Arc<dyn Clock>,
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> AppError {
    RequestError::File { path: path.display().to_string(), why: why.to_string() }.into()
}

impl LocalBackend {
    pub(super) fn new(workspace: &Workspace, folder: PathBuf, plan: WeightsPlan) -> Self {
        Self {
            name: folder_name(&folder),
            folder,
            plan,
            models: workspace.settings().models.clone(),
            secrets: workspace.secrets().clone(),
            clock: workspace.clock(),
        }
    }

    /// The model with the weights of a version, and the optimiser's state.
    fn read(&self, start: &Start) -> Result<(ModelFolder, Option<Vec<u8>>), AppError> {
        let read = |folder: &Path| read_folder(folder, None, &self.models.texts, &Silent);
        let model = match (&start.folder, self.plan.adapters) {
            (Some(version), None) => read(&version.join(&self.name))?,
            (None, None) => read(&self.folder)?,
            (version, Some(_)) => {
                let model = read(&self.folder)?;
                if digest(&model.weights).to_string() != start.base {
                    return Err(unusable(&self.folder, "the weights have changed since learning began"));
                }
                let base = model.weights.merged();
                let attached = |version: &PathBuf| AdapterFolder::read(&version.join(ADAPTER))?.attach(&base);
                let weights = version.as_ref().map(attached).transpose()?.unwrap_or(base);
                ModelFolder { weights, ..model }
            }
        };
        let path = start.folder.as_ref().map(|version| version.join(STATE)).filter(|path| path.exists());
        let state = path.map(|path| clawhost_files::read(&path, STATE_BYTES).map_err(|error| unusable(&path, error)));
        Ok((model, state.transpose()?))
    }

    /// Refuses a step that needs more memory than the operator allows.
    fn check_ceiling(&self, model: &ModelFolder) -> Result<(), AppError> {
        let Some(allowed) = self.plan.memory_bytes else { return Ok(()) };
        let needed = model.step_bytes(self.plan.learned)?;
        if needed <= allowed {
            return Ok(());
        }
        let named = clawhost_core::escaped(&self.plan.model, SHOWN_BYTES);
        let (needed, allowed) = (needed.div_ceil(1 << 20), allowed >> 20);
        let why = format!(
            "weights.memory_mb: a step of {named} needs {needed} MiB, and {allowed} are allowed; allow more, use a smaller model, or learn an adapter"
        );
        Err(RequestError::File { path: crate::GATEWAY_FILE.to_owned(), why }.into())
    }
}

impl WeightsBackend for LocalBackend {
    fn part(&self) -> &str {
        if self.plan.adapters.is_some() { ADAPTER } else { &self.name }
    }

    fn base(&self) -> Result<Base, AppError> {
        let model = read_folder(&self.folder, None, &self.models.texts, &Silent)?;
        self.check_ceiling(&model)?;
        let warning = (!model.sampling.is_trainable()).then(|| {
            format!(
                "the model {} draws from a part of its tokens or with a penalty (top_k, top_p, min_p or repetition_penalty in generation_config.json): only requests that turn \
                 this off teach its weights",
                self.plan.model
            )
        });
        Ok(Base { digest: digest(&model.weights).to_string(), warning })
    }

    fn step(&self, start: &Start, sessions: Vec<Aged>, pace: &Arc<Pace>) -> Result<Made, AppError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| AppError::Host(format!("training cannot begin: {error}")))?;
        let (model, state) = self.read(start)?;
        self.check_ceiling(&model)?;
        let device = self.models.open_device(model.config.parameters(), &Silent)?;
        if device.is_processor() {
            model.check_step_memory(self.plan.learned)?;
        }
        let mut learner = Learner::open(&model, &self.name, &self.plan, &device, state.as_deref())?;
        // The trainer has it now, and the step keeps one of its own.
        drop(state);
        learner.set_pace(pace.clone());
        pace.ended_piece();
        if let Some(spec) = self.plan.teacher.as_deref().filter(|_| self.plan.signal.uses_hints()) {
            let tokens = Arc::new(TokenCalls::new(learner.model().clone()));
            let models =
                ModelFactory::new(self.models.clone(), &BudgetSpec::default(), CONCURRENCY, self.secrets.clone());
            learner.set_teacher(runtime.block_on(models.teacher((spec, HINT_TOP), tokens, &Silent))?);
        }
        let tokens: usize = sessions.iter().map(|(session, _)| session.generated.written()).sum();
        let begun = self.clock.monotonic_us();
        let stepped = runtime.block_on(learner.step(start.number + 1, sessions))?;
        let seconds = self.clock.monotonic_us().saturating_sub(begun) as f64 / 1e6;
        if !matches!(stepped, Stepped::Taken(_)) {
            return Ok(Made { stepped, tokens_per_second: None, version: None });
        }
        let weights = learner.layer().host().clone();
        let learned = match self.plan.adapters {
            None => {
                LearnedWeights::Whole { name: self.name.clone(), model: Box::new(ModelFolder { weights, ..model }) }
            }
            Some(_) => LearnedWeights::Adapter {
                adapter: AdapterFolder::bound(&weights, &self.folder.display().to_string())?,
                base: start.base.parse().map_err(|_| unusable(&self.folder, "its digest cannot be read"))?,
            },
        };
        Ok(Made {
            stepped,
            tokens_per_second: (seconds > 0.0).then(|| tokens as f64 / seconds),
            version: Some(Box::new(Version { learned, state: learner.state()? })),
        })
    }
}

/// New weights with the optimiser's state.
struct Version {
    learned: LearnedWeights,
    state: Vec<u8>,
}

enum LearnedWeights {
    /// A whole model.
    Whole { name: String, model: Box<ModelFolder> },
    /// An adapter of the model with these weights.
    Adapter { adapter: AdapterFolder, base: clawhost_core::Digest },
}

impl NewVersion for Version {
    fn digest(&self) -> String {
        match &self.learned {
            LearnedWeights::Whole { model, .. } => digest(&model.weights).to_string(),
            LearnedWeights::Adapter { adapter, base } => adapter.digest_with(*base).to_string(),
        }
    }

    fn write(&self, folder: &Path) -> Result<(), AppError> {
        match &self.learned {
            LearnedWeights::Whole { name, model } => model.write(&folder.join(name))?,
            LearnedWeights::Adapter { adapter, .. } => adapter.write(&folder.join(ADAPTER))?,
        }
        let path = folder.join(STATE);
        std::fs::write(&path, &self.state).map_err(|error| unusable(&path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pace::{Processors, Rests};
    use super::super::tests::plan;
    use super::*;
    use crate::WorkspaceSettings;
    use clawhost_model::TinyModel;

    #[test]
    fn a_step_that_needs_more_memory_than_is_allowed_is_not_begun() {
        let data = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(WorkspaceSettings::new(data.path())).unwrap();
        let folder = data.path().join("model");
        TinyModel::default().make().unwrap().write(&folder).unwrap();
        let backend = |memory_bytes: Option<u64>| {
            LocalBackend::new(&workspace, folder.clone(), WeightsPlan { memory_bytes, ..plan("binary") })
        };
        let model = backend(None).read(&start()).unwrap().0;
        let needed = model.step_bytes(plan("binary").learned).unwrap();
        let pace = Arc::new(Pace::new(Processors::of(1, 1.0), workspace.clock(), Arc::new(Rests::default())));
        for enough in [None, Some(needed)] {
            assert!(backend(enough).base().is_ok() && backend(enough).step(&start(), Vec::new(), &pace).is_ok());
        }
        let tight = backend(Some(needed - 1));
        let (at_the_start, at_a_step) = (tight.base().err(), tight.step(&start(), Vec::new(), &pace).err());
        for why in [at_the_start.unwrap(), at_a_step.unwrap()] {
            let (why, mib) = (why.to_string(), needed.div_ceil(1 << 20));
            assert!(why.contains(&format!("weights.memory_mb: a step of tiny needs {mib} MiB, and ")), "{why}");
        }
    }

    fn start() -> Start {
        Start { number: 0, folder: None, base: String::new() }
    }
}
