//! Muon and AdamW on a device: the rules of [`clawhost_model::train::Rule`].
//!
//! Muon makes the momentum of a matrix nearly orthogonal with the Newton-Schulz iteration. Matrices of equal shape are stacked, because a
//! small model has dozens of them and every operation on a device has a fixed cost.

use super::gradient::GradientSum;
use crate::network::{DeviceDecoder, Network, values};
use burn::tensor::Tensor;
use clawhost_model::train::{
    MOMENTUM, MUON_SCALE, NEWTON_SCHULZ, OptimizerSettings, ROUNDS, Rule, StepReport, TINY, is_inside,
};
use clawhost_model::{LocalModelError, Weight, is_adapter};
use std::collections::BTreeMap;

/// A weight, a gradient or a moment on the device.
pub(super) type Tensors = Weight<Tensor<2>, Tensor<1>>;

/// The moments, by the weight's name. None of these tensors is tracked by burn's autodiff.
#[derive(Debug, Clone, Default)]
pub struct OptimizerState {
    /// Steps taken.
    pub steps: u64,
    /// First moments, and Muon's momentum.
    pub(super) first: BTreeMap<String, Tensors>,
    /// Second moments.
    pub(super) second: BTreeMap<String, Tensors>,
}

/// The norm of all gradients together.
///
/// # Errors
/// One of them is not finite: the error names it.
fn norm(gradients: &GradientSum) -> Result<f64, LocalModelError> {
    let squares = gradients.of.values().map(|gradient| match gradient {
        Weight::Matrix(matrix) => matrix.clone().square().sum(),
        Weight::Vector(vector) => vector.clone().square().sum(),
    });
    let squares = values(&Tensor::cat(squares.collect(), 0))?;
    for (name, square) in gradients.of.keys().zip(&squares) {
        if !square.is_finite() {
            return Err(LocalModelError::Diverged { what: format!("the gradient of {name}") });
        }
    }
    Ok(squares.iter().map(|square| f64::from(*square)).sum::<f64>().sqrt())
}

impl OptimizerState {
    /// Takes one step of gradient descent. Returns the new weights and does not change the old ones, so a failure changes nothing.
    ///
    /// # Errors
    /// A gradient or a new weight is not finite.
    pub fn step(
        &self,
        network: &Network,
        gradients: GradientSum,
        rate: f64,
        settings: &OptimizerSettings,
    ) -> Result<(DeviceDecoder, Self, StepReport), LocalModelError> {
        let gradient_norm = norm(&gradients)?;
        let shrink = if gradient_norm > settings.clip { settings.clip / gradient_norm } else { 1.0 };
        let mut next = self.clone();
        next.steps += 1;
        let mut moved: BTreeMap<String, Tensors> = BTreeMap::new();
        let mut orthogonal = Vec::new();
        let weights: BTreeMap<String, Tensors> = network.weights.weights().into_iter().collect();
        for (name, gradient) in gradients.of {
            let Some(weight) = weights.get(&name) else { continue };
            match (weight, gradient) {
                (Weight::Matrix(weight), Weight::Matrix(gradient)) => {
                    let (weight, gradient) = (weight.clone().inner(), gradient.mul_scalar(shrink));
                    if settings.rule == Rule::Muon && is_inside(&name) && !is_adapter(&name) {
                        let momentum = match next.first.remove(&name) {
                            Some(Weight::Matrix(momentum)) => momentum.mul_scalar(MOMENTUM) + gradient.clone(),
                            _ => gradient.clone(),
                        };
                        // Nesterov momentum.
                        orthogonal.push((name.clone(), weight, gradient + momentum.clone().mul_scalar(MOMENTUM)));
                        next.first.insert(name, Weight::Matrix(momentum));
                    } else {
                        let decay = 1.0 - rate * settings.weight_decay;
                        let change = next.adam(&name, Weight::Matrix(gradient), settings);
                        if let Weight::Matrix(change) = change {
                            let weight = weight.mul_scalar(decay) - change.mul_scalar(rate);
                            moved.insert(name, Weight::Matrix(weight));
                        }
                    }
                }
                (Weight::Vector(weight), Weight::Vector(gradient)) => {
                    // No weight decay for norms and biases.
                    let change = next.adam(&name, Weight::Vector(gradient.mul_scalar(shrink)), settings);
                    if let Weight::Vector(change) = change {
                        moved.insert(name, Weight::Vector(weight.clone().inner() - change.mul_scalar(rate)));
                    }
                }
                _ => {}
            }
        }
        for (name, weight, direction) in orthogonalised(orthogonal) {
            let [input, out] = weight.dims();
            let size = MUON_SCALE * rate * (out as f64 / input as f64).max(1.0).sqrt();
            let decay = 1.0 - rate * settings.weight_decay;
            moved.insert(name, Weight::Matrix(weight.mul_scalar(decay) - direction.mul_scalar(size)));
        }
        check(&moved)?;
        let weights = network.weights.map(
            &mut |name, old| match moved.get(name) {
                Some(Weight::Matrix(new)) => tracked(new.clone()),
                _ => old.clone(),
            },
            &mut |name, old| match moved.get(name) {
                Some(Weight::Vector(new)) => tracked(new.clone()),
                _ => old.clone(),
            },
        );
        Ok((weights, next, StepReport { gradient_norm, rate }))
    }

    /// The direction of AdamW, with bias-corrected moments.
    fn adam(&mut self, name: &str, gradient: Tensors, settings: &OptimizerSettings) -> Tensors {
        let [beta1, beta2] = [settings.beta1, settings.beta2];
        let steps = i32::try_from(self.steps).unwrap_or(i32::MAX);
        let [first_share, second_share] = [1.0 - beta1.powi(steps), 1.0 - beta2.powi(steps)];
        macro_rules! direction {
            ($kind:ident, $gradient:expr) => {{
                let gradient = $gradient;
                let first = match self.first.remove(name) {
                    Some(Weight::$kind(first)) => first.mul_scalar(beta1) + gradient.clone().mul_scalar(1.0 - beta1),
                    _ => gradient.clone().mul_scalar(1.0 - beta1),
                };
                let second = match self.second.remove(name) {
                    Some(Weight::$kind(second)) => second.mul_scalar(beta2) + gradient.square().mul_scalar(1.0 - beta2),
                    _ => gradient.square().mul_scalar(1.0 - beta2),
                };
                let root = (second.clone() / second_share).sqrt() + settings.epsilon;
                let direction = first.clone() / first_share / root;
                self.first.insert(name.to_owned(), Weight::$kind(first));
                self.second.insert(name.to_owned(), Weight::$kind(second));
                Weight::$kind(direction)
            }};
        }
        match gradient {
            Weight::Matrix(gradient) => direction!(Matrix, gradient),
            Weight::Vector(gradient) => direction!(Vector, gradient),
        }
    }
}

fn tracked<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    Tensor::from_inner(tensor).require_grad()
}

/// Refuses weights that are not finite.
fn check(moved: &BTreeMap<String, Tensors>) -> Result<(), LocalModelError> {
    let sums = moved.values().map(|weight| match weight {
        Weight::Matrix(matrix) => matrix.clone().abs().sum(),
        Weight::Vector(vector) => vector.clone().abs().sum(),
    });
    let sums: Vec<Tensor<1>> = sums.collect();
    if sums.is_empty() {
        return Ok(());
    }
    for (name, sum) in moved.keys().zip(values(&Tensor::cat(sums, 0))?) {
        if !sum.is_finite() {
            return Err(LocalModelError::Diverged { what: format!("the new weight {name}") });
        }
    }
    Ok(())
}

type Named = (String, Tensor<2>, Tensor<2>);

/// Replaces each momentum by the nearest matrix with singular values of about 1. Matrices of equal shape are computed together.
fn orthogonalised(matrices: Vec<Named>) -> Vec<Named> {
    let mut by_shape: BTreeMap<[usize; 2], Vec<(Named, bool)>> = BTreeMap::new();
    for (name, weight, momentum) in matrices {
        let [rows, columns] = momentum.dims();
        let upright = rows > columns;
        let shape = [rows.min(columns), rows.max(columns)];
        let lying = if upright { momentum.transpose() } else { momentum };
        by_shape.entry(shape).or_default().push(((name, weight, lying), upright));
    }
    let mut done = Vec::new();
    for ([rows, columns], group) in by_shape {
        let stacked = Tensor::stack::<3>(group.iter().map(|((_, _, momentum), _)| momentum.clone()).collect(), 0);
        let directions = newton_schulz(stacked);
        for (number, ((name, weight, _), upright)) in group.into_iter().enumerate() {
            let direction = directions.clone().narrow(0, number, 1).reshape([rows, columns]);
            done.push((name, weight, if upright { direction.transpose() } else { direction }));
        }
    }
    done
}

/// The Newton-Schulz iteration on `[count, rows, columns]`, with no more rows than columns.
fn newton_schulz(x: Tensor<3>) -> Tensor<3> {
    let norm = x.clone().square().sum_dim(2).sum_dim(1).sqrt() + TINY;
    let mut x = x / norm;
    let [a, b, c] = NEWTON_SCHULZ;
    for _ in 0..ROUNDS {
        let square = x.clone().matmul(x.clone().swap_dims(1, 2));
        let mixed = square.clone().mul_scalar(b) + square.clone().matmul(square).mul_scalar(c);
        x = x.clone().mul_scalar(a) + mixed.matmul(x);
    }
    x
}
