//! What is not packed and what is not read, by name; and nothing of it is left on disk.

use super::forging::Opened;
use super::*;
use clawhost_bundle::EntryName;

#[test]
fn what_proves_nothing_is_not_packed() {
    let Some(bench) = Bench::new("what_proves_nothing_is_not_packed") else { return };
    let guess = bench.guest("env_guess");
    bench.json(&["run", &guess, "--episodes", "4", "-q"]);
    let file = bench.proved("proof", &[]);
    let out = file.display().to_string();
    bench.refused(&["prove", "last", "--out", &out], &["is there already; a bundle never replaces a file"]);
    let elsewhere = bench.data.path().join("other").display().to_string();
    bench.refused(&["prove", "run-none", "--out", &elsewhere], &["run-none"]);
    // A run that ran out of its failure budget has not finished.
    let failing = bench.guest("odd_failing");
    bench.run(&["run", &failing, "--episodes", "4", "--failure-budget", "0", "-q"]);
    bench.refused(&["prove", "last", "--out", &elsewhere], &["has not finished, so it claims nothing yet"]);
    let database = rusqlite::Connection::open(bench.data.path().join("clawhost.sqlite")).unwrap();
    let guesses = "(SELECT number FROM runs WHERE environment LIKE '%guess%')";
    let run: String =
        database.query_row("SELECT id FROM runs WHERE environment LIKE '%guess%'", [], |row| row.get(0)).unwrap();
    let prove = ["prove", &run, "--out", &elsewhere];
    let change = |sql: &str| database.execute(sql, []).unwrap();
    change(&format!("CREATE TABLE kept AS SELECT * FROM episodes WHERE run = {guesses}"));
    change(&format!("DELETE FROM episodes WHERE run = {guesses} AND position = 2"));
    bench.refused(&prove, &["has 3 of the 4 episodes that it played, so it is not packed"]);
    change("INSERT INTO episodes SELECT * FROM kept WHERE position = 2");
    change(&format!("UPDATE episodes SET document = 'x' WHERE run = {guesses} AND position = 1"));
    bench.refused(&prove, &["is damaged", "so", "is not packed"]);
    change("DELETE FROM episodes WHERE document = 'x'");
    change("INSERT INTO episodes SELECT * FROM kept WHERE position = 1");
    bench.json(&[&prove[..3], &[&elsewhere, "-q"]].concat());
    std::fs::remove_file(&elsewhere).unwrap();
    change("DELETE FROM plugins WHERE name = 'env-guess'");
    bench.refused(&prove, &["is not in the data folder, so its episodes cannot be played again"]);
    change(&format!("UPDATE runs SET pruned = 1 WHERE id = '{run}'"));
    bench.refused(&prove, &["were removed on request, so what is left proves nothing"]);
    change(&format!("UPDATE runs SET pruned = 0, kind = 'live' WHERE id = '{run}'"));
    bench.refused(&prove, &["was captured from agents"]);
    assert!(!std::path::Path::new(&elsewhere).exists());
    assert!(leftovers(bench.data.path()).is_empty(), "{:?}", leftovers(bench.data.path()));
}

fn leftovers(folder: &std::path::Path) -> Vec<String> {
    let names =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(".tmp")).collect()
}

#[test]
fn what_is_no_sound_bundle_is_refused_by_name_without_a_trace() {
    let Some(bench) = Bench::new("what_is_no_sound_bundle_is_refused") else { return };
    bench.json(&["run", &bench.guest("env_guess"), "--episodes", "2", "-q"]);
    let file = bench.proved("proof", &[]);
    let bytes = std::fs::read(&file).unwrap();
    let place = tempfile::tempdir().unwrap();
    let check = |content: &[u8], says: &str| {
        let file = place.path().join("bundle");
        std::fs::write(&file, content).unwrap();
        let words = ["verify", &file.display().to_string(), "-q"].map(str::to_owned);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let home = place.path().join("home");
        let output = bench.command(&words).env("CLAWHOST_HOME", &home).current_dir(place.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{says}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{says}: {}", stderr(&output));
        let left: Vec<_> = std::fs::read_dir(place.path()).unwrap().flatten().map(|one| one.file_name()).collect();
        assert_eq!(left, ["bundle"], "{says}");
    };
    check(&bytes[..bytes.len() - 700], "it was cut, or something was added");
    check(&bytes[..100], "does not begin with a manifest");
    check(b"PK\x03\x04", "does not begin with a manifest");
    let changed = |change: &dyn Fn(&mut Opened)| {
        let mut opened = Opened::read(&file);
        change(&mut opened);
        let forged = bench.data.path().join("forged");
        opened.write(&forged);
        std::fs::read(forged).unwrap()
    };
    let other = clawhost_engine::ENGINE_MAJOR + 1;
    let of_other = changed(&|opened| opened.manifest.engine = other);
    check(&of_other, &format!("was made with engine {other}"));
    check(&changed(&|opened| drop(opened.entries.remove(&EntryName::Runs))), "the bundle has no runs.json.zst");
    let odd = |name: EntryName| changed(&|opened| drop(opened.entries.insert(name, b"[]\n".to_vec())));
    check(&odd(EntryName::Runs), "runs.json.zst of the bundle cannot be read");
    check(&odd(EntryName::Episodes(0)), "episodes/000000.jsonl.zst of the bundle cannot be read");
    bench.refused(&["verify", "/dev/null"], &["/dev/null", "not a regular file"]);
    bench.refused(&["verify", "/nonexistent"], &["/nonexistent"]);
}
