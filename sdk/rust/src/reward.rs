//! Rewards: how good an episode was.

use crate::{Context, Episode, Group, OptionSpec, Reads, Result, Signal};

/// What a verdict depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// On its episode alone.
    Each,
    /// On the whole group.
    Group,
}

/// Where a judgement comes from: of several sources the more reliable one decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// What was reached: the state of the world, a gold answer, tests that pass.
    Outcome,
    /// What was seen on the way: tool results, the form of answers. Decides only with a confidence of at least 0.7.
    Execution,
    /// The opinion of a model.
    Judge,
}

/// What a reward says about one episode.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It has a value.
    Scored {
        /// Inside [`Reward::RANGE`]; the host refuses anything else.
        value: f64,
        /// How sure the reward is, 0 to 1.
        confidence: f64,
        /// What it is made of; distinct names.
        parts: Vec<(String, f64)>,
        /// Why, for people.
        rationale: String,
        /// One value per turn, or empty.
        per_turn: Vec<f64>,
    },
    /// This reward has nothing to say about it. Never a number.
    NotApplicable(String),
    /// It could not be judged. Never a number.
    Failed(String),
}

impl Verdict {
    /// A value that the reward is sure of.
    pub fn scored(value: f64) -> Self {
        Self::Scored { value, confidence: 1.0, parts: Vec::new(), rationale: String::new(), per_turn: Vec::new() }
    }

    /// With the reason, for people.
    pub fn because(mut self, text: impl Into<String>) -> Self {
        if let Self::Scored { rationale, .. } = &mut self {
            *rationale = text.into();
        }
        self
    }

    /// With a confidence, 0 to 1.
    pub fn with_confidence(mut self, sure: f64) -> Self {
        if let Self::Scored { confidence, .. } = &mut self {
            *confidence = sure;
        }
        self
    }

    /// With one value per turn.
    pub fn with_turns(mut self, values: Vec<f64>) -> Self {
        if let Self::Scored { per_turn, .. } = &mut self {
            *per_turn = values;
        }
        self
    }

    /// With a part.
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

/// A reward. It runs in an instance of its own, never beside the environment, and reads what the host recorded.
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
    /// Least and greatest value, inside -1 to 1.
    const RANGE: (f64, f64) = (0.0, 1.0);
    /// Where its judgement comes from.
    const SOURCE: Source = Source::Outcome;
    /// What a verdict depends on.
    const SCOPE: Scope = Scope::Each;

    /// Every option this reward reads; the host refuses any other.
    fn options() -> Vec<OptionSpec> {
        Vec::new()
    }

    /// What this reward reads of an episode. Several may be alternatives: the host warns only where none of them was in any
    /// episode. Empty: the host does not look.
    fn reads() -> Vec<Reads> {
        Vec::new()
    }

    /// Whether the operator's options make sense; called once per run, before anything is played.
    ///
    /// # Errors
    /// They do not; the text says which, and what would.
    fn check(context: &Context) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Judges one episode.
    ///
    /// # Errors
    /// It cannot be judged: the verdict is `failed`, and the episode is not scored.
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

/// Exports a [`Reward`] as a plugin. Outside wasm it expands to nothing but a check that the type is one.
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
