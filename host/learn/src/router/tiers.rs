//! Tiers of models by the complexity of a request: the fixed rule of ClawLoop, to start from and to compare with.

use super::RequestSummary;
use super::features::{COMPLEXITY, Features};
use super::table::Table;
use crate::LearnError;
use serde::{Deserialize, Serialize};

/// Characters per token of English text, which the rule counts in.
const CHARACTERS_PER_TOKEN: f64 = 4.0;
/// Complexity from which a request belongs to the tiers `medium`, `heavy` and `reasoning` (ClawLoop).
const THRESHOLDS: [f64; 3] = [0.25, 0.5, 0.75];

/// Complexity of a request, 0 to 1, with ClawLoop's weights.
pub(super) fn complexity(request: &RequestSummary) -> f64 {
    let code = if request.has_code { 1.0 } else { 0.0 };
    let tokens = request.characters as f64 / CHARACTERS_PER_TOKEN;
    let fifteen = tokens / 1_000.0
        + code
        + f64::from(request.technical_terms) / 10.0
        + f64::from(request.tools)
        + f64::from(request.turns);
    (0.15 * fifteen + 0.25 * f64::from(request.reasoning_markers)).clamp(0.0, 1.0)
}

/// A model for each tier, and a list to fall back on. A tier without a model in the table takes the next higher one, and then
/// the first model of the list that the table has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tiers {
    /// Complexity below 0.25.
    pub light: Option<String>,
    /// Complexity from 0.25.
    pub medium: Option<String>,
    /// Complexity from 0.5.
    pub heavy: Option<String>,
    /// Complexity from 0.75.
    pub reasoning: Option<String>,
    /// The fifth tier: models for requests whose tier and all higher ones have none.
    pub fallback: Vec<String>,
}

impl Tiers {
    /// Whether every tier finds a model, and every named model is in the table.
    ///
    /// # Errors
    /// A model is not in the table, or a tier finds none.
    pub fn check(&self, table: &Table) -> Result<(), LearnError> {
        let tiers =
            [("light", &self.light), ("medium", &self.medium), ("heavy", &self.heavy), ("reasoning", &self.reasoning)];
        let named = tiers.iter().filter_map(|(_, model)| model.as_ref()).chain(&self.fallback);
        if let Some(unknown) = named.map(String::as_str).find(|model| !table.has(model)) {
            return Err(table.unknown(unknown));
        }
        // Only the highest named tier and the fallback serve those above it.
        let last = tiers.iter().rposition(|(_, model)| model.is_some());
        let without = if self.fallback.is_empty() { tiers.get(last.map_or(0, |last| last + 1)) } else { None };
        without.map_or(Ok(()), |(tier, _)| {
            Err(LearnError::Router(format!(
                "the tier {tier} has no model: name one for it or a higher one, or a fallback"
            )))
        })
    }

    /// The model for a request; `None` if the table has none of these models. Features without `complexity` count as light.
    pub fn model<'a>(&'a self, features: &Features, table: &Table) -> Option<&'a str> {
        let complexity = features.get(COMPLEXITY).unwrap_or_default();
        let tier = THRESHOLDS.iter().filter(|threshold| complexity >= **threshold).count();
        let tiers = [&self.light, &self.medium, &self.heavy, &self.reasoning];
        let from_tier = tiers.into_iter().skip(tier).flatten();
        from_tier.chain(&self.fallback).map(String::as_str).find(|model| table.has(model))
    }
}
