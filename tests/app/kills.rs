//! Every commit of a run is its last one once: the writer ends right after it, as if the process had died. The resumed
//! run gives the same result as an uninterrupted run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

mod bench;
#[path = "../common/compiled.rs"]
mod compiled;
#[path = "../common/guests.rs"]
mod guests;

use bench::Bench;
use clawhost_app::{AppError, Silent, Start, Workspace, WorkspaceSettings, learn, run};
use clawhost_core::{Episode, EpisodeFilter, RunId, RunState, StoreReader};
use clawhost_learning::LearningError;
use clawhost_play::{Cancel, PlayError};
use clawhost_run_config::{RunSpec, Verb};
use serde_json::{Value, json};

/// The results of a run: its report, its episodes without the run's id, its notes, and the playbook.
type Left = (Value, Vec<Value>, Vec<(String, Vec<u8>)>, Vec<Value>);

/// Ids of runs are random: they are not part of a result.
fn without_run(name: &str, mut value: Value) -> Value {
    fn walk(value: &mut Value, name: &str) {
        match value {
            Value::String(text) if text.contains(name) => *text = text.replace(name, "RUN"),
            Value::Array(all) => all.iter_mut().for_each(|one| walk(one, name)),
            Value::Object(all) => {
                // It covers the episodes of the group, and with them the run's id.
                all.remove("group_digest");
                all.values_mut().for_each(|one| walk(one, name));
            }
            _ => {}
        }
    }
    walk(&mut value, name);
    value
}

fn left(reader: &dyn StoreReader, run: &RunId, report: Value) -> Left {
    assert_eq!(reader.check().unwrap(), None, "the database is sound");
    let rows = reader.episodes(&EpisodeFilter::of(run)).unwrap();
    let episode = |name: String| -> Episode { reader.episode(&name).unwrap().unwrap() };
    let episodes: Vec<Episode> = rows.iter().map(|row| episode(format!("{}/{}", row.run, row.id))).collect();
    let episodes = episodes.iter().map(|episode| without_run(&run.0, json!(episode))).collect();
    let versions =
        reader.playbooks().unwrap().iter().flat_map(|name| reader.versions(name).unwrap()).collect::<Vec<_>>();
    let versions = versions.into_iter().map(|version| without_run(&run.0, json!(version))).collect();
    (without_run(&run.0, report), episodes, reader.notes(run).unwrap(), versions)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A commit that no run reaches. With a chosen commit every write is a commit of its own.
const NEVER: u64 = u64::MAX;

/// Plays or learns, as the specification says, and reads the results.
fn live(bench: &Bench, settings: WorkspaceSettings, spec: RunSpec, start: Start) -> Result<(Left, u64), AppError> {
    let runtime = runtime();
    let workspace = Workspace::open(settings)?;
    let cancel = Cancel::default();
    let (run, report) = runtime.block_on(async {
        match spec.learn() {
            None => {
                let played = run(&workspace, spec, start, &cancel, &Silent).await?;
                Ok::<_, AppError>((played.run, json!(played.report)))
            }
            Some(_) => {
                let learned = learn(&workspace, spec, start, &cancel, &Silent).await?;
                Ok((learned.run, learned.report.published()))
            }
        }
    })?;
    let reader = Workspace::read(bench.data.path())?;
    Ok((left(reader.as_ref(), &run, report), workspace.commits()))
}

/// The results, if the run finished.
fn finished(bench: &Bench) -> Option<RunId> {
    let runs = Workspace::read(bench.data.path()).ok()?.runs(Some(1)).unwrap();
    runs.into_iter().find(|run| run.state == RunState::Finished).map(|run| run.id)
}

/// Kills the run after its first commit, after its second, and so on, until it ends before that commit, and resumes it
/// each time. Returns the number of commits of an uninterrupted run. Equal runs differ slightly in the number of commits: a
/// run that ends before its commit is compared, and the next commit is tried, up to the number of the first run.
fn check(name: &str, verb: Verb, text: &str) -> Option<u64> {
    let first = Bench::new(name)?;
    let spec = first.spec(verb, text);
    // The first run also compiles the plugins.
    live(&first, first.settings(), spec.clone(), Start::New).unwrap();
    let whole = first.warm();
    let settings = WorkspaceSettings { fail_after_commit: Some(NEVER), ..whole.settings() };
    let (expected, commits) = live(&whole, settings, spec.clone(), Start::New).unwrap();
    for commit in 1.. {
        let bench = first.warm();
        let settings = WorkspaceSettings { fail_after_commit: Some(commit), ..bench.settings() };
        match live(&bench, settings, spec.clone(), Start::New) {
            Err(AppError::Store(error)) => assert!(error.to_string().ends_with("the store has stopped"), "{error}"),
            Err(
                AppError::Play(PlayError::Store(error))
                | AppError::Learning(LearningError::Play(PlayError::Store(error))),
            ) => {
                assert!(error.to_string().ends_with("the store has stopped"), "{error}");
            }
            Err(error) => panic!("it failed for another reason after commit {commit}: {error:?}"),
            Ok((left, reached)) => {
                assert!(left == expected, "an undisturbed run has the same result");
                assert!(reached < commit, "{reached} of {commit}");
                if commit > commits {
                    return Some(commits);
                }
                continue;
            }
        }
        // Its end was the last commit: there is nothing to resume, and a new run would continue from its playbook.
        let over = finished(&bench).map(|run| {
            let reader = Workspace::read(bench.data.path()).unwrap();
            left(reader.as_ref(), &run, expected.0.clone())
        });
        let found = over.unwrap_or_else(|| {
            let resumed = live(&bench, bench.settings(), spec.clone(), Start::Resume(None));
            resumed.unwrap_or_else(|error| panic!("killed after commit {commit} of about {commits}: {error}")).0
        });
        let at = format!("killed after commit {commit} of about {commits}");
        assert_eq!(found.0, expected.0, "{at}: the report");
        assert_eq!(found.1.len(), expected.1.len(), "{at}: episodes");
        for (found, expected) in found.1.iter().zip(&expected.1) {
            assert_eq!(found, expected, "{at}: an episode");
        }
        assert_eq!((found.2, found.3), (expected.2.clone(), expected.3.clone()), "{at}: notes and playbooks");
    }
    None
}

/// In sequence, and several concurrently.
const CONCURRENCY: [u16; 2] = [1, 4];

#[test]
fn a_run_that_is_killed_after_any_commit_gives_the_same_result_when_resumed() {
    let text = "plugin = \"odd_snapshot.wasm\"\nrewards = [\"odd_ranking.wasm\"]\nepisodes = 24\ngroup = 4\nseed = 5\n\
                max_turns = 6\ngrants = [\"kv\", \"llm:judge=follower\"]\n";
    for concurrency in CONCURRENCY {
        let text = format!("concurrency = {concurrency}\n{text}");
        let Some(commits) = check("a_run_that_is_killed", Verb::Play, &text) else { return };
        assert!(commits >= 6, "{commits} commits");
    }
}

#[test]
fn a_learning_run_that_is_killed_after_any_commit_gives_the_same_result_when_resumed() {
    let text = "plugin = \"env_shop.wasm\"\nrewards = [\"reward_state.wasm\"]\nseed = 1\niterations = 3\nepisodes = 16\ngroup = 4\n\
                test_pairs = 6\n[[learn]]\nlayer = \"harness\"\nreflectors = [\"reflector_rules.wasm\"]\n\
                gate_every = 2\ngate_pairs = 8\n";
    for concurrency in CONCURRENCY {
        let text = format!("concurrency = {concurrency}\n{text}");
        let Some(commits) = check("a_learning_run_that_is_killed", Verb::Learn, &text) else { return };
        assert!(commits >= 20, "{commits} commits: three iterations, the gate and the test");
    }
}
