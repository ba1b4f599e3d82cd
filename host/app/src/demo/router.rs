//! The proof of the router layer: in simulated worlds with two models, a router learns from its outcomes which request needs the dear
//! one. It is compared with every policy that learns nothing, and with the best policy that the features allow.

use super::halted::{DemoOutcome, Part, outcome};
use super::step::{DemoStep, RouterTrial};
use super::{DemoMachine, SEED};
use crate::routers::{routers_folder, write_router};
use crate::{AppError, Event, EventSink, SystemClock};
use clawhost_core::Clock as _;
use clawhost_learn::router::{
    Earned, Logged, Noticing, Request, Router, Simulation, SimulationReport, WorldSettings, simulation,
};
use clawhost_play::{Cancel, StopReason};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Worlds of a demonstration, with consecutive seeds.
pub const WORLDS: u64 = 10;
/// Worlds in which a figure must be reached.
pub const ENOUGH_WORLDS: usize = 9;
/// Share of the utility between the best model and the best feature policy that the router must earn.
pub const RECOVERED: f64 = 0.9;
/// Largest slope of the logarithm of regret over that of decisions.
pub const SLOPE: f64 = 0.6;
/// Decisions of the trial whose regret is measured.
pub const REGRET_DECISIONS: u64 = 8_000;
/// Failures that are noticed, and successes that are taken for failures, where models escalate.
pub const NOTICING: Noticing = Noticing { failures: 0.7, false_alarms: 0.05 };
/// Name of the best policy that the features allow.
pub const BEST_POLICY: &str = "best feature policy";
/// Name of the learned policy.
pub const ROUTER_POLICY: &str = "router";
/// Name of the written router.
const NAME: &str = "demo";

/// The router demonstration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterDemo {
    /// The seed of the first world; the others follow it.
    pub seed: u64,
    /// The folder for the router and its log. `None`: the folder of routers in the data folder.
    pub into: Option<PathBuf>,
}

impl Default for RouterDemo {
    fn default() -> Self {
        Self { seed: SEED, into: None }
    }
}

/// How long a decision takes, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DecisionTime {
    /// Median.
    pub median: f64,
    /// 99 of 100 take at most this long.
    pub p99: f64,
    /// Number of decisions.
    pub decisions: usize,
}

/// The results of the router demonstration.
#[derive(Debug)]
pub struct RouterProof {
    /// Every model alone is an action.
    pub plain: Vec<SimulationReport>,
    /// The cheap model may escalate to the dear one.
    pub escalation: Vec<SimulationReport>,
    /// [`REGRET_DECISIONS`] decisions without floor and forgetting.
    pub regret: Vec<SimulationReport>,
    /// Time of a decision.
    pub decision: DecisionTime,
    /// The file of the router that learned in the first world with escalation.
    pub state: PathBuf,
    /// Its log.
    pub log: PathBuf,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// How long it took.
    pub wall: Duration,
}

/// A reason why the proof of the router failed.
#[derive(Debug, Clone, PartialEq)]
pub enum RouterDoubt {
    /// In too few worlds the router earned [`RECOVERED`].
    Recovered {
        /// The trial.
        trial: RouterTrial,
        /// Worlds in which it did.
        worlds: usize,
    },
    /// In too few worlds regret grew slowly enough.
    Slope {
        /// Worlds in which it did.
        worlds: usize,
    },
    /// A control earned as much as the router.
    ControlAsGood {
        /// The trial.
        trial: RouterTrial,
        /// Name of the control.
        control: String,
    },
}

impl RouterProof {
    /// The reasons why the proof failed. Empty: it succeeded.
    pub fn doubts(&self) -> Vec<RouterDoubt> {
        let trials = [(RouterTrial::Models, &self.plain), (RouterTrial::Escalation, &self.escalation)];
        let mut doubts = Vec::new();
        for (trial, reports) in trials {
            let worlds =
                reports.iter().filter(|report| report.recovered.is_some_and(|share| share >= RECOVERED)).count();
            if worlds < ENOUGH_WORLDS {
                doubts.push(RouterDoubt::Recovered { trial, worlds });
            }
            let means = mean_earned(reports);
            let own = means.iter().find(|earned| earned.policy == ROUTER_POLICY).map_or(0.0, |earned| earned.utility);
            let controls = means.iter().filter(|earned| earned.policy != ROUTER_POLICY && earned.policy != BEST_POLICY);
            let as_good = controls.filter(|control| control.utility >= own);
            doubts.extend(as_good.map(|control| {
                let control = control.policy.clone();
                RouterDoubt::ControlAsGood { trial, control }
            }));
        }
        let worlds = self.regret.iter().filter(|report| report.slope.is_some_and(|slope| slope <= SLOPE)).count();
        if worlds < ENOUGH_WORLDS {
            doubts.push(RouterDoubt::Slope { worlds });
        }
        doubts
    }
}

/// What every policy earned per request, as the mean over worlds.
pub fn mean_earned(reports: &[SimulationReport]) -> Vec<Earned> {
    let Some(first) = reports.first() else { return Vec::new() };
    let count = reports.len() as f64;
    let mean = |policy: &Earned| {
        let all = || reports.iter().filter_map(|report| report.earned(&policy.policy));
        Earned {
            policy: policy.policy.clone(),
            reward: all().map(|earned| earned.reward).sum::<f64>() / count,
            cost: all().map(|earned| earned.cost).sum::<f64>() / count,
            utility: all().map(|earned| earned.utility).sum::<f64>() / count,
        }
    };
    first.policies.iter().map(mean).collect()
}

/// Simulates all worlds of the router demonstration. Equal settings give equal proofs, except for times.
///
/// # Errors
/// The router cannot be written.
pub async fn demonstrate_router(
    demo: &RouterDemo,
    machine: &DemoMachine,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<DemoOutcome<RouterProof>, AppError> {
    outcome(play(demo, machine, (cancel, events)).await, cancel)
}

async fn play(demo: &RouterDemo, machine: &DemoMachine, watched: (&Cancel, &dyn EventSink)) -> Part<RouterProof> {
    let (began, started_ms) = (Instant::now(), SystemClock::default().now_ms());
    let plain = worlds(demo, RouterTrial::Models, watched).await?;
    let escalation = worlds(demo, RouterTrial::Escalation, watched).await?;
    let regret = worlds(demo, RouterTrial::Regret, watched).await?;
    let Some(Simulation { router, log, .. }) = escalation.first() else {
        return Err(AppError::Host("no world was simulated".to_owned()).into());
    };
    let folder = demo.into.clone().unwrap_or_else(|| routers_folder(&machine.folder));
    let (state, log_path) = write_router(&folder, NAME, router, log)?;
    let decision = decision_time(router, log)?;
    let reports = |all: Vec<Simulation>| all.into_iter().map(|one| one.report).collect();
    Ok(RouterProof {
        decision,
        plain: reports(plain),
        escalation: reports(escalation),
        regret: reports(regret),
        state,
        log: log_path,
        started_ms,
        wall: began.elapsed(),
    })
}

fn settings(trial: RouterTrial) -> WorldSettings {
    let usual = WorldSettings::default();
    match trial {
        RouterTrial::Models => usual,
        RouterTrial::Escalation => WorldSettings { escalation: Some(NOTICING), ..usual },
        // What the frozen policy earns is not asked here, so one fresh request is enough.
        RouterTrial::Regret => {
            WorldSettings { decisions: REGRET_DECISIONS, fresh: 1, floor: 0.0, forgetting: 1.0, ..usual }
        }
    }
}

/// Simulates every world of a trial.
async fn worlds(
    demo: &RouterDemo,
    trial: RouterTrial,
    (cancel, events): (&Cancel, &dyn EventSink),
) -> Part<Vec<Simulation>> {
    events.event(Event::Demo(DemoStep::Routing { trial }));
    let mut all = Vec::new();
    for (done, seed) in (1..=WORLDS).zip(demo.seed..) {
        if cancel.is_requested() {
            return Err(StopReason::Cancelled.into());
        }
        let simulated = tokio::task::spawn_blocking(move || simulation(&settings(trial), seed)).await;
        all.push(simulated.map_err(|error| AppError::Host(error.to_string()))??);
        events.event(Event::Progress { done, total: WORLDS });
    }
    Ok(all)
}

/// Measures decisions about the requests of a log.
fn decision_time(router: &Router, log: &[Logged]) -> Result<DecisionTime, AppError> {
    let mut times = Vec::with_capacity(log.len());
    for (seed, logged) in (0..).zip(log) {
        let features = &logged.decision.features;
        let request = Request { session: "measured", time: 0, features, words: &[], seed };
        let began = Instant::now();
        let decision = router.decide(&request)?;
        times.push(began.elapsed().as_nanos() as f64 / 1e3);
        // The compiler must not leave out what is measured.
        std::hint::black_box(decision);
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
    Ok(DecisionTime { median: at(0.5), p99: at(0.99), decisions: times.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(recovered: f64, slope: f64, control: f64) -> SimulationReport {
        let earned = |policy: &str, utility| Earned { policy: policy.into(), reward: 0.0, cost: 0.0, utility };
        let policies = vec![earned("tiers", control), earned(ROUTER_POLICY, 0.7), earned(BEST_POLICY, 0.8)];
        SimulationReport {
            seed: 1,
            policies,
            best_model: "dear".into(),
            recovered: Some(recovered),
            recovered_over_actions: None,
            regret: Vec::new(),
            slope: Some(slope),
        }
    }

    fn proof(plain: Vec<SimulationReport>) -> RouterProof {
        RouterProof {
            escalation: vec![report(1.0, 0.5, 0.6); 10],
            regret: plain.clone(),
            plain,
            decision: DecisionTime { median: 1.0, p99: 1.0, decisions: 1 },
            state: PathBuf::new(),
            log: PathBuf::new(),
            started_ms: 0,
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn a_proof_needs_nine_worlds_of_ten_and_a_router_above_every_control() {
        let check = |bad: usize, other: SimulationReport, expect: &[RouterDoubt]| {
            let mut reports = vec![report(0.95, 0.5, 0.6); 10 - bad];
            reports.extend(vec![other; bad]);
            assert_eq!(proof(reports).doubts(), expect);
        };
        check(1, report(0.5, 0.9, 0.6), &[]);
        let trial = RouterTrial::Models;
        check(2, report(0.5, 0.5, 0.6), &[RouterDoubt::Recovered { trial, worlds: 8 }]);
        check(2, report(0.95, 0.9, 0.6), &[RouterDoubt::Slope { worlds: 8 }]);
        check(1, report(0.95, 0.5, 2.0), &[RouterDoubt::ControlAsGood { trial, control: "tiers".into() }]);
    }
}
