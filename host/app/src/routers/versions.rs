//! Versions of a router, and the way back to one of them.
//!
//! A router has one served state, `NAME.json`, which learns on with every reward. A *version* is a copy of it that never changes again,
//! `NAME.vN.state`: of the state before a promotion, before a rollback, and after every [`KEEP_EVERY`] outcomes of live sessions. A rollback
//! serves a copy of a version under the next number, and a promotion a candidate, so no number ever names two states. Each replaces one
//! file atomically: a process that is killed leaves either the former state or the new one. A gateway takes the new state over when it
//! next settles decisions.

use super::files::{StoredRouter, is_path, read_router, read_state, unusable, write_served, write_version};
use crate::{AppError, RequestError};
use clawhost_core::{Digest, Lease, LeaseMode, LeaseSubject, Leases as _};
use clawhost_learn::router::Router;
use clawhost_store::FileLeases;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Outcomes of live sessions after which a version is kept: some days of a busy gateway, and far fewer files than decisions.
pub(super) const KEEP_EVERY: u64 = 500;
/// Versions of a router that are kept, the latest ones: of half a year at one promotion a week, in some megabytes.
pub const KEPT_VERSIONS: usize = 32;

/// How often a lease is asked for, and the pause between two times. A gateway holds a router for milliseconds, a learning run for minutes.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// A version of a router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RouterVersion {
    /// Its number.
    pub version: u64,
    /// The digest of everything that can change a decision. A version and a rollback to it have equal ones.
    pub identity: Digest,
    /// Outcomes learned from.
    pub learned: u64,
    /// Whether it is the state that is served, which learns on.
    pub served: bool,
}

impl RouterVersion {
    pub(super) fn new(router: &Router, served: bool) -> Self {
        Self { version: router.version(), identity: router.identity(), learned: router.learned(), served }
    }
}

/// What a rollback did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RolledBack {
    /// What was served before, and is kept as a version.
    pub before: RouterVersion,
    /// The version that was gone back to.
    pub to: RouterVersion,
    /// What is served now: a copy of that version under a number of its own.
    pub now: RouterVersion,
}

/// The files of the versions of a router, by their numbers.
fn version_files(folder: &Path, name: &str) -> Result<BTreeMap<u64, PathBuf>, AppError> {
    let entries = std::fs::read_dir(folder).map_err(|error| unusable(folder, error))?;
    let numbered = |path: PathBuf| {
        let rest = path.file_name()?.to_str()?.strip_prefix(name)?.strip_prefix(".v")?;
        Some((rest.strip_suffix(".state")?.parse().ok()?, path))
    };
    Ok(entries.flatten().filter_map(|entry| numbered(entry.path())).collect())
}

/// The versions of a router that are kept beside this one, by their numbers.
fn kept(stored: &StoredRouter) -> Result<BTreeMap<u64, Router>, AppError> {
    let mut versions = BTreeMap::new();
    for path in version_files(&folder_of(stored), &stored.name)?.into_values() {
        // A file may have been removed since the folder was read.
        if let Some(StoredRouter { router, .. }) = read_state(&path)? {
            versions.insert(router.version(), router);
        }
    }
    versions.remove(&stored.router.version());
    Ok(versions)
}

/// A number that no version of a router has had: above those that are kept, and above `served`.
pub(super) fn next_number(folder: &Path, name: &str, served: u64) -> Result<u64, AppError> {
    let kept = version_files(folder, name)?.into_keys().next_back();
    Ok(kept.map_or(served, |kept| kept.max(served)).saturating_add(1))
}

/// Keeps a state of a router as a version. Of more than [`KEPT_VERSIONS`] the oldest go; the served state is none of them.
///
/// # Errors
/// It cannot be written, or an old one cannot be removed.
pub(super) fn keep_version(folder: &Path, name: &str, router: &Router) -> Result<(), AppError> {
    write_version(folder, name, router)?;
    let files = version_files(folder, name)?;
    let surplus = files.len().saturating_sub(KEPT_VERSIONS);
    for path in files.into_values().take(surplus) {
        std::fs::remove_file(&path).map_err(|error| unusable(&path, error))?;
    }
    Ok(())
}

pub(super) fn folder_of(stored: &StoredRouter) -> PathBuf {
    stored.path.parent().unwrap_or(Path::new("")).to_owned()
}

/// The router of this name in the data folder. `None`: the only one there.
pub(super) fn named(data: &Path, name: Option<&str>) -> Result<StoredRouter, AppError> {
    if let Some(path) = name.filter(|name| is_path(name)) {
        let why = format!("{path} is a file; name a router in the data folder");
        return Err(RequestError::NoRouter { why }.into());
    }
    read_router(data, name)
}

/// The name of a router in the data folder, and its versions, the latest first. `None`: the only router there.
///
/// # Errors
/// There is no such router, or one of its files cannot be read.
pub fn router_versions(data: &Path, name: Option<&str>) -> Result<(String, Vec<RouterVersion>), AppError> {
    let stored = named(data, name)?;
    let mut versions: Vec<_> = kept(&stored)?.values().map(|router| RouterVersion::new(router, false)).collect();
    versions.push(RouterVersion::new(&stored.router, true));
    versions.sort_by_key(|one| std::cmp::Reverse(one.version));
    Ok((stored.name, versions))
}

/// Serves a version again. `None`: the latest one that is kept. The state that was served is kept as a version. What became of decisions
/// about live sessions stays, so none of them teaches twice.
///
/// # Errors
/// There is no such router or version, the router is being learned, or a file cannot be read or written.
pub fn roll_back_router(data: &Path, name: &str, to: Option<u64>) -> Result<RolledBack, AppError> {
    named(data, Some(name))?;
    let _lease = hold(data, name)?;
    // Under the lease, because rewards may have come since.
    let stored = named(data, Some(name))?;
    let versions = kept(&stored)?;
    let wanted = to.map_or_else(|| versions.last_key_value(), |number| versions.get_key_value(&number));
    let Some((_, target)) = wanted else {
        let listed: Vec<String> = versions.keys().map(u64::to_string).collect();
        let listed = if listed.is_empty() { "none".to_owned() } else { listed.join(", ") };
        let wanted = to.map_or_else(|| "no earlier version".to_owned(), |number| format!("no version {number}"));
        let why = format!("router {name} has {wanted} to go back to; kept are {listed}");
        return Err(RequestError::NoRouter { why }.into());
    };
    let folder = folder_of(&stored);
    let mut router = target.clone();
    router.renumber(next_number(&folder, name, stored.router.version())?);
    keep_version(&folder, name, &stored.router)?;
    write_served(&folder, name, &router, &stored.book)?;
    Ok(RolledBack {
        before: RouterVersion::new(&stored.router, false),
        to: RouterVersion::new(target, false),
        now: RouterVersion::new(&router, true),
    })
}

/// Holds a router. A gateway that settles decisions is waited for.
pub(super) fn hold(data: &Path, name: &str) -> Result<Box<dyn Lease>, AppError> {
    let (leases, subject) = (FileLeases::new(data), LeaseSubject::Playbook(format!("router:{name}")));
    for _ in 0..LOOKS {
        if let Some(lease) = leases.acquire(&subject, LeaseMode::Exclusive)? {
            return Ok(lease);
        }
        std::thread::sleep(PAUSE);
    }
    let why = format!("router {name} is being learned by another process; wait for it");
    Err(RequestError::NoRouter { why }.into())
}

/// Keeps a version if the outcomes learned from have passed a multiple of [`KEEP_EVERY`].
///
/// # Errors
/// It cannot be written.
pub(super) fn keep_sometimes(folder: &Path, name: &str, learned_before: u64, router: &Router) -> Result<(), AppError> {
    if learned_before / KEEP_EVERY == router.learned() / KEEP_EVERY {
        return Ok(());
    }
    keep_version(folder, name, router)
}
