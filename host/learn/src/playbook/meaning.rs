//! What a session asks, as retrieval reads it: a text, and its meaning if an embedding model gave vectors.
//!
//! Conditions decide by the text alone. Prose is found by its words, and by the cosine of its vector and that of the text. The two rankings are
//! joined by reciprocal rank fusion: Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
//! Methods", SIGIR 2009. It needs no common scale of the two scores: an entry gets the sum of `1 / (60 + rank)` over the rankings that have it.

use super::duplicates::cosine;
use clawhost_core::Embedding;
use std::sync::Arc;

/// What is added to a rank, as the authors found it best: it keeps the first places of one ranking from deciding alone.
const RANK_OFFSET: f64 = 60.0;

/// What a session asks.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    text: &'a str,
    meaning: Option<Meaning<'a>>,
}

/// The meaning of a text beside those of others.
#[derive(Clone, Copy)]
pub struct Meaning<'a> {
    /// The vector of the text.
    pub vector: &'a Embedding,
    /// The vector of the text that says when an entry applies ([`prose_text`](super::prose_text)). `None`: it is not known.
    pub known: &'a (dyn Fn(&str) -> Option<Arc<Embedding>> + Sync),
    /// The cosine from which an entry is near the text, 0 to 1.
    pub least: f64,
}

impl<'a> From<&'a str> for Query<'a> {
    fn from(text: &'a str) -> Self {
        Self { text, meaning: None }
    }
}

impl<'a> From<&'a String> for Query<'a> {
    fn from(text: &'a String) -> Self {
        text.as_str().into()
    }
}

impl<'a> Query<'a> {
    /// A text with its meaning. `None`: entries are found by words alone.
    pub fn new(text: &'a str, meaning: Option<Meaning<'a>>) -> Self {
        Self { text, meaning }
    }

    /// The text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The cosine of an entry's vector and that of the text, if both are known, comparable, and near each other.
    pub(super) fn nearness(&self, entry: &str) -> Option<f64> {
        let Meaning { vector, known, least } = self.meaning?;
        let cosine = cosine(vector.numbers(), known(entry)?.numbers());
        // NaN for vectors of different lengths.
        (cosine >= least).then_some(cosine)
    }

    /// Whether it has a meaning.
    pub(super) fn has_meaning(&self) -> bool {
        self.meaning.is_some()
    }
}

/// The ranks of scores, from 1. Equal scores have equal ranks. `None` is not in the ranking.
fn ranks(scores: &[Option<f64>]) -> Vec<Option<usize>> {
    let mut sorted: Vec<f64> = scores.iter().flatten().copied().collect();
    sorted.sort_by(|one, other| other.total_cmp(one));
    let rank = |score: &f64| sorted.partition_point(|other| other.total_cmp(score).is_gt()) + 1;
    scores.iter().map(|score| score.as_ref().map(rank)).collect()
}

/// The fused score of each entry from its scores in two rankings of all entries: 0 if it is in neither, 1 if it is the first of both.
pub(super) fn fused(words: &[Option<f64>], meaning: &[Option<f64>]) -> Vec<f64> {
    let part = |rank: Option<usize>| rank.map_or(0.0, |rank| (RANK_OFFSET + 1.0) / (RANK_OFFSET + rank as f64) / 2.0);
    ranks(words).into_iter().zip(ranks(meaning)).map(|(one, other)| part(one) + part(other)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{FEW_PROSE_ENTRIES, Index, prose_text};
    use super::*;
    use crate::{Entry, Lesson};
    use proptest::prelude::*;

    #[test]
    fn scores_are_fused_by_their_ranks() {
        let check = |words: &[Option<f64>], meaning: &[Option<f64>], expect: &[f64]| {
            let found = fused(words, meaning);
            let near = |(one, other): (&f64, &f64)| (one - other).abs() < 1e-12;
            assert!(found.len() == expect.len() && found.iter().zip(expect).all(near), "{found:?} {expect:?}");
        };
        check(&[], &[], &[]);
        check(&[Some(0.1)], &[None], &[0.5]);
        check(&[Some(0.1), None], &[Some(0.9), None], &[1.0, 0.0]);
        // The first by words and the second by meaning, and the other way round, are equally good.
        let (first, second) = (0.5, 61.0 / 62.0 / 2.0);
        check(&[Some(0.9), Some(0.2)], &[Some(0.5), Some(0.6)], &[first + second, second + first]);
        // Equal scores share a rank, and the next one is behind all of them.
        check(&[Some(0.5), Some(0.5), Some(0.4)], &[None; 3], &[first, first, 61.0 / 63.0 / 2.0]);
    }

    /// A vector that has this angle to that of the question.
    fn vector(degrees: f32) -> Arc<Embedding> {
        Arc::new(Embedding::new(&[degrees.to_radians().cos(), degrees.to_radians().sin()]).unwrap())
    }

    /// The lessons that are found among a crowd of others, by their texts, if vectors have these angles to that of the question.
    fn found(lessons: &[&str], question: &str, angles: &[(&str, f32)], least: f64) -> Vec<(String, f64)> {
        let filler = |n: usize| format!("Check the topic{n} of the plan{n} before you touch the thing{n}.");
        let texts = lessons.iter().map(|text| (*text).to_owned()).chain((0..FEW_PROSE_ENTRIES).map(filler));
        let entries: Vec<Entry> = texts.map(|text| Entry::new(Lesson::read(&text), "operator")).collect();
        let known = |text: &str| angles.iter().find(|(known, _)| *known == text).map(|(_, angle)| vector(*angle));
        let asked = vector(0.0);
        let query = Query::new(question, Some(Meaning { vector: &asked, known: &known, least }));
        let line = |position: usize| entries[position].lesson.line();
        Index::new(&entries).relevant(query).iter().map(|hit| (line(hit.position), hit.score)).collect()
    }

    fn check(lessons: &[&str], question: &str, angles: &[(&str, f32)], expect: &[&str]) {
        let found = found(lessons, question, angles, 0.5);
        assert_eq!(found.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>(), expect, "{question} {angles:?}");
    }

    #[test]
    fn an_entry_that_shares_no_word_is_found_by_its_meaning() {
        let lesson = "Offer reimbursement for broken goods.";
        check(&[lesson], "My mug came in pieces", &[(lesson, 20.0)], &[lesson]);
        check(&[lesson], "My mug came in pieces", &[(lesson, 70.0)], &[]);
        check(&[lesson], "My mug came in pieces", &[], &[]);
    }

    #[test]
    fn what_words_and_meaning_agree_on_comes_first() {
        let (both, words, meaning) = ("Refund broken mugs.", "Refund mugs twice.", "Offer reimbursement.");
        let angles = [(both, 10.0), (meaning, 5.0), (words, 80.0)];
        check(&[words, meaning, both], "refund my broken mug", &angles, &[both, meaning, words]);
    }

    #[test]
    fn conditions_decide_whatever_the_meaning() {
        let (gold, silver, prose) = ("when tier is gold: refund", "when tier is silver: wait", "Offer reimbursement.");
        // Vectors of rules are never looked at, however near they are.
        let angles = [(gold, 0.0), (silver, 0.0), ("refund", 0.0), ("wait", 0.0), (prose, 0.0)];
        check(&[prose, gold, silver], "tier: gold", &angles, &[gold, prose]);
        let score = found(&[prose, gold], "tier: gold", &angles, 0.5)[0].1;
        assert!(score > 1.0, "a rule whose condition holds is above all prose: {score}");
    }

    #[test]
    fn a_vector_of_another_length_is_not_near() {
        let entries = [Entry::new(Lesson::read("Be kind."), "operator")];
        let (asked, other) = (vector(0.0), Arc::new(Embedding::new(&[1.0]).unwrap()));
        let known = |_: &str| Some(other.clone());
        let query = Query::new("x", Some(Meaning { vector: &asked, known: &known, least: 0.0 }));
        let hits = Index::new(&entries).relevant(query);
        assert!(!hits[0].applies && hits[0].score == 0.0, "{hits:?}");
    }

    #[test]
    fn the_text_that_is_embedded_is_that_which_says_when_an_entry_applies() {
        let check = |text: &str, expect: Option<&str>| assert_eq!(prose_text(&Lesson::read(text)), expect, "{text}");
        check("Be kind.", Some("Be kind."));
        check("when asked about trains: look up the time", Some("asked about trains"));
        check("when tier is gold: refund", None);
        check("always: wait", None);
    }

    proptest! {
        #[test]
        fn without_vectors_words_alone_decide(question in "[a-z ]{0,30}", lessons in prop::collection::vec("[a-z ]{1,20}", 0..40)) {
            let entries: Vec<Entry> = lessons.iter().map(|text| Entry::new(Lesson::read(text), "operator")).collect();
            let (index, asked) = (Index::new(&entries), vector(0.0));
            let query = Query::new(&question, Some(Meaning { vector: &asked, known: &|_| None, least: 0.0 }));
            let positions = |hits: Vec<super::super::Hit>| hits.iter().map(|hit| hit.position).collect::<Vec<_>>();
            prop_assert_eq!(positions(index.relevant(query)), positions(index.relevant(question.as_str())));
        }
    }
}
