//! The ledger: one entry per change of a record, in the order of commits, in the transaction of the change.
//!
//! An entry has the digest of what was written, and a code: HMAC-SHA256 over the entry and the code of the one before. So an entry
//! cannot be changed, moved, inserted or removed without the key. Digests are those of the texts before compression, so a
//! document may be compressed anew. What is removed on request leaves an entry that says so, and its digests stay. What is forgotten on
//! request leaves such an entry, too, and its digests are erased: the codes stay, so the chain holds.

use crate::error::Fault;
use crate::keys::EpisodeKey;
use clawhost_core::{Digest, LedgerKey, RunId};
use hmac::{Hmac, Mac as _};
use rusqlite::types::{FromSql, FromSqlResult, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Params, Transaction, params};
use sha2::Sha256;

/// The table of this module.
pub(crate) const TABLE: &str = "
    -- Every change of a record, in the order of commits. No entry is ever removed here.
    CREATE TABLE ledger (
        sequence INTEGER PRIMARY KEY,
        kind INTEGER NOT NULL,
        -- The entry with which its run began.
        run INTEGER,
        -- An episode, the number of an iteration, or the id of a run that begins.
        subject,
        -- Empty: erased, because its episode was forgotten.
        digest BLOB NOT NULL,
        code BLOB NOT NULL
    );
    CREATE INDEX ledger_marks ON ledger (kind, subject) WHERE kind <= 1;
";

/// Bytes of a code: half of an HMAC-SHA256, which RFC 2104 allows. Every episode has one.
pub(crate) const CODE_BYTES: usize = 16;

/// Separates the key of the ledger from other uses of the host's key.
const PURPOSE: &[u8] = b"clawhost ledger key 1";
/// What is authenticated to recognise a key.
const KEY_CHECK: &[u8] = b"clawhost ledger key check 1";

/// What an entry is about. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// From here on another key authenticates.
    Key = 0,
    /// A run began.
    Begun = 1,
    /// A run ended or was reopened: its state and its summary.
    State = 2,
    /// The name and tags of a run changed.
    Labels = 3,
    /// An episode with its verdicts.
    Episode = 4,
    /// An episode took the place of a cancelled one.
    Replaced = 5,
    /// A later verdict of an episode.
    Verdict = 6,
    /// The checkpoint of a learning run.
    Checkpoint = 7,
    /// The report of an iteration.
    Report = 8,
    /// An episode was removed on request.
    PrunedEpisode = 9,
    /// All episodes of a run were removed on request.
    PrunedEpisodes = 10,
    /// The checkpoint was removed on request.
    PrunedCheckpoint = 11,
    /// The reports of iterations were removed on request.
    PrunedReports = 12,
    /// The run was removed on request.
    Removed = 13,
    /// An episode was forgotten on request. The digests of its entries were erased; its own digest is that of their places.
    Forgotten = 14,
}

impl EntryKind {
    const ALL: [Self; 15] = [
        Self::Key,
        Self::Begun,
        Self::State,
        Self::Labels,
        Self::Episode,
        Self::Replaced,
        Self::Verdict,
        Self::Checkpoint,
        Self::Report,
        Self::PrunedEpisode,
        Self::PrunedEpisodes,
        Self::PrunedCheckpoint,
        Self::PrunedReports,
        Self::Removed,
        Self::Forgotten,
    ];

    /// The kind of a stored number.
    pub(crate) fn of(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as i64 == number)
    }
}

/// The ledger's key, from the key of the host.
pub fn ledger_key(host: &[u8; 32]) -> LedgerKey {
    LedgerKey(authenticated(host, PURPOSE))
}

fn authenticated(key: &[u8; 32], text: &[u8]) -> [u8; 32] {
    // A key of any length is allowed, so this cannot fail; without a code nothing would verify.
    Hmac::<Sha256>::new_from_slice(key).map_or([0; 32], |mut mac| {
        mac.update(text);
        mac.finalize().into_bytes().into()
    })
}

/// The digest of the entry that names a key.
pub(crate) fn key_check(key: &LedgerKey) -> Digest {
    Digest::from_bytes(authenticated(&key.0, KEY_CHECK))
}

/// The digest of the entry that says that an episode was forgotten: of the numbers and kinds of the entries whose digests were erased with it, so that no other
/// entry can be passed off as one of them.
pub(crate) fn of_erased(entries: &[(i64, i64)]) -> Digest {
    let text: Vec<u8> =
        entries.iter().flat_map(|(number, kind)| [number.to_be_bytes(), kind.to_be_bytes()]).flatten().collect();
    Digest::of(&text)
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) sequence: i64,
    pub(crate) kind: i64,
    pub(crate) run: Option<i64>,
    pub(crate) subject: Option<String>,
    pub(crate) digest: Vec<u8>,
}

impl Entry {
    /// Its code after another one. Every part has its length, so that two entries never have one text.
    pub(crate) fn code(&self, key: &LedgerKey, before: &[u8]) -> Vec<u8> {
        let subject = self.subject.as_deref();
        let mut text = Vec::with_capacity(160);
        for part in [
            before,
            &self.sequence.to_be_bytes(),
            &self.kind.to_be_bytes(),
            &self.run.map_or([0xff; 8], i64::to_be_bytes),
            &[u8::from(subject.is_some())],
            subject.unwrap_or_default().as_bytes(),
            &self.digest,
        ] {
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part);
        }
        let mut code = authenticated(&key.0, &text).to_vec();
        code.truncate(CODE_BYTES);
        code
    }
}

/// Adds entries in one transaction.
pub(crate) struct Ledger<'a> {
    transaction: &'a Transaction<'a>,
    key: &'a LedgerKey,
    /// The last entry and its code; `None`: not read yet.
    last: Option<(i64, Vec<u8>)>,
    run: Option<(RunId, i64)>,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(transaction: &'a Transaction<'a>, key: &'a LedgerKey) -> Self {
        Self { transaction, key, last: None, run: None }
    }

    /// Adds an entry about a run that has begun.
    pub(crate) fn add(
        &mut self,
        kind: EntryKind,
        run: &RunId,
        subject: Option<&str>,
        digest: &Digest,
    ) -> Result<(), Fault> {
        let begun = self.begun(run)?;
        self.write(kind, Some(begun), subject, digest)
    }

    /// Adds the entry with which a run begins.
    pub(crate) fn begin(&mut self, run: &RunId, digest: &Digest) -> Result<(), Fault> {
        self.write(EntryKind::Begun, None, Some(&run.0), digest)
    }

    /// The entry with which a run began; 0: there is none, which checking the ledger shows.
    pub(crate) fn begun(&mut self, run: &RunId) -> rusqlite::Result<i64> {
        if let Some((_, begun)) = self.run.as_ref().filter(|(known, _)| known == run) {
            return Ok(*begun);
        }
        let begun: Option<i64> = self
            .transaction
            .prepare_cached("SELECT max(sequence) FROM ledger WHERE kind <= 1 AND kind = 1 AND subject = ?")?
            .query_row([&run.0], |row| row.get(0))?;
        let begun = begun.unwrap_or(0);
        self.run = Some((run.clone(), begun));
        Ok(begun)
    }

    fn write(
        &mut self,
        kind: EntryKind,
        run: Option<i64>,
        subject: Option<&str>,
        digest: &Digest,
    ) -> Result<(), Fault> {
        if self.last.is_none() {
            self.last = Some(last(self.transaction)?);
            let check = key_check(self.key);
            if key_in_use(self.transaction)?.as_deref() != Some(check.as_bytes()) {
                self.insert(EntryKind::Key, None, None, &check)?;
            }
        }
        self.insert(kind, run, subject, digest)
    }

    fn insert(
        &mut self,
        kind: EntryKind,
        run: Option<i64>,
        subject: Option<&str>,
        digest: &Digest,
    ) -> Result<(), Fault> {
        let (number, before) = self.last.take().unwrap_or_default();
        let entry = Entry {
            sequence: number.saturating_add(1),
            kind: kind as i64,
            run,
            subject: subject.map(str::to_owned),
            digest: digest.as_bytes().to_vec(),
        };
        let code = entry.code(self.key, &before);
        let key = match kind {
            EntryKind::Begun => subject.map(|text| Value::Text(text.to_owned())),
            _ => subject.map(|text| EpisodeKey::of(text).value()),
        };
        self.transaction
            .prepare_cached(
                "INSERT INTO ledger (sequence, kind, run, subject, digest, code) VALUES (?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![entry.sequence, entry.kind, entry.run, key, entry.digest, code])?;
        self.last = Some((entry.sequence, code));
        Ok(())
    }
}

/// The number and the code of the last entry. A code that cannot be read breaks the chain, and checking shows it.
fn last(connection: &Connection) -> rusqlite::Result<(i64, Vec<u8>)> {
    let found = connection
        .prepare_cached("SELECT sequence, code FROM ledger ORDER BY sequence DESC LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1).unwrap_or_default())))
        .optional()?;
    Ok(found.unwrap_or_default())
}

/// The digest that names the last key.
fn key_in_use(connection: &Connection) -> rusqlite::Result<Option<Vec<u8>>> {
    let found = connection
        .prepare_cached("SELECT digest FROM ledger WHERE kind <= 1 AND kind = 0 ORDER BY sequence DESC LIMIT 1")?
        .query_row([], |row| Ok(row.get::<_, Vec<u8>>(0).ok()))
        .optional()?;
    Ok(found.flatten())
}

/// A value of any type, even a text that is not UTF-8.
pub(crate) struct Any(pub(crate) Value);

impl FromSql for Any {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(match value {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Real(number) => Value::Real(number),
            ValueRef::Blob(bytes) => Value::Blob(bytes.to_owned()),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Value::Text(text.to_owned()),
                Err(_) => Value::Blob(bytes.to_owned()),
            },
        }))
    }
}

/// The digest of all values that a query gives, with their types.
fn digest_of_rows(connection: &Connection, sql: &str, values: impl Params) -> rusqlite::Result<Digest> {
    let mut statement = connection.prepare_cached(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query(values)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            let (kind, bytes) = match row.get::<_, Any>(column)?.0 {
                Value::Null => (0_u8, Vec::new()),
                Value::Integer(number) => (1, number.to_be_bytes().to_vec()),
                Value::Real(number) => (2, number.to_bits().to_be_bytes().to_vec()),
                Value::Text(text) => (3, text.into_bytes()),
                Value::Blob(bytes) => (4, bytes),
            };
            all.push(kind);
            all.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
            all.extend_from_slice(&bytes);
        }
    }
    Ok(Digest::of(&all))
}

/// The digest of what never changes of a run.
pub(crate) fn of_run(connection: &Connection, run: &RunId) -> rusqlite::Result<Digest> {
    let sql = "SELECT id, parent, kind, environment, state_id, config, digest, basis, planned, created_at FROM runs
        WHERE id = ?";
    digest_of_rows(connection, sql, [&run.0])
}

/// The digest of a run's state and summary.
pub(crate) fn of_state(connection: &Connection, run: &RunId) -> rusqlite::Result<Digest> {
    digest_of_rows(connection, "SELECT state, summary FROM runs WHERE id = ?", [&run.0])
}

/// The digest of the state of a run that only began.
pub(crate) fn of_begun_state(connection: &Connection) -> rusqlite::Result<Digest> {
    digest_of_rows(connection, "SELECT ?, NULL", [crate::records::state_name(clawhost_core::RunState::Open)])
}

/// The digest of a run's name and tags. Without any: that of nothing.
pub(crate) fn of_labels(connection: &Connection, run: &RunId) -> rusqlite::Result<Digest> {
    let sql = "SELECT 'name', name FROM run_names WHERE run = ?1 UNION ALL
        SELECT * FROM (SELECT 'tag', tag FROM run_tags WHERE run = ?1 ORDER BY tag)";
    digest_of_rows(connection, sql, [&run.0])
}

/// The digest of the labels of a run without labels.
pub(crate) fn of_no_labels() -> Digest {
    Digest::of(&[])
}

/// The digest of an episode: of its document and of the verdicts that were recorded with it.
pub(crate) fn of_episode<'a>(document: &str, verdicts: impl IntoIterator<Item = &'a str>) -> Digest {
    let first = Digest::of(document.as_bytes());
    verdicts.into_iter().fold(first, |digest, verdict| digest.extended(Digest::of(verdict.as_bytes()).as_bytes()))
}

/// The digest of a checkpoint: of its state, and of its large parts by name.
pub(crate) fn of_checkpoint(
    connection: &Connection,
    run: &RunId,
    iteration: u64,
    state: &str,
) -> rusqlite::Result<Digest> {
    let sql = "SELECT name, digest, size FROM large_states WHERE run = ? ORDER BY name";
    let large = digest_of_rows(connection, sql, [&run.0])?;
    Ok(Digest::of(state.as_bytes()).extended(&iteration.to_be_bytes()).extended(large.as_bytes()))
}
