//! Compiled grammars, and the place of an answer in one.

use super::limits::{COMPILED, GRAMMAR_BYTES};
use super::vocabulary::factory;
use crate::tokens::Tokenizer;
use crate::{LocalModelError, TokenMask};
use clawhost_core::{Digest, GrammarRecord, escaped};
use llguidance::api::{StopReason, TopLevelGrammar};
use llguidance::{Matcher, ParserFactory};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Characters of an error of the library.
const SHOWN: usize = 400;

fn wrong(why: impl fmt::Display) -> LocalModelError {
    let why = why.to_string();
    // Further lines show the grammar, which may not be what the user wrote, except for what is wrong with a regular expression.
    let mut lines = why.split("\n<non-verbose/>").next().unwrap_or_default().lines();
    let first = lines.next().unwrap_or_default().trim_end();
    let detail = lines.find_map(|line| line.trim().strip_prefix("error: "));
    let why = detail.map_or_else(|| first.to_owned(), |detail| format!("{first} {detail}"));
    LocalModelError::Grammar(escaped(&why, SHOWN))
}

/// Compiles grammars for the vocabulary of a model, and keeps the latest ones.
pub struct Grammars {
    tokenizer: Tokenizer,
    end: Arc<[u32]>,
    /// Control tokens that grammars may use.
    marks: Arc<[u32]>,
    vocabulary: usize,
    /// Made when a grammar is first needed: a large vocabulary takes about a second.
    factory: OnceLock<Result<(ParserFactory, Arc<[u32]>), String>>,
    /// The least recently used one first.
    compiled: Mutex<VecDeque<Arc<Grammar>>>,
}

impl fmt::Debug for Grammars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammars").field("vocabulary", &self.vocabulary).finish_non_exhaustive()
    }
}

impl Grammars {
    /// For a tokenizer, the tokens that end its answers, the control tokens that grammars may use, and the number of tokens that the model's logits are for.
    pub fn new(tokenizer: Tokenizer, (end, marks): (&[u32], &[u32]), vocabulary: usize) -> Self {
        let (factory, compiled) = (OnceLock::new(), Mutex::default());
        Self { tokenizer, end: end.into(), marks: marks.into(), vocabulary, factory, compiled }
    }

    fn factory(&self) -> Result<&(ParserFactory, Arc<[u32]>), LocalModelError> {
        let made = self.factory.get_or_init(|| {
            let (factory, never) = factory(&self.tokenizer, (&self.end, &self.marks), self.vocabulary)?;
            Ok((factory, never.into()))
        });
        made.as_ref().map_err(wrong)
    }

    /// Compiles a grammar, or finds it compiled. It was checked that at least one token can begin an answer.
    ///
    /// # Errors
    /// It is invalid or too large, allows no answer, or the tokenizer's tokens have no bytes of their own.
    pub fn compile(&self, text: &str) -> Result<Arc<Grammar>, LocalModelError> {
        if text.len() > GRAMMAR_BYTES {
            return Err(wrong(format!("{} bytes; at most {} KiB are read", text.len(), GRAMMAR_BYTES >> 10)));
        }
        let digest = Digest::of(text.as_bytes());
        if let Some(known) = self.known(digest) {
            return Ok(known);
        }
        let (factory, never) = self.factory()?;
        let parser = factory.create_parser(TopLevelGrammar::from_lark(text.to_owned()));
        let start = Matcher::new(Ok(parser.map_err(wrong)?));
        let (end, never, vocabulary) = (self.end.clone(), never.clone(), self.vocabulary);
        let start = Mutex::new(start);
        let grammar = Arc::new(Grammar { digest, text: text.to_owned(), start, end, never, vocabulary });
        if grammar.begin().mask()?.count() == 0 {
            return Err(wrong("no token of the model's vocabulary can begin an answer; does the grammar allow any?"));
        }
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.push_back(grammar.clone());
        while compiled.len() > COMPILED {
            compiled.pop_front();
        }
        Ok(grammar)
    }

    fn known(&self, digest: Digest) -> Option<Arc<Grammar>> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let place = compiled.iter().position(|grammar| grammar.digest == digest)?;
        let found = compiled.remove(place)?;
        compiled.push_back(found.clone());
        Some(found)
    }

    /// The mask of each token of a recorded answer.
    ///
    /// # Errors
    /// The grammar cannot be compiled, its digest is another one, or it does not allow the answer.
    pub fn masks(&self, record: &GrammarRecord, answer: &[u32]) -> Result<Vec<TokenMask>, LocalModelError> {
        let grammar = self.compile(&record.text)?;
        if grammar.digest != record.digest {
            return Err(wrong("the recorded digest is that of another grammar"));
        }
        let mut state = grammar.begin();
        let mut masks = Vec::with_capacity(answer.len());
        for token in answer {
            let mask = state.mask()?;
            if !mask.allows(*token) {
                return Err(wrong(format!("the recorded answer has the token {token} where it does not allow it")));
            }
            masks.push(mask);
            state.accept(*token)?;
        }
        Ok(masks)
    }
}

/// A grammar, compiled for a vocabulary.
pub struct Grammar {
    digest: Digest,
    text: String,
    /// Its state before an answer, which is copied for each.
    start: Mutex<Matcher>,
    end: Arc<[u32]>,
    /// Control tokens that no grammar allows.
    never: Arc<[u32]>,
    vocabulary: usize,
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Grammar").field(&self.digest).finish()
    }
}

impl PartialEq for Grammar {
    fn eq(&self, other: &Self) -> bool {
        (self.digest, self.vocabulary) == (other.digest, other.vocabulary)
    }
}

impl Grammar {
    /// The state before an answer.
    pub fn begin(&self) -> GrammarState {
        // A copy of its own: copies that share tables of the lexer wait for each other.
        let matcher = self.start.lock().unwrap_or_else(PoisonError::into_inner).deep_clone();
        let (end, never) = (self.end.clone(), self.never.clone());
        GrammarState { matcher, end, never, vocabulary: self.vocabulary, has_ended: false }
    }

    /// As it is recorded with an answer.
    pub fn record(&self) -> GrammarRecord {
        GrammarRecord { digest: self.digest, text: self.text.clone() }
    }
}

/// The place of an answer in a grammar.
pub struct GrammarState {
    matcher: Matcher,
    end: Arc<[u32]>,
    never: Arc<[u32]>,
    vocabulary: usize,
    has_ended: bool,
}

impl fmt::Debug for GrammarState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarState").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}

impl GrammarState {
    /// The tokens that may follow. Where an answer may end, all tokens that end it are among them. None: the vocabulary cannot go on.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn mask(&mut self) -> Result<TokenMask, LocalModelError> {
        if self.has_ended {
            return Ok(TokenMask::of(self.vocabulary, &[]));
        }
        let found = match self.matcher.compute_mask_or_eos() {
            Ok(found) => found,
            // The library says in the text of its error alone that no token can follow. Its version is pinned, and a test holds this.
            Err(error) if error.to_string().starts_with(&format!("{:?}", StopReason::NoExtensionBias)) => {
                return Ok(TokenMask::of(self.vocabulary, &[]));
            }
            Err(error) => return Err(wrong(error)),
        };
        let may_end = found.get(self.vocabulary);
        let mut words = found.as_slice().to_vec();
        for token in self.never.iter() {
            if let Some(word) = words.get_mut(*token as usize / 32) {
                *word &= !(1 << (token % 32));
            }
        }
        for token in self.end.iter() {
            if let Some(word) = words.get_mut(*token as usize / 32) {
                let bit = 1u32 << (token % 32);
                *word = if may_end { *word | bit } else { *word & !bit };
            }
        }
        Ok(TokenMask::of_words(self.vocabulary, words))
    }

    /// Goes on with a token that the mask allows.
    ///
    /// # Errors
    /// It does not allow it, or a limit is reached.
    pub fn accept(&mut self, token: u32) -> Result<(), LocalModelError> {
        if self.end.contains(&token) {
            self.has_ended = true;
            return Ok(());
        }
        self.matcher.consume_token(token).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::alphabet_json;

    fn grammars(alphabet: &str) -> (Grammars, Tokenizer) {
        let characters: Vec<char> = alphabet.chars().collect();
        let tokenizer = Tokenizer::parse(&alphabet_json(&characters)).unwrap();
        let end = [characters.len() as u32 - 1];
        // One embedding more than tokens, as many models have.
        (Grammars::new(tokenizer.clone(), (&end, &[]), characters.len() + 1), tokenizer)
    }

    #[test]
    fn a_mask_has_the_tokens_that_continue_an_answer() {
        let (grammars, tokenizer) = grammars("abc,#");
        let grammar = grammars.compile("start: \"a\" (\",\" \"b\")*").unwrap();
        let check = |written: &str, expect: &str| {
            let mut state = grammar.begin();
            tokenizer.encode(written).unwrap().into_iter().for_each(|token| state.accept(token).unwrap());
            let mask = state.mask().unwrap();
            let allowed: String = (0..6)
                .filter(|token| mask.allows(*token))
                .map(|token| tokenizer.decode(&[token], false).unwrap())
                .collect();
            assert_eq!(allowed, expect, "{written}");
        };
        check("", "a");
        check("a", ",#");
        check("a,", "b");
        check("a,b", ",#");
        check("a#", "");
    }

    #[test]
    fn a_grammar_uses_no_control_tokens_but_the_marks_of_its_family() {
        let document = include_str!("../../../../tests/transformers/reference/qwen3/tokenizer.json");
        let tokenizer = Tokenizer::parse(document).unwrap();
        let number = |word: &str| tokenizer.token(word).unwrap().unwrap();
        let (begin, end) = (number("<|im_start|>"), number("<|im_end|>"));
        let compile = |marks: &[u32], text: &str| {
            Grammars::new(tokenizer.clone(), (&[end], marks), tokenizer.size()).compile(text)
        };
        for text in
            [format!("start: <[{begin}]> \"system\""), "start: <|im_start|>".to_owned(), "start: <[*]>".to_owned()]
        {
            let allowed = compile(&[], &text).map(|grammar| grammar.begin().mask().unwrap().allows(begin));
            assert!(!allowed.unwrap_or(false), "{text}");
        }
        let marked = compile(&[begin], &format!("start: <[{begin}]> \"x\"")).unwrap();
        assert!(marked.begin().mask().unwrap().allows(begin));
    }

    #[test]
    fn a_token_that_is_not_allowed_is_refused() {
        let (grammars, _) = grammars("ab#");
        let mut state = grammars.compile("start: \"a\"").unwrap().begin();
        assert!(matches!(state.accept(1), Err(LocalModelError::Grammar(_))));
    }

    #[test]
    fn masks_of_a_recorded_answer_are_those_that_it_was_drawn_with() {
        let (grammars, tokenizer) = grammars("ab,#");
        let grammar = grammars.compile("start: \"a\" (\",\" \"b\")*").unwrap();
        let answer = tokenizer.encode("a,b#").unwrap();
        let masks = grammars.masks(&grammar.record(), &answer).unwrap();
        let mut state = grammar.begin();
        for (token, mask) in answer.iter().zip(&masks) {
            assert_eq!(*mask, state.mask().unwrap());
            state.accept(*token).unwrap();
        }
        let refused = |record: GrammarRecord, answer: &[u32], expect: &str| {
            let error = grammars.masks(&record, answer).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        refused(grammar.record(), &[1], "has the token 1 where");
        refused(GrammarRecord { digest: Digest::of(b"x"), ..grammar.record() }, &answer, "of another grammar");
    }

    #[test]
    fn a_grammar_that_no_answer_satisfies_is_refused_before_anything_is_drawn() {
        let (grammars, _) = grammars("ab#");
        let check = |text: &str, expect: &str| {
            let error = grammars.compile(text).unwrap_err();
            assert!(matches!(error, LocalModelError::Grammar(_)));
            assert!(error.to_string().contains(expect), "{text}: {error}");
        };
        check("start: \"x\"", "no token of the model's vocabulary can begin");
        check("start: %json false", "nsatisfiable");
        check("start: %json {\"enum\": []}", "nsatisfiable");
        check("start: /[/", "regex");
        check("begin: \"a\"", "start");
        check(&format!("start: \"{}\"", "a".repeat(GRAMMAR_BYTES)), "at most 512 KiB");
    }

    #[test]
    fn nested_and_costly_grammars_end_with_an_error_or_a_mask() {
        let (grammars, _) = grammars("ab#");
        let nested = |open: &str, close: &str, times: usize| {
            format!("start: {}\"a\"{}", open.repeat(times), close.repeat(times))
        };
        for text in [
            nested("(", ")", 100_000),
            nested("[", "]", 100_000),
            format!("start: /{}a{}/", "(".repeat(100_000), ")".repeat(100_000)),
            format!("start: %json {}{}", "{\"items\":".repeat(20_000), "}".repeat(20_000)),
            "start: /(a|b)*a(a|b){9000}/".to_owned(),
            "start: /((a{1,99}){1,99}){1,99}b/".to_owned(),
            "start: (\"a\" | start start)*".to_owned(),
            "start: start".to_owned(),
        ] {
            // Either is right; what counts is that it ends, and that nothing else does.
            let _ = grammars.compile(&text).and_then(|grammar| grammar.begin().mask());
        }
        let digests: Vec<String> = (1..COMPILED + 9).map(|n| format!("start: \"a\"{{{n}}} \"b\"")).collect();
        digests.iter().for_each(|text| drop(grammars.compile(text).unwrap()));
        assert_eq!(grammars.compiled.lock().unwrap().len(), COMPILED);
    }
}
