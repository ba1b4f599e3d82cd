//! Trains dictionaries anew, without what is forgotten.
//!
//! A dictionary holds pieces of the documents that it was trained from. Which these were is not recorded: the documents that it was trained
//! from are older than the dictionary, and do not use it. So all dictionaries of a kind and subject go of which a document is forgotten. What
//! remains and uses them is compressed anew, with a dictionary of its own.

use crate::compressor::{FEWEST_SAMPLES, LONGEST_SAMPLE, SAMPLE_BYTES, SAMPLES};
use crate::dictionaries::{self, Dictionary, Loaded};
use crate::documents::{self, Around, Form, Kind};
use crate::episode_rows;
use crate::error::Fault;
use crate::integers::{Unsigned, unsigned};
use crate::keys::EpisodeKey;
use clawhost_core::StoreError;
use rusqlite::{OptionalExtension as _, Row, Transaction, params};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The kinds and subjects of documents.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Subjects(BTreeSet<(Kind, String)>);

/// What was trained.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retrained {
    /// Dictionaries that went.
    pub(crate) dictionaries: u64,
    /// Documents that were compressed anew.
    pub(crate) documents: u64,
}

/// The subject of a verdict.
#[derive(serde::Deserialize)]
struct Verdict {
    reward: Named,
}

#[derive(serde::Deserialize)]
struct Named {
    name: String,
}

impl Subjects {
    /// All kinds and subjects that live episodes and verdicts about them may have, in the present or before.
    pub(crate) fn of_live(transaction: &Transaction<'_>) -> rusqlite::Result<Self> {
        let sql =
            "SELECT DISTINCT d.kind = ?1, d.subject FROM dictionaries d WHERE d.kind = ?1 OR (d.kind = ?2 AND EXISTS
                   (SELECT 1 FROM settings s WHERE s.environment = d.subject AND s.live = 1))";
        let subject = |row: &Row<'_>| {
            let kind = if row.get(0)? { Kind::Verdict } else { Kind::Episode };
            Ok((kind, row.get(1)?))
        };
        let kinds = [Kind::Verdict.name(), Kind::Episode.name()];
        Ok(Self(transaction.prepare(sql)?.query_map(kinds, subject)?.collect::<Result<_, _>>()?))
    }

    /// Adds those of an episode and of its verdicts.
    pub(crate) fn add(&mut self, transaction: &Transaction<'_>, episode: i64) -> rusqlite::Result<()> {
        let subject: Option<String> = transaction
            .prepare_cached(
                "SELECT s.environment FROM episodes e JOIN settings s ON s.number = e.setting WHERE e.number = ?",
            )?
            .query_row([episode], |row| row.get(0))
            .optional()?;
        self.0.extend(subject.map(|subject| (Kind::Episode, subject)));
        let loaded = Loaded::default();
        let mut verdicts =
            transaction.prepare_cached("SELECT document, dictionary FROM verdicts WHERE number BETWEEN ? AND ?")?;
        let mut rows = verdicts.query(episode_rows::verdict_numbers(episode))?;
        while let Some(row) = rows.next()? {
            let (form, dictionary): (Form, Option<i64>) = (row.get(0)?, row.get(1)?);
            let Ok(dictionary) = loaded.get(transaction, dictionary)? else { continue };
            let text = documents::decode(Kind::Verdict, &form, &Around::default(), dictionary.as_deref());
            let read = text.ok().and_then(|text| serde_json::from_str::<Verdict>(&text).ok());
            self.0.extend(read.map(|verdict| (Kind::Verdict, verdict.reward.name)));
        }
        Ok(())
    }
}

/// A document with what its row says of it.
struct Stored {
    number: i64,
    form: Form,
    dictionary: Option<i64>,
    around: Around,
}

impl Stored {
    fn sql(kind: Kind) -> &'static str {
        match kind {
            Kind::Verdict => "SELECT number, document, dictionary FROM verdicts WHERE number = ?",
            _ => {
                "SELECT e.number, e.document, e.dictionary, s.format, e.id, r.id, e.position, e.created_at FROM episodes e
                 JOIN runs r ON r.number = e.run LEFT JOIN settings s ON s.number = e.setting WHERE e.number = ?"
            }
        }
    }

    fn read(row: &Row<'_>, kind: Kind) -> rusqlite::Result<Self> {
        let around = match kind {
            Kind::Verdict => Around::default(),
            _ => {
                let (id, run): (EpisodeKey, String) = (row.get(4)?, row.get(5)?);
                let (index, created_at) = (row.get::<_, Unsigned>(6)?.0, row.get::<_, Unsigned>(7)?.0);
                episode_rows::around(row.get(3)?, &id.0, &run, index, created_at)
            }
        };
        Ok(Self { number: row.get(0)?, form: row.get(1)?, dictionary: row.get(2)?, around })
    }
}

/// One kind and subject.
struct Retraining<'a> {
    transaction: &'a Transaction<'a>,
    kind: Kind,
    subject: &'a str,
    loaded: Loaded,
}

impl Retraining<'_> {
    /// The numbers of its dictionaries.
    fn dictionaries(&self) -> rusqlite::Result<Vec<i64>> {
        self.transaction
            .prepare_cached("SELECT number FROM dictionaries WHERE kind = ? AND subject = ?")?
            .query_map([self.kind.name(), self.subject], |row| row.get(0))?
            .collect()
    }

    /// The numbers of the documents that use a dictionary.
    fn users(&self, dictionary: i64) -> rusqlite::Result<Vec<i64>> {
        let sql = match self.kind {
            Kind::Verdict => "SELECT number FROM verdicts WHERE dictionary = ? ORDER BY number",
            _ => "SELECT number FROM episodes WHERE dictionary = ? ORDER BY number",
        };
        self.transaction.prepare_cached(sql)?.query_map([dictionary], |row| row.get(0))?.collect()
    }

    /// A document and its text. `None`: it cannot be read, which is damage of that record alone.
    fn text(&self, number: i64) -> rusqlite::Result<Option<(Stored, String)>> {
        let read = self
            .transaction
            .prepare_cached(Stored::sql(self.kind))?
            .query_row([number], |row| Ok(Stored::read(row, self.kind).ok()))?;
        let Some(stored) = read else { return Ok(None) };
        let Ok(dictionary) = self.loaded.get(self.transaction, stored.dictionary)? else { return Ok(None) };
        let text = documents::decode(self.kind, &stored.form, &stored.around, dictionary.as_deref());
        Ok(text.ok().map(|text| (stored, text)))
    }

    /// A dictionary of some of these documents, spread over all of them. `None`: they are too few, or have too little in common.
    fn trained(&self, documents: &[i64]) -> rusqlite::Result<Option<Arc<Dictionary>>> {
        let step = documents.len().div_ceil(SAMPLES).max(1);
        let (mut samples, mut bytes) = (Vec::new(), 0);
        for number in documents.iter().step_by(step) {
            let Some((_, text)) = self.text(*number)?.filter(|(_, text)| text.len() <= LONGEST_SAMPLE) else {
                continue;
            };
            bytes += text.len();
            samples.push(text);
            if bytes >= SAMPLE_BYTES {
                break;
            }
        }
        let trained = (samples.len() >= FEWEST_SAMPLES).then(|| Dictionary::train(self.kind, self.subject, &samples));
        Ok(trained.flatten().map(Arc::new))
    }

    /// Compresses a document anew.
    fn recompress(&self, number: i64, with: Option<&Arc<Dictionary>>) -> Result<bool, Fault> {
        let Some((stored, text)) = self.text(number)? else { return Ok(false) };
        let encoded = documents::encode(self.kind, &text, &stored.around, with)
            .map_err(|error| StoreError::Other(format!("a document cannot be compressed anew: {error}")))?;
        let dictionary = match &encoded.dictionary {
            Some(dictionary) => Some(dictionaries::number_of(self.transaction, dictionary)?),
            None => None,
        };
        let sql = match self.kind {
            Kind::Verdict => "UPDATE verdicts SET document = ?, dictionary = ? WHERE number = ?",
            _ => "UPDATE episodes SET document = ?, dictionary = ? WHERE number = ?",
        };
        self.transaction.prepare_cached(sql)?.execute(params![encoded.form, dictionary, stored.number])?;
        Ok(true)
    }

    fn run(&self) -> Result<Retrained, Fault> {
        let old = self.dictionaries()?;
        let mut documents = Vec::new();
        for dictionary in &old {
            documents.extend(self.users(*dictionary)?);
        }
        let new = self.trained(&documents)?;
        let mut retrained = Retrained::default();
        for number in documents {
            retrained.documents += u64::from(self.recompress(number, new.as_ref())?);
        }
        // Equal documents make an equal dictionary, which has its number already.
        let kept = new.as_ref().map(|new| dictionaries::number_of(self.transaction, new)).transpose()?;
        for number in old.into_iter().filter(|number| Some(*number) != kept) {
            let gone =
                self.transaction.prepare_cached("DELETE FROM dictionaries WHERE number = ?")?.execute([number])?;
            retrained.dictionaries += unsigned(gone as i64);
        }
        Ok(retrained)
    }
}

/// Trains all dictionaries of some subjects anew from the documents that are left.
pub(crate) fn retrain(transaction: &Transaction<'_>, subjects: &Subjects) -> Result<Retrained, Fault> {
    let mut all = Retrained::default();
    for (kind, subject) in &subjects.0 {
        let one = Retraining { transaction, kind: *kind, subject, loaded: Loaded::default() }.run()?;
        all.dictionaries += one.dictionaries;
        all.documents += one.documents;
    }
    Ok(all)
}

/// How much there would be to train anew: it takes no time.
pub(crate) fn counted(transaction: &Transaction<'_>, subjects: &Subjects) -> rusqlite::Result<Retrained> {
    let mut all = Retrained::default();
    for (kind, subject) in &subjects.0 {
        let one = Retraining { transaction, kind: *kind, subject, loaded: Loaded::default() };
        for dictionary in one.dictionaries()? {
            all.dictionaries += 1;
            all.documents += one.users(dictionary)?.len() as u64;
        }
    }
    Ok(all)
}
