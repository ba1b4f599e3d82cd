//! Models.

mod caller;
mod parrot;

pub use caller::Caller;
pub use parrot::Parrot;
