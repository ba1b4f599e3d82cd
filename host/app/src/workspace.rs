//! The workspace: a data folder with its store, its leases, its compile cache and a clock.

use crate::models::ModelSettings;
use crate::modules::ComponentHost;
use crate::{AppError, HostSettings, RequestError};
use clawhost_core::{
    Clock, Digest, KnownSecrets, Lease, LeaseMode, LeaseSubject, Leases, LedgerKey, RunId, StoreError, StoreReader,
};
use clawhost_engine::CacheKey;
use clawhost_store::{FileLeases, Reader, Store, StoreOptions, ledger_key};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Compiled code inside the data folder. It can be deleted without loss.
pub(crate) const CACHE: &str = "cache";
/// Default largest size of the database in bytes: about 25 million episodes of small games. A plugin that fills its records must not
/// fill the disk.
pub const STORE_BYTES: u64 = 16 << 30;
/// The key that authenticates compiled code of this host, and from which the key of the ledger is derived.
const KEY: &str = "host.key";
/// Largest file of it: the key has 32 bytes.
const KEY_FILE_BYTES: u64 = 4096;

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        #[allow(clippy::disallowed_methods, reason = "this is the adapter behind the Clock port")]
        let now = std::time::SystemTime::now();
        // A clock before 1970 counts as 1970.
        now.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// The last millisecond of the year 9999: the end of times that can be written as dates.
const LAST_DATE_MS: u64 = 253_402_300_799_999;

/// A time in UTC for people. A time that no date can express is shown as a number.
pub fn time(ms: u64) -> String {
    if ms > LAST_DATE_MS {
        return format!("after the year 9999 ({ms} ms)");
    }
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}

/// The platform's data folder for this program. `None`: there is no home folder.
pub fn default_folder() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "clawhost").map(|project| project.data_dir().to_owned())
}

/// Settings of a workspace. They change no result.
#[derive(Clone)]
pub struct WorkspaceSettings {
    /// The data folder.
    pub folder: PathBuf,
    /// Largest size of the database in bytes. Reaching it is reported as a full disk. `None`: only the disk limits it.
    pub store_bytes: Option<u64>,
    /// The settings of the host.
    pub host: HostSettings,
    /// How models are called and computed.
    pub models: ModelSettings,
    /// The clock of records. `None`: the machine's.
    pub clock: Option<Arc<dyn Clock>>,
    /// Ends the store after this commit, as if the process had died.
    #[cfg(feature = "failpoints")]
    pub fail_after_commit: Option<u64>,
}

impl WorkspaceSettings {
    /// A data folder with default settings.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            store_bytes: Some(STORE_BYTES),
            host: HostSettings::default(),
            models: ModelSettings::default(),
            clock: None,
            #[cfg(feature = "failpoints")]
            fail_after_commit: None,
        }
    }
}

/// A data folder that is open for playing, learning and recording.
pub struct Workspace {
    settings: WorkspaceSettings,
    store: Arc<Store>,
    leases: FileLeases,
    clock: Arc<dyn Clock>,
    /// Keys that were read for this workspace. No record repeats one.
    secrets: KnownSecrets,
    /// The key that authenticates the ledger.
    ledger_key: LedgerKey,
    /// While it is held, no process removes records or blobs.
    _folder: Box<dyn Lease>,
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workspace").field("folder", &self.settings.folder).finish_non_exhaustive()
    }
}

/// Creates a data folder that only its owner can read: it contains prompts, answers and references.
pub(crate) fn make(folder: &Path) -> Result<(), StoreError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| unusable(folder, &error))
}

fn unusable(folder: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Folder { path: folder.display().to_string(), why: error.to_string() }
}

impl Workspace {
    /// Opens a data folder. Creates it on first use.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn open(settings: WorkspaceSettings) -> Result<Self, AppError> {
        let folder = settings.folder.clone();
        make(&folder)?;
        let leases = FileLeases::new(&folder);
        let held = hold_folder(&folder, LeaseMode::Shared)?;
        let mut options = StoreOptions::bounded(settings.store_bytes);
        let secrets = KnownSecrets::default();
        options.secrets = secrets.clone();
        let ledger_key = ledger_key_of(&folder)?;
        options.ledger_key = ledger_key.clone();
        #[cfg(feature = "failpoints")]
        {
            options.fail_after_commit = settings.fail_after_commit;
        }
        let store = Arc::new(Store::open(&folder, options)?);
        let clock = settings.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::default()));
        Ok(Self { settings, store, leases, clock, secrets, ledger_key, _folder: held })
    }

    /// Opens a data folder for reading. Creates nothing.
    ///
    /// # Errors
    /// It does not exist, or cannot be read.
    pub fn read(folder: &Path) -> Result<Box<dyn StoreReader>, AppError> {
        Ok(Box::new(Reader::open(folder)?))
    }

    /// Whether a data folder holds a database.
    pub fn is_used(folder: &Path) -> bool {
        folder.join(clawhost_store::FILE).exists()
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.settings.folder
    }

    /// The database file.
    pub fn database(&self) -> &Path {
        self.store.path()
    }

    /// Its settings.
    pub fn settings(&self) -> &WorkspaceSettings {
        &self.settings
    }

    /// The clock of records.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// The keys that were read for this workspace.
    pub fn secrets(&self) -> &KnownSecrets {
        &self.secrets
    }

    /// The key that authenticates the ledger.
    pub(crate) fn ledger_key(&self) -> &LedgerKey {
        &self.ledger_key
    }

    /// The key of the digests by which a gateway finds conversations.
    pub(crate) fn capture_key(&self) -> Result<[u8; 32], AppError> {
        Ok(*Digest::of(&host_key(&self.settings.folder)?).extended(b"capture").as_bytes())
    }

    /// The secret of the draws for live sessions.
    ///
    /// # Errors
    /// As [`Self::capture_key`].
    pub(crate) fn draw_key(&self) -> Result<[u8; 32], AppError> {
        Ok(*Digest::of(&host_key(&self.settings.folder)?).extended(b"draws").as_bytes())
    }

    /// Gives ids of live runs. They have no lease: a run of a day is open for as long as the gateway takes traffic.
    pub(crate) fn live_runs(&self) -> Box<dyn Fn(u64) -> RunId + Send + Sync> {
        Box::new(|now| {
            // A clock beyond the dates is refused at the start of a run; here traffic goes on.
            run_id(now.min(LAST_DATE_MS)).unwrap_or_else(|_| RunId(format!("run-{now:014}-0000")))
        })
    }

    /// The store.
    pub fn store(&self) -> Arc<Store> {
        self.store.clone()
    }

    /// A reader of what is stored.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn reader(&self) -> Result<Box<dyn StoreReader>, AppError> {
        Self::read(&self.settings.folder)
    }

    /// Commits so far.
    #[cfg(feature = "failpoints")]
    pub fn commits(&self) -> u64 {
        self.store.commits()
    }

    /// A host for plugins.
    ///
    /// # Errors
    /// The engine cannot be set up, or the cache cannot be used.
    pub fn host(&self) -> Result<ComponentHost, AppError> {
        self.host_as(&self.settings.host)
    }

    /// A host for plugins, with other settings.
    ///
    /// # Errors
    /// As [`Workspace::host`].
    pub fn host_as(&self, settings: &HostSettings) -> Result<ComponentHost, AppError> {
        crate::host::host(settings, &self.settings.folder, Some(compile_cache(&self.settings.folder)?))
    }

    /// Acquires a lease. `None`: another process holds it.
    ///
    /// # Errors
    /// Leases cannot be stored here.
    pub fn lease(&self, subject: &LeaseSubject, mode: LeaseMode) -> Result<Option<Box<dyn Lease>>, AppError> {
        Ok(self.leases.acquire(subject, mode)?)
    }

    /// A new run, which this process plays.
    ///
    /// # Errors
    /// Random numbers for its name are not available, or leases cannot be stored.
    pub fn new_run(&self) -> Result<(RunId, Box<dyn Lease>), AppError> {
        loop {
            let run = run_id(self.clock.now_ms())?;
            // Another process drew the same name in the same second: draw again.
            if let Some(lease) = self.lease(&LeaseSubject::Run(run.clone()), LeaseMode::Exclusive)? {
                return Ok((run, lease));
            }
        }
    }

    /// Holds a router exclusively while it learns.
    ///
    /// # Errors
    /// Another process learns it.
    pub(crate) fn hold_router(&self, name: &str) -> Result<Box<dyn Lease>, AppError> {
        // No playbook can have this name.
        let subject = LeaseSubject::Playbook(format!("router:{name}"));
        let busy = || RequestError::NoRouter {
            why: format!("router {name} is being learned by another process; wait for it"),
        };
        Ok(self.lease(&subject, LeaseMode::Exclusive)?.ok_or_else(busy)?)
    }

    /// Holds the playbook exclusively.
    ///
    /// # Errors
    /// Another process learns or edits it.
    pub fn hold_playbook(&self, name: &str) -> Result<Box<dyn Lease>, AppError> {
        hold_playbook(self.folder(), name)
    }
}

/// The same in a data folder.
pub(crate) fn hold_playbook(folder: &Path, name: &str) -> Result<Box<dyn Lease>, AppError> {
    let lease = FileLeases::new(folder).acquire(&LeaseSubject::Playbook(name.to_owned()), LeaseMode::Exclusive)?;
    Ok(lease.ok_or_else(|| RequestError::PlaybookBusy { playbook: name.to_owned() })?)
}

/// Holds the data folder: shared for using it, exclusive for removing records.
pub(crate) fn hold_folder(folder: &Path, mode: LeaseMode) -> Result<Box<dyn Lease>, AppError> {
    let held = FileLeases::new(folder).acquire(&LeaseSubject::Folder, mode)?;
    let what = match mode {
        LeaseMode::Shared => "removes records from it",
        LeaseMode::Exclusive => "uses it",
    };
    Ok(held.ok_or_else(|| RequestError::FolderBusy { folder: folder.display().to_string(), what })?)
}

/// The compile cache of a data folder that is in use. `None`: there is no such folder, or nothing is in it, and looking at a plugin makes none.
pub(crate) fn existing_cache(folder: &Path) -> Result<Option<(PathBuf, CacheKey)>, AppError> {
    let is_used = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    is_used.then(|| compile_cache(folder)).transpose()
}

/// The compile cache with the host's key.
pub(crate) fn compile_cache(folder: &Path) -> Result<(PathBuf, CacheKey), AppError> {
    Ok((folder.join(CACHE), CacheKey(host_key(folder)?)))
}

/// The key that authenticates the ledger of a data folder.
pub(crate) fn ledger_key_of(folder: &Path) -> Result<LedgerKey, AppError> {
    Ok(ledger_key(&host_key(folder)?))
}

/// The host's key, which is created on first use.
fn host_key(folder: &Path) -> Result<[u8; 32], AppError> {
    make(folder)?;
    let path = folder.join(KEY);
    if !path.exists() {
        let mut key = [0; 32];
        getrandom::fill(&mut key)
            .map_err(|error| AppError::Host(format!("no randomness for the host's key: {error}")))?;
        // Readable only by the owner. Never overwrites a key that another process created meanwhile.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| unusable(folder, &error))?;
        file.write_all(&key).map_err(|error| unusable(folder, &error))?;
        if let Err(error) = file.persist_noclobber(&path)
            && error.error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(unusable(folder, &error.error).into());
        }
    }
    let bytes = clawhost_files::read(&path, KEY_FILE_BYTES).map_err(|error| unusable(&path, &error))?;
    let why = "not a key of 32 bytes; restore it, or delete it: then compiled code is made again, and earlier entries of the ledger \
        cannot be checked";
    let key = bytes.try_into();
    Ok(key.map_err(|_| StoreError::Folder { path: path.display().to_string(), why: why.to_owned() })?)
}

/// A new id of a run: its time, and four random digits.
fn run_id(now_ms: u64) -> Result<RunId, AppError> {
    if now_ms > LAST_DATE_MS {
        return Err(AppError::Host(format!("the machine's clock is {}: set it", time(now_ms))));
    }
    let mut twin = [0; 2];
    getrandom::fill(&mut twin).map_err(|error| AppError::Host(format!("no randomness for the run's name: {error}")))?;
    let digits: String = time(now_ms).chars().filter(char::is_ascii_digit).collect();
    Ok(RunId(format!("run-{digits}-{:04x}", u16::from_be_bytes(twin))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_date_is_shown_and_names_no_run() {
        let check = |ms: u64, expect: &str| assert_eq!(time(ms), expect);
        check(0, "1970-01-01T00:00:00Z");
        check(LAST_DATE_MS, "9999-12-31T23:59:59Z");
        check(LAST_DATE_MS + 1, "after the year 9999 (253402300800000 ms)");
        check(u64::MAX, "after the year 9999 (18446744073709551615 ms)");
        assert!(run_id(LAST_DATE_MS).is_ok());
        let refused = run_id(u64::MAX).unwrap_err().to_string();
        assert!(refused.contains("the machine's clock is after the year 9999"), "{refused}");
    }

    #[test]
    fn a_database_has_a_largest_size_unless_it_is_lifted() {
        assert_eq!(WorkspaceSettings::new("folder").store_bytes, Some(STORE_BYTES));
    }

    #[test]
    fn a_workspace_is_shared_between_tasks() {
        fn shared<T: Send + Sync>() {}
        shared::<Workspace>();
    }
}
