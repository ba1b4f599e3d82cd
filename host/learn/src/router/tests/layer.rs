//! The router as a layer in a transaction.

use super::*;
use crate::{Batch, Group, Layer, LayerOutcome, Member, Removed, learn};
use clawhost_core::{EpisodeId, StateId};

fn episode(number: u64) -> EpisodeId {
    EpisodeId::new(&Digest::of(b"run"), number)
}

/// A batch of one group with these rewards, by episode number.
fn batch(rewards: &[f64]) -> Batch {
    let member =
        |(number, reward): (u64, &f64)| Member { episode: episode(number), reward: *reward, shown: 0, generated: None };
    let members = (0..).zip(rewards).map(member).collect();
    let group = Group { task: "t".into(), seed: 0, drawn: Vec::new(), propensity: 0.5, members };
    let state_id = StateId(Digest::of(b""));
    Batch { number: 0, state_id, groups: vec![group], answers: Vec::new(), removed: Removed::default() }
}

#[test]
fn staged_decisions_are_learned_with_the_rewards_of_the_batch() {
    let mut router = router(|_| {});
    let decision = |number: u64| Decision { time: number, ..chosen(&router, 0.0, "cheap") };
    // The third episode of the batch was not routed; of the fourth decision no reward came.
    let staged: Vec<(EpisodeId, Decision)> = [0, 1, 3].map(|number| (episode(number), decision(number))).into();
    for (episode, decision) in staged.clone().into_iter().rev() {
        router.stage(episode, decision, [1.0, 0.0]);
    }
    let mut expect = super::router(|_| {});
    let logged =
        |(position, reward): (usize, f64)| Logged { decision: staged[position].1.clone(), outcome: outcome(reward) };
    expect.learn(&[(0, 1.0), (1, 0.0)].map(logged)).unwrap();
    let applied = learn(&mut [&mut router], &batch(&[1.0, 0.0, 1.0])).unwrap();
    assert!(applied.moved());
    assert_eq!(router.digest(), expect.digest(), "in the order of time, and nothing else");
    assert_eq!((router.learned(), router.version()), (2, 1));
    // What was staged and not used does not wait for a later batch.
    let again = learn(&mut [&mut router], &batch(&[0.0, 0.0, 0.0, 0.0])).unwrap();
    assert!(!again.moved());
}

#[test]
fn a_snapshot_restores_every_decision() {
    let mut router = router(|_| {});
    teach(&mut router, "cheap", 0.7, 250);
    teach(&mut router, "dear", 0.9, 30);
    let snapshot = router.snapshot().unwrap();
    let (digest, decision) = (router.digest(), decide(&router, 1.5, 3));
    teach(&mut router, "dear", 0.1, 5);
    assert_ne!(router.digest(), digest);
    router.restore(&snapshot).unwrap();
    assert_eq!((router.digest(), router.identity()), (digest, decision.parameters));
    assert_eq!(decide(&router, 1.5, 3), decision);
}

#[test]
fn a_damaged_snapshot_is_refused_and_changes_nothing() {
    let mut router = router(|_| {});
    teach(&mut router, "cheap", 0.7, 3);
    let (before, text) = (router.digest(), String::from_utf8(router.snapshot().unwrap()).unwrap());
    let mut check = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        let error = router.restore(text.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("layer router: "), "{error}");
        assert_eq!(router.digest(), before);
    };
    check("{", "");
    check("\"names\":[\"x\"]", "\"names\":[\"x\",\"y\"]");
    check("\"model\":\"cheap\"", "\"model\":\"other\"");
    check("\"reference_cost\":5.5", "\"reference_cost\":-5.5");
    check("\"cheap\":1.0", "\"cheap\":-1.0");
}

#[test]
fn a_batch_that_the_router_cannot_use_leaves_it_out() {
    let mut router = router(|_| {});
    let before = router.digest();
    let decision = chosen(&router, 0.0, "cheap");
    router.stage(episode(0), decision, [1.0, 0.0]);
    // Rewards of this router are 0 to 1.
    let applied = learn(&mut [&mut router], &batch(&[-0.5])).unwrap();
    assert!(matches!(applied.outcomes[..], [LayerOutcome::LeftOut(_)]));
    assert_eq!(router.digest(), before);
    assert!(!learn(&mut [&mut router], &batch(&[0.5])).unwrap().moved(), "what was staged is gone");
}

#[test]
fn a_decision_whose_model_failed_is_learned_with_the_least_reward() {
    let mut router = router(|_| {});
    let decision = chosen(&router, 0.0, "cheap");
    let logged = router.stage_failed(decision.clone(), [0.5, 0.0]);
    let mut expect = super::router(|_| {});
    expect.learn(std::slice::from_ref(&logged)).unwrap();
    assert_eq!(logged, Logged { decision: decision.clone(), outcome: Outcome { reward: 0.0, units: [0.5, 0.0] } });
    // The batch has no episode that was routed.
    assert!(learn(&mut [&mut router], &batch(&[0.5])).unwrap().moved());
    assert_eq!(router.digest(), expect.digest());
    // It waits for one batch alone.
    router.stage_failed(decision, [0.5, 0.0]);
    router.clear_pending();
    learn(&mut [&mut router], &batch(&[0.5])).unwrap();
    assert_eq!(router.digest(), expect.digest());
}
