//! The gateway over real sockets: a stub as the model, a plain client as the agent, a real database.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot continue has failed"
)]

mod bad_input;
mod breaks;
mod change;
#[path = "../common/client.rs"]
mod client;
mod context;
mod conversations;
mod dashboard;
mod dialects;
mod events;
mod fallback;
mod feedback;
mod guidance;
mod hostile;
mod ingest;
mod judge;
mod keys;
mod observe;
mod partitions;
mod passed;
mod pool;
mod redaction;
mod responses;
mod routing;
#[path = "../common/stub.rs"]
#[allow(dead_code, reason = "each suite uses its part")]
mod stub;
mod swaps;
mod tls;
mod tokens;
mod traces;

use clawhost_core::{Clock, Digest, Episode, EpisodeFilter, EpisodeProgress, KnownSecrets, RunId, Secret, StoreReader};
use clawhost_gateway::{
    CaptureStore, ClientKeys, Gateway, GatewayConfig, GatewayParts, Guidance, Guide, LearnedBook, ModelSource, Running,
    ServedModel, settle,
};
use clawhost_providers::{Dialect, Endpoint, EndpointConfig, Upstream, UpstreamConfig};
use clawhost_store::{Reader, Store, StoreOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A clock that a test moves.
pub(crate) struct TestClock {
    started: Instant,
    ahead_ms: AtomicU64,
    /// By how much the wall clock alone was set ahead, in milliseconds.
    wall_ahead_ms: AtomicI64,
}

/// Unix time at which the clock of tests begins: noon of a day, so that no test passes midnight.
pub(crate) const NOON_MS: u64 = 1_800_014_400_000;

impl TestClock {
    fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), ahead_ms: AtomicU64::new(0), wall_ahead_ms: AtomicI64::new(0) })
    }

    /// Sets the wall clock, back too.
    pub(crate) fn set_wall_ahead(&self, by_ms: i64) {
        self.wall_ahead_ms.store(by_ms, Ordering::Relaxed);
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.ahead_ms.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        (NOON_MS + self.monotonic_us() / 1000).saturating_add_signed(self.wall_ahead_ms.load(Ordering::Relaxed))
    }

    fn monotonic_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64 + self.ahead_ms.load(Ordering::Relaxed) * 1000
    }
}

/// The key of the admin of every gateway here.
pub(crate) const ADMIN: &str = "ch-admin-test";

/// A gateway with its folder.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    /// The rewards of its next start.
    pub(crate) judge: Option<clawhost_gateway::EpisodeJudge>,
    /// What guides sessions from its next start on.
    pub(crate) guide: Option<Arc<dyn Guide>>,
    learned: Option<Arc<dyn LearnedBook>>,
    /// The keys of its next start.
    pub(crate) keys: ClientKeys,
    pub(crate) clock: Arc<TestClock>,
    running: Option<Running>,
    pub(crate) address: String,
}

fn store(folder: &Path) -> CaptureStore {
    let store = Arc::new(Store::open(folder, StoreOptions::default()).unwrap());
    let folder = folder.to_owned();
    CaptureStore {
        episodes: store.clone(),
        live: store.clone(),
        pool: store.clone(),
        feedback: store,
        reader: Box::new(move || Ok(Box::new(Reader::open(&folder)?) as Box<dyn StoreReader>)),
    }
}

/// The model `m` at a stub.
pub(crate) fn served(dialect: Dialect, base_url: &str) -> ServedModel {
    served_with(dialect, base_url, None, &KnownSecrets::default())
}

pub(crate) fn served_with(dialect: Dialect, base_url: &str, key: Option<&str>, known: &KnownSecrets) -> ServedModel {
    model(dialect, base_url, key, known, Duration::from_secs(20))
}

/// The same with a limit of silence.
pub(crate) fn served_within(dialect: Dialect, base_url: &str, silence: Duration) -> ServedModel {
    model(dialect, base_url, None, &KnownSecrets::default(), silence)
}

fn model(dialect: Dialect, base_url: &str, key: Option<&str>, known: &KnownSecrets, silence: Duration) -> ServedModel {
    let key = key.and_then(Secret::new);
    let (base_url, known) = (base_url.to_owned(), known.clone());
    let config =
        UpstreamConfig { dialect, base_url: base_url.clone(), key: key.clone(), silence, known: known.clone() };
    let upstream = Arc::new(Upstream::new(config).unwrap());
    let config = EndpointConfig {
        retries: 0,
        key,
        known,
        timeout: silence,
        ..EndpointConfig::new(dialect, "stub-model", base_url)
    };
    let client = Arc::new(Endpoint::new(config).unwrap());
    let source = ModelSource::Endpoint { upstream, client, model: "stub-model".into(), passes_key: false };
    ServedModel::new("m", source)
}

impl Bench {
    /// A gateway in front of a stub of this dialect.
    pub(crate) async fn new(dialect: Dialect, base_url: &str) -> Self {
        Self::with(vec![served(dialect, base_url)], |_| {}).await
    }

    pub(crate) async fn with(models: Vec<ServedModel>, change: impl FnOnce(&mut GatewayConfig)) -> Self {
        Self::with_secrets(models, KnownSecrets::default(), change).await
    }

    pub(crate) async fn with_secrets(
        models: Vec<ServedModel>,
        secrets: KnownSecrets,
        change: impl FnOnce(&mut GatewayConfig),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = Self::idle(folder);
        bench.start(models, secrets, change).await;
        bench
    }

    fn idle(folder: tempfile::TempDir) -> Self {
        let keys = ClientKeys::default();
        Self {
            folder,
            judge: None,
            guide: None,
            learned: None,
            keys,
            clock: TestClock::new(),
            running: None,
            address: String::new(),
        }
    }

    /// A gateway that guides sessions.
    pub(crate) async fn guided(models: Vec<ServedModel>, guide: Arc<dyn Guide>) -> Self {
        let mut bench = Self { guide: Some(guide), ..Self::idle(tempfile::tempdir().unwrap()) };
        bench.start(models, KnownSecrets::default(), |_| {}).await;
        bench
    }

    /// A gateway that shows what is learned.
    pub(crate) async fn learning(base_url: &str, learned: Arc<dyn LearnedBook>) -> Self {
        let mut bench = Self { learned: Some(learned), ..Self::idle(tempfile::tempdir().unwrap()) };
        bench.start(vec![served(Dialect::OpenAi, base_url)], KnownSecrets::default(), |_| {}).await;
        bench
    }

    /// A gateway whose clients have keys.
    pub(crate) async fn keyed(models: Vec<ServedModel>, keys: ClientKeys, listen: &str) -> Self {
        let mut bench = Self { keys, ..Self::idle(tempfile::tempdir().unwrap()) };
        bench.start(models, KnownSecrets::default(), |config| config.listen = listen.to_owned()).await;
        bench
    }

    /// Replaces the keys while it runs.
    pub(crate) fn set_keys(&self, keys: ClientKeys) {
        self.running.as_ref().unwrap().set_keys(keys);
    }

    /// Replaces the models while it runs.
    pub(crate) fn set_models(&self, models: Vec<ServedModel>) {
        self.running.as_ref().unwrap().set_models(models).unwrap();
    }

    /// Says that weights learn.
    pub(crate) fn training_changed(&self, alias: &str) {
        self.running.as_ref().unwrap().training_changed(alias);
    }

    /// Changes it while it runs.
    pub(crate) fn change(&self, change: clawhost_gateway::GatewayChange) -> Result<(), clawhost_gateway::GatewayError> {
        self.running.as_ref().unwrap().change(change)
    }

    /// Starts a gateway in the folder.
    pub(crate) async fn start(
        &mut self,
        models: Vec<ServedModel>,
        secrets: KnownSecrets,
        change: impl FnOnce(&mut GatewayConfig),
    ) {
        let mut config = GatewayConfig::new("127.0.0.1:0", self.folder.path().join("spool"));
        change(&mut config);
        let parts = GatewayParts {
            store: store(self.folder.path()),
            clock: self.clock.clone(),
            secrets,
            capture_key: [5; 32],
            models,
            keys: self.keys.clone(),
            admin: Some(Digest::of(ADMIN.as_bytes())),
            guide: self.guide.clone(),
            memory: None,
            learned: self.learned.clone(),
            guidance: Box::new(|| Ok(Guidance { prompt: "Be kind.".into(), version: 3, ..Guidance::default() })),
            judge: self.judge.clone(),
            new_run: Box::new(|now| RunId(format!("run-{now}"))),
        };
        let running = Gateway::start(config, parts).await.unwrap();
        self.address = running.address().to_string().replace("0.0.0.0", "127.0.0.1");
        self.running = Some(running);
    }

    /// Ends the gateway in order. Sessions stay open.
    pub(crate) async fn stop(&mut self) -> clawhost_gateway::GatewayCounts {
        self.running.take().unwrap().stop().await
    }

    /// Ends the gateway as if its process had died: nothing is taken over any more.
    pub(crate) fn kill(&mut self) {
        drop(self.running.take());
    }

    pub(crate) fn reader(&self) -> Box<dyn StoreReader> {
        Box::new(Reader::open(self.folder.path()).unwrap())
    }

    pub(crate) fn open(&self) -> Vec<EpisodeProgress> {
        self.reader().open_episodes(None).unwrap()
    }

    /// Ends the gateway and all sessions. Returns the episodes in the order of their opening.
    pub(crate) async fn episodes(&mut self) -> Vec<Episode> {
        if self.running.is_some() {
            self.stop().await;
        }
        let spool = self.folder.path().join("spool");
        settle(store(self.folder.path()), &spool, self.clock.clone(), true).await.unwrap();
        let reader = self.reader();
        let rows = reader.episodes(&EpisodeFilter::default()).unwrap();
        rows.iter().map(|row| reader.episode(&format!("{}/{}", row.run, row.id)).unwrap().unwrap()).collect()
    }
}

/// What an agent and a model said, turn by turn.
pub(crate) fn turns(episode: &Episode) -> Vec<(Vec<String>, String)> {
    let text = |message: &clawhost_core::Message| message.plain_text();
    let mut seen = Vec::new();
    for (at, turn) in episode.turns.iter().enumerate() {
        let results = at.checked_sub(1).map(|at| episode.turns[at].tool_results.iter().map(text).collect::<Vec<_>>());
        let said = results.unwrap_or_default().into_iter().chain(turn.observation.iter().map(text)).collect();
        seen.push((said, text(&turn.action)));
    }
    seen
}
