//! `clawhost data`: the contents of a data folder, and removals. And data folders of other versions.

use super::*;
use rusqlite::Connection;

/// The rows of a list with a name.
fn named<'a>(rows: &'a Value, name: &str) -> Vec<&'a str> {
    rows.as_array().unwrap().iter().map(|row| row[name].as_str().unwrap()).collect()
}

impl Bench {
    pub(crate) fn play(&self, arguments: &[&str]) -> String {
        let document = self.json(&[&["run"], arguments].concat());
        document["timing"]["run"].as_str().unwrap().to_owned()
    }
}

/// Anybody may read the folder, and nobody may write to it. A test that runs as root reads it as another user.
#[cfg(target_os = "linux")]
#[test]
fn a_read_only_data_folder_can_be_listed_and_shown() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(bench) = Bench::new("a_read_only_data_folder_can_be_listed_and_shown") else { return };
    bench.play(&[&bench.guest("env_guess"), "--episodes", "2"]);
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("clawhost");
    std::fs::copy(env!("CARGO_BIN_EXE_clawhost"), &program).unwrap();
    let allow = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    allow(place.path(), 0o755);
    let files = || std::fs::read_dir(bench.data.path()).unwrap().map(|entry| entry.unwrap().path());
    files().filter(|path| path.is_file()).for_each(|path| allow(&path, 0o444));
    allow(bench.data.path(), 0o555);
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.trim_ascii() == b"0");
    let read = |arguments: &[&str]| {
        let mut command = Command::new(if is_root { Path::new("setpriv") } else { program.as_path() });
        if is_root {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        }
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("CLAWHOST_HOME", bench.data.path());
        command.output().unwrap()
    };
    let listed = read(&["episodes", "list", "--json"]);
    assert!(listed.status.success(), "{}", stderr(&listed));
    assert_eq!(serde_json::from_slice::<Value>(&listed.stdout).unwrap().as_array().unwrap().len(), 2);
    let shown = read(&["runs", "list"]);
    assert!(shown.status.success() && stdout(&shown).contains("env-guess"), "{}", stderr(&shown));
    allow(bench.data.path(), 0o755);
}

#[test]
fn the_contents_of_a_data_folder_are_shown() {
    let Some(bench) = Bench::new("the_contents_of_a_data_folder_are_shown") else { return };
    let empty = bench.run(&["data"]);
    assert_eq!(empty.status.code(), Some(5), "{}", stderr(&empty));
    assert!(stderr(&empty).contains("no episodes here yet"), "{}", stderr(&empty));
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    let run = bench.play(&[&math, "--reward", &exact, "--episodes", "5"]);
    assert_eq!(bench.run(&["run", &bench.guest("env_guess"), "--max-tokens-total", "100"]).status.code(), Some(6));
    let report = bench.json(&["data", "show"]);
    assert_eq!(report["format"], 1);
    let data = &report["data"];
    let runs = data["runs"].as_array().unwrap();
    assert_eq!((runs.len(), runs[1]["run"].as_str()), (2, Some(run.as_str())), "{data}");
    let held = |place: usize| [&runs[place]["kind"], &runs[place]["state"], &runs[place]["can_be_resumed"]];
    assert_eq!(held(0), [&Value::from("play"), &"stopped".into(), &true.into()], "{data}");
    assert_eq!(held(1), [&Value::from("play"), &"finished".into(), &false.into()], "{data}");
    assert_eq!((&runs[1]["episodes"], &data["plugins"]["count"]), (&5.into(), &3.into()), "{data}");
    for bytes in ["database_bytes", "cache_bytes"] {
        assert!(data[bytes].as_u64().unwrap() > 1000, "{bytes}: {data}");
    }
    let text = bench.out(&["data"]);
    for part in [run.as_str(), "no, can be resumed", "database", "plugins     3 kept", "playbooks   0", "compiled code"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn pruning_keeps_cited_episodes_and_resumable_runs() {
    let Some(bench) = Bench::new("pruning_keeps_what_playbooks_cite") else { return };
    let (shop, state, rules) = (bench.guest("env_shop"), bench.guest("reward_state"), bench.guest("reflector_rules"));
    let learn = ["learn", &shop, "--reward", &state, "--layer", "harness", "--reflector", &rules, "-q"];
    let learned = bench.json(&[&learn[..], &["--iterations", "2", "--test-pairs", "4"]].concat());
    let learned = learned["timing"]["run"].as_str().unwrap().to_owned();
    let math = bench.guest("env_math");
    let played = bench.play(&[&math, "--episodes", "30"]);
    let guess = ["run", &bench.guest("env_guess"), "--episodes", "12"];
    assert_eq!(bench.run(&[&guess[..], &["--max-tokens-total", "500"]].concat()).status.code(), Some(6));
    let stopped = bench.newest_run();
    let playbook = bench.json(&["playbook", "show", "env-shop"]);

    let rule = ["data", "prune", "--older-than", "0"];
    bench.refused(&["data", "prune"], &["--older-than", "--run", "--keep-size"]);
    bench.refused(&["data", "prune", "--run", "run-none"], &["no run `run-none` here"]);
    bench.refused(&[&rule[..], &["--run", &played]].concat(), &["cannot be used with"]);
    let all = bench.count("SELECT count(*) FROM episodes");
    let rehearsed = bench.json(&[&rule[..], &["--dry-run"]].concat())["prune"].clone();
    assert_eq!((&rehearsed["dry_run"], &rehearsed["bytes_after"]), (&true.into(), &Value::Null));
    let told = bench.out(&[&rule[..], &["--dry-run"]].concat());
    assert_eq!(named(&rehearsed["runs"], "run"), [learned.as_str(), &played], "the oldest first");
    assert_eq!(bench.count("SELECT count(*) FROM episodes"), all, "a rehearsal removes nothing");

    let pruned = bench.json(&rule)["prune"].clone();
    let counts = |report: &Value| ["runs", "episodes", "plugins", "blobs"].map(|what| report["removed"][what].clone());
    assert_eq!(counts(&pruned), counts(&rehearsed), "a rehearsal counts what a removal removes");
    let [runs, episodes, plugins, blobs] = counts(&pruned);
    // The run that created the playbook stays in lists: one run is removed.
    assert_eq!(runs, 1);
    let some = |count: &Value, noun: &str| clawhost_core::counted(count.as_u64().unwrap(), noun);
    let (episodes, plugins, blobs) = (some(&episodes, "episode"), some(&plugins, "plugin"), some(&blobs, "file"));
    let line = format!("in all      1 run, {episodes}, {plugins}, {blobs}\n");
    assert!(told.contains(&line) && told.contains("nothing was removed"), "{line}: {told}");
    assert!(pruned["bytes_after"].as_u64() < pruned["bytes_before"].as_u64(), "{pruned}");
    let kept = pruned["kept"].as_array().unwrap();
    let because = |run: &str, why: &str| kept.iter().find(|kept| kept["run"] == run && kept["because"] == why);
    assert!(because(&stopped, "can_be_resumed").is_some(), "{pruned}");
    let cited = because(&learned, "cited").unwrap()["episodes"].as_array().unwrap();
    assert!(!cited.is_empty());
    for episode in cited {
        bench.json(&["episodes", "show", episode.as_str().unwrap()]);
    }
    let left = "SELECT count(*) FROM episodes";
    let others = format!("SELECT count(*) FROM episode_rows WHERE run = '{stopped}'");
    assert_eq!(
        bench.count(left) - bench.count(&others),
        cited.len() as i64,
        "only cited episodes of the other runs remain"
    );
    assert_eq!(bench.json(&["playbook", "show", "env-shop"]), playbook, "the playbook is unchanged");
    let runs = bench.json(&["runs", "list"]);
    assert!(!named(&runs, "id").contains(&played.as_str()), "{runs}");
    assert_eq!(bench.json(&["data"])["data"]["unused_blobs"]["count"], 0);
    let kinds = bench.count("SELECT count(*) FROM plugins WHERE name = 'env-math'");
    assert_eq!(kinds, 0, "plugins that no record refers to are gone");

    // The kept records work as if nothing had been removed.
    let whole = bench.fresh().outside_timing(&guess);
    let (resumed, timing) = without_timing(bench.json(&[&guess[..], &["--resume"]].concat()));
    assert_eq!((resumed, &timing["run"]), (whole, &Value::from(stopped.as_str())));
    let next = [&learn[..], &["--iterations", "1", "--test-pairs", "0"]].concat();
    assert!(
        bench.json(&next)["learn"]["entries"].as_array().unwrap().len() > 1,
        "the next run begins with the learned playbook"
    );
}

#[test]
fn pruning_by_name_and_by_size_removes_the_selected_runs() {
    let Some(bench) = Bench::new("pruning_by_name_and_by_size") else { return };
    let guess = ["run", &bench.guest("env_guess"), "--episodes", "12"];
    assert_eq!(bench.run(&[&guess[..], &["--max-tokens-total", "500"]].concat()).status.code(), Some(6));
    let stopped = bench.newest_run();
    let math = bench.guest("env_math");
    let [old, new] = ["1", "2"].map(|seed| bench.play(&[&math, "--episodes", "30", "--seed", seed]));
    // If the size is reached already, nothing is removed. An unreachable size is approached as far as possible.
    let pruned = bench.json(&["data", "prune", "--keep-size", "1000"])["prune"].clone();
    assert_eq!((&pruned["runs"], &pruned["kept"]), (&serde_json::json!([]), &serde_json::json!([])), "{pruned}");
    let pruned = bench.json(&["data", "prune", "--keep-size", "0", "--dry-run"])["prune"].clone();
    assert_eq!(named(&pruned["runs"], "run"), [old.as_str(), &new]);
    assert_eq!(named(&pruned["kept"], "run"), [stopped.as_str()]);
    // Runs are removed by name without restrictions.
    let text = bench.out(&["data", "prune", "--run", &stopped]);
    assert!(text.contains(&format!("removed     {stopped}")), "{text}");
    let runs = bench.json(&["runs", "list"]);
    assert_eq!(named(&runs, "id"), [new.as_str(), &old]);
    let again = bench.run(&[&guess[..], &["--resume"]].concat());
    assert!(again.status.success() && stderr(&again).contains("a new run begins"), "{}", stderr(&again));
    let replayed = bench.run(&["replay", "--run", &old]);
    assert!(replayed.status.success(), "the kept episodes replay: {}", stderr(&replayed));
}

#[test]
fn a_database_of_another_version_is_refused_and_unchanged() {
    let Some(bench) = Bench::new("a_database_of_another_version") else { return };
    let guess = bench.guest("env_guess");
    let path = bench.data.path().join("clawhost.sqlite");
    let old = "written by an older clawhost (schema ";
    let new = "written by a newer clawhost (schema ";
    for (schema, says) in [(1, old), (2, old), (3, old), (4, old), (7, old), (1000, new)] {
        let database = Connection::open(&path).unwrap();
        database.execute_batch("CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, config TEXT)").unwrap();
        database.pragma_update(None, "user_version", schema).unwrap();
        drop(database);
        let before = std::fs::read(&path).unwrap();
        let says = format!("{says}{schema}");
        for words in [
            &["run", &guess][..],
            &["episodes", "list"],
            &["data"],
            &["data", "prune", "--older-than", "1"],
            &["replay"],
        ] {
            let output = bench.run(words);
            assert_eq!(output.status.code(), Some(5), "{words:?}: {}", stderr(&output));
            assert!(stderr(&output).contains(&says), "{words:?}: {}", stderr(&output));
            assert!(stderr(&output).contains("--data folder"), "the error has a remedy: {}", stderr(&output));
        }
        assert_eq!(std::fs::read(&path).unwrap(), before, "nothing was written");
    }
}
