//! The server: connections with their limits, the start and the orderly end.

use super::access::Access;
use super::guard::Guard;
use super::routes;
use super::shape::Shape;
use crate::capture::{Importer, Recorder, Spool};
use crate::models::Models;
use crate::{CaptureStore, ClientKeys, GatewayConfig, GatewayError, GatewayParts};
use clawhost_capture::CaptureKey;
use clawhost_core::{Clock, KnownSecrets};
use clawhost_wire::AnswerHead;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};

/// Largest head of a request in bytes.
const HEAD_BYTES: usize = 64 << 10;
/// Pause after a connection could not be accepted, because the process has no more files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GatewayCounts {
    /// Exchanges that were recorded.
    pub recorded: u64,
    /// Exchanges that could not be recorded.
    pub missed: u64,
    /// Sessions that became episodes.
    pub episodes: u64,
    /// Sessions that are open.
    pub sessions: usize,
}

/// What all requests share.
pub(crate) struct Inner {
    pub(crate) config: GatewayConfig,
    pub(crate) models: Models,
    pub(crate) guard: Guard,
    pub(crate) access: Arc<Access>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) store: Arc<CaptureStore>,
    pub(crate) secrets: KnownSecrets,
    pub(crate) places: Arc<Semaphore>,
    clock: Arc<dyn Clock>,
    boot: u64,
    answers: AtomicU64,
    /// Aliases of models whose endpoint has no `/responses`.
    without_responses: Mutex<HashSet<String>>,
    /// Held by answers that are under way; the end waits until all of them are dropped.
    busy: mpsc::WeakSender<()>,
}

impl Inner {
    /// Held while an answer is under way.
    pub(crate) fn busy(&self) -> Option<mpsc::Sender<()>> {
        self.busy.upgrade()
    }

    /// Whether the endpoint of a model may have `/responses`.
    pub(crate) fn has_responses(&self, alias: &str) -> bool {
        !self.without_responses.lock().unwrap_or_else(PoisonError::into_inner).contains(alias)
    }

    /// Notes that the endpoint of a model answers other requests and has no `/responses`.
    pub(crate) fn note_no_responses(&self, alias: &str) {
        self.without_responses.lock().unwrap_or_else(PoisonError::into_inner).insert(alias.to_owned());
    }

    /// The metadata of an answer that this gateway writes.
    pub(crate) fn answer_head(&self, shape: Shape, model: &str) -> AnswerHead {
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
        AnswerHead {
            id: format!("{}{:016x}{number:08x}", shape.prefix(), self.boot),
            model: model.to_owned(),
            version: None,
            created: self.clock.now_ms() / 1000,
        }
    }
}

/// Starts gateways.
#[derive(Debug)]
pub struct Gateway;

/// A running gateway. Dropping it ends it without waiting for requests.
pub struct Running {
    address: SocketAddr,
    inner: Arc<Inner>,
    stopping: watch::Sender<bool>,
    imported: watch::Sender<bool>,
    server: tokio::task::JoinHandle<()>,
    importer: Option<std::thread::JoinHandle<()>>,
    /// Ends the importer at once.
    killed: watch::Sender<bool>,
    idle: mpsc::Receiver<()>,
    busy: Option<mpsc::Sender<()>>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Takes up what an earlier start left, and listens.
    ///
    /// # Errors
    /// The models, the address, the spool or the store cannot be used.
    pub async fn start(config: GatewayConfig, parts: GatewayParts) -> Result<Running, GatewayError> {
        let GatewayParts { store, clock, secrets, capture_key, models, keys, new_run } = parts;
        let models = Models::new(models)?;
        let listen =
            |why: std::io::Error| GatewayError::Listen { address: config.listen.clone(), why: why.to_string() };
        let listener = TcpListener::bind(&config.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let is_reachable = !address.ip().is_loopback();
        if is_reachable && keys.is_empty() {
            return Err(GatewayError::Open { address: address.to_string() });
        }
        let access = Arc::new(Access::new(keys, is_reachable, clock.clone()));
        let mut boot = [0; 8];
        getrandom::fill(&mut boot).map_err(|error| GatewayError::Randomness(error.to_string()))?;
        let boot = u64::from_be_bytes(boot);
        let store = Arc::new(store);
        let taken = store.reader()?.spool_place()?;
        let spool = Spool::open(&config.spool, taken, config.limits.spool())?;
        let now_ms = clock.now_ms();
        let key = CaptureKey::new(capture_key);
        let recorder = Arc::new(Recorder::new(key, boot, config.sessions, spool, clock.clone(), new_run));
        let charged = access.clone();
        recorder.on_spent(Box::new(move |owner, at, tokens| charged.spend(owner, at, tokens)));
        let importer = Importer::restore(store.clone(), recorder.clone(), now_ms, config.limits.episode_bytes).await?;
        let (imported, until) = watch::channel(false);
        let (killed, kill) = watch::channel(false);
        let importer = Some(importer.start(until, kill)?);
        let (busy, idle) = mpsc::channel(1);
        let inner = Arc::new(Inner {
            models,
            guard: Guard::new(&config.hosts, is_reachable),
            access,
            recorder,
            store,
            secrets,
            places: Arc::new(Semaphore::new(config.limits.requests)),
            clock,
            boot,
            answers: AtomicU64::new(0),
            without_responses: Mutex::default(),
            busy: busy.downgrade(),
            config,
        });
        let (stopping, stop) = watch::channel(false);
        let server = tokio::spawn(accept(listener, inner.clone(), stop));
        Ok(Running { address, inner, stopping, imported, server, importer, killed, idle, busy: Some(busy) })
    }
}

/// Accepts connections until the gateway stops, then lets the requests end.
async fn accept(listener: TcpListener, inner: Arc<Inner>, mut stop: watch::Receiver<bool>) {
    let router = routes::router(inner.clone());
    let limits = inner.config.limits;
    let connections = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let mut server = hyper::server::conn::http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(limits.head_time).max_buf_size(HEAD_BYTES);
    loop {
        let place = tokio::select! {
            place = connections.clone().acquire_owned() => place,
            _ = stop.changed() => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => break,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Events are small, and waiting to fill a packet would delay them.
        let _ = stream.set_nodelay(true);
        let connection = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = connection.await {
                tracing::debug!("a connection ended: {error}");
            }
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(limits.drain_time, graceful.shutdown()).await;
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server.abort();
        self.killed.send_replace(true);
        if let Some(importer) = self.importer.take() {
            // It has panicked otherwise, which was reported.
            let _ = importer.join();
        }
    }
}

impl Running {
    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the keys of clients. Requests that are under way go on.
    pub fn set_keys(&self, keys: ClientKeys) {
        self.inner.access.replace(keys);
    }

    /// Counts since the start.
    pub fn counts(&self) -> GatewayCounts {
        let counts = &self.inner.recorder.counts;
        GatewayCounts {
            recorded: counts.recorded.load(Ordering::Relaxed),
            missed: counts.missed.load(Ordering::Relaxed),
            episodes: counts.episodes.load(Ordering::Relaxed),
            sessions: self.inner.recorder.sessions(),
        }
    }

    /// Ends it in order: no new connections, then the requests end, then everything recorded is in the store.
    pub async fn stop(mut self) -> GatewayCounts {
        self.stopping.send_replace(true);
        let _ = (&mut self.server).await;
        self.busy = None;
        let drained = tokio::time::timeout(self.inner.config.limits.drain_time, self.idle.recv()).await;
        if drained.is_err() {
            tracing::warn!("answers are still under way, and are recorded as incomplete");
        }
        self.imported.send_replace(true);
        self.inner.recorder.wake.notify_one();
        if let Some(importer) = self.importer.take() {
            let _ = tokio::task::spawn_blocking(move || importer.join()).await;
        }
        self.counts()
    }
}
