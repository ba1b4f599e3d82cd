//! What a gateway has captured, as its user finds it: by default, in order, at once, and where nothing is there yet.

use super::*;
use crate::client::{answer_of, assistant, chat, send, user};
use crate::serving::Served;

/// A model that repeats the last message, and fails where that is `fail`.
fn echo() -> stub::Stub {
    stub::Stub::start(|_, request| {
        let conversation = request.conversation();
        match conversation.last().unwrap().1.as_str() {
            "fail" => stub::Reply::Http(500, vec![], r#"{"error":{"message":"the model fell over"}}"#.into()),
            said => stub::says(request, said, &[]),
        }
    })
}

fn served(bench: &Bench, stub: &stub::Stub) -> Served {
    Served::start(bench, &[&format!("m=openai:stub@{}", stub.base_url())])
}

/// One conversation for each of three keys, and one without a key. Returns the names of the episodes.
fn of_three_keys(bench: &Bench, stub: &stub::Stub) -> Vec<String> {
    let keys = ["a", "b", "c"].map(|name| bench.json(&["keys", "add", name])["key"].as_str().unwrap().to_owned());
    let gateway = served(bench, stub);
    let ask = |headers: &[(&str, &str)]| {
        let body = chat(&[user("4")]).to_string();
        let answer = send(&gateway.address, "/v1/chat/completions", headers, body.as_bytes()).answer();
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.header("x-clawhost-episode").to_owned()
    };
    let mut episodes: Vec<String> = keys.iter().map(|key| ask(&[("x-api-key", key)])).collect();
    episodes.push(ask(&[]));
    gateway.terminate();
    episodes
}

fn run_of(episode: &str) -> &str {
    episode.split_once('/').unwrap().0
}

#[test]
fn the_runs_of_all_keys_are_listed_judged_and_exported_by_default() {
    let Some(bench) = Bench::new("the_runs_of_all_keys") else { return };
    let stub = echo();
    let episodes = of_three_keys(&bench, &stub);
    let text = bench.out(&["episodes", "list"]);
    assert!(text.starts_with("episodes of 4 live runs; each key"), "{text}");
    assert!(episodes.iter().all(|episode| text.contains(run_of(episode))), "{text}");
    let head = text.lines().nth(1).unwrap();
    assert!(head.contains("agent") && head.contains("session") && !head.contains("environment"), "{head}");

    let format = bench.guest("reward_format");
    let scored = bench.json(&["score", "--reward", &format]);
    let mut judged: Vec<&str> =
        scored["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert!(scored["runs"].as_array().unwrap().iter().all(|run| run["report"]["episodes"] == 1), "{scored}");
    let mut expect: Vec<&str> = episodes.iter().map(|episode| run_of(episode)).collect();
    judged.sort_unstable();
    expect.sort_unstable();
    assert_eq!(judged, expect);
    let output = bench.run(&["score", "--reward", &bench.guest("reward_exact")]);
    assert!(stdout(&output).ends_with("\n4 episodes of 4 runs judged\n"), "{}", stdout(&output));
    let notes = stderr(&output);
    assert!(notes.matches("reward-exact reads").count() == 1 && notes.contains("none of 4 episodes"), "{notes}");
    assert_eq!(bench.out(&["episodes", "export"]).lines().count(), 4);
    assert_eq!(bench.json(&["episodes", "list"]).as_array().unwrap().len(), 4);
}

#[test]
fn sessions_that_are_ended_and_not_judged_are_counted() {
    let Some(bench) = Bench::new("sessions_that_are_ended_and_not_judged") else { return };
    let stub = echo();
    let episodes = of_three_keys(&bench, &stub);
    let format = bench.guest("reward_format");
    let output = bench.run(&["score", "--reward", &format, "--run", run_of(&episodes[0])]);
    let notes = stderr(&output);
    assert!(notes.contains("4 open sessions of agents became episodes"), "{notes}");
    assert!(notes.contains("3 of them are in 3 other runs and are not judged now; --all judges every run"), "{notes}");
    let again = bench.json(&["score", "--reward", &format]);
    assert_eq!(again["runs"].as_array().unwrap().len(), 4, "{again}");
}

#[test]
fn the_newest_conversations_are_listed_first_and_the_others_counted() {
    let Some(bench) = Bench::new("the_newest_conversations") else { return };
    let stub = echo();
    let gateway = served(&bench, &stub);
    for said in ["one", "two", "three", "four"] {
        let path = format!("/s/{said}/v1/chat/completions");
        assert_eq!(send(&gateway.address, &path, &[], chat(&[user(said)]).to_string().as_bytes()).answer().status, 200);
    }
    gateway.terminate();
    let check = || {
        let rows = bench.json(&["episodes", "list", "--limit", "2"]);
        let sessions: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["session"].as_str().unwrap()).collect();
        assert_eq!(sessions, ["four", "three"]);
        let text = bench.out(&["episodes", "list", "--limit", "2"]);
        assert!(text.ends_with("and 2 more; --limit N shows them\n"), "{text}");
        assert!(!bench.out(&["episodes", "list", "--limit", "4"]).contains("more;"));
    };
    check();
    assert_eq!(bench.json(&["episodes", "close"])["closed"], 4);
    check();
}

#[test]
fn an_episode_is_found_by_the_header_of_its_answer_at_once() {
    let Some(bench) = Bench::new("an_episode_is_found_by_the_header") else { return };
    let stub = echo();
    let gateway = served(&bench, &stub);
    for said in ["a", "b", "c", "d", "e", "f"] {
        let answer = send(&gateway.address, "/v1/chat/completions", &[], chat(&[user(said)]).to_string().as_bytes());
        let name = answer.answer().header("x-clawhost-episode").to_owned();
        let (run, id) = name.split_once('/').unwrap();
        let shown = bench.out(&["episodes", "show", &name]);
        assert!(shown.contains(&format!("{id} of {run}")), "{shown}");
        bench.refused(&["feedback", &name, "--thumbs", "up"], &["has not ended"]);
        assert!(bench.out(&["episodes", "show", &format!("{}/{id}", &run[..run.len() - 1])]).contains(id));
    }
    bench.refused(&["episodes", "show", "ep-none"], &["no episode `ep-none` here"]);
}

#[test]
fn an_open_session_shows_what_went_wrong() {
    let Some(bench) = Bench::new("an_open_session_shows") else { return };
    let stub = echo();
    let gateway = served(&bench, &stub);
    let ask = |messages: &[Value]| {
        let body = chat(messages).to_string();
        send(&gateway.address, "/s/job/v1/chat/completions", &[], body.as_bytes()).answer().status
    };
    assert_eq!((ask(&[user("4")]), ask(&[user("4"), assistant("4"), user("fail")])), (200, 500));
    let shown = bench.out(&["episodes", "show", "job"]);
    let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with("ending") || line.starts_with("log")).collect();
    assert!(lines.len() == 2 && lines[0].contains("the session is open"), "{shown}");
    assert!(lines[1].contains("exchange 1") && lines[1].contains("500"), "{shown}");
}

#[test]
fn a_gateway_is_named_where_nothing_is_recorded() {
    let Some(bench) = Bench::new("a_gateway_is_named") else { return };
    let format = bench.guest("reward_format");
    let commands = [&["episodes", "list"][..], &["score", "--reward", &format]];
    for command in commands {
        let said = stderr(&bench.run(command));
        assert!(said.contains("`clawhost run` plays some, or `clawhost serve` records those of agents"), "{said}");
    }
    let check = |says: &[&str]| commands.iter().for_each(|command| bench.refused(command, says));
    std::fs::write(bench.data.path().join("gateway.toml"), "").unwrap();
    check(&["no runs here yet; a gateway is configured here", "`clawhost start` starts it"]);
    let stub = echo();
    let gateway = served(&bench, &stub);
    check(&["no runs here yet", &format!("the gateway at http://{}", gateway.address)]);
    assert_eq!(answer_of(&gateway.address, &chat(&[user("4")])), "4");
    assert_eq!(bench.json(&["episodes", "list"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_judge_without_a_model_names_the_grant() {
    let Some(bench) = Bench::new("a_judge_without_a_model") else { return };
    let stub = echo();
    let gateway = served(&bench, &stub);
    answer_of(&gateway.address, &chat(&[user("4")]));
    gateway.terminate();
    let output = bench.run(&["score", "--reward", &bench.guest("reward_judge")]);
    let said = stdout(&output);
    assert!(said.contains("no model is granted as `judge`"), "{said}");
    assert!(said.contains("grant one with --grant llm:judge=SPEC"), "{said}");
}
