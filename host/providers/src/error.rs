//! Errors of creating a client. (Errors of model calls are `clawhost_core::ModelError`.)

use clawhost_core::{Hint, ScriptError};

/// Why a client cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The address is not a valid URL.
    #[error("`{0}` is not an http or https address ({1}); write {2}:MODEL@http://HOST:PORT/v1")]
    Address(String, String, &'static str),
    /// The address contains a password.
    #[error(
        "the address holds a user name or password; put the key into its variable (OPENAI_API_KEY, ANTHROPIC_API_KEY) or a file"
    )]
    PasswordInAddress,
    /// A key would be sent unencrypted.
    #[error("refusing to send a key over plain http to {0}; use https, or unset {1}")]
    KeyInTheClear(String, &'static str),
    /// The key file cannot be read.
    #[error("{0}: {1}; a key file is a text file with only the key")]
    KeyFile(String, std::io::Error),
    /// The key contains characters that are invalid in a header.
    #[error("the key has characters that cannot be sent; it should be one line of plain ASCII")]
    KeyCharacters,
    /// The address of a trace collector is invalid.
    #[error("`{0}` is no address of a trace collector: {1}")]
    CollectorAddress(String, String),
    /// The headers for a trace collector are invalid. They may contain a key, and are not quoted.
    #[error(
        "the headers of the trace collector cannot be read: write NAME=VALUE,NAME=VALUE, with values in percent encoding"
    )]
    CollectorHeaders,
    /// The address of a Tinker service is invalid.
    #[error("`{0}` is no address of a Tinker service: {1}; write http://HOST:PORT, or https://HOST")]
    TinkerAddress(String, String),
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
    /// A script cannot be read.
    #[error("{0}: {1}; a script is a text file with one answer per line")]
    Script(String, std::io::Error),
    /// A line of a script is no answer.
    #[error("{0}, {1}")]
    ScriptLine(String, ScriptError),
    /// A script is too long.
    #[error("{0}: longer than {1} bytes, so it is no script")]
    ScriptTooLong(String, u64),
    /// A script contains no answer.
    #[error("{0}: the script is empty; write one answer per line")]
    EmptyScript(String),
    /// A provider's own address without a key.
    #[error("{host} answers only requests with a key; set {variable} to your key")]
    NoKey {
        /// The host.
        host: String,
        /// The environment variable that a key is taken from.
        variable: &'static str,
    },
}

impl ProviderError {
    /// A stable identifier, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Address(..) => "model-address",
            Self::PasswordInAddress => "password-in-address",
            Self::KeyInTheClear(..) => "key-in-the-clear",
            Self::KeyFile(..) => "key-file",
            Self::KeyCharacters => "key-characters",
            Self::CollectorAddress(..) => "trace-collector",
            Self::CollectorHeaders => "trace-headers",
            Self::TinkerAddress(..) => "tinker-address",
            Self::Client(_) => "http-client",
            Self::Script(..) => "script-unreadable",
            Self::ScriptLine(..) => "script-line",
            Self::ScriptTooLong(..) => "script-too-long",
            Self::EmptyScript(_) => "script-empty",
            Self::NoKey { .. } => "no-key",
        }
    }

    /// Suggested remedies.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::PasswordInAddress | Self::KeyFile(..) | Self::KeyCharacters => vec![Hint::change("api_key_file")],
            Self::NoKey { .. } => vec![Hint::set("api_key_file", "FILE")],
            Self::Address(..)
            | Self::TinkerAddress(..)
            | Self::KeyInTheClear(..)
            | Self::Script(..)
            | Self::ScriptTooLong(..)
            | Self::EmptyScript(_) => vec![Hint::ChangeThis],
            // The file itself has to change.
            Self::ScriptLine(..) | Self::Client(_) | Self::CollectorAddress(..) | Self::CollectorHeaders => Vec::new(),
        }
    }
}
