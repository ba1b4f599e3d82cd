//! Sums over users: what the sessions of one factor (an entry, or a version) say so far.

use super::baseline::{Arm, Context};
use super::feedback::{FeedbackSums, Given};
use crate::symmetric::Symmetric;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Assumed correlation of two sessions of one user. It only sets the weights: a user with n sessions weighs `n / (1 + (n - 1) 0.1)`, so that
/// no user weighs more than ten sessions, however many there are. The standard error holds whatever the correlation is. In simulations 0 lets
/// a few users decide, and 1 wastes most of their sessions; 0.1 has the most power, with effects that differ between users or not.
const CORRELATION: f64 = 0.1;

/// Most users of one entry or version. They take some megabytes, and give an effect to about a hundredth of reward: less is of no use. Sessions of
/// later users are counted and ignored: who comes first is known before the draw.
pub const MOST_USERS: usize = 50_000;

/// The weight of a user with this many sessions, in sessions.
fn weight(sessions: f64) -> f64 {
    if sessions > 0.0 { sessions / (1.0 + (sessions - 1.0) * CORRELATION) } else { 0.0 }
}

/// Weights, summed over users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Weights {
    pub(super) total: f64,
    squares: f64,
}

impl Weights {
    /// Changes the weight of a user.
    fn change(&mut self, from: f64, to: f64) {
        self.total += to - from;
        self.squares += to * to - from * from;
    }

    /// The number of users with equal weights that would say as much (Kish 1965).
    pub(super) fn users(&self) -> f64 {
        if self.squares > 0.0 { self.total * self.total / self.squares } else { 0.0 }
    }
}

/// What was drawn for a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drawn {
    pub(super) shown: bool,
    /// Probability of being shown.
    pub(super) probability: f64,
}

/// One user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct User {
    /// Sessions with feedback that were shown the factor.
    shown: u32,
    /// Those that were not.
    hidden: u32,
    /// Sum of the scores of the shown arm, over all sessions with feedback.
    shown_scores: f64,
    /// The same for the other arm.
    hidden_scores: f64,
    given: Given,
}

impl User {
    fn weight(&self) -> f64 {
        weight(f64::from(self.shown) + f64::from(self.hidden))
    }

    /// The weight times (mean score of the shown arm, of the other arm, 1).
    fn row(&self) -> [f64; 3] {
        let weight = self.weight();
        let sessions = (f64::from(self.shown) + f64::from(self.hidden)).max(1.0);
        [weight * self.shown_scores / sessions, weight * self.hidden_scores / sessions, weight]
    }
}

/// All users of a factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Factor {
    shown_arm: Arm,
    hidden_arm: Arm,
    users: BTreeMap<u64, User>,
    pub(super) all: Weights,
    pub(super) shown: Weights,
    pub(super) hidden: Weights,
    /// Weighted sums of the users' mean scores.
    pub(super) shown_scores: f64,
    pub(super) hidden_scores: f64,
    /// Products of the users' rows.
    pub(super) squares: Symmetric,
    pub(super) feedback: FeedbackSums,
    /// Sessions of users beyond [`MOST_USERS`].
    pub(super) refused: u64,
}

impl Default for Factor {
    fn default() -> Self {
        Self {
            shown_arm: Arm::default(),
            hidden_arm: Arm::default(),
            users: BTreeMap::new(),
            all: Weights::default(),
            shown: Weights::default(),
            hidden: Weights::default(),
            shown_scores: 0.0,
            hidden_scores: 0.0,
            squares: Symmetric::zeros(3),
            feedback: FeedbackSums::default(),
            refused: 0,
        }
    }
}

impl Factor {
    /// Adds a session, with its reward and what was known before the draw if there was feedback.
    pub(super) fn observe(&mut self, user: u64, drawn: Drawn, rewarded: Option<(&Context, f64)>) {
        if self.users.len() >= MOST_USERS && !self.users.contains_key(&user) {
            self.refused += 1;
            return;
        }
        let sums = self.users.entry(user).or_default();
        self.feedback.observe(&mut sums.given, drawn, rewarded.is_some());
        let Some((context, reward)) = rewarded else { return };
        let before = *sums;
        // Augmented inverse propensity: both have the mean reward of their arm as expectation, whatever was predicted.
        let (expected_shown, expected_hidden) = (self.shown_arm.predict(context), self.hidden_arm.predict(context));
        sums.shown_scores += expected_shown;
        sums.hidden_scores += expected_hidden;
        if drawn.shown {
            sums.shown += 1;
            sums.shown_scores += (reward - expected_shown) / drawn.probability;
            self.shown_arm.observe(context, reward);
        } else {
            sums.hidden += 1;
            sums.hidden_scores += (reward - expected_hidden) / (1.0 - drawn.probability);
            self.hidden_arm.observe(context, reward);
        }
        let after = *sums;
        self.replace(&before, &after);
    }

    fn replace(&mut self, before: &User, after: &User) {
        self.all.change(before.weight(), after.weight());
        self.shown.change(weight(f64::from(before.shown)), weight(f64::from(after.shown)));
        self.hidden.change(weight(f64::from(before.hidden)), weight(f64::from(after.hidden)));
        for (user, factor) in [(before, -1.0), (after, 1.0)] {
            let row = user.row();
            let [shown, hidden, _] = row;
            self.shown_scores += factor * shown;
            self.hidden_scores += factor * hidden;
            self.squares.add_square(&row, factor);
        }
    }
}
