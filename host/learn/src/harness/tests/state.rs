//! Accumulate, apply, snapshot and restore.

use super::*;

/// A layer with entries in several stages, and a batch for it.
fn world() -> (World, Batch) {
    let mut world = World::new(settings(), &[&rule(90), &rule(91)]);
    world.random = Some(Random(1));
    world.effect(&rule(1), 0.3);
    world.add(&[&rule(1), &rule(2), "when tier is gold: refund"]);
    world.propose(vec![retire(&rule(90)), update(&rule(91), &rule(92)), proposal(Change::Retire("e-1".into()))]);
    (0..8).for_each(|_| world.play(16));
    world.check(&[(&rule(1), "admitted")]);
    let groups = world.groups(16, TEXT);
    (world, batch(groups, vec![add(&rule(3)), add(&rule(1))]))
}

#[test]
fn restore_brings_the_state_back_byte_for_byte() {
    let (world, batch) = world();
    let mut harness = world.harness;
    let (before, digest) = (harness.snapshot().unwrap(), harness.digest());
    assert_eq!(Digest::of(&before), digest);
    harness.forward_backward(&batch).unwrap();
    assert_eq!(
        (harness.snapshot().unwrap(), harness.digest()),
        (before.clone(), digest),
        "nothing acts before the step"
    );
    harness.optim_step().unwrap();
    let (after, next) = (harness.snapshot().unwrap(), harness.digest());
    assert_ne!((&after, next), (&before, digest));
    harness.forward_backward(&batch).unwrap();
    harness.restore(&before).unwrap();
    assert_eq!((harness.snapshot().unwrap(), harness.digest()), (before.clone(), digest));
    harness.optim_step().unwrap();
    assert_eq!(harness.digest(), digest, "restore discards accumulated updates");
    // Another layer restores the snapshot and continues identically.
    let mut other = Harness::new(settings(), Playbook::default());
    other.restore(&before).unwrap();
    other.forward_backward(&batch).unwrap();
    other.optim_step().unwrap();
    assert_eq!((other.snapshot().unwrap(), other.digest()), (after, next));
    assert_eq!(other.rows().len(), harness.rows().len() + 1);
}

#[test]
fn two_batches_may_be_accumulated_for_one_step() {
    let (world, batch) = world();
    let mut harness = world.harness;
    let (batches, groups, proposed) = (harness.batches, harness.groups, harness.counts.proposed);
    harness.forward_backward(&batch).unwrap();
    harness.forward_backward(&batch).unwrap();
    let step = harness.optim_step().unwrap();
    assert_eq!(step.updates, 2);
    assert_eq!((harness.batches, harness.groups), (batches + 2, groups + 32));
    assert_eq!(harness.counts.proposed, proposed + 4);
}

#[test]
fn without_anything_accumulated_a_step_changes_nothing() {
    let (world, batch) = world();
    let mut harness = world.harness;
    let digest = harness.digest();
    let check = |harness: &mut Harness| {
        assert_eq!(harness.optim_step().unwrap(), Step::default());
        assert_eq!(harness.digest(), digest);
        assert_eq!(Digest::of(&harness.snapshot().unwrap()), digest);
    };
    check(&mut harness);
    harness.forward_backward(&batch).unwrap();
    harness.clear_pending();
    check(&mut harness);
    harness.forward_backward(&batch).unwrap();
    harness.optim_step().unwrap();
    assert_ne!(harness.digest(), digest);
}

#[test]
fn restoring_invalid_bytes_fails_and_changes_nothing() {
    let (world, _) = world();
    let mut harness = world.harness;
    let (bytes, digest) = (harness.snapshot().unwrap(), harness.digest());
    for broken in [&b""[..], b"{}", b"null", &bytes[..bytes.len() - 1]] {
        assert!(matches!(harness.restore(broken), Err(LearnError::Layer { .. })));
        assert_eq!(harness.digest(), digest);
    }
}

#[test]
fn every_change_of_state_changes_the_digest() {
    let (world, _) = world();
    let check = |change: &dyn Fn(&mut Harness)| {
        let mut harness = world.harness.clone();
        let before = harness.digest();
        change(&mut harness);
        assert_ne!(harness.digest(), before);
        assert_eq!(harness.digest(), Digest::of(&serde_json::to_vec(&harness).unwrap()));
    };
    let candidate = world.harness.candidate().unwrap();
    check(&|harness| harness.promote(&candidate));
    check(&|harness| harness.reject(&candidate));
    check(&|harness| harness.plant(lesson(&rule(50)), "operator"));
    check(&|harness| {
        harness.remember(Memory::from_iter([Entry { status: Status::Expired, ..Entry::new(lesson(&rule(51)), "x") }]))
    });
}

#[test]
fn extreme_evidence_can_be_serialised() {
    let mut world = World::new(settings(), &[]);
    world.effect(&rule(1), 0.5);
    world.effect(&rule(2), -0.5);
    world.add(&[&rule(1), &rule(2)]);
    world.play(2_000);
    let bytes = world.harness.snapshot().unwrap();
    world.harness.restore(&bytes).unwrap();
    world.check(&[(&rule(1), "admitted"), (&rule(2), "harmful")]);
}
