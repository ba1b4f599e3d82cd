//! Statements about modules: what was checked, how it was built. They are in-toto statements of version 1 in DSSE envelopes.

use crate::{PrivateKey, PublicKey, RegistryError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawhost_core::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The type of statements.
const TYPE: &str = "https://in-toto.io/Statement/v1";
/// The type of what an envelope holds.
const PAYLOAD: &str = "application/vnd.in-toto+json";
/// Most subjects and signatures that are read.
const LIST: usize = 64;

/// A statement about content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    /// What the predicate is: an address that names its format.
    pub predicate_type: String,
    /// What is stated.
    pub predicate: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Subject {
    name: String,
    digest: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload_type: String,
    payload: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Debug, Serialize, Deserialize)]
struct EnvelopeSignature {
    #[serde(default)]
    keyid: String,
    sig: String,
}

fn hex(digest: &Digest) -> String {
    let text = digest.to_string();
    text.strip_prefix("sha256:").unwrap_or(&text).to_owned()
}

/// What is signed of an envelope: the pre-authentication encoding of DSSE.
fn encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut encoded = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    encoded.extend_from_slice(payload);
    encoded
}

impl Statement {
    /// A statement about content with a name.
    pub fn new(name: &str, digest: &Digest, predicate_type: &str, predicate: Value) -> Self {
        let subject = Subject { name: name.to_owned(), digest: [("sha256".to_owned(), hex(digest))].into() };
        let (kind, predicate_type) = (TYPE.to_owned(), predicate_type.to_owned());
        Self { kind, subject: vec![subject], predicate_type, predicate }
    }

    /// Whether it is about this content.
    pub fn is_about(&self, digest: &Digest) -> bool {
        let hex = hex(digest);
        self.subject.iter().any(|subject| subject.digest.get("sha256") == Some(&hex))
    }

    /// The statement in an envelope, signed with a key if there is one.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn sealed(&self, key: Option<&PrivateKey>) -> Result<Vec<u8>, RegistryError> {
        let wrong = |error: serde_json::Error| RegistryError::malformed("a statement", error);
        let payload = serde_json::to_vec(self).map_err(wrong)?;
        let mut signatures = Vec::new();
        if let Some(key) = key {
            let sig = STANDARD.encode(key.sign(&encoding(PAYLOAD, &payload))?);
            signatures.push(EnvelopeSignature { keyid: key.public().fingerprint().to_string(), sig });
        }
        let envelope = Envelope { payload_type: PAYLOAD.to_owned(), payload: STANDARD.encode(&payload), signatures };
        serde_json::to_vec(&envelope).map_err(wrong)
    }
}

/// The statement in an envelope, and which of some keys signed it.
///
/// # Errors
/// It is no envelope with a statement.
pub fn statement_of<'k>(
    bytes: &[u8],
    keys: impl IntoIterator<Item = &'k PublicKey>,
) -> Result<(Statement, Option<&'k PublicKey>), RegistryError> {
    let wrong = |why: String| RegistryError::malformed("a statement", why);
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
    if envelope.payload_type != PAYLOAD {
        return Err(wrong(format!("it holds `{}`", envelope.payload_type)));
    }
    let payload = STANDARD.decode(&envelope.payload).map_err(|error| wrong(error.to_string()))?;
    let statement: Statement = serde_json::from_slice(&payload).map_err(|error| wrong(error.to_string()))?;
    if statement.kind != TYPE || statement.subject.len() > LIST {
        return Err(wrong(format!("it is of the type `{}`", statement.kind)));
    }
    let signed = encoding(PAYLOAD, &payload);
    let signatures = envelope.signatures.iter().take(LIST).filter_map(|one| STANDARD.decode(&one.sig).ok());
    let signatures: Vec<Vec<u8>> = signatures.collect();
    let by = keys.into_iter().find(|key| signatures.iter().any(|signature| key.verifies(&signed, signature)));
    Ok((statement, by))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyKind;

    #[test]
    fn the_encoding_is_that_of_the_specification() {
        // The example of the DSSE protocol.
        let encoded = encoding("http://example.com/HelloWorld", b"hello world");
        assert_eq!(encoded, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }

    #[test]
    fn a_statement_is_about_content_and_by_a_key() {
        let digest = Digest::of(b"content");
        let statement =
            Statement::new("shop/x", &digest, "https://example.com/check/v1", serde_json::json!({"passed": true}));
        let key = PrivateKey::generate(KeyKind::P256).unwrap();
        let (own, other) = (key.public(), PrivateKey::generate(KeyKind::P256).unwrap().public());
        let sealed = statement.sealed(Some(&key)).unwrap();
        let (read, by) = statement_of(&sealed, [&other, &own]).unwrap();
        assert_eq!((&read, by), (&statement, Some(&own)));
        assert!(read.is_about(&digest) && !read.is_about(&Digest::of(b"other")));
        assert_eq!(statement_of(&sealed, [&other]).unwrap().1, None);
        assert_eq!(statement_of(&statement.sealed(None).unwrap(), [&own]).unwrap().1, None);
        // Changed behind the signature.
        let mut envelope: Envelope = serde_json::from_slice(&sealed).unwrap();
        let payload = STANDARD.decode(&envelope.payload).unwrap();
        envelope.payload = STANDARD.encode(String::from_utf8(payload).unwrap().replace("true", "null"));
        assert_eq!(statement_of(&serde_json::to_vec(&envelope).unwrap(), [&own]).unwrap().1, None);
        assert!(statement_of(b"{}", []).is_err());
    }
}
