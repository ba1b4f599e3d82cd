//! Tracks the values of rewards: the gate uses binary bets for two values and graded bets for more.

use clawhost_learn::gate::Form;
use serde::{Deserialize, Serialize};

/// Reward values seen so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum RewardScale {
    /// At most two values.
    Few(Vec<f64>),
    /// More than two values.
    Many,
}

impl Default for RewardScale {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl RewardScale {
    /// Adds a reward; returns whether the form changed.
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

    /// The form of the bets.
    pub(crate) fn form(&self) -> Form {
        match self {
            Self::Few(_) => Form::Binary,
            Self::Many => Form::Graded,
        }
    }

    /// A difference scaled to -1 to 1: for two values its sign, otherwise its share of the rewards' `range`.
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
    /// The reward difference that corresponds to a scaled difference of 1.
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
    fn two_values_give_binary_differences_and_a_third_changes_the_form() {
        let mut values = RewardScale::default();
        assert!(!values.add(0.0) && !values.add(1.0) && !values.add(1.0));
        assert_eq!(values.form(), Form::Binary);
        assert_eq!((values.difference(0.0, 1.0, 2.0), values.difference(1.0, 0.0, 2.0)), (1.0, -1.0));
        assert!(values.add(0.5), "the form has changed");
        assert!(!values.add(0.25), "it changes once");
        assert_eq!(values.difference(0.0, 0.5, 2.0), 0.25);
    }
}
