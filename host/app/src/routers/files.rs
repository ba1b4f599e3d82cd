//! The files of a router: its state as one JSON document, beside its description and its log.

use super::book::{GateBook, LiveBook, RouterBook};
use super::config::RouterFile;
use super::log::{LOG, write_log};
use super::spending::RouterSpending;
use crate::{AppError, RequestError, Workspace, small_files};
use clawhost_core::{escaped, nearest};
use clawhost_learn::Layer as _;
use clawhost_learn::router::{Logged, Router};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::path::{Path, PathBuf};

/// Format of the state's document.
const FORMAT: u32 = 1;
/// The folder of routers inside a data folder.
const FOLDER: &str = "routers";
/// Extension of a state.
const STATE: &str = "json";
/// Longest name of a router: it is part of a file name.
const NAME_BYTES: usize = 128;
/// Longest part of a name that a message repeats, in bytes.
const SHOWN_BYTES: usize = 80;

/// The folder of routers inside this data folder.
pub fn routers_folder(data: &Path) -> PathBuf {
    data.join(FOLDER)
}

/// A router that was read from its file.
#[derive(Debug)]
pub struct StoredRouter {
    /// Its name: that of the file without the extension.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// The router.
    pub router: Router,
    /// What is kept beside its state.
    pub book: RouterBook,
}

impl StoredRouter {
    /// The plugin that decides in its place, as its description names it.
    ///
    /// # Errors
    /// The description cannot be used.
    pub fn plugin(&self) -> Result<Option<String>, AppError> {
        let path = self.path.with_extension("toml");
        if path.exists() { Ok(RouterFile::read(&path)?.plugin) } else { Ok(None) }
    }

    /// Where its decisions are recorded.
    pub fn log(&self) -> PathBuf {
        self.path.with_extension(LOG)
    }
}

/// A file with the state of a router.
#[derive(Serialize, Deserialize)]
struct Document {
    format: u32,
    router: Box<RawValue>,
    #[serde(default)]
    live: LiveBook,
    #[serde(default)]
    gate: GateBook,
    #[serde(default)]
    spending: RouterSpending,
}

pub(super) fn unusable(path: &Path, why: impl std::fmt::Display) -> AppError {
    RequestError::File { path: path.display().to_string(), why: why.to_string() }.into()
}

/// Whether a text is a path, and not the name of a router.
pub(super) fn is_path(named: &str) -> bool {
    named.contains(std::path::is_separator) || Path::new(named).extension().is_some_and(|ending| ending == STATE)
}

/// Whether a text can be the name of a router.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    !name.is_empty() && name.len() <= NAME_BYTES && name.chars().all(fits) && !name.starts_with('.')
}

/// The names of the routers in a data folder, sorted.
pub fn router_names(data: &Path) -> Vec<String> {
    // A folder that is not there has no routers.
    let entries = std::fs::read_dir(routers_folder(data)).into_iter().flatten().flatten();
    let named = |path: PathBuf| {
        let name = path.file_stem()?.to_str()?.to_owned();
        (path.extension().is_some_and(|ending| ending == STATE) && is_name(&name)).then_some(name)
    };
    let mut names: Vec<String> = entries.filter_map(|entry| named(entry.path())).collect();
    names.sort();
    names
}

/// Reads a router: a file (with a folder, or ending in .json), or a name in the data folder. `None`: the only one there.
///
/// # Errors
/// There is none of this name, several exist and none is named, or the file is damaged or of another format.
pub fn read_router(data: &Path, named: Option<&str>) -> Result<StoredRouter, AppError> {
    if let Some(path) = named.filter(|named| is_path(named)) {
        return read_state(Path::new(path))?.ok_or_else(|| unusable(Path::new(path), "there is no such file"));
    }
    let known = router_names(data);
    let name = match (named, known.as_slice()) {
        (Some(name), known) if known.iter().any(|one| one == name) => name,
        // Its file exists, and it has no state yet.
        (Some(name), _) if is_name(name) && routers_folder(data).join(format!("{name}.toml")).is_file() => {
            let why = format!(
                "router `{name}` has learned nothing yet; learn in a run with the policy `router:{name}`, or ask it with \
                 `clawhost router explain REQUEST`"
            );
            return Err(RequestError::NoRouter { why }.into());
        }
        (Some(name), known) => {
            let close = nearest(name, known.iter().map(String::as_str));
            let close = close.map_or(String::new(), |close| format!("; did you mean `{close}`?"));
            let why = format!("there is no router `{}`; there is {}{close}", escaped(name, SHOWN_BYTES), listed(known));
            return Err(RequestError::NoRouter { why }.into());
        }
        (None, [only]) => only,
        (None, []) => {
            let why = "there is no router yet; `clawhost demo router` makes one".to_owned();
            return Err(RequestError::NoRouter { why }.into());
        }
        (None, several) => {
            return Err(RequestError::NoRouter { why: format!("which router? There are {}", listed(several)) }.into());
        }
    };
    let path = routers_folder(data).join(format!("{name}.{STATE}"));
    read_state(&path)?.ok_or_else(|| unusable(&path, "the file has just been removed"))
}

/// The number of decisions of a router about live sessions that wait for a reward.
///
/// # Errors
/// The database cannot be read.
pub fn waiting_decisions(data: &Path, router: &str) -> Result<u64, AppError> {
    if !data.join(clawhost_store::FILE).exists() {
        return Ok(0);
    }
    Ok(Workspace::read(data)?.waiting_routed(router)?)
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The router of a file; `None` if there is no file.
pub(super) fn read_state(path: &Path) -> Result<Option<StoredRouter>, AppError> {
    let document = small_files::read(path, FORMAT, |document: &Document| document.format)?;
    let Some(Document { router, live, gate, spending, .. }) = document else { return Ok(None) };
    let router = read_document(path, &router)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Some(StoredRouter { name, path: path.to_owned(), router, book: RouterBook { live, gate, spending } }))
}

/// The state in the document of a file.
pub(super) fn read_document(path: &Path, state: &RawValue) -> Result<Router, AppError> {
    Router::from_state(state.get().as_bytes()).map_err(|error| unusable(path, error))
}

/// A file of a router in a folder of routers.
pub(crate) fn router_file(folder: &Path, name: &str, ending: &str) -> PathBuf {
    folder.join(format!("{name}.{ending}"))
}

/// Replaces the served state of a router, and what is kept beside it.
///
/// # Errors
/// It cannot be written.
pub(super) fn write_served(folder: &Path, name: &str, router: &Router, book: &RouterBook) -> Result<(), AppError> {
    write_state(folder, &format!("{name}.{STATE}"), router, book)
}

/// Writes a state of a router as one of its versions.
///
/// # Errors
/// It cannot be written.
pub(super) fn write_version(folder: &Path, name: &str, router: &Router) -> Result<(), AppError> {
    let file = format!("{name}.v{}.state", router.version());
    write_state(folder, &file, router, &RouterBook::default())
}

fn write_state(folder: &Path, file: &str, router: &Router, book: &RouterBook) -> Result<(), AppError> {
    let state = String::from_utf8_lossy(&router.snapshot()?).into_owned();
    let router = RawValue::from_string(state).map_err(|error| unusable(&folder.join(file), error))?;
    let RouterBook { live, gate, spending } = book.clone();
    small_files::write(folder, file, &Document { format: FORMAT, router, live, gate, spending })
}

/// Writes a router with its log into a folder; files of this name are replaced. Returns the paths of state and log.
///
/// # Errors
/// They cannot be written.
pub fn write_router(
    folder: &Path,
    name: &str,
    router: &Router,
    log: &[Logged],
) -> Result<(PathBuf, PathBuf), AppError> {
    let (path, log_path) = (router_file(folder, name, STATE), router_file(folder, name, LOG));
    write_served(folder, name, router, &RouterBook::default())?;
    write_log(folder, &log_path, log)?;
    Ok((path, log_path))
}

#[cfg(test)]
mod tests {
    use super::super::log::read_decisions;
    use super::*;
    use clawhost_learn::router::{Simulation, WorldSettings, simulation};

    fn world() -> Simulation {
        simulation(&WorldSettings { decisions: 20, fresh: 1, ..WorldSettings::default() }, 1).unwrap()
    }

    #[test]
    fn a_router_and_its_log_are_read_as_they_were_written() {
        let data = tempfile::tempdir().unwrap();
        let Simulation { router, log, .. } = world();
        let (state, decisions) = write_router(&routers_folder(data.path()), "one", &router, &log).unwrap();
        for named in [None, Some("one"), state.to_str()] {
            let read = read_router(data.path(), named).unwrap();
            assert_eq!(
                (read.name.as_str(), read.router.digest(), read.log()),
                ("one", router.digest(), decisions.clone())
            );
        }
        assert_eq!(read_decisions(&decisions).unwrap(), log);
    }

    #[test]
    fn a_router_that_is_not_there_is_named_with_those_that_are() {
        let data = tempfile::tempdir().unwrap();
        let refused = |named: Option<&str>| read_router(data.path(), named).unwrap_err().to_string();
        assert!(refused(None).contains("there is no router yet"), "{}", refused(None));
        let Simulation { router, log, .. } = world();
        for name in ["first", "second"] {
            write_router(&routers_folder(data.path()), name, &router, &log).unwrap();
        }
        assert_eq!(refused(None), "which router? There are first, second");
        let expect = "there is no router `frist`; there is first, second; did you mean `first`?";
        assert_eq!(refused(Some("frist")), expect);
        std::fs::write(routers_folder(data.path()).join("third.toml"), "").unwrap();
        assert!(refused(Some("third")).starts_with("router `third` has learned nothing yet"));
        assert!(refused(Some("../first")).ends_with("there is no such file"), "a path is no name");
        let path = routers_folder(data.path()).join("first.json");
        std::fs::write(&path, r#"{"format": 2, "router": {}}"#).unwrap();
        assert!(refused(Some("first")).ends_with("format 2; this program reads format 1"));
        std::fs::write(&path, r#"{"format": 1, "router": {"version": 3}}"#).unwrap();
        assert!(refused(Some("first")).contains("first.json: router: a state that cannot be read: missing field"));
    }
}
