//! Models in the cache of Hugging Face's own programs, found by name. Nothing is downloaded.
//!
//! ```text
//! models--OWNER--NAME/refs/main            the commit of a branch or a tag
//! models--OWNER--NAME/snapshots/COMMIT/    the files of a commit: links into blobs/
//! ```
//!
//! The layout is that of `huggingface_hub`. A name stands for a path only where no such path exists.

use crate::LocalModelError;
use crate::chat_folder::{CONFIG, JSON_BYTES};
use crate::weight_files::shards;
use clawhost_core::escaped;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Largest file that names a commit. A commit has 40 characters.
const REFERENCE_BYTES: u64 = 4096;
/// Most models, commits and files that are listed, each. Nobody has as many.
const MOST_ENTRIES: usize = 10_000;
/// Most references of a model that are looked at.
const MOST_REFERENCES: usize = 1000;
/// Longest part of a name, as the hub has it.
const NAME_BYTES: usize = 96;
/// Characters of a name in an error.
const SHOWN: usize = 120;
/// The branch of a name without a revision.
const MAIN: &str = "main";

/// The cache. The default is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HubCache {
    folder: Option<PathBuf>,
}

/// A model in the cache: the files of one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedModel {
    /// `OWNER/NAME`.
    pub name: String,
    /// Its commit.
    pub commit: String,
    /// The branches and tags that name this commit.
    pub revisions: Vec<String>,
    /// The kind of model that `config.json` names.
    pub architecture: Option<String>,
    /// Bytes of its files.
    pub bytes: u64,
    /// The folder of its files.
    pub folder: PathBuf,
    /// What is missing of it.
    pub missing: Option<String>,
}

/// A name: owner, model, revision.
struct Name<'a> {
    owner: &'a str,
    model: &'a str,
    revision: &'a str,
}

/// Whether a text is a part of a name on the hub.
fn is_part(text: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    let is_edge = |edge: Option<char>| edge.is_some_and(|edge| edge.is_ascii_alphanumeric() || edge == '_');
    (1..=NAME_BYTES).contains(&text.len())
        && text.chars().all(plain)
        && is_edge(text.chars().next())
        && is_edge(text.chars().last())
        && !text.contains("--")
        && !text.contains("..")
}

impl<'a> Name<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (name, revision) = text.split_once('@').unwrap_or((text, MAIN));
        let (owner, model) = name.split_once('/')?;
        // Names of branches have parts, too.
        let is_revision = revision.split('/').all(is_part);
        (is_part(owner) && is_part(model) && is_revision).then_some(Self { owner, model, revision })
    }

    fn shown(&self) -> String {
        format!("{}/{}", self.owner, self.model)
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The entries of a folder, sorted.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_ENTRIES);
    let mut all: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    all.sort_unstable();
    all
}

fn last_part(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl HubCache {
    /// The folder of the cache. `None`: there is none.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// The folder that `huggingface_hub` uses with these variables of the environment, and with this home folder.
    pub fn of_environment(variable: impl Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Self {
        let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = || path("XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache")));
        let folder = path("HF_HUB_CACHE").or_else(|| {
            let own = path("HF_HOME").or_else(|| Some(cache()?.join("huggingface")));
            Some(own?.join("hub"))
        });
        Self { folder }
    }

    /// The name of the model, without its owner, of a path: see [`Self::hub_name`].
    pub fn model_name(path: &Path) -> Option<String> {
        Self::hub_name(path)?.split_once('/').map(|(_, model)| model.to_owned())
    }

    /// The name `OWNER/NAME` of a path: of a name of the hub that is no path, or of a folder in a cache.
    pub fn hub_name(path: &Path) -> Option<String> {
        if let Some(name) = path.to_str().filter(|_| !path.exists()).and_then(Name::of) {
            return Some(name.shown());
        }
        let (snapshots, commit) = (path.parent()?, last_part(path));
        let folder = last_part(snapshots.parent().filter(|_| snapshots.ends_with("snapshots") && is_commit(&commit))?);
        let (owner, model) = folder.strip_prefix("models--")?.split_once("--")?;
        Some(format!("{owner}/{model}"))
    }

    /// Its folder.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The folder of a model: the path itself, if it exists or cannot be a name; else that of the model with this name, as `OWNER/NAME` or
    /// `OWNER/NAME@REVISION`.
    ///
    /// # Errors
    /// The cache has no such model, or not all of it, or a link leads out of it.
    pub fn find<'a>(&self, path: &'a Path) -> Result<Cow<'a, Path>, LocalModelError> {
        let name = path.to_str().filter(|_| !path.exists()).and_then(Name::of);
        let Some(name) = name else { return Ok(Cow::Borrowed(path)) };
        let shown = name.shown();
        let wrong = |why: String| LocalModelError::Hub { name: path.display().to_string(), why };
        let get = format!("hf download {shown} gets it");
        let Some(root) = &self.folder else {
            return Err(wrong("there is no such folder, and no home folder with a Hugging Face cache".to_owned()));
        };
        let model = root.join(format!("models--{}--{}", name.owner, name.model));
        if !model.is_dir() {
            let root = root.display();
            return Err(wrong(format!(
                "there is no such folder, and no such model in the Hugging Face cache {root}; {get}"
            )));
        }
        let Some(commit) = commit(&model, name.revision).map_err(wrong)? else {
            let folder = model.display();
            let revision = name.revision;
            return Err(wrong(format!("{folder} has no revision {revision}; {get}")));
        };
        let snapshot = model.join("snapshots").join(&commit);
        if let Some(missing) = missing(&snapshot) {
            let folder = snapshot.display();
            return Err(wrong(format!("{folder} is not complete: {missing}; hf download {shown} continues")));
        }
        let inside = clawhost_files::all_lies_in(root, &snapshot)
            .map_err(|error| wrong(format!("{}: {error}", snapshot.display())))?;
        match inside {
            true => Ok(Cow::Owned(snapshot)),
            false => Err(wrong(format!("a link in {} leads out of the Hugging Face cache", snapshot.display()))),
        }
    }

    /// All models in the cache, by name and commit. A folder that is no model is left out.
    pub fn models(&self) -> Vec<CachedModel> {
        let root = self.folder.as_deref().map(entries).unwrap_or_default();
        root.iter().flat_map(|folder| commits(folder)).collect()
    }
}

/// The commit of a revision. `None`: it is unknown.
fn commit(model: &Path, revision: &str) -> Result<Option<String>, String> {
    let path = model.join("refs").join(revision);
    if path.is_file() {
        let text = clawhost_files::read_text(&path, REFERENCE_BYTES);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        let commit = text.trim();
        return match is_commit(commit) {
            true => Ok(Some(commit.to_owned())),
            false => Err(format!("{} names no commit: `{}`", path.display(), escaped(commit, SHOWN))),
        };
    }
    let is_there = is_commit(revision) && model.join("snapshots").join(revision).is_dir();
    Ok(is_there.then(|| revision.to_owned()))
}

/// What is missing of a snapshot: a link that leads nowhere, a shard that the index names, or everything.
fn missing(snapshot: &Path) -> Option<String> {
    let files = entries(snapshot);
    // A file is linked when it is complete.
    if let Some(link) = files.iter().find(|path| !path.exists()) {
        return Some(format!("the link {} leads nowhere", escaped(&last_part(link), SHOWN)));
    }
    let is_gguf = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "gguf");
    let has = |name: &str| files.iter().any(|path| path.ends_with(name));
    if !has(CONFIG) && !files.iter().any(is_gguf) {
        return Some(format!("{CONFIG} is missing"));
    }
    let (weights, index) = shards(snapshot).ok()?;
    let gone = index.and_then(|_| weights.into_iter().find(|path| !path.exists()))?;
    Some(format!("{} is missing", escaped(&last_part(&gone), SHOWN)))
}

/// The commits of a model's folder.
fn commits(folder: &Path) -> Vec<CachedModel> {
    let last = last_part(folder);
    let name = last.strip_prefix("models--").and_then(|name| name.split_once("--"));
    let Some((owner, model)) = name.filter(|(owner, model)| is_part(owner) && is_part(model)) else {
        return Vec::new();
    };
    let references = references(&folder.join("refs"));
    let snapshots = entries(&folder.join("snapshots")).into_iter().filter(|path| is_commit(&last_part(path)));
    let one = |snapshot: PathBuf| {
        let commit = last_part(&snapshot);
        CachedModel {
            name: format!("{owner}/{model}"),
            revisions: references.get(&commit).cloned().unwrap_or_default(),
            architecture: architecture(&snapshot.join(CONFIG)),
            bytes: entries(&snapshot).iter().filter_map(|path| path.metadata().ok()).map(|file| file.len()).sum(),
            missing: missing(&snapshot),
            folder: snapshot,
            commit,
        }
    };
    snapshots.map(one).collect()
}

/// The branches and tags of each commit.
fn references(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut waiting = entries(folder);
    let mut seen = 0;
    while let Some(path) = waiting.pop() {
        seen += 1;
        if seen > MOST_REFERENCES {
            break;
        }
        // A link could lead into a ring.
        if path.is_dir() && !path.is_symlink() {
            waiting.extend(entries(&path));
        } else if let Ok(text) = clawhost_files::read_text(&path, REFERENCE_BYTES)
            && let Ok(name) = path.strip_prefix(folder)
        {
            found.entry(text.trim().to_owned()).or_default().push(name.to_string_lossy().into_owned());
        }
    }
    found.values_mut().for_each(|names| names.sort_unstable());
    found
}

/// The kind of model that a `config.json` names.
fn architecture(config: &Path) -> Option<String> {
    let text = clawhost_files::read_text(config, JSON_BYTES).ok()?;
    let document: Value = serde_json::from_str(&text).ok()?;
    Some(escaped(document.get("model_type")?.as_str()?, SHOWN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::TextHost;
    use crate::{ModelFolder, TinyModel};

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    /// A cache with the model `some/tiny`, laid out as `huggingface_hub` does.
    #[cfg(unix)]
    fn cache() -> (tempfile::TempDir, HubCache, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("models--some--tiny");
        let (snapshot, blobs) = (model.join("snapshots").join(COMMIT), model.join("blobs"));
        for made in [&snapshot, &blobs, &model.join("refs/pr")] {
            std::fs::create_dir_all(made).unwrap();
        }
        let made = folder.path().join("made");
        TinyModel::default().make().unwrap().write_as(&made, crate::Stored::F32, Some(100_000)).unwrap();
        for (number, path) in entries(&made).iter().enumerate() {
            std::fs::rename(path, blobs.join(number.to_string())).unwrap();
            let to = Path::new("../../blobs").join(number.to_string());
            std::os::unix::fs::symlink(to, snapshot.join(path.file_name().unwrap())).unwrap();
        }
        std::fs::remove_dir(&made).unwrap();
        std::fs::write(model.join("refs/main"), COMMIT).unwrap();
        std::fs::write(model.join("refs/pr/1"), COMMIT).unwrap();
        let cache = HubCache::new(Some(folder.path().to_owned()));
        (folder, cache, snapshot)
    }

    #[test]
    fn the_folder_is_that_of_huggingface_hub() {
        let check = |set: &[(&str, &str)], home: Option<&str>, expect: Option<&str>| {
            let variable = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
            let cache = HubCache::of_environment(variable, home.map(PathBuf::from));
            assert_eq!(cache.folder(), expect.map(Path::new), "{set:?}");
        };
        check(&[("HF_HUB_CACHE", "a"), ("HF_HOME", "b")], Some("h"), Some("a"));
        check(&[("HF_HUB_CACHE", ""), ("HF_HOME", "b"), ("XDG_CACHE_HOME", "c")], Some("h"), Some("b/hub"));
        check(&[("XDG_CACHE_HOME", "c")], Some("h"), Some("c/huggingface/hub"));
        check(&[], Some("h"), Some("h/.cache/huggingface/hub"));
        check(&[], None, None);
    }

    #[cfg(unix)]
    #[test]
    fn a_model_in_the_cache_is_found_by_its_name_and_read_through_links() {
        let (_folder, cache, snapshot) = cache();
        for name in ["some/tiny", "some/tiny@main", "some/tiny@pr/1", &format!("some/tiny@{COMMIT}")] {
            assert_eq!(cache.find(Path::new(name)).unwrap(), snapshot, "{name}");
        }
        let read = ModelFolder::read(&snapshot, &TextHost::InProcess).unwrap();
        assert_eq!(crate::digest(&read.weights), crate::digest(&TinyModel::default().make().unwrap().weights));
        // What exists, and what is no name, is a path.
        for path in [snapshot.to_str().unwrap(), "tiny", "./some/tiny", "some/tiny/", "/some/tiny", "../tiny", "a--b/c"]
        {
            assert_eq!(cache.find(Path::new(path)).unwrap(), Path::new(path));
        }
        for path in [&snapshot, Path::new("some/tiny"), Path::new("some/tiny@main")] {
            let names = (HubCache::model_name(path), HubCache::hub_name(path));
            assert_eq!(names, (Some("tiny".to_owned()), Some("some/tiny".to_owned())));
        }
        assert_eq!(HubCache::model_name(Path::new("/some/tiny")), None);
        let found = cache.models();
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!((found.name.as_str(), found.commit.as_str(), &found.folder), ("some/tiny", COMMIT, &snapshot));
        assert_eq!((found.revisions.as_slice(), &found.missing), (&["main".to_owned(), "pr/1".to_owned()][..], &None));
        assert!(found.architecture.is_some() && found.bytes > 300_000, "{found:?}");
    }

    #[cfg(unix)]
    #[test]
    fn what_the_cache_has_not_or_not_whole_is_refused_with_what_to_do() {
        let check = |change: &dyn Fn(&Path, &Path), name: &str, expect: &[&str]| {
            let (folder, cache, snapshot) = cache();
            change(folder.path(), &snapshot);
            let error = cache.find(Path::new(name)).unwrap_err().to_string();
            for part in expect {
                assert!(error.contains(part), "{error}");
            }
            assert!(cache.models().len() <= 1);
        };
        let unchanged = |_: &Path, _: &Path| ();
        check(&unchanged, "some/other", &["some/other: there is no such folder", "hf download some/other gets it"]);
        check(&unchanged, "some/tiny@v2", &["has no revision v2"]);
        check(
            &|_, snapshot| std::fs::remove_file(snapshot.join("config.json")).unwrap(),
            "some/tiny",
            &["is not complete: config.json is missing; hf download some/tiny continues"],
        );
        check(
            &|_, snapshot| {
                let second = |path: &PathBuf| last_part(path).starts_with("model-00002-of-");
                std::fs::remove_file(entries(snapshot).into_iter().find(second).unwrap()).unwrap();
            },
            "some/tiny",
            &["model-00002-of-", ".safetensors is missing"],
        );
        check(
            &|root, _| std::fs::remove_file(root.join("models--some--tiny/blobs/2")).unwrap(),
            "some/tiny",
            &["the link", "leads nowhere"],
        );
        check(
            &|root, _| std::fs::remove_dir_all(root.join("models--some--tiny/snapshots")).unwrap(),
            "some/tiny",
            &["config.json is missing"],
        );
        check(
            &|root, _| std::fs::write(root.join("models--some--tiny/refs/main"), "../../etc").unwrap(),
            "some/tiny",
            &["names no commit: `../../etc`"],
        );
        check(
            &|_, snapshot| std::os::unix::fs::symlink("/dev/null", snapshot.join("extra")).unwrap(),
            "some/tiny",
            &["leads out of the Hugging Face cache"],
        );
        let error = HubCache::default().find(Path::new("some/tiny")).unwrap_err().to_string();
        assert!(error.contains("no home folder with a Hugging Face cache"), "{error}");
    }
}
