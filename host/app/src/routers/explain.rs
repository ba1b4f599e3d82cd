//! What a router would decide about a request, and why.

use super::config::{LIVE_REWARDS, RouterFile};
use super::files::{is_name, is_path, read_router, router_file, routers_folder};
use super::request::RoutedRequest;
use crate::events::EventSink;
use crate::host::host;
use crate::plugins::{open_router, plugin_spec};
use crate::workspace::existing_cache;
use crate::{AppError, HostSettings};
use clawhost_core::{Failure, RoutingPlugin};
use clawhost_learn::router::{Explanation, Request, Router};
use clawhost_learning::{PluginDecision, decide_by_plugin};
use std::path::Path;
use std::sync::Arc;

/// Name of the session in an explanation.
const SESSION: &str = "explained";

/// What a router would decide about a request.
#[derive(Debug)]
pub struct Explained {
    /// The router's name.
    pub name: String,
    /// Its state.
    pub router: Router,
    /// The decision with its reasons.
    pub explanation: Explanation,
    /// Why the router's plugin did not decide, if it should have.
    pub failure: Option<Failure>,
}

/// What a router would decide about a request: a file, a name in the data folder, or the only one there. A router that has learned nothing yet
/// is known by its description. Creates no data folder; an existing one caches compiled code as usual.
///
/// # Errors
/// There is no such router, its files or its plugin cannot be used, or it knows other features.
pub async fn explain_request(
    data: &Path,
    settings: &HostSettings,
    named: Option<&str>,
    request: &RoutedRequest,
    seed: u64,
    events: &dyn EventSink,
) -> Result<Explained, AppError> {
    let (name, router, plugin) = opened(data, named)?;
    let (features, words) = router.request(&request.messages, request.tools)?;
    let asked = Request { session: SESSION, time: 0, features: &features, words: &words, seed };
    let Some(text) = plugin else {
        let explanation = router.explain(&asked)?;
        return Ok(Explained { name, router, explanation, failure: None });
    };
    let plugin = loaded(data, settings, &text, events).await?;
    let PluginDecision { decision, failure } = decide_by_plugin(&router, &plugin, &asked).await?;
    let explanation = router.explained(&features, decision)?;
    Ok(Explained { name, router, explanation, failure })
}

fn has_state(data: &Path, name: &str) -> bool {
    is_name(name) && router_file(&routers_folder(data), name, "json").exists()
}

/// The state of a router, and the plugin that decides in its place.
fn opened(data: &Path, named: Option<&str>) -> Result<(String, Router, Option<String>), AppError> {
    let stored = read_router(data, named);
    let path = match (&stored, named) {
        (Ok(stored), _) => Some(stored.path.with_extension("toml")),
        (Err(_), Some(name)) if is_name(name) && !is_path(name) => {
            Some(router_file(&routers_folder(data), name, "toml"))
        }
        (Err(_), _) => None,
    };
    let file = path.filter(|path| path.exists()).map(|path| RouterFile::read(&path)).transpose()?;
    match (stored, file) {
        (Ok(stored), Some(file)) if file.plugin.is_some() => {
            Ok((stored.name, file.router(Some(stored.router), LIVE_REWARDS)?, file.plugin))
        }
        (Ok(stored), _) => Ok((stored.name, stored.router, None)),
        // A state that is there and cannot be read is an error, and not a router that has learned nothing.
        (Err(error), _) if named.is_some_and(|name| has_state(data, name)) => Err(error),
        (Err(_), Some(file)) => {
            Ok((named.unwrap_or_default().to_owned(), file.router(None, LIVE_REWARDS)?, file.plugin))
        }
        (Err(error), None) => Err(error),
    }
}

async fn loaded(
    data: &Path,
    settings: &HostSettings,
    text: &str,
    events: &dyn EventSink,
) -> Result<RoutingPlugin, AppError> {
    let spec = plugin_spec(text)?;
    let cache = existing_cache(data)?;
    // For a single plugin, no pool is reserved.
    let host = host(&HostSettings { on_demand: true, ..settings.clone() }, data, cache)?;
    let (router, _) = open_router(&host, &spec, events).await?;
    Ok(RoutingPlugin { router: Arc::new(router), options: spec.options })
}
