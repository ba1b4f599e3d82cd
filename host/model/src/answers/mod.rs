//! How the models of a family write answers: reasoning before the answer, and tool calls.
//!
//! A family is known by the marks in its chat template. An answer is read whole ([`AnswerFormat::read`]), and as it grows ([`stream`]).

mod arguments;
mod format;
mod hermes;
mod llama;
mod mistral;
pub(crate) mod stream;

pub(crate) use arguments::RequestFields;
pub(crate) use format::{AnswerFormat, CallFormat, ReadAnswer, reasoning_of, thought};
