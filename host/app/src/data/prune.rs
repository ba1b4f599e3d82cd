//! Removes records: which ones, which ones stay, and why.

use super::citations::Citations;
use super::policy::{PruneRule, Selection, select};
use super::{Amount, DataReport, HeldRun, measure};
use crate::runs::find_run;
use crate::workspace::{hold_folder, ledger_key_of};
use crate::{AppError, Workspace};
use clawhost_core::{LeaseMode, Removal, Removed, Retention as _, RunHoldings, RunId, StoreReader};
use clawhost_store::{Store, StoreOptions};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// A request for a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneRequest {
    /// Which runs.
    pub rule: PruneRule,
    /// Report what would be removed, and remove nothing.
    pub is_rehearsal: bool,
}

/// A run that is removed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrunedRun {
    /// Its contents.
    #[serde(flatten)]
    pub holdings: RunHoldings,
    /// Its episodes that are kept.
    pub kept_episodes: u64,
    /// Whether its specification is kept, and with it the run in lists.
    pub keeps_record: bool,
}

/// Something that matches the rule and is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// The run.
    pub run: RunId,
    /// What is kept, and why.
    #[serde(flatten)]
    pub because: KeptBecause,
}

/// What is kept of a run, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum KeptBecause {
    /// Everything: it was interrupted and can be resumed. It is removed only by name.
    CanBeResumed,
    /// Its specification and its reports: it created versions of playbooks.
    MadeVersions {
        /// The playbooks.
        playbooks: Vec<String>,
    },
    /// Episodes: lessons cite them as evidence.
    Cited {
        /// The episodes: `RUN/ID`.
        episodes: Vec<String>,
    },
}

/// A completed removal, or a rehearsal of one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PruneReport {
    /// The data folder.
    pub folder: String,
    /// Whether this is a rehearsal: nothing was removed.
    #[serde(rename = "dry_run")]
    pub is_rehearsal: bool,
    /// Removed runs, the oldest first.
    pub runs: Vec<PrunedRun>,
    /// What matches the rule and is kept.
    pub kept: Vec<Kept>,
    /// Blobs that no record referred to before.
    pub unused_blobs: Amount,
    /// Bytes of records and their blobs before.
    pub bytes_before: u64,
    /// Bytes of records and their blobs afterwards. `None`: nothing was removed.
    pub bytes_after: Option<u64>,
    /// What was removed. Of a rehearsal: what would be removed, without bytes, which are unknown before. With a target
    /// size, the sizes of runs are estimates, and a removal may remove more than its rehearsal. `None`: nothing was
    /// done yet.
    pub removed: Option<Removed>,
}

impl PruneReport {
    /// Number of removed episodes.
    pub fn episodes(&self) -> u64 {
        self.runs.iter().map(|run| run.holdings.episodes.saturating_sub(run.kept_episodes)).sum()
    }

    /// Approximate bytes of the removed runs.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.holdings.bytes.saturating_add(run.holdings.blob_bytes)).sum()
    }
}

/// Removes runs from a data folder, and with them the plugins and blobs that lose their last reference. Runs that can
/// be resumed are removed only by name. Whatever playbooks refer to is always kept: records of the runs that created
/// their versions, and episodes that their lessons cite.
///
/// # Errors
/// There is no database or no such run, another process uses the folder, or it cannot be written.
pub async fn prune(folder: &Path, request: &PruneRequest, now_ms: u64) -> Result<PruneReport, AppError> {
    let reader = Workspace::read(folder)?;
    let mode = if request.is_rehearsal { LeaseMode::Shared } else { LeaseMode::Exclusive };
    let _held = hold_folder(folder, mode)?;
    let request = &PruneRequest { rule: found(&*reader, &request.rule)?, ..request.clone() };
    // A removal leaves entries in the ledger.
    let options = StoreOptions { ledger_key: ledger_key_of(folder)?, ..StoreOptions::default() };
    let store = Store::open(folder, options)?;
    let citations = Citations::read(&*reader)?;
    let first = measure(folder, &*reader, &store).await?;
    let mut report = PruneReport {
        folder: first.folder.clone(),
        is_rehearsal: request.is_rehearsal,
        runs: Vec::new(),
        kept: Vec::new(),
        unused_blobs: first.unused_blobs,
        bytes_before: first.record_bytes(),
        bytes_after: None,
        removed: None,
    };
    let mut held = first;
    // The bytes that a run frees are known only after its removal, because other runs may refer to the same blobs. So a
    // target size is approached in rounds; each round selects runs that no earlier round selected.
    let mut meant: BTreeSet<RunId> = BTreeSet::new();
    loop {
        let round = Round::plan(&held, &meant, request, now_ms, &citations, &*reader)?;
        let is_last = round.runs.is_empty() || !matches!(request.rule, PruneRule::KeepSize { .. });
        meant.extend(round.removal.runs.iter().cloned());
        meant.extend(round.kept.iter().map(|kept| kept.run.clone()));
        let is_empty = round.removal.runs.is_empty();
        report.runs.extend(round.runs);
        report.kept.extend(round.kept);
        if request.is_rehearsal {
            report.removed = Some(store.rehearse(round.removal).await?);
            return Ok(report);
        }
        // The first round also removes everything without references.
        if report.removed.is_none() || !is_empty {
            let removed = store.remove(round.removal).await?;
            report.removed = Some(sum(report.removed.unwrap_or_default(), removed));
            held = measure(folder, &*reader, &store).await?;
        }
        if is_last {
            report.bytes_after = Some(held.record_bytes());
            return Ok(report);
        }
    }
}

/// A rule with the ids of the named runs.
fn found(reader: &dyn StoreReader, rule: &PruneRule) -> Result<PruneRule, AppError> {
    let PruneRule::Runs(named) = rule else { return Ok(rule.clone()) };
    let ids = named.iter().map(|run| Ok(find_run(reader, &run.0)?.id));
    Ok(PruneRule::Runs(ids.collect::<Result<_, AppError>>()?))
}

fn sum(one: Removed, other: Removed) -> Removed {
    Removed {
        runs: one.runs + other.runs,
        episodes: one.episodes + other.episodes,
        plugins: one.plugins + other.plugins,
        blobs: one.blobs + other.blobs,
        bytes: one.bytes + other.bytes,
    }
}

/// One removal, with its report.
struct Round {
    removal: Removal,
    runs: Vec<PrunedRun>,
    kept: Vec<Kept>,
}

impl Round {
    fn plan(
        held: &DataReport,
        meant: &BTreeSet<RunId>,
        request: &PruneRequest,
        now_ms: u64,
        citations: &Citations,
        reader: &dyn StoreReader,
    ) -> Result<Self, AppError> {
        let open: Vec<HeldRun> = held.runs.iter().filter(|held| !meant.contains(&held.holdings.run)).cloned().collect();
        // Blobs without references are removed anyway.
        let in_use = held.record_bytes().saturating_sub(held.unused_blobs.bytes);
        let Selection { removed, resumable } = select(&open, in_use, &request.rule, now_ms);
        let mut round = Self {
            removal: Removal { unused_plugins: true, ..Removal::default() },
            runs: Vec::new(),
            kept: resumable.into_iter().map(|run| Kept { run, because: KeptBecause::CanBeResumed }).collect(),
        };
        for run in removed {
            let Some(held) = open.iter().find(|held| held.holdings.run == run) else { continue };
            round.take(held, citations, citations.of_run(reader, &run)?);
        }
        Ok(round)
    }

    /// Removes one run except for what playbooks refer to.
    fn take(&mut self, held: &HeldRun, citations: &Citations, cited: BTreeSet<String>) {
        let holdings = held.holdings.clone();
        let run = holdings.run.clone();
        let playbooks = citations.playbooks.get(&run);
        let (kept_episodes, keeps_record) = (cited.len() as u64, playbooks.is_some());
        if let Some(playbooks) = playbooks {
            self.removal.keep_records.insert(run.clone());
            let playbooks = playbooks.iter().cloned().collect();
            self.kept.push(Kept { run: run.clone(), because: KeptBecause::MadeVersions { playbooks } });
        }
        if !cited.is_empty() {
            let episodes = cited.iter().cloned().collect();
            self.kept.push(Kept { run: run.clone(), because: KeptBecause::Cited { episodes } });
            self.removal.keep_episodes.extend(cited);
        }
        self.removal.runs.insert(run);
        // If an earlier removal left only what must be kept, nothing is removed.
        let is_bare = kept_episodes == holdings.episodes && !held.can_be_resumed;
        if !(is_bare && (keeps_record || kept_episodes > 0)) {
            self.runs.push(PrunedRun { keeps_record: keeps_record || kept_episodes > 0, kept_episodes, holdings });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{RunKind, RunState};
    use std::collections::BTreeMap;

    fn held(episodes: u64) -> HeldRun {
        let holdings = RunHoldings {
            run: RunId("run-a".into()),
            kind: RunKind::Learn,
            environment: "env".into(),
            created_at: 0,
            state: RunState::Finished,
            episodes,
            bytes: 100,
            blob_bytes: 10,
        };
        HeldRun { holdings, can_be_resumed: false }
    }

    fn taken(episodes: u64, playbooks: &[&str], cited: &[&str]) -> Round {
        let mut citations = Citations::default();
        if !playbooks.is_empty() {
            let playbooks = playbooks.iter().map(|name| (*name).to_owned()).collect();
            citations.playbooks = BTreeMap::from([(RunId("run-a".into()), playbooks)]);
        }
        let mut round = Round { removal: Removal::default(), runs: Vec::new(), kept: Vec::new() };
        round.take(&held(episodes), &citations, cited.iter().map(|name| (*name).to_owned()).collect());
        round
    }

    #[test]
    fn a_run_without_references_is_removed_as_a_whole() {
        let Round { removal, runs, kept } = taken(5, &[], &[]);
        assert_eq!(removal, Removal { runs: [RunId("run-a".into())].into(), ..Removal::default() });
        assert!((runs[0].kept_episodes, runs[0].keeps_record) == (0, false) && kept.is_empty());
    }

    #[test]
    fn records_that_playbooks_refer_to_are_kept_and_reported() {
        let Round { removal, runs, kept } = taken(5, &["house", "shop"], &["run-a.1/ep-1", "run-a.1/ep-2"]);
        assert_eq!(removal.keep_records, removal.runs);
        assert_eq!(removal.keep_episodes, ["run-a.1/ep-1", "run-a.1/ep-2"].map(str::to_owned).into());
        assert_eq!((runs[0].kept_episodes, runs[0].keeps_record), (2, true));
        let told: Vec<&KeptBecause> = kept.iter().map(|kept| &kept.because).collect();
        let playbooks = ["house", "shop"].map(str::to_owned).to_vec();
        let episodes = ["run-a.1/ep-1", "run-a.1/ep-2"].map(str::to_owned).to_vec();
        assert_eq!(told, [&KeptBecause::MadeVersions { playbooks }, &KeptBecause::Cited { episodes }]);
    }

    #[test]
    fn a_run_with_only_kept_records_is_not_removed_again() {
        let check = |round: Round, goes: usize| assert_eq!((round.runs.len(), round.removal.runs.len()), (goes, 1));
        check(taken(2, &["house"], &["run-a.1/ep-1", "run-a.1/ep-2"]), 0);
        check(taken(0, &["house"], &[]), 0);
        check(taken(2, &[], &["run-a.1/ep-1", "run-a.1/ep-2"]), 0);
        check(taken(3, &["house"], &["run-a.1/ep-1", "run-a.1/ep-2"]), 1);
        check(taken(0, &[], &[]), 1);
    }
}
