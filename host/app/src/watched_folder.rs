//! The folder of a served local model. Its files may change while a gateway runs.

use crate::{AppError, RequestError};
use clawhost_model::FolderStamp;
use std::path::PathBuf;

/// A folder whose changed files are opened again.
#[derive(Debug, Clone)]
pub(crate) struct WatchedFolder {
    path: PathBuf,
    /// The files that were opened last, whether or not they could be used.
    opened: FolderStamp,
    /// The files at the last look.
    seen: FolderStamp,
    is_due: bool,
    problem: Option<String>,
}

impl WatchedFolder {
    /// A folder whose files are opened now.
    pub(crate) fn new(path: PathBuf) -> Self {
        let opened = FolderStamp::of(&path);
        Self { path, seen: opened.clone(), opened, is_due: false, problem: None }
    }

    /// A folder whose files are due at once.
    pub(crate) fn unread(path: PathBuf) -> Self {
        Self { is_due: true, ..Self::new(path) }
    }

    /// Looks at the files. Returns whether they must be opened again: they have changed, and are the same as at the last look, so that
    /// a download is not read at every look. If a user asks, changed files are due at once, and so are files that could not be used.
    pub(crate) fn look(&mut self, is_asked: bool) -> bool {
        let now = FolderStamp::of(&self.path);
        let is_at_rest = now == self.seen;
        self.is_due =
            if is_asked { now != self.opened || self.problem.is_some() } else { now != self.opened && is_at_rest };
        self.seen = now;
        self.is_due
    }

    /// Opens the files if they are due. `None`: they are not, or cannot be used.
    pub(crate) fn open_if_due<T>(&mut self, open: impl FnOnce() -> Result<T, AppError>) -> Option<T> {
        if !std::mem::take(&mut self.is_due) {
            return None;
        }
        self.opened = FolderStamp::of(&self.path);
        let opened = open().and_then(|model| match FolderStamp::of(&self.path) == self.opened {
            true => Ok(model),
            // Weights of one version, and perhaps the tokenizer of another.
            false => Err(RequestError::FolderChanged { folder: self.path.display().to_string() }.into()),
        });
        self.problem = opened.as_ref().err().map(AppError::to_string);
        opened.ok()
    }

    /// Why the files that were opened last cannot be used.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn write(folder: &Path, text: &str) {
        std::fs::write(folder.join("config.json"), text).unwrap();
    }

    fn open(watched: &mut WatchedFolder) -> Option<()> {
        watched.open_if_due(|| Ok(()))
    }

    #[test]
    fn changed_files_are_opened_when_they_have_not_changed_since_the_last_look() {
        let folder = tempfile::tempdir().unwrap();
        let mut watched = WatchedFolder::new(folder.path().to_owned());
        assert!(!watched.look(false) && !watched.look(true), "nothing has changed");
        write(folder.path(), "1");
        assert!(!watched.look(false), "they may be half written");
        write(folder.path(), "12");
        assert!(!watched.look(false), "they were");
        assert!(watched.look(false));
        assert_eq!((open(&mut watched), open(&mut watched)), (Some(()), None), "opened once");
        write(folder.path(), "123");
        assert!(watched.look(true), "at once if a user asks");
    }

    #[test]
    fn files_that_cannot_be_used_are_opened_again_when_they_change_or_a_user_asks() {
        let folder = tempfile::tempdir().unwrap();
        let mut watched = WatchedFolder::new(folder.path().to_owned());
        write(folder.path(), "1");
        assert!(watched.look(true));
        let refused = || Err::<(), _>(RequestError::NoModelFolder { folder: "f".into() }.into());
        assert_eq!(watched.open_if_due(refused), None);
        assert!(watched.problem().is_some());
        assert!(!watched.look(false) && !watched.look(false), "they are the same");
        assert!(watched.look(true));
        assert!(open(&mut watched).is_some() && watched.problem().is_none());
    }

    #[test]
    fn a_folder_that_changes_while_it_is_read_is_not_used_and_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut watched = WatchedFolder::new(folder.path().to_owned());
        write(folder.path(), "1");
        assert!(watched.look(true));
        let changing = || {
            write(folder.path(), "12");
            Ok(())
        };
        assert_eq!(watched.open_if_due(changing), None);
        assert!(watched.problem().is_some_and(|why| why.contains("changed while it was read")));
        assert!(!watched.look(false) && watched.look(false));
        assert_eq!(open(&mut watched), Some(()));
    }
}
