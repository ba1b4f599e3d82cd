//! The keys of a gateway's clients: a file in the data folder with their digests.

use crate::workspace::{SystemClock, Workspace};
use crate::{AppError, RequestError, small_files};
use clawhost_core::{Clock as _, Digest, Usage};
use clawhost_gateway::{ClientKey, ClientKeys, KEY_PREFIX, used_today};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The file in the data folder.
pub(crate) const FILE: &str = "keys.json";
/// The format of the file.
const FORMAT: u32 = 1;
/// Longest name of a key in bytes.
const NAME_BYTES: usize = 64;
/// Random bytes of a key.
const KEY_BYTES: usize = 32;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    keys: Vec<ClientKey>,
}

/// What a new key may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewKey {
    /// Its name.
    pub name: String,
    /// Whether learning leaves its traffic out.
    pub no_train: bool,
    /// Whether its traffic is not recorded.
    pub no_record: bool,
    /// Requests per minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens per day (UTC), read and generated.
    pub tokens_per_day: Option<u64>,
    /// Millionths of a US dollar per day (UTC), of models with prices.
    pub usd_micros_per_day: Option<u64>,
    /// Days after which its episodes and responses are removed.
    pub keep_days: Option<u32>,
    /// The team whose memory its sessions see.
    pub team: Option<String>,
}

/// The keys of a data folder.
///
/// # Errors
/// The file is damaged or cannot be read.
pub fn client_keys(folder: &Path) -> Result<ClientKeys, AppError> {
    let document = small_files::read(&folder.join(FILE), FORMAT, |document: &Document| document.format)?;
    Ok(document.map(|document| ClientKeys::new(document.keys)).unwrap_or_default())
}

/// What the keys of a data folder have used today (UTC), by their names, as it is recorded.
///
/// # Errors
/// The data folder cannot be read.
pub fn used_by_keys(folder: &Path) -> Result<BTreeMap<String, Usage>, AppError> {
    if !Workspace::is_used(folder) {
        return Ok(BTreeMap::new());
    }
    Ok(used_today(&*Workspace::read(folder)?, SystemClock::default().now_ms())?)
}

/// Adds a key. Returns its text, which is kept nowhere.
///
/// # Errors
/// The name is taken or cannot be one, or the file cannot be written.
pub fn add_client_key(folder: &Path, new: NewKey) -> Result<String, AppError> {
    let NewKey { name, no_train, no_record, requests_per_minute, tokens_per_day, usd_micros_per_day, keep_days, team } =
        new;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > NAME_BYTES || !name.chars().all(is_plain) {
        return Err(RequestError::KeyName { name, most: NAME_BYTES }.into());
    }
    let mut keys: Vec<ClientKey> = client_keys(folder)?.iter().cloned().collect();
    if keys.iter().any(|key| key.name == name) {
        return Err(RequestError::KeyExists { name }.into());
    }
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| AppError::Host(format!("no randomness for a key: {error}")))?;
    let key = format!("{KEY_PREFIX}{}", bytes.map(|byte| format!("{byte:02x}")).concat());
    let digest = Digest::of(key.as_bytes());
    let created_at = SystemClock::default().now_ms();
    let unlimited = ClientKey::new(name, digest, created_at);
    let limited = ClientKey { no_train, no_record, requests_per_minute, tokens_per_day, ..unlimited };
    keys.push(ClientKey { usd_micros_per_day, keep_days, team, ..limited });
    small_files::write(folder, FILE, &Document { format: FORMAT, keys })?;
    Ok(key)
}

/// Removes a key.
///
/// # Errors
/// There is none of this name, or the file cannot be written.
pub fn remove_client_key(folder: &Path, name: &str) -> Result<(), AppError> {
    let keys = client_keys(folder)?;
    let kept: Vec<ClientKey> = keys.iter().filter(|key| key.name != name).cloned().collect();
    if kept.len() == keys.iter().count() {
        return Err(RequestError::NoSuchKey { name: name.to_owned() }.into());
    }
    small_files::write(folder, FILE, &Document { format: FORMAT, keys: kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> NewKey {
        NewKey { name: name.into(), ..NewKey::default() }
    }

    #[test]
    fn keys_are_added_listed_and_removed_and_only_digests_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let key = add_client_key(folder.path(), NewKey { requests_per_minute: Some(5), ..named("ci") }).unwrap();
        assert!(key.starts_with(KEY_PREFIX) && key.len() == KEY_PREFIX.len() + 64, "{key}");
        assert_ne!(key, add_client_key(folder.path(), named("other")).unwrap());
        let text = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert!(!text.contains(&key[KEY_PREFIX.len()..]), "{text}");
        let keys = client_keys(folder.path()).unwrap();
        let ci = keys.iter().next().unwrap();
        assert_eq!((ci.name.as_str(), ci.digest, ci.requests_per_minute), ("ci", Digest::of(key.as_bytes()), Some(5)));
        remove_client_key(folder.path(), "ci").unwrap();
        assert_eq!(client_keys(folder.path()).unwrap().iter().count(), 1);
        let error = |error: AppError| error.to_string();
        assert!(error(remove_client_key(folder.path(), "ci").unwrap_err()).contains("no key `ci`"));
        assert!(error(add_client_key(folder.path(), named("other")).unwrap_err()).contains("`other`"));
        for name in ["", "a b", "a/b", "\u{7}", &"x".repeat(65)] {
            assert!(add_client_key(folder.path(), named(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn a_damaged_file_of_keys_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "[]", r#"{"format":2,"keys":[]}"#, r#"{"format":1,"keys":[{"name":"a"}]}"#] {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            assert!(client_keys(folder.path()).is_err(), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_file_of_keys_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        add_client_key(folder.path(), named("ci")).unwrap();
        let mode = std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
