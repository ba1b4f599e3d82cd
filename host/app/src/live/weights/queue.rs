//! Sessions that were looked at and wait for a step.

use clawhost_learn::memory::Scope;
use std::collections::{BTreeMap, VecDeque};

/// A session with the number of its episode and the time from which it may be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) number: u64,
    /// As `RUN/EPISODE`.
    pub(super) name: String,
    /// Unix time in milliseconds.
    pub(super) due_at: u64,
}

/// Whose weights learn. `None`: those that answer everybody.
pub(super) type Whose = Option<Scope>;

/// The sessions of one set of weights.
#[derive(Debug, Clone, Default)]
struct Lane {
    /// The episode up to which earlier steps took sessions.
    through: u64,
    waiting: VecDeque<Waiting>,
    /// Unix time in milliseconds before which no step is tried.
    rests_until: u64,
}

/// Sessions that wait, by whose weights learn from them, in the order of their episodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    /// The last episode that was looked at.
    pub(super) looked: u64,
    lanes: BTreeMap<Whose, Lane>,
}

impl Queue {
    /// Sessions behind an episode.
    pub(super) fn behind(looked: u64) -> Self {
        Self { looked, lanes: BTreeMap::new() }
    }

    /// Adds a session, unless an earlier step took it. `through`: the episode up to which one did, asked for at the first session of these weights.
    pub(super) fn add(&mut self, whose: Whose, session: Waiting, through: impl FnOnce() -> u64) {
        let lane = self.lanes.entry(whose);
        let lane = lane.or_insert_with(|| Lane { through: through(), waiting: VecDeque::new(), rests_until: 0 });
        if session.number > lane.through {
            lane.waiting.push_back(session);
        }
    }

    /// Sessions that wait for their step, at most.
    pub(super) fn longest(&self) -> usize {
        self.lanes.values().map(|lane| lane.waiting.len()).max().unwrap_or_default()
    }

    /// The weights for which most sessions wait.
    pub(super) fn fullest(&self) -> Option<Whose> {
        let waiting = self.lanes.iter().filter(|(_, lane)| !lane.waiting.is_empty());
        waiting.max_by_key(|(_, lane)| lane.waiting.len()).map(|(whose, _)| whose.clone())
    }

    /// The weights for which at least so many sessions wait and that do not rest, and of these the ones whose last needed session is due first, with the time
    /// of that.
    pub(super) fn next(&self, batch: usize, now_ms: u64) -> Option<(Whose, u64)> {
        let due = |lane: &Lane| Some(lane.waiting.get(batch.checked_sub(1)?)?.due_at);
        let awake = self.lanes.iter().filter(|(_, lane)| lane.rests_until <= now_ms);
        let ready = awake.filter_map(|(whose, lane)| Some((whose, due(lane)?)));
        ready.min_by_key(|(_, due_at)| *due_at).map(|(whose, due_at)| (whose.clone(), due_at))
    }

    /// The episode up to which steps of these weights took sessions, as far as the queue knows.
    pub(super) fn through(&self, whose: &Whose) -> u64 {
        self.lanes.get(whose).map(|lane| lane.through).unwrap_or_default()
    }

    /// The sessions that wait first.
    pub(super) fn first(&self, whose: &Whose, count: usize) -> Vec<Waiting> {
        self.lanes.get(whose).map(|lane| lane.waiting.iter().take(count).cloned().collect()).unwrap_or_default()
    }

    /// Leaves weights alone until a time: a step of them failed. Others learn meanwhile.
    pub(super) fn rest(&mut self, whose: &Whose, until_ms: u64) {
        if let Some(lane) = self.lanes.get_mut(whose) {
            lane.rests_until = until_ms;
        }
    }

    /// Leaves all weights alone until a time.
    pub(super) fn rest_all(&mut self, until_ms: u64) {
        self.lanes.values_mut().for_each(|lane| lane.rests_until = until_ms);
    }

    /// Notes that a step took all sessions up to an episode.
    pub(super) fn took(&mut self, whose: &Whose, through: u64) {
        if let Some(lane) = self.lanes.get_mut(whose) {
            lane.through = through;
            lane.waiting.retain(|session| session.number > through);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(number: u64) -> Waiting {
        Waiting { number, name: format!("run-1/ep-{number}"), due_at: number * 10 }
    }

    fn scope(name: &str) -> Whose {
        Some(format!("user:/{name}").parse().unwrap())
    }

    #[test]
    fn each_scope_waits_for_a_batch_of_its_own() {
        let mut queue = Queue::default();
        for (number, name) in [(1, "ada"), (2, "ben"), (3, "ada"), (4, "cy"), (5, "ben"), (6, "ada")] {
            // An earlier step took the first session of Ada.
            let through = u64::from(name == "ada");
            queue.add(scope(name), waiting(number), || through);
        }
        assert_eq!((queue.longest(), queue.next(3, 0)), (2, None));
        assert!(queue.fullest().is_some_and(|whose| !queue.first(&whose, 2).is_empty()));
        assert_eq!(queue.next(2, 0), Some((scope("ben"), 50)), "the batch that was complete first");
        assert_eq!(queue.first(&scope("ben"), 2), [waiting(2), waiting(5)]);
        queue.took(&scope("ben"), 5);
        assert_eq!((queue.through(&scope("ben")), queue.next(2, 0)), (5, Some((scope("ada"), 60))));
        queue.add(scope("ben"), waiting(4), || 0);
        assert_eq!(queue.first(&scope("ben"), 9), [], "it was taken");
        assert_eq!(queue.first(&scope("dan"), 9), []);
    }

    #[test]
    fn weights_whose_step_failed_hold_up_no_others() {
        let mut queue = Queue::default();
        for (number, name) in [(1, "ada"), (2, "ben")] {
            queue.add(scope(name), waiting(number), || 0);
        }
        queue.rest(&scope("ada"), 1_000);
        assert_eq!(queue.next(1, 999), Some((scope("ben"), 20)));
        queue.rest(&scope("ben"), 2_000);
        assert_eq!(queue.next(1, 999), None);
        assert_eq!(queue.next(1, 1_000), Some((scope("ada"), 10)), "the same sessions");
        queue.rest_all(3_000);
        assert_eq!((queue.next(1, 2_999), queue.next(1, 3_000)), (None, Some((scope("ada"), 10))));
    }
}
