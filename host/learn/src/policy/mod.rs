//! Policy gradients on plain numbers: from rewards and log-probs to `dLoss/dlogprob` of every token.
//!
//! A model crate runs the decoder. It passes in the log-probs of each token and receives the gradients for its backward
//! pass. This module has no tensors:
//!
//! ```text
//!  episodes ─▶ TrajectoryGroup   one task, one prompt, G tries    rollout log-probs, rewards, masks
//!                  │
//!     Staleness::keep            drops and counts samples that are too old or of an unknown distribution
//!                  │
//!     mismatch::check            compares log-probs of rollout and trainer (first step of every version)
//!                  │
//!     Experience::new            advantages over whole groups, perhaps per turn; drops and counts what has no gradient
//!                  │
//!     Updates::divide            epochs and minibatches: the trajectories of every optimiser step
//!                  │
//!     Experience::step           one optimiser step: fixes the denominator ONCE
//!                  │
//!        ┌─────────┴─────────┐
//!   micro-batch         micro-batch     forward ─▶ new log-probs ─▶ StepBatch::loss ─▶ gradients ─▶ backward
//!        └─────────┬─────────┘
//!            optimiser step
//! ```
//!
//! Terms, per token t of trajectory i; all are natural logarithms and at most 0:
//!
//! - `rollout`: the log-prob with which t was sampled, recorded while sampling;
//! - `trainer`: the log-prob of t under the weights *before* the first step of this iteration, computed by the trainer. The
//!   importance ratio's `old` is `trainer` if it was computed, otherwise `rollout`. It is fixed with the experience: later
//!   steps over the same experience use the same `old`;
//! - `new`: under the current weights; the only variable of the gradient;
//! - `reference`: under the weights that the policy should stay close to (adapter off);
//! - `teacher`: under a better model; `likely`: of the tokens that this model finds the most likely at the position of t;
//! - `mask`: true where the policy sampled the token, including the end-of-sequence token. False for prompts, tool results
//!   and tokens forced by a grammar.
//!
//! All log-probs of a token are under one distribution: sampling temperature and biases are applied to each of them.
//!
//! ```
//! use clawhost_learn::policy::{
//!     Evaluation, Experience, PolicyGradient, Recorded, StepBatch as _, Trajectory, TrajectoryGroup,
//! };
//! # use std::num::NonZeroU32;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tried = |sequence: &str, reward: f64| {
//!     Trajectory::new(Recorded {
//!         sequence: sequence.into(),
//!         reward: Some(reward),
//!         rollout: vec![-0.2, -0.7, -0.1],
//!         mask: vec![false, true, true], // a token of the prompt, one of the reply, the end of the sequence
//!         ..Recorded::default()
//!     })
//! };
//! let group = TrajectoryGroup { task: "a".into(), members: vec![tried("e1", 1.0)?, tried("e2", 0.0)?] };
//! let objective = PolicyGradient::named("dapo", NonZeroU32::new(512).ok_or("no tokens")?)?;
//! let experience = Experience::new(objective, vec![group])?;
//! let step = experience.whole()?;
//! for sequence in 0..step.sequences() {
//!     let new = [-0.2, -0.7, -0.1]; // of this micro-batch's forward pass
//!     let outcome = step.loss(&[Evaluation { sequence, new: &new, ..Evaluation::default() }])?;
//!     // The better try becomes likelier; the prompt has no gradient.
//!     assert_eq!(outcome.gradients[0][0], 0.0);
//!     assert!((outcome.gradients[0][1] < 0.0) == (sequence == 0));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Supervised training ([`SupervisedStep`]), preferences ([`PreferenceStep`]) and labelled replies ([`LabelledStep`]) share the path from [`StepBatch`] on.
//! [`PolicyGradient::named`] has the presets.

pub mod advantage;
mod aggregate;
mod batched;
mod credit;
mod difficulty;
mod experience;
mod fall;
mod generated;
mod hacking;
mod loss;
mod metrics;
pub mod mismatch;
mod objective;
mod repetition;
mod sample;
mod signal;
mod single;
mod staleness;
#[cfg(test)]
mod tests;
mod updates;

pub use advantage::{Advantage, Truncation};
pub use aggregate::{Aggregation, Denominator};
pub use batched::{OtherLogprobs, generated, restricted};
pub use credit::{Credit, JudgeCredit, MemberTurns, TurnCredit, judged_advantages, turn_advantages};
pub use difficulty::{Difficulty, DifficultyFilter};
pub use experience::{Experience, ExperienceReport, REFILLS, Trained};
pub use fall::{Fall, FallMonitor};
pub use generated::{Generated, GeneratedSequence};
pub use hacking::{HackingMonitor, Reading, Suspicion, Watched};
pub use loss::{
    Distillation, Evaluation, LabelledReply, LabelledSettings, LabelledStep, Outcome, Pair, PolicyStep, PreferenceStep,
    Reply, StepBatch, SupervisedStep, Surrogate, TruncatedImportance, mismatched_divergence,
};
pub use metrics::{Mean, Metrics};
pub use objective::{HINT_TOP, LiveSignal, PolicyGradient, RewardTerm};
pub use repetition::repetition;
pub use sample::{Recorded, Sampling, Trajectory, TrajectoryGroup};
pub use signal::{IterationSignal, NoSignal, SignalMonitor};
pub use single::{Single, single_advantages};
pub use staleness::{Dropped, Staleness};
pub use updates::Updates;
