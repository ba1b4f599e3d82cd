//! A playing run whose process dies repeatedly.

use super::*;
use crate::database::check;
use clawhost_core::{EpisodeReader as _, RunId};
use clawhost_store::Reader;
use std::cell::Cell;

/// Scored episodes in groups, with notes that depend on their order. So many that a busy machine, which writes more of them in one commit, is
/// interrupted among them, too.
const EPISODES: usize = 480;

/// The notes of a run.
fn notes(bench: &Bench, run: &str) -> Vec<(String, Vec<u8>)> {
    Reader::open(bench.data.path()).unwrap().notes(&RunId(run.to_owned())).unwrap()
}

/// The newest run.
fn newest(bench: &Bench) -> String {
    bench.json(&["runs", "list"])[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_playing_run_that_dies_after_any_commit_gives_the_same_result_when_resumed() {
    let Some(whole) = Bench::new("a_playing_run_that_dies") else { return };
    let (plugin, reward) = (whole.guest("odd_snapshot"), whole.guest("odd_ranking"));
    let episodes = EPISODES.to_string();
    let words = ["run", &plugin, "--reward", &reward, "--episodes", &episodes, "--group", "4", "--seed", "5"];
    let more = ["--max-turns", "6", "--grant", "kv", "--grant", "llm:judge=follower", "--concurrency", "8", "-q"];
    let words = words.iter().chain(&more).map(|word| (*word).to_owned()).collect();
    let crashing = Crashing::new(whole, words);
    let expected = notes(&crashing.whole, &newest(&crashing.whole));
    assert_eq!(expected.len(), 1, "its notes were merged");
    let in_the_midst = Cell::new(0);
    crashing.survives(kills(), |bench, end| {
        let recorded = check(bench, 1);
        match end {
            None => in_the_midst.set(in_the_midst.get() + u64::from((1..EPISODES).contains(&recorded))),
            Some(_) => {
                assert_eq!(recorded, EPISODES);
                assert_eq!(notes(bench, &newest(bench)), expected);
                let runs = bench.json(&["runs", "list"]);
                assert_eq!(runs.as_array().unwrap().len(), 1, "the run was resumed, not begun again: {runs}");
            }
        }
    });
    assert!(in_the_midst.get() >= kills() / 2, "{} interruptions met episodes", in_the_midst.get());
}
