//! Records what passes: finds the session of a request, and writes the exchange to the spool when it has ended.

use super::begun::exchange_of;
use super::counts::CaptureCounts;
use super::guides::{GuidedRequest, Guides};
use super::record::{self, Label};
use super::responses::{Responses, StoredResponse};
use super::rounds::Rounds;
use super::routes::{RoutedRequest, Routes};
use super::runs::{LiveRun, LiveRuns};
use super::seen::{Done, Seen};
use super::spool::Spool;
use crate::guiding::{Guide, Guiding};
use crate::http::GuidanceWish;
use crate::observe::{Events, ExchangeEvent, GatewayEvent, Observation, Streaming};
use crate::routing::Routing;
use clawhost_capture::{
    Answer, Asked, CaptureKey, Claim, Ended, Exchange, Guided, Marks, Redacted, Redaction, Restored, Routed, Sessions,
    SessionsLimits,
};
use clawhost_core::{Clock, EpisodeId, LiveSession, LlmIdentity, Message, ModelRequest, RunId, SpoolPlace, Usage};
use clawhost_providers::Prices;
use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Takes the owner, the Unix time in milliseconds and what an answer used.
pub(crate) type Spent = Box<dyn Fn(&str, u64, Usage) + Send + Sync>;

struct Places {
    sessions: Sessions<Label>,
    runs: LiveRuns,
    /// Sessions that have ended, with the place behind their last record.
    ended: Vec<(SpoolPlace, Label)>,
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
    clock: Arc<dyn Clock>,
    new_run: Box<dyn Fn(u64) -> RunId + Send + Sync>,
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

    fn places(&self) -> std::sync::MutexGuard<'_, Places> {
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
            guidance: GuidanceWish::default(),
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
    fn redact(&self, exchange: &mut Exchange) {
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
    fn write(
        &self,
        label: &Label,
        exchange: &Exchange,
        decision: Option<&str>,
        stored: Option<StoredResponse>,
    ) -> Done {
        let (owner, id) = (&exchange.client.owner, exchange.response_id.clone().unwrap_or_default());
        let stored = stored.filter(|_| !id.is_empty());
        let redacted = stored.as_ref().map(|stored| stored.redacted(&self.redaction));
        let line = redacted.as_ref().map(|stored| (stored, owner.as_str(), id.as_str()));
        let written = record::write(label, exchange, decision, line).map_err(std::io::Error::from);
        let written = written.and_then(|bytes| self.spool.append(&bytes).map(|_| bytes.len()));
        match written {
            Ok(bytes) => {
                self.counts.recorded.fetch_add(1, Ordering::Relaxed);
                exchange.routed.iter().for_each(|routed| label.routes.keep(routed, decision.is_some()));
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

/// A request that is under way. Dropped without an end, it is recorded as incomplete: its client has gone.
#[derive(Debug)]
pub(crate) struct Begun {
    recorder: Arc<Recorder>,
    /// `None`: it is not recorded.
    pub(crate) label: Option<Label>,
    owner: String,
    /// Unix time in milliseconds.
    at: u64,
    place: Option<(Exchange, Claim)>,
    began_us: u64,
    stored: Option<StoredResponse>,
    observation: Option<Arc<Observation>>,
    /// The stream of the answer, if it is one.
    streaming: Option<Streaming>,
    prices: Option<Prices>,
    /// Messages that the model does not see.
    pub(crate) cut: u32,
    /// What a router chose.
    pub(crate) routed: Option<Routed>,
    /// Its decision, if no record holds it yet.
    decision: Option<String>,
    /// What the model sees beside the client's system text.
    pub(crate) guided: Option<Guided>,
    /// What the client wants of that.
    pub(crate) guidance: GuidanceWish,
}

impl Begun {
    fn exchange(&mut self) -> Option<&mut Exchange> {
        self.place.as_mut().map(|(exchange, _)| exchange)
    }

    /// Asks a router which model the session gets, if it has none yet.
    pub(crate) async fn route(&mut self, routing: &Routing, request: &ModelRequest) {
        let is_logged = self.exchange().is_some_and(|exchange| !exchange.no_train);
        let recorder = self.recorder.clone();
        let session = self.label.as_ref().map(Label::name);
        let (session, failed) = (session.as_deref(), &recorder.counts.unrouted);
        let asked = RoutedRequest { routing, request, session, at_ms: self.at, is_logged, failed };
        let Some(routes) = self.label.as_ref().map(|label| label.routes.clone()) else {
            self.routed = asked.alone().await;
            return;
        };
        if let Some((routed, decision)) = routes.of(&asked).await {
            (self.routed, self.decision) = (Some(routed), decision);
        }
    }

    /// Chooses the guidance of the session, if it has none yet.
    pub(crate) async fn guide(&self, guide: &dyn Guide, request: &ModelRequest, team: Option<&str>) -> Option<Guided> {
        let (label, (exchange, _)) = (self.label.as_ref()?, self.place.as_ref()?);
        let (session, owner) = (&label.session, self.owner.as_str());
        let guiding = Guiding { request, session, owner, team, at_ms: self.at };
        let (is_first, is_rewritten) = (exchange.position == 0, exchange.context_changed);
        let guides = label.guides.clone();
        guides.of(guide, &GuidedRequest { guiding, is_first, is_rewritten }).await
    }

    /// Another model is asked.
    pub(crate) fn asks(&mut self, model: LlmIdentity) {
        self.observation.iter().for_each(|observation| observation.turns_to(&model));
        if let Some(exchange) = self.exchange() {
            exchange.model = model;
        }
    }

    /// The model is asked that takes over when the chosen one has failed.
    pub(crate) fn escalates(&mut self) {
        self.routed.iter_mut().for_each(|routed| routed.is_escalated = true);
    }

    /// What the tokens of the model cost that is asked.
    pub(crate) fn priced(&mut self, prices: Option<Prices>) {
        self.prices = prices;
    }

    /// Notes how many messages the model does not see.
    pub(crate) fn cut(&mut self, messages: u32) {
        self.cut = messages;
        if let Some(exchange) = self.exchange() {
            exchange.cut = messages;
        }
    }

    /// Keeps a response that its client may read later, if the answer is recorded whole.
    pub(crate) fn keep(&mut self, response: StoredResponse) {
        self.stored = Some(response);
    }

    /// The answer is streamed from now on.
    pub(crate) fn streams(&mut self) {
        self.streaming = self.observation.as_ref().map(|observation| observation.streams());
    }

    /// The stream failed before anything of it was passed on.
    pub(crate) fn stops_streaming(&mut self) {
        self.streaming = None;
        self.observation.iter().for_each(|observation| observation.stops_streaming());
    }

    /// Notes the first part of the answer.
    pub(crate) fn first_part(&mut self) {
        self.observation.iter().for_each(|observation| observation.first_token());
        let now = self.recorder.clock.monotonic_us();
        let since = now.saturating_sub(self.began_us);
        if let Some(exchange) = self.exchange() {
            exchange.first_us.get_or_insert(since);
        }
    }

    /// Notes what came so far, for the record of an answer that breaks off.
    pub(crate) fn so_far(&mut self, message: Message) {
        if let Some(Exchange { answer: Answer::Incomplete { message: so_far, .. }, .. }) = self.exchange() {
            *so_far = Some(Box::new(message));
        }
    }

    /// Records how it ended. `response`: the id of the answer, as the client knows it.
    pub(crate) fn end(mut self, mut answer: Answer, response: Option<String>) -> Done {
        if let (Answer::Complete(response), Some(prices)) = (&mut answer, self.prices) {
            response.usage.cost_micros = prices.micros(response.usage);
        }
        self.recorder.charge(&self.owner, self.at, &answer);
        let is_priced = self.prices.is_some();
        self.observation.iter().for_each(|observation| observation.answered(&answer, is_priced));
        match self.exchange() {
            None => return Done::Off,
            Some(exchange) => (exchange.answer, exchange.response_id) = (answer, response),
        }
        self.write()
    }

    /// The answer broke off.
    pub(crate) fn broke_off(mut self, why: &str) -> Done {
        if let Some(Exchange { answer: Answer::Incomplete { why: known, .. }, .. }) = self.exchange() {
            why.clone_into(known);
        }
        self.write()
    }

    fn write(&mut self) -> Done {
        let (Some((mut exchange, claim)), Some(label)) = (self.place.take(), &self.label) else {
            return Done::Off;
        };
        let now_us = self.recorder.clock.monotonic_us();
        exchange.answered_us = now_us.saturating_sub(self.began_us);
        exchange.routed = self.routed.take();
        exchange.guided = self.guided.take().map(|guided| label.guides.for_record(guided));
        {
            let mut places = self.recorder.places();
            match exchange.answer.complete() {
                Some(response) => {
                    let id = exchange.response_id.as_deref();
                    exchange.marks = places.sessions.answered(claim, &response.message, id, now_us / 1000);
                }
                None => places.sessions.unanswered(claim, now_us / 1000),
            }
        }
        self.recorder.redact(&mut exchange);
        let stored = self.stored.take().filter(|_| exchange.answer.complete().is_some());
        let decision = self.decision.take();
        let done = self.recorder.write(label, &exchange, decision.as_deref(), stored);
        self.observation.iter().for_each(|observation| observation.recorded(&done));
        let usage = exchange.answer.usage();
        let event = ExchangeEvent {
            session: label.event(),
            position: exchange.position,
            is_complete: exchange.answer.complete().is_some(),
            input_tokens: usage.prompt_tokens,
            output_tokens: usage.completion_tokens,
        };
        let event = match &done {
            Done::Missed(_) => GatewayEvent::ExchangeMissed(event),
            Done::Recorded | Done::Off => GatewayEvent::ExchangeRecorded(event),
        };
        self.recorder.events.push(self.recorder.clock.now_ms(), Some(&self.owner), event);
        done
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // After `end` nothing is left to write.
        self.write();
    }
}
