//! The episodes that two judges place most differently.

use super::{Levels, Scored, Sides};
use clawhost_core::{EpisodeId, RunId};
use serde::Serialize;
use std::collections::BTreeSet;

/// Usual number of disagreements in a report: as many as a person reads at once.
pub const DISAGREEMENTS: usize = 10;

/// An episode that two judges place differently.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disagreement {
    /// The run.
    pub run: RunId,
    /// The episode.
    pub episode: EpisodeId,
    /// The task.
    pub task: String,
    /// The scores.
    pub scores: Sides<f64>,
    /// Of each judge the share of episodes that it places below this one, half of those with an equal score included.
    pub places: Sides<f64>,
    /// The distance of the places, 0 to 1.
    pub distance: f64,
    /// What each judge says about its score. Pairs have no texts: it is empty until a reader of the episodes fills it in.
    pub rationales: Sides<String>,
}

/// The episodes with the largest distance of places, the largest first; of equal ones those whose scores differ more. Places do not depend
/// on the scales of the judges. Episodes with equal scores or equal places are no disagreements. Of each task there is one episode, because
/// the others mostly show the same.
pub(super) fn largest(scored: &[Scored<'_>], levels: &Sides<Levels>, count: usize) -> Vec<Disagreement> {
    let (of_a, of_b) = (levels.a.places(), levels.b.places());
    let mut all: Vec<(usize, f64, f64)> = scored
        .iter()
        .zip(of_a.iter().zip(&of_b))
        .enumerate()
        .map(|(position, (one, (a, b)))| (position, (a - b).abs(), (one.scores.a - one.scores.b).abs()))
        .filter(|(_, distance, apart)| *distance > 0.0 && *apart > 0.0)
        .collect();
    // Stable: equal ones stay in the order of the episodes.
    all.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.2.total_cmp(&one.2)));
    let mut seen = BTreeSet::new();
    all.retain(|(position, ..)| scored.get(*position).is_some_and(|one| seen.insert(one.unit)));
    let listed = |(position, distance, _): (usize, f64, f64)| {
        let one = scored.get(position)?;
        Some(Disagreement {
            run: one.pair.run.clone(),
            episode: one.pair.episode.clone(),
            task: one.pair.task.clone(),
            scores: one.scores,
            places: Sides { a: *of_a.get(position)?, b: *of_b.get(position)? },
            distance,
            rationales: Sides::default(),
        })
    };
    all.into_iter().take(count).filter_map(listed).collect()
}
