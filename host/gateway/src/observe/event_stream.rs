//! `/v1/events`: the events of a gateway as an event stream (SSE). A reader costs a task and holds nothing up: it reads from the ring at
//! its own pace, and is sent away if it falls behind the ring or does not read.

use super::events::{Following, GatewayEvent, Kept, Latest};
use crate::http::{Inner, Refusal, Sees, stream_head};
use axum::body::Body;
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use clawhost_core::json_escaped;
use clawhost_wire::{ErrorKind, sse};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// The header with the id of the last event that a client has.
const LAST_EVENT: &str = "last-event-id";
/// Events of one write.
const AT_ONCE: usize = 64;
/// How long events gather before they are written: one write for all of them.
const GATHER: Duration = Duration::from_millis(20);
/// Silence after which a comment is sent, so that nothing on the way takes the connection for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a write may wait for a reader that does not read.
const PATIENCE: Duration = Duration::from_secs(30);
/// Seconds after which a reader without a place may try again.
const RETRY_SECONDS: u64 = 5;

/// The data of an event.
#[derive(Serialize)]
struct Data<'a> {
    /// Unix time in milliseconds.
    at: u64,
    #[serde(flatten)]
    event: &'a GatewayEvent,
}

/// One reader.
struct Reader {
    gateway: Arc<Inner>,
    /// Its headers: whether its key is still known is checked before each write.
    headers: HeaderMap,
    /// Number of its next event.
    next: u64,
    sender: mpsc::Sender<Bytes>,
}

/// The number behind the last event that a client has. One of another start of the gateway does not count.
fn continues(last: &str, start: &str) -> Option<u64> {
    let number = last.trim().strip_prefix(start)?.strip_prefix('-')?;
    number.parse::<u64>().ok()?.checked_add(1)
}

/// Streams events from now on, or from the last event that the client names.
pub(crate) fn stream(gateway: &Arc<Inner>, headers: HeaderMap) -> Result<Response<Body>, Refusal> {
    gateway.guard.address(&headers)?;
    gateway.access.sees(&headers)?;
    let events = &gateway.recorder.events;
    let Ok(place) = events.readers.clone().try_acquire_owned() else {
        let refusal = Refusal::new(ErrorKind::TooMany, "too many clients read events; try again");
        return Err(Refusal { retry_after: Some(RETRY_SECONDS), ..refusal });
    };
    let last = headers.get(LAST_EVENT).and_then(|value| value.to_str().ok());
    let next = match last {
        None => events.next(),
        // An unknown id is one of an earlier start: everything of this one is new.
        Some(last) => continues(last, &gateway.start_name()).unwrap_or(0),
    };
    let wakes = events.wakes();
    let (sender, pieces) = mpsc::channel(1);
    let reader = Reader { gateway: gateway.clone(), headers, next, sender };
    tokio::spawn(async move {
        let _place = place;
        reader.run(wakes).await;
    });
    Ok(stream_head(pieces))
}

impl Reader {
    async fn run(mut self, mut wakes: watch::Receiver<Latest>) {
        // The head is sent at once.
        if !self.send(": clawhost events\n\n".to_owned()).await {
            return;
        }
        loop {
            let is_over = wakes.borrow_and_update().is_over;
            // A key that was removed opens nothing any more.
            let Ok(sees) = self.gateway.access.sees(&self.headers) else { return };
            let events = match self.gateway.recorder.events.from(self.next, AT_ONCE) {
                Following::Lost(lost) => {
                    let event = GatewayEvent::Lost { events: lost };
                    let data = serde_json::to_string(&event).unwrap_or_default();
                    self.send(sse::write(event.name(), &data)).await;
                    return;
                }
                Following::Events(events) => events,
            };
            if let Some(last) = events.last() {
                self.next = last.number + 1;
                let text: String = events.iter().filter(|kept| sees.shows(kept)).map(|kept| self.text(kept)).collect();
                if !text.is_empty() && !self.send(text).await {
                    return;
                }
                continue;
            }
            if is_over {
                return;
            }
            tokio::select! {
                woken = wakes.changed() => match woken {
                    Ok(()) => tokio::time::sleep(GATHER).await,
                    Err(_) => return,
                },
                () = tokio::time::sleep(KEEP_ALIVE) => {
                    if !self.send(": keep-alive\n\n".to_owned()).await {
                        return;
                    }
                }
                () = self.sender.closed() => return,
            }
        }
    }

    fn text(&self, kept: &Kept) -> String {
        let data = Data { at: kept.at, event: &kept.event };
        let data = serde_json::to_string(&data).unwrap_or_default();
        let data = json_escaped(&data);
        let data = self.gateway.secrets.secrets().scrub(&data).into_owned();
        format!("id: {}-{}\n{}", self.gateway.start_name(), kept.number, sse::write(kept.event.name(), &data))
    }

    /// Sends a text. Returns whether the reader is still there.
    async fn send(&self, text: String) -> bool {
        let sent = tokio::time::timeout(PATIENCE, self.sender.send(Bytes::from(text))).await;
        matches!(sent, Ok(Ok(())))
    }
}

impl Sees {
    /// Whether an event is for this reader.
    fn shows(&self, kept: &Kept) -> bool {
        match self {
            Self::All => true,
            Self::Of(owner) => kept.owner.as_ref() == Some(owner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_continues_behind_an_event_of_this_start() {
        let check = |last: &str, expect: Option<u64>| assert_eq!(continues(last, "0a"), expect, "{last}");
        check("0a-7", Some(8));
        check(" 0a-7 ", Some(8));
        check("0b-7", None);
        check("7", None);
        check("0a-x", None);
        check("0a-18446744073709551615", None);
    }
}
