//! Converts recorded episodes into a batch: groups, rewards, randomised entries. Failed and unscored episodes are removed
//! and counted.

use crate::experience::Groups;
use clawhost_core::{Ending, Episode, StateId, Verdict, escaped};
use clawhost_learn::policy::Generated;
use clawhost_learn::{Batch, EntryId, Group, Measurements, Member, Metric, Removed};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most characters of a reason in a report.
const REASON: usize = 500;
/// From this share of truncated episodes on, truncation is reported as a likely cause.
const MANY_CUT_OFF: f64 = 0.5;

/// The scored members of one group; `None` if there are none.
fn group(episodes: &[Arc<Episode>], removed: &mut Removed) -> Option<Group> {
    let scored: Vec<(&Arc<Episode>, f64)> = episodes
        .iter()
        .filter_map(|episode| match episode.reward {
            Some(reward) => Some((episode, reward)),
            None if episode.ending.is_complete() => {
                removed.unscored += 1;
                None
            }
            None => {
                removed.failed += 1;
                None
            }
        })
        .collect();
    let (first, _) = scored.first()?;
    let playbook = |episode: &Episode| episode.policy.playbook.clone();
    // The draw depends on the task's text and is usually equal for all members. If an environment showed members different
    // texts, an entry counts only if it was drawn for all of them.
    let drawn_in = |episode: &Episode, entry: &str| {
        episode.policy.playbook.as_ref().is_some_and(|playbook| playbook.drawn.iter().any(|drawn| drawn.entry == entry))
    };
    let drawn: Vec<String> = playbook(first)
        .map(|playbook| playbook.drawn.into_iter().map(|drawn| drawn.entry).collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter()
        .filter(|entry| scored.iter().all(|(episode, _)| drawn_in(episode, entry)))
        .take(clawhost_learn::DRAWN_ENTRIES)
        .collect();
    let mask = |episode: &Episode| {
        let record = episode.policy.playbook.as_ref();
        let shown = |entry: &String| {
            record.is_some_and(|playbook| playbook.drawn.iter().any(|drawn| drawn.entry == *entry && drawn.shown))
        };
        (0u32..).zip(&drawn).filter(|(_, entry)| shown(entry)).fold(0u64, |mask, (bit, _)| mask | (1 << bit))
    };
    let members = scored
        .iter()
        .map(|(episode, reward)| Member {
            episode: episode.id.clone(),
            reward: *reward,
            shown: mask(episode),
            generated: Generated::of(episode).map(Arc::new),
        })
        .collect();
    Some(Group {
        task: first.task.key(),
        seed: first.seed(),
        propensity: playbook(first).map_or(1.0, |playbook| playbook.propensity),
        members,
        drawn: drawn.into_iter().map(EntryId).collect(),
    })
}

/// The batch of some groups, without answers of reflectors.
pub(crate) fn batch(number: u64, state_id: StateId, groups: &Groups) -> Batch {
    let mut removed = Removed::default();
    let groups = groups.values().filter_map(|episodes| group(episodes, &mut removed)).collect();
    Batch { number, state_id, groups, answers: Vec::new(), removed }
}

/// The most frequent reason why episodes were not scored, with its source.
pub(crate) fn unscored_reason(episodes: &[Arc<Episode>]) -> String {
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for episode in episodes {
        let mut note = |reason: String| *reasons.entry(escaped(&reason, REASON)).or_default() += 1;
        if let Ending::Failed(failure) = &episode.ending {
            note(failure.to_string());
        }
        for record in &episode.verdicts {
            match &record.verdict {
                Verdict::Scored(_) => {}
                Verdict::NotApplicable(why) => note(format!("{} has nothing to say: {why}", record.reward.name)),
                Verdict::Failed(failure) => note(format!("{} failed: {failure}", record.reward.name)),
            }
        }
    }
    let most = reasons.into_iter().max_by_key(|(_, times)| *times);
    most.map_or_else(|| "no reward scored it".to_owned(), |(why, _)| why)
}

/// Why a step changed no weights, from the layer's measurements.
pub(crate) fn unmoved_reason(measured: &Measurements) -> String {
    let why = match measured.get(Metric::TruncatedLeftOut).unwrap_or(0.0) {
        0.0 => "no group has reward variance, so the weights did not change".to_owned(),
        count => format!(
            "{count} truncated episodes were left out and no other group has reward variance, so the weights did not change"
        ),
    };
    match measured.get(Metric::TruncationShare).unwrap_or(0.0) {
        share if share >= MANY_CUT_OFF => format!(
            "{why}; {:.0} % of the episodes were truncated by the limit on tokens or turns: allow longer answers or more turns",
            100.0 * share
        ),
        _ => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experience::by_group;
    use clawhost_core::{Digest, Drawn, Ending, Failure, FailureKind, PlaybookRecord, code};

    #[test]
    fn the_reason_for_unchanged_weights_names_truncation() {
        let check = |measured: &[(Metric, f64)], expect: &str| {
            assert_eq!(unmoved_reason(&measured.iter().copied().collect()), expect);
        };
        let equal = "no group has reward variance, so the weights did not change";
        check(&[], equal);
        check(&[(Metric::TruncationShare, 0.4)], equal);
        let share = "; 100 % of the episodes were truncated by the limit on tokens or turns: allow longer answers or more turns";
        check(&[(Metric::TruncationShare, 1.0)], &format!("{equal}{share}"));
        let left_out =
            "64 truncated episodes were left out and no other group has reward variance, so the weights did not change";
        check(&[(Metric::TruncationShare, 1.0), (Metric::TruncatedLeftOut, 64.0)], &format!("{left_out}{share}"));
    }

    /// A member of a group: its reward, and the randomised entries with whether each was shown.
    fn member(index: u64, reward: Option<f64>, drawn: &[(&str, bool)]) -> Episode {
        let golden = include_str!("../../../tests/golden/episode-2.json");
        let mut episode: Episode = serde_json::from_str(golden).unwrap();
        let drawn = drawn
            .iter()
            .map(|(entry, shown)| Drawn { entry: (*entry).into(), shown: *shown, propensity: None })
            .collect();
        let (digest, text) = (Digest::of(b"playbook"), String::new());
        episode.policy.playbook =
            Some(PlaybookRecord { digest, text, shown: Vec::new(), drawn, retrieval: None, propensity: 0.5 });
        episode.origin.simulated_mut().unwrap().group = index / 4;
        (episode.index, episode.reward, episode.ending) = (index, reward, Ending::Terminated);
        episode
    }

    fn failed(episode: Episode) -> Episode {
        let failure = Failure::new(FailureKind::Trap, code::UNREACHABLE, "gone");
        Episode { ending: Ending::Failed(failure), reward: None, ..episode }
    }

    fn of(episodes: Vec<Episode>) -> Batch {
        let state_id = episodes[0].state_id;
        let episodes: Vec<_> = episodes.into_iter().map(Arc::new).collect();
        let batch = batch(3, state_id, &by_group(&episodes));
        batch.check().unwrap();
        batch
    }

    #[test]
    fn masks_encode_the_shown_entries_in_the_order_of_the_draw() {
        let batch = of(vec![
            member(0, Some(1.0), &[("a", true), ("b", false), ("c", true)]),
            member(1, Some(0.0), &[("a", false), ("b", false), ("c", true)]),
            member(2, Some(0.5), &[("a", true), ("b", true), ("c", false)]),
        ]);
        let group = &batch.groups[0];
        assert_eq!(group.drawn.iter().map(|id| id.0.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(group.members.iter().map(|member| member.shown).collect::<Vec<_>>(), [0b101, 0b100, 0b011]);
        assert_eq!(group.members.iter().map(|member| member.reward).collect::<Vec<_>>(), [1.0, 0.0, 0.5]);
        assert_eq!((group.propensity, batch.number, batch.removed), (0.5, 3, Removed::default()));
    }

    #[test]
    fn an_entry_counts_only_if_it_was_drawn_for_all_members() {
        let batch = of(vec![
            member(0, Some(1.0), &[("a", true), ("b", true), ("c", false)]),
            // In another order, and without one of the entries.
            member(1, Some(0.0), &[("c", true), ("a", false), ("d", true)]),
        ]);
        let group = &batch.groups[0];
        assert_eq!(group.drawn.iter().map(|id| id.0.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(group.members.iter().map(|member| member.shown).collect::<Vec<_>>(), [0b01, 0b10]);
    }

    #[test]
    fn failed_and_unscored_members_are_left_out_and_counted() {
        let drawn = [("a", true)];
        let batch = of(vec![
            // The draw of a removed episode does not count.
            failed(member(0, None, &[])),
            member(1, Some(-1.0), &drawn),
            member(2, None, &[]),
            member(3, Some(0.0), &[("a", false)]),
            // All members of this group are removed.
            failed(member(4, None, &drawn)),
            member(5, None, &drawn),
            // A group of one stays.
            member(8, Some(1.0), &drawn),
        ]);
        assert_eq!(batch.removed, Removed { failed: 2, unscored: 2 });
        assert_eq!(batch.groups.iter().map(|group| group.members.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((batch.groups[0].drawn.len(), batch.groups[0].members[0].shown), (1, 1));
        assert_eq!(batch.mean(), Some(0.0), "over the scored episodes");
    }

    #[test]
    fn draws_are_limited_to_the_bits_and_absent_without_a_playbook() {
        let names: Vec<String> = (0..70).map(|number| format!("e{number}")).collect();
        let drawn: Vec<(&str, bool)> = names.iter().map(|name| (name.as_str(), true)).collect();
        let batch = of(vec![member(0, Some(1.0), &drawn), member(1, Some(0.0), &drawn)]);
        assert_eq!((batch.groups[0].drawn.len(), batch.groups[0].members[0].shown), (64, u64::MAX));

        let mut without = member(0, Some(1.0), &drawn);
        without.policy.playbook = None;
        let batch = of(vec![without]);
        assert_eq!((batch.groups[0].drawn.len(), batch.groups[0].propensity), (0, 1.0));
    }
}
