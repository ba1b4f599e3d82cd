//! What the manifest of a plugin asks for, beside what the operator grants.

use crate::AppError;
use crate::events::{Event, EventSink, Warning};
use clawhost_core::{Hint, LlmIdentity, PluginIdentity};
use clawhost_engine::{ComponentOutline, ModelGrants};

/// A plugin asks for what is not granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{plugin} asks for {}, which is not granted", missing.join(" and "))]
pub struct NotGranted {
    /// The plugin's name.
    pub plugin: String,
    /// What is missing: `kv`, or `llm:ALIAS`.
    pub missing: Vec<String>,
}

impl NotGranted {
    /// Suggested remedies: each missing grant as it is written.
    pub fn hints(&self) -> Vec<Hint> {
        let written = |grant: &String| match grant.starts_with("llm:") {
            true => format!("{grant}=openai:MODEL@http://HOST:PORT/v1"),
            false => grant.clone(),
        };
        self.missing.iter().map(|grant| Hint::set("grants", written(grant))).collect()
    }
}

/// What a plugin may use, which is said before anything is played. With a manifest that is what it asks for, all of which must be granted; of
/// other grants it gets nothing. Without a manifest it is everything that is granted and that it imports; a missing grant is a warning.
///
/// # Errors
/// Something that the manifest asks for is not granted.
pub(crate) fn compare(
    events: &dyn EventSink,
    plugin: &PluginIdentity,
    outline: &ComponentOutline,
    grants: &ModelGrants,
) -> Result<(), AppError> {
    let name = plugin.name.clone();
    let used = match &outline.manifest {
        Some(manifest) => {
            let asked = &manifest.grants;
            let kv = asked.kv.then(|| ("kv".to_owned(), grants.kv.then(String::new)));
            let models = asked.llm.iter().map(|alias| {
                let model = grants.models.get(alias).map(|model| named(&model.identity()));
                (format!("llm:{alias}"), model)
            });
            let all: Vec<(String, Option<String>)> = kv.into_iter().chain(models).collect();
            let missing = all.iter().filter(|(_, granted)| granted.is_none()).map(|(grant, _)| grant.clone());
            let missing: Vec<String> = missing.collect();
            if !missing.is_empty() {
                return Err(NotGranted { plugin: name, missing }.into());
            }
            all.into_iter().map(|(grant, granted)| format!("{grant}{}", granted.unwrap_or_default())).collect()
        }
        None => without_manifest(events, &name, outline, grants),
    };
    if !used.is_empty() {
        events.event(Event::Warning(Warning::Grants { plugin: name, grants: used }));
    }
    Ok(())
}

/// What a plugin without a manifest may use. Warns of what it imports and is not granted: those calls are denied.
fn without_manifest(
    events: &dyn EventSink,
    name: &str,
    outline: &ComponentOutline,
    grants: &ModelGrants,
) -> Vec<String> {
    let (wants_kv, wants_models) = (outline.wants("clawhost:kv/kv"), outline.wants("clawhost:llm/llm"));
    if wants_kv && !grants.kv {
        events.event(Event::Warning(Warning::KvNotGranted { plugin: name.to_owned() }));
    }
    if wants_models && grants.models.is_empty() {
        events.event(Event::Warning(Warning::NoModelGranted { plugin: name.to_owned() }));
    }
    let kv = (wants_kv && grants.kv).then(|| "kv".to_owned());
    let models = grants.models.iter().filter(|_| wants_models);
    kv.into_iter().chain(models.map(|(alias, model)| format!("llm:{alias}{}", named(&model.identity())))).collect()
}

/// A model behind its alias.
fn named(model: &LlmIdentity) -> String {
    format!("={}:{}", model.provider, model.model)
}
