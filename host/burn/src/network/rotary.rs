//! Rotary position embeddings (Su et al. 2021). Channel `i` is paired with channel `i + head_width / 2`, as in Hugging Face.

use super::Rows;
use burn::tensor::{Device, Tensor, TensorData};
use clawhost_model::{ModelConfig, angles};

/// Angles of the positions of one batch.
#[derive(Debug, Clone)]
pub struct Rotary {
    /// `[rows, length, 1, head_width]`: the cosine twice.
    cosine: Tensor<4>,
    /// The sine, negative in the first half.
    sine: Tensor<4>,
}

impl Rotary {
    /// The angles of rows with these positions.
    pub fn of(config: &ModelConfig, rows: &Rows, device: &Device) -> Self {
        Self::at(config, &rows.positions, rows.shape, device)
    }

    /// The angles of these positions, in rows of equal length.
    pub(super) fn at(config: &ModelConfig, positions: &[u32], shape: [usize; 2], device: &Device) -> Self {
        let frequencies = config.rotary_frequencies();
        let half = frequencies.len();
        let mut cosine = Vec::with_capacity(positions.len() * half * 2);
        let mut sine = Vec::with_capacity(cosine.capacity());
        // Rows repeat the same few positions.
        let longest = positions.iter().copied().max().unwrap_or(0);
        let table: Vec<Vec<(f32, f32)>> =
            (0..=longest).map(|position| angles(&frequencies, position).collect()).collect();
        for position in positions {
            let of_position = table.get(*position as usize).map(Vec::as_slice).unwrap_or_default();
            cosine.extend(of_position.iter().map(|(cosine, _)| *cosine));
            cosine.extend(of_position.iter().map(|(cosine, _)| *cosine));
            sine.extend(of_position.iter().map(|(_, sine)| -*sine));
            sine.extend(of_position.iter().map(|(_, sine)| *sine));
        }
        let [count, length] = shape;
        let shape = [count, length, 1, half * 2];
        Self {
            cosine: Tensor::from_data(TensorData::new(cosine, shape), device),
            sine: Tensor::from_data(TensorData::new(sine, shape), device),
        }
    }

    /// Rotates queries or keys, `[rows, length, heads, head_width]`.
    pub fn turn(&self, x: Tensor<4>) -> Tensor<4> {
        let half = x.dims()[3] / 2;
        let swapped = Tensor::cat(vec![x.clone().narrow(3, half, half), x.clone().narrow(3, 0, half)], 3);
        x * self.cosine.clone() + swapped * self.sine.clone()
    }
}
