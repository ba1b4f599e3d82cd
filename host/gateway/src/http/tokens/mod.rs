//! Requests in tokens to a model of this process: plain completions with log-probs, and token ids in and out.

mod completions;
mod generate;
mod run;
mod stream;
mod tokenize;

pub(crate) use completions::answer as completions;
pub(crate) use generate::answer as generate;
pub(crate) use tokenize::{detokenize, text_of, tokenize};

use super::answer::Refusal;
use super::exchange::unknown_model;
use super::serve::Inner;
use crate::models::{Candidate, ModelSource, ServedModel};
use clawhost_core::{ModelError, ModelRequest, Partition, TokenModel};
use clawhost_providers::Dialect;
use clawhost_wire::ErrorKind;
use clawhost_wire::completions::{MOST_PROMPT_TOKENS, Prompt};
use std::borrow::Cow;
use std::sync::Arc;

/// Most bytes of the texts of one request. Tokenizing a megabyte takes about a second.
const PROMPT_BYTES: usize = 4 << 20;

/// What answers a request in tokens.
pub(crate) enum Answerer<'a> {
    /// A model of this process.
    Local(&'a Candidate, Arc<dyn TokenModel>),
    /// An endpoint of OpenAI's dialect.
    Endpoint(&'a Candidate),
}

/// The first candidate that can answer. Always the first: log-probs of two models cannot be compared. So a router, which chooses
/// between models, has none.
pub(crate) fn answerer(served: &ServedModel) -> Option<Answerer<'_>> {
    if served.routing.is_some() {
        return None;
    }
    served.candidates().find_map(|candidate| match candidate.source.tokens() {
        Some(model) => Some(Answerer::Local(candidate, model.clone())),
        None => candidate.source.speaks(Dialect::OpenAi).map(|_| Answerer::Endpoint(candidate)),
    })
}

/// The model that a request names. Without a name the only local one, or the only one of all.
fn named(gateway: &Inner, alias: Option<&str>) -> Result<Arc<ServedModel>, Refusal> {
    if let Some(alias) = alias {
        return gateway.models.find(alias).ok_or_else(|| unknown_model(gateway, alias));
    }
    let all = gateway.models.all();
    let mut local = all.iter().filter(|model| matches!(answerer(model), Some(Answerer::Local(..))));
    match (local.next(), local.next(), &*all) {
        (Some(model), None, _) | (None, _, [model]) => Ok(model.clone()),
        _ => {
            let why =
                format!("model: must be named, because there are several: {}", gateway.models.aliases().join(", "));
            Err(Refusal::new(ErrorKind::InvalidRequest, why))
        }
    }
}

/// A model that has no token API.
fn has_none(served: &ServedModel, path: &str) -> Refusal {
    Refusal::new(ErrorKind::InvalidRequest, format!("the model `{}` has no API for {path}", served.alias))
}

/// Checks a prompt. `room`: tokens that must fit behind it.
fn check(model: &dyn TokenModel, field: &str, tokens: &[u32], room: usize) -> Result<(), Refusal> {
    let (context, vocabulary) = (model.context(), model.vocabulary());
    let wrong = |why: String| Err(Refusal::new(ErrorKind::InvalidRequest, format!("{field}: {why}")));
    if tokens.is_empty() {
        return wrong("needs at least one token".to_owned());
    }
    if let Some(token) = tokens.iter().find(|token| **token as usize >= vocabulary) {
        return wrong(format!("has the token {token}; the model knows {vocabulary}"));
    }
    if tokens.len() + room > context {
        let why = format!("{field}: has {} tokens, and the model's context holds {context}; shorten it", tokens.len());
        return Err(Refusal::new(ErrorKind::TooLong, why));
    }
    Ok(())
}

/// The tokens of the prompts of one request.
async fn tokens_of(
    model: &dyn TokenModel,
    prompts: &[Prompt],
    adds_special: bool,
    room: usize,
) -> Result<Vec<Vec<u32>>, Refusal> {
    let texts = prompts.iter().map(|prompt| if let Prompt::Text(text) = prompt { text.len() } else { 0 });
    if texts.sum::<usize>() > PROMPT_BYTES {
        let why = format!("prompt: the texts are longer than {PROMPT_BYTES} bytes");
        return Err(Refusal::new(ErrorKind::TooLong, why));
    }
    let mut all = Vec::with_capacity(prompts.len());
    let mut total = 0;
    for prompt in prompts {
        let tokens = match prompt {
            Prompt::Tokens(tokens) => tokens.clone(),
            Prompt::Text(text) => model.tokenize(text, adds_special).await.map_err(|error| refusal(&error))?,
        };
        check(model, "prompt", &tokens, room)?;
        total += tokens.len();
        if total > MOST_PROMPT_TOKENS {
            let why = format!("prompt: all prompts together have more than {MOST_PROMPT_TOKENS} tokens");
            return Err(Refusal::new(ErrorKind::TooLong, why));
        }
        all.push(tokens);
    }
    Ok(all)
}

fn refusal(error: &ModelError) -> Refusal {
    super::translate::refusal(error)
}

/// A seed for a request without one: several requests with one prompt get several answers.
fn any_seed() -> Result<u64, Refusal> {
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(|error| Refusal::new(ErrorKind::Internal, error.to_string()))?;
    Ok(u64::from_be_bytes(seed))
}

/// A request behind the key of its client, as the model gets it. A model of this process shares what it remembers of it with requests of this key alone. One
/// that draws by the seed alone gets a seed: without one, equal requests would get equal answers.
pub(crate) fn asked<'a>(source: &ModelSource, owner: &str, request: &'a ModelRequest) -> Cow<'a, ModelRequest> {
    if !source.is_local() {
        return Cow::Borrowed(request);
    }
    let seed = request.seed.or_else(|| source.tokens().and_then(|_| any_seed().ok()));
    Cow::Owned(ModelRequest { seed, partition: Partition::of_client(owner), ..request.clone() })
}
