//! Stop texts: finds them while an answer is generated.

use crate::LocalModelError;
use crate::tokens::{IncrementalText, Tokenizer};
use std::collections::BTreeMap;

/// Watches the text of one answer: returns the part that may be shown, and whether the answer has ended.
#[derive(Debug)]
pub struct StopTexts {
    text: IncrementalText,
    stop: Vec<String>,
    end: Vec<u32>,
    /// Bytes that were returned.
    shown: usize,
    over: bool,
}

impl StopTexts {
    /// For a new answer. Tokens of `end` have no text.
    pub fn new(tokenizer: Tokenizer, stop: &[String], end: Vec<u32>) -> Self {
        let stop = stop.iter().filter(|text| !text.is_empty()).cloned().collect();
        Self { text: IncrementalText::new(tokenizer), stop, end, shown: 0, over: false }
    }

    /// Shows these control tokens, which have no text otherwise.
    pub fn showing(self, marks: BTreeMap<u32, String>) -> Self {
        Self { text: self.text.showing(marks), ..self }
    }

    /// Adds a token. Text that may be the beginning of a stop text is held back until that is decided.
    ///
    /// # Errors
    /// The tokenizer cannot decode its own tokens.
    pub fn push(&mut self, token: u32) -> Result<(&str, bool), LocalModelError> {
        let from = self.shown;
        if self.over {
            return Ok(("", true));
        }
        if !self.end.contains(&token) {
            self.text.push(token)?;
        }
        let text = self.text.text();
        let found = self.stop.iter().filter_map(|stop| Some(from + text.get(from..)?.find(stop.as_str())?)).min();
        self.over = found.is_some();
        self.shown = match found {
            Some(place) => place,
            None if self.end.contains(&token) => text.len(),
            None => from + safe(text.get(from..).unwrap_or_default(), &self.stop),
        };
        Ok((text.get(from..self.shown).unwrap_or_default(), self.over))
    }
}

/// Bytes of a text before the possible beginning of a stop text.
fn safe(text: &str, stop: &[String]) -> usize {
    let begins = |(place, _): &(usize, char)| {
        text.get(*place..).is_some_and(|tail| stop.iter().any(|stop| stop.starts_with(tail)))
    };
    text.char_indices().find(begins).map_or(text.len(), |(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::alphabet_json;

    #[test]
    fn text_is_shown_up_to_the_stop_text() {
        let characters: Vec<char> = "ab\n#".chars().collect();
        let tokenizer = Tokenizer::parse(&alphabet_json(&characters)).unwrap();
        let check = |written: &str, stop: &[&str], pieces: &[&str], over: bool| {
            let stop: Vec<String> = stop.iter().map(|text| (*text).to_owned()).collect();
            let mut texts = StopTexts::new(tokenizer.clone(), &stop, vec![3]);
            let mut found = Vec::new();
            let mut ended = false;
            for token in tokenizer.encode(written).unwrap() {
                let (text, now) = texts.push(token).unwrap();
                found.push(text.to_owned());
                ended = now;
                if now {
                    break;
                }
            }
            assert_eq!(
                (found.iter().map(String::as_str).collect::<Vec<_>>(), ended),
                (pieces.to_vec(), over),
                "{written}"
            );
        };
        check("ab", &[], &["a", "b"], false);
        check("a\n\nb", &["\n\n"], &["a", "", ""], true);
        check("a\nb", &["\n\n"], &["a", "", "\nb"], false);
        check("aba\n", &["ba\n", "zz"], &["a", "", "", ""], true);
        check("ab\n", &["b\nb"], &["a", "", ""], false);
        check("ab#", &["b\n"], &["a", "", "b"], false);
    }
}
