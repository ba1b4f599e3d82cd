//! Samples and scores the sequences of one request, some of them at the same time.

use clawhost_core::{
    Message, ModelError, ModelResponse, Origin, Role, ScoredTokens, Secrets, TokenAnswer, TokenDelta, TokenLogprob,
    TokenModel, TokenRequest, Usage,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Sequences of one request that are computed at the same time. Those of other requests take turns with them.
const AT_ONCE: usize = 32;

/// A part of the answer of this number.
pub(super) type Part = (usize, TokenDelta);

/// Runs jobs and returns their results in order. The first error ends all of them, and so does dropping the future.
async fn all<T, J>(jobs: impl IntoIterator<Item = J>) -> Result<Vec<T>, ModelError>
where
    T: Send + 'static,
    J: Future<Output = Result<T, ModelError>> + Send + 'static,
{
    let mut jobs = jobs.into_iter().enumerate();
    let mut running = JoinSet::new();
    let mut results: Vec<Option<T>> = Vec::new();
    loop {
        while running.len() < AT_ONCE
            && let Some((at, job)) = jobs.next()
        {
            results.push(None);
            running.spawn(async move { (at, job.await) });
        }
        let Some(ended) = running.join_next().await else { break };
        let (at, result) = ended.map_err(|error| ModelError::Unavailable(error.to_string()))?;
        let result = result?;
        if let Some(place) = results.get_mut(at) {
            *place = Some(result);
        }
    }
    Ok(results.into_iter().flatten().collect())
}

/// The scores of the tokens of prompts.
pub(super) async fn score(
    model: &Arc<dyn TokenModel>,
    prompts: &[Vec<u32>],
    alternatives: u8,
    secrets: &Secrets,
) -> Result<Vec<ScoredTokens>, ModelError> {
    let jobs = prompts.iter().cloned().map(|tokens| {
        let model = model.clone();
        async move { model.score(&tokens, alternatives).await }
    });
    let found: Vec<ScoredTokens> = all(jobs.collect::<Vec<_>>()).await?;
    secrets.scrub_all(found).map_err(|kept| ModelError::InvalidResponse(kept.to_string()))
}

/// The answers to requests. With `parts`, they are passed on while they are sampled.
pub(super) async fn sample(
    model: &Arc<dyn TokenModel>,
    requests: Vec<TokenRequest>,
    parts: Option<mpsc::UnboundedSender<Part>>,
    secrets: &Secrets,
) -> Result<Vec<TokenAnswer>, ModelError> {
    let jobs = requests.into_iter().enumerate().map(|(at, request)| {
        let (model, parts) = (model.clone(), parts.clone());
        async move {
            match parts {
                None => model.sample(&request, None).await,
                Some(parts) => {
                    let mut sink = |delta| match parts.send((at, delta)) {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(_) => ControlFlow::Break(()),
                    };
                    model.sample(&request, Some(&mut sink)).await
                }
            }
        }
    });
    let answers: Vec<TokenAnswer> = all(jobs.collect::<Vec<_>>()).await?;
    answers.into_iter().map(|answer| scrubbed(secrets, answer)).collect()
}

/// An answer without keys of this process. One that repeats a key is refused: its tokens would spell it.
fn scrubbed(secrets: &Secrets, answer: TokenAnswer) -> Result<TokenAnswer, ModelError> {
    let spelled: String = answer.tokens.iter().map(|token| token.text.as_str()).collect();
    if secrets.are_in(&spelled) || secrets.are_in(&answer.text) {
        return Err(ModelError::InvalidResponse("the answer has a key of this process".to_owned()));
    }
    Ok(answer)
}

/// Tokens of a request: each prompt once, and all answers.
pub(super) fn usage(prompts: &[Vec<u32>], answers: &[TokenAnswer]) -> Usage {
    Usage {
        prompt_tokens: prompts.iter().map(|tokens| tokens.len() as u64).sum(),
        completion_tokens: answers.iter().map(|answer| answer.tokens.len() as u64).sum(),
        ..Usage::default()
    }
}

/// An answer as it is recorded. `usage` is that of the request.
pub(super) fn response(answer: &TokenAnswer, usage: Usage, with_logprobs: bool) -> ModelResponse {
    let mut message = Message::text(Role::Assistant, Origin::Policy, answer.text.as_str());
    message.parts.retain(|part| !part.is_empty());
    let logprob = |token: &clawhost_core::ScoredToken| {
        let alternatives = token.alternatives.iter().map(|other| (other.text.clone(), other.logprob)).collect();
        Some(TokenLogprob { token: token.text.clone(), logprob: token.logprob?, alternatives })
    };
    let logprobs = if with_logprobs { answer.tokens.iter().filter_map(logprob).collect() } else { Vec::new() };
    ModelResponse {
        tokens: Some(Box::new(answer.record.clone())),
        answered_by: Some(answer.model.clone()),
        logprobs,
        ..ModelResponse::new(message, usage, answer.finish.name())
    }
}
