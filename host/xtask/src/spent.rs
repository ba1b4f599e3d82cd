//! Measures the wall-clock time and the processor time of a command.

use std::time::{Duration, Instant};

/// Ticks per second in `/proc`: always 100 on Linux, independent of the kernel's own clock.
const TICKS: u64 = 100;

/// A measurement that has begun.
pub(crate) struct Spent {
    began: Instant,
    processor: Option<Duration>,
}

impl Spent {
    /// Begins a measurement.
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), processor: children() }
    }

    /// The measured times as text. The processor time is included if the system reports it.
    pub(crate) fn shown(&self) -> String {
        let processor = children().zip(self.processor).map(|(now, before)| now.saturating_sub(before));
        words(self.began.elapsed(), processor)
    }
}

/// Processor time of all child processes that have ended. `None`: the system does not report it.
fn children() -> Option<Duration> {
    of_children(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// The fields `cutime` and `cstime` of `/proc/PID/stat` (`man 5 proc`). The name before them may contain anything.
fn of_children(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()?.checked_add(ticks()?)?;
    Some(Duration::from_millis(ticks.checked_mul(1000)? / TICKS))
}

fn words(clock: Duration, processor: Option<Duration>) -> String {
    let minutes = |time: Duration| format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60);
    match processor {
        Some(processor) => format!("{} ({} of the processor)", minutes(clock), minutes(processor)),
        None => minutes(clock),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_of_children_is_read_after_any_process_name() {
        let fields = "S 1 2 3 4 5 6 7 8 9 10 11 12 250 50 20 0 1 0";
        for name in ["xtask", "a b) c", ") ("] {
            assert_eq!(of_children(&format!("7 ({name}) {fields}")), Some(Duration::from_secs(3)), "{name}");
        }
        for broken in ["", "7 (xtask) S 1", "7 (xtask) S 1 2 3 4 5 6 7 8 9 10 11 12 x 50"] {
            assert_eq!(of_children(broken), None, "{broken}");
        }
    }

    #[test]
    fn time_is_shown_in_minutes() {
        let seconds = Duration::from_secs;
        assert_eq!(words(seconds(61), None), "1 min 01 s");
        assert_eq!(words(seconds(61), Some(seconds(125))), "1 min 01 s (2 min 05 s of the processor)");
    }
}
