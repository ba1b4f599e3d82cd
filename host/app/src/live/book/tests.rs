use super::*;
use crate::WorkspaceSettings;
use clawhost_learn::memory::SCOPE_MEMORIES;
use clawhost_testkit::SetClock;
use std::sync::atomic::Ordering;

fn new(text: &str) -> NewMemory {
    NewMemory { level: None, kind: None, text: text.to_owned(), episode: None, supersedes: None, expires_days: None }
}

fn opened() -> (tempfile::TempDir, Workspace, Scope) {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(WorkspaceSettings::new(folder.path())).unwrap();
    (folder, workspace, "user:/ada".parse().unwrap())
}

#[tokio::test]
async fn a_full_scope_takes_no_more() {
    let (_folder, workspace, scope) = opened();
    for number in 0..SCOPE_MEMORIES {
        remember(&workspace, scope.clone(), new(&format!("fact {number}"))).await.unwrap();
    }
    let refused = remember(&workspace, scope.clone(), new("one more")).await.unwrap_err().to_string();
    assert!(refused.contains("forget some first"), "{refused}");
    // One that it has already may be written again.
    remember(&workspace, scope, new("fact 7")).await.unwrap();
}

#[tokio::test]
async fn what_is_no_export_is_refused() {
    let (_folder, workspace, scope) = opened();
    for text in ["", "[]", r#"{"format": 2, "scope": "user:/", "memories": []}"#] {
        let refused = import_memory(&workspace, &scope, text).await.unwrap_err().to_string();
        assert!(refused.starts_with("the file is no export of memory: "), "{refused}");
    }
}

#[tokio::test]
async fn what_has_expired_or_was_superseded_is_not_shown() {
    let (folder, workspace, scope) = opened();
    let kept = remember(&workspace, scope.clone(), new("Eva")).await.unwrap();
    let by = NewMemory { supersedes: Some(kept.id), ..new("Ada") };
    remember(&workspace, scope.clone(), by).await.unwrap();
    let short = NewMemory { expires_days: Some(1), ..new("in Bern this week") };
    remember(&workspace, scope, short).await.unwrap();
    let mut session = clawhost_core::LiveSession::new("s", "", "m");
    session.user = Some("ada".into());
    let party = MemoryParty { owner: "", team: None, session: &session };
    let reader = Reader::open(folder.path()).unwrap();
    let shown = |now: u64| {
        let found = of_session(&reader, party, now).unwrap();
        found[0].memories.iter().map(|memory| memory.lesson.line()).collect::<Vec<_>>()
    };
    let now = workspace.clock().now_ms();
    assert_eq!(shown(now), ["Ada", "in Bern this week"]);
    assert_eq!(shown(now + 2 * DAY_MS), ["Ada"]);
}

fn set(clock: &SetClock, now: u64) {
    clock.0.store(now, Ordering::Relaxed);
}

/// A workspace whose clock is set by hand.
fn timed() -> (tempfile::TempDir, Arc<SetClock>, Workspace, Scope) {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(SetClock::default());
    let settings = WorkspaceSettings { clock: Some(clock.clone()), ..WorkspaceSettings::new(folder.path()) };
    let workspace = Workspace::open(settings).unwrap();
    (folder, clock, workspace, "user:/ada".parse().unwrap())
}

/// What is shown, listed, exported and counted of Ada, as texts in the order in which they were written.
fn everything(workspace: &Workspace, scope: &Scope) -> Vec<Vec<String>> {
    let (reader, now) = (Reader::open(workspace.folder()).unwrap(), workspace.clock().now_ms());
    let mut session = clawhost_core::LiveSession::new("s", "", "m");
    session.user = Some("ada".into());
    let shown = of_session(&reader, MemoryParty { owner: "", team: None, session: &session }, now).unwrap();
    let shown = shown.iter().flat_map(|scope| &scope.memories).map(|memory| memory.lesson.line()).collect();
    let mut listed = list_memory(&reader, scope, (None, false), now).unwrap();
    listed.reverse();
    let listed = listed.iter().map(|item| {
        let by = item.superseded_by.as_ref().and_then(|by| listed.iter().find(|other| other.id == *by));
        by.map_or_else(|| item.text.clone(), |by| format!("{}, replaced by {}", item.text, by.text))
    });
    let exported: Export = serde_json::from_str(&export_memory(&reader, scope, now).unwrap()).unwrap();
    let exported = exported.memories.into_iter().map(|memory| memory.text).collect();
    let counted = memory_scopes(&reader, now).unwrap().iter().map(|scope| scope.memories.to_string()).collect();
    vec![shown, listed.collect(), exported, counted]
}

#[tokio::test]
async fn what_an_expired_text_had_replaced_is_used_again_whether_or_not_something_is_written() {
    let check = async |writes: bool| {
        let (_folder, clock, workspace, scope) = timed();
        let add = async |text: &str, supersedes: Option<&str>, expires_days: Option<u32>| {
            let supersedes = supersedes.map(str::to_owned);
            let new = NewMemory { supersedes, expires_days, ..new(text) };
            remember(&workspace, scope.clone(), new).await.map(|item| item.id)
        };
        // Something is written, and is forgotten again.
        let unrelated = async || {
            if writes {
                let id = add("something else", None, None).await.unwrap();
                forget_memory(&workspace, &scope, &id).await.unwrap();
            }
        };
        let bern = add("lives in Bern", None, None).await.unwrap();
        let rome = add("is in Rome", Some(&bern), Some(2)).await.unwrap();
        let oslo = add("is in Oslo", Some(&rome), Some(5)).await.unwrap();
        let expect = |shown: &[&str], listed: &[&str]| {
            let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
            let all = [texts(shown), texts(listed), texts(shown), vec![listed.len().to_string()]];
            assert_eq!(everything(&workspace, &scope), all, "with a write: {writes}");
        };
        let all = ["lives in Bern, replaced by is in Rome", "is in Rome, replaced by is in Oslo", "is in Oslo"];
        expect(&["is in Oslo"], &all);
        set(&clock, 2 * DAY_MS - 1);
        unrelated().await;
        expect(&["is in Oslo"], &all);
        // The one in the middle expires: the last one counts in its place.
        set(&clock, 2 * DAY_MS);
        unrelated().await;
        expect(&["is in Oslo"], &["lives in Bern, replaced by is in Oslo", "is in Oslo"]);
        set(&clock, 5 * DAY_MS);
        unrelated().await;
        expect(&["lives in Bern"], &["lives in Bern"]);
        // What has expired can be replaced no more, and the same text is a new one.
        let refused = add("is in Wien", Some(&oslo), None).await.unwrap_err().to_string();
        assert_eq!(refused, format!("user:/ada has no memory `{oslo}`"), "with a write: {writes}");
        assert_eq!(add("is in Oslo", None, None).await.unwrap(), oslo);
        expect(&["lives in Bern", "is in Oslo"], &["lives in Bern", "is in Oslo"]);
    };
    check(false).await;
    check(true).await;
}

#[tokio::test]
async fn a_full_scope_takes_more_when_something_has_expired() {
    let (_folder, clock, workspace, scope) = timed();
    for number in 0..SCOPE_MEMORIES {
        let days = (number == 7).then_some(1);
        let new = NewMemory { expires_days: days, ..new(&format!("fact {number}")) };
        remember(&workspace, scope.clone(), new).await.unwrap();
    }
    assert!(remember(&workspace, scope.clone(), new("one more")).await.is_err());
    set(&clock, DAY_MS);
    remember(&workspace, scope.clone(), new("one more")).await.unwrap();
    let again = remember(&workspace, scope, new("fact 7")).await.unwrap_err().to_string();
    assert!(again.contains("forget some first"), "it has expired, and is a new one: {again}");
}

#[tokio::test]
async fn an_export_says_when_a_text_expires_and_an_import_leaves_out_what_has() {
    let (_folder, clock, workspace, scope) = timed();
    remember(&workspace, scope.clone(), NewMemory { expires_days: Some(2), ..new("short") }).await.unwrap();
    remember(&workspace, scope.clone(), new("long")).await.unwrap();
    let text = export_memory(&Reader::open(workspace.folder()).unwrap(), &scope, 0).unwrap();
    assert!(text.contains(&format!("\"expires_at\": {}", 2 * DAY_MS)), "{text}");
    let other: Scope = "user:/bob".parse().unwrap();
    let listed = || {
        let reader = Reader::open(workspace.folder()).unwrap();
        let items = list_memory(&reader, &other, (None, true), workspace.clock().now_ms()).unwrap();
        items.into_iter().map(|item| (item.text, item.expires_at, item.expired)).collect::<Vec<_>>()
    };
    let (short, long) = ("short".to_owned(), "long".to_owned());
    assert_eq!(import_memory(&workspace, &other, &text).await.unwrap(), 2);
    assert_eq!(listed(), [(long.clone(), None, false), (short.clone(), Some(2 * DAY_MS), false)]);
    set(&clock, 2 * DAY_MS);
    assert_eq!(listed(), [(long.clone(), None, false), (short, Some(2 * DAY_MS), true)]);
    assert_eq!(import_memory(&workspace, &other, &text).await.unwrap(), 1);
    assert_eq!(listed(), [(long, None, false)]);
}
