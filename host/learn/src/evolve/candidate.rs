//! What evolves, and what it is played on.

use clawhost_core::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Named sections of text. How they become a prompt is the conductor's business.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Candidate(pub BTreeMap<String, String>);

impl Candidate {
    /// Names it by what it says: equal sections, equal digests.
    pub fn digest(&self) -> Digest {
        let sections = self.0.iter().map(|(name, text)| (name.clone(), text.as_str().into()));
        Digest::of_json(&serde_json::Value::Object(sections.collect()))
    }

    /// The text of a section; empty if there is none.
    pub fn section(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The same with another text in one section.
    #[must_use]
    pub fn with(&self, section: &str, text: String) -> Self {
        let mut sections = self.0.clone();
        sections.insert(section.to_owned(), text);
        Self(sections)
    }
}

/// One thing to play: a task with the environment's seed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// The task's id.
    pub task: String,
    /// The environment's seed.
    pub seed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_of_names_and_texts_and_of_nothing_else() {
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
