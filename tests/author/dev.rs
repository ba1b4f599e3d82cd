//! `clawhost dev`: a change is built and tried, and a component that fails never replaces one that works.

use super::Desk;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

/// A running `clawhost dev`, which is ended with the test.
struct Watching {
    child: Child,
    events: Lines<BufReader<ChildStdout>>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Watching {
    fn begin(desk: &Desk, folder: &str) -> Self {
        let mut child =
            desk.command(folder, &["dev", "--json"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let events = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, events }
    }

    /// All events until it waits for a change.
    fn until_waiting(&mut self) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let line = self.events.next().expect("it goes on").unwrap();
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["event"] == "waiting" {
                return seen;
            }
            seen.push(event);
        }
    }
}

fn named<'e>(events: &'e [Value], name: &str) -> Option<&'e Value> {
    events.iter().find(|event| event["event"] == name)
}

#[test]
fn a_change_is_tried_and_a_failure_keeps_the_component_before() {
    let Some(desk) = Desk::with_toolchain("a_change_is_tried_and_a_failure_keeps_the_component_before") else { return };
    desk.out(".", &["new", "environment", "tower"], 0);
    let lock = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    std::fs::copy(lock, desk.path("tower/Cargo.lock")).unwrap();
    let source = desk.read("tower/src/lib.rs");
    let component = || std::fs::read(desk.path("tower/build/tower.wasm")).unwrap();
    let mut watching = Watching::begin(&desk, "tower");
    let first = watching.until_waiting();
    assert!(named(&first, "accepted").is_some(), "{first:?}");
    assert_eq!(named(&first, "played").unwrap()["episode"]["reward"], 1.0);
    assert_eq!(named(&first, "tested").unwrap()["test"]["cases"].as_array().unwrap().len(), 3);
    let works = component();

    // It panics: the episode fails, and the component that works stays.
    desk.write(
        "tower/src/lib.rs",
        &source.replace("let answer: i64", "assert!(action.is_empty());\n        let answer: i64"),
    );
    let broken = watching.until_waiting();
    assert!(named(&broken, "changed").unwrap()["files"].to_string().contains("src/lib.rs"), "{broken:?}");
    let refused = named(&broken, "refused").unwrap();
    assert!(refused["why"].as_str().unwrap().starts_with("the episode failed: "), "{refused}");
    assert_eq!((&refused["has_old"], component() == works), (&true.into(), true));

    // It does not compile.
    desk.write("tower/src/lib.rs", "no Rust");
    let refused = watching.until_waiting();
    assert!(
        named(&refused, "refused").unwrap()["why"].as_str().unwrap().contains("the build of . failed"),
        "{refused:?}"
    );

    // The manifest has a mistake; mended, it goes on.
    let manifest = desk.read("tower/claw.toml");
    desk.write("tower/claw.toml", &manifest.replace("kind =", "knd ="));
    let mistake = watching.until_waiting();
    assert!(
        named(&mistake, "refused").unwrap()["why"].as_str().unwrap().contains("did you mean `kind`?"),
        "{mistake:?}"
    );
    desk.write("tower/src/lib.rs", &source.replace("\"Right.\"", "\"Quite right.\""));
    desk.write("tower/claw.toml", &manifest);
    let mut mended = watching.until_waiting();
    while named(&mended, "accepted").is_none() {
        mended = watching.until_waiting();
    }
    assert_ne!(component(), works);
    let again = desk.json("tower", &["inspect", "."], 0);
    assert_eq!(again["plugin"]["digest"], named(&mended, "accepted").unwrap()["digest"]);
}

#[test]
fn once_it_ends_with_an_exit_code() {
    let Some(desk) = Desk::with_toolchain("once_it_ends_with_an_exit_code") else { return };
    desk.out(".", &["new", "reward", "fair"], 0);
    let lock = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    std::fs::copy(lock, desk.path("fair/Cargo.lock")).unwrap();
    let said = desk.out("fair", &["dev", "--once"], 0);
    assert!(said.contains("tests       3 of 3 cases passed") && said.contains("ready       build/fair.wasm"), "{said}");
    desk.write("fair/src/lib.rs", "no Rust");
    let said = desk.out("fair", &["dev", "--once"], 1);
    assert!(said.contains("not taken") && said.contains("the component before stays"), "{said}");
}
