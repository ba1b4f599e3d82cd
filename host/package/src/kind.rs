//! Kinds of plugins.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of a plugin: the world that its component fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Publishes tasks and answers actions.
    Environment,
    /// Judges episodes.
    Reward,
    /// Proposes lessons.
    Reflector,
    /// Chooses a model.
    Router,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Environment, Self::Reward, Self::Reflector, Self::Router];

    /// Its name, as in `claw.toml`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::Reward => "reward",
            Self::Reflector => "reflector",
            Self::Router => "router",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
