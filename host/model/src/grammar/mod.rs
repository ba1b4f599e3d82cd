//! Answers within a grammar: which tokens may follow, at each place of an answer.
//!
//! A grammar is a text in the dialect of Lark that `llguidance` reads. JSON schemas, regular expressions and the tool calls of a model's
//! family are written as one ([`text`]). It is compiled once for a vocabulary ([`Grammars`]); each answer has a state ([`GrammarState`]), which gives the
//! mask of the next token. The record of an answer has the grammar, so that training computes each mask again.

mod compiled;
mod limits;
pub(crate) mod text;
mod vocabulary;

pub use compiled::{Grammar, GrammarState, Grammars};
pub use text::AnswerShape;
