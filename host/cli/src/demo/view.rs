//! The progress of a demo on standard error: a view that is redrawn in place on a terminal, otherwise a line every few seconds.

use super::words::{status_line, step_words, work_words};
use crate::plot::sparkline;
use crate::terminal::{line, warning_lines};
use clawhost_app::demo::{DemoOutline, DemoProgress, DemoStatus};
use clawhost_app::{Event, EventSink};
use clawhost_core::escaped;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Without a terminal, at most one line is printed in this time.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// The time between two redraws of the view, which shows the elapsed time.
const TICK: Duration = Duration::from_millis(250);
/// The length of the bar, in positions.
const POSITIONS: u64 = 1000;
/// The width of the reward curve, in characters.
const CURVE: usize = 40;
/// The template of the view: a bar for the whole demo, then the text of [`message`].
const VIEW: &str = "{bar:40} {percent:>3} %  {elapsed} so far{msg}";

/// Shows the progress of a demo.
pub(super) struct View {
    form: Form,
    state: Mutex<State>,
}

/// How progress is shown.
enum Form {
    /// Only warnings are shown.
    Quiet,
    /// The view is redrawn in place.
    Terminal(ProgressBar),
    /// Lines are appended.
    Log,
}

struct State {
    progress: DemoProgress,
    /// Text about the component that is being compiled.
    compiling: Option<String>,
    lines: Lines,
}

/// Limits how often a line is printed.
#[derive(Debug, Default)]
struct Lines {
    last: Option<Instant>,
}

impl Lines {
    /// Whether a line may be printed now. If so, the next one has to wait for [`LINE_EVERY`].
    fn are_due(&mut self, now: Instant) -> bool {
        let is_due = self.last.is_none_or(|last| now.saturating_duration_since(last) >= LINE_EVERY);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

impl View {
    /// Starts the view of a demo with these steps.
    pub(super) fn new(outline: DemoOutline, quiet: bool) -> Self {
        let form = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Form::Quiet,
            (false, true) => Form::Terminal(bar()),
            (false, false) => Form::Log,
        };
        let progress = DemoProgress::new(outline, Instant::now());
        Self { form, state: Mutex::new(State { progress, compiling: None, lines: Lines::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints a line above the view.
    pub(super) fn say(&self, text: &str) {
        match &self.form {
            Form::Terminal(bar) => bar.suspend(|| line(text)),
            Form::Quiet | Form::Log => line(text),
        }
    }

    /// Removes the view.
    pub(super) fn finish(&self) {
        if let Form::Terminal(bar) = &self.form {
            bar.finish_and_clear();
        }
    }

    fn show(&self, state: &mut State) {
        let now = Instant::now();
        match &self.form {
            Form::Quiet => {}
            Form::Terminal(bar) => {
                let status = state.progress.status(now);
                bar.set_position((status.part * POSITIONS as f64) as u64);
                bar.set_message(message(&status, state.compiling.as_deref()));
            }
            Form::Log => {
                let status = state.progress.status(now);
                if status.step.is_some() && state.lines.are_due(now) {
                    line(&status_line(&status));
                }
            }
        }
    }

    fn compiling(&self, state: &mut State, plugin: &str, is_slow: bool) {
        let name = Path::new(plugin).file_name().map_or(plugin.into(), |name| name.to_string_lossy());
        let text = format!("compiling {}, once per machine and version", escaped(&name, 100));
        if is_slow && matches!(self.form, Form::Log) {
            line(&text);
        }
        state.compiling = Some(text);
    }
}

impl EventSink for View {
    fn event(&self, event: Event) {
        let mut state = self.state();
        match &event {
            Event::Warning(warning) => return warning_lines(warning).iter().for_each(|line| self.say(line)),
            Event::Compiling { plugin, is_slow, .. } => self.compiling(&mut state, plugin, *is_slow),
            Event::Compiled => state.compiling = None,
            Event::DemoPage { page, key } => {
                if !matches!(self.form, Form::Quiet) {
                    self.say(&format!("watch it learn: {page} (key {})", key.expose()));
                }
            }
            other => {
                state.progress.event(other);
            }
        }
        self.show(&mut state);
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(POSITIONS), ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(ProgressStyle::with_template(VIEW).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(TICK);
    bar
}

/// The text next to and below the bar: time left, step, work in the step, and the reward curve.
fn message(status: &DemoStatus<'_>, compiling: Option<&str>) -> String {
    let left = super::words::left(status).map(|left| format!(", {left}")).unwrap_or_default();
    let step = status.step.map(|step| format!("\n{}", step_words(step))).unwrap_or_default();
    let work = compiling.map(str::to_owned).or_else(|| work_words(status));
    let work = work.map(|work| format!("\n  {work}")).unwrap_or_default();
    let curve = match (status.curve, sparkline(status.curve, CURVE)) {
        ([first, .., last], Some(drawn)) => format!("\n  reward {first:.2} {drawn} {last:.2}"),
        _ => String::new(),
    };
    [left, step, work, curve].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_app::demo::{Activity, DemoStep, HarnessArm};

    #[test]
    fn a_log_gets_at_most_one_line_in_five_seconds() {
        let (began, mut lines) = (Instant::now(), Lines::default());
        let due: Vec<u64> = (0..=30).filter(|half| lines.are_due(began + Duration::from_millis(half * 500))).collect();
        assert_eq!(due, [0, 10, 20, 30]);
    }

    #[test]
    fn the_view_shows_the_time_left_the_step_the_iteration_and_a_curve() {
        let status = DemoStatus {
            step: Some(DemoStep::Arm { number: 2, of: 4, arm: HarnessArm::SilentReflector }),
            number: (3, 6),
            activity: Activity::Iterations { done: 37, of: 100 },
            curve: &[0.0, 0.5, 1.0],
            part: 0.25,
            elapsed: Duration::from_secs(20),
            left: Some(Duration::from_secs(61)),
        };
        assert_eq!(
            message(&status, None),
            ", about 1m 1s left\narm 2 of 4: a silent reflector, so that nothing is learned\n  iteration 37 of 100\n  reward 0.00 ▁▅█ 1.00"
        );
        let begun = DemoStatus { activity: Activity::Preparing, curve: &[], left: None, ..status };
        assert_eq!(
            message(&begun, Some("compiling env_shop.wasm")),
            "\narm 2 of 4: a silent reflector, so that nothing is learned\n  compiling env_shop.wasm"
        );
    }
}
