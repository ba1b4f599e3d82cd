//! The shop, end to end: the follower, models behind both dialects, several rewards at once, and judging later.

use super::*;
use stub::{Received, Reply, Stub, says};

/// The value of a line `FACT: VALUE` in the model's input.
fn fact(request: &Received, name: &str) -> String {
    let prefix = format!("{name}: ");
    let said = request.conversation();
    let line = said.iter().flat_map(|(_, text)| text.lines()).find_map(|line| line.strip_prefix(&prefix));
    line.unwrap_or_default().to_owned()
}

/// Plays the desk: looks up both records at once, mistypes a tool, corrects it, and closes the case by the handbook.
fn clerk(_: usize, request: &Received) -> Reply {
    let (order, customer) = (fact(request, "order"), fact(request, "customer"));
    let tool = fact(request, "always");
    let tool = tool.strip_prefix("call ").and_then(|rest| rest.split(' ').next()).unwrap_or("deny");
    let message = format!("About {order}: {}", fact(request, "amount"));
    let close = serde_json::json!({"order_id": order, "message": message}).to_string();
    let order = serde_json::json!({"order_id": order}).to_string();
    let customer = serde_json::json!({"customer_id": customer}).to_string();
    let said = request.body["messages"].as_array().unwrap();
    match said.iter().filter(|message| message["role"] == "assistant").count() {
        0 => says(request, "I look at both.", &[("a", "look_up_order", &order), ("b", "look_up_customer", &customer)]),
        1 => says(request, "", &[("c", &format!("{tool}_now"), &close)]),
        _ => says(request, "", &[("d", tool, &close)]),
    }
}

fn rewards(bench: &Bench) -> [String; 4] {
    let reward = |name: &str| bench.guest(name);
    ["--reward".into(), reward("reward_state"), "--reward".into(), reward("reward_format")]
}

#[test]
fn the_follower_knows_no_house_rule() {
    let Some(bench) = Bench::new("the_follower_knows_no_house_rule") else { return };
    let shop = bench.guest("env_shop");
    let rewards = rewards(&bench);
    let mut arguments = vec!["run", shop.as_str(), "--episodes", "200", "--seed", "3"];
    arguments.extend(rewards.iter().map(String::as_str));
    let summary = bench.json(&arguments);
    let mean = summary["reward_mean"].as_f64().unwrap();
    assert!((0.2..=0.35).contains(&mean), "{mean}");
    assert_eq!(summary["by_reward"][0]["mean"].as_f64(), Some(mean), "the outcome decides");
    assert_eq!(summary["by_reward"][1]["mean"], 1.0, "what it does is well formed");
    assert_eq!(
        (&summary["rewards"][0]["source"], &summary["rewards"][1]["source"]),
        (&"outcome".into(), &"execution".into())
    );
    let text = stdout(&bench.run(&arguments));
    assert!(text.contains("outcome: 0.3") && text.contains("execution: 1.000"), "{text}");
    let other = bench.json(&["run", &shop, "--episodes", "20", "--seed", "4"]);
    let tasks = |summary: &Value| summary["episodes"].as_array().unwrap().len();
    assert_eq!(tasks(&other), 20);
}

#[test]
fn models_in_both_dialects_use_the_tools() {
    let Some(bench) = Bench::new("models_behind_both_dialects") else { return };
    let shop = bench.guest("env_shop");
    let mut means = Vec::new();
    for dialect in ["openai", "anthropic"] {
        let stub = Stub::start(clerk);
        let policy = format!("{dialect}:clerk@{}", stub.base_url());
        let rewards = rewards(&bench);
        let mut arguments = vec!["run", shop.as_str(), "--policy", &policy, "--episodes", "40", "--seed", "3"];
        arguments.extend(rewards.iter().map(String::as_str));
        let summary = bench.json(&arguments);
        assert_eq!(summary["endings"]["terminated"], 40, "{dialect}");
        assert_eq!(summary["steps"], 120);
        assert!(
            (summary["by_reward"][1]["mean"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-9,
            "one of three turns is faulty"
        );
        means.push(summary["reward_mean"].clone());

        let requests = stub.requests();
        assert_eq!(requests.len(), 120);
        assert!(requests.iter().all(|request| request.is_anthropic() == (dialect == "anthropic")));
        assert!(requests.iter().all(|request| request.tools().len() == 7 && request.tools()[0] == "look_up_order"));
        let last = requests.iter().max_by_key(|request| request.conversation().len()).unwrap().conversation();
        let roles: Vec<&str> = last.iter().map(|(role, _)| role.as_str()).collect();
        let expected: &[&str] = match dialect {
            "openai" => &["system", "user", "assistant", "tool", "tool", "assistant", "tool"],
            // An assistant message with calls only has no text there.
            _ => &["system", "user", "assistant", "tool", "tool", "tool"],
        };
        assert_eq!(roles, expected, "{dialect}");
        assert!(last[3].1.contains("paid by: ") && last[4].1.contains("tier: "), "in the order of the calls: {last:?}");
        assert!(last.last().unwrap().1.contains("there is no tool `"), "{last:?}");

        let run = summary["timing"]["run"].as_str().unwrap();
        let episode =
            bench.json(&["episodes", "show", &format!("{run}/{}", summary["episodes"][0]["id"].as_str().unwrap())]);
        let turns = episode["turns"].as_array().unwrap();
        assert_eq!(turns[0]["tool_results"].as_array().unwrap().len(), 2, "tool results are part of the record");
        assert_eq!(turns[1]["tool_results"][0]["origin"], "host");
        assert!(turns[2]["tool_results"][0]["parts"][0]["text"].as_str().unwrap().starts_with("booked: "));
        assert_eq!(episode["tools"].as_array().unwrap().len(), 7);
        let shown = stdout(&bench.run(&["episodes", "show", &format!("{run}/{}", episode["id"].as_str().unwrap())]));
        assert!(shown.contains("refused") && shown.contains("booked: "), "{shown}");
        assert_eq!(turns[0]["answered_by"]["model"], "stub", "the answering model is recorded, not the requested one");
        assert!(shown.contains("by         stub\n") && !shown.contains("which was asked for"), "{shown}");
    }
    assert_eq!(means[0], means[1], "the dialect changes no result");
}

#[test]
fn stored_episodes_are_judged_by_another_reward() {
    let Some(bench) = Bench::new("stored_episodes_are_judged") else { return };
    let (shop, state) = (bench.guest("env_shop"), bench.guest("reward_state"));
    let summary = bench.json(&["run", &shop, "--reward", &state, "--episodes", "30", "--group", "3", "--seed", "3"]);
    let run = summary["timing"]["run"].as_str().unwrap().to_owned();
    let format = bench.guest("reward_format");
    let scored = bench.json(&["score", "--reward", &format, "--run", &run]);
    let rescored = &scored["report"]["rewards"][0];
    assert_eq!((&rescored["added"], &rescored["mean"]), (&30.into(), &1.0.into()));
    assert_eq!(rescored["mean_before"], summary["reward_mean"], "beside the run's own reward");
    let again = bench.json(&["score", "--reward", &format, "--reward", &state]);
    assert_eq!(
        (&again["report"]["rewards"][0]["unchanged"], &again["report"]["rewards"][1]["unchanged"]),
        (&30.into(), &30.into())
    );
    assert_eq!(again["run"], run.as_str(), "the newest run is meant");
    let text = stdout(&bench.run(&["score", "--reward", &format]));
    assert!(text.contains("30 judged") && text.contains("30 as before"), "{text}");
    let id = summary["episodes"][0]["id"].as_str().unwrap();
    let shown = stdout(&bench.run(&["episodes", "show", id]));
    assert!(
        shown.contains("reward-format (execution, revision 1 of ") && shown.contains(", no part of the reward)"),
        "{shown}"
    );
    let stored = bench.json(&["episodes", "list", "--run", &run, "--limit", "30"]);
    for (row, episode) in stored.as_array().unwrap().iter().zip(summary["episodes"].as_array().unwrap()) {
        assert_eq!(row["reward"], episode["reward"], "the run's reward stands");
    }
}

/// A judge whose vote depends on its input.
fn vote(number: usize, request: &Received) -> Reply {
    let said = request.conversation();
    let text = &said.last().unwrap().1;
    assert!(text.contains("==== MATERIAL ====") && text.contains("Rubric: "), "{text}");
    match number % 4 {
        0 => says(request, "A fine piece of work, if I may say so.", &[]),
        _ if text.contains("as the house wants it") => says(request, "yes \\boxed{1}", &[]),
        _ => says(request, "no \\boxed{-1}", &[]),
    }
}

#[test]
fn a_judge_votes_fails_and_is_retried() {
    let Some(bench) = Bench::new("a_judge_votes_fails") else { return };
    let (shop, judge) = (bench.guest("env_shop"), format!("{}?votes=5", bench.guest("reward_judge")));
    let stub = Stub::start(vote);
    let run = |grant: &str, budget: &str| {
        bench.run(&[
            "run",
            &shop,
            "--reward",
            &judge,
            "--grant",
            grant,
            "--episodes",
            "12",
            "--seed",
            "3",
            "--json",
            "--retries",
            "0",
            "--failure-budget",
            budget,
        ])
    };
    let output = run(&format!("llm:judge=anthropic:m@{}", stub.base_url()), "0.1");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    assert_eq!(
        (&summary["scored"], &summary["failed"]),
        (&12.into(), &0.into()),
        "prose is no vote, and four are left"
    );
    assert_eq!(stub.requests().len(), 60);
    let values: Vec<f64> =
        summary["episodes"].as_array().unwrap().iter().map(|episode| episode["reward"].as_f64().unwrap()).collect();
    assert!(values.contains(&1.0) && values.contains(&-1.0), "{values:?}");

    // Every third call fails: each fails only its own verdict.
    let flaky = Stub::start(|number, request| match number % 11 {
        5 => Reply::Http(500, vec![], "down".into()),
        _ => says(request, "\\boxed{1}", &[]),
    });
    let spec = format!("llm:judge=openai:m@{}", flaky.base_url());
    let output = run(&spec, "1");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let (scored, failed) = (summary["scored"].as_u64().unwrap(), summary["failed"].as_u64().unwrap());
    assert!(scored + failed == 12 && scored > 0 && failed > 0, "{scored} scored, {failed} failed");
    assert_eq!(summary["reward_mean"], 1.0, "failed verdicts are not in the mean");
    let first = summary["episodes"].as_array().unwrap().iter().find(|episode| !episode["failure"].is_null()).unwrap();
    assert!(first["reward"].is_null() && first["failure"].as_str().unwrap().contains("the judge did not answer"));

    // The same judge works again: its failures are replaced, and the run's summary is updated.
    let good = Stub::start(|_, request| says(request, "\\boxed{-1}", &[]));
    let run_id = summary["timing"]["run"].as_str().unwrap();
    let address = flaky.base_url();
    drop(flaky);
    let elsewhere =
        bench.json(&["score", "--reward", &judge, "--grant", &format!("llm:judge=openai:m@{}", good.base_url())]);
    assert_eq!(elsewhere["report"]["rewards"][0]["added"], 12, "another judge model gives new verdicts");
    let port: u16 = address.trim_end_matches("/v1").rsplit(':').next().unwrap().parse().unwrap();
    let Some(again) = Stub::start_at(port, |_, request| says(request, "\\boxed{-1}", &[])) else { return };
    let made = bench.json(&["score", "--reward", &judge, "--grant", &spec, "--run", run_id]);
    let rescored = &made["report"]["rewards"][0];
    assert_eq!((&rescored["made_good"], &rescored["unchanged"]), (&failed.into(), &scored.into()), "{rescored}");
    assert_eq!(again.requests().len() as u64, failed * 5, "only failed verdicts are requested again");
    let runs = bench.json(&["runs", "list"]);
    let row = runs.as_array().unwrap().iter().find(|row| row["id"] == run_id).unwrap();
    assert_eq!(
        (&row["scored"], &row["summary"]["scored"]),
        (&12.into(), &scored.into()),
        "the row is current, and the stored summary unchanged"
    );
    let mean = (scored as f64 - failed as f64) / 12.0;
    assert!((row["reward_mean"].as_f64().unwrap() - mean).abs() < 1e-9);
    drop(again);

    let prose = Stub::start(|_, request| says(request, "Let me tell you a story.", &[]));
    let output = run(&format!("llm:judge=openai:m@{}", prose.base_url()), "0.1");
    assert_eq!(output.status.code(), Some(4), "a judge that never votes stops the run");
    assert!(stderr(&output).contains("never voted"), "{}", stderr(&output));
}

#[test]
fn a_policy_without_valid_calls_fails_the_case() {
    let Some(bench) = Bench::new("who_never_makes_a_good_call") else { return };
    let (shop, rewards) = (bench.guest("env_shop"), rewards(&bench));
    let stub = Stub::start(|_, request| says(request, "", &[("x", "refnd", "{}"), ("y", "refund", "{oops")]));
    let policy = format!("openai:m@{}", stub.base_url());
    let mut arguments = vec!["run", shop.as_str(), "--policy", &policy, "--episodes", "3", "--seed", "3"];
    arguments.extend(rewards.iter().map(String::as_str));
    let summary = bench.json(&arguments);
    assert_eq!((&summary["reward_mean"], &summary["scored"]), (&0.0.into(), &3.into()), "the outcome is known");
    assert_eq!(summary["endings"]["truncated"], 3, "such messages count towards the customer's patience");
    assert_eq!(summary["steps"], 24);
    // Servers parse the conversation again: invalid arguments of the model were sent back as JSON.
    let requests = stub.requests();
    let call = requests.iter().find_map(|request| {
        request.body.pointer("/messages/2/tool_calls/1/function/arguments").and_then(Value::as_str)
    });
    let call = call.unwrap();
    assert!(serde_json::from_str::<Value>(call).unwrap()["unreadable_arguments"].is_string(), "{call}");
}

#[test]
fn a_spent_budget_stops_scoring_and_the_rest_is_scored_later() {
    let Some(bench) = Bench::new("a_spent_budget_stops_judging") else { return };
    let (math, judge) = (bench.guest("env_math"), format!("{}?votes=1", bench.guest("reward_judge")));
    bench.json(&["run", &math, "--episodes", "12", "--seed", "7"]);
    let stub = Stub::start(|_, request| says(request, "\\boxed{1}", &[]));
    let grant = format!("llm:judge=openai:m@{}", stub.base_url());
    let score = ["score", "--reward", &judge, "--grant", &grant, "--concurrency", "1", "--json"];
    let output = bench.run(&[&score[..], &["--max-tokens-total", "40"]].concat());
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
    let first: Value = serde_json::from_slice(&output.stdout).unwrap();
    let added = first["report"]["rewards"][0]["added"].as_u64().unwrap();
    assert!((1..12).contains(&added) && first["report"]["rewards"][0]["failed"] == 0, "{first:#}");
    let rest = bench.json(&score[..score.len() - 1]);
    assert_eq!(
        (&rest["report"]["rewards"][0]["added"], &rest["report"]["rewards"][0]["unchanged"]),
        (&(12 - added).into(), &added.into())
    );
    assert_eq!(stub.requests().len(), 12, "nothing is paid for twice");
}

#[test]
fn a_grant_that_a_reward_does_not_use_has_no_effect() {
    let Some(bench) = Bench::new("a_grant_that_a_reward_cannot_use") else { return };
    let (math, exact) = (bench.guest("env_math"), format!("{}?tolerance=0.5", bench.guest("reward_exact")));
    bench.json(&["run", &math, "--reward", &exact, "--grant", "llm:judge=follower", "--episodes", "4", "--seed", "7"]);
    let scored = bench.json(&["score", "--reward", &exact]);
    assert_eq!(scored["report"]["rewards"][0]["unchanged"], 4);
    let two = format!("{}?votes=3&alias=judge", bench.guest("reward_judge"));
    let turned = format!("{}?alias=judge&votes=3", bench.guest("reward_judge"));
    let votes = bench.data.path().join("votes.txt");
    std::fs::write(&votes, "\\boxed{1}\n").unwrap();
    let grant = format!("llm:judge=script:{}", votes.display());
    bench.json(&["score", "--reward", &two, "--grant", &grant]);
    let again = bench.json(&["score", "--reward", &turned, "--grant", &grant]);
    assert_eq!(again["report"]["rewards"][0]["unchanged"], 4, "the order of options asks the same question");
}

#[test]
fn the_system_prompt_is_recorded_with_the_episode() {
    let Some(bench) = Bench::new("what_a_model_was_told_first") else { return };
    let shop = bench.guest("env_shop");
    let told = |arguments: &[&str]| {
        bench.json(&[&["run", shop.as_str(), "--episodes", "1"], arguments].concat());
        let id = bench.json(&["episodes", "list"])[0]["id"].as_str().unwrap().to_owned();
        bench.json(&["episodes", "show", &id])["policy"]["system_prompt"].as_str().unwrap().to_owned()
    };
    assert!(told(&[]).starts_with("You work at the desk"));
    assert_eq!(told(&["--system-prompt", "always: call deny {}"]), "always: call deny {}");
}

#[test]
fn misused_tools_leave_a_valid_conversation() {
    let Some(bench) = Bench::new("tools_in_odd_hands") else { return };
    for dialect in ["openai", "anthropic"] {
        let stub = Stub::start(|_, request| {
            says(request, "", &[("x", "look", "{}"), ("x", "wave", "{}"), ("y", "fly", "{}"), ("z", "look", "{}")])
        });
        let policy = format!("{dialect}:m@{}", stub.base_url());
        let summary =
            bench.json(&["run", &bench.guest("odd_tools"), "--policy", &policy, "--episodes", "1", "--max-turns", "2"]);
        assert_eq!(summary["endings"]["truncated"], 1);
        let said = stub.requests()[1].conversation();
        let results: Vec<&str> =
            said.iter().filter(|(role, _)| role == "tool").map(|(_, text)| text.as_str()).collect();
        assert_eq!(results.len(), 4, "every call has one answer: {said:?}");
        let silence = if dialect == "openai" { "" } else { "(empty)" };
        assert_eq!((results[0], results[1], results[3]), ("seen <|im_end|>", silence, "seen <|im_end|>"));
        assert!(results[2].contains("no tool `fly`; there are look, wave"), "a tool that was not offered is an error");
        assert!(said.iter().any(|(role, text)| role == "user" && text == "nobody asked"), "{said:?}");
        assert!(
            said.iter().any(|(role, text)| role == "user" && text.contains("<|im_start|>system")),
            "verbatim, as a user"
        );
    }
}
