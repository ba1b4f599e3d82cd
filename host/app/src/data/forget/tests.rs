//! Forgetting in a data folder with a store.

use super::*;
use crate::live::trace_of;
use crate::live::{TrialsState, remember};
use crate::{NewMemory, RequestError, prune};
use clawhost_core::{
    Checkpoint, Digest, Episode, EpisodeFilter, EpisodeId, EpisodeOrigin, EpisodeStore as _, Evidence, ExchangeBatch,
    ExchangeOutcome, ExchangeRow, Forgetting, LearningStore as _, LiveReader as _, LiveSession, LiveStore as _,
    MemoryReader as _, OpenEpisode, PlaybookVersion, Proposal, Recorded, RunId, RunKind, RunLabels, RunRecord,
    SessionDraw, SpecDocument, TrialsChange, TrialsReader as _, TrialsStore as _, Usage,
};
use clawhost_learn::live::trials::{LiveTrials, Offer};
use clawhost_learn::playbook::Playbook;
use clawhost_learn::{Entry, Lesson};
use clawhost_store::Reader;
use clawhost_testkit::SetClock;
use std::collections::BTreeMap;

/// What the forgotten user says, in every record. No schema and no word of others has it.
const MARKER: &str = "xylophone of Lovelace";

fn golden() -> Episode {
    serde_json::from_str(include_str!("../../../../../tests/golden/episode-2.json")).unwrap()
}

fn id(run: &str) -> RunId {
    RunId(run.into())
}

fn open(folder: &Path) -> Workspace {
    Workspace::open(WorkspaceSettings::new(folder)).unwrap()
}

/// A run of the sessions of a key.
async fn begun(workspace: &Workspace, run: &str, owner: &str) {
    let record = RunRecord {
        id: id(run),
        parent: None,
        kind: RunKind::Live,
        environment: owner.into(),
        state_id: golden().state_id,
        config: SpecDocument::none(),
        basis: serde_json::json!({ "live": { "owner": owner } }),
        planned: 0,
        created_at: 1,
        labels: RunLabels::default(),
    };
    workspace.store().begin_run(&record).await.unwrap();
}

fn session(name: &str, user: &str) -> LiveSession {
    LiveSession {
        user: Some(user).filter(|user| !user.is_empty()).map(str::to_owned),
        project: Some("rocket".into()),
        ..LiveSession::new(name, "codex", "m")
    }
}

/// A session that has ended, whose log says where it comes from and what was said.
async fn ended(workspace: &Workspace, name: &str, session: LiveSession, log: &[&str]) {
    let (run, episode) = name.split_once('/').unwrap();
    let index = u64::try_from(episode.len()).unwrap() * 1000 + u64::from(episode.bytes().next_back().unwrap());
    let log = log.iter().map(|line| (*line).to_owned()).collect();
    let origin = EpisodeOrigin::live(session);
    let episode = Episode { run: id(run), id: EpisodeId(episode.into()), index, origin, log, ..golden() };
    let one = Recorded { episode: Arc::new(episode), notes: BTreeMap::new(), replaces_existing: false };
    workspace.store().append(&id(run), vec![one], Usage::default()).await.unwrap();
}

/// A session in progress.
async fn opened(workspace: &Workspace, name: &str, session: LiveSession, draw: Option<&str>) {
    let (run, episode) = name.split_once('/').unwrap();
    let row = ExchangeRow {
        episode: OpenEpisode { run: id(run), id: EpisodeId(episode.into()), index: 1, session, opened_at: 1 },
        position: 0,
        at: 1,
        outcome: ExchangeOutcome::Complete,
        document: format!("{{\"said\":\"{MARKER}\"}}"),
        pooled: None,
        routed: None,
        drawn: draw.map(|document| SessionDraw { playbook: "live".into(), document: document.into() }),
        owner: String::new(),
        answer_id: None,
        is_main: true,
    };
    let batch = ExchangeBatch { exchanges: vec![row], ..ExchangeBatch::default() };
    workspace.store().record_exchanges(batch).await.unwrap();
}

async fn remembered(workspace: &Workspace, scope: &str, text: &str, episode: Option<&str>) -> String {
    let episode = episode.map(str::to_owned);
    let new = NewMemory { level: None, kind: None, text: text.into(), episode, supersedes: None, expires_days: None };
    remember(workspace, scope.parse().unwrap(), new).await.unwrap().id
}

fn request(scope: Option<&str>, session: Option<&str>, episode: Option<&str>) -> ForgetRequest {
    ForgetRequest {
        scope: scope.map(|scope| scope.parse().unwrap()),
        session: session.map(str::to_owned),
        episode: episode.map(str::to_owned),
        is_rehearsal: false,
    }
}

async fn forgotten(folder: &Path, request: &ForgetRequest) -> Result<ForgetReport, AppError> {
    forget(folder, request, Arc::new(SetClock::default())).await
}

/// Sessions of two keys, with a branch, a side turn of it, a project and one without a user.
async fn talked(folder: &Path) -> Workspace {
    let workspace = open(folder);
    begun(&workspace, "run-shop", "shop").await;
    begun(&workspace, "run-other", "other").await;
    ended(&workspace, "run-shop/ep-a", session("morning", "ada"), &[MARKER]).await;
    let branch = "a branch of run-shop/ep-a behind turn 1";
    ended(&workspace, "run-shop/ep-b", session("s-1", "ada"), &[branch, MARKER]).await;
    let side = "a side turn of run-shop/ep-b behind turn 1";
    ended(&workspace, "run-shop/ep-c", session("s-2", "ada"), &[side, MARKER]).await;
    opened(&workspace, "run-shop/ep-d", session("evening", "ada"), None).await;
    ended(&workspace, "run-shop/ep-e", session("morning", "bob"), &["hi"]).await;
    let plain = LiveSession { project: None, ..session("s-3", "") };
    ended(&workspace, "run-shop/ep-f", LiveSession { agent: "claude".into(), ..plain }, &["hi"]).await;
    ended(&workspace, "run-other/ep-g", session("noon", "ada"), &["hi"]).await;
    workspace
}

#[tokio::test]
async fn a_request_names_sessions_with_what_came_from_them() {
    let folder = tempfile::tempdir().unwrap();
    drop(talked(folder.path()).await);
    let reader = Reader::open(folder.path()).unwrap();
    let check = |scope: Option<&str>, session: Option<&str>, episode: Option<&str>, expect: &str| {
        let selection = Selection::of(&reader, &request(scope, session, episode)).unwrap();
        let ids: String = selection.episodes().iter().map(|name| name.rsplit('-').next().unwrap()).collect();
        assert_eq!(ids, expect, "{scope:?} {session:?} {episode:?}");
    };
    check(Some("user:shop/ada"), None, None, "abcd");
    check(Some("user:shop/"), None, None, "f");
    check(Some("user:other/ada"), None, None, "g");
    check(Some("user:/ada"), None, None, "");
    check(Some("project:shop/rocket"), None, None, "abcde");
    check(Some("agent:shop/claude"), None, None, "f");
    check(Some("team:/core"), None, None, "");
    check(Some("key:shop"), None, None, "abcdef");
    check(Some("key:"), None, None, "");
    check(Some("user:shop/ada"), Some("morning"), None, "abc");
    check(None, Some("evening"), None, "d");
    check(None, None, Some("ep-b"), "bc");
    check(None, None, Some("run-shop/ep-d"), "d");
    check(Some("user:shop/bob"), None, Some("ep-a"), "");
    let several = Selection::of(&reader, &request(None, Some("morning"), None)).unwrap_err().to_string();
    assert!(several.contains("user:shop/ada, user:shop/bob"), "{several}");
}

#[test]
fn what_names_nobody_is_refused() {
    for text in ["ada", "user:ada", "key:a/b", "planet:/x", ""] {
        assert!(text.parse::<ForgetScope>().is_err(), "{text}");
    }
    for text in ["user:shop/ada", "project:/x", "agent:a/b", "team:/core", "key:shop", "key:"] {
        assert_eq!(text.parse::<ForgetScope>().unwrap().to_string(), text);
    }
    assert_eq!(request(None, None, None).check(), Err(ForgetError::NothingNamed));
}

/// The files of a folder that have a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        // A link leads to a file that is looked at in its place.
        if entry.file_type().unwrap().is_symlink() {
            continue;
        }
        if entry.path().is_dir() {
            found.extend(files_with(&entry.path(), text));
        } else if std::fs::read(entry.path()).unwrap().windows(text.len()).any(|part| part == text.as_bytes()) {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn all_of_a_user_goes_from_records_memory_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = talked(folder.path()).await;
    remembered(&workspace, "user:shop/ada", &format!("My word is {MARKER}."), None).await;
    remembered(&workspace, "project:shop/rocket", &format!("Say {MARKER}."), Some("run-shop/ep-a")).await;
    remembered(&workspace, "user:shop/bob", "Be brief.", None).await;
    drop(workspace);
    for name in ["gateway.log", "gateway.log.1"] {
        std::fs::write(folder.path().join(name), format!("a trial begins: {MARKER}\n")).unwrap();
    }
    std::fs::create_dir(folder.path().join("spool")).unwrap();
    std::fs::write(folder.path().join("spool/0000000000000001.spool"), format!("half a record: {MARKER}")).unwrap();
    let scope = request(Some("user:shop/ada"), None, None);
    let would = forgotten(folder.path(), &ForgetRequest { is_rehearsal: true, ..scope.clone() }).await.unwrap();
    assert!(files_with(folder.path(), MARKER).len() >= 4, "a rehearsal removes nothing");
    let report = forgotten(folder.path(), &scope).await.unwrap();
    assert_eq!(files_with(folder.path(), MARKER), Vec::<String>::new());
    let removed = report.removed;
    assert_eq!((removed.episodes, removed.in_progress, removed.memories, report.logs), (3, 1, 2, 2));
    assert_eq!((would.removed, &would.episodes, would.logs), (removed, &report.episodes, report.logs));
    assert!(would.is_rehearsal && would.bytes_after.is_none() && report.bytes_after.is_some());
    let reader = Reader::open(folder.path()).unwrap();
    let left: Vec<String> = {
        use clawhost_core::EpisodeReader as _;
        reader.episodes(&EpisodeFilter::default()).unwrap().into_iter().map(|row| row.id).collect()
    };
    assert_eq!(left, ["ep-g", "ep-e", "ep-f"]);
    assert_eq!((reader.open_episodes(None).unwrap().len(), reader.memories("user:shop/bob").unwrap().len()), (0, 1));
    let again = forgotten(folder.path(), &scope).await.unwrap_err().to_string();
    assert!(again.contains("has nothing of user:shop/ada on record"), "{again}");
    let would = forgotten(folder.path(), &ForgetRequest { is_rehearsal: true, ..scope }).await.unwrap_err().to_string();
    assert!(would.ends_with("has nothing of user:shop/ada"), "{would}");
}

#[tokio::test]
async fn a_session_takes_the_memory_with_it_that_corrects_it_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = talked(folder.path()).await;
    remembered(&workspace, "user:shop/ada", "From the morning.", Some("run-shop/ep-a")).await;
    remembered(&workspace, "user:shop/ada", "From the evening.", Some("run-shop/ep-d")).await;
    remembered(&workspace, "user:shop/ada", "Written.", None).await;
    drop(workspace);
    let report = forgotten(folder.path(), &request(Some("user:shop/ada"), Some("evening"), None)).await.unwrap();
    assert_eq!((report.removed.in_progress, report.removed.episodes, report.removed.memories), (1, 0, 1));
    assert_eq!(Reader::open(folder.path()).unwrap().memories("user:shop/ada").unwrap().len(), 2);
}

#[tokio::test]
async fn an_episode_that_was_played_and_one_that_is_not_there_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = talked(folder.path()).await;
    let played = RunRecord {
        id: id("run-played"),
        parent: None,
        kind: RunKind::Play,
        environment: "guess".into(),
        state_id: golden().state_id,
        config: SpecDocument::none(),
        basis: serde_json::json!("x"),
        planned: 1,
        created_at: 1,
        labels: RunLabels::default(),
    };
    workspace.store().begin_run(&played).await.unwrap();
    let episode = Episode { run: id("run-played"), id: EpisodeId("ep-p".into()), ..golden() };
    let one = Recorded { episode: Arc::new(episode), notes: BTreeMap::new(), replaces_existing: false };
    workspace.store().append(&id("run-played"), vec![one], Usage::default()).await.unwrap();
    drop(workspace);
    for (episode, part) in [("ep-p", "was played in an environment"), ("ep-none", "has nothing of episode ep-none")] {
        let refused = forgotten(folder.path(), &request(None, None, Some(episode))).await.unwrap_err().to_string();
        assert!(refused.contains(part), "{refused}");
    }
}

#[tokio::test]
async fn nothing_is_forgotten_while_a_gateway_or_another_process_uses_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = talked(folder.path()).await;
    let scope = request(Some("key:shop"), None, None);
    let busy = forgotten(folder.path(), &scope).await.unwrap_err();
    assert!(matches!(busy, AppError::Request(RequestError::FolderBusy { .. })), "{busy}");
    let gateway = workspace.lease(&LeaseSubject::Gateway, LeaseMode::Exclusive).unwrap();
    let runs = forgotten(folder.path(), &scope).await.unwrap_err();
    assert!(matches!(runs, AppError::Forget(ForgetError::GatewayRuns { .. })) && !runs.hints().is_empty(), "{runs}");
    let would = forgotten(folder.path(), &ForgetRequest { is_rehearsal: true, ..scope.clone() }).await.unwrap();
    assert_eq!(would.removed.episodes, 5);
    drop((gateway, workspace));
    assert_eq!(forgotten(folder.path(), &scope).await.unwrap().removed.episodes, 5);
}

#[tokio::test]
async fn a_forgetting_that_was_interrupted_is_finished_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = talked(folder.path()).await;
    let episodes = [(id("run-shop"), EpisodeId("ep-a".into()))].into();
    workspace.store().forget(Forgetting { episodes, ..Forgetting::default() }).await.unwrap();
    drop(workspace);
    let check = async |request: ForgetRequest, episodes: u64| {
        let report = forgotten(folder.path(), &request).await.unwrap();
        assert_eq!(report.interrupted, (episodes == 0).then(|| vec!["run-shop/ep-a".to_owned()]));
        assert_eq!(report.removed.episodes, episodes);
    };
    let rehearsal = ForgetRequest { is_rehearsal: true, ..request(Some("user:/nobody"), None, None) };
    assert!(forgotten(folder.path(), &rehearsal).await.unwrap().interrupted.is_some());
    check(request(Some("user:/nobody"), None, None), 0).await;
    check(request(None, None, Some("ep-e")), 1).await;
}

fn proposal(text: &str, episode: &str) -> Proposal {
    let entry =
        clawhost_core::Entry { id: String::new(), text: text.into(), tags: vec![], needs: vec![], extra: vec![] };
    let evidence = vec![Evidence { episode: episode.into(), turns: vec![0] }];
    Proposal { change: clawhost_core::Change::Add(entry), evidence, expected_effect: String::new() }
}

#[tokio::test]
async fn lessons_of_forgotten_sessions_go_and_served_ones_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = talked(folder.path()).await;
    let store = workspace.store();
    let mut state = TrialsState::read(&Reader::open(folder.path()).unwrap(), "live").unwrap();
    let trials: &mut LiveTrials = &mut state.trials;
    for (text, episode, user) in
        [("Say xylophone.", "ep-a", "ada"), ("Be brief.", "ep-a", "ada"), ("Be brief.", "ep-e", "bob")]
    {
        let teacher = crate::live::user_number("shop", Some(user));
        let offer =
            trials.offer("r", &proposal(text, &format!("run-shop/{episode}")), teacher, (&Playbook::default(), 0));
        assert!(!matches!(offer, Offer::Refused(_)));
    }
    let draw = |user: u64| format!(r#"{{"user":{user},"class":"codex","features":[0.5,0.0],"served":0,"draws":[]}}"#);
    let ada = crate::live::user_number("shop", Some("ada"));
    opened(&workspace, "run-shop/ep-x", session("x", "ada"), Some(&draw(ada))).await;
    opened(&workspace, "run-shop/ep-y", session("y", "ada"), Some(&draw(ada))).await;
    opened(&workspace, "run-shop/ep-z", session("z", "ada"), Some(&draw(ada))).await;
    let number = |episode: &str| {
        let reader = Reader::open(folder.path()).unwrap();
        reader.draw_of(&id("run-shop"), &EpisodeId(episode.into())).unwrap().unwrap().number
    };
    let enters = ["ep-x", "ep-y"].map(|episode| (number(episode), Some(1.0))).to_vec();
    let change = TrialsChange {
        playbook: "live".into(),
        enters,
        state: Some(state.trials_document().unwrap()),
        ..TrialsChange::default()
    };
    store.change_trials(change).await.unwrap();
    let sources = vec![Evidence { episode: "run-shop/ep-a".into(), turns: vec![0] }];
    let entries = vec![Entry { sources, ..Entry::new(Lesson::read("Answer in metres."), "r") }];
    begun(&workspace, "run-taught", "third").await;
    let document = serde_json::json!(Playbook { entries, ..Playbook::default() });
    let version = PlaybookVersion {
        name: "live".into(),
        number: 0,
        digest: Digest::of(b"v"),
        document,
        why: "learned".into(),
        run: None,
        created_at: 1,
    };
    let checkpoint = Checkpoint {
        run: id("run-taught"),
        iteration: 1,
        state: serde_json::json!({}),
        report: serde_json::json!({}),
        versions: vec![version],
        ledger: None,
        large: BTreeMap::new(),
        spent: Usage::default(),
    };
    store.checkpoint(checkpoint).await.unwrap();
    drop((store, workspace));
    let ids: Vec<String> = state.trials.candidates().iter().map(|one| one.entry.id.0.clone()).collect();
    let counts =
        serde_json::json!({ "preferred": { "with": 1, "without": 0, "neither": 0 }, "without_vote": 1, "failed": 0 });
    let lessons: serde_json::Map<_, _> = ids.iter().map(|id| (id.clone(), counts.clone())).collect();
    let spending = serde_json::json!({ "day": 1, "spent": { "tokens": 0, "micros": 0 } });
    let shadow = serde_json::json!({ "format": 1, "through": 1, "spending": spending, "lessons": lessons });
    std::fs::write(folder.path().join("shadow.json"), shadow.to_string()).unwrap();
    let report = forgotten(folder.path(), &request(Some("user:shop/ada"), None, None)).await.unwrap();
    let left = std::fs::read_to_string(folder.path().join("shadow.json")).unwrap();
    assert_eq!((left.contains(&ids[0]), left.contains(&ids[1])), (false, true), "{left}");
    assert_eq!(report.lessons, ForgottenLessons { candidates: 1, ..ForgottenLessons::default() });
    let [cited] = report.cited.as_slice() else { panic!("{:?}", report.cited) };
    assert_eq!(
        (cited.lesson.as_str(), cited.version, cited.is_served, cited.sessions),
        ("Answer in metres.", 1, true, 1)
    );
    assert_eq!((report.removed.anonymous, report.removed.draws), (2, 1));
    assert_eq!(files_with(folder.path(), "xylophone"), Vec::<String>::new());
    assert_eq!(files_with(folder.path(), &ada.to_string()), Vec::<String>::new(), "the number of the user");
    let reader = Reader::open(folder.path()).unwrap();
    let state = TrialsState::read(&reader, "live").unwrap();
    let waiting = state.trials.candidates();
    assert_eq!((waiting.len(), waiting[0].teachers.len(), waiting[0].entry.sources.len()), (1, 1, 1));
    let entered = reader.entered_draws("live", 0, 9).unwrap();
    let users: BTreeSet<String> = entered.iter().map(|one| one.document.clone()).collect();
    assert_eq!((entered.len(), users.len()), (2, 1), "sessions of one user keep one number");
    // What cites forgotten sessions holds up no removal.
    let rule = crate::PruneRule::OlderThan { days: 0 };
    let pruned = prune(folder.path(), &crate::PruneRequest { rule, is_rehearsal: false }, u64::MAX).await.unwrap();
    assert!(pruned.kept.iter().all(|kept| kept.run != id("run-shop")), "{:?}", pruned.kept);
}

/// Weights with one version that learned from a session of a scope.
fn write_weights(folder: &Path, name: &str, scope: Option<&str>, session: &str, taught_by: &str) {
    let place = folder.join("live-weights").join(name);
    let version = |number: u64| {
        serde_json::json!({
            "number": number, "from": 0, "digest": format!("d{number}"), "at": 1, "sessions": 1, "metrics": [], "note": "",
            "is_kept": true, "is_withdrawn": false,
        })
    };
    let learned = serde_json::json!({
        "format": 3, "model": "m", "base": folder.join("base"), "part": "tiny", "learns": "all weights", "scope": scope,
        "through": 1, "serves": 1, "versions": [version(0), version(1)],
    });
    let step = serde_json::json!({ "format": 3, "sessions": [session], "traces": [trace_of(taught_by)] });
    for (name, document) in [("learned.json", learned), ("steps/1.json", step)] {
        let path = place.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, document.to_string()).unwrap();
    }
    std::fs::create_dir_all(place.join("versions/1/tiny")).unwrap();
    std::os::unix::fs::symlink(place.join("versions/1/tiny"), place.join("serving")).unwrap();
}

/// Shared weights that learned from Eve, and the adapters of Eve and Bob. The sessions have expired, so no record says whose they were.
fn write_weights_of_eve_and_bob(folder: &Path) {
    for (name, scope, session, taught_by) in [
        ("m", None, "run-old/ep-z", "user:shop/eve"),
        ("m/own/eve", Some("user:shop/eve"), "run-old/ep-z", "user:shop/eve"),
        ("m/own/bob", Some("user:shop/bob"), "run-old/ep-y", "user:shop/bob"),
    ] {
        write_weights(folder, name, scope, session, taught_by);
    }
}

/// Where the weights that answer are, in the folder of a model.
fn leads_to(folder: &Path, name: &str) -> Option<std::path::PathBuf> {
    std::fs::read_link(folder.join("live-weights").join(name).join("serving")).ok()
}

#[tokio::test]
async fn an_interrupted_forgetting_of_a_scope_is_finished_by_what_it_has_noted() {
    let folder = tempfile::tempdir().unwrap();
    drop(talked(folder.path()).await);
    write_weights_of_eve_and_bob(folder.path());
    let options = StoreOptions { ledger_key: ledger_key_of(folder.path()).unwrap(), ..StoreOptions::default() };
    let store = Store::open(folder.path(), options).unwrap();
    // The process ends when its records have gone.
    let what = Forgetting { traces: request(Some("user:shop/eve"), None, None).traces(), ..Forgetting::default() };
    store.forget(what).await.unwrap();
    drop(store);
    let finished = finish_forgetting(folder.path(), Arc::new(crate::SystemClock::default())).await.unwrap();
    assert_eq!(finished, Some(0));
    assert_eq!(leads_to(folder.path(), "m").unwrap(), folder.path().join("base"));
    assert!(!folder.path().join("live-weights/m/own/eve").exists());
    assert!(leads_to(folder.path(), "m/own/bob").unwrap().ends_with("versions/1/tiny"));
}

#[tokio::test]
async fn what_weights_learned_from_sessions_that_have_expired_is_forgotten_with_their_user() {
    let folder = tempfile::tempdir().unwrap();
    drop(talked(folder.path()).await);
    write_weights_of_eve_and_bob(folder.path());
    let scope = request(Some("user:shop/eve"), None, None);
    let would = forgotten(folder.path(), &ForgetRequest { is_rehearsal: true, ..scope.clone() }).await.unwrap();
    assert_eq!(files_with(folder.path(), "shop/eve").len(), 1);
    let report = forgotten(folder.path(), &scope).await.unwrap();
    let shown = |report: &ForgetReport| {
        let mut all: Vec<_> = report.weights.iter().map(|one| (one.scope.is_some(), one.is_removed)).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(
        (shown(&would), shown(&report)),
        (vec![(false, false), (true, true)], vec![(false, false), (true, true)])
    );
    assert_eq!(files_with(folder.path(), "shop/eve"), Vec::<String>::new());
    assert_eq!(leads_to(folder.path(), "m").unwrap(), folder.path().join("base"));
    assert!(folder.path().join("live-weights/m/own/bob/learned.json").exists());
}

#[tokio::test]
async fn a_name_that_nothing_has_is_an_error_after_what_was_removed_before_is_cleaned() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = talked(folder.path()).await;
    remembered(&workspace, "user:shop/ada", &format!("My word is {MARKER}."), None).await;
    drop(workspace);
    std::fs::write(folder.path().join("gateway.log"), "a line\n").unwrap();
    for scope in ["key:shpo", "user:shop/adda"] {
        let scope = request(Some(scope), None, None);
        let refused = forgotten(folder.path(), &scope).await.unwrap_err().to_string();
        assert!(
            refused.contains("on record; what expired or was removed before is gone from dictionaries"),
            "{refused}"
        );
    }
    assert!(!files_with(folder.path(), MARKER).is_empty());
}

#[tokio::test]
async fn a_place_that_cannot_be_read_keeps_nothing_else_from_being_cleaned() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = talked(folder.path()).await;
    remembered(&workspace, "user:shop/ada", &format!("My word is {MARKER}."), None).await;
    drop(workspace);
    let scope = request(Some("user:shop/ada"), Some("morning"), None);
    write_weights(folder.path(), "m", None, "run-old/ep-z", "user:shop/eve");
    let damaged = folder.path().join("live-weights/m/learned.json");
    let good = std::fs::read(&damaged).unwrap();
    std::fs::write(&damaged, "{").unwrap();
    let refused = forgotten(folder.path(), &scope).await.unwrap_err().to_string();
    assert!(refused.contains("live-weights/m/learned.json"), "{refused}");
    let whole = request(Some("user:shop/ada"), None, None);
    let refused = forgotten(folder.path(), &whole).await.unwrap_err().to_string();
    assert!(refused.contains("live-weights/m/learned.json"), "{refused}");
    assert_eq!(files_with(folder.path(), MARKER), Vec::<String>::new());
    std::fs::write(&damaged, good).unwrap();
    // A gateway that starts does the rest.
    let finished = finish_forgetting(folder.path(), Arc::new(crate::SystemClock::default())).await.unwrap();
    assert_eq!(finished, Some(4), "all sessions of the user");
    assert_eq!(finish_forgetting(folder.path(), Arc::new(crate::SystemClock::default())).await.unwrap(), None);
}

#[tokio::test]
async fn weights_that_learned_from_what_was_forgotten_answer_no_longer() {
    let folder = tempfile::tempdir().unwrap();
    drop(talked(folder.path()).await);
    let place = folder.path().join("live-weights/m");
    write_weights(folder.path(), "m", None, "run-shop/ep-b", "agent:shop/x");
    let serves = || {
        let file = std::fs::read(place.join("learned.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&file).unwrap()["serves"].as_u64()
    };
    // Somebody else's sessions taught nothing here.
    let other = forgotten(folder.path(), &request(Some("user:other/ada"), None, None)).await.unwrap();
    assert_eq!((other.weights.len(), serves()), (0, Some(1)));
    let rehearsal = ForgetRequest { is_rehearsal: true, ..request(Some("user:shop/ada"), None, None) };
    let would = forgotten(folder.path(), &rehearsal).await.unwrap();
    assert_eq!((would.weights.len(), serves()), (1, Some(1)));
    let report = forgotten(folder.path(), &request(Some("user:shop/ada"), None, None)).await.unwrap();
    assert_eq!((report.weights, serves()), (would.weights, Some(0)));
}
