//! Evolutions in small simulated worlds: they reach the optimum and keep their guarantees.

use super::*;
use clawhost_core::{Digest, derive_seed};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SECTION: &str = "rules";

fn settings(budget: u64, seed: u64) -> Settings {
    Settings { budget, minibatch: MINIBATCH, pareto: 16, section: SECTION.into(), seed, policy: Digest::of(b"policy") }
}

fn items(count: usize) -> Vec<Item> {
    (0..count).map(|number| Item { task: format!("t{number}"), seed: 1 }).collect()
}

fn text(text: &str) -> Candidate {
    Candidate::default().with(SECTION, text.to_owned())
}

fn begin(settings: Settings, count: usize) -> Evolution {
    Evolution::new(settings, items(count), text(""), Cache::default()).unwrap()
}

/// A pseudo-random number derived from a text.
fn chance(of: &str) -> u64 {
    Digest::of(of.as_bytes()).prefix_u64()
}

/// More steps than any evolution here takes.
const MOST_STEPS: usize = 10_000;

/// Runs an evolution to its end and checks its guarantees on the way.
struct LearningLoop<S, R> {
    score: S,
    reflect: R,
    /// Whether items are reported in another order than requested.
    backwards: bool,
    /// Whether the state passes through a snapshot between any two reports.
    interrupted: bool,
    /// Final results, as the cache should contain them.
    answered: BTreeMap<String, serde_json::Value>,
    /// Number of requests per candidate and item.
    asked: BTreeMap<String, u32>,
    evaluations: u64,
    parents: Vec<Candidate>,
}

impl<S, R> LearningLoop<S, R>
where
    S: Fn(&Candidate, &Item, u32) -> Outcome,
    R: Fn(&Candidate, &[Item], &[f64]) -> Option<String>,
{
    fn new(score: S, reflect: R) -> Self {
        let (answered, asked, parents) = Default::default();
        Self { score, reflect, backwards: false, interrupted: false, answered, asked, evaluations: 0, parents }
    }

    fn name(evolution: &Evolution, candidate: &Candidate, item: &Item) -> String {
        format!("{} {} {} {}", evolution.settings().policy, candidate.digest(), item.seed, item.task)
    }

    fn through_a_snapshot(&self, evolution: &mut Evolution) {
        if self.interrupted {
            *evolution = Evolution::restore(&evolution.snapshot().unwrap()).unwrap();
        }
    }

    fn conduct(&mut self, evolution: &mut Evolution) -> EndReason {
        for _ in 0..MOST_STEPS {
            self.through_a_snapshot(evolution);
            match evolution.next() {
                Next::Evaluate { candidate, mut items } => {
                    assert!(!items.is_empty());
                    if self.backwards {
                        items.reverse();
                    }
                    items.iter().for_each(|item| self.play(evolution, &candidate, item));
                }
                Next::Reflect { parent, items, scores } => {
                    assert!(!items.is_empty() && items.len() == scores.len());
                    assert!(scores.iter().any(|score| *score < 1.0), "there is nothing to improve");
                    for (item, score) in items.iter().zip(&scores) {
                        let known = &self.answered[&Self::name(evolution, &parent, item)];
                        assert_eq!(known, &serde_json::json!({ "scored": score }));
                    }
                    let answer = (self.reflect)(&parent, &items, &scores);
                    self.parents.push(parent);
                    evolution.reflected(answer.map(|text| (SECTION.into(), text))).unwrap();
                }
                Next::Done { best, why } => {
                    assert_eq!(&best, evolution.best());
                    let cache = serde_json::to_value(evolution.cache()).unwrap();
                    assert_eq!(cache, serde_json::to_value(&self.answered).unwrap());
                    return why;
                }
            }
        }
        panic!("it does not terminate: {:?}", evolution.report());
    }

    fn play(&mut self, evolution: &mut Evolution, candidate: &Candidate, item: &Item) {
        self.through_a_snapshot(evolution);
        let name = Self::name(evolution, candidate, item);
        assert!(!self.answered.contains_key(&name), "{name} is known, and was asked again");
        let asked = self.asked.entry(name.clone()).or_default();
        *asked += 1;
        assert!(*asked <= RETRIES + 1, "{name} was asked {asked} times");
        let outcome = (self.score)(candidate, item, *asked);
        match outcome {
            Outcome::Scored(score) => self.answered.insert(name, serde_json::json!({ "scored": score })),
            Outcome::Failed { transient: false } => self.answered.insert(name, "failed".into()),
            Outcome::Failed { transient: true } => None,
        };
        self.evaluations += 1;
        evolution.evaluated(&candidate.digest(), item, outcome).unwrap();
        assert_eq!(evolution.report().evaluations, self.evaluations);
        assert!(self.evaluations <= evolution.settings().budget);
    }
}

// A landscape: tasks are of eight kinds, each with its own right action. Of several lines about a kind the first counts, so
// that a wrong line cannot be corrected by adding another.

const KINDS: usize = 8;
/// Eight tasks of each kind, so that every kind occurs in training and in the fixed set.
const TASKS: usize = 64;

fn kind(item: &Item) -> usize {
    item.task[1..].parse::<usize>().unwrap() % KINDS
}

fn reward(candidate: &Candidate, item: &Item) -> f64 {
    let head = format!("when kind is {}: ", kind(item));
    match candidate.section(SECTION).lines().find_map(|line| line.strip_prefix(&head)) {
        Some(action) if action == format!("action {}", kind(item)) => 1.0,
        Some(_) => -1.0,
        None => 0.0,
    }
}

fn score(candidate: &Candidate, item: &Item, _: u32) -> Outcome {
    Outcome::Scored(reward(candidate, item))
}

/// Adds a line about the first failed item. One in three such lines is wrong.
fn mend(parent: &Candidate, items: &[Item], scores: &[f64]) -> Option<String> {
    let (item, _) = items.iter().zip(scores).find(|(_, score)| **score < 1.0)?;
    let slip = chance(&format!("{parent:?} {items:?}")).is_multiple_of(3);
    let action = if slip { kind(item) + 1 } else { kind(item) };
    Some(format!("{}when kind is {}: action {action}\n", parent.section(SECTION), kind(item)))
}

/// The best mean of a control without minibatch test and without front: every child becomes the next parent and is evaluated
/// on the fixed set.
fn every_child_a_parent(budget: u64, seed: u64) -> f64 {
    let evolution = begin(settings(budget, seed), TASKS);
    let fixed = evolution.fixed_set();
    let training: Vec<Item> = items(TASKS).into_iter().filter(|item| !fixed.contains(item)).collect();
    let mean =
        |candidate: &Candidate| fixed.iter().map(|item| reward(candidate, item)).sum::<f64>() / fixed.len() as f64;
    let (mut parent, mut best, mut spent) = (text(""), 0.0_f64, fixed.len());
    for iteration in 0.. {
        spent += MINIBATCH + fixed.len();
        if spent as u64 > budget {
            break;
        }
        let start = derive_seed(seed, "control", iteration) as usize % (training.len() - MINIBATCH);
        let minibatch = &training[start..start + MINIBATCH];
        let scores: Vec<f64> = minibatch.iter().map(|item| reward(&parent, item)).collect();
        if let Some(text) = mend(&parent, minibatch, &scores) {
            parent = parent.with(SECTION, text);
            best = best.max(mean(&parent));
        }
    }
    best
}

/// Evaluations within which every seed below reaches the optimum.
const ENOUGH: u64 = 300;

#[test]
fn evolution_reaches_the_optimum_and_the_control_does_not() {
    const SEEDS: u64 = 20;
    let mut most = 0;
    for seed in 0..SEEDS {
        let mut evolution = begin(settings(ENOUGH, seed), TASKS);
        let why = LearningLoop::new(score, mend).conduct(&mut evolution);
        let report = evolution.report();
        assert_eq!((why, report.curve.last().unwrap().mean), (EndReason::Perfect, 1.0), "seed {seed}: {report:?}");
        most = most.max(report.evaluations);
    }
    let control = (0..SEEDS).filter(|seed| every_child_a_parent(ENOUGH, *seed) == 1.0).count() as u64;
    println!("evolution: {most} evaluations at most; the control reaches the optimum for {control} of {SEEDS} seeds");
    assert!(control * 4 < SEEDS, "{control}");
}

#[test]
fn only_strictly_better_children_are_evaluated_on_the_fixed_set() {
    // Every child is new and as good as its parent.
    let equal = |_: &Candidate, _: &Item, _: u32| Outcome::Scored(0.5);
    let other = |_: &Candidate, items: &[Item], _: &[f64]| Some(format!("{items:?}"));
    let mut evolution = begin(settings(200, 3), 40);
    let why = LearningLoop::new(equal, other).conduct(&mut evolution);
    let report = evolution.report();
    assert_eq!((why, report.candidates), (EndReason::Budget, 1));
    assert!(report.children > 20);
    assert_eq!(report.evaluations, 16 + 24 + 3 * report.children, "the seed on all items, each child on a minibatch");
}

#[test]
fn a_candidate_that_is_best_on_some_task_stays_a_parent() {
    // The seed candidate succeeds on even tasks. Its children succeed on odd ones and have a higher mean.
    let score = |candidate: &Candidate, item: &Item, _: u32| {
        let even = kind(item).is_multiple_of(2);
        Outcome::Scored(match (candidate.section(SECTION).is_empty(), even) {
            (true, true) => 0.5,
            (true, false) => -1.0,
            (false, true) => 0.4,
            (false, false) => 0.9,
        })
    };
    let grow =
        |parent: &Candidate, items: &[Item], _: &[f64]| Some(format!("{} {:?}", parent.section(SECTION), items[0]));
    let mut evolution = begin(settings(400, 1), 40);
    let mut conductor = LearningLoop::new(score, grow);
    conductor.conduct(&mut evolution);
    let admitted = conductor.parents.iter().position(|parent| *parent != text("")).unwrap();
    assert!(conductor.parents[admitted..].contains(&text("")), "the seed stays a parent: {:?}", conductor.parents);
    assert_ne!(evolution.best(), &text(""));
    let Report { curve, candidates, .. } = evolution.report();
    assert!(candidates > 2 && curve.len() == 2, "later candidates equal the second: {curve:?}");
}

#[test]
fn a_known_child_costs_nothing() {
    let mut evolution = begin(settings(400, 2), 40);
    LearningLoop::new(score, |_: &Candidate, _: &[Item], _: &[f64]| Some(String::new())).conduct(&mut evolution);
    assert_eq!(evolution.report().children, 0, "the child equals the seed");

    let mut evolution = begin(settings(400, 2), 40);
    let same = |_: &Candidate, _: &[Item], _: &[f64]| Some("always the same".to_owned());
    let why = LearningLoop::new(score, same).conduct(&mut evolution);
    let report = evolution.report();
    assert_eq!((why, report.children), (EndReason::Fruitless, 1));
    assert_eq!(report.evaluations, 16 + 24 + 3);
    assert!(report.cached > 0);
}

#[test]
fn a_reflector_without_proposals_ends_the_evolution() {
    let mut evolution = begin(settings(400, 2), 40);
    let why = LearningLoop::new(score, |_: &Candidate, _: &[Item], _: &[f64]| None).conduct(&mut evolution);
    let report = evolution.report();
    assert_eq!((why, report.children, report.evaluations), (EndReason::Fruitless, 0, 40));
    assert_eq!(report.reflections, 8 + 4 * 8, "one epoch with evaluations and four without");
}

#[test]
fn failing_items_are_left_out() {
    // Task 3 always fails transiently, task 4 permanently.
    let score = |candidate: &Candidate, item: &Item, asked: u32| match item.task.as_str() {
        "t3" => Outcome::Failed { transient: true },
        "t4" => Outcome::Failed { transient: false },
        _ => score(candidate, item, asked),
    };
    for seed in 0..5 {
        let mut evolution = begin(settings(600, seed), TASKS);
        let why = LearningLoop::new(score, mend).conduct(&mut evolution);
        let Report { failures, curve, .. } = evolution.report();
        assert_eq!((why, curve.last().unwrap().mean), (EndReason::Perfect, 1.0), "seed {seed}");
        let (transient, left_out) = (failures.transient, failures.left_out);
        assert!(failures.permanent > 0 && transient > 0, "{failures:?}");
        assert_eq!(left_out, failures.permanent + transient / u64::from(RETRIES + 1), "{failures:?}");
    }
}

#[test]
fn an_unscored_seed_candidate_ends_the_evolution() {
    let mut evolution = begin(settings(400, 2), 40);
    let fails = |_: &Candidate, _: &Item, _: u32| Outcome::Failed { transient: false };
    assert_eq!(LearningLoop::new(fails, mend).conduct(&mut evolution), EndReason::Unscored);
    let report = evolution.report();
    assert_eq!((report.evaluations, report.candidates, report.curve.len()), (16, 0, 0));
    assert_eq!(evolution.best(), &text(""));
}

#[test]
fn a_second_evolution_reuses_the_cache() {
    let mut first = begin(settings(ENOUGH, 1), TASKS);
    LearningLoop::new(score, mend).conduct(&mut first);
    let again = |policy: &[u8]| {
        let settings = Settings { policy: Digest::of(policy), ..settings(ENOUGH, 1) };
        Evolution::new(settings, items(TASKS), text(""), first.cache().clone()).unwrap()
    };
    let mut second = again(b"policy");
    while let Next::Reflect { parent, items, scores } = second.next() {
        second.reflected(mend(&parent, &items, &scores).map(|text| (SECTION.into(), text))).unwrap();
    }
    assert_eq!(second.report().evaluations, 0);
    assert_eq!((second.next(), second.report().cached > 0), (first.next(), true));
    let Next::Evaluate { items, .. } = again(b"another").next() else { panic!("it should evaluate everything") };
    assert_eq!(items.len(), 16);
}

#[test]
fn cached_children_count_as_progress() {
    let equal = |_: &Candidate, _: &Item, _: u32| Outcome::Scored(0.5);
    let other = |_: &Candidate, items: &[Item], _: &[f64]| Some(format!("{items:?}"));
    let mut first = begin(settings(200, 3), 40);
    LearningLoop::new(equal, other).conduct(&mut first);
    let mut second = Evolution::new(settings(200, 3), items(40), text(""), first.cache().clone()).unwrap();
    while let Next::Reflect { parent, items, scores } = second.next() {
        second.reflected(other(&parent, &items, &scores).map(|text| (SECTION.into(), text))).unwrap();
    }
    assert!(second.report().children > first.report().children, "it continues where the first ran out of budget");
}

#[test]
fn unrequested_results_are_errors_and_change_nothing() {
    let mut evolution = begin(settings(400, 1), 40);
    let Next::Evaluate { candidate, items } = evolution.next() else { panic!("the seed comes first") };
    let before = evolution.clone();
    let mut check = |what: &str, answer: &dyn Fn(&mut Evolution) -> Result<(), crate::LearnError>| {
        let error = answer(&mut evolution).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        assert_eq!(evolution, before);
    };
    let (digest, other) = (candidate.digest(), Item { task: "t0".into(), seed: 2 });
    check("was not requested", &|evolution| evolution.evaluated(&digest, &other, Outcome::Scored(1.0)));
    check("was not requested", &|evolution| {
        evolution.evaluated(&text("other").digest(), &items[0], Outcome::Scored(1.0))
    });
    for odd in [f64::NAN, f64::INFINITY, 1.5, -1.5] {
        check("between -1 and 1", &|evolution| evolution.evaluated(&digest, &items[0], Outcome::Scored(odd)));
    }
    check("no reflection was requested", &|evolution| evolution.reflected(None));
    for item in &items {
        evolution.evaluated(&digest, item, Outcome::Scored(0.0)).unwrap();
    }
    let twice = evolution.evaluated(&digest, &items[0], Outcome::Scored(0.0));
    assert!(twice.unwrap_err().to_string().contains("was not requested"));
    let Next::Evaluate { candidate, items } = evolution.next() else { panic!("then a minibatch") };
    for item in &items {
        evolution.evaluated(&candidate.digest(), item, Outcome::Scored(0.0)).unwrap();
    }
    let elsewhere = evolution.reflected(Some(("tone".into(), "kind".into())));
    assert!(elsewhere.unwrap_err().to_string().contains("section tone"));
}

#[test]
fn settings_that_allow_no_child_are_errors() {
    let check = |change: &dyn Fn(&mut Settings), items: Vec<Item>, what: &str| {
        let mut settings = settings(38, 1);
        change(&mut settings);
        let error = Evolution::new(settings, items, text(""), Cache::default()).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    begin(settings(38, 1), 40);
    check(&|settings| settings.budget = 37, items(40), "give 38 or more");
    check(&|settings| settings.minibatch = 0, items(40), "at least one");
    check(&|settings| settings.pareto = 0, items(40), "at least one");
    check(&|settings| settings.pareto = 40, items(40), "no training items");
    check(&|_| {}, [items(40), items(1)].concat(), "given twice");
}

#[test]
fn restoring_other_bytes_or_formats_fails() {
    let snapshot = begin(settings(400, 1), 40).snapshot().unwrap();
    let other = String::from_utf8(snapshot).unwrap().replace("\"format\":1", "\"format\":2");
    for (bytes, what) in [("{}", "not a snapshot"), (other.as_str(), "format 2")] {
        let error = Evolution::restore(bytes.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

/// A random world: scores, failures and proposals follow from a number.
fn odd_score(world: u64, failing: u64) -> impl Fn(&Candidate, &Item, u32) -> Outcome {
    move |candidate, item, asked| {
        let number = chance(&format!("{world} {candidate:?} {item:?} {asked}"));
        match number % 100 {
            share if share < failing => Outcome::Failed { transient: true },
            share if share < failing + failing / 4 => Outcome::Failed { transient: false },
            _ => Outcome::Scored((number >> 20) as f64 % 2001.0 / 1000.0 - 1.0),
        }
    }
}

fn odd_reflect(world: u64) -> impl Fn(&Candidate, &[Item], &[f64]) -> Option<String> {
    move |parent, items, scores| match chance(&format!("{world} {parent:?} {items:?} {scores:?}")) % 10 {
        0 => None,
        1 => Some("one of many".into()),
        number => Some(format!("{}{number}\n", parent.section(SECTION))),
    }
}

proptest! {
    // Every case is three evolutions, one of them through a snapshot between any two reports.
    #![proptest_config(ProptestConfig::with_cases(64))]

    // The driver checks in every step: the budget is kept, no cached item is requested, retries are limited, and the cache
    // contains exactly the final results.
    #[test]
    fn interruptions_and_the_order_of_reports_do_not_change_the_bytes(
        seed in any::<u64>(), tasks in 3_usize..16, pareto in 1_usize..8, minibatch in 1_usize..5, budget in 0_u64..150,
        failing in 0_u64..60,
    ) {
        prop_assume!(pareto < tasks);
        let settings = Settings { minibatch, pareto, ..settings(budget + 40, seed) };
        let conduct = |backwards: bool, interrupted: bool| {
            let mut evolution = begin(settings.clone(), tasks);
            let mut conductor = LearningLoop::new(odd_score(seed, failing), odd_reflect(seed));
            (conductor.backwards, conductor.interrupted) = (backwards, interrupted);
            conductor.conduct(&mut evolution);
            let asked: BTreeSet<(String, u32)> = conductor.asked.into_iter().collect();
            (evolution.snapshot().unwrap(), asked, evolution.report())
        };
        let plain = conduct(false, false);
        prop_assert_eq!(&conduct(false, true), &plain);
        prop_assert_eq!(&conduct(true, false), &plain);
    }
}
