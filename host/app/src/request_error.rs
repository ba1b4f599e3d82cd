//! Invalid requests. `request_hints` suggests remedies for them.

use crate::MixtureError;
use crate::error_words::{did_you_mean, differences, known_aliases, listed, which_model};
use clawhost_core::{FEEDBACK_KEY_BYTES, InvalidFeedback, ModelError, NotAdmitted, RUN_TAGS, RunId, UnknownOption};
use clawhost_model::LocalModelError;
use clawhost_run_config::Difference;

/// An invalid request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// A mixture of environments that cannot be played or judged.
    #[error(transparent)]
    Mixture(#[from] MixtureError),
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
        "`{spec}` is not a model; write follower, random, openai:MODEL@http://HOST:PORT/v1, anthropic:MODEL@http://HOST:PORT/v1, local:DIR, tinker:BASE=DIR, script:FILE, or router:NAME{}",
        did_you_mean(nearest.as_deref())
    )]
    UnknownModel {
        /// The text.
        spec: String,
        /// The nearest kind of model.
        nearest: Option<String>,
    },
    /// A text that is no model of a gateway.
    #[error(
        "`{spec}` is not a model that a gateway serves; write openai:MODEL, openai:MODEL@http://HOST:PORT/v1, anthropic:MODEL, local:DIR, tinker:BASE=DIR or router:NAME"
    )]
    NotServed {
        /// The text.
        spec: String,
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
    #[error("{}", error.in_folder(folder))]
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
    /// A variable of the environment that should have a model's key, and has none.
    #[error("the variable {variable} has no key for the model `{alias}`")]
    NoKeyInVariable {
        /// The model.
        alias: String,
        /// The variable.
        variable: String,
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
    #[error(
        "no runs here yet; play some episodes with `clawhost run`, or record those of agents with `clawhost serve`"
    )]
    NoRuns,
    /// No runs in the data folder of a gateway that runs.
    #[error("no runs here yet; what agents ask the gateway at {origin} is recorded")]
    NothingCaptured {
        /// Where clients reach it.
        origin: String,
    },
    /// No runs in a data folder with the configuration of a gateway.
    #[error("no runs here yet; a gateway is configured here, and does not run")]
    GatewayNotStarted,
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
    /// A sweep whose runs could play more than they may.
    #[error(
        "these runs may play {episodes} episodes together, and the budget is {budget}; raise it, vary less, or make the runs shorter"
    )]
    SweepBudget {
        /// Most episodes of all runs.
        episodes: u64,
        /// The budget.
        budget: u64,
    },
    /// A run of live episodes where tasks are compared.
    #[error(
        "{run} was captured from agents, so it has no tasks to compare; name a run that played, learned or evaluated"
    )]
    LiveRun {
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
    /// A budget in tokens or money where nothing says what an episode costs.
    #[error(
        "what an episode of {environment} costs is unknown: no run of {fewest} episodes or more with this policy used tokens"
    )]
    CostUnknown {
        /// The environment.
        environment: String,
        /// Fewest episodes that say it.
        fewest: u64,
    },
    /// A budget in tokens or money that pays for too few episodes.
    #[error(
        "it pays for {} at {each}, as in {run}; the smallest budget is {fewest}",
        clawhost_core::counted(*episodes, "episode")
    )]
    SmallAllowance {
        /// The episodes that it pays for.
        episodes: u64,
        /// What an episode costs, in words.
        each: String,
        /// The run that says so.
        run: String,
        /// The smallest budget.
        fewest: u64,
    },
    /// A sweep of runs with a budget in tokens or money.
    #[error("a sweep counts episodes: give its runs a budget of episodes")]
    SweepAllowance,
    /// A run that was asked to be resumed, and is complete.
    #[error("nothing to resume: {0} of the same specification is complete")]
    RunComplete(String),
    /// A run that another process plays.
    #[error("{0} is being played by another process; wait for it, or stop it")]
    RunBusy(String),
    /// A data folder whose traffic another gateway records.
    #[error("{folder}: a gateway records into it already; stop it first")]
    GatewayRuns {
        /// The folder.
        folder: String,
    },
    /// A data folder whose gateway does not run.
    #[error("{folder}: no gateway runs in this data folder")]
    NoGateway {
        /// The folder.
        folder: String,
    },
    /// A gateway that cannot be asked.
    #[error("the gateway does not answer: {why}")]
    GatewayDoesNotAnswer {
        /// Why.
        why: String,
    },
    /// A gateway whose clients need keys, and no key.
    #[error("the gateway has keys of clients; set {variable} to one of them")]
    GatewayKey {
        /// The variable.
        variable: &'static str,
    },
    /// A request that a gateway refuses.
    #[error("the gateway refuses with status {status}: {why}")]
    GatewayRefuses {
        /// The status.
        status: u16,
        /// Its words.
        why: String,
    },
    /// A name that a collection cannot have.
    #[error("`{name}` cannot name a collection: it must be one short line without `/`")]
    CollectionName {
        /// The name.
        name: String,
    },
    /// A gateway in the background that ended at once.
    #[error("the gateway did not start: {why}")]
    GatewayDidNotStart {
        /// Its last words.
        why: String,
    },
    /// A gateway that goes on.
    #[error("the gateway, process {process}, does not stop: {why}")]
    GatewayDoesNotStop {
        /// Its process.
        process: u32,
        /// Why.
        why: String,
    },
    /// A changed configuration that a gateway did not take over.
    #[error("the gateway goes on with the configuration that it has: {why}")]
    NotReloaded {
        /// Why.
        why: String,
    },
    /// Changed files of a local model that a gateway cannot use.
    #[error("the model `{alias}` answers with its former weights: {why}")]
    FormerWeights {
        /// The alias.
        alias: String,
        /// Why.
        why: String,
    },
    /// Files of a model that were replaced while they were read.
    #[error("the model folder {folder} changed while it was read")]
    FolderChanged {
        /// The folder.
        folder: String,
    },
    /// A text that is no name of a variable.
    #[error("`{name}` cannot be the name of a variable: letters, digits and `_`, no digit first")]
    VariableName {
        /// The text.
        name: String,
    },
    /// A text that is no address of a gateway.
    #[error("`{address}` is not the address of a gateway; write http://HOST:PORT or https://HOST:PORT")]
    GatewayAddress {
        /// The text.
        address: String,
    },
    /// A text that cannot be an alias.
    #[error("`{alias}` cannot be the name of a model for clients")]
    ModelAlias {
        /// The text.
        alias: String,
    },
    /// A model must be named.
    #[error("{}{}", which_model(unknown.as_deref()), known_aliases(known))]
    WhichModel {
        /// The alias that was named, and that there is not. `None`: none was named.
        unknown: Option<String>,
        /// The aliases of the configuration.
        known: Vec<String>,
    },
    /// A client that is not connected.
    #[error("{file}: {client} is not connected by this program")]
    NotConnected {
        /// The client.
        client: String,
        /// Its file.
        file: String,
    },
    /// A text that is no key of a configuration.
    #[error("`{key}` is not a key; write it as in models.fast.retries")]
    ConfigurationKey {
        /// The text.
        key: String,
    },
    /// A key of the configuration that is not set.
    #[error("`{key}` is not set{}", did_you_mean(nearest.as_deref()))]
    NotConfigured {
        /// The key.
        key: String,
        /// The nearest one that is set.
        nearest: Option<String>,
    },
    /// A value that a key of the configuration cannot have.
    #[error("`{key}` stays as it is, because the configuration would be invalid: {why}")]
    ConfigurationValue {
        /// The key.
        key: String,
        /// Why.
        why: String,
    },
    /// A text that is no record policy.
    #[error(transparent)]
    RecordPolicy(#[from] clawhost_gateway::NoRecordPolicy),
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
    /// A router that cannot be chosen.
    #[error("{why}")]
    NoRouter {
        /// Why.
        why: String,
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
    /// An example that cannot be learned from.
    #[error("{place}: {why}")]
    Example {
        /// The file and its line, or the episode.
        place: String,
        /// The reason.
        why: String,
    },
    /// Data without examples.
    #[error(
        "there is no example to learn from: {too_long} are longer than the model's context, {unusable} episodes cannot teach (not decided, without a reward, cut off by a limit, or kept out of learning), and the rest gives none"
    )]
    NoExamples {
        /// Examples that are too long.
        too_long: u64,
        /// Episodes that are not decided, have no reward, were cut short, or are kept out of learning.
        unusable: u64,
    },
    /// A teacher whose tokens are not those of the model that learns.
    #[error(
        "{folder}: its tokenizer.json differs from that of the model that learns; a teacher scores the learner's own tokens, so it needs the same tokenizer"
    )]
    OtherTokenizer {
        /// The folder of the teacher.
        folder: String,
    },
    /// A teacher that is asked over the network and cannot score given tokens.
    #[error(
        "{teacher}: no teacher; an endpoint must score given tokens, as openai:MODEL@ADDRESS of vLLM, SGLang or a gateway does"
    )]
    NoTeacher {
        /// The text of the teacher.
        teacher: String,
    },
    /// A teacher whose answers cannot be learned from.
    #[error("the teacher {teacher} cannot be learned from: {error}")]
    Teacher {
        /// The text of the teacher.
        teacher: String,
        /// The problem.
        error: ModelError,
    },
    /// Merging a model without an adapter.
    #[error("{folder} has no adapter to merge; it can be exported as it is")]
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
