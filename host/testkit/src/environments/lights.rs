//! Lights with a colour. Each colour has one right answer.

use crate::identity::{about, identity};
use async_trait::async_trait;
use clawhost_core::{
    Context, Environment, EnvironmentDescription, Episode, Failure, FailureKind, LiveEpisode, Message, Opening,
    PluginIdentity, Split, StartParams, Status, StepResult, Task, code,
};
use clawhost_play::{Cancel, task_rank};
use std::sync::Mutex;

/// The colours of successive tasks, repeated, in the order in which a learning run plays them. A policy without lessons answers `wait`, which is right for grey and white.
pub const COLOURS: [&str; 4] = ["red", "green", "grey", "white"];
/// A helpful lesson.
pub const RED: &str = "when colour is red: answer stop";
/// Another helpful lesson.
pub const GREEN: &str = "when colour is green: answer go";
/// A lesson without effect.
pub const NEUTRAL: &str = "when colour is grey: answer wait";
/// A harmful lesson.
pub const FALSE: &str = "when colour is white: answer run";

/// The right answer for a colour.
pub fn right(colour: &str) -> &'static str {
    match colour {
        "red" => "stop",
        "green" => "go",
        _ => "wait",
    }
}

/// Whether an episode of this task and seed fails.
pub type Fails = Box<dyn Fn(&Task, u64) -> bool + Send + Sync>;

/// Shows a light, and ends after one answer.
pub struct Lights {
    /// Its identity.
    pub identity: PluginIdentity,
    /// Its description.
    pub description: EnvironmentDescription,
    /// Its hint for the system prompt.
    pub hint: Option<String>,
    /// The colour of a task, by split and place in the order in which a learning run plays the tasks. So the first tasks that
    /// are played have exactly known colours.
    pub colour: fn(&str, u64) -> &'static str,
    /// Whether `colour` takes the place in the published order instead.
    pub sorted: bool,
    /// The right answer, by split and colour.
    pub wanted: fn(&str, &str) -> &'static str,
    /// Whether an episode fails in its step.
    pub fails: Fails,
    /// Whether a step fails, by split and answer.
    pub breaks: fn(&str, &str) -> bool,
    /// Whether an episode fails to start.
    pub refuses: Fails,
    /// The run is cancelled when the episode with this number begins. This one and later ones wait at their start until they are dropped.
    pub cancel_at: Mutex<Option<(usize, Cancel)>>,
    /// Task and seed of every begun episode.
    pub begun: Mutex<Vec<(String, u64)>>,
}

impl Lights {
    /// Lights with these splits and their numbers of tasks.
    pub fn new(splits: &[(&str, u64)]) -> Self {
        let splits = splits.iter().map(|(name, tasks)| Split { name: (*name).into(), tasks: *tasks }).collect();
        Self {
            identity: identity("lights"),
            description: EnvironmentDescription { about: about("lights"), splits },
            hint: None,
            colour: |_, position| COLOURS[position as usize % COLOURS.len()],
            sorted: false,
            wanted: |_, colour| right(colour),
            fails: Box::new(|_, _| false),
            breaks: |_, _| false,
            refuses: Box::new(|_, _| false),
            cancel_at: Mutex::default(),
            begun: Mutex::default(),
        }
    }
}

impl Default for Lights {
    fn default() -> Self {
        Self::new(&[("train", 400), ("val", 400), ("test", 400)])
    }
}

#[async_trait]
impl Environment for Lights {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn description(&self) -> &EnvironmentDescription {
        &self.description
    }

    async fn tasks(&self, context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>, Failure> {
        let count = self.description.splits.iter().find(|known| known.name == split).map_or(0, |known| known.tasks);
        let rank = |position| task_rank(context.seed, split, &format!("{split}-{position}"));
        let mut ranks: Vec<u64> = (0..count).map(rank).collect();
        ranks.sort_unstable();
        let place = |position| match self.sorted {
            true => position,
            false => ranks.partition_point(|other| *other < rank(position)) as u64,
        };
        let task = |position| {
            let colour = (self.colour)(split, place(position));
            Task {
                id: format!("{split}-{position}"),
                part: None,
                split: split.into(),
                input: format!("light {}\ncolour: {colour}", place(position)),
                reference: Some(format!("\"canary {}\"", (self.wanted)(split, colour))),
                tags: vec![],
                extra: vec![],
            }
        };
        Ok((offset..count.min(offset + u64::from(limit))).map(task).collect())
    }

    async fn start(&self, params: StartParams) -> Result<(Box<dyn LiveEpisode>, Opening), Failure> {
        assert_eq!(params.task.reference, None, "an environment never sees a reference");
        let (task, seed) = (params.task, params.context.seed);
        let begun = {
            let mut begun = self.begun.lock().unwrap();
            begun.push((task.id.clone(), seed));
            begun.len()
        };
        let cancel = self.cancel_at.lock().unwrap().clone();
        if let Some((at, cancel)) = cancel
            && begun >= at
        {
            cancel.request();
            // Never ends: the cancelled run drops this episode.
            return std::future::pending().await;
        }
        if (self.refuses)(&task, seed) {
            return Err(Failure::new(FailureKind::Plugin, code::PLUGIN_ERROR, "no light today"));
        }
        let opening = Opening { system_hint: self.hint.clone(), ..Opening::text(task.input.clone()) };
        let live = Light { fails: (self.fails)(&task, seed), breaks: self.breaks, split: task.split };
        Ok((Box::new(live), opening))
    }
}

struct Light {
    fails: bool,
    breaks: fn(&str, &str) -> bool,
    split: String,
}

#[async_trait]
impl LiveEpisode for Light {
    async fn step(&mut self, action: &Message, _: &[Message]) -> Result<StepResult, Failure> {
        // Lets other episodes run: the order must not matter.
        tokio::task::yield_now().await;
        if self.fails || (self.breaks)(&self.split, &action.plain_text()) {
            return Err(Failure::new(FailureKind::Trap, code::UNREACHABLE, "the bulb broke"));
        }
        Ok(StepResult { observation: vec![], status: Status::Terminated, signals: vec![], artefacts: vec![] })
    }

    fn last_fuel(&self) -> Option<u64> {
        Some(1)
    }
}

/// Whether an episode's last answer is right.
pub fn is_right(episode: &Episode) -> bool {
    let said = episode.turns.last().unwrap().action.plain_text();
    episode.task.reference.as_deref() == Some(format!("\"canary {said}\"").as_str())
}
