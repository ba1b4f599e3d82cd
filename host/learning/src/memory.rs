//! An in-memory store: for demonstrations, and for programs that store results themselves.

use async_trait::async_trait;
use clawhost_core::{
    Admission, Checkpoint, Digest, Episode, EpisodeStore, Judged, LargeState, LearningStore, PhaseState,
    PlaybookLedger, PlaybookVersion, Recorded, RunId, RunRecord, StoreError, Usage,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Stores what the loop needs to continue; it does not store episodes.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    checkpoints: BTreeMap<RunId, (u64, serde_json::Value)>,
    iterations: BTreeMap<RunId, Vec<serde_json::Value>>,
    large: BTreeMap<RunId, BTreeMap<String, Arc<[u8]>>>,
    versions: BTreeMap<String, Vec<PlaybookVersion>>,
    ledgers: BTreeMap<String, PlaybookLedger>,
}

impl State {
    fn add(&mut self, version: PlaybookVersion) {
        let versions = self.versions.entry(version.name.clone()).or_default();
        // A version equal to the newest is not added.
        if versions.last().is_some_and(|newest| newest.digest == version.digest) {
            return;
        }
        let number = versions.len() as u64 + 1;
        versions.push(PlaybookVersion { number, ..version });
    }
}

impl MemoryStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All versions of a playbook, oldest first.
    pub fn versions(&self, name: &str) -> Vec<PlaybookVersion> {
        self.state().versions.get(name).cloned().unwrap_or_default()
    }
}

#[async_trait]
impl EpisodeStore for MemoryStore {
    async fn begin_run(&self, _: &RunRecord) -> Result<(), StoreError> {
        Ok(())
    }

    async fn resume_run(&self, _: &RunId) -> Result<(), StoreError> {
        Ok(())
    }

    async fn append(&self, _: &RunId, _: Vec<Recorded>, _: Usage) -> Result<(), StoreError> {
        Ok(())
    }

    async fn judge(&self, _: Vec<Judged>) -> Result<Vec<Admission>, StoreError> {
        Ok(Vec::new())
    }

    async fn finish_run(&self, _: &RunId, _: &serde_json::Value, _: Usage) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl LearningStore for MemoryStore {
    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        let mut kept = self.state();
        let Checkpoint { run, iteration, state, report, versions, ledger, large, .. } = checkpoint;
        if !report.is_null() {
            kept.iterations.entry(run.clone()).or_default().push(report);
        }
        let mut earlier = kept.large.remove(&run).unwrap_or_default();
        let now = large.into_iter().filter_map(|(name, state)| match state {
            LargeState::Written(bytes) => Some((name, bytes)),
            LargeState::Unchanged => earlier.remove(&name).map(|bytes| (name, bytes)),
        });
        let now: BTreeMap<String, Arc<[u8]>> = now.collect();
        kept.large.insert(run.clone(), now);
        kept.checkpoints.insert(run, (iteration, state));
        versions.into_iter().for_each(|version| kept.add(version));
        if let Some(ledger) = ledger {
            kept.ledgers.insert(ledger.name.clone(), ledger);
        }
        Ok(())
    }

    async fn last_checkpoint(&self, run: &RunId) -> Result<Option<(u64, serde_json::Value)>, StoreError> {
        Ok(self.state().checkpoints.get(run).cloned())
    }

    async fn large_state(&self, run: &RunId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state().large.get(run).and_then(|parts| parts.get(name)).map(|bytes| bytes.to_vec()))
    }

    async fn iterations(&self, run: &RunId) -> Result<Vec<serde_json::Value>, StoreError> {
        Ok(self.state().iterations.get(run).cloned().unwrap_or_default())
    }

    async fn phase(&self, _: &RunId) -> Result<PhaseState, StoreError> {
        Ok(PhaseState::Absent)
    }

    async fn episodes(&self, _: &RunId) -> Result<Vec<Arc<Episode>>, StoreError> {
        Ok(Vec::new())
    }

    async fn content_roots(&self, _: &RunId) -> Result<BTreeMap<String, Digest>, StoreError> {
        Ok(BTreeMap::new())
    }

    async fn playbook(&self, name: &str) -> Result<Option<PlaybookVersion>, StoreError> {
        Ok(self.state().versions.get(name).and_then(|versions| versions.last()).cloned())
    }

    async fn ledger(&self, name: &str) -> Result<Option<PlaybookLedger>, StoreError> {
        Ok(self.state().ledgers.get(name).cloned())
    }

    async fn add_version(&self, version: PlaybookVersion, ledger: Option<PlaybookLedger>) -> Result<(), StoreError> {
        let mut kept = self.state();
        kept.add(version);
        if let Some(ledger) = ledger {
            kept.ledgers.insert(ledger.name.clone(), ledger);
        }
        Ok(())
    }
}
