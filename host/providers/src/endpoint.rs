//! A model behind HTTP: requests, retries, limits. What is said in them is the dialect's business.

use crate::{Dialect, ProviderError, Secret};
use async_trait::async_trait;
use clawhost_core::{Digest, Llm, LlmIdentity, ModelError, ModelRequest, ModelResponse};
use clawhost_wire::WireError;
use reqwest::StatusCode;
use reqwest::header::RETRY_AFTER;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use url::{Host, Url};

/// How an endpoint is asked.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// What it speaks.
    pub dialect: Dialect,
    /// The model's name.
    pub model: String,
    /// The address up to and including the version: `http://127.0.0.1:8000/v1`.
    pub base_url: String,
    /// The key, if there is one.
    pub key: Option<Secret>,
    /// Longest wait for one answer.
    pub timeout: Duration,
    /// Tries after the first.
    pub retries: u32,
    /// Requests at once.
    pub concurrency: usize,
}

impl EndpointConfig {
    /// Sensible settings for a model at an address.
    pub fn new(dialect: Dialect, model: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            dialect,
            model: model.into(),
            base_url: base_url.into(),
            key: None,
            // A long answer of a slow local model takes minutes.
            timeout: Duration::from_secs(120),
            retries: 4,
            concurrency: 16,
        }
    }
}

/// First pause before another try; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause, also for a server that asks for more.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Longest answer that is read: far above what any model writes.
const ANSWER_BYTES: usize = 10 * 1024 * 1024;
/// Bytes of an error body that a message shows.
const SHOWN_BYTES: usize = 300;

/// A client of one endpoint and model.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    url: Url,
    host: String,
    client: reqwest::Client,
    places: Semaphore,
    /// Whether the endpoint wants the newer name of the token limit.
    newer_limit: AtomicBool,
}

/// Why one try failed.
enum Attempt {
    /// Another try may help; the server may say when.
    Again(ModelError, Option<Duration>),
    /// It will fail again.
    Final(ModelError),
}

/// Why a body was not read to its end.
enum Broken {
    /// It is too long: asking again would cost the same again.
    Long(String),
    /// The line went dead.
    Off(String),
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

impl Endpoint {
    /// A client.
    ///
    /// # Errors
    /// The address is unusable, or a key would travel in the clear.
    pub fn new(config: EndpointConfig) -> Result<Self, ProviderError> {
        let dialect = config.dialect;
        let url = dialect.url(&config.base_url)?;
        let no_host = || ProviderError::Address(config.base_url.clone(), "no host".to_owned(), dialect.name());
        let host = url.host_str().ok_or_else(no_host)?.to_owned();
        if config.key.is_some() && url.scheme() == "http" && !is_loopback(&url) {
            return Err(ProviderError::KeyInTheClear(host, dialect.key_variable()));
        }
        let headers = dialect.headers(config.key.as_ref())?;
        // Already installed by an earlier client: as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder();
        // Plain http is for this machine and its neighbours: through a proxy, a key would travel in the clear.
        let builder = if url.scheme() == "http" { builder.no_proxy() } else { builder };
        let client = builder
            .default_headers(headers)
            .timeout(config.timeout)
            .connect_timeout(config.timeout.min(Duration::from_secs(10)))
            // A redirect would carry the key to another host.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("clawhost/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| ProviderError::Client(error.to_string()))?;
        let places = Semaphore::new(config.concurrency.clamp(1, Semaphore::MAX_PERMITS));
        Ok(Self { config, url, host, client, places, newer_limit: AtomicBool::new(false) })
    }

    /// Where requests go.
    pub fn url(&self) -> &Url {
        &self.url
    }

    async fn attempt(&self, body: &serde_json::Value) -> Result<ModelResponse, Attempt> {
        let unavailable = |text: String, wait| Attempt::Again(ModelError::Unavailable(text), wait);
        let sent = self.client.post(self.url.clone()).json(body).send().await;
        let response = sent.map_err(|error| unavailable(self.describe(&error), None))?;
        let status = response.status();
        let wait = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let wait = wait.and_then(|text| text.trim().parse::<f64>().ok()).filter(|seconds| *seconds >= 0.0);
        let wait = wait.map(|seconds| Duration::from_secs_f64(seconds.min(LONGEST_PAUSE.as_secs_f64())));
        let text = match self.body(response).await {
            Ok(text) => text,
            Err(Broken::Long(why)) => return Err(Attempt::Final(ModelError::InvalidResponse(why))),
            Err(Broken::Off(why)) => return Err(unavailable(why, wait)),
        };
        if status.is_success() {
            return self.config.dialect.read(&text).map_err(|error| match error {
                // The server is there and talks nonsense: another try costs money and seldom helps, except for overload
                // reported with status 200.
                WireError::Endpoint(text) => Attempt::Again(ModelError::Unavailable(self.clean(&text)), wait),
                other => Attempt::Final(ModelError::InvalidResponse(self.clean(&other.to_string()))),
            });
        }
        let said = format!("HTTP {}: {}", status.as_u16(), self.clean(&text));
        match status {
            StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS => {
                Err(unavailable(said, wait))
            }
            status if status.is_server_error() => Err(unavailable(said, wait)),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let why = match self.config.key {
                    Some(_) => "the endpoint did not accept the key; api_key_file names another".to_owned(),
                    None => format!(
                        "the endpoint wants a key, and neither {} nor api_key_file is set",
                        self.config.dialect.key_variable()
                    ),
                };
                Err(Attempt::Final(ModelError::Refused(format!("{said}; {why}"))))
            }
            StatusCode::NOT_FOUND => Err(Attempt::Final(ModelError::Refused(format!(
                "{said}; check the model name `{}` and that the address ends in its version, as in /v1",
                self.config.model
            )))),
            status if status.is_redirection() => Err(Attempt::Final(ModelError::Refused(format!(
                "{said}; the address redirects elsewhere, which is not followed: name the final address"
            )))),
            _ => Err(Attempt::Final(ModelError::Refused(said))),
        }
    }

    /// The body, up to a size.
    async fn body(&self, mut response: reqwest::Response) -> Result<String, Broken> {
        let mut bytes = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if bytes.len() + chunk.len() > ANSWER_BYTES => {
                    return Err(Broken::Long(format!("it is longer than {ANSWER_BYTES} bytes")));
                }
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => {
                    // An endpoint may quote what it was sent: the key goes out before anything else is done with it.
                    let text = String::from_utf8_lossy(&bytes);
                    return Ok(self.config.key.as_ref().map_or_else(|| text.to_string(), |key| key.scrub(&text)));
                }
                Err(error) => return Err(Broken::Off(format!("the answer broke off: {}", self.describe(&error)))),
            }
        }
    }

    fn describe(&self, error: &reqwest::Error) -> String {
        let address =
            format!("{}:{}", self.url.host_str().unwrap_or("?"), self.url.port_or_known_default().unwrap_or(0));
        if error.is_timeout() {
            let seconds = self.config.timeout.as_secs_f64();
            return format!("no answer from {address} within {seconds} s, the limit of model_timeout");
        }
        if error.is_connect() {
            return format!("cannot connect to {address}; is the server running there?");
        }
        // The cause without the address, which stands above.
        let mut cause: &dyn std::error::Error = error;
        while let Some(next) = cause.source() {
            cause = next;
        }
        self.clean(&format!("{address}: {cause}"))
    }

    /// A text from outside, made fit for a message: no key, no control characters, not long.
    fn clean(&self, text: &str) -> String {
        let text = self.config.key.as_ref().map_or_else(|| text.to_owned(), |key| key.scrub(text));
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let mut shown: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((cut, _)) = shown.char_indices().find(|(at, _)| *at >= SHOWN_BYTES) {
            shown.truncate(cut);
            shown.push('…');
        }
        shown
    }

    /// The pause before a try: doubled each time, and spread so that clients do not come back in step.
    fn pause(attempt: u32, spread: u64) -> Duration {
        let base = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(attempt)).min(LONGEST_PAUSE);
        let share = 0.5 + (spread % 1000) as f64 / 1000.0;
        base.mul_f64(share).min(LONGEST_PAUSE)
    }
}

#[async_trait]
impl Llm for Endpoint {
    fn identity(&self) -> LlmIdentity {
        let base = self.config.base_url.trim_end_matches('/').to_owned();
        LlmIdentity { provider: self.config.dialect.name().to_owned(), model: self.config.model.clone(), version: base }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let Self { config, host, .. } = self;
        let write = |newer: bool| {
            let body = config.dialect.body(&config.model, host, newer, request);
            body.map_err(|error| ModelError::Refused(error.to_string()))
        };
        let mut body = write(self.newer_limit.load(Ordering::Relaxed))?;
        let spread = Digest::of(body.to_string().as_bytes()).prefix_u64();
        let mut attempt = 0;
        loop {
            let tried = {
                // The place is given up during pauses.
                let _place = self.places.acquire().await;
                self.attempt(&body).await
            };
            match tried {
                Ok(response) => return Ok(response),
                // Newer models of the chat dialect want the token limit under another name, and say so.
                Err(Attempt::Final(ModelError::Refused(text)))
                    if text.contains("max_completion_tokens") && !self.newer_limit.swap(true, Ordering::Relaxed) =>
                {
                    body = write(true)?;
                }
                Err(Attempt::Final(error)) => return Err(error),
                Err(Attempt::Again(error, _)) if attempt >= self.config.retries => {
                    let tries = attempt + 1;
                    return Err(match error {
                        once if tries == 1 => once,
                        ModelError::Unavailable(text) => ModelError::Unavailable(format!("{text} ({tries} tries)")),
                        other => other,
                    });
                }
                Err(Attempt::Again(error, wait)) => {
                    let pause = wait.unwrap_or_else(|| Self::pause(attempt, spread.rotate_left(attempt)));
                    tracing::debug!(%error, ?pause, attempt, "asking again");
                    tokio::time::sleep(pause).await;
                    attempt += 1;
                }
            }
        }
    }
}
