//! Shadow answers: what a judge prefers, if the same request is answered with a lesson on trial and without it, and nobody sees either answer.
//!
//! Both answers are new, of the same model at about the same time, and the judge does not know which is which: their order is drawn. If the lesson changes
//! nothing, the two are exchangeable, whatever the judge likes and whatever was seen before. So wins and losses are fair coins, and the wealth of a
//! gambler who bets on the wins ([`Martingale`]) is an e-value: it holds exactly, however often one looks, and also if one user has many sessions.
//!
//! A preference of a judge is no reward: what people say decides. Nothing here promotes a lesson.

use crate::gate::Martingale;
use crate::normal::interval_of_few;
use serde::{Deserialize, Serialize};

/// Pairs from which an interval has the width of its own number: with fewer, Student's t is not to be trusted.
const FEW_PAIRS: f64 = 10.0;
/// The range of a preference: from -1 to 1.
const RANGE: f64 = 2.0;

/// Which of two answers a judge prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preference {
    /// The one with the lesson.
    With,
    /// The one without it.
    Without,
    /// Neither: they are equally good.
    Neither,
}

/// Preferences so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShadowTally {
    /// Pairs of which the answer with the lesson is better.
    pub with: u64,
    /// Pairs of which the answer without it is better.
    pub without: u64,
    /// Pairs of equally good answers.
    pub neither: u64,
}

/// What is known from shadow answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShadowEstimate {
    /// Mean preference for the lesson: 1 if it always wins, -1 if it always loses.
    pub preference: f64,
    /// 95 % confidence sequence of it, asymptotic, for pairs that are independent.
    pub interval: (f64, f64),
    /// E-value of the lesson winning more often than losing. It holds exactly.
    pub better: f64,
    /// E-value of its losing more often, likewise.
    pub worse: f64,
}

impl ShadowTally {
    /// Adds a pair.
    pub fn observe(&mut self, preference: Preference) {
        let count = match preference {
            Preference::With => &mut self.with,
            Preference::Without => &mut self.without,
            Preference::Neither => &mut self.neither,
        };
        *count = count.saturating_add(1);
    }

    /// Pairs so far.
    pub fn pairs(&self) -> u64 {
        self.with.saturating_add(self.without).saturating_add(self.neither)
    }

    /// What is known. `None`: there is no pair.
    pub fn estimate(&self) -> Option<ShadowEstimate> {
        let pairs = Some(self.pairs()).filter(|pairs| *pairs > 0)? as f64;
        let (with, without) = (self.with as f64, self.without as f64);
        let preference = (with - without) / pairs;
        let variance = ((with + without) / pairs - preference * preference).max(0.0);
        // The floor of live estimates: what one pair changes, since few pairs may agree by chance.
        let standard_error = (variance / pairs + (RANGE / pairs).powi(2)).sqrt();
        let (low, high) = interval_of_few(preference, standard_error, pairs.max(FEW_PAIRS) - 1.0);
        let e_value = |wins: u64, losses: u64| Martingale::Binary { wins, losses }.value();
        Some(ShadowEstimate {
            preference,
            interval: (low.max(-1.0), high.min(1.0)),
            better: e_value(self.with, self.without),
            worse: e_value(self.without, self.with),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(preferences: impl IntoIterator<Item = Preference>) -> ShadowTally {
        let mut tally = ShadowTally::default();
        preferences.into_iter().for_each(|preference| tally.observe(preference));
        tally
    }

    #[test]
    fn without_a_pair_nothing_is_known() {
        assert_eq!(ShadowTally::default().estimate(), None);
        let one = of([Preference::With]).estimate().unwrap();
        assert_eq!((one.preference, one.interval), (1.0, (-1.0, 1.0)), "one pair says nothing");
    }

    #[test]
    fn a_judge_that_always_prefers_one_side_is_evidence() {
        let check = |preference: Preference, expect: f64| {
            let found = of(std::iter::repeat_n(preference, 30)).estimate().unwrap();
            let (low, high) = found.interval;
            assert_eq!(found.preference, expect);
            assert!(low <= expect && expect <= high && (low > 0.0) == (expect > 0.0) && (high < 0.0) == (expect < 0.0));
            let (for_it, against) =
                if expect < 0.0 { (found.worse, found.better) } else { (found.better, found.worse) };
            match expect == 0.0 {
                true => assert_eq!((for_it, against), (1.0, 1.0), "equal answers are no evidence"),
                false => assert!(for_it > 1e6 && against < 0.1, "{found:?}"),
            }
        };
        check(Preference::With, 1.0);
        check(Preference::Without, -1.0);
        check(Preference::Neither, 0.0);
    }

    /// SplitMix64.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    #[test]
    fn a_judge_that_answers_at_random_is_seldom_evidence_at_any_look() {
        const RUNS: u32 = 1_000;
        let (mut state, mut found, mut missed) = (7, 0, 0);
        for _ in 0..RUNS {
            let mut tally = ShadowTally::default();
            let (mut is_found, mut is_missed) = (false, false);
            for _ in 0..300 {
                tally.observe(match next(&mut state) % 5 {
                    0 | 1 => Preference::With,
                    2 | 3 => Preference::Without,
                    _ => Preference::Neither,
                });
                let now = tally.estimate().unwrap();
                is_found |= now.better >= 20.0;
                is_missed |= !(now.interval.0..=now.interval.1).contains(&0.0);
            }
            found += u32::from(is_found);
            missed += u32::from(is_missed);
        }
        // At most 5 % of the runs each, and three standard errors.
        assert!(found <= 70 && missed <= 70, "{found} {missed} of {RUNS}");
    }
}
