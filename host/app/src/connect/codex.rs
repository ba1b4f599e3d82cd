//! Codex of OpenAI: `config.toml` in `CODEX_HOME`, which is `~/.codex`.

use super::target::{Surroundings, Target};
use super::{PROVIDER, Setting};
use std::path::PathBuf;

pub(super) fn file(surroundings: &Surroundings) -> PathBuf {
    surroundings.folder("CODEX_HOME", ".codex").join("config.toml")
}

pub(super) fn settings(target: &Target) -> Vec<Setting> {
    let provider = |key: &str, value: &str| Setting::new(&["model_providers", PROVIDER, key], value);
    let mut settings = vec![
        Setting::new(&["model"], target.model.as_str()),
        Setting::new(&["model_provider"], PROVIDER),
        provider("name", PROVIDER),
        provider("base_url", &target.base_url()),
        provider("wire_api", "responses"),
    ];
    settings.extend(target.variable().map(|variable| provider("env_key", variable)));
    if !target.has_responses {
        // A tool that only an endpoint with `/responses` runs.
        settings.push(Setting::new(&["web_search"], "disabled"));
    }
    settings
}
