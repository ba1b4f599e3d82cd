//! Stores in memory.

mod memory;
mod shelf;

pub use memory::Memory;
pub use shelf::Shelf;
