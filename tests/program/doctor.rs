//! `clawhost doctor` and `clawhost completions`.

use super::*;

#[test]
fn the_doctor_reports_missing_parts_with_consequence_and_remedy() {
    let Some(bench) = Bench::empty("the_doctor_says") else { return };
    // Toolchains are found with the user's own environment.
    let output = bench
        .command(&["doctor", "--json"])
        .envs(std::env::vars())
        .env("CLAWHOST_HOME", bench.data.path())
        .output()
        .unwrap();
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let findings = seen["findings"].as_array().unwrap();
    for topic in [
        "rust",
        "wasm target",
        "linker",
        "c compiler",
        "data folder",
        "memory maps",
        "python",
        "c",
        "openai key",
        "anthropic key",
    ] {
        let finding = findings.iter().find(|finding| finding["topic"] == topic).unwrap_or_else(|| panic!("{topic}"));
        let well = finding["state"] == "good";
        assert_eq!(finding["costs"].is_null(), well, "{finding}");
        assert_eq!(finding["remedy"].is_null(), well, "{finding}");
    }
    assert_eq!(output.status.code(), Some(i32::from(findings.iter().any(|finding| finding["state"] == "broken"))));
    assert_eq!(std::fs::read_dir(bench.data.path()).unwrap().count(), 0, "the doctor changes nothing");

    let mut bare = bench.command(&["doctor"]);
    let output = bare.env("PATH", "/nowhere").env("ANTHROPIC_API_KEY", "sk-canary-4712").output().unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("no rustc on the path") && text.contains("https://rustup.rs"), "{text}");
    assert!(text.contains("ANTHROPIC_API_KEY is set") && !text.contains("sk-canary-4712"), "{text}");
    assert!(text.contains("optional things are missing"), "{text}");
}

#[test]
fn the_doctor_reports_broken_parts() {
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

/// Programs that the doctor may find: each says its version. Those that are not named here are not on the path.
#[cfg(unix)]
fn machine_with(folder: &Path, programs: &[(&str, &str)]) {
    use std::os::unix::fs::PermissionsExt as _;
    for (name, script) in programs {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn the_doctor_helps_on_machines_that_lack_something() {
    let Some(bench) = Bench::new("the_doctor_helps") else { return };
    let sysroot = bench.data.path().join("rust");
    let beside = sysroot.join("lib/rustlib/host/bin");
    std::fs::create_dir_all(&beside).unwrap();
    std::fs::write(beside.join("wasm-component-ld"), "").unwrap();
    let rustc = format!("case $1 in --version) echo rustc 1.95.0;; *) echo '{}';; esac", sysroot.display());
    let check = |programs: &[(&str, &str)], topic: &str, state: &str, remedy: Option<&str>| {
        let path = tempfile::tempdir().unwrap();
        machine_with(path.path(), programs);
        let output = bench.command(&["doctor", "--json"]).env("PATH", path.path()).output().unwrap();
        assert!(output.status.success(), "no necessary part is broken: {}", stdout(&output));
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = seen["findings"].as_array().unwrap().iter().find(|finding| finding["topic"] == topic).unwrap();
        assert_eq!((found["state"].as_str(), found["remedy"].as_str()), (Some(state), remedy), "{found}");
    };
    let (rustc, cc, rustup) = (("rustc", rustc.as_str()), ("cc", "echo cc 12"), ("rustup", "echo rustup 1"));
    let add = "rustup target add wasm32-unknown-unknown";
    check(&[rustc, cc, rustup], "wasm target", "missing", Some(add));
    let from_a_distribution = format!("install Rust from https://rustup.rs, then `{add}`");
    check(&[rustc, cc], "wasm target", "missing", Some(&from_a_distribution));
    check(&[rustc, cc, rustup], "c compiler", "good", None);
    let install = match std::env::consts::OS {
        "macos" => "install the command line tools of Xcode",
        _ => "install gcc or clang with your system's package manager (Debian: apt-get install gcc libc6-dev)",
    };
    check(&[rustc, rustup], "c compiler", "missing", Some(install));
    let target = sysroot.join("lib/rustlib/wasm32-unknown-unknown/lib");
    std::fs::create_dir_all(&target).unwrap();
    std::fs::write(target.join("libstd-0.rlib"), "").unwrap();
    check(&[rustc, cc, rustup], "wasm target", "good", None);
}

/// The kernel's `/proc` cannot be written, even by root.
#[cfg(target_os = "linux")]
#[test]
fn the_doctor_says_that_a_folder_cannot_be_written_and_what_to_do() {
    let Some(bench) = Bench::new("the_doctor_says_that_a_folder") else { return };
    let output = bench.run(&["doctor", "--data", "/proc/clawhost"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains("/proc cannot be written: ") && text.contains("nothing can be recorded"), "{text}");
    assert!(text.contains("to fix it: fix its permissions, or choose another --data folder"), "{text}");
    // A run fails at once with the same advice, before anything is played.
    let output = bench.run(&["run", &bench.guest("env_guess"), "--episodes", "1", "--data", "/proc/clawhost"]);
    assert!(!output.status.success() && output.stdout.is_empty(), "{}", stdout(&output));
    assert!(stderr(&output).contains("/proc/clawhost") && stderr(&output).contains("--data"), "{}", stderr(&output));
}

#[test]
fn every_shell_has_completions() {
    let Some(bench) = Bench::new("every_shell_has_completions") else { return };
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
