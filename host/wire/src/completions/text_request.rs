//! The whole request of `/completions`, for a model that works on tokens.

use super::token_fields::token_ids;
use crate::WireError;
use crate::server::Fields;
use clawhost_core::TokenSampling;
use serde_json::Value;

/// Most answers to one request: prompts times `n`. It bounds what one client has waiting.
pub const MOST_ANSWERS: usize = 256;
/// Most answers to one prompt, as the dialect has it.
pub const MOST_N: u32 = 128;
/// Most alternatives beside a token, as the dialect has it.
pub const MOST_LOGPROBS: u32 = 5;
/// Most tokens of all prompts of a request together. With log-probs, each takes some hundred bytes of the answer.
pub const MOST_PROMPT_TOKENS: usize = 1 << 18;

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// As text.
    Text(String),
    /// As token ids.
    Tokens(Vec<u32>),
}

/// A request for continuations of prompts.
#[derive(Debug, Clone, PartialEq)]
pub struct TextRequest {
    /// The prompts, at least one and with `answers` at most [`MOST_ANSWERS`].
    pub prompts: Vec<Prompt>,
    /// Whether the tokenizer adds its special tokens to texts.
    pub adds_special: bool,
    /// Most tokens of an answer. 0: none is generated.
    pub max_tokens: u32,
    /// How tokens are sampled.
    pub sampling: TokenSampling,
    /// The seed, if there is one.
    pub seed: Option<u64>,
    /// Texts that end an answer.
    pub stop: Vec<String>,
    /// Tokens that end an answer.
    pub stop_tokens: Vec<u32>,
    /// Whether the answer begins with the prompt.
    pub echo: bool,
    /// Log-probs with this many alternatives, 0 to [`MOST_LOGPROBS`]. `None`: no log-probs.
    pub logprobs: Option<u8>,
    /// Answers to each prompt, 1 to [`MOST_N`].
    pub answers: u32,
    /// Whether the answer has the token ids.
    pub returns_token_ids: bool,
    /// Whether tokens with log-probs are named by their ids instead of their texts.
    pub names_ids: bool,
    /// Whether it is streamed.
    pub stream: bool,
    /// Whether a stream reports usage.
    pub include_usage: bool,
}

impl TextRequest {
    /// Whether the tokens of prompts are scored.
    pub fn scores_prompts(&self) -> bool {
        self.echo && self.logprobs.is_some()
    }

    /// Parses a client's request.
    ///
    /// # Errors
    /// [`WireError::Malformed`]: the body is not a JSON object. [`WireError::Request`]: a field is invalid, beyond a limit, or not
    /// supported.
    pub fn read(body: &str) -> Result<Self, WireError> {
        let mut fields = Fields::of_body(body)?;
        let answers = fields.count("n", 1)?.unwrap_or(1);
        if answers > MOST_N {
            return Err(fields.problem("n", &format!("must be at most {MOST_N}")));
        }
        // The best of as many as are returned are all of them.
        if fields.peek("best_of").is_some_and(|best| best.as_u64() == Some(answers.into())) {
            fields.take("best_of");
        }
        fields.refuse_unsupported()?;
        let prompts = prompts(&mut fields)?;
        if prompts.len().saturating_mul(answers as usize) > MOST_ANSWERS {
            return Err(
                fields.problem("prompt", &format!("a request has at most {MOST_ANSWERS} answers, prompts times n"))
            );
        }
        let logprobs = match fields.count("logprobs", 0)? {
            Some(count) if count > MOST_LOGPROBS => {
                return Err(fields.problem("logprobs", &format!("must be at most {MOST_LOGPROBS}")));
            }
            count => count.and_then(|count| u8::try_from(count).ok()),
        };
        let include_usage = match fields.take("stream_options") {
            None => false,
            Some(options) => Fields::of("stream_options".to_owned(), options)?.flag("include_usage")?.unwrap_or(false),
        };
        Ok(Self {
            prompts,
            adds_special: fields.flag("add_special_tokens")?.unwrap_or(true),
            max_tokens: fields.count("max_tokens", 0)?.unwrap_or(super::MAX_TOKENS),
            sampling: fields.sampling()?,
            seed: fields.seed()?,
            stop: fields.stop_texts()?,
            stop_tokens: fields.stop_tokens()?,
            echo: fields.flag("echo")?.unwrap_or(false),
            logprobs,
            answers,
            returns_token_ids: fields.flag("return_token_ids")?.unwrap_or(false),
            names_ids: fields.flag("return_tokens_as_token_ids")?.unwrap_or(false),
            stream: fields.flag("stream")?.unwrap_or(false),
            include_usage,
        })
    }
}

fn prompts(fields: &mut Fields) -> Result<Vec<Prompt>, WireError> {
    let wrong = "must be a text, a list of texts, token ids, or a list of lists of token ids";
    let prompts = match fields.take("prompt") {
        None => return Err(fields.problem("prompt", "is missing")),
        Some(Value::String(text)) => Some(vec![Prompt::Text(text)]),
        Some(Value::Array(items)) => match items.first() {
            None => return Err(fields.problem("prompt", "is empty")),
            Some(Value::Number(_)) => token_ids(Value::Array(items)).map(|tokens| vec![Prompt::Tokens(tokens)]),
            Some(_) => items
                .into_iter()
                .map(|item| match item {
                    Value::String(text) => Some(Prompt::Text(text)),
                    list => token_ids(list).map(Prompt::Tokens),
                })
                .collect(),
        },
        Some(_) => None,
    };
    prompts.ok_or_else(|| fields.problem("prompt", wrong))
}

/// A request of token ids, as some trainers send it to `/generate`.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateRequest {
    /// The requested model. `None`: the first one.
    pub model: Option<String>,
    /// The prompt.
    pub prompt: Vec<u32>,
    /// Most tokens of the answer. `None`: as many as the context has room for.
    pub max_tokens: Option<u32>,
    /// How tokens are sampled.
    pub sampling: TokenSampling,
    /// The seed, if there is one.
    pub seed: Option<u64>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// Tokens that end the answer.
    pub stop_tokens: Vec<u32>,
}

impl GenerateRequest {
    /// Parses a client's request.
    ///
    /// # Errors
    /// As [`TextRequest::read`].
    pub fn read(body: &str) -> Result<Self, WireError> {
        let mut fields = Fields::of_body(body)?;
        for media in ["image_data", "video_data"] {
            if fields.take(media).is_some_and(|data| data.as_array().is_none_or(|list| !list.is_empty())) {
                return Err(fields.problem(media, "is not supported: prompts are token ids"));
            }
        }
        let prompt = fields.token_ids("prompt_ids")?;
        let model = fields.text("model")?;
        let mut sampling = match fields.take("sampling_params") {
            None => Fields::of("sampling_params".to_owned(), Value::Object(serde_json::Map::new()))?,
            Some(params) => Fields::of("sampling_params".to_owned(), params)?,
        };
        sampling.refuse_unsupported()?;
        // Log-probs are always returned, one for each token.
        if sampling.take("logprobs").is_some_and(|logprobs| !(logprobs.is_boolean() || logprobs.is_u64())) {
            return Err(sampling.problem("logprobs", "must be true, false or a number"));
        }
        let [tokens, new_tokens] = ["max_tokens", "max_new_tokens"].map(|name| sampling.count(name, 1));
        Ok(Self {
            model: model.or(sampling.text("model")?),
            prompt,
            max_tokens: tokens?.or(new_tokens?),
            sampling: sampling.sampling()?,
            seed: sampling.seed()?,
            stop: sampling.stop_texts()?,
            stop_tokens: sampling.stop_tokens()?,
        })
    }
}

/// A request of `/tokenize`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizeRequest {
    /// The requested model. `None`: the first one.
    pub model: Option<String>,
    /// The text.
    pub text: String,
    /// Whether the tokenizer adds its special tokens.
    pub adds_special: bool,
    /// Whether the answer has the text of each token.
    pub returns_texts: bool,
}

impl TokenizeRequest {
    /// Parses a client's request.
    ///
    /// # Errors
    /// As [`TextRequest::read`].
    pub fn read(body: &str) -> Result<Self, WireError> {
        let mut fields = Fields::of_body(body)?;
        if fields.take("messages").is_some() {
            return Err(fields.problem("messages", "is not supported; send the text as prompt"));
        }
        Ok(Self {
            model: fields.text("model")?,
            text: fields.text("prompt")?.ok_or_else(|| fields.problem("prompt", "is missing"))?,
            adds_special: fields.flag("add_special_tokens")?.unwrap_or(true),
            returns_texts: fields.flag("return_token_strs")?.unwrap_or(false),
        })
    }
}

/// A request of `/detokenize`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetokenizeRequest {
    /// The requested model. `None`: the first one.
    pub model: Option<String>,
    /// The tokens.
    pub tokens: Vec<u32>,
}

impl DetokenizeRequest {
    /// Parses a client's request.
    ///
    /// # Errors
    /// As [`TextRequest::read`].
    pub fn read(body: &str) -> Result<Self, WireError> {
        let mut fields = Fields::of_body(body)?;
        Ok(Self { model: fields.text("model")?, tokens: fields.token_ids("tokens")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(more: Value) -> Result<TextRequest, WireError> {
        let mut body = json!({"model": "m", "prompt": "a"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        TextRequest::read(&body.to_string())
    }

    #[test]
    fn absent_fields_have_the_dialects_defaults() {
        let plain = read(json!({"user": "u", "logprobs": null})).unwrap();
        assert_eq!(plain.prompts, [Prompt::Text("a".into())]);
        assert_eq!((plain.max_tokens, plain.answers, plain.logprobs, plain.seed), (16, 1, None, None));
        assert_eq!(
            (plain.echo, plain.stream, plain.adds_special, plain.returns_token_ids),
            (false, false, true, false)
        );
    }

    #[test]
    fn prompts_are_texts_or_token_ids() {
        let tokens = |ids: &[u32]| Prompt::Tokens(ids.to_vec());
        let check = |prompt: Value, expect: &[Prompt]| {
            assert_eq!(read(json!({"prompt": prompt})).unwrap().prompts, expect);
        };
        check(json!(["a", "b"]), &[Prompt::Text("a".into()), Prompt::Text("b".into())]);
        check(json!([1, 2]), &[tokens(&[1, 2])]);
        check(json!([[1], [2, 3]]), &[tokens(&[1]), tokens(&[2, 3])]);
        for wrong in [json!(7), json!([1, "a"]), json!([1.5]), json!([-1]), json!([[1], [4294967296_u64]]), json!([{}])]
        {
            assert!(read(json!({"prompt": wrong})).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fields_that_would_change_the_answer_are_refused_unless_they_do_not() {
        let check = |more: Value, expect: &str| {
            let found = read(more.clone()).map(|_| String::new()).unwrap_or_else(|error| error.to_string());
            assert_eq!(found, expect, "{more}");
        };
        let unsupported = |name: &str| format!("{name}: is not supported by local models");
        check(json!({"suffix": "b"}), &unsupported("suffix"));
        check(json!({"suffix": null, "presence_penalty": 0, "repetition_penalty": 1.0, "logit_bias": {}}), "");
        check(json!({"presence_penalty": 0.1}), &unsupported("presence_penalty"));
        check(json!({"logit_bias": {"1": 2}}), &unsupported("logit_bias"));
        check(json!({"ignore_eos": true}), &unsupported("ignore_eos"));
        check(json!({"n": 2, "best_of": 2}), "");
        check(json!({"n": 2, "best_of": 3}), &unsupported("best_of"));
        check(json!({"stop": vec!["a"; 17]}), "stop: must be at most 16 texts of at most 1000 bytes");
        check(json!({"top_k": -2}), "top_k: must be a whole number of at least -1");
        check(json!({"stop_token_ids": "a"}), "stop_token_ids: must be a list of at most 1000 token ids");
    }

    #[test]
    fn requests_of_token_ids_have_their_parameters_in_an_object() {
        let body = json!({
            "prompt_ids": [1, 2], "image_data": [], "video_data": null,
            "sampling_params": {"max_new_tokens": 3, "top_k": -1, "seed": -1, "model": "m", "logprobs": true, "stop": "x"},
        });
        let read = GenerateRequest::read(&body.to_string()).unwrap();
        assert_eq!((read.model.as_deref(), read.prompt.as_slice(), read.max_tokens), (Some("m"), &[1, 2][..], Some(3)));
        assert_eq!((read.sampling.top_k, read.seed, read.stop), (Some(0), Some(u64::MAX), vec!["x".to_owned()]));
        let error =
            GenerateRequest::read(r#"{"prompt_ids": [1], "sampling_params": {"logprobs": "yes"}}"#).unwrap_err();
        assert_eq!(error.to_string(), "sampling_params.logprobs: must be true, false or a number");
    }

    #[test]
    fn requests_for_tokens_and_texts_are_read() {
        let read = TokenizeRequest::read(r#"{"prompt": "a", "add_special_tokens": false}"#).unwrap();
        assert_eq!((read.text.as_str(), read.adds_special, read.returns_texts), ("a", false, false));
        assert!(TokenizeRequest::read(r#"{"messages": []}"#).unwrap_err().to_string().contains("send the text"));
        assert_eq!(DetokenizeRequest::read(r#"{"tokens": [1]}"#).unwrap().tokens, [1]);
        assert!(DetokenizeRequest::read("{}").is_err());
    }
}
