//! One request as it is observed: everything that takes part in it notes what it knows, and the last one to let go ends it. So each
//! request is counted once, however it ends.

use super::Observer;
use super::counts::AliasCounts;
use super::route::Route;
use super::trace_context::TraceContext;
use crate::capture::Done;
use clawhost_capture::Answer;
use clawhost_core::{LlmIdentity, Usage};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Whether an exchange is in the record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum InRecord {
    /// It is none that is recorded.
    #[default]
    None,
    /// Its key keeps it out.
    Off,
    Recorded,
    Missed,
}

/// What is known of a request once it was read.
#[derive(Debug, Default)]
pub(crate) struct Details {
    pub(crate) route: Route,
    /// The alias, if it is served.
    pub(crate) alias: Option<(String, Arc<AliasCounts>)>,
    /// The model that is asked.
    pub(crate) model: Option<LlmIdentity>,
    /// The model that answered, as it says.
    pub(crate) answered_by: Option<String>,
    /// Name of the client's key; empty without one.
    pub(crate) owner: String,
    /// Name of the session.
    pub(crate) session: Option<String>,
    /// Tokens of a whole answer.
    pub(crate) usage: Option<Usage>,
    /// Whether the model has prices, so that the usage has its cost.
    pub(crate) is_priced: bool,
    pub(crate) record: InRecord,
    /// Whether an answer was expected and is not whole.
    pub(crate) is_incomplete: bool,
    pub(crate) is_stream: bool,
}

/// A request that is observed.
#[derive(Debug)]
pub(crate) struct Observation {
    pub(crate) observer: Arc<Observer>,
    /// Time on the monotonic clock.
    pub(crate) began_us: u64,
    pub(crate) method: axum::http::Method,
    /// Path without the query.
    pub(crate) path: String,
    /// 0 before there is an answer.
    status: AtomicU16,
    /// Time in which the gateway waited for the client's body.
    client_us: AtomicU64,
    /// Time in which it waited for models.
    upstream_us: AtomicU64,
    /// Time that the gateway added before it answered; 0 before that.
    added_us: AtomicU64,
    /// Time to the first token of a stream; 0 without one.
    first_us: AtomicU64,
    pub(crate) request_bytes: AtomicU64,
    pub(crate) answer_bytes: AtomicU64,
    /// When a model was asked first, and when it had answered last, on the monotonic clock; 0 before that.
    asked_us: AtomicU64,
    answered_us: AtomicU64,
    /// Its place in a trace, if traces are exported.
    pub(crate) trace: Option<TraceContext>,
    details: Mutex<Details>,
}

impl Observation {
    /// `trace`: its place in a trace.
    pub(crate) fn new(
        observer: Arc<Observer>,
        method: axum::http::Method,
        path: String,
        trace: Option<TraceContext>,
    ) -> Arc<Self> {
        observer.counts.active_requests.enter();
        Arc::new(Self {
            began_us: observer.now_us(),
            observer,
            method,
            path,
            status: AtomicU16::new(0),
            client_us: AtomicU64::new(0),
            upstream_us: AtomicU64::new(0),
            added_us: AtomicU64::new(0),
            first_us: AtomicU64::new(0),
            request_bytes: AtomicU64::new(0),
            answer_bytes: AtomicU64::new(0),
            asked_us: AtomicU64::new(0),
            answered_us: AtomicU64::new(0),
            trace,
            details: Mutex::default(),
        })
    }

    /// What is known of the request. Only the parts of one request use this lock, one after another.
    pub(crate) fn details(&self) -> std::sync::MutexGuard<'_, Details> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is asked for.
    pub(crate) fn asks(&self, route: Route) {
        self.details().route = route;
    }

    /// Notes the client by the name of its key.
    pub(crate) fn client(&self, owner: &str) {
        owner.clone_into(&mut self.details().owner);
    }

    /// Notes the size of the body.
    pub(crate) fn received(&self, bytes: usize) {
        self.request_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Notes the session and the model of an exchange, of which a whole answer is expected.
    pub(crate) fn begins(&self, session: Option<&str>, model: &LlmIdentity) {
        let mut details = self.details();
        details.session = session.map(str::to_owned);
        details.model = Some(model.clone());
        details.is_incomplete = true;
        details.record = if session.is_some() { InRecord::None } else { InRecord::Off };
    }

    /// Notes that another model is asked.
    pub(crate) fn turns_to(&self, model: &LlmIdentity) {
        self.details().model = Some(model.clone());
    }

    /// Notes the end of an answer. `is_priced`: its usage has its cost.
    pub(crate) fn answered(&self, answer: &Answer, is_priced: bool) {
        let mut details = self.details();
        details.is_priced = is_priced;
        // An error is whole, and its status tells that it is none.
        details.is_incomplete = matches!(answer, Answer::Incomplete { .. });
        if let Some(response) = answer.complete() {
            details.usage = Some(response.usage);
            details.answered_by = response.answered_by.as_ref().map(|answered| answered.model.clone());
        }
    }

    /// Notes whether the exchange is in the record.
    pub(crate) fn recorded(&self, done: &Done) {
        self.details().record = match done {
            Done::Recorded => InRecord::Recorded,
            Done::Missed(_) => InRecord::Missed,
            Done::Off => InRecord::Off,
        };
    }

    /// Notes the alias, which must be served.
    pub(crate) fn alias(&self, alias: &str) {
        let counts = self.observer.counts.of(alias);
        self.details().alias = Some((alias.to_owned(), counts));
    }

    /// Notes the head of the answer: what is not waiting until here, or until its stream began, was added by this gateway.
    pub(crate) fn head(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
        // What a stream waits for is the model's, from its beginning on.
        if self.added_us().is_none() {
            self.note_added();
        }
    }

    fn note_added(&self) {
        let waited = self.client_us.load(Ordering::Relaxed) + self.upstream_us();
        self.added_us.store(self.since_us().saturating_sub(waited).max(1), Ordering::Relaxed);
    }

    /// Notes the first token of a stream.
    pub(crate) fn first_token(&self) {
        let since = self.since_us().max(1);
        // Only the first one counts.
        let _ = self.first_us.compare_exchange(0, since, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The status of the answer. `None`: there was none.
    pub(crate) fn status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status > 0)
    }

    /// Microseconds that the gateway added, if it answered.
    pub(crate) fn added_us(&self) -> Option<u64> {
        Some(self.added_us.load(Ordering::Relaxed)).filter(|us| *us > 0)
    }

    /// Microseconds to the first token of a stream.
    pub(crate) fn first_us(&self) -> Option<u64> {
        Some(self.first_us.load(Ordering::Relaxed)).filter(|us| *us > 0)
    }

    /// Microseconds of the models.
    pub(crate) fn upstream_us(&self) -> u64 {
        self.upstream_us.load(Ordering::Relaxed)
    }

    /// Microseconds since the request came.
    pub(crate) fn since_us(&self) -> u64 {
        self.observer.now_us().saturating_sub(self.began_us)
    }

    /// Counts the time until this is dropped as the client's.
    pub(crate) fn waits_for_client(&self) -> Waiting<'_> {
        Waiting { observation: self, from_us: self.observer.now_us(), sum: &self.client_us }
    }

    /// Counts the time until this is dropped as the model's.
    pub(crate) fn waits_for_model(&self) -> Waiting<'_> {
        let from_us = self.asks_model();
        Waiting { observation: self, from_us, sum: &self.upstream_us }
    }

    /// A stream begins, whose time is the model's until this is dropped.
    pub(crate) fn streams(self: &Arc<Self>) -> Streaming {
        self.observer.counts.active_streams.enter();
        self.details().is_stream = true;
        let from_us = self.asks_model();
        self.note_added();
        Streaming { from_us, observation: self.clone() }
    }

    /// The stream failed before its head was sent. Another attempt may follow.
    pub(crate) fn stops_streaming(&self) {
        self.added_us.store(0, Ordering::Relaxed);
    }

    /// Notes that a model is asked or goes on answering. Returns the time on the monotonic clock.
    fn asks_model(&self) -> u64 {
        let now_us = self.observer.now_us();
        // Only the first time counts.
        let _ = self.asked_us.compare_exchange(0, now_us.max(1), Ordering::Relaxed, Ordering::Relaxed);
        now_us
    }

    /// From when until when models were asked, on the monotonic clock in microseconds.
    pub(crate) fn asked(&self) -> Option<(u64, u64)> {
        let asked_us = Some(self.asked_us.load(Ordering::Relaxed)).filter(|us| *us > 0)?;
        Some((asked_us, self.answered_us.load(Ordering::Relaxed).max(asked_us)))
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let observer = self.observer.clone();
        observer.ended(self);
    }
}

/// A time in which the gateway waits for others.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    observation: &'a Observation,
    from_us: u64,
    sum: &'a AtomicU64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let now_us = self.observation.observer.now_us();
        self.sum.fetch_add(now_us.saturating_sub(self.from_us), Ordering::Relaxed);
        self.observation.answered_us.store(now_us, Ordering::Relaxed);
    }
}

/// A stream that is under way.
#[derive(Debug)]
pub(crate) struct Streaming {
    observation: Arc<Observation>,
    from_us: u64,
}

impl Drop for Streaming {
    fn drop(&mut self) {
        let observer = &self.observation.observer;
        let now_us = observer.now_us();
        self.observation.upstream_us.fetch_add(now_us.saturating_sub(self.from_us), Ordering::Relaxed);
        self.observation.answered_us.store(now_us, Ordering::Relaxed);
        observer.counts.active_streams.leave();
    }
}
