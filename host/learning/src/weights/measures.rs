//! Statistics of an iteration's training episodes for weights.

use super::Curriculum;
use super::RolloutMeasures;
use crate::experience::{Experience, rewards, successes, varies};
use clawhost_core::{Episode, RewardSource, Verdict};
use clawhost_learn::policy::{IterationSignal, Reading, Watched, repetition};
use clawhost_play::{ScoringRule, pass_at_k};
use std::collections::BTreeMap;
use std::sync::Arc;

fn mean(values: Vec<f64>) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Pass@1 and pass@`size`, and the share of groups without variance.
pub(super) fn measures(experience: &Experience, size: u32, best: f64, curriculum: &Curriculum) -> RolloutMeasures {
    let groups = &experience.played;
    let mut measured = RolloutMeasures {
        refilled_groups: experience.refilled,
        tasks_passed_over: curriculum.passed_over().map(|count| count as u64),
        ..RolloutMeasures::default()
    };
    let counts: Vec<(u64, u64)> = groups.values().map(|group| successes(group, best)).collect();
    for k in [1, u64::from(size)].into_iter().take(if size > 1 { 2 } else { 1 }) {
        let values = counts.iter().filter_map(|(successes, members)| pass_at_k(*members, *successes, k));
        measured.pass_at.extend(mean(values.collect()).map(|value| (k, value)));
    }
    let compared = groups.values().filter(|group| rewards(group).len() >= 2);
    measured.zero_variance_share = mean(compared.map(|group| f64::from(u8::from(!varies(group)))).collect());
    measured
}

/// The mean of each reward, as a share of its range, by name. Empty if there is only one: it is the reward that is learned
/// from.
pub(super) fn rewards_by_name(episodes: &[Arc<Episode>], rules: &[ScoringRule]) -> BTreeMap<String, f64> {
    if rules.len() < 2 {
        return BTreeMap::new();
    }
    let share = |rule: &ScoringRule| {
        let (name, about) = (&rule.reward.identity().name, rule.reward.description());
        let own = episodes.iter().flat_map(|episode| &episode.verdicts).filter(|record| record.reward.name == *name);
        let values = own.filter_map(|record| match &record.verdict {
            Verdict::Scored(card) => Some(card.value),
            Verdict::NotApplicable(_) | Verdict::Failed(_) => None,
        });
        let range = (about.maximum - about.minimum).max(f64::MIN_POSITIVE);
        Some((name.clone(), (mean(values.collect())? - about.minimum) / range))
    };
    rules.iter().filter_map(share).collect()
}

/// The answers of an episode, in tokens.
fn answers(episode: &Episode) -> impl Iterator<Item = &[u32]> {
    episode.turns.iter().filter_map(|turn| turn.tokens.as_ref()).map(|record| record.tokens.as_slice())
}

/// The mean share of repeated n-grams in the answers of an episode. `None`: all answers are too short.
pub(super) fn repeated(episodes: &[Arc<Episode>]) -> Option<f64> {
    mean(episodes.iter().filter_map(|episode| repetition(answers(episode))).collect())
}

/// What may move against the reward. `None`: nothing was scored.
pub(super) fn reading(
    experience: &Experience,
    rules: &[ScoringRule],
    measured: &RolloutMeasures,
    (reward, entropy): (Option<f64>, Option<f64>),
) -> Option<Reading> {
    let reward = scaled(rules, reward?);
    let episodes = experience.episodes();
    let lengths = episodes.iter().map(|episode| answers(episode).map(<[u32]>::len).sum::<usize>() as f64);
    let lengths = mean(lengths.collect()).filter(|length| *length > 0.0);
    let single = [
        lengths.map(|length| (Watched::Length, length)),
        entropy.filter(|entropy| entropy.is_finite()).map(|entropy| (Watched::Entropy, entropy)),
        measured.repetition.map(|share| (Watched::Repetition, share)),
    ];
    let rewards = measured.rewards.iter().map(|(name, share)| (Watched::Reward(name.clone()), *share));
    Some(Reading { reward, others: single.into_iter().flatten().chain(rewards).collect() })
}

/// A reward as a share of the possible range.
fn scaled(rules: &[ScoringRule], reward: f64) -> f64 {
    let (least, most) = possible(rules);
    (reward - least) / (most - least).max(f64::MIN_POSITIVE)
}

/// The learning signal of an iteration.
pub(super) fn signal(experience: &Experience, rules: &[ScoringRule], reward: Option<f64>) -> IterationSignal {
    let groups = experience.played.values().filter(|group| rewards(group).len() >= 2).count() as u64;
    let varied = experience.played.values().filter(|group| varies(group)).count() as u64;
    let mean_reward = reward.map_or(0.0, |reward| scaled(rules, reward));
    IterationSignal { groups, varied, mean_reward }
}

/// Smallest and largest value of the deciding rewards: those of the source with the highest precedence.
fn possible(rules: &[ScoringRule]) -> (f64, f64) {
    let counts = |rule: &&ScoringRule| rule.weight > 0.0;
    let source =
        RewardSource::ALL.into_iter().find(|source| rules.iter().filter(counts).any(|rule| rule.source == *source));
    let deciding = rules.iter().filter(counts).filter(|rule| Some(rule.source) == source);
    let bounds = deciding.map(|rule| (rule.reward.description().minimum, rule.reward.description().maximum));
    bounds.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))).unwrap_or((-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experience::{Groups, tests::group};
    use clawhost_core::{Digest, RunId, StateId};

    #[test]
    fn pass_at_k_and_the_share_without_variance_are_means_over_groups() {
        let played = Groups::from([
            (0, group(&[Some(1.0), Some(0.0), Some(0.0), Some(0.0)])),
            (1, group(&[Some(0.5), Some(0.5), Some(0.5), Some(0.5)])),
            (2, group(&[None, None, None, Some(1.0)])),
        ]);
        let experience = Experience {
            id: RunId("r".into()),
            number: 0,
            state_id: StateId(Digest::of(b"state")),
            selected: Groups::new(),
            played,
            refilled: 3,
        };
        let measured = measures(&experience, 4, 1.0, &Curriculum::default());
        assert_eq!(measured.pass_at[&1], (0.25 + 0.0 + 1.0) / 3.0);
        assert_eq!(measured.pass_at[&4], 0.5, "a group with fewer tries is left out");
        assert_eq!(measured.zero_variance_share, Some(0.5), "a group of one is left out");
        assert_eq!((measured.refilled_groups, measured.tasks_passed_over), (3, None));
        assert_eq!(
            measures(&experience, 1, 1.0, &Curriculum::default()).pass_at.len(),
            1,
            "with one try there is only pass@1"
        );
    }
}
