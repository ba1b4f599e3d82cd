//! Likeness to requests that were hard: a small table of hashed words with the share of failure of each.
//!
//! The likeness of a request is the mean, over its distinct words, of the failure share of the requests with that word, minus the
//! failure share of all requests: naive, cheap, and enough to notice that the requests with a certain word fail. Words are
//! hashed into few buckets, so the table has a bound, and no text can be read from it.

use super::features::hash;
use crate::playbook::words;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Buckets of words. Several words share one; the mean over a request's words makes up for it.
pub const WORD_BUCKETS: u16 = 1_024;
/// Most buckets kept of one request.
pub const REQUEST_BUCKETS: usize = 64;
/// Characters of a request that are read, so that a long one costs no more than a few microseconds.
const CHARACTERS: usize = 2_000;
/// Requests without knowledge that a bucket begins with, at the failure share of all.
const PRIOR: f64 = 10.0;

/// The buckets of the words of a text, each once, ascending. Only the beginning of a long text is read.
pub fn word_buckets(text: &str) -> Vec<u16> {
    let end = text.char_indices().nth(CHARACTERS).map_or(text.len(), |(at, _)| at);
    let words = words(text.get(..end).unwrap_or_default());
    let buckets: BTreeSet<u16> =
        words.iter().map(|word| (hash(word) % u32::from(WORD_BUCKETS)) as u16).take(REQUEST_BUCKETS).collect();
    buckets.into_iter().collect()
}

/// Requests and their failures, each failure from 0 (best reward) to 1 (worst).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Tally {
    requests: f64,
    failures: f64,
}

/// How often requests fail, by word.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Likeness {
    all: Tally,
    by_bucket: BTreeMap<u16, Tally>,
}

impl Likeness {
    /// Takes the outcome of a request into account; `failure` is from 0 (best reward) to 1 (worst).
    pub(super) fn observe(&mut self, buckets: &[u16], failure: f64) {
        let add = |tally: &mut Tally| {
            tally.requests += 1.0;
            tally.failures += failure;
        };
        add(&mut self.all);
        buckets.iter().for_each(|bucket| add(self.by_bucket.entry(*bucket).or_default()));
    }

    /// The likeness of a request with these words to those that failed, -1 to 1; 0 without knowledge.
    pub fn of(&self, buckets: &[u16]) -> f64 {
        if self.all.requests <= 0.0 || buckets.is_empty() {
            return 0.0;
        }
        let overall = self.all.failures / self.all.requests;
        let share = |bucket: &u16| {
            let tally = self.by_bucket.get(bucket).copied().unwrap_or_default();
            (tally.failures + PRIOR * overall) / (tally.requests + PRIOR)
        };
        let mean = buckets.iter().map(share).sum::<f64>() / buckets.len() as f64;
        mean - overall
    }
}
