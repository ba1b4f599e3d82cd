//! Opens a model folder for inference, or for inference and learning.

use crate::chat_folder::{control_marks, end_of_turn_first};
use crate::device::ComputeDevice;
use crate::folder::ADAPTER;
use crate::generate::{Engine, Room, Version};
use crate::tokens::TemplateArguments;
use crate::train::{OptimizerSettings, Schedule, Trained, kept_by_a_pass};
use crate::{
    AdapterFolder, AdapterSettings, ChatFormat, Dtype, HostDecoder, Learned, LocalModel, LocalModelError, LowRank,
    ModelFolder, Overlong, WeightsLayer, digest, memory,
};
use clawhost_learn::policy::{PolicyGradient, Updates};
use std::sync::Arc;

/// How weights learn.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct LearningSettings {
    /// Which weights learn.
    pub learned: Learned,
    /// The loss.
    pub objective: PolicyGradient,
    /// The optimiser steps of an iteration.
    pub updates: Updates,
    /// The optimiser.
    pub optimizer: OptimizerSettings,
    /// The learning rate of each step.
    pub schedule: Schedule,
}

impl ModelFolder {
    /// Opens the model behind the port `Llm` for inference on this device.
    ///
    /// # Errors
    /// Its tokenizer or template cannot be used, or the device does not accept it.
    pub fn open(&self, name: &str, device: &ComputeDevice) -> Result<Arc<LocalModel>, LocalModelError> {
        self.open_version(0, name, device)
    }

    /// The same, with the number that its answers give as the version of the weights.
    ///
    /// # Errors
    /// As [`ModelFolder::open`].
    pub fn open_version(
        &self,
        number: u64,
        name: &str,
        device: &ComputeDevice,
    ) -> Result<Arc<LocalModel>, LocalModelError> {
        self.open_within(Room::of_machine(), number, name, device)
    }

    fn open_within(
        &self,
        room: Room,
        number: u64,
        name: &str,
        device: &ComputeDevice,
    ) -> Result<Arc<LocalModel>, LocalModelError> {
        let chat_format = self.chat_format(name)?;
        Ok(Arc::new(LocalModel::new(chat_format, Arc::new(self.engine_within(room, number, device)?))))
    }

    /// The chat format.
    ///
    /// # Errors
    /// Its tokenizer or template cannot be used.
    pub fn chat_format(&self, name: &str) -> Result<ChatFormat, LocalModelError> {
        let (tokenizer, template) = self.chat_texts()?;
        let own = self.words.get("eos_token").map(|word| tokenizer.token(word)).transpose()?.flatten();
        let end = end_of_turn_first(self.config.end_tokens.clone(), own);
        let marks = control_marks(&tokenizer, &template)?;
        Ok(ChatFormat {
            name: name.to_owned(),
            template,
            tokenizer,
            end,
            sampling: self.sampling.clone(),
            overlong: Overlong::default(),
            arguments: TemplateArguments::default(),
            marks,
            digest: self.chat_format_digest(),
        }
        .with_arguments(self.arguments.clone()))
    }

    /// The generation engine.
    ///
    /// # Errors
    /// The thread could not be started, or the device does not accept the weights.
    pub fn engine(&self, device: &ComputeDevice) -> Result<Engine, LocalModelError> {
        self.engine_within(Room::of_machine(), 0, device)
    }

    fn engine_within(&self, room: Room, number: u64, device: &ComputeDevice) -> Result<Engine, LocalModelError> {
        let model = device.model(Arc::new(self.config.clone()), &self.weights)?;
        Engine::within(Version { number, digest: digest(&self.weights), model }, room)
    }

    /// The same, with the layer that trains the weights: either all of them (an adapter in the folder is merged first),
    /// or only an adapter: the one in the folder, else a fresh one.
    ///
    /// # Errors
    /// As [`ModelFolder::open`], or the adapter's settings are invalid.
    pub fn open_learning(
        &self,
        name: &str,
        settings: &LearningSettings,
        device: &ComputeDevice,
    ) -> Result<(Arc<LocalModel>, WeightsLayer), LocalModelError> {
        let (weights, trained) = self.learned_weights(settings.learned, device)?;
        let this = Self { weights, ..self.clone() };
        let model = this.open_within(Room::beside_learning(), 0, name, device)?;
        let config = Arc::new(self.config.clone());
        let (optimizer, schedule) = (settings.optimizer, settings.schedule);
        let trainer = |schedule| device.trainer(&config, &this.weights, trained, optimizer, schedule);
        let (engine, objective) = (model.engine().clone(), settings.objective);
        let mut layer = WeightsLayer::new(config.clone(), trainer(schedule)?, engine, objective, device.clone())?;
        layer.divide_into(settings.updates);
        layer.understand(model.grammars().clone());
        // The reference of an adapter is the model without it, which is in memory already.
        if settings.objective.kl > 0.0 && trained == Trained::Full {
            layer.stay_near(trainer(Schedule::constant(0.0))?);
        }
        Ok((model, layer))
    }

    /// The model as learning begins with it: where all weights learn, an adapter in the folder is merged; where an adapter learns, it is the one in
    /// the folder, else a fresh one.
    ///
    /// # Errors
    /// The adapter's settings are invalid or differ from those of the folder's.
    pub fn before_learning(&self, learned: Learned) -> Result<Self, LocalModelError> {
        Ok(Self { weights: self.beginning(learned)?.0, ..self.clone() })
    }

    /// The model with an adapter, which replaces the one that it has.
    ///
    /// # Errors
    /// The adapter belongs to another model.
    pub fn with_adapter(&self, adapter: &AdapterFolder) -> Result<Self, LocalModelError> {
        Ok(Self { weights: adapter.attach(&self.weights)?, ..self.clone() })
    }

    /// The weights that learning begins with, and which of them learn, after a check of this machine's memory.
    ///
    /// # Errors
    /// As [`ModelFolder::before_learning`], or the machine lacks memory.
    pub(crate) fn learned_weights(
        &self,
        learned: Learned,
        device: &ComputeDevice,
    ) -> Result<(HostDecoder, Trained), LocalModelError> {
        if device.is_processor() && learned == Learned::Full {
            // Before the weights are copied row by row.
            let all = self.config.parameters();
            let rows = if self.weights.laid_bytes() > 0 { memory::of_weights(all) } else { 0 };
            memory::check("learning", memory::of_learning(all).saturating_add(rows))?;
        }
        let (weights, trained) = self.beginning(learned)?;
        if device.is_processor() && learned != Learned::Full {
            let (merged, learned) = adapted(&weights);
            let passes = kept_by_a_pass(&self.config);
            memory::check("learning", memory::of_learning_an_adapter(merged, learned).saturating_add(passes))?;
        }
        Ok((weights, trained))
    }

    fn beginning(&self, learned: Learned) -> Result<(HostDecoder, Trained), LocalModelError> {
        Ok(match learned {
            Learned::Full => (self.weights.merged().in_rows(), Trained::Full),
            Learned::Adapter(wanted) if self.weights.has_adapter() => {
                let found = AdapterFolder::of(&self.weights, "")?.settings;
                if (found.rank, found.alpha, found.targets) != (wanted.rank, wanted.alpha, wanted.targets) {
                    let told = |one: &AdapterSettings| {
                        let targets: Vec<_> = one.targets.names().collect();
                        format!("one of rank {} and alpha {} on {}", one.rank, one.alpha, targets.join(","))
                    };
                    return Err(LocalModelError::Adapter(format!(
                        "the model's folder has {} already, which learning would continue, not {}; use its settings, or remove the folder `{ADAPTER}`",
                        told(&found),
                        told(&wanted)
                    )));
                }
                (self.weights.learnable(), Trained::Adapters)
            }
            Learned::Adapter(adapter) => (adapter.attach(&self.weights.learnable())?, Trained::Adapters),
        })
    }

    /// The memory in bytes that a step needs on the processor, when these weights learn while they serve: the loaded weights, learning, the states of the
    /// optimiser, and what a pass keeps of tokens. A longer conversation than a pass holds needs more, and is checked against what is free then.
    ///
    /// # Errors
    /// The adapter's settings are invalid.
    pub fn step_bytes(&self, learned: Learned) -> Result<u64, LocalModelError> {
        let adapter = match learned {
            Learned::Full => None,
            Learned::Adapter(_) if self.weights.has_adapter() => Some(adapted(&self.weights)),
            Learned::Adapter(adapter) => Some(adapted(&adapter.attach(&self.weights)?)),
        };
        let (all, passes) = (self.config.parameters(), kept_by_a_pass(&self.config));
        let parts = match adapter {
            // Laid out for inference, and row by row.
            None => [
                self.weights.laid_bytes(),
                memory::of_weights(all),
                memory::of_learning(all),
                memory::of_states(all),
                passes,
            ],
            Some((merged, learned)) => {
                let learning = memory::of_learning_an_adapter(merged, learned);
                [self.weights.bytes(), 0, learning, memory::of_states(learned), passes]
            }
        };
        Ok(parts.into_iter().fold(0, u64::saturating_add))
    }

    /// Refuses a step of weights that learn while they serve if the free memory of this machine is too small for it. The weights are loaded.
    ///
    /// # Errors
    /// It is too small, or the adapter's settings are invalid.
    pub fn check_step_memory(&self, learned: Learned) -> Result<(), LocalModelError> {
        memory::check("a step of training", self.step_bytes(learned)?.saturating_sub(self.weights.bytes()))
    }
}

/// Of a model with an adapter: the weights that its matrices in f32 are merged with, and those of the adapter.
fn adapted(weights: &HostDecoder) -> (u64, u64) {
    let projections = weights.blocks.iter().flat_map(|block| block.projections());
    projections.fold((0, 0), |(merged, learned), (_, one)| match &one.adapter {
        None => (merged, learned),
        Some(LowRank { a, b, .. }) => {
            let own = if one.weight.dtype() == Dtype::F32 { one.weight.count() as u64 } else { 0 };
            (merged + own, learned + (a.count() + b.count()) as u64)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TinyModel;

    #[test]
    fn a_step_needs_the_weights_the_optimiser_and_its_states() {
        let folder = TinyModel::default().make().unwrap();
        let (bytes, passes) = (folder.config.parameters() * 4, kept_by_a_pass(&folder.config));
        // Loaded, three layouts, gradients and two moments, and two states of three numbers.
        assert_eq!(folder.step_bytes(Learned::Full).unwrap(), bytes * (1 + 3 + 3 + 6) + passes);
        let adapter = AdapterSettings { rank: 2, ..AdapterSettings::default() };
        let attached = adapter.attach(&folder.weights).unwrap();
        let values = |matrix: &crate::HostMatrix| matrix.count() as u64 * 4;
        let low = |one: &crate::Projection<_, _>| {
            one.adapter.as_ref().map_or(0, |low: &LowRank<_>| values(&low.a) + values(&low.b))
        };
        let projections = || attached.blocks.iter().flat_map(|block| block.projections());
        let learned: u64 = projections().map(|(_, one)| low(one)).sum();
        let merged: u64 = projections().map(|(_, one)| values(&one.weight)).sum();
        assert!(learned > 0 && learned < bytes / 4 && merged < bytes);
        // The adapter's numbers, three layouts, gradients and two moments, and two states.
        let expect = bytes + merged * 3 + learned * (7 + 6) + passes;
        assert_eq!(folder.step_bytes(Learned::Adapter(adapter)).unwrap(), expect);
        folder.check_step_memory(Learned::Full).unwrap();
        // Matrices of 16 bits are in memory once.
        let short = ModelFolder { weights: folder.weights.kept_as(Dtype::BF16).unwrap(), ..folder };
        let expect = short.weights.bytes() + learned * (7 + 6) + passes;
        assert_eq!(short.step_bytes(Learned::Adapter(adapter)).unwrap(), expect);
    }

    #[test]
    fn an_adapter_learns_beside_rounded_weights_as_beside_their_numbers() {
        let made = TinyModel::default().make().unwrap();
        let rounded = ModelFolder { weights: made.weights.kept_as(Dtype::Int8).unwrap(), ..made };
        let learned = Learned::Adapter(AdapterSettings { rank: 2, ..AdapterSettings::default() });
        let before = rounded.before_learning(learned).unwrap();
        let base = before.weights.without_adapters();
        // What answers and what learns compute the same: inputs are not rounded.
        assert_eq!(base.embedding.dtype(), Dtype::Int8);
        assert_eq!(digest(&base), digest(&rounded.weights.kept_as(Dtype::F32).unwrap()));
        assert_ne!(digest(&base), digest(&rounded.weights));
        let full = rounded.before_learning(Learned::Full).unwrap();
        assert_eq!(digest(&full.weights), digest(&base));
    }
}
