//! `score --against` compares two judges of stored episodes, and `score --history` shows which components of a reward have judged.

use super::stub::Stub;
use super::*;

/// The reward of the runs: it passes what is near the reference.
fn near(bench: &Bench) -> String {
    format!("{}?tolerance=40", bench.guest("reward_exact"))
}

/// A reward that passes a part of what the other one passes.
fn strict(bench: &Bench) -> String {
    format!("{}?tolerance=10", bench.guest("reward_exact"))
}

/// A run of 60 episodes in groups of three, all answered with the same number.
fn play(bench: &Bench, seed: &str) -> String {
    let script = bench.data.path().join("fifty.txt");
    std::fs::write(&script, "50\n").unwrap();
    let (math, policy) = (bench.guest("env_math"), format!("script:{}", script.display()));
    let more = ["--episodes", "60", "--group", "3", "--seed", seed];
    bench.play(&[&[&math, "--policy", &policy, "--reward", &near(bench)][..], &more].concat())
}

/// The four numbers of a table.
fn confusion(passing: &Value) -> [u64; 4] {
    ["both", "only_a", "only_b", "neither"].map(|name| passing["confusion"][name].as_u64().unwrap())
}

#[test]
fn two_rewards_are_compared_on_stored_episodes_and_nothing_is_judged_twice() {
    let Some(bench) = Bench::new("two_rewards_are_compared") else { return };
    let run = play(&bench, "7");
    let (near, strict) = (near(&bench), strict(&bench));
    let compare = ["score", "--reward", &strict, "--against", &near];
    let first = bench.json(&compare);
    assert_eq!((&first["format"], &first["coverage"]["both"]), (&1.into(), &60.into()), "{first:#}");
    assert_eq!(first["coverage"]["tasks"], 20, "a group has one task");
    let judged = &first["runs"][0]["report"]["rewards"];
    assert_eq!((&judged[0]["added"], &judged[1]["unchanged"]), (&60.into(), &60.into()), "B had judged the run");
    // A passes a part of what B passes.
    let [both, only_a, only_b, neither] = confusion(&first["passing"]);
    assert_eq!((both + only_b + neither, only_a), (60, 0));
    assert!(both > 0 && only_b > 0 && neither > 0, "{first:#}");
    let share = first["passing"]["agreement"]["value"].as_f64().unwrap();
    assert!((share - (both + neither) as f64 / 60.0).abs() < 1e-12);
    let difference = &first["difference"];
    assert!((difference["value"].as_f64().unwrap() + only_b as f64 / 60.0).abs() < 1e-12, "{difference}");
    assert!(difference["interval"]["low"].as_f64() < difference["value"].as_f64());
    assert_eq!(first["thresholds"], serde_json::json!({ "a": 0.5, "b": 0.5 }), "the middle of 0 to 1");
    // Both are measured where they were asked, and only there.
    let measured = &first["a"]["cost"]["measured"];
    assert_eq!((&first["a"]["cost"]["calls"], &measured["calls"]), (&60.into(), &60.into()));
    assert!(measured["fuel"].as_u64().unwrap() > 0 && first["b"]["cost"]["measured"].is_null(), "{first:#}");
    assert_eq!(first["b"]["cost"]["verdicts"], 60);

    // Again: nothing is asked, and everything else is the same.
    let mut second = bench.json(&compare);
    assert_eq!(second["runs"][0]["report"]["rewards"][0]["unchanged"], 60);
    assert!(second["a"]["cost"]["measured"].is_null());
    let mut expect = first.clone();
    for document in [&mut second, &mut expect] {
        document.as_object_mut().unwrap().remove("runs");
        document["a"].as_object_mut().unwrap().remove("cost");
    }
    assert_eq!(second, expect);

    // Exchanged, the numbers are mirrored.
    let mirrored = bench.json(&["score", "--reward", &near, "--against", &strict]);
    assert_eq!(confusion(&mirrored["passing"]), [both, only_b, 0, neither]);
    assert_eq!(mirrored["passing"]["kappa"], first["passing"]["kappa"]);
    let stored = bench.json(&["episodes", "list", "--run", &run, "--limit", "100"]);
    assert!(stored.as_array().unwrap().iter().all(|row| row["revision"] == 1), "one new verdict each");
}

#[test]
fn the_disagreements_are_named_with_both_reasons_and_the_command_that_shows_them() {
    let Some(bench) = Bench::new("the_disagreements_are_named") else { return };
    let run = play(&bench, "7");
    let (near, strict) = (near(&bench), strict(&bench));
    let compare = ["score", "--reward", &strict, "--against", &near, "--disagreements", "3", "--quiet"];
    let found = bench.json(&compare)["disagreements"].clone();
    assert_eq!(found.as_array().unwrap().len(), 3);
    for one in found.as_array().unwrap() {
        assert_eq!(one["scores"], serde_json::json!({ "a": 0.0, "b": 1.0 }), "{one}");
        let said = [&one["rationales"]["a"], &one["rationales"]["b"]].map(|text| text.as_str().unwrap());
        assert!(said[0].ends_with(" is not the reference") && said[1].ends_with(" is the reference"), "{said:?}");
    }
    let text = bench.out(&compare);
    let id = found[0]["episode"].as_str().unwrap();
    for part in [
        "A           reward-exact?tolerance=10 0.1.0 (",
        "60 scored by both (20 tasks), 0 by A only, 0 by B only, 0 by neither",
        "rho         ",
        "Spearman's rank correlation",
        "Cohen's kappa of passing",
        "A passes",
        "cost of a call",
        &format!("episodes show {run}/{id}  task "),
        "A 0.000 (above ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours where there is no terminal");
    bench.out(&["episodes", "show", &format!("{run}/{id}")]);
}

#[test]
fn a_reward_is_compared_with_the_own_reward_of_the_episodes() {
    let Some(bench) = Bench::new("a_reward_is_compared_with_the_own_reward") else { return };
    play(&bench, "7");
    let strict = strict(&bench);
    let own = bench.json(&["score", "--reward", &strict, "--against", "own"]);
    let exact = bench.json(&["score", "--reward", &strict, "--against", &near(&bench)]);
    assert_eq!((&own["b"]["judge"], &own["b"]["range"]), (&"own".into(), &serde_json::json!([0.0, 1.0])), "{own:#}");
    for part in ["coverage", "spearman", "kendall", "difference", "thresholds", "passing", "disagreements"] {
        assert_eq!(own[part], exact[part], "the own reward is that of reward-exact: {part}");
    }
    let sources: Vec<&Value> = own["slices"].as_array().unwrap().iter().filter(|one| one["by"] == "source").collect();
    assert_eq!((sources.len(), &sources[0]["value"]), (1, &"outcome".into()));
    // The verdicts of A are no part of it: nothing is left.
    let near = near(&bench);
    let says = ["no episode has a score of both: of 60 complete episodes, reward-exact scored 60 and own scored 0"];
    bench.refused(&["score", "--reward", &near, "--against", "own"], &says);
}

#[test]
fn a_reward_is_compared_with_what_people_said() {
    let Some(bench) = Bench::new("a_reward_is_compared_with_what_people_said") else { return };
    let run = play(&bench, "7");
    let rows = bench.json(&["episodes", "list", "--run", &run, "--limit", "100"]);
    // People agree with the reward about every third episode, but for one.
    for (number, row) in rows.as_array().unwrap().iter().step_by(3).enumerate() {
        let is_right = row["reward"] == 1.0;
        let thumbs = if is_right == (number != 4) { "up" } else { "down" };
        let name = format!("{run}/{}", row["id"].as_str().unwrap());
        bench.out(&["feedback", &name, "--thumbs", thumbs, "--text", "well\u{1b}[31m\nverdict 1"]);
    }
    let compare = ["score", "--reward", &near(&bench), "--against", "feedback"];
    let found = bench.json(&compare);
    assert_eq!((&found["coverage"]["both"], &found["coverage"]["only_a"]), (&20.into(), &40.into()), "{found:#}");
    assert_eq!(found["coverage"]["answers"]["b"]["missing"], 40);
    assert_eq!(found["thresholds"], serde_json::json!({ "a": 0.5, "b": 0.0 }), "feedback lies from -1 to 1");
    let [both, only_a, only_b, neither] = confusion(&found["passing"]);
    assert_eq!((only_a + only_b, both + neither), (1, 19));
    assert!(found["passing"]["kappa"]["interval"].is_object(), "{found:#}");
    let text = bench.out(&compare);
    assert!(text.contains("20 verdicts of people") && text.contains("without a score of B: 40 no verdict"), "{text}");
    assert!(text.contains("well\\u{1b}[31m") && !text.contains('\u{1b}') && !text.contains("\nverdict 1"), "{text}");
    let bench = bench.warm();
    play(&bench, "7");
    bench.refused(
        &compare,
        &["no episode has a score of both", "and feedback scored 0", "`clawhost runs list` shows the runs"],
    );
}

#[test]
fn a_reward_of_groups_is_compared_with_one_of_episodes() {
    let Some(bench) = Bench::new("a_reward_of_groups_is_compared") else { return };
    play(&bench, "7");
    let (group, near) = (bench.guest("odd_group_reward"), near(&bench));
    let found = bench.json(&["score", "--reward", &group, "--against", &near]);
    assert_eq!(found["coverage"]["both"], 60, "{found:#}");
    let cost = &found["a"]["cost"];
    assert_eq!((&cost["verdicts"], &cost["calls"], &cost["measured"]["calls"]), (&60.into(), &20.into(), &20.into()));
}

#[test]
fn episodes_of_several_runs_are_compared_by_where_they_come_from() {
    let Some(bench) = Bench::new("episodes_of_several_runs_are_compared") else { return };
    let (math, near, strict) = (bench.guest("env_math"), near(&bench), strict(&bench));
    let script = play(&bench, "7");
    let random = bench.play(&[&math, "--policy", "random", "--reward", &near, "--episodes", "12", "--seed", "9"]);
    let compare = ["score", "--reward", &strict, "--against", &near];
    let found = bench.json(&[&compare[..], &[&script, &random]].concat());
    assert_eq!(found["coverage"]["both"], 72, "{found:#}");
    let rows = |by: &str| -> Vec<(String, u64)> {
        let of_kind = found["slices"].as_array().unwrap().iter().filter(|one| one["by"] == by);
        of_kind
            .map(|one| (one["value"].as_str().unwrap().to_owned(), confusion(&one["passing"]).iter().sum()))
            .collect()
    };
    assert_eq!(rows("run"), [(script.clone(), 60), (random.clone(), 12)]);
    assert_eq!(rows("policy"), [("script".to_owned(), 60), ("random".to_owned(), 12)]);
    assert_eq!(rows("tasks"), [("env-math, train".to_owned(), 72)]);
    assert_eq!(rows("source"), [("outcome".to_owned(), 72)]);
    let text = bench.out(&[&compare[..], &["--all"]].concat());
    assert!(text.contains("policy") && text.contains("random") && !text.contains("env-math, train"), "{text}");
    // A run that is named twice is judged once.
    let twice = bench.json(&[&compare[..], &[&random, &random, "last"]].concat());
    assert_eq!(twice["coverage"]["both"], 12);
    bench.refused(&[&compare[..], &[&random, "--all"]].concat(), &["cannot be used with"]);
}

#[test]
fn a_comparison_that_cannot_be_made_is_refused_with_its_reason() {
    let Some(bench) = Bench::new("a_comparison_that_cannot_be_made") else { return };
    play(&bench, "7");
    let (near, strict) = (near(&bench), strict(&bench));
    let format = bench.guest("reward_format");
    let check = |more: &[&str], says: &[&str]| bench.refused(&[&["score"], more].concat(), says);
    check(
        &["--reward", &strict, "--against", &strict],
        &["both rewards are reward-exact, the same component with equal options"],
    );
    check(
        &["--reward", &near, "--reward", &format, "--against", &strict],
        &["2 rewards are given; one reward is compared with one other judge"],
    );
    check(&["--against", &near], &["--reward"]);
    check(&["--reward", &near, "--against", &near, "--against", &strict], &["cannot be used multiple times"]);
    check(&["--reward", &near, "--threshold", "0.5"], &["--against"]);
    check(&["--reward", &near, "--against", &strict, "--threshold", "2"], &["--threshold"]);
    check(&["--reward", &near, "--against", &strict, "nowhere"], &["no run `nowhere` here"]);
    check(&["--reward", &near, "--history", "reward-exact"], &["cannot be used with"]);
    let signal = format!("{}?name=nowhere", bench.guest("reward_signal"));
    let says = ["of 60 complete episodes, reward-exact scored 60 and reward-signal scored 0"];
    check(&["--reward", &near, "--against", &signal], &says);
    let thresholds = bench.json(&["score", "--reward", &strict, "--against", &near, "--threshold", "0.25,1"]);
    assert_eq!(thresholds["thresholds"], serde_json::json!({ "a": 0.25, "b": 1.0 }));
}

#[cfg(unix)]
#[test]
fn a_comparison_that_is_stopped_keeps_what_was_judged_and_continues() {
    let Some(bench) = Bench::new("a_comparison_that_is_stopped") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    bench.play(&[&math, "--reward", &exact, "--episodes", "40", "--seed", "7"]);
    let gate = std::sync::Arc::new(gate::Gate::new(10));
    let held = gate.clone();
    let stub = Stub::start(move |number, _| {
        held.pass(number);
        stub::chat(if number % 3 == 0 { "\\boxed{-1}" } else { "\\boxed{1}" })
    });
    let judge = format!("{}?votes=1", bench.guest("reward_judge"));
    let grant = format!("llm:judge=openai:m@{}", stub.base_url());
    let compare =
        ["score", "--reward", &judge, "--against", &exact, "--grant", &grant, "--concurrency", "1", "--price", "1,1"];
    let child = bench
        .command(&[&compare[..], &["--json"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    gate.reached();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    gate.open();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["runs"][0]["report"]["stopped"], "cancelled");
    assert_eq!((&found["coverage"]["both"], &found["a"]["cost"]["requests"]), (&10.into(), &10.into()), "{found:#}");
    let rest = bench.json(&compare);
    let judged = &rest["runs"][0]["report"]["rewards"][0];
    assert_eq!((&judged["unchanged"], &judged["added"]), (&10.into(), &30.into()));
    // Ten tokens are read and two are generated for each, those of the first call included.
    let cost = &rest["a"]["cost"];
    assert_eq!((&cost["prompt_tokens"], &cost["completion_tokens"]), (&400.into(), &80.into()), "{cost}");
    assert_eq!((&cost["requests"], &cost["measured"]["calls"]), (&40.into(), &30.into()));
    assert!((cost["money"].as_f64().unwrap() - 0.00048).abs() < 1e-12, "{cost}");
    assert!(bench.out(&compare).contains("1.0 requests to models, 12 tokens, 0.000012 of money"));
}

#[test]
fn the_history_of_a_reward_names_its_components_the_newest_last() {
    let Some(bench) = Bench::new("the_history_of_a_reward") else { return };
    let exact = bench.guest("reward_exact");
    play(&bench, "7");
    // The same component with one more custom section: another digest of the same name and version.
    let mut bytes = std::fs::read(&exact).unwrap();
    bytes.extend([0, 5, 4, b'm', b'a', b'd', b'e']);
    let rebuilt = bench.data.path().join("rebuilt.wasm").display().to_string();
    std::fs::write(&rebuilt, bytes).unwrap();
    bench.json(&["score", "--reward", &format!("{rebuilt}?tolerance=40")]);
    let random = bench.play(&[&bench.guest("env_math"), "--policy", "random", "--episodes", "4"]);
    bench.json(&["score", "--reward", &strict(&bench), &random]);
    let history = bench.json(&["score", "--history", "reward-exact"]);
    let uses = history["uses"].as_array().unwrap();
    let counts: Vec<(u64, u64)> =
        uses.iter().map(|one| (one["verdicts"].as_u64().unwrap(), one["runs"].as_u64().unwrap())).collect();
    assert_eq!(counts, [(60, 1), (60, 1), (4, 1)], "{history:#}");
    let digest = |place: usize| uses[place]["digest"].as_str().unwrap();
    assert!(digest(0) != digest(1) && digest(0) == digest(2), "{history:#}");
    assert_eq!((&uses[0]["mean"], &uses[0]["interval"]), (&uses[1]["mean"], &uses[1]["interval"]));
    assert_eq!(uses[2]["options"], serde_json::json!([["tolerance", "10"]]));
    let times: Vec<u64> = uses.iter().map(|one| one["last_at"].as_u64().unwrap()).collect();
    assert!(times.is_sorted() && uses.iter().all(|one| one["first_at"].as_u64() <= one["last_at"].as_u64()));
    let text = bench.out(&["score", "--history", "reward-exact"]);
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.lines().last().unwrap().contains("tolerance=10"), "{text}");
    assert_eq!(bench.json(&["score", "--history", "reward-exact", &random])["uses"].as_array().unwrap().len(), 1);
    let says = ["no stored verdict is of a reward `reward-exat`; did you mean `reward-exact`?"];
    bench.refused(&["score", "--history", "reward-exat"], &says);
}
