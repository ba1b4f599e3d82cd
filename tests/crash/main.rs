//! The process dies right after a chosen commit: nothing is incomplete or duplicated, and the resumed run gives the
//! same result as an uninterrupted run. The position does not depend on time but on `CLAWHOST_ABORT_AFTER_COMMIT`,
//! which only a program with the feature `failpoints` reads.
//!
//! `CLAWHOST_KILLS=N` interrupts each run at this many commits instead of the default.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

#[path = "../common/bench.rs"]
mod bench;
#[path = "../common/compiled.rs"]
mod compiled;
#[path = "../common/guests.rs"]
mod guests;

mod database;
mod learning;
mod playing;

use bench::{Bench, stderr, without_timing};
use serde_json::Value;

/// The process aborts right after the commit of this number.
const ABORT: &str = "CLAWHOST_ABORT_AFTER_COMMIT";

/// Default number of interruptions: enough to interrupt every phase of a run, and few enough for every test run.
const KILLS: u64 = 6;

fn kills() -> u64 {
    std::env::var("CLAWHOST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS)
}

/// A run that is interrupted repeatedly.
struct Crashing {
    /// The data folder of the uninterrupted run. Its plugins are compiled.
    whole: Bench,
    words: Vec<String>,
    /// The result of the uninterrupted run.
    expected: Value,
    /// A commit that the run reaches, near its last one.
    commits: u64,
}

/// How a process ended that was supposed to die.
enum End {
    /// It died.
    Aborted,
    /// It finished before that commit, with this output.
    Finished(Value),
}

impl Crashing {
    /// Plays the run once without interruption, and determines its number of commits.
    fn new(whole: Bench, words: Vec<String>) -> Self {
        let expected = without_timing(whole.json(&words.iter().map(String::as_str).collect::<Vec<_>>())).0;
        let mut crashing = Self { whole, words, expected, commits: 0 };
        crashing.commits = crashing.commits();
        eprintln!("it takes {} commits or a few more", crashing.commits);
        crashing
    }

    /// Whether an uninterrupted run reaches a commit. Waiting writes are committed together, so the number of commits
    /// varies slightly.
    fn reaches(&self, commit: u64) -> bool {
        let bench = self.whole.warm();
        matches!(self.interrupted(&bench, commit), End::Aborted)
    }

    fn commits(&self) -> u64 {
        let (mut reached, mut missed) = (1, 2);
        assert!(self.reaches(reached), "no commit of this run is counted: was the program built with failpoints?");
        while self.reaches(missed) {
            (reached, missed) = (missed, 2 * missed);
        }
        // A precision of an eighth is sufficient.
        while missed - reached > 1.max(reached / 8) {
            let middle = reached.midpoint(missed);
            if self.reaches(middle) {
                reached = middle;
            } else {
                missed = middle;
            }
        }
        reached
    }

    /// Begins or resumes the run, and dies after a commit of this process.
    fn interrupted(&self, bench: &Bench, commit: u64) -> End {
        let words: Vec<&str> = self.words.iter().map(String::as_str).chain(["--resume", "--json"]).collect();
        let output = bench.command(&words).env(ABORT, commit.to_string()).output().unwrap();
        if output.status.success() {
            return End::Finished(without_timing(serde_json::from_slice(&output.stdout).unwrap()).0);
        }
        assert!(aborted(&output.status), "it died for another reason: {:?} {}", output.status, stderr(&output));
        assert!(output.stdout.is_empty(), "no result was printed before the end");
        End::Aborted
    }

    /// Resumes the run to its end.
    fn finished(&self, bench: &Bench) -> (Value, Value) {
        let words: Vec<&str> = self.words.iter().map(String::as_str).chain(["--resume"]).collect();
        without_timing(bench.json(&words))
    }

    /// The commits at which it is interrupted, evenly spread from the first to one near the last.
    fn moments(&self, kills: u64) -> Vec<u64> {
        let last = self.commits - self.commits / 10;
        (0..kills).map(|kill| 1 + kill * (last - 1) / (kills - 1).max(1)).collect()
    }

    /// Interrupts runs in new data folders, each at another commit and a second time while it is resumed. `check` sees
    /// every data folder after each interruption, and after the end with the output.
    fn survives(&self, kills: u64, check: impl Fn(&Bench, Option<(&Value, &Value)>)) {
        let mut died = 0;
        for (kill, moment) in self.moments(kills).into_iter().enumerate() {
            let bench = self.whole.warm();
            let mut ended = None;
            let mut is_told = true;
            // The second interruption is at another position of the rest.
            let later = 1 + (kill as u64 * 7 + 3) * self.commits.saturating_sub(moment) / (kills * 8);
            for commit in [moment, later] {
                match self.interrupted(&bench, commit) {
                    End::Aborted => died += 1,
                    End::Finished(document) => {
                        ended = Some(document);
                        break;
                    }
                }
                check(&bench, None);
                is_told = !has_recorded_its_end(&bench);
                if !is_told {
                    break;
                }
            }
            // It died after it recorded its end and before it printed it: there is nothing to resume, and nothing to
            // compare.
            if !is_told {
                continue;
            }
            let (document, timing) = match ended {
                Some(document) => (document, Value::Null),
                None => self.finished(&bench),
            };
            assert_eq!(document, self.expected, "it died after commits {moment} and {later}");
            check(&bench, Some((&document, &timing)));
        }
        assert!(died >= kills, "only {died} interruptions met the run");
        eprintln!("{died} interruptions, the same result each time");
    }
}

/// Whether the run of a data folder recorded its end.
fn has_recorded_its_end(bench: &Bench) -> bool {
    let runs = bench.json(&["runs", "list"]);
    runs.as_array().unwrap().iter().any(|run| run["state"] == "finished")
}

/// Whether a process aborted.
fn aborted(status: &std::process::ExitStatus) -> bool {
    #[cfg(unix)]
    {
        /// The signal of `abort`.
        const SIGABRT: i32 = 6;
        std::os::unix::process::ExitStatusExt::signal(status) == Some(SIGABRT)
    }
    #[cfg(not(unix))]
    !status.success()
}
