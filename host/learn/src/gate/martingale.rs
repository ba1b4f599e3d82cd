//! The wealth of a gambler who bets on a candidate.

use crate::LearnError;
use crate::normal::LARGEST_EXPONENT;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// How much worse a candidate may be, in reward per episode, if it only has to be no worse.
pub const MARGIN: f64 = 0.02;

/// Number of values of theta, the share of wins among pairs that differ, that are bet on simultaneously. They are
/// evenly spaced between 1/2 and 1.
const THETAS: usize = 40;

/// Stakes that are bet simultaneously on graded differences. Large stakes detect large effects early; small effects
/// need small stakes.
const STAKES: [f64; 8] = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9];

/// The scale of rewards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// 0 or 1, so that a pair is won, lost or drawn: `d` is 1, -1 or 0.
    Binary,
    /// Any value, so that `d` is any number from -1 to 1.
    Graded,
}

/// The question about a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Is it better?
    Better,
    /// Is it no worse, to within [`MARGIN`]? For a candidate that only shortens, merges, reorders or removes. The bet
    /// is on `d` + margin, always in the graded form.
    NotWorse,
}

/// The wealth of a gambler who starts with 1, at odds that are fair if the candidate is no better. It stores only sums,
/// so the order of pairs does not matter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Martingale {
    /// Bets on the winner: the mean over theta of `(2 theta)^wins (2 (1 - theta))^losses`.
    Binary {
        /// Pairs that the candidate won.
        wins: u64,
        /// Pairs that it lost.
        losses: u64,
    },
    /// Bets on the difference: the mean over stakes of the product of `1 + stake (d + margin)`.
    Graded {
        /// Added to each difference. 0 unless the question is [`Question::NotWorse`].
        margin: f64,
        /// Number of the smallest stake that is bet.
        #[serde(default)]
        least: usize,
        /// Logarithm of the product, for each stake on the candidate.
        on: [f64; STAKES.len()],
        /// The same for stakes against it: of `1 - stake (d + margin)`.
        against: [f64; STAKES.len()],
    },
}

impl Martingale {
    /// The wealth before the first pair.
    pub fn new(form: Form, question: Question) -> Self {
        let graded = |margin| Self::Graded { margin, least: 0, on: [0.0; STAKES.len()], against: [0.0; STAKES.len()] };
        match (question, form) {
            (Question::NotWorse, _) => graded(MARGIN),
            (Question::Better, Form::Graded) => graded(0.0),
            (Question::Better, Form::Binary) => Self::Binary { wins: 0, losses: 0 },
        }
    }

    /// Bets only stakes that can reach this wealth within these pairs, if all of them were won: the others would take a share of the wealth and
    /// decide nothing. The largest stake is always bet. Call it before the first pair.
    pub(super) fn within(mut self, pairs: u64, ln_wealth: f64) -> Self {
        if let Self::Graded { least, .. } = &mut self {
            let reaches = |stake: &f64| pairs as f64 * stake.ln_1p() >= ln_wealth;
            *least = STAKES.iter().position(reaches).unwrap_or(STAKES.len() - 1);
        }
        self
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// `d` is not a number from -1 to 1, or is fractional in the binary form. Nothing is changed.
    pub fn observe(&mut self, d: f64) -> Result<(), LearnError> {
        if !(-1.0..=1.0).contains(&d) {
            return Err(LearnError::Gate(format!("a difference of {d}; it must be between -1 and 1")));
        }
        match self {
            Self::Binary { wins, .. } if d == 1.0 => *wins += 1,
            Self::Binary { losses, .. } if d == -1.0 => *losses += 1,
            Self::Binary { .. } if d == 0.0 => {}
            Self::Binary { .. } => {
                return Err(LearnError::Gate(format!("a difference of {d} of rewards 0 or 1; use the graded form")));
            }
            Self::Graded { margin, on, against, .. } => {
                let d = d + *margin;
                on.iter_mut().zip(STAKES).for_each(|(log, stake)| *log += (stake * d).ln_1p());
                against.iter_mut().zip(STAKES).for_each(|(log, stake)| *log += (-stake * d).ln_1p());
            }
        }
        Ok(())
    }

    /// The logarithm of the wealth.
    pub fn ln_value(&self) -> f64 {
        match self {
            Self::Binary { wins, losses } => ln_of_bets(*wins, *losses),
            Self::Graded { on, least, .. } => ln_mean_exp(on.iter().skip(*least).copied()),
        }
    }

    /// The logarithm of the wealth of a gambler who bets against the candidate.
    pub fn ln_mirror(&self) -> f64 {
        match self {
            Self::Binary { wins, losses } => ln_of_bets(*losses, *wins),
            Self::Graded { against, least, .. } => ln_mean_exp(against.iter().skip(*least).copied()),
        }
    }

    /// The wealth: above 0 and finite.
    pub fn value(&self) -> f64 {
        self.ln_value().min(LARGEST_EXPONENT).exp()
    }

    /// Added to each difference.
    pub(super) fn margin(&self) -> f64 {
        if let Self::Graded { margin, .. } = self { *margin } else { 0.0 }
    }

    /// The logarithms of the factors of all bets for a pair with this difference.
    pub(super) fn ln_factors(&self, d: f64) -> Vec<f64> {
        match self {
            Self::Binary { .. } if d > 0.0 => BETS.iter().map(|(win, _)| *win).collect(),
            Self::Binary { .. } if d < 0.0 => BETS.iter().map(|(_, loss)| *loss).collect(),
            Self::Binary { .. } => vec![0.0; THETAS],
            Self::Graded { margin, least, .. } => {
                STAKES.iter().skip(*least).map(|stake| (stake * (d + margin)).ln_1p()).collect()
            }
        }
    }
}

/// The logarithms of the factors of each theta for a win and for a loss.
static BETS: LazyLock<[(f64, f64); THETAS]> = LazyLock::new(|| {
    std::array::from_fn(|number| {
        let theta = 0.5 + 0.5 * (number + 1) as f64 / (THETAS + 1) as f64;
        ((2.0 * theta).ln(), (2.0 * (1.0 - theta)).ln())
    })
});

fn ln_of_bets(wins: u64, losses: u64) -> f64 {
    let (wins, losses) = (wins as f64, losses as f64);
    ln_mean_exp(BETS.iter().map(|(win, loss)| wins * win + losses * loss))
}

/// The logarithm of the mean, from logarithms: at least one, all finite.
pub(super) fn ln_mean_exp(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    let (count, sum) = logs.fold((0.0, 0.0), |(count, sum), log| (count + 1.0, sum + (log - largest).exp()));
    largest + (sum / count).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [(Form, Question); 3] =
        [(Form::Binary, Question::Better), (Form::Graded, Question::Better), (Form::Graded, Question::NotWorse)];

    fn after(form: Form, question: Question, differences: &[f64]) -> Martingale {
        let mut martingale = Martingale::new(form, question);
        differences.iter().for_each(|d| martingale.observe(*d).unwrap());
        martingale
    }

    #[test]
    fn wealth_matches_values_computed_by_hand() {
        let check = |form, question, differences: &[f64], expect: f64, mirror: f64| {
            let martingale = after(form, question, differences);
            let got = (martingale.value(), martingale.ln_mirror().exp());
            assert!((got.0 - expect).abs() < 1e-12 * expect.max(1.0), "{form:?} {differences:?}: {got:?}");
            assert!((got.1 - mirror).abs() < 1e-12 * mirror.max(1.0), "{form:?} {differences:?}: {got:?}");
        };
        let thetas = || (1..=40).map(|number| 0.5 + f64::from(number) / 82.0);
        check(Form::Binary, Question::Better, &[], 1.0, 1.0);
        check(Form::Binary, Question::Better, &[0.0, 0.0], 1.0, 1.0);
        // The mean of theta is 3/4.
        check(Form::Binary, Question::Better, &[1.0], 1.5, 0.5);
        let mean = thetas().map(|theta| 8.0 * theta * theta * (1.0 - theta)).sum::<f64>() / 40.0;
        let mirror = thetas().map(|theta| 8.0 * theta * (1.0 - theta).powi(2)).sum::<f64>() / 40.0;
        check(Form::Binary, Question::Better, &[1.0, 0.0, -1.0, 1.0], mean, mirror);
        // The mean stake is 2.82/8.
        check(Form::Graded, Question::Better, &[0.5], 1.0 + 0.5 * 0.3525, 1.0 - 0.5 * 0.3525);
        check(Form::Graded, Question::NotWorse, &[0.0], 1.0 + 0.02 * 0.3525, 1.0 - 0.02 * 0.3525);
        // Rewards of 0 and 1 use the same form.
        check(Form::Binary, Question::NotWorse, &[0.0], 1.0 + 0.02 * 0.3525, 1.0 - 0.02 * 0.3525);
    }

    #[test]
    fn with_few_pairs_only_stakes_that_can_decide_are_bet() {
        let check = |pairs, differences: &[f64], expect: f64| {
            let mut martingale = Martingale::new(Form::Graded, Question::Better).within(pairs, 33f64.ln());
            differences.iter().for_each(|d| martingale.observe(*d).unwrap());
            assert!((martingale.value() - expect).abs() < 1e-12, "{pairs}: {}", martingale.value());
        };
        // All stakes; from .35 on; the largest alone.
        check(512, &[0.5], 1.0 + 0.5 * 0.3525);
        check(16, &[0.5], 1.0 + 0.5 * 0.6125);
        check(2, &[0.5], 1.0 + 0.5 * 0.9);
        let both = |stake: f64| (1.0 + 0.5 * stake) * (1.0 - stake);
        check(16, &[0.5, -1.0], [0.35, 0.5, 0.7, 0.9].map(both).iter().sum::<f64>() / 4.0);
    }

    #[test]
    fn an_invalid_difference_is_refused_and_changes_nothing() {
        for (form, question) in ALL {
            let mut martingale = after(form, question, &[1.0, -1.0, 0.0]);
            let before = martingale.clone();
            for odd in [1.000_001, -1.5, f64::NAN, f64::INFINITY] {
                assert!(matches!(martingale.observe(odd), Err(LearnError::Gate(_))), "{odd}");
            }
            assert_eq!(martingale.observe(0.5).is_err(), matches!(martingale, Martingale::Binary { .. }));
            if form == Form::Binary {
                assert_eq!(martingale, before);
            }
        }
    }

    #[test]
    fn wealth_never_overflows() {
        for (form, question) in ALL {
            for d in [1.0, -1.0] {
                let martingale = after(form, question, &vec![d; 20_000]);
                assert!(martingale.value().is_finite() && martingale.ln_value().is_finite(), "{martingale:?}");
                assert!(martingale.ln_mirror().is_finite());
            }
        }
    }

    /// The mean wealth over all sequences of `pairs` pairs with these differences and their probabilities.
    fn mean_wealth(martingale: &Martingale, pairs: u32, outcomes: &[(f64, f64)], mirror: bool) -> f64 {
        if pairs == 0 {
            return if mirror { martingale.ln_mirror() } else { martingale.ln_value() }.exp();
        }
        let after = outcomes.iter().map(|(d, probability)| {
            let mut next = martingale.clone();
            next.observe(*d).unwrap();
            probability * mean_wealth(&next, pairs - 1, outcomes, mirror)
        });
        after.sum()
    }

    #[test]
    fn without_an_effect_the_mean_wealth_stays_1() {
        let check = |form, question, pairs, outcomes: &[(f64, f64)]| {
            for mirror in [false, true] {
                let mean = mean_wealth(&Martingale::new(form, question), pairs, outcomes, mirror);
                assert!((mean - 1.0).abs() < 1e-9, "{form:?} {question:?} {outcomes:?}: {mean}");
            }
        };
        let fair = [(1.0, 0.5), (-1.0, 0.5)];
        for pairs in 0..=12 {
            check(Form::Binary, Question::Better, pairs, &fair);
            check(Form::Graded, Question::Better, pairs, &fair);
            let few = Martingale::new(Form::Graded, Question::Better).within(16, 33f64.ln());
            assert!((mean_wealth(&few, pairs, &fair, false) - 1.0).abs() < 1e-9);
        }
        check(Form::Binary, Question::Better, 7, &[(1.0, 0.2), (-1.0, 0.2), (0.0, 0.6)]);
        check(Form::Graded, Question::Better, 7, &[(1.0, 0.2), (-0.5, 0.4), (0.0, 0.4)]);
        // Worse by the margin exactly: a mean of -0.02.
        check(Form::Graded, Question::NotWorse, 7, &[(1.0, 0.49), (-1.0, 0.51)]);
    }

    #[test]
    fn with_an_opposite_effect_the_mean_wealth_falls() {
        let check = |form, question, outcomes: &[(f64, f64)]| {
            let mean = mean_wealth(&Martingale::new(form, question), 8, outcomes, false);
            assert!(mean < 1.0, "{form:?} {question:?}: {mean}");
        };
        check(Form::Binary, Question::Better, &[(1.0, 0.45), (-1.0, 0.55)]);
        check(Form::Graded, Question::Better, &[(1.0, 0.45), (-1.0, 0.55)]);
        check(Form::Graded, Question::NotWorse, &[(1.0, 0.48), (-1.0, 0.52)]);
    }

    proptest! {
        #[test]
        fn the_order_of_pairs_changes_nothing(
            pairs in prop::collection::vec((-1.0..=1.0_f64, any::<u32>()), 0..200),
        ) {
            let mut mixed = pairs.clone();
            mixed.sort_by_key(|(_, key)| *key);
            for (form, question) in ALL {
                let fit = |(d, _): &(f64, u32)| if form == Form::Binary { d.round() } else { *d };
                let one = after(form, question, &pairs.iter().map(fit).collect::<Vec<_>>());
                let other = after(form, question, &mixed.iter().map(fit).collect::<Vec<_>>());
                prop_assert!((one.ln_value() - other.ln_value()).abs() < 1e-9);
                prop_assert!((one.ln_mirror() - other.ln_mirror()).abs() < 1e-9);
            }
        }

        #[test]
        fn exchanging_the_two_sides_mirrors_the_wealth(pairs in prop::collection::vec(-1..=1_i8, 0..100)) {
            let differences: Vec<f64> = pairs.iter().map(|d| f64::from(*d)).collect();
            let swapped: Vec<f64> = differences.iter().map(|d| -d).collect();
            for form in [Form::Binary, Form::Graded] {
                let one = after(form, Question::Better, &differences);
                let other = after(form, Question::Better, &swapped);
                prop_assert!((one.ln_value() - other.ln_mirror()).abs() < 1e-9);
            }
        }

        #[test]
        fn factors_multiply_to_the_wealth(pairs in prop::collection::vec(-1..=1_i8, 1..50)) {
            for (form, question) in ALL {
                let differences: Vec<f64> = pairs.iter().map(|d| f64::from(*d)).collect();
                let martingale = after(form, question, &differences);
                let factors: Vec<Vec<f64>> = differences.iter().map(|d| martingale.ln_factors(*d)).collect();
                let products = (0..factors[0].len()).map(|bet| factors.iter().map(|pair| pair[bet]).sum());
                prop_assert!((ln_mean_exp(products) - martingale.ln_value()).abs() < 1e-9);
            }
        }
    }
}
