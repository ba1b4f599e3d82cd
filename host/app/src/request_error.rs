//! Invalid requests, each with suggested remedies.

use clawhost_core::{FEEDBACK_KEY_BYTES, Hint, InvalidFeedback, NotAdmitted, RUN_TAGS, RunId, UnknownOption, escaped};
use clawhost_model::LocalModelError;
use clawhost_run_config::Difference;

/// An invalid request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// An option that a plugin does not read.
    #[error("{unknown}{}", did_you_mean(nearest.as_deref()))]
    UnknownOption {
        /// The option.
        unknown: UnknownOption,
        /// The nearest option that it reads.
        nearest: Option<String>,
    },
    /// A text that is not a model.
    #[error(
        "`{spec}` is not a model; write follower, random, openai:MODEL@http://HOST:PORT/v1, anthropic:MODEL@http://HOST:PORT/v1, local:DIR, or script:FILE{}",
        did_you_mean(nearest.as_deref())
    )]
    UnknownModel {
        /// The text.
        spec: String,
        /// The nearest kind of model.
        nearest: Option<String>,
    },
    /// An endpoint without a model's name.
    #[error("`{spec}` names no model; write {kind}:MODEL@{address}")]
    NoModelName {
        /// The text.
        spec: String,
        /// The kind of endpoint.
        kind: String,
        /// Its address.
        address: String,
    },
    /// A folder without a model.
    #[error("{folder}: there is no config.json, so it is not a model's folder")]
    NoModelFolder {
        /// The folder.
        folder: String,
    },
    /// A model that cannot be used here.
    #[error("{folder}: {error}")]
    ModelFolder {
        /// The folder.
        folder: String,
        /// The reason.
        error: LocalModelError,
    },
    /// One key file for two kinds of endpoints.
    #[error("one key file for two kinds of endpoints; write {one}=FILE and {other}=FILE")]
    OneKeyFile {
        /// A kind.
        one: String,
        /// The other.
        other: String,
    },
    /// A key file without a key.
    #[error("{path}: the key file is empty; a key file is a text file with only the key")]
    EmptyKeyFile {
        /// The file.
        path: String,
    },
    /// A text that would have no effect, because the chat template omits system messages.
    #[error(
        "{what} would have no effect: the chat template of this model omits system messages, as those of `clawhost model init` do by default"
    )]
    SystemPromptUnsupported {
        /// The text.
        what: String,
    },
    /// A reward that would count twice.
    #[error("{reward} is given twice with equal options")]
    RewardTwice {
        /// The reward.
        reward: String,
    },
    /// A file that cannot be read.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: String,
        /// The operating system's error.
        why: String,
    },
    /// A system prompt that cannot be read.
    #[error("{path}: the system prompt cannot be read: {why}")]
    SystemPromptFile {
        /// The file.
        path: String,
        /// The operating system's error.
        why: String,
    },
    /// An unknown run.
    #[error("there is no run `{name}` here")]
    NoRun {
        /// Its name.
        name: String,
    },
    /// A beginning of an id that several runs have.
    #[error("`{name}` is the beginning of several runs: {}; give more characters, or the name of one", listed(runs))]
    AmbiguousRun {
        /// The beginning.
        name: String,
        /// Some of the runs, newest first.
        runs: Vec<RunId>,
    },
    /// A run that would have too many tags.
    #[error("{run} would have more than {RUN_TAGS} tags; remove some first")]
    TooManyTags {
        /// The run.
        run: String,
    },
    /// No runs at all.
    #[error("no runs here yet; play some episodes with `clawhost run`")]
    NoRuns,
    /// An unknown episode.
    #[error(
        "no episode `{name}` here; `clawhost episodes list` shows those of the newest run, and of another run with its name"
    )]
    NoEpisode {
        /// Its name.
        name: String,
    },
    /// An episode that has not ended.
    #[error("episode {name} has not ended: feedback is possible afterwards")]
    EpisodeOpen {
        /// Its name.
        name: String,
    },
    /// An id that several episodes have.
    #[error("several runs have an episode {name}: {}; write RUN/{name}", listed(runs))]
    AmbiguousEpisode {
        /// The id.
        name: String,
        /// The runs, newest first.
        runs: Vec<RunId>,
    },
    /// Invalid feedback.
    #[error(transparent)]
    Feedback(#[from] InvalidFeedback),
    /// An invalid key.
    #[error("the key has {bytes} bytes; a key has 1 to {FEEDBACK_KEY_BYTES}")]
    FeedbackKey {
        /// Its length.
        bytes: usize,
    },
    /// Feedback that an episode cannot accept.
    #[error("{episode}: {why}")]
    NotAdmitted {
        /// The episode.
        episode: String,
        /// The reason.
        why: NotAdmitted,
    },
    /// A run without episodes.
    #[error("{run} holds no episodes: nothing was recorded before it ended")]
    NoEpisodes {
        /// The run.
        run: String,
    },
    /// A run that has no episodes of its own.
    #[error("{run} learned or evaluated; name a run that only played, or one of live episodes")]
    NotPlayed {
        /// The run.
        run: String,
    },
    /// A run of which episodes were removed.
    #[error("episodes of {run} were removed on request: the rest is a biased selection; name another run")]
    Pruned {
        /// The run.
        run: String,
    },
    /// A run without decided episodes that have a reward.
    #[error(
        "{run} holds no decided episode with a reward: {pending} wait for a verdict, {unscored} have none, {withheld} are kept out of learning; a run's rewards are those that it was played with"
    )]
    NothingDecided {
        /// The run.
        run: String,
        /// Episodes that wait for a verdict.
        pending: u64,
        /// Decided episodes without a reward.
        unscored: u64,
        /// Episodes of agents that are kept out of learning.
        withheld: u64,
    },
    /// A run of another environment.
    #[error("{run} played {recorded}, and not {wanted}: its episodes cannot be used there")]
    OtherEnvironment {
        /// The run.
        run: String,
        /// Its environment.
        recorded: String,
        /// The environment of the learning run.
        wanted: String,
    },
    /// A run that another process plays.
    #[error("{run} is being played by another process; wait for it, or stop it")]
    RunBusy {
        /// The run.
        run: String,
    },
    /// A data folder whose traffic another gateway records.
    #[error("{folder}: a gateway records into it already; stop it first")]
    GatewayRuns {
        /// The folder.
        folder: String,
    },
    /// A name that a client's key cannot have.
    #[error("`{name}` cannot name a key: letters, digits, `-`, `_` and `.`, at most {most} of them")]
    KeyName {
        /// The name.
        name: String,
        /// Most characters.
        most: usize,
    },
    /// A key of this name exists.
    #[error("there is a key `{name}` already; remove it first to get another one of this name")]
    KeyExists {
        /// The name.
        name: String,
    },
    /// No key has this name.
    #[error("there is no key `{name}`")]
    NoSuchKey {
        /// The name.
        name: String,
    },
    /// A playbook that another process learns or edits.
    #[error("playbook {playbook} is being learned by another process; wait for it")]
    PlaybookBusy {
        /// The playbook.
        playbook: String,
    },
    /// A data folder from which another process removes records, or that is in use while records should be removed.
    #[error("{folder}: another process {what}; wait for it")]
    FolderBusy {
        /// The folder.
        folder: String,
        /// What it does.
        what: &'static str,
    },
    /// An interrupted run that differs from the requested one.
    #[error("{run} was interrupted, and is not continued: {}", differences(all))]
    ResumeDiffers {
        /// The run.
        run: String,
        /// The differences, the decisive ones first.
        all: Vec<Difference>,
    },
    /// A run to resume that does not exist, has finished, or differs.
    #[error("{run} cannot be resumed: {why}")]
    CannotResume {
        /// The run.
        run: String,
        /// The reason.
        why: String,
    },
    /// An invalid name of a playbook.
    #[error("`{name}` is not a valid name of a playbook: letters, digits, `-`, `_` and `.`, at most 128")]
    PlaybookName {
        /// The name.
        name: String,
    },
    /// An unknown playbook.
    #[error("there is no playbook `{name}`; there is {known}{}", did_you_mean(nearest.as_deref()))]
    NoPlaybook {
        /// Its name.
        name: String,
        /// The known playbooks.
        known: String,
        /// The nearest name.
        nearest: Option<String>,
    },
    /// There are no playbooks.
    #[error("there is no playbook yet; learn one with `clawhost learn PLUGIN.wasm`, or import one")]
    NoPlaybooks,
    /// Several playbooks exist, and none is named.
    #[error("which playbook? There are {known}")]
    WhichPlaybook {
        /// The known playbooks.
        known: String,
    },
    /// An unknown version.
    #[error("{why}")]
    NoVersion {
        /// The version, and the known ones.
        why: String,
    },
    /// Two versions with the same content.
    #[error("version {one} has the same content as version {other}; name another version, or compare with no playbook")]
    SameVersion {
        /// A version.
        one: u64,
        /// The other.
        other: u64,
    },
    /// A file or folder that cannot be written or read.
    #[error("{0}")]
    Target(String),
    /// A run folder that was named before and does not exist.
    #[error(
        "{out}: this run has no files here; name the folder with which it began. If that is lost, create an empty folder there: its best weights and its metrics are lost, what it learned is not"
    )]
    OutGone {
        /// The folder.
        out: String,
    },
    /// Removing a record that another record refers to.
    #[error("{0}")]
    Retention(String),
    /// Any other error that the operator can fix.
    #[error("{0}")]
    Other(String),
    /// An address whose confirmation is taken back, and which has none.
    #[error("{address} is not confirmed")]
    NotConfirmed {
        /// Scheme, host and port.
        address: String,
    },
    /// A folder that is not empty, as the target of a model.
    #[error("{folder} is not empty; name a new folder")]
    NotEmpty {
        /// The folder.
        folder: String,
        /// Whether its files may be overwritten on request.
        can_overwrite: bool,
    },
    /// Merging a model without an adapter.
    #[error("{folder} has no adapter to merge")]
    NoAdapter {
        /// The model's folder.
        folder: String,
    },
    /// A folder without the plugins of a demonstration.
    #[error("{folder}: no {file} there; build the plugins with `cargo xtask guests`")]
    NoPlugin {
        /// The folder.
        folder: String,
        /// The first plugin that is missing.
        file: String,
    },
}

impl RequestError {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownOption { .. } => "unknown_option",
            Self::UnknownModel { .. } => "unknown_model",
            Self::NoModelName { .. } => "no_model_name",
            Self::NoModelFolder { .. } => "no_model_folder",
            Self::ModelFolder { .. } => "model_folder",
            Self::OneKeyFile { .. } => "one_key_file",
            Self::EmptyKeyFile { .. } => "empty_key_file",
            Self::SystemPromptUnsupported { .. } => "system_prompt_unsupported",
            Self::RewardTwice { .. } => "reward_twice",
            Self::File { .. } => "file",
            Self::SystemPromptFile { .. } => "system_prompt_file",
            Self::NoRun { .. } => "no_run",
            Self::AmbiguousRun { .. } => "ambiguous_run",
            Self::TooManyTags { .. } => "too_many_tags",
            Self::NoRuns => "no_runs",
            Self::NoEpisode { .. } => "no_episode",
            Self::EpisodeOpen { .. } => "episode_open",
            Self::AmbiguousEpisode { .. } => "ambiguous_episode",
            Self::Feedback(_) => "feedback",
            Self::FeedbackKey { .. } => "feedback_key",
            Self::NotAdmitted { .. } => "not_admitted",
            Self::NoEpisodes { .. } => "no_episodes",
            Self::NotPlayed { .. } => "not_played",
            Self::Pruned { .. } => "pruned",
            Self::NothingDecided { .. } => "nothing_decided",
            Self::OtherEnvironment { .. } => "other_environment",
            Self::RunBusy { .. } => "run_busy",
            Self::GatewayRuns { .. } => "gateway_runs",
            Self::KeyName { .. } => "key_name",
            Self::KeyExists { .. } => "key_exists",
            Self::NoSuchKey { .. } => "no_such_key",
            Self::PlaybookBusy { .. } => "playbook_busy",
            Self::FolderBusy { .. } => "folder_busy",
            Self::ResumeDiffers { .. } => "resume_differs",
            Self::CannotResume { .. } => "cannot_resume",
            Self::PlaybookName { .. } => "playbook_name",
            Self::NoPlaybook { .. } => "no_playbook",
            Self::NoPlaybooks => "no_playbooks",
            Self::WhichPlaybook { .. } => "which_playbook",
            Self::NoVersion { .. } => "no_version",
            Self::SameVersion { .. } => "same_version",
            Self::Target(_) => "target",
            Self::OutGone { .. } => "out_gone",
            Self::Retention(_) => "retention",
            Self::Other(_) => "request",
            Self::NotConfirmed { .. } => "not_confirmed",
            Self::NotEmpty { .. } => "not_empty",
            Self::NoAdapter { .. } => "no_adapter",
            Self::NoPlugin { .. } => "no_plugin",
        }
    }

    /// Suggested remedies.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::ResumeDiffers { .. } => vec![Hint::SameSpecification, Hint::NewRun],
            Self::UnknownModel { .. } | Self::NoModelName { .. } => vec![Hint::ChangeThis],
            Self::NoRun { .. } => vec![Hint::command("runs list", "shows the latest")],
            Self::CannotResume { .. } => vec![Hint::NewRun],
            Self::NothingDecided { .. } => vec![Hint::command("feedback EPISODE", "judges one")],
            Self::EmptyKeyFile { .. } => vec![Hint::change("api_key_file")],
            Self::SystemPromptFile { .. } => vec![Hint::change("system_prompt_file")],
            Self::GatewayRuns { .. } => vec![Hint::OtherDataFolder],
            Self::KeyExists { .. } | Self::NoSuchKey { .. } => vec![Hint::command("keys", "lists the keys")],
            Self::PlaybookBusy { .. } => vec![Hint::change("playbook")],
            Self::NoModelFolder { .. } => vec![Hint::command("model init DIR", "makes a tiny one")],
            Self::ModelFolder { error, .. } => error.hints(),
            Self::SystemPromptUnsupported { .. } => {
                let does = "makes one that reads it, on request";
                vec![Hint::command("model init DIR", does)]
            }
            Self::NotConfirmed { .. } => vec![Hint::command("endpoints", "lists the confirmed addresses")],
            Self::NotEmpty { can_overwrite: true, .. } => vec![Hint::set("force", "true")],
            Self::NoAdapter { .. } => vec![Hint::change("adapter")],
            Self::NoPlugin { .. } => vec![Hint::change("plugins")],
            _ => Vec::new(),
        }
    }
}

/// Number of runs that are shown.
fn listed(runs: &[RunId]) -> String {
    let shown: Vec<String> = runs.iter().take(SHOWN).map(|run| escaped(&run.0, 100)).collect();
    let more = if runs.len() > SHOWN { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Number of differences that are shown. The others usually have the same cause.
const SHOWN: usize = 3;

fn differences(all: &[Difference]) -> String {
    let shown: Vec<String> = all.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = match all.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(", and {more} more differ"),
    };
    format!("{}{more}", shown.join(", "))
}
