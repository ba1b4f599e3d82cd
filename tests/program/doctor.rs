//! `clawhost doctor` and `clawhost completions`.

use super::*;

#[test]
fn the_doctor_says_what_is_missing_what_it_costs_and_how_to_get_it() {
    let Some(bench) = Bench::new("the_doctor_says") else { return };
    // Toolchains are found by the user's own environment.
    let output = bench
        .command(&["doctor", "--json"])
        .envs(std::env::vars())
        .env("CLAWHOST_HOME", bench.data.path())
        .output()
        .unwrap();
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let findings = seen["findings"].as_array().unwrap();
    for topic in
        ["rust", "wasm target", "linker", "data folder", "memory maps", "python", "c", "openai key", "anthropic key"]
    {
        let finding = findings.iter().find(|finding| finding["topic"] == topic).unwrap_or_else(|| panic!("{topic}"));
        let well = finding["state"] == "good";
        assert_eq!(finding["costs"].is_null(), well, "{finding}");
        assert_eq!(finding["remedy"].is_null(), well, "{finding}");
    }
    assert_eq!(output.status.code(), Some(i32::from(findings.iter().any(|finding| finding["state"] == "broken"))));
    assert_eq!(std::fs::read_dir(bench.data.path()).unwrap().count(), 0, "looking changes nothing");

    let mut bare = bench.command(&["doctor"]);
    let output = bare.env("PATH", "/nowhere").env("ANTHROPIC_API_KEY", "sk-canary-4712").output().unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("no rustc on the path") && text.contains("https://rustup.rs"), "{text}");
    assert!(text.contains("ANTHROPIC_API_KEY is set") && !text.contains("sk-canary-4712"), "{text}");
    assert!(text.contains("optional things are missing"), "{text}");
}

#[test]
fn the_doctor_names_what_is_broken() {
    let Some(bench) = Bench::new("the_doctor_names") else { return };
    std::fs::write(bench.data.path().join("clawhost.sqlite"), "no database".repeat(1000)).unwrap();
    let output = bench.run(&["doctor"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("not a usable database"), "{}", stdout(&output));

    let stub = stub::Stub::start(|_, _| stub::Reply::Http(404, vec![], "no such model".into()));
    let policy = format!("anthropic:nobody@{}", stub.base_url());
    let not_there = bench.data.path().join("not-there");
    let folder = not_there.display().to_string();
    let output = bench.run(&["doctor", "--policy", &policy, "--data", &folder, "--retries", "0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("check the model name `nobody`"), "{}", stdout(&output));
    let fine = bench.run(&["doctor", "--policy", "follower", "--data", &folder]);
    assert!(fine.status.success() && stdout(&fine).contains("follower answers: `ready`"), "{}", stdout(&fine));
    assert!(!not_there.exists());
}

#[test]
fn every_shell_gets_its_completions() {
    let Some(bench) = Bench::new("every_shell_gets_its_completions") else { return };
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = bench.run(&["completions", shell]);
        let script = stdout(&output);
        assert!(output.status.success() && script.contains("failure-budget") && script.contains("doctor"), "{shell}");
    }
    let script = bench.data.path().join("completions.bash");
    std::fs::write(&script, bench.run(&["completions", "bash"]).stdout).unwrap();
    match Command::new("bash").arg("-n").arg(&script).status() {
        Ok(status) => assert!(status.success(), "bash reads it"),
        Err(_) => eprintln!("no bash here: its completions were not read"),
    }
}
