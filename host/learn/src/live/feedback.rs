//! How often sessions give feedback, by arm.

use super::sums::Drawn;
use crate::symmetric::Symmetric;
use serde::{Deserialize, Serialize};

/// Standard errors by which the feedback rates of the arms may differ. Beyond it the arms lose different sessions, and no decision is taken:
/// 3 come up by chance in 3 of 1,000 looks.
pub const MOST_DIFFERENCE: f64 = 3.0;

/// The sessions of a user, each counted by the inverse of the probability of its draw: a propensity that changes over time, as feedback does,
/// would look like a difference between the arms otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Given {
    shown: f64,
    shown_given: f64,
    hidden: f64,
    hidden_given: f64,
}

impl Given {
    fn row(&self) -> [f64; 4] {
        [self.shown_given, self.shown, self.hidden_given, self.hidden]
    }
}

/// The sums over users.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct FeedbackSums {
    sums: Given,
    /// Products of the users' rows.
    squares: Symmetric,
    pub(super) shown_sessions: u64,
    pub(super) hidden_sessions: u64,
    pub(super) shown_given: u64,
    pub(super) hidden_given: u64,
}

impl Default for FeedbackSums {
    fn default() -> Self {
        Self {
            sums: Given::default(),
            squares: Symmetric::zeros(4),
            shown_sessions: 0,
            hidden_sessions: 0,
            shown_given: 0,
            hidden_given: 0,
        }
    }
}

/// The difference of the shares of sessions that gave feedback.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FeedbackDifference {
    /// Share of the shown sessions that gave feedback, 0 to 1.
    pub shown: f64,
    /// Share of the others.
    pub hidden: f64,
    /// Standard error of the difference, with users as clusters; greater than 0.
    pub standard_error: f64,
}

impl FeedbackDifference {
    /// Whether it is above [`MOST_DIFFERENCE`] standard errors.
    pub fn blocks(&self) -> bool {
        (self.shown - self.hidden).abs() > MOST_DIFFERENCE * self.standard_error
    }
}

impl FeedbackSums {
    /// Adds a session to the sums and to those of its user.
    pub(super) fn observe(&mut self, user: &mut Given, drawn: Drawn, given: bool) {
        self.squares.add_square(&user.row(), -1.0);
        let (inverse, counted) = match drawn.shown {
            true => (1.0 / drawn.probability, u64::from(given)),
            false => (1.0 / (1.0 - drawn.probability), u64::from(given)),
        };
        for sums in [&mut *user, &mut self.sums] {
            let (all, with) = match drawn.shown {
                true => (&mut sums.shown, &mut sums.shown_given),
                false => (&mut sums.hidden, &mut sums.hidden_given),
            };
            *all += inverse;
            *with += inverse * counted as f64;
        }
        self.squares.add_square(&user.row(), 1.0);
        let (sessions, with) = match drawn.shown {
            true => (&mut self.shown_sessions, &mut self.shown_given),
            false => (&mut self.hidden_sessions, &mut self.hidden_given),
        };
        *sessions += 1;
        *with += counted;
    }

    /// The rates of the arms; their standard error is that of a difference of ratios, linearised, with users as clusters. It has a floor: one
    /// session of the smaller arm.
    pub(super) fn difference(&self) -> FeedbackDifference {
        let share = |given: f64, all: f64| if all > 0.0 { given / all } else { 0.0 };
        let Given { shown, shown_given, hidden, hidden_given } = self.sums;
        let (rate_shown, rate_hidden) = (share(shown_given, shown), share(hidden_given, hidden));
        let (shown, hidden) = (shown.max(1.0), hidden.max(1.0));
        let row = [1.0 / shown, -rate_shown / shown, -1.0 / hidden, rate_hidden / hidden];
        let floor = 1.0 / self.shown_sessions.min(self.hidden_sessions).max(1) as f64;
        let standard_error = (self.squares.quadratic(&row).max(0.0) + floor * floor).sqrt();
        FeedbackDifference { shown: rate_shown, hidden: rate_hidden, standard_error }
    }
}
