//! Forwards requests byte for byte to a model endpoint, for a gateway: no retries here, no parsing, no redirects.

use crate::{Dialect, ProviderError};
use bytes::Bytes;
use clawhost_core::{KnownSecrets, Secret};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;
use url::Url;

/// Configuration of an upstream.
#[derive(Debug, Clone)]
pub struct UpstreamConfig {
    /// The dialect.
    pub dialect: Dialect,
    /// Base URL up to and including the version: `http://127.0.0.1:8000/v1`.
    pub base_url: String,
    /// The key, if there is one.
    pub key: Option<Secret>,
    /// Longest silence: until the head of the response, and between two chunks.
    pub silence: Duration,
    /// The keys of the process. This upstream's is added.
    pub known: KnownSecrets,
}

/// Why a request got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// It could not be reached.
    #[error("{host} cannot be reached: {why}")]
    Unreachable {
        /// The host.
        host: String,
        /// Why.
        why: String,
    },
    /// The connection ended in the middle of an answer.
    #[error("{host} broke the connection off: {why}")]
    BrokeOff {
        /// The host.
        host: String,
        /// Why.
        why: String,
    },
    /// It refuses.
    #[error("{host} refuses the request, status {status}: {why}")]
    Refused {
        /// The host.
        host: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of its answer.
        why: String,
    },
    /// Its answer is longer than what is read.
    #[error("{host} answers with more than {bytes} bytes")]
    TooLong {
        /// The host.
        host: String,
        /// The limit.
        bytes: usize,
    },
    /// It was silent for too long.
    #[error("{host} was silent for {seconds} s")]
    Silent {
        /// The host.
        host: String,
        /// The limit.
        seconds: u64,
    },
    /// It redirects.
    #[error("{host} redirects elsewhere, which is not followed: name the final address")]
    Redirects {
        /// The host.
        host: String,
    },
    /// The body is compressed although that was not requested.
    #[error("{host} compresses its answer, which was not requested")]
    Compressed {
        /// The host.
        host: String,
    },
}

/// A model endpoint.
#[derive(Debug)]
pub struct Upstream {
    config: UpstreamConfig,
    base: Url,
    /// The host, with its port unless it is the usual one: several endpoints of one machine differ by it.
    host: String,
    client: reqwest::Client,
}

/// The head of an answer; its body follows in pieces.
#[derive(Debug)]
pub struct UpstreamAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers that may be passed on, without keys of this process.
    pub headers: HeaderMap,
    response: reqwest::Response,
    silence: Duration,
    host: String,
}

/// Headers of a client that are not passed on: of the connection, of the client's own authorisation, and those by which a server could
/// take this program for the client.
const KEPT_BACK: [&str; 21] = [
    "accept-encoding",
    "authorization",
    "api-key",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "origin",
    "proxy-authorization",
    "proxy-connection",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-api-key",
];

/// Beginnings of such headers. Those of this program tell an upstream nothing.
const KEPT_BACK_PREFIXES: [&str; 5] = ["x-clawhost-", "x-forwarded-", "x-session-", "sec-", "access-control-"];

/// Headers of an answer that are not passed on.
const DROPPED: [&str; 13] = [
    "alt-svc",
    "connection",
    "content-encoding",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "server",
    "set-cookie",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
];

impl Upstream {
    /// An upstream.
    ///
    /// # Errors
    /// The address is invalid, or a key would be sent unencrypted.
    pub fn new(config: UpstreamConfig) -> Result<Self, ProviderError> {
        let dialect = config.dialect;
        let (url, host) = dialect.target(&config.base_url, config.key.is_some())?;
        let host = url.port().map_or(host.clone(), |port| format!("{host}:{port}"));
        // Fails if an earlier client installed it, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder();
        // Plain HTTP is used for this machine and the local network; a proxy would see the key.
        let builder = if url.scheme() == "http" { builder.no_proxy() } else { builder };
        let client = builder
            .connect_timeout(config.silence.min(Duration::from_secs(10)))
            // A redirect could send the key to another host.
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .build()
            .map_err(|error| ProviderError::Client(error.to_string()))?;
        config.key.iter().for_each(|key| config.known.add(key));
        let mut base = url;
        let path = base.path().trim_end_matches(dialect.path()).to_owned();
        base.set_path(&path);
        Ok(Self { config, base, host, client })
    }

    /// Its dialect.
    pub fn dialect(&self) -> Dialect {
        self.config.dialect
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        self.base.origin().ascii_serialization()
    }

    /// The keys of the process.
    pub(crate) fn known(&self) -> &KnownSecrets {
        &self.config.known
    }

    /// The address up to and including the version.
    pub(crate) fn base_url(&self) -> &str {
        self.config.base_url.trim_end_matches('/')
    }

    /// Whether it has a key of its own.
    pub fn has_key(&self) -> bool {
        self.config.key.is_some()
    }

    /// Sends a request to a path behind the version, as in `/chat/completions`. `client` are the headers of the client's request. Its
    /// own authorisation is passed on only if the upstream has no key and `passes_key` allows it.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn post(
        &self,
        path: &str,
        client: &HeaderMap,
        passes_key: bool,
        body: Bytes,
    ) -> Result<UpstreamAnswer, UpstreamError> {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path()));
        let mut headers = HeaderMap::with_capacity(client.len() + 4);
        for (name, value) in client {
            let is_kept = KEPT_BACK.contains(&name.as_str())
                || KEPT_BACK_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix));
            if !is_kept {
                headers.append(name.clone(), value.clone());
            }
        }
        headers.insert(reqwest::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Ok(own) = self.config.dialect.headers(self.config.key.as_ref()) {
            for (name, value) in &own {
                // The client's version of the dialect stands.
                if name == "anthropic-version" && headers.contains_key(name) {
                    continue;
                }
                headers.insert(name.clone(), value.clone());
            }
        }
        if passes_key && self.config.key.is_none() {
            for name in [AUTHORIZATION, HeaderName::from_static("x-api-key")] {
                client.get(&name).into_iter().for_each(|value| drop(headers.insert(name.clone(), value.clone())));
            }
        }
        let sent = self.client.post(url).headers(headers).body(body).send();
        let response = match tokio::time::timeout(self.config.silence, sent).await {
            Err(_) => return Err(self.silent()),
            Ok(Err(error)) if error.is_timeout() && !error.is_connect() => return Err(self.silent()),
            Ok(Err(error)) => return Err(self.unreachable(&error)),
            Ok(Ok(response)) => response,
        };
        if response.status().is_redirection() {
            return Err(UpstreamError::Redirects { host: self.host.clone() });
        }
        if response.headers().get("content-encoding").is_some_and(|encoding| encoding != "identity") {
            return Err(UpstreamError::Compressed { host: self.host.clone() });
        }
        let headers = self.passed_back(response.headers());
        let status = response.status().as_u16();
        Ok(UpstreamAnswer { status, headers, response, silence: self.config.silence, host: self.host.clone() })
    }

    /// The headers of an answer that a client gets. One that quotes a key is left out.
    fn passed_back(&self, headers: &HeaderMap) -> HeaderMap {
        let secrets = self.config.known.secrets();
        let is_passed = |name: &HeaderName, value: &HeaderValue| {
            !DROPPED.contains(&name.as_str())
                && !name.as_str().starts_with("access-control-")
                && !secrets.are_in(&String::from_utf8_lossy(value.as_bytes()))
        };
        let passed = headers.iter().filter(|(name, value)| is_passed(name, value));
        passed.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn silent(&self) -> UpstreamError {
        UpstreamError::Silent { host: self.host.clone(), seconds: self.config.silence.as_secs() }
    }

    fn unreachable(&self, error: &reqwest::Error) -> UpstreamError {
        unreachable_because(&self.host, error, &self.config.known)
    }
}

pub(crate) fn unreachable_because(host: &str, error: &reqwest::Error, known: &KnownSecrets) -> UpstreamError {
    UpstreamError::Unreachable { host: host.to_owned(), why: why(error, known) }
}

pub(crate) fn broke_off(host: &str, error: &reqwest::Error, known: &KnownSecrets) -> UpstreamError {
    UpstreamError::BrokeOff { host: host.to_owned(), why: why(error, known) }
}

/// The innermost reason, which is the useful one: "connection refused". Without keys.
fn why(error: &reqwest::Error, known: &KnownSecrets) -> String {
    let mut why = error.to_string();
    let mut inner: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = inner {
        why = error.to_string();
        inner = error.source();
    }
    known.secrets().scrub(&why).into_owned()
}

impl UpstreamAnswer {
    /// Whether the body is an event stream.
    pub fn is_stream(&self) -> bool {
        let kind = self.headers.get(reqwest::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        kind.unwrap_or_default().trim_start().to_ascii_lowercase().starts_with("text/event-stream")
    }

    /// The next piece of the body. `None`: its end.
    ///
    /// # Errors
    /// The connection broke, or was silent for too long.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        match tokio::time::timeout(self.silence, self.response.chunk()).await {
            Err(_) => Err(UpstreamError::Silent { host: self.host.clone(), seconds: self.silence.as_secs() }),
            Ok(Err(error)) => Err(broke_off(&self.host, &error, &KnownSecrets::default())),
            Ok(Ok(chunk)) => Ok(chunk),
        }
    }
}
