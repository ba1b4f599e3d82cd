//! Simulations in which the members of a group depend on each other: an entry helps on some tasks and harms on others.

use super::Credit;
use crate::random::Random;
use crate::{EntryId, Group, Member};
use clawhost_core::EpisodeId;

const RUNS: usize = 1_000;
/// Groups between two looks.
const LOOK: usize = 8;

/// How the environment behaves. The entry's mean effect over tasks is 0.
#[derive(Debug, Clone, Copy)]
struct World {
    /// Members of a group.
    members: usize,
    /// Share of the tasks on which the entry decides the outcome: for the better on one half of them, for the worse on the other.
    decides: f64,
    /// Tasks of a topic. They share the effect, and are drawn one after another in a shuffled order.
    topic: usize,
    /// How much the success of the other tasks changes from the first group to the last.
    drift: f64,
}

const PLAIN: World = World { members: 4, decides: 0.3, topic: 1, drift: 0.0 };

/// What happened over all runs.
#[derive(Debug)]
struct Outcome {
    /// Standard deviation of the last effects in units of their standard errors.
    spread: f64,
    /// Share of runs in which the evidence for the entry ever reached 10.
    ten: f64,
    /// The same for 160.
    hundred_sixty: f64,
    /// Share of runs in which an interval ever missed the effect.
    missed: f64,
}

/// The effect of the entry on each task of a list: balanced, so that its mean is 0.
fn effects(world: World, random: &mut Random) -> Vec<i8> {
    let topics = 400 / world.topic;
    let deciding = (topics as f64 * world.decides / 2.0).round() as usize;
    let of_topic = |topic: usize| match topic {
        topic if topic < deciding => 1,
        topic if topic < 2 * deciding => -1,
        _ => 0,
    };
    let mut tasks: Vec<i8> = (0..topics * world.topic).map(|task| of_topic(task / world.topic)).collect();
    (1..tasks.len()).rev().for_each(|last| tasks.swap(last, random.below(last + 1)));
    tasks
}

fn group(world: World, effect: i8, progress: f64, random: &mut Random) -> Group {
    let mut shown = vec![false; world.members];
    let mut order: Vec<usize> = (0..world.members).collect();
    (1..world.members).rev().for_each(|last| order.swap(last, random.below(last + 1)));
    order.iter().take(world.members / 2).for_each(|member| shown[*member] = true);
    let base = 0.5 + world.drift * (progress - 0.5);
    let members = shown.into_iter().map(|shown| {
        let solved = match effect {
            1 => shown,
            -1 => !shown,
            _ => random.uniform() < base,
        };
        Member {
            episode: EpisodeId(String::new()),
            reward: f64::from(u8::from(solved)),
            shown: u64::from(shown),
            generated: None,
        }
    });
    let members = members.collect();
    Group { task: "t".into(), seed: 0, drawn: vec![EntryId("a".into())], propensity: 0.5, members }
}

fn simulate(world: World, groups: usize) -> Outcome {
    let (mut last, mut most, mut missed) = (Vec::new(), Vec::new(), 0);
    for run in 0..RUNS {
        let mut random = Random(run as u64);
        let tasks = effects(world, &mut random);
        let (mut credit, mut evidence, mut misses) = (Credit::default(), 0.0_f64, false);
        for at in 0..groups {
            // Drawn with replacement: the mean over the list is what is estimated.
            let effect = tasks[random.below(tasks.len())];
            credit.observe(&group(world, effect, at as f64 / groups as f64, &mut random));
            if (at + 1) % LOOK == 0 || at + 1 == groups {
                let estimate = credit.estimates().into_values().next().unwrap();
                evidence = evidence.max(estimate.admit);
                misses |= estimate.decidable && !(estimate.interval.0..=estimate.interval.1).contains(&0.0);
                if at + 1 == groups {
                    last.push(estimate.effect / estimate.standard_error);
                }
            }
        }
        most.push(evidence);
        missed += usize::from(misses);
    }
    let share = |least: f64| most.iter().filter(|value| **value >= least).count() as f64 / RUNS as f64;
    let spread = (last.iter().map(|z| z * z).sum::<f64>() / RUNS as f64).sqrt();
    Outcome { spread, ten: share(10.0), hundred_sixty: share(160.0), missed: missed as f64 / RUNS as f64 }
}

/// Errors stay within their promises: by Ville's inequality evidence of E comes up in at most one run of E, whenever one looks; intervals
/// hold in 95 of 100. Chance allows a few runs more.
fn check(world: World, groups: usize) {
    let found = simulate(world, groups);
    assert!(found.spread < 1.15, "{world:?}, {groups} groups: {found:?}");
    assert!(found.ten <= 0.1 && found.hundred_sixty <= 0.01 && found.missed <= 0.06, "{world:?}, {groups}: {found:?}");
}

#[test]
fn an_entry_that_helps_as_often_as_it_harms_is_no_discovery() {
    check(PLAIN, 240);
    check(World { decides: 0.9, ..PLAIN }, 240);
    check(World { members: 2, ..PLAIN }, 240);
    check(World { members: 8, ..PLAIN }, 240);
}

#[test]
fn few_groups_give_no_false_certainty() {
    for groups in [14, 24, 40] {
        check(PLAIN, groups);
        check(World { decides: 0.9, ..PLAIN }, groups);
    }
}

#[test]
fn related_tasks_and_drift_are_no_discovery() {
    check(World { topic: 20, ..PLAIN }, 240);
    check(World { drift: 0.8, ..PLAIN }, 240);
}
