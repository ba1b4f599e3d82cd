//! From recorded episodes to a batch: groups, rewards, draws. What failed or was not scored is removed and counted.

use crate::experience::Groups;
use clawhost_core::{Ending, Episode, Proposal, StateId, Verdict, escaped};
use clawhost_learn::policy::Generated;
use clawhost_learn::{Batch, EntryId, Group, Measurements, Member, Metric, Removed};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Characters of a reason that are told.
const REASON: usize = 500;
/// From this share on, being cut off is a likely reason why nothing was learned.
const MANY_CUT_OFF: f64 = 0.5;

/// The scored members of one group; none: nothing is left.
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
    // What was drawn for follows from the task, so it is the same for every member; where an environment showed one of them
    // something else, an entry counts only if it was drawn for in all.
    let drawn_in = |episode: &Episode, entry: &str| {
        episode.policy.playbook.as_ref().is_some_and(|told| told.drawn.iter().any(|drawn| drawn.entry == entry))
    };
    let drawn: Vec<String> = playbook(first)
        .map(|told| told.drawn.into_iter().map(|drawn| drawn.entry).collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter()
        .filter(|entry| scored.iter().all(|(episode, _)| drawn_in(episode, entry)))
        .take(clawhost_learn::DRAWN_ENTRIES)
        .collect();
    let mask = |episode: &Episode| {
        let told = episode.policy.playbook.as_ref();
        let shown = |entry: &String| {
            told.is_some_and(|told| told.drawn.iter().any(|drawn| drawn.entry == *entry && drawn.shown))
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
        task: first.task.id.clone(),
        seed: first.seed(),
        propensity: playbook(first).map_or(1.0, |told| told.propensity),
        members,
        drawn: drawn.into_iter().map(EntryId).collect(),
    })
}

/// What a phase teaches.
pub(crate) fn batch(number: u64, state_id: StateId, groups: &Groups, proposals: Vec<(String, Proposal)>) -> Batch {
    let mut removed = Removed::default();
    let groups = groups.values().filter_map(|episodes| group(episodes, &mut removed)).collect();
    Batch { number, state_id, groups, proposals, removed }
}

/// Why nothing of it was scored: the most frequent reason, with its source.
pub(crate) fn why_unscored(episodes: &[Arc<Episode>]) -> String {
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
    most.map_or_else(|| "no reward judged it".to_owned(), |(why, _)| why)
}

/// Why no weight moved, by what the layer measured.
pub(crate) fn why_unmoved(measured: &Measurements) -> String {
    let why = match measured.get(Metric::TruncatedLeftOut).unwrap_or(0.0) {
        0.0 => "nothing in it differed by its reward, so no weight moved".to_owned(),
        count => format!(
            "{count} episodes were cut off and left out, and nothing else differed by its reward, so no weight moved"
        ),
    };
    match measured.get(Metric::TruncationShare).unwrap_or(0.0) {
        share if share >= MANY_CUT_OFF => format!(
            "{why}; {:.0} % of the episodes were cut off, in an answer or by their number of turns: allow longer answers or more turns",
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
    fn why_no_weight_moved_names_what_was_cut_off() {
        let check = |measured: &[(Metric, f64)], expect: &str| {
            assert_eq!(why_unmoved(&measured.iter().copied().collect()), expect);
        };
        let equal = "nothing in it differed by its reward, so no weight moved";
        check(&[], equal);
        check(&[(Metric::TruncationShare, 0.4)], equal);
        let share = "; 100 % of the episodes were cut off, in an answer or by their number of turns: allow longer answers or more turns";
        check(&[(Metric::TruncationShare, 1.0)], &format!("{equal}{share}"));
        let left_out =
            "64 episodes were cut off and left out, and nothing else differed by its reward, so no weight moved";
        check(&[(Metric::TruncationShare, 1.0), (Metric::TruncatedLeftOut, 64.0)], &format!("{left_out}{share}"));
    }

    /// A member of a group: its reward, and the entries that were drawn for it, of which some were shown.
    fn member(index: u64, reward: Option<f64>, drawn: &[(&str, bool)]) -> Episode {
        let golden = include_str!("../../../tests/golden/episode-2.json");
        let mut episode: Episode = serde_json::from_str(golden).unwrap();
        let drawn = drawn.iter().map(|(entry, shown)| Drawn { entry: (*entry).into(), shown: *shown }).collect();
        let (digest, text) = (Digest::of(b"playbook"), String::new());
        episode.policy.playbook = Some(PlaybookRecord { digest, text, shown: Vec::new(), drawn, propensity: 0.5 });
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
        let batch = batch(3, state_id, &by_group(&episodes), Vec::new());
        batch.check().unwrap();
        batch
    }

    #[test]
    fn masks_say_who_was_shown_what_in_the_order_of_the_draws() {
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
    fn an_entry_counts_only_where_it_was_drawn_for_in_all_members() {
        let batch = of(vec![
            member(0, Some(1.0), &[("a", true), ("b", true), ("c", false)]),
            // In another order, and one of them not.
            member(1, Some(0.0), &[("c", true), ("a", false), ("d", true)]),
        ]);
        let group = &batch.groups[0];
        assert_eq!(group.drawn.iter().map(|id| id.0.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(group.members.iter().map(|member| member.shown).collect::<Vec<_>>(), [0b01, 0b10]);
    }

    #[test]
    fn members_that_failed_or_were_not_scored_are_left_out_and_counted() {
        let drawn = [("a", true)];
        let batch = of(vec![
            // What was drawn for it does not count: it is not there.
            failed(member(0, None, &[])),
            member(1, Some(-1.0), &drawn),
            member(2, None, &[]),
            member(3, Some(0.0), &[("a", false)]),
            // Of the next group nothing is left.
            failed(member(4, None, &drawn)),
            member(5, None, &drawn),
            // One may be left alone.
            member(8, Some(1.0), &drawn),
        ]);
        assert_eq!(batch.removed, Removed { failed: 2, unscored: 2 });
        assert_eq!(batch.groups.iter().map(|group| group.members.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((batch.groups[0].drawn.len(), batch.groups[0].members[0].shown), (1, 1));
        assert_eq!(batch.mean(), Some(0.0), "over those that were scored");
    }

    #[test]
    fn more_draws_than_there_are_bits_are_cut_and_nobody_told_anything_draws_nothing() {
        let names: Vec<String> = (0..70).map(|number| format!("e{number}")).collect();
        let drawn: Vec<(&str, bool)> = names.iter().map(|name| (name.as_str(), true)).collect();
        let batch = of(vec![member(0, Some(1.0), &drawn), member(1, Some(0.0), &drawn)]);
        assert_eq!((batch.groups[0].drawn.len(), batch.groups[0].members[0].shown), (64, u64::MAX));

        let mut untold = member(0, Some(1.0), &drawn);
        untold.policy.playbook = None;
        let batch = of(vec![untold]);
        assert_eq!((batch.groups[0].drawn.len(), batch.groups[0].propensity), (0, 1.0));
    }
}
