//! Generation with a local model: token requests, continuous batching, exact log-probs.

mod engine;
mod generator;
mod here;
mod model;
mod penalties;
mod prefixes;
mod request;
mod room;
mod sampler;
mod scores;
mod stop;
#[cfg(test)]
mod tests;

pub use engine::{Engine, MOST_AT_ONCE, Version, Watch};
pub use generator::Generator;
pub use model::{Memory, Model, NewTokens};
pub use penalties::Penalties;
pub use request::{Answer, Finish, Request};
pub use room::Room;
pub use sampler::{Drawn, Sampler, Sampling};
pub use scores::Scored;
pub use stop::StopTexts;
