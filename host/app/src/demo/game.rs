//! A game of the weights demonstration: who demonstrates it, how it is rewarded, and how a tiny model learns in it.

use super::halted::Part;
use crate::AppError;
use clawhost_core::Attributes;
use clawhost_learn::policy::{Objective, PolicyGradient, Truncation};
use clawhost_learning::WarmStart;
use std::num::NonZeroU32;

/// A game that a tiny model learns.
#[derive(Debug, Clone, PartialEq)]
pub struct Game {
    /// Its name in reports.
    pub name: &'static str,
    /// The environment's file.
    pub environment: &'static str,
    /// Its options.
    pub options: Attributes,
    /// Its options while it demonstrates, beside those.
    pub demonstrate: Attributes,
    /// The reward's file and options.
    pub reward: (&'static str, Attributes),
    /// Tasks of an iteration.
    pub groups: u64,
    /// Tries at each task.
    pub group: u32,
    /// Iterations with rewards.
    pub iterations: u64,
    /// The learning rate of demonstrations and of rewards.
    pub rate: f64,
    /// Demonstrations.
    pub demonstrations: u64,
    /// Demonstrations of a step.
    pub batch: u64,
    /// Sampled reward at which demonstrations are enough.
    pub target: f64,
    /// Most turns of an episode.
    pub max_turns: u32,
    /// Most tokens of an answer.
    pub max_tokens: u32,
    /// Test episodes.
    pub tests: u64,
}

fn options(pairs: &[(&str, &str)]) -> Attributes {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

impl Game {
    /// Guessing a number below 50 in six guesses: a clumsy player shows how, and rewards alone lead to halving the range.
    pub(super) fn guess() -> Self {
        Self {
            name: "guess",
            environment: "env_guess.wasm",
            options: options(&[("size", "50"), ("guesses", "6"), ("talk", "terse")]),
            demonstrate: options(&[("demonstrate", "clumsy")]),
            reward: ("reward_signal.wasm", options(&[("name", "distance"), ("equals", "0"), ("absent", "0")])),
            groups: 32,
            group: 16,
            iterations: 180,
            rate: 2e-3,
            demonstrations: 8192,
            batch: 128,
            target: 0.45,
            max_turns: 8,
            max_tokens: 4,
            tests: 400,
        }
    }

    /// Adding numbers below 100: answers are shown until some are right, and rewards alone do the rest.
    pub(super) fn addition() -> Self {
        Self {
            name: "addition",
            environment: "env_math.wasm",
            options: options(&[("kind", "addition"), ("talk", "terse")]),
            demonstrate: options(&[("demonstrate", "answers")]),
            reward: ("reward_exact.wasm", Vec::new()),
            groups: 64,
            group: 8,
            iterations: 400,
            rate: 3e-3,
            demonstrations: 16_384,
            batch: 64,
            target: 0.35,
            max_turns: 1,
            max_tokens: 5,
            tests: 800,
        }
    }

    /// The same, cut short: whether it works at all.
    pub(super) fn quick(self) -> Self {
        Self { iterations: self.iterations / 3, ..self }
    }

    /// Learning from demonstrations in this game.
    pub(super) fn warm_start(&self) -> WarmStart {
        WarmStart {
            demonstrations: self.demonstrations,
            options: self.demonstrate.clone(),
            batch: self.batch,
            rate: self.rate,
            target: self.target,
            every: 10,
            episodes: 128,
            steps: 400,
        }
    }

    /// What is minimised: DAPO. Running out of guesses is part of the game, so such episodes count.
    pub(super) fn objective(&self) -> Part<PolicyGradient> {
        let most = NonZeroU32::new(self.max_tokens.saturating_mul(self.max_turns)).unwrap_or(NonZeroU32::MIN);
        match Objective::named("dapo", most)? {
            Objective::Policy(mut gradient) => {
                if let Some(reward) = &mut gradient.reward {
                    reward.truncation = Truncation::Keep;
                }
                Ok(gradient)
            }
            _ => Err(AppError::Host("dapo is no policy gradient".to_owned()).into()),
        }
    }
}
