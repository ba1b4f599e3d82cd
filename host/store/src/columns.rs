//! Compares the columns of an episode with its document. Lists and filters read columns, so a column that says something else
//! than the document would show another episode than the one that replays.

use crate::episode_rows::{Setting, ending_columns, pending_until, verdict_numbers};
use crate::integers::signed;
use crate::keys::EpisodeKey;
use crate::ledger::Any;
use crate::reader::Reader;
use clawhost_core::{Discrepancy, Episode, StoreError, effective_reward, escaped};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params};

/// Characters of a text that are shown.
const SHOWN: usize = 160;

/// The columns that repeat parts of a document, in the order of [`expected`].
const COLUMNS: [(&str, &str); 18] = [
    ("position", "e.position"),
    ("group_number", "e.group_number"),
    ("task", "e.task"),
    ("reward", "e.reward"),
    ("turns", "e.turns"),
    ("created_at", "e.created_at"),
    ("pending_until", "e.pending_until"),
    ("revision", "e.revision"),
    ("environment", "s.environment"),
    ("environment_digest", "s.environment_digest"),
    ("state_id", "s.state_id"),
    ("split", "s.split"),
    ("format", "s.format"),
    ("live", "s.live"),
    ("expects", "s.expects"),
    ("ending", "n.label"),
    ("failure_kind", "n.failure_kind"),
    ("failure_code", "n.failure_code"),
];

fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Integer(number) => Some(number.to_string()),
        Value::Real(number) => Some(number.to_string()),
        Value::Text(text) => {
            let part: String = text.chars().take(SHOWN).collect();
            Some(format!("`{}`", escaped(&part, 4 * SHOWN)))
        }
        Value::Blob(bytes) => Some(format!("{} bytes", bytes.len())),
    }
}

/// What the columns ought to have.
fn expected(episode: &Episode) -> [Value; COLUMNS.len()] {
    let text = |text: Option<String>| text.map_or(Value::Null, Value::Text);
    let number = |number: u64| Value::Integer(signed(number));
    let setting = Setting::of(episode);
    let (label, kind, code) = ending_columns(&episode.ending);
    [
        number(episode.index),
        number(episode.group()),
        Value::Text(episode.task.key()),
        effective_reward(&episode.verdicts).map_or(Value::Null, Value::Real),
        number(episode.turns.len() as u64),
        number(episode.created_at),
        pending_until(episode.state(0)).map_or(Value::Null, Value::Integer),
        number(u64::from(episode.revision())),
        Value::Text(setting.environment),
        Value::Text(setting.environment_digest.map(|digest| digest.to_string()).unwrap_or_default()),
        Value::Text(setting.state_id.to_string()),
        Value::Text(setting.split),
        number(u64::from(setting.format)),
        number(u64::from(setting.is_live)),
        Value::Text(setting.expects),
        text(Some(label)),
        text(kind),
        text(code),
    ]
}

/// The row of an episode: its number, and the values of the columns.
fn read(connection: &Connection, episode: &Episode) -> rusqlite::Result<Option<(i64, Vec<Value>)>> {
    let columns: Vec<&str> = COLUMNS.iter().map(|(_, column)| *column).collect();
    let sql = format!(
        "SELECT e.number, {} FROM runs r JOIN episodes e ON e.run = r.number LEFT JOIN settings s ON s.number = e.setting
         LEFT JOIN endings n ON n.number = e.ending WHERE r.id = ? AND e.id = ?",
        columns.join(", ")
    );
    connection
        .prepare_cached(&sql)?
        .query_row(params![episode.run.0, EpisodeKey::of(&episode.id.0)], |row| {
            let values = (1..=COLUMNS.len()).map(|place| row.get::<_, Any>(place).map(|any| any.0));
            Ok((row.get(0)?, values.collect::<rusqlite::Result<_>>()?))
        })
        .optional()
}

/// The positions of an episode's verdicts, with the digests of their rewards.
fn verdicts(connection: &Connection, number: i64) -> rusqlite::Result<Vec<(i64, Value)>> {
    connection
        .prepare_cached(
            "SELECT v.position, w.digest FROM verdicts v LEFT JOIN rewards w ON w.number = v.reward
             WHERE v.number BETWEEN ? AND ? ORDER BY v.number",
        )?
        .query_map(verdict_numbers(number), |row| Ok((row.get(0)?, row.get::<_, Any>(1)?.0)))?
        .collect()
}

/// The differences between an episode that was read and its columns. An episode that was removed meanwhile has none.
pub(crate) fn unlike(reader: &Reader, episode: &Episode) -> Result<Vec<Discrepancy>, StoreError> {
    let record = format!("{}/{}", episode.run, episode.id);
    let Some((number, found)) = reader.query(|connection| read(connection, episode))? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for (((name, _), recorded), expected) in COLUMNS.iter().zip(&found).zip(expected(episode)) {
        if *recorded != expected {
            let (recorded, expected) = (shown(recorded), shown(&expected));
            all.push(Discrepancy { record: record.clone(), what: format!("column {name}"), recorded, expected });
        }
    }
    let rows = reader.query(|connection| verdicts(connection, number))?;
    let mut next = 0;
    for ((position, reward), verdict) in rows.iter().zip(&episode.verdicts) {
        for missing in next..*position {
            let expected = Some("there: a later one is".to_owned());
            let what = format!("the verdict at position {missing}");
            all.push(Discrepancy { record: record.clone(), what, recorded: None, expected });
        }
        next = position.saturating_add(1);
        let (recorded, expected) = (shown(reward), shown(&Value::Text(verdict.reward.digest.to_string())));
        all.extend(Discrepancy::between(&record, format!("column reward of verdict {position}"), recorded, expected));
    }
    Ok(all)
}
