use super::super::GateBook;
use super::super::candidate::{NewCandidate, add};
use super::*;
use crate::WorkspaceSettings;
use clawhost_core::{
    Ending, Episode, EpisodeId, EpisodeOrigin, EpisodeStore as _, ExchangeBatch, ExchangeOutcome, ExchangeRow, Failure,
    FailureKind, Feedback, Judged, Live, LiveSession, LiveStore as _, ModelRequest, OpenEpisode, Recorded,
    RoutedExchange, RunId, Usage, code,
};
use clawhost_gateway::{Chooser as _, Choosing};
use clawhost_testkit::{SetClock, live_run};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

const RUN: &str = "run-live";
const WEEK_MS: u64 = 7 * 24 * 60 * 60 * 1000;
const TWO: &str = "[models.cheap]\nmodel = \"follower\"\nprice = 1\n[models.dear]\nmodel = \"random\"\nprice = 10\n";

fn golden() -> Episode {
    serde_json::from_str(include_str!("../../../../../tests/golden/episode-2.json")).unwrap()
}

/// A data folder with a router, and sessions that it decides about.
struct Bench {
    folder: tempfile::TempDir,
    workspace: Workspace,
    clock: Arc<SetClock>,
    settling: Settling,
    live: LiveRouter,
    sessions: u64,
}

fn opened(folder: &Path, clock: &Arc<SetClock>) -> Workspace {
    let settings = WorkspaceSettings { clock: Some(clock.clone()), ..WorkspaceSettings::new(folder) };
    Workspace::open(settings).unwrap()
}

fn file(folder: &Path, ending: &str) -> PathBuf {
    router_file(&super::super::routers_folder(folder), "two", ending)
}

fn live(folder: &Path) -> LiveRouter {
    let file = RouterFile::read(&file(folder, "toml")).unwrap();
    LiveRouter::new("two", file.live(&super::super::routers_folder(folder), "two").unwrap(), None)
}

impl Bench {
    async fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(SetClock::default());
        clock.0.store(WEEK_MS, Ordering::Relaxed);
        let workspace = opened(folder.path(), &clock);
        std::fs::create_dir(super::super::routers_folder(folder.path())).unwrap();
        std::fs::write(file(folder.path(), "toml"), text).unwrap();
        workspace.store().begin_run(&live_run(RUN, golden().state_id)).await.unwrap();
        let (settling, live) = (Settling::new(&workspace), live(folder.path()));
        Self { folder, workspace, clock, settling, live, sessions: 0 }
    }

    fn session(id: u64) -> LiveSession {
        LiveSession::new(format!("s-{id}"), "a", "auto")
    }

    /// A session opens and has an exchange. `decision`: another one than that of the router.
    async fn open(&mut self, has_failed: bool, decision: Option<&str>) -> u64 {
        let id = self.sessions;
        self.sessions += 1;
        let name = format!("{RUN}/ep-{id}");
        let (request, at) = (ModelRequest::default(), self.clock.now_ms());
        let choosing = Choosing { request: &request, session: Some(&name), at_ms: at };
        let chosen = self.live.choose(&choosing).await.unwrap();
        let routed = RoutedExchange {
            router: "two".into(),
            decision: Some(decision.map_or(chosen.decision, str::to_owned)),
            has_failed,
            tokens: if has_failed { [0, 0] } else { [2_000_000, 0] },
        };
        let episode = OpenEpisode {
            run: RunId(RUN.into()),
            id: EpisodeId(format!("ep-{id}")),
            index: id,
            session: Self::session(id),
            opened_at: at,
        };
        let row = ExchangeRow {
            episode,
            position: 0,
            at,
            outcome: ExchangeOutcome::Complete,
            document: "{}".into(),
            pooled: None,
            routed: Some(routed),
            drawn: None,
            owner: String::new(),
            answer_id: None,
            is_main: true,
        };
        let batch = ExchangeBatch { exchanges: vec![row], ..ExchangeBatch::default() };
        self.workspace.store().record_exchanges(batch).await.unwrap();
        id
    }

    /// A session ends. `withheld`: why learning leaves it out.
    async fn end(&self, id: u64, has_failed: bool, withheld: Option<Withheld>) {
        let mut episode = Episode {
            run: RunId(RUN.into()),
            id: EpisodeId(format!("ep-{id}")),
            index: id,
            origin: EpisodeOrigin::Live(Live { live: Self::session(id), withheld }),
            verdicts: Vec::new(),
            expects: Vec::new(),
            reward: None,
            ..golden()
        };
        if has_failed {
            episode.turns.clear();
            episode.ending = Ending::Failed(Failure::new(FailureKind::Llm, code::UNAVAILABLE, "none"));
        }
        let recorded = Recorded { episode: Arc::new(episode), notes: BTreeMap::new(), replaces_existing: false };
        self.workspace.store().append(&RunId(RUN.into()), vec![recorded], Usage::default()).await.unwrap();
    }

    async fn reward(&self, id: u64, score: f64) {
        let record = Feedback::new(score, "").unwrap().record();
        let judged = Judged {
            run: RunId(RUN.into()),
            episode: EpisodeId(format!("ep-{id}")),
            record,
            at: self.clock.now_ms(),
            key: None,
        };
        self.workspace.store().judge(vec![judged]).await.unwrap();
    }

    /// A session that ends and is rewarded.
    async fn rewarded(&mut self, score: f64) {
        let id = self.open(false, None).await;
        self.end(id, false, None).await;
        self.reward(id, score).await;
    }

    async fn settle(&mut self) -> (u64, u64, u64) {
        let Settled { learned, expired, unusable } = self.settling.settle(&self.live).await.unwrap();
        (learned, expired, unusable)
    }

    /// The router that learns.
    fn learner(&self) -> Router {
        read_state(&file(self.folder.path(), "json")).unwrap().unwrap().router
    }

    /// What sessions cost, by the day.
    fn spent(&self) -> Vec<(String, f64)> {
        let stored = read_state(&file(self.folder.path(), "json")).unwrap().unwrap();
        stored.book.spending.days().map(|(day, spent)| (day.to_owned(), spent.sessions)).collect()
    }

    fn waiting(&self) -> u64 {
        super::super::waiting_decisions(self.folder.path(), "two").unwrap()
    }

    fn log(&self) -> Vec<Logged> {
        let path = file(self.folder.path(), "jsonl");
        if path.exists() { read_decisions(&path).unwrap() } else { Vec::new() }
    }
}

#[tokio::test]
async fn a_reward_is_learned_from_once() {
    let mut bench = Bench::new(TWO).await;
    let id = bench.open(false, None).await;
    assert_eq!((bench.settle().await, bench.waiting()), ((0, 0, 0), 1), "it is open");
    bench.end(id, false, None).await;
    assert_eq!((bench.settle().await, bench.waiting()), ((0, 0, 0), 1), "it has no reward");
    bench.reward(id, 0.75).await;
    assert_eq!((bench.settle().await, bench.waiting()), ((1, 0, 0), 0));
    let logged = &bench.log()[0];
    assert_eq!(
        (logged.outcome, logged.decision.session.as_str()),
        (Outcome { reward: 0.75, units: [2.0, 0.0] }, "run-live/ep-0")
    );
    assert_eq!((bench.learner().learned(), bench.learner().version()), (1, 1));
    bench.reward(id, -1.0).await;
    assert_eq!((bench.settle().await, bench.log().len()), ((0, 0, 0), 1), "a later verdict comes too late");
}

#[tokio::test]
async fn a_line_that_a_killed_gateway_left_torn_is_cut_off_before_more_is_added() {
    let mut bench = Bench::new(TWO).await;
    bench.rewarded(0.75).await;
    assert_eq!(bench.settle().await, (1, 0, 0));
    let path = file(bench.folder.path(), "jsonl");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&whole[..], &whole[..whole.len() / 2]].concat()).unwrap();
    bench.settling = Settling::new(&bench.workspace);
    bench.rewarded(0.5).await;
    assert_eq!(bench.settle().await, (1, 0, 0));
    let rewards: Vec<f64> = bench.log().iter().map(|logged| logged.outcome.reward).collect();
    assert_eq!(rewards, [0.75, 0.5]);
}

#[tokio::test]
async fn what_a_session_costs_is_counted_once_on_the_day_on_which_it_ended() {
    let mut bench = Bench::new(TWO).await;
    let id = bench.open(false, None).await;
    bench.end(id, false, None).await;
    bench.settle().await;
    let spent = bench.spent();
    // Two million tokens at 1 or at 10.
    assert!(spent == [("1970-01-08".to_owned(), 2.0)] || spent == [("1970-01-08".to_owned(), 20.0)], "{spent:?}");
    bench.clock.0.store(WEEK_MS + WEEK_MS / 7, Ordering::Relaxed);
    bench.reward(id, 1.0).await;
    assert_eq!(bench.settle().await, (1, 0, 0));
    assert_eq!(bench.spent(), spent, "its reward costs nothing more");
    bench.rewarded(1.0).await;
    bench.settle().await;
    assert_eq!(bench.spent().iter().map(|(day, _)| day.as_str()).collect::<Vec<_>>(), ["1970-01-09", "1970-01-08"]);
}

#[tokio::test]
async fn decisions_about_sessions_judge_a_candidate_and_do_not_teach_it() {
    let mut bench = Bench::new(TWO).await;
    bench.rewarded(1.0).await;
    bench.settle().await;
    let routers = super::super::routers_folder(bench.folder.path());
    let stored = || read_state(&file(bench.folder.path(), "json")).unwrap().unwrap();
    let gate = GateBook { judged: 2, settled: Some("run-0".into()) };
    let book = RouterBook { gate: gate.clone(), ..stored().book };
    write_served(&routers, "two", &stored().router, &book).unwrap();
    let log = (1, bench.log().last().map(decided));
    let state = stored().router;
    add(&routers, "two", None, NewCandidate { run: "run-1", learned_ms: 1, log, router: &state }).unwrap();
    for _ in 0..3 {
        bench.rewarded(0.5).await;
    }
    assert_eq!(bench.settle().await, (3, 0, 0));
    let stored = read_state(&file(bench.folder.path(), "json")).unwrap().unwrap();
    let waiting = super::super::waiting_candidates(&stored).unwrap();
    assert_eq!((waiting.len(), waiting[0].later, waiting[0].learned), (1, 3, 1));
    assert_eq!((stored.router.learned(), stored.book.gate), (4, gate), "the served state learns on");
}

#[tokio::test]
async fn a_reward_that_never_comes_expires_and_is_never_zero() {
    let mut bench = Bench::new(TWO).await;
    let id = bench.open(false, None).await;
    bench.end(id, false, None).await;
    bench.clock.0.store(2 * WEEK_MS, Ordering::Relaxed);
    assert_eq!((bench.settle().await, bench.waiting()), ((0, 0, 0), 1), "seven days later it may still come");
    bench.clock.0.store(2 * WEEK_MS + 1, Ordering::Relaxed);
    assert_eq!((bench.settle().await, bench.waiting()), ((0, 1, 0), 0));
    bench.reward(id, 1.0).await;
    assert_eq!((bench.settle().await, bench.learner().learned(), bench.log().len()), ((0, 0, 0), 0, 0));
    let stored = read_state(&file(bench.folder.path(), "json")).unwrap().unwrap();
    assert_eq!(stored.book.live.expired, 1);
}

#[tokio::test]
async fn a_model_that_always_fails_is_asked_less_and_less() {
    let mut bench = Bench::new(&format!("incumbent = \"cheap\"\n{TWO}")).await;
    let mut outcomes = 0;
    for _ in 0..300 {
        let id = bench.open(true, None).await;
        bench.end(id, true, None).await;
        outcomes += 1;
    }
    assert_eq!(bench.settle().await, (outcomes, 0, 0));
    let router = bench.learner();
    assert!(router.actions().iter().all(|action| action.reward < -0.8), "{:?}", router.actions());
    assert!(bench.log().iter().all(|logged| logged.outcome.reward == -1.0));
}

#[tokio::test]
async fn what_cannot_be_learned_from_is_counted_and_holds_nothing_up() {
    let mut bench = Bench::new(TWO).await;
    for decision in ["{}", "{\"format\":2}"] {
        let id = bench.open(false, Some(decision)).await;
        bench.end(id, false, None).await;
        bench.reward(id, 1.0).await;
    }
    bench.rewarded(0.5).await;
    assert_eq!((bench.settle().await, bench.waiting()), ((1, 0, 2), 0));
    // A router that learned from rewards of another range.
    let settings = read_state(&file(bench.folder.path(), "json")).unwrap().unwrap().router;
    let range = clawhost_learn::router::RewardRange { low: 0.0, high: 1.0 };
    let narrow = RouterFile::read(&file(bench.folder.path(), "toml")).unwrap().router(None, range).unwrap();
    assert_ne!(settings.settings().rewards, range);
    write_served(&super::super::routers_folder(bench.folder.path()), "two", &narrow, &RouterBook::default()).unwrap();
    bench.rewarded(-1.0).await;
    bench.rewarded(1.0).await;
    assert_eq!((bench.settle().await, bench.waiting()), ((1, 0, 1), 0));
}

#[tokio::test]
async fn a_model_that_left_the_table_teaches_nothing_and_a_new_price_counts_at_once() {
    let mut bench = Bench::new(TWO).await;
    for _ in 0..40 {
        bench.rewarded(1.0).await;
    }
    let of_cheap =
        |bench: &Bench| bench.log().iter().filter(|one| one.decision.action().unwrap().model == "cheap").count();
    std::fs::write(file(bench.folder.path(), "toml"), "[models.dear]\nmodel = \"random\"\nprice = 5\n").unwrap();
    let (learned, expired, unusable) = bench.settle().await;
    let gone = of_cheap(&bench) as u64;
    assert_eq!((learned, expired, unusable, gone > 0), (40 - gone, 0, 0, true));
    let router = bench.learner();
    assert_eq!((router.gone(), router.table().price("dear")), (gone, Some(5.0)));
    std::fs::write(file(bench.folder.path(), "toml"), "").unwrap();
    bench.rewarded(1.0).await;
    bench.settling.settle(&bench.live).await.unwrap_err();
    assert_eq!(
        (bench.live.router().identity(), bench.waiting()),
        (router.identity(), 1),
        "it waits for a file that can be read"
    );
    std::fs::write(file(bench.folder.path(), "toml"), TWO).unwrap();
    assert_eq!((bench.settle().await, bench.waiting()), ((1, 0, 0), 0));
}

#[tokio::test]
async fn what_a_client_keeps_out_of_learning_teaches_nothing() {
    let mut bench = Bench::new(TWO).await;
    for (withheld, learned) in [(Some(Withheld::NoTrain), 0), (Some(Withheld::Redacted), 1)] {
        let id = bench.open(false, None).await;
        bench.end(id, false, withheld).await;
        bench.reward(id, 1.0).await;
        assert_eq!((bench.settle().await, bench.waiting()), ((learned, 0, 0), 0), "{withheld:?}");
    }
}

#[tokio::test]
async fn while_a_run_learns_the_router_decisions_wait() {
    let mut bench = Bench::new(TWO).await;
    bench.rewarded(1.0).await;
    let held = bench.workspace.hold_router("two").unwrap();
    assert_eq!((bench.settle().await, bench.waiting()), ((0, 0, 0), 1));
    drop(held);
    assert_eq!((bench.settle().await, bench.waiting()), ((1, 0, 0), 0));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &to),
            false => assert!(std::fs::copy(&path, &to).is_ok()),
        }
    }
}

/// A gateway that was killed in a pass, after it wrote the log and perhaps the state, and before it marked the decisions.
#[tokio::test]
async fn a_kill_between_learning_and_marking_teaches_nothing_twice() {
    for has_state in [false, true] {
        let mut bench = Bench::new(TWO).await;
        bench.rewarded(1.0).await;
        bench.rewarded(0.0).await;
        let other = tempfile::tempdir().unwrap();
        copy(bench.folder.path(), other.path());
        assert_eq!(bench.settle().await, (2, 0, 0));
        let (expected, spent) = (bench.learner().identity(), bench.spent());
        for ending in ["jsonl", "json"].into_iter().take(1 + usize::from(has_state)) {
            std::fs::copy(file(bench.folder.path(), ending), file(other.path(), ending)).unwrap();
        }
        let workspace = opened(other.path(), &bench.clock);
        let again =
            Bench { settling: Settling::new(&workspace), live: live(other.path()), folder: other, workspace, ..bench };
        let mut again = again;
        assert_eq!(again.settle().await, (if has_state { 0 } else { 2 }, 0, 0));
        assert_eq!((again.learner().identity(), again.spent()), (expected, spent), "state: {has_state}");
        assert_eq!((again.log().len(), again.waiting()), (2, 0), "state: {has_state}");
    }
}
