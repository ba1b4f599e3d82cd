//! Entries that need each other: a rule on a fact that must be looked up is useless without the look-up.
//!
//! An entry is shown only together with all that it needs, and with all that these need. If one of them is missing, it is not shown.

use crate::{Entry, EntryId};
use std::collections::{BTreeMap, BTreeSet};

/// All that an entry needs, directly or through others. The entry itself is among them only if it needs itself.
pub(crate) fn closure<'a>(start: &'a EntryId, needs: impl Fn(&EntryId) -> &'a [EntryId]) -> BTreeSet<&'a EntryId> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&EntryId> = needs(start).iter().collect();
    while let Some(id) = open.pop() {
        if found.insert(id) {
            open.extend(needs(id));
        }
    }
    found
}

/// Per entry, the positions of all that it needs. `None`: an entry that it needs is missing, or it needs itself.
pub(crate) fn positions(entries: &[Entry]) -> Vec<Option<Vec<usize>>> {
    let places: BTreeMap<&EntryId, usize> =
        entries.iter().enumerate().map(|(place, entry)| (&entry.id, place)).collect();
    let of = |entry: &Entry| {
        if entry.needs.is_empty() {
            return Some(Vec::new());
        }
        let all = all_needed(entry, entries, &places);
        if all.contains(&entry.id) {
            return None;
        }
        all.into_iter().map(|id| places.get(id).copied()).collect()
    };
    entries.iter().map(of).collect()
}

fn all_needed<'a>(entry: &'a Entry, entries: &'a [Entry], places: &BTreeMap<&EntryId, usize>) -> BTreeSet<&'a EntryId> {
    let needs = |id: &EntryId| -> &'a [EntryId] {
        let known = places.get(id).and_then(|place| entries.get(*place));
        known.map_or(&[][..], |entry| &entry.needs)
    };
    closure(&entry.id, needs)
}

/// What is wrong with the needs of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unmet {
    /// No entry has this id.
    Unknown(EntryId),
    /// It needs itself through this entry.
    Cycle(EntryId),
}

/// The first entry whose needs cannot be met, by its position.
pub(crate) fn unmet(entries: &[Entry]) -> Option<(usize, Unmet)> {
    let places: BTreeMap<&EntryId, usize> =
        entries.iter().enumerate().map(|(place, entry)| (&entry.id, place)).collect();
    let of = |entry: &Entry| {
        let unknown = entry.needs.iter().find(|id| !places.contains_key(id));
        let unknown = unknown.map(|id| Unmet::Unknown(id.clone()));
        unknown.or_else(|| {
            let through = entry.needs.iter().find(|id| {
                let needed = places.get(id).and_then(|place| entries.get(*place));
                **id == entry.id
                    || needed.is_some_and(|needed| all_needed(needed, entries, &places).contains(&entry.id))
            });
            through.map(|id| Unmet::Cycle(id.clone()))
        })
    };
    entries.iter().enumerate().find_map(|(place, entry)| Some((place, of(entry)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lesson;

    /// Entries named by letters, each with the letters that it needs.
    fn entries(all: &[(&str, &[&str])]) -> Vec<Entry> {
        let id = |text: &str| Lesson::read(text).id();
        let entry = |(text, needs): &(&str, &[&str])| Entry {
            needs: needs.iter().map(|text| id(text)).collect(),
            ..Entry::new(Lesson::read(text), "operator")
        };
        all.iter().map(entry).collect()
    }

    #[test]
    fn needs_are_followed_through_others() {
        let all = entries(&[("a", &["b"]), ("b", &["c", "d"]), ("c", &["d"]), ("d", &[])]);
        let mut found = positions(&all);
        found.iter_mut().flatten().for_each(|needed| needed.sort_unstable());
        assert_eq!(found, [Some(vec![1, 2, 3]), Some(vec![2, 3]), Some(vec![3]), Some(vec![])]);
        assert_eq!(unmet(&all), None);
    }

    #[test]
    fn unknown_ids_and_cycles_are_named() {
        let id = |text: &str| Lesson::read(text).id();
        let check = |all: &[(&str, &[&str])], blocked: &[usize], expect: (usize, Unmet)| {
            let all = entries(all);
            let found: Vec<usize> =
                positions(&all).iter().enumerate().filter(|(_, needed)| needed.is_none()).map(|(at, _)| at).collect();
            assert_eq!((found.as_slice(), unmet(&all)), (blocked, Some(expect)));
        };
        check(&[("a", &[]), ("b", &["x"])], &[1], (1, Unmet::Unknown(id("x"))));
        check(&[("a", &["a"])], &[0], (0, Unmet::Cycle(id("a"))));
        check(&[("a", &["b"]), ("b", &["a"]), ("c", &[])], &[0, 1], (0, Unmet::Cycle(id("b"))));
    }
}
