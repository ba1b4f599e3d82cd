//! Runs: groups of episodes are played concurrently, scored, recorded and summarised.

use crate::basis::Basis;
use crate::branch::{self, Trunk};
use crate::guidance::GroupSlot;
use crate::mixture::Environments;
use crate::plan::{Cancel, Plan};
use crate::play::{Assignment, Played, Player, play};
use crate::policy::ChatPolicy;
use crate::report::{EpisodeSummary, RunReport, StopReason};
use crate::unread::{Readings, Unread};
use crate::{PlayError, score, tasks};
use clawhost_core::{
    Attributes, Clock, Context, Digest, Environment, Episode, EpisodeId, EpisodeStore, Meter, ModelCallSource,
    Recorded, Reward, RewardSource, RunId, RunKind, RunLabels, RunRecord, SpecDocument, Task, derive_seed,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

/// A reward with its options.
#[derive(Clone)]
pub struct ScoringRule {
    /// The reward.
    pub reward: Arc<dyn Reward>,
    /// Its options.
    pub options: Attributes,
    /// Where its judgement comes from: as the reward declares, or as the operator chose.
    pub source: RewardSource,
    /// Weight among rewards of its source: finite, 0 or more. With 0 it is recorded but does not decide.
    pub weight: f64,
    /// The part of a mixture whose episodes it scores; `None`: all episodes.
    pub part: Option<String>,
}

impl ScoringRule {
    /// A reward with its declared source and weight 1.
    pub fn new(reward: Arc<dyn Reward>, options: Attributes) -> Self {
        let source = reward.description().source;
        Self { reward, options, source, weight: 1.0, part: None }
    }

    /// Whether it scores episodes of this part; `None`: the run has one environment.
    pub fn applies_to(&self, part: Option<&str>) -> bool {
        self.part.as_deref().is_none_or(|own| part == Some(own))
    }
}

/// The ports of a run.
#[derive(Clone)]
pub struct Ports {
    /// The environment, or several.
    pub environments: Environments,
    /// The rewards; if empty, nothing is scored.
    pub rewards: Vec<ScoringRule>,
    /// The policy.
    pub policy: ChatPolicy,
    /// The store of episodes.
    pub store: Arc<dyn EpisodeStore>,
    /// The clock, for records.
    pub clock: Arc<dyn Clock>,
    /// The usage of models, for records.
    pub meter: Arc<dyn Meter>,
}

/// Observes a run.
pub trait Observer: Send + Sync {
    /// An episode was recorded and is durable.
    fn recorded(&self, episode: &EpisodeSummary, done: u64, total: u64);
}

/// An observer that ignores all events.
impl Observer for () {
    fn recorded(&self, _: &EpisodeSummary, _: u64, _: u64) {}
}

/// Most episodes per transaction.
const BATCH: usize = 512;
/// Most finished groups that wait for the recorder before playing pauses.
const WAITING: usize = 1024;

type Finished = Vec<Recorded>;

/// Tasks of a split with their digests, in order.
pub type Tasks = Arc<[(Arc<Task>, Digest)]>;

/// A run to play.
pub struct RunRequest {
    /// Its id.
    pub id: RunId,
    /// The learning run that it is a phase of.
    pub parent: Option<RunId>,
    /// Its purpose.
    pub kind: RunKind,
    /// Number of episodes, tasks and seeds.
    pub plan: Plan,
    /// The ports.
    pub ports: Ports,
    /// The tasks of the plan's split; `None`: requested from the environment.
    pub tasks: Option<Tasks>,
    /// Its specification, for the record.
    pub config: SpecDocument,
    /// Its name and tags.
    pub labels: RunLabels,
    /// Episodes that were recorded before an interruption; `None` for a new run.
    pub recorded: Option<Vec<EpisodeSummary>>,
    /// Whether the played episodes are returned. They are kept in memory until then.
    pub keeps_episodes: bool,
}

impl RunRequest {
    /// A new run of a plan, without a specification.
    pub fn new(id: RunId, plan: Plan, ports: Ports) -> Self {
        Self {
            id,
            parent: None,
            kind: RunKind::Play,
            plan,
            ports,
            tasks: None,
            config: SpecDocument::none(),
            labels: RunLabels::default(),
            recorded: None,
            keeps_episodes: false,
        }
    }
}

/// A played run.
pub struct PlayedRun {
    /// The report.
    pub report: RunReport,
    /// The episodes that this process played, in order, if they were requested.
    pub episodes: Vec<Arc<Episode>>,
}

/// Data that all groups of a run share.
pub(crate) struct RunContext {
    pub(crate) ports: Ports,
    plan: Plan,
    run: RunId,
    split: String,
    tasks: Tasks,
    config: Digest,
    state_id: clawhost_core::StateId,
    cancel: Cancel,
    places: Arc<Semaphore>,
    /// Episodes to return; `None` if they were not requested.
    kept: Option<Mutex<BTreeMap<u64, Arc<Episode>>>>,
}

/// Plays a run to its end, until its failure budget is exceeded, or until it is cancelled. A resumed run (see
/// [`RunRequest::recorded`]) keeps complete groups and replays groups with missing or cancelled members. It gives the same
/// result as an uninterrupted run; its plan and ports must have the [`run_digest`](crate::run_digest) of the original.
///
/// # Errors
/// There is nothing to play, or the store fails.
pub async fn play_run(request: RunRequest, cancel: &Cancel, observer: &dyn Observer) -> Result<PlayedRun, PlayError> {
    let RunRequest { id, parent, kind, plan, ports, tasks, config, labels, recorded, keeps_episodes } = request;
    let mut context = prepare(id, plan, ports, tasks, cancel).await?;
    context.kept = keeps_episodes.then(Mutex::default);
    let context = Arc::new(context);
    let earlier = match recorded {
        None => {
            begin(&context, parent, kind, (config, labels)).await?;
            Earlier::default()
        }
        Some(recorded) => {
            context.ports.store.resume_run(&context.run).await?;
            Earlier::of(&context.plan, recorded)
        }
    };
    let (summaries, stopped, unread) = conduct(&context, earlier, cancel, observer).await?;
    let split = context.split.clone();
    let report = RunReport::new(context.state_id, split, summaries, stopped, range(&context.ports.rewards));
    let report = RunReport { unread, ..report.with_rewards(&context.ports.rewards) };
    context.ports.store.finish_run(&context.run, &report.summary(), context.ports.meter.spent()).await?;
    let kept = context.kept.as_ref();
    let kept = kept.map(|kept| std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner)));
    Ok(PlayedRun { report, episodes: kept.unwrap_or_default().into_values().collect() })
}

/// Records the start of a run.
async fn begin(
    context: &RunContext,
    parent: Option<RunId>,
    kind: RunKind,
    (config, labels): (SpecDocument, RunLabels),
) -> Result<(), PlayError> {
    let ports = &context.ports;
    let record = RunRecord {
        id: context.run.clone(),
        parent,
        kind,
        environment: ports.environments.identity().name.clone(),
        state_id: context.state_id,
        config,
        basis: Basis::of(&context.plan, ports)?.document(),
        planned: context.plan.episodes,
        created_at: ports.clock.now_ms(),
        labels,
    };
    Ok(ports.store.begin_run(&record).await?)
}

/// The records of an interrupted run.
#[derive(Default)]
struct Earlier {
    /// Episodes of complete groups.
    kept: BTreeMap<u64, EpisodeSummary>,
    /// Cancelled episodes. They stay recorded until others replace them.
    replaced: BTreeMap<u64, EpisodeSummary>,
}

impl Earlier {
    /// Groups are scored as a whole: a group with a missing or cancelled member is played again.
    fn of(plan: &Plan, recorded: Vec<EpisodeSummary>) -> Self {
        let all: BTreeMap<u64, EpisodeSummary> = recorded.into_iter().map(|one| (one.index, one)).collect();
        let whole = |group: u64| {
            members(plan, group).all(|index| all.get(&index).is_some_and(|one| !one.cancelled && !one.out_of_budget))
        };
        let groups: BTreeSet<u64> = all.values().map(|summary| summary.group).collect();
        let incomplete: BTreeSet<u64> = groups.into_iter().filter(|group| !whole(*group)).collect();
        let (replaced, kept) = all.into_iter().partition(|(_, one)| incomplete.contains(&one.group));
        Self { kept, replaced }
    }
}

/// Prepares a run; requests the tasks of the split if they are not given.
async fn prepare(
    run: RunId,
    plan: Plan,
    ports: Ports,
    tasks: Option<Tasks>,
    cancel: &Cancel,
) -> Result<RunContext, PlayError> {
    let environments = &ports.environments;
    let split = tasks::split_of(&environments.identity().name, environments.splits(), plan.split.as_deref())?;
    let tasks = match tasks {
        Some(tasks) => tasks,
        None => {
            let context = Context { seed: plan.seed, options: plan.options.clone() };
            let wanted = plan.tasks();
            tokio::select! {
                biased;
                () = cancel.requested() => return Err(PlayError::Cancelled),
                tasks = tasks::fetch_all(environments, &context, &split, wanted) => tasks::named(tasks?),
            }
        }
    };
    if let Some((task, _)) = tasks.iter().find(|(task, _)| !environments.has(task)) {
        return Err(PlayError::Host(format!("the task {} belongs to no environment of the run", task.key())));
    }
    let state_id = ports.policy.state_id();
    let places = Arc::new(Semaphore::new(plan.concurrency.clamp(1, Semaphore::MAX_PERMITS)));
    Ok(RunContext {
        config: Basis::of(&plan, &ports)?.config(),
        ports,
        plan,
        run,
        split,
        tasks,
        state_id,
        // A separate signal, so that the failure budget can stop the run.
        cancel: Cancel::default(),
        places,
        kept: None,
    })
}

/// Indices of the episodes of a group.
fn members(plan: &Plan, group: u64) -> std::ops::Range<u64> {
    let size = u64::from(plan.group.max(1));
    let first = group.saturating_mul(size);
    first..first.saturating_add(size).min(plan.episodes)
}

/// Smallest and largest possible mean of these rewards.
pub fn range(rewards: &[ScoringRule]) -> Option<(f64, f64)> {
    let descriptions = || rewards.iter().map(|rule| rule.reward.description());
    let least = descriptions().map(|description| description.minimum).reduce(f64::min)?;
    let most = descriptions().map(|description| description.maximum).reduce(f64::max)?;
    Some((least, most))
}

/// The recorded episodes, and statistics that follow from them.
struct Progress {
    summaries: BTreeMap<u64, EpisodeSummary>,
    /// Length of the gapless prefix of recorded episodes, and its number of failures.
    counted: u64,
    failed: u64,
    allowed: u64,
    stopped: Option<StopReason>,
}

impl Progress {
    /// Counts failures in the order of the plan, not of completion, so that the stop does not depend on timing.
    fn count(&mut self) {
        while self.stopped.is_none() {
            let Some(next) = self.summaries.get(&self.counted) else { return };
            self.counted += 1;
            self.failed += u64::from(next.failed());
            if self.failed > self.allowed {
                self.stopped = Some(StopReason::FailureBudget { failed: self.failed, allowed: self.allowed });
            }
        }
    }

    /// The episodes of the report. After a stop by the failure budget these are the episodes up to the failure that exceeded
    /// it; later ones are recorded but not reported.
    fn reported(self) -> (Vec<EpisodeSummary>, Option<StopReason>) {
        let end = match self.stopped {
            Some(StopReason::FailureBudget { .. }) => self.counted,
            _ => u64::MAX,
        };
        (self.summaries.into_iter().take_while(|(index, _)| *index < end).map(|(_, s)| s).collect(), self.stopped)
    }
}

/// The episodes that a run reports, of those that it recorded: after a stop by the failure budget those up to the failure that
/// exceeded it, because which later ones were played depends on time.
pub(crate) fn reported(episodes: Vec<EpisodeSummary>, stopped: Option<&StopReason>) -> Vec<EpisodeSummary> {
    let Some(StopReason::FailureBudget { allowed, .. }) = stopped else { return episodes };
    let summaries = episodes.into_iter().map(|one| (one.index, one)).collect();
    let mut progress = Progress { summaries, counted: 0, failed: 0, allowed: *allowed, stopped: None };
    progress.count();
    progress.reported().0
}

async fn conduct(
    context: &Arc<RunContext>,
    Earlier { kept, replaced }: Earlier,
    operator: &Cancel,
    observer: &dyn Observer,
) -> Result<(Vec<EpisodeSummary>, Option<StopReason>, Vec<Unread>), PlayError> {
    let (sender, mut finished) = mpsc::channel::<Finished>(WAITING);
    let total = context.plan.episodes;
    let at_once = (context.plan.concurrency / context.plan.group.max(1) as usize).max(1);
    let done: BTreeSet<u64> = kept.values().map(|summary| summary.group).collect();
    let mut waiting = (0..context.plan.groups()).filter(|group| !done.contains(group));
    let mut playing = JoinSet::new();
    let mut sender = Some(sender);
    let mut progress =
        Progress { summaries: kept, counted: 0, failed: 0, allowed: context.plan.failures_allowed(), stopped: None };
    progress.count();
    let mut readings = Readings::of(&context.ports.rewards);
    // Groups waiting for the current transaction: one is written while others play.
    let mut ready: Vec<Recorded> = Vec::new();
    let mut writing = None;
    let mut recorded = progress.summaries.len() as u64;
    let mut open = true;
    loop {
        while playing.len() < at_once && progress.stopped.is_none() {
            let Some(sender) = &sender else { break };
            let Some(index) = waiting.next() else { break };
            let (context, sender) = (context.clone(), sender.clone());
            playing.spawn(async move {
                let done = play_group(&context, index).await;
                // If the recorder failed, the group is not needed.
                let _ = sender.send(done).await;
            });
        }
        if playing.is_empty() {
            // Dropping the last sender lets the recorder drain the queue and end.
            sender = None;
        }
        if writing.is_none() && !ready.is_empty() {
            let mut batch = std::mem::take(&mut ready);
            batch
                .iter_mut()
                .for_each(|recorded| recorded.replaces_existing = replaced.contains_key(&recorded.episode.index));
            let (run, spent) = (context.run.clone(), context.ports.meter.spent());
            let indices: Vec<u64> = batch.iter().map(|recorded| recorded.episode.index).collect();
            let store = context.ports.store.clone();
            writing = Some(Box::pin(async move { store.append(&run, batch, spent).await.map(|()| indices) }));
        }
        if !open && writing.is_none() {
            break;
        }
        tokio::select! {
            biased;
            () = operator.requested(), if !context.cancel.is_requested() => {
                progress.stopped.get_or_insert(StopReason::Cancelled);
                context.cancel.request();
            }
            Some(written) = async { Some(writing.as_mut()?.await) } => {
                writing = None;
                for index in written? {
                    recorded += 1;
                    if let Some(summary) = progress.summaries.get(&index) {
                        observer.recorded(summary, recorded, total);
                    }
                }
            }
            // Results are processed before players are joined, so that they are known before the next group starts.
            first = finished.recv(), if open && ready.len() < BATCH => {
                let mut next = first;
                open = next.is_some();
                while let Some(group) = next {
                    group.iter().for_each(|one| readings.add(&one.episode));
                    let sums: Vec<EpisodeSummary> = group.iter().map(|one| EpisodeSummary::of(&one.episode)).collect();
                    let cut_short = sums.iter().any(|one| one.cancelled || one.out_of_budget);
                    // Cancelled again: the existing record stays.
                    let stays = cut_short && sums.iter().all(|one| replaced.contains_key(&one.index));
                    for summary in sums {
                        if summary.out_of_budget && progress.stopped.is_none() {
                            progress.stopped = Some(StopReason::ModelBudget);
                        }
                        let summary = replaced.get(&summary.index).filter(|_| stays).cloned().unwrap_or(summary);
                        progress.summaries.insert(summary.index, summary);
                    }
                    if let Some(kept) = context.kept.as_ref().filter(|_| !stays) {
                        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                        kept.extend(group.iter().map(|one| (one.episode.index, one.episode.clone())));
                    }
                    ready.extend(group.into_iter().filter(|_| !stays));
                    next = if ready.len() < BATCH { finished.try_recv().ok() } else { None };
                }
                progress.count();
                // A spent budget refuses the next request of each episode. One that has its last answer ends as usual: the answer was paid for.
                if let Some(reason) = progress.stopped.as_ref().filter(|reason| **reason != StopReason::ModelBudget) {
                    context.cancel.request_because(reason.clone());
                }
            }
            Some(joined) = playing.join_next() => {
                joined.map_err(|error| PlayError::Host(error.to_string()))?;
            }
        }
    }
    // Cancelled episodes that this process did not come to are recorded still.
    for (index, summary) in replaced {
        progress.summaries.entry(index).or_insert(summary);
    }
    let (reported, stopped) = progress.reported();
    Ok((reported, stopped, readings.unread()))
}

async fn play_group(context: &Arc<RunContext>, group: u64) -> Finished {
    let members = members(&context.plan, group);
    let position = context.plan.position(group) % (context.tasks.len() as u64).max(1);
    let Some(task) = context.tasks.get(usize::try_from(position).unwrap_or(0)) else { return Vec::new() };
    let environments = &context.ports.environments;
    // Checked when the run was prepared: every task has its environment.
    let Some((environment, options)) = environments.of_task(&task.0, &context.plan.options) else { return Vec::new() };
    let assigned = |index| assignment(context, (index, group), task, &options);
    let trunk = match context.plan.branch_at {
        Some(at) => Some(grow(context, environment.as_ref(), assigned(members.start), at).await.map(Arc::new)),
        None => None,
    };
    let alone = members.end.saturating_sub(members.start) == 1;
    let mut players = JoinSet::new();
    let mut played = Vec::new();
    for index in members.clone() {
        // Episodes take permits in order: at most `concurrency` are played at once.
        let Ok(place) = context.places.clone().acquire_owned().await else { break };
        let (context, environment, trunk) = (context.clone(), environment.clone(), trunk.clone());
        let assignment = assigned(index);
        let first = index == members.start;
        let member = async move {
            let _place = place;
            let player = context.player(environment.as_ref());
            match trunk {
                Some(Ok(trunk)) => branch::member(player, assignment, &trunk, first).await,
                Some(Err(reason)) => branch::unshared(play(player, assignment).await, &reason),
                None => play(player, assignment).await,
            }
        };
        if alone {
            played.push(member.await);
        } else {
            players.spawn(member);
        }
    }
    while let Some(member) = players.join_next().await {
        match member {
            Ok(member) => played.push(member),
            // A panicked member is a bug of the host: propagate it.
            Err(error) => {
                if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
    played.sort_by_key(|member| member.episode.index);
    let (episodes, notes): (Vec<_>, Vec<_>) =
        played.into_iter().map(|Played { episode, notes }| (episode, notes)).unzip();
    let episodes = score::score(&context.ports.rewards, episodes, &context.cancel).await;
    episodes
        .into_iter()
        .zip(notes)
        .map(|(episode, notes)| Recorded { episode, notes, replaces_existing: false })
        .collect()
}

/// The trunk of a group, or why there is none.
async fn grow(
    context: &RunContext,
    environment: &dyn Environment,
    assignment: Assignment,
    at: u32,
) -> Result<Trunk, String> {
    let _place = context.places.clone().acquire_owned().await.map_err(|error| error.to_string())?;
    branch::trunk(context.player(environment), assignment, context.plan.seed, at).await
}

fn assignment(
    context: &RunContext,
    (index, group): (u64, u64),
    (task, task_hash): &(Arc<Task>, Digest),
    options: &Attributes,
) -> Assignment {
    let plan = &context.plan;
    let place = plan.position(group);
    let members = plan.group.max(1);
    let seat = GroupSlot { group: place, member: u32::try_from(index % u64::from(members)).unwrap_or(0), members };
    Assignment {
        seat,
        run: context.run.clone(),
        id: EpisodeId::new(&context.config, index),
        index,
        group,
        task: task.clone(),
        task_hash: *task_hash,
        environment_seed: environment_seed(plan.seed, &context.split, place),
        policy_seed: policy_seed(plan, &context.split, index, place),
        options: options.clone(),
        max_turns: plan.max_turns,
        episode_bytes: plan.episode_bytes,
        expects: plan.expects.clone(),
        state_id: context.ports.policy.state_at(seat),
        answers: ModelCallSource::Live,
    }
}

/// The environment seed of a position. The split is part of the derivation, so that seeds of the test split never occur in
/// training.
pub fn environment_seed(seed: u64, split: &str, position: u64) -> u64 {
    derive_seed(seed, &format!("environment/{split}"), position)
}

/// The policy seed of a member. In a paired group the sides of a try share it. Runs that start at the first group keep their earlier seeds.
fn policy_seed(plan: &Plan, split: &str, index: u64, place: u64) -> u64 {
    let members = u64::from(plan.group.max(1));
    match plan.paired {
        true => {
            let sides = (members / u64::from(plan.tries.max(1))).max(1);
            match index % members / sides {
                0 => derive_seed(plan.seed, &format!("policy/{split}"), place),
                more => derive_seed(plan.seed, &format!("policy/{split}/try {more}"), place),
            }
        }
        false => derive_seed(plan.seed, "policy", place.saturating_mul(members).saturating_add(index % members)),
    }
}

impl RunContext {
    fn player<'a>(&'a self, environment: &'a dyn Environment) -> Player<'a> {
        let ports = &self.ports;
        Player { environment, policy: &ports.policy, clock: ports.clock.as_ref(), cancel: &self.cancel, watch: None }
    }
}
