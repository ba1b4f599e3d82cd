//! Counts the episodes in which a lesson could apply. For a condition that never held, keeps the values that were observed instead.
//!
//! A machine-readable condition (`NAME is VALUE and ...`) holds if the policy's input before one of its answers has these facts as
//! lines `NAME: VALUE`. If a fact occurs several times, the last value counts. The follower reads facts by the same rule.
//! For a condition in prose it is unknown whether it held, so it is not reported.

use crate::{EntryId, Lesson};
use clawhost_core::{Condition, Episode, Facts, Message, counted, escaped};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Largest number of other values of a fact that are kept, the most similar first: enough to recognise a misspelling.
const VALUES: usize = 8;
/// Largest number of names that are compared with a fact that no episode states. An observation with more of them is a log.
const NAMES: usize = 256;
/// Least similarity (Jaro-Winkler, 0 to 1) of a name that is reported.
const SIMILAR: f64 = 0.8;
/// Largest number of characters of a value or a name that are kept.
const LONGEST: usize = 80;

/// The numbers of episodes in which a lesson could apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LessonUse {
    /// Counted episodes.
    pub episodes: u64,
    /// Episodes whose prompt had the lesson.
    pub shown: u64,
    /// Episodes in which its condition held before an answer. `None`: the condition is prose.
    pub applicable: Option<u64>,
    /// Episodes in which both is true. `None`: the condition is prose.
    pub applied: Option<u64>,
    /// Its conditions, if they are machine-readable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionUse>,
}

/// The number of episodes in which one condition held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionUse {
    /// The name of the fact, in lower case.
    pub fact: String,
    /// The required value, in lower case.
    pub value: String,
    /// Episodes in which it held before an answer.
    pub held: u64,
    /// Other observed values of the fact: the most similar ones, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<String>,
    /// The most similar observed name, if no episode stated this fact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

/// Orders by similarity, then alphabetically, so that the order of episodes does not matter.
fn nearer(wanted: &str, one: &str, other: &str) -> Ordering {
    let similarity = |text: &str| strsim::jaro_winkler(wanted, text);
    similarity(other).total_cmp(&similarity(one)).then_with(|| one.cmp(other))
}

impl ConditionUse {
    fn new(Condition { fact, value }: Condition) -> Self {
        Self { fact, value, held: 0, seen: Vec::new(), nearest: None }
    }

    /// Records the current value of the fact. Returns whether the condition holds.
    fn holds(&mut self, facts: &Facts) -> bool {
        let Some(known) = facts.get(&self.fact) else { return false };
        self.nearest = None;
        let known = known.to_lowercase();
        if known == self.value {
            return true;
        }
        let known: String = known.chars().take(LONGEST).collect();
        if let Err(place) = self.seen.binary_search_by(|seen| nearer(&self.value, seen, &known)) {
            self.seen.insert(place, known);
            self.seen.truncate(VALUES);
        }
        false
    }

    /// Looks for a similar name, while no episode has stated the fact.
    fn compare_names(&mut self, facts: &Facts) {
        if self.held > 0 || !self.seen.is_empty() {
            return;
        }
        for (name, _) in facts.iter().take(NAMES) {
            let is_similar = strsim::jaro_winkler(&self.fact, name) >= SIMILAR;
            let is_nearer =
                || self.nearest.as_ref().is_none_or(|known| nearer(&self.fact, name, known) == Ordering::Less);
            if is_similar && name.chars().count() <= LONGEST && is_nearer() {
                self.nearest = Some(name.to_owned());
            }
        }
    }

    /// Why the condition never held. `None`: it did.
    fn missing(&self) -> Option<String> {
        if self.held > 0 {
            return None;
        }
        let shown = |text: &str| escaped(text, LONGEST * 4);
        let (fact, value) = (shown(&self.fact), shown(&self.value));
        Some(match (self.seen.as_slice(), &self.nearest) {
            ([], None) => format!("no observation states a fact `{fact}`"),
            ([], Some(nearest)) => {
                format!("no observation states a fact `{fact}`; the most similar one is `{}`", shown(nearest))
            }
            (seen, _) => {
                let mut values: Vec<String> = seen.iter().map(|value| shown(value)).collect();
                values.sort();
                let more = if seen.len() == VALUES { ", ..." } else { "" };
                let values = values.join(", ");
                format!("no observation states `{fact}: {value}`; values seen for {fact}: {values}{more}")
            }
        })
    }
}

impl LessonUse {
    /// The state before the first episode.
    pub fn new(lesson: &Lesson) -> Self {
        let conditions = lesson.conditions();
        let count = conditions.as_ref().map(|_| 0);
        let conditions = conditions.into_iter().flatten().map(ConditionUse::new).collect();
        Self { episodes: 0, shown: 0, applicable: count, applied: count, conditions }
    }

    /// Whether the lesson applied in none of the counted episodes.
    pub fn is_dead(&self) -> bool {
        self.episodes > 0 && self.applied == Some(0) && (self.applicable == Some(0) || self.shown == 0)
    }

    /// A text that explains why the lesson applied in no episode. `None`: it did, or this is unknown.
    pub fn why_dead(&self) -> Option<String> {
        if !self.is_dead() {
            return None;
        }
        if let Some(held) = self.applicable.filter(|held| *held > 0) {
            return Some(format!("its condition held in {}, but no prompt had the lesson", counted(held, "episode")));
        }
        let missing: Vec<String> = self.conditions.iter().filter_map(ConditionUse::missing).collect();
        Some(match missing.as_slice() {
            [] => "its conditions never held at the same time".to_owned(),
            some => some.join("; "),
        })
    }
}

/// Counts an episode for each of these lessons.
pub fn observe<'a>(uses: impl IntoIterator<Item = (&'a EntryId, &'a mut LessonUse)>, episode: &Episode) {
    let mut uses: Vec<Watched<'a>> = uses.into_iter().map(|(id, usage)| Watched::new(id, usage)).collect();
    if uses.is_empty() {
        return;
    }
    let mut facts = Facts::default();
    let told = episode.policy.system_prompt.as_ref().or(episode.system_hint.as_ref());
    told.into_iter().for_each(|text| facts.read(text));
    let read = |facts: &mut Facts, messages: &[Message]| {
        messages.iter().for_each(|message| facts.read(&message.plain_text()));
    };
    for turn in &episode.turns {
        read(&mut facts, &turn.observation);
        uses.iter_mut().for_each(|watched| watched.look(&facts));
        read(&mut facts, &turn.tool_results);
    }
    let shown = episode.policy.playbook.as_ref().map(|playbook| playbook.shown.as_slice()).unwrap_or_default();
    uses.into_iter().for_each(|watched| watched.finish(shown, &facts));
}

/// The state of a lesson while one episode is counted.
struct Watched<'a> {
    id: &'a EntryId,
    usage: &'a mut LessonUse,
    /// Whether all of its conditions held at once.
    is_applicable: bool,
    /// Whether each of them held.
    held: Vec<bool>,
}

impl<'a> Watched<'a> {
    fn new(id: &'a EntryId, usage: &'a mut LessonUse) -> Self {
        let held = vec![false; usage.conditions.len()];
        Self { id, usage, is_applicable: false, held }
    }

    fn look(&mut self, facts: &Facts) {
        let mut all = self.usage.applicable.is_some();
        for (condition, held) in self.usage.conditions.iter_mut().zip(&mut self.held) {
            let holds = condition.holds(facts);
            *held |= holds;
            all &= holds;
        }
        self.is_applicable |= all;
    }

    fn finish(self, shown: &[String], facts: &Facts) {
        let Self { id, usage, is_applicable, held } = self;
        let is_shown = shown.contains(&id.0);
        usage.episodes += 1;
        usage.shown += u64::from(is_shown);
        usage.applicable = usage.applicable.map(|count| count + u64::from(is_applicable));
        usage.applied = usage.applied.map(|count| count + u64::from(is_applicable && is_shown));
        for (condition, held) in usage.conditions.iter_mut().zip(held) {
            condition.held += u64::from(held);
            condition.compare_names(facts);
        }
    }
}

#[cfg(test)]
mod tests;
