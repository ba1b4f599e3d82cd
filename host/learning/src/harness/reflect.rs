//! Reflection: reflectors receive what [`Waiting`] has for them, and what is known so far. Their answers are data for the
//! harness layer. A failed call is counted; it is not the same as an answer without proposals.

use super::stage::Reflecting;
use super::waiting::Waiting;
use clawhost_core::{
    Change, Context, Failure, FailureKind, LearningStore, Playbook as Shown, Proposal, StoreError, code, derive_seed,
    escaped,
};
use clawhost_learn::harness::Harness;
use clawhost_learn::playbook::Playbook;
use clawhost_learn::{Answer, Entry};
use clawhost_play::{Cancel, failure_cause};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Characters of a failure that distinguish it from others.
const CAUSE: usize = 300;
/// Most different failures that are counted separately.
const CAUSES: usize = 32;
/// Concurrent calls.
const AT_ONCE: usize = 8;

/// Counts of reflector calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reflections {
    /// Groups shown to reflectors.
    pub asked: u64,
    /// Calls; every reflector is called for every group.
    #[serde(default)]
    pub calls: u64,
    /// Failed calls, by failure.
    pub failed: BTreeMap<String, u64>,
    /// Groups waiting.
    pub waiting: u64,
    /// Groups dropped: they waited too long, or are not in the store any more.
    pub given_up: u64,
}

impl Reflections {
    /// The most frequent failure.
    pub(crate) fn usual_failure(&self) -> Option<&str> {
        self.failed.iter().max_by_key(|(_, times)| **times).map(|(why, _)| why.as_str())
    }

    /// The difference to an earlier state.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let more = |(why, times): (&String, &u64)| {
            let more = times.saturating_sub(earlier.failed.get(why).copied().unwrap_or(0));
            (more > 0).then(|| (why.clone(), more))
        };
        Self {
            asked: self.asked.saturating_sub(earlier.asked),
            calls: self.calls.saturating_sub(earlier.calls),
            failed: self.failed.iter().filter_map(more).collect(),
            waiting: self.waiting,
            given_up: self.given_up.saturating_sub(earlier.given_up),
        }
    }

    /// Number of failed calls.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }
}

/// Beginning of the tag that names the part of a mixture from whose episodes an entry was proposed.
const PART_TAG: &str = "part:";

/// Whether an entry was proposed from other parts of a mixture only. A reflector that counts the episodes of one part knows nothing about
/// such an entry, and would retire it.
fn is_of_another(entry: &Entry, part: Option<&str>) -> bool {
    let mut parts = entry.tags.iter().filter_map(|tag| tag.strip_prefix(PART_TAG)).peekable();
    part.is_some() && parts.peek().is_some() && parts.all(|of| Some(of) != part)
}

/// Marks the entry of a proposal with the part that it was proposed from.
fn mark(proposal: &mut Proposal, part: Option<&str>) {
    let (Change::Add(entry) | Change::Update(entry) | Change::Merge(_, entry)) = &mut proposal.change else { return };
    entry.tags.extend(part.map(|part| format!("{PART_TAG}{part}")).filter(|tag| !entry.tags.contains(tag)));
}

/// The part of a reflector's input that the harness supplies: the playbook, the attempt and the lessons that were tried and not admitted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Knowledge {
    /// All entries that may be shown, and the sections.
    pub(crate) playbook: Playbook,
    /// How often another approach was asked for.
    pub(crate) attempt: u32,
    /// Lessons that were tried in training and not admitted.
    pub(crate) tried: Vec<Entry>,
}

impl Knowledge {
    /// What a harness knows from training.
    pub(crate) fn of(harness: &Harness) -> Self {
        Self { playbook: harness.known(), attempt: harness.attempt(), tried: harness.tried() }
    }

    /// As reflectors receive it: all of it, or what concerns one part of a mixture.
    pub(crate) fn shown(&self, part: Option<&str>) -> Shown {
        let shown = |entries: &[Entry]| -> Vec<clawhost_core::Entry> {
            entries.iter().filter(|entry| !is_of_another(entry, part)).map(shown_entry).collect()
        };
        Shown {
            version: self.playbook.digest().to_string(),
            entries: shown(&self.playbook.entries),
            sections: self.playbook.sections.clone().into_iter().collect(),
            attempt: self.attempt,
            tried: shown(&self.tried),
        }
    }
}

/// An entry as reflectors receive it.
pub fn shown_entry(entry: &Entry) -> clawhost_core::Entry {
    clawhost_core::Entry {
        id: entry.id.0.clone(),
        text: entry.lesson.line(),
        tags: entry.tags.clone(),
        needs: entry.needs.iter().map(|need| need.0.clone()).collect(),
        extra: vec![("status".to_owned(), entry.status.name().to_owned())],
    }
}

/// The answers of reflectors.
pub(crate) struct Asked {
    /// In the order of the groups, those without proposals too.
    pub(crate) answers: Vec<Answer>,
    /// Whether a call failed because the model budget was exhausted.
    pub(crate) out_of_budget: bool,
}

/// Calls every reflector for every waiting group.
pub(crate) async fn reflect(
    reflectors: &[Reflecting],
    (knowledge, seed): (&Knowledge, u64),
    waiting: &mut Waiting,
    learning: &dyn LearningStore,
    cancel: &Cancel,
    counts: &mut Reflections,
) -> Result<Asked, StoreError> {
    let (groups, gone) = waiting.take(knowledge.attempt, learning).await?;
    counts.given_up += gone;
    counts.asked += groups.len() as u64;
    let mut playbooks: BTreeMap<Option<String>, Arc<Shown>> = BTreeMap::new();
    let mut calls = Vec::new();
    for (place, group) in groups.into_iter().enumerate() {
        let part = group.first().and_then(|first| first.task.part.clone());
        let view = || Arc::new(knowledge.shown(part.as_deref()));
        let playbook = playbooks.entry(part.clone()).or_insert_with(view).clone();
        for reflecting in reflectors {
            let first = group.first().map_or(place as u64, |episode| episode.seed());
            let context = Context { seed: derive_seed(seed, "reflect", first), options: reflecting.options.clone() };
            calls.push((reflecting.reflector.clone(), context, playbook.clone(), group.clone()));
        }
    }
    let mut answers: BTreeMap<usize, (String, Result<Vec<Proposal>, Failure>)> = BTreeMap::new();
    let mut asking = JoinSet::new();
    let mut calls = calls.into_iter().enumerate();
    loop {
        while asking.len() < AT_ONCE && !cancel.is_requested() {
            let Some((place, (reflector, context, playbook, group))) = calls.next() else { break };
            asking.spawn(async move {
                let part = group.first().and_then(|first| first.task.part.as_deref());
                let mut answer = reflector.reflect(&context, &playbook, &group).await;
                answer.iter_mut().flatten().for_each(|proposal| mark(proposal, part));
                (place, reflector.identity().name.clone(), answer)
            });
        }
        let joined = tokio::select! {
            biased;
            () = cancel.requested() => break,
            joined = asking.join_next() => joined,
        };
        match joined {
            Some(Ok((place, name, answer))) => drop(answers.insert(place, (name, answer))),
            Some(Err(error)) => {
                if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
            None => break,
        }
    }
    counts.calls += answers.len() as u64;
    let mut asked = Asked { answers: Vec::new(), out_of_budget: false };
    for (reflector, answer) in answers.into_values() {
        match answer {
            Ok(proposals) => asked.answers.push(Answer { reflector, proposals }),
            Err(failure) => {
                asked.out_of_budget |= failure.kind == FailureKind::Llm && failure.code == code::BUDGET;
                // Failures are grouped by cause under the text of the first, because a plugin may include a counter.
                let words = escaped(&failure.to_string(), CAUSE);
                let known = counts.failed.keys().find(|known| failure_cause(known) == failure_cause(&words)).cloned();
                let mut why = known.unwrap_or(words);
                if counts.failed.len() >= CAUSES && !counts.failed.contains_key(&why) {
                    why = "others".to_owned();
                }
                *counts.failed.entry(why).or_default() += 1;
            }
        }
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learn::Lesson;

    fn entry(text: &str, tags: &[&str]) -> Entry {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        Entry { tags, ..Entry::new(Lesson::read(text), "operator") }
    }

    #[test]
    fn reflectors_see_the_entries_of_their_part_and_those_of_no_part() {
        let entries = vec![entry("one", &[]), entry("two", &["part:a"]), entry("three", &["x", "part:b"])];
        let playbook =
            Playbook { entries: [entries, vec![entry("four", &["part:a", "part:b"])]].concat(), ..Playbook::default() };
        let check = |part: Option<&str>, expect: &[&str]| {
            let found = Knowledge { playbook: playbook.clone(), ..Knowledge::default() }.shown(part);
            assert_eq!(found.entries.iter().map(|entry| entry.text.as_str()).collect::<Vec<_>>(), expect, "{part:?}");
        };
        check(None, &["one", "two", "three", "four"]);
        check(Some("a"), &["one", "two", "four"]);
        check(Some("b"), &["one", "three", "four"]);
        check(Some("c"), &["one"]);
    }

    #[test]
    fn proposals_are_marked_with_their_part_once() {
        let check = |part: Option<&str>, tags: &[&str], expect: &[&str]| {
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            let new = clawhost_core::Entry {
                id: String::new(),
                text: "one".into(),
                tags,
                needs: Vec::new(),
                extra: Vec::new(),
            };
            let mut proposal =
                Proposal { change: Change::Add(new), evidence: Vec::new(), expected_effect: String::new() };
            mark(&mut proposal, part);
            let Change::Add(found) = proposal.change else { panic!("another change") };
            assert_eq!(found.tags, expect);
        };
        check(None, &["x"], &["x"]);
        check(Some("a"), &["x"], &["x", "part:a"]);
        check(Some("a"), &["part:a"], &["part:a"]);
    }
}
