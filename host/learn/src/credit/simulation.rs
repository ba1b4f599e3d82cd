//! Simulated runs that compare decision rules.

use super::*;
use crate::normal::cumulative;
use crate::random::Random;
use crate::{EntryId, Group, Member};
use clawhost_core::EpisodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Planted effects, repeated: one large, one small, two without effect, one harmful.
const EFFECTS: [f64; 5] = [0.2, 0.05, 0.0, 0.0, -0.1];
const TASKS: usize = 48;
/// Standard deviation of the tasks' log odds of success when half of the entries are shown. With 0 instead, twenty entries
/// would solve most tasks, nothing could be added there, and +0.2 would be measured as +0.14.
const DIFFICULTY: f64 = 1.3;
const MEMBERS: usize = 4;
const BATCH: usize = 64;
const EPISODES: usize = 2_048;
const RUNS: usize = 200;
/// Largest share of worthless entries among the admitted.
const Q: f64 = 0.1;

fn entry(number: usize) -> EntryId {
    EntryId(format!("entry {number:03}"))
}

/// The simulated environment.
struct World {
    /// Share of the noise variance that members of a group share.
    common: f64,
    base: Vec<f64>,
    /// The entries that concern each task.
    about: Vec<Vec<usize>>,
    random: Random,
}

impl World {
    /// `relevant` is the share of tasks that an entry concerns.
    fn new(entries: usize, common: f64, relevant: f64, seed: u64) -> Self {
        let mut random = Random(seed);
        let base = (0..TASKS).map(|_| 1.0 / (1.0 + (-DIFFICULTY * random.normal()).exp())).collect();
        let about = (0..TASKS).map(|_| (0..entries).filter(|_| random.uniform() < relevant).collect()).collect();
        Self { common, base, about, random }
    }

    /// A group: each entry is shown to half of the members, drawn independently of the others.
    fn group(&mut self) -> Group {
        let task = self.random.below(TASKS);
        let about = self.about[task].clone();
        let mut shown = [0_u64; MEMBERS];
        for bit in 0..about.len() {
            let mut order: Vec<usize> = (0..MEMBERS).collect();
            (1..MEMBERS).rev().for_each(|last| order.swap(last, self.random.below(last + 1)));
            order.iter().take(MEMBERS / 2).for_each(|member| shown[*member] |= 1 << bit);
        }
        let shared = self.random.normal();
        let members = shown.into_iter().map(|shown| {
            let change =
                |(bit, number): (usize, &usize)| EFFECTS[number % EFFECTS.len()] * (((shown >> bit) & 1) as f64 - 0.5);
            let effect: f64 = about.iter().enumerate().map(change).sum();
            let noise = self.common.sqrt() * shared + (1.0 - self.common).sqrt() * self.random.normal();
            let solved = cumulative(noise) < (self.base[task] + effect).clamp(0.02, 0.98);
            Member { episode: EpisodeId(String::new()), reward: f64::from(u8::from(solved)), shown, generated: None }
        });
        let members = members.collect();
        let drawn = about.iter().map(|number| entry(*number)).collect();
        Group { task: format!("task {task}"), seed: 0, drawn, propensity: 0.5, members }
    }
}

/// A decision rule.
trait Design {
    fn observe(&mut self, group: &Group);
    /// Entries to admit now, and entries to retire now.
    fn decide(&mut self) -> (Vec<EntryId>, Vec<EntryId>);
}

/// The rule in use: e-values and e-BH.
#[derive(Default)]
struct EValues {
    credit: Credit,
    /// The evidence for and against each decided entry at the time of the decision.
    decided: BTreeMap<EntryId, (f64, f64)>,
}

impl Design for EValues {
    fn observe(&mut self, group: &Group) {
        self.credit.observe(group);
    }

    fn decide(&mut self) -> (Vec<EntryId>, Vec<EntryId>) {
        let estimates = self.credit.estimates();
        let now = |(entry, estimate): (&EntryId, &Estimate)| {
            let evidence = self.decided.get(entry).copied().unwrap_or((estimate.admit, estimate.harm));
            (entry.clone(), evidence)
        };
        let evidence: Vec<(EntryId, (f64, f64))> = estimates.iter().map(now).collect();
        let chosen = |value: fn(&(f64, f64)) -> f64| {
            let values: Vec<f64> = evidence.iter().map(|(_, evidence)| value(evidence)).collect();
            let chosen = evidence.iter().zip(e_bh(&values, Q)).filter(|(_, chosen)| *chosen);
            let open = chosen.map(|((entry, _), _)| entry).filter(|entry| !self.decided.contains_key(*entry));
            open.cloned().collect::<Vec<_>>()
        };
        let (admitted, retired) = (chosen(|(help, _)| *help), chosen(|(_, harm)| *harm));
        let decided = evidence.iter().filter(|(entry, _)| admitted.contains(entry) || retired.contains(entry));
        let decided: Vec<_> = decided.cloned().collect();
        self.decided.extend(decided);
        (admitted, retired)
    }
}

/// Baseline: counts successes minus failures of the episodes that were shown an entry.
#[derive(Default)]
struct Counters(BTreeMap<EntryId, i64>);

impl Counters {
    const ENOUGH: i64 = 10;
}

impl Design for Counters {
    fn observe(&mut self, group: &Group) {
        for member in &group.members {
            for (_, entry) in group.drawn.iter().enumerate().filter(|(bit, _)| (member.shown >> bit) & 1 == 1) {
                *self.0.entry(entry.clone()).or_default() += if member.reward > 0.5 { 1 } else { -1 };
            }
        }
    }

    fn decide(&mut self) -> (Vec<EntryId>, Vec<EntryId>) {
        let chosen = |sign: i64| {
            let chosen = self.0.iter().filter(|(_, count)| *count * sign >= Self::ENOUGH);
            chosen.map(|(entry, _)| entry.clone()).collect()
        };
        (chosen(1), chosen(-1))
    }
}

/// Baseline: the same estimates, with a fixed-sample 95 % interval at every look.
#[derive(Default)]
struct PeekedInterval(Credit);

impl Design for PeekedInterval {
    fn observe(&mut self, group: &Group) {
        self.0.observe(group);
    }

    fn decide(&mut self) -> (Vec<EntryId>, Vec<EntryId>) {
        let estimates = self.0.estimates();
        let chosen = |sign: f64| {
            let sure = |estimate: &Estimate| sign * estimate.effect > 1.96 * estimate.standard_error;
            let chosen = estimates.iter().filter(|(_, estimate)| estimate.decidable && sure(estimate));
            chosen.map(|(entry, _)| entry.clone()).collect()
        };
        (chosen(1.0), chosen(-1.0))
    }
}

/// Result of many runs; shares are of all entries with the effect.
#[derive(Debug, Default)]
struct Outcome {
    false_discovery: f64,
    large_admitted_early: f64,
    small_admitted: f64,
    neutral_admitted: f64,
    harmful_admitted: f64,
    harmful_retired: f64,
    good_retired: f64,
}

/// Simulates runs. The first decision about an entry is final.
fn simulate<D: Design + Default>(entries: usize, common: f64, relevant: f64) -> Outcome {
    /// An effect, the number of episodes before the decision, and whether the entry was admitted (or retired).
    type Decided = (f64, usize, bool);
    let mut decisions: Vec<Decided> = Vec::new();
    for run in 0..RUNS {
        let mut world = World::new(entries, common, relevant, run as u64);
        let mut design = D::default();
        let mut open: BTreeSet<EntryId> = (0..entries).map(entry).collect();
        for played in (BATCH..=EPISODES).step_by(BATCH) {
            (0..BATCH / MEMBERS).for_each(|_| design.observe(&world.group()));
            let (admitted, retired) = design.decide();
            for (entry, admitted) in
                admitted.iter().map(|entry| (entry, true)).chain(retired.iter().map(|entry| (entry, false)))
            {
                if open.remove(entry) {
                    let number: usize = entry.0.rsplit(' ').next().unwrap().parse().unwrap();
                    decisions.push((EFFECTS[number % EFFECTS.len()], played, admitted));
                }
            }
        }
    }
    let of_effect =
        |effect: f64| EFFECTS.iter().filter(|other| **other == effect).count() * entries / EFFECTS.len() * RUNS;
    let count = |which: &dyn Fn(&Decided) -> bool| decisions.iter().filter(|decided| which(decided)).count() as f64;
    let share = |effect: f64, within: usize, admitted: bool| {
        count(&|decided| decided.0 == effect && decided.1 <= within && decided.2 == admitted) / of_effect(effect) as f64
    };
    Outcome {
        false_discovery: count(&|decided| decided.2 && decided.0 <= 0.0) / count(&|decided| decided.2).max(1.0),
        large_admitted_early: share(0.2, 512, true),
        small_admitted: share(0.05, EPISODES, true),
        neutral_admitted: share(0.0, EPISODES, true),
        harmful_admitted: share(-0.1, EPISODES, true),
        harmful_retired: share(-0.1, EPISODES, false),
        good_retired: (share(0.2, EPISODES, false) + share(0.05, EPISODES, false)) / 2.0,
    }
}

impl Outcome {
    /// Requirements that this rule does not meet.
    fn unmet(&self) -> Vec<&'static str> {
        let requirements = [
            ("at most a tenth of what is admitted is worthless or harmful", self.false_discovery <= 0.1),
            ("+0.2 is admitted within 512 episodes, nine times in ten", self.large_admitted_early >= 0.9),
            ("-0.1 is retired within 2,048 episodes, nine times in ten", self.harmful_retired >= 0.9),
        ];
        requirements.into_iter().filter(|(_, met)| !met).map(|(requirement, _)| requirement).collect()
    }
}

/// Every entry concerns every task.
fn check(entries: usize, common: f64) {
    let ours = simulate::<EValues>(entries, common, 1.0);
    assert_eq!(ours.unmet(), [""; 0], "{ours:?}");
    assert_eq!((ours.harmful_admitted, ours.good_retired < 0.01), (0.0, true), "{ours:?}");
    // A small effect is found in some runs only; nothing guarantees it.
    assert!((0.2..0.9).contains(&ours.small_admitted), "{ours:?}");

    let counters = simulate::<Counters>(entries, common, 1.0);
    assert!(counters.unmet().len() > 1, "counting separates effects from chance? {counters:?}");

    let peeked = simulate::<PeekedInterval>(entries, common, 1.0);
    assert!(peeked.neutral_admitted >= 3.0 * ours.neutral_admitted, "{peeked:?} {ours:?}");
    assert!(peeked.false_discovery > 0.1, "{peeked:?}");
}

#[test]
fn five_entries_are_separated_when_members_share_no_noise() {
    check(5, 0.0);
}

#[test]
fn five_entries_are_separated_when_members_share_most_noise() {
    check(5, 0.8);
}

#[test]
fn twenty_entries_are_separated_when_members_share_no_noise() {
    check(20, 0.0);
}

#[test]
fn twenty_entries_are_separated_when_members_share_most_noise() {
    check(20, 0.8);
}

/// Six groups of an entry are few for a standard error, however many residual degrees of freedom the others contribute.
#[test]
fn entries_that_concern_few_tasks_are_decided_later_with_the_same_error_rates() {
    for common in [0.0, 0.8] {
        let ours = simulate::<EValues>(20, common, 0.1);
        assert!(ours.false_discovery <= 0.1 && ours.neutral_admitted <= 0.01 && ours.good_retired <= 0.01, "{ours:?}");
        assert!(ours.large_admitted_early < 0.5, "{ours:?}");
    }
}
