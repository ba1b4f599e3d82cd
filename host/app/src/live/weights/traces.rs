//! Names under which steps of weights know whose sessions they learned from, also when these sessions are no longer recorded.

use clawhost_core::{Digest, LiveSession};
use clawhost_learn::memory::{Scope, ScopeLevel};
use std::collections::BTreeSet;

/// Keeps these names apart from those of episodes, which have a `/`.
const MARK: &str = "scope:";

/// The name of a scope: `user:KEY/NAME`, `project:KEY/NAME`, `agent:KEY/NAME`, or `key:KEY`. It is a digest: the name cannot be read from it, but whoever guesses a name can check it.
pub(crate) fn trace_of(scope: &str) -> String {
    format!("{MARK}{}", folder_of(scope))
}

/// The name of the folder with the adapter of a scope: whose it is can be told without reading anything in there.
pub(super) fn folder_of(scope: &str) -> String {
    format!("{:016x}", Digest::of(b"trace of a scope").extended(scope.as_bytes()).prefix_u64())
}

/// Whether one of these names is that of the scope whose adapter is in a folder of this name.
pub(super) fn names_folder(names: &BTreeSet<String>, folder: &str) -> bool {
    names.contains(&format!("{MARK}{folder}"))
}

/// Whether the adapter of a scope is of what has one of these names: it learned from nobody else.
pub(super) fn names_adapter(names: &BTreeSet<String>, adapter: &Scope) -> bool {
    let key = || trace_of(&format!("key:{}", adapter.owner()));
    names.contains(&trace_of(&adapter.to_string())) || (adapter.level() != ScopeLevel::Team && names.contains(&key()))
}

/// The names of all scopes of a session.
pub(super) fn traces_of(owner: &str, session: &LiveSession) -> BTreeSet<String> {
    let nobody = session.user.is_none().then(|| format!("user:{owner}/"));
    let scopes = session.scopes(owner).chain(nobody).chain([format!("key:{owner}")]);
    scopes.map(|scope| trace_of(&scope)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_the_names_of_what_may_be_forgotten() {
        let session = LiveSession { user: Some("ada".into()), ..LiveSession::new("s", "codex", "m") };
        let traces = traces_of("shop", &session);
        for scope in ["user:shop/ada", "agent:shop/codex", "key:shop"] {
            assert!(traces.contains(&trace_of(scope)), "{scope}");
        }
        assert_eq!(traces.len(), 3);
        assert!(traces.iter().all(|trace| !trace.contains("ada") && !trace.contains('/')), "{traces:?}");
        let nobody = traces_of("", &LiveSession::new("s", "codex", "m"));
        assert!(nobody.contains(&trace_of("user:/")) && nobody.contains(&trace_of("key:")));
    }
}
