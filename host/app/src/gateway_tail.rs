//! Follows what agents say through a running gateway: its events name the exchanges, and the database has their content.

use crate::background::running_gateway;
use crate::gateway_watch::{GatewayEvents, GatewayWatch, SeenEvent};
use crate::{AppError, Workspace};
use clawhost_capture::{Answer, Exchange};
use clawhost_core::{Message, Role, StoreReader};
use clawhost_gateway::{ExchangeEvent, GatewayEvent, SessionEvent};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the database is looked at for an exchange that was recorded: a gateway takes it over within about 50 ms.
const LOOK: Duration = Duration::from_millis(25);
/// How often at most. Then the exchange is shown without its content: the database is locked or full.
const LOOKS: usize = 200;

/// Pause between two attempts to follow a gateway again.
const REOPEN_PAUSE: Duration = Duration::from_millis(250);
/// Attempts: the requests of a gateway that ends have half a minute.
const REOPENINGS: usize = 240;

/// What somebody said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Said {
    /// The role: `user`, `assistant`, `tool` or `system`.
    pub who: &'static str,
    /// The text, with tool calls as `calls NAME(ARGUMENTS)`.
    pub text: String,
}

/// An exchange that was followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TailedExchange {
    /// Unix time in milliseconds at which it ended.
    pub at: u64,
    /// Its session.
    #[serde(flatten)]
    pub session: SessionEvent,
    /// Position in the session, from 0.
    pub turn: u32,
    /// Whether it is recorded.
    pub recorded: bool,
    /// Whether the answer is whole.
    pub complete: bool,
    /// Why it is not, if that is known.
    pub why: Option<String>,
    /// What was said in it and not before, in order.
    pub said: Vec<Said>,
}

/// A line of what happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TailLine {
    /// An exchange ended.
    Exchange(TailedExchange),
    /// A session is an episode now.
    Episode {
        /// Unix time in milliseconds.
        at: u64,
        /// The session.
        #[serde(flatten)]
        session: SessionEvent,
    },
    /// This reader was too slow: so many events are not shown.
    Lost {
        /// How many.
        events: u64,
    },
}

/// Follows a gateway.
#[derive(Debug)]
pub struct GatewayTail {
    folder: PathBuf,
    watch: GatewayWatch,
    events: GatewayEvents,
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn said(message: &Message) -> Said {
    let mut text = message.plain_text();
    for call in &message.tool_calls {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("calls {}({})", call.name, call.arguments));
    }
    Said { who: role(message.role), text }
}

/// What was said in an exchange, and why its answer is not whole.
fn content(exchange: &Exchange) -> (Vec<Said>, Option<String>) {
    let mut all: Vec<Said> = exchange.messages.iter().map(said).collect();
    let why = match &exchange.answer {
        Answer::Complete(response) => {
            all.push(said(&response.message));
            None
        }
        Answer::Incomplete { message, why } => {
            all.extend(message.iter().map(|message| said(message)));
            Some(why.clone())
        }
        Answer::Failed { why, .. } => Some(why.clone()),
    };
    (all, why)
}

/// The content of an exchange in a database, if it is there. The session may have become an episode meanwhile.
fn stored(reader: &dyn StoreReader, event: &ExchangeEvent) -> Result<Option<(Vec<Said>, Option<String>)>, AppError> {
    let SessionEvent { run, episode, .. } = &event.session;
    for document in reader.exchanges(run, episode)? {
        let exchange: Option<Exchange> = serde_json::from_str(&document).ok();
        if let Some(exchange) = exchange.filter(|exchange| exchange.position == event.position) {
            return Ok(Some(content(&exchange)));
        }
    }
    let ended = reader.episode(&format!("{run}/{episode}"))?;
    // An episode has the turns that were answered. Where one is missing, its position tells nothing.
    let turn = ended.as_ref().and_then(|episode| episode.turns.get(event.position as usize));
    Ok(turn.map(|turn| (turn.observation.iter().chain([&turn.action]).map(said).collect(), None)))
}

impl GatewayTail {
    /// Follows the gateway of a data folder from now on.
    ///
    /// # Errors
    /// No gateway runs there, or it does not answer.
    pub async fn new(folder: &Path) -> Result<Self, AppError> {
        let watch = GatewayWatch::new(folder, None)?;
        let events = watch.events().await?;
        Ok(Self { folder: folder.to_owned(), watch, events })
    }

    /// The next line. `None`: the gateway has ended.
    ///
    /// # Errors
    /// The connection broke, or the database cannot be read.
    pub async fn next(&mut self) -> Result<Option<TailLine>, AppError> {
        loop {
            let Some(SeenEvent { at, event }) = self.events.next().await? else {
                match self.reopened().await? {
                    Some(events) => self.events = events,
                    None => return Ok(None),
                }
                continue;
            };
            match event {
                GatewayEvent::ExchangeRecorded(exchange) => {
                    let (said, why) = self.content(&exchange).await?.unwrap_or_default();
                    return Ok(Some(TailLine::Exchange(tailed(at, exchange, true, (said, why)))));
                }
                GatewayEvent::ExchangeMissed(exchange) => {
                    return Ok(Some(TailLine::Exchange(tailed(at, exchange, false, (Vec::new(), None)))));
                }
                GatewayEvent::EpisodeMade(session) => return Ok(Some(TailLine::Episode { at, session })),
                GatewayEvent::Lost { events } => return Ok(Some(TailLine::Lost { events })),
                _ => {}
            }
        }
    }

    /// The events of a gateway that goes on: it has sent this reader away. `None`: it has ended. One that ends answers nobody any more
    /// while its last requests end.
    async fn reopened(&self) -> Result<Option<GatewayEvents>, AppError> {
        for _ in 0..REOPENINGS {
            if running_gateway(&self.folder)?.is_none() {
                return Ok(None);
            }
            if let Ok(events) = self.watch.events().await {
                return Ok(Some(events));
            }
            tokio::time::sleep(REOPEN_PAUSE).await;
        }
        self.watch.events().await.map(Some)
    }

    async fn content(&self, event: &ExchangeEvent) -> Result<Option<(Vec<Said>, Option<String>)>, AppError> {
        for _ in 0..LOOKS {
            let reader = Workspace::read(&self.folder)?;
            let found = stored(&*reader, event)?;
            if found.is_some() {
                return Ok(found);
            }
            drop(reader);
            tokio::time::sleep(LOOK).await;
        }
        Ok(None)
    }
}

fn tailed(at: u64, event: ExchangeEvent, recorded: bool, (said, why): (Vec<Said>, Option<String>)) -> TailedExchange {
    let ExchangeEvent { session, position, is_complete, .. } = event;
    TailedExchange { at, session, turn: position, recorded, complete: is_complete, why, said }
}
