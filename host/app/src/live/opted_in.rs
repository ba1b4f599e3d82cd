//! Who has agreed that their sessions are used for what reaches others: weights that answer everybody, shadow answers.

use clawhost_core::LiveSession;
use std::collections::BTreeSet;

/// Keys and scopes that have agreed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OptedIn {
    /// Everybody.
    All,
    /// These, as the operator names them.
    These(BTreeSet<String>),
}

/// What a name begins with.
const LEVELS: [&str; 4] = ["key:", "user:", "agent:", "project:"];

impl OptedIn {
    /// Reads the names of those who have agreed. The error says what is wrong.
    pub(in crate::live) fn of(names: &[String]) -> Result<Self, String> {
        if names.is_empty() {
            return Err("name who has agreed: all, key:NAME, user:KEY/NAME, project:KEY/NAME or agent:/NAME".to_owned());
        }
        if names.iter().any(|name| name == "all") {
            return Ok(Self::All);
        }
        let is_known = |name: &&String| {
            let rest = LEVELS.iter().find_map(|level| name.strip_prefix(level));
            // Behind a key the agent is the key itself.
            let is_other_agent = name.starts_with("agent:") && !name.starts_with("agent:/");
            rest.is_some_and(|rest| name.starts_with("key:") || rest.contains('/')) && !is_other_agent
        };
        match names.iter().find(|name| !is_known(name)) {
            Some(name) => {
                let name = clawhost_core::escaped(name, 60);
                Err(format!(
                    "`{name}` names nobody; write all, key:NAME, user:KEY/NAME, project:KEY/NAME or agent:/NAME"
                ))
            }
            None => Ok(Self::These(names.iter().cloned().collect())),
        }
    }

    /// Who has agreed, for people.
    pub(crate) fn described(&self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::These(names) => names.iter().cloned().collect::<Vec<_>>().join(", "),
        }
    }

    /// Whether the user of a session behind a key has agreed.
    pub(in crate::live) fn has(&self, owner: &str, session: &LiveSession) -> bool {
        let Self::These(names) = self else { return true };
        names.contains(&format!("key:{owner}")) || session.scopes(owner).any(|scope| names.contains(&scope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_those_who_have_agreed_are_learned_from() {
        let check = |names: &[&str], owner: &str, user: Option<&str>, expect: bool| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let session = LiveSession { user: user.map(str::to_owned), ..LiveSession::new("s", "codex", "m") };
            assert_eq!(OptedIn::of(&names).unwrap().has(owner, &session), expect, "{names:?} {owner} {user:?}");
        };
        check(&["all"], "shop", None, true);
        check(&["key:shop"], "shop", Some("ada"), true);
        check(&["key:shop"], "", Some("ada"), false);
        check(&["key:"], "", None, true);
        check(&["user:shop/ada"], "shop", Some("ada"), true);
        check(&["user:shop/ada"], "other", Some("ada"), false);
        check(&["user:shop/ada"], "shop", Some("ben"), false);
        check(&["agent:/codex"], "", None, true);
        check(&["agent:/codex"], "shop", None, false);
        check(&["project:shop/p"], "shop", Some("ada"), false);
    }

    #[test]
    fn names_of_nobody_are_refused() {
        for names in [&[][..], &["shop"], &["user:ada"], &["team:core"], &["agent:shop/codex"]] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert!(OptedIn::of(&names).is_err(), "{names:?}");
        }
    }
}
