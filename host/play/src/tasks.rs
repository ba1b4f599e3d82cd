//! The tasks of a run.

use crate::PlayError;
use crate::run::Tasks;
use clawhost_core::{Context, Environment, Task};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Tasks requested at a time; the environment may return fewer.
const PAGE: u32 = 256;

/// The split to play: the wanted one, otherwise `train`, otherwise the first.
///
/// # Errors
/// The environment does not have this split.
pub fn split_of(environment: &dyn Environment, wanted: Option<&str>) -> Result<String, PlayError> {
    let splits = &environment.description().splits;
    let known = |name: &str| splits.iter().any(|split| split.name == name);
    match wanted {
        Some(name) if known(name) => Ok(name.to_owned()),
        Some(name) => Err(PlayError::UnknownSplit {
            environment: environment.identity().name.clone(),
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

/// The first tasks of a split, at most one per group. If the split has fewer, groups repeat them.
pub(crate) async fn fetch(
    environment: &dyn Environment,
    context: &Context,
    split: &str,
    groups: u64,
) -> Result<Vec<Arc<Task>>, PlayError> {
    let mut tasks: Vec<Arc<Task>> = Vec::new();
    let mut ids = BTreeSet::new();
    while (tasks.len() as u64) < groups {
        let offset = tasks.len() as u64;
        let limit = u32::try_from(groups - offset).unwrap_or(u32::MAX).min(PAGE);
        let page = environment.tasks(context, split, offset, limit).await.map_err(PlayError::Tasks)?;
        if page.is_empty() {
            break;
        }
        // Stops if the environment returns known tasks only; otherwise the split would never end.
        let before = ids.len();
        for task in page {
            if ids.insert(task.id.clone()) {
                tasks.push(Arc::new(task));
            }
        }
        if ids.len() == before {
            break;
        }
    }
    if tasks.is_empty() {
        let environment = environment.identity().name.clone();
        return Err(PlayError::NoTasks { environment, split: split.to_owned() });
    }
    Ok(tasks)
}

/// At most `wanted` tasks of a split, with their digests.
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
