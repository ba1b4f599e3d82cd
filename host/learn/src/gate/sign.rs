//! The exact sign test at known looks, for comparisons whose number of pairs is planned.
//!
//! Without an effect, each pair that differs is a fair coin, whatever the number of such pairs. So the probability of every number of wins
//! is known exactly, and so is that of having passed an earlier look. A share `(n/N)^2` of alpha is spent up to the look after `n` of `N`
//! pairs (a power family: Lan and DeMets 1983, Kim and DeMets 1987): early looks cost little. With a fixed number of pairs it finds smaller
//! lifts than a bet that may go on for ever.

use serde::{Deserialize, Serialize};

/// Parts of a plan after which there is a look. More looks save few pairs and cost power.
const LOOKS: u64 = 2;

/// The pairs after which the evidence is looked at, in ascending order; the last one is the whole plan.
pub fn looks(pairs: u64) -> Vec<u64> {
    let mut looks: Vec<u64> = (1..=LOOKS).map(|look| (pairs * look).div_ceil(LOOKS)).filter(|look| *look > 0).collect();
    looks.dedup();
    looks
}

/// A sign test in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignTest {
    /// Probability of passing without an effect, over all looks.
    alpha: f64,
    /// The planned pairs.
    planned: u64,
    /// Differing pairs up to the last look.
    followed: u64,
    /// Without an effect: the probability of each number of wins among them, of comparisons that passed no look.
    open: Vec<f64>,
    /// The probability of having passed.
    spent: f64,
    has_passed: bool,
}

impl SignTest {
    /// A test before its first pair. `alpha`: between 0 and 1.
    pub fn new(alpha: f64, planned: u64) -> Self {
        Self { alpha, planned, followed: 0, open: vec![1.0], spent: 0.0, has_passed: false }
    }

    /// Looks at the evidence after `pairs` pairs, of which `wins` were won and `losses` lost; returns whether the candidate passes. Only
    /// the planned looks may be taken, in their order. A later look does not take back an earlier one.
    pub fn look(&mut self, pairs: u64, wins: u64, losses: u64) -> bool {
        let differing = wins.saturating_add(losses);
        for _ in self.followed..differing {
            self.open = tossed(&self.open);
        }
        self.followed = self.followed.max(differing);
        let needed = self.needed(pairs);
        self.spent += self.open.iter().skip(needed).sum::<f64>();
        self.open.truncate(needed);
        self.has_passed |= usize::try_from(wins).unwrap_or(usize::MAX) >= needed;
        self.has_passed
    }

    /// The fewest wins that pass at this look.
    fn needed(&self, pairs: u64) -> usize {
        let share = (pairs as f64 / self.planned.max(1) as f64).min(1.0);
        let may_spend = self.alpha * share * share - self.spent;
        let mut tail = 0.0;
        let mut needed = self.open.len();
        for (wins, probability) in self.open.iter().enumerate().rev() {
            tail += probability;
            if tail > may_spend {
                break;
            }
            needed = wins;
        }
        needed
    }

    /// Probability of passing without an effect.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Whether the candidate passed a look.
    pub fn has_passed(&self) -> bool {
        self.has_passed
    }
}

/// The distribution of wins after one more fair coin.
fn tossed(open: &[f64]) -> Vec<f64> {
    let mut next = vec![0.0; open.len() + 1];
    next.iter_mut().zip(open).for_each(|(cell, before)| *cell += before / 2.0);
    next.iter_mut().skip(1).zip(open).for_each(|(cell, before)| *cell += before / 2.0);
    next
}

/// The probability that a candidate passes within `pairs` planned pairs, if a pair is won with probability `win` and lost with `loss`.
/// Exact but for the first look, whose outcome is ignored: the test passes at the last look nearly always where it passes at an earlier
/// one, so this is a lower bound.
pub fn power(alpha: f64, pairs: u64, win: f64, loss: f64) -> f64 {
    let differ = (win + loss).clamp(0.0, 1.0);
    if differ <= 0.0 {
        return 0.0;
    }
    let won = (win / differ).clamp(0.0, 1.0);
    // What the earlier looks spend at most is not available at the last one.
    let early = looks(pairs).iter().rev().nth(1).map_or(0.0, |look| (*look as f64 / pairs as f64).powi(2));
    let rest = alpha * (1.0 - early);
    let (mut null, mut total) = (vec![1.0], 0.0);
    for differing in 0..=pairs {
        let mut tail = 0.0;
        let mut needed = null.len();
        for (wins, probability) in null.iter().enumerate().rev() {
            tail += probability;
            if tail > rest {
                break;
            }
            needed = wins;
        }
        let passes = upper_tail(differing, won, needed as u64);
        total += binomial(pairs, differ, differing) * passes;
        null = tossed(&null);
    }
    total
}

/// The smallest lift that passes with a probability of `power`, if a share `loss` of the pairs is lost. `None`: no lift does.
pub fn smallest_lift(alpha: f64, pairs: u64, loss: f64, wanted: f64) -> Option<f64> {
    /// A precision of a thousandth.
    const HALVINGS: usize = 10;
    let most = 1.0 - loss;
    if power(alpha, pairs, most, loss) < wanted {
        return None;
    }
    let (mut low, mut high) = (loss, most);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        *if power(alpha, pairs, middle, loss) < wanted { &mut low } else { &mut high } = middle;
    }
    Some(high - loss)
}

/// The probability of `times` successes in `n`.
fn binomial(n: u64, p: f64, times: u64) -> f64 {
    if p <= 0.0 || p >= 1.0 {
        return f64::from(u8::from(times == if p >= 1.0 { n } else { 0 }));
    }
    let choose: f64 = (1..=times).map(|one| ((n - times + one) as f64 / one as f64).ln()).sum();
    (choose + times as f64 * p.ln() + (n - times) as f64 * (1.0 - p).ln()).exp()
}

/// The probability of at least `from` successes in `n`.
fn upper_tail(n: u64, p: f64, from: u64) -> f64 {
    (from..=n).map(|times| binomial(n, p, times)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The share of comparisons that pass, with wins and losses of these probabilities.
    fn passed(alpha: f64, pairs: u64, win: f64, loss: f64, runs: u64) -> f64 {
        let passes = |run: &u64| {
            let mut random = Random(run * 7 + pairs);
            let (mut test, mut wins, mut losses) = (SignTest::new(alpha, pairs), 0, 0);
            let looks = looks(pairs);
            (1..=pairs).for_each(|pair| {
                match random.uniform() {
                    below if below < win => wins += 1,
                    below if below < win + loss => losses += 1,
                    _ => {}
                }
                if looks.contains(&pair) {
                    test.look(pair, wins, losses);
                }
            });
            test.has_passed()
        };
        (0..runs).filter(passes).count() as f64 / runs as f64
    }

    #[test]
    fn the_last_look_is_the_whole_plan() {
        let check = |pairs: u64, expect: &[u64]| assert_eq!(looks(pairs), expect, "{pairs}");
        check(16, &[8, 16]);
        check(17, &[9, 17]);
        check(1, &[1]);
        check(0, &[]);
    }

    #[test]
    fn a_single_look_is_the_textbook_test() {
        let check = |wins: u64, losses: u64, expect: bool| {
            let mut test = SignTest::new(0.05, 16);
            assert_eq!(test.look(16, wins, losses), expect, "{wins} to {losses}");
        };
        // 5 of 5: 1/32; 7 of 8: 9/256; 6 of 7: 8/128.
        check(5, 0, true);
        check(4, 0, false);
        check(7, 1, true);
        check(6, 1, false);
        check(0, 0, false);
    }

    #[test]
    fn without_an_effect_it_passes_no_more_often_than_promised() {
        for (alpha, pairs) in [(0.03, 16), (0.03, 34), (0.05, 64)] {
            for differ in [0.06, 0.3, 0.9] {
                let share = passed(alpha, pairs, differ / 2.0, differ / 2.0, 8_000);
                // Three standard errors.
                assert!(share <= alpha + 3.0 * (alpha / 8_000.0).sqrt(), "{alpha} {pairs} {differ}: {share}");
            }
        }
    }

    #[test]
    fn the_power_is_a_close_lower_bound() {
        for (pairs, win, loss) in [(16, 0.44, 0.03), (25, 0.4, 0.03), (64, 0.2, 0.05), (64, 0.03, 0.03)] {
            let (expected, share) = (power(0.03, pairs, win, loss), passed(0.03, pairs, win, loss, 4_000));
            let noise = 3.0 * (share * (1.0 - share) / 4_000.0).sqrt();
            assert!((expected - noise..expected + noise + 0.05).contains(&share), "{pairs} {win}: {expected} {share}");
        }
    }

    #[test]
    fn more_pairs_find_smaller_lifts() {
        let found: Vec<f64> = [16, 25, 64].iter().filter_map(|pairs| smallest_lift(0.03, *pairs, 0.03, 0.8)).collect();
        assert!(found.len() == 3 && found.is_sorted_by(|one, next| one > next), "{found:?}");
        assert_eq!(smallest_lift(0.03, 3, 0.03, 0.8), None, "three wins of three are chance");
    }

    #[test]
    fn an_earlier_pass_stays() {
        let mut test = SignTest::new(0.05, 20);
        assert!(test.look(10, 9, 0));
        assert!(test.look(20, 9, 9) && test.has_passed());
    }
}
