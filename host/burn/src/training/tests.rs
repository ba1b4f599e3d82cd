//! Training on burn's processor device gives the results of the processor path.

use crate::BurnDevice;
use crate::testing::{config, likelihood, sequences, sequences_with_beside, total};
use clawhost_model::device::ComputeDevice;
use clawhost_model::train::{OptimizerSettings, Rule, Schedule, Sequence, TokenScores, Trained, Trainer};
use clawhost_model::{Architecture, Block, HostDecoder, HostMatrix, LowRank, ModelConfig, initial};
use std::collections::BTreeMap;
use std::sync::Arc;

fn device() -> ComputeDevice {
    ComputeDevice::accelerator(Arc::new(BurnDevice::processor()))
}

/// Random vectors instead of the zeros and ones of new models, and adapters that have an effect.
fn lively(config: &ModelConfig, adapters: bool) -> HostDecoder {
    let noise = |length: usize, salt: usize| -> Vec<f32> {
        (0..length).map(|place| ((place * 37 + salt * 101 + 13) % 97) as f32 / 97.0 - 0.5).collect()
    };
    let mut host = initial(config, 3).map(&mut |_, matrix| matrix.clone(), &mut |name, vector| {
        vector.iter().zip(noise(vector.len(), name.len())).map(|(value, noise)| value + noise * 0.3).collect()
    });
    let blocks = host.blocks.iter_mut().skip(usize::from(adapters));
    for (name, projection) in blocks.flat_map(Block::projections_mut) {
        if adapters && name != "k_proj" {
            let [out, input] = projection.weight.shape;
            let matrix = |shape: [usize; 2], salt| {
                let values = noise(shape[0] * shape[1], salt).into_iter().map(|value| value * 0.5).collect();
                HostMatrix::new(name, shape, values).unwrap()
            };
            let (a, b) = (matrix([3, input], 1), matrix([out, 3], 2));
            projection.adapter = Some(LowRank { a, b, scale: 0.7 });
        }
    }
    host
}

fn close(one: &BTreeMap<String, Vec<f32>>, other: &BTreeMap<String, Vec<f32>>, most: f32, what: &str) {
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>(), "{what}");
    for (name, one) in one {
        let other = &other[name];
        let length = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>().sqrt();
        let apart: Vec<f32> = one.iter().zip(other).map(|(one, other)| one - other).collect();
        assert_eq!(one.len(), other.len(), "{what}, {name}");
        assert!(
            length(&apart) <= most * length(other).max(1e-4),
            "{what}, {name}: {} of {}",
            length(&apart),
            length(other)
        );
    }
}

#[test]
fn scores_gradients_and_steps_equal_those_of_the_processor() {
    let mut texts = sequences_with_beside();
    // Sequences that need several chunks of the head, and one without trained tokens.
    let long: Vec<u32> = (0..75).map(|place| (place * 29 + 7) % 61).collect();
    texts.push(
        Sequence::new(long.clone(), &long.iter().map(|token| token % 3 == 1 && *token != 7).collect::<Vec<_>>(), 1.3)
            .unwrap(),
    );
    texts.push(Sequence::new(vec![5, 6, 7], &[false; 3], 1.0).unwrap());
    let units: Vec<&[Sequence]> = texts.chunks(2).collect();
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3] {
        for (trained, adapters) in [(Trained::Full, false), (Trained::Full, true), (Trained::Adapters, true)] {
            let what = format!("{architecture:?} {trained:?} {adapters}");
            let output_bias = architecture == Architecture::Llama;
            let config = Arc::new(ModelConfig { output_bias, ..config(architecture) });
            let host = lively(&config, adapters);
            let settings = OptimizerSettings { weight_decay: 0.1, ..OptimizerSettings::default() };
            let schedule = Schedule::constant(1e-3);
            let mut here = Trainer::on_processor(config.clone(), &host, trained, settings, schedule);
            let mut there = device().trainer(&config, &host, trained, settings, schedule).unwrap();
            let all: Vec<&Sequence> = texts.iter().collect();
            for (one, other) in here.scores(&all).unwrap().iter().zip(there.scores(&all).unwrap()) {
                let both = one.logprobs.iter().zip(&other.logprobs).chain(one.entropies.iter().zip(&other.entropies));
                both.for_each(|(one, other)| assert!((one - other).abs() < 1e-5, "{what}: {one} {other}"));
                let beside = one.beside.iter().flatten().zip(other.beside.iter().flatten());
                beside.for_each(|(one, other)| assert!((one - other).abs() < 1e-5, "{what}: {one} {other}"));
                let counts = |one: &TokenScores| one.beside.iter().map(Vec::len).collect::<Vec<_>>();
                assert_eq!((one.logprobs.len(), counts(one)), (other.logprobs.len(), counts(&other)));
            }
            for _ in 0..2 {
                here.accumulate(&units, &likelihood(total(&texts))).unwrap();
                there.accumulate(&units, &likelihood(total(&texts))).unwrap();
                close(&here.pending().unwrap(), &there.pending().unwrap(), 2e-5, &what);
                let [one, other] = [&mut here, &mut there].map(|trainer| trainer.step().unwrap().unwrap());
                assert!((one.gradient_norm / other.gradient_norm - 1.0).abs() < 1e-5, "{what}");
                let names = host.weights().into_iter().map(|(name, _)| name);
                let flat = |trainer: &Trainer| -> BTreeMap<String, Vec<f32>> {
                    let host = trainer
                        .host()
                        .unwrap()
                        .map(&mut |_, one| one.values().into_owned(), &mut |_, one| one.to_vec());
                    names.clone().zip(host.flat().into_iter().cloned()).collect()
                };
                // The bias of a key hardly changes attention. Its gradient is mostly rounding, which the optimiser scales to a whole step.
                close(&flat(&here), &flat(&there), 3e-4, &what);
            }
            // Each trainer reads the other's snapshot.
            here.restore(&there.to_bytes().unwrap()).unwrap();
            assert!(here.to_bytes().unwrap() == there.to_bytes().unwrap());
        }
    }
}

#[test]
fn the_division_of_a_batch_changes_a_gradient_only_by_rounding() {
    let config = Arc::new(config(Architecture::Qwen3));
    let host = initial(&config, 3);
    let sequences = sequences();
    // Several calls add up to the same step. The sequences of one call are computed together: on a device each is padded to the
    // longest of them.
    let gradients = |calls: &[Vec<&[Sequence]>]| {
        let settings = OptimizerSettings { rule: Rule::AdamW, ..OptimizerSettings::default() };
        let schedule = Schedule::constant(1e-3);
        let mut trainer = device().trainer(&config, &host, Trained::Full, settings, schedule).unwrap();
        for units in calls {
            trainer.accumulate(units, &likelihood(total(&sequences))).unwrap();
        }
        trainer.pending().unwrap()
    };
    let alone: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
    let whole = gradients(&[vec![&sequences]]);
    let cut = |parts: usize| -> Vec<Vec<&[Sequence]>> {
        sequences.chunks(sequences.len().div_ceil(parts)).map(|part| vec![part]).collect()
    };
    let mut by_length = alone.clone();
    by_length.sort_by_key(|unit| unit[0].tokens().len());
    let mut far_apart = alone.clone();
    far_apart.rotate_left(alone.len() / 2);
    let ways = [cut(2), cut(7), vec![alone], vec![by_length], vec![far_apart]];
    for (way, calls) in ways.iter().enumerate() {
        let found = gradients(calls);
        assert_eq!(found.len(), whole.len());
        for (name, gradient) in found {
            let pairs = gradient.iter().zip(&whole[&name]);
            let worst = pairs.map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-6, "way {way}: {name}: {worst}");
        }
    }
}
