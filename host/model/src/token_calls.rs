//! A local model behind the port `TokenModel`: token ids in, token ids and log-probs out.

use crate::generate::{Answer, Drawn, Engine, Finish, Request, Sampling, Scored, StopTexts, Watch};
use crate::token_texts::TokenTexts;
use crate::tokens::Tokenizer;
use crate::{ChatFormat, LocalModel, LocalModelError, ModelConfig};
use async_trait::async_trait;
use clawhost_core::{
    AlternativeToken, AnsweringModel, Digest, ModelError, Partition, ScoredToken, ScoredTokens, TaughtToken, Teacher,
    TokenAnswer, TokenDelta, TokenFinish, TokenModel, TokenRecord, TokenRequest, TokenSink, TokenVersion,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

/// Memory for keys and values of the requests of one model that are computed at the same time. Others wait in the order of their arrival.
/// One request always fits, whatever it needs.
const CACHE_BYTES: usize = 2 << 30;

/// Answers requests in tokens.
#[derive(Debug)]
pub struct TokenCalls {
    model: Arc<LocalModel>,
    /// Positions of keys and values.
    places: Semaphore,
    most: u32,
}

/// Bytes of the keys and values of one token.
fn token_bytes(config: &ModelConfig) -> usize {
    config.layers * config.key_value_heads * config.head_width * 2 * size_of::<f32>()
}

/// The message about a thread that has ended.
fn gone(error: &tokio::task::JoinError) -> ModelError {
    ModelError::Unavailable(format!("the tokenizer's thread has ended: {error}"))
}

impl TokenCalls {
    /// Token requests of a model, which may answer conversations beside.
    pub fn new(model: Arc<LocalModel>) -> Self {
        let most = {
            let version = model.engine().current();
            let config = version.model.config();
            let tokens = (CACHE_BYTES / token_bytes(config).max(1)).max(config.context);
            u32::try_from(tokens.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX)
        };
        Self { places: Semaphore::new(most as usize), most, model }
    }

    fn engine(&self) -> &Arc<Engine> {
        self.model.engine()
    }

    fn format(&self) -> &ChatFormat {
        self.model.chat_format()
    }

    /// The name and the version of these weights.
    fn named(&self, weights: Digest) -> AnsweringModel {
        AnsweringModel { model: self.format().name.clone(), version: Some(self.version_of(weights)) }
    }

    /// The weights together with the tokenizer.
    fn version_of(&self, weights: Digest) -> String {
        format!("{weights}+{}", self.format().digest.short())
    }

    /// Waits for the memory of this number of tokens.
    async fn place(&self, tokens: usize) -> Result<SemaphorePermit<'_>, ModelError> {
        let tokens = u32::try_from(tokens.min(self.context())).unwrap_or(u32::MAX).min(self.most);
        let closed = |_| ModelError::Unavailable("the model was closed".to_owned());
        self.places.acquire_many(tokens).await.map_err(closed)
    }

    /// Does something with the tokenizer, on a thread that may block.
    async fn with_tokenizer<T: Send + 'static>(
        &self,
        act: impl FnOnce(Tokenizer) -> Result<T, LocalModelError> + Send + 'static,
    ) -> Result<T, ModelError> {
        let tokenizer = self.format().tokenizer.clone();
        let done = tokio::task::spawn_blocking(move || act(tokenizer)).await;
        Ok(done.map_err(|error| gone(&error))??)
    }

    /// The scores of given tokens from the second on, as their ids.
    async fn scores(&self, tokens: &[u32], temperature: f32, alternatives: u8) -> Result<Answer, ModelError> {
        let request = Request {
            prompt: tokens.to_vec(),
            sampling: Sampling { temperature, ..Sampling::default() },
            grammar: None,
            seed: 0,
            choice: 0,
            max_tokens: 0,
            alternatives: alternatives.into(),
            end: Vec::new(),
            partition: Partition::OWN,
        };
        let _place = self.place(tokens.len()).await?;
        Ok(self.engine().ask(request).await?)
    }

    fn request(&self, request: &TokenRequest) -> Request {
        let own = &self.format().sampling;
        let wanted = &request.sampling;
        let sampling = Sampling {
            temperature: wanted.temperature.unwrap_or(own.temperature),
            top_p: wanted.top_p.unwrap_or(own.top_p),
            top_k: match wanted.top_k {
                None => own.top_k,
                Some(0) => None,
                Some(count) => Some(count as usize),
            },
            min_p: wanted.min_p.unwrap_or(own.min_p),
            ..own.clone()
        };
        Request {
            prompt: request.prompt.clone(),
            sampling,
            grammar: None,
            seed: request.seed,
            choice: request.choice,
            max_tokens: request.max_tokens.max(1) as usize,
            alternatives: request.alternatives.into(),
            end: self.format().end.iter().chain(&request.stop_tokens).copied().collect(),
            partition: request.partition,
        }
    }
}

/// Drawn tokens with their texts.
fn scored(texts: &mut TokenTexts, drawn: &[Drawn]) -> Result<Vec<ScoredToken>, LocalModelError> {
    let asked: Vec<_> = drawn.iter().map(|one| (one.token, ids(&one.alternatives))).collect();
    let found = texts.next(&asked)?;
    let token = |(drawn, text): (&Drawn, crate::token_texts::TokenText)| ScoredToken {
        id: drawn.token,
        text: text.text,
        offset: text.offset,
        // As exact as beside it, where the token is one of the alternatives.
        logprob: Some(beside(drawn).unwrap_or_else(|| f64::from(drawn.logprob_model)).min(0.0)),
        logprob_sampled: Some(f64::from(drawn.logprob_sampled).min(0.0)),
        alternatives: alternatives(&drawn.alternatives, text.others),
    };
    Ok(drawn.iter().zip(found).map(token).collect())
}

/// The log-prob of a drawn token among its alternatives.
fn beside(drawn: &Drawn) -> Option<f64> {
    drawn.alternatives.iter().find(|(id, _)| *id == drawn.token).map(|(_, logprob)| *logprob)
}

fn ids(alternatives: &[(u32, f64)]) -> Vec<u32> {
    alternatives.iter().map(|(token, _)| *token).collect()
}

fn alternatives(found: &[(u32, f64)], texts: Vec<String>) -> Vec<AlternativeToken> {
    let alternative =
        |((id, logprob), text): (&(u32, f64), String)| AlternativeToken { id: *id, text, logprob: *logprob };
    found.iter().zip(texts).map(alternative).collect()
}

/// Why an answer with this text ended, and the text up to a stop text.
fn ended(
    mut text: String,
    tokens: &[Drawn],
    (end, stop): (&[u32], &[String]),
    finish: Finish,
) -> (String, TokenFinish) {
    let found = stop.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| Some((text.find(stop.as_str())?, stop)));
    if let Some((place, stop)) = found.min_by_key(|(place, _)| *place) {
        text.truncate(place);
        return (text, TokenFinish::StopText(stop.clone()));
    }
    let last = tokens.last().map(|token| token.token).filter(|token| finish == Finish::Stop && end.contains(token));
    (text, last.map_or(TokenFinish::Length, TokenFinish::StopToken))
}

#[async_trait]
impl TokenModel for TokenCalls {
    fn model(&self) -> AnsweringModel {
        self.named(self.engine().current().digest)
    }

    fn context(&self) -> usize {
        self.engine().current().model.config().context
    }

    fn vocabulary(&self) -> usize {
        self.engine().current().model.config().vocabulary
    }

    async fn tokenize(&self, text: &str, adds_special: bool) -> Result<Vec<u32>, ModelError> {
        let text = text.to_owned();
        let encode = move |tokenizer: Tokenizer| match adds_special {
            true => tokenizer.encode_whole(&text),
            false => tokenizer.encode(&text),
        };
        self.with_tokenizer(encode).await
    }

    async fn detokenize(&self, tokens: &[u32]) -> Result<String, ModelError> {
        let tokens = tokens.to_vec();
        self.with_tokenizer(move |tokenizer| tokenizer.decode(&tokens, false)).await
    }

    async fn token_texts(&self, tokens: &[u32]) -> Result<Vec<String>, ModelError> {
        let asked: Vec<_> = tokens.iter().map(|token| (*token, Vec::new())).collect();
        let texts = self.with_tokenizer(move |tokenizer| TokenTexts::new(tokenizer).next(&asked)).await?;
        Ok(texts.into_iter().map(|token| token.text).collect())
    }

    async fn score(&self, tokens: &[u32], alternatives_wanted: u8) -> Result<ScoredTokens, ModelError> {
        let answer = self.scores(tokens, 1.0, alternatives_wanted).await?;
        let (model, tokens) = (self.named(answer.weights), tokens.to_vec());
        let tokens = self
            .with_tokenizer(move |tokenizer| {
                let first = tokens.iter().take(1).map(|token| (*token, Vec::new()));
                let rest = tokens.iter().skip(1).zip(&answer.scores);
                let asked: Vec<_> =
                    first.chain(rest.map(|(token, score)| (*token, ids(&score.alternatives)))).collect();
                let texts = TokenTexts::new(tokenizer).next(&asked)?;
                let scores = std::iter::once(None).chain(answer.scores.iter().map(Some));
                let token =
                    |((id, text), score): ((&u32, crate::token_texts::TokenText), Option<&Scored>)| ScoredToken {
                        id: *id,
                        text: text.text,
                        offset: text.offset,
                        logprob: score.map(|score| score.logprob),
                        logprob_sampled: None,
                        alternatives: score
                            .map_or_else(Vec::new, |score| alternatives(&score.alternatives, text.others)),
                    };
                Ok(tokens.iter().zip(texts).zip(scores).map(token).collect())
            })
            .await?;
        Ok(ScoredTokens { tokens, model })
    }

    async fn sample(
        &self,
        request: &TokenRequest,
        mut sink: Option<&mut dyn TokenSink>,
    ) -> Result<TokenAnswer, ModelError> {
        let asked = self.request(request);
        let (end, temperature, restricted) =
            (asked.end.clone(), asked.sampling.temperature, !asked.sampling.is_trainable());
        let _place = self.place(request.prompt.len().saturating_add(asked.max_tokens)).await?;
        let tokenizer = self.format().tokenizer.clone();
        let mut texts = TokenTexts::new(tokenizer.clone());
        let mut tokens = Vec::new();
        // Tokens are drawn on a thread of the engine, which must not wait for the sink. The queue is bounded by the tokens of an answer.
        let (sender, mut receiver) = mpsc::unbounded_channel::<(String, Drawn)>();
        let mut stop = StopTexts::new(tokenizer, &request.stop, end.clone());
        let streams = sink.is_some();
        let watch: Watch = Box::new(move |drawn| {
            // The decoding of the whole answer reports text that cannot be decoded.
            let Ok((text, ended)) = stop.push(drawn.token) else { return ControlFlow::Continue(()) };
            let is_gone = streams && sender.send((text.to_owned(), drawn.clone())).is_err();
            if ended || is_gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let watch = (streams || !request.stop.is_empty()).then_some(watch);
        let engine = self.engine().clone();
        let mut answer = Box::pin(async move { engine.ask_watched(asked, watch).await });
        let mut pass_on = |(text, drawn): (String, Drawn), sink: &mut dyn TokenSink| -> Result<(), ModelError> {
            let new = scored(&mut texts, &[drawn])?;
            tokens.extend(new.iter().cloned());
            sink.delta(TokenDelta { text, tokens: new }).continue_value().ok_or(ModelError::Stopped)
        };
        let answer = loop {
            tokio::select! {
                biased;
                Some(part) = receiver.recv(), if streams => {
                    if let Some(sink) = sink.as_deref_mut() {
                        pass_on(part, sink)?;
                    }
                }
                answer = &mut answer => break answer?,
            }
        };
        while let (Ok(part), Some(sink)) = (receiver.try_recv(), sink.as_deref_mut()) {
            pass_on(part, sink)?;
        }
        let drawn = answer.tokens;
        let (stop, ends) = (request.stop.clone(), end);
        let known = tokens.len() == drawn.len();
        let (drawn, text, finish, found) = self
            .with_tokenizer(move |tokenizer| {
                let ids: Vec<u32> = drawn.iter().map(|one| one.token).collect();
                let is_ended = ids.last().is_some_and(|last| ends.contains(last));
                let shown = ids.get(..ids.len() - usize::from(is_ended)).unwrap_or_default();
                let text = tokenizer.decode(shown, true)?;
                let (text, finish) = ended(text, &drawn, (&ends, &stop), answer.finish);
                let found = if known { None } else { Some(scored(&mut TokenTexts::new(tokenizer), &drawn)?) };
                Ok((drawn, text, finish, found))
            })
            .await?;
        let record = TokenRecord {
            version: answer.version,
            shared: 0,
            prompt: request.prompt.clone(),
            tokens: drawn.iter().map(|one| one.token).collect(),
            logprob_model: drawn.iter().map(|one| one.logprob_model).collect(),
            logprob_sampled: drawn.iter().map(|one| one.logprob_sampled).collect(),
            temperature,
            restricted,
            grammar: None,
        };
        // The engine computes all of an answer with the weights that were current when it began.
        let digest = self.version_of(answer.weights);
        let versions = vec![TokenVersion { version: answer.version, digest, tokens: drawn.len() }];
        let model = self.named(answer.weights);
        Ok(TokenAnswer { tokens: found.unwrap_or(tokens), text, finish, versions, model, record })
    }
}

#[async_trait]
impl Teacher for TokenCalls {
    async fn teach(&self, tokens: &[u32], temperature: f32, likely: u8) -> Result<Vec<TaughtToken>, ModelError> {
        let answer = self.scores(tokens, temperature, likely).await?;
        let taught = |score: Scored| TaughtToken { logprob: score.logprob, likely: score.alternatives };
        Ok(answer.scores.into_iter().map(taught).collect())
    }
}

#[cfg(test)]
mod tests;
