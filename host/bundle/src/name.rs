//! The names of entries: a closed set.

use clawhost_core::Digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The manifest. It lists the others, so it is none of them.
pub(crate) const MANIFEST: &str = "manifest.json";

const RUNS: &str = "runs.json.zst";
const LEARNING: &str = "learning.json.zst";
const ADAPTER_SETTINGS: &str = "adapter/adapter_config.json.zst";
const ADAPTER_WEIGHTS: (&str, &str) = ("adapter/", ".safetensors.zst");
const PLUGIN: (&str, &str) = ("plugins/", ".wasm.zst");
const EPISODES: (&str, &str) = ("episodes/", ".jsonl.zst");
/// Digits of the number of a part.
const DIGITS: usize = 6;

/// The name of an entry. Entries are in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryName {
    /// The rows of the run and of its phases.
    Runs,
    /// What was learned, and the reports of it.
    Learning,
    /// The settings of the adapter that was learned, as PEFT writes them.
    AdapterSettings,
    /// A part of the adapter's weights, in safetensors, from 0.
    AdapterWeights(u32),
    /// A component, by its digest.
    Plugin(Digest),
    /// A part of the episodes, in the order of the runs, from 0.
    Episodes(u32),
}

/// A text that is no name of an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of an entry")]
pub struct UnknownName(pub(crate) String);

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs => f.write_str(RUNS),
            Self::Learning => f.write_str(LEARNING),
            Self::AdapterSettings => f.write_str(ADAPTER_SETTINGS),
            Self::AdapterWeights(part) => write!(f, "{}{part:0DIGITS$}{}", ADAPTER_WEIGHTS.0, ADAPTER_WEIGHTS.1),
            Self::Plugin(digest) => write!(f, "{}{}{}", PLUGIN.0, digest.hex(), PLUGIN.1),
            Self::Episodes(part) => write!(f, "{}{part:0DIGITS$}{}", EPISODES.0, EPISODES.1),
        }
    }
}

impl FromStr for EntryName {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let inside = |(before, after): (&str, &str)| text.strip_prefix(before)?.strip_suffix(after);
        let found = match text {
            RUNS => Some(Self::Runs),
            LEARNING => Some(Self::Learning),
            ADAPTER_SETTINGS => Some(Self::AdapterSettings),
            _ => inside(PLUGIN)
                .and_then(|hex| format!("sha256:{hex}").parse().ok().map(Self::Plugin))
                .or_else(|| inside(ADAPTER_WEIGHTS)?.parse().ok().map(Self::AdapterWeights))
                .or_else(|| inside(EPISODES)?.parse().ok().map(Self::Episodes)),
        };
        // Each entry has one name: `+1` and `000001` are the same number.
        found.filter(|found| found.to_string() == text).ok_or_else(|| UnknownName(clawhost_core::escaped(text, 100)))
    }
}

impl Serialize for EntryName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EntryName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_name_is_one_of_a_closed_set() {
        let plugin = EntryName::Plugin(Digest::of(b"component"));
        let adapter = [EntryName::AdapterSettings, EntryName::AdapterWeights(0), EntryName::AdapterWeights(12)];
        let others =
            [EntryName::Runs, EntryName::Learning, plugin, EntryName::Episodes(0), EntryName::Episodes(65_535)];
        for name in adapter.into_iter().chain(others) {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        for odd in [
            "manifest.json",
            "../runs.json.zst",
            "/etc/passwd",
            "episodes/1.jsonl.zst",
            "episodes/+00001.jsonl.zst",
            "episodes/../../x.jsonl.zst",
            "adapter/1.safetensors.zst",
            "adapter/adapter_model.safetensors.zst",
            "plugins/.wasm.zst",
            "plugins/ABCD.wasm.zst",
            "RUNS.json.zst",
            "",
        ] {
            assert!(odd.parse::<EntryName>().is_err(), "{odd}");
        }
    }

    proptest! {
        #[test]
        fn no_other_text_is_a_name(text in ".{0,80}") {
            if let Ok(name) = text.parse::<EntryName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
