//! Folders of plugins, in which authors work. A folder with a manifest can be named wherever a component can.

use crate::AppError;
use clawhost_core::Hint;
use clawhost_package::{MANIFEST_BYTES, MANIFEST_FILE, Manifest, ManifestError, Oracle};
use clawhost_run_config::{Key, PluginSpec, RunSpecPatch, Source, Value, Verb, plugin_in};
use std::path::{Component, Path, PathBuf};

/// A folder is no plugin, or cannot be used as one.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It has no manifest.
    #[error("{folder} is a folder without {MANIFEST_FILE}, so it is no plugin")]
    NoManifest {
        /// The folder.
        folder: String,
    },
    /// Its manifest has a mistake.
    #[error("{path}, {error}")]
    Manifest {
        /// The file.
        path: String,
        /// The mistake, with its place.
        error: ManifestError,
    },
    /// Its manifest cannot be read.
    #[error("{path}: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// The reason.
        why: String,
    },
    /// A path that it names leads out of it.
    #[error("{path} leads out of the folder {folder}; what a plugin names lies in its own folder")]
    Outside {
        /// The folder.
        folder: String,
        /// The path.
        path: String,
    },
    /// Its component is not there.
    #[error("{component} is not there: the plugin is not built yet")]
    NotBuilt {
        /// The folder.
        folder: String,
        /// The component.
        component: String,
    },
}

impl FolderError {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoManifest { .. } => "no_manifest",
            Self::Manifest { .. } | Self::Unreadable { .. } => "manifest",
            Self::Outside { .. } => "outside",
            Self::NotBuilt { .. } => "not_built",
        }
    }

    /// Suggested remedies.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::NoManifest { .. } => vec![Hint::command("new environment NAME", "makes a folder with one")],
            Self::NotBuilt { folder, .. } => vec![Hint::command(format!("build {folder}"), "builds it")],
            Self::Manifest { .. } | Self::Unreadable { .. } | Self::Outside { .. } => Vec::new(),
        }
    }
}

/// The folder with the test cases of a plugin.
pub const TESTS: &str = "tests";
/// Bytes of a path that a message shows.
const SHOWN_BYTES: usize = 300;

/// The path of a plugin, without its options.
fn before_options(text: &str) -> &str {
    text.split(['?', '#']).next().unwrap_or_default()
}

/// The folder that is meant where none is named: the working folder.
pub const HERE: &str = ".";

/// The folder of a plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginFolder {
    folder: PathBuf,
    manifest: Manifest,
    text: String,
}

impl PluginFolder {
    /// Reads the manifest of a folder.
    ///
    /// # Errors
    /// There is none, it cannot be read, it has a mistake, or a path in it leads out of the folder.
    pub fn open(folder: &Path) -> Result<Self, FolderError> {
        let file = folder.join(MANIFEST_FILE);
        let path = file.display().to_string();
        if !file.exists() {
            return Err(FolderError::NoManifest { folder: folder.display().to_string() });
        }
        let unreadable = |error: std::io::Error| FolderError::Unreadable { path: path.clone(), why: error.to_string() };
        let text = clawhost_files::read_text(&file, MANIFEST_BYTES).map_err(unreadable)?;
        let manifest = Manifest::parse(&text).map_err(|error| FolderError::Manifest { path, error })?;
        let opened = Self { folder: folder.to_owned(), manifest, text };
        opened.named().try_for_each(|path| opened.inside(&path).map(|_| ()))?;
        Ok(opened)
    }

    /// All paths that it names, and those that every plugin has.
    fn named(&self) -> impl Iterator<Item = String> {
        let Manifest { build, tasks, expect, .. } = &self.manifest;
        let oracle = match &expect.oracle {
            Some(Oracle::Scripts(path) | Oracle::Component(path) | Oracle::Follower(Some(path))) => Some(path.clone()),
            _ => None,
        };
        let rewards = tasks.rewards.iter().map(|text| before_options(text).to_owned());
        let own = [self.manifest.component(), TESTS.to_owned()].into_iter();
        let named = own.chain(build.component.clone()).chain(build.watch.clone()).chain(rewards);
        named.chain(oracle).chain(expect.labels.clone()).collect::<Vec<_>>().into_iter()
    }

    /// A path of the plugin that lies in its folder, after all links were followed.
    ///
    /// # Errors
    /// It leads out of the folder, or cannot be followed.
    pub fn inside(&self, path: &str) -> Result<PathBuf, FolderError> {
        let full = self.path(path);
        let is_relative =
            Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        match is_relative.then(|| clawhost_files::lies_in(&self.folder, &full)) {
            Some(Ok(true)) => Ok(full),
            Some(Err(error)) => {
                Err(FolderError::Unreadable { path: full.display().to_string(), why: error.to_string() })
            }
            Some(Ok(false)) | None => {
                let path = clawhost_core::escaped(path, SHOWN_BYTES);
                Err(FolderError::Outside { folder: self.folder.display().to_string(), path })
            }
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its manifest, as it is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A path of the manifest, from the working directory. Steps that lead nowhere (`./`) are left out.
    pub fn path(&self, inside: &str) -> PathBuf {
        let path: PathBuf = self.folder.join(inside).components().filter(|part| *part != Component::CurDir).collect();
        if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
    }

    /// The component, which may not be built yet.
    pub fn component(&self) -> PathBuf {
        self.path(&self.manifest.component())
    }

    /// The component, which is there.
    ///
    /// # Errors
    /// It is not built yet.
    pub fn built(&self) -> Result<PathBuf, FolderError> {
        let component = self.component();
        match component.exists() {
            true => Ok(component),
            false => Err(FolderError::NotBuilt {
                folder: self.folder.display().to_string(),
                component: component.display().to_string(),
            }),
        }
    }

    /// The plugin with the options of its manifest.
    pub fn spec(&self) -> PluginSpec {
        let options = self.manifest.tasks.options.clone().into_iter().collect();
        PluginSpec { path: self.folder.display().to_string(), options, plugin: None }
    }

    /// The rewards of its manifest, as on a command line.
    pub fn rewards(&self) -> Vec<String> {
        let folder = self.folder.display().to_string();
        self.manifest.tasks.rewards.iter().map(|text| plugin_in(&folder, text)).collect()
    }

    /// The folders of the plugins that its manifest names beside it: what is built with it. Each once, and never itself.
    pub fn beside(&self) -> Vec<PathBuf> {
        let rewards = self.manifest.tasks.rewards.iter().map(|text| before_options(text));
        let oracle = match &self.manifest.expect.oracle {
            Some(Oracle::Component(path)) => Some(path.as_str()),
            _ => None,
        };
        let own = self.path("");
        let mut folders: Vec<PathBuf> = Vec::new();
        for folder in rewards.chain(oracle).map(|path| self.path(path)) {
            if folder != own && folder.join(MANIFEST_FILE).exists() && !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        folders
    }

    /// The options of a run of this folder, which flags replace. The split of the manifest is used by `run` alone: learning and evaluation
    /// choose their own splits.
    pub fn defaults(&self, verb: Verb) -> RunSpecPatch {
        let tasks = &self.manifest.tasks;
        let source = Source::File { line: None };
        let mut patch = RunSpecPatch::new();
        patch.set(Key::Plugin, Value::Text(self.spec().to_string()), source);
        if !tasks.rewards.is_empty() {
            patch.set(Key::Rewards, Value::Texts(self.rewards()), source);
        }
        if let Some(split) = tasks.split.as_ref().filter(|_| verb == Verb::Play) {
            patch.set(Key::Tasks, Value::Text(split.clone()), source);
        }
        if let Some(turns) = tasks.max_turns.filter(|_| Key::MaxTurns.applies_to(verb)) {
            patch.set(Key::MaxTurns, Value::Whole(u64::from(turns)), source);
        }
        patch
    }
}

/// Whether a text names a plugin's folder whose component carries an interpreter, by its manifest: it was built on this machine, by code of that
/// folder, so that its larger component is expected.
pub fn is_interpreted(text: &str) -> bool {
    let path = text.split_once(['?', '#']).map_or(text, |(path, _)| path);
    let folder = [text, path].into_iter().map(Path::new).find(|path| path.is_dir());
    let plugin = folder.and_then(|folder| PluginFolder::open(folder).ok());
    let language = plugin.and_then(|plugin| plugin.manifest.build.language);
    language.is_some_and(clawhost_package::Language::has_interpreter)
}

/// A plugin that is tried out: a component, or a folder with what its manifest says where nothing else is said.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// The plugin with its options.
    pub plugin: PluginSpec,
    /// The folder, if it is one.
    pub folder: Option<PluginFolder>,
    /// Rewards, each as on a command line.
    pub rewards: Vec<String>,
}

impl Trial {
    /// A plugin as on a command line. `rewards`: empty for those of the manifest.
    ///
    /// # Errors
    /// The text names no plugin, or the folder is none.
    pub fn of(text: &str, rewards: &[String]) -> Result<Self, AppError> {
        let mut plugin = crate::plugin_spec(text)?;
        let path = Path::new(&plugin.path);
        let folder = if path.is_dir() { Some(PluginFolder::open(path)?) } else { None };
        let mut rewards = rewards.to_vec();
        if let Some(folder) = &folder {
            if plugin.options.is_empty() {
                plugin.options = folder.spec().options;
            }
            if rewards.is_empty() {
                rewards = folder.rewards();
            }
        }
        Ok(Self { plugin, folder, rewards })
    }

    /// The split that the manifest names.
    pub fn split(&self) -> Option<String> {
        self.folder.as_ref().and_then(|folder| folder.manifest.tasks.split.clone())
    }

    /// The number of turns that the manifest names.
    pub fn max_turns(&self) -> Option<u32> {
        self.folder.as_ref().and_then(|folder| folder.manifest.tasks.max_turns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[plugin]\nname = \"tower\"\nversion = \"0.1.0\"\nkind = \"environment\"\ntrack = \"0.1\"\n\
        [build]\nlanguage = \"rust\"\n\
        [tasks]\nrewards = [\"./reward?a=1\", \"r.wasm\"]\nsplit = \"val\"\nmax_turns = 3\noptions = { size = \"2\" }\n";

    #[test]
    fn a_folder_with_a_manifest_is_a_plugin_and_says_how_it_is_played() {
        let place = tempfile::tempdir().unwrap();
        let none = PluginFolder::open(place.path()).unwrap_err();
        assert!(none.to_string().ends_with("is a folder without claw.toml, so it is no plugin"), "{none}");
        assert_eq!(none.hints(), [Hint::command("new environment NAME", "makes a folder with one")]);

        std::fs::write(place.path().join(MANIFEST_FILE), MANIFEST).unwrap();
        std::fs::create_dir_all(place.path().join("reward")).unwrap();
        std::fs::write(place.path().join("reward/claw.toml"), "").unwrap();
        let folder = PluginFolder::open(place.path()).unwrap();
        let here = place.path().display();
        assert_eq!(folder.spec().to_string(), format!("{here}?size=2"));
        assert_eq!(folder.rewards(), [format!("{here}/./reward?a=1"), format!("{here}/r.wasm")]);
        assert_eq!(folder.beside(), [place.path().join("reward")]);
        let missing = folder.built().unwrap_err();
        assert_eq!(missing.to_string(), format!("{here}/build/tower.wasm is not there: the plugin is not built yet"));
        assert_eq!(missing.hints(), [Hint::command(format!("build {here}"), "builds it")]);

        std::fs::write(place.path().join(MANIFEST_FILE), "[plugin]\nnaem = \"x\"\n").unwrap();
        let mistake = PluginFolder::open(place.path()).unwrap_err().to_string();
        assert!(mistake.contains("claw.toml, line 2: unknown field `naem`"), "{mistake}");
    }

    #[test]
    fn what_a_plugin_names_lies_in_its_folder_whatever_links_say() {
        let place = tempfile::tempdir().unwrap();
        let (plugin, other) = (place.path().join("plugin"), place.path().join("other"));
        std::fs::create_dir_all(&plugin).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        std::fs::write(plugin.join(MANIFEST_FILE), MANIFEST).unwrap();
        let folder = PluginFolder::open(&plugin).unwrap();
        assert!(folder.inside("rules.txt").is_ok() && folder.inside("./a/b").is_ok());
        for path in ["../other/x", "/etc/passwd", "a/../../x"] {
            let error = folder.inside(path).unwrap_err().to_string();
            assert!(error.contains("leads out of the folder"), "{error}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&other, plugin.join("reward")).unwrap();
            let error = PluginFolder::open(&plugin).unwrap_err().to_string();
            assert!(error.contains("reward leads out of the folder"), "{error}");
        }
    }

    #[test]
    fn a_plugin_is_not_beside_itself_and_nothing_is_beside_it_twice() {
        let place = tempfile::tempdir().unwrap();
        let manifest = MANIFEST.replace("\"./reward?a=1\", \"r.wasm\"", "\".\", \"./reward?a=1\", \"reward?a=2\"");
        std::fs::write(place.path().join(MANIFEST_FILE), manifest).unwrap();
        std::fs::create_dir_all(place.path().join("reward")).unwrap();
        std::fs::write(place.path().join("reward/claw.toml"), "").unwrap();
        assert_eq!(PluginFolder::open(place.path()).unwrap().beside(), [place.path().join("reward")]);
    }
}
