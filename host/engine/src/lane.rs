//! The slow lane: guests that compute for long do not keep quick ones waiting.
//!
//! A call that is over within a tick or two never notices. One that computes on gives its processor back at every tick and goes
//! on only when a place in the slow lane is free; there is one place less than there are processors, so that one processor is
//! always near for whoever is quick. While nobody has been quick for a moment, the last place is given away too.
//!
//! Waiting in the lane is nobody's computing and no part of a deadline: whether a call ends by its own doing must not depend on
//! who else computes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// For so long after a quick call its processor is kept free.
const QUIET: Duration = Duration::from_millis(50);

/// The slow lane of a host.
#[derive(Debug)]
pub(crate) struct SlowLane {
    places: Arc<Semaphore>,
    last_place: Arc<Semaphore>,
    began: Instant,
    /// When a quick call ended last, in microseconds since `began`; 0: never.
    quick: AtomicU64,
}

impl SlowLane {
    pub(crate) fn new(processors: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(processors.saturating_sub(1).max(1))),
            last_place: Arc::new(Semaphore::new(usize::from(processors > 1))),
            began: Instant::now(),
            quick: AtomicU64::new(0),
        }
    }

    /// A call was over before it had to wait.
    pub(crate) fn was_quick(&self) {
        self.quick.store(micros(self.began.elapsed()).max(1), Ordering::Relaxed);
    }

    fn is_quiet(&self) -> bool {
        let quick = self.quick.load(Ordering::Relaxed);
        quick == 0 || micros(self.began.elapsed()).saturating_sub(quick) > micros(QUIET)
    }

    async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes these: an error cannot happen, and would mean no lane at all.
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

/// A call's place in the lane, and how long it has waited for one.
#[derive(Debug, Default)]
pub(crate) struct LaneTicket {
    place: Mutex<Option<OwnedSemaphorePermit>>,
    waits: AtomicBool,
    waited: AtomicU64,
}

impl LaneTicket {
    /// Gives the place back and waits for another.
    pub(crate) async fn again(self: Arc<Self>, lane: Arc<SlowLane>) {
        self.leave();
        let began = Instant::now();
        // In any case once: whoever waits beside gets the processor, and the call's deadline is looked at.
        tokio::task::yield_now().await;
        self.waits.store(true, Ordering::Relaxed);
        let place = lane.enter().await;
        self.waited.fetch_add(micros(began.elapsed()), Ordering::Relaxed);
        self.waits.store(false, Ordering::Relaxed);
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// The call is over, or waits for something else.
    pub(crate) fn leave(&self) {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// How long it has waited so far.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_micros(self.waited.load(Ordering::Relaxed))
    }

    /// Whether it waits at this moment.
    pub(crate) fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_place_is_for_the_quick_while_there_are_any() {
        let lane = Arc::new(SlowLane::new(2));
        let one = lane.enter().await;
        let two = tokio::time::timeout(Duration::from_secs(5), lane.enter()).await;
        assert!(one.is_some() && two.is_ok(), "nobody was quick: both processors compute");
        drop((one, two));
        lane.was_quick();
        let one = lane.enter().await;
        assert!(one.is_some());
        let waiting = tokio::time::timeout(Duration::from_millis(20), lane.enter());
        assert!(waiting.await.is_err(), "somebody was quick: the second waits");
    }

    #[tokio::test]
    async fn waiting_is_counted_and_a_place_is_given_back() {
        let lane = Arc::new(SlowLane::new(1));
        let (one, two) = (Arc::new(LaneTicket::default()), Arc::new(LaneTicket::default()));
        one.clone().again(lane.clone()).await;
        let waiting = tokio::spawn(two.clone().again(lane.clone()));
        while !two.waits() {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        one.leave();
        waiting.await.unwrap();
        assert!(two.waited() >= Duration::from_millis(5) && !two.waits());
    }
}
