//! Figures to quote, with the promises of each kind of world: `cargo test -p clawhost-learn --release -- --ignored --nocapture table_of_live_simulations`.

use super::comparators::*;
use super::simulation::assert_null;
use super::world::*;
use crate::live::*;

#[test]
#[ignore = "a measurement of minutes; the other tests check the same promises for fewer worlds"]
fn table_of_live_simulations() {
    const SESSIONS: usize = 1_200;
    println!("{RUNS} runs; help and harm: shares of runs whose evidence ever reached 10, 20, 160");
    let row = |name: &str, world: &World, sessions: usize, truth: f64| -> Outcome {
        let found = simulate(world, sessions, truth);
        let Outcome { help, harm, missed, spread, bias, survived, blocked, median } = found;
        let shares = |shares: [f64; 3]| shares.map(|share| format!("{share:.3}")).join(" ");
        println!(
            "{name:<44} {sessions:>5} | help {} | harm {} | missed {missed:.3} | sd(z) {spread:.2} | bias {bias:+.3} | survived {survived:.3} | blocked {blocked:.3} | median {median}",
            shares(help),
            shares(harm)
        );
        found
    };
    let null = |name: &str, world: &World, sessions: usize| {
        assert_null(world, &row(name, world, sessions, 0.0));
    };
    let base = World::default();
    for propensity in [0.5, 0.1, 0.9] {
        let base = World { propensity, ..base.clone() };
        println!("propensity {propensity}");
        null("null", &base, SESSIONS);
        null("a: drift .6", &World { drift: 0.6, ..base.clone() }, SESSIONS);
        null(
            "b: 5 % feedback, 2,000 users",
            &World { feedback: Feedback::Share(0.05), users: 2_000, ..base.clone() },
            8_000,
        );
        null("c: feedback by user", &World { feedback: Feedback::ByUser, spread: 0.2, ..base.clone() }, 2_400);
        null("d: +1 and -1 for 15 % each", &World { decides: 0.3, ..base.clone() }, SESSIONS);
        null("d: +1 and -1 for 45 % each", &World { decides: 0.9, ..base.clone() }, SESSIONS);
        null("d: 40 users, activity sd 2", &World { decides: 0.3, users: 40, activity: 2.0, ..base.clone() }, SESSIONS);
        null("d: 60 users, 45 % each", &World { decides: 0.9, users: 60, activity: 0.8, ..base.clone() }, SESSIONS);
        null("draws per user", &World { per_user: true, spread: 0.3, ..base.clone() }, SESSIONS);
        null("base .03", &World { base: 0.03, spread: 0.02, ..base.clone() }, SESSIONS);
        null("base .97", &World { base: 0.97, spread: 0.02, ..base.clone() }, SESSIONS);
        let planned = 1.5 * Plan::of(0.2, propensity, 10.0).rewarded_sessions().unwrap().unwrap() as f64;
        let even = World { activity: 0.5, ..base.clone() };
        row("g: +.2, 1.5 x planned", &World { effects: vec![0.2], ..even.clone() }, planned as usize, 0.2);
        row("g: -.2, 1.5 x planned", &World { effects: vec![-0.2], ..even }, planned as usize, -0.2);
        row("g: +.2, activity sd 1.2", &World { effects: vec![0.2], ..base.clone() }, planned as usize, 0.2);
        row("i: +.2", &World { effects: vec![0.2], ..base.clone() }, SESSIONS, 0.2);
        row("i: +.14, uneven", &World { effects: vec![0.2], decides: 0.3, ..base.clone() }, SESSIONS, 0.14);
        row("draws per user, +.2", &World { per_user: true, effects: vec![0.2], ..base.clone() }, SESSIONS, 0.2);
    }
    let raised = World { drift: 0.6, propensity: 0.1, later: Some(0.5), ..base.clone() };
    null("a: drift .6, propensity .1, then .5", &raised, SESSIONS);
    println!("interference and bias, propensity .5");
    let two = World { effects: vec![0.0, 0.0], base: 0.4, ..base.clone() };
    row("e: +.3 only together", &World { together: 0.3, ..two.clone() }, SESSIONS, 0.15);
    row(
        "e: +.2 alone, 0 together",
        &World { effects: vec![0.2, 0.2], together: -0.4, base: 0.6, ..two },
        SESSIONS,
        0.0,
    );
    for ratio in [1.0, 1.25, 1.5, 2.0, 3.0] {
        let feedback = Feedback::Biased { share: 0.4, ratio };
        let found = row(&format!("f: thumbs biased by {ratio}"), &World { feedback, ..base.clone() }, 3_000, 0.0);
        assert!(
            ratio > 1.5 || found.survived <= allowed(0.1),
            "a bias of {ratio} is inside what findings must survive"
        );
    }
    let (wrong, right) = super::simulation::trial_of_many(RUNS);
    println!("12 entries, 2 help: false discoveries {wrong:.3}, {right:.2} of 2 found by {SESSIONS} sessions");
    println!("share of runs in which other rules admit");
    for (name, world, sessions) in [
        ("null", base.clone(), SESSIONS),
        ("d: +1 and -1 for 15 % each", World { decides: 0.3, ..base.clone() }, SESSIONS),
        ("+.2", World { effects: vec![0.2], ..base.clone() }, 300),
        ("+.2", World { effects: vec![0.2], ..base.clone() }, SESSIONS),
        ("+.2 at propensity .1", World { effects: vec![0.2], propensity: 0.1, ..base }, SESSIONS),
    ] {
        println!(
            "{name:<30} {sessions:>5} | ours {:.3} | difference {:.3} | inverse propensity {:.3} | its e-value {:.3} | bet on 1 session {:.3} | on 4 {:.3}",
            simulate(&world, sessions, 0.0).help[0],
            admitted::<PeekedDifference>(&world, sessions),
            admitted::<PeekedInversePropensity>(&world, sessions),
            admitted::<UnclusteredEvidence>(&world, sessions),
            admitted::<Bet<1>>(&world, sessions),
            admitted::<Bet<4>>(&world, sessions),
        );
    }
    println!("a new version at a share of .05, threshold 20: (worse, better)");
    for (effect, drift) in [(0.0, 0.0), (0.0, -0.4), (-0.3, 0.0), (-0.2, 0.0)] {
        println!("effect {effect}, drift {drift}: {:?}", super::concurrent::shares(effect, USUAL_SHARE, drift, 2_000));
    }
}
