//! Changes of a model's folder, seen without reading its files.

use crate::folder::ADAPTER;
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Folders of a model's folder that have files of the model.
const INNER: [&str; 2] = [ADAPTER, "additional_chat_templates"];
/// Endings of files that belong to a model. Files under other names are not read.
const ENDINGS: [&str; 4] = ["gguf", "json", "jinja", "safetensors"];
/// Most entries of a folder that are looked at, which bounds the time of a look. A model of a thousand shards has fewer.
const MOST_ENTRIES: usize = 10_000;

/// Size, time and identity of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp {
    bytes: u64,
    modified: Option<SystemTime>,
    /// A file that is renamed into the place of another has another number, and its change of status has another time.
    #[cfg(unix)]
    number: (u64, u64, i64, i64),
}

impl FileStamp {
    fn of(file: &Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        Self {
            bytes: file.len(),
            modified: file.modified().ok(),
            #[cfg(unix)]
            number: (file.dev(), file.ino(), file.ctime(), file.ctime_nsec()),
        }
    }
}

/// The files of a model's folder by their sizes and times. Two stamps differ if a file was written, added, removed or replaced between
/// them, or the whole folder was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderStamp(BTreeMap<PathBuf, FileStamp>);

impl FolderStamp {
    /// The files as they are now. A folder that does not exist has none. A model in one file is that file.
    pub fn of(folder: &Path) -> Self {
        if let Some(file) = stamp(folder.to_owned()) {
            return Self(BTreeMap::from([file]));
        }
        let inner = INNER.into_iter().map(|name| folder.join(name));
        Self(std::iter::once(folder.to_owned()).chain(inner).flat_map(|folder| files(&folder)).collect())
    }
}

fn files(folder: &Path) -> Vec<(PathBuf, FileStamp)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().take(MOST_ENTRIES).map(|entry| entry.path());
    let own = paths.filter(|path| path.extension().is_some_and(|ending| ENDINGS.iter().any(|own| ending == *own)));
    own.filter_map(stamp).collect()
}

/// The stamp of a file; behind a link, of what it links to: downloads of a hub are links.
fn stamp(path: PathBuf) -> Option<(PathBuf, FileStamp)> {
    let file = std::fs::metadata(&path).ok().filter(Metadata::is_file)?;
    Some((path, FileStamp::of(&file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_model_that_change_change_the_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let (model, other) = (folder.path().join("model"), folder.path().join("other"));
        for (folder, weights) in [(&model, "one"), (&other, "two")] {
            std::fs::create_dir_all(folder.join(ADAPTER)).unwrap();
            std::fs::write(folder.join("model.safetensors"), weights).unwrap();
        }
        let mut before = FolderStamp::of(&model);
        let mut check = |what: &str, change: &dyn Fn(), expect: bool| {
            change();
            let now = FolderStamp::of(&model);
            assert_eq!(now != before, expect, "{what}");
            before = now;
        };
        let write = |path: &str, text: &str| std::fs::write(model.join(path), text).unwrap();
        check("nothing", &|| (), false);
        check("a file that is none of the model's", &|| write("metrics.jsonl", "{}"), false);
        check("a file that is being written", &|| write("model.safetensors.tmp", "new"), false);
        let published =
            || std::fs::rename(model.join("model.safetensors.tmp"), model.join("model.safetensors")).unwrap();
        check("weights of the same size that are renamed into place", &published, true);
        check("an added file", &|| write("config.json", "{}"), true);
        check("a longer file", &|| write("config.json", "{ }"), true);
        check("the adapter", &|| write("adapter/adapter_model.safetensors", "a"), true);
        let moved = || std::fs::rename(&model, folder.path().join("former")).unwrap();
        check("a folder that is gone", &moved, true);
        check("a folder that is renamed into place", &|| std::fs::rename(&other, &model).unwrap(), true);
        let file = folder.path().join("one.gguf");
        std::fs::write(&file, "one").unwrap();
        let before = FolderStamp::of(&file);
        std::fs::write(&file, "other").unwrap();
        assert!(before != FolderStamp::of(&file) && before != FolderStamp::default(), "a model in one file");
    }
}
