//! Clients of model endpoints (floor 2): the only crate that uses the network.
//!
//! [`Endpoint`] calls any server of the OpenAI or Anthropic [`Dialect`]. [`Scripted`] answers from a list, for tests and for
//! replaying recorded answers. [`Metered`] wraps a model and enforces the run's budget, [`Guarded`] keeps keys out of what it answers. [`TinkerService`]
//! trains and samples with a service of the Tinker protocol.
//!
//! Invariants: a key is read from the environment or a file, is stored in a [`Secret`](clawhost_core::Secret), and never appears in output, logs,
//! errors or answers, even if an endpoint quotes it, encoded and in fragments. It is never sent over plain HTTP to another machine. Every
//! wait is bounded.

mod dialect;
mod embeddings;
mod endpoint;
mod error;
mod gateway_client;
mod guarded;
mod health;
mod key_file;
mod metered;
mod otlp;
mod passing;
mod pinned;
mod scripted;
mod teacher;
mod tinker;
mod upstream;

pub use dialect::Dialect;
pub use embeddings::UpstreamEmbeddings;
pub use endpoint::{Endpoint, EndpointConfig};
pub use error::ProviderError;
pub use gateway_client::{GatewayClient, GatewayStream};
pub use guarded::Guarded;
pub use health::is_ready;
pub use key_file::key_from_file;
pub use metered::{Account, Budget, Ledger, Metered, MeteredTeacher, Prices, Spending};
pub use otlp::TraceCollector;
pub use scripted::Scripted;
pub use teacher::EndpointTeacher;
pub use tinker::{
    AdamParams, SampleRequest, Sampled, SampledToken, TINKER_HOME, TINKER_KEY, TinkerConfig, TinkerSampler,
    TinkerService, TinkerTraining, TinkerWeights, tinker_origin,
};
pub use upstream::{Upstream, UpstreamAnswer, UpstreamConfig, UpstreamError};
