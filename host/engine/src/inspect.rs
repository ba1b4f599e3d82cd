//! What people see of a plugin before they run it: its imports as a list of permissions.

use crate::{ComponentOutline, EngineError, Host, ModelGrants};
use clawhost_core::{
    About, Environment as _, GIVES, ModelRouter as _, READS, Reflector as _, Reward as _, RewardScope, Split,
};
use clawhost_package::Manifest;
use serde::Serialize;

/// A permission that a plugin requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Permission {
    /// The import.
    pub import: String,
    /// What it allows, for people.
    pub allows: String,
    /// The required grant, as `kv` or `llm:ALIAS=SPEC`; `None` if no grant is needed.
    pub grant: Option<String>,
}

/// Description of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// `environment`, `reward`, `reflector` or `router`.
    pub world: &'static str,
    /// The exported interface with its version.
    pub interface: String,
    /// Digest.
    pub digest: String,
    /// Length in bytes.
    pub size: usize,
    /// The plugin's own description.
    pub about: About,
    /// An environment's splits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<Split>,
    /// A reward's range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
    /// Source of a reward's judgement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<clawhost_core::RewardSource>,
    /// Scope of a reward's verdicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<RewardScope>,
    /// What an environment gives beside observations: `reviews`, `demonstrations`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gives: Vec<String>,
    /// What a reward reads, as it declares it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// The requested permissions.
    pub permissions: Vec<Permission>,
    /// The manifest that was built in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Manifest>,
}

fn permission(import: &str) -> Permission {
    let name = import.split_once('@').map_or(import, |(name, _)| name);
    let (allows, grant) = match name {
        "clawhost:types/types" => ("plain data", None),
        "clawhost:log/log" => ("write log lines, within a quota", None),
        "clawhost:llm/llm" => ("ask models that you name", Some("llm:ALIAS=SPEC")),
        "clawhost:kv/kv" => ("keep notes, which are kept with the run", Some("kv")),
        "clawhost:episode/view" => ("read the episodes it is asked about", None),
        _ if name.starts_with("wasi:clocks/") => ("read a virtual clock", None),
        _ if name.starts_with("wasi:random/") => ("draw numbers from the episode's seed", None),
        "wasi:cli/stdin" | "wasi:cli/terminal-stdin" => ("nothing: its input is empty", None),
        "wasi:cli/exit" => ("end its own episode, as a failure", None),
        _ if name.starts_with("wasi:cli/std") => ("print into the log, within its quota", None),
        _ if name.starts_with("wasi:filesystem/") => ("nothing: there are no files", None),
        _ if name.starts_with("wasi:sockets/") => ("nothing: there is no network", None),
        _ => ("nothing outside the sandbox", None),
    };
    Permission { import: import.to_owned(), allows: allows.to_owned(), grant: grant.map(str::to_owned) }
}

impl Host {
    /// Loads a plugin of any world and describes it.
    ///
    /// # Errors
    /// The plugin cannot be used.
    pub async fn inspect(&self, name: &str, bytes: &[u8]) -> Result<Inspection, EngineError> {
        let outline: ComponentOutline = self.outline(name, bytes)?;
        let (world, about, splits, range, judged) = match outline.world {
            crate::World::Environment => {
                let plugin = self.environment(name, bytes, ModelGrants::default()).await?;
                let description = plugin.description().clone();
                ("environment", description.about, description.splits, None, None)
            }
            crate::World::Reward => {
                let plugin = self.reward(name, bytes, ModelGrants::default()).await?;
                let description = plugin.description().clone();
                let range = Some((description.minimum, description.maximum));
                let judged = Some((description.source, description.scope));
                ("reward", description.about, Vec::new(), range, judged)
            }
            crate::World::Reflector => {
                let plugin = self.reflector(name, bytes, ModelGrants::default()).await?;
                ("reflector", plugin.about().clone(), Vec::new(), None, None)
            }
            crate::World::Router => {
                let plugin = self.router(name, bytes).await?;
                ("router", plugin.about().clone(), Vec::new(), None, None)
            }
        };
        let declared = |of: crate::World, name: &str| -> Vec<String> {
            if outline.world == of { about.declared(name).map(str::to_owned).collect() } else { Vec::new() }
        };
        Ok(Inspection {
            world,
            gives: declared(crate::World::Environment, GIVES),
            reads: declared(crate::World::Reward, READS),
            interface: outline.interface.clone(),
            digest: outline.digest.to_string(),
            size: outline.size,
            about,
            splits,
            range,
            source: judged.map(|(source, _)| source),
            scope: judged.map(|(_, scope)| scope),
            permissions: outline.imports.iter().map(|import| permission(import)).collect(),
            manifest: outline.manifest,
        })
    }
}
