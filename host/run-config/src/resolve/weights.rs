//! The settings of the weights layer, with the rules between these options.

use super::learn::ROUTER;
use super::{Resolver, preset_flag, preset_number, small};
use crate::check::options;
use crate::folder::is_endpoint;
use crate::key::DISTILLATION;
use crate::{AdapterSpec, CreditUnit, Key, Layer, Optimizer, Truncated, Value, WeightsSpec};

/// Below this temperature a draw is almost always the most likely token, and the rounding error of a single-precision
/// log-prob is multiplied by more than twenty: rollout and trainer would differ by more than the limit.
const LEAST_TEMPERATURE: f64 = 0.05;
/// An adapter's alpha per rank, by default.
const ALPHA_PER_RANK: f64 = 2.0;

impl Resolver<'_> {
    pub(super) fn weights(&mut self) -> WeightsSpec {
        self.check_model();
        self.check_adapter();
        self.check_demonstrations();
        let is_distilled = self.check_teacher();
        let adapter = self.adapter();
        let case = usize::from(adapter.is_some());
        WeightsSpec {
            objective: self.text_or(Key::Objective, 0).to_owned(),
            teacher: self.text(Key::Teacher).map(str::to_owned),
            teacher_top: small(self.whole_or(Key::TeacherTop, 0)),
            credit: match self.text_or(Key::Credit, 0) {
                name if name == CreditUnit::Turn.name() => CreditUnit::Turn,
                name if name == CreditUnit::Judge.name() => CreditUnit::Judge,
                _ => CreditUnit::Episode,
            },
            credit_weight: self.number_or(Key::CreditWeight, 0),
            epochs: self.small_or(Key::Epochs, 0),
            minibatches: self.small_or(Key::Minibatches, 0),
            rate: self.number_or(Key::Rate, case),
            warmup: self.whole_or(Key::Warmup, 0),
            optimizer: match self.text_or(Key::Optimizer, case) {
                name if name == Optimizer::AdamW.name() => Optimizer::AdamW,
                _ => Optimizer::Muon,
            },
            adapter,
            truncated: self.text_or(Key::Truncated, 0).parse().unwrap_or(Truncated::Keep),
            kl: self.number_or(Key::Kl, 0),
            // Groups with equal rewards teach as much as others.
            refills: if is_distilled { 0 } else { self.small_or(Key::Refills, 0) },
            difficulty_filter: match self.value(Key::DifficultyFilter) {
                Some(Value::Flag(flag)) => *flag,
                _ => preset_flag(Key::DifficultyFilter),
            },
            evaluate_every: self.whole_or(Key::EvaluateEvery, 0),
            evaluate_episodes: self.whole_or(Key::EvaluateEpisodes, 0),
            demonstrations: options(self.texts(Key::Demonstrations)),
            demonstrations_until: self.number_or(Key::DemonstrationsUntil, 0),
            demonstrations_steps: self.whole_or(Key::DemonstrationsSteps, 0),
            completions: self.small_or(Key::Completions, 0),
            out: self.text(Key::Out).map(str::to_owned),
            before: None,
        }
    }

    /// Weights that learn must be in a local folder. A router may have such a model.
    fn check_model(&mut self) {
        let is_local = |text: &str| {
            text.strip_prefix("local:").or_else(|| text.strip_prefix(ROUTER)).is_some_and(|rest| !rest.is_empty())
        };
        let is_reported = self.refused.contains(&Key::Policy) || self.refused.contains(&Key::Model);
        if is_reported || self.has(Key::Model) || is_local(self.text_or(Key::Policy, 0)) {
            return;
        }
        let at = if self.has(Key::Policy) { Key::Policy } else { Key::Model };
        let begin = "layer weights needs a local model: name its folder with ".into();
        self.refuse(
            at,
            [
                begin,
                Key::Model.into(),
                ", or write local:DIR for ".into(),
                Key::Policy.into(),
                ", or router:NAME, which has one".into(),
            ],
        );
    }

    /// Whether a teacher is learned from. A teacher and its objective need each other.
    fn check_teacher(&mut self) -> bool {
        let is_distilled = self.text_or(Key::Objective, 0) == DISTILLATION;
        let is_sure = !self.refused.contains(&Key::Objective) && !self.refused.contains(&Key::Teacher);
        match (is_distilled, self.has(Key::Teacher)) {
            _ if !is_sure => {}
            (true, false) => {
                self.refuse(Key::Objective, [format!("{DISTILLATION} needs ").into(), Key::Teacher.into()]);
            }
            (false, true) => {
                let need = format!(" {DISTILLATION}; the others learn from rewards");
                self.refuse(Key::Teacher, ["needs ".into(), Key::Objective.into(), need.into()]);
            }
            (true, true) | (false, false) => {}
        }
        if is_sure && !is_distilled && self.whole(Key::TeacherTop).is_some_and(|top| top > 0) {
            let need = format!(" {DISTILLATION}");
            self.refuse(Key::TeacherTop, ["needs ".into(), Key::Objective.into(), need.into()]);
        }
        let is_remote = self.text(Key::Teacher).is_some_and(is_endpoint);
        if let Some(other) = self.number(Key::Temperature).filter(|temperature| is_remote && *temperature != 1.0) {
            let why =
                format!("found {other}; expected 1: an endpoint as teacher gives log-probs at temperature 1 only");
            self.refuse(Key::Temperature, [why.into()]);
        }
        if is_distilled && self.whole(Key::Refills).is_some_and(|refills| refills > 0) {
            let why = format!("not with {DISTILLATION}, which learns from all groups, unless it is 0");
            self.refuse(Key::Refills, [why.into()]);
        }
        let credits_episodes = self.text_or(Key::Credit, 0) == CreditUnit::Episode.name();
        if credits_episodes && self.has(Key::CreditWeight) && !self.refused.contains(&Key::Credit) {
            let (turn, judge) = (CreditUnit::Turn.name(), CreditUnit::Judge.name());
            self.refuse(Key::CreditWeight, ["needs ".into(), Key::Credit.into(), format!(" {turn} or {judge}").into()]);
        }
        if is_distilled && !credits_episodes {
            self.refuse(Key::Credit, [format!("not with {DISTILLATION}, which learns from no rewards").into()]);
        }
        is_distilled
    }

    fn check_adapter(&mut self) {
        for key in [Key::AdapterAlpha, Key::AdapterTargets] {
            if self.has(key) && !self.has(Key::AdapterRank) {
                self.refuse(key, ["needs ".into(), Key::AdapterRank.into(), "; without it all weights learn".into()]);
            }
        }
    }

    fn adapter(&self) -> Option<AdapterSpec> {
        let rank: u32 = small(self.whole(Key::AdapterRank)?);
        let named = self.texts(Key::AdapterTargets);
        // Their order has no meaning: equal sets are equal.
        let targets = Key::AdapterTargets.choices().iter().filter(|target| named.iter().any(|name| name == *target));
        Some(AdapterSpec {
            rank,
            alpha: self.number(Key::AdapterAlpha).unwrap_or(ALPHA_PER_RANK * f64::from(rank)),
            targets: targets.map(|target| (*target).to_owned()).collect(),
        })
    }

    fn check_demonstrations(&mut self) {
        let is_sure = !self.refused.contains(&Key::Demonstrations);
        let has_some = !self.texts(Key::Demonstrations).is_empty();
        for key in [Key::DemonstrationsUntil, Key::DemonstrationsSteps] {
            if is_sure && !has_some && self.has(key) {
                self.refuse(key, ["needs ".into(), Key::Demonstrations.into()]);
            }
        }
        if has_some && self.number(Key::Kl).is_some_and(|kl| kl != 0.0) {
            self.refuse(Key::Kl, ["not together with ".into(), Key::Demonstrations.into(), ", unless it is 0".into()]);
        }
    }

    /// The temperature. If weights learn, it must be high enough to sample different answers.
    pub(super) fn temperature(&mut self) -> Option<f32> {
        let given = self.number(Key::Temperature);
        if !self.learns(Layer::Weights) {
            return given.map(single);
        }
        let usual = preset_number(Key::Temperature, 0);
        if let Some(low) = given.filter(|temperature| *temperature < LEAST_TEMPERATURE) {
            let why = "gives almost equal samples, so there is nothing to learn from";
            let why = format!("found {low}; expected at least {LEAST_TEMPERATURE}, as {usual}: a lower one {why}");
            self.refuse(Key::Temperature, [why.into()]);
        }
        Some(single(given.unwrap_or(usual)))
    }

    /// Top-p. It is 1 if weights learn: the gradient of a truncated distribution does not cover the tokens that were
    /// cut off.
    pub(super) fn top_p(&mut self) -> Option<f32> {
        let given = self.number(Key::TopP);
        if let Some(part) = given.filter(|part| *part < 1.0 && self.learns(Layer::Weights)) {
            let why = "weights learn only from draws among all tokens";
            self.refuse(Key::TopP, [format!("found {part}; expected 1: {why}").into()]);
        }
        // A value above 0 that single precision rounds to 0 stays above 0.
        given.map(|part| single(part).max(f32::MIN_POSITIVE))
    }
}

/// Models use single precision.
fn single(number: f64) -> f32 {
    number as f32
}
