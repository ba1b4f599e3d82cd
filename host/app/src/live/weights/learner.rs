//! Trains the weights of a local model from live sessions, beside the gateway that serves it.

use super::background::at_low_priority;
use super::material::{self, LiveSession, Wanted};
use super::page::{Progress, TrainingPage};
use super::section::WeightsPlan;
use super::step::{Aged, Learner, Stepped, shown};
use super::versions::{Learned, LearnedPlace, WeightsVersion};
use crate::events::Silent;
use crate::gateway_file::GatewayFile;
use crate::models::{ModelFactory, ModelSettings, folder_name, read_folder};
use crate::served_models::{LearnedModel, configured_folder};
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{Clock, KnownSecrets, Lease, LeaseMode, LeaseSubject, Leases as _, StoreReader};
use clawhost_learn::policy::HINT_TOP;
use clawhost_model::{ModelFolder, TokenCalls, digest};
use clawhost_run_config::BudgetSpec;
use clawhost_store::{FileLeases, Reader};
use serde::Serialize;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How often it looks.
const LOOK: Duration = Duration::from_secs(1);
/// The pause after a failure: opening a model again costs seconds of processor time, and memory or a teacher may come back.
const REST: Duration = Duration::from_secs(60);
/// Ended episodes that are looked at at once.
const ENDED: usize = 64;
/// Concurrent calls of a teacher.
const CONCURRENCY: usize = 4;
/// Least sessions of a step by hand: one has no baseline.
const LEAST: usize = 2;

/// What a step needs, beside the sessions.
#[derive(Clone)]
pub(crate) struct Training {
    data: PathBuf,
    base: PathBuf,
    pub(super) place: LearnedPlace,
    pub(super) plan: WeightsPlan,
    models: ModelSettings,
    secrets: KnownSecrets,
    clock: Arc<dyn Clock>,
}

/// A session with the number of its episode and the time from which it may be taken.
#[derive(Debug, Clone)]
struct Waiting {
    number: u64,
    due_at: u64,
    session: LiveSession,
}

/// Sessions that were looked at and wait for a step.
#[derive(Debug, Default)]
struct Queue {
    /// The episode up to which earlier steps took sessions.
    through: u64,
    /// The last episode that was looked at.
    looked: u64,
    sessions: VecDeque<Waiting>,
}

/// What one step did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainStep {
    /// The version that it made. `None`: none.
    pub version: Option<u64>,
    /// Sessions that it took.
    pub sessions: usize,
    /// What happened, for people.
    pub note: String,
    /// What was measured.
    pub metrics: Vec<(String, f64)>,
}

impl Training {
    /// The training that a plan describes, of a model of a request or a configuration.
    ///
    /// # Errors
    /// There is no local model of this alias.
    pub(crate) fn of(
        workspace: &Workspace,
        upstreams: &[String],
        file: &GatewayFile,
        plan: WeightsPlan,
    ) -> Result<Self, AppError> {
        let base = configured_folder(&plan.model, upstreams, file).ok_or_else(|| {
            let alias = clawhost_core::escaped(&plan.model, 60);
            let why = format!("weights.model: there is no local model `{alias}`; serve one as {alias}=local:FOLDER");
            RequestError::File { path: crate::GATEWAY_FILE.to_owned(), why }
        })?;
        Ok(Self {
            data: workspace.folder().to_owned(),
            base,
            place: LearnedPlace::new(workspace.folder(), &plan.model),
            plan,
            models: workspace.settings().models.clone(),
            secrets: workspace.secrets().clone(),
            clock: workspace.clock(),
        })
    }

    /// Makes sure that there is a folder that leads to the version that serves.
    ///
    /// # Errors
    /// The model cannot be read, or another model learned under this alias.
    pub(crate) fn prepare(&self) -> Result<LearnedModel, AppError> {
        // While another process trains, what it has is complete.
        let lease = self.lease()?;
        let learned = self.learned()?;
        if lease.is_some() {
            self.place.repair(&learned)?;
        }
        let base = read_folder(&self.base, &self.models.texts, &Silent)?;
        learned.check(&digest(&base.weights).to_string(), &self.plan.described())?;
        if base.sampling.restricts() {
            tracing::warn!(
                "the model {} draws from a part of its tokens (top_k, top_p or min_p in generation_config.json): only requests that \
                 turn this off teach its weights",
                self.plan.model
            );
        }
        let base = self.base.canonicalize().unwrap_or_else(|_| self.base.clone());
        Ok(LearnedModel { alias: self.plan.model.clone(), base, folder: self.place.serving() })
    }

    /// The right to change what was learned. `None`: another process has it.
    fn lease(&self) -> Result<Option<Box<dyn Lease>>, AppError> {
        let subject = LeaseSubject::Weights(self.plan.model.clone());
        Ok(FileLeases::new(&self.data).acquire(&subject, LeaseMode::Exclusive)?)
    }

    /// What was learned. Earlier sessions count, too, if these weights answered them.
    fn learned(&self) -> Result<Learned, AppError> {
        let model = || read_folder(&self.base, &self.models.texts, &Silent);
        self.place.learned((&self.base, &self.plan.described()), model, self.clock.now_ms())
    }

    /// Looks at episodes that have ended. Returns whether there may be more.
    fn look(&self, queue: &mut Queue) -> Result<bool, AppError> {
        let reader = Reader::open(&self.data)?;
        let reader: &dyn StoreReader = &reader;
        let now = self.clock.now_ms();
        let model = folder_name(&self.base);
        let ended = reader.ended_after(queue.looked, ENDED)?;
        let is_full = ended.len() == ENDED;
        for (number, name) in ended {
            if let Some(name) = name
                && let Some(episode) = reader.episode(&name)?
            {
                let due_at = episode.created_at.saturating_add(self.plan.deadline_ms);
                if due_at > now {
                    return Ok(false);
                }
                let wanted = Wanted { model: &model, plan: &self.plan };
                if let Ok(session) = material::session(reader, &name, episode, wanted)? {
                    queue.sessions.push_back(Waiting { number, due_at, session });
                }
            }
            queue.looked = number;
        }
        Ok(is_full)
    }

    /// Whether a batch that waits is trained on now.
    fn is_time(&self, queue: &Queue, last_request_at: u64) -> bool {
        let Some(last) = queue.sessions.get(self.plan.batch - 1) else { return false };
        let now = self.clock.now_ms();
        let is_idle = self.plan.idle_ms.is_none_or(|idle| now.saturating_sub(last_request_at) >= idle);
        (is_idle && self.plan.quiet.is_open(now)) || now >= last.due_at.saturating_add(self.plan.overdue_ms)
    }

    /// Takes one step over the sessions that wait first. `None`: another process trains.
    async fn step(&self, queue: &mut Queue) -> Result<Option<TrainStep>, AppError> {
        let Some(_lease) = self.lease()? else { return Ok(None) };
        let learned = self.learned()?;
        self.place.repair(&learned)?;
        if learned.through != queue.through {
            // Another process took sessions meanwhile.
            *queue = Queue::behind(learned.through);
            return Ok(None);
        }
        let taken: Vec<Waiting> = queue.sessions.iter().take(self.plan.batch).cloned().collect();
        let Some(last) = taken.last().map(|last| last.number) else { return Ok(None) };
        let (training, count) = (self.clone(), taken.len());
        // Reading, computing and writing: nothing of it holds up an answer.
        let step = at_low_priority(self.plan.threads, move || training.step_of(learned, taken)).await??;
        queue.through = last;
        queue.sessions.drain(..count);
        Ok(Some(step))
    }

    /// Takes a step on this thread, and writes what came of it.
    fn step_of(&self, mut learned: Learned, taken: Vec<Waiting>) -> Result<TrainStep, AppError> {
        let last = taken.last().map_or(learned.through, |last| last.number);
        let sessions: Vec<String> = taken.iter().map(|waiting| waiting.session.name.clone()).collect();
        let (stepped, made) = self.stepped(&learned, taken)?;
        let number = learned.newest() + 1;
        let (note, mut metrics, is_kept) = match stepped {
            Stepped::Taken(metrics) => ("learned from live sessions".to_owned(), shown(&metrics), true),
            Stepped::Nothing(metrics) => {
                let why = "these sessions teach nothing: their rewards are equal, or the weights that answered them are too old";
                (why.to_owned(), shown(&metrics), false)
            }
            Stepped::Refused(why) => (why, Vec::new(), false),
        };
        metrics.extend(made.tokens_per_second.map(|rate| ("tokens_per_second".to_owned(), rate)));
        let count = sessions.len();
        let version = WeightsVersion {
            number,
            digest: made.digest,
            at: self.clock.now_ms(),
            sessions: count,
            metrics: metrics.clone(),
            note: note.clone(),
            is_kept,
        };
        learned.through = last;
        self.place.list(number, &sessions)?;
        match made.written {
            Some((model, state)) if is_kept => self.place.publish(&mut learned, (&model, &state), version)?,
            _ => self.place.note(&mut learned, version)?,
        }
        Ok(TrainStep { version: is_kept.then_some(number), sessions: count, note, metrics })
    }

    /// Opens the weights, and takes the step on this thread.
    fn stepped(&self, learned: &Learned, sessions: Vec<Waiting>) -> Result<(Stepped, Made), AppError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| AppError::Host(format!("training cannot begin: {error}")))?;
        let (folder, state) = self.place.newest(learned)?;
        let model = read_folder(&folder, &self.models.texts, &Silent)?;
        let device = self.models.open_device(model.config.parameters(), &Silent)?;
        let name = folder_name(&self.base);
        let mut learner = Learner::open(&model, &name, &self.plan, &device, state.as_deref())?;
        if let Some(spec) = self.plan.teacher.as_deref().filter(|_| self.plan.signal.uses_hints()) {
            let tokens = Arc::new(TokenCalls::new(learner.model().clone()));
            let models =
                ModelFactory::new(self.models.clone(), &BudgetSpec::default(), CONCURRENCY, self.secrets.clone());
            learner.set_teacher(runtime.block_on(models.teacher((spec, HINT_TOP), tokens, &Silent))?);
        }
        let aged: Vec<Aged> = sessions.into_iter().map(|waiting| age(learned, waiting.session)).collect();
        let tokens: usize = aged.iter().map(|(session, _)| session.generated.written()).sum();
        let begun = self.clock.monotonic_us();
        let stepped = runtime.block_on(learner.step(learned.serves + 1, aged))?;
        let seconds = self.clock.monotonic_us().saturating_sub(begun) as f64 / 1e6;
        let is_taken = matches!(stepped, Stepped::Taken(_));
        let weights = learner.layer().host().clone();
        let made = Made {
            digest: digest(&weights).to_string(),
            tokens_per_second: (is_taken && seconds > 0.0).then(|| tokens as f64 / seconds),
            written: if is_taken {
                let state = learner.state()?;
                Some((ModelFolder { weights, ..model }, state))
            } else {
                None
            },
        };
        Ok((stepped, made))
    }
}

/// What a step leaves.
struct Made {
    digest: String,
    tokens_per_second: Option<f64>,
    /// The model with its new weights, and the optimiser's state.
    written: Option<(ModelFolder, Vec<u8>)>,
}

impl Queue {
    fn behind(through: u64) -> Self {
        Self { through, looked: through, sessions: VecDeque::new() }
    }
}

/// A session with the number of versions since the oldest weights that answered it.
fn age(learned: &Learned, session: LiveSession) -> Aged {
    let kept = || learned.versions.iter().filter(|version| version.is_kept);
    let place = |digest: &String| kept().position(|version| version.digest == *digest);
    let newest = kept().position(|version| version.number == learned.serves);
    let oldest =
        session.weights.iter().map(place).collect::<Option<Vec<_>>>().and_then(|places| places.into_iter().min());
    let lag = newest.zip(oldest).and_then(|(newest, oldest)| newest.checked_sub(oldest)).map(|lag| lag as u64);
    (session, lag)
}

/// Trains while a gateway runs.
pub(crate) struct LiveWeights {
    training: Training,
    queue: Queue,
    progress: Progress,
}

impl LiveWeights {
    /// Training beside a gateway.
    ///
    /// # Errors
    /// What was learned cannot be read.
    pub(crate) fn new(training: Training) -> Result<Self, AppError> {
        let queue = Queue::behind(training.learned()?.through);
        Ok(Self { training, queue, progress: Progress::default() })
    }

    /// What it does, for the page.
    pub(crate) fn page(&self) -> TrainingPage {
        TrainingPage::new(self.training.clone(), self.progress.clone())
    }

    /// Trains until it is dropped. `requests`: the number of answers recorded so far, which says when the gateway is idle.
    pub(crate) async fn run(mut self, requests: impl Fn() -> u64 + Send) {
        let (mut seen, mut last_request_at) = (requests(), self.training.clock.now_ms());
        let mut problem = None;
        loop {
            let now = requests();
            if now != seen {
                (seen, last_request_at) = (now, self.training.clock.now_ms());
            }
            let passed = self.pass(last_request_at).await;
            self.progress.set_trains(false);
            self.progress.set_waiting(self.queue.sessions.len());
            let why = passed.as_ref().err().map(AppError::to_string);
            if let Some(why) = why.as_ref().filter(|why| problem.as_ref() != Some(*why)) {
                tracing::error!("weights do not learn from live sessions now: {why}");
            }
            let rest = if why.is_some() { REST } else { LOOK };
            if why.is_some() {
                self.queue = Queue::behind(self.queue.through);
            }
            if why != problem {
                self.progress.set_problem(why.clone());
                problem = why;
            }
            if !passed.unwrap_or(false) {
                tokio::time::sleep(rest).await;
            }
        }
    }

    /// Looks, and takes a step if it is time. Returns whether there is more to do at once.
    async fn pass(&mut self, last_request_at: u64) -> Result<bool, AppError> {
        if self.queue.sessions.len() < self.training.plan.batch {
            let (training, mut queue) = (self.training.clone(), std::mem::take(&mut self.queue));
            let looked = tokio::task::spawn_blocking(move || {
                let more = training.look(&mut queue);
                (queue, more)
            });
            let (queue, more) = looked.await.map_err(|error| AppError::Host(error.to_string()))?;
            self.queue = queue;
            if more? {
                return Ok(true);
            }
        }
        if !self.training.is_time(&self.queue, last_request_at) {
            return Ok(false);
        }
        self.progress.set_trains(true);
        let step = self.training.step(&mut self.queue).await?;
        if let Some(step) = &step {
            match step.version {
                Some(version) => tracing::info!("weights version {version} learned from {} sessions", step.sessions),
                None => {
                    tracing::warn!("a step of weights over {} sessions made no version: {}", step.sessions, step.note)
                }
            }
        }
        Ok(step.is_some())
    }
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
    let mut queue = Queue::behind(training.learned()?.through);
    while queue.sessions.len() < training.plan.batch && training.look(&mut queue)? {}
    if queue.sessions.len() < LEAST {
        return Ok(None);
    }
    let busy = || RequestError::Other("another process trains these weights now; try again when it is done".to_owned());
    Ok(Some(training.step(&mut queue).await?.ok_or_else(busy)?))
}
