//! A client for a model behind HTTP: requests, retries, limits. The dialect handles the content.

use crate::dialect::Wishes;
use crate::passing::{Passing, scrubbed};
use crate::{Dialect, ProviderError};
use async_trait::async_trait;
use clawhost_core::{
    DeltaSink, Digest, IgnoredRequest, KnownSecrets, Llm, LlmIdentity, ModelError, ModelRequest, ModelResponse, Secret,
    Secrets,
};
use clawhost_wire::{ANSWER_BYTES, WireError};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{RequestBuilder, StatusCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use url::Url;

/// Configuration of an endpoint.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// The dialect.
    pub dialect: Dialect,
    /// Name of the model.
    pub model: String,
    /// Base URL up to and including the version: `http://127.0.0.1:8000/v1`.
    pub base_url: String,
    /// The key, if there is one.
    pub key: Option<Secret>,
    /// Whether there is a key that this address may not have. An endpoint that wants a key is then refused with that reason.
    pub key_held_back: bool,
    /// Whether the provider's public API may be configured without a key, because others bring theirs.
    pub without_key: bool,
    /// Timeout for a whole answer. For a stream, the longest silence: until the head of the response, and between two
    /// chunks. A stream as a whole may take 30 times as long.
    pub timeout: Duration,
    /// Retries after the first attempt.
    pub retries: u32,
    /// Concurrent requests.
    pub concurrency: usize,
    /// The keys of the process, this endpoint's included: all are scrubbed from what comes back, before anything is cut or logged.
    pub known: KnownSecrets,
}

impl EndpointConfig {
    /// A configuration with defaults for a model at an address.
    pub fn new(dialect: Dialect, model: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            dialect,
            model: model.into(),
            base_url: base_url.into(),
            key: None,
            key_held_back: false,
            without_key: false,
            // A long answer of a slow local model takes minutes.
            timeout: Duration::from_secs(120),
            retries: 4,
            concurrency: 16,
            known: KnownSecrets::default(),
        }
    }
}

/// First pause before a retry; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause, even if a server asks for more.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Longest duration of a stream, as a multiple of the timeout. Beyond it, the endpoint only keeps the connection busy.
const STREAM_TIMEOUTS: u32 = 30;
/// Most bytes of an error body in a message.
const SHOWN_BYTES: usize = 300;

/// A client for one endpoint and model.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    url: Url,
    host: String,
    client: reqwest::Client,
    places: Semaphore,
    /// Whether the endpoint needs the newer name of the token limit.
    newer_limit: AtomicBool,
    /// Whether the endpoint rejects the request for usage in a stream.
    no_stream_options: AtomicBool,
}

/// Why an attempt failed.
pub(crate) enum Attempt {
    /// A retry may help; the server may say when.
    Again(ModelError, Option<Duration>),
    /// A retry would fail too.
    Final(ModelError),
}

/// How an answer was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    /// As a whole body.
    Whole,
    /// As a stream that was parsed only when it was complete, because its content type was wrong.
    AtOnce,
    /// As a stream whose deltas were passed on.
    InPieces,
}

/// Why reading a body failed.
enum Broken {
    /// It is too long: a retry would cost the same again.
    Long(String),
    /// The connection was interrupted.
    Off(String),
}

impl Endpoint {
    /// A client.
    ///
    /// # Errors
    /// The address is invalid, a key would be sent unencrypted, or the address is the provider's public API and there is no key.
    pub fn new(config: EndpointConfig) -> Result<Self, ProviderError> {
        let dialect = config.dialect;
        let (url, host) = dialect.target(&config.base_url, config.key.is_some())?;
        if config.key.is_none() && !config.without_key && dialect.is_home(&url) {
            return Err(ProviderError::NoKey { host, variable: dialect.key_variable() });
        }
        let headers = dialect.headers(config.key.as_ref())?;
        // Fails if an earlier client installed it, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder();
        // Plain HTTP is used for this machine and the local network; a proxy would see the key.
        let builder = if url.scheme() == "http" { builder.no_proxy() } else { builder };
        let client = builder
            .default_headers(headers)
            .timeout(config.timeout)
            .connect_timeout(config.timeout.min(Duration::from_secs(10)))
            // A redirect could send the key to another host.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("clawhost/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| ProviderError::Client(error.to_string()))?;
        let places = Semaphore::new(config.concurrency.clamp(1, Semaphore::MAX_PERMITS));
        config.key.iter().for_each(|key| config.known.add(key));
        Ok(Self {
            config,
            url,
            host,
            client,
            places,
            newer_limit: AtomicBool::new(false),
            no_stream_options: AtomicBool::new(false),
        })
    }

    /// The key, if there is one.
    pub fn key(&self) -> Option<&Secret> {
        self.config.key.as_ref()
    }

    fn secrets(&self) -> Secrets {
        self.config.known.secrets()
    }

    /// The name of its model.
    pub(crate) fn model(&self) -> &str {
        &self.config.model
    }

    /// The URL of requests.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// One attempt. With a sink, the answer is streamed.
    async fn attempt(
        &self,
        body: &serde_json::Value,
        passing: Option<&mut Passing<'_>>,
    ) -> Result<(ModelResponse, Came), Attempt> {
        let post = self.client.post(self.url.clone()).json(body);
        let post = if passing.is_some() { post.timeout(self.longest_stream()) } else { post };
        let (response, wait) = self.sent(post).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_stream = kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream");
        let streams = passing.is_some();
        if let Some(passing) = passing.filter(|_| response.status().is_success() && is_stream) {
            return self.pieces(response, passing, wait).await.map(|response| (response, Came::InPieces));
        }
        let text = self.whole(response, wait, ANSWER_BYTES).await?;
        let dialect = self.config.dialect;
        match dialect.read(&text) {
            Ok(response) => Ok((response, Came::Whole)),
            // An event stream with a wrong content type: it is complete, and parsed as a stream.
            Err(WireError::Streamed) if streams => {
                let mut answer = dialect.stream();
                let read = answer.push(text.as_bytes()).and_then(|_| answer.finish());
                read.map(|(_, response)| (response, Came::AtOnce)).map_err(|error| self.unread(error, wait))
            }
            Err(error) => Err(self.unread(error, wait)),
        }
    }

    /// Sends a request. Returns the head of the response, and the pause that it asks for.
    async fn sent(&self, post: RequestBuilder) -> Result<(reqwest::Response, Option<Duration>), Attempt> {
        let sent = self.in_time(post.send()).await;
        let response = sent.map_err(|why| Attempt::Again(ModelError::Unavailable(why), None))?;
        let wait = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let wait = wait.and_then(|text| text.trim().parse::<f64>().ok()).filter(|seconds| *seconds >= 0.0);
        let wait = wait.map(|seconds| Duration::from_secs_f64(seconds.min(LONGEST_PAUSE.as_secs_f64())));
        Ok((response, wait))
    }

    /// The body of a successful response.
    async fn whole(
        &self,
        response: reqwest::Response,
        wait: Option<Duration>,
        most_bytes: usize,
    ) -> Result<String, Attempt> {
        let status = response.status();
        let text = match self.body(response, most_bytes).await {
            Ok(text) => text,
            Err(Broken::Long(why)) => return Err(Attempt::Final(ModelError::InvalidResponse(why))),
            Err(Broken::Off(why)) => return Err(Attempt::Again(ModelError::Unavailable(why), wait)),
        };
        if status.is_success() { Ok(text) } else { Err(self.refused(status, &text, wait)) }
    }

    /// One attempt of a request at another path, whose answer of at most so many bytes is read as a whole.
    pub(crate) async fn asked<T>(
        &self,
        url: &Url,
        body: &serde_json::Value,
        most_bytes: usize,
        read: impl Fn(&str) -> Result<T, WireError>,
    ) -> Result<T, Attempt> {
        // The permit is released during pauses.
        let _place = self.places.acquire().await;
        let (response, wait) = self.sent(self.client.post(url.clone()).json(body)).await?;
        let text = self.whole(response, wait, most_bytes).await?;
        read(&text).map_err(|error| self.unread(error, wait))
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// There is none: a retry would fail too, or there were enough.
    pub(crate) async fn again(&self, failed: Attempt, attempt: &mut u32, spread: u64) -> Result<(), ModelError> {
        match failed {
            Attempt::Final(error) => Err(error),
            Attempt::Again(error, _) if *attempt >= self.config.retries => {
                let tries = *attempt + 1;
                Err(match error {
                    once if tries == 1 => once,
                    ModelError::Unavailable(text) => ModelError::Unavailable(format!("{text} ({tries} tries)")),
                    other => other,
                })
            }
            Attempt::Again(error, wait) => {
                let pause = wait.unwrap_or_else(|| Self::pause(*attempt, spread.rotate_left(*attempt)));
                tracing::debug!(%error, ?pause, attempt, "asking again");
                tokio::time::sleep(pause).await;
                *attempt += 1;
                Ok(())
            }
        }
    }

    /// Why a received answer cannot be used.
    fn unread(&self, error: WireError, wait: Option<Duration>) -> Attempt {
        let text = self.clean(&error.to_string());
        match error {
            // The server works but returned an invalid answer: a retry costs money and seldom helps, except for an overload
            // error with status 200.
            WireError::Endpoint(said) => Attempt::Again(ModelError::Unavailable(self.clean(&said)), wait),
            WireError::CutOff(_) => {
                Attempt::Again(ModelError::Unavailable(format!("the answer broke off: {text}")), wait)
            }
            _ => Attempt::Final(ModelError::InvalidResponse(text)),
        }
    }

    /// The meaning of an HTTP status.
    fn refused(&self, status: StatusCode, text: &str, wait: Option<Duration>) -> Attempt {
        let said = format!("HTTP {}: {}", status.as_u16(), self.clean(text));
        match status {
            StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS => {
                Attempt::Again(ModelError::Unavailable(said), wait)
            }
            status if status.is_server_error() => Attempt::Again(ModelError::Unavailable(said), wait),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let why = match self.config.key {
                    Some(_) => "the endpoint did not accept the key; api_key_file names another".to_owned(),
                    None if self.config.key_held_back => format!(
                        "the endpoint wants a key, and the one in {} was not sent: this address is not confirmed",
                        self.config.dialect.key_variable()
                    ),
                    None => format!(
                        "the endpoint wants a key, and neither {} nor api_key_file is set",
                        self.config.dialect.key_variable()
                    ),
                };
                Attempt::Final(ModelError::Refused(format!("{said}; {why}")))
            }
            StatusCode::NOT_FOUND => Attempt::Final(ModelError::Refused(format!(
                "{said}; check the model name `{}` and that the address ends in its version, as in /v1",
                self.config.model
            ))),
            status if status.is_redirection() => Attempt::Final(ModelError::InvalidResponse(format!(
                "{said}; the address redirects elsewhere, which is not followed: name the final address"
            ))),
            _ => Attempt::Final(ModelError::Refused(said)),
        }
    }

    /// Streams the answer up to its final event, and does not wait for anything after it.
    async fn pieces(
        &self,
        mut response: reqwest::Response,
        passing: &mut Passing<'_>,
        wait: Option<Duration>,
    ) -> Result<ModelResponse, Attempt> {
        let stopped = || Attempt::Final(ModelError::Stopped);
        let mut answer = self.config.dialect.stream();
        while !answer.is_over() {
            let chunk = self
                .in_time(response.chunk())
                .await
                .map_err(|why| Attempt::Again(ModelError::Unavailable(format!("the answer broke off: {why}")), wait))?;
            let Some(chunk) = chunk else { break };
            // An endpoint may quote the request: scrub the key before an error can show it.
            let secrets = self.secrets();
            let scrub = |data: &mut String| secrets.scrub_in(data);
            for delta in answer.push_through(&chunk, scrub).map_err(|error| self.unread(error, wait))? {
                passing.delta(delta).continue_value().ok_or_else(stopped)?;
            }
        }
        let (deltas, whole) = answer.finish().map_err(|error| self.unread(error, wait))?;
        for delta in deltas {
            passing.delta(delta).continue_value().ok_or_else(stopped)?;
        }
        passing.end().continue_value().ok_or_else(stopped)?;
        // The end of the body is usually there already. After reading it, the connection can be reused.
        let _ = tokio::time::timeout(Duration::ZERO, response.chunk()).await;
        Ok(whole)
    }

    /// Waits for the next event of the endpoint, at most for the timeout.
    async fn in_time<T>(&self, next: impl Future<Output = reqwest::Result<T>>) -> Result<T, String> {
        match tokio::time::timeout(self.config.timeout, next).await {
            Ok(done) => done.map_err(|error| self.describe(&error)),
            Err(_) => Err(self.silent()),
        }
    }

    /// Longest duration of a stream.
    fn longest_stream(&self) -> Duration {
        self.config.timeout.saturating_mul(STREAM_TIMEOUTS)
    }

    /// The body, up to the size limit.
    async fn body(&self, mut response: reqwest::Response, most_bytes: usize) -> Result<String, Broken> {
        let mut bytes = Vec::new();
        loop {
            match self.in_time(response.chunk()).await {
                Ok(Some(chunk)) if bytes.len().saturating_add(chunk.len()) > most_bytes => {
                    return Err(Broken::Long(format!("it is longer than {most_bytes} bytes")));
                }
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => {
                    // An endpoint may quote the request: scrub the key first.
                    let text = String::from_utf8_lossy(&bytes);
                    return Ok(self.secrets().scrub(&text).into_owned());
                }
                Err(why) => return Err(Broken::Off(format!("the answer broke off: {why}"))),
            }
        }
    }

    fn address(&self) -> String {
        format!("{}:{}", self.url.host_str().unwrap_or("?"), self.url.port_or_known_default().unwrap_or(0))
    }

    fn silent(&self) -> String {
        format!(
            "no answer from {} within {} s, the limit of model_timeout",
            self.address(),
            self.config.timeout.as_secs_f64()
        )
    }

    fn describe(&self, error: &reqwest::Error) -> String {
        let address = self.address();
        if error.is_timeout() {
            return self.silent();
        }
        if error.is_connect() {
            return format!("cannot connect to {address}; is the server running there?");
        }
        // The cause without the address, which the message already has.
        let mut cause: &dyn std::error::Error = error;
        while let Some(next) = cause.source() {
            cause = next;
        }
        self.clean(&format!("{address}: {cause}"))
    }

    /// A text from outside for a message: without the key and control characters, shortened.
    fn clean(&self, text: &str) -> String {
        let text = self.secrets().scrub(text);
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let mut shown: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((cut, _)) = shown.char_indices().find(|(at, _)| *at >= SHOWN_BYTES) {
            shown.truncate(cut);
            shown.push('…');
        }
        shown
    }

    /// The pause before a retry: doubled each time, with jitter so that clients do not retry in step.
    fn pause(attempt: u32, spread: u64) -> Duration {
        let base = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(attempt)).min(LONGEST_PAUSE);
        let share = 0.5 + (spread % 1000) as f64 / 1000.0;
        base.mul_f64(share).min(LONGEST_PAUSE)
    }

    /// Tries until there is an answer or a final error. Deltas cannot be taken back: after the first one there are no
    /// retries.
    async fn ask(
        &self,
        request: &ModelRequest,
        mut passing: Option<&mut Passing<'_>>,
    ) -> Result<ModelResponse, ModelError> {
        let Self { config, host, .. } = self;
        let stream = passing.is_some();
        let write = || {
            let newer_limit = self.newer_limit.load(Ordering::Relaxed);
            let usage = !self.no_stream_options.load(Ordering::Relaxed);
            let body = config.dialect.body(&config.model, host, Wishes { newer_limit, stream, usage }, request);
            body.map_err(|error| ModelError::Refused(error.to_string()))
        };
        let mut body = write()?;
        let spread = Digest::of(body.to_string().as_bytes()).prefix_u64();
        let mut attempt = 0;
        loop {
            let tried = {
                // The permit is released during pauses.
                let _place = self.places.acquire().await;
                self.attempt(&body, passing.as_deref_mut()).await
            };
            let begun = passing.as_deref().is_some_and(|passing| passing.begun);
            match tried {
                Ok((response, came)) => {
                    let mut response = scrubbed(&self.secrets(), response)?;
                    response.ignored = config.dialect.ignored(request, &response, stream && came == Came::Whole);
                    if response.estimate_usage(request.bytes()) {
                        response.ignored.push(IgnoredRequest::Usage);
                    }
                    if came != Came::InPieces && passing.is_some_and(|passing| passing.whole(&response).is_break()) {
                        return Err(ModelError::Stopped);
                    }
                    return Ok(response);
                }
                Err(Attempt::Final(error) | Attempt::Again(error, _)) if begun => return Err(error),
                Err(Attempt::Final(ModelError::Refused(text))) if self.learns(&text) => body = write()?,
                Err(failed) => self.again(failed, &mut attempt, spread).await?,
            }
            if let Some(passing) = passing.as_deref_mut() {
                passing.again();
            }
        }
    }

    /// Whether a rejection names a field that can be written differently; if so, later requests use the other form.
    fn learns(&self, refusal: &str) -> bool {
        // Newer models of the chat dialect need another name of the token limit, and say so.
        let newer_limit = refusal.contains("max_completion_tokens");
        // Some older servers reject the request for usage in a stream.
        let no_stream_options = refusal.contains("stream_options");
        (newer_limit && !self.newer_limit.swap(true, Ordering::Relaxed))
            || (no_stream_options && !self.no_stream_options.swap(true, Ordering::Relaxed))
    }
}

#[async_trait]
impl Llm for Endpoint {
    fn identity(&self) -> LlmIdentity {
        let base = self.config.base_url.trim_end_matches('/').to_owned();
        LlmIdentity { provider: self.config.dialect.name().to_owned(), model: self.config.model.clone(), version: base }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        self.ask(request, None).await
    }

    async fn stream(&self, request: &ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        let mut passing = Passing::new(sink, self.secrets());
        self.ask(request, Some(&mut passing)).await
    }
}
