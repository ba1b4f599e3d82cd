//! The ways in which a demonstration ends.

use crate::AppError;
use clawhost_play::{Cancel, StopReason};

/// The end of a demonstration.
#[derive(Debug)]
pub enum DemoOutcome<T> {
    /// Everything was played: the proof.
    Finished(T),
    /// A part stopped early, so there is no proof.
    Stopped(StopReason),
}

/// Why a part of a demonstration ended early.
#[derive(Debug)]
pub(super) enum Halted {
    /// Stopped for this reason, without an error.
    Stopped(StopReason),
    /// An error.
    Failed(AppError),
}

impl From<StopReason> for Halted {
    fn from(reason: StopReason) -> Self {
        Self::Stopped(reason)
    }
}

impl<E: Into<AppError>> From<E> for Halted {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The result of a part of a demonstration.
pub(super) type Part<T> = Result<T, Halted>;

/// An error if a part was stopped early.
pub(super) fn whole(stopped: Option<StopReason>) -> Part<()> {
    stopped.map_or(Ok(()), |reason| Err(Halted::Stopped(reason)))
}

/// The end of a demonstration, for the caller. If the operator cancelled it, every other result or error is ignored.
pub(super) fn outcome<T>(played: Part<T>, cancel: &Cancel) -> Result<DemoOutcome<T>, AppError> {
    match played {
        _ if cancel.is_requested() => Ok(DemoOutcome::Stopped(StopReason::Cancelled)),
        Ok(proof) => Ok(DemoOutcome::Finished(proof)),
        Err(Halted::Stopped(reason)) => Ok(DemoOutcome::Stopped(reason)),
        Err(Halted::Failed(error)) => Err(error),
    }
}
