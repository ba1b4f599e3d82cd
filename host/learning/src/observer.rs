//! Observation of a learning run.

use crate::harness::EvolutionReport;
use crate::report::IterationReport;
use crate::weights::{WarmStart, WarmStartReport};
use clawhost_core::Episode;
use clawhost_play::Observer;
use std::sync::Arc;

/// Receives the events of a learning run.
pub trait LearnObserver: Observer {
    /// A phase starts; it plays this many episodes.
    fn phase(&self, name: &str, episodes: u64);
    /// The evolution of a section ended.
    fn evolved(&self, _: &EvolutionReport) {}
    /// The model was measured during its warm start.
    fn warmed(&self, _: &WarmStartReport, _: &WarmStart) {}
    /// The training episodes of an iteration were played and scored. No layer has learned from them yet.
    fn played(&self, _: u64, _: &[Arc<Episode>]) {}
    /// An iteration of `of` is complete.
    fn iteration(&self, report: &IterationReport, of: u64);
}
