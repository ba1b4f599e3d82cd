//! `clawhost test`: cases against components, accepted changes, reports, and cases from recorded episodes.

use super::{Desk, guests, manifest, stderr};

const RIGHT: &str = "# Two cases.\n[[case]]\nname = \"the middle is too low or too high\"\nseed = 3\nactions = [\"50\"]\n\
    [case.expect]\nstatus = \"truncated\"\nmost_turns = 1\n\n\
    [[case]]\nname = \"words are answered\"\nseed = 3\nactions = [\"many\"]\nexpect = { observations = [\"*\", \"*number*\"] }\n";

fn guess(desk: &Desk, guests: &std::path::Path, cases: &str) {
    desk.packed(guests, "env_guess", &manifest("env-guess", "environment", ""));
    desk.write("env_guess/tests/cases.toml", cases);
}

#[test]
fn a_case_that_differs_fails_with_both_texts_and_can_be_accepted() {
    let Some(guests) = guests::folder_or_skip("a_case_that_differs_fails_with_both_texts_and_can_be_accepted") else {
        return;
    };
    let desk = Desk::new();
    guess(&desk, &guests, RIGHT);
    assert!(desk.out("env_guess", &["test"], 0).contains("2 of 2 cases passed"));
    let wrong = RIGHT.replace("\"truncated\"", "\"terminated\" # it ends").replace("most_turns = 1", "reward = 1.0");
    desk.write("env_guess/tests/cases.toml", &wrong);
    let said = desk.out("env_guess", &["test"], 1);
    assert!(said.contains("expected terminated") && said.contains("found    truncated"), "{said}");
    assert!(said.contains("1 of 2 cases passed") && said.contains("`clawhost test --accept`"), "{said}");
    // Only what is named is played.
    let filtered = desk.json("env_guess", &["test", "--filter", "words"], 0);
    assert_eq!(filtered["test"]["cases"].as_array().unwrap().len(), 1);
    let accepted = desk.out("env_guess", &["test", "--accept"], 0);
    assert!(accepted.contains("1 of them accepted: read what was written"), "{accepted}");
    let written = desk.read("env_guess/tests/cases.toml");
    assert!(written.starts_with("# Two cases.\n") && written.contains("status = \"truncated\" # it ends"), "{written}");
    assert!(!written.contains("reward"), "nothing judged it: {written}");
    desk.out("env_guess", &["test"], 0);
}

#[test]
fn a_failed_episode_fails_its_case_and_a_ceiling_is_never_accepted() {
    let Some(guests) = guests::folder_or_skip("a_failed_episode_fails_its_case_and_a_ceiling_is_never_accepted") else {
        return;
    };
    let desk = Desk::new();
    desk.packed(&guests, "weak_brittle", &manifest("weak-brittle", "environment", ""));
    let case = "[[case]]\nname = \"a\"\nactions = [\"words\"]\n[case.expect]\nmost_turns = 3\n";
    desk.write("weak_brittle/tests/cases.toml", case);
    let said = desk.out("weak_brittle", &["test"], 1);
    assert!(said.contains("expected no failure, as none is named"), "{said}");
    desk.write("weak_brittle/tests/cases.toml", &format!("{case}status = \"trap(unreachable)\"\n"));
    desk.out("weak_brittle", &["test"], 0);
    guess(&desk, &guests, "[[case]]\nname = \"a\"\nactions = [\"50\"]\n[case.expect]\nmost_bytes = 1\n");
    let said = desk.out("env_guess", &["test", "--accept"], 1);
    assert!(said.contains("expected at most 1"), "{said}");
}

#[test]
fn stars_of_a_text_are_written_as_stars() {
    let Some(guests) = guests::folder_or_skip("stars_of_a_text_are_written_as_stars") else { return };
    let desk = Desk::new();
    desk.packed(&guests, "odd_echo", &manifest("odd-echo", "environment", ""));
    desk.write("odd_echo/tests/cases.toml", "[[case]]\nname = \"a\"\nactions = [\"3 * 4\"]\n");
    desk.out("odd_echo", &["test", "--accept"], 0);
    let written = desk.read("odd_echo/tests/cases.toml");
    assert!(written.contains(r"3 \* 4"), "{written}");
    desk.write("odd_echo/tests/cases.toml", &written.replacen("3 * 4", "3 x 4", 1));
    desk.out("odd_echo", &["test"], 1);
}

#[test]
fn results_are_text_json_and_junit() {
    let Some(guests) = guests::folder_or_skip("results_are_text_json_and_junit") else { return };
    let desk = Desk::new();
    guess(&desk, &guests, &RIGHT.replace("\"truncated\"", "\"terminated\""));
    let report = desk.json("env_guess", &["test", "--junit", "report.xml"], 1);
    assert_eq!((&report["passed"], &report["test"]["plugin"]), (&false.into(), &"env-guess".into()));
    let failed = &report["test"]["cases"][0];
    assert_eq!(failed["differences"][0]["what"], "status");
    assert_eq!(failed["happened"]["status"], "truncated");
    let junit = desk.read("env_guess/report.xml");
    assert!(junit.contains("tests=\"2\" skipped=\"0\" failures=\"1\""), "{junit}");
    assert!(junit.contains("status: expected terminated, found truncated"), "{junit}");
}

#[test]
fn mistakes_in_cases_are_named_with_their_place() {
    let Some(guests) = guests::folder_or_skip("mistakes_in_cases_are_named_with_their_place") else { return };
    let desk = Desk::new();
    let check = |cases: &str, code: i32, says: &str| {
        guess(&desk, &guests, cases);
        let output = desk.run("env_guess", &["test"]);
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output));
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(says), "{says}: {said}");
    };
    check("[[case]]\nname = \"a\"\nsed = 1\n", 2, "cases.toml, line 3: unknown field `sed`");
    check("[[case]]\nname = \"a\"\nsed = 1\n", 2, "did you mean `seed`?");
    check("", 2, "there are no cases; write tests/*.toml");
    check("[[case]]\nname = \"a\"\ntask = \"none\"\n", 1, "there is no task `none` in split train");
    check("[[case]]\nname = \"a\"\nactions = [\"calls  {}\"]\n", 1, "action 1: `calls  {}` names no tool");
    check("[[case]]\nname = \"a\"\nactions = [\"1\"]\n", 1, "expected something that is compared");
    check(
        "[[case]]\nname = \"a\"\nreference = \"1\"\n",
        1,
        "`reference` means nothing for a plugin of the kind environment",
    );
    check("[[case]]\nname = \"a\"\npolicy = \"follower:../rules.txt\"\n", 1, "../rules.txt leads out of the folder");
    guess(&desk, &guests, RIGHT);
    let none = desk.run("env_guess", &["test", "--filter", "nothing"]);
    assert_eq!(none.status.code(), Some(2), "{}", stderr(&none));
    assert!(stderr(&none).contains("no case has `nothing` in its name"), "{}", stderr(&none));
}

#[test]
fn what_a_judge_was_told_is_part_of_its_case() {
    let Some(guests) = guests::folder_or_skip("what_a_judge_was_told_is_part_of_its_case") else { return };
    let desk = Desk::new();
    desk.packed(&guests, "odd_ranking", &manifest("odd-ranking", "reward", "[grants]\nllm = [\"judge\"]\n"));
    let guess = guests.join("env_guess.wasm").display().to_string();
    desk.write("votes.txt", "yes\n");
    let run = [
        "run",
        &guess,
        "--policy",
        "random",
        "--episodes",
        "1",
        "--reward",
        "odd_ranking",
        "--grant",
        "llm:judge=script:votes.txt",
    ];
    let played = desk.json(".", &run, 0);
    let episode = played["episodes"][0]["id"].as_str().unwrap();
    desk.out(".", &["replay", episode, "--save", "odd_ranking/tests/regress.toml"], 0);
    assert!(
        desk.read("odd_ranking/tests/regress.toml").contains("replies = { judge = ["),
        "{}",
        desk.read("odd_ranking/tests/regress.toml")
    );
    desk.out("odd_ranking", &["test"], 0);
}

#[test]
fn what_happened_becomes_a_case_for_the_environment_and_for_its_reward() {
    let Some(guests) = guests::folder_or_skip("what_happened_becomes_a_case") else { return };
    let desk = Desk::new();
    desk.packed(&guests, "env_shop", &manifest("env-shop", "environment", ""));
    desk.packed(&guests, "reward_state", &manifest("reward-state", "reward", ""));
    let run = ["run", "env_shop", "--reward", "reward_state", "--policy", "random", "--seed", "5", "--episodes", "6"];
    let played = desk.json(".", &run, 0);
    let episodes: Vec<String> =
        played["episodes"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    for episode in &episodes {
        desk.out(".", &["replay", episode, "--save", "env_shop/tests/regress.toml"], 0);
        desk.out(".", &["replay", episode, "--save", "reward_state/tests/regress.toml"], 0);
    }
    for plugin in ["env_shop", "reward_state"] {
        let tested = desk.json(plugin, &["test"], 0);
        assert_eq!(tested["test"]["cases"].as_array().unwrap().len(), 6, "{plugin}");
    }
    // They fail when something else happens.
    let cases = desk.read("env_shop/tests/regress.toml");
    desk.write("env_shop/tests/regress.toml", &cases.replacen("status = \"terminated", "status = \"truncated", 1));
    desk.out("env_shop", &["test"], 1);
    let again = desk.run(".", &["replay", &episodes[0], "--save", "reward_state/tests/regress.toml"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("there is a case `episode "), "{}", stderr(&again));
}
