//! The optimiser of [`super::super::optimizer`] on plain numbers. Threads share the weights.

use crate::cpu::Panels;
use crate::cpu::training::Gradients;
use crate::train::optimizer::{
    MOMENTUM, MUON_SCALE, NEWTON_SCHULZ, OptimizerSettings, ROUNDS, Rule, StepReport, TINY, is_inside,
};
use crate::{HostDecoder, HostMatrix, LocalModelError, Weight, is_adapter};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Values that are updated at once.
const CHUNK: usize = 1 << 14;

/// The state between steps, by the weight's name.
#[derive(Debug, Clone, Default)]
pub(super) struct Moments {
    /// Steps taken.
    pub(super) steps: u64,
    /// First moments, and Muon's momentum.
    pub(super) first: BTreeMap<String, Vec<f32>>,
    /// Second moments.
    pub(super) second: BTreeMap<String, Vec<f32>>,
}

/// A weight after a step, with its moments.
struct Moved {
    name: String,
    weight: Vec<f32>,
    first: Vec<f32>,
    second: Option<Vec<f32>>,
}

/// The size of a step.
#[derive(Clone, Copy)]
struct Stride<'a> {
    settings: &'a OptimizerSettings,
    steps: i32,
    rate: f64,
    /// The factor that clips gradients.
    shrink: f32,
}

fn square_sum(values: &[f32]) -> f64 {
    let squares = |chunk: &[f32]| chunk.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>();
    values.par_chunks(CHUNK).map(squares).collect::<Vec<f64>>().into_iter().sum()
}

impl Moments {
    /// Takes one step. An error changes nothing.
    pub(super) fn step(
        &self,
        weights: &HostDecoder,
        gradients: &Gradients,
        rate: f64,
        settings: &OptimizerSettings,
    ) -> Result<(HostDecoder, Self, StepReport), LocalModelError> {
        let named: Vec<(String, Weight<HostMatrix, Arc<[f32]>>)> = weights.weights();
        let trained: Vec<(&String, &Weight<HostMatrix, Arc<[f32]>>, &[f32])> = named
            .iter()
            .zip(gradients.0.flat())
            .filter(|(_, gradient)| !gradient.is_empty())
            .map(|((name, weight), gradient)| (name, weight, gradient.as_slice()))
            .collect();
        let mut squares = 0.0;
        for (name, _, gradient) in &trained {
            let square = square_sum(gradient);
            if !square.is_finite() {
                return Err(LocalModelError::Diverged { what: format!("the gradient of {name}") });
            }
            squares += square;
        }
        let gradient_norm = squares.sqrt();
        let shrink = if gradient_norm > settings.clip { settings.clip / gradient_norm } else { 1.0 };
        let steps = self.steps + 1;
        let stride = Stride { settings, steps: i32::try_from(steps).unwrap_or(i32::MAX), rate, shrink: shrink as f32 };
        let moved: Vec<Moved> =
            trained.par_iter().map(|(name, weight, slope)| self.moved(name, weight, slope, stride)).collect();
        let mut next = self.clone_without(&moved, steps);
        let mut by_name = BTreeMap::new();
        for Moved { name, weight, first, second } in moved {
            if weight.iter().any(|value| !value.is_finite()) {
                return Err(LocalModelError::Diverged { what: format!("the new weight {name}") });
            }
            next.first.insert(name.clone(), first);
            next.second.extend(second.map(|second| (name.clone(), second)));
            by_name.insert(name, Arc::<[f32]>::from(weight));
        }
        let weights = weights.map(
            &mut |name, old| match by_name.get(name) {
                Some(values) => HostMatrix::of_rows(old.shape, values.clone()),
                None => old.clone(),
            },
            &mut |name, old| by_name.get(name).unwrap_or(old).clone(),
        );
        Ok((weights, next, StepReport { gradient_norm, rate }))
    }

    /// Moments of weights that are not updated stay.
    fn clone_without(&self, moved: &[Moved], steps: u64) -> Self {
        let stays = |moments: &BTreeMap<String, Vec<f32>>| {
            let stays = |(name, _): &(&String, &Vec<f32>)| !moved.iter().any(|one| one.name == **name);
            moments.iter().filter(stays).map(|(name, values)| (name.clone(), values.clone())).collect()
        };
        Self { steps, first: stays(&self.first), second: stays(&self.second) }
    }

    fn moved(&self, name: &str, weight: &Weight<HostMatrix, Arc<[f32]>>, slope: &[f32], stride: Stride<'_>) -> Moved {
        match weight {
            Weight::Matrix(matrix) => {
                let decay = 1.0 - stride.rate * stride.settings.weight_decay;
                if stride.settings.rule == Rule::Muon && is_inside(name) && !is_adapter(name) {
                    self.muon(name, matrix, slope, decay as f32, stride)
                } else {
                    self.adam(name, &matrix.values(), slope, decay as f32, stride)
                }
            }
            // Norms and biases do not decay.
            Weight::Vector(values) => self.adam(name, values, slope, 1.0, stride),
        }
    }

    /// AdamW, with moments corrected for their initialisation with 0.
    fn adam(&self, name: &str, weight: &[f32], slope: &[f32], decay: f32, stride: Stride<'_>) -> Moved {
        let OptimizerSettings { beta1, beta2, epsilon, .. } = *stride.settings;
        let shares = [1.0 - beta1.powi(stride.steps), 1.0 - beta2.powi(stride.steps)];
        let [first_share, second_share] = shares.map(|share| (1.0 / share) as f32);
        let (left1, left2) = ((1.0 - beta1) as f32, (1.0 - beta2) as f32);
        let (beta1, beta2, epsilon, rate) = (beta1 as f32, beta2 as f32, epsilon as f32, stride.rate as f32);
        let or_zeros = |known: Option<&Vec<f32>>| known.cloned().unwrap_or_else(|| vec![0.0; weight.len()]);
        let (mut first, mut second) = (or_zeros(self.first.get(name)), or_zeros(self.second.get(name)));
        let mut weight = weight.to_vec();
        let numbers = weight.par_chunks_mut(CHUNK).zip(slope.par_chunks(CHUNK));
        numbers.zip(first.par_chunks_mut(CHUNK).zip(second.par_chunks_mut(CHUNK))).for_each(
            |((weight, slope), (first, second))| {
                for ((weight, slope), (first, second)) in weight.iter_mut().zip(slope).zip(first.iter_mut().zip(second))
                {
                    let slope = slope * stride.shrink;
                    *first = *first * beta1 + slope * left1;
                    *second = *second * beta2 + slope * slope * left2;
                    let direction = *first * first_share / ((*second * second_share).sqrt() + epsilon);
                    *weight = *weight * decay - direction * rate;
                }
            },
        );
        Moved { name: name.to_owned(), weight, first, second: Some(second) }
    }

    fn muon(&self, name: &str, matrix: &HostMatrix, slope: &[f32], decay: f32, stride: Stride<'_>) -> Moved {
        let [out, input] = matrix.shape;
        let slope: Vec<f32> = slope.iter().map(|slope| slope * stride.shrink).collect();
        let momentum: Vec<f32> = match self.first.get(name) {
            Some(known) => known.iter().zip(&slope).map(|(known, slope)| known * MOMENTUM as f32 + slope).collect(),
            None => slope.clone(),
        };
        // Nesterov momentum.
        let ahead = slope.iter().zip(&momentum).map(|(slope, momentum)| slope + momentum * MOMENTUM as f32).collect();
        let ahead = HostMatrix::of_rows([out, input], ahead);
        let direction = if out > input {
            let lying = HostMatrix::of_rows([input, out], ahead.transposed().into());
            HostMatrix::of_rows([input, out], orthogonalised(lying).into()).transposed()
        } else {
            orthogonalised(ahead)
        };
        let size = (MUON_SCALE * stride.rate * (out as f64 / input as f64).max(1.0).sqrt()) as f32;
        let weight = matrix.values().iter().zip(&direction).map(|(weight, way)| weight * decay - way * size).collect();
        Moved { name: name.to_owned(), weight, first: momentum, second: None }
    }
}

/// An approximately orthogonal matrix (singular values near 1), by Newton and Schulz's iteration. At most as many rows
/// as columns.
fn orthogonalised(matrix: HostMatrix) -> Vec<f32> {
    let [rows, columns] = matrix.shape;
    let length = square_sum(&matrix.values()).sqrt() + TINY;
    let mut x: Vec<f32> = matrix.values().iter().map(|value| (f64::from(*value) / length) as f32).collect();
    let [a, b, c] = NEWTON_SCHULZ.map(|coefficient| coefficient as f32);
    let (mut square, mut fourth) = (vec![0.0; rows * rows], vec![0.0; rows * rows]);
    let mut mixed = vec![0.0; rows * columns];
    for _ in 0..ROUNDS {
        Panels::of_rows(&x, [rows, columns]).multiply(&x, &mut square, true);
        // The product of a matrix with its transpose is symmetric, bit for bit.
        Panels::of_rows(&square, [rows, rows]).multiply(&square, &mut fourth, true);
        fourth.iter_mut().zip(&square).for_each(|(fourth, square)| *fourth = square * b + *fourth * c);
        Panels::of_columns(&x, [rows, columns]).multiply(&fourth, &mut mixed, true);
        x.iter_mut().zip(&mixed).for_each(|(x, mixed)| *x = *x * a + mixed);
    }
    x
}
