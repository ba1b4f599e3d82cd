//! Live runs: one per key and day, so that old traffic can be scored, exported and removed by the day.

use clawhost_core::{Digest, EpisodeId, RunId, RunKind, RunLabels, RunRecord, SpecDocument, StateId};
use serde_json::json;
use std::collections::HashMap;

/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A run that takes new sessions.
#[derive(Debug, Clone)]
pub(crate) struct LiveRun {
    pub(crate) id: RunId,
    /// Position of the next session.
    pub(crate) next: u64,
}

/// The runs of today, by the name of the key; empty without one.
#[derive(Debug, Default)]
pub(crate) struct LiveRuns {
    today: HashMap<(String, u64), LiveRun>,
}

/// The day of a Unix time in milliseconds.
pub(crate) fn day(at: u64) -> u64 {
    at / DAY_MS
}

impl LiveRuns {
    /// A run of an earlier start of the gateway, which goes on.
    pub(crate) fn restore(&mut self, owner: String, day: u64, run: LiveRun) {
        self.today.entry((owner, day)).or_insert(run);
    }

    /// The place of a new session: its run, its episode and its position.
    pub(crate) fn open(&mut self, owner: &str, at: u64, new_run: impl FnOnce() -> RunId) -> (RunId, EpisodeId, u64) {
        let today = day(at);
        self.today.retain(|(_, day), _| *day + 1 >= today);
        let run = self.today.entry((owner.to_owned(), today)).or_insert_with(|| LiveRun { id: new_run(), next: 0 });
        let index = run.next;
        run.next += 1;
        (run.id.clone(), EpisodeId::new(&Digest::of(run.id.0.as_bytes()), index), index)
    }
}

impl LiveRuns {
    /// The name of the key of a run of today.
    pub(crate) fn owner(&self, run: &RunId) -> Option<&str> {
        self.today.iter().find(|(_, known)| known.id == *run).map(|((owner, _), _)| owner.as_str())
    }
}

/// How a run of clients without a key is called.
const WITHOUT_KEY: &str = "agents";

/// The record of a live run.
pub(crate) fn record(id: &RunId, owner: &str, state_id: StateId, at: u64) -> RunRecord {
    RunRecord {
        id: id.clone(),
        parent: None,
        kind: RunKind::Live,
        environment: if owner.is_empty() { WITHOUT_KEY.to_owned() } else { owner.to_owned() },
        state_id,
        config: SpecDocument::none(),
        // Live episodes are never played again, so nothing determines them but the run itself.
        basis: json!({ "live": { "owner": owner, "run": id, "day": day(at) } }),
        planned: 0,
        created_at: at,
        labels: RunLabels::default(),
    }
}

/// The name of the key of a live run.
pub(crate) fn owner(basis: &serde_json::Value) -> String {
    basis.pointer("/live/owner").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}
