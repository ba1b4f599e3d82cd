//! Why a gateway cannot start or go on. (Errors of requests are answers in their dialect.)

use clawhost_core::{Hint, StoreError};
use clawhost_providers::ProviderError;

/// Why a gateway cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The address cannot be listened on.
    #[error("{address} cannot be listened on: {why}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        why: String,
    },
    /// The address can be reached from other machines, and no key is set.
    #[error("{address} can be reached from other machines, and the gateway has no key")]
    Open {
        /// The address.
        address: String,
    },
    /// The certificate and its key cannot be used.
    #[error("TLS cannot be used: {0}")]
    Tls(String),
    /// Two models have one alias.
    #[error("two models are called `{0}`")]
    AliasTwice(String),
    /// There is no model.
    #[error("the gateway has no model")]
    NoModel,
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The spool failed.
    #[error("the spool of captured exchanges: {0}")]
    Spool(#[from] std::io::Error),
    /// There are no random numbers.
    #[error("no randomness for the gateway: {0}")]
    Randomness(String),
    /// Traces cannot be exported.
    #[error(transparent)]
    Traces(#[from] ProviderError),
    /// It was stopped.
    #[error("the gateway was stopped")]
    Stopped,
}

impl GatewayError {
    /// A stable identifier, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Listen { .. } => "gateway-listen",
            Self::Open { .. } => "gateway-without-key",
            Self::Tls(_) => "gateway-tls",
            Self::AliasTwice(_) => "gateway-alias-twice",
            Self::NoModel => "gateway-without-model",
            Self::Store(error) => error.code(),
            Self::Spool(_) => "gateway-spool",
            Self::Randomness(_) => "gateway-randomness",
            Self::Traces(error) => error.code(),
            Self::Stopped => "gateway-stopped",
        }
    }

    /// Suggested remedies.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Listen { .. } => vec![Hint::change("listen")],
            Self::Open { .. } => vec![Hint::command("keys add NAME", "makes one"), Hint::change("listen")],
            Self::Tls(_) => vec![Hint::change("tls_certificate"), Hint::change("tls_key")],
            Self::AliasTwice(_) => vec![Hint::change("upstream")],
            Self::NoModel => {
                vec![Hint::command("setup", "writes one into gateway.toml"), Hint::set("upstream", "SPEC")]
            }
            Self::Store(error) => error.hints(),
            Self::Traces(error) => error.hints(),
            Self::Spool(_) | Self::Randomness(_) | Self::Stopped => Vec::new(),
        }
    }
}
