//! Names of published modules: `team/name`, with the versions that are asked for.

use crate::PluginName;
use semver::{Comparator, Op, Version, VersionReq};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The name of a published module: a team, and a name in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ModuleName {
    team: PluginName,
    name: PluginName,
}

/// Why a text names no module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModuleNameError {
    /// There is no team, or more than one part behind it.
    #[error("`{}` is no name of a module: write TEAM/NAME", clawhost_core::escaped(.0, SHOWN))]
    Parts(String),
    /// A part is no name.
    #[error(transparent)]
    Part(#[from] crate::PluginNameError),
    /// The text behind the `@` is no version.
    #[error("`{}` is no version: write 1.2.0 (that one), 1.2 or 1 (the newest that fits), or a range as `>=1.2, <2`", clawhost_core::escaped(.0, SHOWN))]
    Version(String),
    /// It is a path, too.
    #[error("`{}` {why}", clawhost_core::escaped(.text, SHOWN))]
    Both {
        /// The text.
        text: String,
        /// The reason.
        why: &'static str,
    },
}

/// Bytes of a text that a message shows.
const SHOWN: usize = 120;

impl ModuleName {
    /// A module of a team.
    pub fn new(team: PluginName, name: PluginName) -> Self {
        Self { team, name }
    }

    /// The team.
    pub fn team(&self) -> &PluginName {
        &self.team
    }

    /// The name in the team.
    pub fn name(&self) -> &PluginName {
        &self.name
    }

    /// Names that look alike have one skeleton: it has no hyphens, and one character for those that are mistaken for each other.
    pub fn skeleton(&self) -> String {
        let text = self.to_string().replace('-', "").replace("rn", "m").replace("vv", "w");
        text.chars()
            .map(|one| match one {
                '0' => 'o',
                '1' | 'i' => 'l',
                '5' => 's',
                '2' => 'z',
                other => other,
            })
            .collect()
    }
}

impl FromStr for ModuleName {
    type Err = ModuleNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (team, name) = text.split_once('/').ok_or_else(|| ModuleNameError::Parts(text.to_owned()))?;
        if name.contains('/') {
            return Err(ModuleNameError::Parts(text.to_owned()));
        }
        Ok(Self { team: team.parse()?, name: name.parse()? })
    }
}

impl TryFrom<String> for ModuleName {
    type Error = ModuleNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ModuleName> for String {
    fn from(name: ModuleName) -> Self {
        name.to_string()
    }
}

impl fmt::Display for ModuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.team, self.name)
    }
}

/// A module with the versions that are asked for: `team/name`, `team/name@1.2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleRequest {
    /// The module.
    pub name: ModuleName,
    /// The versions that are asked for. A whole version means that one alone; the beginning of one, the newest that is compatible; none, the newest.
    pub versions: VersionReq,
}

impl ModuleRequest {
    /// Of these versions the newest that fits. A pre-release (`1.0.0-beta.1`) only if it is asked for.
    pub fn newest<'v>(&self, versions: impl IntoIterator<Item = &'v Version>) -> Option<&'v Version> {
        versions.into_iter().filter(|version| self.versions.matches(version)).max()
    }
}

impl FromStr for ModuleRequest {
    type Err = ModuleNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((name, wanted)) = text.split_once('@') else {
            return Ok(Self { name: text.parse()?, versions: VersionReq::STAR });
        };
        let wrong = || ModuleNameError::Version(wanted.to_owned());
        let versions = match wanted.parse::<Version>() {
            Ok(Version { major, minor, patch, pre, .. }) => {
                let comparator = Comparator { op: Op::Exact, major, minor: Some(minor), patch: Some(patch), pre };
                VersionReq { comparators: vec![comparator] }
            }
            Err(_) if wanted.trim().is_empty() => return Err(wrong()),
            Err(_) => wanted.parse().map_err(|_| wrong())?,
        };
        Ok(Self { name: name.parse()?, versions })
    }
}

impl fmt::Display for ModuleRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.versions == VersionReq::STAR {
            true => write!(f, "{}", self.name),
            false => write!(f, "{}@{}", self.name, self.versions),
        }
    }
}

/// What a text names where a plugin can be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// A file or a folder.
    Path,
    /// A published module.
    Module(ModuleRequest),
}

/// A file or folder has the name of a module.
const BOTH: &str = "is a path and the name of a module; write ./ in front of a path";

/// What a text in the place of a plugin is. With `/`, `./` or `../` in front, with `.wasm` at its end, or without any `/`, it is a path. Any other
/// text `team/name` or `team/name@version` is a module. `exists`: whether there is a file or folder of this name.
///
/// # Errors
/// The text is both, or has a version behind what is no name.
pub fn named(text: &str, exists: bool) -> Result<Named, ModuleNameError> {
    let is_path = ["/", "./", "../", "~"].iter().any(|beginning| text.starts_with(beginning))
        || text.ends_with(".wasm")
        || !text.contains('/');
    if is_path {
        return Ok(Named::Path);
    }
    match (text.parse(), exists) {
        (Ok(_), true) => Err(ModuleNameError::Both { text: text.to_owned(), why: BOTH }),
        (Ok(request), false) => Ok(Named::Module(request)),
        // A path of several folders is no name: `target/guests/env`. With a version, a module is meant.
        (Err(error), false) if text.contains('@') => Err(error),
        (Err(_), _) => Ok(Named::Path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_named_by_team_and_name() {
        assert_eq!("shop/env-x".parse::<ModuleName>().unwrap().to_string(), "shop/env-x");
        for text in ["env-x", "a/b/c", "", "/", "Shop/env", "shop/env_x", "shop/еnv", "shop/", "../x"] {
            assert!(text.parse::<ModuleName>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_version_is_one_or_a_range() {
        let versions: Vec<Version> =
            ["1.0.0", "1.2.0", "1.2.5", "2.0.0-beta.1", "2.0.0", "2.1.0"].map(|text| text.parse().unwrap()).into();
        let check = |wanted: &str, newest: Option<&str>| {
            let request: ModuleRequest = format!("a/b{wanted}").parse().unwrap();
            assert_eq!(request.newest(&versions).map(Version::to_string).as_deref(), newest, "{wanted}");
        };
        check("", Some("2.1.0"));
        check("@1", Some("1.2.5"));
        check("@1.2", Some("1.2.5"));
        check("@1.2.0", Some("1.2.0"));
        check("@=1.2", Some("1.2.5"));
        check("@>=1, <1.2", Some("1.0.0"));
        check("@2.0.0-beta.1", Some("2.0.0-beta.1"));
        check("@3", None);
        for text in ["a/b@", "a/b@one", "a/b@1.2.3.4", "a/b@@1"] {
            assert!(text.parse::<ModuleRequest>().unwrap_err().to_string().contains("is no version"), "{text}");
        }
    }

    #[test]
    fn names_that_look_alike_have_one_skeleton() {
        let skeleton = |text: &str| text.parse::<ModuleName>().unwrap().skeleton();
        for (one, other) in [
            ("shop/env-x", "sh0p/envx"),
            ("a/reward-learn", "a/reward-leam"),
            ("a/judge1", "a/judgel"),
            ("vv/x", "w/x"),
        ] {
            assert_eq!(skeleton(one), skeleton(other));
        }
        assert_ne!(skeleton("a/env-shop"), skeleton("a/env-math"));
    }

    #[test]
    fn a_text_is_a_path_or_a_module() {
        for path in ["./team/x", "/team/x", "../x/y", "x.wasm", "target/guests/x.wasm", "plugin", ".", "..", "~/x/y"] {
            for exists in [false, true] {
                assert_eq!(named(path, exists), Ok(Named::Path), "{path}");
            }
        }
        for module in ["team/x", "team/x@1", "team/x@1.2.0"] {
            assert!(matches!(named(module, false), Ok(Named::Module(_))), "{module}");
            let both = named(module, true).unwrap_err().to_string();
            assert!(both.contains("is a path and the name of a module; write ./ in front of a path"), "{both}");
        }
        for neither in ["team/x/y", "Team/x"] {
            assert_eq!(named(neither, false), Ok(Named::Path), "{neither}");
            assert_eq!(named(neither, true), Ok(Named::Path), "{neither}");
        }
        for wrong in ["team/x/y@1", "Team/x@1", "team/x@one"] {
            assert!(named(wrong, false).is_err(), "{wrong}");
        }
    }
}
