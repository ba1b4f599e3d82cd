//! Removes what agents said when its time is over: the days of its key, or those of clients without a key.

use super::citations::Citations;
use crate::keys::client_keys;
use crate::{AppError, Workspace};
use clawhost_core::{Clock, EpisodeFilter, Removal, Removed, Retention as _, RunKind, RunRow, StoreReader};
use clawhost_gateway::ClientKeys;
use clawhost_store::Store;
use std::path::PathBuf;
use std::sync::Arc;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Removes what is too old, once at the beginning and once a day.
pub(crate) struct Expiry {
    folder: PathBuf,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    /// Days for clients without a key, and for keys that were removed. `None`: for ever.
    others: Option<u32>,
    /// The day of the last look.
    last: Option<u64>,
}

impl Expiry {
    /// For the data folder of a workspace.
    pub(crate) fn new(workspace: &Workspace, others: Option<u32>) -> Self {
        let (store, clock) = (workspace.store(), workspace.clock());
        Self { folder: workspace.folder().to_owned(), store, clock, others, last: None }
    }

    /// Whether it is time. It is once a day, also if the clock is set back.
    fn is_due(&mut self) -> bool {
        let today = self.clock.now_ms() / DAY_MS;
        let is_due = self.last.is_none_or(|last| last < today);
        if is_due {
            self.last = Some(today);
        }
        is_due
    }

    /// Removes what is too old if it is time. What fails is tried again on the next day.
    pub(crate) async fn look(&mut self) {
        if !self.is_due() {
            return;
        }
        let removed = match client_keys(&self.folder) {
            Ok(keys) => self.expire(&keys).await,
            Err(error) => Err(error),
        };
        match removed {
            Ok(Removed { episodes, .. }) if episodes > 0 => {
                tracing::info!("removed {episodes} episodes whose days are over")
            }
            Ok(_) => {}
            Err(error) => tracing::error!("episodes whose days are over were not removed: {error}"),
        }
    }

    /// Removes the live episodes and stored responses whose days are over, whole runs at a time: a run has the sessions of one key that
    /// began on one day. It stays while one of its sessions is open, or ended too short a time ago. What playbooks refer to stays, as in
    /// [`super::prune`].
    async fn expire(&self, keys: &ClientKeys) -> Result<Removed, AppError> {
        let now_ms = self.clock.now_ms();
        let removal = {
            let reader = Workspace::read(&self.folder)?;
            let citations = Citations::read(&*reader)?;
            let mut removal = Removal { records_only: true, ..Removal::default() };
            for run in reader.runs(None)?.into_iter().filter(|run| run.kind == RunKind::Live && !run.pruned) {
                let Some(days) = self.days(keys, run.live_owner()) else { continue };
                if !is_over(&*reader, &run, days, now_ms)? {
                    continue;
                }
                if citations.playbooks.contains_key(&run.id) {
                    removal.keep_records.insert(run.id.clone());
                }
                removal.keep_episodes.extend(citations.of_run(&*reader, &run.id)?);
                removal.runs.insert(run.id);
            }
            removal
        };
        if removal.runs.is_empty() {
            return Ok(Removed::default());
        }
        Ok(self.store.remove(removal).await?)
    }

    fn days(&self, keys: &ClientKeys, owner: &str) -> Option<u32> {
        match keys.iter().find(|key| key.name == owner) {
            Some(key) => key.keep_days,
            None => self.others,
        }
    }
}

/// Whether everything of a run is older than so many days.
fn is_over(reader: &dyn StoreReader, run: &RunRow, days: u32, now_ms: u64) -> Result<bool, AppError> {
    let is_old = |at: u64| at.saturating_add(u64::from(days) * DAY_MS) < now_ms;
    if !is_old(run.created_at) || !reader.open_episodes(Some(&run.id))?.is_empty() {
        return Ok(false);
    }
    let listed = reader.list_episodes(&EpisodeFilter::of(&run.id))?;
    Ok(listed.rows.iter().all(|row| is_old(row.created_at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Silent;
    use crate::{ServeRequest, WorkspaceSettings, serve};
    use clawhost_core::{
        Checkpoint, Digest, Episode, EpisodeId, EpisodeStore as _, Evidence, ExchangeBatch, ExchangeOutcome,
        ExchangeRow, LearningStore as _, LiveSession, LiveStore as _, OpenEpisode, PlaybookVersion, Recorded,
        ResponseChange, ResponseRow, RunId, RunLabels, RunRecord, SpecDocument, Usage,
    };
    use clawhost_gateway::ClientKey;
    use clawhost_testkit::SetClock;
    use std::collections::BTreeMap;
    use std::sync::atomic::Ordering;

    /// Looks at the folder until a gateway must have removed something.
    const LOOKS: u32 = 10_000;

    fn key(name: &str, keep_days: Option<u32>) -> ClientKey {
        ClientKey { keep_days, ..ClientKey::new(name, Digest::of(name.as_bytes()), 0) }
    }

    fn folder_and_workspace(clock: Arc<SetClock>) -> (tempfile::TempDir, Workspace) {
        let folder = tempfile::tempdir().unwrap();
        let settings = WorkspaceSettings { clock: Some(clock), ..WorkspaceSettings::new(folder.path()) };
        let workspace = Workspace::open(settings).unwrap();
        (folder, workspace)
    }

    fn open_row(run: &RunId, id: &str, at: u64) -> ExchangeRow {
        let session = LiveSession::new(id, "a", "m");
        let episode = OpenEpisode { run: run.clone(), id: EpisodeId(id.into()), index: 7, session, opened_at: at };
        ExchangeRow {
            episode,
            position: 0,
            at,
            outcome: ExchangeOutcome::Complete,
            document: "{}".into(),
            pooled: None,
            routed: None,
            drawn: None,
            owner: String::new(),
            answer_id: None,
            is_main: true,
        }
    }

    /// A run of a key on a day.
    fn live(name: &str, owner: &str, day: u64) -> RunRecord {
        RunRecord {
            id: RunId(name.into()),
            parent: None,
            kind: RunKind::Live,
            environment: owner.into(),
            state_id: golden().state_id,
            config: SpecDocument::none(),
            basis: serde_json::json!({ "live": { "owner": owner, "day": day } }),
            planned: 0,
            created_at: day * DAY_MS,
            labels: RunLabels::default(),
        }
    }

    fn golden() -> Episode {
        serde_json::from_str(include_str!("../../../../tests/golden/episode-2.json")).unwrap()
    }

    /// A run of a key on a day, with an episode that ended on another day and a response.
    async fn recorded(workspace: &Workspace, name: &str, owner: &str, day: u64, ended: u64) -> RunId {
        let run = RunId(name.into());
        let record = live(name, owner, day);
        let store = workspace.store();
        store.begin_run(&record).await.unwrap();
        let episode =
            Episode { run: run.clone(), id: EpisodeId(format!("ep-{name}")), created_at: ended * DAY_MS, ..golden() };
        let one = Recorded { episode: Arc::new(episode), notes: BTreeMap::new(), replaces_existing: false };
        store.append(&run, vec![one], Usage::default()).await.unwrap();
        let row = ResponseRow {
            owner: owner.into(),
            id: name.into(),
            run: run.clone(),
            at: day * DAY_MS,
            document: "{}".into(),
        };
        let batch = ExchangeBatch { responses: vec![ResponseChange::Stored(row)], ..ExchangeBatch::default() };
        store.record_exchanges(batch).await.unwrap();
        run
    }

    fn runs(workspace: &Workspace) -> Vec<String> {
        let mut runs: Vec<String> =
            Workspace::read(workspace.folder()).unwrap().runs(None).unwrap().into_iter().map(|run| run.id.0).collect();
        runs.sort();
        runs
    }

    #[tokio::test]
    async fn episodes_and_responses_go_when_the_days_of_their_key_are_over() {
        let clock = Arc::new(SetClock::default());
        let (_folder, workspace) = folder_and_workspace(clock.clone());
        recorded(&workspace, "run-short", "short", 10, 10).await;
        recorded(&workspace, "run-later", "short", 10, 14).await;
        recorded(&workspace, "run-ever", "ever", 10, 10).await;
        recorded(&workspace, "run-nobody", "", 10, 10).await;
        recorded(&workspace, "run-removed", "gone", 10, 10).await;
        let open = recorded(&workspace, "run-open", "short", 10, 10).await;
        let batch = ExchangeBatch { exchanges: vec![open_row(&open, "ep-open", 1)], ..ExchangeBatch::default() };
        workspace.store().record_exchanges(batch).await.unwrap();
        let keys = ClientKeys::new(vec![key("short", Some(3)), key("ever", None)]);
        let expiry = Expiry::new(&workspace, Some(30));
        let check = async |day: u64, gone: u64, expect: &[&str]| {
            clock.0.store(day * DAY_MS + 1, Ordering::Relaxed);
            let removed = expiry.expire(&keys).await.unwrap();
            assert_eq!((removed.runs, removed.episodes), (gone, gone), "day {day}");
            assert_eq!(runs(&workspace), expect, "day {day}");
        };
        let all = ["run-ever", "run-later", "run-nobody", "run-open", "run-removed", "run-short"];
        check(12, 0, &all).await;
        check(13, 1, &["run-ever", "run-later", "run-nobody", "run-open", "run-removed"]).await;
        let reader = Workspace::read(workspace.folder()).unwrap();
        assert_eq!(reader.response("short", "run-short").unwrap(), None);
        assert!(reader.response("ever", "run-ever").unwrap().is_some());
        check(17, 1, &["run-ever", "run-nobody", "run-open", "run-removed"]).await;
        check(40, 2, &["run-ever", "run-open"]).await;
        check(40, 0, &["run-ever", "run-open"]).await;
    }

    #[test]
    fn it_is_time_at_the_beginning_and_once_a_day() {
        let clock = Arc::new(SetClock::default());
        let (_folder, workspace) = folder_and_workspace(clock.clone());
        let mut expiry = Expiry::new(&workspace, None);
        let mut check = |ms: u64, expect: bool| {
            clock.0.store(ms, Ordering::Relaxed);
            assert_eq!(expiry.is_due(), expect, "{ms}");
        };
        check(5 * DAY_MS + 7, true);
        check(6 * DAY_MS - 1, false);
        check(6 * DAY_MS, true);
        check(6 * DAY_MS, false);
        check(5 * DAY_MS, false);
        check(9 * DAY_MS, true);
    }

    #[tokio::test]
    async fn only_conversations_of_agents_go_and_what_playbooks_refer_to_stays() {
        let clock = Arc::new(SetClock::default());
        let (_folder, workspace) = folder_and_workspace(clock.clone());
        for name in ["run-cited", "run-taught", "run-old"] {
            recorded(&workspace, name, "", 10, 10).await;
        }
        let played = RunRecord { id: RunId("run-played".into()), kind: RunKind::Play, ..live("run-played", "", 10) };
        workspace.store().begin_run(&played).await.unwrap();
        let sources = vec![Evidence { episode: "run-cited/ep-run-cited".into(), turns: vec![0] }];
        let version = PlaybookVersion {
            name: "desk".into(),
            number: 0,
            digest: Digest::of(b"version"),
            document: serde_json::json!({ "sources": sources }),
            why: "learned".into(),
            run: Some(RunId("run-taught".into())),
            created_at: 0,
        };
        let checkpoint = Checkpoint {
            run: RunId("run-taught".into()),
            iteration: 1,
            state: serde_json::json!({}),
            report: serde_json::json!({}),
            versions: vec![version],
            ledger: None,
            large: BTreeMap::new(),
            spent: Usage::default(),
        };
        workspace.store().checkpoint(checkpoint).await.unwrap();
        clock.0.store(40 * DAY_MS, Ordering::Relaxed);
        let removed = Expiry::new(&workspace, Some(5)).expire(&ClientKeys::default()).await.unwrap();
        let rows = Workspace::read(workspace.folder()).unwrap().episodes(&EpisodeFilter::default()).unwrap();
        let left: Vec<String> = rows.into_iter().map(|row| row.id).collect();
        assert_eq!((removed.episodes, left), (2, vec!["ep-run-cited".to_owned()]));
        assert_eq!(runs(&workspace), ["run-cited", "run-played", "run-taught"]);
    }

    #[tokio::test]
    async fn a_gateway_removes_what_is_older_than_its_file_says() {
        let clock = Arc::new(SetClock::default());
        let (folder, workspace) = folder_and_workspace(clock.clone());
        recorded(&workspace, "run-old", "", 10, 10).await;
        clock.0.store(40 * DAY_MS, Ordering::Relaxed);
        std::fs::write(folder.path().join("gateway.toml"), "[retention]\ndays = 5\n").unwrap();
        let request = ServeRequest {
            listen: Some("127.0.0.1:0".into()),
            hosts: Vec::new(),
            upstreams: vec!["m=openai:m@http://127.0.0.1:1/v1".into()],
            session_idle: None,
            tls: None,
            pass_key: false,
            retries: 0,
            access_log: false,
            rewards: Vec::new(),
            mode: None,
            playbook: None,
            skills: Vec::new(),
            skill_bank: false,
        };
        let serving = serve(&workspace, request, &Silent).await.unwrap();
        // It looks at the beginning, beside the requests.
        for _ in 0..LOOKS {
            if runs(&workspace).is_empty() {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert!(runs(&workspace).is_empty());
        serving.stop().await;
    }
}
