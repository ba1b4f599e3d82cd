//! Traffic of agents as episodes (floor 1, pure).
//!
//! An agent sends its whole conversation with every request. [`Marks`] are keyed digests of it, which do not depend on ids, system
//! text or the way a client writes a message. [`Sessions`] finds by them the conversation that a request continues. An [`Exchange`] is
//! what is recorded of one request and its answer, behind a [`Redaction`]; [`assemble`] makes one episode of the exchanges of a session.
//!
//! Invariants: no I/O, no clock, no random source. A request continues at most one session, and an answer is in at most one episode.
//! What cannot be told is marked, never guessed.

mod assemble;
mod canonical;
mod error;
mod exchange;
mod guided;
mod marks;
mod places;
mod redaction;
mod sessions;
#[cfg(test)]
mod testing;

pub use assemble::{EPISODE_MESSAGES, OpenSession, assemble, parent_of, summary};
pub use error::CaptureError;
pub use exchange::{Answer, ClientSession, EXCHANGE_FORMAT, Exchange, ExchangeParent, Routed, TurnMarks};
pub use guided::{Guided, GuidedBy};
pub use marks::{AnswerMark, CaptureKey, Mark, Marks};
pub use places::{Evidence, Placed, Relation};
pub use redaction::{PATTERN_BYTES, PATTERNS, Redacted, Redaction, RedactionSettings};
pub use sessions::{Asked, Claim, Ended, Restored, Sessions, SessionsLimits};
