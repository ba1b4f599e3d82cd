//! Compresses documents for one store, and trains dictionaries.
//!
//! Documents of one kind and subject are samples until there are enough of them. Then a separate thread trains a
//! dictionary, and later documents use it. Nothing waits for the thread. If later documents no longer fit a dictionary,
//! a new one is trained. Which dictionary a document gets depends on timing; the text that is read back does not.

use crate::dictionaries::{self, Dictionary};
use crate::documents::{self, Around, Kind, Stored, TooLong};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Samples per dictionary. More samples gave no better dictionary.
pub(crate) const SAMPLES: usize = 256;

/// Largest total size of samples in bytes. If samples are long, fewer suffice.
pub(crate) const SAMPLE_BYTES: usize = 2 << 20;

/// Longer documents compress well on their own, and are not used as samples.
pub(crate) const LONGEST_SAMPLE: usize = 64 << 10;

/// Smallest number of samples per dictionary.
pub(crate) const FEWEST_SAMPLES: usize = 32;

/// Largest number of subjects with dictionaries in one process: their samples are kept in memory. Documents of other
/// subjects have none.
pub(crate) const SUBJECTS: usize = 16;

/// A dictionary is replaced if documents take this many hundredths of the share that they took when it was trained.
/// Digests and seeds take the same with every dictionary, and dilute its loss.
const OUTGROWN: u64 = 125;

/// The state of one subject.
#[derive(Debug, Default)]
struct Subject {
    dictionary: Option<Arc<Dictionary>>,
    doing: SubjectState,
    samples: Vec<String>,
    sample_bytes: usize,
    /// Dictionaries made in this process. Each one must serve twice as many documents as the previous one.
    made: u32,
}

/// The use of the next documents.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum SubjectState {
    /// They are samples.
    #[default]
    Sampling,
    /// A dictionary is being trained.
    Training,
    /// They show whether the dictionary fits: their number, their bytes, and their compressed bytes.
    Watching { documents: usize, bytes: u64, compressed: u64 },
}

const WATCHING: SubjectState = SubjectState::Watching { documents: 0, bytes: 0, compressed: 0 };

type Subjects = BTreeMap<(Kind, String), Subject>;

/// Compresses the documents of a store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Compressor {
    subjects: Arc<Mutex<Subjects>>,
    /// How often it was restarted. What was trained before is not adopted afterwards.
    restarts: Arc<AtomicU64>,
}

impl Compressor {
    /// A compressor with the newest dictionaries of a database.
    pub(crate) fn new(newest: Vec<Arc<Dictionary>>) -> Self {
        let compressor = Self::default();
        compressor.restart(newest);
        compressor
    }

    /// Forgets all samples and dictionaries, and goes on with the newest dictionaries of a database.
    pub(crate) fn restart(&self, newest: Vec<Arc<Dictionary>>) {
        let subject = |dictionary: Arc<Dictionary>| {
            let key = (dictionary.kind, dictionary.subject.clone());
            (key, Subject { dictionary: Some(dictionary), doing: WATCHING, ..Subject::default() })
        };
        let mut subjects = self.subjects();
        self.restarts.fetch_add(1, Ordering::Relaxed);
        *subjects = newest.into_iter().take(SUBJECTS).map(subject).collect();
    }

    fn subjects(&self) -> MutexGuard<'_, Subjects> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compresses a document with the dictionary of its subject.
    ///
    /// # Errors
    /// The document is longer than its kind allows.
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
            SubjectState::Training => {}
            SubjectState::Watching { documents, bytes, compressed } => {
                *documents += 1;
                *bytes += document.len() as u64;
                *compressed += compressed_bytes as u64;
                if *documents >= SAMPLES << subject.made.min(32) {
                    let share = compressed.saturating_mul(1_000_000) / (*bytes).max(1);
                    let fit = subject.dictionary.as_ref().map_or(0, |dictionary| dictionary.fit);
                    subject.doing =
                        if share > fit.saturating_mul(OUTGROWN) / 100 { SubjectState::Sampling } else { WATCHING };
                }
            }
            SubjectState::Sampling => {
                subject.samples.push(document.to_owned());
                subject.sample_bytes += document.len();
                if subject.samples.len() >= SAMPLES || subject.sample_bytes >= SAMPLE_BYTES {
                    subject.doing = SubjectState::Training;
                    subject.sample_bytes = 0;
                    let samples = std::mem::take(&mut subject.samples);
                    // Read while nobody can restart it: these samples are of before.
                    let restarts = self.restarts.load(Ordering::Relaxed);
                    drop(subjects);
                    self.train(key, samples, restarts);
                }
            }
        }
    }

    /// Trains in the background. If no thread can be started, there is no dictionary.
    fn train(&self, key: (Kind, String), samples: Vec<String>, restarts: u64) {
        let compressor = self.clone();
        let work = move || {
            let made = Dictionary::train(key.0, &key.1, &samples);
            compressor.adopt(&key, made, &samples, restarts);
        };
        drop(std::thread::Builder::new().name("clawhost-dictionary".into()).spawn(work));
    }

    /// Adopts a dictionary if it is better than the previous one. `restarts`: how often the compressor was restarted when it got the samples.
    fn adopt(&self, key: &(Kind, String), made: Option<Dictionary>, samples: &[String], restarts: u64) {
        let before = self.subjects().get(key).and_then(|subject| subject.dictionary.clone());
        let made = made.filter(|_| samples.len() >= FEWEST_SAMPLES);
        let better =
            made.filter(|made| dictionaries::fit(samples, before.as_deref()).is_none_or(|share| made.fit < share));
        let mut subjects = self.subjects();
        if self.restarts.load(Ordering::Relaxed) == restarts
            && let Some(subject) = subjects.get_mut(key)
        {
            subject.dictionary = better.map(Arc::new).or(before);
            subject.made += 1;
            subject.doing = WATCHING;
        }
    }
}

#[cfg(test)]
#[path = "compressor_tests.rs"]
mod tests;
