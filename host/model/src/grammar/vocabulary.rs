//! A vocabulary as the library of grammars reads it.

use super::limits::{self, TOKEN_BYTES, VOCABULARY_BYTES};
use crate::tokens::{TokenBytes, Tokenizer};
use llguidance::ParserFactory;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use std::sync::Arc;

/// The name of the token behind the vocabulary that stands for every token that ends an answer.
const END: &str = "<|end of the answer|>";

/// Whether a token's bytes are for grammars. Their first byte must not be the mark of control tokens, except in the byte itself.
fn is_usable(bytes: &[u8]) -> bool {
    bytes.len() <= TOKEN_BYTES && (bytes.len() == 1 || bytes.first() != Some(&TokTrie::SPECIAL_TOKEN_MARKER))
}

/// Compiles grammars for a model with this number of tokens. Its number is that of the token that ends an answer there: a vocabulary may have several. `marks`: the control
/// tokens that grammars may use. Any other one could imitate another role. Returns those, too.
///
/// # Errors
/// Tokens have no bytes of their own, or too many, or the library fails.
pub(super) fn factory(
    tokenizer: &Tokenizer,
    (end, marks): (&[u32], &[u32]),
    vocabulary: usize,
) -> Result<(ParserFactory, Vec<u32>), String> {
    let tokens = tokenizer.vocabulary().map_err(|error| error.to_string())?;
    let control = |name: &str| [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat();
    let is_control = |token: &TokenBytes| matches!(token, TokenBytes::Control(_));
    let numbered = (0..).zip(&tokens).filter(|(number, token)| is_control(token) && !marks.contains(number));
    let never: Vec<u32> = numbered.map(|(number, _)| number).collect();
    let word = |(number, token): (u32, TokenBytes)| match token {
        // A character of an alphabet may end answers, too: it is no text then.
        TokenBytes::Text(_) if end.contains(&number) => control(&format!("<|end {number}|>")),
        TokenBytes::Text(bytes) if is_usable(&bytes) => bytes,
        TokenBytes::Control(name) if name.len() < TOKEN_BYTES && marks.contains(&number) => control(&name),
        _ => Vec::new(),
    };
    let mut words: Vec<Vec<u8>> = (0..).zip(tokens).take(vocabulary).map(word).collect();
    words.resize(vocabulary, Vec::new());
    words.push(control(END));
    let bytes: usize = words.iter().map(Vec::len).sum();
    if bytes > VOCABULARY_BYTES {
        return Err(format!("its tokens have {bytes} bytes; grammars are for at most {} MiB", VOCABULARY_BYTES >> 20));
    }
    let count = u32::try_from(words.len()).map_err(|error| error.to_string())?;
    let trie = TokTrie::from(&TokRxInfo::new(count, count - 1), &words);
    let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    let mut factory = ParserFactory::new_simple(&environment).map_err(|error| error.to_string())?;
    factory.quiet();
    *factory.limits_mut() = limits::parser();
    Ok((factory, never))
}
