//! Streams the answer of a model of another dialect, or of this process.

use super::answer::Refusal;
use super::exchange::{complete, label};
use super::relay::{missed_comment, partial};
use super::responses::Keeper;
use super::serve::Inner;
use super::shape::Shape;
use crate::capture::Begun;
use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use clawhost_capture::Answer;
use clawhost_core::{DeltaSink, Llm, ModelDelta, ModelError, ModelResponse};
use clawhost_wire::{AnswerHead, ClientRequest, ErrorKind, anthropic, openai, responses};
use serde_json::{Map, Value};
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
    Chat(openai::StreamWriter),
    Messages(anthropic::StreamWriter),
    Responses(Box<responses::StreamWriter>),
}

impl Writer {
    fn new(shape: Shape, head: AnswerHead, repeated: Map<String, Value>, include_usage: bool) -> Self {
        match shape {
            Shape::Responses => Self::Responses(Box::new(responses::StreamWriter::new(head, repeated))),
            Shape::Messages => Self::Messages(anthropic::StreamWriter::new(head)),
            // Plain completions are only forwarded.
            Shape::Chat | Shape::Completions => Self::Chat(openai::StreamWriter::new(head, include_usage)),
        }
    }

    /// The object of the whole answer, of the shape that has one.
    fn whole(&self, response: &ModelResponse) -> Option<Value> {
        match self {
            Self::Responses(writer) => Some(writer.whole(response)),
            Self::Chat(_) | Self::Messages(_) => None,
        }
    }

    fn error(&mut self, kind: ErrorKind, message: &str) -> String {
        match self {
            Self::Chat(writer) => writer.error(kind, message),
            Self::Messages(writer) => writer.error(kind, message),
            Self::Responses(writer) => writer.error(kind, message),
        }
    }

    fn begin(&mut self) -> String {
        match self {
            Self::Chat(writer) => writer.begin(),
            Self::Messages(writer) => writer.begin(),
            Self::Responses(writer) => writer.begin(),
        }
    }

    fn delta(&mut self, delta: &ModelDelta) -> String {
        match self {
            Self::Chat(writer) => writer.delta(delta),
            Self::Messages(writer) => writer.delta(delta),
            Self::Responses(writer) => writer.delta(delta),
        }
    }

    fn end(&mut self, response: &ModelResponse) -> String {
        match self {
            Self::Chat(writer) => writer.end(response),
            Self::Messages(writer) => writer.end(response),
            Self::Responses(writer) => writer.end(response),
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

/// How an answer is written.
pub(crate) struct Writing {
    pub(crate) shape: Shape,
    pub(crate) head: AnswerHead,
    /// Fields of the request that the answer repeats, in the shape that does so.
    pub(crate) repeated: Map<String, Value>,
    pub(crate) keeper: Option<Keeper>,
}

/// Streams an answer.
pub(crate) fn stream(
    gateway: &Arc<Inner>,
    writing: Writing,
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
    let Writing { shape, head, repeated, keeper } = writing;
    let id = head.id.clone();
    let writer = Writer::new(shape, head, repeated, client.include_usage);
    let busy = gateway.busy();
    tokio::spawn(async move {
        let _busy = busy;
        let passing = Passing { sender, writer, begun, keeper, heard: String::new(), asked };
        passing.run(heard, asking, id).await;
    });
    answer
}

struct Passing {
    sender: mpsc::Sender<Bytes>,
    writer: Writer,
    begun: Begun,
    keeper: Option<Keeper>,
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
                if let (Some(keeper), Some(object)) = (self.keeper.take(), self.writer.whole(&response)) {
                    keeper.keep(&mut self.begun, object);
                }
                let done = self.begun.end(complete(response, self.asked), Some(id));
                let text = missed_comment(&done).unwrap_or_default() + &last;
                let _ = self.sender.send(Bytes::from(text)).await;
            }
            Ok(Err(error)) => {
                let refusal = refusal(&error);
                let event = self.writer.error(refusal.kind, &refusal.message);
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
                let event = self.writer.error(ErrorKind::Internal, "the gateway was stopped");
                let _ = self.sender.send(Bytes::from(event)).await;
            }
        }
    }
}
