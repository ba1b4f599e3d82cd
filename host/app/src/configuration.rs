//! The keys of `gateway.toml`: read, set and removed one by one. The file stays valid, and what else is in it stays as it was written.

use crate::document::{self, Document, Format};
use crate::gateway_file::{GATEWAY_FILE, GatewayFile, LogSection, RedactionSection};
use crate::served_models::key_of_file;
use crate::{AppError, GATEWAY_LISTEN, RequestError, masked};
use clawhost_core::{escaped, nearest};
use clawhost_gateway::{RecordPolicy, SessionsLimits};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Largest size of the file in bytes.
const BYTES: u64 = 1 << 20;

/// The configuration of a data folder that is being changed.
pub(crate) struct ConfigurationFile {
    path: PathBuf,
    /// The text as it was read. `None`: there was no file.
    text: Option<String>,
    document: Document,
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> AppError {
    RequestError::File { path: path.display().to_string(), why: why.to_string() }.into()
}

/// The text of the file, if there is one.
fn read(path: &Path) -> Result<Option<String>, AppError> {
    match clawhost_files::read_text(path, BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(path, error)),
    }
}

impl ConfigurationFile {
    /// Reads the configuration of a data folder. A link is followed: the file that it leads to is changed.
    ///
    /// # Errors
    /// The file cannot be read, or is no TOML.
    pub(crate) fn of(folder: &Path) -> Result<Self, AppError> {
        let path = folder.join(GATEWAY_FILE);
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        let text = read(&path)?;
        let parsed = Document::parse(Format::Toml, text.as_deref().unwrap_or_default());
        let document = parsed.map_err(|why| unusable(&path, why))?;
        Ok(Self { path, text, document })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn get(&self, path: &[&str]) -> Option<Value> {
        self.document.get(path)
    }

    /// Sets a key.
    ///
    /// # Errors
    /// A value on the way to it is no table.
    pub(crate) fn set(&mut self, path: &[&str], value: &Value) -> Result<(), AppError> {
        self.document.set(path, value).map_err(|why| unusable(&self.path, why))
    }

    pub(crate) fn remove(&mut self, path: &[&str]) {
        self.document.remove(path);
    }

    /// Whether a gateway could run with it. The error says what is wrong.
    fn check(&self) -> Result<(), String> {
        GatewayFile::parse(&self.document.text()).map(drop)
    }

    /// Writes the file, whole or not at all. Returns the keys that differ from before and count from the next start of a gateway only.
    ///
    /// # Errors
    /// It is not valid, cannot be written, or was changed by another program meanwhile.
    pub(crate) fn write(&self) -> Result<Vec<String>, AppError> {
        self.check().map_err(|why| unusable(&self.path, why))?;
        if read(&self.path)? != self.text {
            return Err(unusable(&self.path, "another program has changed it just now; try again"));
        }
        if let Some(folder) = self.path.parent() {
            crate::workspace::make(folder)?;
        }
        document::replace(&self.path, &self.document.text()).map_err(|error| unusable(&self.path, error))?;
        // What was no configuration before has no key that was in force.
        let before = GatewayFile::parse(self.text.as_deref().unwrap_or_default()).unwrap_or_default();
        let now = GatewayFile::parse(&self.document.text()).unwrap_or_default();
        Ok(now.needs_restart(&before, (false, false)))
    }
}

/// The parts of a key, as in `models.fast.retries` or `models."gpt-4.1".retries`.
fn parts(key: &str) -> Result<Vec<String>, RequestError> {
    let wrong = || RequestError::ConfigurationKey { key: escaped(key, 100) };
    let parts = toml_edit::Key::parse(key).map_err(|_| wrong())?;
    Ok(parts.iter().map(|part| part.get().to_owned()).collect())
}

fn borrowed(parts: &[String]) -> Vec<&str> {
    parts.iter().map(String::as_str).collect()
}

/// All keys that are set under a value, with their values.
fn leaves(prefix: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    let Value::Object(fields) = value else {
        found.push((prefix.to_owned(), value.clone()));
        return;
    };
    for (key, value) in fields {
        let key = toml_edit::Key::new(key).to_string();
        let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        leaves(&name, value, found);
    }
}

/// The keys that are set in the configuration of a data folder, in the order of the file, without secrets. With `key`, this one and those
/// under it.
///
/// # Errors
/// The file cannot be read, or the key is not set.
pub fn configured_keys(folder: &Path, key: Option<&str>) -> Result<Vec<(String, Value)>, AppError> {
    let configuration = ConfigurationFile::of(folder)?;
    let mut found = Vec::new();
    if let Some(all) = configuration.get(&[]) {
        leaves("", &all, &mut found);
    }
    if let Some(key) = key {
        let parts = parts(key)?;
        let name = parts.iter().map(|part| toml_edit::Key::new(part).to_string()).collect::<Vec<_>>().join(".");
        let under = format!("{name}.");
        let known: Vec<String> = found.iter().map(|(key, _)| key.clone()).collect();
        found.retain(|(key, _)| *key == name || key.starts_with(&under));
        if found.is_empty() {
            let nearest = nearest(&name, known.iter().map(String::as_str)).map(str::to_owned);
            return Err(RequestError::NotConfigured { key: escaped(&name, 100), nearest }.into());
        }
    }
    Ok(found.into_iter().map(|(key, value)| (key.clone(), masked::value(&key, value))).collect())
}

/// The values that a text may stand for: a value of TOML, a text, a list of texts with commas between them. A list in brackets stands for
/// nothing else.
///
/// # Errors
/// It begins like a list in brackets, and is none.
fn readings(text: &str) -> Result<Vec<Value>, String> {
    let typed = Document::parse(Format::Toml, &format!("value = {text}"));
    let typed = typed.map(|document| document.get(&["value"]).filter(|value| !value.is_object()));
    let inside = text.trim().strip_prefix('[').map(str::trim_start);
    match (typed, inside) {
        (Ok(Some(list @ Value::Array(_))), _) => Ok(vec![list]),
        (Err(why), Some(inside)) if inside.starts_with(['"', '\'']) => Err(why),
        (typed, _) => {
            let list = text.split(',').map(|item| Value::from(item.trim())).collect();
            Ok(typed.ok().flatten().into_iter().chain([Value::from(text), list]).collect())
        }
    }
}

/// A key of a configuration that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredKey {
    /// Its value, without secrets. `None`: it was removed.
    pub value: Option<Value>,
    /// The keys that differ from before and count from the next start of a gateway only.
    pub waits_for_restart: Vec<String>,
}

/// Sets a key of the configuration of a data folder. The text is a value of TOML, a text without quotes, or a list with commas: what the key
/// takes.
///
/// # Errors
/// There is no such key, it does not take the value, a file of a key cannot be used, or the file cannot be written.
pub fn set_configured_key(folder: &Path, key: &str, text: &str) -> Result<ConfiguredKey, AppError> {
    let parts = parts(key)?;
    let path = borrowed(&parts);
    let refused = |why: &str| {
        AppError::from(RequestError::ConfigurationValue {
            key: escaped(key, 100),
            why: masked::text(&escaped(why, 500)),
        })
    };
    let mut problem = None;
    for value in readings(text).map_err(|why| refused(&why))? {
        let mut configuration = ConfigurationFile::of(folder)?;
        configuration.set(&path, &value)?;
        match configuration.check() {
            Ok(()) => {
                if let (["models", _, "key_file"], Some(file)) = (path.as_slice(), value.as_str()) {
                    key_of_file(file)?;
                }
                let waits_for_restart = configuration.write()?;
                return Ok(ConfiguredKey { value: Some(masked::value(key, value)), waits_for_restart });
            }
            // A value of the wrong type says less than what another reading of the text fails with.
            Err(why) if problem.is_none() || !why.contains("invalid type") => problem = Some(why),
            Err(_) => {}
        }
    }
    Err(refused(&problem.unwrap_or_default()))
}

/// Removes a key of the configuration of a data folder, with those under it.
///
/// # Errors
/// It is not set, the others need it, or the file cannot be written.
pub fn unset_configured_key(folder: &Path, key: &str) -> Result<ConfiguredKey, AppError> {
    // Names the nearest one if it is not set.
    configured_keys(folder, Some(key))?;
    let parts = parts(key)?;
    let mut configuration = ConfigurationFile::of(folder)?;
    configuration.remove(&borrowed(&parts));
    if let Err(why) = configuration.check() {
        return Err(RequestError::ConfigurationValue { key: escaped(key, 100), why: escaped(&why, 500) }.into());
    }
    Ok(ConfiguredKey { value: None, waits_for_restart: configuration.write()? })
}

/// The value that a key of the configuration has without being set. `None`: it has none, or is no key.
pub fn default_of_key(key: &str) -> Option<Value> {
    let redaction = RedactionSection::default();
    match key {
        "gateway.listen" => Some(GATEWAY_LISTEN.into()),
        "gateway.record" => Some(RecordPolicy::default().name().into()),
        "gateway.session_idle_seconds" => Some((SessionsLimits::default().idle_ms / 1000).into()),
        "log.access" => Some(LogSection::default().access.into()),
        "redaction.keys" => Some(redaction.keys.into()),
        "redaction.emails" => Some(redaction.emails.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TEXT: &str = r#"# My gateway.
[gateway]
listen = "127.0.0.1:9" # here

[models.fast]
model = "openai:a@http://127.0.0.1:1/v1"
key_env = "FAST_KEY"
"#;

    fn folder(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(GATEWAY_FILE), text).unwrap();
        folder
    }

    fn text(folder: &tempfile::TempDir) -> String {
        std::fs::read_to_string(folder.path().join(GATEWAY_FILE)).unwrap()
    }

    #[test]
    fn a_key_is_set_with_its_type_and_comments_stay() {
        let check = |key: &str, value: &str, expect: Value, line: &str| {
            let folder = folder(TEXT);
            assert_eq!(set_configured_key(folder.path(), key, value).unwrap().value, Some(expect), "{key}");
            let text = text(&folder);
            assert!(text.contains(line) && text.contains("# My gateway."), "{text}");
            assert_eq!(configured_keys(folder.path(), Some(key)).unwrap().len(), 1, "{key}");
        };
        check("gateway.listen", "127.0.0.1:10", json!("127.0.0.1:10"), "listen = \"127.0.0.1:10\" # here");
        check("gateway.session_idle_seconds", "60", json!(60), "session_idle_seconds = 60");
        check("gateway.hosts", "a.example, b.example", json!(["a.example", "b.example"]), "hosts = [");
        check("gateway.hosts", "[\"a.example\"]", json!(["a.example"]), "hosts = [\"a.example\"]");
        check("models.fast.retries", "2", json!(2), "retries = 2");
        check("models.\"gpt-4.1\".model", "openai:gpt-4.1", json!("openai:gpt-4.1"), "[models.\"gpt-4.1\"]");
        let empty = tempfile::tempdir().unwrap();
        set_configured_key(empty.path(), "models.a.model", "follower").unwrap();
        assert_eq!(text(&empty), "[models.a]\nmodel = \"follower\"\n");
    }

    #[test]
    fn a_mistake_is_named_and_changes_nothing() {
        let check = |key: &str, value: &str, says: &str| {
            let folder = folder(TEXT);
            let error = set_configured_key(folder.path(), key, value).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
            assert_eq!(text(&folder), TEXT);
        };
        check("models.fast.retires", "2", "did you mean `retries`?");
        check("gatewey.listen", "x", "did you mean `gateway`?");
        check("models.fast.retries", "eleven", "invalid type");
        check("models.fast.retries", "11", "from 0 to 10");
        check("models.fast.pass_key", "true", "one at most");
        check("models.fast.key_env", "sk-live-0123456789abcdef0123", "names a variable");
        check("models..model", "x", "is not a key");
        check("gateway.listen.port", "1", "cannot be set");
    }

    #[test]
    fn keys_are_removed_unless_others_need_them() {
        let folder = folder(TEXT);
        unset_configured_key(folder.path(), "gateway.listen").unwrap();
        assert!(!text(&folder).contains("listen"), "{}", text(&folder));
        let error = |key: &str| unset_configured_key(folder.path(), key).unwrap_err().to_string();
        assert!(error("models.fast.model").contains("either `model` or `first_of`"));
        assert!(error("models.fast.key_evn").contains("did you mean `models.fast.key_env`?"));
        unset_configured_key(folder.path(), "models.fast").unwrap();
        assert!(configured_keys(folder.path(), None).unwrap().is_empty());
    }

    #[test]
    fn a_list_in_brackets_is_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let error = |text: &str| set_configured_key(folder.path(), "redaction.patterns", text).unwrap_err().to_string();
        assert!(error(r#"["("]"#).contains("redaction.patterns[0]: "), "{}", error(r#"["("]"#));
        assert!(error(r#"["\d"]"#).contains("escape"), "{}", error(r#"["\d"]"#));
        let set = |text: &str| set_configured_key(folder.path(), "redaction.patterns", text).unwrap().value.unwrap();
        assert_eq!(set("['\\d', \"x\"]"), json!(["\\d", "x"]));
        assert_eq!(set("[a-z]+"), json!(["[a-z]+"]), "an expression without quotes");
    }

    #[test]
    fn changes_that_wait_for_a_restart_are_named() {
        let folder = folder(TEXT);
        let check = |key: &str, value: &str, expect: &[&str]| {
            assert_eq!(set_configured_key(folder.path(), key, value).unwrap().waits_for_restart, expect, "{key}");
        };
        check("gateway.listen", "127.0.0.1:10", &["gateway.listen"]);
        check("gateway.listen", "127.0.0.1:10", &[]);
        check("redaction.emails", "true", &["redaction"]);
        check("retention.days", "3", &["retention"]);
        check("models.fast.retries", "1", &[]);
        assert_eq!(unset_configured_key(folder.path(), "retention").unwrap().waits_for_restart, ["retention"]);
    }

    #[test]
    fn a_file_of_a_key_must_have_one() {
        let folder = folder("[models.fast]\nmodel = \"openai:a\"\n");
        let file = folder.path().join("key");
        let set = || set_configured_key(folder.path(), "models.fast.key_file", &file.display().to_string());
        assert!(set().unwrap_err().to_string().contains(&file.display().to_string()));
        std::fs::write(&file, "\n").unwrap();
        assert!(set().is_err(), "it is empty");
        assert!(!text(&folder).contains("key_file"), "{}", text(&folder));
        std::fs::write(&file, "sk-1\n").unwrap();
        assert_eq!(set().unwrap().value, Some(json!(file.display().to_string())));
    }

    #[test]
    fn keys_that_are_not_set_have_the_defaults_of_a_start() {
        assert_eq!(default_of_key("gateway.listen"), Some(json!("127.0.0.1:8700")));
        assert_eq!(default_of_key("gateway.session_idle_seconds"), Some(json!(1800)));
        assert_eq!((default_of_key("redaction.keys"), default_of_key("gateway.playbook")), (Some(json!(true)), None));
    }

    #[test]
    fn secrets_are_not_shown() {
        let key = "sk-live-0123456789abcdef0123";
        let folder = folder(&format!("[models.a]\nmodel = \"openai:m@https://me:{key}@host.example/v1\"\n"));
        let shown = format!("{:?}", configured_keys(folder.path(), None).unwrap());
        assert!(!shown.contains(key) && shown.contains("openai:m@https://"), "{shown}");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_and_a_new_file_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let (real, data) = (folder(TEXT), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(real.path().join(GATEWAY_FILE), data.path().join(GATEWAY_FILE)).unwrap();
        set_configured_key(data.path(), "models.fast.retries", "1").unwrap();
        assert!(text(&real).contains("retries = 1"));
        let new = tempfile::tempdir().unwrap();
        set_configured_key(new.path(), "gateway.listen", "127.0.0.1:1").unwrap();
        let mode = std::fs::metadata(new.path().join(GATEWAY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn secrets_are_not_shown_when_a_key_is_set_or_refused() {
        let key = "sk-live-0123456789abcdef0123";
        let folder = folder(TEXT);
        let address = format!("openai:m@https://me:{key}@host.example/v1");
        let shown = set_configured_key(folder.path(), "models.fast.model", &address).unwrap();
        assert_eq!(shown.value, Some(json!("openai:m@https://me:****@host.example/v1")));
        assert!(text(&folder).contains(key), "the file has it");
        let error = set_configured_key(folder.path(), "models.fast.retries", key).unwrap_err().to_string();
        assert!(error.contains("models.fast.retries") && !error.contains(key), "{error}");
    }

    #[test]
    fn keys_under_a_name_are_those_of_its_table_alone() {
        let folder = folder("[models.fast]\nmodel = \"random\"\n[models.faster]\nmodel = \"follower\"\n");
        let found = configured_keys(folder.path(), Some("models.fast")).unwrap();
        assert_eq!(found, [("models.fast.model".to_owned(), json!("random"))]);
    }
}
