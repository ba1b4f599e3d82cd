//! Measures how fast a device generates and learns. They are ignored tests. The bundle of `cargo xtask gpu-check` runs each in its own
//! process, and compares with PyTorch.
//!
//! Every round prints one line when it ends, so that the results of a stopped process are not lost:
//!
//! ```text
//! figure: {"figure":"decode","model":"small","batch":1,"round":0,"tokens":64,"seconds":0.5}
//! ```
//!
//! Round 0 compiles kernels, and medians exclude it. `CLAWHOST_FIGURES_MODEL` is `small` (11 M weights, the default) or `qwen3-0.6b` (the
//! shape of Qwen3-0.6B), with weights from a seed. `CLAWHOST_FIGURES_ROUNDS` is the number of rounds after round 0.

use super::{Tested, likelihood, tested};
use clawhost_burn::network::DeviceModel;
use clawhost_model::device::{AcceleratedModel as _, Slot};
use clawhost_model::train::{OptimizerSettings, Rule, Schedule, Sequence, TokenScores, Trained};
use clawhost_model::{Architecture, HostDecoder, ModelConfig, RotaryScaling, initial};
use std::sync::Arc;
use std::time::Instant;

/// Tokens of a prompt, and tokens that are generated after it.
const PROMPT: u32 = 32;
const ANSWER: usize = 64;
/// Number of texts in a training step, and tokens of each.
const TEXTS: u32 = 8;
const LENGTH: u32 = 256;

/// The same model as in `host/model/benches/training.rs` and `tests/torch/bench.py`.
fn small() -> ModelConfig {
    ModelConfig {
        architecture: Architecture::Qwen3,
        vocabulary: 4096,
        width: 384,
        layers: 6,
        heads: 6,
        key_value_heads: 2,
        head_width: 64,
        mlp_width: 1024,
        context: 512,
        rotary_base: 10_000.0,
        rotary_scaling: RotaryScaling::None,
        norm_epsilon: 1e-6,
        tied: true,
        query_bias: false,
        output_bias: false,
        query_norm: true,
        initial_deviation: 0.02,
        end_tokens: Vec::new(),
    }
}

/// The shape of Qwen3-0.6B.
fn qwen3() -> ModelConfig {
    ModelConfig {
        vocabulary: 151_936,
        width: 1024,
        layers: 28,
        heads: 16,
        key_value_heads: 8,
        head_width: 128,
        mlp_width: 3072,
        rotary_base: 1_000_000.0,
        ..small()
    }
}

/// The requested model, its name, and the number of rounds.
struct Measured {
    name: String,
    config: Arc<ModelConfig>,
    host: HostDecoder,
    rounds: usize,
}

impl Measured {
    fn asked() -> Self {
        let name = std::env::var("CLAWHOST_FIGURES_MODEL").unwrap_or_else(|_| "small".to_owned());
        let config = match name.as_str() {
            "small" => small(),
            "qwen3-0.6b" => qwen3(),
            other => panic!("CLAWHOST_FIGURES_MODEL is {other}; it takes small or qwen3-0.6b"),
        };
        let rounds = std::env::var("CLAWHOST_FIGURES_ROUNDS").map_or(5, |rounds| rounds.parse().unwrap());
        let config = Arc::new(config);
        let host = initial(&config, 1);
        Self { name, config, host, rounds }
    }

    fn report(&self, figure: &str, batch: usize, round: usize, tokens: usize, began: Instant) {
        let line = serde_json::json!({
            "figure": figure, "model": self.name, "batch": batch, "round": round, "tokens": tokens,
            "seconds": began.elapsed().as_secs_f64(),
        });
        println!("figure: {line}");
    }
}

/// The most likely token.
fn best(logits: &[f32]) -> u32 {
    (0u32..).zip(logits).max_by(|one, other| one.1.total_cmp(other.1)).unwrap().0
}

#[test]
#[ignore = "a measurement, run by `cargo xtask gpu-check`"]
fn figures_of_decoding() {
    let Tested { device, .. } = tested();
    let measured = Measured::asked();
    let vocabulary = measured.config.vocabulary as u32;
    let model = DeviceModel::new(device, measured.config.clone(), &measured.host);
    for batch in [1, 16] {
        for round in 0..=measured.rounds {
            let mut slots: Vec<Slot> = (0..batch).map(|_| model.begin()).collect();
            let mut next: Vec<Vec<u32>> = vec![(0..PROMPT).map(|place| place * 97 % vocabulary).collect(); batch];
            let began = Instant::now();
            for _ in 0..ANSWER {
                let mut work: Vec<_> = slots.iter_mut().zip(&next).map(|(slot, tokens)| (slot, &tokens[..])).collect();
                let logits = model.forward(&mut work).unwrap();
                next = logits.iter().map(|logits| vec![best(logits)]).collect();
            }
            measured.report("decode", batch, round, batch * ANSWER, began);
        }
    }
}

#[test]
#[ignore = "a measurement, run by `cargo xtask gpu-check`"]
fn figures_of_training() {
    let Tested { compute, .. } = tested();
    let measured = Measured::asked();
    let settings = OptimizerSettings { rule: Rule::AdamW, ..OptimizerSettings::default() };
    let (full, schedule) = (Trained::Full, Schedule::constant(1e-4));
    let mut trainer = compute.trainer(&measured.config, &measured.host, full, settings, schedule).unwrap();
    let vocabulary = measured.config.vocabulary as u32;
    let sequences: Vec<Sequence> = (0..TEXTS)
        .map(|text| {
            let tokens = (0..LENGTH).map(|place| (place * 97 + text * 1009) % vocabulary).collect();
            let mask: Vec<bool> = (0..LENGTH).map(|place| place > 0).collect();
            Sequence::new(tokens, &mask, 1.0).unwrap()
        })
        .collect();
    let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
    let total = f64::from(TEXTS * (LENGTH - 1));
    let loss = |_: usize, scores: &[Vec<TokenScores>]| likelihood(scores, total);
    for round in 0..=measured.rounds {
        let began = Instant::now();
        compute.guarded(|| trainer.accumulate(&units, &loss)).flatten().unwrap();
        // Returns the norm of the gradient, which waits for it. The rest of the step is waited for in the next round.
        trainer.step().unwrap().unwrap();
        measured.report("train", TEXTS as usize, round, (TEXTS * LENGTH) as usize, began);
    }
}
