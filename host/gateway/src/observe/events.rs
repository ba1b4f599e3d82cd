//! What happens in a gateway, as events: the latest are kept in a ring, which every reader follows at its own pace.

use clawhost_core::{EpisodeId, RunId};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, watch};

/// Events that are kept: a reader that comes back within seconds misses nothing, and they take a few megabytes.
const KEPT: usize = 4_096;
/// Readers at the same time. Each has a task and the buffers of its connection.
const READERS: usize = 256;

/// A session of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEvent {
    /// Its name.
    pub session: String,
    /// The agent.
    pub agent: String,
    /// The alias that the agent asks for.
    pub alias: String,
    /// The run of its episode.
    pub run: RunId,
    /// Its episode.
    pub episode: EpisodeId,
}

/// An exchange of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangeEvent {
    /// The session.
    #[serde(flatten)]
    pub session: SessionEvent,
    /// Position in the session, from 0.
    pub position: u32,
    /// Whether the answer is whole.
    pub is_complete: bool,
    /// Tokens of the prompt, if the answer is whole.
    pub input_tokens: u64,
    /// Tokens of the answer, if it is whole.
    pub output_tokens: u64,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelEvent {
    /// Its kind, as `openai`.
    pub provider: String,
    /// Its name there.
    pub model: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GatewayEvent {
    /// An exchange is in the record.
    ExchangeRecorded(ExchangeEvent),
    /// An exchange could not be recorded.
    ExchangeMissed(ExchangeEvent),
    /// A session opened.
    SessionOpened(SessionEvent),
    /// A session ended.
    SessionEnded(SessionEvent),
    /// The episode of a session that ended is in the database.
    EpisodeMade(SessionEvent),
    /// Feedback on a session was taken.
    FeedbackGiven(SessionEvent),
    /// A request had no key, or a wrong one.
    KeyRefused {
        /// Path of the request.
        path: String,
    },
    /// A model rests after failures in a row.
    ModelDown(ModelEvent),
    /// A model answers again.
    ModelUp(ModelEvent),
    /// The models were replaced: their list, or the weights behind one.
    ModelsChanged,
    /// Other sessions wait for the next step of weights, a step has ended, or training has another problem.
    TrainingChanged {
        /// The alias of the model that learns.
        alias: String,
    },
    /// The reader fell behind, and its stream ends.
    Lost {
        /// Events that it missed.
        events: u64,
    },
}

impl GatewayEvent {
    /// The name of its kind.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ExchangeRecorded(_) => "exchange_recorded",
            Self::ExchangeMissed(_) => "exchange_missed",
            Self::SessionOpened(_) => "session_opened",
            Self::SessionEnded(_) => "session_ended",
            Self::EpisodeMade(_) => "episode_made",
            Self::FeedbackGiven(_) => "feedback_given",
            Self::KeyRefused { .. } => "key_refused",
            Self::ModelDown(_) => "model_down",
            Self::ModelUp(_) => "model_up",
            Self::ModelsChanged => "models_changed",
            Self::TrainingChanged { .. } => "training_changed",
            Self::Lost { .. } => "lost",
        }
    }
}

/// An event in the ring.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Number since the start, from 0.
    pub(crate) number: u64,
    /// Unix time in milliseconds.
    pub(crate) at: u64,
    /// Name of the key to whose client it belongs. `None`: the admin alone sees it.
    pub(crate) owner: Option<String>,
    pub(crate) event: GatewayEvent,
}

#[derive(Debug, Default)]
struct Ring {
    kept: VecDeque<Arc<Kept>>,
    /// Number of the next event.
    next: u64,
}

/// What a reader is woken for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Latest {
    /// Number behind the last event.
    pub(crate) next: u64,
    /// Whether the gateway stops.
    pub(crate) is_over: bool,
}

/// Events behind a number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Following {
    /// These, which may be none.
    Events(Vec<Arc<Kept>>),
    /// So many before the oldest one that is kept are lost.
    Lost(u64),
}

/// The events of a gateway.
#[derive(Debug)]
pub(crate) struct Events {
    ring: Mutex<Ring>,
    latest: watch::Sender<Latest>,
    /// Places of readers.
    pub(crate) readers: Arc<Semaphore>,
}

impl Default for Events {
    fn default() -> Self {
        let latest = watch::Sender::new(Latest::default());
        Self { ring: Mutex::default(), latest, readers: Arc::new(Semaphore::new(READERS)) }
    }
}

impl Events {
    /// Adds an event. Wakes readers, and waits for none.
    pub(crate) fn push(&self, at: u64, owner: Option<&str>, event: GatewayEvent) {
        let next = {
            let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
            let number = ring.next;
            if ring.kept.len() == KEPT {
                ring.kept.pop_front();
            }
            ring.kept.push_back(Arc::new(Kept { number, at, owner: owner.map(str::to_owned), event }));
            ring.next += 1;
            ring.next
        };
        if self.latest.receiver_count() > 0 {
            self.latest.send_modify(|latest| latest.next = latest.next.max(next));
        }
    }

    /// The number of the next event.
    pub(crate) fn next(&self) -> u64 {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).next
    }

    /// Up to `most` events from a number on.
    pub(crate) fn from(&self, number: u64, most: usize) -> Following {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = ring.next - ring.kept.len() as u64;
        if number < oldest {
            return Following::Lost(oldest - number);
        }
        let skipped = usize::try_from(number - oldest).unwrap_or(usize::MAX);
        Following::Events(ring.kept.iter().skip(skipped).take(most).cloned().collect())
    }

    /// Wakes when there is more, or when the gateway stops.
    pub(crate) fn wakes(&self) -> watch::Receiver<Latest> {
        self.latest.subscribe()
    }

    /// Ends all readers.
    pub(crate) fn end(&self) {
        self.latest.send_modify(|latest| latest.is_over = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: usize) -> GatewayEvent {
        GatewayEvent::KeyRefused { path: path.to_string() }
    }

    fn numbers(following: Following) -> Vec<u64> {
        match following {
            Following::Events(events) => events.iter().map(|kept| kept.number).collect(),
            Following::Lost(lost) => panic!("lost {lost}"),
        }
    }

    #[test]
    fn a_reader_follows_from_its_number_and_learns_what_it_lost() {
        let events = Events::default();
        assert_eq!(numbers(events.from(0, 10)), [0; 0]);
        (0..3).for_each(|at| events.push(0, None, refused(at)));
        assert_eq!(numbers(events.from(1, 10)), [1, 2]);
        assert_eq!(numbers(events.from(0, 2)), [0, 1]);
        assert_eq!(numbers(events.from(9, 10)), [0; 0], "of another start");
        (0..KEPT).for_each(|at| events.push(0, None, refused(at)));
        assert_eq!(events.from(1, 10), Following::Lost(2));
        assert_eq!(numbers(events.from(3, 1)), [3]);
        assert_eq!(events.next(), KEPT as u64 + 3);
    }

    #[test]
    fn an_event_keeps_its_meaning_as_json() {
        let session = SessionEvent {
            session: "s".into(),
            agent: "a".into(),
            alias: "m".into(),
            run: RunId("run-1".into()),
            episode: EpisodeId("ep-1".into()),
        };
        let exchange = ExchangeEvent { session, position: 2, is_complete: true, input_tokens: 10, output_tokens: 2 };
        let event = GatewayEvent::ExchangeRecorded(exchange);
        let document = serde_json::to_value(&event).unwrap();
        let expect = serde_json::json!({
            "type": "exchange_recorded", "session": "s", "agent": "a", "alias": "m", "run": "run-1", "episode": "ep-1",
            "position": 2, "is_complete": true, "input_tokens": 10, "output_tokens": 2,
        });
        assert_eq!(document, expect);
        assert_eq!(document["type"], event.name());
        assert_eq!(serde_json::from_value::<GatewayEvent>(document).unwrap(), event);
    }
}
