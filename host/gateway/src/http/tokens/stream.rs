//! Streams the answers of `/completions` of a model of this process.

use super::completions::Asked;
use super::{refusal, run};
use crate::capture::Begun;
use crate::http::answer::{MODEL, set};
use crate::http::exchange::{answered_by, label};
use crate::http::relay::{missed_comment, partial, stream_head};
use crate::http::serve::Inner;
use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use clawhost_capture::Answer;
use clawhost_core::{
    ModelError, ScrubbedText, Secrets, TokenAnswer, TokenDelta, TokenFinish, TokenModel, TokenRequest,
};
use clawhost_wire::AnswerHead;
use clawhost_wire::completions::{self as wire, TextChoice, TokenIds};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Pieces that wait for a slow client.
const WAITING: usize = 32;

/// A stream that is ready to begin.
pub(super) struct Streaming {
    pub(super) asked: Asked,
    pub(super) requests: Vec<TokenRequest>,
    pub(super) model: Arc<dyn TokenModel>,
    pub(super) head: AnswerHead,
    pub(super) secrets: Secrets,
}

/// A stream under way.
struct Sending {
    asked: Asked,
    head: AnswerHead,
    secrets: Secrets,
    sender: mpsc::Sender<Bytes>,
    begun: Option<Begun>,
    /// The text of each answer so far, and what is held back of it.
    heard: Vec<(String, ScrubbedText)>,
}

/// The client has gone.
struct Gone;

impl Streaming {
    /// Begins the answer.
    pub(super) fn start(self, gateway: &Arc<Inner>, owner: &str, mut begun: Option<Begun>) -> Response<Body> {
        begun.iter_mut().for_each(Begun::streams);
        let Self { asked, requests, model, mut head, secrets } = self;
        let (sender, pieces) = mpsc::channel(WAITING);
        let mut answer = stream_head(pieces);
        let by = model.model();
        head.version.clone_from(&by.version);
        match &begun {
            Some(begun) => label(&mut answer, begun),
            None => {
                let usage = run::usage(&asked.prompts, &[]);
                gateway.recorder.charge_usage(owner, head.created * 1000, usage);
            }
        }
        set(&mut answer, MODEL, &by.model);
        answered_by(&mut answer, Some(&by));
        let heard = (0..asked.count()).map(|_| (String::new(), ScrubbedText::default())).collect();
        let sending = Sending { asked, head, secrets, sender, begun, heard };
        let busy = gateway.busy();
        tokio::spawn(async move {
            let _busy = busy;
            sending.run(model, requests).await;
        });
        answer
    }
}

impl Sending {
    async fn send(&self, text: String) -> Result<(), Gone> {
        self.sender.send(Bytes::from(text)).await.map_err(|_| Gone)
    }

    async fn run(mut self, model: Arc<dyn TokenModel>, requests: Vec<TokenRequest>) {
        match self.parts(&model, requests).await {
            Err(Gone) => {
                let heard = self.first_text();
                if let Some(mut begun) = self.begun.take() {
                    begun.so_far(partial(heard));
                    begun.broke_off("the client has gone");
                }
            }
            Ok(Err(error)) => self.failed(&error).await,
            Ok(Ok(answers)) => self.over(&answers).await,
        }
    }

    /// Sends the answers part by part.
    async fn parts(
        &mut self,
        model: &Arc<dyn TokenModel>,
        requests: Vec<TokenRequest>,
    ) -> Result<Result<Vec<TokenAnswer>, ModelError>, Gone> {
        for index in 0..self.asked.count() {
            if let Some(event) = self.beginning(index) {
                self.send(event).await?;
            }
        }
        let (sender, mut parts) = mpsc::unbounded_channel();
        let secrets = self.secrets.clone();
        let mut sampling = Box::pin(run::sample(model, requests, Some(sender), &secrets));
        let client = self.sender.clone();
        let answers = loop {
            let part = tokio::select! {
                biased;
                () = client.closed() => return Err(Gone),
                part = parts.recv() => part,
                answers = &mut sampling => break answers,
            };
            match part {
                Some((index, delta)) => self.part(index, delta).await?,
                None => break sampling.await,
            }
        };
        while let Ok((index, delta)) = parts.try_recv() {
            self.part(index, delta).await?;
        }
        Ok(answers)
    }

    /// The first event of an answer: the prompt, if the answer begins with it, and its tokens.
    fn beginning(&self, index: usize) -> Option<String> {
        let Asked { request, prompts, echoes, scores } = &self.asked;
        let prompt = self.asked.prompt_of(index);
        if !request.echo && !request.returns_token_ids {
            return None;
        }
        let scored = || scores.get(prompt).map(|scores| (scores.tokens.as_slice(), 0)).into_iter().collect();
        let choice = TextChoice {
            index,
            text: echoes.get(prompt).map(String::as_str).unwrap_or_default().into(),
            logprobs: request.logprobs.map(|_| scored()),
            alternatives: request.logprobs.is_some_and(|count| count > 0),
            names_ids: request.names_ids,
            finish: None,
            ids: request
                .returns_token_ids
                .then(|| TokenIds { prompt: prompts.get(prompt).map(Vec::as_slice), ..TokenIds::default() }),
        };
        Some(wire::event(&self.head, &choice))
    }

    /// Passes a part of an answer on.
    async fn part(&mut self, index: usize, delta: TokenDelta) -> Result<(), Gone> {
        if let Some(begun) = &mut self.begun {
            begun.first_part();
        }
        let Some((heard, held)) = self.heard.get_mut(index) else { return Ok(()) };
        let text = held.push(&self.secrets, &delta.text);
        heard.push_str(&text);
        let request = &self.asked.request;
        if text.is_empty() && request.logprobs.is_none() && !request.returns_token_ids {
            return Ok(());
        }
        let before = self.asked.echoes.get(self.asked.prompt_of(index)).map_or(0, |echo| echo.chars().count());
        let choice = TextChoice {
            index,
            text: text.into(),
            logprobs: request.logprobs.map(|_| vec![(delta.tokens.as_slice(), before)]),
            alternatives: request.logprobs.is_some_and(|count| count > 0),
            names_ids: request.names_ids,
            finish: None,
            ids: request.returns_token_ids.then(|| TokenIds {
                tokens: delta.tokens.iter().map(|token| token.id).collect(),
                ..TokenIds::default()
            }),
        };
        let event = wire::event(&self.head, &choice);
        self.send(event).await
    }

    /// The text of the answer that is recorded.
    fn first_text(&mut self) -> String {
        self.heard.first_mut().map(|(heard, _)| std::mem::take(heard)).unwrap_or_default()
    }

    /// Records the answer, then sends its end.
    async fn over(mut self, answers: &[TokenAnswer]) {
        let mut last = String::new();
        if let Some(begun) = self.begun.take() {
            let done = self.asked.record(begun, answers, self.head.id.clone());
            last.push_str(&missed_comment(&done).unwrap_or_default());
        }
        for index in 0..self.asked.count() {
            let answer = answers.get(index);
            // Text that was held back because it might have become a stop text.
            let heard = self.heard.get(index).map_or(0, |(heard, _)| heard.len());
            let whole = answer.map(|answer| answer.text.as_str()).unwrap_or_default();
            let rest = whole.get(heard..).unwrap_or_default();
            let choice = TextChoice {
                index,
                text: rest.into(),
                finish: Some(answer.map_or(&TokenFinish::Length, |answer| &answer.finish)),
                ids: self.asked.request.returns_token_ids.then(|| TokenIds {
                    versions: answer.map(|answer| answer.versions.as_slice()).unwrap_or_default(),
                    ..TokenIds::default()
                }),
                ..TextChoice::default()
            };
            last.push_str(&wire::event(&self.head, &choice));
        }
        let usage = self.asked.request.include_usage.then(|| run::usage(&self.asked.prompts, answers));
        last.push_str(&wire::end(&self.head, usage));
        // The client may have gone.
        let _ = self.send(last).await;
    }

    async fn failed(mut self, error: &ModelError) {
        let refusal = refusal(error);
        let heard = self.first_text();
        let mut last = String::new();
        if let Some(mut begun) = self.begun.take() {
            let done = if heard.is_empty() {
                begun.end(Answer::Failed { status: refusal.kind.status(), why: error.to_string() }, None)
            } else {
                begun.so_far(partial(heard));
                begun.broke_off(&error.to_string())
            };
            last.push_str(&missed_comment(&done).unwrap_or_default());
        }
        last.push_str(&wire::error_event(refusal.kind, &refusal.message));
        let _ = self.send(last).await;
    }
}
