//! Connects clients to a gateway: changes a client's own configuration so that it asks the gateway, and takes the change back.
//!
//! A client is a file with a format and a list of settings. Everything else of the file stays as it was written. Beside it lie a copy of
//! the file as it was, and the record of what was set.

mod claude_code;
mod codex;
mod file;
mod hermes;
mod openclaw;
mod opencode;
mod target;

pub use file::{Restored, disconnect};
pub use target::{ConnectRequest, KeyName, Surroundings};

use crate::document::{Document, Format};
use crate::{AppError, RequestError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use target::Target;

/// The name of the gateway among a client's providers.
const PROVIDER: &str = "clawhost";

/// A client whose configuration is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// OpenClaw.
    OpenClaw,
    /// Codex of OpenAI.
    Codex,
    /// Claude Code.
    ClaudeCode,
    /// OpenCode.
    OpenCode,
    /// Hermes agent.
    Hermes,
}

/// A value that a client's configuration gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Setting {
    /// The key, from the root of the file.
    path: Vec<String>,
    value: Value,
}

impl Setting {
    fn new(path: &[&str], value: impl Into<Value>) -> Self {
        Self { path: path.iter().map(|key| (*key).to_owned()).collect(), value: value.into() }
    }

    fn path(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }
}

impl Client {
    /// All clients.
    pub const ALL: [Self; 5] = [Self::OpenClaw, Self::Codex, Self::ClaudeCode, Self::OpenCode, Self::Hermes];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenClaw => "openclaw",
            Self::Codex => "codex",
            Self::ClaudeCode => "claude-code",
            Self::OpenCode => "opencode",
            Self::Hermes => "hermes",
        }
    }

    /// Its file, unless another one is named.
    fn file(self, surroundings: &Surroundings) -> PathBuf {
        match self {
            Self::OpenClaw => openclaw::file(surroundings),
            Self::Codex => codex::file(surroundings),
            Self::ClaudeCode => claude_code::file(surroundings),
            Self::OpenCode => opencode::file(surroundings),
            Self::Hermes => hermes::file(surroundings),
        }
    }

    fn format(self) -> Format {
        match self {
            Self::OpenClaw | Self::ClaudeCode | Self::OpenCode => Format::Json5,
            Self::Codex => Format::Toml,
            Self::Hermes => Format::Yaml,
        }
    }

    fn settings(self, target: &Target, current: &Document) -> Vec<Setting> {
        match self {
            Self::OpenClaw => openclaw::settings(target, current),
            Self::Codex => codex::settings(target),
            Self::ClaudeCode => claude_code::settings(target),
            Self::OpenCode => opencode::settings(target),
            Self::Hermes => hermes::settings(target, current),
        }
    }
}

/// A key that a connection changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedKey {
    /// The key, from the root of the file, with dots.
    pub key: String,
    /// Its value before, as JSON; of a key or a token only that it was set. `None`: it was not set.
    pub before: Option<String>,
    /// Its value now, as JSON.
    pub now: String,
}

/// A connection of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The client's file.
    pub file: PathBuf,
    /// The copy of the file as it was. `None`: there was no file.
    pub backup: Option<PathBuf>,
    /// The keys that differ, in the order of the settings.
    pub changes: Vec<ChangedKey>,
}

/// A value for people. Former values of keys and tokens are not shown.
fn shown(path: &[&str], value: &Value) -> String {
    let is_secret = path.last().is_some_and(|key| {
        let key = key.to_ascii_lowercase();
        key.ends_with("key") || key.contains("token") || key.contains("secret")
    });
    if is_secret { "(set)".to_owned() } else { value.to_string() }
}

fn changes(before: &Document, settings: &[Setting]) -> Vec<ChangedKey> {
    let change = |setting: &Setting| {
        let path = setting.path();
        let was = before.get(&path);
        (was.as_ref() != Some(&setting.value)).then(|| ChangedKey {
            key: path.join("."),
            before: was.map(|value| shown(&path, &value)),
            now: setting.value.to_string(),
        })
    };
    settings.iter().filter_map(change).collect()
}

/// An error about a client's file.
fn unusable(path: &Path, why: impl std::fmt::Display) -> AppError {
    RequestError::File { path: path.display().to_string(), why: why.to_string() }.into()
}

/// Connects a client: it asks the gateway from its next start. With `only_shows` nothing is written. A client that is connected already is
/// connected anew; the backup stays that of the first time.
///
/// # Errors
/// The address, the model or the variable is invalid; the file is a link, cannot be written, or is none of its format.
pub fn connect(
    client: Client,
    request: &ConnectRequest,
    surroundings: &Surroundings,
    only_shows: bool,
) -> Result<Connection, AppError> {
    let target = Target::of(request)?;
    let path = request.file.clone().unwrap_or_else(|| client.file(surroundings));
    let found = file::Found::at(client, &path)?;
    let base = found.base()?;
    let wrong = |why: String| unusable(&path, why);
    let mut document = Document::parse(client.format(), base.as_deref().unwrap_or_default()).map_err(wrong)?;
    let settings = client.settings(&target, &document);
    for setting in &settings {
        document.set(&setting.path(), &setting.value).map_err(wrong)?;
    }
    let text = document.text();
    let written = Document::parse(client.format(), &text).map_err(wrong)?;
    if let Some(lost) = settings.iter().find(|setting| written.get(&setting.path()).as_ref() != Some(&setting.value)) {
        return Err(wrong(format!("{} cannot be set in a file that is written like this", lost.path.join("."))));
    }
    let current = Document::parse(client.format(), found.text().unwrap_or_default()).map_err(wrong)?;
    let changes = changes(&current, &settings);
    if !only_shows && found.text() != Some(text.as_str()) {
        found.write(&text, settings)?;
    }
    Ok(Connection { backup: found.backup(), file: path, changes })
}

#[cfg(test)]
mod tests;
