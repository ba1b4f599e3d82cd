//! Serves models to agents through a gateway that records what passes.

use crate::events::EventSink;
use crate::keys::{FILE, client_keys};
use crate::models::{ModelFactory, ModelSettings};
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{Lease, LeaseMode, LeaseSubject, LiveReader as _};
use clawhost_gateway::{
    CaptureStore, Gateway, GatewayConfig, GatewayCounts, GatewayParts, Running, ServedModel, is_waiting, settle,
};
use clawhost_run_config::BudgetSpec;
use clawhost_store::Reader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The folder of exchanges that wait for the database, in the data folder.
const SPOOL: &str = "spool";
/// Address on which a gateway listens by default.
pub const GATEWAY_LISTEN: &str = "127.0.0.1:8700";
/// Concurrent calls of one model whose requests are translated.
const CONCURRENCY: usize = 256;

/// What to serve.
#[derive(Debug, Clone)]
pub struct ServeRequest {
    /// Address and port. `None`: [`GATEWAY_LISTEN`].
    pub listen: Option<String>,
    /// Names under which the gateway may be addressed, beside those of this machine.
    pub hosts: Vec<String>,
    /// Models as `SPEC` or `ALIAS=SPEC`, with a SPEC as of a policy.
    pub upstreams: Vec<String>,
    /// Seconds after its last exchange at which a session ends. `None`: the default.
    pub session_idle: Option<u64>,
}

/// Takes over what a gateway left that was killed, so that readers see it. Does nothing while a gateway runs, or in a folder that cannot
/// be written. With `closes`, all open sessions become episodes, whose number is returned. `None`: a gateway runs.
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
    let Some(_lease) = workspace.lease(&LeaseSubject::Gateway, LeaseMode::Exclusive)? else { return Ok(None) };
    let spool = folder.join(SPOOL);
    Ok(Some(settle(store(workspace, &folder), &spool, workspace.clock(), closes).await?))
}

/// Whether a gateway that was killed left records in a data folder that are not in its database.
pub fn has_unsettled(folder: &Path) -> bool {
    let taken = Reader::open(folder).and_then(|reader| reader.spool_place());
    taken.is_ok_and(|taken| is_waiting(&folder.join(SPOOL), taken))
}

/// How often the file of keys is looked at.
const KEYS_CHECK: Duration = Duration::from_secs(1);

/// Takes changed keys over while a gateway runs. A file that cannot be read leaves the keys as they are.
async fn watch_keys(folder: PathBuf, running: Weak<Running>) {
    let changed = || std::fs::metadata(folder.join(FILE)).and_then(|file| Ok((file.modified()?, file.len()))).ok();
    let mut known = changed();
    let mut clock = tokio::time::interval(KEYS_CHECK);
    loop {
        clock.tick().await;
        let now = changed();
        let Some(running) = running.upgrade() else { return };
        if now == known {
            continue;
        }
        match client_keys(&folder) {
            Ok(keys) => running.set_keys(keys),
            Err(error) => tracing::error!("the keys were not taken over: {error}"),
        }
        known = now;
    }
}

/// A gateway that runs.
#[derive(Debug)]
pub struct Serving {
    running: Arc<Running>,
    watching: JoinHandle<()>,
    /// One gateway per data folder.
    _lease: Box<dyn Lease>,
}

impl Serving {
    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.running.address()
    }

    /// Counts since the start.
    pub fn counts(&self) -> GatewayCounts {
        self.running.counts()
    }

    /// Ends it in order: requests that are under way end, and everything recorded is in the store.
    pub async fn stop(self) -> GatewayCounts {
        self.watching.abort();
        let _ = self.watching.await;
        match Arc::try_unwrap(self.running) {
            Ok(running) => running.stop().await,
            // Only the watch had it too, and that has ended.
            Err(running) => running.counts(),
        }
    }
}

/// The alias and the model's text of `ALIAS=SPEC`. An address may contain `=`, a kind of model contains none.
fn alias(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((alias, spec)) if !alias.is_empty() && !alias.contains(':') => (Some(alias), spec),
        _ => (None, text),
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
    // Agents try again themselves, and know for how long.
    let settings = ModelSettings { retries: 0, ..workspace.settings().models.clone() };
    let factory = ModelFactory::new(settings, &budget, CONCURRENCY, workspace.secrets().clone());
    let mut models = Vec::new();
    for text in &request.upstreams {
        let (alias, spec) = alias(text);
        let (name, source) = factory.served(spec, events)?;
        models.push(ServedModel { alias: alias.map_or(name, str::to_owned), source });
    }
    let listen = request.listen.unwrap_or_else(|| GATEWAY_LISTEN.to_owned());
    let mut config = GatewayConfig::new(listen, folder.join(SPOOL));
    config.hosts = request.hosts;
    if let Some(seconds) = request.session_idle {
        config.sessions.idle_ms = seconds.saturating_mul(1000);
    }
    let parts = GatewayParts {
        store: store(workspace, &folder),
        clock: workspace.clock(),
        secrets: workspace.secrets().clone(),
        capture_key: workspace.capture_key()?,
        models,
        keys: client_keys(&folder)?,
        new_run: workspace.live_runs(),
    };
    let running = Arc::new(Gateway::start(config, parts).await?);
    let watching = tokio::spawn(watch_keys(folder, Arc::downgrade(&running)));
    Ok(Serving { running, watching, _lease: lease })
}

fn store(workspace: &Workspace, folder: &Path) -> CaptureStore {
    let folder = folder.to_owned();
    CaptureStore {
        episodes: workspace.store(),
        live: workspace.store(),
        reader: Box::new(move || Ok(Box::new(Reader::open(&folder)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_stands_before_the_model() {
        let check = |text: &str, expect: (Option<&str>, &str)| assert_eq!(alias(text), expect, "{text}");
        check("openai:m@http://127.0.0.1:1/v1", (None, "openai:m@http://127.0.0.1:1/v1"));
        check("fast=openai:m@http://127.0.0.1:1/v1", (Some("fast"), "openai:m@http://127.0.0.1:1/v1"));
        check("openai:m@http://127.0.0.1:1/v1?a=b", (None, "openai:m@http://127.0.0.1:1/v1?a=b"));
        check("=follower", (None, "=follower"));
        check("local:a=b", (None, "local:a=b"));
    }
}
