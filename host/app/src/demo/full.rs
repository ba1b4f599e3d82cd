//! The proof of all layers together: a playbook, a router and the weights of a tiny model learn in one run, in a shop with hidden rules.
//! The report shows every set of layers on the same test tasks.

use super::full_trial::{FullTrial, Routed, Routing};
use super::halted::{DemoOutcome, Part, outcome};
use super::plugins::{DemoPlugins, plugin_folder};
use super::step::{DemoStep, FullStep};
use super::{DemoMachine, SEED};
use crate::{AppError, Event, EventSink, ModelSettings, SystemClock};
use clawhost_core::Clock as _;
use clawhost_learn::playbook::Playbook;
use clawhost_learning::{ArmReport, Evaluation, LearnReport, Outcome, WarmStartReport};
use clawhost_model::device::Chosen;
use clawhost_play::Cancel;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The demonstration of all layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullDemo {
    /// The seed of everything random: weights, houses, tasks and draws.
    pub seed: u64,
    /// The folder of the plugins. `None`: see [`plugin_folder`].
    pub plugins: Option<PathBuf>,
}

impl Default for FullDemo {
    fn default() -> Self {
        Self { seed: SEED, plugins: None }
    }
}

/// The results of the demonstration of all layers.
#[derive(Debug)]
pub struct FullProof {
    /// Practice in other houses, before anything is learned about this one.
    pub practice: WarmStartReport,
    /// The run in which all layers learn.
    pub full: LearnReport,
    /// The playbook that it learned.
    pub playbook: Playbook,
    /// The learned layers with their playbook (before) and with that of another house (after).
    pub foreign: Evaluation,
    /// Ways to route requests between the two models, with the learned playbook and weights.
    pub routing: Vec<Routed>,
    /// The device of the model.
    pub device: Chosen,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// How long it took.
    pub wall: Duration,
}

/// A reason why the proof of all layers failed.
#[derive(Debug, Clone, PartialEq)]
pub enum FullDoubt {
    /// The reward on test tasks did not rise measurably.
    NotImproved(Outcome),
    /// All layers together are not measurably better than this one alone.
    NotBetterThan {
        /// The layer.
        layer: String,
    },
    /// The playbook of another house is not measurably worse.
    ForeignAsGood,
    /// Random routing is worth as much as the router.
    RandomAsGood {
        /// Utility of random routing.
        random: f64,
        /// Utility of the router.
        router: f64,
    },
}

impl FullProof {
    /// The reasons why the proof failed. Empty: it succeeded.
    pub fn doubts(&self) -> Vec<FullDoubt> {
        let arms = self.full.evaluation.as_ref().map(|evaluation| evaluation.arms.as_slice()).unwrap_or_default();
        full_doubts(self.full.outcome, arms, self.foreign.outcome(), &self.routing)
    }
}

/// The reasons why the proof of all layers failed: the reward has to rise, all layers together have to be better than each layer alone,
/// another house's playbook has to be worse, and random routing, too.
pub fn full_doubts(outcome: Outcome, arms: &[ArmReport], foreign: Outcome, routing: &[Routed]) -> Vec<FullDoubt> {
    let mut doubts = Vec::new();
    if outcome != Outcome::Improved {
        doubts.push(FullDoubt::NotImproved(outcome));
    }
    for arm in arms {
        let [layer] = arm.layers.as_slice() else { continue };
        if arm.behind.is_none_or(|behind| behind.low <= 0.0) {
            doubts.push(FullDoubt::NotBetterThan { layer: layer.clone() });
        }
    }
    if foreign != Outcome::Worse {
        doubts.push(FullDoubt::ForeignAsGood);
    }
    let utility = |wanted: Routing| routing.iter().find(|one| one.routing == wanted).map(|one| one.utility);
    if let (Some(random), Some(router)) = (utility(Routing::Random), utility(Routing::Learned))
        && random >= router
    {
        doubts.push(FullDoubt::RandomAsGood { random, router });
    }
    doubts
}

/// Plays the demonstration of all layers. On the processor equal settings give equal proofs.
///
/// # Errors
/// Plugins are missing or refused, the device cannot be used, or episodes cannot be played.
pub async fn demonstrate_full(
    demo: &FullDemo,
    machine: &DemoMachine,
    models: &ModelSettings,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<DemoOutcome<FullProof>, AppError> {
    outcome(play(demo, machine, models, (cancel, events)).await, cancel)
}

async fn play(
    demo: &FullDemo,
    machine: &DemoMachine,
    models: &ModelSettings,
    (cancel, events): (&Cancel, &dyn EventSink),
) -> Part<FullProof> {
    let folder = plugin_folder(demo.plugins.as_deref(), "env_shop.wasm")?;
    let parameters = FullTrial::model(demo.seed).make()?.config.parameters();
    let (opened, device) = models.choose_device(parameters, events)?;
    let host = machine.host()?;
    let (began, started_ms) = (Instant::now(), SystemClock::default().now_ms());
    let plugins = DemoPlugins { host: &host, folder: &folder };
    let step = |step: FullStep| events.event(Event::Demo(DemoStep::Full(step)));
    let trial = FullTrial::new(demo.seed, &plugins, &opened, (cancel, events)).await?;
    step(FullStep::Practice);
    let practice = trial.practise().await?;
    step(FullStep::Learning);
    let (full, learned) = trial.learn().await?;
    step(FullStep::Foreign);
    let foreign = trial.foreign(&learned).await?;
    let mut routing = Vec::new();
    for way in Routing::ALL {
        step(FullStep::Routing(way));
        routing.push(trial.route(way, &learned).await?);
    }
    let playbook = learned.playbook;
    Ok(FullProof { practice, full, playbook, foreign, routing, device, started_ms, wall: began.elapsed() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learning::{Mean, Missing};

    fn arm(layers: &[&str], low: f64) -> ArmReport {
        let behind = Some(Mean { mean: 0.2, low, high: 0.4 });
        let layers = layers.iter().map(|layer| (*layer).to_owned()).collect();
        ArmReport { layers, mean: None, lift: None, behind, missing: Missing::default() }
    }

    fn routed(routing: Routing, utility: f64) -> Routed {
        Routed { routing, reward: 0.0, dear: 0.0, cost: 0.0, utility }
    }

    #[test]
    fn all_layers_must_be_better_than_each_alone_and_every_control_worse() {
        let check = |outcome, arms: &[ArmReport], foreign, routing: &[Routed], expect: &[FullDoubt]| {
            assert_eq!(full_doubts(outcome, arms, foreign, routing), expect);
        };
        let good = [arm(&["harness"], 0.1), arm(&["weights"], 0.1), arm(&["harness", "weights"], -0.1)];
        let routing = [routed(Routing::Learned, 0.8), routed(Routing::Random, 0.7), routed(Routing::Dear, 0.9)];
        check(Outcome::Improved, &good, Outcome::Worse, &routing, &[]);
        let not_improved = FullDoubt::NotImproved(Outcome::Worse);
        check(Outcome::Worse, &good, Outcome::Worse, &routing, &[not_improved]);
        let equal = [arm(&["harness"], 0.0)];
        let not_better = FullDoubt::NotBetterThan { layer: "harness".into() };
        check(Outcome::Improved, &equal, Outcome::Worse, &routing, &[not_better]);
        check(Outcome::Improved, &good, Outcome::NoSignificantChange, &routing, &[FullDoubt::ForeignAsGood]);
        let as_good = [routed(Routing::Learned, 0.7), routed(Routing::Random, 0.7)];
        let doubt = FullDoubt::RandomAsGood { random: 0.7, router: 0.7 };
        check(Outcome::Improved, &good, Outcome::Worse, &as_good, &[doubt]);
    }
}
