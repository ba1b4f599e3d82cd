//! Keys that sign modules: ECDSA over P-256, as cosign makes them, or Ed25519. Private keys are PKCS #8 in PEM, public keys are
//! SubjectPublicKeyInfo in PEM, as OpenSSL writes both.

use crate::RegistryError;
use clawhost_core::Digest;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use std::fmt;

/// Labels in PEM.
const PUBLIC: &str = "PUBLIC KEY";
const PRIVATE: &str = "PRIVATE KEY";
/// What stands before the point of a public key of P-256 in SubjectPublicKeyInfo (RFC 5480).
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Length of an uncompressed point of P-256.
const P256_POINT: usize = 65;
/// What stands before the bytes of a public key of Ed25519 in SubjectPublicKeyInfo (RFC 8410).
const ED25519_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Length of a public key of Ed25519.
const ED25519_KEY: usize = 32;

/// Kinds of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA over P-256 with SHA-256: what cosign makes.
    P256,
    /// Ed25519.
    Ed25519,
}

impl KeyKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::P256 => "ecdsa-p256",
            Self::Ed25519 => "ed25519",
        }
    }
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    kind: KeyKind,
    /// SubjectPublicKeyInfo in DER.
    der: Vec<u8>,
}

fn wrong(what: &str, why: impl Into<String>) -> RegistryError {
    RegistryError::Key { what: what.to_owned(), why: why.into() }
}

/// The content of one block of PEM.
fn block(what: &str, text: &str, label: &str) -> Result<Vec<u8>, RegistryError> {
    let block = pem::parse(text).map_err(|error| wrong(what, format!("it is no PEM: {error}")))?;
    match block.tag() {
        found if found == label => Ok(block.into_contents()),
        "ENCRYPTED SIGSTORE PRIVATE KEY" | "ENCRYPTED COSIGN PRIVATE KEY" => {
            Err(wrong(what, "it is encrypted by cosign; make a key here, or use an unencrypted one (PKCS #8)"))
        }
        "EC PRIVATE KEY" => Err(wrong(what, "it is in the format SEC 1; `openssl pkcs8 -topk8 -nocrypt` converts it")),
        found => Err(wrong(what, format!("it holds `{}`, expected `{label}`", clawhost_core::escaped(found, 60)))),
    }
}

impl PublicKey {
    /// Reads a key in PEM. `what` names it in messages.
    ///
    /// # Errors
    /// It is no public key of a kind that is known.
    pub fn read(what: &str, text: &str) -> Result<Self, RegistryError> {
        let der = block(what, text, PUBLIC)?;
        let is = |prefix: &[u8], length: usize| der.starts_with(prefix) && der.len() == prefix.len() + length;
        let kind = if is(&P256_PREFIX, P256_POINT) {
            KeyKind::P256
        } else if is(&ED25519_PREFIX, ED25519_KEY) {
            KeyKind::Ed25519
        } else {
            return Err(wrong(what, "it is a key of another kind; ECDSA over P-256 and Ed25519 are supported"));
        };
        Ok(Self { kind, der })
    }

    /// Its kind.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The digest of its SubjectPublicKeyInfo: what people compare.
    pub fn fingerprint(&self) -> Digest {
        Digest::of(&self.der)
    }

    /// The key in PEM.
    pub fn pem(&self) -> String {
        encoded(PUBLIC, &self.der)
    }

    /// Whether a signature of a message is by this key.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &'static dyn ring::signature::VerificationAlgorithm = match self.kind {
            KeyKind::P256 => &ECDSA_P256_SHA256_ASN1,
            KeyKind::Ed25519 => &ED25519,
        };
        let prefix = match self.kind {
            KeyKind::P256 => P256_PREFIX.len(),
            KeyKind::Ed25519 => ED25519_PREFIX.len(),
        };
        let key = self.der.get(prefix..).unwrap_or_default();
        UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok()
    }
}

fn encoded(label: &str, der: &[u8]) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(label, der), config)
}

enum Pair {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// A private key. It is never shown.
pub struct PrivateKey {
    pair: Pair,
    random: SystemRandom,
    /// PKCS #8 in DER.
    der: Vec<u8>,
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("public", &self.public().fingerprint()).finish_non_exhaustive()
    }
}

impl PrivateKey {
    /// Makes a key.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate(kind: KeyKind) -> Result<Self, RegistryError> {
        let random = SystemRandom::new();
        let made = match kind {
            KeyKind::P256 => EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random),
            KeyKind::Ed25519 => Ed25519KeyPair::generate_pkcs8(&random),
        };
        let made = made.map_err(|_| wrong("a new key", "the system gives no random numbers"))?;
        Self::of("a new key", made.as_ref().to_vec())
    }

    /// Reads a key in PEM. `what` names it in messages.
    ///
    /// # Errors
    /// It is no private key of a kind that is known.
    pub fn read(what: &str, text: &str) -> Result<Self, RegistryError> {
        Self::of(what, block(what, text, PRIVATE)?)
    }

    fn of(what: &str, der: Vec<u8>) -> Result<Self, RegistryError> {
        let random = SystemRandom::new();
        let p256 = || EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der, &random).map(Pair::P256);
        // OpenSSL writes no public key into the private one (version 1 of PKCS #8).
        let ed25519 = || Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map(Pair::Ed25519);
        let pair = p256().or_else(|_| ed25519()).map_err(|_| {
            wrong(what, "it is a key of another kind; ECDSA over P-256 and Ed25519 in PKCS #8 are supported")
        })?;
        Ok(Self { pair, random, der })
    }

    /// Its public key.
    pub fn public(&self) -> PublicKey {
        let (kind, prefix, key) = match &self.pair {
            Pair::P256(pair) => (KeyKind::P256, &P256_PREFIX[..], pair.public_key().as_ref()),
            Pair::Ed25519(pair) => (KeyKind::Ed25519, &ED25519_PREFIX[..], pair.public_key().as_ref()),
        };
        PublicKey { kind, der: [prefix, key].concat() }
    }

    /// The key in PEM, for a file that only its owner reads.
    pub fn pem(&self) -> String {
        encoded(PRIVATE, &self.der)
    }

    /// Signs a message.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, RegistryError> {
        match &self.pair {
            Pair::P256(pair) => match pair.sign(&self.random, message) {
                Ok(signature) => Ok(signature.as_ref().to_vec()),
                Err(_) => Err(wrong("a signature", "the system gives no random numbers")),
            },
            Pair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [KeyKind; 2] = [KeyKind::P256, KeyKind::Ed25519];

    #[test]
    fn a_key_signs_and_its_public_key_verifies() {
        for kind in KINDS {
            let key = PrivateKey::generate(kind).unwrap();
            let public = PublicKey::read("it", &key.public().pem()).unwrap();
            let again = PrivateKey::read("it", &key.pem()).unwrap();
            assert_eq!((&public, public.kind()), (&again.public(), kind));
            let signature = again.sign(b"message").unwrap();
            assert!(public.verifies(b"message", &signature), "{kind:?}");
            assert!(!public.verifies(b"messagf", &signature), "{kind:?}");
            let other = PrivateKey::generate(kind).unwrap().public();
            assert!(!other.verifies(b"message", &signature), "{kind:?}");
            for position in 0..signature.len() {
                let mut changed = signature.clone();
                changed[position] ^= 1;
                assert!(!public.verifies(b"message", &changed), "{kind:?} {position}");
            }
        }
    }

    #[test]
    fn other_keys_are_refused_with_a_reason() {
        let key = PrivateKey::generate(KeyKind::P256).unwrap();
        let check = |text: &str, expect: &str| {
            let error = PrivateKey::read("team.pem", text).unwrap_err().to_string();
            assert!(error.starts_with("team.pem: ") && error.contains(expect), "{error}");
        };
        check("nothing", "it is no PEM");
        check(&key.public().pem(), "it holds `PUBLIC KEY`, expected `PRIVATE KEY`");
        check(&encoded("EC PRIVATE KEY", b"1"), "openssl pkcs8");
        check(&encoded("ENCRYPTED SIGSTORE PRIVATE KEY", b"1"), "encrypted by cosign");
        check(&encoded(PRIVATE, b"1"), "a key of another kind");
        let error = PublicKey::read("team.pub", &encoded(PUBLIC, &P256_PREFIX)).unwrap_err().to_string();
        assert!(error.contains("a key of another kind"), "{error}");
    }

    #[test]
    fn a_private_key_is_never_shown() {
        let key = PrivateKey::generate(KeyKind::Ed25519).unwrap();
        let shown = format!("{key:?}");
        assert!(shown.contains(&key.public().fingerprint().to_string()), "{shown}");
        assert!(!shown.contains("der"), "{shown}");
    }
}
