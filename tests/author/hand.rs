//! `clawhost play`: a person is the agent, at a pseudo-terminal or with a file of answers.

use super::{Desk, guests, stderr};
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

#[test]
fn answers_from_a_file_play_an_episode_that_is_judged() {
    let Some(guests) = guests::folder_or_skip("answers_from_a_file_play_an_episode_that_is_judged") else { return };
    let desk = Desk::new();
    let plugin = |name: &str| guests.join(format!("{name}.wasm")).display().to_string();
    let task = desk.json(
        ".",
        &["tasks", &plugin("env_math"), "--limit", "1", "--split", "train", "--seed", "2", "--reference"],
        0,
    );
    let reference: serde_json::Value =
        serde_json::from_str(task["tasks"]["splits"][0]["listed"][0]["reference"].as_str().unwrap()).unwrap();
    let answer = reference.as_str().map_or_else(|| reference.to_string(), str::to_owned);
    let play = |answers: &str, more: &[&str]| {
        desk.write("answers.txt", answers);
        let arguments = ["play", &plugin("env_math"), "--reward", &plugin("reward_exact"), "--seed", "2"];
        let mut command = desk.command(".", &[&arguments[..], more].concat());
        let output = command.stdin(std::fs::File::open(desk.path("answers.txt")).unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = play(&format!("{answer}\n"), &[]);
    assert!(said.contains("verdict   1") || said.contains("reward    1"), "{said}");
    assert!(said.contains("ended     "), "{said}");
    let said = play("/quit\n", &[]);
    assert!(said.contains("stopped by you, 0 turns"), "{said}");
    let document: serde_json::Value = serde_json::from_str(&play(&format!("{answer}\n"), &["--json"])).unwrap();
    assert_eq!(document["episode"]["reward"], 1.0);
}

#[test]
fn a_task_that_is_not_published_is_named() {
    let Some(guests) = guests::folder_or_skip("a_task_that_is_not_published_is_named") else { return };
    let desk = Desk::new();
    let output = desk.run(".", &["play", &guests.join("env_math.wasm").display().to_string(), "--task", "none"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("there is no task `none` in split train") && said.contains("clawhost tasks PLUGIN"),
        "{said}"
    );
}

#[test]
fn a_person_at_a_terminal_sees_tools_and_is_told_what_was_not_understood() {
    let Some(guests) = guests::folder_or_skip("a_person_at_a_terminal_sees_tools") else { return };
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped a_person_at_a_terminal_sees_tools: there is no `script`");
        return;
    }
    let desk = Desk::new();
    let shop = guests.join("env_shop.wasm").display().to_string();
    let line = format!("'{}' play '{shop}' --seed 1", env!("CARGO_BIN_EXE_clawhost"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("CLAWHOST_HOME", desk.data()).env("TERM", "xterm-256color");
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut keys = child.stdin.take().unwrap();
    let mut screen = child.stdout.take().unwrap();
    let mut seen = String::new();
    // Types the next line whenever the program asks for one.
    let mut lines = ["calls nonsense", "/tools", "calls offer_credit {}", "/quit"].into_iter();
    let mut answered = 0;
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = screen.read(&mut buffer) {
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        while seen.matches("\n> ").count() > answered {
            answered += 1;
            if let Some(line) = lines.next() {
                writeln!(keys, "{line}").unwrap();
            }
        }
    }
    child.wait().unwrap();
    let plain = seen.replace('\r', "");
    assert!(
        plain.matches("offer_credit: ").count() >= 2,
        "the tools are shown at the beginning and on request: {plain}"
    );
    assert!(plain.contains("not understood"), "{plain}");
    assert!(plain.contains("calls offer_credit {"), "{plain}");
    assert!(plain.contains("stopped by you, 1 turn"), "{plain}");
}
