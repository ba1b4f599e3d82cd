//! Signatures of modules in the format of cosign: a *simple signing* payload names the digest of a manifest, and is signed as it stands.
//!
//! A signature is a layer of a manifest with the tag `sha256-<digest>.sig`. `optional` binds name, version and publisher, which are checked here;
//! cosign itself checks only the digest. Format: "Cosign signature specification" of sigstore, and "containers/image simple signing".

use crate::{Descriptor, Document, PrivateKey, PublicKey, Reference, Registry, RegistryError, media};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawhost_core::Digest;
use clawhost_package::ModuleName;
use semver::Version;
use serde::{Deserialize, Serialize};

/// The annotation of a layer that holds the signature of its content, in base64.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// The type of the payload.
const TYPE: &str = "cosign container image signature";
/// Largest payload in bytes: a few names and digests.
const PAYLOAD_BYTES: u64 = 64 << 10;
/// Most signatures of a module that are looked at.
const SIGNATURES: usize = 64;
/// Most bytes of a signature in base64.
const SIGNATURE_BYTES: usize = 1024;

/// What is signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    critical: Critical,
    #[serde(default)]
    optional: Option<Binding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Critical {
    identity: Identity,
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Identity {
    docker_reference: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Image {
    docker_manifest_digest: Digest,
}

/// What a signature says beyond the digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The module's name.
    #[serde(default)]
    pub name: Option<String>,
    /// Its version.
    #[serde(default)]
    pub version: Option<String>,
    /// Who signs, in words.
    #[serde(default)]
    pub publisher: Option<String>,
}

/// A signature of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The payload, as it was signed.
    pub payload: Vec<u8>,
    /// The signature: DER for ECDSA.
    pub signature: Vec<u8>,
}

/// The tag of the signatures of a manifest.
pub fn tag(manifest: &Digest) -> String {
    format!("{}.sig", crate::port::referrers_tag(manifest))
}

impl Signature {
    /// Signs a manifest. `repository`: host and path of the module, as tools name images.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new(
        key: &PrivateKey,
        manifest: Digest,
        repository: &str,
        (name, version): (&ModuleName, &Version),
        publisher: &str,
    ) -> Result<Self, RegistryError> {
        let payload = Payload {
            critical: Critical {
                identity: Identity { docker_reference: repository.to_owned() },
                image: Image { docker_manifest_digest: manifest },
                kind: TYPE.to_owned(),
            },
            optional: Some(Binding {
                name: Some(name.to_string()),
                version: Some(version.to_string()),
                publisher: Some(publisher.to_owned()),
            }),
        };
        let payload = serde_json::to_vec(&payload).map_err(|error| RegistryError::malformed("a signature", error))?;
        let signature = key.sign(&payload)?;
        Ok(Self { payload, signature })
    }

    /// Checks a signature: by this key, about this manifest, and for this name and version if it names some. Returns what it says.
    ///
    /// # Errors
    /// The reason for which it does not count.
    pub fn check(
        &self,
        key: &PublicKey,
        manifest: &Digest,
        name: &ModuleName,
        version: &Version,
    ) -> Result<Binding, String> {
        if !key.verifies(&self.payload, &self.signature) {
            return Err("it is by another key".to_owned());
        }
        let payload: Payload =
            serde_json::from_slice(&self.payload).map_err(|error| format!("its payload: {error}"))?;
        let Critical { image, kind, .. } = &payload.critical;
        if kind != TYPE {
            return Err("it is a signature of something else".to_owned());
        }
        if image.docker_manifest_digest != *manifest {
            return Err(format!("it is about {}", image.docker_manifest_digest));
        }
        let said = payload.optional.unwrap_or_default();
        match &said.name {
            Some(other) if *other != name.to_string() => {
                return Err(format!("it is for {}", clawhost_core::escaped(other, 100)));
            }
            _ => {}
        }
        match &said.version {
            Some(other) if *other != version.to_string() => {
                Err(format!("it is for version {}", clawhost_core::escaped(other, 100)))
            }
            _ => Ok(said),
        }
    }
}

/// The signatures of a manifest. What cannot be read as one is left out: it counts for nobody.
///
/// # Errors
/// The registry cannot be read.
pub async fn signatures(
    registry: &dyn Registry,
    module: &ModuleName,
    manifest: &Digest,
) -> Result<Vec<Signature>, RegistryError> {
    let what = format!("the signatures of {module}");
    let Some(bytes) = registry.manifest(module, &Reference::Tag(tag(manifest))).await? else { return Ok(Vec::new()) };
    let mut signatures = Vec::new();
    for layer in Document::read(&what, &bytes)?.layers.iter().take(SIGNATURES) {
        let Some(signature) = layer.annotations.get(SIGNATURE).filter(|text| text.len() <= SIGNATURE_BYTES) else {
            continue;
        };
        let Ok(signature) = STANDARD.decode(signature) else { continue };
        if layer.media_type != media::SIMPLE_SIGNING || layer.size > PAYLOAD_BYTES {
            continue;
        }
        signatures.push(Signature { payload: registry.blob(module, layer).await?, signature });
    }
    Ok(signatures)
}

/// Stores a signature beside those that a manifest has.
///
/// # Errors
/// The registry cannot be written.
pub async fn add(
    registry: &dyn Registry,
    module: &ModuleName,
    manifest: &Digest,
    signature: &Signature,
) -> Result<(), RegistryError> {
    let tag = tag(manifest);
    let what = format!("the signatures of {module}");
    let config = br#"{"architecture":"","os":"","config":{},"rootfs":{"type":"layers","diff_ids":[]}}"#;
    let mut document = match registry.manifest(module, &Reference::Tag(tag.clone())).await? {
        Some(bytes) => Document::read(&what, &bytes)?,
        None => Document::new(Descriptor::of("application/vnd.oci.image.config.v1+json", config), Vec::new()),
    };
    let layer = Descriptor::of(media::SIMPLE_SIGNING, &signature.payload)
        .with(SIGNATURE, STANDARD.encode(&signature.signature));
    document.layers.push(layer);
    registry.push_blob(module, config).await?;
    registry.push_blob(module, &signature.payload).await?;
    registry.push_manifest(module, media::MANIFEST, Some(&tag), &document.bytes()).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyKind;

    #[test]
    fn a_signature_counts_for_one_manifest_name_and_version() {
        let key = PrivateKey::generate(KeyKind::P256).unwrap();
        let (manifest, other) = (Digest::of(b"manifest"), Digest::of(b"other"));
        let (name, version): (ModuleName, Version) = ("a/x".parse().unwrap(), "1.2.0".parse().unwrap());
        let signature = Signature::new(&key, manifest, "h/a/x", (&name, &version), "Team A").unwrap();
        let check = |manifest: &Digest, name: &str, version: &str| {
            signature.check(&key.public(), manifest, &name.parse().unwrap(), &version.parse().unwrap())
        };
        assert_eq!(check(&manifest, "a/x", "1.2.0").unwrap().publisher.as_deref(), Some("Team A"));
        assert_eq!(check(&other, "a/x", "1.2.0").unwrap_err(), format!("it is about {manifest}"));
        assert_eq!(check(&manifest, "a/y", "1.2.0").unwrap_err(), "it is for a/x");
        assert_eq!(check(&manifest, "a/x", "1.3.0").unwrap_err(), "it is for version 1.2.0");
        let stranger = PrivateKey::generate(KeyKind::P256).unwrap().public();
        assert_eq!(signature.check(&stranger, &manifest, &name, &version).unwrap_err(), "it is by another key");
        let mut changed = signature.clone();
        changed.payload = String::from_utf8(changed.payload).unwrap().replace("1.2.0", "9.9.9").into_bytes();
        let version = "9.9.9".parse().unwrap();
        assert_eq!(changed.check(&key.public(), &manifest, &name, &version).unwrap_err(), "it is by another key");
    }

    #[test]
    fn a_payload_of_cosign_has_nothing_optional() {
        let manifest = Digest::of(b"manifest");
        let text = format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"h/a/x"}},"image":{{"docker-manifest-digest":"{manifest}"}},"type":"{TYPE}"}},"optional":null}}"#
        );
        let key = PrivateKey::generate(KeyKind::P256).unwrap();
        let signature = Signature { signature: key.sign(text.as_bytes()).unwrap(), payload: text.into_bytes() };
        let said = signature.check(&key.public(), &manifest, &"a/x".parse().unwrap(), &"1.0.0".parse().unwrap());
        assert_eq!(said, Ok(Binding::default()));
    }
}
