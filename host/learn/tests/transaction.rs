//! The transaction under faults: all layers that can use a batch step, or no layer does.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on has failed")]

use clawhost_core::{Digest, EpisodeId, StateId};
use clawhost_learn::{Applied, Batch, Forward, Group, Layer, LayerOutcome, LearnError, Member, Removed, Step, learn};
use proptest::prelude::*;
use std::cell::Cell;

/// Faults of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Forward,
    /// Its state changes before its step.
    ForwardChanges,
    Snapshot,
    Step,
    Restore,
    RestoreDifferent,
    /// Its snapshot fails after a restore.
    SnapshotAfterRestore,
    /// It is stopped in its pass.
    StoppedForward,
    /// It is stopped in its step.
    StoppedStep,
}

const FAULTS: [Fault; 7] = [
    Fault::Forward,
    Fault::ForwardChanges,
    Fault::Snapshot,
    Fault::Step,
    Fault::Restore,
    Fault::RestoreDifferent,
    Fault::SnapshotAfterRestore,
];

/// A layer that counts the episodes it learned from.
struct Counting {
    name: String,
    learned: Vec<u8>,
    pending: Vec<u8>,
    faults: Vec<Fault>,
    calls: Vec<&'static str>,
    snapshots: Cell<u32>,
}

impl Counting {
    fn new(number: usize, faults: &[(usize, Fault)]) -> Self {
        Self {
            name: format!("layer {number}"),
            learned: vec![number as u8; number + 1],
            pending: Vec::new(),
            faults: faults.iter().filter(|(layer, _)| *layer == number).map(|(_, fault)| *fault).collect(),
            calls: Vec::new(),
            snapshots: Cell::new(0),
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    fn fails(&self, what: &str) -> LearnError {
        LearnError::Layer { layer: self.name.clone(), why: what.to_owned() }
    }
}

impl Layer for Counting {
    fn name(&self) -> &str {
        &self.name
    }

    fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError> {
        self.calls.push("forward");
        self.pending.push(batch.episodes() as u8);
        if self.has(Fault::ForwardChanges) {
            self.learned.push(99);
        }
        if self.has(Fault::StoppedForward) {
            return Err(LearnError::Interrupted);
        }
        if self.has(Fault::Forward) { Err(self.fails("forward")) } else { Ok(Forward::default()) }
    }

    fn optim_step(&mut self) -> Result<Step, LearnError> {
        self.calls.push("step");
        if self.has(Fault::StoppedStep) {
            self.learned.push(77);
            return Err(LearnError::Interrupted);
        }
        if self.has(Fault::Step) {
            // Half of the update is done.
            self.learned.push(77);
            return Err(self.fails("step"));
        }
        self.learned.append(&mut self.pending);
        Ok(Step { updates: 1, ..Step::default() })
    }

    fn snapshot(&self) -> Result<Vec<u8>, LearnError> {
        let before = self.snapshots.replace(self.snapshots.get() + 1);
        let fault = if before == 0 { Fault::Snapshot } else { Fault::SnapshotAfterRestore };
        if self.has(fault) { Err(self.fails("snapshot")) } else { Ok(self.learned.clone()) }
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), LearnError> {
        self.calls.push("restore");
        if self.has(Fault::Restore) {
            return Err(self.fails("restore"));
        }
        self.learned = bytes.to_vec();
        if self.has(Fault::RestoreDifferent) {
            self.learned.push(55);
        }
        self.pending.clear();
        Ok(())
    }

    fn clear_pending(&mut self) {
        self.calls.push("clear");
        self.pending.clear();
    }

    fn digest(&self) -> Digest {
        Digest::of(&self.learned)
    }
}

fn batch(rewards: &[f64]) -> Batch {
    let member =
        |reward: &f64| Member { episode: EpisodeId("ep-1".into()), reward: *reward, shown: 0, generated: None };
    let members = rewards.iter().map(member).collect();
    Batch {
        number: 0,
        state_id: StateId(Digest::of(b"")),
        groups: vec![Group { task: "t".into(), seed: 1, drawn: Vec::new(), propensity: 0.5, members }],
        answers: Vec::new(),
        removed: Removed::default(),
    }
}

fn run(layers: &mut [Counting], batch: &Batch) -> Result<Applied, LearnError> {
    let mut all: Vec<&mut dyn Layer> = layers.iter_mut().map(|layer| layer as &mut dyn Layer).collect();
    learn(&mut all, batch)
}

/// The expected outcome, layer by layer.
#[derive(Debug, PartialEq)]
enum Expect {
    /// These layers step; the others are left out.
    Step(Vec<bool>),
    /// No layer steps, and all are restored. These are left out anyway.
    Nobody(Vec<bool>),
    /// These are in an unknown state, all others are restored. The first is reported.
    Stop(Vec<usize>),
}

fn expect(count: usize, faults: &[(usize, Fault)]) -> Expect {
    let has = |layer: usize, fault: Fault| faults.contains(&(layer, fault));
    let any = |layer: usize, of: &[Fault]| of.iter().any(|fault| has(layer, *fault));
    let unrestorable = [Fault::Restore, Fault::RestoreDifferent, Fault::SnapshotAfterRestore];
    let lost = |of: &dyn Fn(usize) -> bool| -> Vec<usize> {
        (0..count).filter(|layer| of(*layer) && any(*layer, &unrestorable)).collect()
    };
    let all = |of: &dyn Fn(usize) -> bool| -> Vec<bool> { (0..count).map(of).collect() };
    if (0..count).any(|layer| has(layer, Fault::Snapshot)) {
        return Expect::Nobody(all(&|_| true));
    }
    let makes_use = |layer: usize| !any(layer, &[Fault::Forward, Fault::ForwardChanges]);
    let gone = lost(&|layer| has(layer, Fault::ForwardChanges));
    if !gone.is_empty() {
        return Expect::Stop(gone);
    }
    if !(0..count).any(|layer| makes_use(layer) && has(layer, Fault::Step)) {
        return Expect::Step(all(&makes_use));
    }
    match lost(&makes_use) {
        gone if gone.is_empty() => Expect::Nobody(all(&makes_use)),
        gone => Expect::Stop(gone),
    }
}

fn check(count: usize, faults: &[(usize, Fault)]) {
    let new = || (0..count).map(|number| Counting::new(number, faults)).collect::<Vec<_>>();
    let (mut layers, before) = (new(), new());
    let result = run(&mut layers, &batch(&[0.0, 1.0]));
    let same = |layer: usize| layers[layer].learned == before[layer].learned;
    for layer in &layers {
        assert_eq!(layer.pending, [0; 0], "{faults:?}: something pending survives in {}", layer.name);
    }
    match expect(count, faults) {
        Expect::Step(steps) => {
            let applied = result.unwrap();
            assert_eq!(applied.rolled_back, None, "{faults:?}");
            assert_eq!(applied.learned(), steps.contains(&true));
            for (layer, steps) in steps.into_iter().enumerate() {
                let learned = [before[layer].learned.clone(), vec![2]].concat();
                match (&applied.outcomes[layer], steps) {
                    (LayerOutcome::Stepped(..), true) => assert_eq!(layers[layer].learned, learned, "{faults:?}"),
                    (LayerOutcome::LeftOut(_), false) => assert!(same(layer), "{faults:?}: left out, and changed"),
                    odd => panic!("{faults:?}: {odd:?}"),
                }
            }
        }
        Expect::Nobody(rolled_back) => {
            let applied = result.unwrap();
            assert!(applied.rolled_back.is_some() && !applied.learned(), "{faults:?}");
            for (layer, rolled_back) in rolled_back.into_iter().enumerate() {
                assert!(same(layer), "{faults:?}: nobody may step");
                let was = applied.outcomes[layer] == LayerOutcome::RolledBack;
                assert_eq!(was, rolled_back, "{faults:?}");
            }
        }
        Expect::Stop(gone) => {
            let Err(LearnError::Restore { layer, .. }) = result else { panic!("{faults:?}: {result:?}") };
            assert_eq!(layer, layers[gone[0]].name, "the first is reported");
            for layer in (0..count).filter(|layer| !gone.contains(layer)) {
                assert!(same(layer), "{faults:?}: as many as possible are as they were");
            }
        }
    }
}

#[test]
fn every_single_fault_and_every_pair_of_faults() {
    for count in 1..=4 {
        let all: Vec<(usize, Fault)> = (0..count).flat_map(|layer| FAULTS.map(|fault| (layer, fault))).collect();
        check(count, &[]);
        for one in &all {
            check(count, &[*one]);
            all.iter().for_each(|other| check(count, &[*one, *other]));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn a_fault_at_any_point_leaves_all_layers_stepped_or_none(
        count in 1_usize..=4,
        faults in prop::collection::vec((0_usize..4, prop::sample::select(FAULTS.to_vec())), 0..7),
    ) {
        check(count, &faults);
    }
}

#[test]
fn a_failing_step_restores_later_layers_too() {
    let mut layers: Vec<Counting> = (0..3).map(|number| Counting::new(number, &[(1, Fault::Step)])).collect();
    let applied = run(&mut layers, &batch(&[1.0])).unwrap();
    assert_eq!(applied.rolled_back, Some(layers[1].fails("step")));
    assert_eq!(layers[0].calls, ["forward", "step", "clear", "restore"]);
    assert_eq!(layers[1].calls, ["forward", "step", "clear", "restore"]);
    assert_eq!(layers[2].calls, ["forward", "clear", "restore"], "it had not stepped");
}

#[test]
fn a_layer_that_is_stopped_stops_the_transaction_and_all_are_as_before() {
    for fault in [Fault::StoppedForward, Fault::StoppedStep] {
        let new = || (0..3).map(|number| Counting::new(number, &[(1, fault)])).collect::<Vec<_>>();
        let (mut layers, before) = (new(), new());
        assert_eq!(run(&mut layers, &batch(&[1.0])), Err(LearnError::Interrupted), "{fault:?}");
        for (layer, before) in layers.iter().zip(&before) {
            assert_eq!((&layer.learned, layer.pending.len()), (&before.learned, 0), "{fault:?}: {}", layer.name);
        }
    }
}

#[test]
fn a_layer_that_is_left_out_is_reported_with_the_reason() {
    let mut layers: Vec<Counting> =
        (0..3).map(|number| Counting::new(number, &[(0, Fault::Forward), (2, Fault::ForwardChanges)])).collect();
    let applied = run(&mut layers, &batch(&[1.0])).unwrap();
    assert_eq!(applied.outcomes[0], LayerOutcome::LeftOut(layers[0].fails("forward")));
    assert_eq!(applied.outcomes[2], LayerOutcome::LeftOut(layers[2].fails("its state changed before its step")));
    assert_eq!(layers[0].calls, ["forward", "clear"], "an unchanged layer is not restored");
}

#[test]
fn an_invalid_batch_is_rejected_as_a_whole() {
    let check = |change: &dyn Fn(&mut Batch), expect: &str| {
        let mut batch = batch(&[0.0, 1.0]);
        // The invalid group is the last: the groups before it must not be learned from either.
        batch.groups.insert(0, batch.groups[0].clone());
        change(&mut batch);
        let mut layers = [Counting::new(0, &[]), Counting::new(1, &[])];
        let refused = run(&mut layers, &batch).unwrap_err();
        assert!(matches!(refused, LearnError::Batch { .. }), "{refused:?}");
        assert!(refused.to_string().contains(expect), "{refused}");
        for layer in &layers {
            assert_eq!(layer.calls, [""; 0]);
            assert_eq!(layer.snapshots.get(), 0);
        }
    };
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.000_001, -1.000_001, 1e300] {
        check(&|batch| batch.groups[1].members[1].reward = odd, "reward");
    }
    for odd in [f64::NAN, -0.1, 1.1] {
        check(&|batch| batch.groups[1].propensity = odd, "propensity");
    }
    check(&|batch| batch.groups[1].members.clear(), "without members");
    check(&|batch| batch.groups[1].drawn = vec![clawhost_learn::EntryId("e".into()); 65], "65 drawn entries");
}

#[test]
fn without_layers_or_groups_nothing_fails() {
    assert_eq!(learn(&mut [], &batch(&[1.0])), Ok(Applied { outcomes: Vec::new(), rolled_back: None }));
    let nothing = Batch { groups: Vec::new(), ..batch(&[1.0]) };
    assert_eq!((nothing.episodes(), nothing.mean()), (0, None));
    let mut layers = [Counting::new(0, &[])];
    assert!(run(&mut layers, &nothing).unwrap().learned());
}
