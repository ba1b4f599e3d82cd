//! The versions of weights that learn while they serve, in the data folder.
//!
//! ```text
//! live-weights/ALIAS/
//!   learned.json      the versions, and how far sessions were taken: replacing it makes a version count
//!   steps/N.json      the sessions of a step
//!   versions/N/NAME/  the model of a version in f32, with its adapter beside it
//!   state-N.bin       the optimiser's state of the newest version
//!   serving           leads to the folder of the version that serves; a gateway looks at it
//! ```

use crate::{AppError, RequestError, small_files};
use clawhost_core::Digest;
use clawhost_model::{ModelFolder, digest};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The folder of all such models, in the data folder.
const FOLDER: &str = "live-weights";
const FILE: &str = "learned.json";
const FORMAT: u32 = 1;
/// Largest size of an optimiser's state in bytes: three numbers for each of ten billion weights.
const STATE_BYTES: u64 = 128 << 30;
/// Versions whose weights stay on disk: a gateway may still read the one before, and people may compare them.
const KEPT: usize = 3;
/// Versions that are listed. Earlier ones are left out of the file.
const LISTED: usize = 500;

/// A version of weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightsVersion {
    /// Its number; 0 is what the operator configured.
    pub number: u64,
    /// The digest of its weights.
    pub digest: String,
    /// When it was made, Unix time in milliseconds.
    pub at: u64,
    /// The number of sessions that it learned from. The file of its step names them.
    pub sessions: usize,
    /// What was measured.
    pub metrics: Vec<(String, f64)>,
    /// Why it is there, or why it is not: a step that was taken back has no weights.
    pub note: String,
    /// Whether it made a version. A step that was taken back, or that had nothing to learn, made none.
    pub is_kept: bool,
}

/// What was learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Learned {
    pub(super) format: u32,
    /// The folder that the operator configured.
    pub(super) base: String,
    /// Which of its weights learn.
    pub(super) learns: String,
    /// Number of the last live episode that was taken.
    pub(super) through: u64,
    /// The version that serves.
    pub(super) serves: u64,
    /// Versions and steps that were taken back, the oldest first.
    pub(super) versions: Vec<WeightsVersion>,
}

impl Learned {
    /// The largest number of a step.
    pub(super) fn newest(&self) -> u64 {
        self.versions.iter().map(|version| version.number).max().unwrap_or_default()
    }

    /// Checks that learning may go on: from the same weights, with the same settings.
    ///
    /// # Errors
    /// The files of the base have changed, or other weights of it shall learn.
    pub(super) fn check(&self, base: &str, learns: &str) -> Result<(), AppError> {
        let refuse = |why: String| Err(unusable(Path::new(FOLDER), why));
        if self.versions.iter().any(|version| version.number == 0 && version.digest != base) {
            return refuse(format!(
                "the weights in {} are not those that learning began with; name another alias, or move the folder away",
                self.base
            ));
        }
        if self.learns != learns {
            return refuse(format!(
                "so far {} learned, and now {learns} shall: go on with the same adapter_rank, name another alias, or move the folder away",
                self.learns
            ));
        }
        Ok(())
    }
}

/// The place of a model that learns while it serves.
#[derive(Debug, Clone)]
pub(crate) struct LearnedPlace {
    folder: PathBuf,
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> AppError {
    RequestError::File { path: path.display().to_string(), why: why.to_string() }.into()
}

impl LearnedPlace {
    /// The place of an alias in a data folder.
    pub(crate) fn new(data: &Path, alias: &str) -> Self {
        // An alias may have any characters.
        let safe = alias.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        let name = if safe { alias.to_owned() } else { Digest::of(alias.as_bytes()).short() };
        Self { folder: data.join(FOLDER).join(name) }
    }

    /// The folder that leads to the version that serves, if something was learned or is to be.
    pub(crate) fn serving(&self) -> PathBuf {
        self.folder.join("serving")
    }

    fn version(&self, number: u64, base: &Path) -> PathBuf {
        if number == 0 {
            return base.to_owned();
        }
        let name = crate::models::folder_name(base);
        self.folder.join("versions").join(number.to_string()).join(name)
    }

    fn state(&self, number: u64) -> PathBuf {
        self.folder.join(format!("state-{number}.bin"))
    }

    /// What was learned from a model in a folder. Begins with that model if there is nothing yet.
    ///
    /// # Errors
    /// A file is damaged, or another model learned here.
    pub(super) fn learned(
        &self,
        (base, learns): (&Path, &str),
        model: impl FnOnce() -> Result<ModelFolder, AppError>,
        now: u64,
    ) -> Result<Learned, AppError> {
        let absolute = base.canonicalize().map_err(|error| unusable(base, error))?;
        let shown = absolute.display().to_string();
        if let Some(known) = small_files::read(&self.folder.join(FILE), FORMAT, |learned: &Learned| learned.format)? {
            if known.base != shown {
                let why = format!(
                    "its weights were learned from {}, and the model is {shown} now; name another alias, or move the folder away",
                    known.base
                );
                return Err(unusable(&self.folder, why));
            }
            return Ok(known);
        }
        let first = WeightsVersion {
            number: 0,
            digest: digest(&model()?.weights).to_string(),
            at: now,
            sessions: 0,
            metrics: Vec::new(),
            note: "as configured".to_owned(),
            is_kept: true,
        };
        let learned = Learned {
            format: FORMAT,
            base: shown,
            learns: learns.to_owned(),
            through: 0,
            serves: 0,
            versions: vec![first],
        };
        small_files::write(&self.folder, FILE, &learned)?;
        self.lead_to(&absolute)?;
        Ok(learned)
    }

    /// Serves the version that counts, if a process was killed before it did. Only the process that may change what was learned calls it.
    ///
    /// # Errors
    /// The link cannot be written.
    pub(super) fn repair(&self, learned: &Learned) -> Result<(), AppError> {
        self.lead_to(&self.version(learned.serves, Path::new(&learned.base)))
    }

    /// What was learned, the newest step first, and the version that serves. `None`: nothing was learned here.
    ///
    /// # Errors
    /// The file is damaged.
    pub(super) fn steps(&self) -> Result<Option<(u64, Vec<WeightsVersion>)>, AppError> {
        let known = small_files::read(&self.folder.join(FILE), FORMAT, |learned: &Learned| learned.format)?;
        Ok(known.map(|known: Learned| (known.serves, known.versions.into_iter().rev().collect())))
    }

    /// The folder and the optimiser's state of the version that serves.
    ///
    /// # Errors
    /// The state cannot be read.
    pub(super) fn newest(&self, learned: &Learned) -> Result<(PathBuf, Option<Vec<u8>>), AppError> {
        let folder = self.version(learned.serves, Path::new(&learned.base));
        let path = self.state(learned.serves);
        let state =
            path.exists().then(|| clawhost_files::read(&path, STATE_BYTES).map_err(|error| unusable(&path, error)));
        Ok((folder, state.transpose()?))
    }

    /// Writes a new version and serves it. What is read before this returns is the version before.
    ///
    /// # Errors
    /// It cannot be written. The version before serves.
    pub(super) fn publish(
        &self,
        learned: &mut Learned,
        (model, state): (&ModelFolder, &[u8]),
        version: WeightsVersion,
    ) -> Result<(), AppError> {
        let base = PathBuf::from(&learned.base);
        let folder = self.version(version.number, &base);
        if folder.exists() {
            // A process was killed before it counted.
            std::fs::remove_dir_all(&folder).map_err(|error| unusable(&folder, error))?;
        }
        model.write(&folder)?;
        let path = self.state(version.number);
        std::fs::write(&path, state).map_err(|error| unusable(&path, error))?;
        learned.serves = version.number;
        self.note(learned, version)?;
        self.lead_to(&folder)?;
        self.remove_old(learned);
        Ok(())
    }

    /// Writes the sessions of a step, as `RUN/EPISODE`.
    ///
    /// # Errors
    /// They cannot be written.
    pub(super) fn list(&self, number: u64, sessions: &[String]) -> Result<(), AppError> {
        small_files::write(
            &self.folder.join("steps"),
            &format!("{number}.json"),
            &serde_json::json!({ "sessions": sessions }),
        )
    }

    /// Notes a version, or a step that was taken back.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn note(&self, learned: &mut Learned, version: WeightsVersion) -> Result<(), AppError> {
        learned.versions.push(version);
        let surplus = learned.versions.len().saturating_sub(LISTED);
        let (serves, mut place) = (learned.serves, 0);
        // The version that serves and the one of the folder stay: lags and the next start refer to them.
        learned.versions.retain(|version| {
            place += 1;
            place > surplus || version.number == serves || version.number == 0
        });
        small_files::write(&self.folder, FILE, learned)
    }

    /// Removes the weights and states of old versions from the disk. A failure is ignored: the next version tries again.
    fn remove_old(&self, learned: &Learned) {
        let kept: Vec<u64> =
            learned.versions.iter().rev().filter(|one| one.is_kept).take(KEPT).map(|one| one.number).collect();
        let versions = self.folder.join("versions");
        let numbers = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in numbers(&versions) {
            let number = entry.file_name().to_string_lossy().parse::<u64>().ok();
            if number.is_none_or(|number| !kept.contains(&number)) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        for entry in numbers(&self.folder) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let number = name
                .strip_prefix("state-")
                .and_then(|rest| rest.strip_suffix(".bin"))
                .and_then(|number| number.parse::<u64>().ok());
            if number.is_some_and(|number| number != learned.serves) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Makes `serving` lead to a folder, in one move.
    fn lead_to(&self, folder: &Path) -> Result<(), AppError> {
        let serving = self.serving();
        if std::fs::read_link(&serving).is_ok_and(|now| now == folder) {
            return Ok(());
        }
        let new = self.folder.join(format!(".serving.{}", std::process::id()));
        let _ = std::fs::remove_file(&new);
        link(folder, &new).and_then(|()| std::fs::rename(&new, &serving)).map_err(|error| unusable(&serving, error))
    }
}

#[cfg(unix)]
fn link(folder: &Path, at: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(folder, at)
}

#[cfg(windows)]
fn link(folder: &Path, at: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_dir(folder, at)
}
