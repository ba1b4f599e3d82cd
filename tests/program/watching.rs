//! A gateway that is watched: `top`, `episodes tail`, the access log.

use super::*;
use crate::client::{answer_of, chat, send, user};
use crate::serving::Served;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Child;

/// A model that repeats the last message.
fn echo() -> stub::Stub {
    stub::Stub::start(|_, request| {
        let conversation = request.conversation();
        let said = &conversation.last().unwrap().1;
        match request.body["stream"] == true {
            true => stub::stream(stub::events(request, said, &[])),
            false => stub::says(request, said, &[]),
        }
    })
}

fn upstream(stub: &stub::Stub) -> String {
    format!("m=openai:stub@{}", stub.base_url())
}

/// A child process. Dropped, it is killed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn a_snapshot_of_a_gateway_is_printed_where_there_is_no_terminal() {
    let Some(bench) = Bench::new("a_snapshot_of_a_gateway") else { return };
    bench.refused(&["top"], &["no gateway runs in this data folder", "clawhost start"]);
    bench
        .refused(&["top", "--address", "127.0.0.1:1"], &["the gateway does not answer: 127.0.0.1:1 cannot be reached"]);
    let refusing = stub::Stub::start(|_, _| stub::Reply::Http(503, vec![], "\u{1b}[31mno".into()));
    let elsewhere = refusing.base_url();
    let elsewhere = elsewhere.trim_start_matches("http://").trim_end_matches("/v1");
    bench.refused(&["top", "--address", elsewhere], &["refuses the request, status 503: \\u{1b}[31mno"]);
    let stub = echo();
    let served = Served::start(&bench, &[&upstream(&stub)]);
    assert_eq!(answer_of(&served.address, &chat(&[user("4")])), "4");
    let shown = bench.out(&["top"]);
    for part in ["1 request", "0 errors", "1 recorded, 0 missed", "1 open", "in - (10), out - (2)", "openai:stub", "up"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let document = bench.json(&["top", "--address", &served.address]);
    assert_eq!(document["address"], served.address);
    assert_eq!((&document["summary"]["requests"], &document["counts"]["recorded"]), (&1.into(), &1.into()));
    assert!(document["summary"]["added_p99_us"].as_f64().is_some_and(|us| us > 0.0), "{document}");
}

#[test]
fn the_cost_is_shown_once_a_model_with_prices_has_answered() {
    let Some(bench) = Bench::new("the_cost_is_shown") else { return };
    let stub = echo();
    let (address, priced) = (stub.base_url(), "price_in_per_million = 2.5\nprice_out_per_million = 10.0\n");
    let text = format!("[models.m]\nmodel = \"openai:stub@{address}\"\n{priced}");
    std::fs::write(bench.data.path().join("gateway.toml"), text).unwrap();
    let served = Served::start(&bench, &[&format!("free=openai:stub@{address}")]);
    let ask = |alias: &str| answer_of(&served.address, &serde_json::json!({"model": alias, "messages": [user("4")]}));
    ask("free");
    assert!(!bench.out(&["top"]).contains("cost"), "nothing is known of it");
    assert_eq!(bench.json(&["top"])["summary"]["cost_micros"], Value::Null);
    ask("m");
    // 10 tokens read and 2 written.
    let shown = bench.out(&["top"]);
    assert!(shown.contains("cost") && shown.contains("0.000045 US dollars"), "{shown}");
    assert_eq!(bench.json(&["top"])["summary"]["cost_micros"], 45);
}

#[cfg(unix)]
#[test]
fn on_a_terminal_the_view_is_refreshed_and_ctrl_c_restores_the_screen() {
    let Some(bench) = Bench::new("on_a_terminal_the_view_is_refreshed") else { return };
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: on_a_terminal_the_view_is_refreshed: there is no `script`");
        return;
    }
    let stub = echo();
    let served = Served::start(&bench, &[&upstream(&stub)]);
    // A shell that stays between them would answer Ctrl-C with a status of its own.
    let words = format!("exec '{}' top", env!("CARGO_BIN_EXE_clawhost"));
    let mut script = Command::new("script");
    script.args(["-qec", &words, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    script.env("CLAWHOST_HOME", bench.data.path()).env("TERM", "xterm-256color");
    let mut running = Running(script.spawn().unwrap());
    let mut output = running.0.stdout.take().unwrap();
    let mut seen = Vec::new();
    let mut until = |text: &str| {
        while !String::from_utf8_lossy(&seen).contains(text) {
            let mut bytes = [0; 4096];
            let length = output.read(&mut bytes).unwrap();
            assert!(length > 0, "no {text:?}: {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&bytes[..length]);
        }
    };
    until("0 recorded");
    assert_eq!(answer_of(&served.address, &chat(&[user("4")])), "4");
    until("1 recorded");
    running.0.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    output.read_to_end(&mut seen).unwrap();
    let status = running.0.wait().unwrap();
    let seen = String::from_utf8_lossy(&seen);
    assert_eq!(status.code(), Some(0), "{seen}");
    assert!(seen.contains("\u{1b}[?1049h\u{1b}[?25l") && seen.ends_with("\u{1b}[?25h\u{1b}[?1049l"), "{seen:?}");
}

#[cfg(unix)]
#[test]
fn exchanges_are_followed_with_what_was_said_until_ctrl_c() {
    let Some(bench) = Bench::new("exchanges_are_followed") else { return };
    let stub = echo();
    let served = Served::start(&bench, &[&upstream(&stub)]);
    let follow = |arguments: &[&str]| {
        let mut child = bench.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        // It says that it follows once it does.
        let mut notes = BufReader::new(child.stderr.take().unwrap());
        let mut note = String::new();
        notes.read_line(&mut note).unwrap();
        assert!(note.contains("Ctrl-C ends"), "{note}");
        (Running(child), lines, notes)
    };
    let (mut text, mut shown, _text_notes) = follow(&["episodes", "tail"]);
    let (mut json, mut documents, _json_notes) = follow(&["episodes", "tail", "--json"]);
    let ask = |said: &str| {
        let body = serde_json::json!({"model": "m", "messages": [user(said)]});
        let named = [("x-session-id", "job")];
        assert_eq!(
            send(&served.address, "/v1/chat/completions", &named, body.to_string().as_bytes()).answer().status,
            200
        );
    };
    let hidden = "hello \u{202e}\u{1b}[2J there";
    ask(hidden);
    let mut seen = String::new();
    while !seen.contains("assistant") {
        assert!(shown.read_line(&mut seen).unwrap() > 0, "{seen}");
    }
    assert!(seen.contains("job turn 0") && seen.contains("user       hello \\u{202e}\\u{1b}[2J there"), "{seen}");
    assert!(!seen.contains('\u{1b}') && !seen.contains('\u{202e}'), "{seen:?}");
    interrupt(&text.0);
    assert_eq!(text.0.wait().unwrap().code(), Some(0));
    let mut document = String::new();
    documents.read_line(&mut document).unwrap();
    let line: Value = serde_json::from_str(&document).unwrap();
    assert_eq!((&line["type"], &line["session"], &line["recorded"]), (&"exchange".into(), &"job".into(), &true.into()));
    assert_eq!(line["said"].as_array().unwrap().last().unwrap()["who"], "assistant", "{line}");
    served.terminate();
    assert_eq!(json.0.wait().unwrap().code(), Some(0), "the gateway has ended");
    bench.refused(&["episodes", "tail"], &["no gateway runs in this data folder"]);
}

#[test]
fn the_access_log_has_a_line_for_each_request_and_nothing_that_was_said() {
    let Some(bench) = Bench::new("the_access_log_has_a_line") else { return };
    let stub = echo();
    let ask = |served: &Served| {
        assert_eq!(answer_of(&served.address, &chat(&[user("a secret")])), "a secret");
        let missing = send(&served.address, "/v1/none?key=of-a-client", &[], b"{}").answer();
        assert_eq!(missing.status, 404);
    };
    let check = |text: &str| {
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let seen: Vec<(&Value, &Value, &Value)> =
            lines.iter().map(|line| (&line["path"], &line["status"], &line["record"])).collect();
        let chat = Value::from("/v1/chat/completions");
        assert_eq!(seen, [(&chat, &200.into(), &"recorded".into()), (&"/v1/none".into(), &404.into(), &Value::Null)]);
        assert_eq!((&lines[0]["input_tokens"], &lines[0]["alias"]), (&10.into(), &"m".into()));
        assert!(!text.contains("secret") && !text.contains("of-a-client"), "{text}");
    };
    let file = bench.data.path().join("access.log");
    let served = Served::start_with(&bench, &["--access-log", file.to_str().unwrap(), "--upstream", &upstream(&stub)]);
    ask(&served);
    assert_eq!(served.terminate().status.code(), Some(0));
    check(&std::fs::read_to_string(&file).unwrap());
    bench.refused(
        &["serve", "--listen", "127.0.0.1:0", "--access-log", "/nowhere/at/all"],
        &["/nowhere/at/all: the access log cannot be written"],
    );

    std::fs::write(bench.data.path().join("gateway.toml"), "[log]\naccess = true\n").unwrap();
    let served = Served::start(&bench, &[&upstream(&stub)]);
    ask(&served);
    let notes = stderr(&served.terminate());
    let lines: Vec<&str> = notes.lines().filter(|line| line.starts_with('{')).collect();
    check(&lines.join("\n"));
}
