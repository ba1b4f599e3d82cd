//! Feedback: a person's verdict about an episode, as a revision.

use super::*;

/// Ids of a run's episodes, in order, with their rows.
fn listed(bench: &Bench, run: &str) -> Vec<Value> {
    let rows = bench.json(&["episodes", "list", "--run", run, "--limit", "1000"]);
    rows.as_array().unwrap().clone()
}

#[test]
fn feedback_changes_the_reward_as_a_new_revision_without_overwriting() {
    let Some(bench) = Bench::new("feedback_changes_the_reward") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    let run = bench.play(&[&math, "--reward", &exact, "--episodes", "3"]);
    let rows = listed(&bench, &run);
    let (id, before) = (rows[0]["id"].as_str().unwrap(), rows[0]["reward"].as_f64().unwrap());
    let name = format!("{run}/{id}");

    let said = bench.json(&["feedback", id, "--thumbs", "down", "--text", "too slow\u{1b}[31m", "--key", "a"]);
    let said = &said["feedback"];
    assert_eq!(
        (&said["added"], &said["revision"], &said["reward"]),
        (&true.into(), &1.into(), &(-1.0).into()),
        "{said}"
    );
    assert_eq!((&said["reward_before"], &said["state"]), (&before.into(), &"decided".into()));
    let again = bench.out(&["feedback", id, "--thumbs", "down", "--text", "too slow\u{1b}[31m", "--key", "a"]);
    assert!(again.contains("that is recorded already (revision 1); the reward is -1"), "{again}");
    bench.refused(&["feedback", id, "--score", "0.5", "--key", "a"], &["the key `a` was used", "revision 1"]);
    let corrected = bench.out(&["feedback", &name, "--score", "0.5"]);
    assert!(corrected.ends_with("revision 2, reward -1 -> 0.5\n"), "{corrected}");
    assert!(bench.out(&["feedback", &name, "--score", "-1"]).ends_with("revision 3, reward 0.5 -> -1\n"));
    assert!(
        bench.out(&["feedback", &name, "--score", "-1"]).contains("recorded already"),
        "the same feedback twice without a key"
    );

    let forged = bench.out(&["feedback", &name, "--score", "0.5", "--text", "good\nverdict     1 by forged (user)"]);
    assert!(forged.contains("revision 4"), "{forged}");
    let shown = bench.out(&["episodes", "show", &name]);
    assert!(shown.contains("by forged") && !shown.contains("\nverdict     1 by forged"), "{shown}");
    assert!(bench.out(&["feedback", &name, "--score", "-1"]).contains("revision 5"));
    assert!(shown.contains(&format!("{before} -> -1 -> 0.5 -> -1 -> 0.5 (revision 0 to 4)")), "{shown}");
    assert!(shown.contains("too slow\\u{1b}[31m") && !shown.contains('\u{1b}'), "{shown}");
    assert!(shown.contains("replaced by a later one"), "{shown}");
    let rows = listed(&bench, &run);
    assert_eq!((&rows[0]["reward"], &rows[0]["revision"]), (&(-1.0).into(), &5.into()));
    assert_eq!((&rows[1]["revision"], &rows[1]["state"]), (&0.into(), &"decided".into()));
    assert!(bench.out(&["episodes", "list"]).contains("decided, revision 5"));

    // Verdicts of plugins still replay. A person's verdict does not need to.
    let replayed = bench.json(&["replay", "--run", &run]);
    assert_eq!((&replayed["report"]["verdicts"]["exact"], &replayed["report"]["missing"]), (&3.into(), &0.into()));
}

#[test]
fn invalid_feedback_is_refused() {
    let Some(bench) = Bench::new("feedback_that_cannot_be") else { return };
    let nowhere = bench.run(&["feedback", "ep-1", "--score", "1"]);
    assert_eq!(nowhere.status.code(), Some(5), "{}", stderr(&nowhere));
    assert!(!bench.data.path().join("clawhost.sqlite").exists(), "feedback creates no data folder");
    let words = ["--reward", &bench.guest("reward_exact"), "--episodes", "2"];
    let math = bench.guest("env_math");
    let [one, two] = [(); 2].map(|()| bench.play(&[&[math.as_str()], &words[..]].concat()));
    let id = listed(&bench, &one)[0]["id"].as_str().unwrap().to_owned();
    let refused = |arguments: &[&str], says: &[&str]| bench.refused(&[&["feedback"], arguments].concat(), says);
    refused(&[&id, "--score", "1"], &["several runs have an episode", &one, &two, &format!("write RUN/{id}")]);
    refused(&["ep-none", "--score", "1"], &["no episode `ep-none` here"]);
    refused(&[&format!("run-elsewhere/{id}"), "--score", "1"], &["no run `run-elsewhere` here"]);
    refused(&[&format!("{one}/ep-none"), "--score", "1"], &["no episode"]);
    let named = format!("{one}/{id}");
    refused(&[&named, "--score", "1.5"], &["the score 1.5 is not from -1 to 1"]);
    refused(&[&named, "--score", "NaN"], &["the score NaN is not from -1 to 1"]);
    refused(&[&named, "--thumbs", "up", "--score", "1"], &["cannot be used with"]);
    refused(&[&named], &["--score", "--thumbs"]);
    refused(&[&named, "--score", "1", "--key", ""], &["the key has 0 bytes"]);
    refused(&[&named, "--score", "1", "--key", &"k".repeat(201)], &["the key has 201 bytes; a key has 1 to 200"]);
    refused(&[&named, "--score", "1", "--text", &"x".repeat(20_000)], &["the text has 20000 bytes; at most 16384"]);
    let failing = bench.run(&["run", &bench.guest("hostile_panic"), "--episodes", "1", "--failure-budget", "1"]);
    let failed = bench.newest_run();
    assert_ne!(failed, two, "{}", stderr(&failing));
    let id = listed(&bench, &failed)[0]["id"].as_str().unwrap().to_owned();
    refused(&[&format!("{failed}/{id}"), "--score", "1"], &["could not be completed, so it has no reward"]);
    assert!(listed(&bench, &one).iter().all(|row| row["revision"] == 0), "nothing was recorded");
}

#[test]
fn an_episode_is_pending_until_its_expected_verdict() {
    let Some(bench) = Bench::new("an_episode_waits") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    let run = bench.play(&[&math, "--reward", &exact, "--episodes", "2", "--expect", "user=24h"]);
    let rows = listed(&bench, &run);
    let state = |row: &Value| row["state"].clone();
    assert!(rows.iter().all(|row| state(row)["pending"]["until"].as_u64().is_some()), "{rows:?}");
    assert!(bench.out(&["episodes", "list"]).contains("pending"));
    let name = format!("{run}/{}", rows[0]["id"].as_str().unwrap());
    assert!(bench.out(&["episodes", "show", &name]).contains("waits for a verdict until "));
    bench.out(&["feedback", &name, "--thumbs", "up"]);
    let rows = listed(&bench, &run);
    assert_eq!(state(&rows[0]), "decided");
    assert!(state(&rows[1])["pending"].is_object());
    bench.refused(&["learn", &math, "--reward", &exact, "--layer", "harness", "--expect", "user=1h"], &["--expect"]);
}

#[test]
fn learning_uses_the_decided_episodes_of_a_run_with_their_corrections() {
    let Some(bench) = Bench::new("learning_takes_in_the_decided") else { return };
    let (shop, state, rules) = (bench.guest("env_shop"), bench.guest("reward_state"), bench.guest("reflector_rules"));
    let played = ["--reward", &state, "--episodes", "32", "--group", "4"];
    let run = bench.play(&[&[shop.as_str()], &played[..]].concat());
    let rows = listed(&bench, &run);
    let mean = |rows: &[Value]| rows.iter().map(|row| row["reward"].as_f64().unwrap()).sum::<f64>() / rows.len() as f64;
    let before = mean(&rows[..16]);
    for row in &rows[..3] {
        bench.out(&["feedback", &format!("{run}/{}", row["id"].as_str().unwrap()), "--score", "0.25"]);
    }
    let harness = ["--reward", &state, "--layer", "harness", "--reflector", &rules, "--iterations", "2"];
    let few = ["--episodes", "16", "--gate-pairs", "8", "--test-pairs", "4", "--from", &run, "-q"];
    let learn = [&["learn", &shop], &harness[..], &few].concat();
    let planned = stdout(&bench.run(&[&learn[..], &["--dry-run"]].concat()));
    assert!(planned.contains(&format!("training    2 iterations of 4 groups of {run} each, at most")), "{planned}");
    let learned = bench.json(&learn);
    let iterations = learned["learn"]["iterations"].as_array().unwrap();
    assert_eq!((&iterations[0]["revised"], &iterations[1]["revised"]), (&3.into(), &0.into()), "{iterations:?}");
    let corrected = mean(&listed(&bench, &run)[..16]);
    assert_eq!(iterations[0]["reward"].as_f64().unwrap(), corrected, "it was {before} before the feedback");
    assert_ne!(before, corrected);
    let trained = "SELECT count(*) FROM runs WHERE id GLOB '*-train'";
    assert_eq!(bench.count(trained), 0, "nothing was played for training");

    let math = bench.guest("env_math");
    let other = bench.play(&[&math, "--episodes", "2"]);
    let from = |run: &str| {
        [&["learn", &shop], &harness[..], &["--from"]]
            .concat()
            .into_iter()
            .chain([run])
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let refused = |run: &str, says: &[&str]| {
        let words = from(run);
        bench.refused(&words.iter().map(String::as_str).collect::<Vec<_>>(), says);
    };
    refused(&other, &["played env-math, and not env-shop"]);
    refused("run-none", &["no run `run-none` here"]);
    let learning = learned["timing"]["run"].as_str().unwrap();
    refused(learning, &["name a run that only played"]);
    let unscored = bench.play(&[&shop, "--episodes", "2"]);
    refused(&unscored, &["0 wait for a verdict, 2 have none", "clawhost feedback EPISODE"]);
    let waiting = bench.play(&[&shop, "--reward", &state, "--episodes", "3", "--expect", "user=1d"]);
    refused(&waiting, &["3 wait for a verdict, 0 have none"]);
    let first = listed(&bench, &waiting)[0]["id"].as_str().unwrap().to_owned();
    bench.out(&["feedback", &format!("{waiting}/{first}"), "--thumbs", "up"]);
    let words = from(&waiting);
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--test-pairs", "0"]).collect();
    let output = bench.run(&words);
    assert!(stderr(&output).contains("teaches with 1 episode; left out: 2 episodes pending"), "{output:?}");
    let alone = "has groups of one episode: reflectors read it, but no lesson is measured; play with --group 2 or more";
    assert!(stderr(&output).contains(alone), "{output:?}");
    let compared = bench.run(&[&learn[..], &["--dry-run"]].concat());
    assert!(!stderr(&compared).contains("groups of one"), "{compared:?}");
    // Test tasks are not used for learning.
    let reporting = bench.play(&[&shop, "--reward", &state, "--episodes", "4", "--tasks", "test"]);
    let words = from(&reporting);
    let output = bench.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!((stdout(&output) + &stderr(&output)).contains("no decided episode of a training task"), "{output:?}");
    // Cited episodes are kept, and are a biased selection.
    bench.out(&["data", "prune", "--run", &run]);
    refused(&run, &["were removed on request"]);
}
