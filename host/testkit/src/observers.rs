//! Observers: one that ignores everything, and one that keeps what it observes.

use clawhost_core::Episode;
use clawhost_learning::{EvolutionReport, IterationReport, LearnObserver};
use clawhost_play::{EpisodeSummary, Observer};
use std::sync::{Arc, Mutex};

/// Ignores everything.
pub struct Silent;

impl Observer for Silent {
    fn recorded(&self, _: &EpisodeSummary, _: u64, _: u64) {}
}

/// Keeps the names of begun phases, the ended iterations, and the evolved sections.
#[derive(Default)]
pub struct Watching {
    /// Names of phases, in order.
    pub phases: Mutex<Vec<String>>,
    /// Numbers of iterations, in order.
    pub iterations: Mutex<Vec<u64>>,
    /// Episodes of every iteration, received before layers learn from them.
    pub played: Mutex<Vec<Vec<Arc<Episode>>>>,
    /// Reports of evolutions.
    pub evolved: Mutex<Vec<EvolutionReport>>,
}

impl Observer for Watching {
    fn recorded(&self, _: &EpisodeSummary, _: u64, _: u64) {}
}

impl LearnObserver for Watching {
    fn phase(&self, name: &str, _: u64) {
        self.phases.lock().unwrap().push(name.to_owned());
    }

    fn evolved(&self, report: &EvolutionReport) {
        self.evolved.lock().unwrap().push(report.clone());
    }

    fn played(&self, _: u64, episodes: &[Arc<Episode>]) {
        self.played.lock().unwrap().push(episodes.to_vec());
    }

    fn iteration(&self, report: &IterationReport, _: u64) {
        self.iterations.lock().unwrap().push(report.iteration);
    }
}
