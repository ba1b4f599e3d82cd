//! Speed of a run, and its remaining time.

use std::time::{Duration, Instant};

/// The weight of a new value: a running mean over some ten iterations.
const NEW: f64 = 0.2;

/// Measures iterations.
#[derive(Debug, Default)]
pub struct Pace {
    last: Option<Instant>,
    /// Seconds per iteration, and tokens per second, as running means.
    seconds: Option<f64>,
    tokens: Option<f64>,
}

/// The measurements after an iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Known {
    /// Seconds this iteration took.
    pub seconds: f64,
    /// Tokens that were generated and learned from, per second.
    pub tokens_per_second: f64,
    /// Time until the last iteration.
    pub left: Duration,
}

impl Pace {
    /// Starts the clock of an iteration, if it is not running.
    pub fn begin(&mut self, now: Instant) {
        self.last.get_or_insert(now);
    }

    /// Ends an iteration with `tokens` tokens; `left` iterations remain. `None`: the clock was not running.
    pub fn note(&mut self, now: Instant, tokens: f64, left: u64) -> Option<Known> {
        let took = now.duration_since(self.last.replace(now)?).as_secs_f64();
        let mean = |known: Option<f64>, new: f64| known.map_or(new, |known| known + NEW * (new - known));
        let seconds = mean(self.seconds, took);
        let rate = mean(self.tokens, tokens / took.max(1e-9));
        (self.seconds, self.tokens) = (Some(seconds), Some(rate));
        let left = Duration::try_from_secs_f64(seconds * left as f64).unwrap_or(Duration::MAX);
        Some(Known { seconds: took, tokens_per_second: rate, left })
    }
}

impl std::fmt::Display for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rate = match self.tokens_per_second {
            rate if rate >= 10_000.0 => format!("{:.0}k", rate / 1000.0),
            rate => format!("{rate:.0}"),
        };
        write!(f, "{rate} tokens/s")?;
        match self.left.as_secs() {
            0 => Ok(()),
            left => write!(f, ", {} left", humantime::format_duration(Duration::from_secs(left))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_follows_from_past_iterations() {
        let (start, mut pace) = (Instant::now(), Pace::default());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(pace.note(at(0), 10.0, 9), None, "the clock was not running");
        let first = pace.note(at(2), 1000.0, 9).unwrap();
        assert_eq!((first.seconds, first.tokens_per_second, first.left.as_secs()), (2.0, 500.0, 18));
        let slower = pace.note(at(6), 1000.0, 8).unwrap();
        assert_eq!((slower.seconds, slower.tokens_per_second), (4.0, 450.0));
        assert_eq!(slower.to_string(), "450 tokens/s, 19s left");
        assert_eq!(pace.note(at(7), 5e6, 0).unwrap().to_string(), "1000k tokens/s");
        let mut pace = Pace::default();
        pace.begin(at(0));
        pace.begin(at(5));
        assert_eq!(pace.note(at(6), 6.0, 1).unwrap().seconds, 6.0, "only the first call starts the clock");
    }
}
