//! How much a gateway does beside recording, and what its guidance is made of.

use clawhost_learn::guidance::{GUIDANCE_TOKEN_RANGE, GUIDANCE_TOKENS};
use serde::Deserialize;
use std::str::FromStr;

/// Seconds after which endpoints have forgotten the beginning of a conversation. Anthropic keeps it for five minutes, OpenAI for five to ten.
const CACHE_SECONDS: u64 = 300;
/// Longest such time: a day.
const LONGEST_CACHE_SECONDS: u64 = 24 * 60 * 60;

/// The cosine from which an entry is near what a session asks. Low, because a fitting entry that is missed is lost, while another one only
/// competes for the budget.
const LEAST_SIMILARITY: f64 = 0.4;

/// How much a gateway does beside recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LiveMode {
    /// It records, and changes nothing of what models see.
    #[default]
    Observe,
    /// Sessions get guidance, and corrections are remembered.
    Skills,
    /// Weights of a local model learn from sessions, too.
    Rl,
    /// Lessons are learned from sessions, and weights, too.
    Auto,
}

impl LiveMode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Observe, Self::Skills, Self::Rl, Self::Auto];

    /// Whether weights learn.
    pub fn trains_weights(self) -> bool {
        matches!(self, Self::Rl | Self::Auto)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Skills => "skills",
            Self::Rl => "rl",
            Self::Auto => "auto",
        }
    }
}

/// Why a text is no mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no mode `{0}`; write observe, skills, rl or auto")]
pub struct NoLiveMode(String);

impl FromStr for LiveMode {
    type Err = NoLiveMode;

    fn from_str(text: &str) -> Result<Self, NoLiveMode> {
        let known = Self::ALL.into_iter().find(|mode| mode.name() == text);
        known.ok_or_else(|| NoLiveMode(clawhost_core::escaped(text, 60)))
    }
}

impl<'de> Deserialize<'de> for LiveMode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What guidance is made of.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillsSection {
    /// The playbook. `None`: the only one, if there is one alone.
    pub playbook: Option<String>,
    /// Folders with a `SKILL.md` for each skill.
    #[serde(default)]
    pub folders: Vec<String>,
    /// Whether the general skills that ship are used, too.
    #[serde(default)]
    pub bank: bool,
    /// Most estimated tokens of a session's guidance.
    pub token_budget: Option<u64>,
    /// Seconds without a request after which a session may get other guidance: its endpoint has forgotten the beginning by then.
    pub cache_seconds: Option<u64>,
    /// The alias of a model that answers `/v1/embeddings`: entries are found by meaning, too. `None`: by words alone.
    pub embeddings: Option<String>,
    /// The cosine of two vectors from which an entry is near what a session asks. It depends on the model.
    pub least_similarity: Option<f64>,
}

impl SkillsSection {
    /// Checks its values. The error says what is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (least, most) = (GUIDANCE_TOKEN_RANGE.start(), GUIDANCE_TOKEN_RANGE.end());
        if self.token_budget.is_some_and(|tokens| !GUIDANCE_TOKEN_RANGE.contains(&tokens)) {
            return Err(format!("skills.token_budget: must be from {least} to {most}"));
        }
        if self.cache_seconds.is_some_and(|seconds| seconds > LONGEST_CACHE_SECONDS) {
            return Err(format!("skills.cache_seconds: must be from 0 to {LONGEST_CACHE_SECONDS}"));
        }
        if self.least_similarity.is_some_and(|least| !(0.0..=1.0).contains(&least)) {
            return Err("skills.least_similarity: must be from 0 to 1".to_owned());
        }
        if self.least_similarity.is_some() && self.embeddings.is_none() {
            return Err("skills.least_similarity: name a model in `embeddings`, too".to_owned());
        }
        Ok(())
    }

    /// Most estimated tokens of a session's guidance.
    pub(crate) fn tokens(&self) -> u64 {
        self.token_budget.unwrap_or(GUIDANCE_TOKENS)
    }

    /// The cosine from which an entry is near what a session asks.
    pub(crate) fn least_similarity(&self) -> f64 {
        self.least_similarity.unwrap_or(LEAST_SIMILARITY)
    }

    /// Milliseconds after which an endpoint has forgotten the beginning of a conversation.
    pub(crate) fn cache_ms(&self) -> u64 {
        self.cache_seconds.unwrap_or(CACHE_SECONDS).saturating_mul(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GatewayFile;

    #[test]
    fn a_mode_is_read_or_refused() {
        let check = |text: &str, expect: Result<LiveMode, &str>| match (GatewayFile::parse(text), expect) {
            (Ok(file), Ok(mode)) => assert_eq!(file.gateway.mode, mode, "{text}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
            (found, _) => panic!("{text}: {found:?}"),
        };
        check("", Ok(LiveMode::Observe));
        check("[gateway]\nmode = \"skills\"", Ok(LiveMode::Skills));
        check(
            "[gateway]\nmode = \"skill\"",
            Err("line 2: there is no mode `skill`; write observe, skills, rl or auto"),
        );
        check("[skills]\ntoken_budget = 10", Err("skills.token_budget: must be from 50 to 20000"));
        check("[skills]\ncache_seconds = 100000", Err("skills.cache_seconds"));
        check("[skills]\nfolder = \"a\"", Err("did you mean `folders`?"));
        check("[skills]\nembeddings = \"e\"\nleast_similarity = 0.3", Ok(LiveMode::Observe));
        check(
            "[skills]\nembeddings = \"e\"\nleast_similarity = 1.5",
            Err("skills.least_similarity: must be from 0 to 1"),
        );
        check("[skills]\nembeddings = \"e\"\nleast_similarity = nan", Err("skills.least_similarity"));
        check("[skills]\nleast_similarity = 0.3", Err("name a model in `embeddings`, too"));
    }
}
