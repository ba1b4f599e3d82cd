//! Compresses documents for one store, and makes dictionaries for them.
//!
//! Documents of one kind and subject are samples until there are enough; then a thread of its own trains a dictionary, and
//! documents after that use it. Nothing waits for the thread. A dictionary that later documents no longer fit is followed
//! by a new one. Which dictionary a document gets depends on time; what it says when it is read does not.

use crate::dictionaries::{self, Dictionary};
use crate::documents::{self, Around, Kind, Stored, TooLong};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Documents that a dictionary is made of. More made it no better.
const SAMPLES: usize = 256;

/// Bytes of samples that wait for their dictionary; fewer documents have to do where they are long.
const SAMPLE_BYTES: usize = 2 << 20;

/// Longer documents hold what a dictionary helps with many times over, and are left out.
const LONGEST_SAMPLE: usize = 64 << 10;

/// Fewer samples than this tell nothing.
const FEWEST_SAMPLES: usize = 32;

/// Subjects that get dictionaries in one process: their samples are kept in memory. Documents of others have none.
pub(crate) const SUBJECTS: usize = 16;

/// A dictionary no longer fits when documents take so many hundredths of the share that they took when it was made. Digests
/// and seeds take the same with every dictionary, and dilute what it loses.
const OUTGROWN: u64 = 125;

/// The documents of one subject.
#[derive(Debug, Default)]
struct Subject {
    dictionary: Option<Arc<Dictionary>>,
    doing: Doing,
    samples: Vec<String>,
    sample_bytes: usize,
    /// Dictionaries made in this process. Each one has to serve twice as many documents as the one before.
    made: u32,
}

/// What the next documents are for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// They are samples.
    #[default]
    Sampling,
    /// A dictionary is being made.
    Training,
    /// They show whether the dictionary fits: how many, their bytes, and their compressed bytes.
    Watching { documents: usize, bytes: u64, compressed: u64 },
}

const WATCHING: Doing = Doing::Watching { documents: 0, bytes: 0, compressed: 0 };

type Subjects = BTreeMap<(Kind, String), Subject>;

/// Compresses the documents of a store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Compressor {
    subjects: Arc<Mutex<Subjects>>,
}

impl Compressor {
    /// Begins with the newest dictionaries of a database.
    pub(crate) fn new(newest: Vec<Arc<Dictionary>>) -> Self {
        let subject = |dictionary: Arc<Dictionary>| {
            let key = (dictionary.kind, dictionary.subject.clone());
            (key, Subject { dictionary: Some(dictionary), doing: WATCHING, ..Subject::default() })
        };
        Self { subjects: Arc::new(Mutex::new(newest.into_iter().take(SUBJECTS).map(subject).collect())) }
    }

    fn subjects(&self) -> MutexGuard<'_, Subjects> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compresses a document with the dictionary of its subject.
    ///
    /// # Errors
    /// It is longer than its kind may be.
    pub(crate) fn encode(&self, kind: Kind, subject: &str, document: &str, around: &Around) -> Result<Stored, TooLong> {
        let key = (kind, subject.to_owned());
        let dictionary = {
            let mut subjects = self.subjects();
            if subjects.len() < SUBJECTS || subjects.contains_key(&key) {
                subjects.entry(key.clone()).or_default().dictionary.clone()
            } else {
                None
            }
        };
        let stored = documents::encode(kind, document, around, dictionary.as_ref())?;
        if document.len() <= LONGEST_SAMPLE {
            self.note(key, document, stored.form.len());
        }
        Ok(stored)
    }

    fn note(&self, key: (Kind, String), document: &str, compressed_bytes: usize) {
        let mut subjects = self.subjects();
        let Some(subject) = subjects.get_mut(&key) else { return };
        match &mut subject.doing {
            Doing::Training => {}
            Doing::Watching { documents, bytes, compressed } => {
                *documents += 1;
                *bytes += document.len() as u64;
                *compressed += compressed_bytes as u64;
                if *documents >= SAMPLES << subject.made.min(32) {
                    let share = compressed.saturating_mul(1_000_000) / (*bytes).max(1);
                    let fit = subject.dictionary.as_ref().map_or(0, |dictionary| dictionary.fit);
                    subject.doing = if share > fit.saturating_mul(OUTGROWN) / 100 { Doing::Sampling } else { WATCHING };
                }
            }
            Doing::Sampling => {
                subject.samples.push(document.to_owned());
                subject.sample_bytes += document.len();
                if subject.samples.len() >= SAMPLES || subject.sample_bytes >= SAMPLE_BYTES {
                    subject.doing = Doing::Training;
                    subject.sample_bytes = 0;
                    let samples = std::mem::take(&mut subject.samples);
                    drop(subjects);
                    self.train(key, samples);
                }
            }
        }
    }

    /// Trains beside the caller. Where no thread can be had, there is no dictionary.
    fn train(&self, key: (Kind, String), samples: Vec<String>) {
        let compressor = self.clone();
        let work = move || compressor.adopt(&key, Dictionary::train(key.0, &key.1, &samples), &samples);
        drop(std::thread::Builder::new().name("clawhost-dictionary".into()).spawn(work));
    }

    /// Takes a dictionary where it is better than what there was.
    fn adopt(&self, key: &(Kind, String), made: Option<Dictionary>, samples: &[String]) {
        let before = self.subjects().get(key).and_then(|subject| subject.dictionary.clone());
        let made = made.filter(|_| samples.len() >= FEWEST_SAMPLES);
        let better =
            made.filter(|made| dictionaries::fit(samples, before.as_deref()).is_none_or(|share| made.fit < share));
        if let Some(subject) = self.subjects().get_mut(key) {
            subject.dictionary = better.map(Arc::new).or(before);
            subject.made += 1;
            subject.doing = WATCHING;
        }
    }
}

#[cfg(test)]
#[path = "compressor_tests.rs"]
mod tests;
