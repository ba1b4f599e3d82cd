//! Where modules are published.

use crate::RegistryError;
use clawhost_package::{ModuleName, PluginName};
use semver::Version;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The team of a module that was published without one.
pub const DEFAULT_TEAM: &str = "local";
/// Longest text of a registry in bytes.
const TEXT_BYTES: usize = 1024;
/// What a registry looks like.
const EXPECTED: &str = "write oci://HOST/PATH or file:FOLDER";

/// A registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A server that speaks the OCI distribution protocol.
    Oci {
        /// Host, with its port if it is not the usual one.
        host: String,
        /// What stands in front of `team/name` in its repositories; empty: nothing.
        path: String,
    },
    /// A folder.
    Folder(PathBuf),
}

impl Location {
    /// What the repository of a module is called, for people and in signatures.
    pub fn repository(&self, module: &ModuleName) -> String {
        match self {
            Self::Oci { host, path } if path.is_empty() => format!("{host}/{module}"),
            Self::Oci { host, path } => format!("{host}/{path}/{module}"),
            Self::Folder(_) => module.to_string(),
        }
    }
}

fn wrong(text: &str, why: impl Into<String>) -> RegistryError {
    RegistryError::Location { text: text.to_owned(), why: why.into() }
}

/// Whether a host is one: a name or an address, with an optional port.
fn is_host(host: &str) -> bool {
    !host.contains(['/', '@', '?', '#', '\\'])
        && url::Url::parse(&format!("https://{host}/")).is_ok_and(|url| url.host().is_some() && url.path() == "/")
}

/// Whether a text is a path of repositories, as the OCI distribution specification writes them.
fn is_path(path: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
            && part.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || "._-".contains(one))
    };
    path.split('/').all(is_part)
}

impl FromStr for Location {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > TEXT_BYTES {
            return Err(wrong("", format!("it is longer than {TEXT_BYTES} bytes")));
        }
        if let Some(folder) = text.strip_prefix("file:") {
            let folder = folder.strip_prefix("//").unwrap_or(folder);
            return match folder {
                "" => Err(wrong(text, EXPECTED)),
                folder => Ok(Self::Folder(PathBuf::from(folder))),
            };
        }
        let rest = text.strip_prefix("oci://").ok_or_else(|| wrong(text, EXPECTED))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = path.strip_suffix('/').unwrap_or(path);
        if !is_host(host) {
            return Err(wrong(text, "behind oci:// stands a host, with its port if needed"));
        }
        if !path.is_empty() && !is_path(path) {
            return Err(wrong(text, "its path has small letters, digits, and . _ - inside of words"));
        }
        Ok(Self::Oci { host: host.to_owned(), path: path.to_owned() })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oci { host, path } if path.is_empty() => write!(f, "oci://{host}"),
            Self::Oci { host, path } => write!(f, "oci://{host}/{path}"),
            Self::Folder(folder) => write!(f, "file:{}", folder.display()),
        }
    }
}

/// Where a module is published: a registry, and with it optionally name and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishTarget {
    /// The registry.
    pub registry: Location,
    /// The team, if it is named.
    pub team: Option<PluginName>,
    /// The name in the team, if it is named.
    pub name: Option<PluginName>,
    /// The version, if it is named.
    pub version: Option<Version>,
}

impl FromStr for PublishTarget {
    type Err = RegistryError;

    /// `oci://HOST/PATH/TEAM/NAME:VERSION`, of which PATH and VERSION may be missing; or `file:FOLDER`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let registry: Location = match text.strip_prefix("oci://") {
            None => return Ok(Self { registry: text.parse()?, team: None, name: None, version: None }),
            // A colon behind the last slash divides name and version; one before it belongs to the host.
            Some(rest) => match rest.rsplit_once('/').and_then(|(front, last)| Some((front, last.split_once(':')?))) {
                Some((front, (last, version))) => {
                    let version = version.parse().map_err(|why| wrong(text, format!("its version: {why}")))?;
                    let target = Self::named(text, &format!("oci://{front}/{last}"))?;
                    return Ok(Self { version: Some(version), ..target });
                }
                None => text.parse()?,
            },
        };
        match &registry {
            Location::Oci { path, .. } if path.contains('/') => Self::named(text, text),
            _ => Err(wrong(text, "name the module: oci://HOST/TEAM/NAME, with :VERSION behind it if you like")),
        }
    }
}

impl PublishTarget {
    /// A target whose last two parts are team and name.
    fn named(written: &str, text: &str) -> Result<Self, RegistryError> {
        let Location::Oci { host, path } = text.parse()? else { return Err(wrong(written, EXPECTED)) };
        let part = |part: &str| part.parse::<PluginName>().map_err(|why| wrong(written, why.to_string()));
        let (front, name) = path.rsplit_once('/').ok_or_else(|| wrong(written, "it ends with TEAM/NAME"))?;
        let (front, team) = front.rsplit_once('/').unwrap_or(("", front));
        let registry = Location::Oci { host, path: front.to_owned() };
        Ok(Self { registry, team: Some(part(team)?), name: Some(part(name)?), version: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_a_server_or_a_folder() {
        let check = |text: &str, expect: Result<&str, &str>| match (text.parse::<Location>(), expect) {
            (Ok(location), Ok(shown)) => assert_eq!(location.to_string(), shown, "{text}"),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("{text}: {found:?}"),
        };
        check("oci://ghcr.io", Ok("oci://ghcr.io"));
        check("oci://127.0.0.1:5000/a/b/", Ok("oci://127.0.0.1:5000/a/b"));
        check("oci://[::1]:5000/a", Ok("oci://[::1]:5000/a"));
        check("file:/tmp/x", Ok("file:/tmp/x"));
        check("file:///tmp/x", Ok("file:/tmp/x"));
        check("file:shared", Ok("file:shared"));
        check("file:", Err("write oci://HOST/PATH or file:FOLDER"));
        check("https://ghcr.io/x", Err("write oci://HOST/PATH"));
        check("oci://user:key@ghcr.io/x", Err("behind oci:// stands a host"));
        check("oci://", Err("behind oci:// stands a host"));
        check("oci://ghcr.io/../x", Err("its path has small letters"));
        check("oci://ghcr.io/A", Err("its path has small letters"));
        check(&format!("oci://{}", "a".repeat(2000)), Err("longer than 1024"));
    }

    #[test]
    fn a_target_names_registry_module_and_version() {
        let check = |text: &str, registry: &str, module: Option<(&str, &str)>, version: Option<&str>| {
            let target: PublishTarget = text.parse().unwrap();
            assert_eq!(target.registry.to_string(), registry, "{text}");
            let parts =
                target.team.as_ref().zip(target.name.as_ref()).map(|(team, name)| (team.as_str(), name.as_str()));
            assert_eq!(parts, module, "{text}");
            assert_eq!(target.version.map(|version| version.to_string()).as_deref(), version, "{text}");
        };
        check("oci://h:5000/team/x:1.2.0", "oci://h:5000", Some(("team", "x")), Some("1.2.0"));
        check("oci://h/a/b/team/x", "oci://h/a/b", Some(("team", "x")), None);
        check("file:shared", "file:shared", None, None);
        for text in ["oci://h:5000", "oci://h/x", "oci://h/team/x:one", "oci://h/Team/x", "oci://h/team/x_y:1.0.0"] {
            assert!(text.parse::<PublishTarget>().is_err(), "{text}");
        }
    }
}
