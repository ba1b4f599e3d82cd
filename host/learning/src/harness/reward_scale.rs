//! Which values rewards take: two of them are bet on in another form than many.

use clawhost_learn::gate::Form;
use serde::{Deserialize, Serialize};

/// Rewards seen so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum RewardScale {
    /// At most two.
    Few(Vec<f64>),
    /// More.
    Many,
}

impl Default for RewardScale {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl RewardScale {
    /// Takes note of a reward; says whether the form has changed with it.
    pub(crate) fn add(&mut self, value: f64) -> bool {
        let before = self.form();
        if let Self::Few(known) = self
            && !known.contains(&value)
        {
            known.push(value);
            if known.len() > 2 {
                *self = Self::Many;
            }
        }
        before != self.form()
    }

    /// The form of bets.
    pub(crate) fn form(&self) -> Form {
        match self {
            Self::Few(_) => Form::Binary,
            Self::Many => Form::Graded,
        }
    }

    /// A difference as it is bet on, -1 to 1: of two values the sign, else the share of the rewards' `range`.
    pub(crate) fn difference(&self, deployed: f64, proposed: f64, range: f64) -> f64 {
        let difference = proposed - deployed;
        match self {
            Self::Few(_) if difference == 0.0 => 0.0,
            Self::Few(_) => difference.signum(),
            Self::Many if range > 0.0 => (difference / range).clamp(-1.0, 1.0),
            Self::Many => 0.0,
        }
    }
}

impl RewardScale {
    /// What a difference of 1, as it is bet on, is in units of reward.
    pub(crate) fn scale(&self, range: f64) -> f64 {
        match self {
            Self::Few(known) => {
                let (low, high) = known
                    .iter()
                    .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
                if high > low { high - low } else { range }
            }
            Self::Many => range,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_values_are_won_or_lost_and_a_third_changes_the_form() {
        let mut values = RewardScale::default();
        assert!(!values.add(0.0) && !values.add(1.0) && !values.add(1.0));
        assert_eq!(values.form(), Form::Binary);
        assert_eq!((values.difference(0.0, 1.0, 2.0), values.difference(1.0, 0.0, 2.0)), (1.0, -1.0));
        assert!(values.add(0.5), "the form has changed");
        assert!(!values.add(0.25), "and changes once");
        assert_eq!(values.difference(0.0, 0.5, 2.0), 0.25);
    }
}
