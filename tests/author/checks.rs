//! `clawhost check` finds each weakness, and nothing in sound plugins.

use super::{Desk, guests, manifest};
use serde_json::Value;

/// The outcome of a check, with what it says.
fn found(report: &Value, check: &str) -> (String, String) {
    let all = report["checks"].as_array().unwrap();
    let one = all.iter().find(|one| one["check"] == check);
    let one = one.unwrap_or_else(|| panic!("there is no check {check}: {report:#}"));
    (one["outcome"].as_str().unwrap().to_owned(), one["says"].as_str().unwrap().to_owned())
}

#[test]
fn each_weakness_fails_its_check_and_no_other() {
    let Some(guests) = guests::folder_or_skip("each_weakness_fails_its_check_and_no_other") else { return };
    let desk = Desk::new();
    for (guest, check, says) in [
        ("weak_splits", "splits", "are the same"),
        ("weak_seeds", "seeds", "8 seeds gave equal tasks and equal episodes"),
        ("weak_brittle", "hostile-agents", "an agent that sends empty fails the episode: "),
        ("odd_tools", "tools", "`look`: the type of its schema must be \"object\""),
        ("odd_moody", "equal-episodes", "and then"),
        ("weak_length", "gaming", "when the same answer is padded"),
        ("weak_praise", "gaming", "when the same answer is praised"),
        ("weak_trap", "hostile-answers", "an answer that is empty fails the verdict: "),
    ] {
        let plugin = guests.join(format!("{guest}.wasm")).display().to_string();
        let report = desk.json(".", &["check", &plugin], 1);
        assert_eq!(report["passed"], false, "{guest}");
        let (outcome, said) = found(&report, check);
        assert_eq!(outcome, "failed", "{guest}: {report:#}");
        assert!(said.contains(says), "{guest}: {said}");
        let failed: Vec<&Value> =
            report["checks"].as_array().unwrap().iter().filter(|one| one["outcome"] == "failed").collect();
        // It says the same whatever the seed, too.
        let expect = if guest == "odd_tools" { 2 } else { 1 };
        assert_eq!(failed.len(), expect, "{guest}: {failed:#?}");
        assert!(failed[0]["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{guest}");
        let text = desk.out(".", &["check", &plugin], 1);
        assert!(text.contains("to fix it: ") && text.contains(&format!("{expect} failed")), "{guest}: {text}");
    }
}

#[test]
fn plugins_that_ship_keep_what_they_promise() {
    let Some(guests) = guests::folder_or_skip("plugins_that_ship_keep_what_they_promise") else { return };
    let desk = Desk::new();
    for plugin in [
        "env_guess",
        "env_shop",
        "env_math",
        "env_clean",
        "env_cave",
        "reward_exact",
        "reward_format",
        "reflector_rules",
    ] {
        let path = guests.join(format!("{plugin}.wasm")).display().to_string();
        let report = desk.json(".", &["check", &path], 0);
        assert_eq!(report["passed"], true, "{plugin}: {report:#}");
        let digest = report["plugin"]["digest"].as_str().unwrap();
        let inspected = desk.json(".", &["inspect", &path], 0);
        assert_eq!(inspected["plugin"]["digest"], digest, "a report names the component that was checked");
    }
}

const EXACT: &str = "[tasks]\nrewards = [\"./reward.wasm\"]\n";

/// A folder of `env_math` with these promises, and the reward that compares answers.
fn math(desk: &Desk, guests: &std::path::Path, promises: &str) {
    desk.packed(guests, "env_math", &manifest("env-math", "environment", &format!("{EXACT}[expect]\n{promises}\n")));
    std::fs::copy(guests.join("reward_exact.wasm"), desk.path("env_math/reward.wasm")).unwrap();
}

#[test]
fn the_oracle_must_reach_the_maximum_and_doing_nothing_must_stay_at_the_floor() {
    let Some(guests) = guests::folder_or_skip("the_oracle_must_reach_the_maximum") else { return };
    let desk = Desk::new();
    let check = |promises: &str, check: &str, outcome: &str, says: &str| {
        math(&desk, &guests, promises);
        let code = if outcome == "failed" { 1 } else { 0 };
        let report = desk.json("env_math", &["check"], code);
        let (found, said) = found(&report, check);
        assert_eq!(found, outcome, "{promises}: {said}");
        assert!(said.contains(says), "{promises}: {said}");
    };
    check("maximum = 1.0\nfloor = 0.0\noracle = \"reference\"", "oracle", "passed", "has 1.000 in 100 episodes");
    check("maximum = 1.0\noracle = \"follower\"", "oracle", "failed", "the oracle (follower) has 0.");
    check("floor = 0.0", "floor", "passed", "an agent that does nothing has 0.000 in 100 episodes");
    check("floor = -0.5", "floor", "failed", "promised: at most -0.5");
    check("deterministic = false", "determinism", "skipped", "not promised");
    // A component alone has the names of its rewards.
    math(&desk, &guests, "maximum = 1.0\nfloor = 0.0\noracle = \"reference\"");
    let report = desk.json(".", &["check", "env_math/build/env-math.wasm"], 0);
    for check in ["oracle", "floor"] {
        let (outcome, said) = found(&report, check);
        assert!(outcome == "skipped" && said.contains("its reward `./reward.wasm` is not here"), "{said}");
    }
    // An agent that does nothing must end its episode, too.
    let promises = "[tasks]\nrewards = [\"./reward.wasm\"]\n[expect]\nfloor = 0.0\n";
    desk.packed(&guests, "weak_brittle", &manifest("weak-brittle", "environment", promises));
    std::fs::copy(guests.join("reward_exact.wasm"), desk.path("weak_brittle/reward.wasm")).unwrap();
    let report = desk.json("weak_brittle", &["check"], 1);
    let (outcome, said) = found(&report, "floor");
    assert_eq!(outcome, "failed", "{said}");
    assert!(said.contains("100 of 100 episodes of an agent that does nothing fail: "), "{said}");
}

#[test]
fn a_script_for_each_task_or_a_component_can_be_the_oracle() {
    let Some(guests) = guests::folder_or_skip("a_script_for_each_task_or_a_component_can_be_the_oracle") else {
        return;
    };
    let desk = Desk::new();
    math(&desk, &guests, "maximum = 1.0\noracle = \"scripts:oracle\"");
    let report = desk.json("env_math", &["check"], 1);
    let (_, said) = found(&report, "oracle");
    assert!(said.contains("oracle/"), "a missing script is named: {said}");
    let tasks =
        desk.json("env_math", &["tasks", ".", "--limit", "200", "--split", "train", "--seed", "1", "--reference"], 0);
    for task in tasks["tasks"]["splits"][0]["listed"].as_array().unwrap() {
        let reference: Value = serde_json::from_str(task["reference"].as_str().unwrap()).unwrap();
        let answer = reference.as_str().map_or_else(|| reference.to_string(), str::to_owned);
        desk.write(&format!("env_math/oracle/{}.txt", task["id"].as_str().unwrap()), &format!("{answer}\n"));
    }
    let report = desk.json("env_math", &["check"], 0);
    assert_eq!(found(&report, "oracle").0, "passed");
    // A component that repeats what it sees plays, and does not know the answers.
    math(&desk, &guests, "maximum = 1.0\noracle = \"component:echo.wasm\"");
    std::fs::copy(guests.join("odd_echo.wasm"), desk.path("env_math/echo.wasm")).unwrap();
    let report = desk.json("env_math", &["check"], 1);
    let (outcome, said) = found(&report, "oracle");
    assert_eq!(outcome, "failed");
    assert!(said.contains("the oracle (component:echo.wasm) has 0.000 in 100 episodes"), "{said}");
}

#[test]
fn the_order_of_a_group_must_not_matter_where_that_is_promised() {
    let Some(guests) = guests::folder_or_skip("the_order_of_a_group_must_not_matter_where_that_is_promised") else {
        return;
    };
    let desk = Desk::new();
    let cases = "[[case]]\nname = \"a\"\nturns = [{ answer = \"1\" }]\nexpect = { verdict = \"scored\" }\n\
        [[case]]\nname = \"b\"\nturns = [{ answer = \"1\" }, { answer = \"2\" }]\nexpect = { verdict = \"scored\" }\n";
    for (guest, name, outcome) in [("weak_order", "weak-order", "failed"), ("odd_ranking", "odd-ranking", "passed")] {
        desk.packed(
            &guests,
            guest,
            &manifest(name, "reward", "[grants]\nllm = [\"judge\"]\n[expect]\nany_order = true\n"),
        );
        desk.write(&format!("{guest}/tests/cases.toml"), cases);
        let report = desk.json(guest, &["check"], if outcome == "failed" { 1 } else { 0 });
        assert_eq!(found(&report, "order").0, outcome, "{guest}: {report:#}");
    }
}

#[test]
fn an_oracle_reads_no_file_outside_of_its_plugin() {
    let Some(guests) = guests::folder_or_skip("an_oracle_reads_no_file_outside_of_its_plugin") else { return };
    let desk = Desk::new();
    math(&desk, &guests, "maximum = 1.0\noracle = \"scripts:oracle\"");
    desk.write("secret.txt", "42\n");
    std::fs::create_dir(desk.path("env_math/oracle")).unwrap();
    std::os::unix::fs::symlink(desk.path("secret.txt"), desk.path("env_math/oracle/train-0.txt")).unwrap();
    let report = desk.json("env_math", &["check"], 1);
    let (_, said) = found(&report, "oracle");
    assert!(said.contains("oracle/train-0.txt leads out of the folder"), "{said}");
}

#[test]
fn a_reward_is_compared_with_what_people_say() {
    let Some(guests) = guests::folder_or_skip("a_reward_is_compared_with_what_people_say") else { return };
    let desk = Desk::new();
    let check = |labels: &str, agreement: &str, outcome: &str, says: &str| {
        let promises = format!("[expect]\nlabels = \"labels.jsonl\"\nagreement = {agreement}\n");
        desk.packed(&guests, "reward_exact", &manifest("reward-exact", "reward", &promises));
        desk.write("reward_exact/labels.jsonl", labels);
        let report = desk.json("reward_exact", &["check"], if outcome == "failed" { 1 } else { 0 });
        let (found, said) = found(&report, "labels");
        assert_eq!((found.as_str(), said.contains(says)), (outcome, true), "{said}");
    };
    let label = |answer: &str, score: f64| {
        format!("{{\"input\":\"2 + 2?\",\"reference\":\"4\",\"answer\":\"{answer}\",\"score\":{score}}}\n")
    };
    let all = [label("4", 1.0), label("5", 0.0), label("four", 1.0), label("4", 1.0)].concat();
    check(&all, "0.75", "passed", "agrees with 3 of 4 labels (0.750); promised: 0.75");
    check(&all, "0.8", "failed", "agrees with 3 of 4 labels");
    desk.write("reward_exact/labels.jsonl", "{\"answer\":\"4\"}\n");
    let report = desk.json("reward_exact", &["check"], 1);
    let (_, said) = found(&report, "episodes");
    assert!(said.contains("labels.jsonl, line 1: missing field `score`"), "{said}");
}

#[test]
fn what_the_component_and_its_manifest_say_is_compared() {
    let Some(guests) = guests::folder_or_skip("what_the_component_and_its_manifest_say_is_compared") else { return };
    let desk = Desk::new();
    let wrong = "[plugin]\nname = \"other\"\nversion = \"0.2.0\"\nkind = \"environment\"\ntrack = \"0.1\"\n[limits]\nmemory_mib = 4000\n";
    desk.packed(&guests, "env_guess", wrong);
    let report = desk.json("env_guess", &["check"], 1);
    let (_, said) = found(&report, "manifest");
    assert!(said.contains("name is `other` in claw.toml and `env-guess` in the component"), "{said}");
    assert!(said.contains("version is `0.2.0`"), "{said}");
    assert!(found(&report, "limits").1.contains("which is above the host's 64"), "{report:#}");
    desk.packed(&guests, "reward_judge", &manifest("reward-judge", "reward", ""));
    let report = desk.json("reward_judge", &["check"], 1);
    assert!(found(&report, "grants").1.contains("imports llm, for which claw.toml does not ask"), "{report:#}");
    // The manifest that counts is the one in the component.
    desk.packed(&guests, "env_math", &manifest("env-math", "environment", ""));
    let asks = manifest("env-math", "environment", "[grants]\nkv = true\n[build]\ncomponent = \"made.wasm\"\n");
    desk.write("env_math/claw.toml", &asks);
    let report = desk.json("env_math", &["check"], 1);
    assert!(
        found(&report, "manifest").1.contains("claw.toml is another one than the one in the component"),
        "{report:#}"
    );
}
