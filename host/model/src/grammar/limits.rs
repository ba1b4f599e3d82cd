//! Limits of what a grammar may cost. It may come from any client.

use llguidance::api::ParserLimits;

/// Largest grammar in bytes. The JSON schemas of the largest known sets of tools have some 100 KB.
pub(super) const GRAMMAR_BYTES: usize = 512 << 10;

/// Grammars that are kept compiled: those of the clients and the tasks of one model.
pub(super) const COMPILED: usize = 64;

/// Longest token in bytes that a grammar may use: the depth of the tree of tokens that the library allows. Known vocabularies have tokens of up to
/// 1,024 spaces.
pub(super) const TOKEN_BYTES: usize = 1_000;

/// Bytes of all tokens together: the size of the tree that the library allows. Known vocabularies have up to 2 MB.
pub(super) const VOCABULARY_BYTES: usize = 3 << 20;

/// What compiling a grammar and computing a mask may cost. Steps are the library's own; its documentation gives the speeds.
pub(super) fn parser() -> ParserLimits {
    ParserLimits {
        // About 20 ms.
        initial_lexer_fuel: 1_000_000,
        // About 7 ms: all requests of an engine wait for the masks of all.
        step_lexer_fuel: 100_000,
        // About 1 ms.
        step_max_items: 20_000,
        // About 2 KB each: 20 MB for each answer at most.
        max_lexer_states: 10_000,
        max_grammar_size: 200_000,
        // They would hold the answer and the grammar.
        verbose_errors: false,
        ..ParserLimits::default()
    }
}
