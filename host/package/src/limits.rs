//! What values may be. The first block is the command line's, and a test holds it there.

use std::ops::RangeInclusive;

/// Episodes of a run, as `--episodes`.
pub const EPISODES: RangeInclusive<u64> = 1..=10_000_000;
/// Episodes per task and seed, as `--group`.
pub const GROUP: RangeInclusive<u32> = 1..=1024;
/// Episodes at once, as `--concurrency`.
pub const CONCURRENCY: RangeInclusive<u16> = 1..=4096;
/// The seed, as `--seed`: what JSON numbers hold exactly.
pub const SEED: RangeInclusive<u64> = 0..=(1 << 53) - 1;
/// Turns of an episode, as `--max-turns`.
pub const MAX_TURNS: RangeInclusive<u32> = 1..=10_000;
/// Share of the episodes that may fail, as `--failure-budget`.
pub const FAILURE_BUDGET: RangeInclusive<f64> = 0.0..=1.0;
/// Sampling temperature, as `--temperature`.
pub const TEMPERATURE: RangeInclusive<f32> = 0.0..=2.0;
/// Tokens per answer, as `--max-tokens`.
pub const MAX_TOKENS: RangeInclusive<u32> = 1..=u32::MAX;
/// Money, as `--max-cost` and `--price`.
pub const MONEY: RangeInclusive<f64> = 0.0..=1e9;

/// Tokens of a run, as `--max-tokens-total`; whole numbers of TOML end there.
pub const MAX_TOKENS_TOTAL: RangeInclusive<u64> = 0..=i64::MAX as u64;

/// Iterations of a learning run, and so of everything that happens every n-th of them.
pub const ITERATIONS: RangeInclusive<u64> = 1..=100_000;
/// Episodes of an iteration: all of them are in memory until the layers have learned from them.
pub const EPISODES_PER_ITERATION: RangeInclusive<u64> = 2..=100_000;
/// Episodes of a credit group. Half of them see a lesson and half do not, so the number is even; beyond 64 another group
/// tells more than another member.
pub const CREDIT_GROUP: RangeInclusive<u32> = 2..=64;
/// Tokens of entries in one prompt: the largest contexts of models hold about a million.
pub const TOKEN_BUDGET: RangeInclusive<u64> = 1..=1_000_000;
/// Entries on trial at once: each halves what is seen of the others, and a handful is told apart in a day's run.
pub const TRIAL_SLOTS: RangeInclusive<u32> = 1..=16;
/// Pairs of episodes in a session of the gate.
pub const PAIRS: RangeInclusive<u64> = 1..=1_000_000;
/// Chance of letting a candidate through that is no better. At 0 nothing would ever pass; above a half a coin does better.
pub const ALPHA: RangeInclusive<f64> = 1e-6..=0.5;
/// Evaluations of prompt sections; 0: none.
pub const EVOLVE_BUDGET: RangeInclusive<u64> = 0..=1_000_000;
/// Episodes by which a section is judged at first; as many as a credit group may have.
pub const MINIBATCH: RangeInclusive<u32> = 1..=64;
/// Pairs of episodes of the test split; 0: no evaluation.
pub const EVALUATION_PAIRS: RangeInclusive<u64> = 0..=10_000_000;
/// Bytes of a name, as of every name that plugins give.
pub const NAME_BYTES: usize = 128;
