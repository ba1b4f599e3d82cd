//! TLS: the certificate that a gateway shows, and the handshake of a connection.

use crate::GatewayError;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What a gateway proves its name with: certificates and the key of the first one.
#[derive(Clone)]
pub struct TlsIdentity {
    config: Arc<ServerConfig>,
    certificate: Vec<u8>,
}

impl std::fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsIdentity").finish_non_exhaustive()
    }
}

impl TlsIdentity {
    /// Reads texts in the form PEM: the certificate, followed by those that lead to a known authority, and its private key.
    ///
    /// # Errors
    /// A text has none, or they do not fit together.
    pub fn of_pem(certificates: &str, key: &str) -> Result<Self, GatewayError> {
        let wrong = |why: String| GatewayError::Tls(why);
        let chain: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
        let chain = chain.map_err(|error| wrong(format!("the certificate cannot be read: {error}")))?;
        let Some(first) = chain.first() else { return Err(wrong("the file has no certificate".to_owned())) };
        let certificate = first.to_vec();
        // The error is not shown: it could quote the key.
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|_| wrong("the file of the private key has none that can be read".to_owned()))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
        let mut config = config.map_err(|error| wrong(error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), certificate })
    }

    /// The certificate in the form DER.
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }
}

/// The identity of a gateway that runs, which can be replaced. Connections keep the one that they began with.
pub(crate) struct Tls(RwLock<Arc<ServerConfig>>);

impl Tls {
    pub(crate) fn new(identity: TlsIdentity) -> Self {
        Self(RwLock::new(identity.config))
    }

    pub(crate) fn replace(&self, identity: TlsIdentity) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = identity.config;
    }

    /// Shakes hands, within a time.
    ///
    /// # Errors
    /// The client speaks no TLS, or takes too long.
    pub(crate) async fn accept(&self, stream: TcpStream, within: Duration) -> std::io::Result<TlsStream<TcpStream>> {
        let config = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        match tokio::time::timeout(within, TlsAcceptor::from(config).accept(stream)).await {
            Ok(accepted) => accepted,
            Err(_) => Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "the TLS handshake took too long")),
        }
    }
}
