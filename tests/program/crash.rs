//! What happens when the program is killed, the disk is full, or somebody else is at work: nothing is half there, nothing is
//! counted twice, and `--resume` comes to what an uninterrupted run comes to.
//!
//! `CLAWHOST_KILLS=N` kills so many times instead of the few of every day.

use super::*;
use rusqlite::Connection;
use std::time::Duration;

/// Kills of every day: enough to meet every phase of a run, little enough for every test run.
const KILLS: usize = 18;

fn kills() -> usize {
    std::env::var("CLAWHOST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS)
}

/// A few hundred episodes in groups, scored, with notes that depend on their order.
const EPISODES: &str = "160";

impl Bench {
    fn long_run(&self) -> Vec<String> {
        let (plugin, reward) = (self.guest("odd_snapshot"), self.guest("odd_ranking"));
        let words = ["run", &plugin, "--reward", &reward, "--episodes", EPISODES, "--group", "4", "--seed", "5"];
        let more = ["--max-turns", "6", "--grant", "kv", "--grant", "llm:judge=follower", "--concurrency", "8", "-q"];
        words.iter().chain(&more).map(|word| (*word).to_owned()).collect()
    }

    /// The run's result outside timing, and the notes that it left.
    fn finish(&self, arguments: &[String]) -> (Value, Vec<(String, Vec<u8>)>) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut summary = self.json(&arguments);
        let run = summary.as_object_mut().unwrap().remove("timing").unwrap()["run"].as_str().unwrap().to_owned();
        let reader = clawhost_store::Reader::open(self.data.path()).unwrap();
        (summary, reader.notes(&run).unwrap())
    }
}

/// Where the process is killed: a pseudo-random moment of its life, the same in every test run.
fn moment(kill: usize, life: Duration) -> Duration {
    life.mul_f64((kill as f64 * 0.618_033_988_749_895).fract())
}

/// The database is sound: it opens, no episode is half there, none is there twice.
fn check_database(folder: &Path) -> u64 {
    let path = folder.join("clawhost.sqlite");
    if !path.exists() {
        return 0;
    }
    let Ok(reader) = clawhost_store::Reader::open(folder) else {
        // Killed before the tables were made: the next run makes them.
        let empty = Connection::open(&path).unwrap();
        assert_eq!(empty.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
        return 0;
    };
    assert_eq!(reader.check().unwrap(), None, "the file is sound");
    let mut seen = std::collections::BTreeSet::new();
    let mut groups = std::collections::BTreeMap::new();
    let each = |episode: clawhost_core::Episode| {
        assert!(seen.insert((episode.run.0.clone(), episode.index)), "{} is there twice", episode.id);
        assert_eq!(episode.verdicts.len(), 1, "an episode comes with its verdict");
        *groups.entry((episode.run.0, episode.group)).or_insert(0) += 1;
        Ok::<_, ()>(())
    };
    let count = reader.export(&clawhost_store::Filter::default(), each).unwrap().unwrap();
    assert!(groups.values().all(|members| *members == 4), "a group is recorded whole or not at all");
    count
}

#[test]
fn killed_at_any_moment_a_run_is_taken_up_again_and_comes_to_the_same() {
    let Some(whole) = Bench::new("killed_at_any_moment") else { return };
    let arguments = whole.long_run();
    let expected = whole.finish(&arguments);
    // Once more with compiled plugins, as all lives are.
    let began = std::time::Instant::now();
    assert_eq!(whole.warm().finish(&arguments), expected);
    let life = began.elapsed();
    assert_eq!(expected.1.len(), 1, "its notes were merged");

    let mut interrupted = 0;
    let mut kill = 0;
    while kill < kills() {
        let bench = whole.warm();
        let mut resumed = arguments.clone();
        resumed.push("--resume".into());
        let mut before = 0;
        // The same run again and again, until it has lived to its end.
        loop {
            // Without a run to take up, the command says so and plays nothing: then it begins.
            let begun = before > 0 || bench.runs() > 0;
            let words: Vec<&str> = if begun { &resumed } else { &arguments }.iter().map(String::as_str).collect();
            let mut child = bench.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(moment(kill, life));
            kill += 1;
            let ended = child.try_wait().unwrap().is_some();
            child.kill().unwrap();
            child.wait().unwrap();
            let recorded = check_database(bench.data.path());
            assert!(recorded >= before, "{recorded} of {before}: what was recorded stays");
            before = recorded;
            interrupted += usize::from(!ended && recorded > 0);
            if ended || kill % 6 == 0 {
                break;
            }
        }
        let words = if bench.unfinished() { &resumed } else { &arguments };
        let finished = bench.finish(words);
        assert_eq!(finished, expected, "after {kill} kills");
        let again = bench.run(&resumed.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(again.status.code(), Some(2), "nothing is left to take up: {}", stderr(&again));
        assert!(stderr(&again).contains("no run of this configuration was interrupted here"), "{}", stderr(&again));
    }
    assert!(interrupted > kills() / 5, "{interrupted} of {kills} kills met a run in its middle", kills = kills());
}

impl Bench {
    fn count(&self, sql: &str) -> i64 {
        let path = self.data.path().join("clawhost.sqlite");
        if !path.exists() {
            return 0;
        }
        Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap_or(0)
    }

    fn runs(&self) -> i64 {
        self.count("SELECT count(*) FROM runs")
    }

    fn unfinished(&self) -> bool {
        self.count("SELECT count(*) FROM runs WHERE summary IS NULL") > 0
    }
}

#[test]
fn a_run_that_a_budget_stopped_is_taken_up_again() {
    let Some(bench) = Bench::new("a_run_that_a_budget_stopped") else { return };
    let guess = bench.guest("env_guess");
    let run = ["run", &guess, "--episodes", "48", "--group", "8", "--concurrency", "16"];
    let limited = |tokens: &'static str, more: &[&'static str]| {
        let output = bench.run(&[&run[..], &["--json", "--max-tokens-total", tokens], more].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), report["timing"]["spent"]["prompt_tokens"].as_u64().unwrap(), report)
    };
    let mut expected = bench.json(&run);
    expected.as_object_mut().unwrap().remove("timing");

    let (code, spent, _) = limited("2000", &[]);
    assert_eq!(code, Some(6));
    // What was paid for counts, however often it is tried: nothing more is bought, and nothing recorded is given up.
    let turns = || bench.count("SELECT sum(turns) FROM episodes");
    let before = turns();
    for _ in 0..3 {
        let (code, again, _) = limited("2000", &["--resume"]);
        assert_eq!((code, again, turns()), (Some(6), spent, before));
    }
    assert_eq!(bench.runs(), 2, "it went on, it did not begin anew");
    let mut resumed = bench.json(&[&run[..], &["--resume"]].concat());
    assert!(resumed["timing"]["spent"]["prompt_tokens"].as_u64().unwrap() > spent);
    resumed.as_object_mut().unwrap().remove("timing");
    assert_eq!(resumed, expected);

    // What judges and environments ask counts too.
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
    // No episode is complete in which a model was out of budget.
    let told = bench.count(
        "SELECT count(*) FROM episodes WHERE ending NOT LIKE 'failed%' AND document LIKE '%--max-tokens-total%'",
    );
    assert_eq!(told, 0);
    let whole = bench.json(&run);
    let resumed = bench.json(&[&run[..], &["--resume"]].concat());
    assert_eq!(resumed["episodes"], whole["episodes"], "as if it had never stopped");
}

#[test]
fn a_run_that_failed_too_much_goes_on_with_a_larger_budget() {
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
fn a_run_that_its_operator_stopped_replays_and_is_taken_up_again() {
    let Some(bench) = Bench::new("a_run_that_its_operator_stopped") else { return };
    // Nobody answers at this address: episodes are stopped before their first turn, and in groups.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let policy = format!("openai:m@http://{}/v1", silent.local_addr().unwrap());
    let guess = bench.guest("env_guess");
    let run = ["run", &guess, "--episodes", "16", "--group", "4", "--concurrency", "8", "--policy", &policy, "-q"];
    let child = bench.command(&run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while bench.runs() == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(200));
    let stop = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(stop.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stdout(&output).contains("the same command with --resume goes on"), "{}", stdout(&output));
    let replayed = bench.run(&["replay", "--all"]);
    assert_eq!(replayed.status.code(), Some(0), "{}", stdout(&replayed));
    assert!(stdout(&replayed).contains("failed: cancelled"), "{}", stdout(&replayed));
    assert_eq!(bench.count("SELECT count(*) FROM runs WHERE json_extract(summary, '$.stopped') = 'cancelled'"), 1);

    // With a model that answers it is another configuration; the same one is taken up where it was.
    let again = bench.command(&[&run[..], &["--resume"]].concat()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut again = again.unwrap();
    while bench.count("SELECT count(*) FROM runs WHERE summary IS NULL") == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    again.kill().unwrap();
    again.wait().unwrap();
    assert_eq!(bench.runs(), 1);
    let before = bench.count("SELECT count(*) FROM episodes");
    assert!(before > 0, "what was cut short stands until another takes its place");
}

#[test]
fn only_the_run_that_is_meant_is_taken_up() {
    let Some(bench) = Bench::new("only_the_run_that_is_meant") else { return };
    let guess = bench.guest("env_guess");
    let refused = |arguments: &[&str], says: &str| {
        let output = bench.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(says), "{says}: {}", stderr(&output));
    };
    refused(&["run", &guess, "--resume"], "no run of this configuration was interrupted here; without --resume");
    let stopped = bench.run(&["run", &guess, "--max-tokens-total", "500"]);
    assert_eq!(stopped.status.code(), Some(6));
    refused(&["run", &guess, "--seed", "9", "--resume"], "was, but --seed was 0 and is 9; give it");
    refused(&["run", &guess, "--episodes", "5", "--resume"], "no run of this configuration was interrupted here");
    refused(&["run", &guess, "--resume=run-1"], "--resume=run-1: there is no such run");
    // While another process plays it, nobody else does.
    let newest = bench.json(&["episodes", "list", "--runs"])[0]["id"].as_str().unwrap().to_owned();
    let claim = std::fs::File::create(bench.data.path().join("playing").join(&newest)).unwrap();
    claim.lock().unwrap();
    refused(&["run", &guess, "--resume"], "is being played by another process");
    refused(&["run", &guess, "--seed", "9", "--resume"], "interrupted here; without --resume a new one begins");
    refused(&["run", &guess, "--seed", "9", &format!("--resume={newest}")], "it is being played, or was begun with");
    refused(&["score", "--reward", &bench.guest("reward_format")], "is being played by another process");
    drop(claim);
    let resumed = bench.json(&["run", &guess, &format!("--resume={newest}")]);
    assert_eq!((&resumed["stopped"], &resumed["timing"]["run"]), (&Value::Null, &Value::from(newest.as_str())));
    refused(&["run", &guess, &format!("--resume={newest}")], "it has come to its end");
}

#[test]
fn two_processes_share_a_data_folder() {
    let Some(bench) = Bench::new("two_processes_share") else { return };
    let (guess, math) = (bench.guest("env_guess"), bench.guest("env_math"));
    let begin = |plugin: &str, seed: &str| {
        let arguments = ["run", plugin, "--episodes", "300", "--seed", seed, "--json"];
        bench.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let running = [begin(&guess, "1"), begin(&math, "2"), begin(&guess, "1")];
    let ended = running.map(|child| child.wait_with_output().unwrap());
    for output in &ended {
        assert!(output.status.success(), "{}", stderr(output));
    }
    assert_eq!(bench.count("SELECT count(*) FROM episodes"), 900);
    let result = |output: &Output| {
        let mut value: Value = serde_json::from_slice(&output.stdout).unwrap();
        value.as_object_mut().unwrap().remove("timing");
        value
    };
    assert_eq!(result(&ended[0]), result(&ended[2]), "equal seeds, whoever runs beside");
}

#[test]
fn a_disk_that_is_full_ends_the_run_and_loses_nothing() {
    let Some(bench) = Bench::new("a_disk_that_is_full") else { return };
    let guess = bench.guest("env_guess");
    let run = ["run", &guess, "--episodes", "400", "--seed", "2"];
    let full = bench.run(&[&run[..], &["--store-limit", "1"]].concat());
    assert_eq!(full.status.code(), Some(5), "{}", stderr(&full));
    assert!(stderr(&full).contains("no room left"), "{}", stderr(&full));
    let recorded = bench.count("SELECT count(*) FROM episodes");
    assert!((1..400).contains(&recorded), "{recorded}");
    // With room, the same command goes on.
    let resumed = bench.json(&[&run[..], &["--resume"]].concat());
    assert_eq!(resumed["episodes"].as_array().unwrap().len(), 400);
    assert_eq!(bench.count("SELECT count(*) FROM episodes"), 400);
}
