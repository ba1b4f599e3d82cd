//! Environments.

mod counting;
mod handy;
pub mod lights;

pub use counting::Counting;
pub use handy::{Handy, SeenCalls};
pub use lights::{Fails, Lights, is_right, right};
