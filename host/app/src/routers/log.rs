//! The log of a router: decisions with their outcomes, one JSON document a line, the oldest first.
//!
//! Learning runs replace the file, and gateways append to it. Each holds the lease of the router while it writes. Both drop the oldest
//! decisions of a long log, because a log above the limit of what is read would stop promotions and replays.

use super::candidate::DecisionKey;
use super::files::{router_file, unusable};
use crate::AppError;
use clawhost_core::escaped;
use clawhost_learn::LearnError;
use clawhost_learn::router::{DECISION_FORMAT, Logged};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// Extension of a log.
pub(super) const LOG: &str = "jsonl";
/// Decisions that a run leaves in the log of a router, the latest ones: far more than any evaluation needs.
const KEPT: usize = 50_000;
/// Largest log in bytes. A replay holds all of it in memory.
const LOG_BYTES: u64 = 256 << 20;
/// How long a log may become. It is far from what can be read when it is full, so that what one pass of a gateway adds fits; and it loses half of
/// that at once, so that it is seldom written anew.
const BOUNDS: Bounds = Bounds { full: LOG_BYTES / 2, trimmed: LOG_BYTES / 4 };
/// A file of which only the end is read may have any size.
const ANY_SIZE: u64 = u64::MAX;
/// Bytes that are looked at together for the end of a line: some decisions.
const CHUNK: u64 = 8 << 10;
/// Longest part of a name that a message repeats, in bytes.
const SHOWN_BYTES: usize = 80;

/// Sizes of a log in bytes.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// From here on its oldest decisions are dropped.
    full: u64,
    /// What is left then, at most.
    trimmed: u64,
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
    let path = router_file(folder, name, LOG);
    mend(&path)?;
    let mut log = read_log(folder, name)?;
    let known: BTreeSet<DecisionKey> = log.iter().map(decided).collect();
    log.extend(added.iter().filter(|logged| !known.contains(&decided(logged))).cloned());
    log.drain(..log.len().saturating_sub(KEPT));
    let written = lines(&path, &log)?;
    let kept = latest(&written, BOUNDS.full);
    let dropped = written.len().saturating_sub(kept.len());
    let dropped = written.get(..dropped).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count();
    log.drain(..dropped.min(log.len()));
    replace(folder, &path, kept)?;
    Ok(log)
}

/// Adds decisions to a log, which must have no torn end ([`mend`]). One that is full then loses its oldest decisions; if that fails, the next
/// addition does it.
///
/// # Errors
/// It cannot be written. Then nothing was added.
pub(super) fn append_decisions(path: &Path, added: &[Logged]) -> Result<(), AppError> {
    append_within(path, added, BOUNDS)
}

fn append_within(path: &Path, added: &[Logged], bounds: Bounds) -> Result<(), AppError> {
    if added.is_empty() {
        return Ok(());
    }
    let added = lines(path, added)?;
    append(path, &added).map_err(|error| unusable(path, error))?;
    // The decisions are in the log: a failure here must not have them added again.
    if let Err(error) = trim(path, bounds) {
        tracing::warn!("a log of decisions stays long: {error}");
    }
    Ok(())
}

fn append(path: &Path, added: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(added)?;
    file.sync_data()
}

/// Drops the oldest decisions of a full log.
fn trim(path: &Path, bounds: Bounds) -> Result<(), AppError> {
    let full = tail(path, bounds).map_err(|error| unusable(path, error))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    full.map_or(Ok(()), |tail| replace(folder, path, latest(&tail, bounds.trimmed)))
}

/// The end of a full log: one byte more than is kept of it, so that a line that begins there is whole. `None`: it is not full.
fn tail(path: &Path, bounds: Bounds) -> io::Result<Option<Vec<u8>>> {
    let (mut file, length) = clawhost_files::open(path, ANY_SIZE)?;
    if length <= bounds.full {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(length.saturating_sub(bounds.trimmed + 1)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(Some(tail))
}

/// The last lines of a text that are at most so many bytes together.
fn latest(text: &[u8], most: u64) -> &[u8] {
    let excess = text.len().saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
    if excess == 0 {
        return text;
    }
    // The byte before the first one that fits may end a line.
    let searched = text.get(excess - 1..).unwrap_or_default();
    let begin = searched.iter().position(|byte| *byte == b'\n').map_or(searched.len(), |at| at + 1);
    searched.get(begin..).unwrap_or_default()
}

/// Cuts off a line that a process did not write to its end, because it was killed or the disk was full. Its decisions wait in the store and are
/// written again. A full log then loses its oldest decisions, so that it can be read. A log that is not there is whole.
///
/// # Errors
/// The log cannot be read or written.
pub(super) fn mend(path: &Path) -> Result<(), AppError> {
    mend_within(path, BOUNDS)
}

fn mend_within(path: &Path, bounds: Bounds) -> Result<(), AppError> {
    if !path.exists() {
        return Ok(());
    }
    let mended = || -> io::Result<()> {
        let (mut file, length) = clawhost_files::open(path, ANY_SIZE)?;
        let whole = whole_length(&mut file, length)?;
        if whole < length {
            tracing::warn!("{}: the last {} bytes are no whole line, and were cut off", path.display(), length - whole);
            OpenOptions::new().write(true).open(path)?.set_len(whole)?;
        }
        Ok(())
    };
    mended().map_err(|error| unusable(path, error))?;
    trim(path, bounds)
}

/// The length of a file of this length up to its last line end.
fn whole_length(file: &mut File, length: u64) -> io::Result<u64> {
    let mut end = length;
    while end > 0 {
        let begin = end.saturating_sub(CHUNK);
        file.seek(SeekFrom::Start(begin))?;
        let mut chunk = Vec::new();
        io::Read::by_ref(file).take(end - begin).read_to_end(&mut chunk)?;
        if let Some(at) = chunk.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
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

/// Replaces a log.
///
/// # Errors
/// It cannot be written.
pub(super) fn write_log(folder: &Path, path: &Path, log: &[Logged]) -> Result<(), AppError> {
    replace(folder, path, &lines(path, log)?)
}

/// The bytes of a log.
///
/// # Errors
/// It cannot be read.
pub(super) fn lines_of(path: &Path) -> Result<Vec<u8>, AppError> {
    clawhost_files::read(path, LOG_BYTES).map_err(|error| unusable(path, error))
}

/// Replaces a file whole: a process that is killed leaves the former one or the new one.
pub(super) fn replace(folder: &Path, path: &Path, text: &[u8]) -> Result<(), AppError> {
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| unusable(path, error))?;
    file.write_all(text).and_then(|()| file.as_file().sync_data()).map_err(|error| unusable(path, error))?;
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

    /// The log of the simulation, over and over: decision `at` has the time `at`.
    fn endless(count: u64) -> Vec<Logged> {
        let log = world().log;
        let one = |at: u64| {
            let mut logged = log[at as usize % log.len()].clone();
            logged.decision.time = at;
            logged
        };
        (0..count).map(one).collect()
    }

    fn times(path: &Path) -> Vec<u64> {
        read_decisions(path).unwrap().iter().map(|logged| logged.decision.time).collect()
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
    fn a_log_that_is_full_loses_its_oldest_decisions_and_stays_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        let bounds = Bounds { full: 40_000, trimmed: 20_000 };
        let log = endless(400);
        let (mut trimmed, mut length) = (0, 0);
        for (number, batch) in log.chunks(4).enumerate() {
            append_within(&path, batch, bounds).unwrap();
            let now = std::fs::metadata(&path).unwrap().len();
            assert!(now <= bounds.full, "{now}");
            if now < length {
                // What is left fills what may be left, but for a part of a decision.
                assert!((bounds.trimmed * 3 / 4..=bounds.trimmed).contains(&now), "{now}");
                trimmed += 1;
            }
            length = now;
            let kept = times(&path);
            let last = number as u64 * 4 + 3;
            assert_eq!(kept, (last + 1 - kept.len() as u64..=last).collect::<Vec<_>>());
        }
        assert!(trimmed > 3, "{trimmed}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left there");
    }

    #[test]
    fn a_full_log_that_is_there_already_is_trimmed_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        let log = endless(200);
        append_decisions(&path, &log).unwrap();
        let bounds = Bounds { full: 40_000, trimmed: 20_000 };
        assert!(std::fs::metadata(&path).unwrap().len() > bounds.full);
        mend_within(&path, bounds).unwrap();
        let kept = times(&path);
        assert!(std::fs::metadata(&path).unwrap().len() <= bounds.trimmed);
        assert_eq!(kept, (200 - kept.len() as u64..200).collect::<Vec<_>>(), "the latest ones");
    }

    #[test]
    fn a_full_log_and_what_a_pass_adds_can_be_read() {
        let line = serde_json::to_string(&endless(1)[0]).unwrap().len() as u64;
        // A pass adds at most a thousand decisions. With the largest table they have 32 actions in place of some.
        assert!(BOUNDS.full + 1_000 * 32 * line < LOG_BYTES, "{line}");
        assert!(
            BOUNDS.trimmed > KEPT as u64 * line,
            "a trimmed log has more decisions than any evaluation needs: {line}"
        );
    }

    #[test]
    fn whole_lines_are_kept_wherever_a_cut_falls() {
        let check = |text: &str, most: u64, expect: &str| {
            assert_eq!(latest(text.as_bytes(), most), expect.as_bytes(), "{text:?} {most}");
        };
        check("aa\nbb\ncc\n", 9, "aa\nbb\ncc\n");
        check("aa\nbb\ncc\n", 8, "bb\ncc\n");
        check("aa\nbb\ncc\n", 6, "bb\ncc\n");
        check("aa\nbb\ncc\n", 5, "cc\n");
        check("aa\nbb\ncc\n", 3, "cc\n");
        check("aa\nbb\ncc\n", 2, "");
        check("", 0, "");
    }

    #[test]
    fn a_line_that_was_not_written_to_its_end_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        mend(&path).unwrap();
        assert!(!path.exists());
        let log = endless(3);
        append_decisions(&path, &log[..2]).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for torn in [&b"{\"decision\":{\"format\""[..], &[b'x'; 3 * CHUNK as usize]] {
            std::fs::write(&path, [&whole, torn].concat()).unwrap();
            assert!(read_decisions(&path).is_err());
            mend(&path).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
        append_decisions(&path, &log[2..]).unwrap();
        assert_eq!(times(&path), [0, 1, 2]);
        std::fs::write(&path, "no line end").unwrap();
        mend(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
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
