//! What a run file says.

use crate::{Grant, Learn, Price};

/// A run as it is written down. Paths in it are relative to the file.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFile {
    /// The environment: `PLUGIN.wasm?name=value&name=value`.
    pub plugin: String,
    /// Rewards, as `--reward` names them: `R.wasm?name=value#weight=W&source=S`. Default: none.
    pub rewards: Vec<String>,
    /// Who acts, as `--policy` names it. Default: `follower`.
    pub policy: String,
    /// The split to play; never `test` when learning. Default: the environment's `train`, or its first.
    pub tasks: Option<String>,
    /// Where all chance comes from, below 2^53. Default: 0.
    pub seed: u64,
    /// An episode is cut short after so many turns, 1 to 10 000. Default: 64.
    pub max_turns: u32,
    /// Episodes at once, 1 to 4096; never changes a result. Default: 16.
    pub concurrency: u16,
    /// Share of the episodes that may fail before the run stops, 0 to 1. Default: 0.1.
    pub failure_budget: f64,
    /// What the model is told first. Default: the environment's own hint.
    pub system_prompt: Option<SystemPrompt>,
    /// Sampling temperature, 0 to 2. Default: the model's own.
    pub temperature: Option<f32>,
    /// Most tokens per answer, at least 1. Default: 1024.
    pub max_tokens: u32,
    /// What plugins may do beyond computing and logging; no alias stands twice. Default: nothing.
    pub grants: Vec<Grant>,
    /// Models are no longer asked after so many tokens, read and written. Default: no limit.
    pub max_tokens_total: Option<u64>,
    /// Models are no longer asked after so much money; only together with a price. Default: no limit.
    pub max_cost: Option<f64>,
    /// What tokens cost. Default: unknown.
    pub price: Option<Price>,
    /// What is done: play, or learn.
    pub work: Work,
}

impl RunFile {
    /// A run that plays this environment, with every other value as the command line has it.
    pub fn new(plugin: impl Into<String>) -> Self {
        Self {
            plugin: plugin.into(),
            rewards: Vec::new(),
            policy: "follower".to_owned(),
            tasks: None,
            seed: 0,
            max_turns: 64,
            concurrency: 16,
            failure_budget: 0.1,
            system_prompt: None,
            temperature: None,
            max_tokens: 1024,
            grants: Vec::new(),
            max_tokens_total: None,
            max_cost: None,
            price: None,
            work: Work::Play(Play::default()),
        }
    }
}

/// What the model is told first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemPrompt {
    /// These words.
    Text(String),
    /// What stands in this file.
    File(String),
}

/// What is done.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Episodes are played, scored and recorded: a file without `[learn]`.
    Play(Play),
    /// And learned from: a file with `[learn]`.
    Learn(Learn),
}

/// How much is played when nothing is learned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Play {
    /// Episodes, 1 to 10 000 000. Default: 20.
    pub episodes: u64,
    /// Episodes per task and seed, judged together, 1 to 1024. Default: 1.
    pub group: u32,
}

impl Default for Play {
    fn default() -> Self {
        Self { episodes: 20, group: 1 }
    }
}
