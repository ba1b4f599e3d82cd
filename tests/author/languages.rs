//! Plugins in Python, JavaScript and C: the same path as in Rust, and the same episodes.

use super::{Desk, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The templates that are tried: those with tools, models and lists, or all. An interpreter takes long to compile.
fn templates(usual: &'static [&'static str]) -> &'static [&'static str] {
    if std::env::var_os(EVERYTHING).is_some() { &ALL } else { usual }
}

/// A variable that asks for every template.
const EVERYTHING: &str = "CLAWHOST_ALL_TEMPLATES";

/// A language, the variable that names its compiler, and where `cargo xtask languages` puts one.
struct Language {
    name: &'static str,
    variable: &'static str,
    compiler: &'static str,
}

const ALL: [&str; 5] = ["environment", "environment-tools", "reward", "reward-judge", "reflector"];

const PYTHON: Language =
    Language { name: "python", variable: "COMPONENTIZE_PY", compiler: "python/bin/componentize-py" };
const JAVASCRIPT: Language =
    Language { name: "js", variable: "COMPONENTIZE_QJS", compiler: "javascript/node_modules/.bin/componentize-qjs" };
const C: Language = Language { name: "c", variable: "CLANG", compiler: "" };

impl Language {
    /// The compiler, or `None` to skip with the reason.
    fn compiler(&self, test: &str) -> Option<PathBuf> {
        let found = if self.compiler.is_empty() {
            let libc = Path::new("/usr/include/wasm32-wasi/stdlib.h").exists();
            ["clang", "clang-14"].into_iter().map(PathBuf::from).find(|program| libc && runs(program))
        } else {
            let toolchains = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../toolchains");
            Some(toolchains.join(self.compiler)).filter(|program| runs(program))
        };
        if found.is_none() {
            eprintln!(
                "skipped {test}: no compiler for {}; `cargo xtask languages` gets those that need no root",
                self.name
            );
        }
        found
    }

    /// A new plugin of a template that is built, in a folder with the name of the language and the template. Its own name is the same in
    /// every language.
    fn build(&self, desk: &Desk, compiler: &Path, template: &str) -> String {
        let folder = format!("{}-{template}", self.name);
        let name = format!("my-{template}");
        desk.out(".", &["new", template, &name, "--lang", self.name, "--folder", &folder], 0);
        let built = desk.command(&folder, &["build", "--quiet"]).env(self.variable, compiler).output().unwrap();
        assert!(built.status.success(), "{folder}: {}", stderr(&built));
        folder
    }

    /// Building takes long where an interpreter is packed, so a plugin without a change is not built.
    fn build_again(&self, desk: &Desk, compiler: &Path, folder: &str) {
        let unchanged = || -> Vec<bool> {
            let mut command = desk.command(folder, &["build", "--quiet", "--json"]);
            let output = command.env(self.variable, compiler).output().unwrap();
            let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            report["built"].as_array().unwrap().iter().map(|one| one["unchanged"].as_bool().unwrap()).collect()
        };
        assert_eq!(unchanged(), [true, true], "the reward beside it, and the plugin");
        let source = desk.path(&format!("{folder}/src/plugin.js"));
        let text = clawhost_files::read_text(&source, 1 << 20).unwrap();
        std::fs::write(&source, format!("{text}// changed\n")).unwrap();
        assert_eq!(unchanged(), [true, false]);
    }

    /// Every template builds, passes its cases, and keeps what it promises.
    fn try_templates(&self, templates: &[&str], test: &str) {
        let Some(compiler) = self.compiler(test) else { return };
        let desk = Desk::new();
        for template in templates {
            let folder = self.build(&desk, &compiler, template);
            if self.name == "js" && template == templates.first().unwrap() {
                self.build_again(&desk, &compiler, &folder);
            }
            let tested = desk.json(&folder, &["test"], 0);
            assert!(tested["test"]["cases"].as_array().unwrap().len() >= 2, "{folder}");
            let checked = desk.json(&folder, &["check"], 0);
            assert_eq!(checked["passed"], true, "{folder}: {checked:#}");
        }
    }
}

fn runs(program: &Path) -> bool {
    Command::new(program).arg("--help").output().is_ok_and(|output| output.status.success())
}

#[test]
fn templates_in_python_keep_what_they_promise() {
    const TEST: &str = "templates_in_python_keep_what_they_promise";
    if templates(&[]).is_empty() {
        eprintln!("skipped {TEST}: a CPython takes a minute to compile; set {EVERYTHING}");
        return;
    }
    PYTHON.try_templates(&ALL, TEST);
}

#[test]
fn templates_in_javascript_keep_what_they_promise() {
    JAVASCRIPT.try_templates(
        templates(&["environment-tools", "reward-judge", "reflector"]),
        "templates_in_javascript_keep_what_they_promise",
    );
}

#[test]
fn templates_in_c_keep_what_they_promise() {
    C.try_templates(&["environment", "reward"], "templates_in_c_keep_what_they_promise");
}

/// What the agent saw and did, and its reward, in every episode of a run of the plugin in this folder. One reward judges all languages.
fn episodes(desk: &Desk, folder: &str) -> Vec<serde_json::Value> {
    let reward = desk.path("rust-environment/reward").display().to_string();
    desk.out(folder, &["run", ".", "--reward", &reward, "--episodes", "6", "--seed", "7", "--quiet"], 0);
    let exported = desk.out(".", &["episodes", "export", "--run", "last"], 0);
    let parsed = exported.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let shown = parsed.map(|episode| {
        let turns: Vec<_> = episode["turns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|turn| serde_json::json!([turn["observation"], turn["action"], turn["signals"]]))
            .collect();
        serde_json::json!([episode["task"]["id"], turns, episode["reward"]])
    });
    shown.collect()
}

#[test]
fn a_seed_gives_the_same_episodes_in_every_language() {
    const TEST: &str = "a_seed_gives_the_same_episodes_in_every_language";
    let Some(desk) = Desk::with_toolchain(TEST) else { return };
    desk.out(".", &["new", "environment", "my-environment", "--folder", "rust-environment"], 0);
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    std::fs::copy(lock, desk.path("rust-environment/Cargo.lock")).unwrap();
    desk.out("rust-environment", &["build", "--quiet"], 0);
    let expected = episodes(&desk, "rust-environment");
    assert_eq!(expected.len(), 6);
    for language in [JAVASCRIPT, C, PYTHON] {
        let Some(compiler) = language.compiler(TEST) else { continue };
        let folder = format!("{}-alone", language.name);
        desk.out(".", &["new", "environment", "my-environment", "--lang", language.name, "--folder", &folder], 0);
        let manifest = desk.read(&format!("{folder}/claw.toml"));
        assert!(manifest.contains("rewards = [\"./reward\"]"));
        desk.write(&format!("{folder}/claw.toml"), &manifest.replace("rewards = [\"./reward\"]", "rewards = []"));
        let built = desk.command(&folder, &["build", "--quiet"]).env(language.variable, &compiler).output().unwrap();
        assert!(built.status.success(), "{folder}: {}", stderr(&built));
        assert_eq!(episodes(&desk, &folder), expected, "{folder}");
    }
}

#[test]
fn a_mistake_in_a_plugin_is_said_and_keeps_the_old_component() {
    const TEST: &str = "a_mistake_in_a_plugin_is_said_and_keeps_the_old_component";
    let cases = [
        (&JAVASCRIPT, "src/plugin.js", "from \"clawhost\"", "from \"clawhots\"", "clawhots"),
        (&JAVASCRIPT, "src/plugin.js", "export default class", "class", "default"),
        (&C, "src/plugin.c", "claw_reference(", "claw_reverence(", "claw_reverence"),
    ];
    for (language, path, right, wrong, says) in cases {
        let Some(compiler) = language.compiler(TEST) else { continue };
        let desk = Desk::new();
        let folder = language.build(&desk, &compiler, "reward");
        let component = desk.path(&format!("{folder}/build/my-reward.wasm"));
        let before = std::fs::read(&component).unwrap();
        let source = desk.read(&format!("{folder}/{path}"));
        assert!(source.contains(right), "{path}");
        desk.write(&format!("{folder}/{path}"), &source.replace(right, wrong));
        let failed = desk.command(&folder, &["build", "--quiet"]).env(language.variable, &compiler).output().unwrap();
        assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
        assert!(stderr(&failed).contains("the build of . failed"), "{}", stderr(&failed));
        assert!(stderr(&failed).contains(says), "{}", stderr(&failed));
        assert_eq!(std::fs::read(&component).unwrap(), before);
    }
}

#[test]
fn a_name_of_the_sdk_and_a_compiler_that_does_not_run_are_named() {
    let desk = Desk::new();
    desk.out(".", &["new", "reward", "fair", "--lang", "js"], 0);
    let build = |variable: &str, value: &Path| {
        let output = desk.command("fair", &["build"]).env(variable, value).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        stderr(&output)
    };
    let said = build("COMPONENTIZE_QJS", &desk.path("nothing"));
    assert!(
        said.contains("componentize-qjs is needed to build a plugin in js, and is not there: COMPONENTIZE_QJS names"),
        "{said}"
    );
    let Some(compiler) = JAVASCRIPT.compiler("a_name_of_the_sdk_and_a_compiler_that_does_not_run_are_named") else {
        return;
    };
    desk.write("fair/src/reward.js", "");
    let said = build("COMPONENTIZE_QJS", &compiler);
    assert!(said.contains("src/reward.js has a name of the SDK; rename it"), "{said}");
}
