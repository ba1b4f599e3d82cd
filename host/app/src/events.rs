//! Typed events of an operation in progress, which each front end can show in its own way.

use clawhost_core::{Digest, Episode, Failure, PluginIdentity, RunId, Secret, Usage};
use clawhost_learning::{EvolutionReport, IterationReport, WarmStart, WarmStartReport};
use clawhost_play::{EpisodeSummary, Unread};
use std::path::PathBuf;
use std::sync::Arc;

/// A condition that the operator should know and that does not stop the operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Warning {
    /// Some episodes of a recorded run are not used for learning.
    LeftOut {
        /// The run.
        run: RunId,
        /// Decided episodes with a reward.
        teaching: u64,
        /// Episodes that wait for a verdict.
        pending: u64,
        /// Decided episodes without a reward.
        unscored: u64,
        /// Episodes of agents that are kept out of learning.
        withheld: u64,
    },
    /// A recorded run that teaches was played in groups of one episode, so nothing in it can be compared.
    NothingToCompare {
        /// The run.
        run: RunId,
    },
    /// A plugin imports kv without permission.
    KvNotGranted {
        /// The plugin.
        plugin: String,
    },
    /// What a plugin may use.
    Grants {
        /// The plugin.
        plugin: String,
        /// As `kv`, or `llm:judge=openai:MODEL`.
        grants: Vec<String>,
    },
    /// A plugin imports models and has no grant.
    NoModelGranted {
        /// The plugin.
        plugin: String,
    },
    /// A model's generation_config.json has settings that are not supported.
    SamplingIgnored {
        /// The model's folder.
        folder: String,
        /// The settings.
        settings: Vec<String>,
    },
    /// A key from the environment is not sent to an address that was not confirmed.
    KeyHeldBack {
        /// The variable with the key.
        variable: String,
        /// The address.
        address: String,
    },
    /// The key of an endpoint is too short, or a placeholder: it is not removed from what the endpoint answers.
    KeyNotScrubbed {
        /// The kind of endpoint, as `openai`.
        kind: String,
    },
    /// A model that learns samples from all tokens, whatever its generation_config.json says.
    SamplingWhileLearning,
    /// The adapter in the model's folder is merged, because all weights learn.
    AdapterMerged,
    /// The device of a local model, and devices that were rejected.
    Device {
        /// The device, its name, and the reason of the choice.
        chosen: String,
        /// Rejected devices with reasons.
        passed_over: Vec<String>,
    },
    /// A reward found nothing to read in any episode that it judged.
    NothingToRead(Unread),
    /// The built-in policy found nothing to act on in any turn.
    NothingToActOn {
        /// The policy: `follower` or `random`.
        policy: String,
        /// Its answers.
        answers: u64,
    },
    /// The plugin of a router failed, so the incumbent of the router decided.
    RouterPluginFailed {
        /// The router.
        router: String,
        /// How often.
        count: u64,
        /// The first failure.
        first: Failure,
    },
    /// Other components with the same name and version were used in this data folder.
    SameNameAndVersion {
        /// The loaded plugin.
        plugin: PluginIdentity,
        /// Digests of the others, at least one.
        others: Vec<Digest>,
    },
    /// No reward is named, so episodes are scored by their ending.
    FinishedReward,
    /// A playbook was learned in another environment, or with other options, another seed or another component.
    PlaybookFromElsewhere {
        /// The playbook.
        playbook: String,
        /// The tasks on which it was learned.
        learned: String,
        /// The tasks on which it is served now.
        now: String,
        /// The difference.
        difference: TaskDifference,
    },
    /// No lesson of a playbook fits into the token budget.
    NoLessonFits {
        /// The playbook.
        playbook: String,
        /// The budget.
        token_budget: u64,
    },
    /// No run was interrupted, so a new run begins.
    NothingToResume,
    /// Keys have a limit of US dollars, and models no prices: their answers count as free.
    WithoutPrices {
        /// The names of the keys.
        keys: Vec<String>,
        /// The aliases of the models.
        models: Vec<String>,
    },
    /// Metrics or a plot could not be written. The run continues.
    NotWritten {
        /// The error.
        why: String,
    },
}

/// The difference between the tasks of two runs: the first that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskDifference {
    /// The environment has another name.
    Environment,
    /// The options differ.
    Options,
    /// Only the seed differs, or the seed and the component.
    Seed {
        /// The seed of the first run.
        learned: u64,
    },
    /// Only the component differs.
    Component,
}

/// An event.
#[derive(Debug, Clone)]
pub enum Event {
    /// A warning.
    Warning(Warning),
    /// A run begins or is resumed.
    Begun {
        /// The run.
        run: RunId,
        /// Whether it was interrupted before.
        resumed: bool,
        /// A summary in one line.
        title: String,
        /// The folder for models and metrics, if there is one.
        out: Option<PathBuf>,
    },
    /// A component is being compiled, because this data folder has no compiled code of it from this program and
    /// machine. Emitted when the compilation begins, and again if it takes longer than a few seconds.
    Compiling {
        /// The component: its path, or its name in the store.
        plugin: String,
        /// Its length in bytes.
        bytes: u64,
        /// Whether it has taken long already.
        is_slow: bool,
    },
    /// The compilation has ended, successfully or not.
    Compiled,
    /// Episodes that were recorded before.
    AlreadyRecorded {
        /// Number of episodes.
        episodes: u64,
    },
    /// A phase begins.
    Phase {
        /// Its name.
        name: String,
        /// Number of its episodes.
        episodes: u64,
    },
    /// An episode was recorded: it is on disk.
    Recorded {
        /// The episode.
        episode: Box<EpisodeSummary>,
        /// Episodes recorded so far.
        done: u64,
        /// Episodes of the phase or the run.
        total: u64,
    },
    /// Progress of an operation that plays no episodes.
    Progress {
        /// Episodes or steps so far.
        done: u64,
        /// Episodes or steps in total.
        total: u64,
    },
    /// The training episodes of an iteration were played and scored.
    Played {
        /// The iteration, from 1.
        iteration: u64,
        /// Its episodes.
        episodes: Vec<Arc<Episode>>,
    },
    /// A section of the prompt has evolved.
    Evolved(Box<EvolutionReport>),
    /// The model was evaluated while it learns from demonstrations.
    WarmedUp {
        /// The progress.
        report: Box<WarmStartReport>,
        /// The plan.
        plan: Box<WarmStart>,
    },
    /// An iteration has ended.
    Iteration {
        /// Its report.
        report: Box<IterationReport>,
        /// Iterations of the plan.
        of: u64,
    },
    /// The cost of models so far.
    Cost(Usage),
    /// A step of a demonstration begins. Later events belong to it.
    Demo(crate::demo::DemoStep),
    /// A demonstration can be watched in a browser while it runs.
    DemoPage {
        /// The address of the page.
        page: String,
        /// The key that it asks for. It ends with the demonstration.
        key: Secret,
    },
}

/// Receives events. Called from any thread; must not block.
pub trait EventSink: Send + Sync {
    /// Receives one event.
    fn event(&self, event: Event);
}

/// Drops all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl EventSink for Silent {
    fn event(&self, _: Event) {}
}

impl<F: Fn(Event) + Send + Sync> EventSink for F {
    fn event(&self, event: Event) {
        self(event);
    }
}

/// Forwards the events of a run to a sink.
pub(crate) struct Watch<'a>(pub(crate) &'a dyn EventSink);

impl clawhost_play::Observer for Watch<'_> {
    fn recorded(&self, episode: &EpisodeSummary, done: u64, total: u64) {
        self.0.event(Event::Recorded { episode: Box::new(episode.clone()), done, total });
    }
}

impl clawhost_learning::LearnObserver for Watch<'_> {
    fn phase(&self, name: &str, episodes: u64) {
        self.0.event(Event::Phase { name: name.to_owned(), episodes });
    }

    fn evolved(&self, report: &EvolutionReport) {
        self.0.event(Event::Evolved(Box::new(report.clone())));
    }

    fn warmed(&self, report: &WarmStartReport, plan: &WarmStart) {
        self.0.event(Event::WarmedUp { report: Box::new(report.clone()), plan: Box::new(plan.clone()) });
    }

    fn played(&self, iteration: u64, episodes: &[Arc<Episode>]) {
        self.0.event(Event::Played { iteration, episodes: episodes.to_vec() });
    }

    fn iteration(&self, report: &IterationReport, of: u64) {
        self.0.event(Event::Iteration { report: Box::new(report.clone()), of });
        self.0.event(Event::Cost(report.usage));
    }
}
