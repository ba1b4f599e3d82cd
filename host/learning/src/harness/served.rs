//! The playbooks that a learning run compared, from its last checkpoint.

use super::stage::HarnessState;
use clawhost_learn::EntryId;
use clawhost_learn::harness::PlaybookView;
use clawhost_learn::playbook::Playbook;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The playbooks of a learning run as its test showed them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServedPlaybooks {
    /// Before learning.
    pub before: Playbook,
    /// After learning: the deployed one.
    pub after: Playbook,
    /// Lower bounds of the effects of entries, by which they are ordered in a prompt.
    pub worth: BTreeMap<EntryId, f64>,
}

impl ServedPlaybooks {
    /// Those of a checkpoint. `None`: the harness did not learn, or another version of the program wrote it.
    pub fn of_checkpoint(state: &Value) -> Option<Self> {
        let state: HarnessState = serde_json::from_value(state.pointer("/layers/harness")?.clone()).ok()?;
        Some(Self { before: state.before.clone(), after: state.harness.deployed(), worth: state.harness.worth() })
    }

    /// Both as they were shown, before and after learning, in prompts with this room for lessons.
    pub fn views(&self, token_budget: u64) -> [PlaybookView; 2] {
        [&self.before, &self.after].map(|one| PlaybookView::serving(one.clone(), &self.worth, token_budget))
    }
}
