//! From a folder to a model that answers, and to one that learns as well.

use crate::device::ComputeDevice;
use crate::folder::ADAPTER;
use crate::generate::{Engine, Version};
use crate::train::{OptimizerSettings, Schedule, Trained};
use crate::{
    AdapterFolder, AdapterSettings, ChatFormat, HostMatrix, Learned, LocalModel, LocalModelError, ModelFolder,
    Overlong, Weight, WeightsLayer, digest, is_adapter, memory,
};
use clawhost_learn::policy::PolicyGradient;
use std::sync::Arc;

/// How weights learn.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct LearningSettings {
    /// Which weights learn.
    pub learned: Learned,
    /// What is minimised.
    pub objective: PolicyGradient,
    /// How a step is taken.
    pub optimizer: OptimizerSettings,
    /// How fast, step by step.
    pub schedule: Schedule,
}

impl ModelFolder {
    /// The model behind the port of all models, answering on this device.
    ///
    /// # Errors
    /// Its tokenizer or template cannot be used, or the device does not take it.
    pub fn open(&self, name: &str, device: &ComputeDevice) -> Result<Arc<LocalModel>, LocalModelError> {
        Ok(Arc::new(LocalModel::new(self.chat_format(name)?, Arc::new(self.engine(device)?))))
    }

    /// How it speaks.
    ///
    /// # Errors
    /// Its tokenizer or template cannot be used.
    pub fn chat_format(&self, name: &str) -> Result<ChatFormat, LocalModelError> {
        let tokenizer = self.tokenizer()?;
        let own = self.words.get("eos_token").and_then(|word| tokenizer.token(word));
        let mut end = self.config.end_tokens.clone();
        // What its template ends a turn with comes first: answers that are given in its place end so too.
        end.sort_by_key(|token| Some(*token) != own);
        Ok(ChatFormat {
            name: name.to_owned(),
            template: self.chat_template(&tokenizer)?,
            tokenizer,
            end,
            sampling: self.sampling.clone(),
            overlong: Overlong::default(),
            digest: self.chat_format_digest(),
        })
    }

    /// What answers in tokens.
    ///
    /// # Errors
    /// No thread could be started, or the device does not take the weights.
    pub fn engine(&self, device: &ComputeDevice) -> Result<Engine, LocalModelError> {
        let model = device.model(Arc::new(self.config.clone()), &self.weights)?;
        Engine::new(Version { number: 0, digest: digest(&self.weights), model })
    }

    /// The same, and the layer that moves its weights: all of them, an adapter that lies there being added first, or an adapter
    /// alone, which is the one that lies there, or else a fresh one.
    ///
    /// # Errors
    /// As [`ModelFolder::open`], or settings of an adapter make no sense.
    pub fn open_learning(
        &self,
        name: &str,
        settings: &LearningSettings,
        device: &ComputeDevice,
    ) -> Result<(Arc<LocalModel>, WeightsLayer), LocalModelError> {
        let (weights, trained) = match settings.learned {
            Learned::Full => (self.weights.merged(), Trained::Full),
            Learned::Adapter(wanted) if self.weights.has_adapter() => {
                let found = AdapterFolder::of(&self.weights, "")?.settings;
                if (found.rank, found.alpha, found.targets) != (wanted.rank, wanted.alpha, wanted.targets) {
                    let told = |one: &AdapterSettings| {
                        let targets: Vec<_> = one.targets.names().collect();
                        format!("one of rank {} and alpha {} beside {}", one.rank, one.alpha, targets.join(","))
                    };
                    return Err(LocalModelError::Adapter(format!(
                        "the model's folder has {} already, which would go on learning, not {}; ask for its own, or take the folder `{ADAPTER}` away",
                        told(&found),
                        told(&wanted)
                    )));
                }
                (self.weights.clone(), Trained::Adapters)
            }
            Learned::Adapter(adapter) => (adapter.attach(&self.weights)?, Trained::Adapters),
        };
        if device.is_processor() {
            let values = |weight: &Weight<HostMatrix, Arc<[f32]>>| match weight {
                Weight::Matrix(matrix) => matrix.values.len() as u64,
                Weight::Vector(values) => values.len() as u64,
            };
            let all = weights.weights();
            let learned = all.iter().filter(|(name, _)| trained == Trained::Full || is_adapter(name));
            let learned = learned.map(|(_, weight)| values(weight)).sum();
            let all = all.iter().map(|(_, weight)| values(weight)).sum();
            memory::check("learning", memory::of_learning(all, learned))?;
        }
        let this = Self { weights, ..self.clone() };
        let model = this.open(name, device)?;
        let config = Arc::new(self.config.clone());
        let (optimizer, schedule) = (settings.optimizer, settings.schedule);
        let trainer = |schedule| device.trainer(&config, &this.weights, trained, optimizer, schedule);
        let (engine, objective) = (model.engine().clone(), settings.objective);
        let mut layer = WeightsLayer::new(config.clone(), trainer(schedule)?, engine, objective, device.clone())?;
        // An adapter is held near the model without it, which is there already.
        if settings.objective.kl > 0.0 && trained == Trained::Full {
            layer.stay_near(trainer(Schedule::constant(0.0))?);
        }
        Ok((model, layer))
    }
}
