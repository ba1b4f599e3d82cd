//! Files to which exchanges are appended before their last byte is released. A record is one `write(2)`: it survives the end of the
//! process from then on, and a power failure after the next flush.
//!
//! A record is its length (4 bytes), its CRC-32C (4 bytes), both little-endian, and its content. A file is never appended to by two
//! processes: every start begins a new one.

use clawhost_core::SpoolPlace;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes before the content of a record.
const HEAD: usize = 8;
/// Largest record: a request and an answer of the largest size, with room for escapes.
const RECORD_BYTES: usize = 128 << 20;
/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;
/// Bytes that one call of the system reads. Larger buffers would be returned to the system and asked for again with every batch.
const BUFFER_BYTES: usize = 64 << 10;
/// Largest file that is read: more than the size at which a file is followed by another, and one record.
const FILE_BYTES: u64 = 1 << 32;
/// How files are named, by their number.
const ENDING: &str = ".spool";

struct Writing {
    file: File,
    at: SpoolPlace,
    /// Whether something was written since the last flush.
    is_dirty: bool,
    /// Everything before it was taken over.
    taken: SpoolPlace,
}

/// Limits of the files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpoolLimits {
    /// Size from which the next record begins a new file, so that old ones can be deleted.
    pub(crate) segment_bytes: u64,
    /// Bytes that may wait to be taken over when a new file begins.
    pub(crate) waiting_bytes: u64,
}

/// The files of one data folder.
pub(crate) struct Spool {
    folder: PathBuf,
    writing: Mutex<Writing>,
    limits: SpoolLimits,
}

fn path(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{segment:016}{ENDING}"))
}

fn create(folder: &Path, segment: u64) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path(folder, segment))
}

/// Numbers of the files in a folder, in order.
fn segments(folder: &Path) -> Result<Vec<u64>, Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        found.extend(name.to_str().and_then(|name| name.strip_suffix(ENDING)?.parse::<u64>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}

impl Spool {
    /// Opens a folder, which is created if it is missing, and begins a new file behind those that are there and behind `taken`.
    pub(crate) fn open(folder: &Path, taken: SpoolPlace, limits: SpoolLimits) -> Result<Self, Error> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
        let last = segments(folder)?.last().copied().unwrap_or(0).max(taken.segment);
        let segment = last + 1;
        let writing =
            Writing { file: create(folder, segment)?, at: SpoolPlace { segment, offset: 0 }, is_dirty: false, taken };
        Ok(Self { folder: folder.to_owned(), writing: Mutex::new(writing), limits })
    }

    /// Whether a folder has records behind a place.
    pub(crate) fn is_waiting(folder: &Path, taken: SpoolPlace) -> bool {
        let behind = |segment: u64| {
            let length = std::fs::metadata(path(folder, segment)).map_or(0, |metadata| metadata.len());
            segment > taken.segment && length > 0 || segment == taken.segment && length > taken.offset
        };
        segments(folder).is_ok_and(|found| found.into_iter().any(behind))
    }

    /// Deletes the files of a folder, also where a record in them is not whole. A folder that is not there has none.
    pub(crate) fn clear(folder: &Path) -> Result<(), Error> {
        if !folder.is_dir() {
            return Ok(());
        }
        segments(folder)?.into_iter().try_for_each(|segment| std::fs::remove_file(path(folder, segment)))
    }

    /// The end of the newest file of a folder. `None`: that is empty. Every start begins a new file.
    pub(crate) fn last_place(folder: &Path) -> Option<SpoolPlace> {
        let segment = segments(folder).ok()?.pop()?;
        let offset = std::fs::metadata(path(folder, segment)).ok()?.len();
        (offset > 0).then_some(SpoolPlace { segment, offset })
    }

    /// Deletes the file that this process has begun, if nothing was written to it.
    pub(crate) fn discard(&self) {
        let end = self.end();
        if end.offset == 0 {
            let _ = std::fs::remove_file(path(&self.folder, end.segment));
        }
    }

    /// Appends a record. Returns the place behind it.
    pub(crate) fn append(&self, content: &[u8]) -> Result<SpoolPlace, Error> {
        if content.len() > RECORD_BYTES {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("a record of {} bytes is too long", content.len()),
            ));
        }
        let mut record = Vec::with_capacity(HEAD + content.len());
        record.extend_from_slice(&(content.len() as u32).to_le_bytes());
        record.extend_from_slice(&crc32c::crc32c(content).to_le_bytes());
        record.extend_from_slice(content);
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if writing.at.offset > 0 && writing.at.offset + record.len() as u64 > self.limits.segment_bytes {
            if self.waiting(writing.taken)? + record.len() as u64 > self.limits.waiting_bytes {
                return Err(Error::new(ErrorKind::StorageFull, "too much waits to be taken over into the database"));
            }
            writing.file.sync_data()?;
            let segment = writing.at.segment + 1;
            writing.file = create(&self.folder, segment)?;
            writing.at = SpoolPlace { segment, offset: 0 };
        }
        if let Err(error) = writing.file.write_all(&record) {
            // A part of a record would hide those behind it.
            let offset = writing.at.offset;
            writing.file.set_len(offset)?;
            writing.file.seek(SeekFrom::Start(offset))?;
            return Err(error);
        }
        writing.at.offset += record.len() as u64;
        writing.is_dirty = true;
        Ok(writing.at)
    }

    /// The place behind the last record.
    pub(crate) fn end(&self) -> SpoolPlace {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner).at
    }

    /// Flushes what was written to the disk.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let file = {
            let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            if !std::mem::take(&mut writing.is_dirty) {
                return Ok(());
            }
            // Records are appended meanwhile.
            writing.file.try_clone()?
        };
        file.sync_data()
    }

    /// Bytes that are not taken over yet, as far as the files can be read.
    pub(crate) fn backlog(&self) -> u64 {
        let taken = self.writing.lock().unwrap_or_else(PoisonError::into_inner).taken;
        self.waiting(taken).unwrap_or(0)
    }

    /// Bytes behind a place.
    fn waiting(&self, taken: SpoolPlace) -> Result<u64, Error> {
        let bytes = |segment: u64| {
            let length = std::fs::metadata(path(&self.folder, segment)).map_or(0, |metadata| metadata.len());
            if segment == taken.segment { length.saturating_sub(taken.offset) } else { length }
        };
        Ok(segments(&self.folder)?.into_iter().filter(|segment| *segment >= taken.segment).map(bytes).sum())
    }

    /// Everything before this place was taken over: deletes the files before it.
    pub(crate) fn forget(&self, before: SpoolPlace) {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner).taken = before;
        let Ok(found) = segments(&self.folder) else { return };
        for segment in found.into_iter().filter(|segment| *segment < before.segment) {
            // What cannot be deleted now is deleted later.
            let _ = std::fs::remove_file(path(&self.folder, segment));
        }
    }

    /// Reads whole records behind a place, about [`READ_BYTES`] of them. Returns them with the place behind them. A file that ends in
    /// the middle of a record, because the process or the machine ended, is left for the next one.
    pub(crate) fn read(&self, from: SpoolPlace) -> Result<(Vec<Vec<u8>>, SpoolPlace), Error> {
        let end = self.end();
        let mut at = from;
        loop {
            let (records, next) = self.read_segment(at, end)?;
            if !records.is_empty() || at.segment >= end.segment {
                return Ok((records, next));
            }
            // Nothing more is in this file.
            let following = segments(&self.folder)?.into_iter().find(|segment| *segment > at.segment);
            match following {
                Some(segment) => at = SpoolPlace { segment, offset: 0 },
                None => return Ok((Vec::new(), next)),
            }
        }
    }

    fn read_segment(&self, from: SpoolPlace, end: SpoolPlace) -> Result<(Vec<Vec<u8>>, SpoolPlace), Error> {
        let mut file = match clawhost_files::open(&path(&self.folder, from.segment), FILE_BYTES) {
            Ok((file, _)) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), from)),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(from.offset))?;
        // Not behind the end: a record there may be half written.
        let most = if from.segment == end.segment { end.offset.saturating_sub(from.offset) } else { u64::MAX };
        let (mut records, mut read, mut at) = (Vec::new(), 0_u64, from);
        let mut file = std::io::BufReader::with_capacity(BUFFER_BYTES, file.take(most));
        while read < READ_BYTES as u64 {
            let Some(content) = next_record(&mut file)? else { break };
            read += (HEAD + content.len()) as u64;
            records.push(content);
        }
        at.offset += read;
        Ok((records, at))
    }
}

/// The next record; `None` at the end, and where a record is not whole.
fn next_record(file: &mut impl std::io::Read) -> Result<Option<Vec<u8>>, Error> {
    let mut head = [0; HEAD];
    let whole = |result: Result<(), Error>| match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    };
    if !whole(file.read_exact(&mut head))? {
        return Ok(None);
    }
    let [a, b, c, d, e, f, g, h] = head;
    let (length, sum) = (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]));
    if length > RECORD_BYTES {
        return Ok(None);
    }
    let mut content = vec![0; length];
    if !whole(file.read_exact(&mut content))? || crc32c::crc32c(&content) != sum {
        return Ok(None);
    }
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(waiting_bytes: u64) -> SpoolLimits {
        SpoolLimits { segment_bytes: 150, waiting_bytes }
    }

    fn opened(folder: &Path) -> Spool {
        Spool::open(folder, SpoolPlace::default(), limits(1 << 30)).unwrap()
    }

    fn texts(spool: &Spool, from: SpoolPlace) -> (Vec<String>, SpoolPlace) {
        let (records, place) = spool.read(from).unwrap();
        (records.into_iter().map(|record| String::from_utf8(record).unwrap()).collect(), place)
    }

    #[test]
    fn records_are_read_in_order_over_restarts_and_then_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let first = opened(folder.path());
        first.append(b"a").unwrap();
        let behind = first.append(b"b").unwrap();
        first.flush().unwrap();
        let second = opened(folder.path());
        second.append(b"c").unwrap();
        let start = SpoolPlace::default();
        let (records, place) = texts(&second, start);
        assert_eq!((records, place), (vec!["a".to_owned(), "b".into()], behind));
        let (records, place) = texts(&second, place);
        assert_eq!((records, place), (vec!["c".to_owned()], second.end()));
        assert_eq!(texts(&second, place), (vec![], place));
        second.forget(place);
        assert_eq!(segments(folder.path()).unwrap(), [2]);
        assert_eq!(Spool::last_place(folder.path()), Some(place));
        drop(opened(folder.path()));
        assert_eq!(Spool::last_place(folder.path()), None, "the newest one is empty");
        assert_eq!(
            Spool::open(folder.path(), SpoolPlace { segment: 9, offset: 0 }, limits(0)).unwrap().end().segment,
            10
        );
    }

    #[test]
    fn a_record_that_is_not_whole_hides_no_other_file() {
        let damage: [fn(&mut Vec<u8>); 4] = [
            |bytes| bytes.truncate(bytes.len() - 1),
            |bytes| bytes.truncate(HEAD + 1 + 3),
            |bytes| *bytes.last_mut().unwrap() ^= 1,
            |bytes| bytes[HEAD + 1..HEAD + 5].copy_from_slice(&u32::MAX.to_le_bytes()),
        ];
        for (case, damage) in damage.iter().enumerate() {
            let folder = tempfile::tempdir().unwrap();
            let first = opened(folder.path());
            first.append(b"a").unwrap();
            first.append(b"bb").unwrap();
            let file = path(folder.path(), 1);
            let mut bytes = std::fs::read(&file).unwrap();
            damage(&mut bytes);
            std::fs::write(&file, bytes).unwrap();
            let second = opened(folder.path());
            second.append(b"c").unwrap();
            let (records, place) = texts(&second, SpoolPlace::default());
            assert_eq!(records, ["a"], "case {case}");
            assert_eq!(texts(&second, place).0, ["c"], "case {case}");
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        #[test]
        fn no_bytes_of_a_file_hide_the_next_one(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let folder = tempfile::tempdir().unwrap();
            drop(opened(folder.path()));
            std::fs::write(path(folder.path(), 1), &bytes).unwrap();
            let second = opened(folder.path());
            second.append(b"c").unwrap();
            let (mut place, mut last) = (SpoolPlace::default(), Vec::new());
            while place < second.end() {
                let (records, next) = second.read(place).unwrap();
                proptest::prop_assert!(next > place, "{next:?} behind {place:?}");
                (place, last) = (next, records);
            }
            proptest::prop_assert_eq!(last.last().map(Vec::as_slice), Some(b"c".as_slice()));
        }
    }

    #[test]
    fn a_long_file_is_followed_by_another_until_too_much_waits() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), SpoolPlace::default(), limits(250)).unwrap();
        let record = vec![7; 100];
        assert_eq!(spool.append(&record).unwrap().segment, 1);
        let (records, taken) = spool.read(SpoolPlace::default()).unwrap();
        assert_eq!((records.len(), taken), (1, spool.end()));
        assert_eq!(spool.backlog(), (HEAD + 100) as u64);
        assert_eq!(spool.append(&record).unwrap().segment, 2);
        assert_eq!(spool.append(&record).unwrap_err().kind(), ErrorKind::StorageFull);
        spool.forget(taken);
        assert_eq!(spool.append(&record).unwrap().segment, 3, "there is room again");
        assert_eq!(spool.backlog(), 2 * (HEAD + 100) as u64);
        assert_eq!(segments(folder.path()).unwrap(), [1, 2, 3]);
        assert_eq!(spool.read(taken).unwrap().0.len(), 1);
    }
}
