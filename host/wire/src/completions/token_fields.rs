//! Fields that requests for tokens share: sampling, ends of an answer, and what a model of this process cannot do.

use crate::WireError;
use crate::server::Fields;
use clawhost_core::TokenSampling;
use serde_json::Value;

/// Most texts that end an answer, and the longest in bytes. Every sampled token is compared with all of them.
const STOP_TEXTS: usize = 16;
const STOP_BYTES: usize = 1000;
/// Most tokens that end an answer, beside those of the model.
const STOP_TOKENS: usize = 1000;

/// Fields that change an answer and are not implemented, with the values at which they change nothing.
fn changes_nothing(name: &str, value: &Value) -> Option<bool> {
    let is_number = |number: f64| value.as_f64() == Some(number);
    Some(match name {
        "presence_penalty" | "frequency_penalty" | "length_penalty" | "min_tokens" => is_number(0.0),
        "repetition_penalty" => is_number(1.0),
        "logit_bias" => value.as_object().is_some_and(serde_json::Map::is_empty),
        "ignore_eos" | "use_beam_search" => *value == false,
        "bad_words" => value.as_array().is_some_and(Vec::is_empty),
        "suffix"
        | "best_of"
        | "prompt_logprobs"
        | "allowed_token_ids"
        | "response_format"
        | "structured_outputs"
        | "guided_json"
        | "guided_regex"
        | "guided_choice"
        | "guided_grammar"
        | "truncate_prompt_tokens"
        | "prompt_embeds"
        | "logits_processors" => false,
        _ => return None,
    })
}

impl Fields {
    /// Refuses fields that would change the answer and are not implemented.
    pub(crate) fn refuse_unsupported(&self) -> Result<(), WireError> {
        for (name, value) in self.fields().iter().filter(|(_, value)| !value.is_null()) {
            if changes_nothing(name, value) == Some(false) {
                return Err(self.problem(name, "is not supported by local models"));
            }
        }
        Ok(())
    }

    pub(crate) fn sampling(&mut self) -> Result<TokenSampling, WireError> {
        let top_k = match self.take("top_k") {
            None => None,
            // Some servers write -1 for all tokens.
            Some(value) if value.as_i64() == Some(-1) => Some(0),
            Some(value) => {
                let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
                Some(count.ok_or_else(|| self.problem("top_k", "must be a whole number of at least -1"))?)
            }
        };
        Ok(TokenSampling {
            temperature: self.number("temperature", 0.0..=2.0)?,
            top_p: self.number("top_p", 0.0..=1.0)?,
            top_k,
            min_p: self.number("min_p", 0.0..=1.0)?,
        })
    }

    pub(crate) fn seed(&mut self) -> Result<Option<u64>, WireError> {
        let Some(value) = self.take("seed") else { return Ok(None) };
        // A negative seed is valid: its bits are kept.
        let seed = value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned));
        seed.map(Some).ok_or_else(|| self.problem("seed", "must be a whole number"))
    }

    pub(crate) fn stop_texts(&mut self) -> Result<Vec<String>, WireError> {
        let stop = match self.take("stop") {
            Some(Value::String(text)) => vec![text],
            Some(list) => {
                self.put_back("stop", list);
                self.texts("stop")?
            }
            None => Vec::new(),
        };
        if stop.len() > STOP_TEXTS || stop.iter().any(|text| text.len() > STOP_BYTES) {
            let limits = format!("must be at most {STOP_TEXTS} texts of at most {STOP_BYTES} bytes");
            return Err(self.problem("stop", &limits));
        }
        Ok(stop)
    }

    pub(crate) fn stop_tokens(&mut self) -> Result<Vec<u32>, WireError> {
        let Some(value) = self.take("stop_token_ids") else { return Ok(Vec::new()) };
        let tokens = token_ids(value).filter(|tokens| tokens.len() <= STOP_TOKENS);
        tokens.ok_or_else(|| {
            self.problem("stop_token_ids", &format!("must be a list of at most {STOP_TOKENS} token ids"))
        })
    }

    /// A required list of token ids.
    pub(crate) fn token_ids(&mut self, name: &str) -> Result<Vec<u32>, WireError> {
        let value = self.take(name).ok_or_else(|| self.problem(name, "is missing"))?;
        token_ids(value).ok_or_else(|| self.problem(name, "must be a list of token ids"))
    }
}

/// The token ids of a list. `None`: it is no list of token ids.
pub(crate) fn token_ids(list: Value) -> Option<Vec<u32>> {
    let Value::Array(items) = list else { return None };
    items.into_iter().map(|item| item.as_u64().and_then(|id| u32::try_from(id).ok())).collect()
}
