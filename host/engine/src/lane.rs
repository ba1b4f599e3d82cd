//! The slow lane: long computations of guests do not delay short calls.
//!
//! A call that finishes within a tick or two is not affected. A longer one yields its processor at every tick and continues
//! only with a permit of the slow lane. There is one permit fewer than processors, so that one processor is available for
//! short calls. While there are no short calls, the last permit is used too.
//!
//! Waiting in the lane counts neither as computing nor towards a deadline: whether a call succeeds must not depend on other
//! calls.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// For this long after a short call, one processor is kept free.
const QUIET: Duration = Duration::from_millis(50);

/// Monotonic time since some moment.
type Elapsed = dyn Fn() -> Duration + Send + Sync;

/// The slow lane of a host.
pub(crate) struct SlowLane {
    places: Arc<Semaphore>,
    last_place: Arc<Semaphore>,
    elapsed: Box<Elapsed>,
    /// When the last short call ended, in microseconds by `elapsed`; 0: never.
    quick: AtomicU64,
}

impl std::fmt::Debug for SlowLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlowLane").field("places", &self.places).finish_non_exhaustive()
    }
}

impl SlowLane {
    pub(crate) fn new(processors: usize) -> Self {
        let began = Instant::now();
        Self::with_clock(processors, move || began.elapsed())
    }

    /// A lane that uses `elapsed` as its clock.
    pub(crate) fn with_clock(processors: usize, elapsed: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self {
            places: Arc::new(Semaphore::new(processors.saturating_sub(1).max(1))),
            last_place: Arc::new(Semaphore::new(usize::from(processors > 1))),
            elapsed: Box::new(elapsed),
            quick: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        micros((self.elapsed)())
    }

    /// Notes a call that finished without waiting.
    pub(crate) fn was_quick(&self) {
        self.quick.store(self.now().max(1), Ordering::Relaxed);
    }

    fn is_quiet(&self) -> bool {
        let quick = self.quick.load(Ordering::Relaxed);
        quick == 0 || self.now().saturating_sub(quick) > micros(QUIET)
    }

    async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphores are never closed, so this cannot fail.
        let place = || async { self.places.clone().acquire_owned().await.ok() };
        if self.is_quiet() {
            tokio::select! {
                permit = place() => permit,
                permit = self.last_place.clone().acquire_owned() => permit.ok(),
            }
        } else {
            place().await
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A call's permit, and how long it has waited for permits.
#[derive(Debug, Default)]
pub(crate) struct LaneTicket {
    place: Mutex<Option<OwnedSemaphorePermit>>,
    waits: AtomicBool,
    waited: AtomicU64,
}

impl LaneTicket {
    /// Returns the permit and waits for another one.
    pub(crate) async fn again(self: Arc<Self>, lane: Arc<SlowLane>) {
        self.leave();
        let began = lane.now();
        // Yield at least once, so that ready tasks run and the call's deadline is checked.
        tokio::task::yield_now().await;
        self.waits.store(true, Ordering::Relaxed);
        let place = lane.enter().await;
        self.waited.fetch_add(lane.now().saturating_sub(began), Ordering::Relaxed);
        self.waits.store(false, Ordering::Relaxed);
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// The call ended, or waits for something else: returns the permit.
    pub(crate) fn leave(&self) {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Total waiting time so far.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_micros(self.waited.load(Ordering::Relaxed))
    }

    /// Whether it is waiting now.
    pub(crate) fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lane with a clock that the test sets, in microseconds.
    fn lane(processors: usize) -> (Arc<SlowLane>, Arc<AtomicU64>) {
        let clock = Arc::new(AtomicU64::new(0));
        let read = clock.clone();
        let elapsed = move || Duration::from_micros(read.load(Ordering::Relaxed));
        (Arc::new(SlowLane::with_clock(processors, elapsed)), clock)
    }

    /// A permit, if one is free at once.
    async fn at_once(lane: &SlowLane) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            biased;
            place = lane.enter() => place,
            () = std::future::ready(()) => None,
        }
    }

    #[tokio::test]
    async fn the_last_permit_is_reserved_while_there_are_short_calls() {
        let (lane, clock) = lane(2);
        let (one, two) = (at_once(&lane).await, at_once(&lane).await);
        assert!(one.is_some() && two.is_some(), "no short calls: both processors compute");
        assert!(at_once(&lane).await.is_none(), "a third has no processor");
        drop((one, two));

        clock.store(1_000_000, Ordering::Relaxed);
        lane.was_quick();
        let one = at_once(&lane).await;
        assert!(one.is_some());
        for (later, free) in [(0, false), (49_000, false), (50_000, false), (50_001, true)] {
            clock.store(1_000_000 + later, Ordering::Relaxed);
            assert_eq!(at_once(&lane).await.is_some(), free, "{later} microseconds after a short call");
        }
    }

    #[tokio::test]
    async fn waiting_time_is_counted_and_permits_are_returned() {
        let (lane, clock) = lane(1);
        let (one, two) = (Arc::new(LaneTicket::default()), Arc::new(LaneTicket::default()));
        one.clone().again(lane.clone()).await;
        let waiting = tokio::spawn(two.clone().again(lane.clone()));
        while !two.waits() {
            tokio::task::yield_now().await;
        }
        clock.store(7_000, Ordering::Relaxed);
        assert_eq!(two.waited(), Duration::ZERO, "counted when it ends");
        one.leave();
        waiting.await.unwrap();
        assert!(!two.waits());
        assert_eq!((one.waited(), two.waited()), (Duration::ZERO, Duration::from_millis(7)));
        assert!(at_once(&lane).await.is_none(), "the second holds the only permit");
        two.leave();
        assert!(at_once(&lane).await.is_some());
    }
}
