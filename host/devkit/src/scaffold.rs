//! New plugins: a folder with sources, tests and a manifest, which builds and passes its tests.

use crate::DevkitError;
use clawhost_package::{Kind, Language, PluginName};
use serde::Serialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The track of the WIT that new plugins are built against.
pub const TRACK: &str = "0.1";

/// What a new plugin begins as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// An environment of text, with a reward beside it.
    Environment,
    /// An environment with tools, tasks and artefacts, with a reward beside it.
    EnvironmentTools,
    /// A reward that compares with a reference.
    Reward,
    /// A reward that asks a model.
    RewardJudge,
    /// A reflector.
    Reflector,
}

impl Template {
    /// All templates.
    pub const ALL: [Self; 5] =
        [Self::Environment, Self::EnvironmentTools, Self::Reward, Self::RewardJudge, Self::Reflector];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::EnvironmentTools => "environment-tools",
            Self::Reward => "reward",
            Self::RewardJudge => "reward-judge",
            Self::Reflector => "reflector",
        }
    }

    /// The kind of plugin.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Environment | Self::EnvironmentTools => Kind::Environment,
            Self::Reward | Self::RewardJudge => Kind::Reward,
            Self::Reflector => Kind::Reflector,
        }
    }

    /// One line for people.
    const fn summary(self) -> &'static str {
        match self {
            Self::Environment => "how many steps does a tower have?",
            Self::EnvironmentTools => "pack what an order asks for, with tools",
            Self::Reward => "1 if the last answer is the reference",
            Self::RewardJudge => "what a model thinks of the last answer, from 0 to 1",
            Self::Reflector => "proposes lessons from what the environment says at the end",
        }
    }
}

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

/// A file of a template: its path in the new folder, and its text, in which words such as `{{name}}` are replaced.
type TemplateFile = (&'static str, &'static str);

/// The files of a template of a language, by their paths in the new folder.
macro_rules! files {
    ($folder:literal: $($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../templates/", $folder, "/", $path)))),+]
    };
}

/// The files that have a template's own sources. `None`: there is no such template in this language.
fn sources(template: Template, language: Language) -> Option<&'static [TemplateFile]> {
    Some(match (language, template) {
        (Language::Rust, Template::Environment) => files!("rust/environment":
            "Cargo.toml", "claw.toml", "src/lib.rs", "tests/answers.toml",
            "reward/Cargo.toml", "reward/claw.toml", "reward/src/lib.rs"),
        (Language::Rust, Template::EnvironmentTools) => files!("rust/environment-tools":
            "Cargo.toml", "claw.toml", "rules.txt", "src/lib.rs", "tests/orders.toml",
            "reward/Cargo.toml", "reward/claw.toml", "reward/src/lib.rs"),
        (Language::Rust, Template::Reward) => files!("rust/reward":
            "Cargo.toml", "claw.toml", "src/lib.rs", "tests/answers.toml"),
        (Language::Rust, Template::RewardJudge) => files!("rust/reward-judge":
            "Cargo.toml", "claw.toml", "src/lib.rs", "tests/marks.toml"),
        (Language::Rust, Template::Reflector) => files!("rust/reflector":
            "Cargo.toml", "claw.toml", "src/lib.rs", "tests/lessons.toml"),
        _ => return None,
    })
}

/// The files that all templates have.
fn common(kind: Kind) -> [TemplateFile; 4] {
    let readme = match kind {
        Kind::Environment => include_str!("../templates/common/README.environment.md"),
        _ => include_str!("../templates/common/README.plugin.md"),
    };
    [
        ("README.md", readme),
        ("AGENTS.md", include_str!("../templates/common/AGENTS.md")),
        (".gitignore", include_str!("../templates/common/gitignore")),
        (".github/workflows/plugin.yml", include_str!("../templates/common/ci.yml")),
    ]
}

/// Types of the SDK and of Rust that a template uses: a type of the plugin has another name.
const TAKEN_TYPES: [&str; 26] = [
    "Action",
    "Context",
    "Entry",
    "Environment",
    "Episode",
    "Error",
    "Fruit",
    "Group",
    "MessageEnvironment",
    "Next",
    "Opening",
    "Option",
    "Params",
    "Playbook",
    "Proposal",
    "Random",
    "Reads",
    "Reflector",
    "Result",
    "Reward",
    "Self",
    "Signals",
    "Source",
    "Status",
    "String",
    "Verdict",
];
/// Names that cargo or Rust have for something else.
const TAKEN_NAMES: [&str; 12] =
    ["alloc", "clawhost-sdk", "core", "crate", "proc-macro", "reward", "self", "serde", "std", "super", "test", "type"];

/// The type of a plugin.
fn type_name(name: &PluginName) -> String {
    let own = name.as_type();
    match TAKEN_TYPES.contains(&own.as_str()) || ["Step", "Task", "ToolSpec", "Vec"].contains(&own.as_str()) {
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
        return Err(DevkitError::NoTemplate { template: new.template.name(), language: new.language });
    };
    if TAKEN_NAMES.contains(&new.name.as_str()) {
        return Err(DevkitError::TakenName { name: new.name.to_string() });
    }
    if let Sdk::Folder(sdk) = &new.sdk
        && !sdk.join("rust/Cargo.toml").exists()
    {
        return Err(DevkitError::NoSdk { folder: sdk.display().to_string() });
    }
    let is_taken = folder.exists() && std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_some());
    if is_taken {
        return Err(DevkitError::Taken { folder: folder.display().to_string() });
    }
    let mut texts = Vec::new();
    for (path, text) in own.iter().copied().chain(common(new.template.kind())) {
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

    #[test]
    fn every_template_is_complete_and_its_manifest_is_valid() {
        for template in Template::ALL {
            let place = tempfile::tempdir().unwrap();
            let folder = place.path().join("deep/my-tower");
            let created = create(&new(template, folder.clone())).unwrap();
            assert!(created.is_repository || !git(place.path()), "{template:?}");
            for file in &created.files {
                let text = std::fs::read_to_string(folder.join(file)).unwrap();
                for word in ["name", "type", "kind", "summary", "track", "sdk"] {
                    assert!(!text.contains(&format!("{{{{{word}}}}}")), "{template:?}, {file}: {text}");
                }
                if file.ends_with(MANIFEST_FILE) {
                    let manifest = Manifest::parse(&text).unwrap();
                    assert!(manifest.plugin.name.as_str().starts_with("my-tower"));
                }
            }
            let manifest = std::fs::read_to_string(folder.join(MANIFEST_FILE)).unwrap();
            assert_eq!(Manifest::parse(&manifest).unwrap().plugin.kind, template.kind());
            let left: Vec<_> = std::fs::read_dir(place.path().join("deep")).unwrap().flatten().collect();
            assert_eq!(left.len(), 1, "nothing lies beside the folder");
        }
    }

    #[test]
    fn an_author_of_an_environment_begins_with_25_lines_at_most() {
        let (_, text) = sources(Template::Environment, Language::Rust)
            .unwrap()
            .iter()
            .find(|(path, _)| *path == "src/lib.rs")
            .unwrap();
        let own = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
        assert!(own.count() <= 25);
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
