//! The learning loop with fakes: properties that hold for every environment, reward, reflector, layer and store.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot continue has failed"
)]

mod approach;
mod batches;
mod budget;
mod evolve;
mod gate;
mod layers;
mod lessons;
mod lineage;
mod observed;
mod pool;
mod relations;
mod replay;
mod reports;
mod resume;
mod router;
mod splits;
mod third_layer;
mod training;
mod turns;
mod weights;

/// The traffic-light environment and its lessons.
mod world {
    pub(crate) use clawhost_testkit::lights::{COLOURS, FALSE, GREEN, NEUTRAL, RED};
    pub(crate) use clawhost_testkit::{
        Dial, Dialled, Lights, Marks, Proposer, Shelf, Shown, World, WorldPlan, is_right, lesson, right, small,
    };
}
