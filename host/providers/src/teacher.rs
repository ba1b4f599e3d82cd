//! A teacher behind an endpoint that scores given tokens: `POST /completions` with token ids as prompt, `echo`, no generated token and
//! `logprobs`. vLLM, SGLang and the gateway of this program answer this; the APIs of OpenAI and Anthropic, and llama.cpp, do not.
//!
//! The ids that are sent are those of the model that learns, so the teacher must have its tokenizer. An id alone does not show that: every
//! endpoint echoes ids that it knows. So the texts of some tokens are compared before the run begins ([`EndpointTeacher::check`]), and
//! every answer must have as many tokens as were sent, with their ids or their texts.

use crate::Endpoint;
use crate::endpoint::Attempt;
use async_trait::async_trait;
use clawhost_core::{Digest, ModelError, TaughtToken, Teacher, TokenModel, escaped};
use clawhost_wire::ANSWER_BYTES;
use clawhost_wire::completions::{EchoedToken, TokenName, echoed_tokens, score_request};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use url::Url;

/// Path of requests that are scored, in place of that of conversations.
const PATH: &str = "/completions";
/// The path that it replaces.
const CHAT_PATH: &str = "/chat/completions";
/// Tokens whose texts are compared before a run: another tokenizer gives almost all of them other texts. Fewer than the context of every
/// model.
const PROBED: usize = 32;

/// Bytes that an answer may have for each token that it names, above those of other answers: a name, a log-prob and their places in lists.
const TOKEN_BYTES: usize = 96;
/// Most bytes of the text of a token that a message repeats.
const SHOWN_BYTES: usize = 64;

/// A teacher behind an endpoint.
pub struct EndpointTeacher {
    endpoint: Endpoint,
    url: Url,
    /// The model that learns. It gives the texts of tokens.
    learner: Arc<dyn TokenModel>,
    /// Whether the endpoint refuses to generate nothing, so that one token is generated and cut off.
    generates_one: AtomicBool,
}

impl std::fmt::Debug for EndpointTeacher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointTeacher").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Whether two texts of a token are equal. A token alone may lose the space at its beginning, and a part of a character has no text.
fn is_alike(one: &str, other: &str) -> bool {
    let has_none = |text: &str| text.is_empty() || text.contains(char::REPLACEMENT_CHARACTER);
    let bare = |text: &str| text.trim_start_matches(' ').to_owned();
    has_none(one) || has_none(other) || bare(one) == bare(other)
}

fn unlike(why: &str) -> ModelError {
    ModelError::InvalidResponse(format!(
        "{why}; a teacher scores the tokens of the model that learns, so it needs the same tokenizer"
    ))
}

impl EndpointTeacher {
    /// A teacher for this model.
    pub fn new(endpoint: Endpoint, learner: Arc<dyn TokenModel>) -> Self {
        let mut url = endpoint.url().clone();
        let base = url.path().strip_suffix(CHAT_PATH).unwrap_or(url.path()).to_owned();
        url.set_path(&format!("{base}{PATH}"));
        Self { endpoint, url, learner, generates_one: AtomicBool::new(false) }
    }

    /// Tokens that [`Self::check`] compares, spread evenly over the vocabulary.
    pub(crate) fn probe(&self) -> Vec<u32> {
        let vocabulary = self.learner.vocabulary();
        let count = PROBED.min(vocabulary).min(self.learner.context());
        (0..count).filter_map(|place| u32::try_from(place * vocabulary / count).ok()).collect()
    }

    /// Compares the texts of some tokens with those of the model that learns, and asks once for so many likely tokens.
    ///
    /// # Errors
    /// The endpoint does not answer such requests, or its tokens have other texts.
    pub(crate) async fn check(&self, probe: &[u32], likely: u8) -> Result<(), ModelError> {
        let echoed = self.echoed(probe, 1, false).await?;
        self.compare(probe, &echoed).await?;
        if likely > 0 {
            self.teach(probe, 1.0, likely).await?;
        }
        Ok(())
    }

    /// The tokens of a prompt as the endpoint scored them.
    async fn echoed(&self, tokens: &[u32], likely: u8, names_ids: bool) -> Result<Vec<EchoedToken>, ModelError> {
        let spread = Digest::of(&tokens.iter().flat_map(|token| token.to_le_bytes()).collect::<Vec<_>>()).prefix_u64();
        let named = tokens.len().saturating_mul(usize::from(likely) + 1);
        let most_bytes = ANSWER_BYTES.saturating_add(named.saturating_mul(TOKEN_BYTES));
        let mut attempt = 0;
        let mut echoed = loop {
            let generated = u32::from(self.generates_one.load(Ordering::Relaxed));
            let body = score_request(self.endpoint.model(), tokens, likely, names_ids, generated);
            match self.endpoint.asked(&self.url, &body, most_bytes, echoed_tokens).await {
                Ok(echoed) => break echoed,
                // Some servers generate at least one token.
                Err(Attempt::Final(ModelError::Refused(why))) if generated == 0 && why.contains("max_tokens") => {
                    self.generates_one.store(true, Ordering::Relaxed);
                }
                Err(failed) => self.endpoint.again(failed, &mut attempt, spread).await?,
            }
        };
        if echoed.len() < tokens.len() {
            let (found, sent) = (echoed.len(), tokens.len());
            return Err(unlike(&format!("the answer has {found} tokens, and {sent} were sent")));
        }
        echoed.truncate(tokens.len());
        Ok(echoed)
    }

    /// Checks that the endpoint scored these tokens.
    async fn compare(&self, tokens: &[u32], echoed: &[EchoedToken]) -> Result<(), ModelError> {
        let is_text = |token: &EchoedToken| matches!(token.name, TokenName::Text(_));
        // Only texts need texts.
        let texts = if echoed.iter().any(is_text) { self.learner.token_texts(tokens).await? } else { Vec::new() };
        for (place, (token, found)) in tokens.iter().zip(echoed).enumerate() {
            let own = texts.get(place).map(String::as_str).unwrap_or_default();
            let why = match &found.name {
                TokenName::Id(id) if id == token => continue,
                TokenName::Text(text) if is_alike(text, own) => continue,
                TokenName::Id(id) => {
                    format!("the endpoint scored token {id} at position {place}, and {token} was sent")
                }
                TokenName::Text(text) => {
                    let (own, text) = (own.escape_debug(), escaped(text, SHOWN_BYTES));
                    format!("token {token} at position {place} is `{own}` here and `{text}` there")
                }
            };
            return Err(unlike(&why));
        }
        Ok(())
    }

    /// What the endpoint says of one token.
    fn taught(&self, place: usize, echoed: EchoedToken, likely: u8) -> Result<TaughtToken, ModelError> {
        let invalid = |why: String| ModelError::InvalidResponse(format!("at position {place} {why}"));
        let logprob = echoed.logprob.ok_or_else(|| invalid("the token has no log-prob".to_owned()))?;
        let mut named = Vec::new();
        // An answer may have more: the token itself, or the one that is asked for because 0 is not.
        for (name, logprob) in echoed.likely.into_iter().take(likely.into()) {
            let TokenName::Id(id) = name else {
                let why = "likely tokens are named by their texts, which several tokens may share; compare the drawn token alone, or take an endpoint that names ids (return_tokens_as_token_ids), as vLLM does";
                return Err(invalid(why.to_owned()));
            };
            named.push((id, logprob));
        }
        let expected = usize::from(likely).min(self.learner.vocabulary());
        if named.len() < expected {
            let found = named.len();
            return Err(invalid(format!("the endpoint named {found} likely tokens where {expected} were requested")));
        }
        Ok(TaughtToken { logprob, likely: named })
    }
}

#[async_trait]
impl Teacher for EndpointTeacher {
    async fn teach(&self, tokens: &[u32], temperature: f32, likely: u8) -> Result<Vec<TaughtToken>, ModelError> {
        if temperature.to_bits() != 1.0_f32.to_bits() {
            let why = format!("an endpoint scores at temperature 1, and the answers were drawn at {temperature}");
            return Err(ModelError::Refused(why));
        }
        let echoed = self.echoed(tokens, likely, true).await?;
        self.compare(tokens, &echoed).await?;
        let scored = echoed.into_iter().enumerate().skip(1);
        scored.map(|(place, token)| self.taught(place, token, likely)).collect()
    }
}
