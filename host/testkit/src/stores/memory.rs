//! A store of one run.

use async_trait::async_trait;
use clawhost_core::{
    Admission, Episode, EpisodeStore, Judged, Recorded, RewardRule, RunId, RunRecord, StoreError, Usage, admit,
    effective_reward,
};
use std::sync::{Arc, Mutex};

/// Keeps the episodes of one run. Its size may be limited.
#[derive(Default)]
pub struct Memory {
    /// The record with which the run was begun.
    pub begun: Mutex<Option<RunRecord>>,
    /// The recorded episodes, in order.
    pub recorded: Mutex<Vec<Recorded>>,
    /// The summary of the run. `None`: it has not finished.
    pub finished: Mutex<Option<serde_json::Value>>,
    /// Largest number of episodes. `None`: no limit.
    pub full_after: Option<usize>,
}

impl Memory {
    /// The recorded episodes, in the order in which they were recorded.
    pub fn episodes(&self) -> Vec<Arc<Episode>> {
        self.recorded.lock().unwrap().iter().map(|recorded| recorded.episode.clone()).collect()
    }

    /// The summary of the run. `None`: it has not finished.
    pub fn summary(&self) -> Option<serde_json::Value> {
        self.finished.lock().unwrap().clone()
    }
}

#[async_trait]
impl EpisodeStore for Memory {
    async fn begin_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        *self.begun.lock().unwrap() = Some(run.clone());
        Ok(())
    }

    async fn resume_run(&self, _: &RunId) -> Result<(), StoreError> {
        *self.finished.lock().unwrap() = None;
        Ok(())
    }

    async fn append(&self, _: &RunId, episodes: Vec<Recorded>, _: Usage) -> Result<(), StoreError> {
        let mut kept = self.recorded.lock().unwrap();
        let replaced = |known: &Recorded| {
            episodes.iter().any(|new| new.replaces_existing && new.episode.index == known.episode.index)
        };
        kept.retain(|known| !replaced(known));
        if self.full_after.is_some_and(|most| kept.len() + episodes.len() > most) {
            return Err(StoreError::Full { path: "memory".into() });
        }
        for recorded in &episodes {
            assert!(kept.iter().all(|known| known.episode.id != recorded.episode.id), "an episode was recorded twice");
        }
        kept.extend(episodes);
        Ok(())
    }

    async fn judge(&self, judged: Vec<Judged>) -> Result<Vec<Admission>, StoreError> {
        let mut kept = self.recorded.lock().unwrap();
        let mut admit_one = |Judged { episode, record, at, key, .. }: Judged| {
            let place = kept.iter_mut().find(|known| known.episode.id == episode).unwrap();
            let place = Arc::make_mut(&mut place.episode);
            let rule = RewardRule { is_live: place.origin.session().is_some(), expects: &place.expects };
            let admission = admit(record, (at, key), rule, &mut place.verdicts);
            place.reward = effective_reward(&place.verdicts);
            admission
        };
        Ok(judged.into_iter().map(&mut admit_one).collect())
    }

    async fn finish_run(&self, _: &RunId, summary: &serde_json::Value, _: Usage) -> Result<(), StoreError> {
        *self.finished.lock().unwrap() = Some(summary.clone());
        Ok(())
    }
}
