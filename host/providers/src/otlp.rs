//! Sends traces to a collector: OTLP over HTTP, as JSON.

use crate::dialect::is_loopback;
use crate::upstream::unreachable_because;
use crate::{ProviderError, UpstreamError};
use clawhost_core::{KnownSecrets, Secret};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;
use url::Url;

/// How long a collector may take for a batch.
const TIME: Duration = Duration::from_secs(10);
/// The path of traces behind the address of a collector.
const PATH: &str = "/v1/traces";
/// Bytes of a refusal that an error quotes.
const WHY_BYTES: usize = 300;

/// A collector of traces.
#[derive(Debug)]
pub struct TraceCollector {
    url: Url,
    headers: HeaderMap,
    client: reqwest::Client,
    known: KnownSecrets,
}

fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

/// Replaces `%` and two digits by the byte that they stand for.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(16 * high + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// Headers as `NAME=VALUE,NAME=VALUE`, with values in percent encoding.
fn headers(text: &str) -> Option<HeaderMap> {
    let mut all = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=')?;
        let name: HeaderName = name.trim().parse().ok()?;
        let mut value = HeaderValue::from_str(decoded(value.trim())?.as_str()).ok()?;
        value.set_sensitive(true);
        all.insert(name, value);
    }
    Some(all)
}

impl TraceCollector {
    /// A collector at an address, to which `/v1/traces` is added. `secret` are further headers as `NAME=VALUE,NAME=VALUE`, with values in percent
    /// encoding. They count as keys: they are sent over an encrypted connection or inside this machine, and `known` gets their values.
    ///
    /// # Errors
    /// The address or the headers are invalid, or headers would be sent unencrypted.
    pub fn new(address: &str, secret: Option<&Secret>, known: &KnownSecrets) -> Result<Self, ProviderError> {
        let wrong = |why: String| ProviderError::CollectorAddress(address.to_owned(), why);
        let mut url = Url::parse(address).map_err(|error| wrong(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it begins with http:// or https://".to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ProviderError::CollectorAddress(host(&url), "it holds a user name or password".to_owned()));
        }
        let headers = match secret {
            None => HeaderMap::new(),
            Some(text) => headers(text.expose()).ok_or(ProviderError::CollectorHeaders)?,
        };
        if !headers.is_empty() && url.scheme() == "http" && !is_loopback(&url) {
            return Err(ProviderError::KeyInTheClear(host(&url), "OTEL_EXPORTER_OTLP_HEADERS"));
        }
        for value in headers.values().filter_map(|value| value.to_str().ok()) {
            // A scheme before it is no secret.
            let value = value.rsplit(' ').next().unwrap_or_default();
            Secret::new(value).iter().for_each(|secret| known.add(secret));
        }
        let path = format!("{}{PATH}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        // Fails if an earlier client installed it, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder().timeout(TIME).redirect(reqwest::redirect::Policy::none());
        // Plain HTTP is used for this machine and the local network; a proxy is for others.
        let builder = if url.scheme() == "http" { builder.no_proxy() } else { builder };
        let client = builder.build().map_err(|error| ProviderError::Client(error.to_string()))?;
        Ok(Self { url, headers, client, known: known.clone() })
    }

    /// Sends a batch of spans: a document of OTLP as JSON.
    ///
    /// # Errors
    /// The collector does not take it.
    pub async fn send(&self, document: String) -> Result<(), UpstreamError> {
        let host = host(&self.url);
        let request = self.client.post(self.url.clone()).headers(self.headers.clone());
        let request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(document);
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_timeout() => return Err(UpstreamError::Silent { host, seconds: TIME.as_secs() }),
            Err(error) => return Err(unreachable_because(&host, &error, &self.known)),
        };
        if response.status().is_success() {
            return Ok(());
        }
        let body = response.chunk().await.ok().flatten().unwrap_or_default();
        let body = body.get(..body.len().min(WHY_BYTES)).unwrap_or_default();
        let why = self.known.secrets().scrub(&String::from_utf8_lossy(body)).into_owned();
        Err(UpstreamError::Refused { host, status: response.status().as_u16(), why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(address: &str, headers: Option<&str>) -> Result<TraceCollector, ProviderError> {
        TraceCollector::new(address, headers.and_then(Secret::new).as_ref(), &KnownSecrets::default())
    }

    #[test]
    fn traces_go_to_their_path_behind_the_address() {
        let check = |address: &str, expect: &str| assert_eq!(made(address, None).unwrap().url.as_str(), expect);
        check("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces");
        check("https://collector.example/otlp/", "https://collector.example/otlp/v1/traces");
    }

    #[test]
    fn headers_are_decoded_and_never_sent_in_the_clear() {
        let check = |text: &str, expect: Option<&[(&str, &str)]>| {
            let read = headers(text);
            let shown = read.as_ref().map(|read| {
                read.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect::<Vec<_>>()
            });
            assert_eq!(shown.as_deref(), expect, "{text}");
        };
        check("", Some(&[]));
        check("authorization=Bearer%20a%2Cb, x-team = 7", Some(&[("authorization", "Bearer a,b"), ("x-team", "7")]));
        check("a", None);
        check("a=%2", None);
        check("a=%zz", None);
        check("a b=1", None);
        check("a=1%0Ab", None);
        let key = "authorization=Bearer%20sk-of-a-collector";
        assert!(made("https://collector.example", Some(key)).is_ok());
        assert!(made("http://localhost:4318", Some(key)).is_ok());
        let error = |address: &str, headers| made(address, headers).unwrap_err().to_string();
        assert!(error("http://collector.example", Some(key)).starts_with("refusing to send a key over plain http"));
        assert!(error("http://127.0.0.1", Some("nothing")).starts_with("the headers of the trace collector"));
        assert!(error("grpc://127.0.0.1", None).contains("is no address of a trace collector"));
        assert!(error("http://me:pw@127.0.0.1", None).contains("password"));
        assert!(error("nothing", None).contains("is no address of a trace collector"));
        let known = KnownSecrets::default();
        TraceCollector::new("https://collector.example", Secret::new(key).as_ref(), &known).unwrap();
        assert!(known.secrets().are_in("it said sk-of-a-collector"));
    }
}
