//! What can go wrong with a local model.

use clawhost_core::Hint;
use std::path::PathBuf;

/// What went wrong, and where. [`LocalModelError::hints`] says what may mend it.
#[derive(Debug, thiserror::Error)]
pub enum LocalModelError {
    /// A file of the model's folder cannot be read or written.
    #[error("{path}: {why}")]
    File {
        /// Which.
        path: PathBuf,
        /// In words.
        why: String,
    },
    /// `config.json` describes no model that can be run here.
    #[error("config.json: {0}")]
    Config(String),
    /// A weight that the architecture needs is in no file.
    #[error("the weight {0} is in no file of the model; is a shard missing, or the download incomplete?")]
    MissingWeight(String),
    /// A weight that the architecture does not know: without it the model would answer otherwise.
    #[error("the weight {0} has no place in the model that config.json describes; do the two belong together?")]
    UnknownWeight(String),
    /// A weight has another shape than config.json implies.
    #[error(
        "the weight {name} has the shape {found:?} where config.json implies {expected:?}; do the two belong together?"
    )]
    Shape {
        /// Its name.
        name: String,
        /// As in the file.
        found: Vec<usize>,
        /// As implied.
        expected: Vec<usize>,
    },
    /// A weight holds something that is no number.
    #[error(
        "the weight {0} holds a value that is not finite; the file is damaged, or training diverged before it was saved"
    )]
    NotFinite(String),
    /// The tokenizer cannot be used.
    #[error("tokenizer.json: {0}")]
    Tokenizer(String),
    /// The alphabet of a tokenizer lacks a character of a text.
    #[error(
        "tokenizer.json: the alphabet has no {character:?}, which stands in `{text}`; use other characters (games have the option `talk=terse`), or a model with a larger alphabet"
    )]
    Alphabet {
        /// The character.
        character: char,
        /// The text, escaped and cut.
        text: String,
    },
    /// The chat template cannot be used, or is missing.
    #[error("chat template: {0}")]
    Template(String),
    /// A prompt is longer than the model's context.
    #[error("the prompt has {tokens} tokens, and the model's context holds {context}; shorten it")]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// What the model holds.
        context: usize,
    },
    /// A device cannot be used.
    #[error("device {name}: {why}")]
    Device {
        /// As it was asked for.
        name: String,
        /// In words.
        why: String,
    },
    /// A device failed after it had been in use.
    #[error(
        "the device {name} failed in the midst of work ({why}); nothing of that work was kept: start again, or use another device"
    )]
    DeviceLost {
        /// As it was asked for.
        name: String,
        /// In words.
        why: String,
    },
    /// A device has no room for a model, or for one trajectory of those that are learned from.
    #[error(
        "the device {name} has no memory for it ({why}); take a smaller model, learn an adapter instead of all weights, let answers and episodes be shorter, or use another device"
    )]
    DeviceMemory {
        /// As it was asked for.
        name: String,
        /// In words.
        why: String,
    },
    /// It does not fit into memory.
    #[error(
        "{what} needs {needed} of memory, and {free} are free; take a smaller model, learn an adapter instead of all weights, or close other programs"
    )]
    Memory {
        /// What does not fit.
        what: String,
        /// As `1.5 GiB`.
        needed: String,
        /// The same.
        free: String,
    },
    /// A training step came to something that is no number; the weights are as they were before it.
    #[error(
        "{what} is not finite; the step was not taken, and the weights are as before: lower the learning rate, or look at the batch"
    )]
    Diverged {
        /// The loss, or the gradient of a weight.
        what: String,
    },
    /// A checkpoint that this version cannot take up.
    #[error("checkpoint: {0}")]
    Checkpoint(String),
    /// An adapter that cannot stand beside this model, or that is none.
    #[error("adapter: {0}")]
    Adapter(String),
    /// Samples that cannot be trained on.
    #[error("samples: {0}")]
    Samples(String),
}

impl LocalModelError {
    /// A stable name, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::File { .. } => "model-file",
            Self::Config(_) => "model-config",
            Self::MissingWeight(_) => "weight-missing",
            Self::UnknownWeight(_) => "weight-unknown",
            Self::Shape { .. } => "weight-shape",
            Self::NotFinite(_) => "weight-not-finite",
            Self::Tokenizer(_) => "tokenizer",
            Self::Alphabet { .. } => "alphabet",
            Self::Template(_) => "chat-template",
            Self::TooLong { .. } => "prompt-too-long",
            Self::Device { .. } => "device",
            Self::DeviceLost { .. } => "device-lost",
            Self::DeviceMemory { .. } => "device-memory",
            Self::Memory { .. } => "memory",
            Self::Diverged { .. } => "diverged",
            Self::Checkpoint(_) => "checkpoint",
            Self::Adapter(_) => "adapter",
            Self::Samples(_) => "samples",
        }
    }

    /// What may mend it.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Alphabet { .. } => vec![Hint::command("model init", "makes a model with an alphabet of your own")],
            Self::Device { .. } | Self::DeviceLost { .. } | Self::DeviceMemory { .. } => {
                vec![Hint::set("device", "cpu")]
            }
            Self::Diverged { .. } => vec![Hint::change("learning_rate")],
            Self::Checkpoint(_) => vec![Hint::NewRun],
            _ => Vec::new(),
        }
    }
}
