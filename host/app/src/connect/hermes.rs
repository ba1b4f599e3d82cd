//! Hermes agent: `config.yaml` in `HERMES_HOME`, which is `~/.hermes`.

use super::target::{Surroundings, Target};
use super::{PROVIDER, Setting};
use crate::document::Document;
use serde_json::{Value, json};
use std::path::PathBuf;

pub(super) fn file(surroundings: &Surroundings) -> PathBuf {
    surroundings.folder("HERMES_HOME", ".hermes").join("config.yaml")
}

pub(super) fn settings(target: &Target, current: &Document) -> Vec<Setting> {
    let provider = |key: &str, value: &str| Setting::new(&["providers", PROVIDER, key], value);
    let mut settings = vec![
        provider("base_url", &target.base_url()),
        provider("api_mode", "chat_completions"),
        provider("default_model", &target.model),
    ];
    settings.extend(target.variable().map(|variable| provider("key_env", variable)));
    let (model, named) = (target.model.as_str(), format!("custom:{PROVIDER}"));
    match current.get(&["model"]) {
        // The short form, which names no provider.
        Some(Value::String(_)) => settings.push(Setting::new(&["model"], json!({"default": model, "provider": named}))),
        _ => {
            settings.push(Setting::new(&["model", "default"], model));
            settings.push(Setting::new(&["model", "provider"], named));
        }
    }
    settings
}
