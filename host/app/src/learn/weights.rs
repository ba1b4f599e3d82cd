//! Creates the weights layer: the model, its learning settings, and its output folder.

use super::turns;
use crate::events::{Event, EventSink, Warning};
use crate::model_folders::{folder_name, local_folder, read_folder};
use crate::routers::{RoutedSection, described, router_file, router_name};
use crate::session::Session;
use crate::{AppError, ModelSettings, ModelSize, RequestError};
use clawhost_core::{Digest, Teacher};
use clawhost_learn::policy::{Credit, Difficulty, JudgeCredit, PolicyGradient, Truncation, TurnCredit, Updates};
use clawhost_learning::{RoutedLearner, Teaching, WarmStart, WeightsPlan, WeightsPorts, WeightsStage};
use clawhost_model::train::{OptimizerSettings, Rule, Schedule};
use clawhost_model::{
    AdapterSettings, CheckpointWriter, Demonstrator, Learned, LearningSettings, LocalModel, ModelFolder, Targets,
    TokenCalls, WeightsLayer, digest,
};
use clawhost_run_config::{CreditUnit, Key, Layer, LocalModelText, Optimizer, RunSpec, Truncated, WeightsSpec};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of demonstrations that are played.
pub(super) const DEMONSTRATIONS: u64 = 4096;
/// Demonstrations per step.
const DEMONSTRATION_BATCH: u64 = 128;
/// Steps between two evaluations of sampled episodes.
pub(super) const LOOK_EVERY: u64 = 10;
/// Episodes of such an evaluation.
pub(super) const LOOK_EPISODES: u64 = 256;
/// Final learning rate as a share of the highest.
const FLOOR: f64 = 0.1;

/// The local model that learns.
pub(super) struct LearningModel {
    found: ModelFolder,
    settings: LearningSettings,
    /// Its name in the table of the router that the policy names.
    alias: Option<String>,
    /// A teacher in a folder, and the digest of its weights.
    teacher: Option<(Arc<LocalModel>, Digest)>,
    pub(super) model: Arc<LocalModel>,
    pub(super) before: Digest,
    weights: Arc<Mutex<WeightsLayer>>,
}

/// The loss.
fn objective(weights: &WeightsSpec, max_tokens: u32, max_turns: u32) -> Result<PolicyGradient, AppError> {
    let most = NonZeroU32::new(max_tokens.saturating_mul(max_turns)).unwrap_or(NonZeroU32::MAX);
    let mut gradient = PolicyGradient::named(&weights.objective, most)?;
    if let Some(reward) = &mut gradient.reward {
        reward.truncation = match weights.truncated {
            Truncated::Keep => Truncation::Keep,
            Truncated::Mask => Truncation::Mask,
            Truncated::Penalty(penalty) => Truncation::Penalty(penalty),
        };
    }
    gradient.credit = match weights.credit {
        CreditUnit::Episode => Credit::Episode,
        CreditUnit::Turn => Credit::Turn(TurnCredit { weight: weights.credit_weight, ..TurnCredit::default() }),
        CreditUnit::Judge => Credit::Judge(JudgeCredit { weight: weights.credit_weight }),
    };
    if let Some(distillation) = &mut gradient.distillation {
        distillation.top = weights.teacher_top;
    }
    gradient.kl = weights.kl;
    Ok(gradient)
}

/// Which weights of its model a run trains.
///
/// # Errors
/// The specification names a projection that is unknown.
pub(crate) fn learned_by(spec: &RunSpec, weights: &WeightsSpec) -> Result<Learned, AppError> {
    let Some(adapter) = &weights.adapter else { return Ok(Learned::Full) };
    Ok(Learned::Adapter(AdapterSettings {
        rank: adapter.rank as usize,
        alpha: adapter.alpha,
        targets: match adapter.targets.as_slice() {
            [] => Targets::ALL,
            names => Targets::named(names.iter().map(String::as_str))
                .map_err(|error| RequestError::Other(error.to_string()))?,
        },
        seed: spec.play.seed,
    }))
}

fn settings(spec: &RunSpec, weights: &WeightsSpec, iterations: u64) -> Result<LearningSettings, AppError> {
    let learned = learned_by(spec, weights)?;
    let rule = match weights.optimizer {
        Optimizer::Muon => Rule::Muon,
        Optimizer::AdamW => Rule::AdamW,
    };
    let at_least_one = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
    let (epochs, minibatches) = (at_least_one(weights.epochs), at_least_one(weights.minibatches));
    let updates = Updates { epochs, minibatches };
    let total = iterations.saturating_mul(updates.steps());
    Ok(LearningSettings {
        learned,
        objective: objective(weights, spec.policy.max_tokens, spec.play.max_turns)?,
        updates,
        optimizer: OptimizerSettings { rule, ..OptimizerSettings::default() },
        schedule: Schedule { peak: weights.rate, warmup: weights.warmup, total, floor: FLOOR },
    })
}

/// The text of the model that learns: the policy, or the only local model of the router that the policy names, with its name there.
fn place(spec: &RunSpec, machine: &ModelSettings) -> Result<(Option<String>, String), AppError> {
    if spec.policy.local_folder().is_some() {
        return Ok((None, spec.policy.model.clone()));
    }
    let Some(name) = router_name(&spec.policy.model) else {
        let why = "the policy must be the folder of a local model, or a router with one";
        return Err(RequestError::Other(why.to_owned()).into());
    };
    let (folder, file) = described(machine.routers.as_deref(), name)?;
    let local = |(alias, section): (String, RoutedSection)| {
        local_folder(&section.model).is_some().then(|| (alias, section.model.clone()))
    };
    let found: Vec<(String, String)> = file.models.into_iter().filter_map(local).collect();
    match found.as_slice() {
        [(alias, text)] => Ok((Some(alias.clone()), text.clone())),
        others => {
            let names: Vec<&str> = others.iter().map(|(alias, _)| alias.as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let path = router_file(&folder, name, "toml").display().to_string();
            let why = format!("{path}: weights learn in its only local model, and it has {names}");
            Err(RequestError::NoRouter { why }.into())
        }
    }
}

/// A teacher in a folder for this model, with the digest of its weights. An adapter in the folder is part of it.
fn local_teacher(
    place: &Path,
    learner: &ModelFolder,
    machine: &ModelSettings,
    events: &dyn EventSink,
) -> Result<(Arc<LocalModel>, Digest), AppError> {
    let teacher = read_folder(place, None, &machine.texts, events)?;
    if !teacher.has_tokenizer_of(learner) {
        return Err(RequestError::OtherTokenizer { folder: place.display().to_string() }.into());
    }
    let device = machine.open_device(teacher.config.parameters(), events)?;
    Ok((teacher.open(&folder_name(place), &device)?, digest(&teacher.weights)))
}

impl LearningModel {
    /// Opens the model of a run whose weights learn. `None`: they do not learn.
    pub(super) fn open(
        spec: &RunSpec,
        machine: &ModelSettings,
        events: &dyn EventSink,
    ) -> Result<Option<Self>, AppError> {
        let Some(weights) = spec.weights() else { return Ok(None) };
        let (alias, text) = place(spec, machine)?;
        let Some(text) = LocalModelText::of(&text) else { return Ok(None) };
        let folder = &machine.model_folder(text.folder)?;
        let iterations = turns::schedule(spec).iterations_of(Layer::Weights.name(), turns::iterations(spec));
        let settings = settings(spec, weights, iterations)?;
        let mut found = machine.read_local(&text, events)?;
        if !found.sampling.is_trainable() {
            events.event(Event::Warning(Warning::SamplingWhileLearning));
        }
        if found.weights.has_adapter() && settings.learned == Learned::Full {
            events.event(Event::Warning(Warning::AdapterMerged));
        }
        let device = machine.open_device(found.config.parameters(), events)?;
        // Learning samples from all tokens. The folder keeps its own sampling settings.
        let wanted = std::mem::take(&mut found.sampling);
        let (model, layer) = found.open_learning(&folder_name(folder), &settings, &device)?;
        found.sampling = wanted;
        let folder = weights.teacher.as_deref().filter(|_| weights.teacher_endpoint().is_none());
        let teacher = folder.map(|place| local_teacher(&machine.model_folder(place)?, &found, machine, events));
        let teacher = teacher.transpose().map_err(|error| error.of_option(Key::Teacher))?;
        let before = model.engine().current().digest;
        Ok(Some(Self { found, settings, alias, teacher, model, before, weights: Arc::new(Mutex::new(layer)) }))
    }

    /// Its name in the table of a router. `None`: it is the policy.
    pub(super) fn alias(&self) -> Option<&str> {
        self.alias.as_deref()
    }

    pub(super) fn size(&self) -> ModelSize {
        ModelSize { parameters: self.found.config.parameters(), context: self.found.config.context }
    }

    pub(super) fn is_adapter(&self) -> bool {
        self.settings.learned != Learned::Full
    }

    /// The digest of the current weights.
    pub(super) fn digest(&self) -> Digest {
        self.model.engine().current().digest
    }

    /// Sets the folder for checkpoints.
    pub(super) fn write_into(&self, out: &Path) {
        let writer = CheckpointWriter::new(out, self.found.clone());
        self.weights.lock().unwrap_or_else(PoisonError::into_inner).keep_in(writer);
    }

    /// The teacher with what identifies it. `None`: the objective has none.
    async fn teaching(
        &self,
        session: &Session<'_>,
        weights: &WeightsSpec,
        events: &dyn EventSink,
    ) -> Result<Option<(Teaching, serde_json::Value)>, AppError> {
        let (teacher, named): (Arc<dyn Teacher>, _) = match (&self.teacher, weights.teacher_endpoint()) {
            (Some((model, digest)), _) => (Arc::new(TokenCalls::new(model.clone())), serde_json::json!(digest)),
            (None, Some(endpoint)) => {
                let learner = Arc::new(TokenCalls::new(self.model.clone()));
                let teacher = session.models.teacher((endpoint, weights.teacher_top), learner, events).await;
                (teacher.map_err(|error| error.of_option(Key::Teacher))?, serde_json::json!(endpoint))
            }
            (None, None) => return Ok(None),
        };
        let vocabulary = self.found.config.vocabulary;
        Ok(Some((Teaching { teacher, likely: weights.teacher_top, vocabulary }, named)))
    }

    /// The stage. Checks that the environment accepts the options of demonstrations, and that a teacher answers.
    pub(super) async fn stage(
        &self,
        session: &Session<'_>,
        weights: &WeightsSpec,
        events: &dyn EventSink,
    ) -> Result<WeightsStage, AppError> {
        let (teaching, teacher) = self.teaching(session, weights, events).await?.unzip();
        let is_warm = !weights.demonstrations.is_empty();
        if is_warm {
            session.loaded.check_options(&weights.demonstrations).await?;
        }
        let plan = WeightsPlan {
            settings: match teacher {
                None => serde_json::json!(self.settings),
                Some(teacher) => serde_json::json!({ "learning": self.settings, "teacher": teacher }),
            },
            warm_start: is_warm.then(|| WarmStart {
                demonstrations: DEMONSTRATIONS,
                options: weights.demonstrations.clone(),
                batch: DEMONSTRATION_BATCH,
                rate: weights.rate,
                last_rate: weights.rate,
                target: weights.demonstrations_until,
                every: LOOK_EVERY,
                episodes: LOOK_EPISODES,
                steps: weights.demonstrations_steps,
            }),
            refills: weights.refills,
            difficulty: weights.difficulty_filter.then(Difficulty::default),
            evaluate_every: weights.evaluate_every,
            evaluate_episodes: weights.evaluate_episodes,
        };
        let demonstrator = Arc::new(Demonstrator::new(self.model.clone()));
        let weights = self.weights.clone();
        let model = || session.models.opened(self.model.clone()).model;
        let routed = self.alias.clone().map(|name| RoutedLearner { name, model: model() });
        Ok(WeightsStage::new(plan, WeightsPorts { weights, demonstrator: Some(demonstrator), teaching, routed }))
    }
}
