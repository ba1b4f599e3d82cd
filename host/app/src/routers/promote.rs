//! Promotions: whether a candidate of a router replaces the served state, judged on decisions that it did not learn from.
//!
//! Every decision is logged with the probabilities of all actions under the state that made it. So any fixed state can be judged on the
//! log, whichever state decided: the served one about live sessions, or that of a later learning run. Of the log only those decisions count
//! that were added after the candidate was learned. The served state may have learned from them, which can only favour it.
//!
//! A promotion serves the state that was judged, under the next number and at the weight of cost that the budget has reached.

use super::candidate::{Candidate, waiting};
use super::config::{LIVE_REWARDS, RouterFile};
use super::files::{StoredRouter, router_file, write_served};
use super::log::read_log;
use super::versions::{RouterVersion, folder_of, hold, keep_version, named, next_number};
use crate::{AppError, RequestError};
use clawhost_core::Digest;
use clawhost_learn::gate::{ALPHA, alpha_of};
use clawhost_learn::router::offline::{Evaluation, Target};
use clawhost_learn::router::promotion::{Verdict, judge};
use serde::Serialize;
use std::num::NonZeroU32;
use std::path::Path;

/// A candidate of a router, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitingCandidate {
    /// The run that learned it.
    pub run: String,
    /// When that run ended: Unix time in milliseconds.
    pub learned_ms: u64,
    /// The digest of everything that can change a decision.
    pub identity: Digest,
    /// Outcomes that it learned from.
    pub learned: u64,
    /// Decisions in the log when it was learned.
    pub logged: u64,
    /// Decisions that were logged since: what it is judged on.
    pub later: u64,
}

impl WaitingCandidate {
    fn new(candidate: &Candidate, later: usize) -> Self {
        let Candidate { run, learned_ms, logged, router, .. } = candidate;
        let (identity, learned) = (router.identity(), router.learned());
        Self { run: run.clone(), learned_ms: *learned_ms, identity, learned, logged: *logged, later: later as u64 }
    }
}

/// What a promotion found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Promotion {
    /// The candidate.
    pub candidate: WaitingCandidate,
    /// Whether it replaces the served state.
    pub verdict: Verdict,
    /// Number of this judgement among those of the router that count. A refusal for want of decisions does not count.
    pub number: u32,
    /// The chance with which each interval misses: a share of the gate's, by the number.
    pub alpha: f64,
    /// About how many decisions are missing until the log can tell.
    pub missing: u64,
    /// What both would have earned. `None`: fewer than two decisions were judged.
    pub evaluation: Option<Evaluation>,
    /// What was served before, and what is served now, if it was promoted.
    pub promoted: Option<Promoted>,
}

/// A promoted candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Promoted {
    /// What was served before, and is kept as a version.
    pub before: RouterVersion,
    /// What is served now.
    pub now: RouterVersion,
}

/// The candidates of a router that wait: the one that is judged first, and perhaps the result of a later run behind it.
///
/// # Errors
/// A file cannot be read.
pub fn waiting_candidates(stored: &StoredRouter) -> Result<Vec<WaitingCandidate>, AppError> {
    let folder = folder_of(stored);
    let candidates = waiting(&folder, &stored.name, stored.book.gate.settled.as_deref())?;
    let log = if candidates.is_empty() { Vec::new() } else { read_log(&folder, &stored.name)? };
    Ok(candidates.iter().map(|candidate| WaitingCandidate::new(candidate, candidate.later(&log).len())).collect())
}

/// The candidate of a router that is judged first, and what else waits.
fn first(stored: &StoredRouter) -> Result<(Candidate, Vec<Candidate>), AppError> {
    let mut all = waiting(&folder_of(stored), &stored.name, stored.book.gate.settled.as_deref())?.into_iter();
    let none = || {
        let why = format!("router {} has no candidate; another learning run of it makes one", stored.name);
        AppError::from(RequestError::NoRouter { why })
    };
    Ok((all.next().ok_or_else(none)?, all.collect()))
}

/// Judges the candidate of a router on the decisions that were logged after it was learned, and serves it if it is shown to be better, or
/// cheaper and about as good. What it replaces is kept as a version.
///
/// # Errors
/// There is no such router or it has no candidate, the router is being learned, or a file cannot be read or written.
pub fn promote_router(data: &Path, name: &str) -> Result<Promotion, AppError> {
    named(data, Some(name))?;
    let _lease = hold(data, name)?;
    // Under the lease, because rewards may have come since.
    let mut stored = named(data, Some(name))?;
    let folder = folder_of(&stored);
    let (mut candidate, _) = first(&stored)?;
    let mut served = stored.router.clone();
    let file = router_file(&folder, name, "toml");
    if file.exists() {
        // Both at today's prices, as a gateway would serve them.
        let file = RouterFile::read(&file)?;
        served = file.router(Some(served), LIVE_REWARDS)?;
        candidate.router = file.router(Some(candidate.router), LIVE_REWARDS)?;
    }
    candidate.router.take_weight_of(&served);
    let log = read_log(&folder, name)?;
    let later = candidate.later(&log);
    let number = NonZeroU32::MIN.saturating_add(stored.book.gate.judged);
    let target = |router| Target { router, policy: &router.settings().policy };
    let (verdict, evaluation) = judge(later, target(&candidate.router), target(&served), number)?;
    let shown = WaitingCandidate::new(&candidate, later.len());
    let missing = evaluation.missing(later.len());
    stored.book.gate.judged += u32::from(verdict.counts());
    let promoted = match verdict.promotes() {
        true => Some(serve(&mut stored, candidate)?),
        false => {
            if verdict.counts() {
                write_served(&folder, name, &stored.router, &stored.book)?;
            }
            None
        }
    };
    Ok(Promotion {
        candidate: shown,
        verdict,
        number: number.get(),
        alpha: alpha_of(number, ALPHA),
        missing,
        evaluation: (evaluation.judged >= 2).then_some(evaluation),
        promoted,
    })
}

/// Serves a candidate, and keeps the former state as a version. One file is replaced: the candidate counts as settled from then on, whether its own
/// file is removed or not.
fn serve(stored: &mut StoredRouter, candidate: Candidate) -> Result<Promoted, AppError> {
    let (folder, name) = (folder_of(stored), stored.name.clone());
    let mut router = candidate.router.clone();
    router.renumber(next_number(&folder, &name, stored.router.version())?);
    keep_version(&folder, &name, &stored.router)?;
    stored.book.gate.settled = Some(candidate.run.clone());
    write_served(&folder, &name, &router, &stored.book)?;
    candidate.remove()?;
    Ok(Promoted { before: RouterVersion::new(&stored.router, false), now: RouterVersion::new(&router, true) })
}

/// Drops the candidate of a router. The result of a later run that waits behind it takes its place. Returns what was dropped, and what waits now.
///
/// # Errors
/// As [`promote_router`].
pub fn discard_candidate(data: &Path, name: &str) -> Result<(WaitingCandidate, Option<WaitingCandidate>), AppError> {
    named(data, Some(name))?;
    let _lease = hold(data, name)?;
    let mut stored = named(data, Some(name))?;
    let folder = folder_of(&stored);
    let (candidate, behind) = first(&stored)?;
    let log = read_log(&folder, name)?;
    let shown = |candidate: &Candidate| WaitingCandidate::new(candidate, candidate.later(&log).len());
    stored.book.gate.settled = Some(candidate.run.clone());
    write_served(&folder, name, &stored.router, &stored.book)?;
    candidate.remove()?;
    Ok((shown(&candidate), behind.first().map(shown)))
}

#[cfg(test)]
mod tests;
