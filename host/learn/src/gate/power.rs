//! What a comparison of this length can find.

use super::martingale::{Martingale, ln_mean_exp};

/// The power that is asked for: a candidate with the smallest lift is promoted with this probability.
const POWER: f64 = 0.8;

/// Up to so many pairs that differ are followed one by one. What takes more is scaled: what can be found shrinks with
/// the root of their number.
const FOLLOWED: usize = 1_000;

/// Halvings of the interval in which the share of wins is sought: to a thousandth.
const HALVINGS: usize = 12;

/// What pairs were like so far.
pub(super) struct Observed {
    /// Share of pairs that differ, over 0.
    pub(super) discordant: f64,
    /// Root of the mean square of their difference.
    pub(super) size: f64,
}

/// The smallest lift that `pairs` pairs find with a probability of 80 %, looking after each. None where even winning
/// every pair that differs would not be found.
///
/// It is worked out for pairs that differ as often as so far, always by the same size. The course of wins and losses is
/// followed exactly; the number of pairs that differ is taken to be what is expected.
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

/// After each number of pairs that differ, from 1: how many of them must be won for the threshold; more than there are:
/// no number is enough.
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
        // More wins, more wealth: halve the range.
        let (mut low, mut high) = (0, pairs + 1);
        while low < high {
            let middle = (low + high) / 2;
            if reached(middle, pairs) { high = middle } else { low = middle + 1 }
        }
        low
    };
    (1..=discordant).map(fewest).collect()
}

/// The probability that wins, each of probability `win`, ever are as many as needed.
fn promoted(needed: &[usize], win: f64) -> f64 {
    // By number of wins: the probability to have it, and not to have been promoted.
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
