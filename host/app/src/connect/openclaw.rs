//! OpenClaw: the file in `OPENCLAW_CONFIG_PATH`, or `openclaw.json` in `OPENCLAW_STATE_DIR`, which is `~/.openclaw`.

use super::target::{Surroundings, Target};
use super::{PROVIDER, Setting};
use crate::document::Document;
use clawhost_gateway::PLACEHOLDER_KEY;
use serde_json::{Value, json};
use std::path::PathBuf;

pub(super) fn file(surroundings: &Surroundings) -> PathBuf {
    let folder = || surroundings.folder("OPENCLAW_STATE_DIR", ".openclaw");
    surroundings.path("OPENCLAW_CONFIG_PATH").unwrap_or_else(|| folder().join("openclaw.json"))
}

pub(super) fn settings(target: &Target, current: &Document) -> Vec<Setting> {
    let model = target.model.as_str();
    let name = format!("{PROVIDER}/{model}");
    let key = target.variable().map_or_else(|| PLACEHOLDER_KEY.to_owned(), |variable| format!("${{{variable}}}"));
    let provider = |key: &str, value: Value| Setting::new(&["models", "providers", PROVIDER, key], value);
    let mut settings = vec![
        provider("baseUrl", target.base_url().into()),
        provider("apiKey", key.into()),
        provider("api", "openai-completions".into()),
        provider("models", json!([{"id": model, "name": model}])),
    ];
    let chosen = ["agents", "defaults", "model"];
    settings.push(match current.get(&chosen) {
        // The short form, without models that stand in.
        Some(Value::String(_)) => Setting::new(&chosen, name.as_str()),
        _ => Setting::new(&["agents", "defaults", "model", "primary"], name.as_str()),
    });
    // A list of the models that may be chosen must have it.
    if let Some(Value::Object(listed)) = current.get(&["agents", "defaults", "models"])
        && !listed.is_empty()
    {
        settings.push(Setting::new(&["agents", "defaults", "models", &name], json!({})));
    }
    settings
}
