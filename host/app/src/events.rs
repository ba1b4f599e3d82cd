//! What an operation emits while it works: typed, so that a terminal, a log and a page can each show it in their own way.

use clawhost_core::{Digest, Episode, PluginIdentity, RunId, Usage};
use clawhost_learning::{EvolutionReport, IterationReport, WarmStart, WarmStartReport};
use clawhost_play::{EpisodeSummary, Unread};
use std::path::PathBuf;
use std::sync::Arc;

/// Something that the operator should know, and that stops nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Warning {
    /// Some episodes of a recorded run teach nothing.
    LeftOut {
        /// The run.
        run: RunId,
        /// Decided episodes with a reward.
        teaching: u64,
        /// Episodes that wait for a verdict.
        pending: u64,
        /// Decided episodes without a reward.
        unscored: u64,
    },
    /// A plugin imports kv and is not allowed to use it.
    KvNotGranted {
        /// The plugin.
        plugin: String,
    },
    /// A plugin imports models and is granted none.
    NoModelGranted {
        /// The plugin.
        plugin: String,
    },
    /// A model's generation_config.json asks for something that answers do not follow.
    SamplingIgnored {
        /// The model's folder.
        folder: String,
        /// What it asks for.
        settings: Vec<String>,
    },
    /// A model that learns samples from all tokens, whatever its generation_config.json says.
    SamplingWhileLearning,
    /// The adapter in the model's folder is merged, because all weights learn.
    AdapterMerged,
    /// The device on which a local model is computed, with what was passed over.
    Device {
        /// The device, its name, and why it was chosen.
        chosen: String,
        /// Devices that were not taken, with why.
        passed_over: Vec<String>,
    },
    /// Nothing of what a reward reads was in any episode that it judged.
    NothingToRead(Unread),
    /// Other components of the same name and version were used in this data folder.
    SameNameAndVersion {
        /// The plugin that is loaded.
        plugin: PluginIdentity,
        /// Digests of the others, at least one.
        others: Vec<Digest>,
    },
    /// No reward is named, so the end of an episode is scored.
    FinishedReward,
    /// A playbook was learned in another environment, with other options, another seed or another component.
    PlaybookFromElsewhere {
        /// The playbook.
        playbook: String,
        /// Where it was learned.
        learned: String,
        /// Where it is served now.
        now: String,
        /// What differs.
        difference: TaskDifference,
    },
    /// No lesson of a playbook fits into the token budget.
    NoLessonFits {
        /// The playbook.
        playbook: String,
        /// The budget.
        token_budget: u64,
    },
    /// Nothing was interrupted, so a new run begins.
    NothingToResume {
        /// The newest run of this specification that has finished.
        finished: Option<RunId>,
    },
    /// Numbers or a drawing of a run could not be written; the run goes on.
    NotWritten {
        /// What happened.
        why: String,
    },
}

/// In what the tasks of two runs differ: the first that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskDifference {
    /// The environment has another name.
    Environment,
    /// The options differ.
    Options,
    /// The seed alone differs, or the seed and the component.
    Seed {
        /// The seed of the first run.
        learned: u64,
    },
    /// The component alone differs.
    Component,
}

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A warning.
    Warning(Warning),
    /// A run begins, or goes on.
    Begun {
        /// The run.
        run: RunId,
        /// Whether it was interrupted before.
        resumed: bool,
        /// What is played, in one line.
        title: String,
        /// Where models and numbers are written, if anywhere.
        out: Option<PathBuf>,
    },
    /// A component is being compiled, because this data folder holds no compiled code of it that this program made on this
    /// machine. Reported when it begins, and once more if it takes longer than a few seconds.
    Compiling {
        /// The component: its path, or its name where it was kept.
        plugin: String,
        /// Its length in bytes.
        bytes: u64,
        /// Whether it has taken long already.
        is_slow: bool,
    },
    /// The component that was being compiled is compiled, or was given up.
    Compiled,
    /// Episodes that were recorded before.
    AlreadyRecorded {
        /// How many.
        episodes: u64,
    },
    /// A phase begins.
    Phase {
        /// Its name.
        name: String,
        /// Episodes that it plays.
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
    /// Episodes were handled, or steps taken, by an operation that plays no episodes.
    Progress {
        /// How many so far.
        done: u64,
        /// Of how many.
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
    /// The model was measured while it learns from demonstrations.
    WarmedUp {
        /// How far it came.
        report: Box<WarmStartReport>,
        /// The plan.
        plan: Box<WarmStart>,
    },
    /// An iteration is over.
    Iteration {
        /// What it came to.
        report: Box<IterationReport>,
        /// Iterations of the plan.
        of: u64,
    },
    /// What models have cost so far.
    Cost(Usage),
    /// A step of a demonstration begins: what follows belongs to it.
    Demo(crate::demo::DemoStep),
}

/// Takes events. Called from any thread; must not block.
pub trait EventSink: Send + Sync {
    /// Takes one.
    fn event(&self, event: Event);
}

/// Takes events and drops them.
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

/// Hands what a run reports to a sink.
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
