//! Tasks and the context of a call.

use crate::{Attributes, Digest};
use serde::{Deserialize, Serialize};

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Unique inside the environment, for one seed and one set of options.
    pub id: String,
    /// The split it belongs to.
    pub split: String,
    /// What is asked; may be empty.
    pub input: String,
    /// Gold answer or checker data, as JSON text: for rewards only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// For grouping and retrieval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Room to grow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
}

impl Task {
    /// A task that asks nothing in words.
    pub fn new(split: &str, id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            split: split.to_owned(),
            input: String::new(),
            reference: None,
            tags: Vec::new(),
            extra: Vec::new(),
        }
    }

    /// The task as everybody but a reward may see it.
    pub fn without_reference(&self) -> Self {
        Self { reference: None, ..self.clone() }
    }

    /// The content address of everything in the task, reference included.
    pub fn digest(&self) -> Digest {
        Digest::of_json(&serde_json::to_value(self).unwrap_or_default())
    }
}

/// Everything that may change what a plugin call answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// The source of all randomness.
    pub seed: u64,
    /// The operator's choices.
    pub options: Attributes,
}

/// A named set of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// By convention `train`, `val`, `test`.
    pub name: String,
    /// How many tasks it holds.
    pub tasks: u64,
}
