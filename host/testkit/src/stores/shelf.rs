//! A store in memory. It serialises everything to text, as a disk would, asserts that calls are valid, and can fail at any call.

use async_trait::async_trait;
use clawhost_core::{
    Admission, Checkpoint, Digest, Episode, EpisodeStore, Judged, LargeState, LearningStore, PhaseState,
    PlaybookLedger, PlaybookVersion, Recorded, RunId, RunRecord, StoreError, Usage, recorded_root,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Kept {
    runs: BTreeMap<RunId, (RunRecord, Option<String>)>,
    episodes: BTreeMap<RunId, BTreeMap<u64, String>>,
    checkpoints: BTreeMap<RunId, (u64, String)>,
    large: BTreeMap<RunId, BTreeMap<String, Arc<[u8]>>>,
    iterations: BTreeMap<RunId, BTreeMap<u64, String>>,
    versions: BTreeMap<String, Vec<PlaybookVersion>>,
    ledgers: BTreeMap<String, PlaybookLedger>,
}

/// A strict store that can fail at any call, as if its process had died.
#[derive(Default)]
pub struct Shelf {
    kept: Mutex<Kept>,
    calls: AtomicU64,
    /// This call and every later one fail and change nothing, as if the process had died.
    dies_at: Mutex<Option<u64>>,
}

impl Kept {
    fn stopped(summary: &str) -> bool {
        !serde_json::from_str::<serde_json::Value>(summary).unwrap()["stopped"].is_null()
    }

    fn finished(&self, run: &RunId) -> bool {
        self.runs[run].1.as_deref().is_some_and(|summary| !Self::stopped(summary))
    }

    fn add(&mut self, version: PlaybookVersion) {
        let versions = self.versions.entry(version.name.clone()).or_default();
        if versions.last().is_none_or(|newest| newest.digest != version.digest) {
            let number = versions.len() as u64 + 1;
            versions.push(PlaybookVersion { number, ..version });
        }
    }
}

impl Shelf {
    /// A store whose process dies at this call.
    pub fn dying(at: u64) -> Arc<Self> {
        Arc::new(Self { dies_at: Mutex::new(Some(at)), ..Self::default() })
    }

    /// Simulates a new process: calls succeed again, up to the given one.
    pub fn revive(&self, dies_at: Option<u64>) {
        *self.dies_at.lock().unwrap() = dies_at;
    }

    /// Makes the last checkpoint of a run unreadable.
    pub fn damage_state(&self, run: &RunId) {
        self.kept.lock().unwrap().checkpoints.get_mut(run).unwrap().1 = "{}".into();
    }

    /// Makes the report of a run's first iteration unreadable.
    pub fn damage_iteration(&self, run: &RunId) {
        self.kept.lock().unwrap().iterations.get_mut(run).unwrap().insert(1, "{}".into());
    }

    /// Loses the large parts of a run's last checkpoint.
    pub fn lose_large_state(&self, run: &RunId) {
        self.kept.lock().unwrap().large.remove(run);
    }

    /// Number of calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn call<T>(&self, act: impl FnOnce(&mut Kept) -> T) -> Result<T, StoreError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.dies_at.lock().unwrap().is_some_and(|at| number >= at) {
            return Err(StoreError::Other("the process was killed".into()));
        }
        Ok(act(&mut self.kept.lock().unwrap()))
    }

    /// Whether a run was begun.
    pub fn has_run(&self, run: &RunId) -> bool {
        self.kept.lock().unwrap().runs.contains_key(run)
    }

    /// All begun runs, including phases.
    pub fn runs(&self) -> Vec<RunId> {
        self.kept.lock().unwrap().runs.keys().cloned().collect()
    }

    /// The record with which a run was begun.
    pub fn record(&self, run: &RunId) -> RunRecord {
        self.kept.lock().unwrap().runs[run].0.clone()
    }

    /// The summary of a run. `None`: it has not finished.
    pub fn summary(&self, run: &RunId) -> Option<serde_json::Value> {
        let kept = self.kept.lock().unwrap();
        kept.runs[run].1.as_ref().map(|text| serde_json::from_str(text).unwrap())
    }

    /// Every stored episode, phase by phase.
    pub fn all(&self) -> Vec<Episode> {
        let kept = self.kept.lock().unwrap();
        kept.episodes.values().flat_map(|of| of.values()).map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    /// Episodes of the phases whose name contains this text.
    pub fn of_phases(&self, part: &str) -> Vec<Episode> {
        self.all().into_iter().filter(|episode| episode.run.0.contains(part)).collect()
    }

    /// Every version of a playbook, oldest first.
    pub fn versions(&self, name: &str) -> Vec<PlaybookVersion> {
        self.kept.lock().unwrap().versions.get(name).cloned().unwrap_or_default()
    }

    /// The last checkpoint of a run: the number of completed iterations, and the state.
    pub fn state(&self, run: &RunId) -> Option<(u64, serde_json::Value)> {
        let kept = self.kept.lock().unwrap();
        kept.checkpoints.get(run).map(|(number, text)| (*number, serde_json::from_str(text).unwrap()))
    }

    /// The stored reports of a run's iterations.
    pub fn reports(&self, run: &RunId) -> Vec<serde_json::Value> {
        let kept = self.kept.lock().unwrap();
        let reports = kept.iterations.get(run).into_iter().flat_map(|reports| reports.values());
        reports.map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    /// The large parts of the last checkpoint of a run, by name.
    pub fn large(&self, run: &RunId) -> BTreeMap<String, Arc<[u8]>> {
        self.kept.lock().unwrap().large.get(run).cloned().unwrap_or_default()
    }
}

#[async_trait]
impl EpisodeStore for Shelf {
    async fn begin_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        self.call(|kept| {
            let before = kept.runs.insert(run.id.clone(), (run.clone(), None));
            assert!(before.is_none(), "{} was begun twice", run.id);
        })
    }

    async fn resume_run(&self, run: &RunId) -> Result<(), StoreError> {
        self.call(|kept| {
            let is_phase = kept.runs[run].0.parent.is_some();
            assert!(!is_phase || !kept.finished(run), "{run} was over, and is played again");
            kept.runs.get_mut(run).unwrap().1 = None;
        })
    }

    async fn append(&self, run: &RunId, episodes: Vec<Recorded>, _: Usage) -> Result<(), StoreError> {
        self.call(|kept| {
            assert!(!kept.finished(run), "{run} is over");
            let known = kept.episodes.entry(run.clone()).or_default();
            for Recorded { episode, replaces_existing, .. } in episodes {
                let before = known.insert(episode.index, serde_json::to_string(&*episode).unwrap());
                let index = episode.index;
                assert_eq!(before.is_some(), replaces_existing, "{run}: {index} is recorded twice, or takes no place");
            }
        })
    }

    async fn judge(&self, _: Vec<Judged>) -> Result<Vec<Admission>, StoreError> {
        panic!("no verdict is added later here")
    }

    async fn finish_run(&self, run: &RunId, summary: &serde_json::Value, _: Usage) -> Result<(), StoreError> {
        self.call(|kept| kept.runs.get_mut(run).unwrap().1 = Some(summary.to_string()))
    }
}

#[async_trait]
impl LearningStore for Shelf {
    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        self.call(|kept| {
            let Checkpoint { run, iteration, state, report, versions, ledger, large, .. } = checkpoint;
            let mut earlier = kept.large.remove(&run).unwrap_or_default();
            let now = large.into_iter().map(|(name, state)| {
                let bytes = match state {
                    LargeState::Written(bytes) => bytes,
                    LargeState::Unchanged => earlier.remove(&name).expect("an unchanged state was stored"),
                };
                (name, bytes)
            });
            let now = now.collect();
            kept.large.insert(run.clone(), now);
            if !report.is_null() {
                let before = kept.iterations.entry(run.clone()).or_default().insert(iteration, report.to_string());
                assert!(before.is_none(), "iteration {iteration} ended twice");
            }
            kept.checkpoints.insert(run, (iteration, state.to_string()));
            versions.into_iter().for_each(|version| kept.add(version));
            kept.ledgers.extend(ledger.into_iter().map(|ledger| (ledger.name.clone(), ledger)));
        })
    }

    async fn last_checkpoint(&self, run: &RunId) -> Result<Option<(u64, serde_json::Value)>, StoreError> {
        self.call(|kept| {
            let (number, text) = kept.checkpoints.get(run)?;
            Some((*number, serde_json::from_str(text).unwrap()))
        })
    }

    async fn large_state(&self, run: &RunId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.call(|kept| Some(kept.large.get(run)?.get(name)?.to_vec()))
    }

    async fn iterations(&self, run: &RunId) -> Result<Vec<serde_json::Value>, StoreError> {
        self.call(|kept| {
            let reports = kept.iterations.get(run).into_iter().flat_map(|reports| reports.values());
            reports.map(|text| serde_json::from_str(text).unwrap()).collect()
        })
    }

    async fn phase(&self, phase: &RunId) -> Result<PhaseState, StoreError> {
        self.call(|kept| match kept.runs.contains_key(phase) {
            false => PhaseState::Absent,
            true if kept.finished(phase) => PhaseState::Finished,
            true => PhaseState::Open,
        })
    }

    async fn episodes(&self, phase: &RunId) -> Result<Vec<Arc<Episode>>, StoreError> {
        self.call(|kept| {
            let texts = kept.episodes.get(phase).into_iter().flat_map(|episodes| episodes.values());
            texts.map(|text| Arc::new(serde_json::from_str(text).unwrap())).collect()
        })
    }

    async fn content_roots(&self, run: &RunId) -> Result<BTreeMap<String, Digest>, StoreError> {
        self.call(|kept| {
            let finished =
                kept.runs.keys().filter(|id| kept.runs[id].0.parent.as_ref() == Some(run) && kept.finished(id));
            let root = |id: &RunId| {
                let summary: serde_json::Value = serde_json::from_str(kept.runs[id].1.as_ref().unwrap()).unwrap();
                Some((id.phase_of(run)?.to_owned(), recorded_root(&summary)?))
            };
            finished.filter_map(root).collect()
        })
    }

    async fn playbook(&self, name: &str) -> Result<Option<PlaybookVersion>, StoreError> {
        self.call(|kept| kept.versions.get(name)?.last().cloned())
    }

    async fn ledger(&self, name: &str) -> Result<Option<PlaybookLedger>, StoreError> {
        self.call(|kept| kept.ledgers.get(name).cloned())
    }

    async fn add_version(&self, version: PlaybookVersion, ledger: Option<PlaybookLedger>) -> Result<(), StoreError> {
        self.call(|kept| {
            kept.add(version);
            kept.ledgers.extend(ledger.into_iter().map(|ledger| (ledger.name.clone(), ledger)));
        })
    }
}
