//! A small model and texts for tests.

use clawhost_model::train::{Sequence, TokenScores, Wanted};
use clawhost_model::{Architecture, LocalModelError, ModelConfig, RotaryScaling};

/// A small model with every switch of its family.
pub(crate) fn config(architecture: Architecture) -> ModelConfig {
    ModelConfig {
        architecture,
        vocabulary: 61,
        width: 48,
        layers: 2,
        heads: 4,
        key_value_heads: 2,
        head_width: 16,
        mlp_width: 70,
        context: 128,
        rotary_base: 10_000.0,
        rotary_scaling: RotaryScaling::None,
        norm_epsilon: 1e-6,
        tied: architecture != Architecture::Llama,
        query_bias: architecture == Architecture::Qwen2,
        output_bias: false,
        query_norm: architecture == Architecture::Qwen3,
        initial_deviation: 0.2,
        end_tokens: vec![1],
    }
}

/// A text with this number of tokens.
pub(crate) fn text(length: usize, salt: u32) -> Vec<u32> {
    (0..length as u32).map(|position| (position * 17 + salt * 31 + 5) % 61).collect()
}

/// Sequences of several lengths and temperatures.
pub(crate) fn sequences() -> Vec<Sequence> {
    (0..9u32)
        .map(|number| {
            let tokens = text(6 + number as usize, number);
            let mask: Vec<bool> = (0..tokens.len()).map(|place| place >= 3 && place % 4 != 1).collect();
            Sequence::new(tokens, &mask, if number % 2 == 0 { 1.0 } else { 0.7 }).unwrap()
        })
        .collect()
}

/// The same, with other tokens beside those that are trained.
pub(crate) fn sequences_with_beside() -> Vec<Sequence> {
    let with_beside = |sequence: Sequence| {
        let beside =
            (0..sequence.trained().len() as u32).map(|place| (0..place % 3).map(|one| 7 * one + place).collect());
        let beside = beside.collect();
        sequence.with_beside(beside).unwrap()
    };
    sequences().into_iter().map(with_beside).collect()
}

/// The number of trained tokens.
pub(crate) fn total(sequences: &[Sequence]) -> f64 {
    sequences.iter().map(|one| one.trained().len() as f64).sum()
}

/// Mean negative log-prob, and its derivatives.
pub(crate) fn likelihood(
    total: f64,
) -> impl Fn(usize, &[Vec<TokenScores>]) -> Result<Wanted<f64>, LocalModelError> + Sync {
    move |_, scores| {
        let of = |one: &TokenScores| {
            let beside = one.beside.iter().cloned().chain(std::iter::repeat_with(Vec::new));
            let targets = one.logprobs.iter().zip(beside).flat_map(|(own, beside)| std::iter::once(*own).chain(beside));
            targets.collect::<Vec<f64>>()
        };
        let all: Vec<Vec<f64>> = scores.iter().map(|unit| unit.iter().flat_map(of).collect()).collect();
        let loss = -all.iter().flatten().sum::<f64>() / total;
        Ok((all.iter().map(|unit| vec![-1.0 / total; unit.len()]).collect(), loss))
    }
}
