//! From feedback to rules: as stated, generalised, and about looking.

use crate::case::is_open;
use crate::opening::Stated;
use clawhost_sdk::review::Condition;
use clawhost_sdk::{Entry, Group, Playbook, Proposal, Review};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Largest number of episodes in a proposal, as the host allows.
const MOST_EVIDENCE: usize = 64;
/// Characters of a name: one row of a table.
const LONGEST_NAME: usize = 80;

/// A possible rule, and the episodes that suggest it.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    /// Its conditions; never empty.
    conditions: Vec<Condition>,
    /// Its action.
    pub(crate) deed: String,
    /// Episodes, with the turns that the feedback refers to.
    seen: Vec<(String, Vec<u32>)>,
    /// The facts that its action shows. Rules on these facts need it.
    shows: Vec<String>,
}

impl Candidate {
    /// A rule that these episodes suggest.
    pub(crate) fn new(conditions: Vec<Condition>, deed: impl Into<String>, seen: Vec<(String, Vec<u32>)>) -> Self {
        Self { conditions, deed: deed.into(), seen, shows: Vec::new() }
    }

    /// The same, as a look-up of these facts.
    pub(crate) fn showing(self, shows: Vec<String>) -> Self {
        Self { shows, ..self }
    }

    /// The rule in one line.
    pub(crate) fn text(&self) -> String {
        format!("when {}: {}", self.when(), self.deed)
    }

    /// The fact of its first condition.
    pub(crate) fn fact(&self) -> &str {
        self.conditions.first().map_or("", |condition| &condition.fact)
    }

    fn when(&self) -> String {
        let conditions: Vec<String> = self.conditions.iter().map(Condition::to_string).collect();
        conditions.join(" and ")
    }

    /// The same with another action.
    pub(crate) fn with_deed(&self, deed: impl Into<String>) -> Self {
        Self { deed: deed.into(), ..self.clone() }
    }

    /// For people: the action without its arguments, and the facts that it depends on.
    fn name(&self) -> String {
        let facts: Vec<&str> = self.conditions.iter().map(|condition| condition.fact.as_str()).collect();
        let deed = self.deed.split(['{', '<']).next().unwrap_or_default().trim();
        format!("{deed} by {}", facts.join(" and ")).chars().take(LONGEST_NAME).collect()
    }

    /// As an entry of a playbook.
    fn entry(&self) -> Entry {
        let entry = Entry::new(self.text())
            .with_extra("name", self.name())
            .with_extra("when", self.when())
            .with_extra("do", self.deed.clone());
        self.conditions.iter().fold(entry, |entry, condition| entry.with_tag(condition.fact.clone()))
    }

    /// The expected improvement, for people.
    pub(crate) fn effect(&self, episodes: usize) -> String {
        format!("where this holds, what is expected is done; told in {} of {episodes} episodes", self.seen.len())
    }

    /// A proposal with this candidate's evidence.
    pub(crate) fn show(&self, proposal: Proposal) -> Proposal {
        let seen = self.seen.iter().take(MOST_EVIDENCE);
        seen.fold(proposal, |proposal, (episode, turns)| proposal.seen_in(episode.clone(), turns.clone()))
    }
}

/// The facts that entries of the playbook look up, with the ids of these entries: `when FACT is unknown: ...`.
fn known_looks(playbook: &Playbook) -> BTreeMap<String, String> {
    let look = |entry: &Entry| match crate::rule(&entry.text)?.0.as_slice() {
        [condition] if is_open(&condition.value) => Some((condition.fact.clone(), entry.id.clone())),
        _ => None,
    };
    playbook.entries.iter().filter_map(look).collect()
}

/// Candidates as entries. A rule on a fact that must be looked up needs the look-up: one of these candidates, or else one of the playbook.
pub(crate) fn entries(candidates: &[Candidate], playbook: &Playbook) -> Vec<Entry> {
    let mut looks = known_looks(playbook);
    let name = |number: usize| format!("look-up {number}");
    for (number, look) in candidates.iter().enumerate() {
        looks.extend(look.shows.iter().map(|fact| (fact.clone(), name(number))));
    }
    let entry = |(number, candidate): (usize, &Candidate)| {
        if !candidate.shows.is_empty() {
            return candidate.entry().named(name(number));
        }
        let facts = candidate.conditions.iter().filter(|condition| !is_open(&condition.value));
        let needs = facts.filter_map(|condition| looks.get(&condition.fact));
        let needs: std::collections::BTreeSet<&String> = needs.collect();
        needs.into_iter().fold(candidate.entry(), |entry, look| entry.needing(look.as_str()))
    };
    candidates.iter().enumerate().map(entry).collect()
}

/// Pairs of conditions, then single ones: the stated rule, and its generalisations.
pub(crate) fn subsets(conditions: &[Condition], most: usize) -> Vec<Vec<Condition>> {
    let mut subsets = Vec::new();
    if most >= 2 {
        for (position, first) in conditions.iter().enumerate() {
            let second = conditions.iter().skip(position + 1);
            subsets.extend(second.map(|second| vec![first.clone(), second.clone()]));
        }
    }
    subsets.extend(conditions.iter().map(|condition| vec![condition.clone()]));
    subsets
}

/// All rules that these episodes suggest, those of most episodes first; for equal numbers the first stated one.
pub(crate) fn gather(group: &Group, facts: usize) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for episode in group.episodes() {
        let feedback = Review::at_the_end(episode);
        if feedback.is_empty() {
            continue;
        }
        let (id, stated) = (episode.id(), Stated::in_opening(episode));
        let turns: Vec<u32> = episode.turn_count().checked_sub(1).into_iter().collect();
        for piece in feedback {
            let told = subsets(&piece.because, facts)
                .into_iter()
                .map(|conditions| Candidate::new(conditions, piece.expected.clone(), Vec::new()));
            let looks = piece.looks.iter().filter_map(|look| {
                let condition = stated.condition(&look.fact)?;
                let shows = vec![condition.fact.clone()];
                Some(Candidate::new(vec![condition], look.action.clone(), Vec::new()).showing(shows))
            });
            for Candidate { conditions, deed, shows, .. } in told.chain(looks) {
                let known = candidates.iter_mut().find(|known| known.conditions == conditions && known.deed == deed);
                match known {
                    Some(known) if known.seen.iter().any(|(episode, _)| *episode == id) => {}
                    Some(known) => known.seen.push((id.clone(), turns.clone())),
                    None => {
                        candidates.push(Candidate { conditions, deed, shows, seen: vec![(id.clone(), turns.clone())] });
                    }
                }
            }
        }
    }
    candidates.sort_by_key(|candidate| Reverse(candidate.seen.len()));
    candidates
}
