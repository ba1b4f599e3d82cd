//! What becomes of the decisions about live sessions: their cost counts when the session ends, their reward when it is known, and those
//! that have waited for too long expire.
//!
//! Decisions wait in the store; a router learns in its file. A pass adds to the log, replaces the file and then marks the decisions in the
//! store. The file has the marks, too: a gateway that was killed in between makes up for them, and learns from no decision twice.

use super::book::{LiveBook, RouterBook};
use super::config::{LIVE_REWARDS, RouterFile};
use super::files::{read_state, router_file, write_served};
use super::live::LiveRouter;
use super::log::{append_decisions, decided, mend, read_decisions};
use super::versions::keep_sometimes;
use crate::{AppError, Workspace};
use clawhost_core::{
    Clock, LeaseMode, LeaseSubject, Leases as _, RoutedMarks, RoutedOutcome, RoutedSession, RoutingStore as _,
    StoreReader, Withheld,
};
use clawhost_learn::LearnError;
use clawhost_learn::router::{Decision, Logged, Outcome, PATIENCE, Router};
use clawhost_store::{FileLeases, Store};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Milliseconds between two looks: rewards are hours behind decisions, and a look reads an index.
const PAUSE_MS: u64 = 5_000;
/// Decisions of one pass, so that the file with their marks stays small.
const AT_ONCE: usize = 1_000;
/// Tokens of a unit of use: prices are per million tokens.
const UNIT: f64 = 1e6;

/// What a pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Outcomes that were learned from.
    pub(crate) learned: u64,
    /// Decisions whose reward never came.
    pub(crate) expired: u64,
    /// Decisions and rewards that cannot be used.
    pub(crate) unusable: u64,
}

/// Settles the decisions of the routers of a data folder.
pub(crate) struct Settling {
    data: PathBuf,
    routers: PathBuf,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    /// When it looked last, in milliseconds of the monotonic clock.
    last: Option<u64>,
    /// Routers whose files were compared with the store since the start.
    compared: BTreeSet<String>,
}

impl Settling {
    /// For the data folder of a workspace.
    pub(crate) fn new(workspace: &Workspace) -> Self {
        let data = workspace.folder().to_owned();
        Self {
            routers: super::routers_folder(&data),
            data,
            store: workspace.store(),
            clock: workspace.clock(),
            last: None,
            compared: BTreeSet::new(),
        }
    }

    /// Settles what can be settled, if it is time or `is_asked`. What fails is tried again.
    pub(crate) async fn look(&mut self, routers: &[Arc<LiveRouter>], is_asked: bool) {
        let now = self.clock.monotonic_us() / 1000;
        if !is_asked && self.last.is_some_and(|last| now < last.saturating_add(PAUSE_MS)) {
            return;
        }
        self.last = Some(now);
        for live in routers {
            match self.settle(live).await {
                Ok(settled) if settled != Settled::default() => {
                    let Settled { learned, expired, unusable } = settled;
                    let (name, version) = (live.name(), live.router().version());
                    tracing::info!(
                        "router {name}: {learned} outcomes learned, {expired} expired, {unusable} unusable; version {version}"
                    );
                }
                Ok(_) => {}
                Err(error) => {
                    // Some of them may be in the log already.
                    self.compared.remove(live.name());
                    tracing::error!("decisions of router {} wait: {error}", live.name());
                }
            }
        }
    }

    /// Settles what can be settled of a router. While a run learns it, decisions wait.
    ///
    /// # Errors
    /// The store or the files of the router cannot be used.
    pub(crate) async fn settle(&mut self, live: &LiveRouter) -> Result<Settled, AppError> {
        let subject = LeaseSubject::Playbook(format!("router:{}", live.name()));
        let Some(_lease) = FileLeases::new(&self.data).acquire(&subject, LeaseMode::Exclusive)? else {
            return Ok(Settled::default());
        };
        let mut all = Settled::default();
        loop {
            let (settled, is_last) = self.pass(live).await?;
            all.learned += settled.learned;
            all.expired += settled.expired;
            all.unusable += settled.unusable;
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn pass(&mut self, live: &LiveRouter) -> Result<(Settled, bool), AppError> {
        let name = live.name();
        let stored = read_state(&router_file(&self.routers, name, "json"))?;
        let (learned, book) = stored.map(|stored| (stored.router, stored.book)).unzip();
        let book: RouterBook = book.unwrap_or_default();
        let is_first = !self.compared.contains(name);
        if is_first {
            self.store.mark_routed(book.live.marks.clone()).await?;
        }
        let now = self.clock.now_ms();
        let (due, no_train) = self.due(name, now)?;
        let file = RouterFile::read(&router_file(&self.routers, name, "toml"))?;
        let mut router = file.router(learned, LIVE_REWARDS)?;
        let mut pass = Pass {
            now,
            no_train,
            log: Vec::new(),
            marks: RoutedMarks::default(),
            settled: Settled::default(),
            spent: 0.0,
        };
        for session in &due {
            pass.take(&mut router, session);
        }
        let Pass { mut log, marks, mut settled, spent, .. } = pass;
        if marks != RoutedMarks::default() {
            let learned_before = router.learned();
            settled.learned = router.learn(&log)?.used;
            let has_failed =
                |logged: &&Logged| logged.decision.plugin.as_ref().is_some_and(|plugin| plugin.failure.is_some());
            let fallbacks = log.iter().filter(has_failed).count() as u64;
            let path = router_file(&self.routers, name, "jsonl");
            mend(&path)?;
            if is_first && path.exists() {
                let known: BTreeSet<_> = read_decisions(&path)?.iter().map(decided).collect();
                log.retain(|logged| !known.contains(&decided(logged)));
            }
            append_decisions(&path, &log)?;
            let live = LiveBook {
                marks: marks.clone(),
                expired: book.live.expired + settled.expired,
                unusable: book.live.unusable + settled.unusable,
                fallbacks: book.live.fallbacks + fallbacks,
            };
            let mut book = RouterBook { live, ..book };
            book.spending.add_sessions(now, spent);
            write_served(&self.routers, name, &router, &book)?;
            keep_sometimes(&self.routers, name, learned_before, &router)?;
            self.store.mark_routed(marks).await?;
        }
        self.compared.insert(name.to_owned());
        if live.router().identity() != router.identity() {
            live.replace(router);
        }
        Ok((settled, due.len() < AT_ONCE))
    }

    /// The decisions about which something can be done, and the numbers of those whose client keeps them out of learning.
    fn due(&self, router: &str, now: u64) -> Result<(Vec<RoutedSession>, BTreeSet<u64>), AppError> {
        let reader = Workspace::read(&self.data)?;
        let due = reader.due_routed(router, now, now.saturating_sub(PATIENCE * 1000), AT_ONCE)?;
        let mut no_train = BTreeSet::new();
        for session in due.iter().filter(|session| session.outcome != RoutedOutcome::Unknown) {
            if is_kept_out(&*reader, session)? {
                no_train.insert(session.number);
            }
        }
        Ok((due, no_train))
    }
}

/// Whether the client keeps a session out of learning.
fn is_kept_out(reader: &dyn StoreReader, session: &RoutedSession) -> Result<bool, AppError> {
    let episode = reader.episode(&format!("{}/{}", session.run, session.episode))?;
    Ok(episode.is_some_and(|episode| episode.origin.withheld() == Some(Withheld::NoTrain)))
}

/// One pass over decisions.
struct Pass {
    /// Unix time in milliseconds.
    now: u64,
    no_train: BTreeSet<u64>,
    log: Vec<Logged>,
    marks: RoutedMarks,
    settled: Settled,
    /// Cost of the sessions that ended.
    spent: f64,
}

impl Pass {
    /// Does what can be done about a decision.
    fn take(&mut self, router: &mut Router, session: &RoutedSession) {
        let units = session.tokens.map(|tokens| tokens as f64 / UNIT);
        match self.logged(router, session, units) {
            Ok(None) => return,
            Ok(Some(logged)) => self.log.push(logged),
            Err(why) => {
                tracing::warn!("a decision about {}/{} teaches nothing: {why}", session.run, session.episode);
                self.settled.unusable += 1;
            }
        }
        self.marks.settled.push(session.number);
    }

    /// The decision with its outcome, if that is known.
    fn logged(
        &mut self,
        router: &mut Router,
        session: &RoutedSession,
        units: [f64; 2],
    ) -> Result<Option<Logged>, LearnError> {
        let decision: Decision =
            serde_json::from_str(&session.decision).map_err(|error| LearnError::Router(error.to_string()))?;
        let action = decision.action()?.clone();
        if session.has_ended && !session.is_spent {
            let cost = router.cost(&action, &Outcome { reward: 0.0, units });
            // A model that has left the table has no price any more.
            if let Some(cost) = cost {
                router.spend(self.now / 1000, cost)?;
                self.spent += cost;
            }
            self.marks.spent.push(session.number);
        }
        let reward = match session.outcome {
            RoutedOutcome::Rewarded(reward) => reward,
            // An action that always fails must not stay untried.
            RoutedOutcome::Failed => router.settings().rewards.low,
            RoutedOutcome::Unknown => {
                let is_over = session.at.saturating_add(PATIENCE * 1000) < self.now;
                if is_over {
                    self.settled.expired += 1;
                    self.marks.settled.push(session.number);
                }
                return Ok(None);
            }
        };
        if self.no_train.contains(&session.number) {
            self.marks.settled.push(session.number);
            return Ok(None);
        }
        let logged = Logged { decision, outcome: Outcome { reward, units } };
        router.check_logged(&logged)?;
        Ok(Some(logged))
    }
}

#[cfg(test)]
mod tests;
