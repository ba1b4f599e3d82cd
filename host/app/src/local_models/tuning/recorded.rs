//! Examples from the decided episodes of a recorded run.
//!
//! | objective | examples |
//! |---|---|
//! | SFT | of each group, the episodes with the largest reward, if that is not below the threshold |
//! | DPO | of each group, the best episode against the worst, the second best against the second worst, and so on, while rewards differ |
//! | KTO | every episode; it is desirable if its reward is not below the threshold |
//!
//! The reward of an episode follows feedback first. Without a threshold it is the mean reward of the run.

use super::TuneObjective;
use super::rows::{Dialogue, Lesson, Row, system};
use crate::runs::find_run;
use crate::{AppError, RequestError};
use clawhost_core::{Ending, Episode, EpisodeFilter, EpisodeState, Message, Role, RunKind, StoreReader};
use std::collections::BTreeMap;

/// Rewards that differ by less are equal, as in learning from rewards.
const EQUAL: f64 = 1e-6;
/// The finish reason of an answer that reached its largest number of tokens.
const CUT_OFF: &str = "length";

/// What a run gives.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) rows: Vec<Row>,
    /// Episodes that do not teach.
    pub(super) unusable: u64,
    /// `None`: pairs need none.
    pub(super) threshold: Option<f64>,
}

/// An episode with its reward.
#[derive(Debug, Clone)]
struct Played {
    place: String,
    reward: f64,
    dialogue: Dialogue,
}

/// The conversation of an episode as its policy had it.
fn conversation(episode: &Episode) -> Dialogue {
    let prompt = episode.policy.system_prompt.iter().filter(|text| !text.is_empty()).map(|text| system(text));
    let turns = episode
        .turns
        .iter()
        .flat_map(|turn| turn.observation.iter().chain([&turn.action]).chain(&turn.tool_results))
        .cloned();
    Dialogue { messages: prompt.chain(turns).collect(), tools: episode.tools.clone(), from: 0 }
}

/// Whether every answer is whole: a model must not learn to stop where a limit cut it off.
fn is_whole(episode: &Episode) -> bool {
    let is_cut = matches!(episode.ending, Ending::Failed(_)) || episode.turns.iter().any(|turn| turn.finish == CUT_OFF);
    !is_cut && !episode.turns.is_empty() && episode.origin.withheld().is_none()
}

/// The examples of a run at a time (milliseconds since 1970).
pub(super) fn read(
    reader: &dyn StoreReader,
    run: &str,
    objective: TuneObjective,
    threshold: Option<f64>,
    now: u64,
) -> Result<Recorded, AppError> {
    let row = find_run(reader, run)?;
    // Phases of a learning run would bring validation and test tasks into training.
    if !matches!(row.kind, RunKind::Play | RunKind::Live) {
        return Err(RequestError::NotPlayed { run: row.id.0 }.into());
    }
    if row.pruned {
        return Err(RequestError::Pruned { run: row.id.0 }.into());
    }
    let mut groups: BTreeMap<u64, Vec<Played>> = BTreeMap::new();
    let (mut all, mut usable) = (0, 0);
    for listed in reader.episodes(&EpisodeFilter::of(&row.id))? {
        all += 1;
        if listed.state(now) != EpisodeState::Decided {
            continue;
        }
        let place = format!("{}/{}", listed.run, listed.id);
        let Some(episode) = reader.episode(&place)?.filter(is_whole) else { continue };
        let Some(reward) = episode.reward else { continue };
        usable += 1;
        let dialogue = conversation(&episode);
        groups.entry(episode.group()).or_default().push(Played { place, reward, dialogue });
    }
    let rewards: Vec<f64> = groups.values().flatten().map(|played| played.reward).collect();
    let mean = rewards.iter().sum::<f64>() / rewards.len().max(1) as f64;
    let threshold = threshold.unwrap_or(mean);
    let mut rows = Vec::new();
    for group in groups.into_values() {
        rows.extend(lessons(objective, group, threshold));
    }
    let needs_threshold = !matches!(objective, TuneObjective::Dpo { .. });
    Ok(Recorded { rows, unusable: all - usable, threshold: needs_threshold.then_some(threshold) })
}

/// The examples of a group.
fn lessons(objective: TuneObjective, mut group: Vec<Played>, threshold: f64) -> Vec<Row> {
    match objective {
        TuneObjective::Sft => {
            let best = group.iter().map(|played| played.reward).fold(f64::NEG_INFINITY, f64::max);
            let is_good = |played: &Played| played.reward >= best - EQUAL && played.reward >= threshold - EQUAL;
            group
                .into_iter()
                .filter(is_good)
                .map(|played| Row { place: played.place, lesson: Lesson::Imitate(played.dialogue) })
                .collect()
        }
        TuneObjective::Dpo { .. } => {
            // Stable: equal rewards stay in the order in which they were played.
            group.sort_by(|one, other| other.reward.total_cmp(&one.reward));
            let half = group.len() / 2;
            let worst: Vec<Played> = group.iter().rev().take(half).cloned().collect();
            group.into_iter().zip(worst).filter_map(|(chosen, rejected)| pair(chosen, rejected)).collect()
        }
        TuneObjective::Kto(_) => group
            .into_iter()
            .map(|played| {
                let is_desirable = played.reward >= threshold - EQUAL;
                let from = opening(&played.dialogue.messages);
                let dialogue = Dialogue { from, ..played.dialogue };
                Row { place: played.place, lesson: Lesson::Label { dialogue, is_desirable } }
            })
            .collect(),
    }
}

/// Messages before the first answer.
fn opening(messages: &[Message]) -> usize {
    messages.iter().take_while(|message| message.role != Role::Assistant).count()
}

/// Two episodes as a pair. `None`: their rewards are equal, their openings differ (another playbook), or their answers are the same.
/// Messages that both have in common are context; only the answers after them are trained.
fn pair(chosen: Played, rejected: Played) -> Option<Row> {
    let (one, other) = (&chosen.dialogue.messages, &rejected.dialogue.messages);
    let from = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let differs = chosen.reward - rejected.reward >= EQUAL;
    let answers = |messages: &[Message]| messages.iter().skip(from).any(|message| message.role == Role::Assistant);
    if !differs || from < opening(one) || from < opening(other) || !answers(one) || !answers(other) {
        return None;
    }
    let place = format!("{} and {}", chosen.place, rejected.place);
    let part = |played: Played| Dialogue { from, ..played.dialogue };
    Some(Row { place, lesson: Lesson::Prefer { chosen: part(chosen), rejected: part(rejected) } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::Origin;
    use clawhost_learn::policy::LabelledSettings;

    fn played(reward: f64, talk: &[&str]) -> Played {
        let role = |place: usize| if place.is_multiple_of(2) { Role::User } else { Role::Assistant };
        let message = |(place, text): (usize, &&str)| Message::text(role(place), Origin::Policy, *text);
        let messages = talk.iter().enumerate().map(message).collect();
        Played { place: talk.concat(), reward, dialogue: Dialogue { messages, tools: vec![], from: 0 } }
    }

    fn places(rows: &[Row]) -> Vec<&str> {
        rows.iter().map(|row| row.place.as_str()).collect()
    }

    #[test]
    fn the_best_episodes_of_a_group_are_imitated_from_the_threshold_on() {
        let group = || vec![played(0.5, &["q", "a"]), played(1.0, &["q", "b"]), played(1.0, &["q", "c"])];
        let check = |threshold: f64, expect: &[&str]| {
            assert_eq!(places(&lessons(TuneObjective::Sft, group(), threshold)), expect, "{threshold}");
        };
        check(0.0, &["qb", "qc"]);
        check(1.0, &["qb", "qc"]);
        check(1.1, &[]);
    }

    #[test]
    fn the_best_are_paired_with_the_worst_while_rewards_differ() {
        let dpo = TuneObjective::Dpo { beta: 0.1 };
        let group = vec![
            played(0.5, &["q", "m"]),
            played(0.0, &["q", "w"]),
            played(1.0, &["q", "b"]),
            played(0.5, &["q", "n"]),
        ];
        assert_eq!(places(&lessons(dpo, group, 0.0)), ["qb and qw"], "the two in the middle are equal");
        let shared = vec![played(1.0, &["q", "a", "r", "b"]), played(0.0, &["q", "a", "s", "c"])];
        let rows = lessons(dpo, shared, 0.0);
        let Lesson::Prefer { chosen, rejected } = &rows[0].lesson else { panic!() };
        assert_eq!((chosen.from, rejected.from), (2, 2), "the common answer is context");
        let check = |one: Played, other: Played, why: &str| assert_eq!(pair(one, other), None, "{why}");
        check(played(1.0, &["p", "a"]), played(0.0, &["q", "b"]), "another opening");
        check(played(1.0, &["q", "a"]), played(0.0, &["q", "a"]), "the same answer");
    }

    #[test]
    fn labels_follow_the_threshold_and_the_opening_is_the_prompt() {
        let kto = TuneObjective::Kto(LabelledSettings { beta: 0.1, desirable: 1.0, undesirable: 1.0 });
        let rows = lessons(kto, vec![played(0.4, &["q", "a"]), played(0.6, &["q", "b"])], 0.5);
        let label = |row: &Row| match &row.lesson {
            Lesson::Label { dialogue, is_desirable } => (dialogue.from, *is_desirable),
            other => panic!("{other:?}"),
        };
        assert_eq!(rows.iter().map(label).collect::<Vec<_>>(), [(1, false), (1, true)]);
    }
}
