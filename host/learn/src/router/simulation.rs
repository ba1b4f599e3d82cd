//! A router in the seeded world: what it earns, beside the policies that it must be compared with.

use super::world::{Case, Truth, World, WorldSettings};
use super::{CostWeight, Fixed, Logged, Policy, Request, Router, RouterSettings, Tiers};
use crate::LearnError;
use crate::random::Random;
use clawhost_core::derive_seed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The regret is noted at this many decisions, and at each doubling.
const FIRST_NOTE: u64 = 500;

/// What a policy earns per request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Earned {
    /// Name of the policy.
    pub policy: String,
    /// Mean reward.
    pub reward: f64,
    /// Mean cost.
    pub cost: f64,
    /// Mean utility.
    pub utility: f64,
}

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimulationReport {
    /// The world's seed.
    pub seed: u64,
    /// The policies on fresh requests, by true expectation: `always …` for each action, `random`, `tiers`, `router without features`,
    /// `oracle by class`, `router` (greedy and frozen), `best feature policy`.
    pub policies: Vec<Earned>,
    /// Name of the best of the models alone, by utility.
    pub best_model: String,
    /// Share of the utility between the best model alone and the best feature policy that the frozen router earns; `None` if
    /// features could not add anything.
    pub recovered: Option<f64>,
    /// The same between the best *action* alone, which may be an escalation, and the best feature policy.
    pub recovered_over_actions: Option<f64>,
    /// Decisions, and the regret against the best feature policy up to there, exploration included.
    pub regret: Vec<(u64, f64)>,
    /// Slope of the logarithm of regret over that of decisions; `None` for fewer than two notes.
    pub slope: Option<f64>,
}

impl SimulationReport {
    /// The row of a policy.
    pub fn earned(&self, policy: &str) -> Option<&Earned> {
        self.policies.iter().find(|earned| earned.policy == policy)
    }
}

/// Sums over requests.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    reward: f64,
    cost: f64,
    utility: f64,
}

impl Sum {
    fn add(&mut self, truth: Truth, utility: f64, weight: f64) {
        self.reward += weight * truth.reward;
        self.cost += weight * truth.cost;
        self.utility += weight * utility;
    }
}

/// What a simulation leaves behind.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// What the policies earned.
    pub report: SimulationReport,
    /// The router that learned.
    pub router: Router,
    /// The decisions that it learned from, with their outcomes.
    pub log: Vec<Logged>,
}

/// Lets a router learn in the world of a seed, then freezes it and compares it with the controls.
///
/// # Errors
/// A world out of range.
pub fn simulate(settings: &WorldSettings, seed: u64) -> Result<SimulationReport, LearnError> {
    Ok(simulation(settings, seed)?.report)
}

/// As [`simulate`]; returns the router and its log as well.
///
/// # Errors
/// A world out of range.
pub fn simulation(settings: &WorldSettings, seed: u64) -> Result<Simulation, LearnError> {
    let world = World::new(settings, derive_seed(seed, "router-world", 0))?;
    let mut random = Random(derive_seed(seed, "router-requests", 0));
    let cheapest = settings.models.first().map(|model| model.name.clone());
    let dearest = settings.models.last().map(|model| model.name.clone());
    let incumbent = Fixed::Model(dearest.clone().unwrap_or_default());
    let weight = CostWeight::Fixed(settings.cost_weight);
    let own = RouterSettings {
        floor: settings.floor,
        forgetting: settings.forgetting,
        exploration: settings.exploration,
        ..RouterSettings::new(&world.table, incumbent, weight)
    };
    let mut router = Router::new(own.clone(), world.table.clone(), super::Features::names_of_requests())?;
    let mut blind = Router::new(own, world.table.clone(), Vec::new())?;
    let (regret, log) = learn(&world, &mut router, settings.decisions, &mut random)?;
    learn(&world, &mut blind, settings.decisions, &mut random)?;

    let tiers = Fixed::Tiers(Tiers { light: cheapest, fallback: dearest.into_iter().collect(), ..Tiers::default() });
    let actions = world.table.actions();
    let mut always = vec![Sum::default(); actions.len()];
    let [mut by_random, mut by_tiers, mut by_blind, mut by_router, mut best] = [Sum::default(); 5];
    let mut by_class: BTreeMap<usize, Vec<Sum>> = BTreeMap::new();
    for _ in 0..settings.fresh {
        let case = world.draw(&mut random)?;
        let truths = truths(&world, &router, &case);
        let class = by_class.entry(case.class).or_insert_with(|| vec![Sum::default(); actions.len()]);
        for ((sum, in_class), (truth, utility)) in always.iter_mut().zip(class).zip(&truths) {
            sum.add(*truth, *utility, 1.0);
            in_class.add(*truth, *utility, 1.0);
            by_random.add(*truth, *utility, (truths.len() as f64).recip());
        }
        if let Some((truth, utility)) = truths.iter().max_by(|one, other| one.1.total_cmp(&other.1)) {
            best.add(*truth, *utility, 1.0);
        }
        let nothing = super::Features::default();
        for (sum, propensities) in [
            (&mut by_router, router.propensities(&Policy::Greedy, &case.features)?),
            (&mut by_blind, blind.propensities(&Policy::Greedy, &nothing)?),
            (&mut by_tiers, router.propensities(&Policy::Fixed(tiers.clone()), &case.features)?),
        ] {
            propensities.iter().zip(&truths).for_each(|(share, (truth, utility))| sum.add(*truth, *utility, *share));
        }
    }
    let mut by_oracle = Sum::default();
    for sums in by_class.values() {
        if let Some(sum) = sums.iter().max_by(|one, other| one.utility.total_cmp(&other.utility)) {
            by_oracle.add(Truth { reward: sum.reward, cost: sum.cost }, sum.utility, 1.0);
        }
    }
    let earned = |policy: &str, sum: &Sum| Earned {
        policy: policy.to_owned(),
        reward: sum.reward / settings.fresh as f64,
        cost: sum.cost / settings.fresh as f64,
        utility: sum.utility / settings.fresh as f64,
    };
    let alone = actions.iter().zip(&always).filter(|(action, _)| action.then.is_none());
    let best_alone = alone.max_by(|one, other| one.1.utility.total_cmp(&other.1.utility));
    let best_action = always.iter().map(|sum| sum.utility).fold(f64::NEG_INFINITY, f64::max);
    let recovered = |from: f64| {
        let gap = best.utility - from;
        // Less than a hundredth of a percent of a reward per request is no gap that could be filled.
        (gap > 1e-4 * settings.fresh as f64).then(|| (by_router.utility - from) / gap)
    };
    let mut policies: Vec<Earned> =
        actions.iter().zip(&always).map(|(action, sum)| earned(&format!("always {action}"), sum)).collect();
    policies.extend([
        earned("random", &by_random),
        earned("tiers", &by_tiers),
        earned("router without features", &by_blind),
        earned("oracle by class", &by_oracle),
        earned("router", &by_router),
        earned("best feature policy", &best),
    ]);
    let report = SimulationReport {
        seed,
        policies,
        best_model: best_alone.map(|(action, _)| action.to_string()).unwrap_or_default(),
        recovered: best_alone.and_then(|(_, sum)| recovered(sum.utility)),
        recovered_over_actions: recovered(best_action),
        slope: slope(&regret),
        regret,
    };
    Ok(Simulation { report, router, log })
}

/// True reward, cost and utility of every action.
fn truths(world: &World, router: &Router, case: &Case) -> Vec<(Truth, f64)> {
    let one = |action| {
        let truth = world.truth(case, action);
        (truth, router.utility(truth.reward, truth.cost))
    };
    world.table.actions().iter().map(one).collect()
}

/// Lets a router decide and learn, outcome by outcome; returns the regret at each note, and the log.
fn learn(
    world: &World,
    router: &mut Router,
    decisions: u64,
    random: &mut Random,
) -> Result<(Vec<(u64, f64)>, Vec<Logged>), LearnError> {
    let nothing = super::Features::default();
    let mut regret = 0.0;
    let (mut notes, mut log) = (Vec::new(), Vec::new());
    let mut next = FIRST_NOTE;
    for number in 1..=decisions {
        let case = world.draw(random)?;
        let features = if router.names().is_empty() { &nothing } else { &case.features };
        let session = format!("simulated-{number}");
        let request = Request { session: &session, time: number, features, words: &[], seed: random.next() };
        let decision = router.decide(&request)?;
        let utilities = truths(world, router, &case);
        let best = utilities.iter().map(|(_, utility)| *utility).fold(f64::NEG_INFINITY, f64::max);
        regret += best - utilities.get(decision.chosen).map_or(best, |(_, utility)| *utility);
        if number == next {
            notes.push((number, regret));
            next *= 2;
        }
        let outcome = world.outcome(&case, decision.action()?, random);
        let logged = Logged { decision, outcome };
        router.learn(std::slice::from_ref(&logged))?;
        log.push(logged);
    }
    Ok((notes, log))
}

/// Least-squares slope of the logarithms.
fn slope(notes: &[(u64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> = notes.iter().map(|(at, regret)| ((*at as f64).ln(), regret.ln())).collect();
    let count = logs.len() as f64;
    let (x, y) = logs.iter().fold((0.0, 0.0), |(x, y), (a, b)| (x + a / count, y + b / count));
    let product: f64 = logs.iter().map(|(a, b)| (a - x) * (b - y)).sum();
    let square: f64 = logs.iter().map(|(a, _)| (a - x).powi(2)).sum();
    (logs.len() > 1).then(|| product / square)
}
