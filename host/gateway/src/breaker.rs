//! A circuit breaker: an endpoint that failed several times in a row is left alone for a while, so that requests go to the next one at once.

use std::sync::{Mutex, PoisonError};

/// Failures in a row after which an endpoint is left alone. Fewer could be bad luck.
const FAILURES: u32 = 5;
/// How long it is left alone, in microseconds. Then one request tries it.
const REST_US: u64 = 30 * 1_000_000;

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// Time on the monotonic clock from which one request may try it again.
    rests_until: Option<u64>,
}

/// The breaker of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Breaker(Mutex<State>);

impl Breaker {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request may be sent at a time in microseconds. After a rest this is true for one request per rest, until one succeeds.
    pub(crate) fn admits(&self, now_us: u64) -> bool {
        let mut state = self.state();
        match state.rests_until {
            None => true,
            Some(until) if now_us < until => false,
            Some(_) => {
                state.rests_until = Some(now_us + REST_US);
                true
            }
        }
    }

    /// Whether it is left alone at a time in microseconds.
    pub(crate) fn is_open(&self, now_us: u64) -> bool {
        self.state().rests_until.is_some_and(|until| now_us < until)
    }

    /// A request was answered. Returns whether the endpoint was left alone until now.
    pub(crate) fn succeeded(&self) -> bool {
        std::mem::take(&mut *self.state()).rests_until.is_some()
    }

    /// A request was not answered. Returns whether the endpoint is left alone from now on.
    pub(crate) fn failed(&self, now_us: u64) -> bool {
        let mut state = self.state();
        let was_resting = state.rests_until.is_some();
        state.failures = state.failures.saturating_add(1);
        if state.failures >= FAILURES {
            state.rests_until = Some(now_us + REST_US);
        }
        !was_resting && state.rests_until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_rests_after_failures_in_a_row_and_one_request_tries_it() {
        let breaker = Breaker::default();
        let check = |at: u64, expect: bool| assert_eq!(breaker.admits(at), expect, "at {at}");
        for at in 0..u64::from(FAILURES) - 1 {
            assert!(!breaker.failed(at));
        }
        check(10, true);
        assert!(!breaker.succeeded());
        let last = u64::from(FAILURES) - 1;
        (0..=last).for_each(|at| assert_eq!(breaker.failed(at), at == last));
        let end = u64::from(FAILURES) - 1 + REST_US;
        check(10, false);
        check(end - 1, false);
        check(end, true);
        check(end, false);
        assert!(!breaker.failed(end), "it is left alone already");
        assert!(breaker.is_open(end + REST_US - 1) && !breaker.is_open(end + REST_US));
        check(end + REST_US - 1, false);
        check(end + REST_US, true);
        assert!(breaker.succeeded());
        assert!(!breaker.is_open(end));
        check(end + REST_US, true);
    }
}
