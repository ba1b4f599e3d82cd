//! Grants of plugins: kv, and models by alias.

use crate::ComponentOutline;
use clawhost_core::{Grants, Llm};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The grants of a plugin beyond computing and logging. Empty by default.
#[derive(Clone, Default)]
pub struct ModelGrants {
    /// Whether it may use the kv store.
    pub kv: bool,
    /// Models that it may use, by the alias in its requests.
    pub models: BTreeMap<String, Arc<dyn Llm>>,
}

impl ModelGrants {
    /// The grants as names, for records.
    pub fn names(&self) -> Grants {
        let models = self.models.iter().map(|(alias, model)| (alias.clone(), model.identity())).collect();
        Grants { kv: self.kv, models }
    }

    /// The part that a component can use: a grant for something that it does not import is ignored.
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
