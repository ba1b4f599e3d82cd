//! A game of the weights demonstration: its plugins, and the settings with which a tiny model learns it.

use super::halted::Part;
use clawhost_core::Attributes;
use clawhost_learn::policy::{PolicyGradient, Truncation};
use clawhost_learning::WarmStart;
use std::num::NonZeroU32;

/// A game that a tiny model learns.
#[derive(Debug, Clone, PartialEq)]
pub struct Game {
    /// Its name in reports.
    pub name: &'static str,
    /// The file of the environment plugin.
    pub environment: &'static str,
    /// The options of the environment.
    pub options: Attributes,
    /// Additional options of the environment for demonstrations.
    pub demonstrate: Attributes,
    /// The file and options of the reward plugin.
    pub reward: (&'static str, Attributes),
    /// Groups per iteration, each with its own task.
    pub groups: u64,
    /// Episodes per group.
    pub group: u32,
    /// Iterations of learning from rewards.
    pub iterations: u64,
    /// The learning rate, for demonstrations and for rewards.
    pub rate: f64,
    /// The sampling temperature while the model learns from rewards. A hotter one tries what the model finds unlikely: a model that is sure too
    /// early fails at some tasks in every episode of a group, and learns nothing from it. Tests are at temperature 1.
    pub temperature: f32,
    /// Number of demonstrations.
    pub demonstrations: u64,
    /// Demonstrations per step.
    pub batch: u64,
    /// The sampled reward at which learning from demonstrations ends.
    pub target: f64,
    /// Largest number of turns of an episode.
    pub max_turns: u32,
    /// Largest number of tokens of an answer.
    pub max_tokens: u32,
    /// Number of test episodes.
    pub tests: u64,
}

/// Options from pairs of name and value.
pub(super) fn options(pairs: &[(&str, &str)]) -> Attributes {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

impl Game {
    /// Guess a number below 50 in six guesses. A clumsy player demonstrates; rewards alone then teach the model to halve the range.
    pub(super) fn guess() -> Self {
        Self {
            name: "guess",
            environment: "env_guess.wasm",
            options: options(&[("size", "50"), ("guesses", "6"), ("talk", "terse")]),
            demonstrate: options(&[("demonstrate", "clumsy")]),
            reward: ("reward_signal.wasm", options(&[("name", "distance"), ("equals", "0"), ("absent", "0")])),
            groups: 32,
            group: 8,
            iterations: 180,
            rate: 3e-3,
            temperature: 1.5,
            demonstrations: 8192,
            batch: 128,
            target: 0.6,
            max_turns: 8,
            max_tokens: 4,
            tests: 400,
        }
    }

    /// Add numbers below 100. Demonstrations show answers until some of the model's are right; rewards alone teach it the rest.
    pub(super) fn addition() -> Self {
        Self {
            name: "addition",
            environment: "env_math.wasm",
            options: options(&[("kind", "addition"), ("talk", "terse")]),
            demonstrate: options(&[("demonstrate", "answers")]),
            reward: ("reward_exact.wasm", Vec::new()),
            groups: 64,
            group: 8,
            iterations: 200,
            rate: 3e-3,
            temperature: 1.0,
            demonstrations: 16_384,
            batch: 64,
            target: 0.6,
            max_turns: 1,
            max_tokens: 5,
            tests: 800,
        }
    }

    /// The same game with a third of the iterations.
    pub(super) fn quick(self) -> Self {
        Self { iterations: self.iterations / 3, ..self }
    }

    /// The plan of learning from demonstrations.
    pub(super) fn warm_start(&self) -> WarmStart {
        WarmStart {
            demonstrations: self.demonstrations,
            options: self.demonstrate.clone(),
            batch: self.batch,
            rate: self.rate,
            last_rate: self.rate,
            target: self.target,
            every: 10,
            episodes: 128,
            steps: 400,
        }
    }

    /// The objective.
    pub(super) fn objective(&self) -> Part<PolicyGradient> {
        objective(self.max_tokens.saturating_mul(self.max_turns))
    }
}

/// DAPO, for trajectories of at most this many tokens. Running out of turns is part of a game, so truncated episodes count.
pub(super) fn objective(most_tokens: u32) -> Part<PolicyGradient> {
    let most = NonZeroU32::new(most_tokens).unwrap_or(NonZeroU32::MIN);
    let mut gradient = PolicyGradient::named("dapo", most)?;
    if let Some(reward) = &mut gradient.reward {
        reward.truncation = Truncation::Keep;
    }
    Ok(gradient)
}
