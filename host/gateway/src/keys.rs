//! Keys of clients. Only digests of them are kept: a key has 256 random bits, so its digest tells nothing about it.

use clawhost_core::Digest;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

/// The beginning of keys, by which people and scanners of leaked secrets know them.
pub const KEY_PREFIX: &str = "ch-";
/// The beginning of the key of an admin.
pub const ADMIN_KEY_PREFIX: &str = "ch-admin-";
/// What a client of this machine sends as its key where its program needs one and it has none. It counts as no key, and is no secret.
pub const PLACEHOLDER_KEY: &str = "clawhost";

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
    /// Millionths of a US dollar per day (UTC), of models with prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_micros_per_day: Option<u64>,
    /// Days after which its episodes and responses are removed. `None`: they are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_days: Option<u32>,
    /// The team whose memory its sessions see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
}

impl ClientKey {
    /// A key without limits.
    pub fn new(name: impl Into<String>, digest: Digest, created_at: u64) -> Self {
        Self {
            name: name.into(),
            digest,
            created_at,
            no_train: false,
            no_record: false,
            requests_per_minute: None,
            tokens_per_day: None,
            usd_micros_per_day: None,
            keep_days: None,
            team: None,
        }
    }
}

/// Millionths of a US dollar in dollars, without zeros at the end.
pub fn dollars(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Dollars as millionths. `None`: the text is no amount, is below a millionth, or has more than six decimal places.
pub fn usd_micros(text: &str) -> Option<u64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.chars().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || rest.len() > 6 || !is_number(whole) || !is_number(rest) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let rest: u64 = format!("{rest:0<6}").parse().ok()?;
    whole.checked_mul(1_000_000)?.checked_add(rest).filter(|micros| *micros > 0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_money_are_exact() {
        let check = |text: &str, micros: Option<u64>, shown: &str| {
            assert_eq!(usd_micros(text), micros, "{text}");
            micros.iter().for_each(|micros| assert_eq!(dollars(*micros), shown));
        };
        check("2", Some(2_000_000), "2");
        check("0.25", Some(250_000), "0.25");
        check("10.000001", Some(10_000_001), "10.000001");
        for wrong in ["", "0", "0.0", "-1", ".5", "1e3", "1.0000001", "1,5", "99999999999999999999"] {
            check(wrong, None, "");
        }
    }
}
