//! Limits of what the texts of a model folder may cost. The folder may come from anybody.

/// Largest `tokenizer.json` in bytes. The largest known ones, with a quarter of a million tokens and their merges, have 34 MB.
pub(crate) const TOKENIZER_BYTES: u64 = 64 << 20;

/// Largest number of tokens of a vocabulary. The largest known ones have 262,144.
pub(crate) const VOCABULARY: usize = 1 << 20;

/// Largest number of added tokens: the library searches every text for all of them, and takes 9 s to load 300,000. Known models have up to
/// 6,414.
pub(crate) const ADDED_TOKENS: usize = 16_384;

/// Largest number of steps of a normaliser or a decoder. Known ones have up to 7.
pub(super) const STEPS: usize = 64;

/// How many times longer the steps together may make a text. Known ones make it three times as long: a space becomes `▁`.
pub(super) const GROWTH: u64 = 64;

/// Largest chat template in bytes. The longest known ones have 20 KB.
pub(super) const TEMPLATE_BYTES: u64 = 1 << 20;

/// Steps of a template's program for one conversation. The longest known templates take about 100 for a message.
pub(super) const TEMPLATE_FUEL: u64 = 5_000_000;

/// Largest rendered conversation in bytes: more than the context of any model.
pub(super) const RENDERED_BYTES: usize = 32 << 20;

/// Memory of the interpreting process in bytes. The largest known tokenizer takes 1.2 GB while it is read.
pub(super) const MEMORY_BYTES: u64 = 2 << 30;

/// Processor time in seconds for reading a tokenizer and a template.
pub(super) const LOAD_SECONDS: u64 = 30;

/// Processor time in seconds for one request: a conversation, or the tokens of one. A megabyte of text takes about a second.
pub(super) const REQUEST_SECONDS: u64 = 10;

/// How often a model's texts may reach a limit before they are not interpreted any more. Otherwise every conversation would take its time.
pub(super) const MOST_LIMITS: u32 = 3;

/// Largest answer of the interpreting process in bytes: the tokens of the largest conversation as text.
pub(super) const REPLY_BYTES: u64 = 256 << 20;
