//! Differences between two playbooks, for people.

use super::Playbook;
use crate::{Entry, EntryId, Lesson, Skill};
use std::collections::BTreeMap;
use std::fmt;

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// An entry was added.
    Added(Entry),
    /// An entry was removed.
    Removed(Entry),
    /// The tags, the needs or the capitalisation of an entry changed.
    Changed {
        /// The entry before.
        before: Box<Entry>,
        /// The entry after.
        after: Box<Entry>,
    },
    /// Entries that both playbooks have are ordered differently. Lists those whose rank among them changed, in the new
    /// order.
    Reordered(Vec<EntryId>),
    /// A section was added, removed or changed.
    Section {
        /// The section's name.
        name: String,
        /// The text before; `None` if the section was added.
        before: Option<String>,
        /// The text after; `None` if the section was removed.
        after: Option<String>,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(entry) => write!(f, "+ {} {}", entry.id, entry.lesson.line()),
            Self::Removed(entry) => write!(f, "- {} {}", entry.id, entry.lesson.line()),
            Self::Changed { before, after } => {
                let show = |entry: &Entry| {
                    let needs: Vec<_> = entry.needs.iter().map(|id| id.0.as_str()).collect();
                    let needs = if needs.is_empty() { String::new() } else { format!(" needs {}", needs.join(", ")) };
                    format!("{} [{}]{needs}", entry.lesson.line(), entry.tags.join(", "))
                };
                write!(f, "~ {} {} -> {}", after.id, show(before), show(after))
            }
            Self::Reordered(ids) => {
                let ids: Vec<_> = ids.iter().map(|id| id.0.as_str()).collect();
                write!(f, "~ another order: {}", ids.join(", "))
            }
            Self::Section { name, before, after } => {
                let what = match (before, after) {
                    (None, _) => "+",
                    (_, None) => "-",
                    _ => "~",
                };
                let bytes = |text: &Option<String>| text.as_ref().map_or(0, String::len);
                write!(f, "{what} section {name}: {} -> {} bytes", bytes(before), bytes(after))
            }
        }
    }
}

/// All differences: sections by name, removed entries, added and changed entries, the order.
pub(super) fn between(before: &Playbook, after: &Playbook) -> Vec<Difference> {
    let mut differences = sections(before, after);
    let (old, new) = (numbered(before), numbered(after));
    let known: BTreeMap<Key<'_>, &Entry> = old.iter().copied().collect();
    let present: BTreeMap<Key<'_>, &Entry> = new.iter().copied().collect();
    let gone = old.iter().filter(|(key, _)| !present.contains_key(key));
    differences.extend(gone.map(|(_, entry)| Difference::Removed((*entry).clone())));
    for (key, entry) in &new {
        match known.get(key) {
            None => differences.push(Difference::Added((*entry).clone())),
            Some(earlier) if !shown_alike(earlier, entry) => {
                differences.push(Difference::Changed {
                    before: Box::new((*earlier).clone()),
                    after: Box::new((*entry).clone()),
                });
            }
            Some(_) => {}
        }
    }
    let stayed = old.iter().filter(|(key, _)| present.contains_key(key));
    let stays = new.iter().filter(|(key, _)| known.contains_key(key));
    let moved: Vec<_> = stayed.zip(stays).filter(|((old, _), (new, _))| old != new).collect();
    if !moved.is_empty() {
        differences.push(Difference::Reordered(moved.into_iter().map(|(_, ((id, _), _))| (*id).clone()).collect()));
    }
    differences
}

/// An entry's id and its number among the entries with that id, from 1. Usually ids are unique.
type Key<'a> = (&'a EntryId, usize);

fn numbered(playbook: &Playbook) -> Vec<(Key<'_>, &Entry)> {
    let mut seen: BTreeMap<&EntryId, usize> = BTreeMap::new();
    let mut number = |id| {
        let before = seen.entry(id).or_default();
        *before += 1;
        *before
    };
    playbook.entries.iter().map(|entry| ((&entry.id, number(&entry.id)), entry)).collect()
}

fn shown_alike(one: &Entry, other: &Entry) -> bool {
    let nameless = |lesson: &Lesson| match lesson {
        Lesson::Skill(skill) => Lesson::Skill(Skill { name: String::new(), ..skill.clone() }),
        Lesson::Text(_) => lesson.clone(),
    };
    one.tags == other.tags && one.needs == other.needs && nameless(&one.lesson) == nameless(&other.lesson)
}

fn sections(before: &Playbook, after: &Playbook) -> Vec<Difference> {
    let mut names: Vec<&String> = before.sections.keys().chain(after.sections.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let section = |name: &String| {
        let (before, after) = (before.sections.get(name).cloned(), after.sections.get(name).cloned());
        (before != after).then(|| Difference::Section { name: name.clone(), before, after })
    };
    names.into_iter().filter_map(section).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn playbook(lessons: &[&str], sections: &[(&str, &str)]) -> Playbook {
        Playbook {
            sections: sections.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect(),
            entries: lessons.iter().map(|text| Entry::new(Lesson::read(text), "operator")).collect(),
        }
    }

    fn check(before: &Playbook, after: &Playbook, expect: &[&str]) {
        let id = |text: &str| Lesson::read(text).id().0;
        let shown = before.diff(after).iter().map(Difference::to_string).collect::<Vec<_>>().join("\n");
        let shown = ["a", "b", "c"].iter().fold(shown, |shown, text| shown.replace(&id(text), &text.to_uppercase()));
        assert_eq!(shown, expect.join("\n"));
    }

    #[test]
    fn each_kind_of_change_is_listed() {
        let base = playbook(&["a", "b"], &[("s", "x")]);
        check(&base, &base, &[]);
        check(&base, &playbook(&["a", "b", "c"], &[("s", "x")]), &["+ C c"]);
        check(&base, &playbook(&["b"], &[("s", "x")]), &["- A a"]);
        check(&base, &playbook(&["c", "a", "b"], &[("s", "x")]), &["+ C c"]);
        check(&base, &playbook(&["b", "a"], &[("s", "x")]), &["~ another order: B, A"]);
        check(&base, &playbook(&["A", "b"], &[("s", "x")]), &["~ A a [] -> A []"]);
        let mut needing = base.clone();
        needing.entries[1].needs = vec![needing.entries[0].id.clone()];
        check(&base, &needing, &["~ B b [] -> b [] needs A"]);
        check(&base, &playbook(&["a", "b"], &[("s", "xyz")]), &["~ section s: 1 -> 3 bytes"]);
        check(&base, &playbook(&["a", "b"], &[("t", "")]), &["- section s: 1 -> 0 bytes", "+ section t: 0 -> 0 bytes"]);
    }

    fn any_playbook() -> impl Strategy<Value = Playbook> {
        let lesson = prop::sample::select(vec!["a", "b", "c", "A", "when a is b: c"]);
        let tags = prop::collection::vec(prop::sample::select(vec!["t".to_owned(), "u".to_owned()]), 0..2);
        let needs = prop::collection::vec(prop::sample::select(vec!["a", "b"]), 0..2)
            .prop_map(|texts| texts.into_iter().map(|text| Lesson::read(text).id()).collect::<Vec<_>>());
        let entry = (lesson, tags, needs).prop_map(|(text, tags, needs)| Entry {
            tags,
            needs,
            ..Entry::new(Lesson::read(text), "operator")
        });
        let section = prop::sample::select(vec!["s".to_owned(), "t".to_owned()]);
        (prop::collection::btree_map(section.clone(), section, 0..2), prop::collection::vec(entry, 0..4))
            .prop_map(|(sections, entries)| Playbook { sections, entries })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn the_difference_is_empty_if_and_only_if_digests_are_equal(one in any_playbook(), other in any_playbook()) {
            prop_assert_eq!(one.diff(&other).is_empty(), one.digest() == other.digest());
        }
    }
}
