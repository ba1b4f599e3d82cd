//! From nothing to a scored episode with three commands, for every template.

use super::{Desk, stderr};
use std::process::Command;

const TEMPLATES: [&str; 5] = ["environment", "environment-tools", "reward", "reward-judge", "reflector"];

/// A new plugin that builds without a network: with the versions that this workspace has.
fn new(desk: &Desk, template: &str, name: &str) {
    desk.out(".", &["new", template, name], 0);
    let lock = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    std::fs::copy(lock, desk.path(name).join("Cargo.lock")).unwrap();
}

#[test]
fn every_template_builds_passes_its_tests_and_keeps_what_it_promises() {
    let Some(desk) = Desk::with_toolchain("every_template_builds_passes_its_tests_and_keeps_what_it_promises") else {
        return;
    };
    for template in TEMPLATES {
        let name = format!("my-{template}");
        new(&desk, template, &name);
        let built = desk.json(&name, &["build", "--quiet"], 0);
        let component = built["built"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(component["name"], name.as_str());
        let tested = desk.json(&name, &["test"], 0);
        assert!(tested["test"]["cases"].as_array().unwrap().len() >= 2, "{template}");
        let checked = desk.json(&name, &["check"], 0);
        assert_eq!(
            (&checked["passed"], &checked["plugin"]["digest"]),
            (&true.into(), &component["digest"]),
            "{template}"
        );
        // The manifest travels in the component.
        let inspected = desk.json(&name, &["inspect", &format!("build/{name}.wasm")], 0);
        assert_eq!(inspected["plugin"]["manifest"]["plugin"]["name"], name.as_str());
        assert_eq!(inspected["plugin"]["digest"], component["digest"]);
    }
    let played = desk.json("my-environment", &["run", ".", "--episodes", "5"], 0);
    assert_eq!(played["reward_mean"], 1.0, "{played:#}");
    let rules = ["run", ".", "--episodes", "5", "--system-prompt-file", "rules.txt"];
    assert_eq!(desk.json("my-environment-tools", &rules, 0)["reward_mean"], 1.0);
    // Without the rules the follower does not know what to do.
    assert_eq!(desk.json("my-environment-tools", &["run", ".", "--episodes", "5"], 0)["reward_mean"], 0.0);
    // The judge asks for a model, which the operator must grant; then it is said what it may use.
    let judge = ["run", "my-environment", "--reward", "my-reward-judge", "--episodes", "1"];
    let refused = desk.run(".", &judge);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let said = stderr(&refused);
    assert!(said.contains("my-reward-judge asks for llm:judge, which is not granted"), "{said}");
    assert!(said.contains("--grant llm:judge=openai:MODEL@http://HOST:PORT/v1"), "{said}");
    desk.write("marks.txt", "7\n");
    let granted = desk.run(".", &[&judge[..], &["--grant", "llm:judge=script:marks.txt"]].concat());
    assert!(granted.status.success(), "{}", stderr(&granted));
    assert!(stderr(&granted).contains("my-reward-judge may use llm:judge=script:script"), "{}", stderr(&granted));
}

#[test]
fn a_new_plugin_is_a_repository_and_never_replaces_what_is_there() {
    let desk = Desk::new();
    desk.out(".", &["new", "reward", "fair"], 0);
    if Command::new("git").arg("--version").output().is_ok() {
        assert!(desk.path("fair/.git").is_dir());
    }
    let refuses = |arguments: &[&str], says: &str| {
        let output = desk.run(".", arguments);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    };
    refuses(
        &["new", "reward", "fair"],
        "fair: there is something in it already; a new plugin gets a folder of its own",
    );
    refuses(&["new", "reward", "Fair Play"], "small letters (a to z), digits and single hyphens");
    refuses(&["new", "reward", "x", "--sdk", "none"], "there is no SDK");
    refuses(&["new", "reflector", "x", "--lang", "c"], "there is no template `reflector` in c");
    refuses(&["build", "data"], "data is a folder without claw.toml, so it is no plugin");
    refuses(&["run", "fair"], "the plugin is not built yet");
    let helped = stderr(&desk.run(".", &["run", "fair"]));
    assert!(helped.contains("`clawhost build fair` builds it"), "{helped}");
}

#[test]
fn a_plugin_is_built_through_links_and_from_elsewhere() {
    let Some(desk) = Desk::with_toolchain("a_plugin_is_built_through_links_and_from_elsewhere") else { return };
    std::fs::create_dir_all(desk.path("deep/inside")).unwrap();
    // The working folder, if it is empty.
    desk.out("deep/inside", &["new", "reward", "fair", "--folder", "."], 0);
    let lock = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    std::fs::copy(lock, desk.path("deep/inside/Cargo.lock")).unwrap();
    std::os::unix::fs::symlink(desk.path("deep/inside"), desk.path("link")).unwrap();
    let digest =
        |folder: &str, name: &str| desk.json(folder, &["build", name, "--quiet"], 0)["built"][0]["digest"].clone();
    let first = digest("deep/inside", ".");
    assert_eq!(digest("deep", "../deep/inside"), first);
    assert_eq!(digest(".", "link"), first);
}

#[test]
fn a_build_that_fails_says_what_the_compiler_says_and_keeps_the_old_component() {
    let Some(desk) = Desk::with_toolchain("a_build_that_fails_says_what_the_compiler_says") else { return };
    new(&desk, "reward", "fair");
    desk.out("fair", &["build", "--quiet"], 0);
    let before = std::fs::read(desk.path("fair/build/fair.wasm")).unwrap();
    let source = desk.read("fair/src/lib.rs");
    desk.write("fair/src/lib.rs", &source.replace("let wanted", "let unknown"));
    let output = desk.run("fair", &["build"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("cannot find value `wanted`"), "{said}");
    assert!(said.contains("the build of . failed"), "{said}");
    assert_eq!(std::fs::read(desk.path("fair/build/fair.wasm")).unwrap(), before);
    let quiet = desk.run("fair", &["build", "--quiet"]);
    assert!(
        stderr(&quiet).contains("cannot find value `wanted`"),
        "a quiet build that fails says why: {}",
        stderr(&quiet)
    );
    // Sources that are newer than the component are said, before old code is tested. Both can have one tick of the
    // clock of the file system, so the component is made older.
    let component = std::fs::File::options().write(true).open(desk.path("fair/build/fair.wasm")).unwrap();
    component.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let tested = desk.run("fair", &["test"]);
    assert!(stderr(&tested).contains("sources are newer than the component"), "{}", stderr(&tested));
}

#[test]
fn a_plugin_never_gets_the_component_of_another_one_with_its_name() {
    let Some(desk) = Desk::with_toolchain("a_plugin_never_gets_the_component_of_another_one_with_its_name") else {
        return;
    };
    new(&desk, "reward", "fair");
    desk.out(".", &["new", "reward", "fair", "--folder", "other"], 0);
    std::fs::copy(desk.path("fair/Cargo.lock"), desk.path("other/Cargo.lock")).unwrap();
    let source = desk.read("fair/src/lib.rs");
    desk.write("other/src/lib.rs", &source.replace("let wanted", "let unknown"));
    // The sources of the one are older than what was built of the other.
    desk.out("fair", &["build", "--quiet"], 0);
    let said = desk.run("other", &["build"]);
    assert_eq!(said.status.code(), Some(1), "{}", stderr(&said));
    assert!(stderr(&said).contains("cannot find value `wanted`"), "{}", stderr(&said));
}

#[test]
fn equal_sources_give_equal_components_in_other_folders() {
    let Some(desk) = Desk::with_toolchain("equal_sources_give_equal_components_in_other_folders") else { return };
    new(&desk, "reward", "fair");
    let digest = |folder: &str| desk.json(folder, &["build", "--quiet"], 0)["built"][0]["digest"].clone();
    let first = digest("fair");
    std::fs::create_dir(desk.path("elsewhere")).unwrap();
    std::fs::rename(desk.path("fair"), desk.path("elsewhere/fair")).unwrap();
    assert_eq!(digest("elsewhere/fair"), first);
}

#[test]
fn a_missing_tool_is_named_with_how_to_get_it() {
    let desk = Desk::new();
    desk.out(".", &["new", "reward", "fair"], 0);
    let output = desk.command("fair", &["build"]).env("PATH", desk.path("empty")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains(
            "rustc is needed to build a plugin in rust, and is not there: install Rust from https://rustup.rs"
        ),
        "{said}"
    );
    assert!(said.contains("`clawhost doctor` checks what builds need"), "{said}");
}

#[test]
fn a_command_takes_the_place_of_the_build_of_a_language() {
    let desk = Desk::new();
    let manifest = |build: &str| super::manifest("fair", "reward", &format!("[build]\nlanguage = \"python\"\n{build}"));
    // A command that makes no component, and one that fails.
    desk.write("fair/claw.toml", &manifest("command = [\"true\"]\ncomponent = \"made.wasm\"\n"));
    let output = desk.run("fair", &["build"]);
    assert!(stderr(&output).contains("the build of . failed (made.wasm: "), "{}", stderr(&output));
    desk.write("fair/claw.toml", &manifest("command = [\"false\"]\ncomponent = \"made.wasm\"\n"));
    let output = desk.run("fair", &["build"]);
    assert!(stderr(&output).contains("the build of . failed (exit status: 1)"), "{}", stderr(&output));
}
