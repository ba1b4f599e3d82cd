//! Retrieval of the entries that are relevant to a task.
//!
//! The first text that a task shows is parsed for facts (`tier: gold`) and words.
//!
//! - A *rule* (a lesson whose conditions a program can evaluate) is relevant if the text mentions every fact of its
//!   conditions and contradicts none. `tier: silver` contradicts `when tier is gold`; `tier: not asked yet` does not, since
//!   the value may still become `gold`.
//! - A lesson without conditions is always relevant.
//! - Prose is relevant if the text contains a sufficient share of its words ([`RELEVANT_SHARE`](super::RELEVANT_SHARE)) or
//!   all words of one of its tags, or if its meaning is near that of the text ([`Query`]). With few prose entries all are relevant.
//!
//! The index is inverted: its cost grows with the facts and words of the text, not with the number of entries.

use super::meaning::Query;
use super::prose::Prose;
use crate::Entry;
use clawhost_core::{Condition, Facts};
use std::collections::{BTreeMap, BTreeSet};

/// Score of an entry that applies to every text. Each satisfied condition of a rule adds 1, so the most specific rule comes
/// first. The score of prose is at most this.
pub(super) const APPLIES: f64 = 1.0;

/// A relevant entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Index in the playbook.
    pub position: usize,
    /// Relevance: prose 0 to 1; rules 1 plus the number of satisfied conditions.
    pub score: f64,
    /// Whether its conditions, its words or its meaning fit. Otherwise it is here because there are few entries, or for its tags.
    pub applies: bool,
}

/// The retrieval index of a playbook.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// Positions of entries without conditions.
    always: Vec<usize>,
    rules: Rules,
    prose: Prose,
}

impl Index {
    /// Indexes the entries of a playbook.
    pub fn new(entries: &[Entry]) -> Self {
        let mut index = Self::default();
        let mut prose = Vec::new();
        for (position, entry) in entries.iter().enumerate() {
            match entry.lesson.conditions() {
                None => prose.push((position, entry)),
                Some(conditions) if conditions.is_empty() => index.always.push(position),
                Some(conditions) => index.rules.add(position, conditions),
            }
        }
        index.prose = Prose::new(&prose);
        index
    }

    /// The entries relevant to a text, or to a text and its meaning, by falling score, then by position.
    pub fn relevant<'q>(&self, query: impl Into<Query<'q>>) -> Vec<Hit> {
        let query = query.into();
        let always = self.always.iter().map(|position| Hit { position: *position, score: APPLIES, applies: true });
        let mut hits: Vec<Hit> = always.collect();
        self.rules.collect(&facts(query.text()), &mut hits);
        self.prose.collect(&query, &mut hits);
        hits.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.position.cmp(&other.position)));
        hits
    }
}

/// Entries with conditions that a program can evaluate.
#[derive(Debug, Clone, Default)]
struct Rules {
    /// Playbook index, and number of distinct conditions.
    entries: Vec<(usize, usize)>,
    /// Fact to value to indices into `entries`.
    by_fact: BTreeMap<String, BTreeMap<String, Vec<usize>>>,
}

impl Rules {
    fn add(&mut self, position: usize, conditions: Vec<Condition>) {
        let place = self.entries.len();
        let conditions: BTreeSet<Condition> = conditions.into_iter().collect();
        self.entries.push((position, conditions.len()));
        for Condition { fact, value } in conditions {
            self.by_fact.entry(fact).or_default().entry(value).or_default().push(place);
        }
    }

    fn collect(&self, facts: &Facts, hits: &mut Vec<Hit>) {
        // Per entry: number of conditions not contradicted, and number satisfied.
        let mut held = vec![(0_usize, 0_u32); self.entries.len()];
        let mut count = |places: &[usize], may_hold: usize, holds: u32| {
            for place in places {
                if let Some((may, does)) = held.get_mut(*place) {
                    *may += may_hold;
                    *does += holds;
                }
            }
        };
        for (fact, values) in &self.by_fact {
            let Some(known) = facts.get(fact).map(str::to_lowercase) else { continue };
            let equal = values.get(&known).map(Vec::as_slice).unwrap_or_default();
            if is_open(&known) {
                values.values().for_each(|places| count(places, 1, 0));
                count(equal, 0, 1);
            } else {
                count(equal, 1, 1);
            }
        }
        let applies = self.entries.iter().zip(held).filter(|((_, conditions), (may, _))| may == conditions);
        hits.extend(applies.map(|((position, _), (_, does))| {
            let score = APPLIES + f64::from(does);
            Hit { position: *position, score, applies: true }
        }));
    }
}

/// Values, in lower case, that mean "not known yet".
const OPEN_VALUES: [&str; 8] = ["", "unknown", "hidden", "none given", "n/a", "tbd", "?", "-"];

fn is_open(value: &str) -> bool {
    value.starts_with("not ") || OPEN_VALUES.contains(&value)
}

/// The facts of a text. A line `NAME:` mentions a fact without a value.
fn facts(text: &str) -> Facts {
    let mut facts = Facts::default();
    for line in text.lines() {
        let line = line.trim_end();
        if line.ends_with(':') && !line.contains(": ") {
            facts.read(&format!("{line} -"));
        } else {
            facts.read(line);
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::super::FEW_PROSE_ENTRIES;
    use super::*;
    use crate::{Lesson, Skill};
    use proptest::prelude::*;

    fn index(lessons: &[&str]) -> Index {
        let entries: Vec<Entry> = lessons.iter().map(|text| Entry::new(Lesson::read(text), "operator")).collect();
        Index::new(&entries)
    }

    fn check(lessons: &[&str], text: &str, expect: &[(usize, f64)]) {
        let hits: Vec<_> = index(lessons).relevant(text).iter().map(|hit| (hit.position, hit.score)).collect();
        assert_eq!(hits, expect, "{lessons:?} {text:?}");
    }

    #[test]
    fn a_rule_is_relevant_unless_a_fact_is_missing_or_contradicts() {
        let rules = ["when tier is gold: a", "when tier is silver: b", "when tier is gold and age is days: c"];
        check(&rules, "Tier: Gold\nAge: days", &[(2, 3.0), (0, 2.0)]);
        check(&rules, "tier: gold\nage: years", &[(0, 2.0)]);
        check(&rules, "tier: gold", &[(0, 2.0)]);
        check(&rules, "age: days", &[]);
        check(&rules, "tier: silver\n- tier: gold", &[(0, 2.0)]);
        check(&rules, "nothing", &[]);
    }

    #[test]
    fn a_fact_that_is_not_known_yet_contradicts_nothing() {
        let rules = ["when tier is gold: a", "when tier is silver and age is days: b"];
        for open in ["not asked yet", "Not known", "unknown", "Hidden", "none given", "N/A", "TBD", "?", "-", ""] {
            check(&rules, &format!("tier: {open}\nage: days"), &[(1, 2.0), (0, 1.0)]);
            check(&rules, &format!("tier: {open}\nage: years"), &[(0, 1.0)]);
        }
        for known in ["nothing", "none", "not", "--", "unknown tier"] {
            check(&rules, &format!("tier: {known}\nage: days"), &[]);
        }
        check(&["when tier is unknown: ask"], "tier: unknown", &[(0, 2.0)]);
        check(&["when tier is unknown: ask"], "tier: ?", &[(0, 1.0)]);
    }

    #[test]
    fn a_line_without_a_value_mentions_its_fact_and_rules_mention_none() {
        check(&["when tier is gold: a"], "tier:  \nmore", &[(0, 1.0)]);
        check(&["when tier is gold: a"], "tier: gold\ntier:", &[(0, 1.0)]);
        check(&["when b is c: a"], "when x is b:\nb: c:", &[]);
        check(&["when b is c:: a"], "b: c:", &[(0, 2.0)]);
    }

    #[test]
    fn a_repeated_condition_counts_once() {
        check(&["when a is b and a is b: c"], "a: b", &[(0, 2.0)]);
        check(&["when a is b and a is c: d"], "a: b", &[]);
    }

    #[test]
    fn an_entry_without_conditions_is_always_relevant() {
        check(&["when a is b: c", "always: wait"], "", &[(1, 1.0)]);
    }

    #[test]
    fn few_prose_entries_are_all_relevant_sorted_by_share() {
        check(&["quite another thing", "refund orders"], "An order. Refund?", &[(1, 1.0), (0, 0.0)]);
        check(&["!"], "?", &[(0, 0.0)]);
    }

    /// Enough unrelated prose lessons that not all of them are relevant.
    fn crowd() -> Vec<Entry> {
        let filler = |n: usize| {
            let text = format!("Check the topic{n} of the plan{n} before you touch the thing{n} in the shop.");
            Entry::new(Lesson::Text(text), "operator")
        };
        (0..FEW_PROSE_ENTRIES).map(filler).collect()
    }

    fn found(entry: Entry, text: &str) -> bool {
        let mut entries = crowd();
        entries.push(entry);
        let last = entries.len() - 1;
        Index::new(&entries).relevant(text).iter().any(|hit| hit.position == last)
    }

    #[test]
    fn of_many_prose_entries_only_related_ones_are_relevant() {
        let lesson = "Verify the shipping address with the customer before you refund damaged orders.";
        let check = |text: &str, expect: bool| {
            assert_eq!(found(Entry::new(Lesson::Text(lesson.into()), "operator"), text), expect, "{text}");
        };
        check("A customer wants a refund: two orders came damaged.", true);
        check("Write a poem about the sea before you sleep in the house.", false);
        check("", false);
    }

    #[test]
    fn a_long_lesson_does_not_match_every_text() {
        let long: Vec<String> = (0..300).map(|n| format!("word{n}")).collect();
        let entry = Entry::new(Lesson::Text(format!("{} the of in before", long.join(" "))), "operator");
        assert!(!found(entry.clone(), "before the shop in the middle of the town"));
        assert!(found(entry, &long.join(" ")));
        let (shared, own) = (long[..200].join(" "), long[200..224].join(" "));
        let mut entries = crowd();
        let more = [shared.clone(), format!("{shared} {own}")].map(|text| Entry::new(Lesson::Text(text), "operator"));
        entries.extend(more);
        let hits = Index::new(&entries).relevant(&shared);
        assert_eq!(hits.len(), 1, "words shared with another entry weigh less: {hits:?}");
    }

    #[test]
    fn a_skill_in_prose_matches_by_its_condition() {
        let skill = Skill { when: "filling forms".into(), action: "poem sea house".into(), ..Skill::default() };
        let entry = Entry::new(Lesson::Skill(skill), "operator");
        assert!(found(entry.clone(), "please help filling this form"));
        assert!(!found(entry, "a poem about the sea and a house"));
    }

    #[test]
    fn a_tag_that_the_text_names_makes_prose_relevant() {
        let tagged = |tag: &str| Entry {
            tags: vec![tag.into()],
            ..Entry::new(Lesson::Text("Wholly unrelated wording.".into()), "operator")
        };
        assert!(found(tagged("gift-cards"), "They paid with two gift cards."));
        assert!(!found(tagged("gift-cards"), "A gift."));
        assert!(!found(tagged("imported:helpful=3"), "imported helpful 3"), "display tags do not match");
    }

    #[test]
    fn every_prose_entry_without_words_is_relevant_among_many() {
        assert!(found(Entry::new(Lesson::Text("!?".into()), "operator"), "anything"));
    }

    /// The definition of relevance, applied to a single entry.
    fn relevant_rule(lesson: &Lesson, facts: &Facts) -> bool {
        lesson.conditions().unwrap().iter().all(|condition| {
            facts.get(&condition.fact).is_some_and(|known| known.to_lowercase() == condition.value || is_open(known))
        })
    }

    proptest! {
        #[test]
        fn the_index_agrees_with_a_scan_of_all_entries(
            rules in prop::collection::vec(prop::collection::vec((0..4_usize, 0..3_usize), 1..4), 0..40),
            known in prop::collection::vec(0..5_usize, 4),
        ) {
            let values = ["x", "y", "z", "unknown"];
            let lesson = |conditions: &Vec<(usize, usize)>| {
                let parts: Vec<_> = conditions.iter().map(|(fact, value)| format!("f{fact} is {}", values[*value])).collect();
                Lesson::read(&format!("when {}: act", parts.join(" and ")))
            };
            let entries: Vec<Entry> = rules.iter().map(|conditions| Entry::new(lesson(conditions), "operator")).collect();
            // An index past the list means that the text does not mention the fact.
            let lines: Vec<_> = known.iter().enumerate()
                .filter_map(|(fact, value)| Some(format!("f{fact}: {}", values.get(*value)?))).collect();
            let text = lines.join("\n");
            let facts = facts(&text);
            let expect: Vec<usize> = (0..entries.len()).filter(|at| relevant_rule(&entries[*at].lesson, &facts)).collect();
            let hits = Index::new(&entries).relevant(&text);
            prop_assert!(hits.is_sorted_by(|one, other| (-one.score, one.position) < (-other.score, other.position)));
            let mut got: Vec<usize> = hits.iter().map(|hit| hit.position).collect();
            got.sort_unstable();
            prop_assert_eq!(got, expect);
        }
    }
}
