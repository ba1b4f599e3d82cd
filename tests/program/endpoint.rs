//! Runs with a model endpoint: a small server on loopback in the OpenAI dialect.

use super::*;
use stub::{Received, Reply, Stub, chat};

/// Plays the guessing game well: the middle of the range in the last message.
fn halve(_: usize, request: &Received) -> Reply {
    let messages = request.body["messages"].as_array().unwrap();
    let last = messages.last().unwrap()["content"].as_str().unwrap();
    let numbers: Vec<i64> = last.split(|c: char| !c.is_ascii_digit()).flat_map(str::parse).collect();
    match numbers[..] {
        [.., low, high] => chat(&format!("I take the middle: {}", (low + high) / 2)),
        _ => chat("0"),
    }
}

#[test]
fn a_model_behind_http_plays_games_of_several_turns() {
    let Some(bench) = Bench::new("a_model_behind_http") else { return };
    let stub = Stub::start(halve);
    let policy = format!("openai:clever@{}", stub.base_url());
    let summary =
        bench.json(&["run", &bench.guest("env_guess"), "--policy", &policy, "--episodes", "20", "--seed", "5"]);
    assert_eq!(summary["endings"]["terminated"], 20);
    let turns: Vec<u64> =
        summary["episodes"].as_array().unwrap().iter().map(|episode| episode["turns"].as_u64().unwrap()).collect();
    assert!(turns.iter().all(|turns| (1..=7).contains(turns)), "{turns:?}");
    let requests = stub.requests();
    assert_eq!(requests.len() as u64, turns.iter().sum::<u64>(), "one request a turn");
    assert!(requests.iter().all(|request| request.path == "/v1/chat/completions" && request.body["model"] == "clever"));
    let longest = requests.iter().map(|request| request.body["messages"].as_array().unwrap()).max_by_key(|m| m.len());
    let roles: Vec<_> = longest.unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(&roles[..4], ["system", "user", "assistant", "user"], "the whole conversation is sent");
    assert_eq!(summary["usage"]["prompt_tokens"], 10 * requests.len());
    let none = requests.iter().all(|request| !request.headers.iter().any(|(name, _)| name == "authorization"));
    assert!(none, "without a key none is sent");
}

#[test]
fn a_key_is_sent_only_to_the_endpoint() {
    let Some(bench) = Bench::new("a_key_reaches_the_endpoint") else { return };
    let stub = Stub::start(|number, request| match number % 2 {
        0 => Reply::Http(500, vec![], format!("{:?}", request.headers)),
        _ => chat("1"),
    });
    let policy = format!("openai:m@{}", stub.base_url());
    let guess = bench.guest("env_guess");
    let arguments =
        ["run", &guess, "--policy", &policy, "--episodes", "2", "--max-turns", "2", "--retries", "0", "--json"];
    bench.out(&["endpoints", "confirm", &policy]);
    let mut command = bench.command(&arguments);
    command.env("OPENAI_API_KEY", "sk-canary-4711").env("CLAWHOST_LOG", "trace");
    // A proxy would see the key in the clear: plain http never uses one.
    let output = command.env("HTTP_PROXY", "http://127.0.0.1:9").env("ALL_PROXY", "http://127.0.0.1:9").output();
    let output = output.unwrap();
    assert!(stub.requests()[0].headers.contains(&("authorization".into(), "Bearer sk-canary-4711".into())));
    let everything = [output.stdout, output.stderr, contents(bench.data.path())].concat();
    assert!(!String::from_utf8_lossy(&everything).contains("sk-canary-4711"), "the key was printed or stored");
}

#[test]
fn a_key_from_the_environment_goes_only_to_confirmed_addresses() {
    let Some(bench) = Bench::new("a_key_goes_only_to_confirmed_addresses") else { return };
    let stub = Stub::start(|_, request| match request.headers.iter().any(|(name, _)| name == "authorization") {
        true => chat("1"),
        false => Reply::Http(401, vec![], "who?".into()),
    });
    let policy = format!("openai:m@{}", stub.base_url());
    let guess = bench.guest("env_guess");
    let run = |more: &[&str]| {
        let arguments = ["run", &guess, "--policy", &policy, "--episodes", "1", "--max-turns", "1", "--retries", "0"];
        bench.command(&[&arguments[..], more].concat()).env("OPENAI_API_KEY", "sk-canary-4711").output().unwrap()
    };
    let sent = || stub.requests().last().unwrap().headers.iter().any(|(name, _)| name == "authorization");
    let output = run(&[]);
    let told = stdout(&output) + &stderr(&output);
    assert!(!sent() && output.status.code() == Some(4), "{told}");
    let note = format!(
        "the key in OPENAI_API_KEY is not sent to {0}: confirm the address once (clawhost endpoints confirm {0})",
        stub.base_url()
    );
    assert!(told.contains(&note), "{told}");
    assert!(told.contains("the one in OPENAI_API_KEY was not sent: this address is not confirmed"), "{told}");

    // A file that the operator names beside it is another way.
    let file = bench.data.path().join("key").display().to_string();
    std::fs::write(&file, "sk-canary-4712").unwrap();
    assert!(run(&["--api-key-file", &file]).status.success() && sent());

    assert!(bench.out(&["endpoints"]).contains("no address is confirmed"));
    let origin = stub.base_url().trim_end_matches("/v1").to_owned();
    assert!(bench.out(&["endpoints", "confirm", &policy]).starts_with(&format!("{origin} may receive the keys")));
    assert_eq!(bench.json(&["endpoints", "list"])["confirmed"], serde_json::json!([origin]));
    let output = run(&[]);
    assert!(output.status.success() && sent(), "{}", stderr(&output));
    assert!(!stderr(&output).contains("is not sent"), "{}", stderr(&output));
    bench.out(&["endpoints", "forget", &origin]);
    assert!(run(&[]).status.code() == Some(4) && !sent());
    bench.refused(&["endpoints", "forget", &origin], &["is not confirmed", "clawhost endpoints"]);
    bench.refused(&["endpoints", "confirm", "http://models.example/v1"], &["over plain http"]);
}

#[test]
fn a_group_that_is_played_again_counts_once_in_usage_and_twice_in_what_was_spent() {
    let Some(bench) = Bench::new("a_group_that_is_played_again") else { return };
    // 12 tokens an answer.
    let stub = Stub::start(|_, _| chat("\\boxed{1}"));
    let (math, policy) = (bench.guest("env_math"), format!("openai:m@{}", stub.base_url()));
    let play = |more: &[&str]| {
        let run =
            ["run", &math, "--policy", &policy, "--episodes", "8", "--group", "2", "--concurrency", "1", "--json"];
        let output = bench.run(&[&run[..], more].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let tokens = |of: &Value| of["prompt_tokens"].as_u64().unwrap() + of["completion_tokens"].as_u64().unwrap();
        (tokens(&report["usage"]), tokens(&report["timing"]["spent"]))
    };
    assert_eq!(play(&["--max-tokens-total", "30"]), (36, 36), "the second group has one member");
    let (usage, spent) = play(&["--max-tokens-total", "1000", "--resume"]);
    assert_eq!((usage, spent, stub.requests().len()), (8 * 12, 9 * 12, 9), "its member was played again");
}

#[test]
fn failures_of_the_endpoint_are_reported_and_counted() {
    let Some(bench) = Bench::new("trouble_with_the_endpoint") else { return };
    let check = |stub: &Stub, more: &[&str], code: i32, says: &str| {
        let policy = format!("openai:m@{}", stub.base_url());
        let guess = bench.guest("env_guess");
        let arguments = ["run", &guess, "--policy", &policy, "--episodes", "4", "--retries", "0"];
        let output = bench.run(&[&arguments[..], more].concat());
        assert_eq!(output.status.code(), Some(code), "{says}: {}", stderr(&output));
        let all = stdout(&output) + &stderr(&output);
        assert!(all.contains(says), "{says} in {all}");
        assert!(stdout(&output).contains("not scored"), "a failure has no reward: {}", stdout(&output));
    };
    check(&Stub::start(|_, _| Reply::Http(200, vec![], "hello".into())), &[], 4, "llm(garbage)");
    check(&Stub::start(|_, _| Reply::Http(429, vec![], "wait".into())), &[], 4, "HTTP 429");
    check(
        &Stub::start(|_, _| Reply::Http(401, vec![], "who?".into())),
        &[],
        4,
        "neither OPENAI_API_KEY nor api_key_file is set",
    );
    check(&Stub::start(|_, _| Reply::Stall), &["--model-timeout", "1"], 4, "within 1 s");
    check(&Stub::start(|_, _| Reply::Half), &[], 4, "the answer broke off");
    let stub = Stub::start(|_, _| chat("1"));
    check(&stub, &["--max-tokens-total", "30"], 6, "raise --max-tokens-total");
    let gone = Stub::start(|_, _| chat("1"));
    let policy = format!("openai:m@{}", gone.base_url());
    drop(gone);
    let output = bench.run(&["run", &bench.guest("env_guess"), "--policy", &policy, "--retries", "0"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("is the server running there?"), "{}", stderr(&output));
}

#[test]
fn a_plugin_spends_only_its_own_budget() {
    let Some(bench) = Bench::new("a_plugin_spends_only_its_own_budget") else { return };
    // 12 tokens an answer.
    let stub = Stub::start(|_, _| chat("\\boxed{1}"));
    let (math, judge) = (bench.guest("env_math"), format!("{}?votes=1", bench.guest("reward_judge")));
    let grant = format!("llm:judge=openai:m@{}", stub.base_url());
    let run = ["run", &math, "--reward", &judge, "--grant", &grant, "--episodes", "20", "--max-grant-tokens", "30"];
    let output = bench.run(&run);
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
    assert!(stdout(&output).contains("--max-grant-tokens"), "{}", stdout(&output));
    assert_eq!(stub.requests().len(), 3, "12, 24 and 36 of 30 tokens; requests in flight count and are waited for");
    let again = bench.run(&[&run[..], &["--resume"]].concat());
    assert_eq!(again.status.code(), Some(6), "{}", stderr(&again));
    assert_eq!(stub.requests().len(), 3, "what was spent before counts");
    let whole = ["--max-grant-tokens", "100000", "--resume"];
    let resumed = bench.run(&[&run[..8], &whole].concat());
    assert!(resumed.status.success() && stub.requests().len() > 3, "{}", stderr(&resumed));
}

#[test]
fn an_endpoint_without_usage_is_charged_and_the_summary_says_so() {
    let Some(bench) = Bench::new("an_endpoint_without_usage") else { return };
    let body = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"1"},"finish_reason":"stop"}]}"#;
    let stub = Stub::start(move |_, _| Reply::Http(200, vec![], body.into()));
    let policy = format!("openai:m@{}", stub.base_url());
    let math = bench.guest("env_math");
    let run = ["run", &math, "--policy", &policy, "--episodes", "100", "--max-tokens-total", "50"];
    let output = bench.run(&run);
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
    assert!(stub.requests().len() <= 2, "{} requests with a budget of 50 tokens", stub.requests().len());
    assert!(stdout(&output).contains(" came without usage: their tokens are estimated"), "{}", stdout(&output));
    // Which episode asked first is a matter of time.
    let exported = bench.out(&["episodes", "export"]);
    let answered = exported.lines().find(|line| line.contains("\"ignored\":[\"usage\"]")).expect("one was answered");
    let answered: Value = serde_json::from_str(answered).unwrap();
    let shown = bench.out(&["episodes", "show", answered["id"].as_str().unwrap()]);
    assert!(shown.contains("  ignored    usage, which was asked for"), "{shown}");
}

#[test]
fn one_key_file_serves_one_kind_of_endpoint() {
    let Some(bench) = Bench::new("one_key_file_serves_one_kind") else { return };
    let stub = Stub::start(|_, request| stub::says(request, "\\boxed{1}", &[]));
    let key = |name: &str, text: &str| {
        let path = bench.data.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (ours, theirs) = (key("ours.key", "sk-ours"), key("theirs.key", "sk-theirs"));
    let (math, judge) = (bench.guest("env_math"), format!("{}?votes=1", bench.guest("reward_judge")));
    let (policy, grant) =
        (format!("openai:m@{}", stub.base_url()), format!("llm:judge=anthropic:m@{}", stub.base_url()));
    let run = ["run", &math, "--reward", &judge, "--policy", &policy, "--grant", &grant, "--episodes", "1"];
    let output = bench.run(&[&run[..], &["--api-key-file", &ours]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("write openai=FILE and anthropic=FILE"), "{}", stderr(&output));
    assert!(stub.requests().is_empty(), "a key is sent to its own endpoint only");
    let (one, other) = (format!("openai={ours}"), format!("anthropic={theirs}"));
    bench.json(&[&run[..], &["--api-key-file", &one, "--api-key-file", &other]].concat());
    let sent = stub.requests();
    assert!(sent[0].headers.contains(&("authorization".into(), "Bearer sk-ours".into())));
    assert!(sent[1].headers.contains(&("x-api-key".into(), "sk-theirs".into())));
}

#[test]
fn an_endpoint_that_needs_the_newer_name_of_a_limit_gets_it() {
    let Some(bench) = Bench::new("an_endpoint_that_wants_the_newer_name") else { return };
    let stub = Stub::start(|_, request| match request.body.get("max_tokens") {
        Some(_) => Reply::Http(400, vec![], "Unsupported parameter: use 'max_completion_tokens' instead".into()),
        None => chat("1"),
    });
    let policy = format!("openai:m@{}", stub.base_url());
    let math = bench.guest("env_math");
    let summary = bench.json(&["run", &math, "--policy", &policy, "--episodes", "3", "--concurrency", "1"]);
    assert_eq!(summary["endings"]["terminated"], 3);
    assert_eq!(stub.requests().len(), 4, "the endpoint rejects the temperature only once");
    assert!(
        stub.requests().iter().all(|request| request.body.get("temperature").is_none()),
        "what nobody chose is not sent"
    );
}
