//! Ids of runs and episodes.

use crate::Digest;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Id of a run, one invocation that plays episodes. Unique in a data folder; chosen by the caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub String);

impl RunId {
    /// The name of this phase of a run. `None`: it is no phase of it.
    pub fn phase_of(&self, run: &RunId) -> Option<&str> {
        self.0.strip_prefix(&run.0)?.strip_prefix('.')
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Id of an episode, unique in its run. It is a function of the run's configuration, so that equal configurations give equal
/// ids and runs can be compared line by line.
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
