//! Lists the tasks of an environment, split by split.

use crate::events::EventSink;
use crate::host::host;
use crate::plugins::load_environment;
use crate::workspace::existing_cache;
use crate::{AppError, HostSettings};
use clawhost_core::{Attributes, Context, Environment, PluginIdentity, Split, Task};
use clawhost_engine::ModelGrants;
use clawhost_play::{PlayError, fetch_tasks, split_of};
use clawhost_run_config::PluginSpec;
use serde::Serialize;
use std::path::Path;

/// Default number of listed tasks per split.
pub const TASKS_LISTED: u64 = 20;

/// Default seed: that of a run.
pub const TASKS_SEED: u64 = 0;

/// The settings of a task list.
#[derive(Debug, Clone, PartialEq)]
pub struct TasksRequest {
    /// The environment with its options.
    pub plugin: PluginSpec,
    /// The split. `None`: all splits.
    pub split: Option<String>,
    /// Number of tasks of each split, from its first.
    pub limit: u64,
    /// The seed. Some environments generate their tasks from it.
    pub seed: u64,
    /// Whether references are included. They are for rewards: a model that has seen them can no longer be measured.
    pub with_references: bool,
}

/// A task in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedTask {
    /// Its id.
    pub id: String,
    /// Its text. May be empty: then the first observation of the episode has the instruction.
    pub input: String,
    /// For grouping.
    pub tags: Vec<String>,
    /// Its other attributes.
    pub extra: Attributes,
    /// Whether it has a reference.
    pub has_reference: bool,
    /// The reference, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// The tasks of a split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedSplit {
    /// Its name.
    pub split: String,
    /// Number of tasks according to the environment.
    pub tasks: u64,
    /// The first of them.
    pub listed: Vec<ListedTask>,
}

/// The tasks of an environment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskListing {
    /// The environment.
    pub environment: PluginIdentity,
    /// Its options.
    pub options: Attributes,
    /// The seed.
    pub seed: u64,
    /// Its splits, or the requested one.
    pub splits: Vec<ListedSplit>,
}

/// Lists the tasks of an environment for a run with this seed and these options. Creates no data folder; an existing
/// one caches compiled code as usual.
///
/// # Errors
/// The environment cannot be used, has no such split, or returns no tasks.
pub async fn list_tasks(
    folder: &Path,
    settings: &HostSettings,
    request: &TasksRequest,
    events: &dyn EventSink,
) -> Result<TaskListing, AppError> {
    let TasksRequest { plugin, split, limit, seed, with_references } = request;
    let cache = existing_cache(folder)?;
    // For a single plugin, no pool is reserved.
    let host = host(&HostSettings { on_demand: true, ..settings.clone() }, folder, cache)?;
    let (environment, _) = load_environment(&host, events, plugin, ModelGrants::default()).await?;
    let wanted = split
        .as_ref()
        .map(|name| split_of(&environment.identity().name, &environment.description().splits, Some(name)))
        .transpose()?;
    let context = Context { seed: *seed, options: plugin.options.clone() };
    let mut splits = Vec::new();
    for Split { name, tasks } in &environment.description().splits {
        if wanted.as_ref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let found = match fetch_tasks(&environment, &context, name, *limit).await {
            Ok(found) => found,
            // A split that was not requested may be empty with these options.
            Err(PlayError::NoTasks { .. }) if wanted.is_none() || *limit == 0 => Vec::new().into(),
            Err(error) => return Err(error.into()),
        };
        let listed = found.iter().map(|(task, _)| listed(task, *with_references)).collect();
        splits.push(ListedSplit { split: name.clone(), tasks: *tasks, listed });
    }
    let environment = environment.identity().clone();
    Ok(TaskListing { environment, options: plugin.options.clone(), seed: *seed, splits })
}

fn listed(task: &Task, with_reference: bool) -> ListedTask {
    let Task { id, input, tags, extra, reference, .. } = task.clone();
    let has_reference = reference.is_some();
    ListedTask { id, input, tags, extra, has_reference, reference: reference.filter(|_| with_reference) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_included_only_on_request() {
        let task = Task { reference: Some("secret".into()), ..Task::new("train", "t") };
        let check = |task: &Task, asked: bool, has: bool, told: Option<&str>| {
            let found = listed(task, asked);
            assert_eq!((found.has_reference, found.reference.as_deref()), (has, told));
        };
        check(&task, false, true, None);
        check(&task, true, true, Some("secret"));
        check(&Task::new("train", "t"), true, false, None);
        assert!(!serde_json::to_string(&listed(&task, false)).unwrap().contains("secret"));
    }
}
