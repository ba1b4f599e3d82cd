//! A store in memory that keeps everything as text, as a disk would, is strict about what it is asked, and can die at any call.

use async_trait::async_trait;
use clawhost_core::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Kept {
    runs: BTreeMap<RunId, (RunRecord, Option<String>)>,
    episodes: BTreeMap<RunId, BTreeMap<u64, String>>,
    checkpoints: BTreeMap<RunId, (u64, String)>,
    weights: BTreeMap<RunId, Vec<u8>>,
    iterations: BTreeMap<RunId, BTreeMap<u64, String>>,
    versions: BTreeMap<String, Vec<PlaybookVersion>>,
    ledgers: BTreeMap<String, PlaybookLedger>,
}

#[derive(Default)]
pub(crate) struct Shelf {
    kept: Mutex<Kept>,
    calls: AtomicU64,
    /// The process dies before this call is carried out, and so does every later one.
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
    pub(crate) fn dying(at: u64) -> Arc<Self> {
        Arc::new(Self { dies_at: Mutex::new(Some(at)), ..Self::default() })
    }

    /// A new process: it works again, and may die later.
    pub(crate) fn revive(&self, dies_at: Option<u64>) {
        *self.dies_at.lock().unwrap() = dies_at;
    }

    pub(crate) fn damage_state(&self, run: &RunId) {
        self.kept.lock().unwrap().checkpoints.get_mut(run).unwrap().1 = "{}".into();
    }

    pub(crate) fn damage_iteration(&self, run: &RunId) {
        self.kept.lock().unwrap().iterations.get_mut(run).unwrap().insert(1, "{}".into());
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn call<T>(&self, act: impl FnOnce(&mut Kept) -> T) -> Result<T, StoreError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.dies_at.lock().unwrap().is_some_and(|at| number >= at) {
            return Err(StoreError::Other("the process was killed".into()));
        }
        Ok(act(&mut self.kept.lock().unwrap()))
    }

    pub(crate) fn has_run(&self, run: &RunId) -> bool {
        self.kept.lock().unwrap().runs.contains_key(run)
    }

    /// Runs that were begun, parents and phases.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        self.kept.lock().unwrap().runs.keys().cloned().collect()
    }

    pub(crate) fn summary(&self, run: &RunId) -> Option<serde_json::Value> {
        let kept = self.kept.lock().unwrap();
        kept.runs[run].1.as_ref().map(|text| serde_json::from_str(text).unwrap())
    }

    /// Every stored episode, phase by phase.
    pub(crate) fn all(&self) -> Vec<Episode> {
        let kept = self.kept.lock().unwrap();
        kept.episodes.values().flat_map(|of| of.values()).map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    /// Episodes of phases whose name ends like this, or has this in it.
    pub(crate) fn of_phases(&self, part: &str) -> Vec<Episode> {
        self.all().into_iter().filter(|episode| episode.run.0.contains(part)).collect()
    }

    pub(crate) fn versions(&self, name: &str) -> Vec<PlaybookVersion> {
        self.kept.lock().unwrap().versions.get(name).cloned().unwrap_or_default()
    }

    pub(crate) fn state(&self, run: &RunId) -> Option<(u64, serde_json::Value)> {
        let kept = self.kept.lock().unwrap();
        kept.checkpoints.get(run).map(|(number, text)| (*number, serde_json::from_str(text).unwrap()))
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
            for Recorded { episode, again, .. } in episodes {
                let before = known.insert(episode.index, serde_json::to_string(&*episode).unwrap());
                assert_eq!(before.is_some(), again, "{run}: {} is recorded twice, or takes no place", episode.index);
            }
        })
    }

    async fn judge(&self, _: Vec<Judged>) -> Result<(), StoreError> {
        panic!("nobody judges later here")
    }

    async fn finish_run(&self, run: &RunId, summary: &serde_json::Value, _: Usage) -> Result<(), StoreError> {
        self.call(|kept| kept.runs.get_mut(run).unwrap().1 = Some(summary.to_string()))
    }
}

#[async_trait]
impl LearningStore for Shelf {
    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        self.call(|kept| {
            let Checkpoint { run, iteration, state, report, versions, ledger, weights, .. } = checkpoint;
            kept.weights.extend(weights.map(|weights| (run.clone(), weights)));
            if !report.is_null() {
                let before = kept.iterations.entry(run.clone()).or_default().insert(iteration, report.to_string());
                assert!(before.is_none(), "iteration {iteration} came to its end twice");
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

    async fn weights(&self, run: &RunId) -> Result<Option<Vec<u8>>, StoreError> {
        self.call(|kept| kept.weights.get(run).cloned())
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
