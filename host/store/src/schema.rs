//! The schema and its migrations. Migrations only go forward. Each runs in a transaction with its version number.

use crate::error::{explain, file};
use crate::{feedback, forgetting, ledger, memory, pool, routing, runs, trials};
use clawhost_core::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// The oldest schema that this program reads. Older ones were never released.
const OLDEST: u32 = 16;

/// `MIGRATIONS[n]` migrates from version `OLDEST + n` to the next one.
const MIGRATIONS: &[&str] = &[];

/// Schema version of this program.
pub const SCHEMA: u32 = newest(MIGRATIONS);

const fn newest(migrations: &[&str]) -> u32 {
    OLDEST + migrations.len() as u32
}

/// How long SQLite waits for another process before it reports a locked database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Time between two attempts if SQLite does not wait itself: short, but long enough for other processes to run.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Size in pages at which the log is written back to the database (16 MiB). SQLite's default of 1,000 rewrote the upper
/// pages of the indexes every few hundred episodes.
const CHECKPOINT_PAGES: u32 = 4_000;

/// Bytes of a database page. A page holds whole rows, and the rows of an episode take some 500 bytes: twice SQLite's
/// default size halves the waste, and is still written in one disk operation.
pub(crate) const PAGE_BYTES: u64 = 8192;

/// The tables of version `OLDEST`, with those of [`runs`], [`ledger`], [`pool`] and [`routing`].
const TABLES: &str = "
    CREATE TABLE runs (
        -- In the order of their beginnings.
        number INTEGER PRIMARY KEY,
        id TEXT UNIQUE NOT NULL,
        parent TEXT,
        kind TEXT NOT NULL,
        environment TEXT NOT NULL,
        state_id TEXT NOT NULL,
        config TEXT NOT NULL,
        digest TEXT NOT NULL,
        -- The document with this digest.
        basis TEXT NOT NULL,
        planned INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        state TEXT NOT NULL,
        summary TEXT,
        spent TEXT,
        -- 1: episodes or the checkpoint were removed, so that it can no longer be resumed.
        pruned INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
    -- Dictionaries of compression. A number is never reused, so that no reader confuses two dictionaries.
    CREATE TABLE dictionaries (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        digest TEXT UNIQUE NOT NULL,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        -- Compressed bytes per million bytes of its samples.
        fit INTEGER NOT NULL,
        content BLOB NOT NULL
    );
    -- Common values of many episodes.
    CREATE TABLE settings (
        number INTEGER PRIMARY KEY,
        environment TEXT NOT NULL,
        -- Empty: it is live.
        environment_digest TEXT NOT NULL,
        state_id TEXT NOT NULL,
        split TEXT NOT NULL,
        format INTEGER NOT NULL,
        -- 1: captured from an agent; 0: played.
        live INTEGER NOT NULL,
        -- The expected verdicts; empty: none.
        expects TEXT NOT NULL,
        UNIQUE (state_id, environment_digest, split, environment, expects, format, live)
    );
    CREATE TABLE endings (
        number INTEGER PRIMARY KEY,
        -- For lists: kind and code included.
        label TEXT UNIQUE NOT NULL,
        -- Of a failure; else NULL.
        failure_kind TEXT,
        failure_code TEXT
    );
    CREATE TABLE episodes (
        -- Never used again: what has looked at all up to a number has not seen what comes behind it.
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL REFERENCES runs(number),
        -- An id that a run assigned as bytes; another id as text.
        id NOT NULL,
        position INTEGER NOT NULL,
        group_number INTEGER NOT NULL,
        task TEXT NOT NULL,
        setting INTEGER NOT NULL,
        ending INTEGER NOT NULL,
        reward REAL,
        turns INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        -- The deadline of a missing verdict; NULL: none is missing.
        pending_until INTEGER,
        -- The number of revisions of its verdicts.
        revision INTEGER NOT NULL DEFAULT 0,
        -- The dictionary of the document; NULL: none.
        dictionary INTEGER,
        -- A BLOB is compressed, a TEXT is not.
        document NOT NULL
    );
    CREATE UNIQUE INDEX episodes_by_id ON episodes (run, id);
    -- Episodes with the values of their references. Lists and filters read this view.
    CREATE VIEW episode_rows AS SELECT
        e.number, r.number AS run_number, r.id AS run, r.parent AS parent,
        CASE typeof(e.id) WHEN 'blob' THEN 'ep-' || lower(hex(e.id)) ELSE e.id END AS id,
        e.position, e.group_number, e.task, s.split, s.environment, s.environment_digest, s.state_id,
        n.label AS ending, n.failure_kind, n.failure_code, e.reward, e.turns, s.format, e.created_at, s.live,
        nullif(s.expects, '') AS expects, e.pending_until, e.revision, e.dictionary, e.document
        FROM episodes e JOIN runs r ON r.number = e.run LEFT JOIN settings s ON s.number = e.setting
        LEFT JOIN endings n ON n.number = e.ending;
    -- Blobs that the document of an episode refers to.
    CREATE TABLE episode_blobs (
        episode INTEGER NOT NULL,
        digest TEXT NOT NULL,
        size INTEGER NOT NULL,
        PRIMARY KEY (episode, digest)
    ) WITHOUT ROWID;
    CREATE INDEX episode_blobs_by_digest ON episode_blobs (digest);
    -- Open episodes: their end is not recorded.
    CREATE TABLE open_episodes (
        run TEXT NOT NULL REFERENCES runs(id),
        id TEXT NOT NULL,
        position INTEGER NOT NULL,
        session TEXT NOT NULL,
        agent TEXT NOT NULL,
        alias TEXT NOT NULL,
        user TEXT,
        project TEXT,
        opened_at INTEGER NOT NULL,
        PRIMARY KEY (run, id)
    ) WITHOUT ROWID;
    -- The exchanges of open episodes. Appending the episode removes them.
    CREATE TABLE exchanges (
        run TEXT NOT NULL,
        episode TEXT NOT NULL,
        position INTEGER NOT NULL,
        at INTEGER NOT NULL,
        -- 0: failed; 1: incomplete; 2: complete.
        outcome INTEGER NOT NULL,
        document TEXT NOT NULL
    );
    CREATE UNIQUE INDEX exchanges_by_episode ON exchanges (run, episode, position);
    -- Responses that clients may read and continue by their ids.
    CREATE TABLE responses (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        run TEXT NOT NULL,
        at INTEGER NOT NULL,
        document TEXT NOT NULL,
        UNIQUE (owner, id)
    );
    CREATE INDEX responses_by_run ON responses (run);
    -- The place up to which exchanges were taken over from files; at most one row.
    CREATE TABLE spool (
        number INTEGER PRIMARY KEY CHECK (number = 1),
        segment INTEGER NOT NULL,
        offset INTEGER NOT NULL
    );
    -- Rewards with verdicts.
    CREATE TABLE rewards (
        number INTEGER PRIMARY KEY,
        digest TEXT UNIQUE NOT NULL
    );
    -- Verdicts are added and never changed: of one question the last one stands. The number combines the episode's number with
    -- the verdict's position.
    CREATE TABLE verdicts (
        number INTEGER PRIMARY KEY,
        episode INTEGER AS (number >> 16),
        position INTEGER AS (number & 65535),
        reward INTEGER NOT NULL,
        dictionary INTEGER,
        document NOT NULL
    );
    -- The merged notes of finished runs.
    CREATE TABLE notes (
        run TEXT NOT NULL REFERENCES runs(id),
        key TEXT NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (run, key)
    ) WITHOUT ROWID;
    -- Notes of episodes; a run merges them when it ends.
    CREATE TABLE episode_notes (
        run INTEGER NOT NULL,
        position INTEGER NOT NULL,
        key TEXT NOT NULL,
        value BLOB,
        PRIMARY KEY (run, key, position)
    ) WITHOUT ROWID;
    -- The last checkpoint of a learning run, and the report of every iteration.
    CREATE TABLE checkpoints (
        run TEXT PRIMARY KEY NOT NULL REFERENCES runs(id),
        iteration INTEGER NOT NULL,
        state NOT NULL
    ) WITHOUT ROWID;
    -- Blobs that the last checkpoint refers to.
    CREATE TABLE large_states (
        run TEXT NOT NULL REFERENCES runs(id),
        name TEXT NOT NULL,
        digest TEXT NOT NULL,
        size INTEGER NOT NULL,
        PRIMARY KEY (run, name)
    ) WITHOUT ROWID;
    CREATE INDEX large_states_by_digest ON large_states (digest);
    CREATE TABLE iterations (
        run TEXT NOT NULL REFERENCES runs(id),
        number INTEGER NOT NULL,
        report NOT NULL,
        PRIMARY KEY (run, number)
    ) WITHOUT ROWID;
    -- All versions of all playbooks.
    CREATE TABLE playbooks (
        name TEXT NOT NULL,
        number INTEGER NOT NULL,
        digest TEXT NOT NULL,
        document NOT NULL,
        why TEXT NOT NULL,
        run TEXT,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (name, number)
    ) WITHOUT ROWID;
    CREATE TABLE ledgers (
        name TEXT PRIMARY KEY NOT NULL,
        document NOT NULL
    ) WITHOUT ROWID;
    -- Stored plugins; their components are blobs.
    CREATE TABLE plugins (
        digest TEXT PRIMARY KEY NOT NULL,
        name TEXT NOT NULL,
        version TEXT NOT NULL,
        world TEXT NOT NULL,
        size INTEGER NOT NULL
    ) WITHOUT ROWID;
";

/// Opens the database for writing, creating or migrating it as needed.
pub(crate) fn open(path: &Path) -> Result<Connection, StoreError> {
    open_with(path, MIGRATIONS)
}

fn open_with(path: &Path, migrations: &[&str]) -> Result<Connection, StoreError> {
    let fail = |error: rusqlite::Error| explain(path, &error);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| file(folder, &error))?;
    }
    let mut connection = Connection::open(path).map_err(fail)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(fail)?;
    // Before anything is written: a database of another program stays unchanged.
    version(path, &connection, migrations)?;
    // WAL: readers and the writer do not wait for each other. FULL: a commit that returned survives a power failure.
    keep_plans(&connection).map_err(fail)?;
    connection.pragma_update(None, "page_size", PAGE_BYTES.cast_signed()).map_err(fail)?;
    write_ahead(&connection).map_err(fail)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(fail)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(fail)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(fail)?;
    migrate(path, &mut connection, migrations)?;
    Ok(connection)
}

/// Makes query plans independent of values. Otherwise SQLite prepares some statements again for every value, which took
/// half of the time of reading an episode.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(|_| ())
}

/// Switches to the write-ahead log. SQLite does not wait for another process that switches at the same moment.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    for _ in 0..BUSY_TIMEOUT.as_millis() / BUSY_PAUSE.as_millis() {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
                std::thread::sleep(BUSY_PAUSE);
            }
            other => return other,
        }
    }
    connection.pragma_update(None, "journal_mode", "WAL")
}

/// Opens an existing database for reading.
pub(crate) fn open_for_reading(path: &Path) -> Result<Connection, StoreError> {
    let fail = |error: rusqlite::Error| explain(path, &error);
    if !path.exists() {
        return Err(StoreError::Empty { path: path.display().to_string() });
    }
    let connection = connect_for_reading(path).map_err(fail)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(fail)?;
    keep_plans(&connection).map_err(fail)?;
    match version(path, &connection, MIGRATIONS)? {
        None => return Err(no_tables(path)),
        Some(SCHEMA) => {}
        // Readers know one schema: an older database must be migrated first.
        Some(_) => drop(open(path)?),
    }
    connection.pragma_update(None, "query_only", true).map_err(fail)?;
    Ok(connection)
}

/// A connection for reading. A database that cannot be written is read as it is: the index of the write-ahead log needs a file beside
/// it, which cannot be created in a read-only folder.
fn connect_for_reading(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let log = std::fs::metadata(path.with_extension("sqlite-wal"));
    if !connection.is_readonly(rusqlite::MAIN_DB)? || log.is_ok_and(|log| log.len() > 0) {
        return Ok(connection);
    }
    let mut name = String::from("file:");
    for character in path.to_string_lossy().chars() {
        match character {
            '%' => name.push_str("%25"),
            '?' => name.push_str("%3f"),
            '#' => name.push_str("%23"),
            other => name.push(other),
        }
    }
    name.push_str("?immutable=1");
    Connection::open_with_flags(name, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
}

fn no_tables(path: &Path) -> StoreError {
    StoreError::Corrupt { path: path.display().to_string(), why: "it has no clawhost tables".into() }
}

/// The schema version of a database, if this program can read it. `None`: the database is empty.
fn version(path: &Path, connection: &Connection, migrations: &[&str]) -> Result<Option<u32>, StoreError> {
    let fail = |error: rusqlite::Error| explain(path, &error);
    let name = || path.display().to_string();
    // One statement, so that both values belong to the same moment: another process may be creating the tables.
    let (found, tables, runs): (i64, u32, u32) = connection
        .query_row(
            "SELECT (SELECT user_version FROM pragma_user_version), count(*), count(CASE name WHEN 'runs' THEN 1 END)
             FROM sqlite_schema",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .map_err(fail)?;
    let known = newest(migrations);
    let Ok(found) = u32::try_from(found) else {
        let why = format!("its schema version is {found}");
        return Err(StoreError::Corrupt { path: name(), why });
    };
    match found {
        0 if tables == 0 => Ok(None),
        0 => Err(no_tables(path)),
        _ if found > known => Err(StoreError::Newer { path: name(), found, known }),
        _ if runs == 0 => Err(no_tables(path)),
        _ if found < OLDEST => Err(StoreError::Older { path: name(), found, known: OLDEST }),
        _ => Ok(Some(found)),
    }
}

fn migrate(path: &Path, connection: &mut Connection, migrations: &[&str]) -> Result<(), StoreError> {
    let fail = |error: rusqlite::Error| explain(path, &error);
    loop {
        // The version is read under the write lock: two processes may open a new folder at the same time.
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(fail)?;
        let (step, reached) = match version(path, &transaction, migrations)? {
            None => {
                let others = [
                    runs::TABLES,
                    ledger::TABLE,
                    pool::TABLES,
                    routing::TABLE,
                    feedback::TABLES,
                    memory::TABLES,
                    trials::TABLES,
                    forgetting::TABLES,
                ];
                (format!("{TABLES}{}", others.concat()), OLDEST)
            }
            Some(from) => match migrations.get((from - OLDEST) as usize) {
                Some(migration) => ((*migration).to_owned(), from + 1),
                None => return Ok(()),
            },
        };
        transaction.execute_batch(&step).map_err(fail)?;
        transaction.pragma_update(None, "user_version", reached).map_err(fail)?;
        transaction.commit().map_err(fail)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &Path) -> u32 {
        Connection::open(path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    #[test]
    fn migrations_run_in_order_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(crate::FILE);
        drop(open_with(&path, &[]).unwrap());
        assert_eq!(found(&path), OLDEST);
        let migrations = ["ALTER TABLE runs ADD COLUMN first TEXT", "ALTER TABLE runs RENAME COLUMN first TO second"];
        for _ in 0..2 {
            let connection = open_with(&path, &migrations).unwrap();
            connection.execute_batch("SELECT second FROM runs").unwrap();
            assert_eq!(found(&path), OLDEST + 2);
        }
        let older = open_with(&path, &migrations[..1]).unwrap_err();
        assert!(
            matches!(older, StoreError::Newer { found, known, .. } if (found, known) == (OLDEST + 2, OLDEST + 1)),
            "{older}"
        );
    }

    #[test]
    fn a_failed_migration_leaves_the_previous_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(crate::FILE);
        let migrations = ["CREATE TABLE added (a TEXT)", "CREATE TABLE half (a TEXT); CREATE TABLE added (a TEXT)"];
        open_with(&path, &migrations).unwrap_err();
        assert_eq!(found(&path), OLDEST + 1);
        let connection = open_with(&path, &migrations[..1]).unwrap();
        connection.execute_batch("SELECT a FROM added").unwrap();
        connection.execute_batch("SELECT a FROM half").unwrap_err();
    }
}
