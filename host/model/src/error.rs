//! Errors of local models.

use clawhost_core::{Hint, ModelError};
use std::path::PathBuf;

/// What failed, and where. [`LocalModelError::hints`] suggests remedies.
#[derive(Debug, thiserror::Error)]
pub enum LocalModelError {
    /// A file of the model's folder cannot be read or written.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// `config.json` describes no model that this crate supports.
    #[error("config.json: {0}")]
    Config(String),
    /// No file has a weight that the architecture needs.
    #[error("the weight {0} is in no file of the model; is a shard missing, or the download incomplete?")]
    MissingWeight(String),
    /// A weight that the architecture does not know. Ignoring it would change the answers.
    #[error("the weight {0} does not occur in the model that config.json describes; do the two belong together?")]
    UnknownWeight(String),
    /// A weight has another shape than config.json implies.
    #[error(
        "the weight {name} has the shape {found:?} where config.json implies {expected:?}; do the two belong together?"
    )]
    Shape {
        /// Its name.
        name: String,
        /// In the file.
        found: Vec<usize>,
        /// Implied by config.json.
        expected: Vec<usize>,
    },
    /// A weight has a value that is not finite, or too large to compute with.
    #[error(
        "the weight {0} holds a value that is not finite, or above 1e9; the file is damaged, or training diverged before it was saved"
    )]
    NotFinite(String),
    /// The head of a tied model differs from its embedding.
    #[error(
        "config.json says `tie_word_embeddings`, and lm_head.weight differs from the embedding; set tie_word_embeddings to false if the model was trained with that head, or remove the weight"
    )]
    TwoHeads,
    /// The folder holds a model in a format that is not read, or no model.
    #[error("{folder}: {why}")]
    Format {
        /// The folder.
        folder: PathBuf,
        /// What was found, and what to do.
        why: String,
    },
    /// The tokenizer cannot be used.
    #[error("tokenizer.json: {0}")]
    Tokenizer(String),
    /// The alphabet of a tokenizer lacks a character of a text.
    #[error(
        "tokenizer.json: the alphabet has no {character:?}, which occurs in `{text}`; use other characters (games have the option `talk=terse`), or a model with a larger alphabet"
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
    /// A request that the model cannot answer as it is.
    #[error("{0}")]
    Request(String),
    /// A grammar cannot be used, or allows no answer.
    #[error("grammar: {0}")]
    Grammar(String),
    /// A text of a model folder costs more than the limits.
    #[error("{subject} of the model folder {what}; use a folder from a publisher that you trust")]
    TextLimit {
        /// The tokenizer, the chat template, or the reading of both.
        subject: &'static str,
        /// The limit.
        what: String,
    },
    /// The process that interprets tokenizers and chat templates cannot be used.
    #[error("the process that interprets tokenizers and chat templates cannot be used ({0}); start the program again")]
    TextProcess(String),
    /// The model computed logits that are no numbers.
    #[error(
        "the model's logits are not finite; its weights are too large or damaged: import the model again, or train it with a lower learning rate"
    )]
    Logits,
    /// A prompt is longer than the model's context.
    #[error("the prompt has {tokens} tokens, and the model's context holds {context}; shorten it")]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// The model's context.
        context: usize,
    },
    /// A device cannot be used.
    #[error("device {name}: {why}")]
    Device {
        /// Its name.
        name: String,
        /// The reason.
        why: String,
    },
    /// A device failed after it had been in use.
    #[error(
        "the device {name} failed while in use ({why}); nothing of that work was kept: start again, or use another device"
    )]
    DeviceLost {
        /// Its name.
        name: String,
        /// The reason.
        why: String,
    },
    /// A device lacks memory for a model, or for one trajectory of a batch.
    #[error(
        "the device {name} has too little memory ({why}); use a smaller model, learn an adapter instead of all weights, shorten answers and episodes, or use another device"
    )]
    DeviceMemory {
        /// Its name.
        name: String,
        /// The reason.
        why: String,
    },
    /// The machine lacks memory.
    #[error(
        "{what} needs {needed} of memory, and {free} are free; use a smaller model, learn an adapter instead of all weights, or close other programs"
    )]
    Memory {
        /// What does not fit.
        what: String,
        /// For example `1.5 GiB`.
        needed: String,
        /// Free memory, in the same form.
        free: String,
    },
    /// A training step had a result that is not finite. The weights are unchanged.
    #[error(
        "{what} is not finite; the step was not taken, and the weights are unchanged: lower the learning rate, or inspect the batch"
    )]
    Diverged {
        /// The loss, or the gradient of a weight.
        what: String,
    },
    /// A pass of training was stopped before its end. Nothing of it is kept.
    #[error("the pass was stopped before its end; nothing of it was kept")]
    Interrupted,
    /// A checkpoint that this version cannot read.
    #[error("checkpoint: {0}")]
    Checkpoint(String),
    /// An adapter that is invalid or does not fit this model.
    #[error("adapter: {0}")]
    Adapter(String),
    /// Samples that cannot be trained on.
    #[error("samples: {0}")]
    Samples(String),
    /// A GGUF file cannot hold the model.
    #[error("a GGUF file cannot hold this model: {0}; export it as a folder")]
    Unheld(String),
    /// A model that is named as the Hugging Face hub names it is not in the cache, or not as a whole.
    #[error("{name}: {why}")]
    Hub {
        /// Its name.
        name: String,
        /// What is missing, and what to do.
        why: String,
    },
    /// A service that has the weights does not answer, or with something else.
    #[error(transparent)]
    Service(ModelError),
}

impl LocalModelError {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::File { .. } => "model-file",
            Self::Config(_) => "model-config",
            Self::MissingWeight(_) => "weight-missing",
            Self::UnknownWeight(_) => "weight-unknown",
            Self::Shape { .. } => "weight-shape",
            Self::NotFinite(_) => "weight-not-finite",
            Self::TwoHeads => "two-heads",
            Self::Format { .. } => "model-format",
            Self::Tokenizer(_) => "tokenizer",
            Self::Alphabet { .. } => "alphabet",
            Self::Template(_) => "chat-template",
            Self::Request(_) => "model-request",
            Self::Grammar(_) => "grammar",
            Self::TextLimit { .. } => "text-limit",
            Self::TextProcess(_) => "text-process",
            Self::Logits => "logits-not-finite",
            Self::TooLong { .. } => "prompt-too-long",
            Self::Device { .. } => "device",
            Self::DeviceLost { .. } => "device-lost",
            Self::DeviceMemory { .. } => "device-memory",
            Self::Memory { .. } => "memory",
            Self::Diverged { .. } => "diverged",
            Self::Interrupted => "interrupted",
            Self::Checkpoint(_) => "checkpoint",
            Self::Adapter(_) => "adapter",
            Self::Samples(_) => "samples",
            Self::Unheld(_) => "gguf-unheld",
            Self::Hub { .. } => "hub-cache",
            Self::Service(_) => "service",
        }
    }

    /// Whether the folder of a model or an adapter is at fault: another one, or a repaired one, would do.
    pub fn is_of_folder(&self) -> bool {
        match self {
            Self::Config(_)
            | Self::MissingWeight(_)
            | Self::UnknownWeight(_)
            | Self::Shape { .. }
            | Self::NotFinite(_)
            | Self::TwoHeads
            | Self::Format { .. }
            | Self::Tokenizer(_)
            | Self::Template(_)
            | Self::TextLimit { .. }
            | Self::Adapter(_)
            | Self::Unheld(_)
            | Self::Hub { .. } => true,
            Self::File { .. }
            | Self::Alphabet { .. }
            | Self::TextProcess(_)
            | Self::Logits
            | Self::TooLong { .. }
            | Self::Device { .. }
            | Self::DeviceLost { .. }
            | Self::DeviceMemory { .. }
            | Self::Memory { .. }
            | Self::Diverged { .. }
            | Self::Interrupted
            | Self::Checkpoint(_)
            | Self::Samples(_)
            | Self::Request(_)
            | Self::Grammar(_)
            | Self::Service(_) => false,
        }
    }

    /// The message with the model's folder before it, unless it begins with a path in that folder.
    pub fn in_folder(&self, folder: &str) -> String {
        match self {
            Self::File { path, .. } | Self::Format { folder: path, .. } if path.starts_with(folder) => self.to_string(),
            _ => format!("{folder}: {self}"),
        }
    }

    /// Suggested remedies.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_once() {
        let check = |error: LocalModelError, expect: &str| assert_eq!(error.in_folder("models/tiny"), expect);
        let file = |path: &str| LocalModelError::File { path: path.into(), why: "damaged".to_owned() };
        check(file("models/tiny/tokenizer.json"), "models/tiny/tokenizer.json: damaged");
        check(file("models/tiny"), "models/tiny: damaged");
        check(file("models/tiny2/a"), "models/tiny: models/tiny2/a: damaged");
        let format = LocalModelError::Format { folder: "models/tiny".into(), why: "no weights".to_owned() };
        check(format, "models/tiny: no weights");
        check(LocalModelError::Config("no sizes".to_owned()), "models/tiny: config.json: no sizes");
    }
}
