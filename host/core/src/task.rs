//! Tasks, and the context of a plugin call.

use crate::{Attributes, Digest};
use serde::{Deserialize, Serialize};

/// A task of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Id, unique in the environment for one seed and one set of options.
    pub id: String,
    /// The part of a mixture of environments that it belongs to; `None`: the run has one environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The split it belongs to.
    pub split: String,
    /// The task's text; may be empty.
    pub input: String,
    /// Reference answer or checker data as JSON text; only rewards see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Tags for grouping and retrieval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Extension fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
}

impl Task {
    /// A task without a text.
    pub fn new(split: &str, id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            part: None,
            split: split.to_owned(),
            input: String::new(),
            reference: None,
            tags: Vec::new(),
            extra: Vec::new(),
        }
    }

    /// A name of the task that is unique in its run: its id, behind its part and a slash in a mixture.
    pub fn key(&self) -> String {
        match &self.part {
            None => self.id.clone(),
            Some(part) => format!("{part}/{}", self.id),
        }
    }

    /// The task as everyone but rewards sees it.
    pub fn without_reference(&self) -> Self {
        Self { reference: None, ..self.clone() }
    }

    /// Digest of everything in the task, including its reference.
    pub fn digest(&self) -> Digest {
        Digest::of_json(&serde_json::to_value(self).unwrap_or_default())
    }
}

/// Everything that may change the result of a plugin call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Seed of all randomness.
    pub seed: u64,
    /// Options set by the operator.
    pub options: Attributes,
}

/// A named set of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Name, by convention `train`, `val` or `test`.
    pub name: String,
    /// Number of tasks.
    pub tasks: u64,
}
