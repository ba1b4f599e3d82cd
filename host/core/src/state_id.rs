//! The identity of a configuration: everything that can change an answer of the policy, and nothing else.

use crate::{Attributes, Digest};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Sampling parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Temperature, 0 (greedy) to 2; `None`: the model's default, which newer models require.
    pub temperature: Option<f32>,
    /// Top-p, above 0 and at most 1: tokens are drawn from the smallest set whose probabilities add up to it. `None`: the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Largest number of tokens per answer.
    pub max_tokens: u32,
}

impl Default for Sampling {
    /// The model's default temperature and top-p, and 1,024 tokens per answer.
    fn default() -> Self {
        Self { temperature: None, top_p: None, max_tokens: 1024 }
    }
}

/// The content of a [`StateId`]. It must not contain a time or a random id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateConfig {
    /// Identity of the model.
    pub model: crate::LlmIdentity,
    /// The operator's system prompt, if any.
    pub system_prompt: Option<String>,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Settings that change how prompts are built.
    pub rendering: Attributes,
}

/// Digest of a configuration: equal configurations have equal ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateId(pub Digest);

impl StateId {
    /// The id of a configuration.
    pub fn of(config: &StateConfig) -> Self {
        let value = serde_json::json!({ "format": 1, "state": config });
        Self(Digest::of_json(&value))
    }
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LlmIdentity;

    fn config() -> StateConfig {
        StateConfig {
            model: LlmIdentity { provider: "openai".into(), model: "m".into(), version: "http://127.0.0.1/v1".into() },
            system_prompt: None,
            sampling: Sampling::default(),
            rendering: Vec::new(),
        }
    }

    #[test]
    fn the_id_depends_on_every_part_of_the_configuration() {
        let base = StateId::of(&config());
        assert_eq!(base, StateId::of(&config()));
        let changes: [fn(&mut StateConfig); 6] = [
            |c| c.model.model = "n".into(),
            |c| c.model.version = "2".into(),
            |c| c.system_prompt = Some(String::new()),
            |c| c.sampling.temperature = Some(0.5),
            |c| c.sampling.top_p = Some(0.5),
            |c| c.rendering.push(("a".into(), "b".into())),
        ];
        for change in changes {
            let mut changed = config();
            change(&mut changed);
            assert_ne!(base, StateId::of(&changed), "{changed:?}");
        }
    }
}
