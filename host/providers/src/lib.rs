//! Upstream model clients (floor 2): the only crate that talks to model endpoints.
//!
//! [`Endpoint`] asks any server of the OpenAI or Anthropic [`Dialect`]. [`Scripted`] answers from a list, for tests and for replaying
//! what somebody wrote down. [`Metered`] stands around any model and ends the run's spending at a budget.
//!
//! Invariants: a key is read from the environment or a file, lives in a [`Secret`], and is never printed, logged or put
//! into an error or an answer, also where an endpoint quotes it piece by piece. It is never sent over plain HTTP to another
//! machine. Every wait has an end.

mod dialect;
mod endpoint;
mod error;
mod metered;
mod passing;
mod scripted;
mod secret;

pub use dialect::Dialect;
pub use endpoint::{Endpoint, EndpointConfig};
pub use error::ProviderError;
pub use metered::{Budget, Ledger, Metered, Prices, Spending};
pub use scripted::Scripted;
pub use secret::Secret;
