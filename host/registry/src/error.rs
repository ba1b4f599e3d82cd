//! Errors of registries.

use clawhost_core::{Digest, Hint, escaped};
use clawhost_package::{ModuleName, ModuleRequest};
use semver::Version;

/// Bytes of a text from outside that a message shows.
const SHOWN: usize = 300;
/// Versions that a message names.
const NAMED: usize = 8;

/// A registry or a module cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// A text names no registry.
    #[error("`{}` is no registry: {why}", escaped(.text, SHOWN))]
    Location {
        /// The text.
        text: String,
        /// What is expected.
        why: String,
    },
    /// The registry cannot be reached.
    #[error("{host}: {}", escaped(.why, SHOWN))]
    Unreachable {
        /// The host.
        host: String,
        /// The reason.
        why: String,
    },
    /// The registry sends nothing.
    #[error("{host} has sent nothing for {seconds} s")]
    Silent {
        /// The host.
        host: String,
        /// The patience in seconds.
        seconds: u64,
    },
    /// The registry refuses the credentials, or wants some.
    #[error("{host} refuses {what} (HTTP {status}){}", if *.with_credentials { ": its credentials are not sufficient" } else { ": it wants credentials" })]
    Denied {
        /// The host.
        host: String,
        /// What was requested.
        what: String,
        /// The HTTP status.
        status: u16,
        /// Whether credentials were sent.
        with_credentials: bool,
    },
    /// The registry answers with an error.
    #[error("{host} answers HTTP {status} to {what}{}", if .why.is_empty() { String::new() } else { format!(": {}", escaped(.why, SHOWN)) })]
    Status {
        /// The host.
        host: String,
        /// What was requested.
        what: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of the answer.
        why: String,
    },
    /// The registry leads elsewhere, in a way that is not followed.
    #[error("{host} redirects {what} to {}: {why}", escaped(.to, SHOWN))]
    Redirected {
        /// The host.
        host: String,
        /// What was requested.
        what: String,
        /// The target.
        to: String,
        /// Why it is not followed.
        why: &'static str,
    },
    /// The registry names a token service that may not see the credentials.
    #[error("{host} asks for its credentials to be sent to {realm}, which is another host")]
    ForeignRealm {
        /// The host.
        host: String,
        /// The host of the token service.
        realm: String,
    },
    /// Credentials are configured and cannot be read.
    #[error("the credentials of {host} cannot be read: {}", escaped(.why, SHOWN))]
    Credentials {
        /// The host.
        host: String,
        /// The reason.
        why: String,
    },
    /// Content is longer or shorter than announced, or longer than a limit.
    #[error("{what} is refused: {why}")]
    Size {
        /// The content.
        what: String,
        /// The lengths.
        why: String,
    },
    /// Content is not what its digest says.
    #[error("{what} was changed: its digest is {found}, expected {expected}")]
    Changed {
        /// The content.
        what: String,
        /// The expected digest.
        expected: Digest,
        /// The digest of what came.
        found: Digest,
    },
    /// A document of the registry cannot be understood.
    #[error("{what} is not a document of a module: {}", escaped(.why, SHOWN))]
    Malformed {
        /// The document.
        what: String,
        /// The reason.
        why: String,
    },
    /// There is no such module.
    #[error("{location} has no module {module}{}", .nearest.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default())]
    NoModule {
        /// The module.
        module: ModuleName,
        /// The registry.
        location: String,
        /// A module with a similar name.
        nearest: Option<Box<ModuleName>>,
    },
    /// There is no such version.
    #[error("{location} has no version of {request}; it has {}", listed(.versions))]
    NoVersion {
        /// What was asked for.
        request: Box<ModuleRequest>,
        /// The registry.
        location: String,
        /// The versions that exist, the newest first.
        versions: Vec<Version>,
    },
    /// The name looks like that of another module.
    #[error(
        "{module} looks like {other}, which {location} has already; two modules with names that look alike are a trap"
    )]
    LooksAlike {
        /// The module.
        module: ModuleName,
        /// The other module.
        other: Box<ModuleName>,
        /// The registry.
        location: String,
    },
    /// The version exists with other content.
    #[error("{location} has {module} {version} already, with other content; a version never changes")]
    Exists {
        /// The module.
        module: ModuleName,
        /// The version.
        version: Version,
        /// The registry.
        location: String,
    },
    /// The version was withdrawn.
    #[error("{module} {version} was withdrawn{}", if .why.is_empty() { String::new() } else { format!(": {}", escaped(.why, SHOWN)) })]
    Yanked {
        /// The module.
        module: ModuleName,
        /// The version.
        version: Version,
        /// The reason of its publisher.
        why: String,
    },
    /// Nobody who is trusted has signed the module.
    #[error("{module} {version} {why}")]
    Untrusted {
        /// The module.
        module: ModuleName,
        /// The version.
        version: Version,
        /// What is wrong with its signatures.
        why: String,
        /// Whether a key that was revoked signed it.
        revoked: bool,
    },
    /// The manifest is another one than the lock pins.
    #[error("{module} {version} is not what claw.lock pins: {why}")]
    Unpinned {
        /// The module.
        module: ModuleName,
        /// The version.
        version: Version,
        /// What differs.
        why: String,
    },
    /// A key cannot be used.
    #[error("{what}: {why}")]
    Key {
        /// The key or its file.
        what: String,
        /// The reason.
        why: String,
    },
    /// A file or folder cannot be used.
    #[error("{path}: {why}")]
    File {
        /// The path.
        path: String,
        /// The reason.
        why: String,
    },
}

/// Versions for a message.
fn listed(versions: &[Version]) -> String {
    if versions.is_empty() {
        return "none".to_owned();
    }
    let named: Vec<String> = versions.iter().take(NAMED).map(Version::to_string).collect();
    let more = versions.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

impl RegistryError {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Location { .. } => "location",
            Self::Unreachable { .. } => "unreachable",
            Self::Silent { .. } => "silent",
            Self::Denied { .. } => "denied",
            Self::Status { .. } => "status",
            Self::Redirected { .. } => "redirected",
            Self::ForeignRealm { .. } => "foreign_realm",
            Self::Credentials { .. } => "credentials",
            Self::Size { .. } => "size",
            Self::Changed { .. } => "changed",
            Self::Malformed { .. } => "malformed",
            Self::NoModule { .. } => "no_module",
            Self::NoVersion { .. } => "no_version",
            Self::LooksAlike { .. } => "looks_alike",
            Self::Exists { .. } => "exists",
            Self::Yanked { .. } => "yanked",
            Self::Untrusted { .. } => "untrusted",
            Self::Unpinned { .. } => "unpinned",
            Self::Key { .. } => "key",
            Self::File { .. } => "file",
        }
    }

    /// Suggested remedies.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Denied { host, .. } | Self::Credentials { host, .. } => {
                vec![Hint::outside(format!("`docker login {host}` stores credentials where clawhost finds them"))]
            }
            Self::Exists { .. } => {
                vec![Hint::outside("raise the version in claw.toml and in the source, and build again")]
            }
            Self::Untrusted { module, revoked: true, .. } => {
                vec![Hint::command(
                    format!("update {module}"),
                    "shows a version that another key signed, if there is one",
                )]
            }
            Self::Untrusted { .. } => vec![
                Hint::outside("ask the publisher for the public key, by another way than the registry"),
                Hint::command("keys trust FILE", "trusts a public key"),
            ],
            Self::Unpinned { module, .. } => vec![Hint::command(
                format!("update {module}"),
                "shows the difference, and pins the new one if you accept it",
            )],
            Self::Changed { .. } | Self::Size { .. } => {
                vec![
                    Hint::outside("nothing of it was kept; the registry, or what is between, is broken or hostile"),
                    Hint::command("pull MODULE", "replaces a copy in the data folder that was damaged"),
                ]
            }
            Self::NoModule { .. } => {
                vec![Hint::command(
                    "search",
                    "lists the modules of the usual registry; name another one if you meant it",
                )]
            }
            Self::Unreachable { .. } | Self::Silent { .. } => {
                vec![Hint::outside("what was pulled once is used without a network")]
            }
            _ => Vec::new(),
        }
    }

    /// A file that cannot be used.
    pub fn file(path: &std::path::Path, why: &dyn std::fmt::Display) -> Self {
        Self::File { path: path.display().to_string(), why: why.to_string() }
    }

    /// A document that cannot be understood.
    pub(crate) fn malformed(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::Malformed { what: what.into(), why: why.to_string() }
    }
}
