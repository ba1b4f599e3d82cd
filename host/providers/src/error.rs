//! Why a client cannot be made. (Why a model did not answer is `clawhost_core::ModelError`.)

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The address is not one.
    #[error("`{0}` is not an http or https address ({1}); write {2}:MODEL@http://HOST:PORT/v1")]
    Address(String, String, &'static str),
    /// The address holds a password.
    #[error(
        "the address holds a user name or password; put the key into its variable (OPENAI_API_KEY, ANTHROPIC_API_KEY) or a file (--api-key-file)"
    )]
    PasswordInAddress,
    /// A key would travel in the clear.
    #[error("refusing to send a key over plain http to {0}; use https, or unset {1}")]
    KeyInTheClear(String, &'static str),
    /// The key file cannot be read.
    #[error("{0}: {1}; --api-key-file names a file that holds the key alone")]
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
    /// A script says nothing.
    #[error("{0}: the script is empty; write one answer per line")]
    EmptyScript(String),
}
