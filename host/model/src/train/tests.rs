//! The effects of a step on a small model.

use super::{OptimizerSettings, Rule, Schedule, Sequence, TokenScores, Trained, Trainer, Wanted};
use crate::cpu::tests::config;
use crate::cpu::{CpuModel, Work};
use crate::{Architecture, HostDecoder, HostMatrix, LocalModelError, ModelConfig, TokenMask, digest, initial};
use std::sync::Arc;

mod frozen;
mod interrupted;

fn sequences() -> Vec<Sequence> {
    let text = |length: u32, salt: u32| (0..length).map(|place| (place * 7 + salt * 11 + 3) % 61).collect::<Vec<u32>>();
    (0..9u32)
        .map(|number| {
            let tokens = text(6 + number, number);
            let mask: Vec<bool> = (0..tokens.len()).map(|place| place >= 3 && place % 4 != 1).collect();
            Sequence::new(tokens, &mask, if number % 2 == 0 { 1.0 } else { 0.7 }).unwrap()
        })
        .collect()
}

/// The same, where grammars allowed a third of the tokens in some places of every second one.
fn masked() -> Vec<Sequence> {
    let mask = |sequence: &Sequence, place: usize| {
        let own = sequence.tokens()[place];
        let allowed: Vec<u32> = (0..61).filter(|token| token % 3 == own % 3).collect();
        place.is_multiple_of(2).then(|| Arc::new(TokenMask::of(61, &allowed)))
    };
    let one = |(number, sequence): (usize, Sequence)| {
        let masks = sequence.trained().iter().map(|place| mask(&sequence, *place)).collect();
        if number.is_multiple_of(2) { sequence.with_masks(masks).unwrap() } else { sequence }
    };
    sequences().into_iter().enumerate().map(one).collect()
}

fn trainer(config: &Arc<ModelConfig>, host: &HostDecoder, rule: Rule) -> Trainer {
    let settings = OptimizerSettings { rule, ..OptimizerSettings::default() };
    Trainer::on_processor(config.clone(), host, Trained::Full, settings, Schedule::constant(1e-2))
}

fn small() -> (Arc<ModelConfig>, HostDecoder) {
    let config = Arc::new(config(Architecture::Qwen3));
    let host = initial(&config, 3);
    (config, host)
}

/// The model with one weight moved along a direction.
fn moved(host: &HostDecoder, name: &str, slope: &[f32], step: f64) -> HostDecoder {
    let along = |values: &[f32]| {
        let along = |(value, slope): (&f32, &f32)| (f64::from(*value) + step * f64::from(*slope)) as f32;
        values.iter().zip(slope).map(along).collect()
    };
    host.map(
        &mut |this, matrix| match this == name {
            true => HostMatrix::of_rows(matrix.shape, along(&matrix.values())),
            false => matrix.clone(),
        },
        &mut |this, vector| if this == name { along(vector) } else { vector.clone() },
    )
}

/// Mean negative log-prob, and its derivatives.
fn likelihood(total: f64) -> impl Fn(usize, &[Vec<TokenScores>]) -> Result<Wanted<f64>, LocalModelError> + Sync {
    move |_, scores| {
        let all = scores.iter().map(|unit| unit.iter().flat_map(|one| &one.logprobs).copied().collect::<Vec<f64>>());
        let all: Vec<Vec<f64>> = all.collect();
        let loss = -all.iter().flatten().sum::<f64>() / total;
        Ok((all.iter().map(|unit| vec![-1.0 / total; unit.len()]).collect(), loss))
    }
}

fn total(sequences: &[Sequence]) -> f64 {
    sequences.iter().map(|one| one.trained().len() as f64).sum()
}

fn learn(trainer: &mut Trainer, sequences: &[Sequence], units: &[&[Sequence]]) -> f64 {
    let told = trainer.accumulate(units, &likelihood(total(sequences))).unwrap();
    trainer.step().unwrap().unwrap();
    told.iter().sum()
}

#[test]
fn tokens_beside_a_trained_one_have_its_scores_and_gradients() {
    let (config, host) = small();
    let (beginning, drawn, other) = (vec![3u32, 9, 27], 11, 40);
    let mask = [false, false, false, true];
    // A second sequence, so that rows and targets are not numbered alike.
    let sequence = |last: u32| Sequence::new([beginning.clone(), vec![last]].concat(), &mask, 0.7).unwrap();
    let with_beside = |last: u32| sequence(last).with_beside(vec![vec![other, drawn]]).unwrap();
    let first = Sequence::new(vec![5, 6, 7, 8], &[false, true, true, true], 1.0).unwrap();
    let first = first.with_beside(vec![vec![1], vec![], vec![2, 3]]).unwrap();
    let trainer = || trainer(&config, &host, Rule::Muon);
    let scores = trainer().scores(&[&first, &with_beside(drawn)]).unwrap();
    let alone = trainer().scores(&[&sequence(other), &sequence(drawn)]).unwrap();
    assert_eq!(scores[1].logprobs, alone[1].logprobs);
    assert_eq!(scores[1].beside, [vec![alone[0].logprobs[0], alone[1].logprobs[0]]]);
    assert_eq!(scores[0].beside.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 2]);
    // The gradient by the log-prob of a token beside equals that of a sequence that ends with it.
    let gradient = |units: &[&[Sequence]], wanted: Vec<Vec<f64>>| {
        let mut trainer = trainer();
        let loss = move |_: usize, _: &[Vec<TokenScores>]| Ok::<_, LocalModelError>((wanted.clone(), ()));
        trainer.accumulate(units, &loss).unwrap();
        trainer.pending().unwrap()
    };
    let found = gradient(&[&[first, with_beside(drawn)]], vec![[vec![0.0; 6], vec![0.0, -1.0, 0.0]].concat()]);
    let expected = gradient(&[&[sequence(other)]], vec![vec![-1.0]]);
    for (name, expected) in expected {
        let most = expected.iter().fold(0.0f32, |most, one| most.max(one.abs()));
        for (found, expected) in found[&name].iter().zip(&expected) {
            assert!((found - expected).abs() <= 1e-5 * most.max(1e-3), "{name}: {found} is not {expected}");
        }
    }
}

#[test]
fn scores_equal_those_of_the_full_logits() {
    let (config, host) = small();
    let sequences = [sequences(), masked()].concat();
    let trainer = trainer(&config, &host, Rule::Muon);
    let scores = trainer.scores(&sequences.iter().collect::<Vec<_>>()).unwrap();
    let model = CpuModel::new(config.clone(), &host);
    for (sequence, scores) in sequences.iter().zip(&scores) {
        let mut cache = model.cache();
        let mut work = [Work { cache: &mut cache, tokens: sequence.tokens(), logits: Vec::new(), every: true }];
        model.forward(&mut work);
        let [Work { logits, .. }] = work;
        let masks = sequence.masks().map(|mask| mask.cloned()).chain(std::iter::repeat(None));
        for ((place, mask), (logprob, entropy)) in
            sequence.trained().iter().zip(masks).zip(scores.logprobs.iter().zip(&scores.entropies))
        {
            let all: Vec<f64> = logits[(place - 1) * 61..place * 61]
                .iter()
                .map(|logit| f64::from(*logit) / f64::from(sequence.temperature()))
                .collect();
            let allowed = |token: u32| mask.as_ref().is_none_or(|mask| mask.allows(token));
            let row: Vec<f64> = (0..61).filter(|token| allowed(*token)).map(|token| all[token as usize]).collect();
            let sum = row.iter().map(|logit| logit.exp()).sum::<f64>().ln();
            let right = all[sequence.tokens()[*place] as usize] - sum;
            assert!((right - logprob).abs() < 1e-5, "{right} {logprob}");
            let right: f64 = row.iter().map(|logit| (sum - logit) * (logit - sum).exp()).sum();
            assert!((right - entropy).abs() < 1e-4, "{right} {entropy}");
        }
    }
}

#[test]
fn an_answer_that_a_grammar_forces_has_no_entropy_in_a_large_vocabulary() {
    let config = Arc::new(ModelConfig { vocabulary: 50_000, ..config(Architecture::Qwen3) });
    let host = initial(&config, 3);
    for temperature in [0.01, 1.0, 20.0] {
        let sequence = Sequence::new(vec![3, 9, 27], &[false, true, true], temperature).unwrap();
        let masks = [&[9][..], &[27, 28]].map(|allowed| Some(Arc::new(TokenMask::of(50_000, allowed))));
        let sequence = sequence.with_masks(masks.to_vec()).unwrap();
        for learned in [Trained::Full, Trained::Adapters] {
            let settings = OptimizerSettings::default();
            let schedule = Schedule::constant(0.0);
            let trainer = Trainer::on_processor(config.clone(), &host, learned, settings, schedule);
            let scores = trainer.scores(&[&sequence]).unwrap().pop().unwrap();
            assert_eq!(scores.logprobs[0], 0.0, "at {temperature}");
            assert!(scores.entropies[0].abs() < 1e-6, "at {temperature}: {}", scores.entropies[0]);
            assert!((0.0..0.694).contains(&scores.entropies[1]), "at {temperature}: {}", scores.entropies[1]);
        }
    }
}

#[test]
fn threads_change_no_bit_of_a_step() {
    // A small model, whose threads take pieces, and one whose threads share each piece.
    let wide = ModelConfig {
        width: 192,
        heads: 6,
        head_width: 32,
        mlp_width: 512,
        vocabulary: 2048,
        ..config(Architecture::Qwen3)
    };
    for config in [config(Architecture::Qwen3), wide] {
        let config = Arc::new(config);
        let host = initial(&config, 3);
        let sequences: Vec<Sequence> = (0..12).flat_map(|_| sequences()).collect();
        let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut trainer = trainer(&config, &host, Rule::Muon);
                let losses: Vec<f64> = (0..2).map(|_| learn(&mut trainer, &sequences, &units)).collect();
                (losses, trainer.to_bytes().unwrap())
            })
        };
        let right = run(1);
        for threads in [2, 3, 7] {
            assert!(run(threads) == right, "{threads} threads, {} wide", config.width);
        }
    }
}

/// A thread that waits for its share of laying out weights takes other work. Once that was a piece of the same step,
/// which caused a deadlock.
#[test]
fn a_piece_never_waits_for_the_thread_that_it_runs_on() {
    let config = Arc::new(config(Architecture::Qwen3));
    let host = initial(&config, 3);
    let sequences: Vec<Sequence> = (0..40).flat_map(|_| sequences()).collect();
    let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(8).build().unwrap();
    pool.install(|| {
        for _ in 0..100 {
            let mut trainer = trainer(&config, &host, Rule::Muon);
            assert!(learn(&mut trainer, &sequences, &units).is_finite());
        }
    });
}

#[test]
fn log_probs_equal_those_of_generation_bit_for_bit() {
    let (config, host) = small();
    let model = CpuModel::new(config.clone(), &host);
    let sequences = sequences();
    let scores = trainer(&config, &host, Rule::Muon).scores(&sequences.iter().collect::<Vec<_>>()).unwrap();
    for (sequence, scores) in sequences.iter().zip(&scores).filter(|(sequence, _)| sequence.temperature() == 1.0) {
        let mut cache = model.cache();
        let mut work = [Work { cache: &mut cache, tokens: sequence.tokens(), logits: Vec::new(), every: true }];
        model.forward(&mut work);
        for (place, logprob) in sequence.trained().iter().zip(&scores.logprobs) {
            let logits = &work[0].logits[(place - 1) * 61..place * 61];
            let all: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
            let right = f64::from(logits[sequence.tokens()[*place] as usize]) - all.ln();
            assert!((right - logprob).abs() < 1e-6, "{right} {logprob}");
        }
    }
}

#[test]
fn a_gradient_is_the_slope_of_its_loss() {
    let (config, host) = small();
    let sequences = masked();
    let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
    let loss = |host: &HostDecoder| {
        let scores = trainer(&config, host, Rule::AdamW).scores(&sequences.iter().collect::<Vec<_>>()).unwrap();
        -scores.iter().flat_map(|one| &one.logprobs).sum::<f64>() / total(&sequences)
    };
    let mut trainer = trainer(&config, &host, Rule::AdamW);
    trainer.accumulate(&units, &likelihood(total(&sequences))).unwrap();
    let gradients = trainer.pending().unwrap();
    for name in [
        "model.embed_tokens.weight",
        "model.layers.0.self_attn.k_norm.weight",
        "model.layers.1.mlp.down_proj.weight",
        "model.norm.weight",
    ] {
        let slope = &gradients[name];
        // Along the gradient itself the loss rises by its squared norm.
        let length = slope.iter().map(|one| f64::from(*one).powi(2)).sum::<f64>().sqrt();
        let step = 1e-2 / length.max(1e-3);
        let [up, down] = [step, -step].map(|step| loss(&moved(&host, name, slope, step)));
        let found = (up - down) / (2.0 * step);
        assert!((found / length.powi(2) - 1.0).abs() < 2e-2, "{name}: {found} {}", length.powi(2));
    }
}

#[test]
fn the_division_of_a_batch_changes_a_gradient_by_rounding_only() {
    let (config, host) = small();
    let sequences = sequences();
    // One call per cut adds up to the same step. The pieces of one call are in memory together: on a device each is
    // padded to the longest one.
    let gradients = |calls: &[Vec<&[Sequence]>]| {
        let mut trainer = trainer(&config, &host, Rule::AdamW);
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

#[test]
fn steps_lower_the_loss_and_equal_steps_give_equal_bytes() {
    let (config, host) = small();
    let sequences = sequences();
    let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
    for rule in [Rule::Muon, Rule::AdamW] {
        let run = || {
            let mut trainer = trainer(&config, &host, rule);
            let losses: Vec<f64> = (0..12).map(|_| learn(&mut trainer, &sequences, &units)).collect();
            (losses, digest(&trainer.host().unwrap()), trainer.to_bytes().unwrap())
        };
        let (losses, weights, bytes) = run();
        assert!(losses[11] < 0.7 * losses[0], "{rule:?}: {losses:?}");
        assert_eq!(run(), (losses, weights, bytes), "{rule:?}");
    }
}

#[test]
fn a_snapshot_restores_everything_byte_for_byte() {
    let (config, host) = small();
    let sequences = sequences();
    let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
    let mut one = trainer(&config, &host, Rule::Muon);
    for _ in 0..3 {
        learn(&mut one, &sequences, &units);
    }
    let bytes = one.to_bytes().unwrap();
    let mut other = trainer(&config, &initial(&config, 99), Rule::Muon);
    other.accumulate(&units, &likelihood(1.0)).unwrap();
    other.restore(&bytes).unwrap();
    assert!(other.to_bytes().unwrap() == bytes && other.step().unwrap().is_none(), "no gradient is pending");
    for _ in 0..3 {
        assert_eq!(learn(&mut one, &sequences, &units), learn(&mut other, &sequences, &units));
    }
    assert!(one.to_bytes().unwrap() == other.to_bytes().unwrap(), "both continue equally");
}

#[test]
fn an_invalid_snapshot_is_refused_and_changes_nothing() {
    let (config, host) = small();
    let mut mine = trainer(&config, &host, Rule::Muon);
    let before = mine.to_bytes().unwrap();
    let wider = Arc::new(ModelConfig { mlp_width: 71, ..(*config).clone() });
    let shallower = Arc::new(ModelConfig { layers: 1, ..(*config).clone() });
    for other in [wider, shallower] {
        let foreign = trainer(&other, &initial(&other, 3), Rule::Muon).to_bytes().unwrap();
        let error = mine.restore(&foreign).unwrap_err().to_string();
        assert!(error.contains("it belongs to another model"), "{error}");
    }
    for bytes in [&b""[..], b"nonsense", &before[..before.len() / 2]] {
        assert!(matches!(mine.restore(bytes), Err(LocalModelError::Checkpoint(_))));
    }
    assert!(mine.to_bytes().unwrap() == before);
}

#[test]
fn a_step_that_diverges_changes_nothing() {
    let (config, host) = small();
    let sequences = sequences();
    let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
    let mut trainer = trainer(&config, &host, Rule::Muon);
    let before = trainer.to_bytes().unwrap();
    let nonsense = |_: usize, scores: &[Vec<TokenScores>]| {
        let all = scores.iter().map(|unit| vec![f64::NAN; unit.iter().map(|one| one.logprobs.len()).sum()]);
        Ok::<Wanted<()>, LocalModelError>((all.collect(), ()))
    };
    trainer.accumulate(&units, &nonsense).unwrap();
    let error = trainer.step().unwrap_err().to_string();
    assert!(error.contains("the gradient of") && error.contains("is not finite; the step was not taken"), "{error}");
    assert!(trainer.to_bytes().unwrap() == before && trainer.step().unwrap().is_none(), "it is forgotten");
}
