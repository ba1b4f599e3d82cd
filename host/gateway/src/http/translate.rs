//! Streams the answer of a model of another dialect, or of this process.

use super::answer::Refusal;
use super::body::too_long;
use super::exchange::{complete, label};
use super::outlet::Outlet;
use super::relay::{missed_comment, partial};
use super::responses::Keeper;
use super::serve::Inner;
use super::shape::Shape;
use crate::capture::Begun;
use crate::models::ModelSource;
use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use clawhost_capture::Answer;
use clawhost_core::{DeltaSink, ModelDelta, ModelError, ModelRequest, ModelResponse};
use clawhost_wire::{AnswerHead, ClientRequest, ErrorKind, anthropic, openai, responses};
use serde_json::{Map, Value};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
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

/// The body of a whole answer.
pub(crate) fn body(shape: Shape, head: &AnswerHead, repeated: &Map<String, Value>, response: &ModelResponse) -> Value {
    match shape {
        Shape::Responses => responses::body(head, repeated, response),
        Shape::Messages => anthropic::body(head, response),
        // Plain completions are only forwarded.
        Shape::Chat | Shape::Completions => openai::body(head, response),
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

/// Whether another attempt may get an answer.
pub(crate) fn is_passing(error: &ModelError) -> bool {
    matches!(error, ModelError::Unavailable(_) | ModelError::InvalidResponse(_))
}

/// A model that was asked for a streamed answer. Dropped, it is asked no more.
pub(crate) struct Streaming {
    /// A first delta that was taken already.
    first: Option<ModelDelta>,
    deltas: mpsc::UnboundedReceiver<ModelDelta>,
    asking: Asking,
}

/// The task that asks.
struct Asking(tokio::task::JoinHandle<Result<ModelResponse, ModelError>>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Asks a model for a streamed answer.
pub(crate) fn ask(source: ModelSource, request: ModelRequest) -> Streaming {
    let (sender, deltas) = mpsc::unbounded_channel();
    let asking = Asking(tokio::spawn(async move {
        let mut sink = Deltas(sender);
        Ok(source.named(source.model().stream(&request, &mut sink).await?))
    }));
    Streaming { first: None, deltas, asking }
}

impl Streaming {
    /// Waits for the beginning of the answer. Returns the error, if it failed before and another attempt may help.
    pub(crate) async fn failed_at_once(&mut self) -> Option<ModelError> {
        self.first = self.deltas.recv().await;
        if self.first.is_some() {
            return None;
        }
        match (&mut self.asking.0).await {
            Ok(Err(error)) if is_passing(&error) => Some(error),
            ended => {
                // The answer had no delta, or the error is final: it is passed on.
                let ended = ended.unwrap_or(Err(ModelError::Stopped));
                self.asking = Asking(tokio::spawn(async move { ended }));
                None
            }
        }
    }
}

/// Streams an answer.
pub(crate) fn stream(
    gateway: &Arc<Inner>,
    writing: Writing,
    asked: Streaming,
    client: &ClientRequest,
    begun: Begun,
) -> Response<Body> {
    let (sender, pieces) = mpsc::channel(WAITING);
    let mut answer = super::relay::stream_head(pieces);
    label(&mut answer, &begun);
    let Writing { shape, head, repeated, keeper } = writing;
    let id = head.id.clone();
    let writer = Writer::new(shape, head, repeated, client.include_usage);
    let bytes = client.request.bytes();
    let busy = gateway.busy();
    let limits = gateway.config.limits;
    tokio::spawn(async move {
        let _busy = busy;
        let sender = Outlet::new(sender, limits.unread_time);
        let passing = Passing { sender, writer, begun, keeper, heard: String::new(), asked: bytes };
        passing.run(asked, id, limits.answer_time).await;
    });
    answer
}

/// The next delta.
async fn next(first: &mut Option<ModelDelta>, deltas: &mut mpsc::UnboundedReceiver<ModelDelta>) -> Option<ModelDelta> {
    match first.take() {
        Some(delta) => Some(delta),
        None => deltas.recv().await,
    }
}

struct Passing {
    sender: Outlet,
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

    /// Ends an answer that cannot be completed.
    async fn broken(mut self, why: &str) {
        let event = self.writer.error(ErrorKind::BadUpstream, why);
        self.begun.so_far(partial(self.heard));
        let done = self.begun.broke_off(why);
        let text = missed_comment(&done).unwrap_or_default() + &event;
        // The client may have gone.
        let _ = self.sender.send(Bytes::from(text)).await;
    }

    async fn run(mut self, streaming: Streaming, id: String, limit: Duration) {
        let Streaming { mut first, mut deltas, mut asking } = streaming;
        let deadline = tokio::time::Instant::now() + limit;
        let begins = self.writer.begin();
        let mut gone = self.send(begins).await.is_err();
        while !gone {
            let delta = tokio::select! {
                delta = next(&mut first, &mut deltas) => delta,
                () = self.sender.closed() => {
                    gone = true;
                    break;
                }
                () = tokio::time::sleep_until(deadline) => return self.broken(&too_long(limit)).await,
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
            drop(asking);
            self.begun.so_far(partial(self.heard));
            self.begun.broke_off("the client has gone");
            return;
        }
        match (&mut asking.0).await {
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
