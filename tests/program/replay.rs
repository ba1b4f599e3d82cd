//! `clawhost replay`: recorded episodes are reproduced from the data folder alone, in another process.
//!
//! `CLAWHOST_REPLAYS=N` plays this many episodes of every plugin instead of the default.

use super::*;
use clawhost_core::{EpisodeFilter, EpisodeReader as _};
use clawhost_store::Reader;
use rusqlite::Connection;

impl Bench {
    /// Replays the newest run; every episode must be exact.
    fn exact(&self, episodes: u64, what: &str) -> Value {
        for extra in [&[][..], &["--on-demand"]] {
            let report = self.json(&[&["replay"][..], extra].concat())["report"].clone();
            assert_eq!(report["episodes"]["exact"], episodes, "{what} {extra:?}: {report}");
            assert_eq!(report["findings"], serde_json::json!([]), "{what}");
        }
        self.json(&["replay"])["report"].clone()
    }
}

/// Default number of episodes per plugin.
const EPISODES: u64 = 12;

#[test]
fn every_kind_of_plugin_replays_byte_for_byte() {
    let Some(bench) = Bench::new("every_kind_of_plugin_replays") else { return };
    let episodes = std::env::var("CLAWHOST_REPLAYS").ok().and_then(|text| text.parse().ok()).unwrap_or(EPISODES);
    let count = episodes.to_string();
    let mut replayed = 0;
    let (exact, state, format) =
        (bench.guest("reward_exact"), bench.guest("reward_state"), bench.guest("reward_format"));
    let (execution, judge) = (bench.guest("reward_execution"), bench.guest("reward_judge"));
    let grants = ["--grant", "kv", "--grant", "llm:judge=follower"];
    for (environment, more) in [
        ("env_math", &["--reward", &exact, "--reward", &format][..]),
        ("env_guess", &["--group", "4"]),
        ("env_shop", &["--group", "4", "--reward", &state, "--reward", &execution]),
        ("env_shop", &["--reward", &judge, "--failure-budget", "1"]),
        ("hello_guess", &[]),
        // A model without a system prompt.
        ("env_math", &["--system-prompt", ""]),
        ("env_math", &["--system-prompt", "Answer.", "--temperature", "0.3", "--max-tokens", "77"]),
        // WASI clock, sleeps, randomness and hash order; notes and models.
        ("odd_wasi", &["--max-turns", "5"]),
        ("odd_snapshot", &["--max-turns", "9"]),
        ("odd_services", &["--max-turns", "5"]),
        ("odd_tools", &["--max-turns", "5"]),
        ("wasip2/odd_std", &["--max-turns", "5"]),
        // Endings that the plugin causes.
        ("hostile_loop", &["--failure-budget", "1"]),
        ("hostile_panic", &["--failure-budget", "1"]),
        ("hostile_string_1", &["--failure-budget", "1"]),
        ("hostile_start", &["--failure-budget", "1"]),
        ("odd_failing", &["--failure-budget", "1"]),
    ] {
        let plugin = bench.guest(environment);
        if !Path::new(&plugin).exists() {
            eprintln!("skipped {environment}: its target is not installed");
            continue;
        }
        let played = bench.run(&[&["run", &plugin, "--episodes", &count, "-q"][..], &grants, more].concat());
        assert!(played.status.success(), "{environment}: {}", stderr(&played));
        let report = bench.exact(episodes, environment);
        let rewards = more.iter().filter(|word| **word == "--reward").count() as u64;
        assert_eq!(report["verdicts"]["exact"], episodes * rewards, "{environment}: {report}");
        replayed += episodes;
    }
    eprintln!("{replayed} episodes replayed, exact, pooled and on demand");
}

#[test]
fn a_group_reward_replays_with_its_group() {
    let Some(bench) = Bench::new("a_reward_that_judges_groups") else { return };
    let (guess, reward) = (bench.guest("env_guess"), bench.guest("odd_ranking"));
    bench.json(&[
        "run",
        &guess,
        "--episodes",
        "12",
        "--group",
        "4",
        "--reward",
        &reward,
        "--grant",
        "llm:judge=follower",
    ]);
    let report = bench.exact(12, "a group");
    assert_eq!(report["verdicts"]["exact"], 12, "{report}");
    // Naming one episode is sufficient: its group is found.
    let listed = stdout(&bench.run(&["episodes", "export"]));
    let one: Value = serde_json::from_str(listed.lines().nth(5).unwrap()).unwrap();
    let output = bench.run(&["replay", one["id"].as_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(said.contains("1 exact (") && said.contains("verdicts    1 exact"), "{said}");
}

#[test]
fn an_ending_caused_by_the_host_replays_up_to_its_last_turn() {
    let Some(bench) = Bench::new("an_ending_that_the_host_caused") else { return };
    let guess = bench.guest("env_guess");
    // The budget ends in the middle of an episode.
    bench.run(&["run", &guess, "--episodes", "6", "--concurrency", "1", "--max-tokens-total", "700"]);
    let report = bench.json(&["replay"])["report"].clone();
    let endings = report["host_endings"].as_object().unwrap();
    assert!(endings.keys().all(|ending| ending.starts_with("failed: llm(")), "{report}");
    assert_eq!(report["episodes"]["exact_turns"], endings.values().filter_map(Value::as_u64).sum::<u64>());
    assert!(
        report["episodes"]["exact_turns"].as_u64().unwrap() > 0 && report["turns"].as_u64().unwrap() > 0,
        "{report}"
    );
    let said = stdout(&bench.run(&["replay"]));
    assert!(said.contains("exact up to an ending that the host caused") && said.contains("failed: llm("), "{said}");
}

/// Stores all documents as text, so that SQL can change them.
fn uncompress(bench: &Bench, database: &Connection) {
    let reader = Reader::open(bench.data.path()).unwrap();
    for row in reader.episodes(&EpisodeFilter::default()).unwrap() {
        // A damaged document is left unchanged.
        let Ok(Some(mut episode)) = reader.episode(&format!("{}/{}", row.run, row.id)) else { continue };
        let number = "SELECT number FROM episode_rows WHERE run = ?1 AND id = ?2";
        let number: i64 = database.query_row(number, [&row.run, &row.id], |row| row.get(0)).unwrap();
        for (position, verdict) in std::mem::take(&mut episode.verdicts).into_iter().enumerate() {
            let sql = "UPDATE verdicts SET document = ?1, dictionary = NULL WHERE episode = ?2 AND position = ?3";
            database.execute(sql, (serde_json::to_string(&verdict).unwrap(), number, position as i64)).unwrap();
        }
        let sql = "UPDATE episodes SET document = ?1, dictionary = NULL WHERE number = ?2";
        database.execute(sql, (serde_json::to_string(&episode).unwrap(), number)).unwrap();
    }
}

/// Changes the stored documents of an episode or verdict.
fn tamper(bench: &Bench, sql: &str) {
    let database = Connection::open(bench.data.path().join("clawhost.sqlite")).unwrap();
    uncompress(bench, &database);
    assert!(database.execute(sql, []).unwrap() > 0, "{sql}");
}

/// The path of a stored plugin's component.
fn component(bench: &Bench, world: &str) -> PathBuf {
    let database = Connection::open(bench.data.path().join("clawhost.sqlite")).unwrap();
    let sql = "SELECT digest FROM plugins WHERE world = ?1";
    let digest: String = database.query_row(sql, [world], |row| row.get(0)).unwrap();
    let hex = digest.trim_start_matches("sha256:");
    bench.data.path().join("blobs/sha256").join(&hex[..2]).join(hex)
}

#[test]
fn the_first_difference_is_reported() {
    let Some(bench) = Bench::new("the_first_difference_is_reported") else { return };
    let (guess, ranking) = (bench.guest("env_guess"), bench.guest("odd_ranking"));
    let play = || bench.json(&["run", &guess, "--episodes", "2", "--reward", &ranking, "--seed", "3"]);
    let found = |sql: &str| {
        let output = bench.run(&["replay", "--json"]);
        assert_eq!(output.status.code(), Some(7), "{sql}: {}", stdout(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["report"]["findings"][0].clone()
    };
    let whole = |sql: &str| {
        play();
        tamper(&bench, sql);
        found(sql)
    };
    let newest = "(SELECT max(number) FROM runs)";
    let of_newest = format!("episode IN (SELECT number FROM episodes WHERE run = {newest})");
    let set = |path: &str, value: &str| {
        format!(
            "UPDATE episodes SET document = json_set(document, '$.{path}', {value}) WHERE position = 1 AND run = {newest}"
        )
    };
    let digest = format!("'sha256:{}'", "0".repeat(64));
    for (path, value, turn, what) in [
        ("turns[1].host_calls", digest.as_str(), 1, "host_calls"),
        ("turns[2].observation[0].parts[0].text", "'warmer'", 2, "observation[0].parts[0].text"),
        ("turns[0].fuel", "1", 0, "fuel"),
        ("turns[1].action.parts[0].text", "'51'", 1, "host_calls"),
        ("turns[1].request", digest.as_str(), 1, "request"),
        ("seed", "99", 0, "host_calls"),
    ] {
        let found = whole(&set(path, value));
        let difference = &found["outcome"]["differs"];
        assert!(difference["turn"].as_u64().is_some_and(|found| found <= turn + 1), "{path}: {found}");
        if !["seed", "turns[1].action.parts[0].text"].contains(&path) {
            assert_eq!((&difference["turn"], &difference["what"]), (&turn.into(), &what.into()), "{path}: {found}");
        }
    }
    // Values that the record has twice.
    for (path, value, what) in [
        ("policy.system_prompt", "'Be evil.'", "policy.system_prompt"),
        ("policy.model.model", "'another'", "state_id"),
        ("task.input", "'another'", "task_hash"),
        ("environment.name", "'another'", "environment.name"),
    ] {
        let found = whole(&set(path, value));
        assert_eq!(found["outcome"]["differs"]["what"], what, "{path}: {found}");
    }
    let rewarded = whole(&format!("UPDATE episodes SET reward = 0.75 WHERE position = 1 AND run = {newest}"));
    assert_eq!(rewarded["outcome"]["differs"]["what"], "reward", "{rewarded}");
    for (path, value) in [("options_digest", digest.as_str()), ("seed", "1"), ("reward.name", "'another'")] {
        let sql = format!("UPDATE verdicts SET document = json_set(document, '$.{path}', {value}) WHERE {of_newest}");
        assert_eq!(whole(&sql)["outcome"]["differs"]["what"], "question", "{path}");
    }
    // A verdict, and a missing plugin.
    let value = "UPDATE verdicts SET document = json_set(document, '$.verdict.scored.rationale', 'x')";
    let failing = format!("{value} WHERE json_extract(document, '$.verdict.scored.value') IS NOT NULL AND {of_newest}");
    let scored = whole(&failing);
    assert_eq!(scored["outcome"]["differs"]["what"], "verdict.scored.rationale", "{scored}");
    let old = whole("UPDATE episodes SET document = json_set(document, '$.format', 1)");
    assert!(
        old["outcome"]["not_replayed"].as_str().unwrap().contains("did not store everything a replay needs"),
        "{old}"
    );
    play();
    let component = component(&bench, "environment");
    let bytes = std::fs::read(&component).unwrap();
    std::fs::write(&component, [0]).unwrap();
    let damaged = found("a damaged component");
    assert!(damaged["outcome"]["not_replayed"].as_str().unwrap().contains("damaged"), "{damaged}");
    std::fs::write(&component, bytes).unwrap();
    let found = whole("DELETE FROM plugins WHERE world = 'environment'");
    assert!(found["outcome"]["not_replayed"].as_str().unwrap().contains("is not stored here"), "{found}");
}

#[test]
fn a_damaged_record_is_reported_and_the_others_replay() {
    let Some(bench) = Bench::new("a_record_that_is_damaged") else { return };
    bench.json(&["run", &bench.guest("env_math"), "--episodes", "4"]);
    tamper(&bench, "UPDATE episodes SET document = 'x' WHERE position = 1");
    tamper(&bench, "DELETE FROM episodes WHERE position = 2");
    let output = bench.run(&["replay"]);
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("episodes    2 exact, 1 not replayed (2 turns)"), "{said}");
    assert!(said.contains("its record is damaged") && said.contains("1 episode of this run cannot be found"), "{said}");
    let exported = bench.run(&["episodes", "export"]);
    assert!(stderr(&exported).contains("other records are not affected"), "{}", stderr(&exported));
}

#[test]
fn a_changed_branched_episode_is_detected() {
    let Some(bench) = Bench::new("a_branched_episode_that_was_changed") else { return };
    let plugin = bench.guest("odd_snapshot");
    bench.json(&["run", &plugin, "--episodes", "2", "--group", "2", "--branch-at", "3", "--max-turns", "6"]);
    // The episode ends in a turn that all members share.
    tamper(&bench, "UPDATE episodes SET document = json_set(document, '$.turns[1].action.parts[0].text', 'end')");
    let output = bench.run(&["replay", "--json"]);
    assert_eq!(output.status.code(), Some(7));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["report"]["episodes"]["differ"], 2, "{report}");
    let difference = &report["report"]["findings"][0]["outcome"]["differs"];
    assert_eq!(difference["turn"], 1, "{difference}");
}

#[test]
fn groups_without_shared_turns_report_the_reason() {
    let Some(bench) = Bench::new("groups_that_share_nothing") else { return };
    let math = bench.guest("env_math");
    let output = bench.run(&["run", &math, "--episodes", "4", "--group", "2", "--branch-at", "2"]);
    let said = stdout(&output);
    assert!(said.contains("branched    4 not"), "{said}");
    assert!(said.contains("4 because the episode is over after its first turn"), "{said}");
    bench.exact(4, "unshared");
    let forgetful = bench.guest("odd_forgetful");
    let run = ["run", &forgetful, "--episodes", "4", "--group", "2", "--branch-at", "2", "--max-turns", "3"];
    let said = stdout(&bench.run(&run));
    assert!(said.contains("branched    4 by taking the shared turns again"), "{said}");
    assert!(said.contains("a restored instance differs from the original"), "{said}");
}

#[test]
fn members_of_a_group_branch_in_the_middle_and_replay() {
    let Some(bench) = Bench::new("members_of_a_group_branch_off") else { return };
    for (guest, way, reason) in [
        ("env_guess", "snapshot", None),
        ("odd_snapshot", "snapshot", None),
        ("odd_wasi", "replay", None),
        ("odd_forgetful", "replay", Some("a restored instance differs from the original after 1 steps")),
        ("hostile_snapshot", "replay", Some("hostile-snapshot")),
    ] {
        let plugin = bench.guest(guest);
        let arguments = ["--episodes", "8", "--group", "4", "--branch-at", "3", "--max-turns", "6", "--grant", "kv"];
        bench.json(&[&["run", &plugin][..], &arguments].concat());
        let newest = bench.json(&["replay"])["run"].as_str().unwrap().to_owned();
        let exported = stdout(&bench.run(&["episodes", "export", "--run", &newest]));
        let episodes: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for group in episodes.chunks(4) {
            let branch = |episode: &Value| episode["branch"].clone();
            assert_eq!(branch(&group[0])["way"], way, "{guest}: {}", branch(&group[0]));
            let at = branch(&group[0])["at"].as_u64().unwrap() as usize;
            assert!((1..=3).contains(&at), "{guest}: {at}");
            let shared = |episode: &Value| {
                let turn =
                    |turn: &Value| (turn["action"].clone(), turn["observation"].clone(), turn["host_calls"].clone());
                episode["turns"].as_array().unwrap()[..at].iter().map(turn).collect::<Vec<_>>()
            };
            assert!(group.iter().all(|member| shared(member) == shared(&group[0])), "{guest}: the trunk is shared");
            let pays: Vec<_> = group.iter().map(|member| branch(member)["pays"].as_bool().unwrap()).collect();
            assert_eq!(pays, [true, false, false, false], "the shared turns were paid for once");
            match reason {
                Some(reason) => assert!(branch(&group[0])["reason"].as_str().unwrap().contains(reason), "{guest}"),
                None => assert_eq!(branch(&group[0])["reason"], Value::Null, "{guest}"),
            }
        }
        bench.exact(8, guest);
    }
}

#[test]
fn the_target_of_a_replay_must_exist() {
    let Some(bench) = Bench::new("what_is_to_be_replayed") else { return };
    let refused = |arguments: &[&str], code: i32, says: &str| {
        let output = bench.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{says}: {}", stderr(&output));
    };
    refused(&["replay"], 5, "no episodes here yet");
    bench.json(&["run", &bench.guest("env_math"), "--episodes", "2"]);
    refused(&["replay", "ep-0"], 2, "no episode `ep-0` here");
    refused(&["replay", "--run", "run-0"], 2, "no run `run-0` here");
}
