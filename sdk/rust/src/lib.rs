//! Write clawhost environments, rewards and reflectors in Rust.
//!
//! An environment is a struct, two functions and one macro. This one is whole; `cargo build --release
//! --target wasm32-unknown-unknown` makes a component of it, and `clawhost run` plays it:
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
//! There is no WIT and no generator in the author's crate: the bindings ship here. Outside wasm the export
//! macros expand to nothing, so a plugin is an ordinary library that `cargo test` can play
//! ([`testing`]).
//!
//! * [`Environment`]: text in, text out. [`MessageEnvironment`]: messages, tool calls, tasks of your own, snapshots.
//! * [`Review`]: what an environment expected, for reflectors to read. [`Message::demonstrating`]: what a demonstrator would
//!   answer, for local models to imitate.
//! * [`Reward`]: judges recorded episodes, in an instance of its own. [`Reads`]: what it reads of them.
//! * [`Reflector`]: draws lessons from recorded episodes.
//! * [`log`], [`kv`], [`llm`]: what the host offers; the last two only where the operator grants them.
//! * [`Random`]: numbers from a seed. There is no other source of chance, so that every episode can be replayed.

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
pub use types::{
    Artefact, Attributes, Context, Message, OptionSpec, Origin, Part, Role, Signal, Task, ToolCall, ToolSpec, Usage,
};
