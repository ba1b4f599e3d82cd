//! Relevance of prose lessons to a text.
//!
//! An entry is represented by its most significant words, weighted as in BM25 (Robertson and Zaragoza, "The Probabilistic
//! Relevance Framework", 2009): the weight of a word falls with the number of entries that contain it, and rises with its
//! count in this entry. Weights are normalised to sum 1. The *share* of an entry in a text is the sum of the weights of the
//! words that occur in the text, 0 to 1. Of a skill only the condition is used.
//!
//! If the meaning of the text is known ([`Query`]), an entry that is near it is relevant, too, and the score is fused from both rankings.

use super::exchange::DISPLAY_TAG;
use super::meaning::{Query, fused};
use super::words::words;
use super::{Hit, retrieval};
use crate::{Entry, Lesson, Skill};
use std::collections::{BTreeMap, BTreeSet};

/// With fewer prose entries than this all are relevant: they fit into a prompt, and word statistics over so few are
/// unreliable.
pub const FEW_PROSE_ENTRIES: usize = 30;

/// Smallest share of a relevant entry. Low, because a relevant entry that is missed is lost, while an irrelevant one only
/// competes for the token budget.
pub const RELEVANT_SHARE: f64 = 0.2;

/// Most words that represent an entry. Typical lessons have fewer. Without a limit, long lessons would match every text and
/// cost time.
const TELLING_WORDS: usize = 24;

/// The usual parameters of BM25: `k1` (saturation of word counts) and `b` (length normalisation).
const SATURATION: f64 = 1.2;
const LENGTH_SHARE: f64 = 0.75;

/// Prose entries by words and tags.
#[derive(Debug, Clone, Default)]
pub(super) struct Prose {
    /// Playbook indices of all prose entries.
    positions: Vec<usize>,
    /// The text of each that says when it applies.
    texts: Vec<String>,
    /// Word to the entries that contain it, as indices into `positions`, with the word's weight.
    words: BTreeMap<String, Vec<(usize, f64)>>,
    /// Tags by their first word.
    tags: BTreeMap<String, Vec<Tag>>,
    /// Entries without any word. They are always relevant, since nothing indicates when they apply.
    wordless: Vec<usize>,
}

#[derive(Debug, Clone)]
struct Tag {
    /// The words after the first.
    rest: Vec<String>,
    /// Entries with this tag, as indices into `positions`.
    entries: Vec<usize>,
}

impl Prose {
    pub(super) fn new(entries: &[(usize, &Entry)]) -> Self {
        let texts: Vec<Vec<String>> = entries.iter().map(|(_, entry)| words(telling_text(&entry.lesson))).collect();
        let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
        let mut counted: Vec<BTreeMap<&str, usize>> = Vec::with_capacity(texts.len());
        for text in &texts {
            let mut counts = BTreeMap::new();
            text.iter().for_each(|word| *counts.entry(word.as_str()).or_default() += 1);
            counts.keys().for_each(|word| *holders.entry(word).or_default() += 1);
            counted.push(counts);
        }
        let usual_length = texts.iter().map(Vec::len).sum::<usize>() as f64 / texts.len().max(1) as f64;
        let own = entries.iter().map(|(_, entry)| telling_text(&entry.lesson).to_owned()).collect();
        let positions = entries.iter().map(|(position, _)| *position).collect();
        let mut prose = Self { positions, texts: own, ..Self::default() };
        for (at, (counts, text)) in counted.iter().zip(&texts).enumerate() {
            let weight = |word: &str, count: usize| {
                let holders = holders.get(word).copied().unwrap_or_default() as f64;
                let rarity = (1.0 + (entries.len() as f64 - holders + 0.5) / (holders + 0.5)).ln();
                let length = 1.0 - LENGTH_SHARE + LENGTH_SHARE * text.len() as f64 / usual_length;
                let count = count as f64;
                rarity * count * (SATURATION + 1.0) / (count + SATURATION * length)
            };
            let mut weights: Vec<(&str, f64)> =
                counts.iter().map(|(word, count)| (*word, weight(word, *count))).collect();
            weights.sort_by(|(one, heavy), (other, heavier)| heavier.total_cmp(heavy).then(one.cmp(other)));
            weights.truncate(TELLING_WORDS);
            let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
            if weights.is_empty() {
                prose.wordless.push(at);
            }
            for (word, weight) in weights {
                prose.words.entry(word.to_owned()).or_default().push((at, weight / sum));
            }
        }
        prose.tags = tags(entries);
        prose
    }

    /// Adds the entries that are relevant to what is asked.
    pub(super) fn collect(&self, query: &Query<'_>, hits: &mut Vec<Hit>) {
        if self.positions.is_empty() {
            return;
        }
        let words: BTreeSet<String> = words(query.text()).into_iter().collect();
        let mut shares = vec![0.0_f64; self.positions.len()];
        for (at, share) in words.iter().filter_map(|word| self.words.get(word)).flatten() {
            if let Some(sum) = shares.get_mut(*at) {
                // Rounding may take a sum above 1, and such an entry would rank above one whose sum is 1.
                *sum = (*sum + share).min(retrieval::APPLIES);
            }
        }
        let mut named = vec![self.positions.len() < FEW_PROSE_ENTRIES; self.positions.len()];
        let present = |tag: &&Tag| tag.rest.iter().all(|word| words.contains(word));
        let tags = words.iter().filter_map(|word| self.tags.get(word)).flatten().filter(present);
        for at in tags.flat_map(|tag| &tag.entries).chain(&self.wordless) {
            if let Some(named) = named.get_mut(*at) {
                *named = true;
            }
        }
        let nearness: Vec<Option<f64>> = self.texts.iter().map(|text| query.nearness(text)).collect();
        let scores = match query.has_meaning() {
            false => shares.clone(),
            true => {
                let by_words: Vec<Option<f64>> = shares.iter().map(|share| (*share > 0.0).then_some(*share)).collect();
                fused(&by_words, &nearness)
            }
        };
        let found = self.positions.iter().zip(shares).zip(scores).zip(named).zip(nearness);
        hits.extend(found.filter_map(|((((position, share), score), named), nearness)| {
            let applies = share >= RELEVANT_SHARE || nearness.is_some();
            (named || applies).then_some(Hit { position: *position, score, applies })
        }));
    }
}

/// The text of a lesson that determines when it is relevant, by its words or its meaning. `None`: conditions that a program can evaluate
/// determine it, or nothing does.
pub fn prose_text(lesson: &Lesson) -> Option<&str> {
    let is_prose = lesson.conditions().is_none();
    Some(telling_text(lesson)).filter(|text| is_prose && !text.trim().is_empty())
}

/// The text that determines when an entry is relevant.
fn telling_text(lesson: &Lesson) -> &str {
    match lesson {
        Lesson::Text(text) => text,
        Lesson::Skill(Skill { when, .. }) => when,
    }
}

fn tags(entries: &[(usize, &Entry)]) -> BTreeMap<String, Vec<Tag>> {
    let mut by_words: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    for (at, (_, entry)) in entries.iter().enumerate() {
        for tag in entry.tags.iter().filter(|tag| !tag.starts_with(DISPLAY_TAG)) {
            by_words.entry(words(tag)).or_default().push(at);
        }
    }
    let mut tags: BTreeMap<String, Vec<Tag>> = BTreeMap::new();
    for (words, entries) in by_words {
        let mut words = words.into_iter();
        if let Some(first) = words.next() {
            tags.entry(first).or_default().push(Tag { rest: words.collect(), entries });
        }
    }
    tags
}
