//! Rewritten sections of the prompt: the result of an evolution waits for the gate, like an admitted entry.

use super::{Candidate, Harness};
use std::collections::BTreeMap;

impl Harness {
    /// Proposes sections that replace all deployed ones in the next candidate. Proposing the deployed sections withdraws an
    /// earlier proposal.
    pub fn propose_sections(&mut self, sections: BTreeMap<String, String>) {
        self.proposed_sections = (sections != self.sections).then_some(sections);
        self.touched();
    }

    /// Names of the sections whose text would change.
    pub(super) fn rewritten(&self) -> Vec<String> {
        let Some(proposed) = &self.proposed_sections else { return Vec::new() };
        let mut names: Vec<String> = proposed.keys().chain(self.sections.keys()).cloned().collect();
        names.retain(|name| proposed.get(name) != self.sections.get(name));
        names.sort();
        names.dedup();
        names
    }

    /// Drops the proposed sections once the gate has decided about them.
    pub(super) fn settle_sections(&mut self, candidate: &Candidate) {
        if self.proposed_sections.as_ref() == Some(&candidate.playbook.sections) {
            self.proposed_sections = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Question;
    use crate::harness::HarnessSettings;
    use crate::playbook::Playbook;
    use crate::{Entry, EntryId, Layer as _, Lesson, Status};

    fn sections(text: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("rules".to_owned(), text.to_owned())])
    }

    /// A harness that serves one lesson and one section.
    fn harness() -> Harness {
        let entries = vec![Entry::new(Lesson::read("when a is b: c"), "operator")];
        Harness::new(HarnessSettings::default(), Playbook { sections: sections("old"), entries })
    }

    fn set(harness: &mut Harness, status: &Status) -> EntryId {
        let id = Lesson::read("when a is b: c").id();
        harness.records.get_mut(&id).unwrap().entry.status = status.clone();
        id
    }

    #[test]
    fn proposed_sections_are_not_served_before_the_gate_accepts_them() {
        let mut harness = harness();
        let before = harness.digest();
        assert_eq!(harness.candidate(), None);
        harness.propose_sections(sections("new"));
        assert_ne!(harness.digest(), before, "the digest changes");
        assert_eq!(harness.deployed().sections, sections("old"));
        assert!(harness.training(1).choose(0, 0, 1, "").text.contains("old"), "training shows what is deployed");
        let candidate = harness.candidate().unwrap();
        assert_eq!((&candidate.playbook.sections, candidate.question), (&sections("new"), Question::Better));
        assert_eq!(candidate.playbook.entries, harness.deployed().entries, "entries stay");
        assert_eq!((candidate.rewritten.as_slice(), candidate.added.len()), (&["rules".to_owned()][..], 0));
        harness.promote(&candidate);
        assert_eq!((harness.deployed(), harness.candidate()), (candidate.playbook, None));
    }

    #[test]
    fn rejected_sections_are_dropped() {
        let mut harness = harness();
        harness.propose_sections(sections("new"));
        harness.reject(&harness.candidate().unwrap());
        assert_eq!((harness.deployed().sections, harness.candidate()), (sections("old"), None));
    }

    #[test]
    fn proposing_the_deployed_sections_makes_no_candidate() {
        let mut harness = harness();
        harness.propose_sections(sections("old"));
        assert_eq!(harness.candidate(), None);
        harness.propose_sections(sections("new"));
        harness.propose_sections(sections("old"));
        assert_eq!(harness.candidate(), None, "the later proposal replaces the earlier one");
    }

    #[test]
    fn added_and_removed_sections_count_as_rewritten() {
        let mut harness = harness();
        harness.propose_sections(BTreeMap::from([("tone".to_owned(), "kind".to_owned())]));
        assert_eq!(harness.candidate().unwrap().rewritten, ["rules", "tone"]);
    }

    #[test]
    fn sections_proposed_after_a_candidate_wait_for_their_own_decision() {
        let mut harness = harness();
        harness.propose_sections(sections("new"));
        let candidate = harness.candidate().unwrap();
        harness.propose_sections(sections("newer"));
        harness.reject(&candidate);
        assert_eq!(harness.candidate().unwrap().playbook.sections, sections("newer"));
    }

    #[test]
    fn a_harmful_entry_can_be_removed_after_its_candidate_was_rejected_for_its_sections() {
        let mut harness = harness();
        let id = set(&mut harness, &Status::Harmful);
        harness.propose_sections(sections("new"));
        let both = harness.candidate().unwrap();
        assert_eq!((both.removed.as_slice(), both.question), (&[id.clone()][..], Question::Better));
        harness.reject(&both);
        let next = harness.candidate().unwrap();
        assert_eq!((next.removed.as_slice(), next.question), (&[id][..], Question::NotWorse));
        assert_eq!(next.playbook.sections, sections("old"));
        harness.reject(&next);
        assert_eq!(harness.candidate(), None, "its own removal was rejected: it stays");
    }

    #[test]
    fn a_snapshot_contains_proposed_sections() {
        let mut harness = harness();
        harness.propose_sections(sections("new"));
        let mut other = Harness::new(HarnessSettings::default(), Playbook::default());
        other.restore(&harness.snapshot().unwrap()).unwrap();
        assert_eq!(other.candidate(), harness.candidate());
    }
}
