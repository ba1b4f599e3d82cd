//! Where weights learn. A version of them is a folder with content of the backend's own: weights, an adapter, or the name of weights elsewhere.

use super::pace::Pace;
use super::step::{Aged, Stepped};
use crate::AppError;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The model that an operator configured.
pub(super) struct Base {
    /// The digest of its weights.
    pub(super) digest: String,
    /// What limits which sessions teach it, for the log. `None`: nothing.
    pub(super) warning: Option<String>,
}

/// What a step begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    /// The number of the version.
    pub(super) number: u64,
    /// Its folder. `None`: the configured model.
    pub(super) folder: Option<PathBuf>,
    /// The digest of the configured model's weights.
    pub(super) base: String,
}

/// What a step made.
pub(super) struct Made {
    pub(super) stepped: Stepped,
    /// The tokens of its sessions that it learned from in a second, if it was taken.
    pub(super) tokens_per_second: Option<f64>,
    /// The new weights, if it was taken.
    pub(super) version: Option<Box<dyn NewVersion>>,
}

/// New weights that no version has yet.
pub(super) trait NewVersion {
    /// The digest of the weights, as answers name them.
    fn digest(&self) -> String;
    /// Writes them, with what the next step needs, into a folder that does not exist.
    ///
    /// # Errors
    /// They cannot be written.
    fn write(&self, folder: &Path) -> Result<(), AppError>;
}

/// Trains weights.
pub(super) trait WeightsBackend: Send + Sync {
    /// The part of a version's folder that a gateway reads.
    fn part(&self) -> &str;
    /// The configured model.
    ///
    /// # Errors
    /// It cannot be read, or a step of it would need more memory than is allowed.
    fn base(&self) -> Result<Base, AppError>;
    /// Takes a step on this thread over some sessions, all or nothing. Nothing counts before its version is written. What computes in this process rests as
    /// `pace` says.
    ///
    /// # Errors
    /// The weights cannot be read or trained now. The sessions may be taken again.
    fn step(&self, start: &Start, sessions: Vec<Aged>, pace: &Arc<Pace>) -> Result<Made, AppError>;
}
