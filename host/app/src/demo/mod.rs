//! Demonstrations: proofs that learning works. They need no API key, no server and no GPU, and record no episode.
//!
//! [`demonstrate_harness`] learns a playbook from nothing in a shop with hidden rules, and runs the same loop with placebos; then with a few
//! hundred episodes.
//! [`demonstrate_weights`] trains a tiny model on demonstrations, then with rewards alone, and compares it with controls.
//! [`demonstrate_router`] lets a router learn in simulated worlds, beside the policies that learn nothing.
//! [`demonstrate_live`] lets a crowd of users teach a gateway through its API, beside gateways that should learn nothing.
//! [`demonstrate_full`] lets a playbook, a router and weights learn in one run, and measures every set of them.

mod full;
mod full_trial;
mod game;
mod game_trial;
mod halted;
mod harness;
mod harness_arms;
mod harness_curve;
mod live;
mod live_crowd;
mod plant;
mod plugins;
mod progress;
mod router;
mod shuffled;
mod step;
mod weights;

pub use full::{FullDemo, FullDoubt, FullProof, demonstrate_full, full_doubts};
pub use full_trial::{FULL_TEST_PAIRS, LESSON_BUDGET, Routed, Routing};
pub use game::Game;
pub use game_trial::Measured;
pub use halted::DemoOutcome;
pub use harness::{HarnessDemo, HarnessDoubt, HarnessProof, demonstrate_harness, harness_doubts, is_retired};
pub use harness_arms::{EPISODES, TEST_PAIRS};
pub use harness_curve::{BUDGETS, BudgetArm, BudgetPoint};
pub use live::{LIVE_ROUNDS, LIVE_SESSIONS, LiveDemo, LiveDoubt, LiveProof, Satisfaction, demonstrate_live};
pub use plant::{Plant, SCOUTED};
pub use plugins::{PLUGINS_VARIABLE, plugin_folder};
pub use progress::{Activity, DemoOutline, DemoProgress, DemoStatus};
pub use router::{
    BEST_POLICY, DecisionTime, ENOUGH_WORLDS, NOTICING, RECOVERED, REGRET_DECISIONS, ROUTER_POLICY, RouterDemo,
    RouterDoubt, RouterProof, SLOPE, WORLDS, demonstrate_router, mean_earned,
};
pub use step::{DemoStep, FullStep, HarnessArm, LiveArm, Measurement, RouterTrial, Teacher};
pub use weights::{Control, GameProof, WeightsDemo, WeightsDoubt, WeightsProof, demonstrate_weights, weights_doubts};

use crate::modules::ComponentHost;
use crate::{AppError, HostSettings};
use std::path::PathBuf;

/// Default seed of a demonstration. The documents show its results.
pub const SEED: u64 = 1;
/// Default number of iterations of the harness demonstration.
pub const ITERATIONS: u64 = 100;
/// Default number of concurrent episodes; never changes a result.
pub const CONCURRENCY: u16 = 16;

/// The folder inside a data folder for drawings of demonstrations.
const DRAWINGS: &str = "demo";

/// The data folder and the host settings of a demonstration.
#[derive(Debug, Clone)]
pub struct DemoMachine {
    /// The data folder. A demonstration stores only compiled plugins and drawings there.
    pub folder: PathBuf,
    /// The settings of the host.
    pub host: HostSettings,
}

impl DemoMachine {
    /// The default path of a drawing with this name. Creates its folder inside the data folder.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn drawing(&self, name: &str) -> Result<PathBuf, AppError> {
        let folder = self.folder.join(DRAWINGS);
        crate::workspace::make(&folder)?;
        Ok(folder.join(name))
    }

    fn host(&self) -> Result<ComponentHost, AppError> {
        crate::host::host(&self.host, &self.folder, Some(crate::workspace::compile_cache(&self.folder)?))
    }
}

/// The meter of models that cost nothing.
struct NoMeter;

impl clawhost_core::Meter for NoMeter {
    fn spent(&self) -> clawhost_core::Usage {
        clawhost_core::Usage::default()
    }
}
