//! Collects the answers of two judges while episodes are judged.

use super::cost::{Meter, Metered, Used};
use super::judges::{Against, OwnRange, RewardKey, stored};
use crate::score::ScoreWatcher;
use clawhost_core::{Digest, Episode, EpisodeOrigin, LlmIdentity, RewardRecord, RewardSource, Verdict};
use clawhost_play::{Answer, JudgedPair, ScoringRule, Sides, SliceKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The position of the first judge among the rewards, and that of the second one.
const SECOND: usize = 1;

/// The answers so far.
pub(super) struct Pairing<'a> {
    against: &'a Against,
    /// By run, group and index: the order does not depend on which was judged first.
    pub(super) pairs: BTreeMap<(usize, u64, u64), JudgedPair>,
    /// What the verdicts of each judge used.
    pub(super) used: [Used; 2],
    /// The calls of each reward.
    pub(super) metered: Vec<Arc<Meter>>,
    /// The declared range of each reward.
    pub(super) ranges: Vec<(f64, f64)>,
    /// The rewards behind the runs' own reward.
    pub(super) own: OwnRange,
    /// The first judge.
    pub(super) first: Option<RewardKey>,
}

impl<'a> Pairing<'a> {
    pub(super) fn new(against: &'a Against) -> Self {
        Self {
            against,
            pairs: BTreeMap::new(),
            used: Default::default(),
            metered: Vec::new(),
            ranges: Vec::new(),
            own: OwnRange::default(),
            first: None,
        }
    }
}

impl ScoreWatcher for Pairing<'_> {
    fn loaded(&mut self, rules: &mut [ScoringRule]) {
        for rule in rules {
            let description = rule.reward.description();
            self.ranges.push((description.minimum, description.maximum));
            let options = Digest::of_json(&serde_json::json!(rule.options));
            self.first.get_or_insert((rule.reward.identity().digest, options));
            let (reward, meter) = Metered::of(rule.reward.clone());
            rule.reward = reward;
            self.metered.push(meter);
        }
    }

    fn answered(&mut self, reward: usize, place: (usize, u64), episode: &Episode, record: Option<&RewardRecord>) {
        let Self { against, pairs, used, own, first, .. } = self;
        if let (Some(used), Some(record)) = (used.get_mut(reward), record) {
            used.add(record);
        }
        let answer = record.map_or(Answer::Missing, answer_of);
        let pair = pairs.entry((place.0, place.1, episode.index)).or_insert_with(|| paired(episode));
        if reward == SECOND {
            pair.answers.b = answer;
            return;
        }
        pair.answers.a = answer;
        let own_reward = stored(&Against::Own, episode, first.as_ref());
        let source = own_reward.decided_by.map_or("none", RewardSource::name);
        pair.slices.push((SliceKind::Source, source.to_owned()));
        let found = match against {
            Against::Reward(_) => return,
            Against::Own => {
                own.add(&own_reward.records);
                own_reward
            }
            Against::Feedback => stored(against, episode, None),
        };
        pair.answers.b = found.answer;
        let [_, used] = used;
        found.records.iter().for_each(|record| used.add(record));
    }
}

fn answer_of(record: &RewardRecord) -> Answer {
    match &record.verdict {
        Verdict::Scored(card) => Answer::Scored(card.value),
        Verdict::NotApplicable(_) => Answer::NotApplicable,
        Verdict::Failed(_) => Answer::Failed,
    }
}

/// An episode before anything is known of its judges.
fn paired(episode: &Episode) -> JudgedPair {
    let LlmIdentity { provider, model, .. } = &episode.policy.model;
    let policy = if provider == model { provider.clone() } else { format!("{provider}:{model}") };
    let name = episode.origin.name();
    let tasks = match &episode.origin {
        EpisodeOrigin::Simulated(_) => format!("{name}, {}", episode.task.split),
        EpisodeOrigin::Live(_) => format!("{name}, live"),
    };
    let task = episode.task.key();
    JudgedPair {
        run: episode.run.clone(),
        episode: episode.id.clone(),
        // Another environment has other tasks of the same id.
        unit: format!("{name}/{task}"),
        task,
        slices: vec![(SliceKind::Run, episode.run.0.clone()), (SliceKind::Policy, policy), (SliceKind::Tasks, tasks)],
        answers: Sides { a: Answer::Missing, b: Answer::Missing },
    }
}
