//! Watches a run whose weights learn: progress for whoever waits, numbers and texts for whoever looks later.

use super::completions;
use super::journal::Journal;
use super::tensorboard::Events;
use crate::learn_progress::LearnProgress;
use crate::pace::{Pace, TRAINING};
use clawhost_core::Episode;
use clawhost_runtime::learn::{IterationReport, LearnObserver, WarmStart, WarmStartReport};
use clawhost_runtime::{EpisodeSummary, Observer};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Files of a run.
pub(super) const METRICS: &str = "metrics.jsonl";
/// See [`METRICS`].
pub(super) const COMPLETIONS: &str = "completions.jsonl";

/// Everything that is written on the way.
struct Files {
    folder: PathBuf,
    metrics: Journal,
    completions: Journal,
    events: Option<Events>,
    pace: Pace,
    /// Of the iteration under way.
    rows: Vec<[String; 3]>,
    /// What went wrong first: a full disk must not end a run that learns, but be told.
    broken: Option<String>,
}

/// The watcher.
pub(super) struct Watch<'a> {
    progress: &'a LearnProgress,
    completions: usize,
    files: Mutex<Files>,
}

/// Numbers of an iteration.
fn line(report: &IterationReport, timing: Option<Value>) -> Value {
    json!({
        "iteration": report.iteration, "reward": report.reward, "episodes": report.episodes,
        "removed": report.removed, "not_learned": report.learned.as_ref().err(), "signal": report.signal,
        "metrics": report.metrics, "timing": timing,
    })
}

impl<'a> Watch<'a> {
    /// Writes into this folder.
    pub(super) fn new(progress: &'a LearnProgress, folder: &Path, completions: u16) -> Self {
        let files = Files {
            folder: folder.to_owned(),
            metrics: Journal::new(&folder.join(METRICS)),
            completions: Journal::new(&folder.join(COMPLETIONS)),
            events: None,
            pace: Pace::default(),
            rows: Vec::new(),
            broken: None,
        };
        Self { progress, completions: usize::from(completions), files: Mutex::new(files) }
    }

    fn written(&self, write: impl FnOnce(&mut Files) -> std::io::Result<()>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Err(error), None) = (write(&mut files), &files.broken) {
            let why = format!("{}: {error}; numbers of this run are missing from now on", files.folder.display());
            self.progress.say(&why);
            files.broken = Some(why);
        }
    }

    /// Adds the numbers of iterations that a process counted and did not come to write before it was killed.
    pub(super) fn complete(&self, reports: &[IterationReport]) {
        self.written(|files| {
            files.metrics.complete(reports.iter().map(|report| (report.iteration, line(report, None))))
        });
    }

    /// What was said last, for a table.
    pub(super) fn rows(&self) -> Vec<[String; 3]> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).rows.clone()
    }
}

impl Observer for Watch<'_> {
    fn recorded(&self, episode: &EpisodeSummary, done: u64, total: u64) {
        self.progress.recorded(episode, done, total);
    }
}

impl LearnObserver for Watch<'_> {
    fn phase(&self, name: &str, episodes: u64) {
        if name.ends_with(TRAINING) {
            self.files.lock().unwrap_or_else(PoisonError::into_inner).pace.begin(Instant::now());
        }
        self.progress.phase(name, episodes);
    }

    fn warmed(&self, report: &WarmStartReport, warm: &WarmStart) {
        self.progress.warmed(report, warm);
    }

    fn played(&self, iteration: u64, episodes: &[Arc<Episode>]) {
        if self.completions == 0 {
            return;
        }
        let chosen = completions::chosen(episodes, self.completions);
        let lines: Vec<_> = chosen.iter().map(|episode| completions::line(iteration, episode)).collect();
        self.written(|files| {
            files.rows = chosen.iter().map(|episode| completions::row(episode)).collect();
            files.completions.write(iteration, &lines)
        });
    }

    fn iteration(&self, report: &IterationReport, of: u64) {
        self.written(|files| {
            let tokens = report.metrics.get("weights.tokens").copied().unwrap_or(0.0);
            let known = files.pace.note(Instant::now(), tokens, of.saturating_sub(report.iteration));
            let timing =
                known.map(|known| json!({ "seconds": known.seconds, "tokens_per_second": known.tokens_per_second }));
            files.metrics.write(report.iteration, &[line(report, timing)])?;
            let events = match &mut files.events {
                Some(events) => events,
                None => files.events.insert(Events::begin(&files.folder, report.iteration)?),
            };
            let numbers = report.metrics.iter().map(|(name, value)| (name.as_str(), *value));
            let timing = known.map(|known| ("timing.tokens_per_second", known.tokens_per_second));
            let reward = report.reward.map(|reward| ("train.reward", reward));
            events.write(report.iteration, reward.into_iter().chain(timing).chain(numbers))
        });
        self.progress.iteration(report, of);
    }
}
