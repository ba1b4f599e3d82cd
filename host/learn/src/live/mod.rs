//! Live sessions: the effect of an entry or of a new version, from sessions that are played once.
//!
//! Live traffic has neither groups nor pairs: a session is not played again to see what would have happened. So the host draws at random, when a
//! session starts, what it is shown ([`DrawSeed`]), records with what probability ([`Propensity`]), and compares. [`LiveCredit`] does so for many
//! entries at once, [`Concurrent`] for one new version, [`Plan`] says how many sessions that takes.
//!
//! **Score.** A session with reward `r` that was shown the entry (`A = 1`) with probability `p`, or was not (`A = 0`), has the score
//! `m1 - m0 + A (r - m1)/p - (1 - A)(r - m0)/(1 - p)` (augmented inverse propensity: Robins, Rotnitzky and Zhao 1994). `m1` and `m0` predict the
//! reward of each arm from what was known before the draw: a ridge regression on features and task class, with the deviation of each arm. They
//! use *earlier* sessions of *other* users only (users are divided in four parts; a part is predicted from the other three), so the expected
//! score is the effect however wrong they are, also where draws are made once per user. A good prediction only makes the score less
//! noisy. Predictions are kept on the scale of rewards; weights `1/p` are never clipped: propensities are bounded where they are drawn. A
//! propensity may change between sessions, also because of what was learned so far, if it is fixed before the draw.
//!
//! **Users are the observations.** Effects differ between users, and a user with a thousand sessions is still one user. Scores are averaged by
//! user; the effect is the weighted mean over users, with weight `n / (1 + 0.1 (n - 1))` for n sessions with feedback; its standard error is
//! from the squares of users' deviations (Liang and Zeger 1986), with the small-sample factor for the number of users. Quantiles are Student's t
//! with the users of the smaller arm, counted as equally heavy ones (Kish), minus one as degrees of freedom. With fewer than
//! [`DECIDABLE_USERS`] in either arm nothing is decided.
//!
//! **Evidence.** The e-value mixes over effects as in [`crate::credit`] (asymptotically normal, one-sided), and holds however often one
//! looks. The alternative is an exact bet on users' mean scores. It holds without any normality, but a user can be bet on only once (the score of
//! a later session is not fair given those before it, since the user's own effect shows in them), and stakes are limited by the largest
//! score, `1/p`. In simulations with 300 users, an effect of +0.2 and 300 sessions at `p = 1/2`, evidence of 10 comes up in 0.81 of the runs with the
//! mixture, in 0.48 with an exact bet on each user's first session, and in 0.19 with one on the first four; with 1,200 sessions at `p = 1/10` in
//! 0.95, 0.35 and 0.23. And the mixture keeps its promise in every world that was tried (`tests`): drift, 5 % feedback, feedback that depends on
//! the user, effects of +1 and -1, forty users with very different activity, rewards of which 97 % are equal, draws per user. An average over
//! the draws of a few users' sessions is not normal, which is why the least number of users and Student's t are there.
//!
//! **Missing feedback.** Only sessions with feedback have a score. That is valid if whether there is feedback depends on the user and on what is
//! known before the draw; the effect is then the mean over sessions that give feedback. Where it depends on arm and outcome together,
//! the data cannot tell; a decision therefore has to survive a bias of a given size ([`OddsRatio`], with the derivation), the report names the
//! size at which it falls ([`LiveEstimate::flip_point`]), and arms that give feedback differently often by three standard errors
//! block it ([`FeedbackDifference`]).
//!
//! ```
//! use clawhost_learn::live::{DrawSeed, Kind, LiveCredit, DrawnSession, LiveSettings, OddsRatio, Propensity, Scale};
//! use clawhost_learn::EntryId;
//! # fn main() -> Result<(), clawhost_learn::LearnError> {
//! let seed = DrawSeed::new(b"a secret of the host");
//! let mut credit = LiveCredit::new(LiveSettings { scale: Scale::Unit, features: 0, odds_ratio: OddsRatio::USUAL })?;
//! let entry = EntryId("ask for the order number first".into());
//! for number in 0..400_u64 {
//!     let (session, user) = (number.to_string(), number / 2);
//!     let unit = Kind::Rule.unit(&session, "the user's name");
//!     let draw = seed.draw(unit, entry.clone(), Propensity::new(0.5)?);
//!     // The session is played. With the entry it succeeds more often.
//!     let reward = if number % 10 < if draw.shown { 9 } else { 4 } { 1.0 } else { 0.0 };
//!     let session = DrawnSession { user, class: "refunds".into(), features: vec![], draws: vec![draw], reward: Some(reward) };
//!     credit.observe(&session)?;
//! }
//! let estimate = credit.estimate(&entry).ok_or(clawhost_learn::LearnError::Live("no feedback".into()))?;
//! assert!(estimate.interval.0 > 0.2 && estimate.interval.1 < 0.8);
//! # Ok(())
//! # }
//! ```
//!
//! **Where the assumptions end.**
//!
//! - *Interference between entries* is averaged over: the effect is the mean over the draws of the other entries, at their propensities. Two
//!   entries that help only together have half of that effect each at 1/2; two that cancel each other have none.
//! - *Interference between users* breaks it: if what one user is shown changes another user's reward (shared memory, a shared queue), the
//!   difference between the arms is not the effect of showing it to all.
//! - *Feedback* biased by more than the odds ratio; users who give feedback for one arm only.
//! - *Drift*: of the base rate it does no harm, since both arms are from the same time. If the *effect* changes, the estimate is its mean over the
//!   sessions so far, not its value today. If the mix of tasks or users changes, so does what the mean is over.
//! - *Propensities* of draws per user that follow the outcomes of few users: a user's later propensity would then depend on the user's draw.
//! - *Users* are taken as independent draws from those to come. One person under many names, or many under one, breaks the first or wastes the
//!   second.
//! - *Order*: whether a session enters, its features and its class must be fixed before the draw. A session that is left out because it went
//!   badly, or a user who leaves because of what was shown, is missing feedback.
//! - *Asymptotics*: with threshold `1/alpha` far above 1,000, or rewards that differ in one session of a hundred, normality is extrapolated.

mod baseline;
mod concurrent;
mod credit;
mod estimate;
mod feedback;
mod plan;
mod propensity;
mod sensitivity;
mod session;
pub mod shadow;
mod sums;
#[cfg(test)]
mod tests;
pub mod trials;

pub use baseline::MOST_CLASSES;
pub use concurrent::{Concurrent, ConcurrentSession};
pub use credit::{EffectFinding, LiveCredit, LiveSettings, MOST_TRIALS};
pub use estimate::{ArmSummary, DECIDABLE_USERS, LiveEstimate};
pub use feedback::{FeedbackDifference, MOST_DIFFERENCE};
pub use plan::{MOST_SESSIONS, Plan};
pub use propensity::{
    DrawSeed, Kind, LEAST_PROPENSITY, LEAST_SHARE, MOST_PROPENSITY, MOST_SHARE, Propensity, Share, USUAL_SHARE, Unit,
};
pub use sensitivity::{Direction, LARGEST_ODDS_RATIO, OddsRatio};
pub use session::{DrawnSession, EntryDraw, LARGEST_FEATURE, MOST_FEATURES, Scale};
pub use sums::MOST_USERS;
