//! What a run does, what learns, and the table of a key in a file.

use std::fmt;
use std::str::FromStr;

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Episodes are played, judged and recorded.
    Play,
    /// Layers learn from episodes.
    Learn,
    /// A playbook is measured on the test split.
    Evaluate,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Play, Self::Learn, Self::Evaluate];

    /// Its name, as in the stored document.
    pub fn name(self) -> &'static str {
        match self {
            Self::Play => "play",
            Self::Learn => "learn",
            Self::Evaluate => "evaluate",
        }
    }

    /// The activity in messages.
    pub(crate) fn activity(self) -> &'static str {
        match self {
            Self::Play => "playing",
            Self::Learn => "learning",
            Self::Evaluate => "evaluation",
        }
    }
}

/// A layer that learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// A playbook of lessons around the model.
    Harness,
    /// The weights of a local model.
    Weights,
    /// A router between models.
    Router,
}

impl Layer {
    /// All layers, in the order of a resolved run.
    pub const ALL: [Self; 3] = [Self::Harness, Self::Weights, Self::Router];

    /// Its name, as in `layer = "harness"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Harness => "harness",
            Self::Weights => "weights",
            Self::Router => "router",
        }
    }

    /// The names of all layers, for messages.
    pub(crate) fn known() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Layer {
    /// The expectation, with the nearest name.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|layer| layer.name() == text).ok_or_else(|| {
            let hint = clawhost_core::nearest(text, Self::ALL.map(Self::name));
            let hint = hint.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
            format!("a layer: {}{hint}", Self::known())
        })
    }
}

/// The table of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The top of a file.
    Run,
    /// The `[[learn]]` table of this layer.
    Layer(Layer),
    /// No table: only the command line of an evaluation has the key.
    Evaluate,
}
