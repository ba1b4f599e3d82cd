//! The other programs: the library of wkg, and sigstore.

use anyhow::{Context as _, Result, anyhow};
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;
use oci_wasm::{WasmClient, WasmConfig};
use sigstore::cosign::constraint::{AnnotationMarker, PrivateKeySigner};
use sigstore::cosign::verification_constraint::{PublicKeyVerifier, VerificationConstraint};
use sigstore::cosign::{self, Constraint as _, CosignCapabilities as _, SignatureLayer, verify_constraints};
use sigstore::crypto::SigningScheme;
use sigstore::registry::{self, Auth, OciReference};
use zeroize::Zeroizing;

fn wasm() -> WasmClient {
    WasmClient::new(Client::new(ClientConfig { protocol: ClientProtocol::Http, ..ClientConfig::default() }))
}

/// The component of an image, as `wkg oci pull` gets it.
pub async fn pulled(image: &str) -> Result<Vec<u8>> {
    let data = wasm().pull(&image.parse()?, &RegistryAuth::Anonymous).await?;
    Ok(data.layers.into_iter().next().context("no layer")?.data.to_vec())
}

/// Pushes a component as `wkg oci push` does, with the annotations that say what it is.
pub async fn push(image: &str, bytes: &[u8], (name, version, kind): (&str, &str, &str)) -> Result<()> {
    let (config, layer) = WasmConfig::from_raw_component(bytes.to_vec(), None)?;
    let said = [
        ("org.opencontainers.image.title", name),
        ("org.opencontainers.image.version", version),
        ("vnd.clawhost.kind", kind),
    ];
    let annotations = said.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    wasm().push(&image.parse()?, &RegistryAuth::Anonymous, layer, config, Some(annotations)).await?;
    Ok(())
}

fn sigstore() -> Result<cosign::Client> {
    let config =
        registry::ClientConfig { protocol: registry::ClientProtocol::Http, ..registry::ClientConfig::default() };
    Ok(cosign::ClientBuilder::default().with_oci_client_config(config).build()?)
}

/// Whether sigstore finds a signature of an image by a public key.
pub async fn is_signed_by(image: &str, public: &[u8]) -> Result<bool> {
    let image: OciReference = image.parse()?;
    let layers = sigstore()?.trusted_signature_layers(&Auth::Anonymous, &image).await?;
    let by_key: Box<dyn VerificationConstraint> = Box::new(PublicKeyVerifier::try_from(public)?);
    Ok(verify_constraints(&layers, [by_key].iter()).is_ok())
}

/// Signs an image as cosign does, with a private key (PKCS #8), for a name and a version.
pub async fn sign(image: &str, private: &[u8], (name, version): (&str, &str)) -> Result<()> {
    let image: OciReference = image.parse()?;
    let mut client = sigstore()?;
    let (signatures, digest) = client.triangulate(&image, &Auth::Anonymous).await?;
    let mut layer = SignatureLayer::new_unsigned(&image, &digest)?;
    let annotations = [("name", name), ("version", version)].map(|(key, value)| (key.to_owned(), value.to_owned()));
    AnnotationMarker::new(annotations.into()).add_constraint(&mut layer)?;
    let scheme = SigningScheme::ECDSA_P256_SHA256_ASN1;
    let signer = PrivateKeySigner::new_with_raw(Zeroizing::new(private.to_vec()), Zeroizing::new(Vec::new()), &scheme);
    let is_signed = signer.map_err(|error| anyhow!("{error}"))?.add_constraint(&mut layer)?;
    anyhow::ensure!(is_signed, "sigstore signs nothing");
    client.push_signature(None, &Auth::Anonymous, &signatures, vec![layer]).await?;
    Ok(())
}
