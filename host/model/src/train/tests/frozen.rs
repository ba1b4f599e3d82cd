//! An adapter learns beside a base in any format: the base is in memory once, and computes the bits of its numbers in f32.

use super::{config, likelihood, masked, sequences, total};
use crate::cpu::training::{Gradients, Pass, TrainingModel};
use crate::cpu::{CpuModel, RotaryTable, Work};
use crate::train::{OptimizerSettings, Rule, Schedule, Sequence, Trained, Trainer};
use crate::{AdapterFolder, AdapterSettings, Architecture, Dtype, HostDecoder, ModelConfig, initial};
use clawhost_learn::Interrupt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// More tokens than the head computes at once.
fn wide() -> Arc<ModelConfig> {
    Arc::new(ModelConfig { vocabulary: 1100, ..config(Architecture::Qwen3) })
}

/// A model in a format, with an adapter that changes its answers.
fn adapted(config: &ModelConfig, dtype: Dtype) -> HostDecoder {
    let base = initial(config, 3).kept_as(dtype).unwrap().learnable();
    let settings = AdapterSettings { rank: 4, alpha: 8.0, seed: 5, ..AdapterSettings::default() };
    let mut adapter = AdapterFolder::of(&settings.attach(&base).unwrap(), "").unwrap();
    adapter.shake();
    adapter.attach(&base).unwrap()
}

pub(super) fn trainer(config: &Arc<ModelConfig>, host: &HostDecoder, trained: Trained) -> Trainer {
    let settings = OptimizerSettings { rule: Rule::AdamW, ..OptimizerSettings::default() };
    Trainer::on_processor(config.clone(), host, trained, settings, Schedule::constant(1e-2))
}

fn gradients(mut trainer: Trainer, sequences: &[Sequence]) -> BTreeMap<String, Vec<f32>> {
    let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
    trainer.accumulate(&units, &likelihood(total(sequences))).unwrap();
    trainer.pending().unwrap()
}

#[test]
fn a_matrix_that_does_not_learn_is_the_memory_of_the_host() {
    let config = wide();
    for dtype in [Dtype::BF16, Dtype::F16, Dtype::Int8] {
        let host = adapted(&config, dtype);
        let turns = Arc::new(RotaryTable::new(config.rotary_frequencies()));
        let model = TrainingModel::new(config.clone(), turns, &host, |name| Trained::Adapters.learns(name));
        let projections = host.blocks.iter().flat_map(|block| block.projections());
        let mut own: Vec<_> = projections.map(|(_, one)| Arc::as_ptr(&one.weight.laid())).collect();
        own.push(Arc::as_ptr(&host.embedding.laid()));
        assert_eq!(model.frozen(), own, "{dtype:?}");
    }
}

#[test]
fn gradients_of_an_adapter_are_those_beside_the_same_numbers_in_f32() {
    let config = wide();
    let sequences = [sequences(), masked()].concat();
    let all: Vec<&Sequence> = sequences.iter().collect();
    for dtype in Dtype::ALL {
        let host = adapted(&config, dtype);
        let frozen = trainer(&config, &host, Trained::Adapters);
        // Where everything learns, matrices are laid out for each direction.
        let full = trainer(&config, &host.in_rows(), Trained::Full);
        assert_eq!(frozen.scores(&all).unwrap(), full.scores(&all).unwrap(), "{dtype:?}");
        let (found, right) = (gradients(frozen, &sequences), gradients(full, &sequences));
        assert_eq!(found.len(), 2 * 7 * 2, "two matrices of seven projections in two layers, and nothing else");
        for (name, found) in found {
            let right = &right[&name];
            let most = right.iter().fold(0.0f32, |most, one| most.max(one.abs()));
            let worst = found.iter().zip(right).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
            assert!(most > 1e-4 && worst < 1e-5 * most, "{dtype:?} {name}: {worst} of {most}");
        }
    }
}

#[test]
fn log_probs_beside_a_base_of_fewer_bits_are_those_of_generation() {
    let config = wide();
    let sequences: Vec<Sequence> = sequences().into_iter().filter(|one| one.temperature() == 1.0).collect();
    for dtype in [Dtype::BF16, Dtype::F16, Dtype::Int8] {
        let host = adapted(&config, dtype);
        let model = CpuModel::new(config.clone(), &host);
        let trainer = trainer(&config, &host, Trained::Adapters);
        let scores = trainer.scores(&sequences.iter().collect::<Vec<_>>()).unwrap();
        for (sequence, scores) in sequences.iter().zip(scores) {
            let mut cache = model.cache();
            let mut work = [Work { cache: &mut cache, tokens: sequence.tokens(), logits: Vec::new(), every: true }];
            model.forward(&mut work);
            for (place, logprob) in sequence.trained().iter().zip(&scores.logprobs) {
                let logits = &work[0].logits[(place - 1) * config.vocabulary..place * config.vocabulary];
                let all: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
                let right = f64::from(logits[sequence.tokens()[*place] as usize]) - all.ln();
                assert!((right - logprob).abs() < 2e-6, "{dtype:?}: {right} {logprob}");
            }
        }
    }
}

#[test]
fn threads_change_no_bit_of_a_step_beside_a_frozen_base() {
    let wide =
        ModelConfig { width: 192, heads: 6, head_width: 32, mlp_width: 512, vocabulary: 2048, ..(*wide()).clone() };
    for config in [config(Architecture::Qwen3), wide] {
        let config = Arc::new(config);
        for dtype in [Dtype::BF16, Dtype::Int8] {
            let host = adapted(&config, dtype);
            let sequences: Vec<Sequence> = (0..12).flat_map(|_| sequences()).collect();
            let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
            let run = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let mut trainer = trainer(&config, &host, Trained::Adapters);
                    trainer.accumulate(&units, &likelihood(total(&sequences))).unwrap();
                    trainer.step().unwrap().unwrap();
                    trainer.to_bytes().unwrap()
                })
            };
            let right = run(1);
            for threads in [2, 3, 7] {
                assert!(run(threads) == right, "{dtype:?}, {threads} threads, {} wide", config.width);
            }
        }
    }
}

#[test]
fn a_layer_that_is_computed_again_gives_the_bits_of_one_that_is_kept() {
    let config = wide();
    let host = adapted(&config, Dtype::BF16);
    let sequences = [sequences(), masked()].concat();
    let all: Vec<&Sequence> = sequences.iter().collect();
    let wanted: Vec<f32> = (0..total(&sequences) as u32).map(|number| (number % 7) as f32 - 3.0).collect();
    let run = |trained: Trained, recomputes: bool| {
        let turns = Arc::new(RotaryTable::new(config.rotary_frequencies()));
        let learns = |name: &str| trained.learns(name);
        let model = TrainingModel::new(config.clone(), turns, &host, learns).recomputing(recomputes);
        let (mut pass, mut sum) = (Pass::default(), Gradients::zeros(&host, learns));
        // Twice: buffers are used again.
        let never = Interrupt::default();
        model.forward(&all, &mut pass, true, &never).unwrap();
        let scores = model.forward(&all, &mut pass, true, &never).unwrap();
        model.backward(&mut pass, &wanted, &mut sum, true, &never).unwrap();
        (scores, sum, pass.kept_bytes())
    };
    for trained in [Trained::Adapters, Trained::Full] {
        let (kept, again) = (run(trained, false), run(trained, true));
        assert!(kept.0 == again.0 && kept.1 == again.1, "{trained:?}");
        assert!(again.2 < kept.2 / 3, "{} of {} bytes", again.2, kept.2);
    }
}

#[test]
fn large_models_compute_layers_again_and_small_ones_keep_them() {
    let tiny = wide();
    // The shape of a model with 0.6 billion weights.
    let large = ModelConfig {
        width: 1024,
        layers: 28,
        heads: 16,
        key_value_heads: 8,
        head_width: 128,
        mlp_width: 3072,
        ..(*tiny).clone()
    };
    let kept = 4 * (28 * 1024 + 1024 + 3 * 2048 + 3 * 1024 + 2 * 3072 + 2 * 16);
    let moment = 4 * (6 * 1024 + 5 * 2048 + 4 * 1024 + 4 * 3072);
    assert_eq!(TrainingModel::bytes_of_a_token(&large), kept + moment);
    let (width, heads, keys, mlp) = (48, 4 * 16, 2 * 16, 70);
    let kept = 4 * 2 * (2 * width + 3 * heads + 3 * keys + 2 * mlp + 2 * 4);
    let moment = 4 * (6 * width + 5 * heads + 4 * keys + 4 * mlp);
    assert_eq!(TrainingModel::bytes_of_a_token(&tiny), kept + moment);
}
