//! A day of live traffic.

use clawhost_core::{RunId, RunKind, RunLabels, RunRecord, SpecDocument, StateId};

/// A run of live sessions of clients without a key, which has just begun.
pub fn live_run(id: &str, state_id: StateId) -> RunRecord {
    RunRecord {
        id: RunId(id.to_owned()),
        parent: None,
        kind: RunKind::Live,
        environment: "agents".to_owned(),
        state_id,
        config: SpecDocument::none(),
        basis: serde_json::json!("live"),
        planned: 0,
        created_at: 1,
        labels: RunLabels::default(),
    }
}
