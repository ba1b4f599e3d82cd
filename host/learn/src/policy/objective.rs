//! Policy gradients: their terms, and the published combinations by name.

use super::advantage::{Advantage, Truncation};
use super::aggregate::Aggregation;
use super::credit::Credit;
use super::loss::{Distillation, Surrogate, TruncatedImportance};
use crate::LearnError;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// Smallest Jaro-Winkler similarity of a suggested name; the same as on the command line.
const ALIKE: f64 = 0.7;

/// Proximal policy optimisation is its clip together with a critic, which predicts values. There is no critic here. Without one,
/// the clip with the baseline of a group is another objective, and has its own name.
const WITHOUT_CRITIC: &str = "ppo";

/// A policy gradient. The loss of a token is `-surrogate(ratio, A) w + kl k3`, where `A = weight A_reward + weight
/// A_teacher` and w is the truncated importance weight. If the most likely tokens of a teacher are compared, `A_teacher` is 0, and
/// their divergence is added to the loss: it depends on no draw, so it has neither ratio nor weight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PolicyGradient {
    /// The surrogate, which bounds a step.
    pub surrogate: Surrogate,
    /// How token losses are aggregated.
    pub aggregation: Aggregation,
    /// The reward term; `None`: rewards are not used.
    pub reward: Option<RewardTerm>,
    /// What tokens are credited with, from rewards.
    pub credit: Credit,
    /// The distillation term.
    pub distillation: Option<Distillation>,
    /// Corrects the mismatch between rollout and trainer. Required for trajectories with a version lag.
    pub truncated_importance: Option<TruncatedImportance>,
    /// Weight of the KL divergence from the reference, 0 or more. With 0 no reference is needed.
    pub kl: f64,
}

/// Most likely tokens of the teacher that are compared where hints are learned from. With the drawn token alone, a correction says which answer was
/// bad, and not which would have been good. Every endpoint that scores given tokens names so many, this program's gateway among them.
pub const HINT_TOP: u8 = 5;

/// What the weights of a model that serves learn from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveSignal {
    /// Rewards of sessions: every token of an answer gets the advantage of its session (binary RL of `OpenClaw-RL`).
    Binary,
    /// Corrections: an answer is compared, token by token, with what the model would have said with the correction before it (on-policy
    /// distillation from hindsight hints, as `OpenClaw-RL`'s).
    Hint,
    /// The sum of both, with equal weights.
    #[default]
    Combined,
}

impl LiveSignal {
    /// Whether rewards are learned from.
    pub fn uses_rewards(self) -> bool {
        self != Self::Hint
    }

    /// Whether corrections are learned from.
    pub fn uses_hints(self) -> bool {
        self != Self::Binary
    }
}

/// The reward term of a policy gradient.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RewardTerm {
    /// Weight; greater than 0.
    pub weight: f64,
    /// The baseline.
    pub advantage: Advantage,
    /// How truncated episodes are used.
    pub truncation: Truncation,
}

impl RewardTerm {
    /// Weight 1; truncated episodes are excluded.
    pub fn of(advantage: Advantage) -> Self {
        Self { weight: 1.0, advantage, truncation: Truncation::Mask }
    }
}

impl PolicyGradient {
    /// Reward term with this advantage, no teacher, no KL, importance weights truncated at 2.
    fn from_rewards(surrogate: Surrogate, aggregation: Aggregation, advantage: Advantage) -> Self {
        Self {
            surrogate,
            aggregation,
            reward: Some(RewardTerm::of(advantage)),
            credit: Credit::Episode,
            distillation: None,
            truncated_importance: Some(TruncatedImportance::default()),
            kl: 0.0,
        }
    }

    /// Distillation only, per token.
    fn from_teacher(distillation: Distillation) -> Self {
        let rewarded = Self::from_rewards(Surrogate::Importance, Aggregation::Token, Advantage::Standardised);
        Self { reward: None, distillation: Some(distillation), ..rewarded }
    }

    /// # Errors
    ///
    /// [`LearnError::Objective`] names the invalid setting.
    pub(super) fn check(&self) -> Result<(), LearnError> {
        let refuse = |what: String| Err(LearnError::Objective(what));
        if self.reward.is_none() && self.distillation.is_none() {
            return refuse("neither rewards nor a teacher: there is no gradient".into());
        }
        self.surrogate.check()?;
        self.credit.check()?;
        let non_negative = |value: f64| value.is_finite() && value >= 0.0;
        if !non_negative(self.kl) {
            return refuse(format!("kl is {}; expected 0 or more", self.kl));
        }
        if let Some(reward) = self.reward {
            if !(non_negative(reward.weight) && reward.weight > 0.0) {
                return refuse(format!("the weight of rewards is {}; expected more than 0", reward.weight));
            }
            if let Truncation::Penalty(penalty) = reward.truncation
                && !non_negative(penalty)
            {
                return refuse(format!("the penalty of truncated episodes is {penalty}; expected 0 or more"));
            }
        }
        self.distillation.iter().try_for_each(Distillation::check)?;
        self.truncated_importance.iter().try_for_each(TruncatedImportance::check)
    }
}

impl PolicyGradient {
    /// The objective of a model that serves: single sessions, the clip of DAPO (.2/.28), the mean over tokens, and importance weights truncated at 2
    /// for sessions that earlier weights answered. Truncated answers count: people judge what they get.
    pub fn live(signal: LiveSignal) -> Self {
        let clip = Surrogate::Clip { low: 0.2, high: 0.28 };
        let rewarded = Self::from_rewards(clip, Aggregation::Token, Advantage::Single);
        Self {
            reward: signal
                .uses_rewards()
                .then(|| RewardTerm { truncation: Truncation::Keep, ..RewardTerm::of(Advantage::Single) }),
            distillation: signal.uses_hints().then(|| Distillation { top: HINT_TOP, ..Distillation::default() }),
            ..rewarded
        }
    }
}

impl PolicyGradient {
    /// The names of [`Self::named`].
    pub const NAMES: [&'static str; 8] = ["grpo", "dapo", "dr_grpo", "rloo", "is", "cispo", "gspo", "opd"];

    /// A published objective with its published settings. `max_tokens`, the largest number of tokens of a trajectory, is the
    /// divisor of Dr. GRPO; other objectives ignore it.
    ///
    /// | name | definition | source |
    /// |---|---|---|
    /// | `grpo` | standardised, clip .2/.2, mean per sequence | Shao et al. 2024 |
    /// | `dapo` | standardised, clip .2/.28, mean over tokens | Yu et al. 2025 |
    /// | `dr_grpo` | centred, clip .2/.2, sum over `max_tokens` | Liu et al. 2025 |
    /// | `rloo` | leave-one-out, ratio without clip, sum per sequence | Ahmadian et al. 2024 |
    /// | `is` | standardised, ratio without clip, sum | importance sampling as in Tinker |
    /// | `cispo` | standardised, weight of at most 1.28 without gradient, mean over tokens | MiniMax-M1 2025 |
    /// | `gspo` | standardised, ratio of the sequence, clip 3e-4/4e-4, mean per sequence | Zheng et al. 2025 |
    /// | `opd` | `teacher - old` per token, or the divergence over the teacher's most likely tokens; mean over tokens | on-policy distillation: Agarwal et al. 2024, Tinker |
    ///
    /// # Errors
    ///
    /// [`LearnError::NoCritic`] for `ppo`; [`LearnError::UnknownObjective`] with the most similar name for other names.
    pub fn named(name: &str, max_tokens: NonZeroU32) -> Result<Self, LearnError> {
        use Advantage::{Centred, LeaveOneOut, Standardised};
        use Aggregation::{Constant, Sequence, Sum, Token};
        let clip = |low, high| Surrogate::Clip { low, high };
        let policy = Self::from_rewards;
        Ok(match name {
            "grpo" => policy(clip(0.2, 0.2), Sequence, Standardised),
            "dapo" => policy(clip(0.2, 0.28), Token, Standardised),
            "dr_grpo" => policy(clip(0.2, 0.2), Constant { length: max_tokens }, Centred),
            "rloo" => policy(Surrogate::Importance, Constant { length: NonZeroU32::MIN }, LeaveOneOut),
            "is" => policy(Surrogate::Importance, Sum, Standardised),
            "cispo" => policy(Surrogate::BoundedWeight { high: 0.28 }, Token, Standardised),
            "gspo" => policy(Surrogate::SequenceClip { low: 3e-4, high: 4e-4 }, Sequence, Standardised),
            "opd" => Self::from_teacher(Distillation::default()),
            WITHOUT_CRITIC => return Err(LearnError::NoCritic),
            _ => return Err(unknown(name)),
        })
    }
}

fn unknown(name: &str) -> LearnError {
    let nearest = PolicyGradient::NAMES
        .into_iter()
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(likeness, _)| *likeness > ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    LearnError::UnknownObjective {
        name: name.to_owned(),
        hint: nearest.map(|(_, known)| format!(", did you mean `{known}`?")).unwrap_or_default(),
        known: PolicyGradient::NAMES.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Result<PolicyGradient, LearnError> {
        PolicyGradient::named(name, NonZeroU32::new(4).unwrap())
    }

    #[test]
    fn every_name_has_valid_settings() {
        for name in PolicyGradient::NAMES {
            named(name).unwrap().check().unwrap();
        }
    }

    #[test]
    fn an_unknown_objective_is_an_error_with_the_nearest_name() {
        let check = |name: &str, expect: &str| {
            let error = named(name).unwrap_err().to_string();
            assert!(error.contains(expect) && error.contains("there are grpo, dapo, dr_grpo"), "{error}");
        };
        check("drgrpo", "no objective is called `drgrpo`, did you mean `dr_grpo`?");
        check("xyz", "no objective is called `xyz`; there are");
    }

    #[test]
    fn ppo_without_a_critic_is_an_error_that_names_alternatives() {
        let error = named("ppo").unwrap_err();
        assert_eq!(error, LearnError::NoCritic);
        assert_eq!(
            error.to_string(),
            "ppo needs a critic, and there is none; dapo and grpo have its clip, with the group as baseline"
        );
    }

    #[test]
    fn invalid_settings_are_named() {
        let check = |change: &dyn Fn(&mut PolicyGradient), expect: &str| {
            let mut gradient = PolicyGradient { distillation: Some(Distillation::default()), ..named("grpo").unwrap() };
            change(&mut gradient);
            let error = gradient.check().unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(&|gradient| (gradient.reward, gradient.distillation) = (None, None), "neither rewards nor a teacher");
        check(&|gradient| gradient.kl = f64::NAN, "kl is NaN");
        check(&|gradient| gradient.surrogate = Surrogate::Clip { low: 1.5, high: 0.2 }, "clip");
        check(&|gradient| gradient.surrogate = Surrogate::BoundedWeight { high: -0.1 }, "clip");
        check(&|gradient| gradient.truncated_importance = Some(TruncatedImportance { cap: 0.0 }), "cap");
        check(&|gradient| gradient.distillation = Some(Distillation { weight: -1.0, top: 0 }), "teacher");
        let with = |reward: RewardTerm| move |gradient: &mut PolicyGradient| gradient.reward = Some(reward);
        let term = RewardTerm::of(Advantage::Centred);
        check(&with(RewardTerm { weight: 0.0, ..term }), "weight of rewards is 0");
        check(&with(RewardTerm { truncation: Truncation::Penalty(-1.0), ..term }), "penalty");
    }
}
