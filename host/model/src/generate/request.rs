//! Requests to a local model and its answers, in tokens.

use super::sampler::{Drawn, Sampling};
use super::scores::Scored;
use crate::Grammar;
use clawhost_core::{Digest, Partition};
use std::sync::Arc;

/// A request for one answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The prompt: at least one token.
    pub prompt: Vec<u32>,
    /// How tokens are drawn. If tokens are scored, only the temperature counts, and is above 0.
    pub sampling: Sampling,
    /// The seed of the draws.
    pub seed: u64,
    /// Distinguishes several answers to one prompt.
    pub choice: u64,
    /// Largest number of tokens to generate. 0: none; the tokens of the prompt are scored instead.
    pub max_tokens: usize,
    /// Number of most likely tokens that are reported beside each token.
    pub alternatives: usize,
    /// The grammar of the answer.
    pub grammar: Option<Arc<Grammar>>,
    /// Tokens that end the answer. The ending token is part of it.
    pub end: Vec<u32>,
    /// With whose requests it shares keys and values. It changes no answer.
    pub partition: Partition,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It drew an end token, or the watcher ended it.
    Stop,
    /// It has the largest number of tokens, or fills the context.
    Length,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The tokens in order, including the one that ended it.
    pub tokens: Vec<Drawn>,
    /// Why it ended.
    pub finish: Finish,
    /// The version of the weights that generated all of it.
    pub version: u64,
    /// Identifies these weights.
    pub weights: Digest,
    /// Scores of the prompt's tokens from the second one on, if no token was requested.
    pub scores: Vec<Scored>,
    /// Prompt tokens that came from a kept cache.
    pub reused: usize,
}
