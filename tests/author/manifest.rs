//! What claw.toml says holds: limits, grants, and mistakes that are named.

use super::{Desk, guests, manifest, stderr};

#[test]
fn a_plugin_is_held_to_the_limits_that_it_set_itself() {
    let Some(guests) = guests::folder_or_skip("a_plugin_is_held_to_the_limits_that_it_set_itself") else { return };
    let desk = Desk::new();
    desk.write("long.txt", &format!("{}\n", "x".repeat(3000)));
    let ending = |limits: &str| {
        desk.packed(&guests, "odd_echo", &manifest("odd-echo", "environment", limits));
        let run = [
            "run",
            "odd_echo",
            "--policy",
            "script:long.txt",
            "--episodes",
            "1",
            "--max-turns",
            "2",
            "--failure-budget",
            "1",
        ];
        let output = desk.run(".", &[&run[..], &["--json"]].concat());
        let played: serde_json::Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        let episode = played["episodes"][0]["id"].as_str().unwrap().to_owned();
        let replayed = desk.run(".", &["replay", &episode]);
        assert!(replayed.status.success(), "the limits are part of the component: {}", stderr(&replayed));
        played["episodes"][0]["ending"].to_string()
    };
    let usual = ending("");
    assert!(usual.contains("truncated"), "{usual}");
    // A limit above the host's changes nothing, and one that is kept neither.
    assert_eq!(ending("[limits]\nmemory_mib = 4000\n"), usual);
    assert_eq!(ending("[limits]\nobservation_kib = 8\n"), usual);
    let starved = ending("[limits]\nobservation_kib = 2\n");
    assert!(starved.contains("invalid(length)"), "{starved}");
}

#[test]
fn a_plugin_cannot_give_itself_more_time_by_a_low_limit() {
    let Some(guests) = guests::folder_or_skip("a_plugin_cannot_give_itself_more_time_by_a_low_limit") else { return };
    let desk = Desk::new();
    desk.packed(&guests, "reward_exact", &manifest("reward-exact", "reward", "[limits]\nfuel_million = 1\n"));
    let answer = "x".repeat(200_000);
    desk.write("reward_exact/tests/cases.toml", &format!(
        "[[case]]\nname = \"long\"\nreference = '\"{answer}\"'\nturns = [{{ answer = \"{answer}\" }}]\nexpect = {{ verdict = \"failed\", rationale = \"*fuel*\" }}\n"
    ));
    desk.out("reward_exact", &["test"], 0);
}

#[test]
fn inspect_shows_what_the_manifest_asks_for_and_promises() {
    let Some(guests) = guests::folder_or_skip("inspect_shows_what_the_manifest_asks_for_and_promises") else { return };
    let desk = Desk::new();
    let more = "summary = \"a judge\"\nlicense = \"MIT\"\n[grants]\nllm = [\"judge\"]\n[limits]\nmemory_mib = 16\n";
    desk.packed(&guests, "reward_judge", &manifest("reward-judge", "reward", more));
    let said = desk.out(".", &["inspect", "reward_judge"], 0);
    assert!(said.contains("licence     MIT"), "{said}");
    assert!(said.contains("asks for    llm:judge") && said.contains("--grant llm:judge=SPEC"), "{said}");
    assert!(said.contains("memory 16 MiB"), "{said}");
}

#[test]
fn a_plugin_gets_only_the_grants_that_it_asks_for() {
    let Some(guests) = guests::folder_or_skip("a_plugin_gets_only_the_grants_that_it_asks_for") else { return };
    let desk = Desk::new();
    desk.write("votes.txt", "yes\n");
    let grants = ["--grant", "llm:judge=script:votes.txt", "--grant", "kv"];
    let run = |more: &str| {
        desk.packed(&guests, "odd_services", &manifest("odd-services", "environment", more));
        let arguments = [&["run", "odd_services", "--episodes", "1", "--failure-budget", "1"], &grants[..]].concat();
        let played = desk.json(".", &arguments, 0);
        let episode = played["episodes"][0]["id"].as_str().unwrap().to_owned();
        desk.json(".", &["episodes", "show", &episode], 0)
    };
    let granted = run("[grants]\nkv = true\nllm = [\"judge\"]\n");
    assert!(granted["grants"]["kv"] == true && granted["grants"]["models"]["judge"].is_object(), "{granted:#}");
    assert!(!granted["journal"].as_array().unwrap().is_empty(), "the model was asked: {granted:#}");
    let less = run("[grants]\nkv = true\n");
    assert!(less["grants"]["kv"] == true && less["grants"]["models"].get("judge").is_none(), "{less:#}");
    assert!(less["journal"].as_array().is_none_or(Vec::is_empty), "its question was denied: {less:#}");
}

#[test]
fn mistakes_in_claw_toml_are_named_with_their_line() {
    let Some(guests) = guests::folder_or_skip("mistakes_in_claw_toml_are_named_with_their_line") else { return };
    let desk = Desk::new();
    std::fs::create_dir(desk.path("p")).unwrap();
    std::fs::copy(guests.join("env_guess.wasm"), desk.path("p/made.wasm")).unwrap();
    for (text, says) in [
        ("[plugin]\nnaem = \"x\"\n", "claw.toml, line 2: unknown field `naem`"),
        ("[plugin]\nnaem = \"x\"\n", "did you mean `name`?"),
        (&manifest("x", "environment", "[limits]\nfuel_million = 0\n"), "limits.fuel_million: expected at least 1"),
        (
            &manifest("x", "router", "[grants]\nkv = true\n[build]\ncomponent = \"made.wasm\"\n"),
            "grants: a router gets none",
        ),
        (
            &manifest("x", "reward", "[grants]\nllm = [\"a=b\"]\n[build]\ncomponent = \"made.wasm\"\n"),
            "grants.llm: expected aliases",
        ),
        (
            &manifest("x", "environment", "[build]\ncomponent = \"made.wasm\"\n[tasks]\nmax_turns = 20000\n"),
            "tasks.max_turns: expected 1 to 10000",
        ),
        (&manifest("x", "enviroment", ""), "did you mean `environment`?"),
        (&manifest("x", "environment", "[limits]\nmemory = 3\n"), "did you mean `memory_mib`?"),
        (&manifest("X", "environment", ""), "small letters (a to z), digits and single hyphens"),
        (&manifest("x", "environment", "[build]\ncomponent = \"../x.wasm\"\n"), "build.component: "),
        (
            &manifest("x", "reward", "[build]\nlanguage = \"rust\"\n[expect]\noracle = \"follower\"\n"),
            "an oracle acts in environments",
        ),
    ] {
        desk.write("p/claw.toml", text);
        let output = desk.run(".", &["inspect", "p"]);
        assert_eq!(output.status.code(), Some(2), "{text}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{says}: {}", stderr(&output));
    }
}

#[test]
fn a_component_whose_manifest_is_damaged_is_refused() {
    let Some(guests) = guests::folder_or_skip("a_component_whose_manifest_is_damaged_is_refused") else { return };
    let desk = Desk::new();
    let check = |content: &str, says: &str| {
        let mut bytes = std::fs::read(guests.join("env_guess.wasm")).unwrap();
        let section = [&[9u8][..], b"claw.toml", content.as_bytes()].concat();
        bytes.extend([0u8, u8::try_from(section.len()).unwrap()]);
        bytes.extend(section);
        std::fs::write(desk.path("damaged.wasm"), bytes).unwrap();
        let output = desk.run(".", &["inspect", "damaged.wasm"]);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    };
    check("[plugin]\nname = 3\n", "damaged.wasm: the claw.toml in it cannot be used: line 2: ");
    check("\u{1b}[31m", "mend claw.toml and build the plugin again");
}
