//! The door: who may speak to the gateway. A web page in a browser of this machine must not, and no other machine without a key.

use super::answer::Refusal;
use axum::http::{HeaderMap, header};
use clawhost_wire::ErrorKind;
use std::net::IpAddr;
use std::sync::{PoisonError, RwLock};

/// Checks the address under which a request came.
#[derive(Debug)]
pub(crate) struct Guard {
    hosts: RwLock<Vec<String>>,
    /// Whether every request needs a key, which a web page that comes by somebody else's DNS does not have.
    keyed: bool,
}

/// The name in a `Host` header, without its port.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

fn lower(hosts: &[String]) -> Vec<String> {
    hosts.iter().map(|host| host.to_ascii_lowercase()).collect()
}

impl Guard {
    /// A guard that lets requests pass to this machine's loopback and to these names.
    pub(crate) fn new(hosts: &[String], keyed: bool) -> Self {
        Self { hosts: RwLock::new(lower(hosts)), keyed }
    }

    /// Replaces the names.
    pub(crate) fn replace(&self, hosts: &[String]) {
        *self.hosts.write().unwrap_or_else(PoisonError::into_inner) = lower(hosts);
    }

    fn is_own(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let is_loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        is_loopback || name == "localhost" || self.hosts.read().unwrap_or_else(PoisonError::into_inner).contains(&name)
    }

    /// Checks `Host` and `Origin`. A name that leads here through somebody else's DNS is not ours, and a page of another origin has no
    /// business here.
    pub(crate) fn address(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let refuse = |what: &str| Err(Refusal::new(ErrorKind::Forbidden, what.to_owned()));
        let text = |name| headers.get(name).map(|value: &header::HeaderValue| value.to_str().unwrap_or("?"));
        match text(header::HOST) {
            Some(host) if self.keyed || self.is_own(host_name(host)) => {}
            Some(_) => {
                return refuse(
                    "this gateway does not answer under that host name; whoever runs it can add the name to its hosts",
                );
            }
            None => return refuse("the request names no host"),
        }
        match text(header::ORIGIN) {
            None => Ok(()),
            Some(origin) => {
                let host = origin.split_once("://").map_or("", |(_, host)| host);
                // Where every request needs a key, a page of the gateway itself may have any name.
                let is_same = self.keyed && text(header::HOST).is_some_and(|own| own.eq_ignore_ascii_case(host));
                let is_own = is_same || self.is_own(host_name(host));
                if is_own { Ok(()) } else { refuse("requests from web pages are not answered") }
            }
        }
    }

    /// Checks that a body is declared to be JSON, which forms of web pages cannot do without asking first, and is not compressed: a few
    /// bytes could become gigabytes.
    pub(crate) fn content(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            return Err(Refusal::new(ErrorKind::InvalidRequest, "the content type must be application/json"));
        }
        match headers.get(header::CONTENT_ENCODING) {
            Some(encoding) if encoding != "identity" => Err(Refusal::new(
                ErrorKind::InvalidRequest,
                "compressed bodies are not read: send it without content-encoding",
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_requests_to_this_machine_and_from_no_other_page_pass() {
        let guard = Guard::new(&["Gateway.example".to_owned()], false);
        let check = |host: Option<&'static str>, origin: Option<&'static str>, passes: bool| {
            let mut headers = HeaderMap::new();
            host.map(|host| headers.insert(header::HOST, HeaderValue::from_static(host)));
            origin.map(|origin| headers.insert(header::ORIGIN, HeaderValue::from_static(origin)));
            assert_eq!(guard.address(&headers).is_ok(), passes, "{host:?} {origin:?}");
        };
        for host in ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:80", "127.9.9.9", "gateway.example:443"] {
            check(Some(host), None, true);
        }
        for host in ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "10.0.0.1", "", "[::2]"] {
            check(Some(host), None, false);
        }
        check(None, None, false);
        check(Some("localhost"), Some("http://localhost:3000"), true);
        check(Some("localhost"), Some("https://evil.example"), false);
        check(Some("localhost"), Some("null"), false);
        check(Some("localhost"), Some("http://evil.example:80/localhost"), false);
        let keyed = Guard::new(&[], true);
        let mut headers = HeaderMap::new();
        assert!(keyed.address(&headers).is_err());
        headers.insert(header::HOST, HeaderValue::from_static("10.0.0.1:80"));
        assert!(keyed.address(&headers).is_ok());
        headers.insert(header::ORIGIN, HeaderValue::from_static("https://evil.example"));
        assert!(keyed.address(&headers).is_err());
        headers.insert(header::ORIGIN, HeaderValue::from_static("http://10.0.0.1:80"));
        assert!(keyed.address(&headers).is_ok(), "its own page");
        assert!(guard.address(&headers).is_err());
    }

    #[test]
    fn a_body_must_be_declared_as_json() {
        let check = |kind: Option<&'static str>, passes: bool| {
            let mut headers = HeaderMap::new();
            kind.map(|kind| headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind)));
            assert_eq!(Guard::new(&[], false).content(&headers).is_ok(), passes, "{kind:?}");
        };
        check(Some("application/json"), true);
        check(Some("Application/JSON; charset=utf-8"), true);
        check(Some("text/plain"), false);
        check(Some("application/x-www-form-urlencoded"), false);
        check(Some("text/plain; application/json"), false);
        check(None, false);
    }
}
