//! The components of a bundle, loaded for checking it, and the tasks that they publish.

use super::claim::Claim;
use super::pack::is_built_in;
use crate::AppError;
use crate::events::EventSink;
use crate::replay::plugins::{KeptPlugins, Loaded};
use clawhost_bundle::{Bundle, EntryName};
use clawhost_core::{
    Attributes, Context, Digest, Environment, Grants, PluginIdentity, PluginReader, Reward, StoreError, StoredPlugin,
    Task,
};
use clawhost_engine::Host;
use clawhost_play::{Basis, BasisReward, Environments, Mixture, Part, ScoringRule, fetch_tasks, finished_reward};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Most tasks of a split that are listed to compare those of episodes with them: some 100 MB. A task behind them is not compared.
const LISTED: u64 = 1 << 17;

/// The components of a bundle as the plugins of a data folder.
pub(super) struct BundledPlugins<'a>(pub(super) &'a Bundle);

impl PluginReader for BundledPlugins<'_> {
    fn plugin(&self, digest: &Digest) -> Result<Option<StoredPlugin>, StoreError> {
        let name = EntryName::Plugin(*digest);
        if !self.0.has(name) {
            return Ok(None);
        }
        let bytes = self.0.read(name).map_err(|error| StoreError::Other(error.to_string()))?;
        if Digest::of(&bytes) != *digest {
            let (what, folder) = (name.to_string(), "the bundle".to_owned());
            return Err(StoreError::BlobDamaged { what, digest: *digest, folder });
        }
        // The component says what else it is.
        Ok(Some(StoredPlugin { name: digest.short(), version: String::new(), world: String::new(), bytes }))
    }
}

type Key = (Digest, String);

fn key(digest: Digest, grants: &Grants) -> Key {
    (digest, serde_json::json!(grants).to_string())
}

/// Published tasks by id: their digests and references.
type Listing = HashMap<String, (Digest, Option<String>)>;

/// The tasks of a split, as far as they are listed.
#[derive(Default)]
struct Tasks {
    listed: Listing,
    /// Whether the list has all.
    is_whole: bool,
}

/// What a listing says of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Published {
    /// The environment publishes it, with this reference.
    As(Digest, Option<String>),
    /// The environment publishes no task with this id.
    No,
    /// It could not be looked up.
    Unknown(String),
}

/// The plugins of all episodes of a bundle. Nothing is loaded later, so that episodes are replayed on all processors.
#[derive(Default)]
pub(super) struct Components {
    environments: HashMap<Key, Loaded<dyn Environment>>,
    rewards: HashMap<Key, Loaded<dyn Reward>>,
    /// By environment, split, seed and options.
    tasks: HashMap<String, Result<Tasks, String>>,
}

fn nameless(digest: Digest) -> PluginIdentity {
    PluginIdentity { name: digest.short(), version: String::new(), digest }
}

impl Components {
    /// Loads everything that the rows of a claim name.
    pub(super) async fn load(
        bundle: &Bundle,
        host: &Host,
        claim: &Claim,
        events: &dyn EventSink,
    ) -> Result<Self, AppError> {
        let plugins = BundledPlugins(bundle);
        let mut kept = KeptPlugins::new(host, &plugins, events);
        let mut all = Self::default();
        for basis in claim.rows().filter_map(super::claim::ClaimedRun::basis) {
            for ((environment, grants, options), part) in environments_of(&basis).zip(part_names(&basis)) {
                let loaded = kept.environment_of(&nameless(environment), grants).await?;
                all.list(&loaded, (environment, options, part), &basis).await;
                all.environments.insert(key(environment, grants), loaded);
            }
            for BasisReward(reward, _, grants, ..) in &basis.conditions.rewards {
                let loaded = match is_built_in(reward) {
                    true => Ok(finished_reward()),
                    false => kept.reward_of(&nameless(*reward), grants).await?,
                };
                all.rewards.insert(key(*reward, grants), loaded);
            }
        }
        Ok(all)
    }

    /// Lists the tasks of a run, once for all runs that have the same.
    async fn list(
        &mut self,
        loaded: &Loaded<dyn Environment>,
        (digest, options, part): (Digest, &Attributes, Option<&str>),
        basis: &Basis,
    ) {
        let listing = listing(digest, (options, part), basis);
        if self.tasks.contains_key(&listing) {
            return;
        }
        let found = match loaded {
            Err(why) => Err(why.clone()),
            Ok(environment) => {
                let context = Context { seed: basis.conditions.seed, options: options.clone() };
                let found = fetch_tasks(environment.as_ref(), &context, &basis.conditions.split, LISTED).await;
                found.map_err(|error| error.to_string()).map(|tasks| Tasks {
                    is_whole: (tasks.len() as u64) < LISTED,
                    listed: tasks.iter().map(|(task, digest)| listed(task, *digest, part)).collect(),
                })
            }
        };
        self.tasks.insert(listing, found);
    }

    /// What the environment of a run says of a task.
    pub(super) fn published(&self, basis: &Basis, task: &Task) -> Published {
        let unknown = |why: &str| Published::Unknown(why.to_owned());
        let of = environments_of(basis).zip(part_names(basis)).find(|(_, part)| *part == task.part.as_deref());
        let Some(((digest, _, options), part)) = of else { return unknown("its part is none of the run") };
        match self.tasks.get(&listing(digest, (options, part), basis)) {
            None => unknown("its environment was not loaded"),
            Some(Err(why)) => unknown(why),
            Some(Ok(Tasks { listed, is_whole })) => match listed.get(&task.id) {
                Some((digest, reference)) => Published::As(*digest, reference.clone()),
                None if *is_whole => Published::No,
                None => unknown("its split has more tasks than are listed"),
            },
        }
    }

    /// The environment with these grants.
    pub(super) fn environment(&self, digest: Digest, grants: &Grants) -> Loaded<dyn Environment> {
        let unknown = || Err("its environment is none of the run".to_owned());
        self.environments.get(&key(digest, grants)).cloned().unwrap_or_else(unknown)
    }

    /// The reward with these grants.
    pub(super) fn reward(&self, digest: Digest, grants: &Grants) -> Loaded<dyn Reward> {
        let unknown = || Err("its reward is none of the run".to_owned());
        self.rewards.get(&key(digest, grants)).cloned().unwrap_or_else(unknown)
    }

    /// The environments of a run. The reason, if one is not available.
    pub(super) fn environments(&self, basis: &Basis) -> Result<Environments, String> {
        let conditions = &basis.conditions;
        if conditions.parts.is_empty() {
            return Ok(Environments::One(self.environment(conditions.environment, &conditions.grants)?));
        }
        let part = |part: &clawhost_play::BasisPart| {
            let environment = self.environment(part.environment, &part.grants)?;
            Ok(Part { name: part.name.clone(), weight: part.weight, environment, options: part.options.clone() })
        };
        let parts = conditions.parts.iter().map(part).collect::<Result<_, String>>()?;
        Ok(Environments::Mixture(Arc::new(Mixture::new(parts).map_err(|error| error.to_string())?)))
    }

    /// The rewards of a run with their weights. The reason, if one is not available.
    pub(super) fn rules(&self, basis: &Basis) -> Result<Vec<ScoringRule>, String> {
        let rule = |BasisReward(reward, options, grants, source, weight, part): &BasisReward| {
            let rule = ScoringRule::new(self.reward(*reward, grants)?, options.clone());
            Ok(ScoringRule { source: *source, weight: *weight, part: part.clone(), ..rule })
        };
        basis.conditions.rewards.iter().map(rule).collect()
    }
}

/// The environments of a run with their grants and options, in the order of its parts.
fn environments_of(basis: &Basis) -> impl Iterator<Item = (Digest, &Grants, &Attributes)> {
    let conditions = &basis.conditions;
    let one = conditions.parts.is_empty().then_some((conditions.environment, &conditions.grants, &conditions.options));
    one.into_iter().chain(conditions.parts.iter().map(|part| (part.environment, &part.grants, &part.options)))
}

/// The names of its parts in the same order. `None`: there is one environment.
fn part_names(basis: &Basis) -> impl Iterator<Item = Option<&str>> {
    let parts = &basis.conditions.parts;
    parts.is_empty().then_some(None).into_iter().chain(parts.iter().map(|part| Some(part.name.as_str())))
}

fn listing(digest: Digest, of_part: (&Attributes, Option<&str>), basis: &Basis) -> String {
    let (seed, split) = (basis.conditions.seed, &basis.conditions.split);
    serde_json::json!((digest, of_part, seed, split)).to_string()
}

/// A task of a listing. In a mixture a task has its part.
fn listed(task: &Task, digest: Digest, part: Option<&str>) -> (String, (Digest, Option<String>)) {
    let digest = match part {
        None => digest,
        Some(part) => Task { part: Some(part.to_owned()), ..task.clone() }.digest(),
    };
    (task.id.clone(), (digest, task.reference.clone()))
}

/// The bases of all rows that have one, by run.
pub(super) fn bases(claim: &Claim) -> BTreeMap<clawhost_core::RunId, Basis> {
    claim.rows().filter_map(|row| Some((row.id.clone(), row.basis()?))).collect()
}
