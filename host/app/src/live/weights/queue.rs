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
    ///
    /// # Errors
    /// Those of `through`.
    pub(super) fn add<E>(
        &mut self,
        whose: Whose,
        session: Waiting,
        through: impl FnOnce() -> Result<u64, E>,
    ) -> Result<(), E> {
        let lane = match self.lanes.entry(whose) {
            std::collections::btree_map::Entry::Occupied(lane) => lane.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(Lane { through: through()?, waiting: VecDeque::new() })
            }
        };
        if session.number > lane.through {
            lane.waiting.push_back(session);
        }
        Ok(())
    }

    /// Sessions that wait for their step, at most.
    pub(super) fn longest(&self) -> usize {
        self.lanes.values().map(|lane| lane.waiting.len()).max().unwrap_or_default()
    }

    /// The weights for which at least so many sessions wait, and of these the ones whose last needed session is due first, with the time of that.
    pub(super) fn next(&self, batch: usize) -> Option<(Whose, u64)> {
        let due = |lane: &Lane| Some(lane.waiting.get(batch.checked_sub(1)?)?.due_at);
        let ready = self.lanes.iter().filter_map(|(whose, lane)| Some((whose, due(lane)?)));
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
            queue.add(scope(name), waiting(number), || Ok::<u64, ()>(through)).unwrap();
        }
        assert_eq!((queue.longest(), queue.next(3)), (2, None));
        assert_eq!(queue.next(2), Some((scope("ben"), 50)), "the batch that was complete first");
        assert_eq!(queue.first(&scope("ben"), 2), [waiting(2), waiting(5)]);
        queue.took(&scope("ben"), 5);
        assert_eq!((queue.through(&scope("ben")), queue.next(2)), (5, Some((scope("ada"), 60))));
        queue.add(scope("ben"), waiting(4), || Ok::<u64, ()>(0)).unwrap();
        assert_eq!(queue.first(&scope("ben"), 9), [], "it was taken");
        assert_eq!(queue.first(&scope("dan"), 9), []);
    }

    #[test]
    fn a_scope_whose_state_cannot_be_read_is_asked_for_again() {
        let mut queue = Queue::default();
        assert_eq!(queue.add(scope("ada"), waiting(1), || Err("damaged")), Err("damaged"));
        assert_eq!(queue.add(scope("ada"), waiting(1), || Ok::<u64, ()>(0)), Ok(()));
        assert_eq!(queue.first(&scope("ada"), 9), [waiting(1)]);
    }
}
