//! New plugins: a folder with sources, tests and a manifest, which builds and passes its tests.

use crate::DevkitError;
use crate::template::{Template, common, sources};
use clawhost_package::{Language, PluginName};
use serde::Serialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The track of the WIT that new plugins are built against.
pub const TRACK: &str = "0.1";

/// Where the SDK of a new plugin comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sdk {
    /// A folder of this machine, as long as the SDK is not published.
    Folder(PathBuf),
    /// A published version.
    Version(String),
}

/// The SDK that belongs to this program: the sources that it was built from, as long as none is published.
pub fn own_sdk() -> Sdk {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Sdk::Folder(here.ancestors().nth(2).unwrap_or(here).join("sdk"))
}

impl Sdk {
    /// Its dependency in `Cargo.toml`.
    fn for_cargo(&self) -> String {
        match self {
            Self::Folder(folder) => {
                let path = toml_edit::Value::from(folder.join("rust").display().to_string());
                format!("{{ path = {path} }}")
            }
            Self::Version(version) => toml_edit::Value::from(format!("={version}")).to_string(),
        }
    }
}

/// A new plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPlugin {
    /// What it begins as.
    pub template: Template,
    /// Its name.
    pub name: PluginName,
    /// Its language.
    pub language: Language,
    /// The folder, which is made.
    pub folder: PathBuf,
    /// Its SDK.
    pub sdk: Sdk,
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Created {
    /// The folder.
    pub folder: PathBuf,
    /// Its files, relative to it.
    pub files: Vec<String>,
    /// Whether it is a new git repository: it lies in none, and git is there.
    pub is_repository: bool,
}

/// Types of the SDKs and of the languages that templates use: a type of the plugin has another name.
const TAKEN_TYPES: [&str; 49] = [
    "Action",
    "Array",
    "Context",
    "Continue",
    "Done",
    "Entry",
    "Environment",
    "Episode",
    "Error",
    "Exception",
    "Failed",
    "Fruit",
    "Fruits",
    "Group",
    "MessageEnvironment",
    "ModelError",
    "Next",
    "None",
    "NotApplicable",
    "Number",
    "Object",
    "Opening",
    "Option",
    "Params",
    "Playbook",
    "PluginError",
    "Promise",
    "Proposal",
    "Proxy",
    "Random",
    "Reads",
    "Reflector",
    "Result",
    "Reward",
    "Scored",
    "Self",
    "Set",
    "Signals",
    "Source",
    "Status",
    "Step",
    "Stop",
    "String",
    "Symbol",
    "Task",
    "Tool",
    "ToolSpec",
    "Vec",
    "Verdict",
];
/// Names that cargo or Rust have for something else.
const TAKEN_NAMES: [&str; 12] =
    ["alloc", "clawhost-sdk", "core", "crate", "proc-macro", "reward", "self", "serde", "std", "super", "test", "type"];

/// The type of a plugin.
fn type_name(name: &PluginName) -> String {
    let own = name.as_type();
    match TAKEN_TYPES.contains(&own.as_str()) {
        true => format!("My{own}"),
        false => own,
    }
}

/// A text of a template with the plugin's own words.
fn filled(text: &str, new: &NewPlugin) -> String {
    let words = [
        ("{{name}}", new.name.to_string()),
        ("{{type}}", type_name(&new.name)),
        ("{{kind}}", new.template.kind().to_string()),
        ("{{summary}}", new.template.summary().to_owned()),
        ("{{language}}", new.language.to_string()),
        ("{{track}}", TRACK.to_owned()),
        ("{{sdk}}", new.sdk.for_cargo()),
    ];
    words.iter().fold(text.to_owned(), |text, (word, own)| text.replace(word, own))
}

/// Makes the folder of a new plugin: all of it, or nothing.
///
/// # Errors
/// There is something in the folder already, there is no such template in the language, the SDK is not there, or the folder
/// cannot be written.
pub fn create(new: &NewPlugin) -> Result<Created, DevkitError> {
    let folder = &new.folder;
    let unwritable =
        |error: std::io::Error| DevkitError::Unwritable { path: folder.display().to_string(), why: error.to_string() };
    let Some(own) = sources(new.template, new.language) else {
        let others = Language::ALL.into_iter().filter(|other| sources(new.template, *other).is_some()).collect();
        return Err(DevkitError::NoTemplate { template: new.template.name(), language: new.language, others });
    };
    if TAKEN_NAMES.contains(&new.name.as_str()) {
        return Err(DevkitError::TakenName { name: new.name.to_string() });
    }
    // The other languages have theirs in this program.
    if let Sdk::Folder(sdk) = &new.sdk
        && new.language == Language::Rust
        && !sdk.join("rust/Cargo.toml").exists()
    {
        return Err(DevkitError::NoSdk { folder: sdk.display().to_string() });
    }
    let is_taken = folder.exists() && std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_some());
    if is_taken {
        return Err(DevkitError::Taken { folder: folder.display().to_string() });
    }
    let mut texts = Vec::new();
    for (path, text) in own.into_iter().chain(common(new.template, new.language)) {
        texts.push((path, filled(text, new)));
    }
    if folder.exists() {
        // It is empty, and may be the working folder: it is filled where it is.
        texts.iter().try_for_each(|(path, text)| write(&folder.join(path), text)).map_err(unwritable)?;
    } else {
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).map_err(unwritable)?;
        // Beside the folder, so that it can be renamed: nobody sees half of it.
        let draft = tempfile::Builder::new().prefix(".clawhost-new-").tempdir_in(parent).map_err(unwritable)?;
        texts.iter().try_for_each(|(path, text)| write(&draft.path().join(path), text)).map_err(unwritable)?;
        readable(draft.path()).map_err(unwritable)?;
        std::fs::rename(draft.path(), folder).map_err(unwritable)?;
        // It has another name now, so there is nothing to remove.
        let _ = draft.keep();
    }
    let mut files: Vec<String> = texts.into_iter().map(|(path, _)| path.to_owned()).collect();
    files.sort();
    Ok(Created { folder: folder.clone(), files, is_repository: git(folder) })
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::File::create_new(path)?.write_all(text.as_bytes())
}

/// A temporary folder is its owner's alone; sources are not secret.
fn readable(folder: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
    }
    let _ = folder;
    Ok(())
}

/// Makes a git repository, as cargo does: if git is there, and the folder lies in none.
fn git(folder: &Path) -> bool {
    let quiet = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.arg("-C").arg(folder).args(arguments);
        command
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    !quiet(&["rev-parse", "--is-inside-work-tree"]) && quiet(&["init", "--quiet"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_package::{MANIFEST_FILE, Manifest};

    fn new(template: Template, folder: PathBuf) -> NewPlugin {
        let name: PluginName = "my-tower".parse().unwrap();
        NewPlugin { template, name, language: Language::Rust, folder, sdk: own_sdk() }
    }

    /// Every template in every language that has it.
    fn all() -> impl Iterator<Item = (Template, Language)> {
        let pairs = Template::ALL.into_iter().flat_map(|template| Language::ALL.map(|language| (template, language)));
        pairs.filter(|(template, language)| sources(*template, *language).is_some())
    }

    #[test]
    fn every_template_is_complete_and_its_manifest_is_valid() {
        for (template, language) in all() {
            let place = tempfile::tempdir().unwrap();
            let folder = place.path().join("deep/my-tower");
            let created = create(&NewPlugin { language, ..new(template, folder.clone()) }).unwrap();
            assert!(created.is_repository || !git(place.path()), "{template:?}");
            for file in &created.files {
                let text = std::fs::read_to_string(folder.join(file)).unwrap();
                for word in ["name", "type", "kind", "summary", "track", "sdk", "language"] {
                    assert!(!text.contains(&format!("{{{{{word}}}}}")), "{template:?}, {file}: {text}");
                }
                if file.ends_with(MANIFEST_FILE) {
                    let manifest = Manifest::parse(&text).unwrap();
                    assert!(manifest.plugin.name.as_str().starts_with("my-tower"));
                }
            }
            let manifest = std::fs::read_to_string(folder.join(MANIFEST_FILE)).unwrap();
            let manifest = Manifest::parse(&manifest).unwrap();
            assert_eq!((manifest.plugin.kind, manifest.build.language), (template.kind(), Some(language)));
            let left: Vec<_> = std::fs::read_dir(place.path().join("deep")).unwrap().flatten().collect();
            assert_eq!(left.len(), 1, "nothing lies beside the folder");
        }
    }

    #[test]
    fn an_author_of_an_environment_begins_with_25_lines_at_most() {
        for language in Language::ALL {
            let files = sources(Template::Environment, language).unwrap();
            let (path, text) = files.into_iter().find(|(path, _)| path.starts_with("src/")).unwrap();
            let own = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
            assert!(own.count() <= 25, "{path}");
        }
    }

    #[test]
    fn a_template_that_a_language_lacks_is_named_with_those_that_have_it() {
        let place = tempfile::tempdir().unwrap();
        let lacking = NewPlugin { language: Language::C, ..new(Template::Reflector, place.path().join("x")) };
        let error = create(&lacking).unwrap_err().to_string();
        assert!(error.contains("no template `reflector` in c; it is there in rust, python, js"), "{error}");
    }

    #[test]
    fn what_is_there_is_never_written_over() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("my-tower");
        std::fs::create_dir(&folder).unwrap();
        create(&new(Template::Reward, folder.clone())).unwrap();
        let taken = create(&new(Template::Reward, folder.clone())).unwrap_err();
        assert!(taken.to_string().contains("there is something in it already"), "{taken}");
        let file = place.path().join("file");
        std::fs::write(&file, "mine").unwrap();
        assert!(create(&new(Template::Reward, file.clone())).is_err());
        assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
        let missing =
            NewPlugin { sdk: Sdk::Folder(place.path().join("none")), ..new(Template::Reward, place.path().join("b")) };
        assert!(create(&missing).unwrap_err().to_string().contains("there is no SDK"));
        assert!(!place.path().join("b").exists());
    }

    #[test]
    fn a_plugin_has_no_name_that_its_code_uses_for_something_else() {
        let check = |name: &str, expect: &str| assert_eq!(type_name(&name.parse().unwrap()), expect);
        check("tower", "Tower");
        check("result", "MyResult");
        check("message-environment", "MyMessageEnvironment");
        let place = tempfile::tempdir().unwrap();
        let taken = NewPlugin { name: "std".parse().unwrap(), ..new(Template::Reward, place.path().join("x")) };
        assert!(create(&taken).unwrap_err().to_string().contains("`std` has a meaning in Rust"));
    }

    #[test]
    fn a_published_sdk_is_pinned() {
        assert_eq!(Sdk::Version("0.1.0".to_owned()).for_cargo(), "\"=0.1.0\"");
        assert_eq!(Sdk::Folder("/a \"b\"".into()).for_cargo(), "{ path = '/a \"b\"/rust' }");
    }
}
