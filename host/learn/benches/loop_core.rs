//! Episodes per second of the harness layer on one thread: `cargo bench -p clawhost-learn --bench loop_core`.
//!
//! Groups of four, 16 entries on trial, 100 deployed ones under maintenance, and a full window of groups.

#![allow(clippy::print_stdout, reason = "it prints figures")]

use clawhost_core::{Change, Digest, EpisodeId, Proposal, StateId, derive_seed};
use clawhost_learn::harness::{Harness, HarnessSettings};
use clawhost_learn::playbook::Playbook;
use clawhost_learn::{Answer, Batch, Entry, Group, Layer, LearnError, Lesson, Member, Removed, learn};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

const MEMBERS: u32 = 4;
const DEPLOYED: usize = 100;
/// More entries than are tried while the window fills, so that 16 are on trial all the time.
const PROPOSED: usize = 250;
/// Groups before measuring starts: the window is full.
const WARM_GROUPS: u64 = 1_216;
const RUNS: usize = 51;

fn rule(n: usize) -> Lesson {
    Lesson::read(&format!("always: follow rule {n}"))
}

fn batch(groups: Vec<Group>, proposals: Vec<(String, Proposal)>) -> Batch {
    let answer = |(reflector, proposal)| Answer { reflector, proposals: vec![proposal] };
    let answers = proposals.into_iter().map(answer).collect();
    Batch { number: 0, state_id: StateId(Digest::of(b"")), groups, answers, removed: Removed::default() }
}

/// Groups as the learning loop plays them, with rewards of 0 and 1 that no entry affects.
fn groups(harness: &Harness, first: u64, count: u64) -> Vec<Group> {
    let showing = harness.training(7);
    let group = |number: u64| {
        let mut drawn = Vec::new();
        let members = (0..MEMBERS).map(|member| {
            let chosen = showing.choose(number, member, MEMBERS, "tier: silver");
            let shown =
                (0_u32..).zip(&chosen.drawn).fold(0, |mask, (bit, (_, shown))| mask | (u64::from(*shown) << bit));
            drawn = chosen.drawn.into_iter().map(|(id, _)| id).collect();
            let reward = (derive_seed(number, "reward", u64::from(member)) % 2) as f64;
            Member {
                episode: EpisodeId::new(&Digest::of(b""), number * 4 + u64::from(member)),
                reward,
                shown,
                generated: None,
            }
        });
        let members = members.collect();
        Group { task: format!("task-{number}"), seed: number, drawn, propensity: 0.5, members }
    };
    (first..first + count).map(group).collect()
}

fn warm() -> Result<Harness, LearnError> {
    let entries = (0..DEPLOYED).map(|n| Entry::new(rule(n), "bench")).collect();
    let mut harness = Harness::new(HarnessSettings::default(), Playbook { sections: BTreeMap::new(), entries });
    let proposal = |n: usize| {
        let lesson = rule(DEPLOYED + n).line();
        let entry = clawhost_core::Entry {
            id: String::new(),
            text: lesson,
            tags: Vec::new(),
            needs: Vec::new(),
            extra: Vec::new(),
        };
        let change = Change::Add(entry);
        ("bench".to_owned(), Proposal { change, evidence: Vec::new(), expected_effect: String::new() })
    };
    learn(&mut [&mut harness], &batch(Vec::new(), (0..PROPOSED).map(proposal).collect()))?;
    for first in (0..WARM_GROUPS).step_by(16) {
        let groups = groups(&harness, first, 16);
        learn(&mut [&mut harness], &batch(groups, Vec::new()))?;
    }
    Ok(harness)
}

/// Median of many runs, each on a fresh layer.
fn measure<T>(
    name: &str,
    episodes: usize,
    harness: &Harness,
    mut work: impl FnMut(&mut Harness) -> Result<T, LearnError>,
) -> Result<(), LearnError> {
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let mut harness = harness.clone();
        let start = Instant::now();
        black_box(work(&mut harness)?);
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let median: Duration = times.get(RUNS / 2).copied().unwrap_or_default();
    let rate = episodes as f64 / median.as_secs_f64();
    println!("{name:<44} {episodes:>5} episodes {:>10.1} us {rate:>14.0} episodes/s", median.as_secs_f64() * 1e6);
    Ok(())
}

fn main() -> Result<(), LearnError> {
    let harness = warm()?;
    println!("snapshot: {} KiB", harness.clone().snapshot()?.len() / 1024);
    for episodes in [64, 1_024] {
        let batch = batch(groups(&harness, WARM_GROUPS, episodes as u64 / u64::from(MEMBERS)), Vec::new());
        let drawn: usize = batch.groups.iter().map(|group| group.drawn.len()).sum();
        println!("entries drawn for in a group: {:.1}", drawn as f64 / batch.groups.len() as f64);
        measure("forward_backward", episodes, &harness, |harness| harness.forward_backward(&batch))?;
        measure("learn: forward, snapshot, step", episodes, &harness, |harness| learn(&mut [harness], &batch))?;
        measure("  of which snapshot", episodes, &harness, |harness| harness.snapshot())?;
        measure("  of which credit and decisions (step)", episodes, &harness, |harness| {
            harness.forward_backward(&batch)?;
            harness.optim_step()
        })?;
    }
    Ok(())
}
