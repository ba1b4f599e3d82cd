//! Progress: a bar on a terminal, a line now and then elsewhere. Always on standard error.

use clawhost_runtime::{EpisodeSummary, Observer};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines where there is no terminal: at every tenth of the run, but at most one in this time.
const LINES: u64 = 10;
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct Tally {
    scored: u64,
    sum: f64,
    failed: u64,
    last_line: Option<Instant>,
    /// The first failure has been told: the rest is in the summary.
    told: bool,
}

/// Watches a run for the person in front of it.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
    tally: Mutex<Tally>,
}

impl Progress {
    pub(crate) fn new(total: u64, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
            let template = "{bar:30} {pos}/{len} episodes, {per_sec:.0}  {msg}  {eta} left";
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar, lines: !terminal && !quiet, tally: Mutex::default() }
    }

    /// Some are there already.
    pub(crate) fn begin(&self, done: u64) {
        self.say(&format!("{done} episodes are recorded already"));
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    /// Says something without breaking the bar.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| line(text)),
            None => line(text),
        }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(text: &str) {
    // Where standard error is gone there is nobody to tell.
    let _ = writeln!(anstream::stderr(), "{text}");
}

impl Observer for Progress {
    fn recorded(&self, episode: &EpisodeSummary, done: u64, total: u64) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reward) = episode.reward {
            tally.scored += 1;
            tally.sum += reward;
        }
        tally.failed += u64::from(episode.failed());
        if episode.failed() && !tally.told && (self.bar.is_some() || self.lines) {
            tally.told = true;
            self.say(&format!(
                "first failure, {}: {}",
                episode.id,
                clawhost_core::escaped(episode.failure.as_deref().unwrap_or("?"), 1000)
            ));
        }
        let reward = match tally.scored {
            0 => "not scored".to_owned(),
            scored => format!("reward {:.3}", tally.sum / scored as f64),
        };
        let failed = if tally.failed > 0 { format!(", {} failed", tally.failed) } else { String::new() };
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(format!("{reward}{failed}"));
        } else if self.lines && (done == total || done.is_multiple_of((total / LINES).max(1))) {
            let now = Instant::now();
            if done == total || tally.last_line.is_none_or(|last| now.duration_since(last) >= PATIENCE) {
                tally.last_line = Some(now);
                line(&format!("{done}/{total} episodes, {reward}{failed}"));
            }
        }
    }
}

/// Counts episodes: a bar on a terminal, a line now and then elsewhere.
pub(crate) struct Count {
    bar: Option<ProgressBar>,
    lines: bool,
    total: u64,
    done: &'static str,
    told: Mutex<Option<Instant>>,
}

impl Count {
    /// `done` says what happens to the episodes, for example `judged`.
    pub(crate) fn new(total: u64, quiet: bool, done: &'static str) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
            let template = "{bar:30} {pos}/{len} episodes, {per_sec:.0}  {eta} left";
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar, lines: !terminal && !quiet, total, done, told: Mutex::default() }
    }

    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| line(text)),
            None => line(text),
        }
    }

    pub(crate) fn set(&self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        } else if self.lines {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            if done == self.total || told.is_none_or(|last| now.duration_since(last) >= PATIENCE) {
                *told = Some(now);
                line(&format!("{done}/{} episodes {}", self.total, self.done));
            }
        }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
