//! A pass stops where it is asked to, and nothing of it is kept.

use super::{learn, likelihood, sequences, small, total, trainer};
use crate::train::{Rule, Sequence};
use crate::{AdapterSettings, LocalModelError};
use crate::{Dtype, HostDecoder};
use clawhost_learn::Interrupt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Asks to stop from the question of this number on, and counts the questions.
fn at(number: usize) -> (Interrupt, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    (Interrupt::new(move || count.fetch_add(1, Ordering::Relaxed) >= number), asked)
}

fn adapted(host: &HostDecoder) -> HostDecoder {
    AdapterSettings { rank: 4, ..AdapterSettings::default() }.attach(&host.kept_as(Dtype::BF16).unwrap()).unwrap()
}

#[test]
fn a_pass_that_is_stopped_anywhere_is_an_error_and_changes_nothing() {
    let (config, host) = small();
    let sequences = sequences();
    let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
    let all: Vec<&Sequence> = sequences.iter().collect();
    for learned in [None, Some(adapted(&host))] {
        let made = || match &learned {
            None => trainer(&config, &host, Rule::AdamW),
            Some(host) => super::frozen::trainer(&config, host, crate::train::Trained::Adapters),
        };
        let (mut undisturbed, mut stopped) = (made(), made());
        let (never, asked) = at(usize::MAX);
        undisturbed.stop_when(never);
        learn(&mut undisturbed, &sequences, &units);
        let questions = asked.load(Ordering::Relaxed);
        // Before each layer and before the head, forward and backward.
        assert_eq!(questions, 2 * (2 + 1));
        for number in 0..questions {
            stopped.stop_when(at(number).0);
            let error = stopped.accumulate(&units, &likelihood(total(&sequences))).unwrap_err();
            assert!(matches!(error, LocalModelError::Interrupted), "at {number}: {error}");
            assert!(stopped.step().unwrap().is_none(), "at {number}: no gradient is pending");
        }
        stopped.stop_when(at(0).0);
        assert!(matches!(stopped.scores(&all), Err(LocalModelError::Interrupted)));
        // It goes on as if nothing had been.
        stopped.stop_when(Interrupt::default());
        learn(&mut stopped, &sequences, &units);
        assert!(stopped.to_bytes().unwrap() == undisturbed.to_bytes().unwrap());
    }
}
