//! Passes a streamed answer on event by event, as it came, and records it before its last event.

use super::body::too_long;
use super::exchange::{complete, label};
use super::outlet::Outlet;
use super::responses::Keeper;
use super::serve::Inner;
use super::shape::Shape;
use crate::capture::{Begun, Done};
use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use clawhost_core::{Message, ModelDelta, Origin, Role, Secrets};
use clawhost_providers::UpstreamAnswer;
use clawhost_wire::sse::SseCutter;
use clawhost_wire::{AnswerHead, ErrorKind, StreamedAnswer};
use hyper::body::Frame;
use serde_json::Value;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Pieces of an answer that wait for a slow client. The upstream is read no further while they wait.
const WAITING: usize = 32;

/// A body whose pieces come from a channel.
pub(crate) struct Pieces(pub(crate) mpsc::Receiver<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// The head of a streamed answer.
pub(crate) fn stream_head(pieces: mpsc::Receiver<Bytes>) -> Response<Body> {
    let mut answer = Response::new(Body::new(Pieces(pieces)));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

/// The comment before the last event of an answer that was not recorded.
pub(crate) fn missed_comment(done: &Done) -> Option<String> {
    match done {
        Done::Recorded | Done::Off => None,
        Done::Missed(why) => {
            let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            Some(format!(": clawhost did not record this exchange: {why}\n\n"))
        }
    }
}

/// An answer that is passed on.
pub(crate) struct Passed {
    pub(crate) shape: Shape,
    pub(crate) begun: Begun,
    pub(crate) keeper: Option<Keeper>,
    /// Whether the report of usage was not requested by the client.
    pub(crate) drops_usage: bool,
    /// Bytes of the request.
    pub(crate) asked: usize,
}

/// Passes an answer on.
pub(crate) fn stream(gateway: &Arc<Inner>, mut upstream: UpstreamAnswer, mut passed: Passed) -> Response<Body> {
    let (sender, pieces) = mpsc::channel(WAITING);
    let mut answer = stream_head(pieces);
    for (name, value) in &std::mem::take(&mut upstream.headers) {
        answer.headers_mut().insert(name.clone(), value.clone());
    }
    label(&mut answer, &passed.begun);
    passed.begun.streams();
    let Passed { shape, begun, keeper, drops_usage, asked } = passed;
    let relay = Relay {
        shape,
        sender: Outlet::new(sender, gateway.config.limits.unread_time),
        cutter: SseCutter::default(),
        reader: shape.reader(),
        begun,
        keeper,
        heard: String::new(),
        id: None,
        events: 0,
        drops_usage,
        secrets: gateway.secrets.secrets(),
        asked,
    };
    let limit = gateway.config.limits.answer_time;
    let busy = gateway.busy();
    tokio::spawn(async move {
        let _busy = busy;
        relay.run(upstream, limit).await;
    });
    answer
}

struct Relay {
    shape: Shape,
    sender: Outlet,
    cutter: SseCutter,
    reader: StreamedAnswer,
    begun: Begun,
    keeper: Option<Keeper>,
    /// The text so far, for the record of an answer that breaks off.
    heard: String,
    id: Option<String>,
    /// Events so far.
    events: u64,
    drops_usage: bool,
    secrets: Secrets,
    asked: usize,
}

/// How a piece of the stream was taken.
enum Taken {
    More,
    /// The last event, which waits for the record.
    Over(Vec<u8>),
    ClientGone,
    Broken(String),
}

impl Relay {
    async fn run(mut self, mut upstream: UpstreamAnswer, limit: std::time::Duration) {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let chunk = tokio::select! {
                chunk = upstream.chunk() => chunk,
                () = self.sender.closed() => return self.client_gone(),
                () = tokio::time::sleep_until(deadline) => {
                    return self.broken(too_long(limit)).await;
                }
            };
            let taken = match chunk {
                Ok(Some(chunk)) => self.take(&chunk).await,
                Ok(None) => Taken::Broken("the upstream ended the stream before the answer was complete".to_owned()),
                Err(error) => Taken::Broken(error.to_string()),
            };
            match taken {
                Taken::More => {}
                Taken::Over(last) => return self.over(last).await,
                Taken::ClientGone => return self.client_gone(),
                Taken::Broken(why) => return self.broken(why).await,
            }
        }
    }

    async fn take(&mut self, chunk: &[u8]) -> Taken {
        let events = match self.cutter.push(chunk) {
            Ok(events) => events,
            Err(error) => return Taken::Broken(error.to_string()),
        };
        for mut event in events {
            self.events += 1;
            let said = self.reader.push(&event);
            if !self.secrets.is_empty() {
                let text = String::from_utf8_lossy(&event);
                if self.secrets.are_in(&text) {
                    event = self.secrets.scrub(&text).into_owned().into_bytes();
                }
            }
            match said {
                Ok(deltas) => self.note(&event, &deltas),
                Err(error) => {
                    // An error of the upstream is passed on as it came.
                    if self.sender.send(Bytes::from(event)).await.is_err() {
                        return Taken::ClientGone;
                    }
                    return Taken::Broken(self.secrets.scrub(&error.to_string()).into_owned());
                }
            }
            if self.reader.is_over() {
                return Taken::Over(event);
            }
            if self.drops_usage && is_usage(&event) {
                continue;
            }
            if self.sender.send(Bytes::from(event)).await.is_err() {
                return Taken::ClientGone;
            }
        }
        Taken::More
    }

    fn note(&mut self, event: &[u8], deltas: &[ModelDelta]) {
        if self.id.is_none() {
            self.id = id_in(event);
        }
        for delta in deltas {
            self.begun.first_part();
            if let ModelDelta::Text(text) = delta {
                self.heard.push_str(text);
            }
        }
    }

    /// Records the answer, then releases its last event.
    async fn over(self, last: Vec<u8>) {
        let Self { shape, sender, reader, mut begun, keeper, heard, id, events, asked, .. } = self;
        let done = match reader.finish() {
            Ok((_, response)) => {
                let object = data(&last).and_then(|mut data| Some(data.get_mut("response")?.take()));
                if let (Some(keeper), Some(object)) = (keeper, object) {
                    keeper.keep(&mut begun, object);
                }
                begun.end(complete(response, asked), id)
            }
            Err(error) => {
                begun.so_far(partial(heard));
                let event = shape.error_event(ErrorKind::BadUpstream, &error.to_string(), (&head_of(id), events));
                begun.broke_off(&error.to_string());
                // The client may have gone.
                let _ = sender.send(Bytes::from(event)).await;
                return;
            }
        };
        if let Some(comment) = missed_comment(&done) {
            let _ = sender.send(Bytes::from(comment)).await;
        }
        let _ = sender.send(Bytes::from(last)).await;
    }

    fn client_gone(mut self) {
        self.begun.so_far(partial(self.heard));
        self.begun.broke_off("the client has gone");
    }

    async fn broken(mut self, why: String) {
        self.begun.so_far(partial(self.heard));
        let done = self.begun.broke_off(&why);
        let mut last = missed_comment(&done).unwrap_or_default();
        last.push_str(&self.shape.error_event(ErrorKind::BadUpstream, &why, (&head_of(self.id.clone()), self.events)));
        // The client may have gone.
        let _ = self.sender.send(Bytes::from(last)).await;
    }
}

/// The metadata of an answer of an endpoint, as far as its end needs them.
fn head_of(id: Option<String>) -> AnswerHead {
    AnswerHead { id: id.unwrap_or_default(), ..AnswerHead::default() }
}

pub(crate) fn partial(heard: String) -> Message {
    Message::text(Role::Assistant, Origin::Policy, heard)
}

/// The data of an event as JSON.
fn data(event: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(event).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("data:"))?;
    serde_json::from_str(line.trim()).ok()
}

/// The id of the answer, which its first event has.
fn id_in(event: &[u8]) -> Option<String> {
    let data = data(event)?;
    let id = data.get("id").or_else(|| data.pointer("/message/id")).or_else(|| data.pointer("/response/id"))?;
    id.as_str().map(str::to_owned)
}

/// Whether an event is the report of usage at the end of a stream: it has no choice.
fn is_usage(event: &[u8]) -> bool {
    let has = |part: &[u8]| event.windows(part.len()).any(|window| window == part);
    // Cheap first: nearly all events have a delta.
    if has(b"\"delta\"") || !has(b"\"usage\"") {
        return false;
    }
    let choices = data(event).and_then(|data| Some(data.get("choices")?.as_array()?.is_empty()));
    choices.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_report_of_usage_is_dropped() {
        let check = |data: &str, drops: bool| {
            assert_eq!(is_usage(format!("data: {data}\n\n").as_bytes()), drops, "{data}");
        };
        check(r#"{"id":"a","choices":[],"usage":{"prompt_tokens":1}}"#, true);
        check(r#"{"choices": [ ], "usage": {}}"#, true);
        check(r#"{"choices":[{"delta":{"content":"usage"}}],"usage":null}"#, false);
        check(r#"{"choices":[],"prompt_filter_results":[]}"#, false);
        check("[DONE]", false);
    }

    #[test]
    fn the_id_of_an_answer_is_found_in_both_dialects() {
        let check = |event: &str, id: Option<&str>| assert_eq!(id_in(event.as_bytes()).as_deref(), id, "{event}");
        check("data: {\"id\":\"chatcmpl-1\"}\n\n", Some("chatcmpl-1"));
        check("data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\n", Some("resp_1"));
        check("event: message_start\ndata: {\"message\":{\"id\":\"msg_1\"}}\n\n", Some("msg_1"));
        check(": ping\n\n", None);
    }
}
