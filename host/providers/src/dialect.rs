//! The dialects of endpoints: addresses, authentication, writing of requests and parsing of answers.

use crate::ProviderError;
use clawhost_core::{IgnoredRequest, ModelRequest, ModelResponse, Secret, ignored_by};
use clawhost_wire::{StreamedAnswer, WireError, anthropic, openai};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use url::{Host, Url};

/// A dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's chat completions, which nearly all servers support.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
}

/// Variations of a request for an endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wishes {
    /// Use the newer name of the token limit.
    pub(crate) newer_limit: bool,
    /// Stream the answer.
    pub(crate) stream: bool,
    /// Report usage in a stream.
    pub(crate) usage: bool,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 2] = [Self::OpenAi, Self::Anthropic];

    /// Name, as in `openai:MODEL@ADDRESS`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    /// Base URL of the provider's public API.
    pub fn home(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com/v1",
        }
    }

    /// The address of an endpoint, with its host.
    ///
    /// # Errors
    /// It is not an address, or a key would be sent unencrypted.
    pub(crate) fn target(self, base_url: &str, has_key: bool) -> Result<(Url, String), ProviderError> {
        let url = self.url(base_url)?;
        let no_host = || ProviderError::Address(base_url.to_owned(), "no host".to_owned(), self.name());
        let host = url.host_str().ok_or_else(no_host)?.to_owned();
        if has_key && url.scheme() == "http" && !is_loopback(&url) {
            return Err(ProviderError::KeyInTheClear(host, self.key_variable()));
        }
        Ok((url, host))
    }

    /// Whether an address is the provider's public API, which refuses every request without a key.
    pub(crate) fn is_home(self, url: &Url) -> bool {
        Url::parse(self.home()).is_ok_and(|home| home.host() == url.host())
    }

    /// Scheme, host and port of an address: what a key belongs to.
    ///
    /// # Errors
    /// It is not an address.
    pub fn origin(self, address: &str) -> Result<String, ProviderError> {
        Ok(self.url(address)?.origin().ascii_serialization())
    }

    /// The same of an address to which a key may be sent: over an encrypted connection, or inside this machine.
    ///
    /// # Errors
    /// It is not an address, or a key would be sent unencrypted.
    pub fn encrypted_origin(self, address: &str) -> Result<String, ProviderError> {
        let url = self.url(address)?;
        if url.scheme() == "http" && !is_loopback(&url) {
            let host = url.host_str().unwrap_or_default().to_owned();
            return Err(ProviderError::KeyInTheClear(host, self.key_variable()));
        }
        Ok(url.origin().ascii_serialization())
    }

    /// Whether an address is the provider's own, to which its key belongs.
    ///
    /// # Errors
    /// It is not an address.
    pub fn is_own(self, address: &str) -> Result<bool, ProviderError> {
        Ok(self.origin(address)? == self.origin(self.home())?)
    }

    /// The usual environment variable of its key.
    pub fn key_variable(self) -> &'static str {
        match self {
            Self::OpenAi => "OPENAI_API_KEY",
            Self::Anthropic => "ANTHROPIC_API_KEY",
        }
    }

    /// Path of requests, after the versioned address.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "/chat/completions",
            Self::Anthropic => "/messages",
        }
    }

    /// The complete URL. Addresses that already contain the path, or lack the version, are corrected.
    pub(crate) fn url(self, address: &str) -> Result<Url, ProviderError> {
        let base = address.trim_end_matches('/').trim_end_matches(self.path()).trim_end_matches('/');
        let refuse = |why: &str| ProviderError::Address(base.to_owned(), why.to_owned(), self.name());
        let mut url = Url::parse(base).map_err(|error| refuse(&error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ProviderError::PasswordInAddress);
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refuse("the scheme is neither"));
        }
        let version = if url.path() == "/" { "/v1" } else { url.path() };
        let path = format!("{}{}", version.trim_end_matches('/'), self.path());
        url.set_path(&path);
        Ok(url)
    }

    /// The headers of every request.
    pub(crate) fn headers(self, key: Option<&Secret>) -> Result<HeaderMap, ProviderError> {
        let mut headers = HeaderMap::new();
        if self == Self::Anthropic {
            headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static(anthropic::VERSION));
        }
        if let Some(key) = key {
            let (name, text) = match self {
                Self::OpenAi => (AUTHORIZATION, format!("Bearer {}", key.expose())),
                Self::Anthropic => (HeaderName::from_static("x-api-key"), key.expose().to_owned()),
            };
            let mut value = HeaderValue::from_str(&text).map_err(|_| ProviderError::KeyCharacters)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// The body of a request.
    pub(crate) fn body(
        self,
        model: &str,
        host: &str,
        wishes: Wishes,
        request: &ModelRequest,
    ) -> Result<serde_json::Value, WireError> {
        let json = |value: serde_json::Result<serde_json::Value>| {
            value.map_err(|error| WireError::Unsupported(format!("the request cannot be written: {error}")))
        };
        match self {
            Self::OpenAi => {
                // OpenAI's newer models reject the name that all other servers use.
                let limit = match host {
                    _ if wishes.newer_limit => openai::TokenLimit::MaxCompletionTokens,
                    "api.openai.com" => openai::TokenLimit::MaxCompletionTokens,
                    _ => openai::TokenLimit::MaxTokens,
                };
                let asked = openai::request(model, request, limit);
                json(serde_json::to_value(if wishes.stream { asked.streamed(wishes.usage) } else { asked }))
            }
            Self::Anthropic => {
                let asked = anthropic::request(model, request)?;
                json(serde_json::to_value(if wishes.stream { asked.streamed() } else { asked }))
            }
        }
    }

    /// Parses the answer in a body.
    pub(crate) fn read(self, body: &str) -> Result<ModelResponse, WireError> {
        match self {
            Self::OpenAi => openai::response(body),
            Self::Anthropic => anthropic::response(body),
        }
    }

    /// A parser for a streamed answer.
    pub(crate) fn stream(self) -> StreamedAnswer {
        match self {
            Self::OpenAi => StreamedAnswer::new(openai::StreamReader::new()),
            Self::Anthropic => StreamedAnswer::new(anthropic::StreamReader::new()),
        }
    }

    /// Parts of a request that the endpoint ignored: those visible in its answer, and those that the dialect cannot express.
    pub(crate) fn ignored(self, request: &ModelRequest, response: &ModelResponse, stream: bool) -> Vec<IgnoredRequest> {
        let mut ignored = ignored_by(response, request);
        if stream {
            ignored.push(IgnoredRequest::Stream);
        }
        if self == Self::Anthropic {
            ignored.extend(anthropic::unsent(request));
        }
        ignored
    }
}

/// Whether an address is on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Message, Origin, Role, Usage};

    #[test]
    fn ignored_parts_are_those_missing_in_the_answer_or_the_dialect() {
        let request = ModelRequest { seed: Some(1), logprobs: Some(0), ..ModelRequest::default() };
        let response =
            ModelResponse::new(Message::text(Role::Assistant, Origin::Policy, "4"), Usage::default(), "stop");
        let check = |dialect: Dialect, stream, expected: &[IgnoredRequest]| {
            assert_eq!(dialect.ignored(&request, &response, stream), expected, "{dialect:?}");
        };
        use IgnoredRequest::{Logprobs, Seed, Stream};
        check(Dialect::OpenAi, false, &[Logprobs]);
        check(Dialect::OpenAi, true, &[Logprobs, Stream]);
        check(Dialect::Anthropic, true, &[Logprobs, Stream, Seed]);
    }
}
