//! The proof of the harness layer: learns a playbook from nothing in a shop with hidden rules. Control arms run the same loop
//! with placebos in place of its parts.

use super::halted::{DemoOutcome, Part, outcome};
use super::harness_arms::HarnessArms;
use super::harness_curve::{BudgetPoint, curve};
use super::plant::Plant;
use super::plugins::{DemoPlugins, plugin_folder};
use super::step::{DemoStep, HarnessArm};
use super::{CONCURRENCY, DemoMachine, ITERATIONS, SEED};
use crate::{AppError, Event, EventSink, SystemClock};
use clawhost_core::Clock as _;
use clawhost_learn::harness::EntryRow;
use clawhost_learn::playbook::Playbook;
use clawhost_learn::{Lesson, Status};
use clawhost_learning::{LearnReport, Mean, Outcome};
use clawhost_play::Cancel;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The harness demonstration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HarnessDemo {
    /// The seed of everything random: the shop, its tasks, and draws.
    pub seed: u64,
    /// Iterations of [`EPISODES`](super::EPISODES) episodes.
    pub iterations: u64,
    /// Episodes at once; never changes a result.
    pub concurrency: u16,
    /// The folder of the plugins. `None`: see [`plugin_folder`].
    pub plugins: Option<PathBuf>,
}

impl Default for HarnessDemo {
    fn default() -> Self {
        Self { seed: SEED, iterations: ITERATIONS, concurrency: CONCURRENCY, plugins: None }
    }
}

/// The results of the harness demonstration.
#[derive(Debug)]
pub struct HarnessProof {
    /// The folder of the plugins.
    pub plugins: PathBuf,
    /// The full arm: reflector, credit and gate.
    pub full: LearnReport,
    /// The playbook that the full arm learned.
    pub playbook: Playbook,
    /// The arm with a silent reflector.
    pub silent: LearnReport,
    /// The arm with shuffled proposals.
    pub shuffled: LearnReport,
    /// The arm that admits every proposal.
    pub everything: LearnReport,
    /// What small budgets teach, beside placebos.
    pub small: Vec<BudgetPoint>,
    /// Mean reward of a policy whose prompt has every rule.
    pub ceiling: Option<Mean>,
    /// The planted harmful lesson. `None`: this shop allows none.
    pub plant: Option<Plant>,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// How long it took.
    pub wall: Duration,
}

impl HarnessProof {
    /// The rows of all lessons of the full arm.
    pub fn entries(&self) -> &[EntryRow] {
        self.full.harness().map(|harness| harness.entries.as_slice()).unwrap_or_default()
    }

    /// The planted lesson.
    pub fn planted(&self) -> Option<&EntryRow> {
        self.entries().iter().find(|row| row.created_by == "planted")
    }

    /// Whether the planted lesson was retired as harmful.
    pub fn is_plant_retired(&self) -> bool {
        self.planted().is_some_and(is_retired)
    }

    /// The rows of the lessons in the learned playbook, in its order.
    pub fn kept(&self) -> Vec<&EntryRow> {
        let rows = self.entries();
        self.playbook.entries.iter().filter_map(|entry| rows.iter().find(|row| row.id == entry.id)).collect()
    }

    /// The reasons why the proof failed. Empty: it succeeded.
    pub fn doubts(&self) -> Vec<HarnessDoubt> {
        harness_doubts(self.full.outcome, self.planted())
    }
}

/// A reason why the proof of the harness failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HarnessDoubt {
    /// The reward on test tasks did not rise measurably.
    NotImproved(Outcome),
    /// No lesson was planted, because in this shop no lesson looks helpful and is harmful.
    NothingPlanted,
    /// The planted lesson was not retired as harmful with an interval below 0.
    NotRetired {
        /// Its status.
        status: String,
        /// Number of groups in which it was measured.
        groups: u64,
    },
}

/// Whether a planted lesson was retired as harmful, with an interval below 0.
pub fn is_retired(planted: &EntryRow) -> bool {
    planted.status == Status::Harmful.name() && planted.interval.is_some_and(|(_, high)| high < 0.0)
}

/// The reasons why the proof failed: the reward has to rise, and the planted lesson has to be retired.
pub fn harness_doubts(outcome: Outcome, planted: Option<&EntryRow>) -> Vec<HarnessDoubt> {
    let reward = (outcome != Outcome::Improved).then_some(HarnessDoubt::NotImproved(outcome));
    let lesson = match planted {
        None => Some(HarnessDoubt::NothingPlanted),
        Some(row) if is_retired(row) => None,
        Some(row) => Some(HarnessDoubt::NotRetired { status: row.status.clone(), groups: row.groups }),
    };
    reward.into_iter().chain(lesson).collect()
}

/// Plays all arms of the harness demonstration, one after the other. Equal settings give equal proofs.
///
/// # Errors
/// Plugins are missing or refused, or episodes cannot be played.
pub async fn demonstrate_harness(
    demo: &HarnessDemo,
    machine: &DemoMachine,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<DemoOutcome<HarnessProof>, AppError> {
    outcome(play(demo, machine, cancel, events).await, cancel)
}

async fn play(
    demo: &HarnessDemo,
    machine: &DemoMachine,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Part<HarnessProof> {
    let (began, started_ms) = (Instant::now(), SystemClock::default().now_ms());
    let folder = plugin_folder(demo.plugins.as_deref(), "env_shop.wasm")?;
    let host = machine.host()?;
    let arms = HarnessArms::new(demo, &DemoPlugins { host: &host, folder: &folder }, cancel, events).await?;
    let plant = arms.scout().await?;
    let planted: Vec<Lesson> = plant.iter().map(|plant| plant.lesson.clone()).collect();
    let learn = async |number: usize, arm: HarnessArm| {
        events.event(Event::Demo(DemoStep::Arm { number, of: HarnessArm::ALL.len(), arm }));
        arms.learn(arm, &planted).await
    };
    let (full, playbook) = learn(1, HarnessArm::Full).await?;
    let (silent, _) = learn(2, HarnessArm::SilentReflector).await?;
    let (shuffled, _) = learn(3, HarnessArm::ShuffledProposals).await?;
    let (everything, _) = learn(4, HarnessArm::EverythingAdmitted).await?;
    let small = curve(&arms, events).await?;
    let ceiling = arms.ceiling().await?;
    Ok(HarnessProof {
        plugins: folder,
        full,
        playbook,
        silent,
        shuffled,
        everything,
        small,
        ceiling,
        plant,
        started_ms,
        wall: began.elapsed(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learn::Entry;

    fn planted(status: &Status, high: f64) -> EntryRow {
        let entry = Entry::new(Lesson::read("when a is b: c"), "planted");
        let (status, interval) = (status.name().to_owned(), Some((-1.0, high)));
        EntryRow { status, groups: 9, interval, ..EntryRow::unmeasured(&entry) }
    }

    #[test]
    fn a_proof_needs_a_higher_reward_and_a_retired_planted_lesson() {
        let check = |outcome, row: Option<EntryRow>, expect: &[HarnessDoubt]| {
            assert_eq!(harness_doubts(outcome, row.as_ref()), expect);
        };
        check(Outcome::Improved, Some(planted(&Status::Harmful, -0.1)), &[]);
        let not_retired = |status: &Status| HarnessDoubt::NotRetired { status: status.name().to_owned(), groups: 9 };
        check(Outcome::Improved, Some(planted(&Status::Harmful, 0.1)), &[not_retired(&Status::Harmful)]);
        check(Outcome::Improved, Some(planted(&Status::Expired, -0.1)), &[not_retired(&Status::Expired)]);
        check(Outcome::Worse, None, &[HarnessDoubt::NotImproved(Outcome::Worse), HarnessDoubt::NothingPlanted]);
    }
}
