//! OpenCode: the file in `OPENCODE_CONFIG`, or `opencode.json` or `opencode.jsonc` in its folder of the user's configurations.

use super::target::{Surroundings, Target};
use super::{PROVIDER, Setting};
use serde_json::json;
use std::path::PathBuf;

pub(super) fn file(surroundings: &Surroundings) -> PathBuf {
    if let Some(path) = surroundings.path("OPENCODE_CONFIG") {
        return path;
    }
    let folder = surroundings.folder("XDG_CONFIG_HOME", ".config").join("opencode");
    // Of two files the one with comments counts.
    let commented = folder.join("opencode.jsonc");
    if commented.exists() { commented } else { folder.join("opencode.json") }
}

pub(super) fn settings(target: &Target) -> Vec<Setting> {
    let model = target.model.as_str();
    let provider = |keys: &[&str], value: &str| Setting::new(&[&["provider", PROVIDER], keys].concat(), value);
    let mut settings = vec![
        provider(&["npm"], "@ai-sdk/openai-compatible"),
        provider(&["name"], PROVIDER),
        provider(&["options", "baseURL"], &target.base_url()),
    ];
    settings.extend(target.variable().map(|variable| provider(&["options", "apiKey"], &format!("{{env:{variable}}}"))));
    settings.push(Setting::new(&["provider", PROVIDER, "models", model], json!({"name": model})));
    // The second one writes titles.
    settings.extend(["model", "small_model"].map(|key| Setting::new(&[key], format!("{PROVIDER}/{model}"))));
    settings
}
