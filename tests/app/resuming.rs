//! Resuming when no run fits, and concurrent use of a data folder.

use crate::bench::Bench;
use clawhost_app::{AppError, Event, RequestError, Silent, Start, Warning, Workspace, learn, run};
use clawhost_core::{LeaseMode, LeaseSubject};
use clawhost_play::{Cancel, StopReason};
use clawhost_run_config::{Key, Verb};
use std::sync::Mutex;

const GUESS: &str = "plugin = \"env_guess.wasm\"\nepisodes = 12\ngroup = 2\nconcurrency = 1\n";

/// Stops a run after this many episodes.
struct StopAfter(u64, Cancel);

impl clawhost_app::EventSink for StopAfter {
    fn event(&self, event: Event) {
        if matches!(event, Event::Recorded { done, .. } if done >= self.0) {
            self.1.request();
        }
    }
}

async fn interrupted(bench: &Bench, workspace: &Workspace, text: &str) -> clawhost_core::RunId {
    let cancel = Cancel::default();
    let watch = StopAfter(2, cancel.clone());
    let played = run(workspace, bench.spec(Verb::Play, text), Start::New, &cancel, &watch).await.unwrap();
    assert_eq!(played.report.stopped, Some(StopReason::Cancelled));
    played.run
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_interrupted_run_a_new_run_begins_with_a_message() {
    let Some(bench) = Bench::new("where_nothing_was_interrupted") else { return };
    let workspace = bench.open();
    let warnings = Mutex::new(Vec::new());
    let watch = |event: Event| {
        if let Event::Warning(warning) = event {
            warnings.lock().unwrap().push(warning);
        }
    };
    let spec = bench.spec(Verb::Play, GUESS);
    let played = run(&workspace, spec, Start::Resume(None), &Cancel::default(), &watch).await.unwrap();
    assert!(!played.is_resumed);
    assert_eq!(*warnings.lock().unwrap(), [Warning::NothingToResume]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_is_resumed_if_it_is_equal() {
    let Some(bench) = Bench::new("an_interrupted_run_is_resumed") else { return };
    let workspace = bench.open();
    let begun = interrupted(&bench, &workspace, GUESS).await;
    let spec = bench.spec(Verb::Play, GUESS);
    let played = run(&workspace, spec, Start::Resume(None), &Cancel::default(), &Silent).await.unwrap();
    assert_eq!((played.run, played.is_resumed), (begun.clone(), true));
    assert_eq!(played.report.episodes.len(), 12);
    let again = Start::Resume(Some(begun.0.clone()));
    let error = run(&workspace, bench.spec(Verb::Play, GUESS), again, &Cancel::default(), &Silent).await.unwrap_err();
    assert!(matches!(error, AppError::Request(RequestError::CannotResume { .. })), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_that_differs_is_reported_and_no_other_begins() {
    let Some(bench) = Bench::new("an_interrupted_run_that_differs") else { return };
    let workspace = bench.open();
    let begun = interrupted(&bench, &workspace, GUESS).await;
    for start in [Start::Resume(None), Start::Resume(Some(begun.0.clone()))] {
        let other = bench.spec(Verb::Play, &format!("{GUESS}seed = 9\nmax_turns = 7\n"));
        let error = run(&workspace, other, start, &Cancel::default(), &Silent).await.unwrap_err();
        let AppError::Request(RequestError::ResumeDiffers { run, all }) = error else { panic!("{error}") };
        assert_eq!(run, begun.0);
        let keys: Vec<_> = all.iter().filter_map(|difference| difference.key).collect();
        assert_eq!(keys, [Key::Seed, Key::MaxTurns]);
    }
    assert_eq!(workspace.reader().unwrap().runs(None).unwrap().len(), 1, "nothing was begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrency_and_budgets_may_differ_when_a_run_is_resumed() {
    let Some(bench) = Bench::new("concurrency_and_budgets_may_differ") else { return };
    let workspace = bench.open();
    let begun = interrupted(&bench, &workspace, GUESS).await;
    let text = GUESS.replace("concurrency = 1", "concurrency = 4\nmax_tokens_total = 1000000\nfailure_budget = 0.5");
    let spec = bench.spec(Verb::Play, &text);
    let played = run(&workspace, spec, Start::Resume(None), &Cancel::default(), &Silent).await.unwrap();
    assert_eq!((played.run, played.is_resumed), (begun, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_another_process_is_not_resumed() {
    let Some(bench) = Bench::new("a_run_that_another_process_plays") else { return };
    let workspace = bench.open();
    let begun = interrupted(&bench, &workspace, GUESS).await;
    let other = bench.open();
    let held = other.lease(&LeaseSubject::Run(begun.clone()), LeaseMode::Exclusive).unwrap();
    assert!(held.is_some(), "two workspaces share a folder");
    for start in [Start::Resume(None), Start::Resume(Some(begun.0.clone()))] {
        let spec = bench.spec(Verb::Play, GUESS);
        let error = run(&workspace, spec, start, &Cancel::default(), &Silent).await.unwrap_err();
        assert!(matches!(error, AppError::Request(RequestError::RunBusy { .. })), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_playbook_is_learned_by_one_process_at_a_time() {
    let Some(bench) = Bench::new("a_playbook_is_learned_by_one") else { return };
    let workspace = bench.open();
    let other = bench.open();
    let _held = other.hold_playbook("env-shop").unwrap();
    let text = "plugin = \"env_shop.wasm\"\nrewards = [\"reward_state.wasm\"]\n[[learn]]\nlayer = \"harness\"\n\
                reflectors = [\"reflector_rules.wasm\"]\n";
    let spec = bench.spec(Verb::Learn, text);
    let error = learn(&workspace, spec, Start::New, &Cancel::default(), &Silent).await.unwrap_err();
    assert!(matches!(error, AppError::Request(RequestError::PlaybookBusy { .. })), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stored_specification_is_complete() {
    let Some(bench) = Bench::new("what_is_stored_is_the_specification") else { return };
    let workspace = bench.open();
    let spec = bench.spec(Verb::Play, GUESS);
    let played = run(&workspace, spec, Start::New, &Cancel::default(), &Silent).await.unwrap();
    let row = workspace.reader().unwrap().run(&played.run).unwrap().unwrap();
    let stored = clawhost_run_config::RunSpec::from_document(row.config.0).unwrap();
    assert_eq!(stored, played.spec);
    assert_eq!(stored.environment.plugin.unwrap().name, "env-guess");
    assert_eq!(stored.policy.identity.unwrap().provider, "follower");
    assert_eq!(stored.play.max_turns, 64);
}
