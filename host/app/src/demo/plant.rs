//! A harmful lesson that the loop has to detect. It looks helpful if only its successes are counted, but it lowers the mean
//! reward.
//!
//! It is made from the records of 1,200 episodes, not from hidden state of the environment. Its condition selects cases in which the
//! default action is mostly right, and its own action is right in a small share of them.

use clawhost_core::{Condition, Ending, Episode, Facts, Message, rule};
use clawhost_learn::{Lesson, Skill};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of episodes from which the lesson is made.
pub const SCOUTED: u64 = 1_200;
/// The least decrease of the share of right answers in its cases.
const HARM: f64 = 0.25;
/// The least share of its cases in which its action is right, so that counting successes favours it.
const HELP: f64 = 0.08;
/// The least share of all cases to which it applies: with fewer, its effect could not be measured.
const COMMON: f64 = 0.10;

/// The facts that an episode showed at its beginning, and the right action.
struct Case {
    facts: BTreeMap<String, String>,
    right: String,
}

/// The right action according to the feedback after an unsuccessful episode.
fn expected(episode: &Episode) -> Option<String> {
    let said: Vec<String> = episode.closing.iter().map(Message::plain_text).collect();
    said.join("\n").lines().find_map(|line| Some(line.strip_prefix("expected: ")?.to_owned()))
}

/// The default action: that of the rule without conditions in the system prompt.
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

/// A planted lesson.
#[derive(Debug, Clone, PartialEq)]
pub struct Plant {
    /// The lesson.
    pub lesson: Lesson,
    /// Share of its cases in which the default action is right.
    pub without: f64,
    /// Share of its cases in which its own action is right.
    pub with: f64,
    /// Share of all cases to which it applies.
    pub common: f64,
}

impl Plant {
    /// How soon its harm is measured: the number of cases that this takes falls with the square of the harm and with the share of cases.
    fn evidence(&self) -> f64 {
        (self.without - self.with).powi(2) * self.common
    }
}

/// The lesson with a condition on two facts whose harm is measured soonest, of those that are still right in some cases. `None`: these cases allow none.
pub(super) fn plant(episodes: &[Arc<Episode>]) -> Option<Plant> {
    let cases: Vec<Case> = episodes.iter().filter_map(|episode| case(episode)).collect();
    let usual = episodes.iter().find_map(|episode| usual(episode))?;
    // Only facts with few values divide the cases. Others, such as the number of an order, are left out.
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
                if with < HELP || without - with < HARM {
                    continue;
                }
                let found = |lesson: Lesson| Plant { lesson, without, with, common };
                let so_far = best.as_ref().map_or(0.0, Plant::evidence);
                if (without - with).powi(2) * common > so_far {
                    let when = format!("{} is {} and {} is {}", one.fact, one.value, other.fact, other.value);
                    let skill = Skill { when, action: (*action).to_owned(), ..Skill::default() };
                    best = Some(found(Lesson::Skill(skill)));
                }
            }
        }
    }
    best
}
