//! Which models are asked for an answer, in which order and how often, while none of them gives one.

use crate::models::{Candidate, ServedModel};
use axum::http::{HeaderMap, header};
use std::time::Duration;

/// Statuses of an endpoint after which another attempt may get an answer: it is overloaded or out of order.
const PASSING: [u16; 7] = [408, 429, 500, 502, 503, 504, 529];
/// Longest pause before another attempt. Its client waits.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Attempts after which the pause grows no longer.
const GROWTH: u32 = 10;

/// Whether another attempt may help after a status.
pub(crate) fn is_passing(status: u16) -> bool {
    PASSING.contains(&status)
}

/// Why an attempt gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) why: String,
    /// Whether the same endpoint may be asked again: it has not begun to work on the request for long.
    pub(crate) is_repeatable: bool,
    /// When it wants to be asked again.
    pub(crate) after: Option<Duration>,
}

/// The time after which an endpoint wants to be asked again, from its headers.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The attempts for one request.
pub(crate) struct Attempts<'a> {
    candidates: Vec<&'a Candidate>,
    at: usize,
    /// Attempts at the present candidate.
    tried: u32,
    /// All of them.
    pub(crate) count: u32,
}

impl<'a> Attempts<'a> {
    /// Attempts at the candidates that can take the request. Those that failed lately are left out while another is there.
    pub(crate) fn new(served: &'a ServedModel, is_able: impl Fn(&Candidate) -> bool, now_us: u64) -> Self {
        let able: Vec<&Candidate> = served.candidates().filter(|candidate| is_able(candidate)).collect();
        let rested = if able.len() < 2 {
            Vec::new()
        } else {
            able.iter().copied().filter(|candidate| candidate.health.breaker.admits(now_us)).collect()
        };
        let candidates = if rested.is_empty() { able } else { rested };
        Self { candidates, at: 0, tried: 0, count: 0 }
    }

    /// The candidate of the next attempt, and whether more may follow.
    pub(crate) fn next(&mut self) -> Option<(&'a Candidate, bool)> {
        let candidate = *self.candidates.get(self.at)?;
        self.tried += 1;
        self.count += 1;
        let goes_on = self.tried <= candidate.retries || self.at + 1 < self.candidates.len();
        Some((candidate, goes_on))
    }

    /// Notes that an attempt failed, after which the next one begins. Returns the pause before it: `base`, doubled with each attempt,
    /// times a random `share` from 0 to 1, so that many clients do not come back at once.
    pub(crate) fn failed(&mut self, failure: &Failure, base: Duration, share: f64) -> Duration {
        let Some(candidate) = self.candidates.get(self.at) else { return Duration::ZERO };
        let waits_long = failure.after.is_some_and(|after| after > LONGEST_PAUSE);
        let has_next = self.at + 1 < self.candidates.len();
        let repeats = failure.is_repeatable && self.tried <= candidate.retries && !(waits_long && has_next);
        if !repeats {
            self.at += 1;
            self.tried = 0;
            return Duration::ZERO;
        }
        let grown = base.saturating_mul(1 << (self.tried - 1).min(GROWTH)).min(LONGEST_PAUSE);
        let pause = grown.mul_f64(share.clamp(0.0, 1.0));
        failure.after.map_or(pause, |after| after.min(LONGEST_PAUSE).max(pause))
    }
}

/// A random number from 0 to 1. Without randomness it is 1: the longest pause.
pub(crate) fn share() -> f64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::tests::source;

    fn candidate(name: &'static str, retries: u32) -> Candidate {
        Candidate::new(source(name)).retried(retries)
    }

    fn served() -> ServedModel {
        let then = vec![candidate("b", 0), candidate("c", 1)];
        ServedModel { alias: "m".into(), first: candidate("a", 2), then, routing: None }
    }

    fn failure(is_repeatable: bool, after: Option<u64>) -> Failure {
        Failure { why: String::new(), is_repeatable, after: after.map(Duration::from_secs) }
    }

    /// The names of the candidates that are asked, and the pauses in milliseconds before each, while all fail in one way.
    fn walk(served: &ServedModel, failure: &Failure) -> Vec<(String, u64)> {
        let mut attempts = Attempts::new(served, |_| true, 0);
        let (mut seen, mut pause) = (Vec::new(), Duration::ZERO);
        while let Some((candidate, goes_on)) = attempts.next() {
            seen.push((candidate.source.identity().model, pause.as_millis() as u64));
            pause = attempts.failed(failure, Duration::from_millis(100), 0.5);
            assert_eq!(
                goes_on || !failure.is_repeatable,
                attempts.at < attempts.candidates.len() || !failure.is_repeatable
            );
        }
        seen
    }

    fn check(failure: &Failure, expect: &[(&str, u64)]) {
        let expect: Vec<(String, u64)> = expect.iter().map(|(name, pause)| ((*name).to_owned(), *pause)).collect();
        assert_eq!(walk(&served(), failure), expect, "{failure:?}");
    }

    #[test]
    fn candidates_are_asked_in_order_each_with_its_retries() {
        check(&failure(true, None), &[("a", 0), ("a", 50), ("a", 100), ("b", 0), ("c", 0), ("c", 50)]);
        check(&failure(false, None), &[("a", 0), ("b", 0), ("c", 0)]);
        check(&failure(true, Some(1)), &[("a", 0), ("a", 1000), ("a", 1000), ("b", 0), ("c", 0), ("c", 1000)]);
        // One that wants a long pause is left for the next one; the last one is asked again all the same.
        check(&failure(true, Some(60)), &[("a", 0), ("b", 0), ("c", 0), ("c", 5000)]);
    }

    #[test]
    fn a_candidate_that_failed_lately_is_left_out_while_another_is_there() {
        let served = served();
        let first = |served: &ServedModel, now_us| {
            let mut attempts = Attempts::new(served, |_| true, now_us);
            attempts.next().map(|(candidate, _)| candidate.source.identity().model)
        };
        (0..5).for_each(|at| assert_eq!(served.first.health.failed(at), at == 4));
        assert_eq!(first(&served, 10).as_deref(), Some("b"));
        assert_eq!(first(&served, 31_000_000).as_deref(), Some("a"), "after its rest");
        assert_eq!(first(&served, 31_000_000).as_deref(), Some("b"), "one request tries it");
        let alone = ServedModel { then: Vec::new(), ..served };
        assert_eq!(first(&alone, 10).as_deref(), Some("a"), "there is no other");
    }

    #[test]
    fn candidates_that_cannot_take_the_request_are_left_out() {
        let served = served();
        let mut attempts = Attempts::new(&served, |candidate| candidate.retries == 1, 0);
        assert_eq!(
            attempts.next().map(|(candidate, goes_on)| (candidate.source.identity().model, goes_on)),
            Some(("c".into(), true))
        );
        assert!(Attempts::new(&served, |_| false, 0).next().is_none());
    }
}
