//! Trains the weights of a local model from live sessions, beside the gateway that serves it.

use super::backend::{Base, WeightsBackend};
use super::background::at_low_priority;
use super::lease::{busy, changing, lease};
use super::local::LocalBackend;
use super::material::{self, LiveSession, Unused, Wanted};
use super::pace::{EndsRests, Pace, Rests};
use super::page::{Progress, TrainingPage};
use super::queue::{Queue, Waiting, Whose};
use super::section::WeightsPlan;
use super::step::{Aged, Stepped, shown};
use super::tinker::TinkerBackend;
use super::versions::{Beginning, Learned, LearnedPlace, WeightsVersion};
use crate::gateway_file::GatewayFile;
use crate::model_folders::{folder_name, local_folder};
use crate::served_models::{LearnedModel, configured_model, key_of};
use crate::tinker::TinkerModel;
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{Clock, Episode, Lease, StoreError, StoreReader};
use clawhost_gateway::Running;
use clawhost_learn::memory::{SCOPE_BYTES, Scope};
use clawhost_run_config::LocalModelText;
use clawhost_store::Reader;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often it looks.
const LOOK: Duration = Duration::from_secs(1);
/// The pause after a failure: opening a model again costs seconds of processor time, and memory or a teacher may come back.
const REST: Duration = Duration::from_secs(60);
/// Ended episodes that are looked at at once.
const ENDED: usize = 64;
/// Least sessions of a step by hand: one has no baseline.
const LEAST: usize = 2;

/// What a step needs, beside the sessions.
#[derive(Clone)]
pub(crate) struct Training {
    data: PathBuf,
    base: PathBuf,
    pub(super) place: LearnedPlace,
    pub(super) plan: WeightsPlan,
    backend: Arc<dyn WeightsBackend>,
    clock: Arc<dyn Clock>,
}

/// What one step did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainStep {
    /// Whose adapter learned. `None`: weights that answer everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The version that it made. `None`: none.
    pub version: Option<u64>,
    /// Sessions that it took.
    pub sessions: usize,
    /// What happened, for people.
    pub note: String,
    /// What was measured.
    pub metrics: Vec<(String, f64)>,
}

/// What came of a try to take a step.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// It was taken, or taken back.
    Done(TrainStep),
    /// Another process trains, or has taken the sessions.
    Busy,
    /// An earlier version was served again while it ran: it made nothing, and its sessions wait.
    Overtaken,
}

impl Training {
    /// The training that a plan describes, of a model of a request or a configuration.
    ///
    /// # Errors
    /// There is no model of this alias whose weights can learn.
    pub(crate) fn of(
        workspace: &Workspace,
        upstreams: &[String],
        file: &GatewayFile,
        plan: WeightsPlan,
    ) -> Result<Self, AppError> {
        let spec = configured_model(&plan.model, upstreams, file).ok_or_else(|| {
            let alias = clawhost_core::escaped(&plan.model, 60);
            let why = format!(
                "weights.model: there is no model `{alias}` whose weights can learn; serve one as {alias}=local:FOLDER, or as {alias}=tinker:BASE=FOLDER"
            );
            RequestError::File { path: crate::GATEWAY_FILE.to_owned(), why }
        })?;
        let (base, tinker) = match TinkerModel::of(&spec)? {
            Some(tinker) => (tinker.folder.clone(), Some(tinker)),
            None => {
                if LocalModelText::of(&spec).is_some_and(|text| text.dtype.is_some()) {
                    let why = "weights.model: weights that learn are kept as they are stored; leave out its dtype";
                    let path = crate::GATEWAY_FILE.to_owned();
                    return Err(RequestError::File { path, why: why.to_owned() }.into());
                }
                (workspace.settings().models.model_folder(local_folder(&spec).unwrap_or_default())?, None)
            }
        };
        let base = base.canonicalize().unwrap_or(base);
        let backend: Arc<dyn WeightsBackend> = match tinker {
            Some(tinker) => {
                let key =
                    file.models.get(&plan.model).map(|section| key_of(&plan.model, section)).transpose()?.flatten();
                Arc::new(TinkerBackend::new(workspace, (tinker, key), plan.clone())?)
            }
            None => Arc::new(LocalBackend::new(workspace, base.clone(), plan.clone())),
        };
        Ok(Self {
            data: workspace.folder().to_owned(),
            base,
            place: LearnedPlace::new(workspace.folder(), &plan.model),
            plan,
            backend,
            clock: workspace.clock(),
        })
    }

    /// What learns from whom, for people.
    pub(crate) fn summary(&self) -> String {
        self.plan.summary()
    }

    /// Makes sure that what was learned belongs to the configured model, and that what a gateway reads leads to the versions that serve.
    ///
    /// # Errors
    /// The model cannot be read, or another model learned under this alias.
    pub(crate) fn prepare(&self) -> Result<LearnedModel, AppError> {
        let Base { digest, warning } = self.backend.base()?;
        let _changing = self.changing()?;
        let mut places = Vec::new();
        match self.plan.adapters {
            None => places.push((self.place.clone(), self.learned_with(&self.place, &digest, None)?)),
            Some(_) => {
                for place in self.place.scopes() {
                    // What one scope cannot use holds up no other.
                    let known =
                        place.known().inspect_err(|error| tracing::error!("an adapter does not learn: {error}"));
                    let Ok(Some(known)) = known else { continue };
                    place.check(&known, &self.beginning(&digest, known.scope.clone()))?;
                    places.push((place, known));
                }
            }
        }
        for (place, learned) in &places {
            match place.repair(learned) {
                Err(error) if self.plan.adapters.is_some() => tracing::error!("an adapter does not answer: {error}"),
                repaired => repaired?,
            }
        }
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        Ok(LearnedModel {
            alias: self.plan.model.clone(),
            base: self.base.clone(),
            place: self.place.clone(),
            is_of_scopes: self.plan.adapters.is_some(),
        })
    }

    fn lease(&self) -> Result<Option<Box<dyn Lease>>, AppError> {
        lease(&self.data, &self.plan.model)
    }

    fn changing(&self) -> Result<Box<dyn Lease>, AppError> {
        changing(&self.data, &self.plan.model)
    }

    fn beginning(&self, digest: &str, scope: Whose) -> Beginning {
        Beginning {
            model: self.plan.model.clone(),
            part: self.backend.part().to_owned(),
            base: self.base.display().to_string(),
            digest: digest.to_owned(),
            learns: self.plan.described(),
            scope,
        }
    }

    fn learned_with(&self, place: &LearnedPlace, digest: &str, scope: Whose) -> Result<Learned, AppError> {
        place.learned(&self.beginning(digest, scope), self.clock.now_ms())
    }

    /// Serves an earlier version again.
    ///
    /// # Errors
    /// There is no such version on disk, or it is withdrawn.
    pub(super) fn serve(&self, scope: Option<&Scope>, number: u64) -> Result<(), AppError> {
        super::serving::serve(&self.data, (&self.plan.model, scope), number, false)
    }

    /// The place of whose weights learn.
    fn place_of(&self, whose: &Whose) -> LearnedPlace {
        whose.as_ref().map_or_else(|| self.place.clone(), |scope| self.place.of_scope(scope))
    }

    /// The episode up to which earlier steps took sessions.
    fn through(&self, whose: &Whose) -> Result<u64, AppError> {
        Ok(self.place_of(whose).known()?.map_or(0, |learned| learned.through))
    }

    /// Sessions that no step has taken. Earlier sessions of the same weights count, too.
    fn queue(&self) -> Result<Queue, AppError> {
        // A scope that is not known yet may have sessions anywhere.
        Ok(Queue::behind(if self.plan.adapters.is_some() { 0 } else { self.through(&None)? }))
    }

    /// Looks at episodes that have ended. Returns whether there may be more.
    fn look(&self, queue: &mut Queue) -> Result<bool, AppError> {
        let reader = Reader::open(&self.data)?;
        let reader: &dyn StoreReader = &reader;
        let now = self.clock.now_ms();
        let ended = reader.ended_after(queue.looked, ENDED)?;
        let is_full = ended.len() == ENDED;
        for (number, name) in ended {
            if let Some(name) = name
                && let Some(episode) = readable(reader.episode(&name), &name)?.flatten()
            {
                let due_at = episode.created_at.saturating_add(self.plan.deadline_ms);
                if due_at > now {
                    return Ok(false);
                }
                if let Some(Ok(session)) = readable(self.session(reader, &name, episode), &name)? {
                    let whose = session.scope;
                    // What cannot be read now fails the step, which leaves these weights alone for a while.
                    let through = || self.through(&whose).unwrap_or_default();
                    queue.add(whose.clone(), Waiting { number, name, due_at }, through);
                }
            }
            queue.looked = number;
        }
        // A step by hand may have taken them.
        if let Some(whose) = queue.fullest() {
            let through = self.through(&whose).unwrap_or_default();
            queue.took(&whose, through.max(queue.through(&whose)));
        }
        Ok(is_full)
    }

    fn session(
        &self,
        reader: &dyn StoreReader,
        name: &str,
        episode: Episode,
    ) -> Result<Result<LiveSession, Unused>, AppError> {
        let model = folder_name(&self.base);
        material::session(reader, name, episode, Wanted { model: &model, plan: &self.plan })
    }

    /// Sessions as they are read for a step. What was removed meanwhile is left out.
    fn sessions(&self, waiting: &[Waiting]) -> Result<Vec<LiveSession>, AppError> {
        let reader = Reader::open(&self.data)?;
        let reader: &dyn StoreReader = &reader;
        let mut sessions = Vec::with_capacity(waiting.len());
        for Waiting { name, .. } in waiting {
            let Some(episode) = readable(reader.episode(name), name)?.flatten() else { continue };
            sessions.extend(readable(self.session(reader, name, episode), name)?.and_then(Result::ok));
        }
        Ok(sessions)
    }

    /// Whose weights are trained now: those whose batch is complete, if the time is right.
    fn next(&self, queue: &Queue, last_request_at: u64) -> Option<Whose> {
        let now = self.clock.now_ms();
        let (whose, due_at) = queue.next(self.plan.batch, now)?;
        self.plan.times.allow(now, last_request_at, due_at).then_some(whose)
    }

    /// Takes one step over the sessions that wait first.
    async fn step(&self, queue: &mut Queue, whose: Whose) -> Result<Outcome, AppError> {
        let Some(_lease) = self.lease()? else { return Ok(Outcome::Busy) };
        let through = self.through(&whose)?;
        if through != queue.through(&whose) {
            // Another process took sessions meanwhile.
            queue.took(&whose, through);
            return Ok(Outcome::Busy);
        }
        let taken = queue.first(&whose, self.plan.batch);
        let Some(last) = taken.last().map(|last| last.number) else { return Ok(Outcome::Busy) };
        let (training, set) = (self.clone(), whose.clone());
        let rests = Arc::new(Rests::default());
        // A gateway that stops waits for no rest.
        let _ends = EndsRests(rests.clone());
        // Reading, computing and writing: nothing of it holds up an answer.
        let work = move || {
            let pace = Arc::new(Pace::new(training.plan.processors, training.clock.clone(), rests));
            let outcome = training.step_of(set, &taken, &pace);
            pace.ended_piece();
            outcome
        };
        let outcome = at_low_priority(self.plan.processors.threads, work).await??;
        if matches!(outcome, Outcome::Done(_)) {
            queue.took(&whose, last);
        }
        Ok(outcome)
    }

    /// What a step begins with, after what a killed process left is repaired.
    fn begin(&self, place: &LearnedPlace, whose: &Whose) -> Result<Learned, AppError> {
        // Reading the model may take long, and a rollback does not wait for it.
        let digest = if place.known()?.is_none() { Some(self.backend.base()?.digest) } else { None };
        let _changing = self.changing()?;
        let learned = match (place.known()?, digest) {
            (Some(known), _) => known,
            (None, Some(digest)) => self.learned_with(place, &digest, whose.clone())?,
            (None, None) => return Err(AppError::Host("what weights had learned was removed meanwhile".to_owned())),
        };
        place.repair(&learned)?;
        Ok(learned)
    }

    /// Takes a step on this thread, and writes what came of it, unless an earlier version was served again meanwhile.
    fn step_of(&self, whose: Whose, taken: &[Waiting], pace: &Arc<Pace>) -> Result<Outcome, AppError> {
        let place = self.place_of(&whose);
        let begun = self.begin(&place, &whose)?;
        let last = taken.last().map_or(begun.through, |last| last.number);
        let sessions = self.sessions(taken)?;
        let taught = sessions.iter().map(|session| (session.name.clone(), session.traces.clone())).collect();
        let count = sessions.len();
        let start = place.start(&begun);
        let made = self.backend.step(&start, age(&begun, sessions), pace)?;
        let number = begun.newest() + 1;
        if let Some(new) = &made.version {
            place.write(number, &**new)?;
        }
        let (note, mut metrics) = match made.stepped {
            Stepped::Taken(metrics) => ("learned from live sessions".to_owned(), shown(&metrics)),
            Stepped::Nothing(metrics) => {
                let why = "these sessions teach nothing: their rewards are equal, or the weights that answered them are too old or were taken back";
                (why.to_owned(), shown(&metrics))
            }
            Stepped::Refused(why) => (why, Vec::new()),
        };
        metrics.extend(made.tokens_per_second.map(|rate| ("tokens_per_second".to_owned(), rate)));
        let digest = made.version.as_ref().map(|new| new.digest());
        // From here on nothing else changes what answers. A rollback since the beginning wins: what was learned from the version before it counts for
        // nothing, and its sessions wait for a step from the version that serves.
        let _changing = self.changing()?;
        let Some(mut learned) = place.known()?.filter(|now| *now == begun) else {
            place.discard(number);
            return Ok(Outcome::Overtaken);
        };
        let version = WeightsVersion {
            number,
            from: start.number,
            digest: digest.unwrap_or_else(|| learned.served_digest()),
            at: self.clock.now_ms(),
            sessions: count,
            metrics: metrics.clone(),
            note: note.clone(),
            is_kept: made.version.is_some(),
            // An operator serves what learned from something that was forgotten: so did what is learned from it.
            is_withdrawn: learned.is_withdrawn(start.number),
        };
        learned.through = last;
        place.list(number, taught)?;
        match &made.version {
            Some(_) => place.publish(&mut learned, version)?,
            None => place.note(&mut learned, version)?,
        }
        let version = made.version.is_some().then_some(number);
        Ok(Outcome::Done(TrainStep { scope: whose, version, sessions: count, note, metrics }))
    }
}

/// What was read of an episode. `None`: its record is damaged, which hides no other.
fn readable<T, E: Into<AppError>>(read: Result<T, E>, name: &str) -> Result<Option<T>, AppError> {
    match read.map_err(Into::into) {
        Err(AppError::Store(error @ StoreError::Damaged { .. })) => {
            tracing::error!("episode {name} teaches no weights: {error}");
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// Sessions with the number of versions since the oldest weights that answered each.
fn age(learned: &Learned, sessions: Vec<LiveSession>) -> Vec<Aged> {
    let aged = |session: LiveSession| {
        let lags: Option<Vec<u64>> = session.weights.iter().map(|digest| learned.lag(digest)).collect();
        let oldest = lags.and_then(|lags| lags.into_iter().max());
        (session, oldest)
    };
    sessions.into_iter().map(aged).collect()
}

/// Trains while a gateway runs.
pub(crate) struct LiveWeights {
    training: Training,
    queue: Queue,
    progress: Progress,
    /// Why the last step of some weights failed.
    failing: BTreeMap<Whose, String>,
}

impl LiveWeights {
    /// Training beside a gateway.
    ///
    /// # Errors
    /// What was learned cannot be read.
    pub(crate) fn new(training: Training) -> Result<Self, AppError> {
        let queue = training.queue()?;
        Ok(Self { training, queue, progress: Progress::default(), failing: BTreeMap::new() })
    }

    /// What it does, for the page.
    pub(crate) fn page(&self) -> TrainingPage {
        TrainingPage::new(self.training.clone(), self.progress.clone())
    }

    /// Trains until it is dropped. The number of answers that the gateway has recorded says when it is idle.
    pub(crate) async fn run(mut self, gateway: Weak<Running>) {
        let requests = || gateway.upgrade().map_or(0, |running| running.counts().recorded);
        let (mut seen, mut last_request_at) = (requests(), self.training.clock.now_ms());
        let mut waiting = self.queue.longest();
        let mut problem = None;
        loop {
            let now = requests();
            if now != seen {
                (seen, last_request_at) = (now, self.training.clock.now_ms());
            }
            let passed = self.pass(last_request_at).await;
            self.progress.set_trains(false);
            self.progress.set_waiting(self.queue.longest());
            let why = passed.as_ref().err().map(AppError::to_string);
            if let Some(why) = why.as_ref().filter(|why| problem.as_ref() != Some(*why)) {
                tracing::error!("weights do not learn from live sessions now: {why}");
            }
            let rest = if why.is_some() { REST } else { LOOK };
            let why = why.or_else(|| self.failing.values().next().cloned());
            let is_new = why != problem;
            if is_new {
                self.progress.set_problem(why.clone());
                problem = why;
            }
            let has_more = passed.unwrap_or(false);
            if (has_more || is_new || self.queue.longest() != waiting)
                && let Some(gateway) = gateway.upgrade()
            {
                gateway.training_changed(&self.training.plan.model);
            }
            waiting = self.queue.longest();
            if !has_more {
                tokio::time::sleep(rest).await;
            }
        }
    }

    /// Looks, and takes a step if it is time. Returns whether there is more to do at once.
    async fn pass(&mut self, last_request_at: u64) -> Result<bool, AppError> {
        // Those of one set of weights are looked at when they are needed; those of many wait for each other otherwise.
        if self.training.plan.adapters.is_some() || self.queue.longest() < self.training.plan.batch {
            let (training, mut queue) = (self.training.clone(), std::mem::take(&mut self.queue));
            let looked = tokio::task::spawn_blocking(move || {
                let more = training.look(&mut queue);
                (queue, more)
            });
            let (queue, more) = match looked.await {
                Ok(looked) => looked,
                Err(error) => {
                    self.queue = self.training.queue()?;
                    return Err(AppError::Host(error.to_string()));
                }
            };
            self.queue = queue;
            if more? {
                return Ok(true);
            }
        }
        let Some(whose) = self.training.next(&self.queue, last_request_at) else { return Ok(false) };
        self.progress.set_trains(true);
        let step = match self.training.step(&mut self.queue, whose.clone()).await {
            Ok(Outcome::Done(step)) => Some(step),
            Ok(Outcome::Busy) => None,
            Ok(Outcome::Overtaken) => {
                let whose = shown_owner(&whose);
                tracing::info!("a step of weights{whose} made no version, because an earlier one was served again");
                None
            }
            Err(error) => {
                self.failed(whose, &error);
                return Ok(false);
            }
        };
        // Another process may have taken the sessions.
        self.failing.remove(&whose);
        if let Some(step) = &step {
            let whose = shown_owner(&whose);
            match step.version {
                Some(version) => {
                    tracing::info!("weights version {version}{whose} learned from {} sessions", step.sessions);
                }
                None => tracing::warn!(
                    "a step of weights{whose} over {} sessions made no version: {}",
                    step.sessions,
                    step.note
                ),
            }
        }
        Ok(step.is_some())
    }

    /// Leaves weights alone whose step failed. Others learn meanwhile.
    fn failed(&mut self, whose: Whose, error: &AppError) {
        let until = self.training.clock.now_ms().saturating_add(REST.as_millis() as u64);
        let (owner, why) = (shown_owner(&whose), error.to_string());
        // What fails for two in the same way fails for all.
        match self.failing.iter().any(|(other, known)| *other != whose && *known == why) {
            true => self.queue.rest_all(until),
            false => self.queue.rest(&whose, until),
        }
        if self.failing.insert(whose, why.clone()).as_ref() != Some(&why) {
            tracing::error!("weights{owner} do not learn from live sessions now: {why}");
        }
    }
}

/// Whose weights, behind "weights".
fn shown_owner(whose: &Whose) -> String {
    let owner = whose.as_ref().map(|scope| format!(" of {scope}")).unwrap_or_default();
    clawhost_core::escaped(&owner, SCOPE_BYTES)
}

/// Takes one step by hand over the sessions that wait, at least two, whatever the time. `upstreams`: models of a request, beside those of the
/// configuration. `None`: fewer sessions wait.
///
/// # Errors
/// No weights are configured to learn, they cannot be trained, or another process trains them.
pub async fn train_step(workspace: &Workspace, upstreams: &[String]) -> Result<Option<TrainStep>, AppError> {
    let file = GatewayFile::of(workspace.folder())?;
    let wrong = |why: String| AppError::from(RequestError::File { path: crate::GATEWAY_FILE.to_owned(), why });
    let plan = file.weights.plan().map_err(wrong)?;
    let plan = plan.ok_or_else(|| wrong("weights.model: name the alias of the local model that learns".to_owned()))?;
    let training = Training::of(workspace, upstreams, &file, plan)?;
    training.prepare()?;
    let mut queue = training.queue()?;
    let looks_on = |queue: &Queue| training.plan.adapters.is_some() || queue.longest() < training.plan.batch;
    while looks_on(&queue) && training.look(&mut queue)? {}
    let now = training.clock.now_ms();
    let next = queue.next(training.plan.batch, now).or_else(|| queue.next(LEAST, now));
    let Some((whose, _)) = next else { return Ok(None) };
    match training.step(&mut queue, whose).await? {
        Outcome::Done(step) => Ok(Some(step)),
        Outcome::Busy => Err(busy()),
        Outcome::Overtaken => {
            let why = "an earlier version of these weights was served again meanwhile, so the step made none; its sessions wait for the next one";
            Err(RequestError::Other(why.to_owned()).into())
        }
    }
}

#[cfg(test)]
mod tests;
