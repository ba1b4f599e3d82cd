//! HTTP for registries: bounded answers, bounded patience, and redirects that never carry credentials to another host.

use crate::RegistryError;
use reqwest::header::{AUTHORIZATION, HeaderValue, LOCATION};
use reqwest::{Client, Method, RequestBuilder, Response};
use std::net::IpAddr;
use std::time::Duration;
use url::{Host, Url};

/// Most redirects of one request.
const REDIRECTS: usize = 5;
/// Bytes of an error that a message shows.
const WHY_BYTES: u64 = 600;
/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// HTTP with one registry.
#[derive(Debug)]
pub(crate) struct Transport {
    host: String,
    base: Url,
    client: Client,
    patience: Duration,
}

/// Host and port of an address, without the port that is usual for its scheme.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether an address is of this machine.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

impl Transport {
    /// HTTP with a host. Plain HTTP is used on this machine alone.
    ///
    /// # Errors
    /// The host is none, or the client cannot be made.
    pub(crate) fn new(host: &str, patience: Duration) -> Result<Self, RegistryError> {
        let unusable = |why: String| RegistryError::Unreachable { host: host.to_owned(), why };
        let https: Url =
            format!("https://{host}/").parse().map_err(|error: url::ParseError| unusable(error.to_string()))?;
        let is_local = is_loopback(&https);
        let base = match is_local {
            true => format!("http://{host}/").parse().map_err(|error: url::ParseError| unusable(error.to_string()))?,
            false => https,
        };
        // An error means that a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder()
            .connect_timeout(CONNECT.min(patience))
            .read_timeout(patience)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("clawhost/", env!("CARGO_PKG_VERSION")));
        let builder = if is_local { builder.no_proxy() } else { builder };
        let client = builder.build().map_err(|error| unusable(error.to_string()))?;
        Ok(Self { host: host_of(&base), base, client, patience })
    }

    /// The host, with its port.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The client, for addresses that were checked.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// An address of the registry.
    ///
    /// # Errors
    /// The path is none.
    pub(crate) fn url(&self, path: &str) -> Result<Url, RegistryError> {
        self.base.join(path).map_err(|error| RegistryError::malformed("an address", error))
    }

    /// Refuses plain HTTP with other machines, and addresses of this machine that another one names.
    pub(crate) fn check_scheme(&self, what: &str, to: &Url) -> Result<(), RegistryError> {
        let refused = |why| {
            let (host, what, to) = (self.host.clone(), what.to_owned(), to.to_string());
            Err(RegistryError::Redirected { host, what, to, why })
        };
        match (to.scheme(), is_loopback(to), is_loopback(&self.base)) {
            ("https", false, _) | ("http" | "https", true, true) => Ok(()),
            (_, true, false) => refused("an address of this machine is nothing that another machine may name"),
            _ => refused("plain HTTP is used on this machine alone"),
        }
    }

    /// Sends a request to a host, and follows nothing.
    ///
    /// # Errors
    /// The host cannot be reached, or is silent for too long.
    pub(crate) async fn direct(&self, request: RequestBuilder, host: &str) -> Result<Response, RegistryError> {
        request.send().await.map_err(|error| self.failed(host, &error))
    }

    fn failed(&self, host: &str, error: &reqwest::Error) -> RegistryError {
        let host = host.to_owned();
        if error.is_timeout() {
            return RegistryError::Silent { host, seconds: self.patience.as_secs() };
        }
        // The innermost reason says most.
        let mut why: &dyn std::error::Error = error;
        while let Some(inner) = why.source() {
            why = inner;
        }
        RegistryError::Unreachable { host, why: why.to_string() }
    }

    /// Sends a request to the registry. Answers that lead elsewhere are followed if the request only reads; the header of authorisation goes to
    /// the registry alone.
    ///
    /// # Errors
    /// The registry cannot be reached, is silent for too long, or leads to where nothing may be sent.
    pub(crate) async fn send(
        &self,
        what: &str,
        request: RequestBuilder,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, RegistryError> {
        let request = request.build().map_err(|error| RegistryError::malformed(what, error.without_url()))?;
        let (method, headers) = (request.method().clone(), request.headers().clone());
        let mut url = request.url().clone();
        let mut body = request.body().and_then(|body| body.as_bytes()).map(<[u8]>::to_vec);
        let refused = |to: String, why| {
            let (host, what) = (self.host.clone(), what.to_owned());
            RegistryError::Redirected { host, what, to, why }
        };
        for _ in 0..=REDIRECTS {
            let host = host_of(&url);
            let mut request = self.client.request(method.clone(), url.clone()).headers(headers.clone());
            if let Some(authorization) = authorization.filter(|_| host == self.host) {
                request = request.header(AUTHORIZATION, authorization);
            }
            if let Some(body) = body.take() {
                request = request.body(body);
            }
            let response = self.direct(request, &host).await?;
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(response);
            }
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default().to_owned();
            if method != Method::GET && method != Method::HEAD {
                return Err(refused(to, "content is sent to the registry itself"));
            }
            url = url.join(&to).map_err(|_| refused(to, "that is no address"))?;
            self.check_scheme(what, &url)?;
        }
        Err(refused(url.to_string(), "it leads from one place to the next"))
    }

    /// Reads an answer of at most this length.
    ///
    /// # Errors
    /// It is longer, or ends early.
    pub(crate) async fn body(&self, what: &str, mut response: Response, most: u64) -> Result<Vec<u8>, RegistryError> {
        let too_long = || {
            let why = format!("{} sends more than {most} bytes", self.host);
            RegistryError::Size { what: what.to_owned(), why }
        };
        if response.content_length().is_some_and(|length| length > most) {
            return Err(too_long());
        }
        let mut bytes = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if bytes.len() as u64 + chunk.len() as u64 > most => return Err(too_long()),
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => return Ok(bytes),
                Err(error) => return Err(self.failed(&self.host, &error)),
            }
        }
    }

    /// An answer that is an error.
    pub(crate) async fn status(&self, what: &str, mut response: Response) -> RegistryError {
        let status = response.status().as_u16();
        let mut why = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            why.extend_from_slice(&chunk);
            if why.len() as u64 >= WHY_BYTES {
                why.truncate(WHY_BYTES as usize);
                break;
            }
        }
        let why = String::from_utf8_lossy(&why).trim().to_owned();
        RegistryError::Status { host: self.host.clone(), what: what.to_owned(), status, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_used_on_this_machine_alone() {
        let base = |host: &str| Transport::new(host, CONNECT).unwrap().url("v2/").unwrap().to_string();
        assert_eq!(base("127.0.0.1:5000"), "http://127.0.0.1:5000/v2/");
        assert_eq!(base("localhost:5000"), "http://localhost:5000/v2/");
        assert_eq!(base("[::1]:5000"), "http://[::1]:5000/v2/");
        assert_eq!(base("ghcr.io"), "https://ghcr.io/v2/");
        assert_eq!(base("localhost.example.com"), "https://localhost.example.com/v2/");
        assert_eq!(base("192.168.0.1:5000"), "https://192.168.0.1:5000/v2/");
    }

    #[test]
    fn a_redirect_leads_to_no_plain_http_and_not_to_this_machine() {
        let check = |host: &str, to: &str, expect: Option<&str>| {
            let found = Transport::new(host, CONNECT).unwrap().check_scheme("a blob", &to.parse().unwrap());
            match (found, expect) {
                (Ok(()), None) => {}
                (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, _) => panic!("{host} {to}: {found:?}"),
            }
        };
        check("ghcr.io", "https://storage.example.com/x", None);
        check("ghcr.io", "http://storage.example.com/x", Some("plain HTTP"));
        check("ghcr.io", "http://127.0.0.1/x", Some("an address of this machine"));
        check("ghcr.io", "https://localhost/x", Some("an address of this machine"));
        check("ghcr.io", "ftp://storage.example.com/x", Some("plain HTTP"));
        check("127.0.0.1:5000", "http://127.0.0.1:5001/x", None);
        check("127.0.0.1:5000", "http://storage.example.com/x", Some("plain HTTP"));
    }
}
