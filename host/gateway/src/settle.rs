//! What a gateway left: records that were not taken over, and sessions that nobody continues while no gateway runs.

use crate::capture::{Importer, Recorder, Spool};
use crate::{CaptureStore, GatewayError, GatewayLimits};
use clawhost_capture::{CaptureKey, SessionsLimits};
use clawhost_core::{Clock, RunId, SpoolPlace};
use std::path::Path;
use std::sync::Arc;

/// Whether records wait that were not taken over. `taken`: the place up to which they were.
pub fn is_waiting(spool: &Path, taken: SpoolPlace) -> bool {
    Spool::is_waiting(spool, taken)
}

/// The place behind the last record of a gateway that runs. `None`: it has recorded nothing since its start.
pub fn spool_end(spool: &Path) -> Option<SpoolPlace> {
    Spool::last_place(spool)
}

/// Deletes the files of the spool, after [`settle`]. The caller holds the exclusive lease of the folder.
///
/// # Errors
/// A file cannot be deleted.
pub fn clear_spool(spool: &Path) -> Result<(), GatewayError> {
    Spool::clear(spool).map_err(GatewayError::Spool)
}

/// Takes records over, and if `closes`, makes episodes of all open sessions. Returns the number of episodes. The caller holds the lease of
/// the gateway.
///
/// # Errors
/// The store or the spool cannot be used.
pub async fn settle(
    store: CaptureStore,
    spool: &Path,
    clock: Arc<dyn Clock>,
    closes: bool,
) -> Result<u64, GatewayError> {
    let limits = GatewayLimits::default();
    let taken = store.reader()?.spool_place()?;
    let store = Arc::new(store);
    let opened = Spool::open(spool, taken, limits.spool())?;
    // Nothing is placed here, so neither the key nor the name of a run matters.
    let every = SessionsLimits { sessions: usize::MAX, ..SessionsLimits::default() };
    let unnamed = Box::new(|_| RunId(String::new()));
    let now_ms = clock.now_ms();
    let recorder = Arc::new(Recorder::new(CaptureKey::new([0; 32]), 0, every, opened, clock, unnamed));
    let mut importer = Importer::restore(store, recorder.clone(), now_ms, limits.episode_bytes).await?;
    if closes {
        recorder.end_all();
        importer.close_ended().await?;
    }
    recorder.spool.discard();
    Ok(recorder.counts.episodes.load(std::sync::atomic::Ordering::Relaxed))
}
