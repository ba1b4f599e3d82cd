//! Kinds of what is published.

use crate::Kind;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of a published module: a plugin, or what was learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModuleKind {
    /// A component that publishes tasks and answers actions.
    Environment,
    /// A component that judges episodes.
    Reward,
    /// A component that proposes lessons.
    Reflector,
    /// A component that chooses a model.
    Router,
    /// Lessons, as `playbook export` writes them.
    Playbook,
    /// The files of an adapter of a local model.
    Adapter,
}

impl ModuleKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Environment, Self::Reward, Self::Reflector, Self::Router, Self::Playbook, Self::Adapter];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::Reward => "reward",
            Self::Reflector => "reflector",
            Self::Router => "router",
            Self::Playbook => "playbook",
            Self::Adapter => "adapter",
        }
    }

    /// The kind of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind of plugin, if it is a component.
    pub const fn plugin(self) -> Option<Kind> {
        match self {
            Self::Environment => Some(Kind::Environment),
            Self::Reward => Some(Kind::Reward),
            Self::Reflector => Some(Kind::Reflector),
            Self::Router => Some(Kind::Router),
            Self::Playbook | Self::Adapter => None,
        }
    }
}

impl From<Kind> for ModuleKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Environment => Self::Environment,
            Kind::Reward => Self::Reward,
            Kind::Reflector => Self::Reflector,
            Kind::Router => Self::Router,
        }
    }
}

impl fmt::Display for ModuleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_once_and_a_plugin_keeps_its_kind() {
        for kind in ModuleKind::ALL {
            assert_eq!(ModuleKind::named(kind.name()), Some(kind));
        }
        for kind in Kind::ALL {
            assert_eq!(ModuleKind::from(kind).plugin(), Some(kind));
        }
        assert_eq!(ModuleKind::named("Reward"), None);
    }
}
