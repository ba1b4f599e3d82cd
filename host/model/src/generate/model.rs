//! The model of one version: on the processor with the kernels of this crate, or on an accelerator.

use crate::cpu::{Cache, CpuModel, Work};
use crate::device::{AcceleratedModel, Slot};
use crate::{LocalModelError, ModelConfig};
use std::sync::Arc;

/// A model for inference.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each version of the weights")]
pub enum Model {
    /// Every bit of an answer depends on its own sequence alone.
    Processor(CpuModel),
    /// By rounding, an answer also depends on the batch: a device sums in another order for another batch.
    Accelerator(Box<dyn AcceleratedModel>),
}

/// New tokens of one sequence.
#[derive(Debug)]
pub struct NewTokens<'a> {
    /// The cache of the tokens so far.
    pub memory: &'a mut Memory,
    /// At least one.
    pub tokens: &'a [u32],
    /// Whether logits are needed after every token, and not only after the last one.
    pub every: bool,
}

/// The key-value cache of one sequence.
#[derive(Debug)]
pub enum Memory {
    /// In this process.
    Processor(Cache),
    /// On the device.
    Accelerator(Slot),
}

impl From<CpuModel> for Model {
    fn from(model: CpuModel) -> Self {
        Self::Processor(model)
    }
}

impl Model {
    /// Its shape.
    pub fn config(&self) -> &Arc<ModelConfig> {
        match self {
            Self::Processor(model) => &model.config,
            Self::Accelerator(model) => model.config(),
        }
    }

    /// Number of sequences that fit into its memory at once.
    pub fn most_at_once(&self) -> usize {
        match self {
            Self::Processor(_) => usize::MAX,
            Self::Accelerator(model) => model.most_at_once(),
        }
    }

    /// Bytes that keys and values of a sequence of `length` tokens take in this process. On a device slots bound them.
    pub(super) fn bytes_of(&self, length: usize) -> u64 {
        match self {
            Self::Processor(model) => Cache::bytes_of(&model.config, length),
            Self::Accelerator(_) => 0,
        }
    }

    /// Tokens of a sequence whose logits it can give at once.
    pub fn scored_at_once(&self) -> usize {
        match self {
            Self::Processor(_) => usize::MAX,
            // It gives the logits after the last token alone.
            Self::Accelerator(_) => 1,
        }
    }

    /// The cache of an empty sequence.
    pub fn memory(&self) -> Memory {
        match self {
            Self::Processor(model) => Memory::Processor(model.cache()),
            Self::Accelerator(model) => Memory::Accelerator(model.begin()),
        }
    }

    /// Whether this model can continue from this cache.
    pub fn knows(&self, memory: &Memory) -> bool {
        match (self, memory) {
            (Self::Processor(_), Memory::Processor(_)) => true,
            (Self::Accelerator(model), Memory::Accelerator(held)) => model.knows(held),
            _ => false,
        }
    }

    /// A copy of the first tokens of a cache. `None`: it belongs to another model, or cannot be copied.
    pub fn copy(&self, memory: &Memory, length: usize) -> Option<Memory> {
        match (self, memory) {
            (Self::Processor(_), Memory::Processor(cache)) => {
                let mut cache = cache.clone();
                cache.truncate(length);
                Some(Memory::Processor(cache))
            }
            (Self::Accelerator(model), Memory::Accelerator(held)) => {
                Some(Memory::Accelerator(model.copy(held, length).ok()?))
            }
            _ => None,
        }
    }

    /// Computes new tokens of several sequences. Returns the logits after the last token of each, or after every token; of
    /// [`Model::scored_at_once`] tokens at most.
    ///
    /// # Errors
    /// The device failed. The caches of these sequences are lost.
    pub fn forward(&self, work: Vec<NewTokens<'_>>) -> Result<Vec<Vec<f32>>, LocalModelError> {
        let other = || LocalModelError::Device {
            name: "of the model".into(),
            why: "the sequence began on another model".into(),
        };
        match self {
            Self::Processor(model) => {
                let mut all = Vec::with_capacity(work.len());
                for NewTokens { memory, tokens, every } in work {
                    let Memory::Processor(cache) = memory else { return Err(other()) };
                    all.push(Work { every, ..Work::last(cache, tokens) });
                }
                model.forward(&mut all);
                Ok(all.into_iter().map(|one| one.logits).collect())
            }
            Self::Accelerator(model) => {
                let mut all = Vec::with_capacity(work.len());
                for NewTokens { memory, tokens, .. } in work {
                    let Memory::Accelerator(held) = memory else { return Err(other()) };
                    all.push((held, tokens));
                }
                model.forward(&mut all)
            }
        }
    }
}

impl Memory {
    /// The tokens it holds.
    pub fn tokens(&self) -> &[u32] {
        match self {
            Self::Processor(cache) => cache.tokens(),
            Self::Accelerator(held) => held.tokens(),
        }
    }

    /// The length of the common prefix with these tokens.
    pub fn shared_with(&self, tokens: &[u32]) -> usize {
        self.tokens().iter().zip(tokens).take_while(|(mine, theirs)| mine == theirs).count()
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Processor(cache) => cache.bytes(),
            Self::Accelerator(held) => held.bytes(),
        }
    }
}
