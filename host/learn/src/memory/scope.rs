//! Scopes: whom something is remembered for.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Longest text of a scope in bytes: the names of a key and of a user.
pub const SCOPE_BYTES: usize = 500;

/// Whom a scope is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScopeLevel {
    /// A person.
    User,
    /// A project that agents work on.
    Project,
    /// An agent.
    Agent,
    /// The clients of several keys.
    Team,
}

impl ScopeLevel {
    /// All levels, the narrowest first: what is remembered for a narrower one is shown first.
    pub const ALL: [Self; 4] = [Self::User, Self::Project, Self::Agent, Self::Team];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Agent => "agent",
            Self::Team => "team",
        }
    }

    /// What stands above its items in a prompt.
    pub fn heading(self) -> &'static str {
        match self {
            Self::User => "About this user:",
            Self::Project => "About this project:",
            Self::Agent => "Notes for this agent:",
            Self::Team => "Notes of the team:",
        }
    }
}

/// Whom something is remembered for, and who may read it. Written `LEVEL:OWNER/NAME`: the owner is the key behind which the name means
/// somebody, so that no client reaches what belongs to another key. Without keys it is empty. A team has no owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Scope {
    level: ScopeLevel,
    owner: String,
    name: String,
}

/// Why a text is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a scope is LEVEL:OWNER/NAME on one line, with user, project, agent or team as LEVEL, of at most {SCOPE_BYTES} bytes"
)]
pub struct InvalidScope;

impl Scope {
    /// A scope. An owner has no `/`.
    ///
    /// # Errors
    /// The owner contains `/`, a name has a control character, or the text is longer than [`SCOPE_BYTES`].
    pub fn new(level: ScopeLevel, owner: &str, name: &str) -> Result<Self, InvalidScope> {
        let is_plain = |text: &str| !text.chars().any(char::is_control);
        let bytes = level.name().len() + owner.len() + name.len() + 2;
        if owner.contains('/') || !is_plain(owner) || !is_plain(name) || bytes > SCOPE_BYTES {
            return Err(InvalidScope);
        }
        let owner = if level == ScopeLevel::Team { "" } else { owner };
        Ok(Self { level, owner: owner.to_owned(), name: name.to_owned() })
    }

    /// Whom it is about.
    pub fn level(&self) -> ScopeLevel {
        self.level
    }

    /// Name of the key to which it belongs; empty without keys, and of a team.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The name behind the owner.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.level.name(), self.owner, self.name)
    }
}

impl FromStr for Scope {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        let (level, rest) = text.split_once(':').ok_or(InvalidScope)?;
        let level = ScopeLevel::ALL.into_iter().find(|known| known.name() == level).ok_or(InvalidScope)?;
        let (owner, name) = rest.split_once('/').ok_or(InvalidScope)?;
        if level == ScopeLevel::Team && !owner.is_empty() {
            return Err(InvalidScope);
        }
        Self::new(level, owner, name)
    }
}

impl TryFrom<String> for Scope {
    type Error = InvalidScope;

    fn try_from(text: String) -> Result<Self, InvalidScope> {
        text.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_scope_is_read_and_written_or_refused() {
        let check = |text: &str, fits: bool| {
            let read = text.parse::<Scope>();
            assert_eq!(read.as_ref().map(ToString::to_string).ok().as_deref(), fits.then_some(text), "{text:?}");
        };
        check("user:/", true);
        check("user:key/ada@b.example", true);
        check("project:key/a/b", true);
        check("team:/core", true);
        check("team:key/core", false);
        check("user:ada", false);
        check("users:/ada", false);
        check("user:/a\nb", false);
        check(&format!("user:/{}", "a".repeat(SCOPE_BYTES)), false);
        assert!(Scope::new(ScopeLevel::User, "a/b", "c").is_err());
    }

    proptest! {
        #[test]
        fn two_owners_never_share_a_scope(one in "[a-z/]{0,4}", other in "[a-z/]{0,4}", first in "[a-z/]{0,4}", second in "[a-z/]{0,4}") {
            prop_assume!(one != other);
            let scopes = (Scope::new(ScopeLevel::User, &one, &first), Scope::new(ScopeLevel::User, &other, &second));
            if let (Ok(one), Ok(other)) = scopes {
                prop_assert_ne!(one.to_string(), other.to_string());
            }
        }
    }
}
