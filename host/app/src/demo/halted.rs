//! How a demonstration ends.

use crate::AppError;
use clawhost_play::{Cancel, StopReason};

/// How a demonstration ended.
#[derive(Debug)]
pub enum DemoOutcome<T> {
    /// Everything was played.
    Finished(T),
    /// A part did not come to its end, so nothing is said about any.
    Stopped(StopReason),
}

/// Why a part did not come to its end.
#[derive(Debug)]
pub(super) enum Halted {
    /// Stopped in order.
    Stopped(StopReason),
    /// Failed.
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

/// What a part of a demonstration gives.
pub(super) type Part<T> = Result<T, Halted>;

/// Refuses what was stopped early.
pub(super) fn whole(stopped: Option<StopReason>) -> Part<()> {
    stopped.map_or(Ok(()), |reason| Err(Halted::Stopped(reason)))
}

/// How it ended, for the caller. Whatever comes of a demonstration that the operator stopped is a consequence of that.
pub(super) fn outcome<T>(played: Part<T>, cancel: &Cancel) -> Result<DemoOutcome<T>, AppError> {
    match played {
        _ if cancel.is_requested() => Ok(DemoOutcome::Stopped(StopReason::Cancelled)),
        Ok(proof) => Ok(DemoOutcome::Finished(proof)),
        Err(Halted::Stopped(reason)) => Ok(DemoOutcome::Stopped(reason)),
        Err(Halted::Failed(error)) => Err(error),
    }
}
