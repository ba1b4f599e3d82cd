//! Streams the answer of a model of another dialect, or of this process.

use super::answer::Refusal;
use super::exchange::{complete, label};
use super::relay::{error_event, missed_comment, partial};
use super::serve::Inner;
use crate::capture::Begun;
use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use clawhost_capture::Answer;
use clawhost_core::{DeltaSink, Llm, ModelDelta, ModelError, ModelResponse};
use clawhost_providers::Dialect;
use clawhost_wire::{AnswerHead, ClientRequest, ErrorKind, anthropic, openai};
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Pieces that wait for a slow client.
const WAITING: usize = 32;

/// The answer for a model's error.
pub(crate) fn refusal(error: &ModelError) -> Refusal {
    // A gateway whose upstream does not answer says so: it is available itself.
    let (kind, retry_after) = match error {
        ModelError::Unavailable(_) => (ErrorKind::BadUpstream, Some(2)),
        other => (ErrorKind::of(other), None),
    };
    Refusal { retry_after, ..Refusal::new(kind, error.to_string()) }
}

/// Writes the events of a dialect.
enum Writer {
    OpenAi(openai::StreamWriter),
    Anthropic(anthropic::StreamWriter),
}

impl Writer {
    fn new(dialect: Dialect, head: AnswerHead, include_usage: bool) -> Self {
        match dialect {
            Dialect::OpenAi => Self::OpenAi(openai::StreamWriter::new(head, include_usage)),
            Dialect::Anthropic => Self::Anthropic(anthropic::StreamWriter::new(head)),
        }
    }

    fn begin(&mut self) -> String {
        match self {
            Self::OpenAi(writer) => writer.begin(),
            Self::Anthropic(writer) => writer.begin(),
        }
    }

    fn delta(&mut self, delta: &ModelDelta) -> String {
        match self {
            Self::OpenAi(writer) => writer.delta(delta),
            Self::Anthropic(writer) => writer.delta(delta),
        }
    }

    fn end(&mut self, response: &ModelResponse) -> String {
        match self {
            Self::OpenAi(writer) => writer.end(response),
            Self::Anthropic(writer) => writer.end(response),
        }
    }
}

/// Passes deltas into a channel. It is not bounded: a sink cannot wait, and an answer is bounded itself.
struct Deltas(mpsc::UnboundedSender<ModelDelta>);

impl DeltaSink for Deltas {
    fn delta(&mut self, delta: ModelDelta) -> ControlFlow<()> {
        match self.0.send(delta) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

/// Streams an answer.
pub(crate) fn stream(
    gateway: &Arc<Inner>,
    dialect: Dialect,
    head: AnswerHead,
    model: Arc<dyn Llm>,
    client: ClientRequest,
    begun: Begun,
) -> Response<Body> {
    let (sender, pieces) = mpsc::channel(WAITING);
    let mut answer = super::relay::stream_head(pieces);
    label(&mut answer, &begun);
    let (deltas, heard) = mpsc::unbounded_channel();
    let request = client.request;
    let asked = request.bytes();
    let asking = tokio::spawn(async move {
        let mut sink = Deltas(deltas);
        model.stream(&request, &mut sink).await
    });
    let id = head.id.clone();
    let writer = Writer::new(dialect, head, client.include_usage);
    let busy = gateway.busy();
    tokio::spawn(async move {
        let _busy = busy;
        let passing = Passing { dialect, sender, writer, begun, heard: String::new(), asked };
        passing.run(heard, asking, id).await;
    });
    answer
}

struct Passing {
    dialect: Dialect,
    sender: mpsc::Sender<Bytes>,
    writer: Writer,
    begun: Begun,
    heard: String,
    asked: usize,
}

impl Passing {
    async fn send(&self, text: String) -> Result<(), ()> {
        if text.is_empty() {
            return Ok(());
        }
        self.sender.send(Bytes::from(text)).await.map_err(|_| ())
    }

    async fn run(
        mut self,
        mut deltas: mpsc::UnboundedReceiver<ModelDelta>,
        asking: tokio::task::JoinHandle<Result<ModelResponse, ModelError>>,
        id: String,
    ) {
        let begins = self.writer.begin();
        let mut gone = self.send(begins).await.is_err();
        while !gone {
            let delta = tokio::select! {
                delta = deltas.recv() => delta,
                () = self.sender.closed() => {
                    gone = true;
                    break;
                }
            };
            let Some(delta) = delta else { break };
            self.begun.first_part();
            if let ModelDelta::Text(text) = &delta {
                self.heard.push_str(text);
            }
            let events = self.writer.delta(&delta);
            gone = self.send(events).await.is_err();
        }
        if gone {
            // The model stops at its next delta, or here if it only waits.
            asking.abort();
            self.begun.so_far(partial(self.heard));
            self.begun.broke_off("the client has gone");
            return;
        }
        match asking.await {
            Ok(Ok(response)) => {
                let last = self.writer.end(&response);
                let done = self.begun.end(complete(response, self.asked), Some(id));
                let text = missed_comment(&done).unwrap_or_default() + &last;
                let _ = self.sender.send(Bytes::from(text)).await;
            }
            Ok(Err(error)) => {
                let refusal = refusal(&error);
                let event = error_event(self.dialect, refusal.kind, &refusal.message);
                let done = if self.heard.is_empty() {
                    self.begun.end(Answer::Failed { status: refusal.kind.status(), why: error.to_string() }, None)
                } else {
                    self.begun.so_far(partial(self.heard));
                    self.begun.broke_off(&error.to_string())
                };
                let text = missed_comment(&done).unwrap_or_default() + &event;
                let _ = self.sender.send(Bytes::from(text)).await;
            }
            // The task was ended: the gateway is stopping.
            Err(_) => {
                self.begun.so_far(partial(self.heard));
                self.begun.broke_off("the gateway was stopped");
                let event = error_event(self.dialect, ErrorKind::Internal, "the gateway was stopped");
                let _ = self.sender.send(Bytes::from(event)).await;
            }
        }
    }
}
