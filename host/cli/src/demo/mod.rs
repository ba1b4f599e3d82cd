//! `clawhost demo`: proofs that run anywhere, without a key, a server or a GPU.

mod commands;
mod harness;
mod plant;
mod proof;
mod stage;
mod summary;
mod weights;

use crate::args::{Common, Demo};
use crate::exit::Exit;

/// The seed that ships: whoever runs the demo without arguments sees what the documents show.
pub(crate) const SEED: u64 = 1;
/// Iterations of 64 episodes.
pub(crate) const ITERATIONS: u64 = 100;

pub(crate) fn main(common: &Common, demo: &Demo) -> anyhow::Result<Exit> {
    match demo {
        Demo::Harness(options) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let exit = runtime.block_on(harness::run(common, options));
            runtime.shutdown_background();
            exit
        }
        Demo::Weights(options) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let exit = runtime.block_on(weights::run(common, options));
            runtime.shutdown_background();
            exit
        }
    }
}
