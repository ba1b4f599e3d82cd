//! Policies without a model: a script that calls tools, and the random player. And sampling options of models.

use super::*;
use stub::{Stub, says};

/// The text of the messages in a part of an episode.
fn texts(messages: &Value) -> String {
    let parts = messages.as_array().unwrap().iter().flat_map(|message| message["parts"].as_array().unwrap());
    parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// The value of a fact in a text.
fn fact<'a>(text: &'a str, name: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap()
}

/// The name `RUN/ID` of the only episode of the newest run: equal runs have episodes with equal ids.
pub(crate) fn newest_name(bench: &Bench) -> String {
    let row = &bench.json(&["episodes", "list", "--limit", "1"])[0];
    format!("{}/{}", row["run"].as_str().unwrap(), row["id"].as_str().unwrap())
}

/// The only episode of the newest run.
fn newest(bench: &Bench) -> Value {
    bench.json(&["episodes", "show", &newest_name(bench)])
}

#[test]
fn a_script_solves_a_case_of_the_shop() {
    let Some(bench) = Bench::new("a_script_solves_a_case_of_the_shop") else { return };
    let (shop, state) = (bench.guest("env_shop"), bench.guest("reward_state"));
    // For a case that the follower gets wrong, the review states the expected action.
    let play = |seed: &str, policy: &str| {
        let few = ["run", &shop, "--reward", &state, "--episodes", "1", "--seed", seed, "--policy", policy];
        bench.json(&few)["reward_mean"].as_f64().unwrap()
    };
    let seed = ["1", "2", "3", "4", "5", "6"].into_iter().find(|seed| play(seed, "follower") == 0.0).unwrap();
    let wrong = newest(&bench);
    let (case, review) = (texts(&wrong["turns"][0]["observation"]), texts(&wrong["closing"]));
    let (order, customer) = (fact(&case, "order"), fact(&case, "customer"));
    let right = fact(&review, "expected").replace("<order>", order).replace("<amount>", fact(&case, "amount"));
    let right = right.replacen("call ", "calls ", 1);
    let script = format!(
        "I look at both.\\\ncalls look_up_order {{\"order_id\": \"{order}\"}}\\\ncalls look_up_customer {{\"customer_id\": \"{customer}\"}}\n{right}\n"
    );
    let file = bench.data.path().join("answers.txt");
    std::fs::write(&file, &script).unwrap();
    let policy = format!("script:{}", file.display());
    assert_eq!(play(seed, &policy), 1.0, "{script}");

    let episode = newest(&bench);
    assert_eq!(episode["turns"][0]["tool_results"].as_array().unwrap().len(), 2);
    let shown = bench.out(&["episodes", "show", &newest_name(&bench)]);
    for line in script.lines().map(|line| line.trim_end_matches('\\')) {
        assert!(shown.contains(&format!("  answered   {line}\n")), "{line} in {shown}");
    }
    assert!(bench.run(&["replay", "--all"]).status.success());

    std::fs::write(&file, "fine\ncalls refund A1\n").unwrap();
    let named = format!("{}, line 2: a call is a tool's name with a JSON object", file.display());
    bench.refused(&["run", &shop, "--policy", &policy], &[&named, "written \\calls"]);
}

#[test]
fn the_random_player_does_not_depend_on_concurrency_and_replays() {
    let Some(bench) = Bench::new("the_random_player_is_the_same") else { return };
    let (shop, state) = (bench.guest("env_shop"), bench.guest("reward_state"));
    let play = |concurrency: &str| {
        let run = ["run", &shop, "--reward", &state, "--policy", "random", "--episodes", "60", "--group", "2"];
        bench.outside_timing(&[&run[..], &["--seed", "3", "--concurrency", concurrency]].concat())
    };
    let one = play("16");
    assert_eq!(one, play("1"));
    assert_eq!(one["config"]["policy"]["identity"]["model"], "random");
    assert_eq!(one["endings"]["terminated"], 60, "it calls tools until the case is closed");
    let mean = one["reward_mean"].as_f64().unwrap();
    assert!((0.0..0.5).contains(&mean), "{mean}");
    assert_eq!(newest(&bench)["policy"]["model"]["model"], "random");
    assert!(bench.run(&["replay", "--all"]).status.success());

    let guess = bench.json(&["run", &bench.guest("env_guess"), "--policy", "random", "--episodes", "5", "--seed", "1"]);
    assert_eq!(guess["endings"]["terminated"], 5, "the range that is left is listed in every turn");
    let hello = bench.guest("hello_guess");
    let nothing =
        |policy: &str| stderr(&bench.run(&["run", &hello, "--policy", policy, "--max-turns", "2", "--episodes", "3"]));
    let told = nothing("random");
    let note =
        "note: random found nothing to act on in any of 6 answers: this environment lists no tools and no choices";
    assert!(told.contains(note), "{told}");
    let told = nothing("follower");
    assert!(
        told.contains("note: follower found nothing to act on in any of 6 answers: it needs orders, or rules such as `when FACT is VALUE: answer TEXT`"),
        "{told}"
    );
    let acts = bench.run(&["run", &shop, "--policy", "random", "--episodes", "2"]);
    assert!(!stderr(&acts).contains("nothing to act on"), "{}", stderr(&acts));
    bench.refused(
        &["run", &shop, "--policy", "randm"],
        &["is not a model", "did you mean `random`?", "another --policy"],
    );
}

#[test]
fn top_p_reaches_endpoints_is_recorded_and_is_part_of_the_state() {
    let Some(bench) = Bench::new("top_p_reaches_endpoints") else { return };
    let guess = bench.guest("env_guess");
    for dialect in ["openai", "anthropic"] {
        let stub = Stub::start(|_, request| says(request, "50", &[]));
        let policy = format!("{dialect}:m@{}", stub.base_url());
        let run = ["run", &guess, "--policy", &policy, "--episodes", "1", "--max-turns", "1"];
        let plain = bench.json(&run);
        assert!(stub.requests()[0].body.get("top_p").is_none(), "the model's own, unless it was chosen");
        let chosen = bench.json(&[&run[..], &["--top-p", "0.25"]].concat());
        assert_eq!(stub.requests()[1].body["top_p"], 0.25, "{dialect}");
        assert_ne!(plain["state_id"], chosen["state_id"]);
        assert_eq!(newest(&bench)["policy"]["sampling"]["top_p"], 0.25);
        let file = bench.data.path().join("run.toml");
        let text = format!("plugin = '{guess}'\npolicy = '{policy}'\nepisodes = 1\nmax_turns = 1\ntop_p = 0.25\n");
        std::fs::write(&file, text).unwrap();
        assert_eq!(bench.json(&["run", file.to_str().unwrap(), "--trust-run-file"])["state_id"], chosen["state_id"]);
    }
    let run = ["run", &guess, "--episodes", "1", "--top-p", "0.25"];
    bench.json(&run);
    let shown = bench.out(&["episodes", "show", &newest_name(&bench)]);
    assert!(shown.contains("  ignored    top_p, which was asked for"), "{shown}");
    bench.refused(&["run", &guess, "--top-p", "0"], &["--top-p: found 0; expected a number above 0 and at most 1"]);
}

#[test]
fn a_missing_key_is_reported_before_anything_is_sent() {
    let Some(bench) = Bench::new("a_missing_key_is_noticed") else { return };
    // All requests to a public address would use this proxy.
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let (guess, judge) = (bench.guest("env_guess"), bench.guest("reward_judge"));
    let file = bench.data.path().join("run.toml");
    let check = |arguments: &[&str], says: &[&str]| {
        let output = bench.command(arguments).env("HTTPS_PROXY", &address).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        says.iter().for_each(|part| assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output)));
        let sent = proxy.accept().map(|_| ()).map_err(|error| error.kind());
        assert_eq!(sent, Err(std::io::ErrorKind::WouldBlock), "nothing is sent");
    };
    let keys = "; use --api-key-file FILE";
    let openai = "api.openai.com answers only requests with a key; set OPENAI_API_KEY to your key";
    check(&["run", &guess, "--policy", "openai:m"], &["error: --policy: ", openai, keys]);
    let anthropic = "api.anthropic.com answers only requests with a key; set ANTHROPIC_API_KEY to your key";
    check(&["run", &guess, "--policy", "anthropic:m@https://api.anthropic.com"], &[anthropic, keys]);
    let grant = ["--reward", &judge, "--grant", "llm:judge=anthropic:m"];
    check(&[&["run", guess.as_str()][..], &grant].concat(), &["error: --grant: ", anthropic]);
    bench.json(&["run", &guess, "--episodes", "1"]);
    check(&[&["score"][..], &grant].concat(), &["error: --grant: ", anthropic]);
    std::fs::write(&file, format!("plugin = '{guess}'\nseed = 1\ngrants = [\"llm:judge=openai:m\"]\n")).unwrap();
    let named = format!("error: {}, line 3: grants: {openai}", file.display());
    check(&["run", file.to_str().unwrap(), "--trust-run-file"], &[&named, keys]);
}
