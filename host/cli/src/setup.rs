//! What every command that plays needs: data folder, host, store, models, environment, rewards.

use crate::args::{self, Common};
use crate::data::{self, SystemClock};
use crate::exit::UsageError;
use crate::hosting;
use crate::plugin::{PluginSpec, RewardSpec};
use crate::policy::Models;
use clawhost_core::{Digest, Environment as _, Llm, PluginIdentity, Reflector as _, Reward as _, Sampling, StoreError};
use clawhost_engine::{ComponentOutline, EnvironmentPlugin, Host, ModelGrants};
use clawhost_model::LocalModel;
use clawhost_providers::Ledger;
use clawhost_runtime::learn::Reflecting;
use clawhost_runtime::{ChatPolicy, Plan, Ports, ScoringRule};
use clawhost_store::{Store, StoreOptions};
use std::path::PathBuf;
use std::sync::Arc;

/// Who acts.
pub(crate) enum Policy {
    /// As `--policy` says it.
    Named(String),
    /// At hand already.
    Open(Arc<LocalModel>),
}

/// Everything that plays, ready.
pub(crate) struct Setup<'a> {
    pub(crate) folder: PathBuf,
    pub(crate) host: Host,
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<SystemClock>,
    pub(crate) models: Models<'a>,
    pub(crate) model: Arc<dyn Llm>,
    /// Whether the model never sees what the system says.
    deaf: bool,
    pub(crate) grants: ModelGrants,
    pub(crate) environment: Arc<EnvironmentPlugin>,
    pub(crate) environment_options: clawhost_core::Attributes,
    pub(crate) rewards: Vec<ScoringRule>,
    pub(crate) system_prompt: Option<String>,
    pub(crate) sampling: Sampling,
}

impl<'a> Setup<'a> {
    /// Loads what the options name. `say` tells what the operator should know.
    pub(crate) async fn new(
        common: &Common,
        options: &'a args::PlayOptions,
        policy: Policy,
        say: &dyn Fn(&str),
    ) -> anyhow::Result<Self> {
        let clock = Arc::new(SystemClock::new());
        let environment_spec = PluginSpec::parse(&options.plugin)?;
        let reward_specs = options.reward.iter().map(|text| RewardSpec::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let models = Models::new(&options.models, usize::from(options.concurrency));
        let (model, deaf) = match policy {
            Policy::Named(spec) => models.policy(&spec)?,
            Policy::Open(model) => (models.metered(model.clone()), model.drops_system()),
        };
        let grants = models.grants()?;
        let system_prompt = match &options.system_prompt_file {
            Some(path) => Some(std::fs::read_to_string(path).map_err(|error| {
                UsageError(format!("{}: {error}; --system-prompt-file names a text file", path.display()))
            })?),
            None => options.system_prompt.clone(),
        };
        if deaf && system_prompt.is_some() {
            return Err(unheard("a system prompt").into());
        }
        let folder = data::folder(common)?;
        let host = hosting::host(Some(data::cache(&folder)?), options.host.on_demand, options.host.allow_interpreters)?;
        let store = Store::open(&folder, StoreOptions { max_bytes: options.store_limit.map(|mib| mib << 20) })?;

        let bytes = host.read(&environment_spec.path)?;
        let environment = host.environment(&environment_spec.name(), &bytes, grants.clone()).await?;
        environment_spec.check(&environment.description().about)?;
        environment.check_options(&environment_spec.options).await?;
        mention_missing_grants(say, &environment.identity().name, environment.outline(), &grants);
        keep(&store, environment.identity(), "environment", bytes).await?;
        let rewards = load_rewards(&host, &store, &reward_specs, &grants, say).await?;
        Ok(Self {
            folder,
            host,
            store: Arc::new(store),
            clock,
            models,
            model,
            deaf,
            grants,
            environment: Arc::new(environment),
            environment_options: environment_spec.options,
            rewards,
            system_prompt,
            sampling: Sampling { temperature: options.temperature, max_tokens: options.max_tokens },
        })
    }

    /// Refuses what would never reach the model.
    pub(crate) fn needs_system(&self, what: &str) -> Result<(), UsageError> {
        if self.deaf { Err(unheard(what)) } else { Ok(()) }
    }

    /// Loads a reflector and keeps it.
    pub(crate) async fn reflector(&self, text: &str, say: &dyn Fn(&str)) -> anyhow::Result<Reflecting> {
        let spec = PluginSpec::parse(text)?;
        let bytes = self.host.read(&spec.path)?;
        let reflector = self.host.reflector(&spec.name(), &bytes, self.grants.clone()).await?;
        spec.check(reflector.about())?;
        reflector.check_options(&spec.options).await?;
        mention_missing_grants(say, &reflector.identity().name, reflector.outline(), &self.grants);
        keep(&self.store, reflector.identity(), "reflector", bytes).await?;
        Ok(Reflecting { reflector: Arc::new(reflector), options: spec.options })
    }

    /// What the options say about every phase.
    pub(crate) fn plan(&self, options: &args::PlayOptions, episodes: u64, group: u32) -> Plan {
        Plan {
            episodes,
            group,
            concurrency: usize::from(options.concurrency),
            seed: options.seed,
            split: None,
            options: self.environment_options.clone(),
            max_turns: options.max_turns,
            branch_at: None,
            first_group: 0,
            positions: None,
            paired: false,
            episode_bytes: self.host.limits().episode_bytes,
            failure_budget: options.failure_budget,
        }
    }

    /// Who plays, judges and records.
    pub(crate) fn ports(&self) -> Ports {
        Ports {
            environment: self.environment.clone(),
            rewards: self.rewards.clone(),
            policy: ChatPolicy::new(self.model.clone(), self.system_prompt.clone(), self.sampling),
            store: self.store.clone(),
            clock: self.clock.clone(),
            meter: Arc::new(Ledger(self.models.spent.clone())),
        }
    }
}

/// What it would come to.
pub(crate) fn unheard(what: &str) -> UsageError {
    UsageError(format!(
        "{what} would never reach this model: its chat template leaves out what the system says, as those of `clawhost model init` do"
    ))
}

/// Tells what a plugin asks for and does not get. Its calls will be denied by name.
pub(crate) fn mention_missing_grants(say: &dyn Fn(&str), name: &str, outline: &ComponentOutline, grants: &ModelGrants) {
    if outline.wants("clawhost:kv/kv") && !grants.kv {
        say(&format!("note: {name} asks for kv, which is not granted: its calls are denied (--grant kv)"));
    }
    if outline.wants("clawhost:llm/llm") && grants.models.is_empty() {
        let hint = "its calls are denied (--grant llm:ALIAS=SPEC)";
        say(&format!("note: {name} asks for models, and none is granted: {hint}"));
    }
}

/// Loads the rewards of a run, and keeps them by digest.
pub(crate) async fn load_rewards(
    host: &Host,
    store: &Store,
    specs: &[RewardSpec],
    grants: &ModelGrants,
    say: &dyn Fn(&str),
) -> anyhow::Result<Vec<ScoringRule>> {
    let mut rewards = Vec::new();
    for RewardSpec { plugin, weight, source } in specs {
        let bytes = host.read(&plugin.path)?;
        let reward = host.reward(&plugin.name(), &bytes, grants.clone()).await?;
        plugin.check(&reward.description().about)?;
        reward.check_options(&plugin.options).await?;
        mention_missing_grants(say, &reward.identity().name, reward.outline(), grants);
        keep(store, reward.identity(), "reward", bytes).await?;
        let rule = ScoringRule::new(Arc::new(reward), plugin.options.clone());
        rewards.push(ScoringRule { weight: *weight, source: source.unwrap_or(rule.source), ..rule });
    }
    refuse_twins(&rewards)?;
    Ok(rewards)
}

/// One reward with the same options twice would count twice in every mean.
fn refuse_twins(rewards: &[ScoringRule]) -> Result<(), UsageError> {
    let mut seen: Vec<(Digest, _)> = Vec::new();
    for rule in rewards {
        let mut options = rule.options.clone();
        options.sort();
        let key = (rule.reward.identity().digest, options);
        if seen.contains(&key) {
            return Err(UsageError(format!("{} is given twice with equal options", rule.reward.identity().name)));
        }
        seen.push(key);
    }
    Ok(())
}

/// Plugins are kept by digest, so that what was played can be played again.
async fn keep(store: &Store, plugin: &PluginIdentity, world: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
    store.keep_plugin(plugin.digest, &plugin.name, &plugin.version, world, bytes).await
}
