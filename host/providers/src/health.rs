//! Asks a gateway whether it is ready.

use crate::pinned::pinned;
use clawhost_core::Digest;
use std::net::SocketAddr;
use std::time::Duration;

/// How long the answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether a gateway at an address of this machine answers that it is ready. `certificate`: the digest of its certificate (DER), if it
/// speaks TLS.
pub async fn is_ready(address: SocketAddr, certificate: Option<Digest>) -> bool {
    let port = address.port();
    // One that listens on all addresses is asked on the loopback.
    let host = if address.ip().is_unspecified() { "127.0.0.1".to_owned() } else { address.ip().to_string() };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    // Fails if an earlier client installed it, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut client = reqwest::Client::builder().no_proxy().timeout(PATIENCE);
    let scheme = if certificate.is_some() { "https" } else { "http" };
    if let Some(certificate) = certificate {
        let Some(tls) = pinned(certificate) else { return false };
        client = client.tls_backend_preconfigured(tls);
    }
    let Ok(client) = client.build() else { return false };
    let answer = client.get(format!("{scheme}://{host}:{port}/readyz")).send().await;
    answer.is_ok_and(|answer| answer.status().is_success())
}
