//! An environment that counts turns.

use crate::identity::{about, identity};
use async_trait::async_trait;
use clawhost_core::{
    Context, Environment, EnvironmentDescription, EpisodeRecords, Failure, FailureKind, LiveEpisode, Message, Opening,
    Origin, PluginIdentity, Role, Signal, Split, StartParams, Status, StepResult, Task, code, derive_seed,
};
use clawhost_play::Cancel;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Episodes end after a fixed number of turns. Some of them fail.
pub struct Counting {
    /// Its identity.
    pub identity: PluginIdentity,
    /// Its description.
    pub description: EnvironmentDescription,
    /// Turns per episode.
    pub turns: u32,
    /// Number of tasks.
    pub tasks: u64,
    /// Whether listing tasks fails.
    pub unreadable: bool,
    /// How many of ten episodes fail in their first step.
    pub failing: u64,
    /// The run is cancelled when this number of episodes have begun. Later episodes wait at their start until they are dropped.
    pub cancel_at: Option<(u64, Cancel)>,
    /// Number of episodes that were begun.
    pub begun: AtomicU64,
}

impl Default for Counting {
    fn default() -> Self {
        Self {
            identity: identity("counting"),
            description: EnvironmentDescription {
                about: about("counting"),
                splits: vec![Split { name: "train".into(), tasks: 1000 }],
            },
            turns: 3,
            tasks: 1000,
            unreadable: false,
            failing: 0,
            cancel_at: None,
            begun: AtomicU64::new(0),
        }
    }
}

#[async_trait]
impl Environment for Counting {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn description(&self) -> &EnvironmentDescription {
        &self.description
    }

    async fn tasks(&self, _: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>, Failure> {
        if self.unreadable {
            return Err(Failure::new(FailureKind::Plugin, code::PLUGIN_ERROR, "no list today"));
        }
        let end = self.tasks.min(offset + u64::from(limit));
        let task = |position| Task {
            id: format!("t{position}"),
            part: None,
            split: split.into(),
            input: format!("task {position}"),
            reference: Some("\"canary-4711\"".into()),
            tags: vec![],
            extra: vec![],
        };
        Ok((offset..end).map(task).collect())
    }

    async fn start(&self, params: StartParams) -> Result<(Box<dyn LiveEpisode>, Opening), Failure> {
        assert_eq!(params.task.reference, None, "an environment never sees a reference");
        let begun = self.begun.fetch_add(1, Ordering::Relaxed);
        if let Some((at, cancel)) = &self.cancel_at
            && begun >= *at
        {
            cancel.request();
            // Never ends: the cancelled run drops this episode.
            return std::future::pending().await;
        }
        let seed = params.context.seed;
        let fails = derive_seed(seed, "fails", 0) % 10 < self.failing;
        let observation = vec![Message::text(Role::User, Origin::Environment, format!("{} {seed}", params.task.input))];
        let live = Counted { turn: 0, turns: self.turns, fails, index: params.task.id.trim_start_matches('t').into() };
        Ok((
            Box::new(live),
            Opening { observation, tools: vec![], system_hint: Some("count".into()), artefacts: vec![] },
        ))
    }
}

struct Counted {
    turn: u32,
    turns: u32,
    fails: bool,
    index: String,
}

#[async_trait]
impl LiveEpisode for Counted {
    async fn step(&mut self, action: &Message, _: &[Message]) -> Result<StepResult, Failure> {
        if self.fails {
            return Err(Failure::new(FailureKind::Trap, code::UNREACHABLE, "counting in `step`: gave up"));
        }
        self.turn += 1;
        let text = format!("turn {} after {}", self.turn, action.plain_text());
        Ok(StepResult {
            observation: vec![Message::text(Role::User, Origin::Environment, text)],
            status: if self.turn >= self.turns { Status::Terminated } else { Status::Running },
            signals: vec![Signal { name: "turn".into(), value: f64::from(self.turn) }],
            artefacts: vec![],
        })
    }

    fn last_fuel(&self) -> Option<u64> {
        Some(u64::from(self.turn))
    }

    fn take_records(&mut self) -> EpisodeRecords {
        let odd = if self.index == "19" { None } else { Some(b"x".to_vec()) };
        let notes = BTreeMap::from([("last".into(), Some(self.index.clone().into_bytes())), ("odd".into(), odd)]);
        EpisodeRecords { notes, ..EpisodeRecords::default() }
    }
}
