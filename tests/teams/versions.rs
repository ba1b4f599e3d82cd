//! Versions: the lock, updates, withdrawals.

use super::{Team, guests};

fn registry(team: &Team) -> String {
    format!("file:{}", team.path("registry").display())
}

#[test]
fn a_version_never_changes() {
    if guests::folder_or_skip("a_version_never_changes").is_none() {
        return;
    }
    let team = Team::new();
    let registry = registry(&team);
    assert_eq!(team.publishes(&registry, "1.0.0", &["--dry-run"])["was_there"], false);
    assert!(!team.path("registry").exists(), "a dry run writes nothing");
    team.publishes(&registry, "1.0.0", &[]);
    assert_eq!(team.publishes(&registry, "1.0.0", &[])["was_there"], true);
    let folder = team.plugin("reward_format", "reward", "exact", "1.0.0");
    let error = team.refused(&["publish", &registry, &folder, "--as", "shop/exact", "--despite-checks"], 2);
    assert!(error.contains("has shop/exact 1.0.0 already, with other content; a version never changes"), "{error}");
    let error = team.refused(&["publish", &registry, &folder, "--as", "shop/ex-act", "--despite-checks"], 2);
    assert!(error.contains("shop/ex-act looks like shop/exact"), "{error}");
    let error = team.refused(&["publish", &registry, &folder, "--as", "shop/Exact"], 2);
    assert!(error.contains("did you mean `exact`?"), "{error}");
    let error = team.refused(&["publish", &registry, &folder, "--as", "shop/exact@2.0.0"], 2);
    assert!(error.contains("it says that it is version 1.0.0, not 2.0.0"), "{error}");
    let named_twice = ["publish", "oci://127.0.0.1:1/shop/exact", &folder, "--as", "shop/exact"];
    let error = team.refused(&named_twice, 2);
    assert!(error.contains("--as: the target names the module already"), "{error}");
    let error = team.refused(&["publish", "oci://127.0.0.1:1/shop/exact", &folder, "--despite-checks"], 2);
    assert!(error.contains("127.0.0.1:1: "), "{error}");
}

#[test]
fn a_plugin_whose_cases_fail_is_not_published() {
    if guests::folder_or_skip("a_plugin_whose_cases_fail_is_not_published").is_none() {
        return;
    }
    let team = Team::new();
    let folder = team.plugin("reward_exact", "reward", "reward-exact", "0.1.0");
    let case = |value: &str| {
        let text = format!(
            "[[case]]\nname = \"four is right\"\nreference = '\"4\"'\nturns = [{{ observation = \"2+2?\", answer = \"4\" }}]\nexpect = {{ reward = {value} }}\n"
        );
        std::fs::create_dir_all(team.path("reward-exact/tests")).unwrap();
        std::fs::write(team.path("reward-exact/tests/answers.toml"), text).unwrap();
    };
    let target = format!("{}/shop/exact", registry(&team));
    case("0.0");
    let error = team.refused(&["publish", &target, &folder], 2);
    assert!(error.contains("cases fail: four is right"), "{error}");
    case("1.0");
    team.json(&["publish", &target, &folder]);
}

#[test]
fn an_update_shows_what_changes_before_it_is_accepted() {
    if guests::folder_or_skip("an_update_shows_what_changes_before_it_is_accepted").is_none() {
        return;
    }
    let (publisher, user) = (Team::new(), Team::new());
    let registry = registry(&publisher);
    publisher.publishes(&registry, "1.0.0", &[]);
    user.run(&["add", "shop/exact@1", "--from", &registry]);
    let before = clawhost_files::read_text(&user.path("claw.lock"), 1 << 20).unwrap();
    // The next version asks a model.
    let folder = publisher.plugin("reward_judge", "reward", "exact", "1.1.0");
    publisher.json(&["publish", &registry, &folder, "--as", "shop/exact", "--despite-checks"]);
    let output = user.run(&["update", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let update = &report["updates"][0];
    assert_eq!((&update["version"], &update["before"]["version"]), (&"1.1.0".into(), &"1.0.0".into()));
    let imports = update["difference"]["imports"].as_array().unwrap();
    assert!(imports.iter().any(|one| one["what"].as_str().unwrap().starts_with("clawhost:llm/")), "{update:#}");
    assert_eq!(clawhost_files::read_text(&user.path("claw.lock"), 1 << 20).unwrap(), before, "nothing is pinned yet");
    user.run(&["update", "--accept"]);
    let after = clawhost_files::read_text(&user.path("claw.lock"), 1 << 20).unwrap();
    assert!(after.contains("version = \"1.1.0\"") && after.contains("versions = \"^1\""), "{after}");
    let error = user.refused(&["update", "shop/other"], 2);
    assert!(error.contains("claw.lock has no shop/other; `clawhost add shop/other` adds it"), "{error}");
}

#[test]
fn an_update_of_a_reward_shows_the_scores_of_recorded_episodes_and_stores_none() {
    if guests::folder_or_skip("an_update_of_a_reward_shows_the_scores_of_recorded_episodes").is_none() {
        return;
    }
    let (publisher, user) = (Team::new(), Team::new());
    let registry = registry(&publisher);
    publisher.publishes(&registry, "1.0.0", &[]);
    user.run(&["add", "shop/exact@1", "--from", &registry]);
    let scores = || {
        let output = user.run(&["update", "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        report["updates"][0]["difference"]["scores"].clone()
    };
    assert!(scores().is_null(), "there is no other version");
    publisher.publishes(&registry, "1.1.0", &[]);
    assert_eq!(scores()["not_compared"], "no episode is recorded here");
    let environment = guests::folder().unwrap().join("env_math.wasm");
    let play = ["run", environment.to_str().unwrap(), "--reward", "shop/exact", "--episodes", "4"];
    let run = user.json(&play)["timing"]["run"].as_str().unwrap().to_owned();
    let same = scores()["compared"].clone();
    assert_eq!((&same["both"], &same["same"], &same["most_changed"]), (&4.into(), &4.into(), &serde_json::Value::Null));
    assert_eq!(same["mean_before"], same["mean_after"]);
    // The next version judges otherwise.
    let folder = publisher.plugin("reward_format", "reward", "exact", "1.2.0");
    publisher.json(&["publish", &registry, &folder, "--as", "shop/exact", "--despite-checks"]);
    let changed = scores()["compared"].clone();
    assert_eq!((&changed["both"], &changed["mean_before"]), (&4.into(), &same["mean_before"]));
    assert_ne!(changed["same"], 4, "{changed:#}");
    let most = changed["most_changed"]["episode"].as_str().unwrap();
    assert!(most.starts_with(&format!("{run}/")), "{changed:#}");
    let verdicts = user.json(&["episodes", "show", most])["verdicts"].as_array().unwrap().len();
    assert_eq!(verdicts, 1, "what was compared is not stored");
    let text = String::from_utf8_lossy(&user.run(&["update"]).stdout).into_owned();
    assert!(text.contains("of 4 recorded episodes score the same") && text.contains("most changed: "), "{text}");
}

#[test]
fn a_lock_decides_and_one_that_does_not_fit_is_an_error() {
    if guests::folder_or_skip("a_lock_decides_and_one_that_does_not_fit_is_an_error").is_none() {
        return;
    }
    let (publisher, user) = (Team::new(), Team::new());
    let registry = registry(&publisher);
    publisher.publishes(&registry, "1.0.0", &[]);
    publisher.publishes(&registry, "2.0.0", &[]);
    user.json(&["pull", "shop/exact@2", "--from", &registry]);
    user.json(&["add", "shop/exact@1", "--from", &registry, "--no-check"]);
    let version = |text: &str| user.json(&["inspect", text])["plugin"]["manifest"]["plugin"]["version"].clone();
    assert_eq!(version("shop/exact"), "1.0.0", "the lock decides, not what is newest");
    let error = user.refused(&["inspect", "shop/exact@2"], 2);
    assert!(error.contains("claw.lock pins shop/exact 1.0.0, which is not shop/exact@^2"), "{error}");
    // Another machine, with the same lock.
    let other = Team::new();
    std::fs::copy(user.path("claw.lock"), other.path("claw.lock")).unwrap();
    assert_eq!(
        other.json(&["inspect", "shop/exact"])["plugin"]["digest"],
        user.json(&["inspect", "shop/exact"])["plugin"]["digest"]
    );
    // A lock whose digest was changed by hand.
    let text = clawhost_files::read_text(&user.path("claw.lock"), 1 << 20).unwrap();
    let content = text.lines().find(|line| line.starts_with("content")).unwrap();
    std::fs::write(user.path("claw.lock"), text.replace(content, &format!("content = \"sha256:{}\"", "0".repeat(64))))
        .unwrap();
    let error = user.refused(&["inspect", "shop/exact"], 2);
    assert!(error.contains("shop/exact 1.0.0 is not what claw.lock pins: its content is sha256:"), "{error}");
    std::fs::write(user.path("claw.lock"), "format = 1\n[[module]]\nname = 1\n").unwrap();
    let error = user.refused(&["inspect", "shop/exact"], 2);
    assert!(error.contains("claw.lock: line 3"), "{error}");
}

#[test]
fn a_withdrawn_version_is_not_chosen_and_a_lock_keeps_it() {
    if guests::folder_or_skip("a_withdrawn_version_is_not_chosen_and_a_lock_keeps_it").is_none() {
        return;
    }
    let (publisher, user, late) = (Team::new(), Team::new(), Team::new());
    let registry = registry(&publisher);
    publisher.publishes(&registry, "1.0.0", &[]);
    publisher.publishes(&registry, "1.1.0", &[]);
    user.json(&["add", "shop/exact", "--from", &registry, "--no-check"]);
    publisher.json(&["yank", "shop/exact@1.1.0", "--from", &registry, "--why", "too lenient"]);
    assert_eq!(user.json(&["inspect", "shop/exact"])["plugin"]["manifest"]["plugin"]["version"], "1.1.0");
    let added = late.json(&["add", "shop/exact", "--from", &registry, "--no-check"]);
    assert_eq!(added["added"]["version"], "1.0.0");
    let error = late.refused(&["add", "shop/exact@1.1.0", "--from", &registry], 2);
    assert!(error.contains("shop/exact 1.1.0 was withdrawn: too lenient"), "{error}");
    publisher.json(&["yank", "shop/exact@1.1.0", "--from", &registry, "--undo"]);
    publisher.json(&["yank", "shop/exact@1.1.0", "--from", &registry, "--deprecate", "--why", "use 2"]);
    let added = late.json(&["add", "shop/exact", "--from", &registry, "--no-check"]);
    assert_eq!((&added["added"]["version"], &added["added"]["state"]["why"]), (&"1.1.0".into(), &"use 2".into()));
    let text = String::from_utf8_lossy(&user.run(&["update", "--no-check"]).stdout).into_owned();
    assert!(text.contains("shop/exact 1.1.0: use 2") && text.contains("1 module up to date"), "{text}");
    // A range that excludes the newest version is said to do so.
    late.json(&["add", "shop/exact@1.0.0", "--from", &registry, "--no-check"]);
    assert_eq!(late.json(&["update", "--no-check"])["updates"][0]["newer"], "1.1.0");
    let text = String::from_utf8_lossy(&late.run(&["update", "--no-check"]).stdout).into_owned();
    assert!(text.contains("`clawhost add shop/exact@1.1.0`"), "{text}");
    let error = publisher.refused(&["yank", "shop/exact", "--from", &registry, "--why", "x"], 2);
    assert!(error.contains("name a version, as team/name@1.2.0"), "{error}");
    let error = publisher.refused(&["yank", "shop/exact@9.0.0", "--from", &registry, "--why", "x"], 2);
    assert!(error.contains("has no shop/exact 9.0.0; it has 1.1.0, 1.0.0"), "{error}");
}

#[test]
fn a_module_for_a_newer_host_is_refused_before_it_is_pinned() {
    if guests::folder_or_skip("a_module_for_a_newer_host_is_refused_before_it_is_pinned").is_none() {
        return;
    }
    let (publisher, user) = (Team::new(), Team::new());
    let registry = registry(&publisher);
    publisher.publishes(&registry, "1.0.0", &[]);
    // A component of a later track, in the place of the one that was published: nobody publishes it with this program.
    let bytes = clawhost_files::read(&guests::folder().unwrap().join("reward_exact.wasm"), 1 << 30).unwrap();
    let newer = replaced(&bytes, b"clawhost:reward/reward@0.1.0", b"clawhost:reward/reward@0.9.0");
    std::fs::write(publisher.path("newer.wasm"), newer).unwrap();
    let error = publisher.refused(&["publish", &registry, "newer.wasm", "--as", "shop/newer@1.0.0"], 3);
    assert!(error.contains("0.9.0"), "{error}");
    assert_eq!(user.json(&["list", "--from", &registry])["modules"].as_array().unwrap().len(), 1);
}

/// All occurrences of a text, replaced by one of equal length.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(from.len()).position(|window| window == from) {
        bytes[at + found..at + found + to.len()].copy_from_slice(to);
        at += found + to.len();
    }
    bytes
}
