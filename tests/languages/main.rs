//! Plugins in other languages: an environment in Python, rewards in C and in JavaScript, played and scored together.
//!
//! `cargo xtask test` builds those whose compilers are installed, and reports what is missing for the others.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

#[path = "../common/guests.rs"]
#[allow(dead_code, reason = "each suite uses its part")]
mod guests;

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

/// These components, or `None` to skip with the reason.
fn built<const N: usize>(test: &str, components: [&str; N]) -> Option<[String; N]> {
    let folder = guests::folder_or_skip(test)?.join("languages");
    for component in components {
        if !folder.join(format!("{component}.wasm")).exists() {
            let why = std::fs::read_to_string(folder.join(format!("{component}.skipped")));
            let why = why.unwrap_or_else(|_| "not built; run `cargo xtask languages`".to_owned());
            eprintln!("skipped {test}: {component}: {why}");
            return None;
        }
    }
    Some(components.map(|component| folder.join(format!("{component}.wasm")).display().to_string()))
}

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clawhost"));
        command.args(arguments).env_clear().env("CLAWHOST_HOME", self.0.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn refused(&self, arguments: &[&str], code: i32, says: &str) {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(says), "{arguments:?}: {says} in {text}");
    }

    /// The newest run replays byte for byte.
    fn replays(&self, episodes: u64) {
        let report = self.json(&["replay"])["report"].clone();
        assert_eq!(report["episodes"]["exact"], episodes, "{report}");
        assert_eq!(report["findings"], serde_json::json!([]));
        assert!(report["verdicts"]["exact"].as_u64().unwrap() >= episodes);
    }

    /// Cached compiled code, and when it was written.
    fn cached(&self) -> Vec<(PathBuf, SystemTime)> {
        let entries = std::fs::read_dir(self.0.path().join("cache")).unwrap().flatten();
        let mut kept: Vec<_> =
            entries.map(|entry| (entry.path(), entry.metadata().unwrap().modified().unwrap())).collect();
        kept.sort();
        kept
    }
}

#[test]
fn an_environment_in_python_is_scored_by_a_reward_in_c() {
    let Some([quiz, reward]) = built("an_environment_in_python", ["python_quiz", "c_last_answer"]) else { return };
    let bench = Bench::new();
    bench.refused(&["run", &quiz], 3, "--allow-interpreters");
    let run = ["run", &quiz, "--allow-interpreters", "--reward", &reward, "--episodes", "60", "--seed", "1"];
    let summary = bench.json(&run);
    assert_eq!(summary["endings"]["terminated"], 60);
    let mean = summary["reward_mean"].as_f64().unwrap();
    assert!((0.05..0.55).contains(&mean), "one of four at random: {mean}");
    let again = bench.json(&run);
    assert_eq!(summary["episodes"], again["episodes"], "equal seeds give equal runs in Python");
    bench.replays(60);

    let options = format!("{quiz}?words=9");
    bench.refused(&["run", &options, "--allow-interpreters"], 2, "must be a whole number from 3 to 6");
    let inspected = bench.json(&["inspect", &quiz, "--allow-interpreters"]);
    let imports = inspected["plugin"]["permissions"].to_string();
    assert!(
        !imports.contains("clawhost:llm") && !imports.contains("clawhost:kv"),
        "it asks for nothing that it does not use"
    );
}

#[test]
fn a_reward_in_c_is_as_small_as_one_in_rust_and_imports_nothing() {
    let Some([reward]) = built("a_reward_in_c", ["c_last_answer"]) else { return };
    let inspected = Bench::new().json(&["inspect", &reward]);
    assert_eq!(inspected["plugin"]["about"]["name"], "c-last-answer");
    assert!(inspected["plugin"]["size"].as_u64().unwrap() < 64 * 1024);
    assert!(!inspected["plugin"]["permissions"].to_string().contains("wasi:"), "{inspected:#}");
}

#[test]
fn a_reward_in_javascript_works_beside_one_in_rust() {
    let Some([brevity]) = built("a_reward_in_javascript", ["js_brevity"]) else { return };
    let folder = guests::folder_or_skip("a_reward_in_javascript").unwrap();
    let guest = |name: &str| folder.join(format!("{name}.wasm")).display().to_string();
    let bench = Bench::new();
    let (math, exact) = (guest("env_math"), guest("reward_exact"));
    let run = ["run", &math, "--reward", &exact, "--reward", &brevity, "--episodes", "20", "--seed", "7"];
    let summary = bench.json(&run);
    assert_eq!(summary["by_reward"][1]["mean"], 1.0, "the follower is brief");
    assert_eq!(summary["rewards"][1]["source"], "execution");
    bench.replays(20);
    let strict = format!("{brevity}?words=2");
    let scored = bench.json(&["score", "--reward", &strict]);
    assert!(scored["report"]["rewards"][0]["mean"].as_f64().unwrap() < 1.0, "not in two words");
    bench.refused(
        &["run", &math, "--reward", &format!("{brevity}?words=none")],
        2,
        "must be a whole number from 1 to 1000",
    );
    // It does not fit the pool, but is compiled only once, and the cached code is used.
    let before = bench.cached();
    for _ in 0..2 {
        let mut command = bench.command(&run);
        let output = command.env("CLAWHOST_LOG", "clawhost_engine=debug").output().unwrap();
        assert!(
            output.status.success() && !String::from_utf8_lossy(&output.stderr).contains("compiling"),
            "{output:?}"
        );
    }
    assert_eq!(bench.cached(), before, "nothing was compiled again");
}

#[test]
fn datasets_of_reasoning_gym_ask_and_score_as_the_library_does() {
    const TEST: &str = "datasets_of_reasoning_gym_ask_and_score_as_the_library_does";
    let Some(guests) = guests::folder_or_skip(TEST) else { return };
    let components = guests.join("reasoning-gym");
    let python = guests.join("../toolchains/reasoning-gym/bin/python");
    if !components.join("rg-small-reward.wasm").exists() || !python.exists() {
        eprintln!("skipped {TEST}: not built; run `cargo xtask languages`");
        return;
    }
    let bench = Bench::new();
    let compare = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/reasoning-gym/compare.py");
    let mut command = Command::new(python);
    command.arg(compare).arg(env!("CARGO_BIN_EXE_clawhost")).arg(&components).arg(bench.0.path());
    let output = command.args(["small", "--tasks", "3"]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    // Three datasets, each with three tasks and ten answers to each.
    let rows =
        said.lines().filter(|line| line.split_whitespace().nth(2) == Some("30") && line.trim_end().ends_with(" 0"));
    assert_eq!(rows.count(), 3, "{said}");
}
