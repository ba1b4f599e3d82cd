//! Scoring: stored episodes under another reward.

use crate::events::{Event, EventSink};
use crate::models::ModelFactory;
use crate::plugins::Plugins;
use crate::stored::{StoredEpisodes, choose_run};
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{Attributes, LeaseMode, LeaseSubject, PluginIdentity, RewardSource, RunId};
use clawhost_play::{Cancel, Rescoring, ScoreReport, ScoringRule, score_stored};
use clawhost_run_config::{BudgetSpec, Grant, PluginSpec, RewardSpec};
use serde::Serialize;

/// Groups judged at once, unless chosen otherwise.
pub const SCORE_CONCURRENCY: u16 = 16;
/// Share of the verdicts that may fail, unless chosen otherwise.
pub const SCORE_FAILURE_BUDGET: f64 = 0.1;

/// What a share of verdicts may fall short of a whole number by rounding.
const ROUNDING: f64 = 1e-9;

/// Which episodes are judged, by whom, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreRequest {
    /// Of which run. None: the newest.
    pub run: Option<String>,
    /// The rewards that judge, each of weight 1 and of its own source.
    pub rewards: Vec<PluginSpec>,
    /// What rewards may do beyond computing and logging.
    pub grants: Vec<Grant>,
    /// What models may cost.
    pub budget: BudgetSpec,
    /// Groups judged at once; never changes a result.
    pub concurrency: u16,
    /// Ask about verdicts that are there too, to compare. They stay.
    pub again: bool,
    /// Share of the verdicts that may fail before it stops, 0 to 1; rounded down to whole verdicts.
    pub failure_budget: f64,
}

impl ScoreRequest {
    /// The newest run judged by these rewards, with everything else as it is by default.
    pub fn new(rewards: Vec<PluginSpec>) -> Self {
        Self {
            run: None,
            rewards,
            grants: Vec::new(),
            budget: BudgetSpec { max_tokens_total: None, max_cost: None, price: None },
            concurrency: SCORE_CONCURRENCY,
            again: false,
            failure_budget: SCORE_FAILURE_BUDGET,
        }
    }
}

/// A reward with everything that was decided about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RewardInUse {
    /// The reward.
    #[serde(flatten)]
    pub reward: PluginIdentity,
    /// Its options.
    pub options: Attributes,
    /// Where its judgement comes from.
    pub source: RewardSource,
    /// How much it counts beside others of its source.
    pub weight: f64,
}

impl From<&ScoringRule> for RewardInUse {
    fn from(rule: &ScoringRule) -> Self {
        let ScoringRule { reward, options, source, weight } = rule;
        Self { reward: reward.identity().clone(), options: options.clone(), source: *source, weight: *weight }
    }
}

/// Stored episodes that were judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scored {
    /// The run.
    pub run: RunId,
    /// The rewards.
    pub rewards: Vec<RewardInUse>,
    /// What it came to.
    pub report: ScoreReport,
}

/// Judges the episodes of a run by rewards. What was judged before a stop is recorded; the same request goes on.
///
/// # Errors
/// There is no such run, another process plays it, a reward or a model cannot be used, or the store cannot be written.
pub async fn score(
    workspace: &Workspace,
    request: ScoreRequest,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<Scored, AppError> {
    let concurrency = usize::from(request.concurrency);
    let models = ModelFactory::new(workspace.settings().models.clone(), &request.budget, concurrency);
    let grants = models.grants(&request.grants, events)?;
    let reader = workspace.reader()?;
    let run = choose_run(&*reader, request.run.as_deref())?.id;
    // While the run is played, episodes may take the places of others.
    let lease = workspace.lease(&LeaseSubject::Run(run.clone()), LeaseMode::Shared)?;
    let _lease = lease.ok_or_else(|| RequestError::RunBusy { run: run.0.clone() })?;
    let (host, store) = (workspace.host()?, workspace.store());
    let plain = |plugin| RewardSpec { plugin, weight: 1.0, source: None };
    let rewards: Vec<RewardSpec> = request.rewards.into_iter().map(plain).collect();
    let plugins = Plugins { host: &host, store: &store, grants: &grants, events };
    let rules = plugins.rewards(&rewards).await?;
    let mut source = StoredEpisodes::of_run(&*reader, &run)?;
    let total = source.remaining();
    let verdicts = total as f64 * rules.len() as f64;
    let how = Rescoring {
        concurrency,
        again: request.again,
        failures_allowed: (request.failure_budget * verdicts + ROUNDING).floor() as u64,
    };
    let progress = |done| events.event(Event::Progress { done, total });
    let report = score_stored(&mut source, &rules, (&*store, &*workspace.clock()), how, cancel, progress).await?;
    Ok(Scored { run, rewards: rules.iter().map(RewardInUse::from).collect(), report })
}
