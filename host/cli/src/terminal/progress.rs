//! Progress on standard error: a bar on a terminal, otherwise a line from time to time.

use super::{iteration, warning};
use crate::context::Context;
use crate::data_folder::size;
use clawhost_app::learn::Pace;
use clawhost_app::{Event, EventSink};
use clawhost_core::{counted, escaped, thousands};
use clawhost_learning::{IterationReport, WarningSubject, is_training_phase};
use clawhost_play::EpisodeSummary;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines without a terminal: one for each tenth of the run, but at most one in [`PATIENCE`].
const LINES: u64 = 10;
const PATIENCE: Duration = Duration::from_millis(500);
/// Templates of bars: for playing episodes, for other work on episodes, and for the phases of learning.
const PLAYED: &str = "{bar:30} {pos}/{len} episodes, {per_sec}  {msg}  {eta} left";
const COUNTED: &str = "{bar:30} {pos}/{len} episodes, {per_sec}  {eta} left";
const PHASES: &str = "{msg:24} {bar:30} {pos}/{len} episodes, {per_sec}";
/// The `what` of [`Progress::new`] for a learning run, whose title and output folder are shown.
pub(crate) const LEARNED: &str = "learned from";
/// The time between two frames of a spinner.
const TICK: Duration = Duration::from_millis(100);
/// The most characters of a failure's message that are shown.
const FAILURE: usize = 1000;

/// The state of the display.
#[derive(Default)]
struct State {
    bar: Option<ProgressBar>,
    /// The spinner while a component is compiled.
    spinner: Option<ProgressBar>,
    scored: u64,
    sum: f64,
    failed: u64,
    /// Whether the first failure was shown. The summary has the others.
    is_failure_shown: bool,
    last_line: Option<Instant>,
    /// Whether a phase of learning began. Its episodes get no lines of their own.
    in_phases: bool,
    pace: Pace,
    /// The subjects of the warnings of the last report.
    warned: Vec<WarningSubject>,
}

/// Shows events to the user.
pub(crate) struct Progress {
    is_terminal: bool,
    quiet: bool,
    /// What is done with the counted episodes, for example `judged`.
    what: String,
    state: Mutex<State>,
}

/// Prints a line on standard error.
pub(crate) fn line(text: &str) {
    // If standard error is closed, the text is dropped.
    let _ = writeln!(crate::terminal::stderr(), "{text}");
}

impl State {
    /// Prints a line above the bar or spinner.
    fn say(&self, text: &str) {
        match self.bar.as_ref().or(self.spinner.as_ref()) {
            Some(bar) => bar.suspend(|| line(text)),
            None => line(text),
        }
    }

    fn has_patience(&self) -> bool {
        self.last_line.is_some_and(|last| last.elapsed() < PATIENCE)
    }
}

impl Progress {
    /// `what` describes what is done with the counted episodes, for example `judged`. If `quiet`, only warnings are shown.
    pub(crate) fn new(_: &Context, quiet: bool, what: &str) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { is_terminal, quiet, what: what.to_owned(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints a line above the bar or spinner.
    pub(crate) fn say(&self, text: &str) {
        self.state().say(text);
    }

    /// Prints a line unless `quiet` is set.
    pub(crate) fn mention(&self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// Removes the bar and the spinner.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        for bar in [state.bar.take(), state.spinner.take()].into_iter().flatten() {
            bar.finish_and_clear();
        }
    }

    /// Shows that a component is being compiled: a spinner on a terminal, otherwise a line if it takes long.
    fn compiling(&self, plugin: &str, bytes: u64, is_slow: bool) {
        if self.quiet {
            return;
        }
        let name = std::path::Path::new(plugin).file_name().map_or(plugin.into(), |name| name.to_string_lossy());
        let text = format!("compiling {} ({}), once per machine and version", escaped(&name, 100), size(bytes));
        let mut state = self.state();
        if self.is_terminal {
            let spinner = state.spinner.get_or_insert_with(|| {
                let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
                spinner.set_style(ProgressStyle::default_spinner());
                spinner.enable_steady_tick(TICK);
                spinner
            });
            spinner.set_message(text);
        } else if is_slow {
            state.say(&text);
        }
    }

    /// Removes the spinner when the component is compiled.
    fn compiled(&self) {
        if let Some(spinner) = self.state().spinner.take() {
            spinner.finish_and_clear();
        }
    }

    /// Creates or updates the bar, if there is a terminal.
    fn with_bar(&self, state: &mut State, template: &str, total: u64, change: impl FnOnce(&ProgressBar)) {
        if !self.is_terminal || self.quiet {
            return;
        }
        let bar = state.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        bar.set_length(total);
        change(bar);
    }

    /// Whether a line may be printed now. Lines are printed only without a terminal.
    fn is_line_due(&self, state: &mut State, done: u64, total: u64) -> bool {
        if self.is_terminal || self.quiet || (done != total && state.has_patience()) {
            return false;
        }
        state.last_line = Some(Instant::now());
        true
    }

    fn recorded(&self, episode: &EpisodeSummary, done: u64, total: u64) {
        let mut state = self.state();
        if state.in_phases {
            return self.with_bar(&mut state, PHASES, total, |bar| bar.set_position(done));
        }
        if let Some(reward) = episode.reward {
            state.scored += 1;
            state.sum += reward;
        }
        state.failed += u64::from(episode.failed());
        if episode.failed() && !state.is_failure_shown && !self.quiet {
            state.is_failure_shown = true;
            let why = escaped(episode.failure.as_deref().unwrap_or("?"), FAILURE);
            state.say(&format!("first failure, {}: {why}", episode.id));
        }
        let reward = match state.scored {
            0 => "not scored".to_owned(),
            scored => format!("reward {:.3}", state.sum / scored as f64),
        };
        let failed = if state.failed > 0 { format!(", {} failed", thousands(state.failed)) } else { String::new() };
        self.with_bar(&mut state, PLAYED, total, |bar| {
            bar.set_position(done);
            bar.set_message(format!("{reward}{failed}"));
        });
        let is_tenth = done == total || done.is_multiple_of((total / LINES).max(1));
        if is_tenth && self.is_line_due(&mut state, done, total) {
            line(&format!("{}/{} episodes, {reward}{failed}", thousands(done), thousands(total)));
        }
    }

    fn counted(&self, done: u64, total: u64) {
        let mut state = self.state();
        self.with_bar(&mut state, COUNTED, total, |bar| bar.set_position(done));
        if self.is_line_due(&mut state, done, total) {
            line(&format!("{}/{} episodes {}", thousands(done), thousands(total), self.what));
        }
    }

    fn phase(&self, name: &str, episodes: u64) {
        let mut state = self.state();
        state.in_phases = true;
        if is_training_phase(name) {
            state.pace.begin(Instant::now());
        }
        self.with_bar(&mut state, PHASES, episodes, |bar| {
            bar.set_position(0);
            bar.set_message(name.to_owned());
        });
    }

    fn iteration(&self, report: &IterationReport, of: u64) {
        if self.quiet {
            return;
        }
        let mut state = self.state();
        let tokens = report.metrics().get("weights.tokens").copied().unwrap_or(0.0);
        let left = of.saturating_sub(report.iteration);
        let pace = state.pace.note(Instant::now(), tokens, left).map(|known| known.to_string());
        // Each is shown once, and again after an iteration without it.
        let warnings = report.weights().map(|(_, weights)| weights.warnings()).unwrap_or_default();
        for (subject, why) in &warnings {
            if !state.warned.contains(subject) {
                state.say(&format!("iteration {}: {why}", report.iteration));
            }
        }
        state.warned = warnings.into_iter().map(|(subject, _)| subject).collect();
        let has_news = iteration::has_news(report) || report.iteration == of;
        if state.bar.is_none() && !has_news && state.has_patience() {
            return;
        }
        state.last_line = Some(Instant::now());
        iteration::lines(report, of, pace).iter().for_each(|line| state.say(line));
    }
}

impl EventSink for Progress {
    fn event(&self, event: Event) {
        match event {
            Event::Warning(warning) => warning::lines(&warning).iter().for_each(|line| self.say(line)),
            Event::Begun { run, resumed, title, out } => {
                // The summaries of other runs contain this.
                if self.what != LEARNED {
                    return;
                }
                let again = if resumed { format!("{run} is resumed: ") } else { String::new() };
                self.mention(&format!("{again}{title}"));
                if let Some(out) = out {
                    self.mention(&format!("numbers and models go into {}", out.display()));
                }
            }
            Event::Compiling { plugin, bytes, is_slow } => self.compiling(&plugin, bytes, is_slow),
            Event::Compiled => self.compiled(),
            Event::AlreadyRecorded { episodes } => {
                self.say(&format!("recorded already: {}", counted(episodes, "episode")));
            }
            Event::Phase { name, episodes } => self.phase(&name, episodes),
            Event::Recorded { episode, done, total } => self.recorded(&episode, done, total),
            Event::Progress { done, total } => self.counted(done, total),
            Event::Evolved(report) => {
                let [cost, found] = crate::learn_summary::evolution(&report);
                self.mention(&format!("evolution: {cost}"));
                self.mention(&format!("  {found}"));
            }
            Event::WarmedUp { report, plan } => {
                if let Some(text) = iteration::demonstrations(&report, &plan) {
                    self.mention(&text);
                }
            }
            Event::Iteration { report, of } => self.iteration(&report, of),
            // The other events are for files, or for the command that requested them.
            _ => {}
        }
    }
}
