//! Demonstrations: proofs that learning works, which run anywhere, without a key, a server or a GPU. Nothing is recorded.
//!
//! [`demonstrate_harness`] learns a playbook from nothing in a shop whose rules are hidden, and runs the same loop with placebos.
//! [`demonstrate_weights`] teaches a tiny model by demonstrations, then by rewards alone, beside controls.

mod game;
mod game_trial;
mod halted;
mod harness;
mod harness_arms;
mod plant;
mod plugins;
mod progress;
mod shuffled;
mod step;
mod weights;

pub use game::Game;
pub use game_trial::Measured;
pub use halted::DemoOutcome;
pub use harness::{HarnessDemo, HarnessDoubt, HarnessProof, demonstrate_harness, harness_doubts, is_retired};
pub use harness_arms::{EPISODES, TEST_PAIRS};
pub use plant::{Plant, SCOUTED};
pub use plugins::{PLUGINS_VARIABLE, plugin_folder};
pub use progress::{Activity, DemoOutline, DemoProgress, DemoStatus};
pub use step::{DemoStep, HarnessArm, Measurement, Teacher};
pub use weights::{Control, GameProof, WeightsDemo, WeightsDoubt, WeightsProof, demonstrate_weights, weights_doubts};

use crate::{AppError, HostSettings};
use clawhost_engine::Host;
use std::path::PathBuf;

/// The seed of a demonstration, unless chosen otherwise: the documents show what it gives.
pub const SEED: u64 = 1;
/// Iterations of the harness demonstration, unless chosen otherwise.
pub const ITERATIONS: u64 = 100;
/// Episodes at once, unless chosen otherwise; never changes a result.
pub const CONCURRENCY: u16 = 16;

/// The folder inside a data folder for drawings of demonstrations.
const DRAWINGS: &str = "demo";

/// Where a demonstration runs.
#[derive(Debug, Clone)]
pub struct DemoMachine {
    /// The data folder: compiled plugins are kept there, and drawings, and nothing else.
    pub folder: PathBuf,
    /// How plugins are hosted.
    pub host: HostSettings,
}

impl DemoMachine {
    /// Where a drawing of this name goes, unless another place is named: a folder of the data folder, which is made.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn drawing(&self, name: &str) -> Result<PathBuf, AppError> {
        let folder = self.folder.join(DRAWINGS);
        crate::workspace::make(&folder)?;
        Ok(folder.join(name))
    }

    fn host(&self) -> Result<Host, AppError> {
        crate::host::host(&self.host, Some(crate::workspace::compile_cache(&self.folder)?))
    }
}

/// Of models that cost nothing.
struct NoMeter;

impl clawhost_core::Meter for NoMeter {
    fn spent(&self) -> clawhost_core::Usage {
        clawhost_core::Usage::default()
    }
}
