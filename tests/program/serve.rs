//! The gateway as a program: what it captures is listed, judged and survives the end of its process.

use super::*;
use crate::client::{answer_of, assistant, chat, send, user};
use crate::serving::Served;
use std::sync::mpsc;

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

/// The rows of the sessions and episodes, oldest last.
fn listed(bench: &Bench) -> Vec<Value> {
    bench.json(&["episodes", "list"]).as_array().unwrap().clone()
}

#[test]
fn a_conversation_without_any_name_is_one_episode_and_is_judged() {
    let Some(bench) = Bench::new("a_conversation_without_any_name") else { return };
    let stub = echo();
    let served = Served::start(&bench, &[&upstream(&stub)]);
    let first = vec![user("4")];
    assert_eq!(answer_of(&served.address, &chat(&first)), "4");
    let second = vec![user("4"), assistant("4"), user("5")];
    assert_eq!(answer_of(&served.address, &chat(&second)), "5");
    let output = served.terminate();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("recorded 2 exchanges, missed 0"), "{}", stderr(&output));

    let open = listed(&bench);
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!((&open[0]["state"], &open[0]["turns"], &open[0]["complete"]), (&"open".into(), &2.into(), &true.into()));
    assert!(open[0]["session"].as_str().is_some_and(|name| !name.is_empty()), "{open:?}");
    let shown = bench.out(&["episodes", "show", open[0]["id"].as_str().unwrap()]);
    assert!(shown.contains("none yet: the session is open") && !shown.contains("terminated"), "{shown}");

    let scored = bench.out(&["score", "--reward", &bench.guest("reward_format")]);
    assert!(scored.contains("new verdicts count") && !scored.contains("unchanged"), "{scored}");
    let ended = listed(&bench);
    assert_eq!((ended.len(), &ended[0]["turns"], &ended[0]["live"]), (1, &2.into(), &true.into()), "{ended:?}");
    assert_ne!(ended[0]["state"], "open");
}

#[test]
fn models_of_the_configuration_are_served_with_their_own_keys() {
    let Some(bench) = Bench::new("models_of_the_configuration") else { return };
    let (down, up) = (stub::Stub::start(|_, _| stub::Reply::Http(503, vec![], "{}".into())), echo());
    let key = bench.data.path().join("a-key");
    std::fs::write(&key, "sk-of-the-file").unwrap();
    let configure = |key: &str| {
        let (down, up) = (down.base_url(), up.base_url());
        let text = format!(
            "[models.a]\nmodel = \"openai:one@{down}\"\nretries = 1\n[models.b]\nmodel = \"openai:two@{up}\"\n{key}\n[models.both]\nfirst_of = [\"a\", \"b\"]\n"
        );
        std::fs::write(bench.data.path().join("gateway.toml"), text).unwrap();
    };
    configure("key_env = \"NO_SUCH_VARIABLE_OF_A_TEST\"");
    let refused = bench.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(
        stderr(&refused).contains("NO_SUCH_VARIABLE_OF_A_TEST has no key for the model `b`"),
        "{}",
        stderr(&refused)
    );

    configure(&format!("key_file = '{}'", key.display()));
    let served = Served::start(&bench, &[]);
    let body = serde_json::json!({"model": "both", "messages": [user("4")]});
    assert_eq!(answer_of(&served.address, &body), "4");
    served.terminate();
    assert_eq!((down.requests().len(), up.requests().len()), (2, 1));
    let sent = &up.requests()[0];
    assert_eq!(sent.body["model"], "two");
    assert!(sent.headers.iter().any(|(_, value)| value == "Bearer sk-of-the-file"), "{:?}", sent.headers);
}

/// Ends the gateway of a data folder, whatever became of the test.
struct Stops<'a>(&'a Bench);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.run(&["stop"]);
    }
}

#[test]
fn a_gateway_in_the_background_is_started_found_and_stopped() {
    let Some(bench) = Bench::new("a_gateway_in_the_background") else { return };
    let stub = echo();
    let upstream = upstream(&stub);
    let start = ["start", "--listen", "127.0.0.1:0", "--upstream", &upstream];
    let idle = bench.run(&["status"]);
    assert_eq!((idle.status.code(), stdout(&idle).contains("no gateway runs")), (Some(1), true), "{}", stdout(&idle));
    bench.refused(&["start", "--listen", "127.0.0.1:0"], &["the gateway did not start: the gateway has no model"]);

    let _stops = Stops(&bench);
    let started = bench.json(&start);
    let address = started["address"].as_str().unwrap();
    assert_eq!(answer_of(address, &chat(&[user("4")])), "4");
    let status = bench.json(&["status"]);
    assert_eq!((&status["ready"], &status["process"]), (&true.into(), &started["process"]), "{status}");
    bench.refused(&start, &["a gateway records into it already", "clawhost stop"]);

    assert_eq!(bench.json(&["stop"])["stopped"], started["process"]);
    let again = bench.run(&["stop"]);
    let folder = bench.data.path().display().to_string();
    assert_eq!((again.status.code(), stdout(&again).contains(&folder)), (Some(1), true), "{}", stdout(&again));
    assert_eq!(listed(&bench).len(), 1, "everything is recorded");
    assert_eq!(bench.run(&["status"]).status.code(), Some(1));
}

#[test]
fn a_reward_of_the_gateway_judges_answers_of_trainers() {
    let Some(bench) = Bench::new("a_reward_of_the_gateway") else { return };
    let stub = echo();
    let reward = bench.guest("reward_format");
    let served = Served::start_with(&bench, &["--upstream", &upstream(&stub), "--reward", &reward]);
    let body = serde_json::json!({"messages": [user("hi")], "response": assistant("call look {}")}).to_string();
    let answer = send(&served.address, "/compute_reward", &[], body.as_bytes()).answer();
    assert_eq!(answer.status, 200, "{answer:?}");
    let judged = answer.json();
    assert!(judged["reward_score"].is_number(), "{judged}");
    assert_eq!(judged["reward_extra_info"]["verdicts"][0]["reward"], "reward-format", "{judged}");
    drop(served);
    bench.refused(&["episodes", "list"], &["no runs here yet"]);
}

#[test]
fn a_killed_gateway_loses_no_completed_turn() {
    let Some(bench) = Bench::new("a_killed_gateway") else { return };
    // The third answer stops in its middle until the test is over.
    let (release, held) = mpsc::channel::<()>();
    let held = std::sync::Mutex::new(Some(held));
    let stub = stub::Stub::start(move |number, request| {
        let events: Vec<Vec<u8>> =
            stub::events(request, "a long answer", &[]).into_iter().map(String::into_bytes).collect();
        let held = if number == 2 { held.lock().unwrap().take() } else { None };
        let fragments = events.into_iter().enumerate().map(move |(at, event)| {
            if at == 3 {
                held.as_ref().map(|held| held.recv().ok());
            }
            event
        });
        stub::Reply::Stream { fragments: Box::new(fragments), ends: true }
    });
    let served = Served::start(&bench, &[&upstream(&stub)]);
    let ask = |text: &str| {
        let mut body = chat(&[user(text)]);
        body["stream"] = true.into();
        send(&served.address, "/v1/chat/completions", &[], body.to_string().as_bytes())
    };
    for text in ["one", "two"] {
        assert_eq!(ask(text).answer().text(), "a long answer");
    }
    let broken = ask("three");
    broken.until("content");
    served.kill();
    drop(release);

    let rows = listed(&bench);
    let complete: Vec<_> = rows.iter().map(|row| (&row["turns"], &row["complete"])).collect();
    assert_eq!(complete.iter().filter(|row| **row == (&1.into(), &true.into())).count(), 2, "{rows:?}");
    // A second look changes nothing.
    assert_eq!(listed(&bench), rows);
    assert_eq!(bench.json(&["episodes", "close"])["closed"], rows.len());
    assert!(listed(&bench).iter().all(|row| row["state"] != "open"));
}

#[test]
fn one_gateway_records_into_a_folder() {
    let Some(bench) = Bench::new("one_gateway_records_into_a_folder") else { return };
    let stub = echo();
    let served = Served::start(&bench, &[&upstream(&stub)]);
    answer_of(&served.address, &chat(&[user("4")]));
    bench.refused(
        &["serve", "--listen", "127.0.0.1:0", "--upstream", &upstream(&stub)],
        &["a gateway records into it already", "--data"],
    );
    bench.refused(&["episodes", "close"], &["a gateway records into it already"]);
    // Its exchanges are in the database soon; its open sessions are not taken from it.
    while !bench.run(&["episodes", "list"]).status.success() {}
    bench.json(&["score", "--reward", &bench.guest("reward_exact")]);
    assert_eq!(answer_of(&served.address, &chat(&[user("4"), assistant("4"), user("5")])), "5");
    served.terminate();
    let rows = listed(&bench);
    assert_eq!((rows.len(), &rows[0]["turns"]), (1, &2.into()), "{rows:?}");
    Served::start(&bench, &[&upstream(&stub)]).terminate();
}

#[test]
fn a_local_model_answers_both_dialects() {
    let Some(bench) = Bench::new("a_local_model_answers_both_dialects") else { return };
    let folder = bench.data.path().join("tiny").display().to_string();
    bench.out(&["model", "init", &folder, "--width", "16", "--context", "256"]);
    let served = Served::start(&bench, &[&format!("tiny=local:{folder}")]);
    let mut body = chat(&[user("hi")]);
    body["model"] = "tiny".into();
    body["max_tokens"] = 4.into();
    // A drawn answer of random weights may end by itself.
    body["temperature"] = 0.into();
    for path in ["/v1/chat/completions", "/v1/messages"] {
        let answer = send(&served.address, path, &[], body.to_string().as_bytes()).answer();
        assert_eq!(answer.status, 200, "{answer:?}");
        let usage = &answer.json()["usage"];
        let tokens = usage.get("completion_tokens").or_else(|| usage.get("output_tokens"));
        assert_eq!(tokens.and_then(Value::as_u64), Some(4), "{answer:?}");
    }
    served.terminate();
    assert_eq!(listed(&bench).len(), 2, "the second one asks the same again");
}

#[test]
fn a_gateway_that_cannot_start_says_what_to_change() {
    let Some(bench) = Bench::new("a_gateway_that_cannot_start") else { return };
    let stub = echo();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = |listen: &str, upstreams: &[&str], says: &[&str]| {
        let mut arguments = vec!["serve", "--listen", listen];
        upstreams.iter().for_each(|upstream| arguments.extend(["--upstream", upstream]));
        bench.refused(&arguments, says);
    };
    let one = upstream(&stub);
    refused(&address, &[&one], &["cannot be listened on", "--listen"]);
    refused("0.0.0.0:0", &[&one], &["can be reached from other machines"]);
    refused("127.0.0.1:0", &[&one, &one], &["two models are called `m`", "--upstream"]);
    refused("127.0.0.1:0", &[], &["the gateway has no model", "clawhost setup", "gateway.toml", "--upstream SPEC"]);
    refused("127.0.0.1:0", &["gpt-5"], &["`gpt-5` is not a model that a gateway serves", "openai:MODEL"]);
}

#[test]
fn keys_are_made_and_a_gateway_that_runs_takes_them_over() {
    let Some(bench) = Bench::new("keys_are_made") else { return };
    let stub = echo();
    let served = Served::start(&bench, &[&upstream(&stub)]);
    let status = |key: &str| {
        let body = chat(&[user("4")]).to_string();
        send(&served.address, "/v1/chat/completions", &[("x-api-key", key)], body.as_bytes()).answer().status
    };
    assert_eq!(status("anything"), 200, "without keys none is looked at");
    let limits = ["--requests-per-minute", "600", "--no-train", "--usd-per-day", "2.50", "--keep-days", "30"];
    let made = bench.json(&[&["keys", "add", "ci"], &limits[..]].concat());
    let key = made["key"].as_str().unwrap().to_owned();
    // The file of keys is looked at every second.
    while status("anything") != 401 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(status(&key), 200);
    let listed = bench.json(&["keys"]);
    let row = &listed["keys"][0];
    assert_eq!(
        (&row["name"], &row["requests_per_minute"], &row["no_train"]),
        (&"ci".into(), &600.into(), &true.into())
    );
    assert_eq!((&row["usd_per_day"], &row["keep_days"]), (&"2.5".into(), &30.into()));
    // The record follows an answer within a moment.
    while bench.json(&["keys"])["keys"][0]["tokens_today"] == 0 {}
    assert_eq!(bench.json(&["keys"])["keys"][0]["usd_today"], "0");
    assert_eq!(status("clawhost"), 200, "the placeholder counts as no key");
    assert!(!listed.to_string().contains(&key));
    let text = bench.out(&["keys", "list"]);
    assert!(text.contains("ci") && text.contains("600"), "{text}");
    bench.refused(&["keys", "add", "ci"], &["there is a key `ci` already"]);
    bench.refused(&["keys", "add", "x", "--usd-per-day", "free"], &["must be an amount as 2.5"]);
    bench.refused(&["keys", "remove", "nobody"], &["there is no key `nobody`", "clawhost keys"]);
    bench.out(&["keys", "remove", "ci"]);
    while status("anything") != 200 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    served.terminate();
    let runs = bench.json(&["runs", "list"]);
    let names: Vec<_> = runs.as_array().unwrap().iter().map(|run| run["environment"].as_str().unwrap()).collect();
    assert!(names.contains(&"ci") && names.contains(&"agents"), "{names:?}");
    let all = contents(bench.data.path());
    assert!(!all.windows(key.len()).any(|window| window == key.as_bytes()), "no file has the key");
}

#[test]
fn learning_leaves_out_what_an_agent_kept_out() {
    let Some(bench) = Bench::new("learning_leaves_out") else { return };
    let stub = echo();
    let served = Served::start(&bench, &[&upstream(&stub)]);
    for (session, headers) in [("a", &[("x-no-train", "1")][..]), ("b", &[])] {
        let path = format!("/s/{session}/v1/chat/completions");
        let body = chat(&[user(&format!("4 {session}"))]).to_string();
        assert_eq!(send(&served.address, &path, headers, body.as_bytes()).answer().status, 200);
    }
    served.terminate();
    bench.json(&["score", "--reward", &bench.guest("reward_format")]);
    let rows = listed(&bench);
    let run = rows[0]["run"].as_str().unwrap().to_owned();
    let kept = rows.iter().find(|row| row["session"] == "a").unwrap();
    let shown = bench.out(&["episodes", "show", kept["id"].as_str().unwrap()]);
    assert!(shown.contains("the client or its key said so"), "{shown}");
    let learn = |more: &[&str]| {
        let (shop, format, rules) =
            (bench.guest("env_shop"), bench.guest("reward_format"), bench.guest("reflector_rules"));
        let words = ["learn", &shop, "--reward", &format, "--layer", "harness", "--reflector", &rules, "--from", &run];
        bench.run(&[&words[..], &["--test-pairs", "0", "--iterations", "1"], more].concat())
    };
    let learned = learn(&[]);
    assert!(learned.status.success(), "{}", stderr(&learned));
    assert!(stderr(&learned).contains("teaches with 1 episode"), "{}", stderr(&learned));
    assert!(stderr(&learned).contains("1 episode kept out of learning"), "{}", stderr(&learned));
}
