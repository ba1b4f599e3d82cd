//! Records what passes: finds the session of a request, and writes the exchange to the spool when it has ended.

use super::record::{self, Label};
use super::responses::{Responses, StoredResponse};
use super::runs::{LiveRun, LiveRuns};
use super::spool::Spool;
use clawhost_capture::{
    Answer, Asked, CaptureKey, Claim, ClientSession, EXCHANGE_FORMAT, Ended, Exchange, ExchangeParent, Marks, Placed,
    Restored, Sessions, SessionsLimits,
};
use clawhost_core::{
    Clock, Digest, LiveSession, LlmIdentity, Message, ModelRequest, Role, RunId, Sampling, SpoolPlace, Usage,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct CaptureCounts {
    /// Exchanges in the spool.
    pub(crate) recorded: AtomicU64,
    /// Exchanges that could not be recorded.
    pub(crate) missed: AtomicU64,
    /// Sessions that have ended and are episodes.
    pub(crate) episodes: AtomicU64,
}

/// A request as it is recorded.
pub(crate) struct Seen<'a> {
    pub(crate) client: ClientSession,
    /// Name of the agent.
    pub(crate) agent: String,
    /// The requested model.
    pub(crate) alias: String,
    pub(crate) dialect: &'static str,
    /// The model that is asked.
    pub(crate) model: LlmIdentity,
    pub(crate) request: &'a ModelRequest,
    /// Digest of the body.
    pub(crate) digest: Digest,
    /// Id of the response that it continues.
    pub(crate) previous: Option<String>,
    pub(crate) side: Option<bool>,
    pub(crate) no_train: bool,
    /// Whether it is not recorded.
    pub(crate) no_record: bool,
}

/// The result of recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Done {
    /// It is in the spool.
    Recorded,
    /// It is not, and why.
    Missed(String),
    /// The client's key keeps it out of the record.
    Off,
}

/// Takes the owner, the Unix time in milliseconds and the tokens of an answer.
pub(crate) type Spent = Box<dyn Fn(&str, u64, u64) + Send + Sync>;

struct Places {
    sessions: Sessions<Label>,
    runs: LiveRuns,
    /// Sessions that have ended, with the place behind their last record.
    ended: Vec<(SpoolPlace, Label)>,
    /// Names of sessions to which nobody gave one.
    unnamed: u64,
}

/// Records exchanges.
pub(crate) struct Recorder {
    key: CaptureKey,
    boot: u64,
    places: Mutex<Places>,
    pub(crate) spool: Spool,
    clock: Arc<dyn Clock>,
    new_run: Box<dyn Fn(u64) -> RunId + Send + Sync>,
    pub(crate) counts: CaptureCounts,
    /// Responses that clients may read later.
    pub(crate) responses: Responses,
    /// Takes the owner, the time and the tokens of an answer.
    spent: OnceLock<Spent>,
    /// Wakes the importer.
    pub(crate) wake: tokio::sync::Notify,
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
        let places =
            Places { sessions: Sessions::new(key, limits), runs: LiveRuns::default(), ended: Vec::new(), unnamed: 0 };
        Self {
            key,
            boot,
            places: Mutex::new(places),
            spool,
            clock,
            new_run,
            counts: CaptureCounts::default(),
            responses: Responses::default(),
            spent: OnceLock::new(),
            wake: tokio::sync::Notify::new(),
        }
    }

    /// Tells the tokens of answers, of earlier starts too.
    pub(crate) fn on_spent(&self, spent: Spent) {
        // Set once, before anything is recorded.
        let _ = self.spent.set(spent);
    }

    /// Counts the tokens of an answer.
    pub(crate) fn charge(&self, owner: &str, at: u64, answer: &Answer) {
        self.charge_usage(owner, at, answer.usage());
    }

    /// Counts tokens.
    pub(crate) fn charge_usage(&self, owner: &str, at: u64, usage: Usage) {
        if let Some(spent) = self.spent.get() {
            spent(owner, at, usage.tokens());
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
            known.extend(Marks::of(&self.key, &exchange.messages, &[]).messages);
            let (Some(marks), Some(response)) = (exchange.marks, exchange.answer.complete()) else { continue };
            let ids =
                response.message.tool_calls.iter().map(|call| call.id.clone()).chain(exchange.response_id.clone());
            issued.extend(ids.map(|id| (turns.len(), id)));
            turns.push(marks);
        }
        let exchanges = exchanges.last().map_or(0, |last| last.position + 1);
        let name = first.client.named.clone().or_else(|| first.client.conversation.clone());
        let restored = Restored { client: first.client.clone(), label, name, exchanges, turns, issued, known };
        let now = self.now();
        self.places().sessions.restore(restored, now);
    }

    /// Finds the session of a request and takes its place there.
    pub(crate) fn begin(self: &Arc<Self>, seen: Seen<'_>) -> Begun {
        let Seen { client, agent, alias, dialect, model, request, digest, previous, side, no_train, no_record } = seen;
        let owner = client.owner.clone();
        let at = self.clock.now_ms();
        let began_us = self.clock.monotonic_us();
        if no_record {
            return Begun { recorder: self.clone(), label: None, owner, at, place: None, began_us, stored: None };
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
            let Places { sessions, runs, ended, unnamed } = &mut *places;
            let (placed, claim, gone) = sessions.place(asked, |name| {
                let (run, episode, index) = runs.open(&client.owner, at, || (self.new_run)(at));
                let session = name.unwrap_or_else(|| {
                    *unnamed += 1;
                    let mark = self.key.mark("session", format!("{}/{unnamed}", self.boot).as_bytes());
                    format!("s-{}", mark.to_string().get(..16).unwrap_or_default())
                });
                let session = LiveSession { session, agent: agent.clone(), alias: alias.clone() };
                Label { run, episode, index, session, opened_at: at }
            });
            let end = self.spool.end();
            ended.extend(gone.into_iter().map(|Ended { label }| (end, label)));
            (placed, claim)
        };
        let exchange = exchange_of(&placed, client, dialect, model, request, digest, no_train, at);
        let label = Some(placed.label);
        Begun { recorder: self.clone(), label, owner, at, place: Some((exchange, claim)), began_us, stored: None }
    }

    /// Ends the session that a client names, and what came from it. Returns how many ended.
    pub(crate) fn end(&self, owner: &str, name: &str) -> usize {
        let mut places = self.places();
        let gone = places.sessions.end(owner, name);
        let (count, end) = (gone.len(), self.spool.end());
        places.ended.extend(gone.into_iter().map(|Ended { label }| (end, label)));
        drop(places);
        self.wake.notify_one();
        count
    }

    /// Ends all sessions that wait for no answer.
    pub(crate) fn end_all(&self) {
        let mut places = self.places();
        let gone = places.sessions.end_all();
        let end = SpoolPlace::default();
        places.ended.extend(gone.into_iter().map(|Ended { label }| (end, label)));
    }

    /// Sessions that have ended and whose records were taken over up to a place.
    pub(crate) fn take_ended(&self, through: SpoolPlace) -> Vec<Label> {
        let now = self.now();
        let mut places = self.places();
        let end = self.spool.end();
        let gone = places.sessions.expire(now);
        places.ended.extend(gone.into_iter().map(|Ended { label }| (end, label)));
        let (ready, waiting) = std::mem::take(&mut places.ended).into_iter().partition(|(at, _)| *at <= through);
        places.ended = waiting;
        let ready: Vec<(SpoolPlace, Label)> = ready;
        ready.into_iter().map(|(_, label)| label).collect()
    }

    /// Sessions that could not be recorded as episodes are tried again.
    pub(crate) fn give_back(&self, labels: Vec<Label>) {
        self.places().ended.extend(labels.into_iter().map(|label| (SpoolPlace::default(), label)));
    }

    /// Sessions that are remembered.
    pub(crate) fn sessions(&self) -> usize {
        self.places().sessions.len()
    }

    /// Writes an exchange, with the response that its client may read later.
    fn write(&self, label: &Label, exchange: &Exchange, stored: Option<StoredResponse>) -> Done {
        let (owner, id) = (&exchange.client.owner, exchange.response_id.clone().unwrap_or_default());
        let stored = stored.filter(|_| !id.is_empty());
        let line = stored.as_ref().map(|stored| (stored, owner.as_str(), id.as_str()));
        let written = record::write(label, exchange, line).map_err(std::io::Error::from);
        let written = written.and_then(|bytes| self.spool.append(&bytes).map(|_| bytes.len()));
        match written {
            Ok(bytes) => {
                self.counts.recorded.fetch_add(1, Ordering::Relaxed);
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

#[allow(clippy::too_many_arguments, reason = "the parts of a record, used once")]
fn exchange_of(
    placed: &Placed<Label>,
    client: ClientSession,
    dialect: &'static str,
    model: LlmIdentity,
    request: &ModelRequest,
    digest: Digest,
    no_train: bool,
    at: u64,
) -> Exchange {
    let new = placed.new_messages.iter().filter_map(|at| request.messages.get(*at));
    let parent = placed.parent.as_ref().map(|(label, turns)| ExchangeParent {
        run: label.run.clone(),
        episode: label.episode.clone(),
        turns: *turns,
    });
    Exchange {
        format: EXCHANGE_FORMAT,
        run: placed.label.run.clone(),
        episode: placed.label.episode.clone(),
        index: placed.label.index,
        session: placed.label.session.clone(),
        client,
        position: placed.position,
        at,
        relation: placed.relation,
        evidence: placed.evidence,
        candidates: placed.candidates,
        parent,
        no_train,
        context_changed: placed.context_changed,
        dialect: dialect.to_owned(),
        system: placed.system_changed.then(|| system_text(&request.messages)),
        tools: placed.tools_changed.then(|| request.tools.clone()),
        messages: new.filter(|message| message.role != Role::System).cloned().collect(),
        request: digest,
        model,
        sampling: Sampling { temperature: request.temperature, top_p: request.top_p, max_tokens: request.max_tokens },
        answer: Answer::Incomplete { message: None, why: "the client has gone".to_owned() },
        response_id: None,
        answered_us: 0,
        first_us: None,
        marks: None,
    }
}

/// The text of system messages.
fn system_text(messages: &[Message]) -> String {
    let texts: Vec<String> =
        messages.iter().filter(|message| message.role == Role::System).map(Message::plain_text).collect();
    texts.join("\n\n")
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
}

impl Begun {
    fn exchange(&mut self) -> Option<&mut Exchange> {
        self.place.as_mut().map(|(exchange, _)| exchange)
    }

    /// Keeps a response that its client may read later, if the answer is recorded whole.
    pub(crate) fn keep(&mut self, response: StoredResponse) {
        self.stored = Some(response);
    }

    /// Notes the first part of the answer.
    pub(crate) fn first_part(&mut self) {
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
    pub(crate) fn end(mut self, answer: Answer, response: Option<String>) -> Done {
        self.recorder.charge(&self.owner, self.at, &answer);
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
        let stored = self.stored.take().filter(|_| exchange.answer.complete().is_some());
        self.recorder.write(label, &exchange, stored)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // After `end` nothing is left to write.
        self.write();
    }
}
