//! What was recorded of a trajectory: one number for each token in every column, or there is no [`Trajectory`].
//!
//! A trajectory is all the policy said in one episode. Its columns run over all tokens of all turns, one turn behind the other.
//! Whether the model saw them as one sequence or as a context per turn makes no difference here: a log-prob carries its context.

use super::loss::Teacher;
use crate::LearnError;

/// Rounding may lift the log-prob of a certain token above 0 by so much (bf16 has 8 bits); more is a wrong sign.
const ROUNDING: f64 = 0.01;

/// How tokens were drawn, as far as it changes the distribution beyond temperature and bias.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Nucleus: 1 keeps everything.
    pub top_p: f64,
    /// Most tokens kept; 0 keeps everything.
    pub top_k: u32,
    /// Least probability relative to the likeliest token; 0 keeps everything.
    pub min_p: f64,
    /// 1 changes nothing.
    pub repetition_penalty: f64,
    /// For every token it is on record which tokens it was drawn from, and the trainer's log-probs are over these.
    pub kept_set_recorded: bool,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { top_p: 1.0, top_k: 0, min_p: 0.0, repetition_penalty: 1.0, kept_set_recorded: false }
    }
}

impl Sampling {
    /// Whether the trainer can compute log-probs in the distribution that was sampled from.
    pub fn is_trainable(&self) -> bool {
        let everything =
            self.top_p >= 1.0 && self.top_k == 0 && self.min_p <= 0.0 && (self.repetition_penalty - 1.0).abs() < 1e-9;
        everything || self.kept_set_recorded
    }
}

/// The parts of a [`Trajectory`]. Every column has one number per token; the terms are explained in [`super`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded {
    /// For messages and tables: the episode's id.
    pub sequence: String,
    /// What the episode earned; none where it failed or was not scored: that is no 0.
    pub reward: Option<f64>,
    /// Log-probs at sampling.
    pub rollout: Vec<f64>,
    /// Log-probs of the trainer before the first step of the iteration.
    pub trainer: Option<Vec<f64>>,
    /// Log-probs of the reference (adapter off).
    pub reference: Option<Vec<f64>>,
    /// Log-probs of the teacher, on the same ids.
    pub teacher: Option<Teacher>,
    /// True where the policy chose the token.
    pub mask: Vec<bool>,
    /// For each turn the number of tokens up to its end; rising, the last is the number of all. Empty: one turn.
    pub turn_ends: Vec<usize>,
    /// What each turn earned; none: the last turn earned `reward`.
    pub turn_rewards: Option<Vec<f64>>,
    /// A value head's expectation at the beginning of each turn; none: 0.
    pub values: Option<Vec<f64>>,
    /// The episode was cut off by a limit of tokens or turns: its reward says little about what the policy did.
    pub truncated: bool,
    /// Updates of the weights between sampling and now; 0: on-policy.
    pub version_lag: u64,
    /// Generations of the playbook between sampling and now.
    pub prompt_lag: u64,
    /// How tokens were drawn.
    pub sampling: Sampling,
}

/// A trajectory whose columns fit together and hold only finite numbers. It cannot be changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Trajectory(Recorded);

/// Tries at one task from one prompt, whose rewards are compared with each other.
#[derive(Debug, Clone, PartialEq)]
pub struct TrajectoryGroup {
    /// The task.
    pub task: String,
    /// All that were played, those that failed too.
    pub members: Vec<Trajectory>,
}

impl Trajectory {
    /// Checks what was recorded.
    ///
    /// # Errors
    ///
    /// [`LearnError::Sequence`] names the column whose length differs or the number that is not finite;
    /// [`LearnError::LogProb`] names the token whose log-prob is no log-prob.
    pub fn new(mut recorded: Recorded) -> Result<Self, LearnError> {
        let tokens = recorded.rollout.len();
        if recorded.turn_ends.is_empty() {
            recorded.turn_ends.push(tokens);
        }
        let name = recorded.sequence.as_str();
        let turns = recorded.turn_ends.len();
        same_length(name, "mask", recorded.mask.len(), tokens, "tokens")?;
        let columns = [
            ("rollout", Some(recorded.rollout.as_slice())),
            ("trainer", recorded.trainer.as_deref()),
            ("reference", recorded.reference.as_deref()),
            ("teacher", recorded.teacher.as_ref().map(Teacher::logprobs)),
        ];
        for (column, numbers) in columns {
            if let Some(numbers) = numbers {
                check_logprobs(name, column, numbers, tokens)?;
            }
        }
        let rising = recorded.turn_ends.iter().zip(recorded.turn_ends.iter().skip(1)).all(|(one, next)| one < next);
        if !rising || recorded.turn_ends.last() != Some(&tokens) {
            let what =
                format!("turns end at {:?}, but ends rise up to {tokens}, the number of tokens", recorded.turn_ends);
            return Err(LearnError::Sequence { sequence: name.to_owned(), what });
        }
        for (column, numbers) in [("turn rewards", &recorded.turn_rewards), ("values", &recorded.values)] {
            if let Some(numbers) = numbers {
                same_length(name, column, numbers.len(), turns, "turns")?;
                numbers.iter().enumerate().try_for_each(|(turn, number)| finite(name, column, turn, *number))?;
            }
        }
        recorded.reward.iter().try_for_each(|reward| finite(name, "rewards", 0, *reward))?;
        Ok(Self(recorded))
    }

    /// What it was made of.
    pub fn recorded(&self) -> &Recorded {
        &self.0
    }

    /// The log-probs that ratios are taken to: the trainer's where it computed them, else those of the rollout.
    pub fn old(&self) -> &[f64] {
        self.0.trainer.as_ref().unwrap_or(&self.0.rollout)
    }

    /// Tokens that the policy chose.
    pub fn trained_tokens(&self) -> usize {
        self.0.mask.iter().filter(|trained| **trained).count()
    }

    /// Spreads one number per turn over the tokens of each turn; turns without a number get 0.
    pub(super) fn over_tokens(&self, by_turn: &[f64]) -> Vec<f64> {
        let mut tokens = Vec::with_capacity(self.0.rollout.len());
        let numbers = by_turn.iter().copied().chain(std::iter::repeat(0.0));
        self.0.turn_ends.iter().zip(numbers).for_each(|(end, number)| tokens.resize(*end, number));
        tokens
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

/// Refuses a column of the wrong length, and what is no log-prob.
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
