//! The playbook: entries in order, and named sections.

use super::{Difference, says_the_same};
use crate::{Entry, Lesson, Skill};
use clawhost_core::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The knowledge that models are shown. Texts are stored escaped ([`super::safety`]).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Playbook {
    /// Named texts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sections: BTreeMap<String, String>,
    /// Lessons in the order in which they are shown. Ids are unique.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<Entry>,
}

/// Prefix of the hashed bytes: the type and version of the content.
const DIGEST_FORM: &[u8] = b"clawhost playbook 1";
/// The same, where entries need others.
const DIGEST_FORM_WITH_NEEDS: &[u8] = b"clawhost playbook 2";

/// Expected bytes per entry, to allocate the buffer once.
const USUAL_ENTRY_BYTES: usize = 256;

impl Playbook {
    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.sections.is_empty()
    }

    /// Digest of everything that can change a model's output: the sections, and each entry's position, id, lesson, tags and needs.
    /// Origin, support, status and skill names are left out.
    pub fn digest(&self) -> Digest {
        let mut bytes = Vec::with_capacity(USUAL_ENTRY_BYTES * (self.entries.len() + self.sections.len() + 1));
        let has_needs = self.entries.iter().any(|entry| !entry.needs.is_empty());
        bytes.extend_from_slice(if has_needs { DIGEST_FORM_WITH_NEEDS } else { DIGEST_FORM });
        write_count(self.sections.len(), &mut bytes);
        for (name, text) in &self.sections {
            write_texts(&[name, text], &mut bytes);
        }
        write_count(self.entries.len(), &mut bytes);
        for Entry { id, lesson, tags, needs, .. } in &self.entries {
            match lesson {
                Lesson::Text(text) => write_texts(&[&id.0, "text", text], &mut bytes),
                Lesson::Skill(Skill { when, action, avoid, .. }) => {
                    write_texts(&[&id.0, "skill", when, action, avoid], &mut bytes);
                }
            }
            write_count(tags.len(), &mut bytes);
            tags.iter().for_each(|tag| write_texts(&[tag], &mut bytes));
            if has_needs {
                write_count(needs.len(), &mut bytes);
                needs.iter().for_each(|need| write_texts(&[&need.0], &mut bytes));
            }
        }
        Digest::of(&bytes)
    }

    /// Whether an entry says what a lesson says, in the same or nearly the same words.
    pub fn says(&self, lesson: &Lesson) -> bool {
        self.entries.iter().any(|entry| says_the_same(&entry.lesson, lesson))
    }

    /// The differences from this playbook to a later one. Empty if and only if the digests are equal.
    pub fn diff(&self, later: &Self) -> Vec<Difference> {
        super::difference::between(self, later)
    }
}

/// A length precedes each text, so that the bytes are unambiguous.
fn write_count(count: usize, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(count as u64).to_le_bytes());
}

fn write_texts(texts: &[&str], bytes: &mut Vec<u8>) {
    for text in texts {
        write_count(text.len(), bytes);
        bytes.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntryId, Status};

    fn playbook() -> Playbook {
        let entries = ["when a is b: c", "Be kind."].map(|text| Entry::new(Lesson::read(text), "operator")).to_vec();
        Playbook { sections: BTreeMap::from([("house".into(), "rules".into())]), entries }
    }

    #[test]
    fn the_digest_covers_what_can_change_an_output() {
        let check = |change: fn(&mut Playbook)| {
            let mut changed = playbook();
            change(&mut changed);
            assert_ne!(changed.digest(), playbook().digest(), "{changed:?}");
            assert_ne!(playbook().diff(&changed), [], "{changed:?}");
        };
        check(|playbook| playbook.entries.reverse());
        check(|playbook| playbook.entries[0].tags.push("x".into()));
        check(|playbook| playbook.entries[0].needs = vec![playbook.entries[1].id.clone()]);
        check(|playbook| playbook.entries[0].lesson = Lesson::Text("when a is b: c".into()));
        check(|playbook| playbook.entries[0].lesson = Lesson::read("when a is b: d"));
        check(|playbook| playbook.entries[0].id = EntryId("e-1".into()));
        check(|playbook| drop(playbook.entries.pop()));
        check(|playbook| playbook.sections.clear());
        check(|playbook| drop(playbook.sections.insert("house".into(), String::new())));
        check(|playbook| playbook.sections = BTreeMap::from([("houser".into(), "ules".into())]));
    }

    #[test]
    fn bookkeeping_fields_do_not_change_the_digest() {
        let check = |change: fn(&mut Playbook)| {
            let mut changed = playbook();
            change(&mut changed);
            assert_eq!(changed.digest(), playbook().digest(), "{changed:?}");
            assert_eq!(playbook().diff(&changed), [], "{changed:?}");
        };
        check(|playbook| playbook.entries[0].status = Status::Deployed);
        check(|playbook| playbook.entries[0].support = 9);
        check(|playbook| playbook.entries[0].born = 9);
        check(|playbook| playbook.entries[0].merges = vec![EntryId("e-9".into())]);
        check(|playbook| playbook.entries[0].created_by = "somebody".into());
        check(|playbook| {
            playbook.entries[0].sources = vec![clawhost_core::Evidence { episode: "e".into(), turns: vec![1] }]
        });
        check(|playbook| {
            let Lesson::Skill(skill) = &mut playbook.entries[0].lesson else { panic!("{playbook:?}") };
            skill.name = "a name".into();
        });
    }

    #[test]
    fn serialisation_round_trips_and_unknown_fields_are_errors() {
        let json = serde_json::to_string(&playbook()).unwrap();
        assert_eq!(serde_json::from_str::<Playbook>(&json).unwrap(), playbook());
        assert_eq!(serde_json::from_str::<Playbook>("{}").unwrap(), Playbook::default());
        assert!(serde_json::from_str::<Playbook>(r#"{"section": {}}"#).is_err());
    }
}
