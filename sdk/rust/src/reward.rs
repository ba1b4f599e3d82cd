//! Rewards: they judge episodes.

use crate::{Context, Episode, Group, OptionSpec, Reads, Result, Signal};

/// What a verdict depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// On its episode only.
    Each,
    /// On the whole group.
    Group,
}

/// The source of a verdict. The most reliable source decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The outcome: the final state, the reference answer, tests that pass.
    Outcome,
    /// The execution: tool results, the form of answers. Decides only with a confidence of at least 0.7.
    Execution,
    /// The opinion of a model.
    Judge,
}

/// The verdict about one episode.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It has a value.
    Scored {
        /// In [`Reward::RANGE`]; the host refuses other values.
        value: f64,
        /// The confidence, 0 to 1.
        confidence: f64,
        /// Components of the value, with distinct names.
        parts: Vec<(String, f64)>,
        /// The reason, for people.
        rationale: String,
        /// One value per turn, or none.
        per_turn: Vec<f64>,
    },
    /// Not applicable. Never a number.
    NotApplicable(String),
    /// Failed. Never a number.
    Failed(String),
}

impl Verdict {
    /// A value with full confidence.
    pub fn scored(value: f64) -> Self {
        Self::Scored { value, confidence: 1.0, parts: Vec::new(), rationale: String::new(), per_turn: Vec::new() }
    }

    /// Sets the reason, for people.
    pub fn because(mut self, text: impl Into<String>) -> Self {
        if let Self::Scored { rationale, .. } = &mut self {
            *rationale = text.into();
        }
        self
    }

    /// Sets the confidence, 0 to 1.
    pub fn with_confidence(mut self, sure: f64) -> Self {
        if let Self::Scored { confidence, .. } = &mut self {
            *confidence = sure;
        }
        self
    }

    /// Sets one value per turn.
    pub fn with_turns(mut self, values: Vec<f64>) -> Self {
        if let Self::Scored { per_turn, .. } = &mut self {
            *per_turn = values;
        }
        self
    }

    /// Adds a component.
    pub fn with_part(mut self, name: impl Into<String>, part: f64) -> Self {
        if let Self::Scored { parts, .. } = &mut self {
            parts.push((name.into(), part));
        }
        self
    }

    /// The value, if there is one.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Scored { value, .. } => Some(*value),
            _ => None,
        }
    }
}

/// A reward. It runs in a separate instance, never with the environment, and reads what the host recorded.
///
/// ```
/// use clawhost_sdk::{Context, Episode, Result, Reward, Verdict, export_reward};
///
/// struct Short;
///
/// impl Reward for Short {
///     const NAME: &'static str = "short";
///
///     fn score(episode: &Episode, _: &Context) -> Result<Verdict> {
///         let turns = episode.turn_count();
///         Ok(Verdict::scored(1.0 / f64::from(turns.max(1))).because(format!("{turns} turns")))
///     }
/// }
///
/// export_reward!(Short);
/// # fn main() {
/// use clawhost_sdk::{Ending, Task, testing};
/// let episode = testing::episode(Task::new("train", "t", ""), &[("go", "a"), ("go on", "b")], Ending::Terminated);
/// assert_eq!(testing::judge::<Short>(vec![episode], &[]).unwrap()[0].value(), Some(0.5));
/// # }
/// ```
pub trait Reward: 'static {
    /// Short name, for example `exact`.
    const NAME: &'static str;
    /// Your version.
    const VERSION: &'static str = "0.1.0";
    /// One line for people.
    const SUMMARY: &'static str = "";
    /// Smallest and largest value, in -1 to 1.
    const RANGE: (f64, f64) = (0.0, 1.0);
    /// The source of its verdicts.
    const SOURCE: Source = Source::Outcome;
    /// What a verdict depends on.
    const SCOPE: Scope = Scope::Each;

    /// All options that this reward reads. The host refuses others.
    fn options() -> Vec<OptionSpec> {
        Vec::new()
    }

    /// The parts of an episode that this reward reads. They may be alternatives: the host warns only if no episode has
    /// any of them. Empty: the host does not check.
    fn reads() -> Vec<Reads> {
        Vec::new()
    }

    /// Checks the operator's options. Called once per run, before anything is played.
    ///
    /// # Errors
    /// The options are invalid. The text says which, and what is expected.
    fn check(context: &Context) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Judges one episode.
    ///
    /// # Errors
    /// The episode cannot be judged: the verdict is `failed`, and the episode is not scored.
    fn score(episode: &Episode, context: &Context) -> Result<Verdict>;

    /// Judges a group: exactly one verdict per episode, in order.
    ///
    /// # Errors
    /// None of them can be judged.
    fn score_group(group: &Group, context: &Context) -> Result<Vec<Verdict>> {
        let judge =
            |episode| Self::score(episode, context).unwrap_or_else(|error| Verdict::Failed(error.into_message()));
        Ok(group.episodes().iter().map(judge).collect())
    }
}

pub(crate) fn into_signals(parts: Vec<(String, f64)>) -> Vec<Signal> {
    parts.into_iter().map(|(name, value)| Signal { name, value }).collect()
}

/// Exports a [`Reward`] as a plugin. Outside wasm it only checks that the type is one.
#[macro_export]
macro_rules! export_reward {
    ($ty:ty) => {
        const _: () = {
            #[cfg(target_arch = "wasm32")]
            type Exported = $crate::guest::RewardGuest<$ty>;
            #[cfg(target_arch = "wasm32")]
    $crate::__export_reward_plugin_impl!(Exported with_types_in $crate::bindings::reward);
            #[cfg(not(target_arch = "wasm32"))]
            const fn is_a_reward<R: $crate::Reward>() {}
            #[cfg(not(target_arch = "wasm32"))]
            is_a_reward::<$ty>();
        };
    };
}
