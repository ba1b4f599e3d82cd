//! From a folder to a model that answers, and to one that learns as well.

use crate::device::ComputeDevice;
use crate::generate::{Engine, Version};
use crate::train::{OptimizerSettings, Schedule, Trained};
use crate::{LocalModel, LocalModelError, ModelFolder, Speech, WeightsLayer, digest};
use clawhost_learn::policy::PolicyGradient;
use std::sync::Arc;

/// How weights learn.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct LearningSettings {
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
        let config = Arc::new(self.config.clone());
        let model = device.model(config.clone(), &self.weights)?;
        let version = Version { number: 0, digest: digest(&self.weights), model };
        let speech = Speech {
            name: name.to_owned(),
            tokenizer: self.tokenizer()?,
            template: self.chat_template()?,
            end: config.end_tokens.clone(),
            sampling: self.sampling.clone(),
        };
        Ok(Arc::new(LocalModel::new(speech, Arc::new(Engine::new(version)?))))
    }

    /// The same, and the layer that moves its weights, all of them.
    ///
    /// # Errors
    /// As [`ModelFolder::open`].
    pub fn open_learning(
        &self,
        name: &str,
        settings: &LearningSettings,
        device: &ComputeDevice,
    ) -> Result<(Arc<LocalModel>, WeightsLayer), LocalModelError> {
        let model = self.open(name, device)?;
        let config = Arc::new(self.config.clone());
        let (optimizer, schedule) = (settings.optimizer, settings.schedule);
        let trainer = |schedule| device.trainer(&config, &self.weights, Trained::Full, optimizer, schedule);
        let (engine, objective) = (model.engine().clone(), settings.objective);
        let mut layer = WeightsLayer::new(config.clone(), trainer(schedule)?, engine, objective, device.clone())?;
        if settings.objective.kl > 0.0 {
            layer.stay_near(trainer(Schedule::constant(0.0))?);
        }
        Ok((model, layer))
    }
}
