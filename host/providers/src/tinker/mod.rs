//! A client of services that speak the Tinker protocol (Thinking Machines' own, `SkyRL`'s server): they train adapters and sample, by tokens.
//!
//! [`TinkerService`] is the connection with its session, [`TinkerTraining`] a model in training, [`TinkerSampler`] weights that answer. Every request gets a
//! promise, and its result is fetched: status 408 says "ask again". What changes weights or gradients is sent once: if it is not known whether it
//! arrived, the caller goes back to a checkpoint. Everything that comes back is checked: numbers are finite, lists as long as what was sent, token ids
//! inside of the vocabulary.

mod address;
mod body;
mod sampling;
mod service;
mod session;
mod training;

pub use address::{TINKER_HOME, TINKER_KEY, tinker_origin};
pub use sampling::{SampleRequest, Sampled, SampledToken, TinkerSampler, TinkerWeights};
pub use service::{TinkerConfig, TinkerService};
pub use training::{AdamParams, TinkerTraining};
