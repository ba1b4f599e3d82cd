//! The files of a router: its state as one JSON document, and its decisions as JSON lines beside it.

use super::book::{GateBook, LiveBook, RouterBook};
use super::candidate::DecisionKey;
use super::spending::RouterSpending;
use crate::{AppError, RequestError, Workspace, small_files};
use clawhost_core::escaped;
use clawhost_learn::router::{DECISION_FORMAT, Logged, Router};
use clawhost_learn::{Layer as _, LearnError};
use clawhost_run_config::nearest;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Format of the state's document.
const FORMAT: u32 = 1;
/// The folder of routers inside a data folder.
const FOLDER: &str = "routers";
/// Extension of a state.
const STATE: &str = "json";
/// Extension of a log.
const LOG: &str = "jsonl";
/// Decisions that the log of a router keeps, the latest ones: far more than any evaluation needs.
const KEPT: usize = 50_000;
/// Largest log in bytes: above that of a full one with the largest table. A replay holds all of it in memory.
const LOG_BYTES: u64 = 256 << 20;
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
pub(super) fn router_file(folder: &Path, name: &str, ending: &str) -> PathBuf {
    folder.join(format!("{name}.{ending}"))
}

/// The log of a router; empty if there is none.
///
/// # Errors
/// It cannot be read.
pub(super) fn read_log(folder: &Path, name: &str) -> Result<Vec<Logged>, AppError> {
    let path = router_file(folder, name, LOG);
    if path.exists() { read_decisions(&path) } else { Ok(Vec::new()) }
}

/// Adds the decisions of a run to the log of a router, and returns what is in it then. Decisions that are in the log are not added again: a run
/// that ended in the middle of this is resumed, and an equal run adds nothing.
///
/// # Errors
/// It cannot be read or written.
pub(super) fn add_to_log(folder: &Path, name: &str, added: &[Logged]) -> Result<Vec<Logged>, AppError> {
    let mut log = read_log(folder, name)?;
    let known: BTreeSet<DecisionKey> = log.iter().map(decided).collect();
    log.extend(added.iter().filter(|logged| !known.contains(&decided(logged))).cloned());
    log.drain(..log.len().saturating_sub(KEPT));
    write_log(folder, &router_file(folder, name, LOG), &log)?;
    Ok(log)
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

/// Adds decisions to a log.
///
/// # Errors
/// It cannot be written.
pub(super) fn append_decisions(path: &Path, added: &[Logged]) -> Result<(), AppError> {
    if added.is_empty() {
        return Ok(());
    }
    let mut file =
        std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(|error| unusable(path, error))?;
    file.write_all(&lines(path, added)?).and_then(|()| file.sync_data()).map_err(|error| unusable(path, error))
}

fn lines(path: &Path, log: &[Logged]) -> Result<Vec<u8>, AppError> {
    let mut lines = Vec::new();
    for logged in log {
        serde_json::to_writer(&mut lines, logged).map_err(|error| unusable(path, error))?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// What a decision is known by.
pub(super) fn decided(logged: &Logged) -> DecisionKey {
    (logged.decision.session.clone(), logged.decision.parameters)
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

fn write_log(folder: &Path, path: &Path, log: &[Logged]) -> Result<(), AppError> {
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| unusable(path, error))?;
    file.write_all(&lines(path, log)?).map_err(|error| unusable(path, error))?;
    file.persist(path).map_err(|error| unusable(path, error.error))?;
    Ok(())
}

/// Reads a log of decisions with their outcomes, one JSON document a line.
///
/// # Errors
/// It cannot be read, or a line is no record of this format: the message names the line and what is wrong with it.
pub fn read_decisions(path: &Path) -> Result<Vec<Logged>, AppError> {
    let text = clawhost_files::read_text(path, LOG_BYTES).map_err(|error| unusable(path, error))?;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(number, line)| record(line).map_err(|why| unusable(path, format!("line {number}: {why}")))).collect()
}

/// What every version of a record has, with features that may be missing.
#[derive(Deserialize)]
struct Outline {
    decision: OutlinedDecision,
}

#[derive(Deserialize)]
struct OutlinedDecision {
    format: u32,
    #[serde(default)]
    features: Vec<(String, Option<f64>)>,
}

/// A record of a line. Its format is looked at first: a record of another one may have other fields.
fn record(line: &str) -> Result<Logged, String> {
    let read: Result<Logged, serde_json::Error> = serde_json::from_str(line);
    // JSON has no NaN. Writers put `null` in its place, or the bare word.
    let outline = || serde_json::from_str(line).or_else(|_| serde_json::from_str(&line.replace("NaN", "null")));
    let named = || -> Option<LearnError> {
        let Outline { decision } = outline().ok()?;
        if decision.format != DECISION_FORMAT {
            return Some(LearnError::DecisionFormat { found: decision.format, expected: DECISION_FORMAT });
        }
        let (name, _) = decision.features.into_iter().find(|(_, value)| value.is_none())?;
        Some(LearnError::Feature { name: escaped(&name, SHOWN_BYTES), value: f64::NAN })
    };
    let logged = match read {
        Ok(logged) => logged,
        Err(error) => return Err(named().map_or_else(|| error.to_string(), |named| named.to_string())),
    };
    logged.decision.check().map_err(|error| error.to_string())?;
    Ok(logged)
}

#[cfg(test)]
mod tests {
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
    fn what_a_run_logged_is_added_once() {
        let data = tempfile::tempdir().unwrap();
        let folder = data.path();
        let Simulation { log, .. } = world();
        let (first, rest) = log.split_at(12);
        assert_eq!(add_to_log(folder, "r", first).unwrap(), first);
        for _ in 0..2 {
            assert_eq!(add_to_log(folder, "r", rest).unwrap(), log);
        }
        assert_eq!(read_log(folder, "r").unwrap(), log);
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
        assert!(refused(Some("../first")).ends_with("there is no such file"), "a path is no name");
        let path = routers_folder(data.path()).join("first.json");
        std::fs::write(&path, r#"{"format": 2, "router": {}}"#).unwrap();
        assert!(refused(Some("first")).ends_with("format 2; this program reads format 1"));
        std::fs::write(&path, r#"{"format": 1, "router": {"version": 3}}"#).unwrap();
        assert!(refused(Some("first")).contains("first.json: router: a state that cannot be read: missing field"));
    }

    #[test]
    fn a_line_that_is_no_record_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let good = serde_json::to_string(&world().log[0]).unwrap();
        let check = |change: &dyn Fn(&str) -> String, expect: &str| {
            std::fs::write(&path, format!("{good}\n\n{}\n", change(&good))).unwrap();
            let error = read_decisions(&path).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{}: line 3: ", path.display())), "{error}");
            assert!(error.contains(expect), "{error}");
        };
        check(
            &|good| good.replacen("\"format\":1", "\"format\":2", 1),
            "a decision of format 2; this version reads format 1",
        );
        check(&|_| r#"{"decision":{"format":7,"who":"else"}}"#.to_owned(), "a decision of format 7");
        let first = |good: &str, value: &str| {
            let at = good.find("\"characters\",").unwrap() + "\"characters\",".len();
            let end = at + good[at..].find(']').unwrap();
            format!("{}{value}{}", &good[..at], &good[end..])
        };
        let null = |good: &str| -> String { first(good, "null") };
        check(&null, "feature characters is NaN");
        check(&|good| first(good, "NaN"), "feature characters is NaN");
        check(&|good| first(good, "1e300"), "feature characters is 1000");
        check(&|good| good.replacen("\"propensity\":", "\"propensity\":3", 1), "do not add up to 1");
        check(&|_| "no JSON".to_owned(), "expected");
        check(&|good| good[..good.len() / 2].to_owned(), "EOF");
        std::fs::write(&path, format!("{good}\n")).unwrap();
        assert_eq!(read_decisions(&path).unwrap().len(), 1);
        let missing = read_decisions(&folder.path().join("missing")).unwrap_err();
        assert!(missing.to_string().contains("missing: "), "{missing}");
    }
}
