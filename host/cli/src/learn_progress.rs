//! Progress of learning: a line for every iteration, and on a terminal a bar for the phase under way.

use crate::pace::{Pace, TRAINING};
use clawhost_runtime::learn::{EvolutionReport, IterationReport, LearnObserver, WarmStart, WarmStartReport};
use clawhost_runtime::{EpisodeSummary, Observer};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where there is no terminal a line comes at most so often.
const PATIENCE: Duration = Duration::from_millis(500);

/// Watches a learning run for the person in front of it.
pub(crate) struct LearnProgress {
    bar: Option<ProgressBar>,
    quiet: bool,
    last_line: Mutex<Option<Instant>>,
    pace: Mutex<Pace>,
    /// Whether it was told that rewards say nothing.
    silent: Mutex<bool>,
    /// What the run under way is a part of, with a comma behind it; empty: it is all there is.
    whole: Mutex<String>,
}

impl LearnProgress {
    pub(crate) fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
            let template = "{msg:24} {bar:30} {pos}/{len} episodes, {per_sec:.0}";
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self {
            bar,
            quiet,
            last_line: Mutex::default(),
            pace: Mutex::default(),
            silent: Mutex::default(),
            whole: Mutex::default(),
        }
    }

    /// Says something without breaking the bar.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| line(text)),
            None => line(text),
        }
    }

    /// Says something that is of interest only to whoever waits.
    pub(crate) fn mention(&self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// What comes from now on is a part of something larger, which is named in front.
    pub(crate) fn within(&self, whole: &str) {
        *self.whole.lock().unwrap_or_else(PoisonError::into_inner) = format!("{whole}, ");
        *self.pace.lock().unwrap_or_else(PoisonError::into_inner) = Pace::default();
    }

    fn whole(&self) -> String {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells once that rewards say nothing, and again when they had something to say meanwhile.
    fn mention_signal(&self, report: &IterationReport) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        if let (false, Some(why)) = (*silent, &report.signal) {
            self.say(&format!("{}iteration {}: {why}", self.whole(), report.iteration));
        }
        *silent = report.signal.is_some();
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

impl Observer for LearnProgress {
    fn recorded(&self, _: &EpisodeSummary, done: u64, _: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }
}

impl LearnObserver for LearnProgress {
    fn phase(&self, name: &str, episodes: u64) {
        if name.ends_with(TRAINING) {
            self.pace.lock().unwrap_or_else(PoisonError::into_inner).begin(Instant::now());
        }
        if let Some(bar) = &self.bar {
            bar.set_length(episodes);
            bar.set_position(0);
            bar.set_message(format!("{}{name}", self.whole()));
        }
    }

    fn evolved(&self, report: &EvolutionReport) {
        if !self.quiet {
            let [cost, found] = crate::learn_summary::evolution(report);
            self.say(&format!("evolution: {cost}"));
            self.say(&format!("  {found}"));
        }
    }

    fn warmed(&self, report: &WarmStartReport, warm: &WarmStart) {
        if let (false, Some((steps, reward))) = (self.quiet, report.looks.last()) {
            let (loss, target) = (report.loss, warm.target);
            let reward = reward.map_or("unscored".to_owned(), |reward| format!("{reward:.3}"));
            self.say(&format!(
                "{}demonstrations: {steps} steps, loss {loss:.3}, sampled reward {reward} of {target:.2}",
                self.whole()
            ));
        }
    }

    fn iteration(&self, report: &IterationReport, of: u64) {
        if self.quiet {
            return;
        }
        let tokens = report.metrics.get("weights.tokens").copied().unwrap_or(0.0);
        let left = of.saturating_sub(report.iteration);
        let pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner).note(Instant::now(), tokens, left);
        self.mention_signal(report);
        let has_news = report.gate.is_some()
            || report.learned.is_err()
            || report.reflections.failures() > 0
            || report.iteration == of;
        let mut last = self.last_line.lock().unwrap_or_else(PoisonError::into_inner);
        if self.bar.is_none() && !has_news && last.is_some_and(|last| last.elapsed() < PATIENCE) {
            return;
        }
        *last = Some(Instant::now());
        let reward = report.reward.map_or("not scored".to_owned(), |mean| format!("reward {mean:.3}"));
        let number = |name: &str| report.metrics.get(&format!("harness.{name}")).copied().unwrap_or(0.0);
        if let Some(text) = crate::learn_summary::weights(report) {
            let pace = pace.map(|known| format!("  {known}")).unwrap_or_default();
            self.say(&format!("{}iteration {}/{of}  {reward}  {text}{pace}", self.whole(), report.iteration));
            return;
        }
        let mut text = format!(
            "{}iteration {}/{of}  {reward}  lessons: {} on trial, {} admitted, {} deployed, {} harmful, {} expired",
            self.whole(),
            report.iteration,
            number("on_trial"),
            number("admitted"),
            number("deployed"),
            number("harmful"),
            number("expired"),
        );
        if report.removed > 0 {
            text.push_str(&format!("  ({} episodes failed or were not scored)", report.removed));
        }
        let (calls, failed) = (report.reflections.calls, report.reflections.failures());
        if failed > 0 {
            text.push_str(&format!("  (reflectors: {failed} of {calls} calls failed)"));
        }
        if let Err(why) = &report.learned {
            text.push_str(&format!("  NOT LEARNED: {}", clawhost_core::escaped(why, 300)));
        }
        self.say(&text);
        if let Some(gate) = &report.gate {
            self.say(&format!("  gate: {}", crate::learn_summary::gate(gate)));
        }
    }
}
