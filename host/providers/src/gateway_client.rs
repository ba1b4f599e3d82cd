//! Reads what a running gateway shows of itself.

use crate::pinned::pinned;
use crate::upstream::{broke_off, unreachable_because};
use crate::{ProviderError, UpstreamError};
use bytes::Bytes;
use clawhost_core::{Digest, KnownSecrets, Secret};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// How long the head of an answer may take.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Longest silence of a stream: more than two of the comments by which a gateway keeps one alive.
const SILENCE: Duration = Duration::from_secs(40);
/// Bytes of a refusal that an error quotes.
const WHY_BYTES: usize = 500;

/// A client of a running gateway.
#[derive(Debug)]
pub struct GatewayClient {
    address: SocketAddr,
    scheme: &'static str,
    key: Option<Secret>,
    client: reqwest::Client,
}

/// A stream of a gateway, piece by piece.
#[derive(Debug)]
pub struct GatewayStream {
    response: reqwest::Response,
    host: String,
}

impl GatewayClient {
    /// A client of the gateway at an address; one that listens on every address is asked on this machine. The key is sent to this machine
    /// alone, because the connection may not be encrypted. `certificate`: the digest of the gateway's certificate (DER), if it speaks TLS.
    ///
    /// # Errors
    /// The HTTP client cannot be set up.
    pub fn new(address: SocketAddr, certificate: Option<Digest>, key: Option<Secret>) -> Result<Self, ProviderError> {
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let address = SocketAddr::new(ip, address.port());
        // Fails if an earlier client installed it, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let redirects = reqwest::redirect::Policy::none();
        let mut builder = reqwest::Client::builder().no_proxy().redirect(redirects).connect_timeout(HEAD_TIME);
        let scheme = if certificate.is_some() { "https" } else { "http" };
        if let Some(certificate) = certificate {
            let tls = pinned(certificate).ok_or_else(|| ProviderError::Client("no TLS".to_owned()))?;
            builder = builder.tls_backend_preconfigured(tls);
        }
        let client = builder.build().map_err(|error| ProviderError::Client(error.to_string()))?;
        Ok(Self { address, scheme, key: key.filter(|_| ip.is_loopback()), client })
    }

    /// The address that is asked.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    fn unreachable(&self, error: &reqwest::Error) -> UpstreamError {
        unreachable_because(&self.address.to_string(), error, &KnownSecrets::default())
    }

    async fn head(&self, path: &str) -> Result<reqwest::Response, UpstreamError> {
        let host = self.address.to_string();
        let mut request = self.client.get(format!("{}://{host}{path}", self.scheme));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose());
        }
        let mut response = match tokio::time::timeout(HEAD_TIME, request.send()).await {
            Err(_) => return Err(UpstreamError::Silent { host, seconds: HEAD_TIME.as_secs() }),
            Ok(Err(error)) => return Err(self.unreachable(&error)),
            Ok(Ok(response)) => response,
        };
        if response.status().is_success() {
            return Ok(response);
        }
        let first = tokio::time::timeout(HEAD_TIME, response.chunk()).await;
        let body = first.ok().and_then(Result::ok).flatten().unwrap_or_default();
        let body = body.get(..body.len().min(WHY_BYTES)).unwrap_or_default();
        let why = String::from_utf8_lossy(body).into_owned();
        Err(UpstreamError::Refused { host, status: response.status().as_u16(), why })
    }

    /// The document of a path, up to a size in bytes.
    ///
    /// # Errors
    /// The gateway does not answer, refuses, or answers with more.
    pub async fn get(&self, path: &str, most: usize) -> Result<Vec<u8>, UpstreamError> {
        let response = self.head(path).await?;
        whole(GatewayStream { response, host: self.address.to_string() }, most).await
    }

    /// The status and the document of a request with a JSON body, or without one, up to a size in bytes. A change of the gateway waits for its
    /// database, so it may take longer than a look.
    ///
    /// # Errors
    /// The gateway does not answer, or answers with more.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&serde_json::Value>,
        most: usize,
    ) -> Result<(u16, Vec<u8>), UpstreamError> {
        self.send_with(&[], (method, path, body), most).await
    }

    /// The same with headers.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn send_with(
        &self,
        headers: &[(&str, &str)],
        (method, path, body): (&str, &str, Option<&serde_json::Value>),
        most: usize,
    ) -> Result<(u16, Vec<u8>), UpstreamError> {
        let host = self.address.to_string();
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap_or_default();
        let mut request = self.client.request(method, format!("{}://{host}{path}", self.scheme));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose());
        }
        let response = match tokio::time::timeout(SILENCE, request.send()).await {
            Err(_) => return Err(UpstreamError::Silent { host, seconds: SILENCE.as_secs() }),
            Ok(Err(error)) => return Err(self.unreachable(&error)),
            Ok(Ok(response)) => response,
        };
        let status = response.status().as_u16();
        let bytes = whole(GatewayStream { response, host }, most).await?;
        Ok((status, bytes))
    }

    /// The stream of a path.
    ///
    /// # Errors
    /// The gateway does not answer, or refuses.
    pub async fn follow(&self, path: &str) -> Result<GatewayStream, UpstreamError> {
        Ok(GatewayStream { response: self.head(path).await?, host: self.address.to_string() })
    }
}

/// All of a stream, up to a size in bytes.
async fn whole(mut stream: GatewayStream, most: usize) -> Result<Vec<u8>, UpstreamError> {
    let mut bytes = Vec::new();
    while let Some(piece) = stream.piece().await? {
        if bytes.len() + piece.len() > most {
            return Err(UpstreamError::TooLong { host: stream.host, bytes: most });
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

impl GatewayStream {
    /// The next piece. `None`: the end.
    ///
    /// # Errors
    /// The connection broke, or was silent for too long.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        match tokio::time::timeout(SILENCE, self.response.chunk()).await {
            Err(_) => Err(UpstreamError::Silent { host: self.host.clone(), seconds: SILENCE.as_secs() }),
            Ok(Err(error)) => Err(broke_off(&self.host, &error, &KnownSecrets::default())),
            Ok(Ok(piece)) => Ok(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_for_this_machine_alone() {
        let check = |address: &str, asked: &str, has_key: bool| {
            let client = GatewayClient::new(address.parse().unwrap(), None, Secret::new("ch-admin-1")).unwrap();
            assert_eq!((client.address().to_string().as_str(), client.key.is_some()), (asked, has_key), "{address}");
        };
        check("127.0.0.1:8700", "127.0.0.1:8700", true);
        check("[::1]:8700", "[::1]:8700", true);
        check("0.0.0.0:8700", "127.0.0.1:8700", true);
        check("[::]:8700", "[::1]:8700", true);
        check("10.0.0.7:8700", "10.0.0.7:8700", false);
    }
}
