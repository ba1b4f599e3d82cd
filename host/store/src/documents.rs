//! The stored form of a document.
//!
//! A document is JSON text. It is stored as a BLOB: packed ([`packing`](crate::packing)), and compressed by zstd, with
//! a dictionary if there is one. A document that does not become shorter is stored unchanged, as TEXT. Digests and
//! identities are those of the text: compression changes neither.
//!
//! Sizes are checked before memory is allocated: the length that a BLOB declares, and the length that its frame
//! declares. A checksum of the text detects every changed byte, and a wrong dictionary.

use crate::dictionaries::Dictionary;
use crate::packing::{self, Packed, read_number, write_number};
use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use zstd::zstd_safe::{self, CCtx, DCtx};

/// The level of zstd. Higher levels take twice as long and make short episodes no shorter. Lower levels save half of
/// the time and make episodes 2.5 % longer.
pub(crate) const LEVEL: i32 = 5;

/// The first bytes of every zstd frame. They are constant, and are omitted.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The BLOB omits the beginning or the end of the text, because other columns of the row determine it.
const WITHOUT_HEAD: u8 = 1;
const WITHOUT_TAIL: u8 = 2;

/// Margin in bytes by which a packed text with its numbers may exceed twice the document: a number of one digit becomes
/// a mark and a byte.
const PACKED_MARGIN: usize = 64;

/// The kind of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// An episode without its verdicts.
    Episode,
    /// A verdict.
    Verdict,
    /// The state of a checkpoint, without its large parts.
    State,
    /// The report of an iteration.
    Report,
    /// A version of a playbook, or a ledger.
    Playbook,
}

impl Kind {
    pub(crate) const WITH_DICTIONARIES: [Self; 2] = [Self::Episode, Self::Verdict];

    /// Its name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Episode => "episode",
            Self::Verdict => "verdict",
            Self::State => "state",
            Self::Report => "report",
            Self::Playbook => "playbook",
        }
    }

    /// Largest size of a document in bytes. Messages, signals and artefacts of an episode are at most 16 MiB by
    /// default, and twice that as base64; tokens with their log-probs take several times their text. Other kinds hold
    /// no conversation, but a verdict's journal and a checkpoint's estimates can be long. All limits are far below
    /// SQLite's of a billion bytes.
    pub(crate) fn limit(self) -> usize {
        match self {
            Self::Episode | Self::State => 512 << 20,
            Self::Verdict | Self::Report | Self::Playbook => 128 << 20,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a stored document cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// It is too long, or declares a length that is too long.
    #[error("it claims more than the {limit} bytes that a document of kind {kind} may have")]
    TooLong {
        /// Its kind.
        kind: Kind,
        /// The limit.
        limit: usize,
    },
    /// Its bytes are invalid.
    #[error("its compressed bytes cannot be read")]
    Broken,
    /// The checksum of its text does not match.
    #[error("its text does not have the recorded checksum")]
    Changed,
    /// The database lacks its dictionary.
    #[error("its dictionary {0} is missing from the database")]
    NoDictionary(i64),
    /// The content of the dictionary does not match its digest.
    #[error("its dictionary {0} does not have the digest that names it")]
    OtherDictionary(i64),
}

/// A document is longer than its kind allows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes; a document of kind {kind} has at most {limit}")]
pub(crate) struct TooLong {
    kind: Kind,
    bytes: usize,
    limit: usize,
}

/// The beginning and the end of a document, as its row determines them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Around {
    pub(crate) head: String,
    pub(crate) tail: String,
}

/// A document in the form of its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// Unchanged.
    Plain(String),
    /// Packed and compressed.
    Packed(Vec<u8>),
}

impl ToSql for Form {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Plain(text) => text.to_sql(),
            Self::Packed(bytes) => bytes.to_sql(),
        }
    }
}

impl FromSql for Form {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Text(_) => String::column_result(value).map(Self::Plain),
            ValueRef::Blob(bytes) => Ok(Self::Packed(bytes.to_owned())),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// A document prepared for its columns.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) form: Form,
    pub(crate) dictionary: Option<Arc<Dictionary>>,
}

impl Form {
    /// Its size in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Plain(text) => text.len(),
            Self::Packed(bytes) => bytes.len(),
        }
    }
}

/// Compresses a document.
///
/// # Errors
/// The document is longer than its kind allows.
pub(crate) fn encode(
    kind: Kind,
    document: &str,
    around: &Around,
    dictionary: Option<&Arc<Dictionary>>,
) -> Result<Stored, TooLong> {
    let (bytes, limit) = (document.len(), kind.limit());
    if bytes > limit {
        return Err(TooLong { kind, bytes, limit });
    }
    let shorter = compress(document, around, dictionary.map(Arc::as_ref)).filter(|bytes| bytes.len() < document.len());
    Ok(match shorter {
        Some(bytes) => Stored { form: Form::Packed(bytes), dictionary: dictionary.cloned() },
        None => Stored { form: Form::Plain(document.to_owned()), dictionary: None },
    })
}

/// Compresses a document of a kind without dictionaries.
///
/// # Errors
/// The document is longer than its kind allows.
pub(crate) fn encode_alone(kind: Kind, document: &str) -> Result<Form, TooLong> {
    encode(kind, document, &Around::default(), None).map(|stored| stored.form)
}

/// The document of a stored form.
pub(crate) fn decode(
    kind: Kind,
    form: &Form,
    around: &Around,
    dictionary: Option<&Dictionary>,
) -> Result<String, Unreadable> {
    match form {
        Form::Plain(text) => Ok(text.clone()),
        Form::Packed(bytes) => decompress(bytes, around, dictionary, kind),
    }
}

/// The document of a kind without dictionaries.
pub(crate) fn decode_alone(kind: Kind, form: &Form) -> Result<String, Unreadable> {
    decode(kind, form, &Around::default(), None)
}

// Layout of a BLOB: the omitted parts, the checksum of the text (4 bytes), the lengths of the document, of its text and
// of its atoms; the atoms; the frame of text and numbers.

fn compress(document: &str, around: &Around, dictionary: Option<&Dictionary>) -> Option<Vec<u8>> {
    let (mut left_out, mut body) = (0, document);
    if let Some(rest) = body.strip_prefix(around.head.as_str()).filter(|_| !around.head.is_empty()) {
        (left_out, body) = (left_out | WITHOUT_HEAD, rest);
    }
    if let Some(rest) = body.strip_suffix(around.tail.as_str()).filter(|_| !around.tail.is_empty()) {
        (left_out, body) = (left_out | WITHOUT_TAIL, rest);
    }
    let Packed { mut text, numbers, atoms } = packing::pack(body, dictionary.map_or(&[], Dictionary::known));
    let mut bytes = Vec::with_capacity(atoms.len() + 256);
    bytes.push(left_out);
    bytes.extend_from_slice(&crc32c::crc32c(document.as_bytes()).to_le_bytes());
    for length in [body.len(), text.len(), atoms.len()] {
        write_number(&mut bytes, length as u64);
    }
    bytes.extend_from_slice(&atoms);
    text.extend_from_slice(&numbers);
    bytes.extend_from_slice(frame(&text, dictionary)?.strip_prefix(&MAGIC)?);
    Some(bytes)
}

thread_local! {
    /// Contexts of zstd. Creating one takes longer than compressing a short document.
    static COMPRESSION: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSION: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// `None`: zstd lacks memory.
pub(crate) fn frame(bytes: &[u8], dictionary: Option<&Dictionary>) -> Option<Vec<u8>> {
    let mut frame = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
    COMPRESSION.with_borrow_mut(|context| {
        if context.is_none() {
            *context = CCtx::try_create();
        }
        let context = context.as_mut()?;
        match dictionary {
            Some(dictionary) => context.compress_using_cdict(&mut frame, bytes, dictionary.encoder()?).ok(),
            None => context.compress(&mut frame, bytes, LEVEL).ok(),
        }
    })?;
    Some(frame)
}

fn decompress(
    stored: &[u8],
    around: &Around,
    dictionary: Option<&Dictionary>,
    kind: Kind,
) -> Result<String, Unreadable> {
    let (&[left_out, ref sum @ ..], mut rest) = stored.split_first_chunk::<5>().ok_or(Unreadable::Broken)?;
    if left_out & !(WITHOUT_HEAD | WITHOUT_TAIL) != 0 {
        return Err(Unreadable::Broken);
    }
    let limit = kind.limit();
    let mut length = || {
        let number = read_number(&mut rest).map_err(|_| Unreadable::Broken)?;
        usize::try_from(number).ok().filter(|length| *length <= limit).ok_or(Unreadable::TooLong { kind, limit })
    };
    let (body_length, text_length, atoms_length) = (length()?, length()?, length()?);
    let (atoms, rest) = rest.split_at_checked(atoms_length).ok_or(Unreadable::Broken)?;
    let frame = [&MAGIC, rest].concat();
    let most = body_length.saturating_mul(2).saturating_add(PACKED_MARGIN);
    let mut text = unframe(&frame, most, dictionary)?;
    if text_length > text.len() {
        return Err(Unreadable::Broken);
    }
    let numbers = text.split_off(text_length);
    let packed = Packed { text, numbers, atoms: atoms.to_owned() };
    let known = dictionary.map_or(&[][..], Dictionary::known);
    let body = packing::unpack(&packed, known, body_length).map_err(|_| Unreadable::Broken)?;
    let head = if left_out & WITHOUT_HEAD == 0 { "" } else { &around.head };
    let tail = if left_out & WITHOUT_TAIL == 0 { "" } else { &around.tail };
    let document = if left_out == 0 { body } else { [head, &body, tail].concat() };
    match crc32c::crc32c(document.as_bytes()).to_le_bytes() == *sum {
        true => Ok(document),
        false => Err(Unreadable::Changed),
    }
}

/// The content of a frame: at most `most` bytes.
fn unframe(frame: &[u8], most: usize, dictionary: Option<&Dictionary>) -> Result<Vec<u8>, Unreadable> {
    let claimed = zstd_safe::get_frame_content_size(frame).ok().flatten().and_then(|size| usize::try_from(size).ok());
    let claimed = claimed.filter(|claimed| *claimed <= most).ok_or(Unreadable::Broken)?;
    let mut content = Vec::with_capacity(claimed);
    let done = DECOMPRESSION.with_borrow_mut(|context| {
        if context.is_none() {
            *context = DCtx::try_create();
        }
        let context = context.as_mut()?;
        match dictionary {
            Some(dictionary) => context.decompress_using_ddict(&mut content, frame, dictionary.decoder()?).ok(),
            None => context.decompress(&mut content, frame).ok(),
        }
    });
    match done {
        Some(size) if size == claimed => Ok(content),
        _ => Err(Unreadable::Broken),
    }
}

#[cfg(test)]
#[path = "documents_tests.rs"]
mod tests;
