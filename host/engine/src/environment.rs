//! Environment plugins.

use crate::binary::ComponentOutline;
use crate::call;
use crate::check::Check;
use crate::grants::ModelGrants;
use crate::host::{PluginHost, Prepared};
use crate::instance::InstanceLease;
use crate::{EngineError, convert, failure};
use async_trait::async_trait;
use clawhost_bindings::environment::exports::clawhost::environment::environment as wit;
use clawhost_bindings::environment::{EnvironmentPlugin as Guest, EnvironmentPluginPre};
use clawhost_core::{
    CallLimits, Context, Digest, Environment, EnvironmentDescription, EpisodeRecords, Failure, Grants, LiveEpisode,
    Message, Opening, Origin, PluginIdentity, Snapshot, Split, StartParams, Status, StepResult, Task, code,
};
use std::sync::Arc;
use wasmtime::Engine;
use wasmtime::component::ResourceAny;

/// A loaded environment plugin.
pub struct EnvironmentPlugin {
    host: PluginHost,
    engine: Engine,
    pre: EnvironmentPluginPre<crate::state::State>,
    outline: ComponentOutline,
    identity: PluginIdentity,
    description: EnvironmentDescription,
    grants: Arc<ModelGrants>,
}

impl std::fmt::Debug for EnvironmentPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnvironmentPlugin").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The name of the error case, and its text.
fn case_and_text(error: wit::EnvError) -> (&'static str, String) {
    match error {
        wit::EnvError::UnknownTask(text) => ("unknown-task", text),
        wit::EnvError::InvalidSnapshot(text) => ("invalid-snapshot", text),
        wit::EnvError::Unsupported(text) => ("unsupported", text),
        wit::EnvError::InvalidOption(text) => ("invalid-option", text),
        wit::EnvError::Other(text) => ("an error", text),
    }
}

fn env_error(plugin: &PluginIdentity, export: &str, error: wit::EnvError) -> Failure {
    let (case, text) = case_and_text(error);
    failure::plugin_error(plugin, export, case, &text)
}

impl EnvironmentPlugin {
    pub(crate) async fn load(name: &str, prepared: Prepared, grants: ModelGrants) -> Result<Self, EngineError> {
        let misfit = |error| EngineError::misfit(name, &error);
        let pre = EnvironmentPluginPre::new(prepared.pre).map_err(misfit)?;
        let identity =
            PluginIdentity { name: name.to_owned(), version: "?".to_owned(), digest: prepared.outline.digest };
        let description = EnvironmentDescription {
            about: clawhost_core::About {
                name: name.to_owned(),
                version: String::new(),
                summary: String::new(),
                features: Vec::new(),
                options: Vec::new(),
                extra: Vec::new(),
            },
            splits: Vec::new(),
        };
        let grants = grants.asked_for(&prepared.outline);
        let mut plugin = Self {
            host: prepared.host,
            engine: prepared.engine,
            pre,
            outline: prepared.outline,
            identity,
            description,
            grants: Arc::new(grants),
        };
        let description = plugin.describe().await;
        plugin.description = description.map_err(|failure| EngineError::NoAnswer {
            name: name.to_owned(),
            export: "describe",
            failure,
        })?;
        plugin.identity.name = plugin.description.about.name.clone();
        plugin.identity.version = plugin.description.about.version.clone();
        Ok(plugin)
    }

    /// Outline of the component.
    pub fn outline(&self) -> &ComponentOutline {
        &self.outline
    }

    /// Asks the plugin to validate these options. Their names have been checked before.
    ///
    /// # Errors
    /// The plugin rejects them, with its own message; or it fails.
    pub async fn check_options(&self, options: &clawhost_core::Attributes) -> Result<(), EngineError> {
        let asked = async {
            let limits = &self.host.limits.describe;
            let (mut place, guest) = self.instance("check", limits, 0, Arc::default()).await?;
            let deadline = place.deadline();
            let call = guest.clawhost_environment_environment().call_check(&mut place.store, options);
            let answer = call::within(deadline, call).await;
            call::end(&mut place.store, &self.identity, answer)
        };
        let answered = asked.await.map(|answer| answer.map_err(|error| case_and_text(error).1));
        EngineError::of_check(&self.identity.name, answered)
    }

    fn check(&self, export: &'static str) -> Check<'_> {
        Check { plugin: &self.identity, export, limits: &self.host.limits }
    }

    /// Creates an instance with the budget of the next call: instantiation runs guest code too.
    async fn instance(
        &self,
        export: &'static str,
        limits: &CallLimits,
        seed: u64,
        grants: Arc<ModelGrants>,
    ) -> Result<(InstanceLease, Guest), Failure> {
        let mut place =
            InstanceLease::take(&self.host, &self.engine, self.host.limits.memory_bytes, seed, grants).await?;
        call::begin(&mut place.store, export, limits).map_err(failure::host)?;
        let deadline = place.deadline();
        let guest = call::within(deadline, self.pre.instantiate_async(&mut place.store)).await;
        let guest = call::end(&mut place.store, &self.identity, guest)?;
        Ok((place, guest))
    }

    async fn describe(&self) -> Result<EnvironmentDescription, Failure> {
        // A separate instance without grants: a plugin's description must not depend on its grants.
        let limits = &self.host.limits.describe;
        let (mut place, guest) = self.instance("describe", limits, 0, Arc::default()).await?;
        let deadline = place.deadline();
        let call = guest.clawhost_environment_environment().call_describe(&mut place.store);
        let answer = call::within(deadline, call).await;
        let answer = call::end(&mut place.store, &self.identity, answer)?;
        let wit = answer.map_err(|error| env_error(&self.identity, "describe", error))?;
        let check = self.check("describe");
        let about = convert::about_from(wit.about);
        check.about(&about)?;
        check.attributes(&wit.extra)?;
        wit.splits.iter().try_for_each(|split| check.attributes(&split.extra))?;
        let splits: Vec<Split> =
            wit.splits.into_iter().map(|split| Split { name: split.name, tasks: split.tasks }).collect();
        check.splits(&splits)?;
        Ok(EnvironmentDescription { about, splits })
    }

    fn live(&self, place: InstanceLease, guest: Guest, episode: ResourceAny) -> Live {
        Live {
            fuel: call::fuel_used(&place.store),
            place,
            guest,
            episode,
            identity: self.identity.clone(),
            step_limits: self.limits_for(&self.host.limits.step),
            dead: false,
            over: false,
        }
    }

    /// The limits of a call that may use granted models: waiting for them needs a longer deadline.
    fn limits_for(&self, limits: &CallLimits) -> CallLimits {
        let mut limits = *limits;
        if !self.grants.models.is_empty() {
            limits.deadline_ms = limits.deadline_ms.max(self.host.limits.llm_deadline_ms);
        }
        limits
    }
}

#[async_trait]
impl Environment for EnvironmentPlugin {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn description(&self) -> &EnvironmentDescription {
        &self.description
    }

    async fn tasks(&self, context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>, Failure> {
        let limit = limit.min(self.host.limits.tasks_per_call);
        let (mut place, guest) = self.instance("tasks", &self.host.limits.tasks, context.seed, Arc::default()).await?;
        let context = convert::context_to(context);
        let deadline = place.deadline();
        let interface = guest.clawhost_environment_environment();
        let call = interface.call_tasks(&mut place.store, &context, split, offset, limit);
        let answer = call::within(deadline, call).await;
        let answer = call::end(&mut place.store, &self.identity, answer)?;
        let tasks = answer.map_err(|error| env_error(&self.identity, "tasks", error))?;
        let tasks: Vec<Task> = tasks.into_iter().map(convert::task_from).collect();
        self.check("tasks").tasks(split, &tasks, limit)?;
        Ok(tasks)
    }

    fn grants(&self) -> Grants {
        // A grant that the plugin cannot use is ignored.
        self.grants.used_by(&self.outline)
    }

    async fn start(&self, params: StartParams) -> Result<(Box<dyn LiveEpisode>, Opening), Failure> {
        let limits = self.limits_for(&self.host.limits.start);
        let (mut place, guest) = self.instance("start", &limits, params.context.seed, self.grants.clone()).await?;
        place.store.data_mut().answers = params.answers.clone();
        let wit_params = params_to(&params);
        let interface = guest.clawhost_environment_environment();
        let deadline = place.deadline();
        let episodes = interface.episode();
        let answer = call::within(deadline, episodes.call_start(&mut place.store, &wit_params)).await;
        let answer = call::end(&mut place.store, &self.identity, answer);
        if let Some(spent) = &place.store.data().budget_spent {
            return Err(failure::budget(spent));
        }
        let answer = answer?;
        let (episode, opening) = answer.map_err(|error| env_error(&self.identity, "start", error))?;
        let check = self.check("start");
        check.attributes(&opening.extra)?;
        if let Some(hint) = &opening.system_hint {
            check.text("the system hint", hint)?;
        }
        let tools: Vec<_> = opening.tools.into_iter().map(convert::tool_from).collect();
        check.tools(&tools)?;
        let artefacts: Vec<_> = opening.artefacts.into_iter().map(convert::artefact_from).collect();
        check.artefacts(&artefacts)?;
        let observation = messages(&check, opening.observation)?;
        let live = self.live(place, guest, episode);
        Ok((Box::new(live), Opening { observation, tools, system_hint: opening.system_hint, artefacts }))
    }

    async fn restore(&self, params: StartParams, snapshot: &Snapshot) -> Result<Box<dyn LiveEpisode>, Failure> {
        let check = self.check("restore");
        if snapshot.environment != self.identity.digest {
            let from = snapshot.environment.short();
            return check.refuse(code::MALFORMED, format!("a snapshot of another component ({from})"));
        }
        check.at_most("bytes in a snapshot", snapshot.guest.len(), check.limits.snapshot_bytes)?;
        let limits = self.limits_for(&self.host.limits.restore);
        // Models are not granted during the restore: unrecorded answers could not be replayed.
        let (mut place, guest) = self.instance("restore", &limits, params.context.seed, Arc::default()).await?;
        place.store.data_mut().answers = params.answers.clone();
        let interface = guest.clawhost_environment_environment();
        let deadline = place.deadline();
        let episodes = interface.episode();
        let params = params_to(&params);
        let call = episodes.call_restore(&mut place.store, &params, &snapshot.guest);
        let answer = call::within(deadline, call).await;
        let answer = call::end(&mut place.store, &self.identity, answer)?;
        let episode = answer.map_err(|error| env_error(&self.identity, "restore", error))?;
        // Effects of the restore itself (clock reads, log lines) are discarded.
        place.store.data_mut().resume(snapshot.turn, snapshot.host.clone(), self.grants.clone());
        Ok(Box::new(self.live(place, guest, episode)))
    }
}

fn params_to(params: &StartParams) -> wit::Params {
    wit::Params {
        task: convert::task_to(&params.task),
        context: convert::context_to(&params.context),
        max_turns: params.max_turns,
        extra: Vec::new(),
    }
}

fn messages(
    check: &Check<'_>,
    messages: Vec<clawhost_bindings::environment::clawhost::types::types::Message>,
) -> Result<Vec<Message>, Failure> {
    // Checked before the conversion, so that a million empty messages are not copied.
    check.at_most("messages in an observation", messages.len(), check.limits.messages)?;
    let convert = |message| convert::message_from(message, Origin::Environment);
    check.observation(messages.into_iter().map(convert).collect())
}

/// An episode in its own instance.
struct Live {
    place: InstanceLease,
    guest: Guest,
    episode: ResourceAny,
    identity: PluginIdentity,
    step_limits: CallLimits,
    fuel: Option<u64>,
    /// Set before each call and cleared after success: an instance that trapped, or whose call was cancelled, is never
    /// entered again.
    dead: bool,
    /// The environment ended the episode: no further call is allowed.
    over: bool,
}

impl Live {
    fn begin(&mut self, export: &'static str, limits: &CallLimits) -> Result<(), Failure> {
        if self.dead {
            return Err(failure::host(format!("`{export}` of an instance that has failed before")));
        }
        if self.over {
            return Err(failure::host(format!("`{export}` after the end of the episode")));
        }
        self.dead = true;
        self.fuel = None;
        call::begin(&mut self.place.store, export, limits).map_err(failure::host)
    }

    /// If the model budget was exhausted during the episode, it failed for this reason, however the environment handled it.
    fn budget(&mut self) -> Result<(), Failure> {
        let spent = self.place.store.data().budget_spent.as_deref().map(failure::budget);
        self.dead |= spent.is_some();
        spent.map_or(Ok(()), Err)
    }

    fn end<T>(&mut self, result: wasmtime::Result<T>) -> Result<T, Failure> {
        let ended = call::end(&mut self.place.store, &self.identity, result);
        self.fuel = call::fuel_used(&self.place.store);
        let value = ended?;
        self.dead = false;
        Ok(value)
    }
}

#[async_trait]
impl LiveEpisode for Live {
    async fn step(&mut self, action: &Message, tool_results: &[Message]) -> Result<StepResult, Failure> {
        let limits = self.step_limits;
        self.begin("step", &limits)?;
        self.place.store.data_mut().clock.next_turn();
        self.place.store.data_mut().turn += 1;
        let action = wit::Action {
            message: convert::message_to(action),
            tool_results: tool_results.iter().map(convert::message_to).collect(),
            extra: Vec::new(),
        };
        let interface = self.guest.clawhost_environment_environment();
        let deadline = self.place.deadline();
        let episodes = interface.episode();
        let call = episodes.call_step(&mut self.place.store, self.episode, &action);
        let answer = call::within(deadline, call).await;
        let answer = self.end(answer);
        self.budget()?;
        let answer = answer?;
        // An error result, or one that is rejected below, is a failure too: no call may follow.
        self.dead = true;
        let result = answer.map_err(|error| env_error(&self.identity, "step", error))?;
        let limits = self.place.store.data().limits.clone();
        let check = Check { plugin: &self.identity, export: "step", limits: &limits };
        check.at_most("signals", result.signals.len(), limits.signals)?;
        let signals: Vec<_> = result.signals.into_iter().map(convert::signal_from).collect();
        check.signals("signals", &signals)?;
        let artefacts: Vec<_> = result.artefacts.into_iter().map(convert::artefact_from).collect();
        check.artefacts(&artefacts)?;
        check.attributes(&result.extra)?;
        let status = match result.status {
            wit::Status::Running => Status::Running,
            wit::Status::Terminated => Status::Terminated,
            wit::Status::Truncated(why) => {
                check.text("the reason", &why)?;
                Status::Truncated(why)
            }
            wit::Status::Other(text) => {
                let text = clawhost_core::escaped(&text, check.limits.name_bytes);
                return check.refuse(code::UNKNOWN_CASE, format!("status `{text}`, which this host does not know"));
            }
        };
        let observation = messages(&check, result.observation)?;
        self.dead = false;
        self.over = status != Status::Running;
        Ok(StepResult { observation, status, signals, artefacts })
    }

    async fn snapshot(&mut self) -> Result<Snapshot, Failure> {
        let limits = self.place.store.data().limits.snapshot;
        self.begin("snapshot", &limits)?;
        // Effects of the snapshot call are discarded, and models are not granted during it.
        let state = self.place.store.data_mut();
        let (turn, host, grants) = (state.turn, state.held(), std::mem::take(&mut state.grants));
        let interface = self.guest.clawhost_environment_environment();
        let deadline = self.place.deadline();
        let episodes = interface.episode();
        let call = episodes.call_snapshot(&mut self.place.store, self.episode);
        let answer = call::within(deadline, call).await;
        let answer = self.end(answer)?;
        self.place.store.data_mut().resume(turn, host.clone(), grants);
        let bytes = answer.map_err(|error| env_error(&self.identity, "snapshot", error))?;
        let limits = self.place.store.data().limits.clone();
        let check = Check { plugin: &self.identity, export: "snapshot", limits: &limits };
        check.at_most("bytes in a snapshot", bytes.len(), limits.snapshot_bytes)?;
        Ok(Snapshot { environment: self.identity.digest, guest: bytes, turn, host })
    }

    fn last_fuel(&self) -> Option<u64> {
        self.fuel
    }

    fn host_calls(&self) -> Digest {
        self.place.store.data().host_digest
    }

    fn take_records(&mut self) -> EpisodeRecords {
        let state = self.place.store.data_mut();
        let log = state.log().take();
        EpisodeRecords { log, journal: std::mem::take(&mut state.journal), notes: state.notes.take_writes() }
    }
}
