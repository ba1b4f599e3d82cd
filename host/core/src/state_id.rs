//! The identity of what is being tested: everything that can change an answer of the policy, and nothing else.

use crate::{Attributes, Digest};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How answers are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// 0 (always the likeliest) to 2; none: the model's own, which newer models insist on.
    pub temperature: Option<f32>,
    /// Most tokens per answer.
    pub max_tokens: u32,
}

impl Default for Sampling {
    /// The model's own temperature, and 1,024 tokens an answer.
    fn default() -> Self {
        Self { temperature: None, max_tokens: 1024 }
    }
}

/// What a [`StateId`] is made of. No time and no random id belongs here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateConfig {
    /// The model's kind, name and version.
    pub model: crate::LlmIdentity,
    /// The operator's system prompt, if any.
    pub system_prompt: Option<String>,
    /// How answers are drawn.
    pub sampling: Sampling,
    /// Settings that change how prompts are built.
    pub rendering: Attributes,
}

/// Equal configuration, equal id.
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
    fn equal_configuration_gives_an_equal_id_and_every_part_counts() {
        let base = StateId::of(&config());
        assert_eq!(base, StateId::of(&config()));
        let changes: [fn(&mut StateConfig); 5] = [
            |c| c.model.model = "n".into(),
            |c| c.model.version = "2".into(),
            |c| c.system_prompt = Some(String::new()),
            |c| c.sampling.temperature = Some(0.5),
            |c| c.rendering.push(("a".into(), "b".into())),
        ];
        for change in changes {
            let mut changed = config();
            change(&mut changed);
            assert_ne!(base, StateId::of(&changed), "{changed:?}");
        }
    }
}
