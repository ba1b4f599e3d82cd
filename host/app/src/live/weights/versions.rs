//! The versions of weights that learn while they serve, in the data folder.
//!
//! ```text
//! live-weights/ALIAS/
//!   learned.json      the versions, and how far sessions were taken: replacing it makes a version count
//!   steps/N.json      the sessions of a step, with digests of their scopes
//!   versions/N/       a version as its backend writes it
//!   serving           leads to the part of the version that a gateway reads, or to the configured model
//!   own/TRACE/        the same for the adapter of one scope; `serving` is missing while the configured model answers it
//! ```

use super::backend::{NewVersion, Start};
use super::steps::{StepSessions, Taught};
use super::traces::{folder_of, names_folder};
use crate::{AppError, RequestError, small_files};
use clawhost_core::Digest;
use clawhost_learn::memory::Scope;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folder of all such models, in the data folder.
const FOLDER: &str = "live-weights";
const FILE: &str = "learned.json";
/// The folder of the adapters of scopes.
const OWN: &str = "own";
/// The folder of the sessions of steps.
const STEPS: &str = "steps";
const FORMAT: u32 = 3;
/// Versions whose weights stay on disk: a gateway may still read the one before, and people may serve an earlier one again.
const KEPT: usize = 3;
/// Versions that are listed. Earlier ones are left out of the file.
const LISTED: usize = 500;

/// A version of weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightsVersion {
    /// Its number; 0 is what the operator configured.
    pub number: u64,
    /// The version that it was learned from.
    pub from: u64,
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
    /// Whether it learned from something that was forgotten since. It serves only if an operator confirms it, as long as nothing else serves.
    pub is_withdrawn: bool,
}

/// What was learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Learned {
    pub(super) format: u32,
    /// The alias of the model.
    pub(super) model: String,
    /// The model that the operator configured.
    pub(super) base: String,
    /// The part of a version's folder that a gateway reads.
    pub(super) part: String,
    /// Which of its weights learn.
    pub(super) learns: String,
    /// Whose sessions it learns from and answers. `None`: those of all.
    pub(super) scope: Option<Scope>,
    /// Number of the last live episode that was taken.
    pub(super) through: u64,
    /// The version that serves.
    pub(super) serves: u64,
    /// Versions and steps that were taken back, the oldest first.
    pub(super) versions: Vec<WeightsVersion>,
}

/// What learning begins with.
#[derive(Debug, Clone)]
pub(super) struct Beginning {
    /// The alias of the model.
    pub(super) model: String,
    /// The part of a version's folder that a gateway reads.
    pub(super) part: String,
    /// The model that the operator configured, as it is shown.
    pub(super) base: String,
    /// The digest of its weights.
    pub(super) digest: String,
    /// Which of its weights learn.
    pub(super) learns: String,
    /// Whose sessions it learns from. `None`: those of all.
    pub(super) scope: Option<Scope>,
}

impl Learned {
    fn new(beginning: &Beginning, at: u64) -> Self {
        let Beginning { model, part, base, digest, learns, scope } = beginning.clone();
        let first = WeightsVersion {
            number: 0,
            from: 0,
            digest,
            at,
            sessions: 0,
            metrics: Vec::new(),
            note: "as configured".to_owned(),
            is_kept: true,
            is_withdrawn: false,
        };
        Self { format: FORMAT, model, base, part, learns, scope, through: 0, serves: 0, versions: vec![first] }
    }

    /// The largest number of a step.
    pub(super) fn newest(&self) -> u64 {
        self.versions.iter().map(|version| version.number).max().unwrap_or_default()
    }

    fn version(&self, number: u64) -> Option<&WeightsVersion> {
        self.versions.iter().find(|version| version.number == number)
    }

    /// The digest of the weights that serve.
    pub(super) fn served_digest(&self) -> String {
        self.version(self.serves).map(|version| version.digest.clone()).unwrap_or_default()
    }

    /// The number of steps between a version with these weights and the one that serves. `None`: the one that serves was not learned from it.
    pub(super) fn lag(&self, digest: &str) -> Option<u64> {
        let mut version = self.version(self.serves)?;
        let mut lag = 0;
        while version.digest != digest {
            // The version of the operator was learned from none, and numbers of what a version was learned from are smaller.
            version = self.version(version.from).filter(|from| from.number < version.number)?;
            lag += 1;
        }
        Some(lag)
    }

    /// Checks that learning may go on: from the same weights, with the same settings.
    ///
    /// # Errors
    /// The configured model is another one, its files have changed, or other weights of it shall learn.
    fn check(&self, place: &Path, beginning: &Beginning) -> Result<(), AppError> {
        let refuse = |why: String| Err(unusable(place, why));
        if self.base != beginning.base {
            return refuse(format!(
                "its weights were learned from {}, and the model is {} now; name another alias, or move the folder away",
                self.base, beginning.base
            ));
        }
        if self.version(0).is_some_and(|version| version.digest != beginning.digest) {
            return refuse(format!(
                "the weights in {} are not those that learning began with; name another alias, or move the folder away",
                self.base
            ));
        }
        if self.learns != beginning.learns {
            return refuse(format!(
                "so far {} learned, and now {} shall: go on with the same adapter_rank and adapters, name another alias, or move the folder away",
                self.learns, beginning.learns
            ));
        }
        Ok(())
    }

    /// Whether a version learned from something that was forgotten.
    pub(super) fn is_withdrawn(&self, number: u64) -> bool {
        self.version(number).is_some_and(|version| version.is_withdrawn)
    }

    /// The versions whose step is one that `taught` names, or that were learned from such a version. Of what is no longer listed any may have been learned from
    /// an earlier step.
    fn taught_by(&self, taught: impl Fn(u64) -> bool) -> BTreeSet<u64> {
        let listed: BTreeSet<u64> = self.versions.iter().map(|version| version.number).collect();
        let has_gone = |number: u64| number > 0 && number <= self.newest() && !listed.contains(&number);
        let earlier = (1..self.newest()).filter(|number| has_gone(*number)).any(&taught);
        let mut all = BTreeSet::new();
        // Versions are learned from earlier ones.
        for version in self.versions.iter().filter(|version| version.number > 0) {
            let is_from_gone = earlier && has_gone(version.from);
            if all.contains(&version.from) || is_from_gone || taught(version.number) {
                all.insert(version.number);
            }
        }
        all
    }

    /// The numbers of the versions from which one was learned, the newest first, and 0 last.
    fn ancestors(&self, number: u64) -> Vec<u64> {
        let mut all = Vec::new();
        let mut version = self.version(number);
        while let Some(from) = version.filter(|one| one.from < one.number).map(|one| one.from) {
            all.push(from);
            version = self.version(from);
        }
        all
    }
}

/// The place of weights that learn while they serve.
#[derive(Debug, Clone, PartialEq, Eq)]
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

    /// The places of all aliases of a data folder, each with those of its scopes.
    pub(crate) fn all(data: &Path) -> Vec<Self> {
        let aliases = folders(&data.join(FOLDER)).map(|folder| Self { folder });
        aliases.flat_map(|place| std::iter::once(place.clone()).chain(place.scopes())).collect()
    }

    /// The place of a scope.
    pub(crate) fn of_scope(&self, scope: &Scope) -> Self {
        Self { folder: self.folder.join(OWN).join(folder_of(&scope.to_string())) }
    }

    /// The places of all scopes that have one.
    pub(crate) fn scopes(&self) -> Vec<Self> {
        folders(&self.folder.join(OWN)).map(|folder| Self { folder }).collect()
    }

    /// What leads to the version that serves: at first to the configured model, and of a scope to nothing.
    pub(crate) fn serving(&self) -> PathBuf {
        self.folder.join("serving")
    }

    /// When what was learned has changed last.
    pub(crate) fn changed_at(&self) -> Option<std::time::SystemTime> {
        std::fs::metadata(self.folder.join(FILE)).and_then(|file| file.modified()).ok()
    }

    /// The name of its folder if it is the place of a scope.
    fn own_name(&self) -> Option<&str> {
        let name = self.folder.file_name()?.to_str()?;
        (self.folder.parent()?.file_name()? == OWN).then_some(name)
    }

    /// Whether it is the place of a scope that one of these names means, whatever is in there.
    pub(super) fn is_named(&self, names: &BTreeSet<String>) -> bool {
        self.own_name().is_some_and(|name| names_folder(names, name))
    }

    /// What was learned here. What a scope learned and cannot be read any more answers nobody from now on, and counts as nothing. `is_rehearsal`: nothing changes.
    ///
    /// # Errors
    /// The file is damaged and everybody's.
    pub(super) fn known_or_closed(&self, is_rehearsal: bool) -> Result<Option<Learned>, AppError> {
        match self.known() {
            Err(error) if self.own_name().is_some() => {
                if !is_rehearsal {
                    self.close()?;
                    tracing::warn!("an adapter answers nobody any more, because it is not known whose it is: {error}");
                }
                Ok(None)
            }
            known => known,
        }
    }

    /// Takes away what a gateway reads.
    fn close(&self) -> Result<(), AppError> {
        let serving = self.serving();
        let removed = match std::fs::symlink_metadata(&serving) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            // A copy that did not keep links has a folder there.
            Ok(found) if found.is_dir() => std::fs::remove_dir_all(&serving),
            _ => std::fs::remove_file(&serving),
        };
        removed.map_err(|error| unusable(&serving, error))
    }

    /// Whose place it is, with the digest of the weights that learning began with. `None`: everybody's, or nothing answers from here: nothing was learned, or what a
    /// gateway reads is another version than the one that counts.
    ///
    /// # Errors
    /// The file is damaged.
    pub(crate) fn scope(&self) -> Result<Option<(Scope, String)>, AppError> {
        let Some(learned) = self.known()? else { return Ok(None) };
        let version = self.version(learned.serves).join(&learned.part).canonicalize();
        let is_served = self.serving().canonicalize().is_ok_and(|at| version.is_ok_and(|version| at == version));
        if !is_served {
            return Ok(None);
        }
        let digest = learned.version(0).map(|version| version.digest.clone());
        Ok(learned.scope.clone().zip(digest))
    }

    fn version(&self, number: u64) -> PathBuf {
        self.folder.join("versions").join(number.to_string())
    }

    /// What was learned here. `None`: nothing yet.
    ///
    /// # Errors
    /// The file is damaged.
    pub(super) fn known(&self) -> Result<Option<Learned>, AppError> {
        small_files::read(&self.folder.join(FILE), FORMAT, |learned: &Learned| learned.format)
    }

    /// Checks that what was learned here belongs to the model and to what shall learn now.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn check(&self, known: &Learned, beginning: &Beginning) -> Result<(), AppError> {
        known.check(&self.folder, beginning)
    }

    /// What was learned here. Begins if there is nothing yet, and anew if no step was taken and something else shall learn.
    ///
    /// # Errors
    /// The file is damaged, or something else was learned here.
    pub(super) fn learned(&self, beginning: &Beginning, now: u64) -> Result<Learned, AppError> {
        if let Some(known) = self.known()? {
            match self.check(&known, beginning) {
                // The same model, of which nothing was learned so far.
                Err(_) if known.versions.len() == 1 && known.base == beginning.base => {}
                checked => return checked.map(|()| known),
            }
        }
        let learned = Learned::new(beginning, now);
        small_files::write(&self.folder, FILE, &learned)?;
        self.repair(&learned)?;
        Ok(learned)
    }

    /// Serves the version that counts, if a process was killed before it did. Only the process that may change what was learned calls it.
    ///
    /// # Errors
    /// The link cannot be written.
    pub(super) fn repair(&self, learned: &Learned) -> Result<(), AppError> {
        match (learned.serves, &learned.scope) {
            (0, None) => self.lead_to(Path::new(&learned.base)),
            (0, Some(_)) => self.close(),
            (number, _) => self.lead_to(&self.version(number).join(&learned.part)),
        }
    }

    /// What the next step begins with.
    pub(super) fn start(&self, learned: &Learned) -> Start {
        let folder = (learned.serves > 0).then(|| self.version(learned.serves));
        let base = learned.version(0).map(|version| version.digest.clone()).unwrap_or_default();
        Start { number: learned.serves, folder, base }
    }

    /// Writes the weights of a new version, which does not count yet.
    ///
    /// # Errors
    /// They cannot be written.
    pub(super) fn write(&self, number: u64, made: &dyn NewVersion) -> Result<(), AppError> {
        let folder = self.version(number);
        if folder.exists() {
            // A process was killed before it counted.
            std::fs::remove_dir_all(&folder).map_err(|error| unusable(&folder, error))?;
        }
        made.write(&folder)?;
        // A version that counts is on disk, also after a loss of power.
        sync(&folder).map_err(|error| unusable(&folder, error))
    }

    /// Removes the weights of a version that never counted. A failure is ignored: the next version of this number replaces them.
    pub(super) fn discard(&self, number: u64) {
        let _ = std::fs::remove_dir_all(self.version(number));
    }

    /// Serves a new version that was written. What is read before this returns is the version before. Only the process that may change what answers calls
    /// it.
    ///
    /// # Errors
    /// It cannot be noted. The version before serves.
    pub(super) fn publish(&self, learned: &mut Learned, version: WeightsVersion) -> Result<(), AppError> {
        learned.serves = version.number;
        self.note(learned, version)?;
        self.repair(learned)?;
        self.remove_old(learned);
        Ok(())
    }

    /// Whether a version may serve: its weights are on disk, or it is the configured model.
    pub(super) fn is_on_disk(&self, version: &WeightsVersion) -> bool {
        version.is_kept && (version.number == 0 || self.version(version.number).is_dir())
    }

    /// Serves a version that is on disk, or the configured model. `confirms`: even if it learned from something that was forgotten since.
    ///
    /// # Errors
    /// There is no such version on disk, or it is withdrawn.
    pub(super) fn serve(&self, learned: &mut Learned, number: u64, confirms: bool) -> Result<(), AppError> {
        let refuse = |why: String| Err(RequestError::Other(why).into());
        let place = learned.versions.iter().find(|version| version.number == number);
        let Some(version) = place.filter(|version| self.is_on_disk(version)) else {
            return refuse(format!("there is no version {number} of these weights on disk"));
        };
        if version.is_withdrawn && !confirms {
            return refuse(format!(
                "version {number} learned from something that was forgotten since; confirm it to serve it all the same"
            ));
        }
        learned.serves = number;
        self.keep(learned)
    }

    /// Withdraws the versions that learned from some sessions, by their names `RUN/EPISODE` or those of their scopes, and lets the last one serve that did not and from which
    /// the served one was learned. Returns their numbers, also of those that were withdrawn before. Nothing is written.
    pub(super) fn withdrawn(&self, learned: &mut Learned, names: &BTreeSet<String>) -> Vec<u64> {
        // A step whose sessions cannot be read may have had any.
        let taught = learned.taught_by(|number| {
            StepSessions::read(&self.step(number)).is_none_or(|step: StepSessions| step.has_any(names))
        });
        let mut withdrawn = Vec::new();
        for version in learned.versions.iter_mut().filter(|version| taught.contains(&version.number)) {
            if version.is_kept {
                withdrawn.push(version.number);
            }
            version.is_withdrawn = true;
        }
        if taught.contains(&learned.serves) {
            let is_usable = |number: &u64| {
                let version = learned.version(*number).filter(|version| !version.is_withdrawn);
                version.is_some_and(|version| self.is_on_disk(version))
            };
            learned.serves = learned.ancestors(learned.serves).into_iter().find(is_usable).unwrap_or(0);
        }
        withdrawn
    }

    /// Removes everything that was learned here.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn remove(&self) -> Result<(), AppError> {
        // What a gateway reads goes first, and what says whose it is last: it may be interrupted.
        self.close()?;
        let failed = |error| unusable(&self.folder, error);
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_folder = entry.file_type().map_err(failed)?.is_dir();
            match entry.file_name() == FILE {
                true => Ok(()),
                false if is_folder => std::fs::remove_dir_all(entry.path()),
                false => std::fs::remove_file(entry.path()),
            }
            .map_err(failed)?;
        }
        sync_folder(&self.folder).and_then(|()| std::fs::remove_dir_all(&self.folder)).map_err(failed)?;
        self.folder.parent().map_or(Ok(()), sync_folder).map_err(failed)
    }

    /// Writes what was changed, and serves the version that counts.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn keep(&self, learned: &Learned) -> Result<(), AppError> {
        small_files::write(&self.folder, FILE, learned)?;
        self.repair(learned)?;
        // What no longer serves does not come back after a loss of power.
        let path = self.folder.join(FILE);
        let synced = sync_file(&path).and_then(|()| sync_folder(&self.folder));
        synced.map_err(|error| unusable(&path, error))
    }

    /// Writes the sessions of a step.
    ///
    /// # Errors
    /// They cannot be written.
    pub(super) fn list(&self, number: u64, taught: Taught) -> Result<(), AppError> {
        StepSessions::new(taught).write(&self.folder.join(STEPS), &format!("{number}.json"))
    }

    fn step(&self, number: u64) -> PathBuf {
        self.folder.join(STEPS).join(format!("{number}.json"))
    }

    /// Removes the named sessions, and the sessions of the named scopes, from the files of all steps. A file that cannot be read may name them, and is deleted.
    ///
    /// # Errors
    /// A file cannot be written or removed.
    pub(super) fn forget_sessions(&self, names: &BTreeSet<String>) -> Result<(), AppError> {
        let folder = self.folder.join(STEPS);
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            match StepSessions::read(&path) {
                Some(mut step) if step.has_any(names) => {
                    step.forget(names);
                    step.write(&folder, &name.to_string_lossy())?;
                }
                Some(_) => {}
                None => std::fs::remove_file(&path).map_err(|error| unusable(&path, error))?,
            }
        }
        Ok(())
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

    /// Removes old versions from the disk. A failure is ignored: the next version tries again.
    fn remove_old(&self, learned: &Learned) {
        let newest = learned.versions.iter().rev().filter(|one| one.is_kept).take(KEPT).map(|one| one.number);
        let kept: Vec<u64> = newest.chain([learned.serves]).collect();
        for folder in folders(&self.folder.join("versions")) {
            let number = folder.file_name().and_then(|name| name.to_string_lossy().parse::<u64>().ok());
            if number.is_none_or(|number| !kept.contains(&number)) {
                let _ = std::fs::remove_dir_all(folder);
            }
        }
    }

    /// Makes `serving` lead to a folder, in one move.
    fn lead_to(&self, folder: &Path) -> Result<(), AppError> {
        let serving = self.serving();
        if std::fs::read_link(&serving).is_ok_and(|now| now == folder) {
            return Ok(());
        }
        if std::fs::symlink_metadata(&serving).is_ok_and(|found| found.is_dir()) {
            self.close()?;
        }
        let new = self.folder.join(format!(".serving.{}", std::process::id()));
        let _ = std::fs::remove_file(&new);
        link(folder, &new).and_then(|()| std::fs::rename(&new, &serving)).map_err(|error| unusable(&serving, error))
    }
}

/// The folders in a folder. None, if it cannot be read.
fn folders(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir())
}

/// Brings a folder and everything in it to the disk.
fn sync(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sync(&path)?;
        } else {
            sync_file(&path)?;
        }
    }
    sync_folder(folder)
}

fn sync_file(path: &Path) -> std::io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}

/// Brings the names in a folder to the disk, where the system can.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    std::fs::File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

#[cfg(unix)]
fn link(folder: &Path, at: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(folder, at)
}

#[cfg(windows)]
fn link(folder: &Path, at: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_dir(folder, at)
}
