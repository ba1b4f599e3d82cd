//! When ended episodes were seen for the first time.
//!
//! When a session ended is not recorded, only when it was answered last, which may be long before: a session that nobody closes ends by idle time.
//! So what waits some time for the verdicts of an end counts from the first look that found the episode.

use std::collections::VecDeque;

/// The first looks, oldest first. A program that starts again looks for the first time again.
#[derive(Debug, Default)]
pub(super) struct FirstSeen(VecDeque<Look>);

#[derive(Debug, Clone, Copy)]
struct Look {
    /// Unix time in milliseconds.
    at: u64,
    /// Number of the newest ended episode then.
    through: u64,
}

impl FirstSeen {
    /// Notes the number of the newest ended episode at this Unix time (milliseconds).
    pub(super) fn note(&mut self, at: u64, through: u64) {
        if self.0.back().is_none_or(|last| last.through < through) {
            self.0.push_back(Look { at, through });
        }
    }

    /// Number of the last episode that was seen by this Unix time (milliseconds); 0 if there is none. Times must not decrease.
    pub(super) fn through(&mut self, until: u64) -> u64 {
        while self.0.get(1).is_some_and(|second| second.at <= until) {
            self.0.pop_front();
        }
        self.0.front().filter(|first| first.at <= until).map_or(0, |first| first.through)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_is_old_when_it_was_seen_long_ago() {
        let mut seen = FirstSeen::default();
        assert_eq!(seen.through(u64::MAX), 0);
        for (at, through) in [(100, 3), (200, 3), (300, 5), (400, 9)] {
            seen.note(at, through);
        }
        for (until, expect) in [(99, 0), (100, 3), (299, 3), (300, 5), (399, 5), (400, 9), (900, 9)] {
            assert_eq!(seen.through(until), expect, "{until}");
        }
        seen.note(1_000, 12);
        assert_eq!((seen.through(999), seen.through(1_000)), (9, 12));
    }
}
