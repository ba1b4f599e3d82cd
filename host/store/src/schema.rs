//! The schema and its migrations. Migrations only go forward; each runs in a transaction with its version number.

use crate::error::explain;
use clawhost_core::StoreError;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// Schema version of this program.
pub const SCHEMA: u32 = 5;

/// How long to wait for another process before saying so.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Pages of the log after which it is carried into the database (16 MiB). SQLite's 1,000 carried the upper pages of the
/// indexes over every few hundred episodes.
const CHECKPOINT_PAGES: u32 = 4_000;

/// `MIGRATIONS[n]` leads from version n to n + 1.
const MIGRATIONS: [&str; SCHEMA as usize] = [
    "
    CREATE TABLE runs (
        id TEXT PRIMARY KEY NOT NULL,
        state_id TEXT NOT NULL,
        config TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        summary TEXT
    );
    CREATE TABLE episodes (
        run TEXT NOT NULL REFERENCES runs(id),
        id TEXT NOT NULL,
        position INTEGER NOT NULL,
        task TEXT NOT NULL,
        split TEXT NOT NULL,
        environment TEXT NOT NULL,
        environment_digest TEXT NOT NULL,
        state_id TEXT NOT NULL,
        ending TEXT NOT NULL,
        reward REAL,
        turns INTEGER NOT NULL,
        format INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        document TEXT NOT NULL
    );
    CREATE UNIQUE INDEX episodes_by_id ON episodes (run, id);
    CREATE TABLE verdicts (
        run TEXT NOT NULL,
        episode TEXT NOT NULL,
        reward_digest TEXT NOT NULL,
        options_digest TEXT NOT NULL,
        judge TEXT NOT NULL,
        group_digest TEXT NOT NULL,
        position INTEGER NOT NULL,
        document TEXT NOT NULL,
        PRIMARY KEY (run, episode, reward_digest, options_digest, judge, group_digest)
    ) WITHOUT ROWID;
    CREATE TABLE notes (
        run TEXT NOT NULL REFERENCES runs(id),
        key TEXT NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (run, key)
    ) WITHOUT ROWID;
    CREATE TABLE plugins (
        digest TEXT PRIMARY KEY NOT NULL,
        name TEXT NOT NULL,
        version TEXT NOT NULL,
        world TEXT NOT NULL,
        bytes BLOB NOT NULL
    );
",
    "
    -- What a run can be taken up again by.
    ALTER TABLE runs ADD COLUMN digest TEXT;
    ALTER TABLE runs ADD COLUMN spent TEXT;
    -- Notes of episodes until their run ends and merges them.
    CREATE TABLE episode_notes (
        run TEXT NOT NULL,
        position INTEGER NOT NULL,
        key TEXT NOT NULL,
        value BLOB,
        PRIMARY KEY (run, key, position)
    ) WITHOUT ROWID;
",
    "
    -- The run that a run is a phase of.
    ALTER TABLE runs ADD COLUMN parent TEXT;
    CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
    -- Where a learning run stands: the last checkpoint, and what every iteration came to.
    CREATE TABLE checkpoints (
        run TEXT PRIMARY KEY NOT NULL REFERENCES runs(id),
        iteration INTEGER NOT NULL,
        state TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE iterations (
        run TEXT NOT NULL REFERENCES runs(id),
        number INTEGER NOT NULL,
        report TEXT NOT NULL,
        PRIMARY KEY (run, number)
    ) WITHOUT ROWID;
    -- Every version of every playbook that was ever served.
    CREATE TABLE playbooks (
        name TEXT NOT NULL,
        number INTEGER NOT NULL,
        digest TEXT NOT NULL,
        document TEXT NOT NULL,
        why TEXT NOT NULL,
        run TEXT,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (name, number)
    ) WITHOUT ROWID;
    CREATE TABLE ledgers (
        name TEXT PRIMARY KEY NOT NULL,
        document TEXT NOT NULL
    ) WITHOUT ROWID;
",
    "
    -- Weights that learn, of the last checkpoint alone: they are large.
    CREATE TABLE weights (
        run TEXT PRIMARY KEY NOT NULL,
        bytes BLOB NOT NULL
    ) WITHOUT ROWID;
",
    "
    -- In parts: SQLite takes no value above 1,000,000,000 bytes.
    ALTER TABLE weights RENAME TO whole;
    CREATE TABLE weights (
        run TEXT NOT NULL,
        part INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        PRIMARY KEY (run, part)
    );
    INSERT INTO weights (run, part, bytes) SELECT run, 0, bytes FROM whole;
    DROP TABLE whole;
",
];

/// Opens the database for writing, creating or migrating it as needed.
pub(crate) fn open(path: &Path) -> Result<Connection, StoreError> {
    let fail = |error: rusqlite::Error| explain(path, &error);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| {
            StoreError::Other(format!("{}: {error}; choose another --data folder", folder.display()))
        })?;
    }
    let mut connection = Connection::open(path).map_err(fail)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(fail)?;
    // WAL: readers and the writer do not wait for each other. FULL: a commit that returned survives a power cut.
    connection.pragma_update(None, "journal_mode", "WAL").map_err(fail)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(fail)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(fail)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(fail)?;
    migrate(path, &mut connection)?;
    Ok(connection)
}

/// Opens an existing database for reading.
pub(crate) fn open_for_reading(path: &Path) -> Result<Connection, StoreError> {
    let fail = |error: rusqlite::Error| explain(path, &error);
    if !path.exists() {
        return Err(StoreError::Other(format!(
            "{}: no episodes here yet; play some with `clawhost run`, or name another folder with --data",
            path.display()
        )));
    }
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(fail)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(fail)?;
    connection.pragma_update(None, "query_only", true).map_err(fail)?;
    let version = version(path, &connection)?;
    match version {
        0 => Err(StoreError::Corrupt(path.display().to_string(), "it holds no clawhost tables".into())),
        SCHEMA => Ok(connection),
        // Readers know one schema: an older database is led on first.
        older if older < SCHEMA => {
            drop(connection);
            drop(open(path)?);
            open_for_reading(path)
        }
        newer => Err(StoreError::Newer(path.display().to_string(), newer, SCHEMA)),
    }
}

fn version(path: &Path, connection: &Connection) -> Result<u32, StoreError> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(|error| explain(path, &error))
}

fn migrate(path: &Path, connection: &mut Connection) -> Result<(), StoreError> {
    let fail = |error: rusqlite::Error| explain(path, &error);
    loop {
        // The version is read under the write lock: two processes may open a new folder at once.
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(fail)?;
        let from = version(path, &transaction)?;
        if from > SCHEMA {
            return Err(StoreError::Newer(path.display().to_string(), from, SCHEMA));
        }
        let Some(migration) = MIGRATIONS.get(from as usize) else { return Ok(()) };
        transaction.execute_batch(migration).map_err(fail)?;
        transaction.pragma_update(None, "user_version", from + 1).map_err(fail)?;
        transaction.commit().map_err(fail)?;
    }
}
