//! Keys of clients. Only digests of them are kept: a key has 256 random bits, so its digest tells nothing about it.

use clawhost_core::Digest;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

/// The beginning of keys, by which people and scanners of leaked secrets know them.
pub const KEY_PREFIX: &str = "ch-";

/// A client's key, and what it may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientKey {
    /// Its name: the owner of its sessions and responses, and the agent's name in records.
    pub name: String,
    /// Digest of the key.
    pub digest: Digest,
    /// Unix time in milliseconds.
    pub created_at: u64,
    /// Whether learning leaves its traffic out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_train: bool,
    /// Whether its traffic is not recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_record: bool,
    /// Requests per minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Tokens per day (UTC), read and generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<u64>,
}

/// The keys of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientKeys(Vec<ClientKey>);

impl ClientKeys {
    /// These keys.
    pub fn new(keys: Vec<ClientKey>) -> Self {
        Self(keys)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &ClientKey> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entry of a key. Takes the same time for every wrong one.
    pub(crate) fn find(&self, key: &str) -> Option<&ClientKey> {
        let digest = Digest::of(key.as_bytes());
        let mut found = None;
        for known in &self.0 {
            if known.digest.as_bytes().ct_eq(digest.as_bytes()).into() {
                found = Some(known);
            }
        }
        found
    }
}
