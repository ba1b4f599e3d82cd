//! The one place where files are opened for reading (floor 0).
//!
//! A path from outside may name anything: a pipe that no process writes to, a device without an end, a folder, a file that grows
//! while it is read. So a file is opened without waiting, must be a regular file, and is read up to a limit that the caller
//! knows for this kind of file.
//!
//! Invariants: no call waits for another process. No call allocates more than the limit and a byte.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

/// Why a file is not read, beside the errors of the system. It is the inner error of an [`io::Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is something else than a regular file.
    #[error("{0}, not a regular file")]
    Irregular(&'static str),
    /// It is larger than the limit of its kind.
    #[error("{bytes} bytes, and at most {limit} are read")]
    TooLarge {
        /// Its size, or the limit and one byte if it grew.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
}

impl Refused {
    /// The refusal in an error of this crate. `None`: it is an error of the system.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        let kind = match refused {
            Refused::Irregular(_) => io::ErrorKind::InvalidInput,
            Refused::TooLarge { .. } => io::ErrorKind::FileTooLarge,
        };
        Self::new(kind, refused)
    }
}

/// What a path names, for people.
fn named(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        if kind.is_fifo() {
            return "a pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    if kind.is_dir() { "a folder" } else { "something else" }
}

/// Opens a regular file of at most `limit` bytes for reading. Returns it with its size.
///
/// # Errors
/// The system refuses, or the file is [`Refused`].
pub fn open(path: &Path, limit: u64) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.read(true);
    // Opening a pipe waits for its other end, and opening a terminal can make it the program's own.
    #[cfg(unix)]
    {
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    // Of the open file: the path may name another one by now.
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Refused::Irregular(named(metadata.file_type())).into());
    }
    let bytes = metadata.len();
    if bytes > limit {
        return Err(Refused::TooLarge { bytes, limit }.into());
    }
    Ok((file, bytes))
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open`]; or it cannot be read.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, size) = open(path, limit)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(size).unwrap_or(usize::MAX))?;
    // One byte more than the limit detects a file that grows.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        bytes if bytes > limit => Err(Refused::TooLarge { bytes, limit }.into()),
        _ => Ok(bytes),
    }
}

/// Reads a regular text file of at most `limit` bytes.
///
/// # Errors
/// As [`read`]; or it is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a text file: it is not UTF-8"))
}

/// Whether a path lies in a folder, after all links were followed. What does not exist yet lies where it would be made.
///
/// # Errors
/// The folder or a part of the path cannot be read.
pub fn lies_in(folder: &Path, path: &Path) -> io::Result<bool> {
    let folder = folder.canonicalize()?;
    let mut missing = PathBuf::new();
    let mut there = std::path::absolute(path)?;
    loop {
        match there.canonicalize() {
            // What is missing has no links. Parts that lead upwards could leave the folder again.
            Ok(found) => return Ok(found.starts_with(&folder) && !missing.components().any(is_upwards)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // A link that leads nowhere would be followed when the file is made.
        if there.symlink_metadata().is_ok() {
            return Ok(false);
        }
        let Some(last) = there.components().next_back().map(|last| last.as_os_str().to_owned()) else {
            return Ok(false);
        };
        missing = Path::new(&last).join(missing);
        if !there.pop() {
            return Ok(false);
        }
    }
}

/// Most entries of a folder that are followed.
const ENTRIES: usize = 10_000;

/// Whether a path and everything in it lies in a folder, after all links were followed. More entries than anybody has in such a folder
/// count as outside.
///
/// # Errors
/// As [`lies_in`].
pub fn all_lies_in(folder: &Path, path: &Path) -> io::Result<bool> {
    let mut waiting = vec![path.to_owned()];
    let mut followed = 0;
    while let Some(next) = waiting.pop() {
        followed += 1;
        if followed > ENTRIES || !lies_in(folder, &next)? {
            return Ok(false);
        }
        // A link to a folder inside is walked where it leads to; a ring of links ends at the number of entries.
        if next.is_dir() {
            for entry in std::fs::read_dir(&next)? {
                waiting.push(entry?.path());
            }
        }
    }
    Ok(true)
}

fn is_upwards(part: Component<'_>) -> bool {
    part == Component::ParentDir
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn refusal(path: &Path, limit: u64) -> Option<Refused> {
        Refused::of(&read(path, limit).unwrap_err())
    }

    #[test]
    fn a_regular_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"four");
        assert_eq!(read_text(&path, 100).unwrap(), "four");
        assert_eq!(refusal(&path, 3), Some(Refused::TooLarge { bytes: 4, limit: 3 }));
        assert_eq!(read(&path, 3).unwrap_err().to_string(), "4 bytes, and at most 3 are read");
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, 4).unwrap_err().to_string(), "not a text file: it is not UTF-8");
        let missing = read(&folder.path().join("missing"), 4).unwrap_err();
        assert_eq!((missing.kind(), Refused::of(&missing)), (io::ErrorKind::NotFound, None));
    }

    #[cfg(unix)]
    #[test]
    fn pipes_devices_sockets_and_folders_are_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let check = |path: PathBuf, expect: &'static str| {
            assert_eq!(refusal(&path, 1 << 20), Some(Refused::Irregular(expect)), "{}", path.display());
        };
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        check(path("pipe"), "a pipe");
        std::os::unix::fs::symlink(path("pipe"), path("link")).unwrap();
        check(path("link"), "a pipe");
        check(PathBuf::from("/dev/zero"), "a device");
        check(folder.path().to_owned(), "a folder");
        let socket = path("socket");
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        // The system itself refuses to open a socket.
        assert!(read(&socket, 10).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_without_a_size_is_read_up_to_the_limit() {
        let status = Path::new("/proc/self/status");
        assert!(read_text(status, 1 << 20).unwrap().contains("Name:"));
        assert_eq!(refusal(status, 10), Some(Refused::TooLarge { bytes: 11, limit: 10 }));
    }
}
