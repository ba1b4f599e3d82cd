//! Generated from the WIT; `tests/bindings.rs` holds these files equal to it.

#[rustfmt::skip]
pub mod environment;
#[rustfmt::skip]
pub mod observer;
#[rustfmt::skip]
pub mod reflector;
#[rustfmt::skip]
pub mod reward;
#[rustfmt::skip]
pub mod router;
