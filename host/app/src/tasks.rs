//! The tasks that an environment offers, split by split.

use crate::compiling::announced;
use crate::events::EventSink;
use crate::host::host;
use crate::plugins::check_options;
use crate::workspace::{compile_cache, has_cache};
use crate::{AppError, HostSettings};
use clawhost_core::{Attributes, Context, Environment, PluginIdentity, Split, Task};
use clawhost_engine::ModelGrants;
use clawhost_play::{PlayError, fetch_tasks, split_of};
use clawhost_run_config::PluginSpec;
use serde::Serialize;
use std::path::Path;

/// Tasks of a split that are listed, unless chosen otherwise.
pub const TASKS_LISTED: u64 = 20;

/// The seed that tasks are listed for, unless chosen otherwise: the default of a run.
pub const TASKS_SEED: u64 = 0;

/// Which tasks of which environment.
#[derive(Debug, Clone, PartialEq)]
pub struct TasksRequest {
    /// The environment with its options.
    pub plugin: PluginSpec,
    /// Of this split; none: of every split.
    pub split: Option<String>,
    /// Tasks of each split, from its first on.
    pub limit: u64,
    /// The seed: some environments draw their tasks from it.
    pub seed: u64,
    /// Whether gold answers are included. They are for rewards: a model that has seen them can no longer be measured.
    pub with_references: bool,
}

/// A task in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedTask {
    /// Its id.
    pub id: String,
    /// What is asked; may be empty: then the first observation of the episode asks.
    pub input: String,
    /// For grouping.
    pub tags: Vec<String>,
    /// What else the environment says of it.
    pub extra: Attributes,
    /// Whether it has a gold answer.
    pub has_reference: bool,
    /// The gold answer, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// The tasks of a split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedSplit {
    /// Its name.
    pub split: String,
    /// Tasks that it has, as the environment describes itself.
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
    /// Its splits, or the one that was asked for.
    pub splits: Vec<ListedSplit>,
}

/// Lists the tasks of an environment, as a run with this seed and these options would play them. No data folder is made; where
/// there is one, compiled code is kept in it, as always.
///
/// # Errors
/// The environment cannot be used, has no such split, or does not give its tasks.
pub async fn list_tasks(
    folder: &Path,
    settings: &HostSettings,
    request: &TasksRequest,
    events: &dyn EventSink,
) -> Result<TaskListing, AppError> {
    let TasksRequest { plugin, split, limit, seed, with_references } = request;
    let cache = if has_cache(folder) { Some(compile_cache(folder)?) } else { None };
    // One plugin is asked: a pool would be reserved for nothing.
    let host = host(&HostSettings { on_demand: true, ..settings.clone() }, cache)?;
    let bytes = host.read(Path::new(&plugin.path))?;
    let loading = host.environment(&plugin.path, &bytes, ModelGrants::default());
    let environment = announced(&host, events, loading).await?;
    check_options(&environment.description().about, &plugin.options)?;
    environment.check_options(&plugin.options).await?;
    let wanted = split.as_ref().map(|name| split_of(&environment, Some(name))).transpose()?;
    let context = Context { seed: *seed, options: plugin.options.clone() };
    let mut splits = Vec::new();
    for Split { name, tasks } in &environment.description().splits {
        if wanted.as_ref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let found = match fetch_tasks(&environment, &context, name, *limit).await {
            Ok(found) => found,
            // Of one that was not named it is no error that these options give none.
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
    fn a_gold_answer_is_included_only_on_request() {
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
