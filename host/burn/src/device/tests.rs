//! Failures of a device, simulated on burn's processor device.

use crate::BurnDevice;
use crate::testing::config;
use clawhost_model::device::ComputeDevice;
use clawhost_model::train::{OptimizerSettings, Schedule, Sequence, TokenScores, Trained, Trainer};
use clawhost_model::{Architecture, LocalModelError, initial};
use std::sync::Arc;

/// A device named `vulkan:0`, and a trainer on it.
fn learner() -> (ComputeDevice, Trainer) {
    let config = Arc::new(config(Architecture::Qwen3));
    let device = ComputeDevice::accelerator(Arc::new(BurnDevice::named("vulkan:0")));
    let (settings, schedule) = (OptimizerSettings::default(), Schedule::constant(1e-2));
    let trainer = device.trainer(&config, &initial(&config, 3), Trained::Full, settings, schedule).unwrap();
    (device, trainer)
}

#[test]
fn a_step_that_a_device_fails_in_changes_nothing() {
    let (device, mut trainer) = learner();
    let sequence = Sequence::new((0..9).collect(), &[[false; 3], [true; 3], [true; 3]].concat(), 1.0).unwrap();
    let units: [&[Sequence]; 1] = [&[sequence]];
    let learn = |trainer: &mut Trainer, breaks: bool| {
        let loss = |_: usize, scores: &[Vec<TokenScores>]| {
            // This is how burn reports a lost device during a pass.
            assert!(!breaks, "device lost");
            let wanted = scores.iter().map(|unit| vec![-1.0; unit.iter().map(|one| one.logprobs.len()).sum()]);
            Ok::<_, LocalModelError>((wanted.collect(), ()))
        };
        device.guarded(|| trainer.accumulate(&units, &loss)).flatten()
    };
    let before = trainer.to_bytes().unwrap();
    let error = learn(&mut trainer, true).unwrap_err();
    assert!(matches!(error, LocalModelError::DeviceLost { .. }), "{error}");
    assert!(trainer.step().unwrap().is_none() && trainer.to_bytes().unwrap() == before, "no gradient is pending");
    learn(&mut trainer, false).unwrap();
    assert!(trainer.step().unwrap().is_some() && trainer.to_bytes().unwrap() != before);
}

/// Learns twice from six sequences on a device whose memory suffices for passes over `room` sequences. Larger passes panic with the text
/// of cubecl. Returns the results, and the tried numbers of sequences.
fn cramped(room: usize) -> ([Result<Vec<()>, LocalModelError>; 2], [Vec<usize>; 2], Trainer) {
    let (device, mut trainer) = learner();
    let mask = [[false; 3], [true; 3], [true; 3]].concat();
    let sequences: Vec<Sequence> =
        (0..6).map(|salt| Sequence::new((salt..salt + 9).collect(), &mask, 1.0).unwrap()).collect();
    let units: Vec<&[Sequence]> = sequences.chunks(1).collect();
    let mut learn = || {
        let tried = std::sync::Mutex::new(Vec::new());
        let loss = |_: usize, scores: &[Vec<TokenScores>]| {
            tried.lock().unwrap().push(scores.len());
            assert!(scores.len() <= room, "out of device memory allocating 4096 bytes\n\n   0: somewhere");
            let wanted = scores.iter().map(|unit| vec![-1.0; unit.iter().map(|one| one.logprobs.len()).sum()]);
            Ok::<_, LocalModelError>((wanted.collect(), ()))
        };
        let done = device.guarded(|| trainer.accumulate(&units, &loss)).flatten();
        (done, tried.into_inner().unwrap())
    };
    let (first, second) = (learn(), learn());
    ([first.0, second.0], [first.1, second.1], trainer)
}

#[test]
fn with_little_memory_a_step_uses_smaller_pieces_and_one_that_never_fits_is_an_error() {
    let ([first, _], tried, enough) = cramped(2);
    assert_eq!((first.unwrap().len(), tried), (3, [vec![2; 3], vec![2; 3]]));

    let ([first, second], [tried, again], short) = cramped(1);
    assert_eq!((first.unwrap().len(), second.unwrap().len()), (6, 6));
    assert!(tried.starts_with(&[2]) && tried.ends_with(&[1; 6]), "{tried:?}");
    assert_eq!(again, [1; 6], "later steps use the smaller pieces at once");
    let right = enough.pending().unwrap();
    for (name, gradient) in short.pending().unwrap() {
        let largest = right[&name].iter().fold(0.0_f32, |most, one| most.max(one.abs()));
        let pairs = gradient.iter().zip(&right[&name]).map(|(one, other)| (one - other).abs());
        // Sums in another order differ by rounding.
        assert!(pairs.fold(0.0, f32::max) <= 1e-4 * largest, "{name}: nothing was added twice");
    }

    let ([first, _], _, mut nothing) = cramped(0);
    let error = first.unwrap_err().to_string();
    assert!(
        error.starts_with("the device vulkan:0 has too little memory (out of device memory allocating 4096 bytes"),
        "{error}"
    );
    assert!(nothing.step().unwrap().is_none(), "and nothing is left of it");
}
