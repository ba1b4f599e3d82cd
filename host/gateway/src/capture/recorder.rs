//! Records what passes: finds the session of a request, and writes the exchange to the spool when it has ended.

use super::begun::{Begun, exchange_of};
use super::counts::CaptureCounts;
use super::guides::Guides;
use super::record::{self, First, Label};
use super::responses::{Responses, StoredResponse};
use super::rounds::Rounds;
use super::routes::Routes;
use super::runs::{LiveRun, LiveRuns};
use super::seen::{Done, Seen};
use super::spool::Spool;
use crate::http::GuidanceWish;
use crate::observe::{Events, GatewayEvent};
use clawhost_capture::{
    Answer, Asked, CaptureKey, Ended, Exchange, Marks, Redacted, Redaction, Relation, Restored, Sessions,
    SessionsLimits,
};
use clawhost_core::{Clock, EpisodeId, LiveSession, RunId, SpoolPlace, Usage};
use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Takes the owner, the Unix time in milliseconds and what an answer used.
pub(crate) type Spent = Box<dyn Fn(&str, u64, Usage) + Send + Sync>;

pub(super) struct Places {
    pub(super) sessions: Sessions<Label>,
    pub(super) runs: LiveRuns,
    /// Sessions that have ended, with the place behind their last record.
    pub(super) ended: Vec<(SpoolPlace, Label)>,
    /// Names of sessions to which nobody gave one.
    unnamed: u64,
    /// Sessions of which something was redacted: the tokens of their later prompts may still have it.
    redacted: HashSet<(RunId, EpisodeId)>,
}

/// Records exchanges.
pub(crate) struct Recorder {
    key: CaptureKey,
    boot: u64,
    places: Mutex<Places>,
    pub(crate) spool: Spool,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) new_run: Box<dyn Fn(u64) -> RunId + Send + Sync>,
    redaction: Arc<Redaction>,
    pub(crate) counts: CaptureCounts,
    /// Responses that clients may read later.
    pub(crate) responses: Responses,
    /// Takes the owner, the time and what an answer used.
    spent: OnceLock<Spent>,
    /// Wakes the importer.
    pub(crate) wake: tokio::sync::Notify,
    /// The rounds of the importer.
    pub(crate) rounds: Rounds,
    /// Version of the newest policy; 0: none was published.
    policy: AtomicU64,
    /// What happens to sessions and exchanges.
    pub(crate) events: Arc<Events>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    /// A recorder without sessions. `boot` makes generated names unique.
    pub(crate) fn new(
        key: CaptureKey,
        boot: u64,
        limits: SessionsLimits,
        spool: Spool,
        clock: Arc<dyn Clock>,
        new_run: Box<dyn Fn(u64) -> RunId + Send + Sync>,
    ) -> Self {
        let places = Places {
            sessions: Sessions::new(key, limits),
            runs: LiveRuns::default(),
            ended: Vec::new(),
            unnamed: 0,
            redacted: HashSet::new(),
        };
        Self {
            key,
            boot,
            places: Mutex::new(places),
            spool,
            clock,
            new_run,
            redaction: Arc::default(),
            counts: CaptureCounts::default(),
            responses: Responses::default(),
            spent: OnceLock::new(),
            wake: tokio::sync::Notify::new(),
            rounds: Rounds::default(),
            policy: AtomicU64::new(0),
            events: Arc::default(),
        }
    }

    /// Version of the newest policy, if one was published.
    fn policy_version(&self) -> Option<u64> {
        Some(self.policy.load(Ordering::Relaxed)).filter(|version| *version > 0)
    }

    /// A version of the policy acts from now on.
    pub(crate) fn set_policy_version(&self, version: u64) {
        self.policy.fetch_max(version, Ordering::Relaxed);
    }

    /// The same, which redacts what it records.
    pub(crate) fn with_redaction(self, redaction: Arc<Redaction>) -> Self {
        Self { redaction, ..self }
    }

    /// Tells what answers used, of earlier starts too.
    pub(crate) fn on_spent(&self, spent: Spent) {
        // Set once, before anything is recorded.
        let _ = self.spent.set(spent);
    }

    /// Counts what an answer used.
    pub(crate) fn charge(&self, owner: &str, at: u64, answer: &Answer) {
        self.charge_usage(owner, at, answer.usage());
    }

    /// Counts what was used.
    pub(crate) fn charge_usage(&self, owner: &str, at: u64, usage: Usage) {
        if let Some(spent) = self.spent.get() {
            spent(owner, at, usage);
        }
    }

    pub(super) fn places(&self) -> std::sync::MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.clock.monotonic_us() / 1000
    }

    /// Takes a run of an earlier start up again.
    pub(crate) fn restore_run(&self, agent: String, day: u64, run: LiveRun) {
        self.places().runs.restore(agent, day, run);
    }

    /// Takes an open session of an earlier start up again.
    pub(crate) fn restore_session(&self, exchanges: &[Exchange], label: Label) {
        let Some(first) = exchanges.first() else { return };
        let mut turns = Vec::new();
        let mut issued = Vec::new();
        let mut known = Vec::new();
        for exchange in exchanges {
            match &exchange.redacted {
                // Their text is not that which clients send.
                Some(Redacted { messages, .. }) if !messages.is_empty() => known.extend(messages),
                _ => known.extend(Marks::of(&self.key, &exchange.messages, &[]).messages),
            }
            let (Some(marks), Some(response)) = (exchange.marks, exchange.answer.complete()) else { continue };
            let ids =
                response.message.tool_calls.iter().map(|call| call.id.clone()).chain(exchange.response_id.clone());
            issued.extend(ids.map(|id| (turns.len(), id)));
            known.push(marks.own);
            turns.push(marks);
        }
        let is_redacted = exchanges.iter().any(|exchange| exchange.redacted.is_some());
        let place = (label.run.clone(), label.episode.clone());
        let exchanges = exchanges.last().map_or(0, |last| last.position + 1);
        let name = first.client.named.clone().or_else(|| first.client.conversation.clone());
        let restored = Restored { client: first.client.clone(), label, name, exchanges, turns, issued, known };
        let now = self.now();
        let mut places = self.places();
        places.sessions.restore(restored, now);
        if is_redacted {
            places.redacted.insert(place);
        }
    }

    /// Finds the session of a request and takes its place there.
    pub(crate) fn begin(self: &Arc<Self>, seen: Seen<'_>) -> Begun {
        let Seen { client, agent, alias, dialect, model, request, digest, previous, side, project, .. } = seen;
        let (no_train, observation) = (seen.no_train, seen.observation);
        let owner = client.owner.clone();
        let at = self.clock.now_ms();
        let began_us = self.clock.monotonic_us();
        let mut begun = Begun {
            recorder: self.clone(),
            label: None,
            owner,
            at,
            place: None,
            began_us,
            stored: None,
            prices: None,
            cut: 0,
            observation,
            streaming: None,
            routed: None,
            decision: None,
            guided: None,
            drawn: None,
            guidance: GuidanceWish::default(),
            guides_turn: None,
        };
        if seen.no_record {
            begun.observation.iter().for_each(|observation| observation.begins(None, &model));
            return begun;
        }
        let issued = request.messages.iter().rev().flat_map(|message| &message.tool_calls).map(|call| call.id.clone());
        let marks = Marks::of(&self.key, &request.messages, &request.tools);
        let asked = Asked {
            client: client.clone(),
            previous,
            issued: issued.take(1).collect(),
            side,
            marks,
            now: began_us / 1000,
        };
        let (placed, claim) = {
            let mut places = self.places();
            let Places { sessions, runs, ended, unnamed, .. } = &mut *places;
            let (placed, claim, gone) = sessions.place(asked, |name, parent| {
                let (run, episode, index) = runs.open(&client.owner, at, || (self.new_run)(at));
                let session = name.unwrap_or_else(|| {
                    *unnamed += 1;
                    let mark = self.key.mark("session", format!("{}/{unnamed}", self.boot).as_bytes());
                    format!("s-{}", mark.to_string().get(..16).unwrap_or_default())
                });
                let (user, project) = (client.user.clone(), project.clone());
                let session = LiveSession { session, agent: agent.clone(), alias: alias.clone(), user, project };
                let guides = parent.map_or_else(Guides::default, |parent| parent.guides.inherited());
                let routes = parent.map_or_else(Routes::default, |parent| parent.routes.inherited());
                Label { run, episode, index, session, opened_at: at, routes, guides }
            });
            let end = self.spool.end();
            self.note_ended(runs, &gone, at);
            ended.extend(gone.into_iter().map(|Ended { label }| (end, label)));
            (placed, claim)
        };
        let policy_version = self.policy_version();
        let session = Some(placed.label.session.session.as_str());
        begun.observation.iter().for_each(|observation| observation.begins(session, &model));
        if placed.position == 0 {
            let event = GatewayEvent::SessionOpened(placed.label.event());
            self.events.push(at, Some(&begun.owner), event);
        }
        let is_new = placed.position == 0 && placed.relation == Relation::Opens;
        begun.guides_turn = is_new.then(|| placed.label.guides.turn()).flatten();
        let digest = self.key.digest("request", digest.as_bytes());
        let exchange = exchange_of(&placed, client, dialect, model, request, digest, no_train, at);
        begun.label = Some(placed.label);
        begun.place = Some((Exchange { policy_version, ..exchange }, claim));
        begun
    }

    /// Ends the session that a client names, and what came from it; or the one whose name this gateway made. `whose`: the client's key and
    /// the user that it names. Returns how many ended.
    pub(crate) fn end(&self, whose: (&str, Option<&str>), name: &str) -> usize {
        let mut places = self.places();
        let (owner, user) = whose;
        // A client that names no user means all of its users.
        let named = places.sessions.labels().filter(|label| user.is_none() && label.session.session == name);
        let users: BTreeSet<String> = named.filter_map(|label| label.session.user.clone()).collect();
        let mut gone = Vec::new();
        for user in std::iter::once(user).chain(users.iter().map(|user| Some(user.as_str()))) {
            let mut ended = places.sessions.end((owner, user), name);
            if ended.is_empty() {
                ended = places.sessions.end_labelled((owner, user), |label| label.session.session == name);
            }
            gone.extend(ended);
        }
        let (count, end) = (gone.len(), self.spool.end());
        self.note_ended(&places.runs, &gone, self.clock.now_ms());
        places.ended.extend(gone.into_iter().map(|Ended { label }| (end, label)));
        drop(places);
        self.wake.notify_one();
        count
    }

    /// Changes the time after which a session without a request ends, in milliseconds.
    pub(crate) fn set_idle(&self, idle_ms: u64) {
        self.places().sessions.set_idle(idle_ms);
    }

    /// Ends all sessions that wait for no answer.
    pub(crate) fn end_all(&self) {
        let mut places = self.places();
        let gone = places.sessions.end_all();
        self.note_ended(&places.runs, &gone, self.clock.now_ms());
        let end = SpoolPlace::default();
        places.ended.extend(gone.into_iter().map(|Ended { label }| (end, label)));
    }

    /// Sessions that have ended and whose records were taken over up to a place.
    pub(crate) fn take_ended(&self, through: SpoolPlace) -> Vec<Label> {
        let now = self.now();
        let mut places = self.places();
        let end = self.spool.end();
        let gone = places.sessions.expire(now);
        self.note_ended(&places.runs, &gone, self.clock.now_ms());
        places.ended.extend(gone.into_iter().map(|Ended { label }| (end, label)));
        let (ready, waiting) = std::mem::take(&mut places.ended).into_iter().partition(|(at, _)| *at <= through);
        places.ended = waiting;
        let ready: Vec<(SpoolPlace, Label)> = ready;
        for (_, label) in &ready {
            places.redacted.remove(&(label.run.clone(), label.episode.clone()));
        }
        ready.into_iter().map(|(_, label)| label).collect()
    }

    /// Tells that sessions ended.
    fn note_ended(&self, runs: &LiveRuns, gone: &[Ended<Label>], at: u64) {
        for Ended { label } in gone {
            self.events.push(at, runs.owner(&label.run), GatewayEvent::SessionEnded(label.event()));
        }
    }

    /// Tells that the episode of a session is in the store.
    pub(crate) fn note_episode(&self, label: &Label) {
        let places = self.places();
        let owner = places.runs.owner(&label.run);
        self.events.push(self.clock.now_ms(), owner, GatewayEvent::EpisodeMade(label.event()));
    }

    /// Sessions that could not be recorded as episodes are tried again.
    pub(crate) fn give_back(&self, labels: Vec<Label>) {
        self.places().ended.extend(labels.into_iter().map(|label| (SpoolPlace::default(), label)));
    }

    /// Waits until everything that was captured before is in the store, and sessions that ended before are episodes. `false`: it takes
    /// too long, because the store cannot be written.
    pub(crate) async fn caught_up(&self) -> bool {
        let ended = self.rounds.next();
        self.wake.notify_one();
        ended.await
    }

    /// Sessions that are remembered.
    pub(crate) fn sessions(&self) -> usize {
        self.places().sessions.len()
    }

    /// Redacts an exchange. Its marks are of what was said.
    pub(super) fn redact(&self, exchange: &mut Exchange) {
        self.redaction.exchange(exchange, &self.key);
        let place = (exchange.run.clone(), exchange.episode.clone());
        let is_redacted = exchange.redacted.is_some();
        if is_redacted {
            self.places().redacted.insert(place.clone());
        }
        // The tokens of a prompt have what was redacted in it.
        if let Answer::Complete(response) = &mut exchange.answer
            && response.tokens.is_some()
            && (is_redacted || self.places().redacted.contains(&place))
        {
            response.tokens = None;
        }
    }

    /// Writes an exchange, with the response that its client may read later. What is remembered of the response is as it was said, since
    /// endpoints may get it again.
    pub(super) fn write(
        &self,
        label: &Label,
        exchange: &Exchange,
        first: &First,
        stored: Option<StoredResponse>,
    ) -> Done {
        let (owner, id) = (&exchange.client.owner, exchange.response_id.clone().unwrap_or_default());
        let stored = stored.filter(|_| !id.is_empty());
        let redacted = stored.as_ref().map(|stored| stored.redacted(&self.redaction));
        let line = redacted.as_ref().map(|stored| (stored, owner.as_str(), id.as_str()));
        let written = record::write(label, exchange, first, line).map_err(std::io::Error::from);
        let written = written.and_then(|bytes| self.spool.append(&bytes).map(|_| bytes.len()));
        match written {
            Ok(bytes) => {
                self.counts.recorded.fetch_add(1, Ordering::Relaxed);
                exchange.routed.iter().for_each(|routed| label.routes.keep(routed, first.decision.is_some()));
                exchange.guided.iter().for_each(|guided| label.guides.keep(guided));
                if stored.is_some() {
                    self.responses.remember(owner, &id, stored, bytes);
                }
                self.wake.notify_one();
                Done::Recorded
            }
            Err(error) => {
                self.counts.missed.fetch_add(1, Ordering::Relaxed);
                tracing::error!("an exchange was not recorded: {error}");
                Done::Missed(error.to_string())
            }
        }
    }

    /// Deletes a response for its client. The exchange stays recorded.
    ///
    /// # Errors
    /// The deletion cannot be recorded.
    pub(crate) fn delete_response(&self, owner: &str, id: &str) -> std::io::Result<()> {
        self.spool.append(&record::deletion(owner, id)?)?;
        self.responses.remember(owner, id, None, 0);
        self.wake.notify_one();
        Ok(())
    }
}
