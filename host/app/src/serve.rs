//! Serves models to agents through a gateway that records what passes.

use crate::admin_key::admin_key;
use crate::background::{Announced, announce, origin, reachable};
use crate::data::Expiry;
use crate::events::EventSink;
use crate::gateway_file::{GatewayFile, TlsSection};
use crate::guidance::guidance;
use crate::judge::judge;
use crate::keys::client_keys;
use crate::live::{
    LiveGuide, LiveLearner, LiveMemory, LiveMode, LivePlaybook, LiveScoring, LiveWeights, ShadowAnswers, ShadowPlan,
    SkillsSection, Training,
};
use crate::models::{ModelFactory, ModelSettings};
use crate::reload::{Configuration, Stamps, Watch, WatchedGuide, watch};
use crate::routers::{RouterPluginSource, Settling};
use crate::served_models::ServedModels;
use crate::settled::caught_up;
use crate::traces::trace_settings;
use crate::unpriced::warn;
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{Digest, Lease, LeaseMode, LeaseSubject, LiveReader as _};
use clawhost_gateway::{
    CaptureStore, Gateway, GatewayChange, GatewayConfig, GatewayCounts, GatewayParts, Running, ServedModel, is_waiting,
    settle,
};
use clawhost_run_config::{BudgetSpec, PluginSpec};
use clawhost_store::{Reader, Store};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The folder of exchanges that wait for the database, in the data folder.
const SPOOL: &str = "spool";
/// Address on which a gateway listens by default.
pub const GATEWAY_LISTEN: &str = "127.0.0.1:8700";
/// Concurrent calls of one model whose requests are translated.
const CONCURRENCY: usize = 256;

/// What to serve.
#[derive(Debug, Clone, Default)]
pub struct ServeRequest {
    /// Address and port. `None`: [`GATEWAY_LISTEN`].
    pub listen: Option<String>,
    /// Names under which the gateway may be addressed, beside those of this machine.
    pub hosts: Vec<String>,
    /// Models as `SPEC` or `ALIAS=SPEC`, with a SPEC as of a policy, beside those of [`GatewayFile`].
    pub upstreams: Vec<String>,
    /// Seconds after its last exchange at which a session ends. `None`: the default.
    pub session_idle: Option<u64>,
    /// The certificate that it shows, in the place of the one of [`GatewayFile`].
    pub tls: Option<TlsSection>,
    /// Whether the models of `upstreams` get the key of the client that asks.
    pub pass_key: bool,
    /// Further attempts at the models of `upstreams` after one that failed.
    pub retries: u32,
    /// Whether the access log is written, even if the configuration does not ask for it.
    pub access_log: bool,
    /// Rewards that judge answers for trainers. They ask no models.
    pub rewards: Vec<PluginSpec>,
    /// How much it does beside recording, in the place of what [`GatewayFile`] says.
    pub mode: Option<LiveMode>,
    /// The playbook of its guidance, likewise.
    pub playbook: Option<String>,
    /// Folders of skills, beside those of [`GatewayFile`].
    pub skills: Vec<String>,
    /// Whether the general skills that ship are used, even if the configuration does not ask for it.
    pub skill_bank: bool,
}

impl ServeRequest {
    /// How much a gateway does under a configuration, and with what.
    pub(crate) fn live(&self, file: &GatewayFile) -> (LiveMode, SkillsSection) {
        let mut section = file.skills.clone();
        section.playbook = self.playbook.clone().or(section.playbook);
        section.folders.extend(self.skills.iter().cloned());
        section.bank |= self.skill_bank;
        (self.mode.unwrap_or(file.gateway.mode), section)
    }
}

/// Takes over what a gateway left that was killed, so that readers see it. While a gateway runs, waits until it has taken over what it
/// recorded before. With `closes`, all open sessions become episodes, whose number is returned. `None`: a gateway runs.
///
/// # Errors
/// The database cannot be written.
pub async fn settle_live(workspace: &Workspace, closes: bool) -> Result<Option<u64>, AppError> {
    let folder = workspace.folder().to_owned();
    let is_open = || -> Result<bool, AppError> { Ok(!workspace.reader()?.open_episodes(None)?.is_empty()) };
    let is_needed = has_unsettled(&folder) || (closes && is_open()?);
    if !is_needed {
        return Ok(Some(0));
    }
    let spool = spool_of(&folder);
    let Some(_lease) = workspace.lease(&LeaseSubject::Gateway, LeaseMode::Exclusive)? else {
        caught_up(&folder, &spool).await;
        return Ok(None);
    };
    Ok(Some(settle(capture_store(&workspace.store(), &folder), &spool, workspace.clock(), closes).await?))
}

/// Whether a gateway that was killed left records in a data folder that are not in its database.
pub fn has_unsettled(folder: &Path) -> bool {
    let taken = Reader::open(folder).and_then(|reader| reader.spool_place());
    taken.is_ok_and(|taken| is_waiting(&spool_of(folder), taken))
}

/// A gateway that runs.
#[derive(Debug)]
pub struct Serving {
    running: Arc<Running>,
    watching: JoinHandle<()>,
    is_encrypted: bool,
    /// What sessions get.
    guidance: Option<String>,
    /// Which weights learn from whom.
    weights: Option<String>,
    /// Judges live episodes, and learns from them.
    learning: Vec<JoinHandle<()>>,
    /// Tells the watch to look at once.
    asked: Arc<Notify>,
    /// Says where it listens.
    _announced: Arc<Announced>,
    /// One gateway per data folder.
    _lease: Box<dyn Lease>,
}

impl Serving {
    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.running.address()
    }

    /// Where clients of this machine reach it.
    pub fn origin(&self) -> String {
        origin(reachable(self.address()), self.is_encrypted)
    }

    /// What sessions got at its start beside their clients' own text, for people. `None`: nothing.
    pub fn guidance(&self) -> Option<&str> {
        self.guidance.as_deref()
    }

    /// Which weights learn from whose sessions, for people. `None`: none do.
    pub fn weights(&self) -> Option<&str> {
        self.weights.as_deref()
    }

    /// Counts since the start.
    pub fn counts(&self) -> GatewayCounts {
        self.running.counts()
    }

    /// Reads its configuration and its keys again, as it does by itself within a second of a change.
    pub fn reload(&self) {
        self.asked.notify_one();
    }

    /// Ends it in order: requests that are under way end, and everything recorded is in the store.
    pub async fn stop(self) -> GatewayCounts {
        for task in std::iter::once(self.watching).chain(self.learning) {
            task.abort();
            let _ = task.await;
        }
        match Arc::try_unwrap(self.running) {
            Ok(running) => running.stop().await,
            // Only the watch had it too, and that has ended.
            Err(running) => running.counts(),
        }
    }
}

/// Starts a gateway.
///
/// # Errors
/// A model cannot be used, the address cannot be listened on, or another gateway uses the data folder.
pub async fn serve(workspace: &Workspace, request: ServeRequest, events: &dyn EventSink) -> Result<Serving, AppError> {
    let folder = workspace.folder().to_owned();
    let lease = workspace.lease(&LeaseSubject::Gateway, LeaseMode::Exclusive)?;
    let lease = lease.ok_or_else(|| RequestError::GatewayRuns { folder: folder.display().to_string() })?;
    let budget = BudgetSpec::default();
    // The gateway itself tries again, as its models say.
    let settings = ModelSettings { retries: 0, ..workspace.settings().models.clone() };
    let factory = ModelFactory::new(settings, &budget, CONCURRENCY, workspace.secrets().clone());
    let known = Stamps::of(&folder, &request);
    let file = GatewayFile::of(&folder)?;
    let (mode, section) = request.live(&file);
    let training = training(workspace, &request, &file, mode)?;
    let learned = training.as_ref().map(Training::prepare).transpose()?;
    let options = (request.pass_key, request.retries);
    let mut models = ServedModels::new(factory, &request.upstreams, options, learned, events)?;
    let mut router_plugins = RouterPluginSource::new(workspace);
    let routers = models.router_names(&file);
    models.set_router_plugins(router_plugins.load(routers.iter().map(String::as_str), events).await?);
    let mut config = GatewayConfig::new(GATEWAY_LISTEN, spool_of(&folder));
    let idle_ms = config.sessions.idle_ms;
    let mut configuration = Configuration::new(folder.clone(), request.clone(), models, file.clone(), idle_ms);
    let GatewayChange { models, hosts, session_idle_ms, record, tls } = configuration.change(&file, events)?;
    config.listen = request.listen.clone().or(file.gateway.listen.clone()).unwrap_or(config.listen);
    (config.hosts, config.sessions.idle_ms, config.record) = (hosts, session_idle_ms, record);
    let certificate = tls.as_ref().map(|tls| Digest::of(tls.certificate()));
    config.tls = tls;
    config.access_log = request.access_log || file.log.access;
    config.traces = trace_settings(|name| std::env::var(name).ok());
    config.redaction = Arc::new(file.redaction.compiled()?);
    let expiry = Expiry::new(workspace, file.retention.days);
    let admin = admin_key(&folder)?;
    workspace.secrets().add(&admin);
    let keys = client_keys(&folder)?;
    let aliases = configuration.aliases();
    warn(&keys, aliases.without_prices.clone(), events);
    if mode == LiveMode::Observe && (request.skill_bank || !request.skills.is_empty()) {
        let why = "skills are shown in the mode `skills` alone, and the mode is `observe`";
        return Err(RequestError::Other(why.to_owned()).into());
    }
    let secret = workspace.draw_key()?;
    let guide = Arc::new(LiveGuide::new(&folder, mode, &section, (file.learning.clone(), secret))?);
    guide.set_embeddings(configuration.embeddings());
    let shown = guide.described();
    let scoring = LiveScoring::new(workspace, &file.scoring, events).await?;
    let expects = scoring.as_ref().map(LiveScoring::expects).unwrap_or_default();
    let config = GatewayConfig { expects, ..config };
    let learner = LiveLearner::new(workspace, &file.learning, guide.clone(), events).await?;
    let taught = training.as_ref().map(Training::summary);
    let weights = training.map(LiveWeights::new).transpose()?;
    let tries = mode == LiveMode::Auto && file.learning.live_trials;
    let served = ServedNow::default();
    let shadow = shadow(&file, &models, tries)?;
    let shadow = shadow.map(|plan| ShadowAnswers::new(workspace, plan, guide.clone(), served.clone().looked_up()));
    let shadow = shadow.transpose()?;
    let parts = GatewayParts {
        store: capture_store(&workspace.store(), &folder),
        clock: workspace.clock(),
        secrets: workspace.secrets().clone(),
        capture_key: workspace.capture_key()?,
        models,
        keys,
        admin: Some(Digest::of(admin.expose().as_bytes())),
        guidance: guidance(&folder, section.playbook),
        guide: Some(guide.clone()),
        memory: Some(Arc::new(LiveMemory::new(workspace, guide.clone()))),
        learned: Some(Arc::new(LivePlaybook::new(
            workspace,
            guide.clone(),
            (learner.insight(), tries),
            (weights.as_ref().map(LiveWeights::page), shadow.as_ref().map(ShadowAnswers::page)),
        ))),
        judge: judge(workspace, &request.rewards, events).await?,
        new_run: workspace.live_runs(),
    };
    let running = Arc::new(Gateway::start(config, parts).await?);
    served.set(&running);
    let started_at = workspace.clock().now_ms();
    let announced = Arc::new(announce(&folder, (running.address(), certificate), started_at, aliases)?);
    let asked = Arc::new(Notify::new());
    let vectors = tokio::spawn(guide.clone().make_vectors(workspace.clock()));
    let watching = Watch {
        running: Arc::downgrade(&running),
        configuration,
        known,
        expiry,
        router_plugins,
        settling: Settling::new(workspace),
        guide: WatchedGuide::new(guide, file.clone()),
        announced: announced.clone(),
        asked: asked.clone(),
    };
    let watching = tokio::spawn(watch(watching));
    let learning = scoring.map(|scoring| tokio::spawn(scoring.run())).into_iter();
    let learning = learning.chain([tokio::spawn(learner.run()), vectors]);
    let weights = weights.map(|weights| tokio::spawn(weights.run(Arc::downgrade(&running))));
    let shadow = shadow.map(|shadow| tokio::spawn(shadow.run()));
    let learning = learning.chain(weights).chain(shadow).collect();
    Ok(Serving {
        running,
        watching,
        guidance: shown,
        weights: taught,
        learning,
        is_encrypted: certificate.is_some(),
        asked,
        _announced: announced,
        _lease: lease,
    })
}

/// The gateway whose models are asked again, once it runs.
#[derive(Clone, Default)]
struct ServedNow(Arc<OnceLock<Weak<Running>>>);

impl ServedNow {
    fn set(&self, running: &Arc<Running>) {
        // It is set once.
        let _ = self.0.set(Arc::downgrade(running));
    }

    /// The models that are served at any time.
    fn looked_up(self) -> Box<dyn Fn() -> Arc<[Arc<ServedModel>]> + Send + Sync> {
        Box::new(move || self.0.get().and_then(Weak::upgrade).map_or_else(|| Arc::from([]), |running| running.models()))
    }
}

/// The shadow answers beside a gateway. `None`: there are none, because there is no budget or no lesson is tried.
fn shadow(file: &GatewayFile, models: &[ServedModel], tries: bool) -> Result<Option<ShadowPlan>, AppError> {
    let wrong = |why: String| AppError::from(RequestError::File { path: crate::GATEWAY_FILE.to_owned(), why });
    let Some(plan) = file.shadow.plan().map_err(wrong)?.filter(|_| tries) else { return Ok(None) };
    plan.check(models).map_err(wrong)?;
    Ok(Some(plan))
}

/// The training of weights beside a gateway. `None`: none learn.
fn training(
    workspace: &Workspace,
    request: &ServeRequest,
    file: &GatewayFile,
    mode: LiveMode,
) -> Result<Option<Training>, AppError> {
    let wrong = |why: String| AppError::from(RequestError::File { path: crate::GATEWAY_FILE.to_owned(), why });
    let Some(plan) = file.weights.plan().map_err(wrong)?.filter(|_| mode.trains_weights()) else { return Ok(None) };
    Training::of(workspace, &request.upstreams, file, plan).map(Some)
}

/// The folder of exchanges that wait for the database.
pub(crate) fn spool_of(folder: &Path) -> PathBuf {
    folder.join(SPOOL)
}

/// The store of a data folder as gateways need it.
pub(crate) fn capture_store(store: &Arc<Store>, folder: &Path) -> CaptureStore {
    let folder = folder.to_owned();
    CaptureStore {
        episodes: store.clone(),
        live: store.clone(),
        pool: store.clone(),
        feedback: store.clone(),
        reader: Box::new(move || Ok(Box::new(Reader::open(&folder)?))),
    }
}
