//! Runs that stop early: a budget is spent, too many episodes fail, the operator stops them, the disk is full. Records
//! are kept, and `--resume` gives the result of an uninterrupted run. Dying processes are in the suite `crash`.

use super::*;
use rusqlite::Connection;

impl Bench {
    pub(crate) fn count(&self, sql: &str) -> i64 {
        let path = self.data.path().join("clawhost.sqlite");
        Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    pub(crate) fn runs(&self) -> i64 {
        self.count("SELECT count(*) FROM runs")
    }
}

#[test]
fn a_run_stopped_by_a_budget_can_be_resumed() {
    let Some(bench) = Bench::new("a_run_that_a_budget_stopped") else { return };
    let guess = bench.guest("env_guess");
    let run = ["run", &guess, "--episodes", "48", "--group", "8", "--concurrency", "16"];
    let limited = |tokens: &'static str, more: &[&'static str]| {
        let output = bench.run(&[&run[..], &["--json", "--max-tokens-total", tokens], more].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), report["timing"]["spent"]["prompt_tokens"].as_u64().unwrap(), report)
    };
    let expected = bench.outside_timing(&run);

    let (code, spent, _) = limited("2000", &[]);
    assert_eq!(code, Some(6));
    // Paid tokens count in every attempt: nothing more is bought, and no record is lost.
    let turns = || bench.count("SELECT sum(turns) FROM episodes");
    let before = turns();
    for _ in 0..3 {
        let (code, again, _) = limited("2000", &["--resume"]);
        assert_eq!((code, again, turns()), (Some(6), spent, before));
    }
    assert_eq!(bench.runs(), 2, "the run was resumed, not begun again");
    let (resumed, timing) = without_timing(bench.json(&[&run[..], &["--resume"]].concat()));
    assert!(timing["spent"]["prompt_tokens"].as_u64().unwrap() > spent);
    assert_eq!(resumed, expected);

    // The requests of rewards and environments count too.
    let (services, ranking) = (bench.guest("odd_services"), bench.guest("odd_ranking"));
    let run = [
        "run",
        &services,
        "--episodes",
        "40",
        "--reward",
        &ranking,
        "--grant",
        "llm:judge=follower",
        "--max-turns",
        "2",
    ];
    let run = [&run[..], &["--policy", "script:", "--concurrency", "4"]].concat();
    let script = bench.data.path().join("script");
    std::fs::write(&script, "go\n").unwrap();
    let policy = format!("script:{}", script.display());
    let run: Vec<&str> = run.into_iter().map(|word| if word == "script:" { policy.as_str() } else { word }).collect();
    let stopped = bench.run(&[&run[..], &["--max-tokens-total", "300"]].concat());
    assert_eq!(stopped.status.code(), Some(6), "{}", stderr(&stopped));
    for _ in 0..2 {
        let again = bench.run(&[&run[..], &["--max-tokens-total", "300", "--resume", "--json"]].concat());
        assert_eq!(again.status.code(), Some(6), "{}", stderr(&again));
    }
    // An episode whose model was out of budget is not complete.
    let exported = stdout(&bench.run(&["episodes", "export"]));
    for line in exported.lines().filter(|line| !line.contains(r#""ending":{"failed""#)) {
        let mut episode: Value = serde_json::from_str(line).unwrap();
        // A reward's model may be out of budget: the verdict has failed, and the group is played again.
        let verdicts = episode["verdicts"].take().to_string();
        assert!(!episode.to_string().contains("of 300 tokens"), "{episode}");
        assert!(!verdicts.contains("of 300 tokens") || episode["reward"].is_null(), "{verdicts}");
    }
    let whole = bench.json(&run);
    let resumed = bench.json(&[&run[..], &["--resume"]].concat());
    assert_eq!(resumed["episodes"], whole["episodes"], "equal to an uninterrupted run");
}

#[test]
fn a_run_with_too_many_failures_continues_with_a_larger_budget() {
    let Some(bench) = Bench::new("a_run_that_failed_too_much") else { return };
    let failing = bench.guest("odd_failing");
    let run = ["run", &failing, "--episodes", "40", "--seed", "1"];
    let whole = bench.json(&[&run[..], &["--failure-budget", "1"]].concat());
    assert_eq!(bench.run(&run).status.code(), Some(4));
    let resumed = bench.json(&[&run[..], &["--failure-budget", "1", "--resume"]].concat());
    assert_eq!((&resumed["episodes"], &resumed["failed"]), (&whole["episodes"], &whole["failed"]));
}

#[cfg(unix)]
#[test]
fn a_run_stopped_by_its_operator_replays_and_can_be_resumed() {
    let Some(bench) = Bench::new("a_run_that_its_operator_stopped") else { return };
    // Nothing answers at this address: episodes are stopped before their first turn, in groups.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let policy = format!("openai:m@http://{}/v1", silent.local_addr().unwrap());
    let guess = bench.guest("env_guess");
    let run = ["run", &guess, "--episodes", "16", "--group", "4", "--concurrency", "8", "--policy", &policy, "-q"];
    // Each episode uses its own connection, so all concurrent episodes have begun when all connections exist.
    let asked = || -> Vec<_> { (0..8).map(|_| silent.accept().unwrap().0).collect() };
    let child = bench.command(&run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let waiting = asked();
    let stop = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(stop.success());
    let output = child.wait_with_output().unwrap();
    drop(waiting);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stdout(&output).contains("the same command with --resume continues"), "{}", stdout(&output));
    let replayed = bench.run(&["replay"]);
    assert_eq!(replayed.status.code(), Some(0), "{}", stdout(&replayed));
    assert!(stdout(&replayed).contains("failed: cancelled"), "{}", stdout(&replayed));
    let row = bench.json(&["runs", "list"])[0].clone();
    assert_eq!((&row["state"], &row["summary"]["stopped"]), (&"stopped".into(), &"cancelled".into()), "{row}");

    // With a working model it is another configuration. The same one is resumed.
    let again = bench.command(&[&run[..], &["--resume"]].concat()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut again = again.unwrap();
    let waiting = asked();
    again.kill().unwrap();
    again.wait().unwrap();
    drop(waiting);
    assert_eq!(bench.runs(), 1);
    let before = bench.count("SELECT count(*) FROM episodes");
    assert!(before > 0, "episodes that were cut short stay until others replace them");
}

#[test]
fn a_full_disk_ends_the_run_without_loss() {
    let Some(bench) = Bench::new("a_disk_that_is_full") else { return };
    let guess = bench.guest("env_guess");
    // About 2 MiB.
    let run = ["run", &guess, "--episodes", "4000", "--seed", "2"];
    let full = bench.run(&[&run[..], &["--store-limit", "1"]].concat());
    assert_eq!(full.status.code(), Some(5), "{}", stderr(&full));
    assert!(stderr(&full).contains("no room left"), "{}", stderr(&full));
    let recorded = bench.count("SELECT count(*) FROM episodes");
    assert!((1..4000).contains(&recorded), "{recorded}");
    // With free space, the same command continues.
    let resumed = bench.json(&[&run[..], &["--resume"]].concat());
    assert_eq!(resumed["episodes"].as_array().unwrap().len(), 4000);
    assert_eq!(bench.count("SELECT count(*) FROM episodes"), 4000);
}
