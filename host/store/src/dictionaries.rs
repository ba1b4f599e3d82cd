//! Dictionaries: the common parts of documents of one kind and subject.
//!
//! A dictionary never changes, is named by its digest, and is stored in the database, so that the file can be read on
//! its own. It is written in the transaction of the first document that needs it. So a crash leaves neither a document
//! without its dictionary nor a dictionary without a document.

use crate::documents::{self, Kind, LEVEL, Unreadable};
use crate::packing::{self, MOST_KNOWN, Raw, read_number, write_number};
use clawhost_core::Digest;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use zstd::zstd_safe::{CDict, DDict};

/// Size of the part that zstd trains. Larger dictionaries made short episodes no shorter.
const TRAINED_BYTES: usize = 16 << 10;

/// Largest size of a dictionary on reading: known digests and the trained part.
const LARGEST: i64 = 64 << 10;

/// A digest is known if at least one of this many documents contains it.
const KNOWN_SHARE: usize = 8;

/// The position of a random number in a trained dictionary. Every frame would repeat it; the row has a better
/// identifier.
const TRAINED_ID: std::ops::Range<usize> = 4..8;

/// A dictionary, ready to use.
pub(crate) struct Dictionary {
    pub(crate) kind: Kind,
    /// The subject: an environment, an agent or a reward.
    pub(crate) subject: String,
    digest: Digest,
    content: Vec<u8>,
    known: Vec<Raw>,
    /// Compressed bytes per million bytes of its samples.
    pub(crate) fit: u64,
    encoder: OnceLock<Option<CDict<'static>>>,
    decoder: OnceLock<Option<DDict<'static>>>,
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dictionary({} {} {})", self.kind, self.subject, self.digest)
    }
}

impl Dictionary {
    /// Reads the output of [`train`](Self::train).
    fn read(kind: Kind, subject: String, content: Vec<u8>, fit: u64) -> Option<Self> {
        let mut rest = content.as_slice();
        let count = read_number(&mut rest).ok()?;
        let mut known = Vec::new();
        for _ in 0..count.min(MOST_KNOWN as u64) {
            let (digest, after) = rest.split_first_chunk()?;
            known.push(*digest);
            rest = after;
        }
        let digest = Digest::of(&content);
        let (encoder, decoder) = (OnceLock::new(), OnceLock::new());
        Some(Self { kind, subject, digest, known, fit, encoder, decoder, content })
    }

    /// Trains a dictionary. `None`: there are too few samples, or they have too little in common.
    pub(crate) fn train(kind: Kind, subject: &str, samples: &[String]) -> Option<Self> {
        let known = common_digests(samples);
        let (mut all, mut sizes) = (Vec::new(), Vec::with_capacity(samples.len()));
        for sample in samples {
            let packed = packing::pack(sample, &known);
            sizes.push(packed.text.len() + packed.numbers.len());
            all.extend(packed.text);
            all.extend(packed.numbers);
        }
        let mut trained = zstd::dict::from_continuous(&all, &sizes, TRAINED_BYTES).ok()?;
        trained.get_mut(TRAINED_ID)?.fill(0);
        let mut content = Vec::with_capacity(trained.len() + 32 * known.len() + 2);
        write_number(&mut content, known.len() as u64);
        known.iter().for_each(|digest| content.extend_from_slice(digest));
        content.extend_from_slice(&trained);
        let mut made = Self::read(kind, subject.to_owned(), content, 0)?;
        made.fit = fit(samples, Some(&made))?;
        Some(made)
    }

    /// Digests that many documents contain.
    pub(crate) fn known(&self) -> &[Raw] {
        &self.known
    }

    fn trained(&self) -> &[u8] {
        let mut rest = self.content.as_slice();
        let _ = read_number(&mut rest);
        rest.get(32 * self.known.len()..).unwrap_or_default()
    }

    /// `None`: zstd rejects it, or lacks memory.
    pub(crate) fn encoder(&self) -> Option<&CDict<'static>> {
        self.encoder.get_or_init(|| CDict::try_create(self.trained(), LEVEL)).as_ref()
    }

    /// `None`: zstd rejects it, or lacks memory.
    pub(crate) fn decoder(&self) -> Option<&DDict<'static>> {
        self.decoder.get_or_init(|| DDict::try_create(self.trained())).as_ref()
    }
}

/// Compressed bytes per million bytes of documents. `None`: there is nothing to measure.
pub(crate) fn fit(samples: &[String], dictionary: Option<&Dictionary>) -> Option<u64> {
    let known = dictionary.map_or(&[][..], Dictionary::known);
    let (mut before, mut after) = (0_u64, 0_u64);
    for sample in samples {
        let packed = packing::pack(sample, known);
        let compressed = documents::frame(&[packed.text, packed.numbers].concat(), dictionary)?;
        before += sample.len() as u64;
        after += (compressed.len() + packed.atoms.len()) as u64;
    }
    after.saturating_mul(1_000_000).checked_div(before)
}

/// The digests that many documents contain, the most frequent first.
fn common_digests(samples: &[String]) -> Vec<Raw> {
    let mut counts: BTreeMap<Raw, usize> = BTreeMap::new();
    for sample in samples {
        // Packing without known digests puts each of them into the atoms, but other values too: search the text.
        let found: BTreeSet<Raw> = sample
            .match_indices("sha256:")
            .filter_map(|(at, _)| packing::digest(sample.as_bytes().get(at..)?))
            .collect();
        found.into_iter().for_each(|digest| *counts.entry(digest).or_default() += 1);
    }
    let mut common: Vec<(Raw, usize)> =
        counts.into_iter().filter(|(_, count)| *count > 1 && count * KNOWN_SHARE >= samples.len()).collect();
    common.sort_by_key(|(digest, count)| (std::cmp::Reverse(*count), *digest));
    common.into_iter().map(|(digest, _)| digest).take(MOST_KNOWN / 2).collect()
}

/// The number of a dictionary in the database. Inserts it if it is missing.
pub(crate) fn number_of(transaction: &Transaction<'_>, dictionary: &Dictionary) -> rusqlite::Result<i64> {
    let digest = dictionary.digest.to_string();
    let known = transaction
        .prepare_cached("SELECT number FROM dictionaries WHERE digest = ?")?
        .query_row([&digest], |row| row.get(0))
        .optional()?;
    if let Some(number) = known {
        return Ok(number);
    }
    let Dictionary { kind, subject, content, fit, .. } = dictionary;
    transaction
        .prepare_cached("INSERT INTO dictionaries (digest, kind, subject, fit, content) VALUES (?, ?, ?, ?, ?)")?
        .execute(params![digest, kind.name(), subject, crate::integers::signed(*fit), content])?;
    Ok(transaction.last_insert_rowid())
}

/// Removes dictionaries that no document refers to.
pub(crate) const REMOVE_UNUSED: &str = "
    DELETE FROM dictionaries WHERE number NOT IN (SELECT dictionary FROM episodes WHERE dictionary IS NOT NULL)
    AND number NOT IN (SELECT dictionary FROM verdicts WHERE dictionary IS NOT NULL)";

/// A row of a dictionary: digest, kind, subject, fit, content.
type Columns = (String, String, String, i64, Vec<u8>);

/// The dictionary with a number, checked.
fn read(connection: &Connection, number: i64) -> rusqlite::Result<Result<Dictionary, Unreadable>> {
    let row: Option<Columns> = connection
        .prepare_cached(
            "SELECT digest, kind, subject, fit, content FROM dictionaries WHERE number = ? AND octet_length(content) <= ?",
        )?
        .query_row([number, LARGEST], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))
        .optional()?;
    let Some((digest, kind, subject, fit, content)) = row else { return Ok(Err(Unreadable::NoDictionary(number))) };
    let kind = Kind::WITH_DICTIONARIES.into_iter().find(|known| known.name() == kind);
    let fit = crate::integers::unsigned(fit);
    let made = kind.and_then(|kind| Dictionary::read(kind, subject, content, fit));
    Ok(made.filter(|made| made.digest.to_string() == digest).ok_or(Unreadable::OtherDictionary(number)))
}

/// The newest dictionary of every kind and subject, at most `limit`. Unreadable ones are left out: documents are then
/// written without them.
pub(crate) fn newest(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<Arc<Dictionary>>> {
    let numbers: Vec<i64> = connection
        .prepare("SELECT max(number) FROM dictionaries GROUP BY kind, subject ORDER BY 1 DESC LIMIT ?")?
        .query_map([limit as i64], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut newest = Vec::new();
    for number in numbers {
        newest.extend(read(connection, number)?.ok().map(Arc::new));
    }
    Ok(newest)
}

/// Dictionaries that were read. A number is never reused, so none becomes stale.
#[derive(Debug, Default)]
pub(crate) struct Loaded(RefCell<BTreeMap<i64, Arc<Dictionary>>>);

impl Loaded {
    /// The dictionary of a row. `None`: the row has none.
    pub(crate) fn get(
        &self,
        connection: &Connection,
        number: Option<i64>,
    ) -> rusqlite::Result<Result<Option<Arc<Dictionary>>, Unreadable>> {
        let Some(number) = number else { return Ok(Ok(None)) };
        if let Some(known) = self.0.borrow().get(&number) {
            return Ok(Ok(Some(known.clone())));
        }
        Ok(read(connection, number)?.map(|dictionary| {
            let dictionary = Arc::new(dictionary);
            self.0.borrow_mut().insert(number, dictionary.clone());
            Some(dictionary)
        }))
    }
}
