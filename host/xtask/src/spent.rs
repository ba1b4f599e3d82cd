//! How long something took, by the clock and of the processor.

use std::time::{Duration, Instant};

/// Ticks of a second in `/proc`: Linux reports 100 to every program, whatever its own clock.
const TICKS: u64 = 100;

/// A stretch of work that has begun.
pub(crate) struct Spent {
    began: Instant,
    processor: Option<Duration>,
}

impl Spent {
    /// It begins now.
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), processor: children() }
    }

    /// For a person: the time by the clock, and of the processor where the system tells.
    pub(crate) fn shown(&self) -> String {
        let processor = children().zip(self.processor).map(|(now, before)| now.saturating_sub(before));
        words(self.began.elapsed(), processor)
    }
}

/// Processor time of all processes that this one started and that have ended, where the system tells.
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
    fn processor_time_of_children_is_read_behind_any_name() {
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
