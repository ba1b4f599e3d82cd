//! Content addresses.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::str::FromStr;

/// A SHA-256 content address, displayed as `sha256:` and 64 hexadecimal digits, as in OCI registries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

/// A text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a digest: expected `sha256:` and 64 hexadecimal digits")]
pub struct ParseDigestError(String);

impl Digest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of bytes that come in parts: the same as of all of them at once.
    pub fn of_parts<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Self {
        let mut hasher = Sha256::new();
        parts.into_iter().for_each(|part| hasher.update(part));
        Self(hasher.finalize().into())
    }

    /// The digest of a value's canonical JSON (sorted keys, no white space). Equal values have equal digests.
    pub fn of_json(value: &Value) -> Self {
        Self::of(canonical_json(value).as_bytes())
    }

    /// The digest of this digest followed by more bytes: a rolling digest of a sequence.
    pub fn extended(&self, bytes: &[u8]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        hasher.update(bytes);
        Self(hasher.finalize().into())
    }

    /// Its 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest with these 32 bytes, as [`Digest::as_bytes`] gives them.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The first eight bytes as a number.
    pub fn prefix_u64(&self) -> u64 {
        let mut prefix = [0; 8];
        prefix.iter_mut().zip(self.0).for_each(|(to, from)| *to = from);
        u64::from_be_bytes(prefix)
    }

    /// The 64 hexadecimal digits without the prefix, for file names.
    pub fn hex(&self) -> String {
        // Written without `fmt`: every record has a dozen digests, and formatting them was visible in profiles.
        let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
        self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
    }

    /// The first 12 hexadecimal digits, for people.
    pub fn short(&self) -> String {
        let mut hex = self.hex();
        hex.truncate(12);
        hex
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseDigestError(text.to_owned());
        let hex = text.strip_prefix("sha256:").ok_or_else(error)?;
        if hex.len() != 64 || !hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(error());
        }
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let pair = hex.get(index * 2..index * 2 + 2).ok_or_else(error)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| error())?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// JSON with sorted keys and no white space, so that equal values have equal bytes.
pub fn canonical_json(value: &Value) -> String {
    let mut out = Vec::new();
    write(value, &mut out);
    // serde_json writes UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// Writes without a text of its own for each value: most of what is written are short texts and numbers.
fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_unstable_by_key(|(key, _)| key.as_str());
            out.push(b'{');
            for (position, (key, item)) in keys.into_iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                plain(key, out);
                out.push(b':');
                write(item, out);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        other => plain(other, out),
    }
}

fn plain(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    // A vector takes every write, and texts, numbers, booleans and null are written without an error.
    let _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn digests_do_not_depend_on_the_key_order() {
        let one = json!({"b": [1, {"y": null, "x": "a"}], "a": 0.5});
        let two = json!({"a": 0.5, "b": [1, {"x": "a", "y": null}]});
        assert_eq!(canonical_json(&one), r#"{"a":0.5,"b":[1,{"x":"a","y":null}]}"#);
        assert_eq!(Digest::of_json(&one), Digest::of_json(&two));
        assert_eq!(canonical_json(&json!({"\n\"": "é\u{7}\u{1F600}"})), "{\"\\n\\\"\":\"é\\u0007😀\"}");
    }

    #[test]
    fn only_displayed_digests_parse() {
        let digest = Digest::of(b"clawhost");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for bad in ["", "sha256:", "sha256:zz", "md5:00", &digest.to_string().to_uppercase(), &digest.hex()] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
