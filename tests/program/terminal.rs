//! Nothing from outside reaches a terminal raw: checked on a pseudo-terminal, because output to pipes has no styles.

use super::*;
use std::process::{Command, Stdio};

/// What a hostile name does: it sets the title, clears the screen, hides what follows, uses a C1 control character, reorders text,
/// breaks the line for some readers, and hides a text in tags.
const HOSTILE: &str = "x\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[8m\u{9b}31m\u{202e}\u{2028}\u{e0041}\u{7f}\r";

/// The styles that the program itself uses.
const STYLES: [&str; 11] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[3m",
    "\u{1b}[4m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[36m",
    "\u{1b}[1;31m",
    "\u{1b}[1;33m",
];

/// What a command writes on a terminal; `None` without the program `script`.
fn on_a_terminal(bench: &Bench, arguments: &[&str]) -> Option<String> {
    let quoted = |text: &&str| format!("'{}'", text.replace('\'', "'\\''"));
    let words: Vec<String> = std::iter::once(&env!("CARGO_BIN_EXE_clawhost")).chain(arguments).map(quoted).collect();
    let mut script = Command::new("script");
    script.args(["-qec", &words.join(" "), "/dev/null"]).stdin(Stdio::null());
    script.env("CLAWHOST_HOME", bench.data.path()).env("TERM", "xterm-256color");
    let output = script.output().ok()?;
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn nothing_from_outside_reaches_a_terminal_raw() {
    let Some(bench) = Bench::new("nothing_from_outside_reaches_a_terminal_raw") else { return };
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: nothing_from_outside_reaches_a_terminal_raw: there is no `script`");
        return;
    }
    let guess = bench.guest("env_guess");
    let played = bench.json(&["run", &guess, "--episodes", "1"]);
    let episode = played["episodes"][0]["id"].as_str().unwrap().to_owned();
    bench.out(&["feedback", &episode, "--score", "0.5", "--text", HOSTILE]);
    // A file and a folder may have such a name.
    let place = bench.data.path().join(HOSTILE);
    std::fs::create_dir(&place).unwrap();
    let copy = place.join(format!("{HOSTILE}.wasm")).display().to_string();
    std::fs::copy(&guess, &copy).unwrap();
    let toml = place.join(format!("{HOSTILE}.toml")).display().to_string();
    std::fs::write(&toml, format!("plugin = '{guess}'\n{HOSTILE} = 1\nseed = \"{}\"\n", HOSTILE.replace('\r', "")))
        .unwrap();
    // An error of the JSON reader quotes the name of a field.
    let forged = place.join("forged.json").display().to_string();
    let field = "\\u001b[31mRED";
    std::fs::write(&forged, format!(r#"{{"format":"clawhost-playbook","version":1,"{field}":1}}"#)).unwrap();
    let (model, folder) = (format!("openai:{HOSTILE}@http://127.0.0.1:9/v1"), format!("local:{}", place.display()));
    let hidden = place.display().to_string();
    let commands: [&[&str]; 27] = [
        &[HOSTILE],
        &["run", HOSTILE],
        &["run", &copy, "--episodes", "1"],
        &["run", &copy, "--data", &hidden, "--episodes", "1"],
        &["inspect", &copy],
        &["tasks", &copy, "--split", HOSTILE],
        &["run", &toml],
        &["run", &guess, "--policy", HOSTILE],
        &["run", &guess, "--policy", &model, "--retries", "0", "--episodes", "1"],
        &["run", &guess, "--policy", &folder],
        &["run", &guess, "--tasks", HOSTILE],
        &["run", &guess, "--name", HOSTILE],
        &["run", &guess, "--tag", HOSTILE],
        &["run", &guess, "--seed", HOSTILE],
        &["run", &guess, "--grant", HOSTILE],
        &["run", &guess, "--system-prompt-file", HOSTILE],
        &["run", &format!("{guess}?{HOSTILE}={HOSTILE}")],
        &["runs", "show", HOSTILE],
        &["runs", "rename", HOSTILE, HOSTILE],
        &["episodes", "show", HOSTILE],
        &["episodes", "show", &episode],
        &["episodes", "list", "--task", HOSTILE],
        &["episodes", "list", HOSTILE],
        &["playbook", "show", HOSTILE],
        &["playbook", "import", HOSTILE, &copy],
        &["playbook", "import", "shop", &forged],
        &["model", "info", &hidden],
    ];
    for arguments in commands {
        let drawn = on_a_terminal(&bench, arguments).unwrap();
        let mut plain = drawn.replace("\r\n", "\n");
        STYLES.iter().for_each(|style| plain = plain.replace(style, ""));
        // A bar draws itself over, on lines of its own, and is gone in the end.
        let drawing = ["\r\u{1b}[2K", "\u{1b}[2K", "\u{1b}[1A", "\u{1b}[1B", "\u{1b}[J", "\u{1b}[?25l", "\u{1b}[?25h"];
        drawing.iter().for_each(|step| plain = plain.replace(step, ""));
        assert!(!drawn.contains("\u{1b}[31mRED"), "a foreign style: {drawn:?}");
        let raw = plain.chars().find(|one| !matches!(one, '\n' | '\t') && clawhost_core::is_hidden(*one));
        assert_eq!(raw, None, "{arguments:?}: {plain:?}");
        assert!(!plain.is_empty(), "{arguments:?}");
    }
}

#[test]
fn json_output_has_no_hidden_characters_and_keeps_its_values() {
    let Some(bench) = Bench::new("json_output_has_no_hidden_characters") else { return };
    let played = bench.json(&["run", &bench.guest("env_guess"), "--episodes", "1"]);
    let episode = played["episodes"][0]["id"].as_str().unwrap().to_owned();
    bench.out(&["feedback", &episode, "--score", "0.5", "--text", HOSTILE]);
    for arguments in [&["episodes", "show", &episode, "--json"][..], &["episodes", "export"]] {
        let text = bench.out(arguments);
        assert!(!text.chars().any(|one| one != '\n' && clawhost_core::is_hidden(one)), "{text:?}");
        let document: Value = serde_json::from_str(&text).unwrap();
        assert!(text.contains("\\u009b") && text.contains("\\udb40\\udc41"), "{text}");
        assert!(document["verdicts"].to_string().contains("owned"), "{document}");
    }
}
