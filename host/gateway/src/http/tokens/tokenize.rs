//! `/tokenize` and `/detokenize`: the tokens of a text and the text of tokens, of models of this process.

use super::{Answerer, answerer, check, has_none, named, refusal, tokens_of};
use crate::http::answer::{MODEL, Refusal, json, set};
use crate::http::exchange::utf8;
use crate::http::serve::Inner;
use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use clawhost_core::TokenModel;
use clawhost_wire::completions::{DetokenizeRequest, Prompt, TokenizeRequest};
use serde_json::json as value;
use std::sync::Arc;

fn local(gateway: &Inner, alias: Option<&str>, path: &str) -> Result<(String, Arc<dyn TokenModel>), Refusal> {
    let served = named(gateway, alias)?;
    match answerer(&served) {
        Some(Answerer::Local(candidate, model)) => Ok((candidate.source.identity().model, model)),
        _ => Err(has_none(&served, path)),
    }
}

/// The tokens of a text.
pub(crate) async fn tokenize(gateway: &Inner, body: &Bytes) -> Result<Response<Body>, Refusal> {
    let request = TokenizeRequest::read(utf8(body)?)?;
    let (name, model) = local(gateway, request.model.as_deref(), "/tokenize")?;
    let tokens = match request.text.as_str() {
        "" => Vec::new(),
        text => {
            let prompt = Prompt::Text(text.to_owned());
            tokens_of(&*model, &[prompt], request.adds_special, 0).await?.pop().unwrap_or_default()
        }
    };
    let texts = match request.returns_texts {
        true => Some(model.token_texts(&tokens).await.map_err(|error| refusal(&error))?),
        false => None,
    };
    let answer =
        value!({"count": tokens.len(), "max_model_len": model.context(), "tokens": tokens, "token_strs": texts});
    let mut answer = json(200, &answer);
    set(&mut answer, MODEL, &name);
    Ok(answer)
}

/// The text of tokens.
pub(crate) async fn detokenize(gateway: &Inner, body: &Bytes) -> Result<Response<Body>, Refusal> {
    let request = DetokenizeRequest::read(utf8(body)?)?;
    let (name, model) = local(gateway, request.model.as_deref(), "/detokenize")?;
    let text = text(gateway, &*model, &request.tokens).await?;
    let mut answer = json(200, &value!({"prompt": text}));
    set(&mut answer, MODEL, &name);
    Ok(answer)
}

/// The text of tokens of a model, or of the first one.
pub(crate) async fn text_of(gateway: &Inner, alias: Option<&str>, tokens: &[u32]) -> Result<String, Refusal> {
    let (_, model) = local(gateway, alias, "/detokenize")?;
    text(gateway, &*model, tokens).await
}

async fn text(gateway: &Inner, model: &dyn TokenModel, tokens: &[u32]) -> Result<String, Refusal> {
    if tokens.is_empty() {
        return Ok(String::new());
    }
    check(model, "tokens", tokens, 0)?;
    let text = model.detokenize(tokens).await.map_err(|error| refusal(&error))?;
    Ok(gateway.secrets.secrets().scrub(&text).into_owned())
}
