//! Who may change what a model has learned: one process takes steps, and which version answers changes under a lease of its own, for a moment. So a rollback
//! waits for no step.

use crate::{AppError, RequestError};
use clawhost_core::{Lease, LeaseMode, LeaseSubject, Leases as _};
use clawhost_store::FileLeases;
use std::path::Path;
use std::time::Duration;

/// The pause before another process is asked for again whether it has changed what answers.
const PAUSE: Duration = Duration::from_millis(10);
/// How often that is: for ten seconds. Under the lease a small file is written and old versions are removed.
const ATTEMPTS: usize = 1_000;

/// The right to take steps of a model. `None`: another process has it.
pub(super) fn lease(data: &Path, alias: &str) -> Result<Option<Box<dyn Lease>>, AppError> {
    Ok(FileLeases::new(data).acquire(&LeaseSubject::Weights(alias.to_owned()), LeaseMode::Exclusive)?)
}

/// What to say if another process has it.
pub(super) fn busy() -> AppError {
    RequestError::Other("another process trains these weights now; try again when it is done".to_owned()).into()
}

/// The right to change which version answers, and what is noted about versions. Waits on this thread while another process has it.
///
/// # Errors
/// It has it for longer than any change takes.
pub(super) fn changing(data: &Path, alias: &str) -> Result<Box<dyn Lease>, AppError> {
    let (leases, subject) = (FileLeases::new(data), LeaseSubject::ServedWeights(alias.to_owned()));
    for _ in 0..ATTEMPTS {
        if let Some(lease) = leases.acquire(&subject, LeaseMode::Exclusive)? {
            return Ok(lease);
        }
        std::thread::sleep(PAUSE);
    }
    Err(RequestError::Other("another process changes which of these weights answer; try again".to_owned()).into())
}
