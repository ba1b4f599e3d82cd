//! Candidates and the items they are played on.

use clawhost_core::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Named sections of text. The caller decides how they become a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Candidate(pub BTreeMap<String, String>);

impl Candidate {
    /// Digest of the content: equal sections have equal digests.
    pub fn digest(&self) -> Digest {
        let sections = self.0.iter().map(|(name, text)| (name.clone(), text.as_str().into()));
        Digest::of_json(&serde_json::Value::Object(sections.collect()))
    }

    /// The text of a section; empty if there is none.
    pub fn section(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// A copy with another text in one section.
    #[must_use]
    pub fn with(&self, section: &str, text: String) -> Self {
        let mut sections = self.0.clone();
        sections.insert(section.to_owned(), text);
        Self(sections)
    }
}

/// One item to play: a task with an environment seed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Task id.
    pub task: String,
    /// Seed of the environment.
    pub seed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_depends_on_names_and_texts_only() {
        let seed = Candidate::default().with("rules", "a".into()).with("tone", "b".into());
        assert_eq!(seed.digest(), Candidate::default().with("tone", "b".into()).with("rules", "a".into()).digest());
        let others = [
            seed.with("rules", "c".into()),
            seed.with("more", String::new()),
            Candidate::default().with("rules", "b".into()).with("tone", "a".into()),
        ];
        others.iter().for_each(|other| assert_ne!(seed.digest(), other.digest(), "{other:?}"));
    }
}
