//! Computes the numbers of a learning run again from its recorded episodes: what a proof of learning is checked by. Nothing is played.

use crate::evaluation::{Arm, EvaluationStage, Scale, Tested, split_name};
use crate::report::Evaluation;
use crate::sides::Sides;
use crate::splits::Splits;
use clawhost_play::{Conditions, Part, ScoringRule};
use std::collections::BTreeMap;

/// Layers that act in one state at a time, by the names of their stages.
const EXCLUSIVE: [&str; 2] = ["router", "weights"];

/// The result of a recorded episode.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedResult {
    /// Its group in the phase.
    pub group: u64,
    /// Its index in the phase.
    pub index: u64,
    /// The key of its task.
    pub task: String,
    /// Its reward. `None`: it was not scored.
    pub reward: Option<f64>,
}

/// A recorded phase of a learning run.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedPhase {
    /// What determined its episodes.
    pub conditions: Conditions,
    /// Their results.
    pub results: Vec<RecordedResult>,
}

impl RecordedPhase {
    /// The results of its arms, in the order of the arms.
    pub(crate) fn tested(&self) -> Vec<Tested> {
        let Conditions { group, seed, first_group, .. } = self.conditions;
        let arms = group.max(1) as usize;
        let sides = Sides::new(seed, arms);
        let mut tested = vec![Tested::new(); arms];
        for RecordedResult { group, index, task, reward } in &self.results {
            let arm = sides.of(first_group.saturating_add(*group), *index);
            if let Some(tested) = tested.get_mut(arm) {
                tested.insert(*group, (task.clone(), *reward));
            }
        }
        tested
    }

    /// Mean reward of its scored episodes; `None` if there are none. Sums in the order of the episodes, as the run did.
    pub fn mean_reward(&self) -> Option<f64> {
        let rewards: Vec<f64> = self.results.iter().filter_map(|result| result.reward).collect();
        (!rewards.is_empty()).then(|| rewards.iter().sum::<f64>() / rewards.len() as f64)
    }
}

/// The evaluation of a learning run, from its test phases by name. `layers`: the stages of the run, in order. How many test tasks earlier runs
/// had used does not follow from the episodes: it is 0. `None`: a phase of the test is missing.
pub fn evaluate_again(
    layers: &[String],
    phases: &BTreeMap<String, RecordedPhase>,
    splits: &Splits,
    parts: &[Part],
    rewards: &[ScoringRule],
) -> Option<Evaluation> {
    let layers: Vec<(String, bool)> =
        layers.iter().map(|layer| (layer.clone(), EXCLUSIVE.contains(&layer.as_str()))).collect();
    let stage = EvaluationStage::of_layers(&layers);
    let arms = stage.arms();
    let mut of_phases: BTreeMap<String, std::vec::IntoIter<Tested>> = BTreeMap::new();
    let mut tested = Vec::with_capacity(arms.len());
    // The arms of a phase are in the order of all arms.
    for arm in &arms {
        let name = phase_of(&stage, arm);
        if !of_phases.contains_key(&name) {
            of_phases.insert(name.clone(), phases.get(&name)?.tested().into_iter());
        }
        tested.push(of_phases.get_mut(&name)?.next()?);
    }
    let split = split_name(splits);
    Some(stage.compared(&arms, &tested, Scale { split: &split, parts, rewards }))
}

fn phase_of(stage: &EvaluationStage, arm: &Arm) -> String {
    stage.phase_name(&stage.acting(arm))
}
