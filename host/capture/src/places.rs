//! Where a request belongs, and how that is known.

use serde::{Deserialize, Serialize};

/// How a request relates to what was recorded before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// It opens a session.
    Opens,
    /// It continues its session behind the last answer.
    Continues,
    /// It goes another way from an earlier answer: a session of its own, which names its parent.
    Branches,
    /// It asks again what was asked before: a session of its own, which names its parent.
    Repeats,
    /// It is beside the conversation: a title, a summary. A session of its own, which names its parent.
    Side,
}

impl Relation {
    /// Whether it opens a session of its own.
    pub fn opens(self) -> bool {
        self != Self::Continues
    }

    /// Whether learners may use it: a repeated answer would count twice, and a side turn is not the agent's work.
    pub fn is_main(self) -> bool {
        !matches!(self, Self::Repeats | Self::Side)
    }
}

/// What tells where a request belongs, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The client names the session, in the address or in a header.
    Named,
    /// The client names the response that it continues.
    Response,
    /// An id that this gateway issued: of a tool call.
    IssuedId,
    /// The conversation begins like a recorded one, answers included.
    History,
    /// Its last answers are the last answers of a recorded conversation, whose beginning was cut or rewritten.
    Answers,
    /// The same opening was asked before, and had no answer.
    Opening,
    /// Nothing: it is new.
    Nothing,
}

/// The place of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed<T> {
    /// What the caller keeps of the session.
    pub label: T,
    /// Position of the exchange in the session, from 0.
    pub position: u32,
    /// Answered turns of the session before this one.
    pub turn: u32,
    /// How the request relates to its session or to the parent.
    pub relation: Relation,
    /// How that is known.
    pub evidence: Evidence,
    /// Sessions that fit equally well. More than one: credit for a whole conversation cannot be told apart.
    pub candidates: u32,
    /// The session from which a branch, a repetition, a side turn or an ambiguous opening comes, with its answered turns there.
    pub parent: Option<(T, u32)>,
    /// Indexes of the messages that were not recorded before.
    pub new_messages: Vec<usize>,
    /// Whether the model sees something other than the recorded conversation and the new messages: its history was cut or rewritten.
    pub context_changed: bool,
    /// Whether the system text is another than at the last exchange of the session.
    pub system_changed: bool,
    /// Whether the tools are others.
    pub tools_changed: bool,
}

impl<T> Placed<T> {
    /// Whether several sessions fit.
    pub fn is_ambiguous(&self) -> bool {
        self.candidates > 1
    }
}
