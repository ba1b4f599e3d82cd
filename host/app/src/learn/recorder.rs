//! Watches a run whose weights learn: forwards events, and writes metrics and texts into the run's folder.

use super::completions;
use super::journal::Journal;
use super::pace::Pace;
use super::tensorboard::Events;
use crate::events::{Event, EventSink, Warning, Watch};
use clawhost_core::Episode;
use clawhost_learning::{
    EvolutionReport, IterationReport, LearnObserver, WarmStart, WarmStartReport, is_training_phase,
};
use clawhost_play::{EpisodeSummary, Observer};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Metrics of every iteration.
pub(crate) const METRICS: &str = "metrics.jsonl";
/// Some episodes of every iteration as text.
pub(crate) const COMPLETIONS: &str = "completions.jsonl";

/// The files of a run.
struct Files {
    folder: PathBuf,
    metrics: Journal,
    completions: Journal,
    events: Option<Events>,
    pace: Pace,
    /// The state of the current iteration.
    samples: Vec<Arc<Episode>>,
    /// Whether a write failed. A full disk must not end a learning run, but is reported once.
    is_broken: bool,
}

/// The recorder.
pub(crate) struct Recorder<'a> {
    sink: &'a dyn EventSink,
    completions: usize,
    files: Mutex<Files>,
}

/// The metrics of an iteration.
fn line(report: &IterationReport, timing: Option<Value>) -> Value {
    json!({
        "iteration": report.iteration, "reward": report.reward, "episodes": report.episodes,
        "removed": report.removed, "not_learned": report.learned.as_ref().err(),
        "signal": report.weights().and_then(|(_, weights)| weights.signal.as_ref()),
        "fall": report.weights().and_then(|(_, weights)| weights.fall.as_ref()),
        "suspicions": report.weights().map(|(_, weights)| &weights.suspicions),
        "metrics": report.metrics(), "timing": timing,
    })
}

impl<'a> Recorder<'a> {
    /// A recorder that writes into this folder.
    pub(crate) fn new(sink: &'a dyn EventSink, folder: &Path, completions: u32) -> Self {
        let files = Files {
            folder: folder.to_owned(),
            metrics: Journal::new(&folder.join(METRICS)),
            completions: Journal::new(&folder.join(COMPLETIONS)),
            events: None,
            pace: Pace::default(),
            samples: Vec::new(),
            is_broken: false,
        };
        Self { sink, completions: completions as usize, files: Mutex::new(files) }
    }

    fn written(&self, write: impl FnOnce(&mut Files) -> std::io::Result<()>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Err(error), false) = (write(&mut files), files.is_broken) {
            let why = format!("{}: {error}; numbers of this run are missing from now on", files.folder.display());
            files.is_broken = true;
            self.sink.event(Event::Warning(Warning::NotWritten { why }));
        }
    }

    /// Adds metrics of iterations that an earlier process counted but did not write before it was killed.
    pub(crate) fn complete(&self, reports: &[IterationReport]) {
        self.written(|files| {
            files.metrics.complete(reports.iter().map(|report| (report.iteration, line(report, None))))
        });
    }

    /// Episodes of the last iteration that were written as text.
    pub(crate) fn samples(&self) -> Vec<Arc<Episode>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).samples.clone()
    }
}

impl Observer for Recorder<'_> {
    fn recorded(&self, episode: &EpisodeSummary, done: u64, total: u64) {
        Watch(self.sink).recorded(episode, done, total);
    }
}

impl LearnObserver for Recorder<'_> {
    fn phase(&self, name: &str, episodes: u64) {
        if is_training_phase(name) {
            self.files.lock().unwrap_or_else(PoisonError::into_inner).pace.begin(Instant::now());
        }
        Watch(self.sink).phase(name, episodes);
    }

    fn evolved(&self, report: &EvolutionReport) {
        Watch(self.sink).evolved(report);
    }

    fn warmed(&self, report: &WarmStartReport, plan: &WarmStart) {
        Watch(self.sink).warmed(report, plan);
    }

    fn played(&self, iteration: u64, episodes: &[Arc<Episode>]) {
        Watch(self.sink).played(iteration, episodes);
        if self.completions == 0 {
            return;
        }
        let chosen = completions::chosen(episodes, self.completions);
        let lines: Vec<_> = chosen.iter().map(|episode| completions::line(iteration, episode)).collect();
        self.written(|files| {
            files.samples = chosen;
            files.completions.write(iteration, &lines)
        });
    }

    fn iteration(&self, report: &IterationReport, of: u64) {
        self.written(|files| {
            let metrics = report.metrics();
            let tokens = metrics.get("weights.tokens").copied().unwrap_or(0.0);
            let known = files.pace.note(Instant::now(), tokens, of.saturating_sub(report.iteration));
            let timing =
                known.map(|known| json!({ "seconds": known.seconds, "tokens_per_second": known.tokens_per_second }));
            files.metrics.write(report.iteration, &[line(report, timing)])?;
            let events = match &mut files.events {
                Some(events) => events,
                None => files.events.insert(Events::begin(&files.folder, report.iteration)?),
            };
            let numbers = metrics.iter().map(|(name, value)| (name.as_str(), *value));
            let timing = known.map(|known| ("timing.tokens_per_second", known.tokens_per_second));
            let reward = report.reward.map(|reward| ("train.reward", reward));
            events.write(report.iteration, reward.into_iter().chain(timing).chain(numbers))
        });
        Watch(self.sink).iteration(report, of);
    }
}
