//! Lessons that users state themselves.

use crate::plain;
use clawhost_sdk::{Entry, Group, Proposal};
use std::collections::BTreeSet;

/// A proposal for each correction that the playbook does not have.
pub(crate) fn proposals(group: &Group, known: &BTreeSet<String>, most: usize) -> Vec<Proposal> {
    let mut seen = known.clone();
    let mut proposals = Vec::new();
    for episode in group.episodes() {
        let turn = episode.turn_count().checked_sub(1);
        for text in episode.corrections() {
            if proposals.len() < most && seen.insert(plain(&text)) {
                let proposal = Proposal::add_entry(Entry::new(text), "a user says so");
                proposals.push(proposal.seen_in(episode.id(), turn.into_iter().collect()));
            }
        }
    }
    proposals
}
