//! Fakes behind the ports: small, deterministic, and strict about what they must not see.

use async_trait::async_trait;
use clawhost_core::*;
use clawhost_runtime::{Cancel, EpisodeSummary, Observer};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) struct Free;

impl Meter for Free {
    fn spent(&self) -> Usage {
        Usage::default()
    }
}

pub(crate) struct Still;

impl Clock for Still {
    fn now_ms(&self) -> u64 {
        0
    }
    fn monotonic_us(&self) -> u64 {
        0
    }
}

pub(crate) struct Silent;

impl Observer for Silent {
    fn recorded(&self, _: &EpisodeSummary, _: u64, _: u64) {}
}

/// Ends after so many turns; some episodes fail.
pub(crate) struct Counting {
    pub(crate) identity: PluginIdentity,
    pub(crate) description: EnvironmentDescription,
    pub(crate) turns: u32,
    pub(crate) tasks: u64,
    /// Whether its tasks cannot be read.
    pub(crate) unreadable: bool,
    /// Of ten episodes, so many fail in their first step.
    pub(crate) failing: u64,
    /// When so many have begun, the run is stopped.
    pub(crate) cancel_at: Option<(u64, Cancel)>,
    pub(crate) begun: AtomicU64,
}

pub(crate) fn about(name: &str) -> About {
    About {
        name: name.into(),
        version: "1".into(),
        summary: String::new(),
        features: vec![],
        options: vec![],
        extra: vec![],
    }
}

pub(crate) fn identity(name: &str) -> PluginIdentity {
    PluginIdentity { name: name.into(), version: "1".into(), digest: Digest::of(name.as_bytes()) }
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
            // Long enough for the run to notice: this episode is the one that gets cancelled.
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
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

    async fn snapshot(&mut self) -> Result<Snapshot, Failure> {
        Err(Failure::new(FailureKind::Plugin, code::PLUGIN_ERROR, "no snapshots"))
    }

    fn last_fuel(&self) -> Option<u64> {
        Some(u64::from(self.turn))
    }

    fn host_calls(&self) -> Digest {
        Digest::of(b"")
    }

    fn take_records(&mut self) -> EpisodeRecords {
        let odd = if self.index == "19" { None } else { Some(b"x".to_vec()) };
        let notes = BTreeMap::from([("last".into(), Some(self.index.clone().into_bytes())), ("odd".into(), odd)]);
        EpisodeRecords { notes, ..EpisodeRecords::default() }
    }
}

/// Offers tools, and answers calls in an order and manner of its own.
pub(crate) struct Handy {
    identity: PluginIdentity,
    description: EnvironmentDescription,
    /// Everything that reached it: names of calls, and how many answers the host had given already.
    pub(crate) seen: Arc<Mutex<Vec<(Vec<String>, usize)>>>,
}

impl Default for Handy {
    fn default() -> Self {
        let Counting { description, .. } = Counting::default();
        Self { identity: identity("handy"), description, seen: Arc::default() }
    }
}

#[async_trait]
impl Environment for Handy {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn description(&self) -> &EnvironmentDescription {
        &self.description
    }

    async fn tasks(&self, context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>, Failure> {
        Counting::default().tasks(context, split, offset, limit).await
    }

    async fn start(&self, _: StartParams) -> Result<(Box<dyn LiveEpisode>, Opening), Failure> {
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: String::new(),
            input_schema: "{}".into(),
            extra: vec![],
        };
        let observation = vec![Message::text(Role::User, Origin::Environment, "go")];
        let opening =
            Opening { observation, tools: vec![tool("look"), tool("stop")], system_hint: None, artefacts: vec![] };
        Ok((Box::new(Handling(self.seen.clone())), opening))
    }
}

struct Handling(Arc<Mutex<Vec<(Vec<String>, usize)>>>);

#[async_trait]
impl LiveEpisode for Handling {
    async fn step(&mut self, action: &Message, answered: &[Message]) -> Result<StepResult, Failure> {
        let names: Vec<String> = action.tool_calls.iter().map(|call| call.name.clone()).collect();
        let over = names.contains(&"stop".to_owned());
        self.0.lock().unwrap().push((names, answered.len()));
        let answer = |call: &ToolCall| Message {
            tool_call_id: Some(call.id.clone()),
            ..Message::text(Role::Tool, Origin::Environment, format!("did {}", call.id))
        };
        // Something else first, answers backwards.
        let mut observation = vec![Message::text(Role::User, Origin::Environment, "and now?")];
        observation.extend(action.tool_calls.iter().rev().map(answer));
        let status = if over { Status::Terminated } else { Status::Running };
        Ok(StepResult { observation, status, signals: vec![], artefacts: vec![] })
    }

    async fn snapshot(&mut self) -> Result<Snapshot, Failure> {
        Err(Failure::new(FailureKind::Plugin, code::PLUGIN_ERROR, "no snapshots"))
    }

    fn last_fuel(&self) -> Option<u64> {
        Some(5)
    }

    fn host_calls(&self) -> Digest {
        Digest::of(b"")
    }

    fn take_records(&mut self) -> EpisodeRecords {
        EpisodeRecords::default()
    }
}

/// Says in turn what it is told to; remembers what it was asked.
pub(crate) struct Caller {
    pub(crate) says: Vec<Message>,
    pub(crate) asked: Mutex<Vec<ModelRequest>>,
}

#[async_trait]
impl Llm for Caller {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "fake".into(), model: "caller".into(), version: "1".into() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let turn = request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        self.asked.lock().unwrap().push(request.clone());
        let message = self.says[turn.min(self.says.len() - 1)].clone();
        Ok(ModelResponse { message, usage: Usage::default(), finish: "tool_calls".into(), tokens: None })
    }
}

/// Says what it was told, and remembers it.
#[derive(Default)]
pub(crate) struct Parrot(Mutex<Vec<String>>);

impl Parrot {
    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl Llm for Parrot {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "fake".into(), model: "parrot".into(), version: "1".into() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        self.0.lock().unwrap().push(serde_json::to_string(request).unwrap());
        tokio::task::yield_now().await;
        let text = format!("seed {:?}", request.seed);
        let message = Message::text(Role::Assistant, Origin::Policy, text);
        Ok(ModelResponse {
            message,
            usage: Usage { prompt_tokens: 3, ..Usage::default() },
            finish: "stop".into(),
            tokens: None,
        })
    }
}

enum Manner {
    Fixed(f64),
    BySeed,
    Share,
    Broken,
    /// Fails until it is mended, then gives this value.
    Down(Arc<std::sync::atomic::AtomicBool>, f64),
    /// Has no budget left.
    Spent,
}

pub(crate) struct Judge {
    /// How often it was asked.
    pub(crate) asked: Arc<AtomicU64>,
    identity: PluginIdentity,
    description: RewardDescription,
    manner: Manner,
}

impl Judge {
    fn new(name: &str, manner: Manner) -> Self {
        let description = RewardDescription {
            about: about(name),
            minimum: 0.0,
            maximum: 1.0,
            source: RewardSource::Outcome,
            scope: RewardScope::Each,
        };
        Self { asked: Arc::default(), identity: identity(name), description, manner }
    }

    pub(crate) fn giving(value: f64) -> Self {
        Self::new("fixed", Manner::Fixed(value))
    }

    pub(crate) fn by_seed() -> Self {
        Self::new("by-seed", Manner::BySeed)
    }

    pub(crate) fn down(mended: Arc<std::sync::atomic::AtomicBool>, value: f64) -> Self {
        Self::new("down", Manner::Down(mended, value))
    }

    /// Judging whole groups; the value is the share of the group that this episode is.
    pub(crate) fn of_groups() -> Self {
        let mut judge = Self::new("of-groups", Manner::Share);
        judge.description.scope = RewardScope::Group;
        judge
    }

    /// With another source.
    pub(crate) fn from(mut self, source: RewardSource) -> Self {
        self.description.source = source;
        self
    }

    /// With another name, and so another digest.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.identity = identity(name);
        self
    }

    pub(crate) fn spent() -> Self {
        Self::new("spent", Manner::Spent)
    }

    pub(crate) fn broken() -> Self {
        Self::new("broken", Manner::Broken)
    }
}

#[async_trait]
impl Reward for Judge {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn description(&self) -> &RewardDescription {
        &self.description
    }

    fn judge(&self) -> Option<String> {
        None
    }

    async fn score(&self, _: &Context, group: &[Arc<Episode>]) -> Scoring {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let card = |value| {
            Verdict::Scored(ScoreCard {
                value,
                confidence: 1.0,
                parts: vec![],
                rationale: String::new(),
                per_turn: vec![],
                extra: vec![],
            })
        };
        let verdicts = match self.manner {
            Manner::Fixed(value) => Ok(group.iter().map(|_| card(value)).collect()),
            Manner::BySeed => Ok(group.iter().map(|episode| card((episode.policy.seed % 2) as f64)).collect()),
            Manner::Share => Ok(group.iter().map(|_| card(1.0 / group.len() as f64)).collect()),
            Manner::Down(ref mended, value) if mended.load(Ordering::Relaxed) => {
                Ok(group.iter().map(|_| card(value)).collect())
            }
            Manner::Down(..) => Err(Failure::new(FailureKind::Llm, code::UNAVAILABLE, "the judge is down")),
            Manner::Spent => Err(Failure::new(FailureKind::Llm, code::BUDGET, "the budget is spent: 10 of 10 tokens")),
            Manner::Broken => Err(Failure::new(FailureKind::Trap, code::UNREACHABLE, "broken in `score`")),
        };
        Scoring { verdicts, log: vec![], journal: vec![] }
    }
}

/// Keeps everything in memory; may run full.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) recorded: Mutex<Vec<Recorded>>,
    pub(crate) finished: Mutex<Option<serde_json::Value>>,
    pub(crate) full_after: Option<usize>,
}

impl Memory {
    pub(crate) fn episodes(&self) -> Vec<Arc<Episode>> {
        self.recorded.lock().unwrap().iter().map(|recorded| recorded.episode.clone()).collect()
    }

    pub(crate) fn summary(&self) -> Option<serde_json::Value> {
        self.finished.lock().unwrap().clone()
    }
}

#[async_trait]
impl EpisodeStore for Memory {
    async fn begin_run(&self, _: &RunRecord) -> Result<(), StoreError> {
        Ok(())
    }

    async fn resume_run(&self, _: &RunId) -> Result<(), StoreError> {
        *self.finished.lock().unwrap() = None;
        Ok(())
    }

    async fn append(&self, _: &RunId, episodes: Vec<Recorded>, _: Usage) -> Result<(), StoreError> {
        let mut kept = self.recorded.lock().unwrap();
        kept.retain(|known| !episodes.iter().any(|new| new.again && new.episode.index == known.episode.index));
        if self.full_after.is_some_and(|most| kept.len() + episodes.len() > most) {
            return Err(StoreError::Full("memory".into()));
        }
        for recorded in &episodes {
            assert!(kept.iter().all(|known| known.episode.id != recorded.episode.id), "recorded twice");
        }
        kept.extend(episodes);
        Ok(())
    }

    async fn judge(&self, judged: Vec<Judged>) -> Result<(), StoreError> {
        let mut kept = self.recorded.lock().unwrap();
        for Judged { episode, record, .. } in judged {
            let place = kept.iter_mut().find(|known| known.episode.id == episode).unwrap();
            let place = Arc::make_mut(&mut place.episode);
            record.admit(&mut place.verdicts);
            place.reward = effective_reward(&place.verdicts);
        }
        Ok(())
    }

    async fn finish_run(&self, _: &RunId, summary: &serde_json::Value, _: Usage) -> Result<(), StoreError> {
        *self.finished.lock().unwrap() = Some(summary.clone());
        Ok(())
    }
}
