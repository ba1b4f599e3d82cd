//! A client's file, the copy of it as it was, and the record of what was set. Each is written whole or not at all.

use super::{Client, Setting, Surroundings, unusable};
use crate::document::{self, Document};
use crate::{AppError, RequestError, small_files};
use clawhost_core::Digest;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Largest size of a client's file in bytes: such files have thousands of lines at most.
const BYTES: u64 = 4 << 20;
/// The format of the record.
const FORMAT: u32 = 1;
/// What the names of the copy and the record end with.
const BACKUP: &str = ".clawhost-backup";
const RECORD: &str = ".clawhost-connect.json";

/// What was set in a client's file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    client: String,
    /// Whether there was a file before.
    existed: bool,
    /// Digest of the text that was written.
    written: Digest,
    settings: Vec<Setting>,
}

/// A client's file as it is found.
pub(super) struct Found {
    client: Client,
    path: PathBuf,
    text: Option<String>,
    record: Option<Record>,
}

/// A path with another end of its name.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

/// The text of a file, if there is one.
fn read(path: &Path) -> Result<Option<String>, AppError> {
    match clawhost_files::read_text(path, BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(path, error)),
    }
}

impl Found {
    /// Reads a client's file and its record.
    ///
    /// # Errors
    /// The file is a link, may not be written, or cannot be read; or the record is damaged or of another client.
    pub(super) fn at(client: Client, path: &Path) -> Result<Self, AppError> {
        if let Ok(file) = std::fs::symlink_metadata(path) {
            if file.is_symlink() {
                let target = std::fs::read_link(path).unwrap_or_default();
                let why = format!("it is a link to {}; name the file that it leads to", target.display());
                return Err(unusable(path, why));
            }
            if file.permissions().readonly() {
                return Err(unusable(path, "it may only be read; allow writing first"));
            }
        }
        let text = read(path)?;
        let record = small_files::read(&beside(path, RECORD), FORMAT, |record: &Record| record.format)?;
        if let Some(record) = record.as_ref().filter(|record| record.client != client.name()) {
            let why = format!("it is connected as the file of {}, not of {}", record.client, client.name());
            return Err(unusable(path, why));
        }
        Ok(Self { client, path: path.to_owned(), text, record })
    }

    /// The text as it is now.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Where the copy of the file as it was is. `None`: there was no file.
    pub(super) fn backup(&self) -> Option<PathBuf> {
        let existed = self.record.as_ref().map_or(self.text.is_some(), |record| record.existed);
        existed.then(|| beside(&self.path, BACKUP))
    }

    /// The text without the connection. `None`: no file. If only this program wrote the file, it is the copy; else what was set is taken
    /// back key by key, where it still is as it was set.
    ///
    /// # Errors
    /// The copy is missing, or a text is none of its format.
    pub(super) fn base(&self) -> Result<Option<String>, AppError> {
        let Some(record) = &self.record else { return Ok(self.text.clone()) };
        let before = match record.existed {
            false => None,
            true => {
                let path = beside(&self.path, BACKUP);
                Some(read(&path)?.ok_or_else(|| unusable(&path, "the copy of the file as it was is missing"))?)
            }
        };
        let Some(text) = self.text.as_ref().filter(|text| Digest::of(text.as_bytes()) != record.written) else {
            return Ok(before);
        };
        let wrong = |why: String| unusable(&self.path, why);
        let mut now = Document::parse(self.client.format(), text).map_err(wrong)?;
        let was = Document::parse(self.client.format(), before.as_deref().unwrap_or_default()).map_err(wrong)?;
        for setting in &record.settings {
            take_back(&mut now, &was, setting).map_err(wrong)?;
        }
        Ok(Some(now.text()))
    }

    /// Writes the text of a connection, with the copy and the record. A copy of an earlier connection stays.
    ///
    /// # Errors
    /// A file cannot be written, or the client's file was changed meanwhile.
    pub(super) fn write(&self, text: &str, settings: Vec<Setting>) -> Result<(), AppError> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|error| unusable(folder, error))?;
        let existed = self.record.as_ref().map_or(self.text.is_some(), |record| record.existed);
        if let (None, Some(before)) = (&self.record, &self.text) {
            let backup = beside(&self.path, BACKUP);
            document::replace(&backup, before).map_err(|error| unusable(&backup, error))?;
        }
        let written = Digest::of(text.as_bytes());
        let record = Record { format: FORMAT, client: self.client.name().to_owned(), existed, written, settings };
        let name = beside(&self.path, RECORD);
        small_files::write(folder, &name.file_name().unwrap_or_default().to_string_lossy(), &record)?;
        self.replace(Some(text))
    }

    /// Replaces the client's file, unless another program changed it since it was read. `None`: removes it.
    fn replace(&self, text: Option<&str>) -> Result<(), AppError> {
        if read(&self.path)? != self.text {
            return Err(unusable(&self.path, "another program has changed it just now; try again"));
        }
        let done = match text {
            Some(text) => document::replace(&self.path, text),
            None if self.text.is_some() => std::fs::remove_file(&self.path),
            None => Ok(()),
        };
        done.map_err(|error| unusable(&self.path, error))
    }
}

/// Takes a setting back: to its value before, or away with the tables that were made for it. One that was changed since stays.
fn take_back(now: &mut Document, was: &Document, setting: &Setting) -> Result<(), String> {
    let path = setting.path();
    if now.get(&path).as_ref() != Some(&setting.value) {
        return Ok(());
    }
    if let Some(value) = was.get(&path) {
        return now.set(&path, &value);
    }
    now.remove(&path);
    for end in (1..path.len()).rev() {
        let table = path.get(..end).unwrap_or_default();
        let is_empty = now.get(table).is_some_and(|value| value.as_object().is_some_and(serde_json::Map::is_empty));
        if !is_empty || was.get(table).is_some() {
            break;
        }
        now.remove(table);
    }
    Ok(())
}

/// What became of a client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// It is as it was, byte for byte.
    Exactly,
    /// It was removed: there was none before.
    Removed,
    /// What was set is taken back. What was changed since stays.
    Settings,
}

/// Takes a client's connection back. Returns its file, and what became of it.
///
/// # Errors
/// It is not connected, or a file cannot be read or written.
pub fn disconnect(
    client: Client,
    file: Option<PathBuf>,
    surroundings: &Surroundings,
) -> Result<(PathBuf, Restored), AppError> {
    let path = file.unwrap_or_else(|| client.file(surroundings));
    let found = Found::at(client, &path)?;
    let Some(record) = &found.record else {
        return Err(
            RequestError::NotConnected { client: client.name().to_owned(), file: path.display().to_string() }.into()
        );
    };
    let base = found.base()?;
    let is_own = found.text.as_ref().is_none_or(|text| Digest::of(text.as_bytes()) == record.written);
    found.replace(base.as_deref())?;
    for end in [RECORD, BACKUP] {
        let path = beside(&path, end);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unusable(&path, error)),
            _ => {}
        }
    }
    let restored = match (is_own, base) {
        (true, Some(_)) => Restored::Exactly,
        (true, None) => Restored::Removed,
        (false, _) => Restored::Settings,
    };
    Ok((path, restored))
}
