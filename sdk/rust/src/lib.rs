//! Write clawhost environments, rewards, reflectors and routers in Rust.
//!
//! An environment is a struct, two functions and one macro. This one is complete; `cargo build --release --target
//! wasm32-unknown-unknown` builds a component from it, and `clawhost run` plays it:
//!
//! ```
#![doc = include_str!("../../../examples/hello-guess/src/lib.rs")]
//! # fn main() {
//! let transcript = clawhost_sdk::testing::play::<Guess>(7, &["50", "7"]);
//! assert_eq!(transcript.observations, ["I picked a number below 100. Guess it.", "lower", "correct"]);
//! assert!(transcript.over);
//! # }
//! ```
//!
//! The author's crate needs neither WIT nor a generator: the bindings are part of this crate. Outside wasm the
//! export macros expand to nothing, so a plugin is an ordinary library that `cargo test` can play
//! ([`testing`]).
//!
//! * [`Environment`]: text in, text out. [`MessageEnvironment`]: messages, tool calls, tasks, snapshots.
//! * [`Review`]: the expected action, for reflectors to read. [`Message::demonstrating`]: a demonstrated answer, for
//!   local models to imitate.
//! * [`Reward`]: judges recorded episodes, in a separate instance. [`Reads`]: the parts of an episode that it reads.
//! * [`Reflector`]: proposes lessons from recorded episodes.
//! * [`Router`]: chooses a model for a session. Its interface is unstable: the plugin may have to be built again for a later host.
//! * [`log`], [`kv`], [`llm`]: services of the host; the last two only if the operator grants them.
//! * [`Random`]: numbers from a seed. There is no other source of randomness, so that every episode can be replayed.

#[doc(hidden)]
#[allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    unused_qualifications,
    unused_imports,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "generated code"
)]
pub mod bindings;

mod environment;
mod episode;
mod error;
#[doc(hidden)]
pub mod guest;
pub mod kv;
pub mod llm;
pub mod log;
mod random;
mod reads;
mod reflector;
pub mod review;
mod reward;
mod router;
pub mod testing;
mod types;

pub use environment::{Action, Environment, MessageEnvironment, Next, Opening, Params, Signals, Split, Status, Step};
pub use episode::{Ending, Episode, Group, Turn};
pub use error::{Error, Result};
pub use random::Random;
pub use reads::Reads;
pub use reflector::{Change, Entry, Evidence, Playbook, Proposal, Reflector};
pub use review::Review;
pub use reward::{Reward, Scope, Source, Verdict};
pub use router::{Candidate, Choice, Feature, Propensity, RouteRequest, Router};
pub use types::{
    Artefact, Attributes, Context, LARGEST_WORLD, Message, OptionSpec, Origin, Part, Role, Signal, Task, ToolCall,
    ToolSpec, Usage,
};
