//! The gate: is a candidate better than the served version?
//!
//! Both play the same tasks with the same seeds, on tasks that were not used for learning. A pair's difference `d` is
//! the candidate's reward minus that of the served version. The gate bets on these differences, pair by pair, with odds
//! that are fair if the candidate is no better. Its wealth is a [`Martingale`]: by chance alone, it reaches `1/alpha`
//! with a probability of at most `alpha`, at any number of looks and any stopping time (Ville's inequality; testing by
//! betting: Shafer 2021, Waudby-Smith and Ramdas 2024). So a comparison may end early, and an undecided one may
//! continue later with its evidence.
//!
//! Where the number of pairs is planned and rewards have two values, the exact sign test at known looks decides instead ([`sign`]).
//!
//! A run has many candidates. The j-th must reach `1/alpha_j` with `alpha_j = alpha 6/(pi^2 j^2)`. These add up to
//! alpha, so the probability that a run ever promotes a candidate that is no better stays below alpha.

mod evidence;
mod martingale;
mod power;
pub mod sign;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use evidence::{ALPHA, Decision, GateEvidence, Report, Test, alpha_of, difference_of_failed};
pub use martingale::{Form, MARGIN, Martingale, Question};
