//! Why a client cannot be made. (Why a model did not answer is `clawhost_core::ModelError`.)

use clawhost_core::Hint;

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The address is not one.
    #[error("`{0}` is not an http or https address ({1}); write {2}:MODEL@http://HOST:PORT/v1")]
    Address(String, String, &'static str),
    /// The address holds a password.
    #[error(
        "the address holds a user name or password; put the key into its variable (OPENAI_API_KEY, ANTHROPIC_API_KEY) or a file"
    )]
    PasswordInAddress,
    /// A key would travel in the clear.
    #[error("refusing to send a key over plain http to {0}; use https, or unset {1}")]
    KeyInTheClear(String, &'static str),
    /// The key file cannot be read.
    #[error("{0}: {1}; a key file is a text file that holds the key alone")]
    KeyFile(String, std::io::Error),
    /// The key has characters that no header can carry.
    #[error("the key has characters that cannot be sent; it should be one line of plain ASCII")]
    KeyCharacters,
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
    /// A script cannot be read.
    #[error("{0}: {1}; a script is a text file with one answer per line")]
    Script(String, std::io::Error),
    /// A script holds no answer.
    #[error("{0}: the script is empty; write one answer per line")]
    EmptyScript(String),
}

impl ProviderError {
    /// A stable name, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Address(..) => "model-address",
            Self::PasswordInAddress => "password-in-address",
            Self::KeyInTheClear(..) => "key-in-the-clear",
            Self::KeyFile(..) => "key-file",
            Self::KeyCharacters => "key-characters",
            Self::Client(_) => "http-client",
            Self::Script(..) => "script-unreadable",
            Self::EmptyScript(_) => "script-empty",
        }
    }

    /// What may mend it.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::PasswordInAddress | Self::KeyFile(..) | Self::KeyCharacters => vec![Hint::change("api_key_file")],
            Self::Address(..) | Self::KeyInTheClear(..) | Self::Script(..) | Self::EmptyScript(_) => {
                vec![Hint::change("policy")]
            }
            Self::Client(_) => Vec::new(),
        }
    }
}
