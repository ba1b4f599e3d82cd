//! The differences of two runs, for resuming and for comparing.

use crate::entries::{Entry, IDENTITY, NONE, POLICY, Shown};
use crate::{Key, RunSpec};
use clawhost_core::escaped;
use std::collections::BTreeSet;
use std::fmt;

/// Characters of a value that are shown.
const CHARACTERS: usize = 40;
/// Numbers with a smaller relative difference are equal: a stored text may have lost the last digit.
const TOLERANCE: f64 = 1e-12;

/// One value that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its place, as in [`RunSpec::entries`], or a plugin or a model in words.
    pub place: String,
    /// The option that decides it. `None`: the verb, or the layers.
    pub key: Option<Key>,
    /// The earlier value, cut and safe for a terminal.
    pub was: String,
    /// The later value, cut and safe for a terminal.
    pub is: String,
    /// Whether it can change a result.
    pub decides: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was {} and is {}", escaped(&self.place, usize::MAX), self.was, self.is)
    }
}

impl RunSpec {
    /// The differences between this run and another. Differences that can change a result come first.
    ///
    /// If both runs know the identity of a plugin or model, paths and the text of the policy are not compared. Entries
    /// that exist in one run only because of another difference are not listed.
    pub fn diff(&self, now: &Self) -> Vec<Difference> {
        let knows = self.policy.identity.is_some() && now.policy.identity.is_some();
        let counts = |entry: &Entry| match knows {
            true => entry.place != POLICY,
            false => !IDENTITY.contains(&entry.place.as_str()),
        };
        let was: Vec<Entry> = self.all_entries().into_iter().filter(counts).collect();
        let is: Vec<Entry> = now.all_entries().into_iter().filter(counts).collect();
        let at = |entries: &[Entry], place: &str| entries.iter().find(|entry| entry.place == place).cloned();
        let added = is.iter().filter(|entry| at(&was, &entry.place).is_none());
        let pairs = was.iter().map(|entry| (Some(entry.clone()), at(&is, &entry.place)));
        let pairs: Vec<_> = pairs.chain(added.map(|entry| (None, Some(entry.clone())))).collect();
        let mut differing: BTreeSet<String> = BTreeSet::new();
        let mut unsure: Vec<(Option<Entry>, Option<Entry>)> = Vec::new();
        let mut all = Vec::new();
        for (was, is) in pairs {
            match (was, is) {
                (Some(was), Some(is)) => {
                    let found = compared(&was, &is);
                    differing.extend(found.iter().map(|difference| difference.place.clone()));
                    all.extend(found);
                }
                one_alone => unsure.push(one_alone),
            }
        }
        for (was, is) in unsure {
            let Some(entry) = was.as_ref().or(is.as_ref()) else { continue };
            let follows = entry.below.as_ref().is_some_and(|head| differing.contains(head));
            differing.insert(entry.place.clone());
            if !follows {
                let text = |entry: &Option<Entry>| entry.as_ref().map_or(NONE.to_owned(), |entry| entry.shown.text());
                all.push(difference(entry.place.clone(), entry.key, &text(&was), &text(&is)));
            }
        }
        let order = |difference: &Difference| (!difference.decides, difference.key.is_some(), difference.key);
        all.sort_by_key(order);
        all
    }

    /// The differences that can change a result.
    pub fn decisive_diff(&self, now: &Self) -> Vec<Difference> {
        self.diff(now).into_iter().filter(|difference| difference.decides).collect()
    }
}

/// The difference between two values of one place.
fn compared(was: &Entry, is: &Entry) -> Option<Difference> {
    let of = |place: &str, one: &str, other: &str| {
        (one != other).then(|| difference(place.to_owned(), was.key.or(is.key), one, other))
    };
    match (&was.shown, &is.shown) {
        (Shown::Number(one), Shown::Number(other)) if (one - other).abs() <= TOLERANCE * one.abs().max(other.abs()) => {
            None
        }
        (Shown::Plugin { role, identity: Some(one), .. }, Shown::Plugin { identity: Some(other), .. }) => {
            match one.name == other.name {
                true => of(&format!("{role} {}", one.name), &one.digest.short(), &other.digest.short()),
                false => of(&was.place, &one.name, &other.name),
            }
        }
        // One of them is not loaded, so only the paths can be compared.
        (Shown::Plugin { path: one, .. }, Shown::Plugin { path: other, .. }) => of(&was.place, one, other),
        (one, other) => of(&was.place, &one.text(), &other.text()),
    }
}

fn difference(place: String, key: Option<Key>, was: &str, is: &str) -> Difference {
    let alike = was.chars().zip(is.chars()).take_while(|(one, other)| one == other).count();
    let decides = key.is_none_or(Key::decides);
    Difference { place, key, was: cut(was, alike), is: cut(is, alike), decides }
}

/// A long value, from shortly before the first difference.
fn cut(text: &str, alike: usize) -> String {
    let from = if text.chars().count() > CHARACTERS { alike.saturating_sub(CHARACTERS / 4) } else { 0 };
    let rest: String = text.chars().skip(from).collect();
    format!("{}{}", if from > 0 { "…" } else { "" }, escaped(&rest, CHARACTERS))
}
