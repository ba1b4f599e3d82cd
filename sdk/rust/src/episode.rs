//! Recorded episodes, as rewards and reflectors read them.

use crate::bindings::observer::clawhost::episode::view;
use crate::{Artefact, Message, Origin, Signal, Task, ToolSpec};

/// How the line of a correction begins.
const CORRECTION: &str = "correction: ";

pub use view::{Ending, Turn};

/// One recorded episode. On the host it is read lazily: only requested parts are copied into the guest.
#[derive(Debug)]
pub struct Episode(Source);

#[derive(Debug)]
enum Source {
    Host(view::EpisodeView),
    Fixture(Box<Fixture>),
}

#[derive(Debug, Clone)]
pub(crate) struct Fixture {
    pub(crate) id: String,
    pub(crate) task: Task,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) closing: Vec<Message>,
    pub(crate) artefacts: Vec<Artefact>,
    pub(crate) ending: Ending,
    pub(crate) reward: Option<f64>,
}

impl Episode {
    pub(crate) fn from_host(view: view::EpisodeView) -> Self {
        Self(Source::Host(view))
    }

    pub(crate) fn from_fixture(fixture: Fixture) -> Self {
        Self(Source::Fixture(Box::new(fixture)))
    }

    /// Unique inside its run.
    pub fn id(&self) -> String {
        match &self.0 {
            Source::Host(view) => view.id(),
            Source::Fixture(fixture) => fixture.id.clone(),
        }
    }

    /// The task as it was published before the episode. Rewards see its `reference`.
    pub fn task(&self) -> Task {
        match &self.0 {
            Source::Host(view) => view.task(),
            Source::Fixture(fixture) => fixture.task.clone(),
        }
    }

    /// The available tools.
    pub fn tools(&self) -> Vec<ToolSpec> {
        match &self.0 {
            Source::Host(view) => view.tools(),
            Source::Fixture(fixture) => fixture.tools.clone(),
        }
    }

    /// The environment's name.
    pub fn environment(&self) -> String {
        match &self.0 {
            Source::Host(view) => view.environment(),
            Source::Fixture(_) => "fixture".to_owned(),
        }
    }

    /// The number of turns.
    pub fn turn_count(&self) -> u32 {
        match &self.0 {
            Source::Host(view) => view.turn_count(),
            Source::Fixture(fixture) => fixture.turns.len() as u32,
        }
    }

    /// All turns from `start` on, at most `count`.
    pub fn turns_from(&self, start: u32, count: u32) -> Vec<Turn> {
        match &self.0 {
            Source::Host(view) => {
                // The host returns at most 64 turns at a time. An empty list means the end.
                let mut turns = Vec::new();
                while (turns.len() as u32) < count {
                    let next = view.turns(start + turns.len() as u32, count - turns.len() as u32);
                    if next.is_empty() {
                        break;
                    }
                    turns.extend(next);
                }
                turns
            }
            Source::Fixture(fixture) => {
                fixture.turns.iter().skip(start as usize).take(count as usize).cloned().collect()
            }
        }
    }

    /// All turns.
    pub fn turns(&self) -> Vec<Turn> {
        self.turns_from(0, self.turn_count())
    }

    /// The last turn, if there are any.
    pub fn last_turn(&self) -> Option<Turn> {
        let last = self.turn_count().checked_sub(1)?;
        self.turns_from(last, 1).pop()
    }

    /// The text of the policy's last message; empty if it never acted.
    pub fn last_answer(&self) -> String {
        self.last_turn().map(|turn| turn.action.plain_text()).unwrap_or_default()
    }

    /// The environment's messages after the last action.
    pub fn closing(&self) -> Vec<Message> {
        match &self.0 {
            Source::Host(view) => view.closing(),
            Source::Fixture(fixture) => fixture.closing.clone(),
        }
    }

    /// What the user of a live session says its answers should have been, a text for each correction. The host states them behind the end, for
    /// reflectors: lines `correction: TEXT` of messages of the environment. What the user wrote in the conversation itself is none.
    pub fn corrections(&self) -> Vec<String> {
        let closing = self.closing();
        let stated = closing.iter().filter(|message| message.origin == Origin::Environment);
        let lines: Vec<String> = stated.map(Message::plain_text).collect();
        let texts = lines.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix(CORRECTION));
        texts.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect()
    }

    /// The ending.
    pub fn ending(&self) -> Ending {
        match &self.0 {
            Source::Host(view) => view.ending(),
            Source::Fixture(fixture) => fixture.ending.clone(),
        }
    }

    /// The last value of every signal.
    pub fn signals(&self) -> Vec<Signal> {
        match &self.0 {
            Source::Host(view) => view.signals(),
            Source::Fixture(fixture) => {
                let mut last: Vec<Signal> = Vec::new();
                for signal in fixture.turns.iter().flat_map(|turn| &turn.signals) {
                    last.retain(|known| known.name != signal.name);
                    last.push(signal.clone());
                }
                last
            }
        }
    }

    /// The artefact with this name.
    pub fn artefact(&self, name: &str) -> Option<Artefact> {
        match &self.0 {
            Source::Host(view) => view.artefact(name),
            Source::Fixture(fixture) => fixture.artefacts.iter().rev().find(|known| known.name == name).cloned(),
        }
    }

    /// The reward that the run's reward functions gave it. For reflectors only: `None` in rewards, and where it was not scored.
    pub fn reward(&self) -> Option<f64> {
        match &self.0 {
            Source::Host(view) => view.reward(),
            Source::Fixture(fixture) => fixture.reward,
        }
    }
}

/// Episodes that are judged together.
#[derive(Debug)]
pub struct Group {
    episodes: Vec<Episode>,
}

impl Group {
    pub(crate) fn new(episodes: Vec<Episode>) -> Self {
        Self { episodes }
    }

    /// The episodes, in order.
    pub fn episodes(&self) -> &[Episode] {
        &self.episodes
    }
}
