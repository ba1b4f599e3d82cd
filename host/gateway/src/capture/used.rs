//! What keys have used today, by the record.

use super::runs;
use clawhost_capture::Exchange;
use clawhost_core::{RunKind, StoreError, StoreReader, Usage};
use std::collections::BTreeMap;

/// What each key has used on the day (UTC) of `now_ms`, a Unix time in milliseconds, as a gateway counts it against limits when it starts:
/// answers that are recorded, of sessions that have ended and of open ones. Traffic of a key that is not recorded is not in it.
///
/// # Errors
/// The store cannot be read.
pub fn used_today(reader: &dyn StoreReader, now_ms: u64) -> Result<BTreeMap<String, Usage>, StoreError> {
    let today = runs::day(now_ms);
    let mut used: BTreeMap<String, Usage> = BTreeMap::new();
    for run in reader.runs(None)?.into_iter().filter(|run| run.kind == RunKind::Live && !run.pruned) {
        if runs::day(run.created_at) == today {
            *used.entry(runs::owner(&run.basis)).or_default() += run.spent;
        }
    }
    for open in reader.open_episodes(None)? {
        for document in reader.exchanges(&open.episode.run, &open.episode.id)? {
            let Ok(exchange) = serde_json::from_str::<Exchange>(&document) else { continue };
            if runs::day(exchange.at) == today {
                *used.entry(exchange.client.owner.clone()).or_default() += exchange.answer.usage();
            }
        }
    }
    Ok(used)
}
