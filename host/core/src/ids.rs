//! Names of runs and episodes.

use crate::Digest;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A run: one invocation that plays episodes. Unique in a data folder; chosen by the caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub String);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An episode: unique inside its run, and a function of what was asked for, so that two runs of one configuration name
/// their episodes alike and can be compared line by line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EpisodeId(pub String);

impl EpisodeId {
    /// The id of the `index`-th episode of a run with this configuration digest.
    pub fn new(configuration: &Digest, index: u64) -> Self {
        let mut hex = configuration.extended(&index.to_be_bytes()).hex();
        hex.truncate(16);
        Self(format!("ep-{hex}"))
    }
}

impl fmt::Display for EpisodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
