//! Muon for the matrices inside, AdamW for the rest.
//!
//! Muon (Jordan et al. 2024): the momentum of a matrix's gradient, made nearly orthogonal by Newton and Schulz's iteration.
//! Matrices of one shape are made so together: a small model has dozens of them, and each operation has its price.
//! AdamW (Loshchilov and Hutter 2019) with decay taken off the weights themselves.

use serde::{Deserialize, Serialize};

/// Which rule moves the matrices inside of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Muon, at [`MUON_SCALE`] times the rate; embeddings, norms, biases and head by AdamW.
    Muon,
    /// AdamW for all.
    AdamW,
}

/// How a step is taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OptimizerSettings {
    /// For the matrices inside.
    pub rule: Rule,
    /// AdamW: decay of the first moment.
    pub beta1: f64,
    /// AdamW: decay of the second.
    pub beta2: f64,
    /// AdamW: added to the root.
    pub epsilon: f64,
    /// Share of the rate by which matrices shrink.
    pub weight_decay: f64,
    /// Gradients longer than this, all of them together, are shortened to it.
    pub clip: f64,
}

impl Default for OptimizerSettings {
    fn default() -> Self {
        Self { rule: Rule::Muon, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.0, clip: 1.0 }
    }
}

/// Muon's momentum.
pub const MOMENTUM: f64 = 0.95;
/// Muon's steps are so many times the rate: then one rate fits both rules.
pub const MUON_SCALE: f64 = 2.0;
/// Coefficients of the iteration, which drive singular values towards 1 fast and stop short of it.
pub const NEWTON_SCHULZ: [f64; 3] = [3.4445, -4.7750, 2.0315];
/// Its rounds.
pub const ROUNDS: usize = 5;
/// Keeps an empty gradient's norm from being divided by.
pub const TINY: f64 = 1e-7;

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepReport {
    /// Length of the gradient before it was shortened.
    pub gradient_norm: f64,
    /// The rate.
    pub rate: f64,
}

/// Whether a weight belongs to a block, by its name.
pub fn is_inside(name: &str) -> bool {
    name.starts_with("model.layers.")
}
