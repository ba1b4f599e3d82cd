//! Records are complete: what is missing, added or contradicted is named, and one damaged record hides no other.

use crate::{Bench, stderr, stdout};
use rusqlite::Connection;
use serde_json::Value;

/// Changes the database behind the program's back.
fn change(bench: &Bench, sql: &str) {
    Connection::open(bench.data.path().join("clawhost.sqlite")).unwrap().execute_batch(sql).unwrap();
}

/// Replays the newest run, which must differ, and gives its report.
fn differs(bench: &Bench, what: &str) -> Value {
    let output = bench.run(&["replay", "--json"]);
    assert_eq!(output.status.code(), Some(7), "{what}: {}{}", stdout(&output), stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["report"].clone()
}

/// The values that the records contradict, by name.
fn contradicted(report: &Value) -> Vec<String> {
    let all = report["discrepancies"].as_array().unwrap();
    all.iter().map(|one| one["what"].as_str().unwrap().to_owned()).collect()
}

/// A run of two guessed episodes with a verdict each.
fn play(bench: &Bench) {
    let (guess, reward) = (bench.guest("env_math"), bench.guest("reward_exact"));
    bench.json(&["run", &guess, "--episodes", "2", "--reward", &reward, "--seed", "3"]);
}

#[test]
fn a_missing_or_surplus_verdict_is_named() {
    let Some(bench) = Bench::new("a_missing_or_surplus_verdict_is_named") else { return };
    play(&bench);
    change(&bench, "DELETE FROM verdicts WHERE episode = 1; UPDATE episodes SET reward = NULL WHERE number = 1");
    let found = contradicted(&differs(&bench, "a removed verdict"));
    assert!(found.iter().any(|what| what.starts_with("the verdict of the reward ")), "{found:?}");
    let bench = bench.warm();
    play(&bench);
    change(
        &bench,
        "INSERT INTO verdicts (number, reward, dictionary, document)
         SELECT number + 1, reward, dictionary, document FROM verdicts WHERE episode = 1",
    );
    let found = contradicted(&differs(&bench, "an added verdict"));
    assert!(found.iter().any(|what| what.starts_with("a verdict of ")), "{found:?}");
}

#[test]
fn every_column_is_compared_with_its_document() {
    let Some(bench) = Bench::new("every_column_is_compared") else { return };
    play(&bench);
    for (table, column, value) in [
        ("episodes", "group_number", "group_number + 7"),
        ("episodes", "task", "'another'"),
        ("episodes", "reward", "-0.75"),
        ("episodes", "turns", "9"),
        ("episodes", "pending_until", "99"),
        ("episodes", "revision", "3"),
        ("settings", "environment", "'another'"),
        ("settings", "environment_digest", "'another'"),
        ("settings", "state_id", "'another'"),
        ("settings", "split", "'another'"),
        ("settings", "live", "1"),
        ("settings", "expects", "'[]'"),
        ("endings", "failure_kind", "'limit'"),
        ("endings", "failure_code", "'fuel'"),
    ] {
        change(&bench, &format!("UPDATE {table} SET {column} = {value}"));
        let found = contradicted(&differs(&bench, column));
        assert!(found.contains(&format!("column {column}")), "{table}.{column}: {found:?}");
        bench_again(&bench);
    }
    change(&bench, "UPDATE endings SET label = 'another'");
    assert!(contradicted(&differs(&bench, "ending")).contains(&"column ending".to_owned()));
    bench_again(&bench);
    for (column, value, what) in [
        ("state", "'stopped'", "state"),
        ("state_id", "'another'", "state_id"),
        ("environment", "'another'", "environment"),
        ("kind", "'evaluate'", "kind"),
        ("planned", "7", "planned"),
        ("digest", "'sha256:' || hex(zeroblob(32))", "digest"),
        ("config", "json_set(config, '$.play.seed', 99)", "the seed of the basis"),
        ("summary", "json_set(summary, '$.reward_mean', 0.875)", "summary.reward_mean"),
        ("summary", "json_set(summary, '$.steps', 875)", "summary.steps"),
        ("summary", "json_remove(summary, '$.content_root')", "summary.content_root"),
    ] {
        change(&bench, &format!("UPDATE runs SET {column} = {value}"));
        let found = contradicted(&differs(&bench, column));
        assert!(found.contains(&what.to_owned()), "{column}: {found:?}");
        bench_again(&bench);
    }
}

/// Another run, in place of those that were changed.
fn bench_again(bench: &Bench) {
    let data = bench.data.path();
    for file in ["clawhost.sqlite", "clawhost.sqlite-wal", "clawhost.sqlite-shm"] {
        let _ = std::fs::remove_file(data.join(file));
    }
    play(bench);
}

#[test]
fn a_value_of_the_wrong_type_is_damage_of_its_record_only() {
    let Some(bench) = Bench::new("a_value_of_the_wrong_type") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    play(&bench);
    for (column, value) in
        [("reward", "'high'"), ("turns", "x'0102'"), ("turns", "-1"), ("created_at", "'noon'"), ("position", "-3")]
    {
        let bench = bench.warm();
        bench.json(&["run", &math, "--episodes", "4", "--reward", &exact]);
        change(&bench, &format!("UPDATE episodes SET {column} = {value} WHERE number = 2"));
        let replayed = bench.run(&["replay"]);
        assert_eq!(replayed.status.code(), Some(7), "{column}: {}{}", stdout(&replayed), stderr(&replayed));
        let exact = if column == "turns" { "4 exact" } else { "3 exact" };
        assert!(stdout(&replayed).contains(exact), "{column}: {}", stdout(&replayed));
        let named = stdout(&replayed);
        assert!(named.contains("its record is damaged") || named.contains(&format!("column {column}")), "{named}");
        let listed = bench.run(&["episodes", "list"]);
        assert!(listed.status.success() && stdout(&listed).lines().count() >= 5, "{column}: {}", stdout(&listed));
        let exported = bench.run(&["episodes", "export"]);
        assert!(stdout(&exported).lines().count() >= 3, "{column}: {}", stderr(&exported));
        let scored = bench.run(&["score", "--reward", &bench.guest("reward_format"), "--json"]);
        let document: Value = serde_json::from_slice(&scored.stdout).unwrap_or_else(|_| panic!("{}", stderr(&scored)));
        assert!(document["report"]["episodes"].as_u64().unwrap() >= 3, "{column}: {document}");
        assert!(bench.run(&["runs", "show"]).status.success());
    }
    let bench = bench.warm();
    for _ in 0..2 {
        bench.json(&["run", &math, "--episodes", "1"]);
    }
    change(&bench, "UPDATE runs SET planned = 'many' WHERE number = 1");
    let listed = bench.run(&["runs", "list"]);
    assert!(listed.status.success() && stdout(&listed).lines().count() == 2, "{}", stdout(&listed));
    assert!(stderr(&listed).contains("planned"), "{}", stderr(&listed));
    let replayed = bench.run(&["replay", "--all"]);
    assert_eq!(replayed.status.code(), Some(7));
    assert!(stdout(&replayed).contains("1 exact") && stdout(&replayed).contains("planned"), "{}", stdout(&replayed));
}

#[test]
fn equal_runs_have_one_content_root_and_reports_show_it() {
    let Some(bench) = Bench::new("equal_runs_have_one_content_root") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    let play = |seed: &str, concurrency: &str| {
        let group = ["--episodes", "12", "--group", "3", "--reward", &exact];
        bench.json(&[&["run", &math, "--seed", seed, "--concurrency", concurrency][..], &group].concat())
    };
    let root = play("7", "8")["content_root"].clone();
    assert!(root.as_str().unwrap().starts_with("sha256:"), "{root}");
    assert_eq!(root, play("7", "1")["content_root"], "at any concurrency");
    let shown = bench.json(&["runs", "show"]);
    assert_eq!(shown["run"]["content_root"], root);
    assert!(bench.out(&["runs", "show"]).contains(root.as_str().unwrap()));
    assert_ne!(root, play("8", "8")["content_root"], "of another seed");
    assert!(bench.run(&["replay", "--all"]).status.success(), "it is computed again");
}

#[test]
fn a_lost_host_key_is_named_and_records_stay_readable() {
    let Some(bench) = Bench::new("a_lost_host_key") else { return };
    play(&bench);
    assert!(bench.out(&["replay"]).contains("ledger      5 entries; the last has the code "));
    let key = bench.data.path().join("host.key");
    let kept = std::fs::read(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    let replayed = bench.run(&["replay"]);
    assert_eq!(replayed.status.code(), Some(7));
    let said = stdout(&replayed);
    assert!(said.contains("2 exact") && said.contains("the ledger cannot be checked: entries 1 to 5"), "{said}");
    assert!(bench.run(&["episodes", "export"]).status.success());
    std::fs::write(&key, "short").unwrap();
    let refused = bench.run(&["replay"]);
    assert_eq!(refused.status.code(), Some(5));
    assert!(stderr(&refused).contains("not a key of 32 bytes; restore it"), "{}", stderr(&refused));
    assert!(bench.run(&["episodes", "list"]).status.success() && bench.run(&["runs", "list"]).status.success());
    std::fs::write(&key, kept).unwrap();
    assert!(bench.run(&["replay"]).status.success());
}

#[test]
fn what_the_ledger_contradicts_is_reported() {
    let Some(bench) = Bench::new("what_the_ledger_contradicts") else { return };
    play(&bench);
    bench.out(&["runs", "rename", &bench.newest_run(), "first"]);
    change(&bench, "UPDATE run_names SET name = 'second'");
    let found = differs(&bench, "another name")["ledger"]["findings"].clone();
    assert!(found[0]["record_changed"]["record"].as_str().unwrap().starts_with("the labels of run run-"), "{found}");
    let said = stdout(&bench.run(&["replay"]));
    assert!(said.contains("ledger      the labels of run run-"), "{said}");
}

#[test]
fn a_replay_of_all_runs_names_a_run_that_is_gone() {
    let Some(bench) = Bench::new("a_replay_of_all_runs_names_a_run_that_is_gone") else { return };
    play(&bench);
    play(&bench);
    let whole = bench.out(&["replay", "--all", "--quiet"]);
    assert_eq!(whole.matches("ledger      ").count(), 1, "one check of everything: {whole}");
    let removed = |sql: &str| {
        change(&bench, sql);
        for arguments in [&["replay", "--all", "--quiet"][..], &["replay", "--all", "--quiet", "--json"]] {
            let output = bench.run(arguments);
            assert_eq!(output.status.code(), Some(7), "{sql}: {}{}", stdout(&output), stderr(&output));
            assert!(stdout(&output).contains("ledger"), "{}", stdout(&output));
        }
        stdout(&bench.run(&["replay", "--all", "--quiet"]))
    };
    let one = removed("PRAGMA foreign_keys = 0; DELETE FROM runs WHERE number = 1");
    assert!(one.contains("was removed: entry ") && one.contains(" of the ledger has it"), "{one}");
    let newest = bench.run(&["replay", "--quiet"]);
    assert_eq!(newest.status.code(), Some(7), "a replay of one run names those that are gone: {}", stdout(&newest));
    let all = removed("PRAGMA foreign_keys = 0; DELETE FROM verdicts; DELETE FROM episodes; DELETE FROM runs");
    assert_eq!(all.matches("was removed").count(), 2, "also if there is no run any more: {all}");
}
