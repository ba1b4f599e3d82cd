//! Models that a plugin may ask, by alias.

use clawhost_core::{Grants, Llm};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a plugin is granted beyond computing and logging. Empty by default: deny.
#[derive(Clone, Default)]
pub struct ModelGrants {
    /// Whether it may keep notes in kv.
    pub kv: bool,
    /// Models it may ask, by the alias it names them with.
    pub models: BTreeMap<String, Arc<dyn Llm>>,
}

impl ModelGrants {
    /// As names, for records.
    pub fn names(&self) -> Grants {
        Grants { kv: self.kv, models: self.models.keys().cloned().collect() }
    }
}

impl std::fmt::Debug for ModelGrants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.names().fmt(f)
    }
}
