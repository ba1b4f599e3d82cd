//! A harmful lesson that the loop has to detect: it looks helpful where only its successes are counted, and does more harm than
//! good.
//!
//! It is made from what 400 episodes of the task show, not from what the environment hides: cases in which doing the usual thing is
//! mostly right, and something else is right in a visible minority.

use clawhost_core::{Condition, Ending, Episode, Facts, Message, rule};
use clawhost_learn::{Lesson, Skill};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Episodes that it is made from.
pub const SCOUTED: u64 = 400;
/// It must lower the reward of its cases by so much.
const HARM: f64 = 0.25;
/// And be right in so many of them, that counting successes speaks for it.
const HELP: f64 = 0.08;
/// It must speak of so many of the cases, or nothing could be measured about it.
const COMMON: f64 = 0.10;

/// What an episode showed, and what would have been right.
struct Case {
    facts: BTreeMap<String, String>,
    right: String,
}

/// What is said about an episode that went wrong.
fn expected(episode: &Episode) -> Option<String> {
    let said: Vec<String> = episode.closing.iter().map(Message::plain_text).collect();
    said.join("\n").lines().find_map(|line| Some(line.strip_prefix("expected: ")?.to_owned()))
}

/// What is done where nothing else is known.
fn usual(episode: &Episode) -> Option<String> {
    let prompt = episode.policy.system_prompt.as_deref()?;
    prompt.lines().filter_map(rule).find(|rule| rule.conditions.is_empty()).map(|rule| rule.action.to_owned())
}

fn case(episode: &Episode) -> Option<Case> {
    if !matches!(episode.ending, Ending::Terminated) {
        return None;
    }
    let right = match episode.reward {
        Some(reward) if reward > 0.5 => usual(episode)?,
        _ => expected(episode)?,
    };
    let opening = episode.turns.first()?.observation.iter().map(Message::plain_text).collect::<Vec<_>>().join("\n");
    let mut facts = Facts::default();
    facts.read(&opening);
    let facts = facts.iter().map(|(fact, value)| (fact.to_owned(), value.to_lowercase())).collect();
    Some(Case { facts, right })
}

/// A lesson that is planted.
#[derive(Debug, Clone, PartialEq)]
pub struct Plant {
    /// The lesson.
    pub lesson: Lesson,
    /// Share of its cases in which doing the usual thing is right.
    pub without: f64,
    /// Share in which what it says is right.
    pub with: f64,
    /// Share of all cases that it speaks of.
    pub common: f64,
}

/// The most harmful lesson on two facts that still is right now and then; none: these cases allow none.
pub(super) fn plant(episodes: &[Arc<Episode>]) -> Option<Plant> {
    let cases: Vec<Case> = episodes.iter().filter_map(|episode| case(episode)).collect();
    let usual = episodes.iter().find_map(|episode| usual(episode))?;
    // Only facts with few values divide the cases; an order's number does not.
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for case in &cases {
        for (fact, value) in &case.facts {
            values.entry(fact).or_default().insert(value);
        }
    }
    let conditions: Vec<Condition> = values
        .iter()
        .filter(|(_, values)| (2..=4).contains(&values.len()))
        .flat_map(|(fact, values)| {
            values.iter().map(|value| Condition { fact: (*fact).to_owned(), value: (*value).to_owned() })
        })
        .collect();
    let actions: BTreeSet<&str> =
        cases.iter().map(|case| case.right.as_str()).filter(|action| *action != usual).collect();
    let mut best: Option<Plant> = None;
    for (place, one) in conditions.iter().enumerate() {
        for other in conditions.iter().skip(place + 1).filter(|other| other.fact != one.fact) {
            let holds = |condition: &Condition, case: &&Case| {
                case.facts.get(&condition.fact).is_some_and(|value| *value == condition.value)
            };
            let about: Vec<&Case> = cases.iter().filter(|case| holds(one, case) && holds(other, case)).collect();
            let common = about.len() as f64 / cases.len().max(1) as f64;
            if common < COMMON {
                continue;
            }
            let share = |action: &str| {
                about.iter().filter(|case| case.right == action).count() as f64 / about.len().max(1) as f64
            };
            let without = share(&usual);
            for action in &actions {
                let with = share(action);
                let harm = without - with;
                let so_far = best.as_ref().map_or(HARM, |best| best.without - best.with);
                if with >= HELP && harm >= so_far {
                    let when = format!("{} is {} and {} is {}", one.fact, one.value, other.fact, other.value);
                    let skill = Skill { when, action: (*action).to_owned(), ..Skill::default() };
                    best = Some(Plant { lesson: Lesson::Skill(skill), without, with, common });
                }
            }
        }
    }
    best
}
