//! The manifest of a plugin: `claw.toml`.

use crate::problem::ManifestError;
use crate::{Kind, Language, LimitsSection, Oracle, PluginName};
use semver::Version;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest summary in bytes: one line.
const SUMMARY_BYTES: usize = 200;
/// Longest licence expression in bytes.
const LICENSE_BYTES: usize = 200;
/// Most aliases, options, rewards or watched paths. A plugin has a handful.
const ENTRIES: usize = 64;
/// Numbers of rewards: as [`clawhost_core`] takes them, finite and within these bounds.
const MOST_REWARD: f64 = 1e9;

/// The manifest of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// What the plugin is.
    pub plugin: PluginSection,
    /// How it is built.
    #[serde(default, skip_serializing_if = "BuildSection::is_empty")]
    pub build: BuildSection,
    /// What it asks for.
    #[serde(default, skip_serializing_if = "GrantsSection::is_empty")]
    pub grants: GrantsSection,
    /// Its own limits.
    #[serde(default, skip_serializing_if = "LimitsSection::is_empty")]
    pub limits: LimitsSection,
    /// Which of its tasks tests and checks play.
    #[serde(default, skip_serializing_if = "TasksSection::is_empty")]
    pub tasks: TasksSection,
    /// What may be expected of it.
    #[serde(default, skip_serializing_if = "ExpectSection::is_empty")]
    pub expect: ExpectSection,
}

/// The table `[plugin]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginSection {
    /// Its name, which the component says, too.
    pub name: PluginName,
    /// Its version, which the component says, too.
    pub version: Version,
    /// Its kind.
    pub kind: Kind,
    /// The track of the WIT that it is built against, as `0.1`.
    pub track: String,
    /// One line for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Its licence, as an SPDX expression.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub license: String,
}

/// The table `[build]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildSection {
    /// The language, which has a build of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// The command, with its arguments, instead of the language's own build. It writes `component`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// What the command writes, or a component that is made elsewhere; relative to the manifest. A build puts it into `build/NAME.wasm`,
    /// with the manifest in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// Files and folders whose change means that the plugin is built again. Default: those of the language.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<String>,
}

impl BuildSection {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The table `[grants]`: what the plugin asks for. An operator grants it, or not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantsSection {
    /// Whether it keeps notes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kv: bool,
    /// Aliases of the models that it asks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub llm: Vec<String>,
}

impl GrantsSection {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The table `[tasks]`: what tests, checks and runs of the folder play, and who judges it. Flags and run files win. A plugin that came from a
/// registry is played as its operator says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TasksSection {
    /// The split that is played. Default: the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Options of the plugin.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Rewards, each as on a command line; paths are relative to the manifest, and stay below its folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewards: Vec<String>,
    /// Most turns of an episode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
}

impl TasksSection {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The table `[expect]`: what `clawhost check` compares with what it measures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectSection {
    /// Mean reward that the oracle reaches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
    /// Mean reward that an agent that does nothing stays at or below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// Whether equal seeds give equal episodes. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deterministic: Option<bool>,
    /// Where the oracle's answers come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oracle: Option<Oracle>,
    /// Whether the verdict about an episode is the same in any order of its group. Rewards only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_order: bool,
    /// A file with labelled answers, relative to the manifest. Rewards only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<String>,
    /// Least agreement with the labels, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<f64>,
}

impl ExpectSection {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is said of a path that would leave the folder.
const OUTSIDE: &str = "expected a path below the folder of the manifest, without `..`";
/// Most turns of an episode, as of a run.
const MOST_TURNS: u32 = 10_000;

/// A path of a manifest stays below its folder: a manifest may come from anywhere.
fn inside(key: &'static str, path: &str) -> Result<(), ManifestError> {
    let is_inside = !path.is_empty()
        && !path.starts_with(['/', '\\'])
        && !path.contains(['\\', '\0', ':'])
        && path.split('/').all(|part| part != "..");
    match is_inside {
        true => Ok(()),
        false => Err(ManifestError::key(key, OUTSIDE)),
    }
}

fn at_most(key: &'static str, found: usize) -> Result<(), ManifestError> {
    match found <= ENTRIES {
        true => Ok(()),
        false => Err(ManifestError::key(key, format!("found {found} entries; at most {ENTRIES} are possible"))),
    }
}

fn finite(key: &'static str, number: Option<f64>) -> Result<(), ManifestError> {
    match number {
        Some(number) if !number.is_finite() || number.abs() > MOST_REWARD => {
            Err(ManifestError::key(key, format!("found {number}; expected a number up to {MOST_REWARD}")))
        }
        _ => Ok(()),
    }
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// It is not TOML, a key is unknown, a value is not possible, or keys do not fit together.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let manifest: Self = toml::from_str(text).map_err(|error| ManifestError::of(text, &error))?;
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), ManifestError> {
        let Self { plugin, build, grants, limits, tasks, expect } = self;
        let track = plugin.track.split_once('.');
        let is_number = |text: &str| text.parse::<u32>().is_ok_and(|number| number.to_string() == text);
        if !track.is_some_and(|(major, minor)| is_number(major) && is_number(minor)) {
            return Err(ManifestError::key("plugin.track", "expected two numbers, as `0.1`"));
        }
        if plugin.summary.len() > SUMMARY_BYTES || plugin.summary.contains('\n') {
            return Err(ManifestError::key(
                "plugin.summary",
                format!("expected one line of at most {SUMMARY_BYTES} bytes"),
            ));
        }
        if plugin.license.len() > LICENSE_BYTES {
            return Err(ManifestError::key("plugin.license", format!("expected at most {LICENSE_BYTES} bytes")));
        }
        if let Some(key) = limits.zero() {
            return Err(ManifestError::key(key, "expected at least 1"));
        }
        if build.language.is_some() && build.command.is_empty() && build.component.is_some() {
            let why =
                "`language` builds the component itself: leave `component` out, or name the `command` that writes it";
            return Err(ManifestError::key("build.component", why));
        }
        if build.language.is_none() && build.command.is_empty() && build.component.is_none() {
            let why = "expected `language`, or `command` and `component`, or `component` alone for one that is made elsewhere";
            return Err(ManifestError::key("build", why));
        }
        if !build.command.is_empty() && build.component.is_none() {
            return Err(ManifestError::key("build.component", "expected the file that the command writes"));
        }
        if let Some(component) = &build.component {
            inside("build.component", component)?;
            if !component.ends_with(".wasm") {
                return Err(ManifestError::key("build.component", "expected a file that ends with `.wasm`"));
            }
        }
        at_most("build.command", build.command.len())?;
        at_most("build.watch", build.watch.len())?;
        build.watch.iter().try_for_each(|path| inside("build.watch", path))?;
        at_most("grants.llm", grants.llm.len())?;
        if plugin.kind == Kind::Router && !grants.is_empty() {
            return Err(ManifestError::key("grants", "a router gets none"));
        }
        let is_alias = |alias: &String| {
            !alias.is_empty() && alias.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        if !grants.llm.iter().all(is_alias) {
            return Err(ManifestError::key("grants.llm", "expected aliases of letters, digits, `-` and `_`"));
        }
        at_most("tasks.options", tasks.options.len())?;
        at_most("tasks.rewards", tasks.rewards.len())?;
        tasks.rewards.iter().try_for_each(|text| {
            let end = text.find(['?', '#']).unwrap_or(text.len());
            inside("tasks.rewards", text.get(..end).unwrap_or_default())?;
            // A folder may have a `?` in its name, so the options are no way out either.
            match text.split(['/', '?', '#']).any(|part| part == "..") {
                true => Err(ManifestError::key("tasks.rewards", OUTSIDE)),
                false => Ok(()),
            }
        })?;
        // In the text of a plugin, these end an option.
        let is_plain = |text: &String| !text.contains(['&', '#', '?']) && !text.chars().any(char::is_control);
        if !tasks.options.iter().all(|(name, value)| is_plain(name) && !name.contains('=') && is_plain(value)) {
            return Err(ManifestError::key(
                "tasks.options",
                "expected names and values without `&`, `#`, `?` and control characters",
            ));
        }
        if tasks.max_turns.is_some_and(|turns| !(1..=MOST_TURNS).contains(&turns)) {
            return Err(ManifestError::key("tasks.max_turns", format!("expected 1 to {MOST_TURNS}")));
        }
        self.check_expectations(expect)
    }

    fn check_expectations(&self, expect: &ExpectSection) -> Result<(), ManifestError> {
        finite("expect.maximum", expect.maximum)?;
        finite("expect.floor", expect.floor)?;
        if let (Some(floor), Some(maximum)) = (expect.floor, expect.maximum)
            && floor >= maximum
        {
            return Err(ManifestError::key(
                "expect.floor",
                format!("found {floor}; expected less than the maximum, {maximum}"),
            ));
        }
        if expect.agreement.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(ManifestError::key("expect.agreement", "expected a share, from 0 to 1"));
        }
        if expect.agreement.is_some() && expect.labels.is_none() {
            return Err(ManifestError::key("expect.agreement", "expected `labels`, too: agreement with what?"));
        }
        for (key, path) in [
            ("expect.labels", expect.labels.as_deref()),
            (
                "expect.oracle",
                match &expect.oracle {
                    Some(Oracle::Scripts(path) | Oracle::Component(path) | Oracle::Follower(Some(path))) => {
                        Some(path.as_str())
                    }
                    _ => None,
                },
            ),
        ] {
            path.map_or(Ok(()), |path| inside(key, path))?;
        }
        let of_rewards = expect.any_order || expect.labels.is_some();
        if of_rewards && self.plugin.kind != Kind::Reward {
            return Err(ManifestError::key("expect", "`any_order`, `labels` and `agreement` are for rewards"));
        }
        if expect.oracle.is_some() && self.plugin.kind != Kind::Environment {
            return Err(ManifestError::key("expect.oracle", "an oracle acts in environments"));
        }
        if expect.maximum.is_some() && expect.oracle.is_none() && self.plugin.kind == Kind::Environment {
            return Err(ManifestError::key("expect.maximum", "expected `oracle`, too: who reaches it?"));
        }
        Ok(())
    }

    /// The built component, relative to the manifest.
    pub fn component(&self) -> String {
        format!("build/{}.wasm", self.plugin.name)
    }

    /// Files and folders, relative to the manifest, whose change means that the plugin is built again. The manifest itself is one.
    pub fn watched(&self) -> Vec<String> {
        let of_language = self.build.language.map(Language::sources).unwrap_or_default();
        let named = match self.build.watch.is_empty() {
            true => of_language.iter().map(|path| (*path).to_owned()).collect(),
            false => self.build.watch.clone(),
        };
        // Without a command and a language, the component is made elsewhere: it is the source.
        let elsewhere = self.build.component.iter().filter(|_| self.build.command.is_empty()).cloned();
        named.into_iter().chain(elsewhere).chain([crate::MANIFEST_FILE.to_owned()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "[plugin]\nname = \"tower\"\nversion = \"0.1.0\"\nkind = \"environment\"\ntrack = \"0.1\"\n";
    const RUST: &str = "[build]\nlanguage = \"rust\"\n";

    fn with(rest: &str) -> Result<Manifest, ManifestError> {
        Manifest::parse(&format!("{SMALL}{RUST}{rest}"))
    }

    #[test]
    fn a_manifest_names_a_plugin_its_wishes_and_what_may_be_expected() {
        let manifest = with(
            "[grants]\nkv = true\nllm = [\"judge\"]\n[limits]\nmemory_mib = 16\n[tasks]\nsplit = \"train\"\noptions = { size = \"3\" }\n\
             rewards = [\"./reward?a=../b\"]\n[expect]\nmaximum = 1\nfloor = 0.1\noracle = \"follower:tests/oracle.txt\"\n",
        )
        .unwrap();
        assert_eq!((manifest.plugin.name.as_str(), manifest.plugin.kind), ("tower", Kind::Environment));
        assert_eq!(manifest.component(), "build/tower.wasm");
        assert_eq!(manifest.watched(), ["src", "Cargo.toml", "claw.toml"]);
        assert_eq!((manifest.grants.kv, manifest.grants.llm.clone()), (true, vec!["judge".to_owned()]));
        assert_eq!(manifest.expect.oracle, Some(Oracle::Follower(Some("tests/oracle.txt".to_owned()))));
        assert_eq!(with("").unwrap().expect, ExpectSection::default());
    }

    #[test]
    fn a_mistake_is_named_with_its_place_and_the_nearest_key() {
        let check = |text: &str, expect: &str| {
            let error = Manifest::parse(text).unwrap_err().to_string();
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("[plugin", "line 1: ");
        check("[plugin]\nname = \"Tower\"", "line 2: `Tower` is no name of a plugin");
        check(&SMALL.replace("0.1.0", "1"), "line 3: ");
        check(&SMALL.replace("environment", "enviroment"), "unknown variant `enviroment`");
        check(&SMALL.replace("\"0.1\"", "\"1\""), "plugin.track: expected two numbers");
        check(SMALL, "build: expected `language`");
        let check = |rest: &str, expect: &str| {
            let error = with(rest).unwrap_err().to_string();
            assert!(error.contains(expect), "{rest}: {error}");
        };
        check("[grant]\nkv = true", "line 8: unknown field `grant`");
        check("[grant]\nkv = true", "did you mean `grants`?");
        check("[grants]\nhttp = []", "unknown field `http`");
        check("[limits]\nmemory_mb = 1", "did you mean `memory_mib`?");
        check(
            "[expect]\nmaximum = 1\nfloor = 1\noracle = \"reference\"",
            "expect.floor: found 1; expected less than the maximum",
        );
        check("[expect]\nmaximum = nan\noracle = \"reference\"", "expect.maximum: found NaN");
        check("[expect]\nmaximum = 1", "expected `oracle`, too");
        check("[expect]\noracle = \"agnet\"", "available: reference");
        check("[expect]\nlabels = \"labels.jsonl\"", "are for rewards");
        check("[tasks]\nmax_turns = 0", "expected 1 to 10000");
        check("[tasks]\nrewards = [\"../reward\"]", "tasks.rewards: expected a path below");
    }

    #[test]
    fn paths_stay_below_the_folder_of_the_manifest() {
        for path in ["../x.wasm", "/x.wasm", "a/../../x.wasm", "c:x.wasm", "a\\\\x.wasm", ""] {
            let text = format!("{SMALL}[build]\ncomponent = \"{path}\"\n");
            let error = Manifest::parse(&text).unwrap_err().to_string();
            assert!(error.contains("build.component: expected a path below the folder"), "{path}: {error}");
        }
        let error = with("[expect]\noracle = \"scripts:../others\"").unwrap_err().to_string();
        assert!(error.contains("expect.oracle: expected a path below"), "{error}");
    }
}
