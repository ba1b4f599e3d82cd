//! Who watches a learning run.

use crate::harness::EvolutionReport;
use crate::report::IterationReport;
use crate::weights::{WarmStart, WarmStartReport};
use clawhost_core::Episode;
use clawhost_play::Observer;
use std::sync::Arc;

/// Watches a learning run.
pub trait LearnObserver: Observer {
    /// A phase begins that plays so many episodes.
    fn phase(&self, name: &str, episodes: u64);
    /// A section of the prompt has evolved.
    fn evolved(&self, _: &EvolutionReport) {}
    /// The model was measured while it learns from demonstrations.
    fn warmed(&self, _: &WarmStartReport, _: &WarmStart) {}
    /// The training episodes of an iteration were played and scored; nothing was learned from them yet.
    fn played(&self, _: u64, _: &[Arc<Episode>]) {}
    /// An iteration is over, of so many.
    fn iteration(&self, report: &IterationReport, of: u64);
}
