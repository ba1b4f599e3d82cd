//! Sections of the prompt: what an evolution found waits for the gate, like an entry that was admitted.

use super::{Candidate, Harness};
use std::collections::BTreeMap;

impl Harness {
    /// Sections that may take the place of the deployed ones, all of them: they come into the next candidate. Those that
    /// are deployed already propose nothing.
    pub fn propose_sections(&mut self, sections: BTreeMap<String, String>) {
        self.proposed_sections = (sections != self.sections).then_some(sections);
        self.touched();
    }

    /// Names of the sections that would say something else.
    pub(super) fn rewritten(&self) -> Vec<String> {
        let Some(proposed) = &self.proposed_sections else { return Vec::new() };
        let mut names: Vec<String> = proposed.keys().chain(self.sections.keys()).cloned().collect();
        names.retain(|name| proposed.get(name) != self.sections.get(name));
        names.sort();
        names.dedup();
        names
    }

    /// The gate has decided about the sections of a candidate: they wait no more.
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

    /// Serves one lesson and one section.
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
    fn proposed_sections_are_served_by_nobody_until_the_gate_lets_them_through() {
        let mut harness = harness();
        let before = harness.digest();
        assert_eq!(harness.candidate(), None);
        harness.propose_sections(sections("new"));
        assert_ne!(harness.digest(), before, "the state has another name");
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
    fn sections_that_are_turned_down_are_given_up() {
        let mut harness = harness();
        harness.propose_sections(sections("new"));
        harness.turn_down(&harness.candidate().unwrap());
        assert_eq!((harness.deployed().sections, harness.candidate()), (sections("old"), None));
    }

    #[test]
    fn sections_that_are_deployed_already_propose_nothing() {
        let mut harness = harness();
        harness.propose_sections(sections("old"));
        assert_eq!(harness.candidate(), None);
        harness.propose_sections(sections("new"));
        harness.propose_sections(sections("old"));
        assert_eq!(harness.candidate(), None, "the later proposal counts");
    }

    #[test]
    fn a_section_that_is_new_or_missing_is_rewritten_too() {
        let mut harness = harness();
        harness.propose_sections(BTreeMap::from([("tone".to_owned(), "kind".to_owned())]));
        assert_eq!(harness.candidate().unwrap().rewritten, ["rules", "tone"]);
    }

    #[test]
    fn what_was_proposed_after_a_candidate_waits_for_its_own_judgement() {
        let mut harness = harness();
        harness.propose_sections(sections("new"));
        let candidate = harness.candidate().unwrap();
        harness.propose_sections(sections("newer"));
        harness.turn_down(&candidate);
        assert_eq!(harness.candidate().unwrap().playbook.sections, sections("newer"));
    }

    #[test]
    fn a_harmful_entry_leaves_although_the_sections_beside_it_are_turned_down() {
        let mut harness = harness();
        let id = set(&mut harness, &Status::Harmful);
        harness.propose_sections(sections("new"));
        let both = harness.candidate().unwrap();
        assert_eq!((both.removed.as_slice(), both.question), (&[id.clone()][..], Question::Better));
        harness.turn_down(&both);
        let next = harness.candidate().unwrap();
        assert_eq!((next.removed.as_slice(), next.question), (&[id][..], Question::NotWorse));
        assert_eq!(next.playbook.sections, sections("old"));
        harness.turn_down(&next);
        assert_eq!(harness.candidate(), None, "turned down for itself, it stays");
    }

    #[test]
    fn what_is_proposed_survives_a_snapshot() {
        let mut harness = harness();
        harness.propose_sections(sections("new"));
        let mut other = Harness::new(HarnessSettings::default(), Playbook::default());
        other.restore(&harness.snapshot().unwrap()).unwrap();
        assert_eq!(other.candidate(), harness.candidate());
    }
}
