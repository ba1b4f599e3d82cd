//! `clawhost forget`: two users talk to a real gateway, one is forgotten, and the other is as before.

use super::*;
use crate::client::{request, user};
use crate::serving::Served;
use crate::stub::{Received, Stub, says};
use clawhost_core::LedgerReader as _;
use serde_json::json;

/// What the forgotten user says, and how its sessions are called.
const MARKER: &str = "zanzibar";
const WHO: &str = "lovelace";

fn empty() -> Bench {
    Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() }
}

/// A model that repeats what it is asked.
fn echo() -> Stub {
    Stub::start(|_, request: &Received| {
        let said = request.conversation();
        says(request, &said.last().map(|(_, text)| text.clone()).unwrap_or_default(), &[])
    })
}

fn post(served: &Served, path: &str, headers: &[(&str, &str)], body: &Value) -> Value {
    let answer = request("POST", &served.address, path, headers, body.to_string().as_bytes()).answer();
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}

/// A session of two turns with feedback and a correction, a stored response, and a session that stays open.
fn talk(served: &Served, who: &str, word: &str) {
    let name = format!("{who}-{word}");
    let headers = [("x-clawhost-user", who), ("x-clawhost-session", name.as_str())];
    let mut said = vec![user(&format!("tell me of {word}"))];
    for turn in 0..2 {
        let answer = post(served, "/v1/chat/completions", &headers, &json!({"model": "m", "messages": said}));
        said.push(answer["choices"][0]["message"].clone());
        said.push(user(&format!("{word} once more, {turn}")));
        let feedback = json!({"response_id": answer["id"], "thumb": "down", "text": format!("no {word}"), "correction": format!("Say {word} twice.")});
        post(served, "/v1/feedback", &headers[..1], &feedback);
    }
    post(served, &format!("/s/{name}/end"), &headers[..1], &json!({}));
    post(served, "/v1/responses", &headers[..1], &json!({"model": "r", "input": format!("a response about {word}")}));
    let open = format!("{name}-open");
    let headers = [("x-clawhost-user", who), ("x-clawhost-session", open.as_str())];
    let body = json!({"model": "m", "messages": [user(&format!("still about {word}"))]});
    post(served, "/v1/chat/completions", &headers, &body);
    post(served, "/v1/memory", &headers[..1], &json!({"text": format!("{word} is a word of mine.")}));
}

/// The files of a folder that have a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            found.extend(files_with(&entry.path(), text));
        } else if std::fs::read(entry.path()).unwrap().windows(text.len()).any(|part| part == text.as_bytes()) {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

/// What is left of a user: memory, episodes and open sessions, and what was said in them.
fn kept(bench: &Bench, who: &str) -> Value {
    let episodes = bench.json(&["episodes", "list", "--limit", "100"]);
    let names = episodes
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{}/{}", row["run"].as_str().unwrap(), row["id"].as_str().unwrap()));
    let shown: Vec<Value> = names.map(|name| bench.json(&["episodes", "show", &name])).collect();
    let theirs: Vec<Value> = shown.into_iter().filter(|episode| episode.to_string().contains(who)).collect();
    json!({"episodes": theirs, "memory": bench.json(&["memory", "list", &format!("user:/{who}")])})
}

#[test]
fn one_of_two_users_is_forgotten_and_the_other_is_as_before() {
    let (bench, stub) = (empty(), echo());
    let upstreams = [("m", "openai"), ("r", "anthropic")]
        .map(|(alias, dialect)| format!("{alias}={dialect}:stub@{}", stub.base_url()));
    let options = ["--upstream", &upstreams[0], "--upstream", &upstreams[1], "--mode", "skills"];
    let served = Served::start_with(&bench, &options);
    talk(&served, WHO, MARKER);
    talk(&served, "hopper", "timbuktu");
    let scope = format!("user:/{WHO}");
    let would = bench.json(&["forget", &scope]);
    assert_eq!(would["forget"]["dry_run"], true, "{would}");
    assert!(would["forget"]["episodes"].as_array().unwrap().len() >= 2, "{would}");
    bench.refused(&["forget", &scope, "--yes"], &["a gateway runs, and remembers", "clawhost stop"]);
    served.terminate();

    let before = kept(&bench, "hopper");
    assert!(!before["episodes"].as_array().unwrap().is_empty() && before.to_string().contains("timbuktu"), "{before}");
    assert!(!files_with(bench.data.path(), WHO).is_empty());
    let text = bench.out(&["forget", &scope]);
    assert!(text.contains("would go") && text.contains("memories") && text.contains("--yes removes it"), "{text}");
    assert!(!files_with(bench.data.path(), WHO).is_empty(), "nothing is removed without --yes");
    let text = bench.out(&["forget", &scope, "--yes"]);
    assert!(text.contains("removed") && text.contains("before"), "{text}");
    for word in [MARKER, WHO] {
        assert_eq!(files_with(bench.data.path(), word), Vec::<String>::new(), "{word}");
    }
    assert_eq!(kept(&bench, "hopper"), before);
    for (table, rows) in [("responses", 1), ("open_episodes", 2), ("memories", 2)] {
        assert_eq!(bench.count(&format!("SELECT count(*) FROM {table}")), rows, "{table}");
    }
    let key =
        clawhost_store::ledger_key(&std::fs::read(bench.data.path().join("host.key")).unwrap().try_into().unwrap());
    let report = clawhost_store::Reader::open(bench.data.path()).unwrap().check_ledger(None, &key).unwrap();
    assert!(report.is_clean() && report.forgotten >= 1, "{report:?}");
    bench.refused(&["forget", &scope, "--yes"], &["has nothing of", WHO, "on record"]);
    bench.refused(&["forget"], &["--session"]);
    bench.refused(&["forget", "ada"], &["names nobody"]);

    // The gateway goes on: an open session of the other is continued, and the forgotten one begins anew.
    let served = Served::start_with(&bench, &options);
    let headers = [("x-clawhost-user", "hopper"), ("x-clawhost-session", "hopper-timbuktu-open")];
    let said =
        [user("still about timbuktu"), json!({"role": "assistant", "content": "still about timbuktu"}), user("go on")];
    post(&served, "/v1/chat/completions", &headers, &json!({"model": "m", "messages": said}));
    let body = json!({"model": "m", "messages": [user("hello again")]});
    post(&served, "/v1/chat/completions", &[("x-clawhost-user", WHO)], &body);
    served.terminate();
    assert_eq!(bench.json(&["memory", "list", &scope])["memories"], json!([]));
    let would = bench.json(&["forget", &scope]);
    assert_eq!(would["forget"]["episodes"].as_array().unwrap().len(), 1, "{would}");
}

/// Copies the files of a folder.
#[cfg(feature = "failpoints")]
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

#[test]
#[cfg(feature = "failpoints")]
fn a_forgetting_that_dies_after_any_commit_is_finished_by_the_next_one() {
    let (bench, stub) = (empty(), echo());
    let upstreams = [("m", "openai"), ("r", "anthropic")]
        .map(|(alias, dialect)| format!("{alias}={dialect}:stub@{}", stub.base_url()));
    let served =
        Served::start_with(&bench, &["--upstream", &upstreams[0], "--upstream", &upstreams[1], "--mode", "skills"]);
    talk(&served, WHO, MARKER);
    talk(&served, "hopper", "timbuktu");
    served.terminate();
    let scope = format!("user:/{WHO}");
    let before = kept(&bench, "hopper");
    let (mut died, mut finished) = (0, Vec::new());
    let words = ["forget", &scope, "--yes"];
    let dies_after = |commit: u32| {
        let copied = empty();
        copy(bench.data.path(), copied.data.path());
        let output = copied.command(&words).env("CLAWHOST_ABORT_AFTER_COMMIT", commit.to_string()).output().unwrap();
        (copied, output)
    };
    for commit in 1_u32.. {
        let (copied, output) = dies_after(commit);
        if output.status.success() {
            break;
        }
        died += 1;
        assert_eq!(stdout(&output), "", "nothing is reported before the end");
        assert_eq!(kept(&copied, "hopper"), before, "after commit {commit}");
        let begun = copied.count("SELECT count(*) FROM forgetting") > 0;
        // The next gateway finishes what had begun, or the next forgetting does all.
        let served = Served::start_with(
            &copied,
            &["--upstream", &upstreams[0], "--upstream", &upstreams[1], "--mode", "skills"],
        );
        let said = stderr(&served.terminate());
        assert!(!begun || files_with(copied.data.path(), MARKER).is_empty(), "{commit}");
        assert_eq!(said.contains("had been interrupted; it is finished now"), begun, "{commit}: {said}");
        finished.extend(begun.then_some(commit));
        let again = copied.run(&words);
        assert!(again.status.success() || stderr(&again).contains("has nothing of"), "{commit}: {}", stderr(&again));
        for word in [MARKER, WHO] {
            assert_eq!(files_with(copied.data.path(), word), Vec::<String>::new(), "{word} after commit {commit}");
        }
        assert_eq!(kept(&copied, "hopper"), before, "after commit {commit} and the end");
    }
    assert!(died >= 2, "the records and the note of an interrupted forgetting are commits of their own: {died}");
    // A gateway in the background keeps its own log.
    let (copied, _) = dies_after(*finished.first().expect("a gateway has finished one"));
    std::fs::write(copied.data.path().join("gateway.log"), "a line of an earlier one\n").unwrap();
    let started = copied.run(&["start", "--listen", "127.0.0.1:0", "--upstream", &upstreams[0]]);
    assert!(stderr(&started).contains("had been interrupted; it is finished now"), "{}", stderr(&started));
    assert_eq!(files_with(copied.data.path(), "an earlier one"), Vec::<String>::new());
    assert!(copied.data.path().join("gateway.log").exists());
    copied.out(&["stop"]);
}
