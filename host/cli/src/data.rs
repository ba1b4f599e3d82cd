//! The data folder, the host's key, the clock, and names of runs.

use crate::args::Common;
use crate::exit::UsageError;
use anyhow::Context as _;
use clawhost_core::{Clock, RunId, StoreError};
use clawhost_engine::CacheKey;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Compiled code inside the data folder. Deleting it loses nothing.
const CACHE: &str = "cache";

/// The key that marks compiled code as ours.
const KEY: &str = "host.key";

/// The data folder: `--data`, `CLAWHOST_HOME`, or the platform's.
pub(crate) fn folder(common: &Common) -> anyhow::Result<PathBuf> {
    if let Some(folder) = &common.data {
        return Ok(folder.clone());
    }
    let project = directories::ProjectDirs::from("", "", "clawhost")
        .ok_or_else(|| UsageError("there is no home folder; name a data folder with --data or CLAWHOST_HOME".into()))?;
    Ok(project.data_dir().to_owned())
}

/// Whether a data folder has been used before.
pub(crate) fn has_key(folder: &Path) -> bool {
    folder.join(KEY).exists()
}

/// Makes a data folder that nobody else may read: prompts, answers and gold references lie in it.
fn make(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes the data folder, where it is not there yet.
pub(crate) fn prepare(folder: &Path) -> anyhow::Result<()> {
    make(folder).map_err(|error| {
        StoreError::Other(format!("{}: {error}; choose another --data folder", folder.display())).into()
    })
}

/// The compile cache with the host's key, which is made on first use.
pub(crate) fn cache(folder: &Path) -> anyhow::Result<(PathBuf, CacheKey)> {
    let unusable = |error: std::io::Error| {
        StoreError::Other(format!("{}: {error}; choose another --data folder", folder.display()))
    };
    make(folder).map_err(unusable)?;
    let path = folder.join(KEY);
    if !path.exists() {
        let mut key = [0; 32];
        getrandom::fill(&mut key).context("no randomness for the host's key")?;
        // Readable by the owner alone; never overwrites the key of a process that was faster.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(unusable)?;
        file.write_all(&key).map_err(unusable)?;
        if let Err(error) = file.persist_noclobber(&path)
            && error.error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(unusable(error.error).into());
        }
    }
    let bytes = std::fs::read(&path).map_err(unusable)?;
    let key = bytes.try_into().map_err(|_| {
        let path = path.display();
        StoreError::Other(format!("{path}: not a key of 32 bytes; delete it, and compiled code is made again"))
    })?;
    Ok((folder.join(CACHE), CacheKey(key)))
}

/// A new run, which this process plays.
pub(crate) fn begin(folder: &Path, now_ms: u64) -> anyhow::Result<(RunId, Claim)> {
    let run = run_id(now_ms)?;
    let claim = Claim::new(folder, &run)?.with_context(|| format!("{run} is being played already"))?;
    Ok((run, claim))
}

/// Files that say which process plays which run.
const CLAIMS: &str = "playing";

/// A run that this process plays. The claim ends with the process, however that ends.
pub(crate) struct Claim {
    path: PathBuf,
    _file: std::fs::File,
}

impl Claim {
    /// To play it. None: another process plays it, or reads it.
    pub(crate) fn new(folder: &Path, run: &RunId) -> anyhow::Result<Option<Self>> {
        Self::locked(folder, run, std::fs::File::try_lock)
    }

    /// To read it while nobody plays it. None: somebody does.
    pub(crate) fn shared(folder: &Path, run: &RunId) -> anyhow::Result<Option<Self>> {
        Self::locked(folder, run, std::fs::File::try_lock_shared)
    }

    fn locked(
        folder: &Path,
        run: &RunId,
        lock: fn(&std::fs::File) -> Result<(), std::fs::TryLockError>,
    ) -> anyhow::Result<Option<Self>> {
        let claims = folder.join(CLAIMS);
        let unusable = |error: std::io::Error| {
            StoreError::Other(format!("{}: {error}; choose another --data folder", claims.display()))
        };
        std::fs::create_dir_all(&claims).map_err(unusable)?;
        let path = claims.join(&run.0);
        let file = std::fs::File::create(&path).map_err(unusable)?;
        match lock(&file) {
            Ok(()) => Ok(Some(Self { path, _file: file })),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(unusable(error).into()),
        }
    }

    /// The run has come to its end: nobody will take it up again.
    pub(crate) fn finish(self) {
        // A file that is left says nothing: its lock is gone with the process.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The machine's clock.
pub(crate) struct SystemClock {
    started: Instant,
}

impl SystemClock {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        #[allow(clippy::disallowed_methods, reason = "this is the adapter behind the Clock port")]
        let now = std::time::SystemTime::now();
        // A clock before 1970 is as wrong as one at 1970.
        now.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// A time as people write it, in UTC.
pub(crate) fn time(ms: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}

/// A new name for a run: when it began, and four digits against twins.
fn run_id(now_ms: u64) -> anyhow::Result<RunId> {
    let mut twin = [0; 2];
    getrandom::fill(&mut twin).context("no randomness for the run's name")?;
    let digits: String = time(now_ms).chars().filter(char::is_ascii_digit).collect();
    Ok(RunId(format!("run-{digits}-{:04x}", u16::from_be_bytes(twin))))
}
