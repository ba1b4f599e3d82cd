//! The lift that a comparison of a given length can detect.

use super::martingale::{Martingale, ln_mean_exp};

/// The power: a candidate with the smallest lift is promoted with this probability.
pub(super) const POWER: f64 = 0.8;

/// Up to this many pairs that differ are computed one by one. Larger numbers are scaled: the detectable lift shrinks
/// with the square root of their number.
const FOLLOWED: usize = 1_000;

/// Bisection steps for the share of wins: a precision of a thousandth.
const HALVINGS: usize = 12;

/// The pairs so far.
pub(super) struct Observed {
    /// Share of pairs that differ, over 0.
    pub(super) discordant: f64,
    /// Root mean square of their difference.
    pub(super) size: f64,
}

/// The smallest lift that `pairs` pairs detect with a probability of 80 %, with a look after each pair. `None` if even
/// winning every pair that differs would not be detected.
///
/// It assumes that pairs differ as often as so far, always by the same amount. The sequence of wins and losses is
/// computed exactly; the number of pairs that differ is set to its expectation.
pub(super) fn smallest_lift(
    martingale: &Martingale,
    observed: &Observed,
    pairs: u64,
    ln_threshold: f64,
) -> Option<f64> {
    let expected = (observed.discordant * pairs as f64).round() as usize;
    let followed = expected.min(FOLLOWED);
    let needed = wins_needed(martingale, observed, followed, ln_threshold);
    if promoted(&needed, 1.0) < POWER {
        return None;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        *if promoted(&needed, middle) < POWER { &mut low } else { &mut high } = middle;
    }
    let lift = observed.discordant * observed.size * (2.0 * high - 1.0);
    Some((lift + martingale.margin()) * (followed as f64 / expected as f64).sqrt() - martingale.margin())
}

/// For each number of pairs that differ, from 1: the number of wins that reaches the threshold. A value above the
/// number of pairs: no number of wins does.
fn wins_needed(martingale: &Martingale, observed: &Observed, discordant: usize, ln_threshold: f64) -> Vec<usize> {
    let factors = |d: f64| martingale.ln_factors(d);
    let (win, loss, draw) = (factors(observed.size), factors(-observed.size), factors(0.0));
    let draws_between = (1.0 - observed.discordant) / observed.discordant;
    let reached = |wins: usize, pairs: usize| {
        let bets = win.iter().zip(&loss).zip(&draw).map(|((win, loss), draw)| {
            wins as f64 * win + (pairs - wins) as f64 * loss + pairs as f64 * draws_between * draw
        });
        ln_mean_exp(bets) >= ln_threshold
    };
    let fewest = |pairs: usize| {
        // More wins give more wealth: bisect.
        let (mut low, mut high) = (0, pairs + 1);
        while low < high {
            let middle = (low + high) / 2;
            if reached(middle, pairs) { high = middle } else { low = middle + 1 }
        }
        low
    };
    (1..=discordant).map(fewest).collect()
}

/// The probability that wins, each with probability `win`, ever reach the needed number.
fn promoted(needed: &[usize], win: f64) -> f64 {
    // By number of wins: the probability of that number without an earlier promotion.
    let mut open = vec![1.0];
    let mut promoted = 0.0;
    for needed in needed {
        let mut next = vec![0.0; open.len() + 1];
        next.iter_mut().zip(&open).for_each(|(cell, before)| *cell += before * (1.0 - win));
        next.iter_mut().skip(1).zip(&open).for_each(|(cell, before)| *cell += before * win);
        promoted += next.iter().skip(*needed).sum::<f64>();
        next.truncate(*needed);
        open = next;
    }
    promoted
}
