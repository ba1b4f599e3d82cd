//! A failure is not a zero: a plugin that fails nine times in ten, and everything downstream of it.

use super::*;
use rusqlite::Connection;

/// Every published number after a run in which most episodes failed.
#[test]
fn nothing_downstream_of_a_failing_plugin_sees_a_zero() {
    let Some(bench) = Bench::new("nothing_downstream_of_a_failing_plugin") else { return };
    let (failing, reward) = (bench.guest("odd_failing"), bench.guest("reward_format"));
    let run = ["run", &failing, "--episodes", "200", "--seed", "4"];
    let scored = ["--reward", &reward, "--failure-budget", "1"];
    let summary = bench.json(&[&run[..], &scored].concat());
    let failed = summary["failed"].as_u64().unwrap();
    assert!((160..200).contains(&failed), "{failed} of 200 failed");
    let complete = 200 - failed;

    // The report: the mean covers only scored episodes.
    let value = summary["episodes"].as_array().unwrap().iter().find_map(|episode| episode["reward"].as_f64()).unwrap();
    assert!(value > 0.0, "a complete episode has a positive format reward: {value}");
    assert_eq!(summary["reward_mean"].as_f64(), Some(value), "all complete episodes have equal rewards");
    assert_eq!(summary["scored"], complete);
    assert_eq!(
        (&summary["by_reward"][0]["mean"], &summary["by_reward"][0]["scored"]),
        (&value.into(), &complete.into())
    );
    for episode in summary["episodes"].as_array().unwrap() {
        let is_failed = episode["ending"].as_str().unwrap().starts_with("failed");
        assert_eq!(episode["reward"].is_null(), is_failed, "{episode}");
    }
    // The causes, and their numbers.
    let failures = summary["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0]["who"], "odd-failing");
    assert_eq!((&failures[0]["failure"], &failures[0]["episodes"]), (&"trap(unreachable)".into(), &failed.into()));

    // Lists, exports and the database itself.
    let exported = stdout(&bench.run(&["episodes", "export"]));
    let rewards: Vec<Value> =
        exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["reward"].clone()).collect();
    assert_eq!(rewards.iter().filter(|reward| reward.is_null()).count() as u64, failed);
    assert!(rewards.iter().all(|reward| reward.as_f64() != Some(0.0)));
    let database = Connection::open(bench.data.path().join("clawhost.sqlite")).unwrap();
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() as u64;
    assert_eq!(count("SELECT count(*) FROM episode_rows WHERE reward IS NULL AND failure_kind IS NOT NULL"), failed);
    assert_eq!(count("SELECT count(*) FROM episodes WHERE reward = 0"), 0);
    assert_eq!(count("SELECT count(*) FROM verdicts"), complete, "failed episodes are not judged");
    let listed = bench.json(&["runs", "list"]);
    assert_eq!(listed[0]["reward_mean"].as_f64(), Some(value), "{listed}");

    // Another reward later.
    let later = bench.json(&["score", "--reward", &bench.guest("reward_execution")]);
    assert_eq!((&later["report"]["episodes"], &later["report"]["not_complete"]), (&complete.into(), &failed.into()));

    // Text for people.
    let said = stdout(&bench.run(&[&run[..], &scored].concat()));
    assert!(said.contains(&format!("odd-failing: {failed} x trap(unreachable)")), "{said}");
    assert!(said.contains(&format!("({complete} scored)")), "{said}");
}

#[test]
fn a_run_with_too_many_failures_stops_with_the_reason() {
    let Some(bench) = Bench::new("a_run_in_which_too_much_fails") else { return };
    let failing = bench.guest("odd_failing");
    let output = bench.run(&["run", &failing, "--episodes", "200", "--seed", "4"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(said.contains("stopped: 21 failed, 20 may; fix the cause above and begin a new run, or, if it was temporary, raise --failure-budget"), "{said}");
    assert!(said.contains("odd-failing: 21 x trap(unreachable)"), "{said}");
    assert!(
        stderr(&output).contains("first failure, ep-"),
        "the first failure is reported at once: {}",
        stderr(&output)
    );
    // Other episodes in progress ended with the run without being stopped.
    let recorded = bench.out(&["episodes", "export"]);
    assert!(recorded.lines().count() >= 21 && !recorded.contains("stopped by the operator"), "{said}");
}
