//! Loads plugins as they were when episodes were recorded: the same components with the same grants.

use crate::compiling::announced;
use crate::events::EventSink;
use async_trait::async_trait;
use clawhost_core::{
    Digest, Environment, Episode, Grants, Llm, LlmIdentity, ModelError, ModelRequest, ModelResponse, PluginIdentity,
    PluginReader, Reward, RewardRecord, Simulated, StoreError, StoredPlugin,
};
use clawhost_engine::{Host, ModelGrants};
use clawhost_play::{finished_reward, outside};
use std::collections::HashMap;
use std::sync::Arc;

/// A model that was granted at that time. Its answers are in the record, so it is never called.
struct Granted(LlmIdentity);

#[async_trait]
impl Llm for Granted {
    fn identity(&self) -> LlmIdentity {
        self.0.clone()
    }

    async fn complete(&self, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
        Err(ModelError::Refused("models are not asked in a replay".into()))
    }
}

fn granted(grants: &Grants) -> ModelGrants {
    let model = |(alias, identity): (&String, &LlmIdentity)| (alias.clone(), Arc::new(Granted(identity.clone())) as _);
    ModelGrants { kv: grants.kv, models: grants.models.iter().map(model).collect() }
}

/// A plugin with its grants.
type Wanted = (Digest, String);

/// A plugin, or the reason why it is not available.
pub(crate) type Loaded<T> = Result<Arc<T>, String>;

fn wanted(plugin: &PluginIdentity, grants: &Grants) -> Wanted {
    (plugin.digest, serde_json::json!(grants).to_string())
}

/// The plugins of the current episodes, each loaded once.
pub(crate) struct KeptPlugins<'a> {
    host: &'a Host,
    reader: &'a dyn PluginReader,
    events: &'a dyn EventSink,
    environments: HashMap<Wanted, Loaded<dyn Environment>>,
    rewards: HashMap<Wanted, Loaded<dyn Reward>>,
}

impl<'a> KeptPlugins<'a> {
    pub(crate) fn new(host: &'a Host, reader: &'a dyn PluginReader, events: &'a dyn EventSink) -> Self {
        Self { host, reader, events, environments: HashMap::new(), rewards: HashMap::new() }
    }

    /// The host of the plugins.
    pub(crate) fn host(&self) -> &Host {
        self.host
    }

    pub(crate) async fn environment(&mut self, episode: &Episode) -> Result<Loaded<dyn Environment>, StoreError> {
        let Some(Simulated { environment, grants, .. }) = episode.simulated() else { return Ok(Err(outside(episode))) };
        self.environment_of(environment, grants).await
    }

    /// An environment with its grants.
    pub(crate) async fn environment_of(
        &mut self,
        environment: &PluginIdentity,
        grants: &Grants,
    ) -> Result<Loaded<dyn Environment>, StoreError> {
        let wanted = wanted(environment, grants);
        if let Some(known) = self.environments.get(&wanted) {
            return Ok(known.clone());
        }
        let loaded: Loaded<dyn Environment> = match self.kept(environment)? {
            Err(why) => Err(why),
            Ok(kept) => {
                match announced(self.host, self.events, self.host.environment(&kept.name, &kept.bytes, granted(grants)))
                    .await
                {
                    Ok(plugin) => Ok(Arc::new(plugin)),
                    Err(error) => Err(error.to_string()),
                }
            }
        };
        self.environments.insert(wanted, loaded.clone());
        Ok(loaded)
    }

    pub(crate) async fn reward(&mut self, record: &RewardRecord) -> Result<Loaded<dyn Reward>, StoreError> {
        self.reward_of(&record.reward, &record.grants).await
    }

    /// A reward with its grants.
    pub(crate) async fn reward_of(
        &mut self,
        reward: &PluginIdentity,
        grants: &Grants,
    ) -> Result<Loaded<dyn Reward>, StoreError> {
        let wanted = wanted(reward, grants);
        if let Some(known) = self.rewards.get(&wanted) {
            return Ok(known.clone());
        }
        // The only reward that is part of the host; it is not stored.
        let own = finished_reward();
        let loaded: Loaded<dyn Reward> = if reward == own.identity() {
            Ok(own)
        } else {
            match self.kept(reward)? {
                Err(why) => Err(why),
                Ok(kept) => {
                    match announced(self.host, self.events, self.host.reward(&kept.name, &kept.bytes, granted(grants)))
                        .await
                    {
                        Ok(plugin) => Ok(Arc::new(plugin)),
                        Err(error) => Err(error.to_string()),
                    }
                }
            }
        };
        self.rewards.insert(wanted, loaded.clone());
        Ok(loaded)
    }

    /// The component of a record, or the reason why it is not available. The store checks its bytes.
    fn kept(&self, plugin: &PluginIdentity) -> Result<Result<StoredPlugin, String>, StoreError> {
        let PluginIdentity { name, digest, .. } = plugin;
        match self.reader.plugin(digest) {
            Ok(Some(kept)) => Ok(Ok(kept)),
            Ok(None) | Err(StoreError::BlobMissing { .. }) => {
                Ok(Err(format!("{name} {} is not stored here", digest.short())))
            }
            Err(StoreError::BlobDamaged { .. } | StoreError::Damaged { .. }) => {
                let digest = digest.short();
                Ok(Err(format!("the stored component of {name} does not have the digest {digest}: it is damaged")))
            }
            Err(error) => Err(error),
        }
    }
}
