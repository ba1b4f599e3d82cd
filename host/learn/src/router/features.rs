//! The features of a request that a router sees: at most 16 named, finite numbers, computed without asking a model.

use super::tiers::complexity;
use crate::LearnError;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Most features of a request. An update costs the cube of their number, and each needs outcomes to learn its weight.
pub const FEATURES: usize = 16;
/// Largest size of a feature: the square of a larger one loses all others to rounding.
const LARGEST: f64 = 1e9;
/// Buckets that task classes are hashed into. Classes of one bucket share a weight.
pub const CLASS_BUCKETS: usize = 4;
/// Names of the buckets.
const CLASSES: [&str; CLASS_BUCKETS] = ["class_0", "class_1", "class_2", "class_3"];
/// Name of the feature that [`super::Tiers`] reads.
pub(super) const COMPLEXITY: &str = "complexity";

/// What is known about a session when it starts. It holds counts, and no text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestSummary {
    /// Characters of the conversation so far.
    pub characters: u64,
    /// Messages of the conversation so far.
    pub turns: u32,
    /// Tools on offer.
    pub tools: u32,
    /// Whether a message holds a block of code.
    pub has_code: bool,
    /// Share of characters outside ASCII, 0 to 1: tells most languages from English.
    pub non_ascii_share: f64,
    /// Words that ask for reasoning (`prove`, `step by step`).
    pub reasoning_markers: u32,
    /// Technical terms.
    pub technical_terms: u32,
    /// Class of the task, if the caller knows one.
    pub class: Option<String>,
    /// Failures seen earlier in the session.
    pub failures: u32,
    /// Likeness to requests that were hard, -1 to 1 ([`super::Likeness::of`]); 0 if unknown.
    pub likeness: f64,
}

/// Named features of a request, in a fixed order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Features(Vec<(Cow<'static, str>, f64)>);

impl Features {
    /// Features with these names and values.
    ///
    /// # Errors
    /// More than [`FEATURES`], a name that occurs twice, or a value that is not finite or beyond 1e9.
    pub fn new(values: Vec<(Cow<'static, str>, f64)>) -> Result<Self, LearnError> {
        let features = Self(values);
        features.check()?;
        Ok(features)
    }

    /// The features of a request. Counts enter as logarithms, because a long request differs from a short one by a factor.
    ///
    /// # Errors
    /// A share or a likeness that is not finite.
    pub fn of(request: &RequestSummary) -> Result<Self, LearnError> {
        let log = |count: f64| count.ln_1p();
        let flag = |set: bool| if set { 1.0 } else { 0.0 };
        let bucket = request.class.as_deref().map(|class| hash(class) as usize % CLASS_BUCKETS);
        let mut values: Vec<(Cow<'static, str>, f64)> = vec![
            ("characters".into(), log(request.characters as f64)),
            ("turns".into(), log(f64::from(request.turns))),
            ("tools".into(), log(f64::from(request.tools))),
            ("code".into(), flag(request.has_code)),
            ("non_ascii".into(), request.non_ascii_share),
            ("failures".into(), log(f64::from(request.failures))),
            ("likeness".into(), request.likeness),
            (COMPLEXITY.into(), complexity(request)),
        ];
        let classes = CLASSES.iter().enumerate();
        values.extend(classes.map(|(at, name)| (Cow::Borrowed(*name), flag(bucket == Some(at)))));
        Self::new(values)
    }

    /// The names of [`Features::of`], in its order.
    pub fn names_of_requests() -> Vec<String> {
        // A summary of zeros has finite features.
        let features = Self::of(&RequestSummary::default()).unwrap_or_default();
        features.names().map(str::to_owned).collect()
    }

    pub(super) fn check(&self) -> Result<(), LearnError> {
        if self.0.len() > FEATURES {
            return Err(LearnError::Router(format!("{} features; at most {FEATURES}", self.0.len())));
        }
        for (at, (name, value)) in self.0.iter().enumerate() {
            if !value.is_finite() || value.abs() > LARGEST {
                return Err(LearnError::Feature { name: name.to_string(), value: *value });
            }
            if self.0.iter().take(at).any(|(other, _)| other == name) {
                return Err(LearnError::Router(format!("feature {name} occurs twice")));
            }
        }
        Ok(())
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_ref())
    }

    /// The values, in order.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|(_, value)| *value)
    }

    /// The value of a feature.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

/// FNV-1a (Fowler, Noll, Vo) with 32 bits: equal on every machine, and fast on short texts.
pub(super) fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
