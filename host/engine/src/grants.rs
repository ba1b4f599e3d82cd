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

    /// What a plugin gets: of what is granted, that for which its manifest asks. One without a manifest gets all.
    pub(crate) fn asked_for(mut self, component: &ComponentOutline) -> Self {
        if let Some(manifest) = &component.manifest {
            self.kv &= manifest.grants.kv;
            self.models.retain(|alias, _| manifest.grants.llm.contains(alias));
        }
        self
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

const DENIED: &str = "no model is granted as `";

/// What a plugin hears that asks for a model without a grant.
pub(crate) fn denied(alias: &str) -> String {
    format!("{DENIED}{alias}`")
}

/// The alias of a model that was not granted, if the text of a plugin's failure repeats what it heard. `None`: it does not, or the alias
/// is not one that can be granted: letters, digits, `-` and `_`.
pub fn denied_alias(failure: &str) -> Option<&str> {
    let (_, rest) = failure.split_once(DENIED)?;
    let (alias, _) = rest.split_once('`')?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (!alias.is_empty() && alias.bytes().all(is_plain)).then_some(alias)
}

impl std::fmt::Debug for ModelGrants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.names().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_a_denied_call_is_found_in_a_failure() {
        let check = |alias: &str, expect: Option<&str>| {
            let failure = format!("the judge failed: {}; 3 votes", denied(alias));
            assert_eq!(denied_alias(&failure), expect, "{failure}");
        };
        check("judge", Some("judge"));
        check("a-model_2", Some("a-model_2"));
        check("", None);
        check("x; rm", None);
        assert_eq!(denied_alias("no model answered"), None);
    }
}
