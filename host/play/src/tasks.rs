//! The tasks of a run.

use crate::PlayError;
use crate::mixture::{Environments, Part, interleaved};
use crate::run::Tasks;
use clawhost_core::{Context, Environment, Split, Task, derive_seed};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Tasks requested at a time; the environment may return fewer.
const PAGE: u32 = 256;

/// Published tasks that are shuffled together. Most splits are smaller. Reading this many takes 64 calls of the environment, and
/// some ten megabytes while they are shuffled.
pub const SHUFFLED: u64 = 16_384;

/// The split of these to play: the wanted one, otherwise `train`, otherwise the first. `environment`: the name for messages.
///
/// # Errors
/// The environment does not have this split.
pub fn split_of(environment: &str, splits: &[Split], wanted: Option<&str>) -> Result<String, PlayError> {
    let known = |name: &str| splits.iter().any(|split| split.name == name);
    match wanted {
        Some(name) if known(name) => Ok(name.to_owned()),
        Some(name) => Err(PlayError::UnknownSplit {
            environment: environment.to_owned(),
            split: name.to_owned(),
            known: splits.iter().map(|split| split.name.as_str()).collect::<Vec<_>>().join(", "),
        }),
        None if known("train") => Ok("train".to_owned()),
        None => Ok(splits.first().map(|split| split.name.clone()).unwrap_or_default()),
    }
}

/// Tasks with their digests.
pub(crate) fn named(tasks: Vec<Arc<Task>>) -> Tasks {
    tasks.into_iter().map(|task| (task.clone(), task.digest())).collect()
}

/// The published tasks of a split, as far as they were read.
#[derive(Default)]
struct Listing {
    tasks: Vec<Arc<Task>>,
    ids: BTreeSet<String>,
    /// Whether the split has no more tasks.
    complete: bool,
}

impl Listing {
    /// Reads on, up to this number of tasks in total.
    async fn read(
        &mut self,
        environment: &dyn Environment,
        context: &Context,
        split: &str,
        total: u64,
    ) -> Result<(), PlayError> {
        while !self.complete && (self.tasks.len() as u64) < total {
            let offset = self.tasks.len() as u64;
            let limit = u32::try_from(total - offset).unwrap_or(u32::MAX).min(PAGE);
            let page = environment.tasks(context, split, offset, limit).await.map_err(PlayError::Tasks)?;
            let before = self.ids.len();
            for task in page {
                if self.ids.insert(task.id.clone()) {
                    self.tasks.push(Arc::new(task));
                }
            }
            // An environment that returns known tasks only would never end.
            self.complete = self.ids.len() == before;
        }
        Ok(())
    }
}

fn no_tasks(environment: &dyn Environment, split: &str) -> PlayError {
    PlayError::NoTasks { environment: environment.identity().name.clone(), split: split.to_owned() }
}

/// The first tasks of a split, at most one per group. If the split has fewer, groups repeat them.
pub(crate) async fn fetch(
    environment: &dyn Environment,
    context: &Context,
    split: &str,
    groups: u64,
) -> Result<Vec<Arc<Task>>, PlayError> {
    let mut listing = Listing::default();
    listing.read(environment, context, split, groups).await?;
    if listing.tasks.is_empty() { Err(no_tasks(environment, split)) } else { Ok(listing.tasks) }
}

/// At most `wanted` tasks of a split as published, with their digests.
///
/// # Errors
/// The environment fails, or the split has no tasks.
pub async fn fetch_tasks(
    environment: &dyn Environment,
    context: &Context,
    split: &str,
    wanted: u64,
) -> Result<Tasks, PlayError> {
    Ok(named(fetch(environment, context, split, wanted).await?))
}

/// The context in which a part is asked for its tasks.
fn context_of(part: &Part, context: &Context) -> Context {
    Context { seed: context.seed, options: part.options_with(&context.options) }
}

/// The tasks of the parts of a mixture, interleaved by weight: `wanted` in all. A part with fewer tasks than its share repeats them, as a
/// run of one environment does.
fn mixed(parts: &[Part], found: Vec<Vec<Arc<Task>>>, wanted: u64) -> Vec<Arc<Task>> {
    let weights: Vec<f64> = parts.iter().map(|part| part.weight).collect();
    let named = |(part, tasks): (&Part, Vec<Arc<Task>>)| -> Vec<Arc<Task>> {
        let named = |task: Arc<Task>| Arc::new(Task { part: Some(part.name.clone()), ..Arc::unwrap_or_clone(task) });
        tasks.into_iter().map(named).collect()
    };
    let found: Vec<Vec<Arc<Task>>> = parts.iter().zip(found).map(named).collect();
    let mut next = vec![0usize; parts.len()];
    let take = |place: usize| {
        let (tasks, next) = (found.get(place)?, next.get_mut(place)?);
        let task = tasks.get(*next % tasks.len().max(1))?;
        *next += 1;
        Some(task.clone())
    };
    interleaved(&weights, wanted).into_iter().filter_map(take).collect()
}

/// The first tasks of a split, at most one per group. If the split has fewer, groups repeat them.
pub(crate) async fn fetch_all(
    environments: &Environments,
    context: &Context,
    split: &str,
    groups: u64,
) -> Result<Vec<Arc<Task>>, PlayError> {
    let parts = match environments {
        Environments::One(environment) => return fetch(environment.as_ref(), context, split, groups).await,
        Environments::Mixture(mixture) => mixture.parts(),
    };
    let mut found = Vec::new();
    for part in parts {
        found.push(fetch(part.environment.as_ref(), &context_of(part, context), split, groups).await?);
    }
    Ok(mixed(parts, found, groups))
}

/// The number by which [`fetch_shuffled`] sorts a task.
pub fn task_rank(seed: u64, split: &str, id: &str) -> u64 {
    derive_seed(seed, &format!("order/{split}/{id}"), 0)
}

/// At most `wanted` tasks of a split that `keep` accepts, in an order that is drawn by the seed `order`, with their digests.
///
/// A published order may be sorted, by topic for example. A test that may stop early would then see one topic only. Successive
/// blocks of [`SHUFFLED`] published tasks are shuffled. The result for fewer `wanted` tasks is a prefix of the result for more.
/// In a mixture, each part is shuffled by itself; then the parts are interleaved by weight.
///
/// # Errors
/// The environment fails, or `keep` accepts no task of the split.
pub async fn fetch_shuffled(
    environments: &Environments,
    context: &Context,
    split: (&str, u64),
    wanted: u64,
    keep: impl Fn(&Task) -> bool + Send + Sync,
) -> Result<Tasks, PlayError> {
    let parts = match environments {
        Environments::One(environment) => {
            return Ok(named(shuffled(environment.as_ref(), context, split, wanted, &keep).await?));
        }
        Environments::Mixture(mixture) => mixture.parts(),
    };
    let mut found = Vec::new();
    for part in parts {
        let context = context_of(part, context);
        // Two parts of one environment would have equal tasks in equal order.
        let split = (split.0, derive_seed(split.1, &format!("part/{}", part.name), 0));
        found.push(shuffled(part.environment.as_ref(), &context, split, wanted, &keep).await?);
    }
    Ok(named(mixed(parts, found, wanted)))
}

async fn shuffled(
    environment: &dyn Environment,
    context: &Context,
    (split, order): (&str, u64),
    wanted: u64,
    keep: &(impl Fn(&Task) -> bool + Send + Sync),
) -> Result<Vec<Arc<Task>>, PlayError> {
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let (mut listing, mut chosen) = (Listing::default(), Vec::new());
    while !listing.complete && chosen.len() < wanted {
        let known = listing.tasks.len();
        listing.read(environment, context, split, (known as u64).saturating_add(SHUFFLED)).await?;
        let block = listing.tasks.iter().skip(known).filter(|task| keep(task));
        let rank = |task: &Arc<Task>| task_rank(order, split, &task.id);
        let mut block: Vec<(u64, Arc<Task>)> = block.map(|task| (rank(task), task.clone())).collect();
        block.sort_by_key(|(rank, _)| *rank);
        chosen.extend(block.into_iter().map(|(_, task)| task).take(wanted - chosen.len()));
    }
    if chosen.is_empty() { Err(no_tasks(environment, split)) } else { Ok(chosen) }
}
