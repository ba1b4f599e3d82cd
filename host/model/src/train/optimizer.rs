//! Muon for the matrices inside the blocks, AdamW for the other weights.
//!
//! Muon (Jordan et al. 2024): the momentum of a matrix's gradient, approximately orthogonalised by Newton and Schulz's
//! iteration. Matrices of one shape are processed together: a small model has dozens of them, and each operation has a
//! fixed cost. AdamW (Loshchilov and Hutter 2019) with decoupled weight decay.

use serde::{Deserialize, Serialize};

/// The rule for the matrices inside the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Muon at [`MUON_SCALE`] times the rate. AdamW for embeddings, norms, biases and head.
    Muon,
    /// AdamW for all weights.
    AdamW,
}

/// The settings of the optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OptimizerSettings {
    /// The rule for the matrices inside the blocks.
    pub rule: Rule,
    /// AdamW: decay of the first moment.
    pub beta1: f64,
    /// AdamW: decay of the second moment.
    pub beta2: f64,
    /// AdamW: added to the square root of the second moment.
    pub epsilon: f64,
    /// Weight decay of matrices, as a share of the rate.
    pub weight_decay: f64,
    /// The gradient's norm over all weights is clipped to it.
    pub clip: f64,
}

impl Default for OptimizerSettings {
    fn default() -> Self {
        Self { rule: Rule::Muon, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.0, clip: 1.0 }
    }
}

/// Muon's momentum.
pub const MOMENTUM: f64 = 0.95;
/// Muon's rate as a multiple of the rate: with it one rate fits both rules.
pub const MUON_SCALE: f64 = 2.0;
/// Coefficients of the iteration. They move singular values towards 1 quickly, and not exactly to 1.
pub const NEWTON_SCHULZ: [f64; 3] = [3.4445, -4.7750, 2.0315];
/// Its number of iterations.
pub const ROUNDS: usize = 5;
/// Avoids a division by zero for an empty gradient.
pub const TINY: f64 = 1e-7;

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepReport {
    /// Norm of the gradient before clipping.
    pub gradient_norm: f64,
    /// The learning rate.
    pub rate: f64,
}

/// Whether this is the name of a weight inside a block.
pub fn is_inside(name: &str) -> bool {
    name.starts_with("model.layers.")
}
