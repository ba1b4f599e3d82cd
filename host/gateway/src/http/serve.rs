//! The server: connections with their limits, the start and the orderly end.

use super::access::Access;
use super::guard::Guard;
use super::routes;
use super::shape::Shape;
use crate::capture::{Importer, Recorder, Spool};
use crate::dashboard::Logins;
use crate::guiding::{Guide, MemoryBook};
use crate::ingest::GuidanceSource;
use crate::learned::LearnedBook;
use crate::models::{Models, ServedModel};
use crate::observe::{Export, Exporting, GatewayEvent, Observer, Settings};
use crate::pool::EpisodeJudge;
use crate::tls::Tls;
use crate::{CaptureStore, ClientKeys, GatewayChange, GatewayConfig, GatewayError, GatewayParts};
use axum::Router;
use clawhost_capture::CaptureKey;
use clawhost_core::{Clock, KnownSecrets};
use clawhost_wire::AnswerHead;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
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
    pub(crate) observer: Arc<Observer>,
    /// `None`: connections are not encrypted.
    tls: Option<Tls>,
    clock: Arc<dyn Clock>,
    boot: u64,
    answers: AtomicU64,
    pub(crate) guidance: GuidanceSource,
    pub(crate) guide: Option<Arc<dyn Guide>>,
    pub(crate) memory: Option<Arc<dyn MemoryBook>>,
    pub(crate) learned: Option<Arc<dyn LearnedBook>>,
    pub(crate) judge: Option<EpisodeJudge>,
    /// Who has shown the admin's key in a browser.
    pub(crate) logins: Logins,
    /// Changes of the data pool, for those that wait for one.
    pool: watch::Sender<()>,
    /// Held by answers that are under way; the end waits until all of them are dropped.
    busy: mpsc::WeakSender<()>,
}

impl Inner {
    /// Held while an answer is under way.
    pub(crate) fn busy(&self) -> Option<mpsc::Sender<()>> {
        self.busy.upgrade()
    }

    /// The scheme of its addresses.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The time on the monotonic clock in microseconds.
    pub(crate) fn now_us(&self) -> u64 {
        self.clock.monotonic_us()
    }

    /// Counts since the start.
    pub(crate) fn counts(&self) -> GatewayCounts {
        let counts = &self.recorder.counts;
        GatewayCounts {
            recorded: counts.recorded.load(Ordering::Relaxed),
            missed: counts.missed.load(Ordering::Relaxed),
            episodes: counts.episodes.load(Ordering::Relaxed),
            sessions: self.recorder.sessions(),
        }
    }

    /// Unix time in milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// An id that no other one of this program has.
    pub(crate) fn new_id(&self, prefix: &str) -> String {
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}{:016x}{number:08x}", self.boot)
    }

    /// The data pool has changed.
    pub(crate) fn pool_changed(&self) {
        self.pool.send_replace(());
    }

    /// Tells when the data pool changes.
    pub(crate) fn pool_changes(&self) -> watch::Receiver<()> {
        self.pool.subscribe()
    }

    /// A name of this start of the gateway.
    pub(crate) fn start_name(&self) -> String {
        format!("{:016x}", self.boot)
    }

    /// The metadata of an answer that this gateway writes.
    pub(crate) fn answer_head(&self, shape: Shape, model: &str) -> AnswerHead {
        AnswerHead {
            id: self.new_id(shape.prefix()),
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
    /// Exports traces.
    export: Option<Exporting>,
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
        let GatewayParts {
            store,
            clock,
            secrets,
            capture_key,
            models,
            keys,
            admin,
            guidance,
            guide,
            memory,
            learned,
            judge,
            new_run,
        } = parts;
        let models = Models::new(models)?;
        let listen =
            |why: std::io::Error| GatewayError::Listen { address: config.listen.clone(), why: why.to_string() };
        let listener = TcpListener::bind(&config.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let is_reachable = !address.ip().is_loopback();
        if is_reachable && keys.is_empty() {
            return Err(GatewayError::Open { address: address.to_string() });
        }
        let access = Arc::new(Access::new(keys, is_reachable, clock.clone()).with_admin(admin));
        access.set_record(config.record);
        let mut boot = [0; 8];
        getrandom::fill(&mut boot).map_err(|error| GatewayError::Randomness(error.to_string()))?;
        let boot = u64::from_be_bytes(boot);
        let store = Arc::new(store);
        let reader = store.reader()?;
        let (taken, policy_version) = (reader.spool_place()?, reader.policy_version()?);
        drop(reader);
        let spool = Spool::open(&config.spool, taken, config.limits.spool())?;
        let now_ms = clock.now_ms();
        let key = CaptureKey::new(capture_key);
        let recorder = Arc::new(
            Recorder::new(key, boot, config.sessions, spool, clock.clone(), new_run)
                .with_redaction(config.redaction.clone()),
        );
        recorder.set_policy_version(policy_version);
        let charged = access.clone();
        recorder.on_spent(Box::new(move |owner, at, usage| charged.spend(owner, at, usage)));
        let importer = Importer::restore(store.clone(), recorder.clone(), now_ms, config.limits.episode_bytes)
            .await?
            .expecting(config.expects.clone());
        let (imported, until) = watch::channel(false);
        let (killed, kill) = watch::channel(false);
        let importer = Some(importer.start(until, kill)?);
        let (busy, idle) = mpsc::channel(1);
        let export = config.traces.as_ref().map(|traces| Export::new(traces, &secrets)).transpose()?;
        let settings = Settings { logs: config.access_log, traces: export.as_ref().map(Export::spans) };
        let observer = Observer::new(clock.clone(), secrets.clone(), recorder.events.clone(), settings);
        let export = export.map(|export| export.start(observer.counts.lost_spans.clone()));
        let inner = Arc::new(Inner {
            models,
            guard: Guard::new(&config.hosts, is_reachable),
            access,
            recorder,
            store,
            secrets,
            places: Arc::new(Semaphore::new(config.limits.requests)),
            observer,
            tls: config.tls.clone().map(Tls::new),
            clock,
            boot,
            answers: AtomicU64::new(0),
            guidance,
            guide,
            memory,
            learned,
            judge,
            logins: Logins::default(),
            pool: watch::Sender::new(()),
            busy: busy.downgrade(),
            config,
        });
        let (stopping, stop) = watch::channel(false);
        let server = tokio::spawn(accept(listener, inner.clone(), stop));
        let busy = Some(busy);
        Ok(Running { address, inner, stopping, imported, server, importer, killed, idle, busy, export })
    }
}

/// What a connection is served with.
struct Connection {
    server: hyper::server::conn::http1::Builder,
    router: Router,
    watcher: Watcher,
}

impl Connection {
    /// Serves it to its end. A TLS handshake has the time of a head, and none is waited for once the gateway stops.
    async fn run(self, stream: TcpStream, inner: &Inner, mut stopped: watch::Receiver<bool>) {
        let Some(tls) = &inner.tls else { return self.serve(stream).await };
        let accepted = tokio::select! {
            accepted = tls.accept(stream, inner.config.limits.head_time) => accepted,
            _ = stopped.changed() => return,
        };
        match accepted {
            Ok(stream) => self.serve(stream).await,
            Err(error) => tracing::debug!("a connection ended: {error}"),
        }
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { server, router, watcher } = self;
        let connection = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!("a connection ended: {error}");
        }
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
        let connection = Connection { server: server.clone(), router: router.clone(), watcher: graceful.watcher() };
        let (inner, stopped) = (inner.clone(), stop.clone());
        tokio::spawn(async move {
            let _place = place;
            connection.run(stream, &inner, stopped).await;
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

    /// Replaces the models, and nothing else. Requests that are under way end with the models, and the weights, that they began with.
    ///
    /// # Errors
    /// There is no model, or two have one alias. Then nothing is changed.
    pub fn set_models(&self, models: Vec<ServedModel>) -> Result<(), GatewayError> {
        self.inner.models.replace(models)?;
        self.tell(GatewayEvent::ModelsChanged);
        Ok(())
    }

    /// Weights that learn beside it have changed, or what waits for them: tells the readers of events.
    pub fn training_changed(&self, alias: &str) {
        self.tell(GatewayEvent::TrainingChanged { alias: alias.to_owned() });
    }

    /// Tells the admin.
    fn tell(&self, event: GatewayEvent) {
        self.inner.recorder.events.push(self.inner.now_ms(), None, event);
    }

    /// The models as they are now.
    pub fn models(&self) -> Arc<[Arc<ServedModel>]> {
        self.inner.models.all()
    }

    /// Takes a change over. Requests that are under way end with the models that they began with.
    ///
    /// # Errors
    /// There is no model, or two have one alias. Then nothing is changed.
    pub fn change(&self, change: GatewayChange) -> Result<(), GatewayError> {
        let GatewayChange { models, hosts, session_idle_ms, record, tls } = change;
        self.set_models(models)?;
        self.inner.guard.replace(&hosts);
        self.inner.recorder.set_idle(session_idle_ms);
        self.inner.access.set_record(record);
        if let (Some(known), Some(tls)) = (&self.inner.tls, tls) {
            known.replace(tls);
        }
        Ok(())
    }

    /// Counts since the start.
    pub fn counts(&self) -> GatewayCounts {
        self.inner.counts()
    }

    /// Ends it in order: no new connections, then the requests end, then everything recorded is in the store.
    pub async fn stop(mut self) -> GatewayCounts {
        self.stopping.send_replace(true);
        // Readers of events would never end by themselves.
        self.inner.recorder.events.end();
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
        if let Some(export) = self.export.take() {
            export.stop().await;
        }
        self.counts()
    }
}
