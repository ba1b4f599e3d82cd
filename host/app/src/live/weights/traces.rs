//! Names under which steps of weights know whose sessions they learned from, also when these sessions are no longer recorded.

use clawhost_core::{Digest, LiveSession};
use std::collections::BTreeSet;

/// Keeps these names apart from those of episodes, which have a `/`.
const MARK: &str = "scope:";

/// The name of a scope: `user:KEY/NAME`, `project:KEY/NAME`, `agent:KEY/NAME`, or `key:KEY`. It is a digest, from which nothing can be read.
pub(crate) fn trace_of(scope: &str) -> String {
    format!("{MARK}{:016x}", Digest::of(b"trace of a scope").extended(scope.as_bytes()).prefix_u64())
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
