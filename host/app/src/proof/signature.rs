//! Who vouches for a bundle: an in-toto statement about its digest in a DSSE envelope, in a file beside it.
//!
//! The bundle itself stays the same, so that equal runs have equal bundles.

use super::ProofError;
use crate::AppError;
use clawhost_core::{Digest, Discrepancy, escaped};
use clawhost_registry::{PrivateKey, PublicKey, Trust, statement_of};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What is behind the name of a bundle in the name of its signature.
const SUFFIX: &str = ".sig";
/// What the statement is.
const PREDICATE: &str = "https://github.com/clawhost/clawhost/proof/v1";
/// Largest file of a signature in bytes.
const SIGNATURE_BYTES: u64 = 64 << 10;
/// Bytes of a text of others that is shown.
const SHOWN: usize = 100;

/// What a signature says of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Signature {
    /// There is none: nobody vouches for the digest of the manifest.
    #[default]
    Nobody,
    /// A trusted key signed the digest.
    Trusted {
        /// What the key is called here.
        name: String,
        /// Its fingerprint.
        fingerprint: Digest,
        /// What its owner calls itself.
        publisher: Option<String>,
    },
    /// A key signed the digest that was trusted, and is revoked.
    Revoked {
        /// What the key is called here.
        name: String,
    },
    /// No key signed it that is known here.
    Stranger,
    /// The file is a statement about something else, or none.
    Unfit {
        /// The reason.
        why: String,
    },
}

impl Signature {
    /// As text.
    pub fn words(&self) -> String {
        match self {
            Self::Nobody => "none".to_owned(),
            Self::Trusted { name, publisher, .. } => {
                let calls = publisher.as_ref().map(|name| format!(", who calls itself {}", escaped(name, SHOWN)));
                format!("by the trusted key {name}{}", calls.unwrap_or_default())
            }
            Self::Revoked { name } => format!("by the key {name}, which is revoked"),
            Self::Stranger => "by a key that is not trusted here".to_owned(),
            Self::Unfit { why } => format!("does not fit: {}", escaped(why, SHOWN)),
        }
    }

    /// What is wrong with it.
    pub(super) fn differences(&self) -> Option<Discrepancy> {
        let Self::Unfit { why } = self else { return None };
        let (record, what) = ("the signature".to_owned(), "its statement".to_owned());
        Some(Discrepancy { record, what, recorded: Some(why.clone()), expected: Some("about this bundle".to_owned()) })
    }
}

/// The file of a bundle's signature.
pub(super) fn file_of(bundle: &Path) -> PathBuf {
    let mut name = bundle.as_os_str().to_owned();
    name.push(SUFFIX);
    PathBuf::from(name)
}

/// Signs the digest of a bundle, in a file beside it. Returns the file.
///
/// # Errors
/// The file exists or cannot be written.
pub(super) fn sign(
    bundle: &Path,
    (run, digest): (&str, &Digest),
    (key, publisher): (&PrivateKey, &str),
) -> Result<PathBuf, AppError> {
    let path = file_of(bundle);
    let predicate = serde_json::json!({ "publisher": publisher });
    let sealed = clawhost_registry::Statement::new(run, digest, PREDICATE, predicate).sealed(Some(key))?;
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => ProofError::Exists { path: path.display().to_string() }.into(),
        _ => AppError::Io { path: path.display().to_string(), error },
    };
    let mut file = std::fs::File::create_new(&path).map_err(failed)?;
    std::io::Write::write_all(&mut file, &sealed).map_err(failed)?;
    Ok(path)
}

/// What the file beside a bundle says. `trust`: whose keys count.
pub(super) fn read(bundle: &Path, digest: &Digest, trust: &Trust) -> Signature {
    let path = file_of(bundle);
    let bytes = match clawhost_files::read(&path, SIGNATURE_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Signature::Nobody,
        Err(error) => return Signature::Unfit { why: error.to_string() },
    };
    let keys = trust.keys().iter().filter_map(|one| Some((one, PublicKey::read(one.name.as_str(), &one.key).ok()?)));
    let keys: Vec<_> = keys.collect();
    let (statement, by) = match statement_of(&bytes, keys.iter().map(|(_, key)| key)) {
        Ok(read) => read,
        Err(error) => return Signature::Unfit { why: error.to_string() },
    };
    if statement.predicate_type != PREDICATE || !statement.is_about(digest) {
        return Signature::Unfit { why: "it is about another bundle".to_owned() };
    }
    match by.and_then(|by| keys.iter().find(|(_, key)| key == by)) {
        None => Signature::Stranger,
        Some((one, _)) if one.revoked.is_some() => Signature::Revoked { name: one.name.to_string() },
        Some((one, key)) => Signature::Trusted {
            name: one.name.to_string(),
            fingerprint: key.fingerprint(),
            publisher: statement.predicate.get("publisher").and_then(|name| name.as_str()).map(str::to_owned),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_registry::KeyKind;

    #[test]
    fn a_signature_is_about_one_bundle_and_by_a_key_that_is_known() {
        let place = tempfile::tempdir().unwrap();
        let bundle = place.path().join("shop.claim");
        let (digest, other) = (Digest::of(b"bundle"), Digest::of(b"other"));
        let mut trust = Trust::default();
        assert_eq!(read(&bundle, &digest, &trust), Signature::Nobody);
        let key = PrivateKey::generate(KeyKind::P256).unwrap();
        let file = sign(&bundle, ("run-1", &digest), (&key, "Shop")).unwrap();
        assert_eq!(file, place.path().join("shop.claim.sig"));
        assert!(sign(&bundle, ("run-1", &digest), (&key, "Shop")).is_err(), "a signature is never replaced");
        assert_eq!(read(&bundle, &digest, &trust), Signature::Stranger);
        trust.trust("shop".parse().unwrap(), Vec::new(), &key.public()).unwrap();
        let read_again = read(&bundle, &digest, &trust);
        assert_eq!(read_again.words(), "by the trusted key shop, who calls itself Shop");
        assert!(read_again.differences().is_none());
        let unfit = read(&bundle, &other, &trust);
        assert!(unfit.differences().unwrap().to_string().contains("it is about another bundle"));
        trust.revoke("shop", "today").unwrap();
        assert_eq!(read(&bundle, &digest, &trust).words(), "by the key shop, which is revoked");
        std::fs::write(&file, "{}").unwrap();
        assert!(read(&bundle, &digest, &trust).differences().is_some());
    }
}
