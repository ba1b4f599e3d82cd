//! Models that a plugin may ask, by alias.

use crate::ComponentOutline;
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
        let models = self.models.iter().map(|(alias, model)| (alias.clone(), model.identity())).collect();
        Grants { kv: self.kv, models }
    }

    /// The part that a component can use: a grant for what it does not import changes nothing.
    pub(crate) fn used_by(&self, component: &ComponentOutline) -> Grants {
        let mut grants = self.names();
        grants.kv &= component.wants("clawhost:kv/kv");
        if !component.wants("clawhost:llm/llm") {
            grants.models.clear();
        }
        grants
    }
}

impl std::fmt::Debug for ModelGrants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.names().fmt(f)
    }
}
