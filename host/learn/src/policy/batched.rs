//! From a batch of a layer to experience: the same arithmetic wherever weights are computed.

use super::{Dropped, Experience, Generated, PolicyGradient, Recorded, Staleness, Trajectory, TrajectoryGroup};
use crate::{Batch, LearnError, Measurements, Metric};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Log-probs of a trajectory's tokens under other weights than those that sampled it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OtherLogprobs {
    /// Under the current weights, if older ones sampled it.
    pub trainer: Option<Vec<f64>>,
    /// Under the reference, if the objective keeps the policy near it.
    pub reference: Option<Vec<f64>>,
}

/// The tokens of a batch by the names of their episodes.
pub fn generated(batch: &Batch) -> BTreeMap<String, Arc<Generated>> {
    let members = batch.groups.iter().flat_map(|group| &group.members);
    members.filter_map(|member| Some((member.episode.to_string(), member.generated.clone()?))).collect()
}

/// The batch with more answers marked as [`Generated::restricted`], by the name of their episode: nobody can compute again from what they were sampled.
/// [`Experience::of_batch`] drops and counts them.
pub fn restricted(batch: &Batch, is_unknown: impl Fn(&str, &Generated) -> bool) -> Cow<'_, Batch> {
    let mut batch = Cow::Borrowed(batch);
    for group in 0..batch.groups.len() {
        let members = batch.groups.get(group).map_or(&[][..], |group| &group.members);
        let unknown: Vec<usize> = (0..)
            .zip(members)
            .filter(|(_, member)| {
                let generated = member.generated.as_ref().filter(|generated| !generated.restricted);
                generated.is_some_and(|generated| is_unknown(&member.episode.to_string(), generated))
            })
            .map(|(number, _)| number)
            .collect();
        for number in unknown {
            let member = batch.to_mut().groups.get_mut(group).and_then(|group| group.members.get_mut(number));
            if let Some(generated) = member.and_then(|member| member.generated.as_mut()) {
                Arc::make_mut(generated).restricted = true;
            }
        }
    }
    batch
}

impl Experience {
    /// The experience of a batch for weights of the version `current`, and what was measured of it. `other` gives the log-probs of a trajectory, by
    /// the name of its episode.
    ///
    /// # Errors
    ///
    /// As [`Experience::new`] and [`Trajectory::new`].
    pub fn of_batch(
        batch: &Batch,
        (objective, staleness): (PolicyGradient, Staleness),
        current: u64,
        mut other: impl FnMut(&str) -> OtherLogprobs,
    ) -> Result<(Self, Measurements), LearnError> {
        let mut groups = Vec::with_capacity(batch.groups.len());
        for group in &batch.groups {
            let mut members = Vec::with_capacity(group.members.len());
            for member in &group.members {
                let Some(generated) = &member.generated else { continue };
                let name = member.episode.to_string();
                let OtherLogprobs { trainer, reference } = other(&name);
                let recorded = generated.recorded(name, member.reward, current.saturating_sub(generated.version));
                members.push(Trajectory::new(Recorded { trainer, reference, ..recorded })?);
            }
            groups.push(TrajectoryGroup { task: group.task.clone(), members });
        }
        let (groups, dropped) = staleness.keep(groups);
        let Dropped { unknown_distribution, old_weights, old_playbook } = dropped;
        let experience = Self::new(objective, groups)?;
        let mut metrics = experience.report().named();
        let counts = [
            (Metric::DroppedUnknownDistribution, unknown_distribution),
            (Metric::DroppedOldWeights, old_weights),
            (Metric::DroppedOldPlaybook, old_playbook),
        ];
        for (metric, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            metrics.set(metric, count as f64);
        }
        Ok((experience, metrics))
    }
}
