//! Scores stored episodes with other rewards.

use crate::events::{Event, EventSink, Warning};
use crate::models::ModelFactory;
use crate::plugins::Plugins;
use crate::routers::{RouterPlugins, granted_routers};
use crate::runs::{RunChoice, choose_runs, damaged_runs};
use crate::stored::StoredEpisodes;
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{
    Attributes, DamagedRecord, Episode, Lease, LeaseMode, LeaseSubject, PluginIdentity, RewardRecord, RewardSource,
    RunId, RunKind,
};
use clawhost_engine::ModelGrants;
use clawhost_play::{Cancel, Rescoring, ScoreReport, ScoringObserver, ScoringRule, StopReason, Unread, score_stored};
use clawhost_run_config::{BudgetSpec, Grant, Key, PluginSpec, RewardSpec};
use serde::Serialize;

/// Default number of groups that are judged concurrently.
pub const SCORE_CONCURRENCY: u16 = 16;
/// Default share of verdicts that may fail.
pub const SCORE_FAILURE_BUDGET: f64 = 0.1;

/// Tolerance for rounding when a share is converted to a number of verdicts.
const ROUNDING: f64 = 1e-9;

/// The settings of scoring.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreRequest {
    /// The runs.
    pub runs: RunChoice,
    /// The rewards, each with weight 1 and its own source.
    pub rewards: Vec<PluginSpec>,
    /// Permissions of rewards beyond computing and logging.
    pub grants: Vec<Grant>,
    /// The budget of models.
    pub budget: BudgetSpec,
    /// Groups that are judged concurrently; never changes a result.
    pub concurrency: u16,
    /// Request existing verdicts again for comparison. The existing ones stay.
    pub again: bool,
    /// Share of a run's verdicts that may fail before scoring stops, 0 to 1, rounded down to whole verdicts.
    pub failure_budget: f64,
}

impl ScoreRequest {
    /// The newest run and these rewards, with default settings.
    pub fn new(rewards: Vec<PluginSpec>) -> Self {
        Self {
            runs: RunChoice::Newest,
            rewards,
            grants: Vec::new(),
            budget: BudgetSpec::default(),
            concurrency: SCORE_CONCURRENCY,
            again: false,
            failure_budget: SCORE_FAILURE_BUDGET,
        }
    }
}

/// A reward with its settings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RewardInUse {
    /// The reward.
    #[serde(flatten)]
    pub reward: PluginIdentity,
    /// Its options.
    pub options: Attributes,
    /// The source of its verdicts.
    pub source: RewardSource,
    /// Its weight among rewards of its source.
    pub weight: f64,
    /// The part of a mixture whose episodes it judges; `None`: all episodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

impl From<&ScoringRule> for RewardInUse {
    fn from(rule: &ScoringRule) -> Self {
        let ScoringRule { reward, options, source, weight, part } = rule;
        let (reward, options, part) = (reward.identity().clone(), options.clone(), part.clone());
        Self { reward, options, source: *source, weight: *weight, part }
    }
}

/// A run whose episodes were judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoredRun {
    /// The run.
    pub run: RunId,
    /// Whether agents played it: then new verdicts count. Rewards of a simulated run are those that it was played with.
    #[serde(skip)]
    pub is_live: bool,
    /// Its report.
    pub report: ScoreReport,
}

/// The result of scoring.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scored {
    /// The rewards.
    pub rewards: Vec<RewardInUse>,
    /// The runs, newest first, up to the first that was stopped.
    pub runs: Vec<ScoredRun>,
    /// Records that could not be read, and were passed over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedRecord>,
}

impl Scored {
    /// Why it stopped early.
    pub fn stopped(&self) -> Option<&StopReason> {
        self.runs.last().and_then(|last| last.report.stopped.as_ref())
    }
}

/// Follows the scoring of runs.
pub(crate) trait ScoreWatcher {
    /// The rewards are loaded. It may put others in their places that answer alike.
    fn loaded(&mut self, rules: &mut [ScoringRule]);
    /// As [`ScoringObserver::answered`], with the position of the run.
    fn answered(&mut self, reward: usize, place: (usize, u64), episode: &Episode, record: Option<&RewardRecord>);
}

impl ScoreWatcher for () {
    fn loaded(&mut self, _: &mut [ScoringRule]) {}

    fn answered(&mut self, _: usize, _: (usize, u64), _: &Episode, _: Option<&RewardRecord>) {}
}

/// Passes on what happens while one run is judged.
struct Observed<'a> {
    watcher: &'a mut dyn ScoreWatcher,
    events: &'a dyn EventSink,
    run: usize,
    total: u64,
}

impl ScoringObserver for Observed<'_> {
    fn answered(&mut self, reward: usize, group: u64, episode: &Episode, record: Option<&RewardRecord>) {
        self.watcher.answered(reward, (self.run, group), episode, record);
    }

    fn progress(&mut self, done: u64) {
        self.events.event(Event::Progress { done, total: self.total });
    }
}

/// Judges the episodes of runs with rewards. Verdicts before a stop are recorded; the same request continues.
///
/// # Errors
/// There is no such run, another process plays it, a reward or a model cannot be used, or the store cannot be written.
pub async fn score(
    workspace: &Workspace,
    request: ScoreRequest,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<Scored, AppError> {
    score_watched(workspace, request, cancel, events, &mut ()).await
}

/// As [`score`], and tells a watcher what every reward says about every episode.
pub(crate) async fn score_watched(
    workspace: &Workspace,
    request: ScoreRequest,
    cancel: &Cancel,
    events: &dyn EventSink,
    watcher: &mut dyn ScoreWatcher,
) -> Result<Scored, AppError> {
    let concurrency = usize::from(request.concurrency);
    let mut models = ModelFactory::new(
        workspace.settings().models.clone(),
        &request.budget,
        concurrency,
        workspace.secrets().clone(),
    );
    let (host, store, none) = (workspace.host()?, workspace.store(), ModelGrants::default());
    let plugins = Plugins { host: &host, store: &store, grants: &none, events };
    let folder = workspace.settings().models.routers.as_deref();
    let routers = RouterPlugins::load(&plugins, folder, granted_routers(&request.grants)).await;
    models.set_router_plugins(routers.map_err(|error| error.of_option(Key::Grants))?);
    let grants = models.grants(&request.grants, events)?;
    let reader = workspace.reader()?;
    let damaged = damaged_runs(&*reader, &request.runs)?;
    let mut wanted: Vec<(Box<dyn Lease>, RunId)> = Vec::new();
    for row in choose_runs(&*reader, &request.runs)? {
        // A run may be named twice.
        if wanted.iter().any(|(_, run)| *run == row.id) {
            continue;
        }
        // While a run is played, episodes may be replaced. Nothing is judged before the leases of all runs are held.
        let lease = workspace.lease(&LeaseSubject::Run(row.id.clone()), LeaseMode::Shared)?;
        wanted.push((lease.ok_or_else(|| RequestError::RunBusy(row.id.0.clone()))?, row.id));
    }
    let plain = |plugin| RewardSpec { plugin, weight: 1.0, source: None, part: None };
    let rewards: Vec<RewardSpec> = request.rewards.into_iter().map(plain).collect();
    let plugins = Plugins { host: &host, store: &store, grants: &grants, events };
    let mut rules = plugins.rewards(&rewards).await?;
    let mut scored = Scored { rewards: rules.iter().map(RewardInUse::from).collect(), runs: Vec::new(), damaged };
    watcher.loaded(&mut rules);
    // One warning for all runs: each key of a gateway has a run.
    let mut unread: Vec<Unread> = Vec::new();
    for (position, (_lease, run)) in wanted.into_iter().enumerate() {
        let mut source = StoredEpisodes::of_run(&*reader, &run)?;
        let total = source.remaining();
        let verdicts = total as f64 * rules.len() as f64;
        let how = Rescoring {
            concurrency,
            again: request.again,
            failures_allowed: (request.failure_budget * verdicts + ROUNDING).floor() as u64,
        };
        let observed = Observed { watcher: &mut *watcher, events, run: position, total };
        let report = score_stored(&mut source, &rules, (&*store, &*workspace.clock()), how, cancel, observed).await?;
        for one in &report.unread {
            match unread.iter_mut().find(|known: &&mut Unread| {
                (&known.reward, &known.reads, &known.part) == (&one.reward, &one.reads, &one.part)
            }) {
                Some(known) => known.episodes += one.episodes,
                None => unread.push(one.clone()),
            }
        }
        scored.damaged.extend(source.take_damaged());
        let is_live = reader.run(&run)?.is_some_and(|row| row.kind == RunKind::Live);
        scored.runs.push(ScoredRun { run, is_live, report });
        if scored.stopped().is_some() {
            break;
        }
    }
    unread.into_iter().for_each(|unread| events.event(Event::Warning(Warning::NothingToRead(unread))));
    models.warn_of_routers(events);
    Ok(scored)
}
