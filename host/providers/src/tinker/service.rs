//! The connection to a service: requests, and the promises that they get.

use super::address::base;
use super::body::{Broken, cause, clean, said, whole};
use super::session::Session;
use crate::ProviderError;
use clawhost_core::{KnownSecrets, ModelError, Secret, Secrets};
use clawhost_wire::tinker::PROTOBUF;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use url::Url;

/// The path of questions for a promise.
const RETRIEVE: &str = "retrieve_future";
/// Pauses between two questions for a promise: a service holds a question until there is a result, so they are short, and longer for one that does not.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The first pause after a failure; doubled each time.
const FIRST_REST: Duration = Duration::from_millis(250);
/// Largest body of an answer in JSON.
const JSON_BYTES: usize = 1 << 20;
/// Bytes of a protocol buffer beside the numbers that were asked for: names and metrics.
const PROTOBUF_BYTES: usize = 1 << 20;
/// Most bytes of a number.
const NUMBER_BYTES: usize = 8;

/// How a service is asked.
#[derive(Debug, Clone)]
pub struct TinkerConfig {
    /// Its address, above `/api/v1`.
    pub address: String,
    /// The key, if there is one.
    pub key: Option<Secret>,
    /// The keys of the process. This one is added.
    pub known: KnownSecrets,
    /// Longest silence of a request.
    pub silence: Duration,
    /// Longest wait for the result of a request.
    pub patience: Duration,
    /// Further attempts after a failure that may pass.
    pub retries: u32,
}

impl TinkerConfig {
    /// The service at an address, with usual limits.
    pub fn new(address: impl Into<String>, key: Option<Secret>) -> Self {
        Self {
            address: address.into(),
            key,
            known: KnownSecrets::default(),
            // A service holds a question for some 40 seconds.
            silence: Duration::from_secs(90),
            // Loading a base model takes minutes.
            patience: Duration::from_secs(1200),
            retries: 4,
        }
    }
}

/// A connection to a service. It has a thread of its own, so that it may be used from any other, and keeps its session alive until it is dropped.
#[derive(Debug)]
pub struct TinkerService {
    connection: Arc<Connection>,
    /// `None` while it is dropped.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for TinkerService {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped where waiting is not allowed.
            runtime.shutdown_background();
        }
    }
}

/// Why a request has no result.
pub(super) struct Refusal {
    pub(super) error: ModelError,
    /// Whether the service does not know, or no longer, what was named: a service that was started again has no sessions and no models in training.
    pub(super) is_lost: bool,
}

impl Refusal {
    /// The error of a request that names something the caller can create again, such as a model in training: if the service has lost it, it counts as an outage.
    pub(super) fn passing(self) -> ModelError {
        match self.error {
            ModelError::Refused(why) if self.is_lost => ModelError::Unavailable(why),
            error => error,
        }
    }
}

impl From<ModelError> for Refusal {
    fn from(error: ModelError) -> Self {
        Self { error, is_lost: false }
    }
}

impl From<Refusal> for ModelError {
    fn from(refusal: Refusal) -> Self {
        refusal.error
    }
}

/// What answers a promise.
pub(super) enum Settled {
    Json(Value),
    Protobuf(Vec<u8>),
}

/// Whether a request may be sent again when it is not known whether it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing, or its repetition is harmless.
    Harmless,
    /// It would count twice.
    Never,
}

/// A body of a request.
#[derive(Clone)]
pub(super) enum Body {
    Json(Value),
    Protobuf(Vec<u8>),
}

pub(super) struct Connection {
    config: TinkerConfig,
    base: Url,
    client: reqwest::Client,
    /// The session that lives. `None`: none has begun, or the service has lost it.
    pub(super) session: Mutex<Option<Session>>,
    models: AtomicU64,
    samplers: AtomicU64,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

/// Ends a task whose result nobody waits for.
pub(super) struct Abort(pub(super) tokio::task::AbortHandle);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn ended() -> ModelError {
    ModelError::Unavailable("the connection to the service has ended".to_owned())
}

impl TinkerService {
    /// A connection. Nothing is sent before it is used.
    ///
    /// # Errors
    /// The address is invalid, or may not have the key, or the client cannot be set up.
    pub fn new(config: TinkerConfig) -> Result<Arc<Self>, ProviderError> {
        let base = base(&config.address, config.key.is_some())?;
        let mut headers = HeaderMap::new();
        if let Some(key) = &config.key {
            let mut value = HeaderValue::from_str(key.expose()).map_err(|_| ProviderError::KeyCharacters)?;
            value.set_sensitive(true);
            headers.insert("x-api-key", value);
            config.known.add(key);
        }
        // Fails if an earlier client installed it, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let failed = |error: String| ProviderError::Client(error);
        let builder = reqwest::Client::builder();
        // As for other endpoints: plain HTTP is of this machine, and a redirect could send the key elsewhere.
        let builder = if base.scheme() == "http" { builder.no_proxy() } else { builder };
        let client = builder
            .default_headers(headers)
            .connect_timeout(config.silence.min(Duration::from_secs(10)))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("clawhost/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tinker")
            .enable_all()
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let (session, models, samplers) = (Mutex::new(None), AtomicU64::new(0), AtomicU64::new(0));
        let connection = Arc::new(Connection { config, base, client, session, models, samplers });
        Ok(Arc::new(Self { connection, runtime: Some(runtime) }))
    }

    /// Does something on the thread of the connection. Dropping the future ends it.
    pub(super) async fn run<T, F>(&self, act: impl FnOnce(Arc<Connection>) -> F) -> Result<T, ModelError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ModelError>> + Send + 'static,
    {
        let runtime = self.runtime.as_ref().ok_or_else(ended)?;
        let task = runtime.spawn(act(self.connection.clone()));
        let _abort = Abort(task.abort_handle());
        task.await.map_err(|_| ended())?
    }

    /// Waits for something of the connection on this thread.
    ///
    /// # Errors
    /// Those of what is waited for.
    pub fn wait<T, F>(self: &Arc<Self>, act: impl FnOnce(Arc<Self>) -> F) -> Result<T, ModelError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ModelError>> + Send + 'static,
    {
        let (sender, receiver) = std::sync::mpsc::channel();
        let runtime = self.runtime.as_ref().ok_or_else(ended)?;
        let future = act(self.clone());
        runtime.spawn(async move {
            // The receiver may be gone.
            let _ = sender.send(future.await);
        });
        receiver.recv().map_err(|_| ended())?
    }

    /// Longest wait for the result of a request.
    pub(super) fn patience(&self) -> Duration {
        self.connection.config.patience
    }

    /// Where it is.
    pub fn address(&self) -> &str {
        &self.connection.config.address
    }
}

/// Why an attempt failed.
enum Failed {
    /// Another may succeed. Whether the request may have arrived.
    Again(ModelError, bool),
    /// Another would fail, too.
    Final(Refusal),
}

impl Failed {
    fn last(error: ModelError) -> Self {
        Self::Final(error.into())
    }
}

impl Connection {
    fn secrets(&self) -> Secrets {
        self.config.known.secrets()
    }

    /// A text of the service for a message.
    pub(super) fn clean(&self, text: &str) -> String {
        clean(&self.secrets(), text)
    }

    fn at(&self, text: &str) -> String {
        let (host, port) = (self.base.host_str().unwrap_or("?"), self.base.port_or_known_default().unwrap_or(0));
        format!("{host}:{port}: {}", self.clean(text))
    }

    /// The number of the next model in training.
    pub(super) fn next_model(&self) -> u64 {
        self.models.fetch_add(1, Ordering::Relaxed)
    }

    /// The number of the next sampling session.
    pub(super) fn next_sampler(&self) -> u64 {
        self.samplers.fetch_add(1, Ordering::Relaxed)
    }

    /// A text of an answer.
    pub(super) fn text(&self, answer: &Value, name: &str) -> Result<String, ModelError> {
        let text = answer.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| self.invalid(&format!("the answer has no {name}")))
    }

    /// The error for an answer that is not as it should be.
    pub(super) fn invalid(&self, why: &str) -> ModelError {
        ModelError::InvalidResponse(self.at(why))
    }

    /// Sends a request, and waits for its result: at most `most` bytes, if it is a protocol buffer.
    async fn settled(&self, path: &str, body: Body, repeat: Repeat, most: usize) -> Result<Settled, Refusal> {
        let patience = self.config.patience;
        match tokio::time::timeout(patience, self.promise(path, body, repeat, most)).await {
            Ok(settled) => settled,
            Err(_) => {
                let why = format!("no result of {path} within {} s", patience.as_secs_f64());
                Err(ModelError::Unavailable(self.at(&why)).into())
            }
        }
    }

    async fn promise(&self, path: &str, body: Body, repeat: Repeat, most: usize) -> Result<Settled, Refusal> {
        let promise = self.ask(path, &body, repeat).await?;
        let request = Body::Json(json!({ "request_id": self.text(&promise, "request_id")? }));
        let (mut pause, mut failures) = (FIRST_PAUSE, 0);
        loop {
            match self.attempt(RETRIEVE, &request, most).await {
                Ok(None) => {
                    failures = 0;
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Ok(Some(Settled::Json(answer))) => {
                    if answer.get("error").is_some() {
                        let why = self.at(&format!("{path} failed: {}", said(answer.to_string().as_bytes())));
                        // Only a failure of the user's says something about the request.
                        let category = answer.get("category").and_then(Value::as_str).unwrap_or_default();
                        let error = match category.eq_ignore_ascii_case("user") {
                            true => ModelError::Refused(why),
                            false => ModelError::Unavailable(why),
                        };
                        return Err(error.into());
                    }
                    return Ok(Settled::Json(answer));
                }
                Ok(Some(bytes)) => return Ok(bytes),
                Err(failed) => self.again(failed, &mut failures, Repeat::Harmless).await?,
            }
        }
    }

    /// The result of a request as JSON.
    pub(super) async fn settled_json(&self, path: &str, body: Body, repeat: Repeat) -> Result<Value, Refusal> {
        match self.settled(path, body, repeat, 0).await? {
            Settled::Json(answer) => Ok(answer),
            Settled::Protobuf(_) => Err(self.invalid(&format!("the result of {path} is no JSON")).into()),
        }
    }

    /// The result of a request as a protocol buffer. `numbers`: those that it may have, of at most 8 bytes.
    pub(super) async fn settled_bytes(
        &self,
        path: &str,
        body: Body,
        repeat: Repeat,
        numbers: usize,
    ) -> Result<Vec<u8>, Refusal> {
        let most = numbers.saturating_mul(NUMBER_BYTES).saturating_add(PROTOBUF_BYTES);
        match self.settled(path, body, repeat, most).await? {
            Settled::Protobuf(bytes) => Ok(bytes),
            Settled::Json(_) => {
                Err(self.invalid(&format!("the result of {path} is JSON and no protocol buffer")).into())
            }
        }
    }

    /// Sends a request that is answered at once, in JSON.
    pub(super) async fn ask(&self, path: &str, body: &Body, repeat: Repeat) -> Result<Value, Refusal> {
        let mut failures = 0;
        loop {
            match self.attempt(path, body, 0).await {
                Ok(Some(Settled::Json(answer))) => return Ok(answer),
                Ok(_) => return Err(self.invalid(&format!("{path} was not answered in JSON")).into()),
                Err(failed) => self.again(failed, &mut failures, repeat).await?,
            }
        }
    }

    /// Waits before the next attempt.
    async fn again(&self, failed: Failed, failures: &mut u32, repeat: Repeat) -> Result<(), Refusal> {
        match failed {
            Failed::Final(refusal) => Err(refusal),
            Failed::Again(error, may_count) if may_count && repeat == Repeat::Never => Err(error.into()),
            Failed::Again(error, _) if *failures >= self.config.retries => Err(error.into()),
            Failed::Again(error, _) => {
                tracing::debug!(%error, "asking a Tinker service again");
                tokio::time::sleep(FIRST_REST.saturating_mul(2u32.saturating_pow(*failures))).await;
                *failures += 1;
                Ok(())
            }
        }
    }

    /// One attempt. `None`: there is no result yet. `most`: bytes of a protocol buffer.
    async fn attempt(&self, path: &str, body: &Body, most: usize) -> Result<Option<Settled>, Failed> {
        let url = self.base.join(path).map_err(|error| Failed::last(self.invalid(&error.to_string())))?;
        let request = self.client.request(Method::POST, url).header(ACCEPT, format!("{PROTOBUF}, application/json"));
        let request = match body {
            Body::Json(body) => request.json(body),
            Body::Protobuf(bytes) => request.header(CONTENT_TYPE, PROTOBUF).body(bytes.clone()),
        };
        let silence = self.config.silence;
        let unavailable = |why: String| ModelError::Unavailable(self.at(&why));
        let response = match tokio::time::timeout(silence, request.send()).await {
            Err(_) => {
                let why = format!("no answer to {path} within {} s", silence.as_secs_f64());
                return Err(Failed::Again(unavailable(why), true));
            }
            // Nothing was sent without a connection.
            Ok(Err(error)) if error.is_connect() => {
                return Err(Failed::Again(
                    unavailable("cannot connect; is the service running there?".to_owned()),
                    false,
                ));
            }
            Ok(Err(error)) => return Err(Failed::Again(unavailable(cause(&error)), true)),
            Ok(Ok(response)) => response,
        };
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_protobuf = kind.contains(PROTOBUF) && status.is_success();
        let most = if is_protobuf { most } else { JSON_BYTES };
        let bytes = match whole(response, most, silence).await {
            Ok(bytes) => bytes,
            Err(Broken::Long(most)) => {
                return Err(Failed::last(self.invalid(&format!("the answer to {path} has more than {most} bytes"))));
            }
            Err(Broken::Off(why)) => {
                return Err(Failed::Again(unavailable(format!("the answer broke off: {why}")), true));
            }
        };
        if !status.is_success() {
            return self.refused(path, status, &bytes);
        }
        if is_protobuf {
            return Ok(Some(Settled::Protobuf(bytes)));
        }
        let answer: Value = serde_json::from_slice(&bytes)
            .map_err(|_| Failed::last(self.invalid(&format!("the answer to {path} is no JSON: {}", said(&bytes)))))?;
        Ok((answer.get("type").and_then(Value::as_str) != Some("try_again")).then_some(Settled::Json(answer)))
    }

    /// The meaning of a status that is no success.
    fn refused(&self, path: &str, status: StatusCode, body: &[u8]) -> Result<Option<Settled>, Failed> {
        let why = self.at(&format!("{path}: HTTP {}: {}", status.as_u16(), said(body)));
        match status {
            StatusCode::REQUEST_TIMEOUT if path == RETRIEVE => Ok(None),
            StatusCode::REQUEST_TIMEOUT => Err(Failed::Again(ModelError::Unavailable(why), true)),
            StatusCode::TOO_MANY_REQUESTS => Err(Failed::Again(ModelError::Unavailable(why), false)),
            StatusCode::GONE => {
                let error = ModelError::Unavailable(format!("{why}; the service has lost the request"));
                Err(Failed::Final(Refusal { error, is_lost: true }))
            }
            StatusCode::NOT_FOUND => Err(Failed::Final(Refusal { error: ModelError::Refused(why), is_lost: true })),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let remedy = match self.config.key {
                    Some(_) => "the service did not accept the key",
                    None => "the service wants a key, and none was sent",
                };
                Err(Failed::last(ModelError::Refused(format!("{why}; {remedy}"))))
            }
            status if status.is_server_error() => Err(Failed::Again(ModelError::Unavailable(why), true)),
            _ => Err(Failed::last(ModelError::Refused(why))),
        }
    }
}
