//! Reflection: reflectors receive groups in which some member missed the best reward; or, in a run with a budget, all episodes so far
//! at once, of many tasks, successes too. Their proposals are data for the
//! harness layer. A failed call is counted; it is not the same as an answer without proposals.

use super::stage::Reflecting;
use crate::experience::{Groups, by_group};
use clawhost_core::{
    Change, Context, Episode, Failure, FailureKind, LearningStore, Playbook as Shown, Proposal, RunId, StoreError,
    code, derive_seed, escaped,
};
use clawhost_learn::playbook::Playbook;
use clawhost_play::{Cancel, failure_cause};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Most groups that wait for reflectors. The oldest beyond it are dropped and counted.
const WAITING: usize = 256;
/// Characters of a failure that distinguish it from others.
const CAUSE: usize = 300;
/// Most different failures that are counted separately.
const CAUSES: usize = 32;
/// Most episodes of many tasks in one call: a thousand tasks are enough to count rules, and a plugin reads them within its limits.
const TOGETHER: usize = 1024;
/// Concurrent calls.
const AT_ONCE: usize = 8;

/// A group of a phase.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct GroupName {
    pub(crate) phase: RunId,
    pub(crate) group: u64,
}

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

/// Groups for the next call of reflectors: those that they have not seen, or all groups so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Waiting {
    names: Vec<GroupName>,
    /// Whether every call gets all groups so far together, successes too.
    #[serde(default)]
    together: bool,
    /// Episodes of this process; after an interruption they are read from the store.
    #[serde(skip)]
    at_hand: BTreeMap<GroupName, Vec<Arc<Episode>>>,
}

impl Waiting {
    /// All groups so far are shown together in every call.
    pub(crate) fn together() -> Self {
        Self { together: true, ..Self::default() }
    }

    /// Adds the groups of a phase: all, or those in which a member missed the best reward.
    pub(crate) fn add(&mut self, phase: &RunId, groups: &Groups, best: f64) {
        for (group, episodes) in groups {
            let missed = |episode: &Arc<Episode>| {
                episode.ending.is_complete() && episode.reward.is_some_and(|reward| reward < best)
            };
            let played = |episode: &Arc<Episode>| episode.ending.is_complete() && episode.reward.is_some();
            if episodes.iter().any(missed) || (self.together && episodes.iter().any(played)) {
                let name = GroupName { phase: phase.clone(), group: *group };
                self.at_hand.insert(name.clone(), episodes.clone());
                self.names.push(name);
            }
        }
    }

    /// Drops the oldest groups if too many wait; returns their number.
    pub(crate) fn shorten(&mut self) -> u64 {
        let most = if self.together { TOGETHER } else { WAITING };
        let given_up = self.names.len().saturating_sub(most);
        for name in self.names.drain(..given_up) {
            self.at_hand.remove(&name);
        }
        // Old groups that leave a call with all others were seen.
        if self.together { 0 } else { given_up as u64 }
    }

    pub(crate) fn len(&self) -> u64 {
        if self.together { 0 } else { self.names.len() as u64 }
    }

    /// The groups of the next call, in order; also returns the number of groups that the store does not have. Groups that are shown one by
    /// one are taken out.
    async fn take(&mut self, learning: &dyn LearningStore) -> Result<(Vec<Vec<Arc<Episode>>>, u64), StoreError> {
        let missing: Vec<RunId> =
            self.names.iter().filter(|name| !self.at_hand.contains_key(name)).map(|name| name.phase.clone()).collect();
        for phase in std::collections::BTreeSet::from_iter(missing) {
            for (group, episodes) in by_group(&learning.episodes(&phase).await?) {
                self.at_hand.insert(GroupName { phase: phase.clone(), group }, episodes);
            }
        }
        let waited = self.names.len();
        if self.together {
            let mut episodes: Vec<Arc<Episode>> =
                self.names.iter().filter_map(|name| self.at_hand.get(name)).flatten().cloned().collect();
            episodes.retain(|episode| episode.ending.is_complete() && episode.reward.is_some());
            let old = episodes.len().saturating_sub(TOGETHER);
            // Facts, tools and actions differ between the parts of a mixture, so each part has a call of its own.
            let mut calls: BTreeMap<Option<String>, Vec<Arc<Episode>>> = BTreeMap::new();
            for episode in episodes.split_off(old) {
                calls.entry(episode.task.part.clone()).or_default().push(episode);
            }
            return Ok((calls.into_values().collect(), 0));
        }
        let mut at_hand = std::mem::take(&mut self.at_hand);
        let groups: Vec<_> = self.names.drain(..).filter_map(|name| at_hand.remove(&name)).collect();
        let gone = waited.saturating_sub(groups.len()) as u64;
        Ok((groups, gone))
    }
}

/// Beginning of the tag that names the part of a mixture from whose episodes an entry was proposed.
const PART_TAG: &str = "part:";

/// Whether an entry was proposed from other parts of a mixture only. A reflector that counts the episodes of one part knows nothing about
/// such an entry, and would retire it.
fn is_of_another(entry: &clawhost_learn::Entry, part: Option<&str>) -> bool {
    let mut parts = entry.tags.iter().filter_map(|tag| tag.strip_prefix(PART_TAG)).peekable();
    part.is_some() && parts.peek().is_some() && parts.all(|of| Some(of) != part)
}

/// Marks the entry of a proposal with the part that it was proposed from.
fn mark(proposal: &mut Proposal, part: Option<&str>) {
    let (Change::Add(entry) | Change::Update(entry)) = &mut proposal.change else { return };
    entry.tags.extend(part.map(|part| format!("{PART_TAG}{part}")).filter(|tag| !entry.tags.contains(tag)));
}

/// A playbook as reflectors receive it: all of it, or the entries that concern one part of a mixture.
pub(crate) fn shown(playbook: &Playbook, part: Option<&str>) -> Shown {
    let entry = |entry: &clawhost_learn::Entry| clawhost_core::Entry {
        id: entry.id.0.clone(),
        text: entry.lesson.line(),
        tags: entry.tags.clone(),
        extra: vec![("status".to_owned(), entry.status.name().to_owned())],
    };
    Shown {
        version: playbook.digest().to_string(),
        entries: playbook.entries.iter().filter(|entry| !is_of_another(entry, part)).map(entry).collect(),
        sections: playbook.sections.clone().into_iter().collect(),
    }
}

/// The answers of reflectors.
pub(crate) struct Asked {
    /// In the order of the groups.
    pub(crate) proposals: Vec<(String, Proposal)>,
    /// Whether a call failed because the model budget was exhausted.
    pub(crate) out_of_budget: bool,
}

/// Calls every reflector for every waiting group.
pub(crate) async fn reflect(
    reflectors: &[Reflecting],
    (known, seed): (&Playbook, u64),
    waiting: &mut Waiting,
    learning: &dyn LearningStore,
    cancel: &Cancel,
    counts: &mut Reflections,
) -> Result<Asked, StoreError> {
    let (groups, gone) = waiting.take(learning).await?;
    counts.given_up += gone;
    counts.asked += groups.len() as u64;
    let mut playbooks: BTreeMap<Option<String>, Arc<Shown>> = BTreeMap::new();
    let mut calls = Vec::new();
    for (place, group) in groups.into_iter().enumerate() {
        let part = group.first().and_then(|first| first.task.part.clone());
        let view = || Arc::new(shown(known, part.as_deref()));
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
    let mut asked = Asked { proposals: Vec::new(), out_of_budget: false };
    for (name, answer) in answers.into_values() {
        match answer {
            Ok(proposed) => asked.proposals.extend(proposed.into_iter().map(|proposal| (name.clone(), proposal))),
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
    use clawhost_learn::{Entry, Lesson};

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
            let found = shown(&playbook, part);
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
            let new = clawhost_core::Entry { id: String::new(), text: "one".into(), tags, extra: Vec::new() };
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
