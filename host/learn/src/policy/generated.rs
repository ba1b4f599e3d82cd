//! From a recorded episode to what is trained on: exact tokens, never made from text afterwards.
//!
//! A model's turns follow each other: the prompt of a turn begins with all that was said before, so one sequence holds them all.
//! Where it does not (a template that drops what was thought, a conversation that was cut), a new sequence begins.

use super::{Recorded, Sampling};
use clawhost_core::{Ending, Episode, Turn};

/// Tokens that were read and written behind each other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GeneratedSequence {
    /// All of them.
    pub tokens: Vec<u32>,
    /// True where the model wrote the token.
    pub mask: Vec<bool>,
}

/// What a local model wrote in one episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// In the order of the turns.
    pub sequences: Vec<GeneratedSequence>,
    /// Log-probs of the tokens that it wrote, in the distribution that they were drawn from.
    pub rollout: Vec<f32>,
    /// For each turn the number of tokens written up to its end.
    pub turn_ends: Vec<usize>,
    /// What logits were divided by; 0: the likeliest token was taken, which tells nothing about ratios.
    pub temperature: f32,
    /// The oldest weights that wrote in it.
    pub version: u64,
    /// Whether some tokens could not be drawn.
    pub restricted: bool,
    /// Cut off by a limit of turns or tokens.
    pub truncated: bool,
}

impl Generated {
    /// Reads an episode. None: no turn has tokens on record.
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
                // It stands behind something that is not on record.
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

    /// Tokens that the model wrote.
    pub fn written(&self) -> usize {
        self.rollout.len()
    }

    /// What is known of it when it is learned from. What a trainer or a reference make of its tokens is added by whoever can
    /// compute that.
    pub fn recorded(&self, name: String, reward: f64, version_lag: u64) -> Recorded {
        Recorded {
            sequence: name,
            reward: Some(reward),
            rollout: self.rollout.iter().map(|logprob| f64::from(*logprob)).collect(),
            mask: vec![true; self.rollout.len()],
            turn_ends: self.turn_ends.clone(),
            truncated: self.truncated,
            version_lag,
            // Which restriction it was does not matter: without the kept set it cannot be trained on.
            sampling: Sampling { top_p: if self.restricted { 0.0 } else { 1.0 }, ..Sampling::default() },
            ..Recorded::default()
        }
    }
}
