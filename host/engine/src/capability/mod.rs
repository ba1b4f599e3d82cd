//! The host functions for guests, one file per interface.

pub(crate) mod clock;
pub(crate) mod kv;
pub(crate) mod llm;
pub(crate) mod log;
pub(crate) mod view;
pub(crate) mod wasi;

#[cfg(test)]
mod hostile_values;
