//! A session: everything that a run needs, loaded and checked. It completes the specification with the identities of
//! plugins and models, and the text of the system prompt.

use crate::events::{Event, EventSink, Warning};
use crate::mixing::{Loaded, check_rewards, check_shares};
use crate::models::{ModelFactory, Opened};
use crate::modules::ComponentHost;
use crate::plugins::Plugins;
use crate::routers::{RouterPlugins, granted_routers, router_name};
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{Llm, Sampling, SpecDocument};
use clawhost_engine::ModelGrants;
use clawhost_model::LocalModel;
use clawhost_play::{ChatPolicy, Plan, Ports, ScoringRule};
use clawhost_providers::Ledger;
use clawhost_run_config::{Key, RunSpec};
use std::path::Path;
use std::sync::Arc;

/// Largest system prompt from a file: the messages of a model request have at most 1 MiB.
const SYSTEM_PROMPT_BYTES: u64 = 1 << 20;

/// Everything that a run needs.
pub(crate) struct Session<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) host: ComponentHost,
    pub(crate) models: ModelFactory,
    pub(crate) model: Arc<dyn Llm>,
    ignores_system_prompt: bool,
    pub(crate) grants: ModelGrants,
    pub(crate) loaded: Loaded,
    pub(crate) rewards: Vec<ScoringRule>,
    /// The specification, with the identities of everything that was loaded.
    pub(crate) spec: RunSpec,
}

impl<'a> Session<'a> {
    /// Loads everything that a specification names. `learning`: the local model, if it is open already because it
    /// learns, with its name in the table of a router.
    pub(crate) async fn open(
        workspace: &'a Workspace,
        mut spec: RunSpec,
        learning: Option<(Arc<LocalModel>, Option<&str>)>,
        events: &dyn EventSink,
    ) -> Result<Self, AppError> {
        let concurrency = usize::from(spec.play.concurrency);
        let (settings, secrets) = (workspace.settings().models.clone(), workspace.secrets().clone());
        let mut models = ModelFactory::new(settings, &spec.budget, concurrency, secrets);
        let (host, store) = (workspace.host()?, workspace.store());
        let (folder, none) = (workspace.settings().models.routers.as_deref(), ModelGrants::default());
        host.modules().one_version_each(spec.plugins().map(|plugin| plugin.path.as_str())).await?;
        let plugins = Plugins { host: &host, store: &store, grants: &none, events };
        let own = router_name(&spec.policy.model);
        let policy = RouterPlugins::load(&plugins, folder, own).await.map_err(|error| error.of_option(Key::Policy))?;
        let others = granted_routers(&spec.grants).filter(|name| own != Some(*name));
        let granted = RouterPlugins::load(&plugins, folder, others).await;
        models.set_router_plugins(policy.and(granted.map_err(|error| error.of_option(Key::Grants))?));
        let Opened { model, ignores_system_prompt } = match learning {
            Some((model, None)) => models.opened(model),
            Some((model, Some(name))) => {
                models.set_learner(name.to_owned(), model);
                models.policy(&spec.policy.model, events)?
            }
            None => models.policy(&spec.policy.model, events)?,
        };
        let grants = models.grants(&spec.grants, events)?;
        if let Some(path) = &spec.policy.system_prompt_file {
            let text = clawhost_files::read_text(Path::new(path), SYSTEM_PROMPT_BYTES)
                .map_err(|error| RequestError::SystemPromptFile { path: path.clone(), why: error.to_string() })?;
            spec.policy.system_prompt = Some(text);
        }
        if ignores_system_prompt && spec.policy.system_prompt.is_some() {
            return Err(system_prompt_unsupported("a system prompt").into());
        }
        let plugins = Plugins { host: &host, store: &store, grants: &grants, events };
        let loaded = Loaded::open(&plugins, &mut spec).await?;
        let rewards = plugins.rewards(&spec.rewards).await?;
        check_rewards(&loaded.environments, &rewards).map_err(|error| AppError::from(error).of_option(Key::Rewards))?;
        spec.policy.identity = Some(model.identity());
        for (named, rule) in spec.rewards.iter_mut().zip(&rewards) {
            named.plugin.plugin = Some(rule.reward.identity().clone());
            named.source = Some(rule.source);
        }
        let session = Self { workspace, host, models, model, ignores_system_prompt, grants, loaded, rewards, spec };
        // An allowance becomes a number of episodes only when everything that decides it is loaded.
        if session.spec.harness().is_none_or(|harness| harness.allowance.is_none()) {
            session.check_shares()?;
        }
        Ok(session)
    }

    /// Fails if a part of a mixture gets too little of the run.
    pub(crate) fn check_shares(&self) -> Result<(), AppError> {
        check_shares(&self.spec, &self.loaded.environments).map_err(|error| AppError::from(error).of_option(Key::Mix))
    }

    /// Fails if the model's chat template omits system messages, so that `what` would have no effect.
    pub(crate) fn needs_system_prompt(&self, what: &str) -> Result<(), RequestError> {
        if self.ignores_system_prompt { Err(system_prompt_unsupported(what)) } else { Ok(()) }
    }

    /// Warns of what the policy did in a run that has ended: nothing at all, or without the plugin of its router.
    pub(crate) fn warn_of_policy(&self, events: &dyn EventSink) {
        if let Some(answers) = self.models.only_idle_answers() {
            let policy = self.spec.policy.model.clone();
            events.event(Event::Warning(Warning::NothingToActOn { policy, answers }));
        }
        self.models.warn_of_routers(events);
    }

    /// A loader with this run's grants.
    pub(crate) fn plugins<'b>(&'b self, store: &'b clawhost_store::Store, events: &'b dyn EventSink) -> Plugins<'b> {
        Plugins { host: &self.host, store, grants: &self.grants, events }
    }

    /// The name of the playbook: the configured one, or that of the environments.
    pub(crate) fn playbook_name(&self) -> String {
        self.spec.playbook_name().unwrap_or_default()
    }

    /// The number of episodes, and limits.
    pub(crate) fn plan(&self) -> Plan {
        let play = &self.spec.play;
        Plan {
            episodes: play.episodes,
            group: play.group,
            concurrency: usize::from(play.concurrency),
            seed: play.seed,
            split: play.tasks.clone(),
            // The options of parts belong to the parts.
            options: if self.spec.mix.is_empty() { self.spec.environment.options.clone() } else { Vec::new() },
            max_turns: play.max_turns,
            branch_at: play.branch_at,
            first_group: 0,
            positions: None,
            expects: play.expect.iter().map(|expected| (*expected).into()).collect(),
            paired: false,
            tries: 1,
            episode_bytes: self.host.limits().episode_bytes,
            failure_budget: play.failure_budget,
        }
    }

    /// The ports of a run.
    pub(crate) fn ports(&self) -> Ports {
        let policy = &self.spec.policy;
        let sampling = Sampling { temperature: policy.temperature, top_p: policy.top_p, max_tokens: policy.max_tokens };
        Ports {
            environments: self.loaded.environments.clone(),
            rewards: self.rewards.clone(),
            policy: ChatPolicy::new(self.model.clone(), policy.system_prompt.clone(), sampling),
            store: self.workspace.store(),
            clock: self.workspace.clock(),
            meter: Arc::new(Ledger(self.models.meter())),
        }
    }

    /// The document of the specification for the store.
    pub(crate) fn document(&self) -> SpecDocument {
        SpecDocument(self.spec.to_document())
    }

    /// A short description.
    pub(crate) fn title(&self) -> String {
        let (environment, model) = (self.loaded.environments.identity(), self.model.identity());
        format!(
            "{} {} with {}:{}, seed {}",
            environment.name, environment.version, model.provider, model.model, self.spec.play.seed
        )
    }
}

fn system_prompt_unsupported(what: &str) -> RequestError {
    RequestError::SystemPromptUnsupported { what: what.to_owned() }
}
