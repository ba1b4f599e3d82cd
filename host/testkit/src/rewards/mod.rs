//! Rewards.

mod judge;
mod marks;

pub use judge::Judge;
pub use marks::Marks;
