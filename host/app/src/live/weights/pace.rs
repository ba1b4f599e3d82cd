//! How training keeps to its share of the processors: whole threads, and rests between its pieces of work where one thread is more than the share.

use clawhost_core::Clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What training may use of the processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Processors {
    /// Threads that compute.
    pub(crate) threads: usize,
    /// Processors of this machine.
    cores: usize,
    /// The share of them, above 0 and at most 1.
    share: f64,
}

impl Processors {
    /// As many whole threads as the share of these processors has, and at least one.
    pub(super) fn of(cores: usize, share: f64) -> Self {
        let cores = cores.max(1);
        Self { threads: ((cores as f64 * share).floor() as usize).max(1), cores, share }
    }
}

/// How long training rests after it has worked for some time on this number of threads, so that its mean use is this share of the processors. None, if
/// so many threads are within the share.
fn rest(worked: Duration, threads: usize, cores: usize, share: f64) -> Duration {
    let surplus = threads as f64 / (cores as f64 * share) - 1.0;
    if surplus > 0.0 {
        Duration::try_from_secs_f64(worked.as_secs_f64() * surplus).unwrap_or(Duration::MAX)
    } else {
        Duration::ZERO
    }
}

/// Lets a thread rest.
pub(super) trait Sleeper: Send + Sync {
    /// Returns after this time, or earlier if nothing shall rest any more.
    fn sleep(&self, time: Duration);
}

/// Rests that may be ended from another thread.
#[derive(Debug, Default)]
pub(super) struct Rests {
    has_ended: Mutex<bool>,
    ends: Condvar,
}

impl Rests {
    /// Ends the rest of now and all later ones.
    pub(super) fn end(&self) {
        *self.has_ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ends.notify_all();
    }
}

impl Sleeper for Rests {
    fn sleep(&self, time: Duration) {
        let has_ended = self.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.ends.wait_timeout_while(has_ended, time, |has_ended| !*has_ended));
    }
}

/// Ends rests when it is dropped: nobody waits for the work any more.
pub(super) struct EndsRests(pub(super) Arc<Rests>);

impl Drop for EndsRests {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The pace of one step.
pub(crate) struct Pace {
    processors: Processors,
    clock: Arc<dyn Clock>,
    sleeper: Arc<dyn Sleeper>,
    /// When the piece of work of now began, in microseconds of the clock.
    since: AtomicU64,
}

impl Pace {
    /// Work begins.
    pub(super) fn new(processors: Processors, clock: Arc<dyn Clock>, sleeper: Arc<dyn Sleeper>) -> Self {
        let since = AtomicU64::new(clock.monotonic_us());
        Self { processors, clock, sleeper, since }
    }

    /// A piece of work has ended on this thread, and the next one has not begun: rests as the share asks.
    pub(crate) fn ended_piece(&self) {
        let worked = self.clock.monotonic_us().saturating_sub(self.since.load(Ordering::Relaxed));
        let Processors { threads, cores, share } = self.processors;
        let rest = rest(Duration::from_micros(worked), threads, cores, share);
        if !rest.is_zero() {
            self.sleeper.sleep(rest);
        }
        self.since.store(self.clock.monotonic_us(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::step::{Aged, Learner, Stepped};
    use super::super::tests::{answer, plan, question, session, taught_model};
    use super::*;
    use clawhost_model::device::ComputeDevice;

    /// A clock that goes on when a test says so, in microseconds.
    #[derive(Default)]
    struct Ticking(AtomicU64);

    impl Ticking {
        fn advance(&self, time: Duration) {
            self.0.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
        }
    }

    impl Clock for Ticking {
        fn now_ms(&self) -> u64 {
            0
        }

        fn monotonic_us(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn what_is_more_than_the_share_is_rested() {
        let check = |cores: usize, share: f64, worked_ms: u64, expect: (usize, u64)| {
            let Processors { threads, cores, share } = Processors::of(cores, share);
            let rest = rest(Duration::from_millis(worked_ms), threads, cores, share);
            assert_eq!((threads, rest.as_millis() as u64), expect, "{share} of {cores}");
        };
        check(2, 0.1, 1_000, (1, 4_000));
        check(2, 0.25, 1_000, (1, 1_000));
        check(1, 0.5, 300, (1, 300));
        check(1, 0.75, 300, (1, 100));
        // Whole threads within the share need no rest.
        check(2, 0.5, 1_000, (1, 0));
        check(8, 0.5, 1_000, (4, 0));
        check(8, 0.45, 1_000, (3, 0));
        check(16, 1.0, 1_000, (16, 0));
        check(2, 0.1, 0, (1, 0));
        assert_eq!(rest(Duration::from_secs(1), 1, 1, f64::MIN_POSITIVE), Duration::MAX);
    }

    /// Notes rests, during which the clock goes on.
    struct Noted(Arc<Ticking>, Mutex<Vec<u128>>);

    impl Sleeper for Noted {
        fn sleep(&self, time: Duration) {
            self.0.advance(time);
            self.1.lock().unwrap().push(time.as_millis());
        }
    }

    #[test]
    fn a_step_rests_after_each_piece_as_long_as_that_piece_asks() {
        let clock = Arc::new(Ticking::default());
        let noted = Arc::new(Noted(clock.clone(), Mutex::default()));
        let pace = Pace::new(Processors::of(2, 0.1), clock.clone(), noted.clone());
        for worked in [10, 0, 25] {
            clock.advance(Duration::from_millis(worked));
            pace.ended_piece();
        }
        assert_eq!(*noted.1.lock().unwrap(), [40, 100]);
    }

    /// A clock on which each look takes a millisecond.
    #[derive(Default)]
    struct Looked(AtomicU64);

    impl Clock for Looked {
        fn now_ms(&self) -> u64 {
            0
        }

        fn monotonic_us(&self) -> u64 {
            self.0.fetch_add(1_000, Ordering::Relaxed)
        }
    }

    /// Counts rests.
    #[derive(Default)]
    struct Counted(AtomicU64);

    impl Sleeper for Counted {
        fn sleep(&self, _: Duration) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_step_rests_between_its_passes() {
        let folder = taught_model(7);
        let plan = plan("binary");
        let mut learner = Learner::open(&folder, "tiny", &plan, &ComputeDevice::processor(), None).unwrap();
        let rests = Arc::new(Counted::default());
        let clock = Arc::new(Looked::default());
        learner.set_pace(Arc::new(Pace::new(Processors::of(2, 0.1), clock, rests.clone())));
        let mut sessions: Vec<Aged> = Vec::new();
        for number in 0..6 {
            let said = answer(&**learner.model(), &question(number), number).await;
            sessions.push((session(number, said, "binary"), Some(0)));
        }
        assert!(matches!(learner.step(1, sessions).await.unwrap(), Stepped::Taken(_)));
        // Six conversations are scored before and after; each epoch has a pass and a step.
        let epochs = u64::from(plan.epochs.get());
        assert!(rests.0.load(Ordering::Relaxed) >= 2 * 6 + 2 * epochs);
    }

    #[test]
    fn a_rest_ends_when_nobody_waits_for_the_work() {
        let rests = Arc::new(Rests::default());
        let resting = {
            let rests = rests.clone();
            std::thread::spawn(move || rests.sleep(Duration::from_secs(100_000)))
        };
        drop(EndsRests(rests.clone()));
        resting.join().unwrap();
        rests.sleep(Duration::MAX);
    }
}
