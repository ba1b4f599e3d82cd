//! What is asked of a local model, and what it answers, in tokens.

use super::sampler::{Drawn, Sampling};

/// One answer that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// At least one token.
    pub prompt: Vec<u32>,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Of the draws.
    pub seed: u64,
    /// Tells several answers to one prompt apart.
    pub choice: u64,
    /// Most tokens to write, at least 1.
    pub max_tokens: usize,
    /// Tokens after which the answer is over; the one that ended it is part of it.
    pub end: Vec<u32>,
}

/// Why an answer is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It ended itself, or was told to.
    Stop,
    /// It has as many tokens as it may, or fills the context.
    Length,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// In order, the one that ended it too.
    pub tokens: Vec<Drawn>,
    /// Why it is over.
    pub finish: Finish,
    /// The weights that gave it, from its first token to its last.
    pub version: u64,
    /// Tokens of the prompt that were known from an earlier answer.
    pub reused: usize,
}
