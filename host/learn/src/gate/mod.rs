//! The gate: does a candidate do better than what is deployed?
//!
//! Both play the same tasks with the same seeds, on tasks that taught nothing. A pair's difference `d` is the
//! candidate's reward less that of what is deployed. The gate bets on these differences, pair by pair, with odds that
//! are fair if the candidate is no better: its wealth is a [`Martingale`], and wealth of `1/alpha` is reached with a
//! probability of at most `alpha` by chance alone, however often one looks and whenever one stops (Ville's inequality;
//! testing by betting: Shafer 2021, Waudby-Smith and Ramdas 2024). So a comparison may end early, and one that ended
//! undecided may go on another day with what it knows.
//!
//! A run has many candidates. The j-th must reach `1/alpha_j` with `alpha_j = alpha 6/(pi^2 j^2)`; these add up to
//! alpha, so the probability that anything worthless is ever promoted in a run stays below it.

mod evidence;
mod martingale;
mod power;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use evidence::{ALPHA, Decision, GateEvidence, Report, alpha_of};
pub use martingale::{Form, MARGIN, Martingale, Question};
