//! Learning end to end: the loop on real components with a real database; its playbook shown, rolled back, exported and
//! imported. Interrupted learning is in the suite `crash`.

use super::*;

impl Bench {
    fn learning<'a>(&'a self, words: &'a [String], more: &'a [&'a str]) -> Vec<&'a str> {
        words.iter().map(String::as_str).chain(more.iter().copied()).collect()
    }

    /// A learning run of the shop.
    fn shop_with(&self, numbers: &[&str]) -> Vec<String> {
        let (shop, reward, reflector) =
            (self.guest("env_shop"), self.guest("reward_state"), self.guest("reflector_rules"));
        let words =
            ["learn", &shop, "--reward", &reward, "--layer", "harness", "--reflector", &reflector, "--seed", "4"];
        words.iter().chain(&["-q"]).chain(numbers).map(|word| (*word).to_owned()).collect()
    }

    /// A run that learns something in a short time.
    fn shop(&self) -> Vec<String> {
        self.shop_with(&["--iterations", "48", "--gate-every", "6", "--gate-pairs", "64", "--test-pairs", "60"])
    }

    /// The result of a learning run without timing.
    fn learned(&self, words: &[String], more: &[&str]) -> Value {
        self.outside_timing(&self.learning(words, more))
    }

    /// Checks that a run stops, as after too many failures, with these texts in its summary.
    fn stops(&self, words: &[String], says: &[&str]) {
        let output = self.run(&self.learning(words, &[]));
        assert_eq!(output.status.code(), Some(4), "{words:?}: {}", stderr(&output));
        says.iter().for_each(|part| assert!(stdout(&output).contains(part), "{part}: {}", stdout(&output)));
    }
}

#[test]
fn a_playbook_is_learned_measured_served_rolled_back_and_exchanged() {
    let Some(bench) = Bench::new("a_playbook_is_learned") else { return };
    let words = bench.shop();
    let document = bench.learned(&words, &[]);
    let learn = &document["learn"];
    assert_eq!(learn["outcome"], "improved", "{}", learn["evaluation"]);
    assert!(learn["evaluation"]["lift"]["low"].as_f64().unwrap() > 0.0);
    assert_eq!(learn["evaluation"]["split"], "test");
    assert_eq!((&learn["learned"], &learn["stopped"]), (&48.into(), &Value::Null));
    let kept: Vec<&Value> =
        learn["entries"].as_array().unwrap().iter().filter(|entry| entry["status"] == "deployed").collect();
    assert!(!kept.is_empty());
    assert!(
        kept.iter().all(|entry| entry["helps"].as_f64().unwrap() > 10.0),
        "each deployed entry has evidence: {kept:?}"
    );

    // Neither concurrency nor the data folder changes a byte.
    let elsewhere = bench.fresh();
    let again = elsewhere.learned(&words, &["--concurrency", "3"]);
    assert_eq!(again, document);

    let table = bench.out(&["playbook", "show"]);
    assert!(
        table.contains("env-shop, version") && table.contains("deployed") && table.contains("always valid"),
        "{table}"
    );
    assert!(table.contains("e-value  evidence that it helps") && !table.contains('…'), "{table}");
    let list = bench.json(&["playbook", "list"]);
    let tasks = &list[0]["learned"]["tasks"];
    assert_eq!((&tasks["environment"], &tasks["seed"]), (&"env-shop".into(), &4.into()), "{list}");
    assert!(tasks["digest"].as_str().unwrap().starts_with("sha256:"), "{list}");
    assert_eq!(list[0]["entries"], kept.len(), "{list}");
    let list = bench.out(&["playbook", "list"]);
    assert!(list.contains("env-shop with seed 4") && list.contains("run-"), "{list}");
    assert!(bench.out(&["playbook", "log"]).starts_with("env-shop\n"));
    let log = bench.json(&["playbook", "log", "env-shop"]);
    let newest = log[0]["number"].as_u64().unwrap();
    assert!(log[0]["why"].as_str().unwrap().starts_with("passed the gate"), "{log}");
    assert!(bench.out(&["playbook", "diff", "env-shop"]).contains("+ e-"), "the added entry is listed");
    let served = bench.out(&["playbook", "rollback", "env-shop", "--to", &newest.to_string()]);
    assert!(served.contains(&format!("version {newest} is served already")), "{served}");
    assert_eq!(bench.json(&["playbook", "log"])[0]["number"], newest, "nothing was added");

    // The served playbook improves the follower, and is recorded and replays.
    let reward = bench.guest("reward_state");
    let play =
        ["run", &bench.guest("env_shop"), "--reward", &reward, "--tasks", "test", "--episodes", "60", "--seed", "4"];
    let mean = |arguments: &[&str]| bench.json(arguments)["reward_mean"].as_f64().unwrap();
    let learned = bench.json(&["replay"]);
    let exact = learned["report"]["episodes"]["exact"].as_u64().unwrap();
    assert!(exact > 48 * 64, "episodes of training, gate and test replay: {learned}");
    let (without, with) = (mean(&play), mean(&[&play[..], &["--playbook", "env-shop"]].concat()));
    assert!(with > without + 0.1, "{with} with, {without} without");
    let replayed = bench.json(&["replay"]);
    let episodes = &replayed["report"]["episodes"];
    assert_eq!((&episodes["exact"], &episodes["differ"]), (&60.into(), &0.into()), "{replayed}");
    let judged = bench.json(&["eval", &bench.guest("env_shop"), "--reward", &reward, "--seed", "4", "--pairs", "60"]);
    assert_eq!(judged["outcome"], "improved", "{judged}");
    let shown = bench.run(&[&play[..], &["--playbook", "env-shop", "-q"]].concat());
    let line = format!("playbook    env-shop, version {newest}, {} entries", kept.len());
    assert!(stdout(&shown).contains(&line) && stderr(&shown).is_empty(), "{}{}", stdout(&shown), stderr(&shown));

    // In other environments it may not help, and one that does not fit cannot: both cause warnings.
    let shop = bench.guest("env_shop");
    let short = ["run", &shop, "--episodes", "1", "-q", "--playbook", "env-shop"];
    let told = |more: &[&str]| stderr(&bench.run(&[&short[..], more].concat()));
    let elsewhere_seed = "note: playbook env-shop was learned in env-shop with seed 4; this is env-shop with seed 0: \
        where tasks come from the seed, use --seed 4";
    assert!(told(&[]).contains(elsewhere_seed), "{}", told(&[]));
    let budget = told(&["--seed", "4", "--token-budget", "10"]);
    assert_eq!(budget.trim(), "note: no lesson of playbook env-shop fits into --token-budget 10");
    let house = format!("{shop}?house=7");
    let eval = bench.run(&["eval", &house, "--reward", &reward, "--seed", "4", "--pairs", "4", "-q", "--json"]);
    assert!(stderr(&eval).contains("this is env-shop?house=7 with seed 4"), "{}", stderr(&eval));
    let eval: Value = serde_json::from_slice(&eval.stdout).unwrap();
    let ends = ["before", "after"].map(|side| {
        let end = |end: &str| eval["evaluation"][side][end].as_f64().unwrap();
        (end("low"), end("high"))
    });
    assert!(ends.iter().all(|(low, high)| *low >= 0.0 && *high <= 1.0), "rewards lie from 0 to 1: {ends:?}");
    let number = newest.to_string();
    let same = ["eval", &shop, "--reward", &reward, "--playbook-version", &number, "--against", &number];
    bench.refused(&same, &["has the same content as version", "name another version"]);

    // Rolled back and forth: versions are never lost.
    let taken = bench.data.path().join("taken.json");
    bench.out(&["playbook", "export", "env-shop", taken.to_str().unwrap()]);
    let skills = bench.data.path().join("skills");
    bench.out(&["playbook", "export", "env-shop", skills.to_str().unwrap()]);
    assert!(std::fs::read_dir(&skills).unwrap().count() >= kept.len(), "a folder for each");
    for (path, says) in [(&taken, "is served from now on"), (&skills, "is served already")] {
        let told = elsewhere.out(&["playbook", "import", "copy", path.to_str().unwrap()]);
        assert!(told.contains(says), "{told}");
        let copy = elsewhere.json(&["playbook", "show", "copy"]);
        assert_eq!(copy["deployed"]["entries"].as_array().unwrap().len(), kept.len());
    }
    bench.out(&["playbook", "import", "other", taken.to_str().unwrap()]);
    std::fs::write(&taken, std::fs::read_to_string(&taken).unwrap().replace("\"version\": 1", "\"version\": 99"))
        .unwrap();
    bench.refused(&["playbook", "import", "other", taken.to_str().unwrap()], &["version"]);
    let back = bench.json(&["playbook", "rollback", "other"]);
    assert_eq!((&back["version"], &back["says_what"]), (&2.into(), &0.into()), "before the first version it was empty");
    let entries =
        |name: &str| bench.json(&["playbook", "show", name])["deployed"]["entries"].as_array().map_or(0, Vec::len);
    assert_eq!(entries("other"), 0);
    bench.out(&["playbook", "rollback", "other", "--to", "1"]);
    assert_eq!(entries("other"), kept.len());
    bench.out(&["playbook", "rollback", "other", "--to", "0"]);
    assert_eq!(entries("other"), 0);
    bench.refused(&["playbook", "show"], &["which playbook?", "env-shop", "other"]);
    bench.refused(&["playbook", "show", "env-shp"], &["did you mean `env-shop`"]);
    bench.refused(&["playbook", "import", "../x", "."], &["not a valid name of a playbook"]);
    if newest > 1 {
        assert!(bench.out(&["playbook", "rollback", "env-shop"]).contains(&format!("version {}", newest + 1)));
        let log = bench.json(&["playbook", "log", "env-shop"]);
        assert_eq!(log[0]["digest"], log[2]["digest"], "it has the content of the earlier version");
    }
    // The origin of a rolled-back version is the run that learned it first.
    let learned = |bench: &Bench| bench.json(&["playbook", "list"])[0]["learned"]["run"].clone();
    let run = learned(&bench);
    let hand = bench.data.path().join("hand.md");
    std::fs::write(&hand, "---\nname: hand\ndescription: Always.\n---\nbe kind\n").unwrap();
    bench.out(&["playbook", "import", "env-shop", hand.to_str().unwrap()]);
    assert_eq!(learned(&bench), Value::Null);
    bench.out(&["playbook", "rollback", "env-shop"]);
    assert!(run.as_str().is_some() && learned(&bench) == run, "{run}");
    // The next run begins with the served version, and remembers rejected lessons.
    let next = bench.learned(&bench.shop_with(&["--iterations", "2", "--test-pairs", "0"]), &[]);
    let entries = next["learn"]["entries"].as_array().unwrap();
    assert!(entries.iter().any(|entry| entry["status"] == "deployed"), "{entries:?}");
    assert_eq!(next["learn"]["outcome"], "not_measured");
}

#[test]
fn a_run_whose_plugin_changed_is_not_resumed_and_suggests_a_remedy() {
    let Some(bench) = Bench::new("a_run_whose_plugin_changed") else { return };
    let copy = bench.data.path().join("reflector.wasm");
    std::fs::copy(bench.guest("reflector_rules"), &copy).unwrap();
    let (shop, reward) = (bench.guest("env_shop"), bench.guest("reward_state"));
    let words =
        ["learn", &shop, "--reward", &reward, "--layer", "harness", "--reflector", copy.to_str().unwrap(), "-q"];
    let few = ["--iterations", "8", "--test-pairs", "0"];
    // The budget ends in the middle of it.
    let stopped = bench.run(&[&words[..], &few, &["--max-tokens-total", "30000"]].concat());
    assert_eq!(stopped.status.code(), Some(6), "{}", stderr(&stopped));
    // A custom section changes only the digest.
    let whole = std::fs::read(&copy).unwrap();
    std::fs::write(&copy, [&whole[..], &[0, 2, 1, b'x']].concat()).unwrap();
    let again = [&words[..], &few, &["--resume"]].concat();
    bench.refused(&again, &["reflector reflector-rules was ", "the files with which it began"]);
    std::fs::write(&copy, whole).unwrap();
    let resumed = bench.run(&again);
    assert!(resumed.status.success(), "{}", stderr(&resumed));
}

#[test]
fn invalid_learning_options_are_refused() {
    let Some(bench) = Bench::new("words_about_learning") else { return };
    let (shop, reward, reflector) =
        (bench.guest("env_shop"), bench.guest("reward_state"), bench.guest("reflector_rules"));
    let learn = ["learn", &shop, "--reward", &reward, "--layer", "harness", "--reflector", &reflector];
    let with = |more: &[&str]| -> Vec<String> { learn.iter().chain(more).map(|word| (*word).to_owned()).collect() };
    let check =
        |words: Vec<String>, says: &[&str]| bench.refused(&words.iter().map(String::as_str).collect::<Vec<_>>(), says);
    check(with(&["--tasks", "test"]), &["--tasks: found \"test\"", "that split is reserved for measuring"]);
    check(with(&["--group", "3"]), &["--group: found 3; expected an even number"]);
    check(
        with(&["--episodes", "10", "--group", "4"]),
        &["--episodes: found 10; expected a multiple of the --group of 4, as 8 or 12"],
    );
    check(with(&["--playbook", "a/b"]), &["--playbook: found the text \"a/b\"; expected a name"]);
    check(with(&["--branch-at", "2"]), &["--branch-at: belongs to playing; this run is for learning"]);
    check(with(&["--rate", "0.1"]), &["--rate: belongs to layer weights, which this run does not name"]);
    let all = ["--group", "3", "--gate-pairs", "1", "--evolve-minibatch", "0"];
    check(with(&all), &["3 problems", "--group: ", "--gate-pairs: ", "--evolve-minibatch: "]);
    bench.refused(
        &["learn", &shop, "--reward", &reward, "--layer", "harness"],
        &["--reflector: missing; name a reflector"],
    );
    bench.refused(
        &["learn", &shop, "--layer", "harness", "--reflector", &reflector],
        &["--reward: missing; no lesson is measured without a reward"],
    );
    bench.refused(
        &["learn", &shop, "--layer", "tools"],
        &["--layer: found the text \"tools\"", "harness, weights, router"],
    );
    bench.refused(&["learn", &shop], &["--layer: names no layer"]);
    bench.refused(&["run", &shop, "--layer", "harness"], &["plays alone; learn with `clawhost learn`"]);
    bench
        .refused(&["run", &shop, "--iterations", "3"], &["--iterations: belongs to learning; this run is for playing"]);
    bench.refused(&["run", &shop, "--dry-run"], &["--dry-run"]);
    bench.refused(&["run", &shop, "--playbook", "none"], &["has no version yet"]);
    bench.refused(&["eval", &shop, "--reward", &reward], &["has no version yet"]);
    bench.refused(&["eval", &shop], &["--reward: missing; an evaluation needs a reward"]);
    bench.refused(&["playbook", "show"], &["there is no playbook yet"]);

    let dry = |more: &[&str]| bench.out(&with(more).iter().map(String::as_str).collect::<Vec<_>>());
    let measured = dry(&["--episodes", "64", "--dry-run"]);
    assert!(measured.contains("training    20 iterations of 64 episodes"), "{measured}");
    let usual = dry(&["--dry-run"]);
    assert!(
        usual.contains("training    6 iterations of 33 episodes") && usual.contains("nothing was played"),
        "{usual}"
    );
    assert!(bench.json(&["runs", "list"]).as_array().unwrap().is_empty(), "a rehearsal plays nothing");
}

#[test]
fn a_reflector_without_its_model_stops_the_run_early() {
    let Some(bench) = Bench::new("a_reflector_without_its_model") else { return };
    let words = bench.shop_with(&["--iterations", "2", "--test-pairs", "0"]);
    let lessons = bench.guest("reflector_lessons");
    let words: Vec<String> = words
        .into_iter()
        .map(|word| if word.ends_with("reflector_rules.wasm") { lessons.clone() } else { word })
        .collect();
    bench.stops(
        &words,
        &["verdict     none: all", "calls of reflectors failed", "model", "--resume continues from iteration 1"],
    );
}

#[test]
fn a_reward_that_never_applies_stops_the_run_early() {
    let Some(bench) = Bench::new("a_reward_with_nothing_to_say") else { return };
    let words = bench.shop_with(&["--iterations", "2", "--test-pairs", "0"]);
    let exact = bench.guest("reward_exact");
    let words: Vec<String> =
        words.into_iter().map(|word| if word.ends_with("reward_state.wasm") { exact.clone() } else { word }).collect();
    bench.stops(&words, &["the first iteration, or a part of it, was not scored", "reward-exact has nothing to say: "]);
}

#[test]
fn a_playbook_from_other_tasks_causes_a_warning() {
    let Some(bench) = Bench::new("a_playbook_that_was_tried_elsewhere") else { return };
    let (shop, state, rules) = (bench.guest("env_shop"), bench.guest("reward_state"), bench.guest("reflector_rules"));
    let learn = |shop: &str, seed: &str, more: &[&str]| {
        let words = ["learn", shop, "--reward", &state, "--layer", "harness", "--reflector", &rules];
        let few = ["--iterations", "1", "--episodes", "8", "--test-pairs", "0", "--seed", seed];
        let output = bench.run(&[&words[..], &few, more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let first = learn(&shop, "1", &[]);
    assert!(first.contains("playbook env-shop begins empty") && !first.contains("was learned in"), "{first}");
    let same = learn(&shop, "1", &[]);
    let remembers = "playbook env-shop has no version yet and remembers earlier lessons, tried in env-shop with seed 1";
    assert!(same.contains(remembers) && !same.contains("was learned in"), "{same}");
    let note = "note: playbook env-shop was learned in env-shop with seed 1; this is env-shop with seed 2";
    let house = format!("{shop}?house=7");
    assert!(learn(&shop, "2", &["--dry-run"]).contains(note));
    assert!(learn(&house, "1", &["--dry-run"]).contains("this is env-shop?house=7 with seed 1"));
    let other = learn(&shop, "2", &[]);
    assert!(other.contains(note) && other.contains(remembers), "{other}");

    // A version is described by its contents.
    let file = bench.data.path().join("SKILL.md");
    std::fs::write(&file, "---\nname: hand\ndescription: Always.\n---\nbe kind\n").unwrap();
    bench.out(&["playbook", "import", "env-shop", file.to_str().unwrap()]);
    let with_version = learn(&shop, "2", &[]);
    assert!(with_version.contains("playbook env-shop continues from version 1 (1 entry)"), "{with_version}");
}

#[test]
fn a_rehearsal_on_recorded_episodes_plans_only_test_pairs() {
    let Some(bench) = Bench::new("a_rehearsal_of_recorded_episodes") else { return };
    let (shop, state, rules) = (bench.guest("env_shop"), bench.guest("reward_state"), bench.guest("reflector_rules"));
    let played = bench.json(&["run", &shop, "--reward", &state, "--episodes", "24", "--group", "4"]);
    let run = played["timing"]["run"].as_str().unwrap();
    let words = ["learn", &shop, "--reward", &state, "--layer", "harness", "--reflector", &rules, "--from", run];
    let words = [&words[..], &["--iterations", "3", "--group", "4", "--episodes", "8", "--test-pairs", "4"]].concat();
    let at_most = &bench.json(&[&words[..], &["--dry-run"]].concat())["at_most"];
    assert_eq!((&at_most["gate_sessions"], &at_most["episodes"]), (&0.into(), &8.into()), "{at_most}");
    let told = bench.out(&[&words[..], &["--dry-run"]].concat());
    assert!(
        told.contains("gate        no session: lessons from recorded episodes are tried in a run that plays"),
        "{told}"
    );
    let learned = bench.out(&words);
    assert!(learned.contains("reward of the recorded episodes, by the iteration that learned from them"), "{learned}");
    assert!(!learned.contains("training reward"), "{learned}");
}
