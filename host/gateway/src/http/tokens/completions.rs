//! `/completions` of a model of this process.

use super::stream::Streaming;
use super::{any_seed, refusal, run, tokens_of};
use crate::capture::{Begun, Done};
use crate::http::answer::{MODEL, Refusal, json, set};
use crate::http::exchange::{self, Call, Recording, answered_by, label, note, refused, utf8};
use crate::http::serve::Inner;
use crate::models::Candidate;
use axum::body::Body;
use axum::http::Response;
use clawhost_capture::Answer;
use clawhost_core::{Partition, ScoredTokens, TokenAnswer, TokenModel, TokenRequest};
use clawhost_wire::AnswerHead;
use clawhost_wire::completions::{self as wire, Prompt, TextChoice, TextRequest, TokenIds};
use clawhost_wire::splice::TopLevel;
use std::sync::Arc;

/// A request with the tokens of its prompts.
pub(super) struct Asked {
    pub(super) request: TextRequest,
    pub(super) prompts: Vec<Vec<u32>>,
    /// The texts of the prompts, where the answer begins with them.
    pub(super) echoes: Vec<String>,
    /// The scores of the prompts, where they are wanted.
    pub(super) scores: Vec<ScoredTokens>,
}

/// Answers a request.
pub(crate) async fn answer(
    gateway: &Arc<Inner>,
    call: &Call,
    top: &TopLevel<'_>,
    alias: &str,
    (candidate, model): (&Candidate, Arc<dyn TokenModel>),
) -> Result<Response<Body>, Refusal> {
    let text = utf8(&call.body)?;
    let request = TextRequest::read(text)?;
    let recorded = wire::read_request(text)?.client.request;
    let generates = request.max_tokens > 0;
    let prompts = tokens_of(&*model, &request.prompts, request.adds_special, usize::from(generates)).await?;
    // Scores of a given text are no turn of an agent.
    let begun = generates.then(|| {
        let identity = candidate.source.identity();
        let recording = Recording { dialect: call.shape.name(), model: identity, request: &recorded, previous: None };
        let mut begun = exchange::begin(gateway, call, top, alias, recording);
        begun.priced(candidate.prices);
        begun
    });
    let waiting = call.observation.waits_for_model();
    let answered = answered(gateway, call, alias, request, prompts, model).await;
    drop(waiting);
    match answered {
        Ok(ready) => Ok(ready.finish(gateway, call, begun).await),
        Err(refusal) => match begun {
            Some(begun) => Ok(refused(call.shape, &refusal, begun)),
            None => Err(refusal),
        },
    }
}

/// What is ready when the answer begins.
enum Ready {
    Whole(Box<Asked>, Vec<TokenAnswer>, Arc<dyn TokenModel>, AnswerHead),
    Stream(Box<Streaming>),
}

async fn answered(
    gateway: &Arc<Inner>,
    call: &Call,
    alias: &str,
    request: TextRequest,
    prompts: Vec<Vec<u32>>,
    model: Arc<dyn TokenModel>,
) -> Result<Ready, Refusal> {
    let secrets = gateway.secrets.secrets();
    let alternatives = request.logprobs.unwrap_or(0);
    let scores = match request.scores_prompts() {
        true => run::score(&model, &prompts, alternatives, &secrets).await.map_err(|error| refusal(&error))?,
        false => Vec::new(),
    };
    let mut echoes = Vec::new();
    if request.echo {
        for (prompt, tokens) in request.prompts.iter().zip(&prompts) {
            echoes.push(match prompt {
                Prompt::Text(text) => text.clone(),
                Prompt::Tokens(_) => model.detokenize(tokens).await.map_err(|error| refusal(&error))?,
            });
        }
    }
    let requests = match request.max_tokens {
        0 => Vec::new(),
        _ => requests(&request, &prompts, Partition::of_client(&call.client.owner))?,
    };
    let head = gateway.answer_head(call.shape, alias);
    let asked = Asked { request, prompts, echoes, scores };
    if asked.request.stream {
        return Ok(Ready::Stream(Box::new(Streaming { asked, requests, model, head, secrets })));
    }
    let answers = run::sample(&model, requests, None, &secrets).await.map_err(|error| refusal(&error))?;
    Ok(Ready::Whole(Box::new(asked), answers, model, head))
}

/// A request for each answer. Answers to one prompt differ by their number, so that an answer does not depend on the other prompts.
fn requests(request: &TextRequest, prompts: &[Vec<u32>], partition: Partition) -> Result<Vec<TokenRequest>, Refusal> {
    let mut all = Vec::new();
    for prompt in prompts {
        let seed = request.seed.map_or_else(any_seed, Ok)?;
        all.extend((0..u64::from(request.answers)).map(|choice| TokenRequest {
            prompt: prompt.clone(),
            max_tokens: request.max_tokens,
            sampling: request.sampling.clone(),
            seed,
            choice,
            stop: request.stop.clone(),
            stop_tokens: request.stop_tokens.clone(),
            alternatives: request.logprobs.unwrap_or(0),
            partition,
        }));
    }
    Ok(all)
}

impl Ready {
    async fn finish(self, gateway: &Arc<Inner>, call: &Call, begun: Option<Begun>) -> Response<Body> {
        let (asked, answers, model, mut head) = match self {
            Self::Whole(asked, answers, model, head) => (asked, answers, model, head),
            Self::Stream(streaming) => return streaming.start(gateway, &call.client.owner, begun),
        };
        let usage = run::usage(&asked.prompts, &answers);
        let by = answers.first().map(|answer| answer.model.clone());
        let by =
            by.or_else(|| asked.scores.first().map(|scores| scores.model.clone())).unwrap_or_else(|| model.model());
        head.version.clone_from(&by.version);
        let mut answer = json(200, &wire::body(&head, &asked.choices(&answers), usage));
        match begun {
            Some(begun) => {
                label(&mut answer, &begun);
                answered_by(&mut answer, Some(&by));
                note(&mut answer, &asked.record(begun, &answers, head.id));
            }
            None => {
                set(&mut answer, MODEL, &by.model);
                answered_by(&mut answer, Some(&by));
                gateway.recorder.charge_usage(&call.client.owner, head.created * 1000, usage);
            }
        }
        answer
    }
}

impl Asked {
    /// The number of the prompt of an answer.
    pub(super) fn prompt_of(&self, index: usize) -> usize {
        index / self.request.answers.max(1) as usize
    }

    /// The number of answers.
    pub(super) fn count(&self) -> usize {
        self.prompts.len() * self.request.answers as usize
    }

    /// Records the first answer; of forwarded ones it is the first, too.
    pub(super) fn record(&self, begun: Begun, answers: &[TokenAnswer], id: String) -> Done {
        let usage = run::usage(&self.prompts, answers);
        match answers.first() {
            Some(first) => {
                let response = run::response(first, usage, self.request.logprobs.is_some());
                begun.end(Answer::Complete(Box::new(response)), Some(id))
            }
            None => begun.broke_off("there is no answer"),
        }
    }

    /// The whole answers.
    fn choices<'a>(&'a self, answers: &'a [TokenAnswer]) -> Vec<TextChoice<'a>> {
        (0..self.count()).map(|index| self.choice(index, answers.get(index))).collect()
    }

    fn choice<'a>(&'a self, index: usize, answer: Option<&'a TokenAnswer>) -> TextChoice<'a> {
        let prompt = self.prompt_of(index);
        let echo = self.echoes.get(prompt).map(String::as_str).unwrap_or_default();
        let text = answer.map(|answer| answer.text.as_str()).unwrap_or_default();
        let parts = || {
            let before = echo.chars().count();
            let scored = self.scores.get(prompt).map(|scores| (scores.tokens.as_slice(), 0));
            scored.into_iter().chain(answer.map(|answer| (answer.tokens.as_slice(), before))).collect()
        };
        TextChoice {
            index,
            text: if echo.is_empty() { text.into() } else { format!("{echo}{text}").into() },
            logprobs: self.request.logprobs.map(|_| parts()),
            alternatives: self.request.logprobs.is_some_and(|count| count > 0),
            names_ids: self.request.names_ids,
            finish: Some(answer.map_or(&clawhost_core::TokenFinish::Length, |answer| &answer.finish)),
            ids: self.request.returns_token_ids.then(|| TokenIds {
                prompt: self.prompts.get(prompt).map(Vec::as_slice),
                tokens: answer.map(|answer| answer.record.tokens.clone()).unwrap_or_default(),
                versions: answer.map(|answer| answer.versions.as_slice()).unwrap_or_default(),
            }),
        }
    }
}
