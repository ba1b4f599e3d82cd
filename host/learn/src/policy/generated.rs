//! Converts a recorded episode into training data: the exact sampled tokens, never re-tokenised text.
//!
//! Usually the prompt of a turn begins with all earlier tokens, so one sequence contains all turns. Where it does not (a
//! template that drops reasoning, a shortened conversation), a new sequence starts.

use super::{Recorded, Sampling};
use clawhost_core::{Ending, Episode, Turn};

/// Consecutive tokens of prompts and replies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GeneratedSequence {
    /// The token ids.
    pub tokens: Vec<u32>,
    /// True where the model sampled the token.
    pub mask: Vec<bool>,
}

/// The tokens that a local model sampled in one episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// Sequences in the order of the turns.
    pub sequences: Vec<GeneratedSequence>,
    /// Log-probs of the sampled tokens under the sampling distribution, nats.
    pub rollout: Vec<f32>,
    /// For each turn, the number of sampled tokens up to its end.
    pub turn_ends: Vec<usize>,
    /// Sampling temperature; 0 is greedy decoding, which gives no importance ratios.
    pub temperature: f32,
    /// The oldest version of the weights that sampled in the episode.
    pub version: u64,
    /// Whether sampling was restricted to a subset of the vocabulary (top-p, top-k, a grammar, ...).
    pub restricted: bool,
    /// Whether a limit of turns or tokens ended the episode.
    pub truncated: bool,
}

impl Generated {
    /// Extracts the tokens of an episode. `None` if no turn recorded tokens, or if they do not follow each other.
    pub fn of(episode: &Episode) -> Option<Self> {
        let first = episode.turns.iter().find_map(|turn| turn.tokens.as_ref())?;
        let cut = |turn: &Turn| turn.finish == "length";
        let mut generated = Self {
            sequences: Vec::new(),
            rollout: Vec::new(),
            turn_ends: Vec::new(),
            temperature: first.temperature,
            version: first.version,
            restricted: false,
            truncated: matches!(episode.ending, Ending::Truncated(_)) || episode.turns.iter().any(cut),
        };
        for record in episode.turns.iter().filter_map(|turn| turn.tokens.as_ref()) {
            let goes_on = record.shared > 0
                && generated.sequences.last().is_some_and(|sequence| sequence.tokens.len() == record.shared);
            if record.shared > 0 && !goes_on {
                // The preceding tokens are not on record.
                return None;
            }
            if !goes_on {
                generated.sequences.push(GeneratedSequence::default());
            }
            let Some(sequence) = generated.sequences.last_mut() else { continue };
            sequence.tokens.extend(record.prompt.iter().chain(&record.tokens));
            sequence.mask.resize(sequence.tokens.len() - record.tokens.len(), false);
            sequence.mask.resize(sequence.tokens.len(), true);
            generated.rollout.extend(&record.logprob_sampled);
            generated.turn_ends.push(generated.rollout.len());
            generated.version = generated.version.min(record.version);
            generated.restricted |= record.restricted;
        }
        Some(generated)
    }

    /// Number of sampled tokens.
    pub fn written(&self) -> usize {
        self.rollout.len()
    }

    /// The trajectory's record for training. Log-probs of trainer and reference are added by the crate that can compute
    /// them.
    pub fn recorded(&self, name: String, reward: f64, version_lag: u64) -> Recorded {
        Recorded {
            sequence: name,
            reward: Some(reward),
            rollout: self.rollout.iter().map(|logprob| f64::from(*logprob)).collect(),
            mask: vec![true; self.rollout.len()],
            turn_ends: self.turn_ends.clone(),
            truncated: self.truncated,
            version_lag,
            // The kind of restriction does not matter: without the kept set the trajectory cannot be trained on.
            sampling: Sampling { top_p: if self.restricted { 0.0 } else { 1.0 }, ..Sampling::default() },
            ..Recorded::default()
        }
    }
}
