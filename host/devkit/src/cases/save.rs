//! Turns a recorded episode into a test case: what happened once is expected from then on.

use super::accept;
use super::answer::written;
use super::compare::Happened;
use super::text;
use crate::DevkitError;
use clawhost_app::PluginFolder;
use clawhost_core::{Ending, Episode, EpisodeOrigin, FailureKind, JournalEntry, Message, Turn};
use clawhost_package::{Kind, MANIFEST_FILE};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value};

/// Largest file of cases in bytes.
const FILE_BYTES: u64 = 4 << 20;
/// How a new file begins.
const HEADER: &str = include_str!("../../templates/common/cases.toml");

/// A saved case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Saved {
    /// The file.
    pub file: PathBuf,
    /// The name of the case.
    pub name: String,
    /// The kind of plugin that it is for.
    pub kind: Kind,
}

/// Adds a case to a file, which is made if it is missing. A file in the folder `tests` of a reward or a reflector gets the recorded turns;
/// any other one the task and the agent's answers, with what the environment said to them.
///
/// # Errors
/// The file has this case already, is no file of cases, or cannot be written; or the episode cannot be written as a case.
pub fn save(episode: &Episode, file: &Path) -> Result<Saved, DevkitError> {
    let wrong = |why: String| DevkitError::Cases { path: file.display().to_string(), why };
    let old = match file.exists() {
        true => clawhost_files::read_text(file, FILE_BYTES).map_err(|error| wrong(error.to_string()))?,
        false => HEADER.to_owned(),
    };
    let name = format!("episode {} of {}", episode.id, episode.run);
    let known = text::parse(&old).map_err(wrong)?;
    if known.cases.iter().any(|case| case.name == name) {
        return Err(wrong(format!("there is a case `{name}` already")));
    }
    let plugin = plugin_of(file)?;
    let kind = plugin.as_ref().map_or(Kind::Environment, |plugin| plugin.manifest().plugin.kind);
    let own = plugin.as_ref().map(|plugin| plugin.manifest().plugin.name.to_string());
    let table = match kind {
        Kind::Environment | Kind::Router => acted(episode, &name),
        Kind::Reward | Kind::Reflector => judged(episode, &name, kind, own.as_deref()),
    };
    let mut document: DocumentMut = old.parse().map_err(|error: toml_edit::TomlError| wrong(error.to_string()))?;
    let cases = document.entry("case").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let cases = cases.as_array_of_tables_mut().ok_or_else(|| wrong("its cases are no tables [[case]]".to_owned()))?;
    cases.push(table.map_err(|why| wrong(format!("{name}: {why}")))?);
    let new = document.to_string();
    // What is written is what is read.
    text::parse(&new).map_err(wrong)?;
    crate::write::replace(file, new.as_bytes())?;
    Ok(Saved { file: file.to_owned(), name, kind })
}

/// The plugin in whose folder `tests` the file lies.
fn plugin_of(file: &Path) -> Result<Option<PluginFolder>, DevkitError> {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.ancestors().nth(2).filter(|folder| folder.join(MANIFEST_FILE).exists());
    Ok(folder.map(PluginFolder::open).transpose()?)
}

fn named(episode: &Episode, name: &str) -> Table {
    let mut table = Table::new();
    set(&mut table, "name", name);
    if let EpisodeOrigin::Simulated(simulated) = &episode.origin {
        let seed = i64::try_from(simulated.seed).unwrap_or(i64::MAX);
        table.insert("seed", Item::Value(Value::from(seed)));
    }
    table
}

fn set(table: &mut Table, key: &str, value: impl Into<Value>) {
    table.insert(key, Item::Value(value.into()));
}

/// A list with a line for each entry.
fn listed(values: impl IntoIterator<Item = Value>) -> Value {
    let mut array = Array::new();
    for mut value in values {
        value.decor_mut().set_prefix("\n    ");
        array.push_formatted(value);
    }
    array.set_trailing(if array.is_empty() { "" } else { "\n" });
    array.set_trailing_comma(!array.is_empty());
    Value::Array(array)
}

fn answer(message: &Message) -> Result<String, String> {
    written(message).ok_or_else(|| {
        "an answer cannot be written as a case: a line of its text looks like a call of a tool, or the arguments of a call have several lines".to_owned()
    })
}

/// A case for the environment. Its reward is left out: other rewards may have judged the episode, or a person.
fn acted(episode: &Episode, name: &str) -> Result<Table, String> {
    let EpisodeOrigin::Simulated(simulated) = &episode.origin else {
        return Err("it is a live conversation and has no environment; save it in the folder `tests` of a reward or a reflector".to_owned());
    };
    if let Ending::Failed(failure) = &episode.ending
        && matches!(failure.kind, FailureKind::Llm | FailureKind::Host | FailureKind::Cancelled)
    {
        return Err(format!("it ended by its model or its host, which a case does not have: {failure}"));
    }
    if simulated.branch.is_some() {
        return Err("it continues another episode; save that one".to_owned());
    }
    let mut table = named(episode, name);
    let mut options = InlineTable::new();
    for (option, value) in &simulated.options {
        options.insert(option, Value::from(value.as_str()));
    }
    if !options.is_empty() {
        set(&mut table, "options", options);
    }
    table.insert("max_turns", Item::Value(Value::from(i64::from(simulated.max_turns))));
    let taken =
        episode.turns.iter().map(|turn| &turn.action).chain(episode.untaken.iter().map(|untaken| &untaken.action));
    let actions = taken.map(|message| answer(message).map(Value::from)).collect::<Result<Vec<_>, _>>()?;
    set(&mut table, "actions", listed(actions));
    replies(&mut table, &episode.journal)?;
    let mut given = Table::new();
    set(&mut given, "id", episode.task.id.as_str());
    set(&mut given, "split", episode.task.split.as_str());
    if !episode.task.input.is_empty() {
        set(&mut given, "input", episode.task.input.as_str());
    }
    if let Some(reference) = &episode.task.reference {
        set(&mut given, "reference", reference.as_str());
    }
    if !episode.task.tags.is_empty() {
        set(&mut given, "tags", episode.task.tags.iter().map(String::as_str).collect::<Array>());
    }
    if !episode.task.extra.is_empty() {
        let pair =
            |(name, value): &(String, String)| Value::Array([name.as_str(), value.as_str()].into_iter().collect());
        set(&mut given, "extra", episode.task.extra.iter().map(pair).collect::<Array>());
    }
    table.insert("given", Item::Table(given));
    expecting(&mut table, &Happened { verdict: None, reward: None, ..Happened::in_episode(episode) });
    Ok(table)
}

/// What models answered to the plugin, by alias.
fn replies(table: &mut Table, journal: &[JournalEntry]) -> Result<(), String> {
    let mut by_alias: BTreeMap<String, Array> = BTreeMap::new();
    for entry in journal {
        let alias = entry.request.get("alias").and_then(|alias| alias.as_str());
        let (Some(alias), Some(answer)) = (alias, entry.answer()) else { continue };
        let answer = answer
            .map_err(|error| format!("a model that it asked did not answer, which a case cannot say: {error}"))?;
        by_alias.entry(alias.to_owned()).or_default().push(answer.message.plain_text());
    }
    if !by_alias.is_empty() {
        let mut all = InlineTable::new();
        by_alias.into_iter().for_each(|(alias, texts)| drop(all.insert(alias, Value::Array(texts))));
        set(table, "replies", all);
    }
    Ok(())
}

fn expecting(table: &mut Table, happened: &Happened) {
    let mut expect = Table::new();
    accept::write(&mut expect, happened);
    table.insert("expect", Item::Table(expect));
}

/// A case for a reward or a reflector.
fn judged(episode: &Episode, name: &str, kind: Kind, own: Option<&str>) -> Result<Table, String> {
    let mut table = named(episode, name);
    if !episode.task.input.is_empty() {
        set(&mut table, "input", episode.task.input.as_str());
    }
    if let Some(reference) = episode.task.reference.as_ref().filter(|_| kind == Kind::Reward) {
        set(&mut table, "reference", reference.as_str());
    }
    let said = |messages: &[Message]| messages.iter().map(Message::plain_text).collect::<Vec<_>>().join("\n");
    let turns =
        episode.turns.iter().map(|turn| recorded(turn, &said).map(Value::from)).collect::<Result<Vec<_>, _>>()?;
    set(&mut table, "turns", listed(turns));
    let closing = said(&episode.closing);
    if !closing.is_empty() {
        set(&mut table, "closing", closing);
    }
    if matches!(episode.ending, Ending::Truncated(_)) {
        set(&mut table, "ended", "truncated");
    }
    if kind == Kind::Reflector {
        if let Some(reward) = episode.reward {
            set(&mut table, "reward", reward);
        }
        return Ok(table);
    }
    let mut artefacts = InlineTable::new();
    for artefact in &episode.artefacts {
        let text = std::str::from_utf8(&artefact.bytes);
        let text =
            text.map_err(|_| format!("its file `{}` is no text", clawhost_core::escaped(&artefact.name, 100)))?;
        artefacts.insert(&artefact.name, Value::from(text));
    }
    if !artefacts.is_empty() {
        set(&mut table, "artefacts", artefacts);
    }
    // The latest verdict of this reward. Of another one nothing is expected of it.
    let record = episode.verdicts.iter().rev().find(|record| own.is_some_and(|own| record.reward.name == own));
    let record = record.ok_or("this reward has not judged it; `clawhost score` does that")?;
    replies(&mut table, &record.journal)?;
    expecting(&mut table, &Happened::verdict(&record.verdict));
    Ok(table)
}

fn recorded(turn: &Turn, said: &dyn Fn(&[Message]) -> String) -> Result<InlineTable, String> {
    let mut table = InlineTable::new();
    let observation = said(&turn.observation);
    if !observation.is_empty() {
        table.insert("observation", Value::from(observation));
    }
    table.insert("answer", Value::from(answer(&turn.action)?));
    if !turn.tool_results.is_empty() {
        table.insert("results", Value::Array(turn.tool_results.iter().map(Message::plain_text).collect()));
    }
    if !turn.signals.is_empty() {
        let signals = turn.signals.iter().map(|signal| (signal.name.clone(), Value::from(signal.value)));
        table.insert("signals", Value::InlineTable(signals.collect()));
    }
    Ok(table)
}
