//! The events of a gateway as an event stream (SSE): at `/v1/events` for those who have a key, and for the page of the gateway. A reader costs a
//! task and holds nothing up: it reads from the ring at its own pace, and is sent away if it falls behind the ring or does not read.

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

/// How a reader shows who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// By a key.
    Key,
    /// By the cookie of the page, which the admin has.
    Login,
}

impl Pass {
    /// Whose events a reader may see now.
    fn sees(self, gateway: &Inner, headers: &HeaderMap) -> Result<Sees, Refusal> {
        match self {
            Self::Key => gateway.access.sees(headers),
            Self::Login => {
                let ended = || Refusal::new(ErrorKind::Unauthenticated, "the login has ended");
                gateway.logins.visitor(headers, gateway.now_ms()).map(|_| Sees::All).ok_or_else(ended)
            }
        }
    }
}

/// One reader.
struct Reader {
    gateway: Arc<Inner>,
    pass: Pass,
    /// Its headers: whether its key or its login is still known is checked before each write.
    headers: HeaderMap,
    /// Number of its next event.
    next: u64,
    sender: mpsc::Sender<Bytes>,
}

/// The id of the event with this number.
fn id(start: &str, number: u64) -> String {
    format!("{start}-{number}")
}

/// The number of an event by its id. One of another start of the gateway does not count.
fn number(id: &str, start: &str) -> Option<u64> {
    id.trim().strip_prefix(start)?.strip_prefix('-')?.parse().ok()
}

/// The id of the next event.
pub(crate) fn next_id(gateway: &Inner) -> String {
    id(&gateway.start_name(), gateway.recorder.events.next())
}

/// Streams events from now on, or behind the last event that the client names.
pub(crate) fn stream(gateway: &Arc<Inner>, headers: HeaderMap) -> Result<Response<Body>, Refusal> {
    let last = headers.get(LAST_EVENT).and_then(|value| value.to_str().ok());
    let next = match last {
        None => gateway.recorder.events.next(),
        // An unknown id is one of an earlier start: everything of this one is new.
        Some(last) => number(last, &gateway.start_name()).and_then(|number| number.checked_add(1)).unwrap_or(0),
    };
    open(gateway, headers, Pass::Key, next)
}

/// Streams events to the page of the gateway, from the one with this id on. An id that is none, or one of an earlier start, stands for all.
pub(crate) fn stream_to_page(
    gateway: &Arc<Inner>,
    headers: HeaderMap,
    from: Option<&str>,
) -> Result<Response<Body>, Refusal> {
    let next = from.and_then(|from| number(from, &gateway.start_name())).unwrap_or(0);
    open(gateway, headers, Pass::Login, next)
}

fn open(gateway: &Arc<Inner>, headers: HeaderMap, pass: Pass, next: u64) -> Result<Response<Body>, Refusal> {
    gateway.guard.address(&headers)?;
    pass.sees(gateway, &headers)?;
    let events = &gateway.recorder.events;
    let Ok(place) = events.readers.clone().try_acquire_owned() else {
        let refusal = Refusal::new(ErrorKind::TooMany, "too many clients read events; try again");
        return Err(Refusal { retry_after: Some(RETRY_SECONDS), ..refusal });
    };
    let wakes = events.wakes();
    let (sender, pieces) = mpsc::channel(1);
    let reader = Reader { gateway: gateway.clone(), pass, headers, next, sender };
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
            // A key that was removed opens nothing any more, nor does a login that has ended.
            let Ok(sees) = self.pass.sees(&self.gateway, &self.headers) else { return };
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
        format!("id: {}\n{}", id(&self.gateway.start_name(), kept.number), sse::write(kept.event.name(), &data))
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
    fn an_event_is_known_by_its_id_within_a_start() {
        let check = |id: &str, expect: Option<u64>| assert_eq!(number(id, "0a"), expect, "{id}");
        check(&id("0a", 7), Some(7));
        check(" 0a-7 ", Some(7));
        check("0b-7", None);
        check("7", None);
        check("0a-x", None);
        check("0a-18446744073709551616", None);
    }
}
