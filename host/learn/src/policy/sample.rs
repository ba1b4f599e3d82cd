//! The record of a trajectory. Columns are checked once, when a [`Trajectory`] is built.
//!
//! A trajectory is everything the policy wrote in one episode. Its columns cover all tokens of all turns, in order. Whether
//! the model read them as one sequence or with a context per turn does not matter here: each log-prob is conditional on its
//! own context.

use crate::LearnError;
use clawhost_core::Digest;
use std::collections::BTreeSet;

/// Rounding may give a near-certain token a log-prob above 0 by up to this (bf16 has 8 bits). More is a wrong sign.
const ROUNDING: f64 = 0.01;

/// How tokens were sampled, as far as it changes the distribution beyond temperature and bias.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Nucleus threshold; 1 is off.
    pub top_p: f64,
    /// Number of tokens kept; 0 is off.
    pub top_k: u32,
    /// Smallest probability relative to the most likely token; 0 is off.
    pub min_p: f64,
    /// Repetition penalty; 1 is off.
    pub repetition_penalty: f64,
    /// Whether the candidate set of every token is recorded, and the trainer's log-probs are over these sets.
    pub kept_set_recorded: bool,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { top_p: 1.0, top_k: 0, min_p: 0.0, repetition_penalty: 1.0, kept_set_recorded: false }
    }
}

impl Sampling {
    /// Whether the trainer can compute log-probs under the sampling distribution.
    pub fn is_trainable(&self) -> bool {
        let everything =
            self.top_p >= 1.0 && self.top_k == 0 && self.min_p <= 0.0 && (self.repetition_penalty - 1.0).abs() < 1e-9;
        everything || self.kept_set_recorded
    }
}

/// The columns of a [`Trajectory`]. Every column has one number per token; [`super`] defines the terms.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded {
    /// Name in messages and tables: the episode's id.
    pub sequence: String,
    /// Reward of the episode; `None` if it failed or was not scored, which is different from 0.
    pub reward: Option<f64>,
    /// Log-probs at sampling time.
    pub rollout: Vec<f64>,
    /// Log-probs under the trainer before the first step of the iteration.
    pub trainer: Option<Vec<f64>>,
    /// Log-probs under the reference (adapter off).
    pub reference: Option<Vec<f64>>,
    /// Log-probs under the teacher, for the same token ids.
    pub teacher: Option<Vec<f64>>,
    /// For each token, the most likely tokens of the teacher at its position with their log-probs. Empty: the teacher named none.
    pub likely: Vec<Vec<(u32, f64)>>,
    /// True where the policy sampled the token.
    pub mask: Vec<bool>,
    /// For each turn the number of tokens up to its end; strictly increasing, the last is the total. Empty: one turn.
    pub turn_ends: Vec<usize>,
    /// The state of each turn: the digest of what the policy observed before it. Empty: unknown.
    pub states: Vec<Digest>,
    /// Reward of each turn. `None`: the last turn has `reward`.
    pub turn_rewards: Option<Vec<f64>>,
    /// Whether a limit of tokens or turns ended the episode, so that its reward is not meaningful.
    pub truncated: bool,
    /// Weight updates between sampling and training; 0 is on-policy.
    pub version_lag: u64,
    /// Playbook versions between sampling and training.
    pub prompt_lag: u64,
    /// How tokens were sampled.
    pub sampling: Sampling,
}

/// A trajectory whose columns have equal lengths and finite numbers. Immutable.
#[derive(Debug, Clone, PartialEq)]
pub struct Trajectory(Recorded);

/// Trajectories of one task and one prompt, whose rewards are compared with each other.
#[derive(Debug, Clone, PartialEq)]
pub struct TrajectoryGroup {
    /// Task id.
    pub task: String,
    /// All trajectories, including failed ones.
    pub members: Vec<Trajectory>,
}

impl Trajectory {
    /// Checks a record.
    ///
    /// # Errors
    ///
    /// [`LearnError::Sequence`] names the column whose length differs, or whose number is not finite.
    /// [`LearnError::LogProb`] names the token with an invalid log-prob.
    pub fn new(mut recorded: Recorded) -> Result<Self, LearnError> {
        let tokens = recorded.rollout.len();
        if recorded.turn_ends.is_empty() {
            recorded.turn_ends.push(tokens);
        }
        let name = recorded.sequence.as_str();
        same_length(name, "mask", recorded.mask.len(), tokens, "tokens")?;
        let columns = [
            ("rollout", Some(recorded.rollout.as_slice())),
            ("trainer", recorded.trainer.as_deref()),
            ("reference", recorded.reference.as_deref()),
            ("teacher", recorded.teacher.as_deref()),
        ];
        for (column, numbers) in columns {
            if let Some(numbers) = numbers {
                check_logprobs(name, column, numbers, tokens)?;
            }
        }
        if !recorded.likely.is_empty() {
            same_length(name, "likely", recorded.likely.len(), tokens, "tokens")?;
        }
        for likely in &recorded.likely {
            let logprobs: Vec<f64> = likely.iter().map(|(_, logprob)| *logprob).collect();
            check_logprobs(name, "likely", &logprobs, likely.len())?;
            let ids: BTreeSet<u32> = likely.iter().map(|(id, _)| *id).collect();
            if ids.len() != likely.len() {
                let what = "the teacher named one token twice at one position".to_owned();
                return Err(LearnError::Sequence { sequence: name.to_owned(), what });
            }
        }
        let rising = recorded.turn_ends.iter().zip(recorded.turn_ends.iter().skip(1)).all(|(one, next)| one < next);
        if !rising || recorded.turn_ends.last() != Some(&tokens) {
            let what = format!(
                "turns end at {:?}; ends must increase up to {tokens}, the number of tokens",
                recorded.turn_ends
            );
            return Err(LearnError::Sequence { sequence: name.to_owned(), what });
        }
        let turns = recorded.turn_ends.len();
        if !recorded.states.is_empty() {
            same_length(name, "states", recorded.states.len(), turns, "turns")?;
        }
        if let Some(rewards) = &recorded.turn_rewards {
            same_length(name, "turn rewards", rewards.len(), turns, "turns")?;
            rewards.iter().enumerate().try_for_each(|(turn, reward)| finite(name, "turn rewards", turn, *reward))?;
        }
        recorded.reward.iter().try_for_each(|reward| finite(name, "rewards", 0, *reward))?;
        Ok(Self(recorded))
    }

    /// The checked columns.
    pub fn recorded(&self) -> &Recorded {
        &self.0
    }

    /// The log-probs that importance ratios refer to: the trainer's if computed, otherwise those of the rollout.
    pub fn old(&self) -> &[f64] {
        self.0.trainer.as_ref().unwrap_or(&self.0.rollout)
    }

    /// Repeats one number per turn over the turn's tokens; missing numbers are 0.
    pub(super) fn over_tokens(&self, by_turn: &[f64]) -> Vec<f64> {
        let mut tokens = Vec::with_capacity(self.0.rollout.len());
        let numbers = by_turn.iter().copied().chain(std::iter::repeat(0.0));
        self.0.turn_ends.iter().zip(numbers).for_each(|(end, number)| tokens.resize(*end, number));
        tokens
    }

    /// Number of tokens that the policy sampled.
    pub fn trained_tokens(&self) -> usize {
        self.0.mask.iter().filter(|trained| **trained).count()
    }
}

fn same_length(sequence: &str, column: &str, found: usize, expected: usize, of: &str) -> Result<(), LearnError> {
    if found == expected {
        return Ok(());
    }
    let what = format!("{column} has {found} numbers for {expected} {of}");
    Err(LearnError::Sequence { sequence: sequence.to_owned(), what })
}

fn finite(sequence: &str, column: &str, at: usize, number: f64) -> Result<(), LearnError> {
    if number.is_finite() {
        return Ok(());
    }
    let what = format!("number {at} of its {column} is {number}, which is not finite; leave out what was not scored");
    Err(LearnError::Sequence { sequence: sequence.to_owned(), what })
}

/// Checks the length of a column and that its numbers are log-probs.
pub(super) fn check_logprobs(
    sequence: &str,
    column: &'static str,
    numbers: &[f64],
    tokens: usize,
) -> Result<(), LearnError> {
    same_length(sequence, column, numbers.len(), tokens, "tokens")?;
    match numbers.iter().enumerate().find(|(_, number)| !(number.is_finite() && **number <= ROUNDING)) {
        Some((position, value)) => {
            Err(LearnError::LogProb { sequence: sequence.to_owned(), position, column, value: *value })
        }
        None => Ok(()),
    }
}
