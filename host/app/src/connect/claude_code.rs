//! Claude Code: `settings.json` in `CLAUDE_CONFIG_DIR`, which is `~/.claude`.

use super::Setting;
use super::target::{Surroundings, Target};
use clawhost_gateway::PLACEHOLDER_KEY;
use std::path::PathBuf;

/// The variables that choose models: of the conversation, and of each size that the client asks for by itself.
const MODELS: [&str; 4] = [
    "ANTHROPIC_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
];

pub(super) fn file(surroundings: &Surroundings) -> PathBuf {
    surroundings.folder("CLAUDE_CONFIG_DIR", ".claude").join("settings.json")
}

pub(super) fn settings(target: &Target) -> Vec<Setting> {
    let mut settings = vec![Setting::new(&["env", "ANTHROPIC_BASE_URL"], target.origin())];
    settings.extend(MODELS.map(|name| Setting::new(&["env", name], target.model.as_str())));
    settings.push(match target.variable() {
        // Values of `env` are taken as they are written; a helper is a command of the shell.
        Some(variable) => Setting::new(&["apiKeyHelper"], format!("printf %s \"${variable}\"")),
        // Without a token the client asks its user to log in.
        None => Setting::new(&["env", "ANTHROPIC_AUTH_TOKEN"], PLACEHOLDER_KEY),
    });
    settings
}
