//! The record of a request: as it begins, and as it ends.

use super::guides::{GuidedRequest, GuidesTurn};
use super::record::{First, Label};
use super::recorder::{Places, Recorder};
use super::responses::StoredResponse;
use super::routes::RoutedRequest;
use super::seen::Done;
use crate::guiding::{Draws, Guide, Guiding};
use crate::http::GuidanceWish;
use crate::observe::{ExchangeEvent, GatewayEvent, Observation, Streaming};
use crate::routing::Routing;
use clawhost_capture::{
    Answer, Claim, ClientSession, EXCHANGE_FORMAT, Exchange, ExchangeParent, Guided, Placed, Relation, Routed,
};
use clawhost_core::{Digest, LlmIdentity, Message, ModelRequest, Role, Sampling, SessionDraw};
use clawhost_providers::Prices;
use std::sync::Arc;

/// Why the record of a request whose client went has no whole answer.
pub(super) const CLIENT_GONE: &str = "the client has gone";

/// The record of a request at its place. Until it has ended, it says that the client has gone.
#[allow(clippy::too_many_arguments, reason = "the parts of a record, used once")]
pub(crate) fn exchange_of(
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
        policy_version: None,
        answer: Answer::Incomplete { message: None, why: CLIENT_GONE.to_owned() },
        response_id: None,
        answered_us: 0,
        first_us: None,
        marks: None,
        redacted: None,
        cut: 0,
        routed: None,
        guided: None,
    }
}

/// The text of system messages.
fn system_text(messages: &[Message]) -> String {
    let texts: Vec<String> =
        messages.iter().filter(|message| message.role == Role::System).map(Message::plain_text).collect();
    texts.join("\n\n")
}

impl Recorder {
    /// A session of its own for an answer whose session has ended meanwhile: that one is an episode already, or will be before this record.
    /// It names the ended one as its parent, and ends with this answer.
    fn late(&self, places: &mut Places, exchange: &mut Exchange, former: &Label) -> Label {
        let opened_at = self.clock.now_ms();
        let owner = exchange.client.owner.clone();
        let (run, episode, index) = places.runs.open(&owner, opened_at, || (self.new_run)(opened_at));
        let (routes, guides) = (former.routes.inherited(), former.guides.inherited());
        let session = former.session.clone();
        exchange.parent =
            Some(ExchangeParent { run: former.run.clone(), episode: former.episode.clone(), turns: exchange.position });
        (exchange.run, exchange.episode, exchange.index) = (run.clone(), episode.clone(), index);
        (exchange.relation, exchange.position) = (Relation::Branches, 0);
        // Its trajectory in the data pool has ended, too.
        exchange.client.group = None;
        Label { run, episode, index, session, opened_at, routes, guides }
    }
}

/// A request that is under way. Dropped without an end, it is recorded as incomplete: its client has gone.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(super) recorder: Arc<Recorder>,
    /// `None`: it is not recorded.
    pub(crate) label: Option<Label>,
    pub(super) owner: String,
    /// Unix time in milliseconds.
    pub(super) at: u64,
    pub(super) place: Option<(Exchange, Claim)>,
    pub(super) began_us: u64,
    pub(super) stored: Option<StoredResponse>,
    pub(super) observation: Option<Arc<Observation>>,
    /// The stream of the answer, if it is one.
    pub(super) streaming: Option<Streaming>,
    pub(super) prices: Option<Prices>,
    /// Messages that the model does not see.
    pub(crate) cut: u32,
    /// What a router chose.
    pub(crate) routed: Option<Routed>,
    /// Its decision, if no record holds it yet.
    pub(super) decision: Option<String>,
    /// What the model sees beside the client's system text.
    pub(crate) guided: Option<Guided>,
    /// What was drawn for the session with this request.
    pub(super) drawn: Option<SessionDraw>,
    /// What the client wants of guidance.
    pub(crate) guidance: GuidanceWish,
    /// Held by the first request of a session until its guidance is chosen, so that what comes from the session meanwhile gets the same.
    pub(super) guides_turn: Option<GuidesTurn>,
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
    pub(crate) async fn guide(
        &mut self,
        guide: &dyn Guide,
        request: &ModelRequest,
        team: Option<&str>,
    ) -> Option<Guided> {
        let turn = self.guides_turn.take();
        let (label, (exchange, _)) = (self.label.as_ref()?, self.place.as_ref()?);
        let (session, owner, name) = (&label.session, self.owner.as_str(), label.name());
        let (is_first, is_rewritten) = (exchange.position == 0, exchange.context_changed);
        let draws = match is_first && exchange.relation == Relation::Opens && !exchange.no_train {
            true => Draws::New,
            false => Draws::Kept { entries: &[], version: None },
        };
        let guiding = Guiding { request, session, owner, team, episode: &name, draws, at_ms: self.at };
        let guides = label.guides.clone();
        let guidance = guides.of(guide, &GuidedRequest { guiding, is_first, is_rewritten }, turn).await;
        self.drawn = guidance.drawn;
        guidance.guided
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
        let (Some((mut exchange, claim)), Some(label)) = (self.place.take(), self.label.clone()) else {
            return Done::Off;
        };
        let now_us = self.recorder.clock.monotonic_us();
        exchange.answered_us = now_us.saturating_sub(self.began_us);
        exchange.routed = self.routed.take();
        let (mut label, mut is_late) = (label, false);
        {
            let mut places = self.recorder.places();
            if !places.sessions.is_open(&claim) {
                (label, is_late) = (self.recorder.late(&mut places, &mut exchange, &label), true);
            }
            match exchange.answer.complete() {
                Some(response) => {
                    let id = exchange.response_id.as_deref();
                    exchange.marks = places.sessions.answered(claim, &response.message, id, now_us / 1000);
                }
                None => places.sessions.unanswered(claim, now_us / 1000),
            }
        }
        exchange.guided = self.guided.take().map(|guided| label.guides.for_record(guided));
        self.recorder.redact(&mut exchange);
        let stored = self.stored.take().filter(|_| exchange.answer.complete().is_some());
        let first = First { decision: self.decision.take(), drawn: self.drawn.take().filter(|_| !is_late) };
        let done = self.recorder.write(&label, &exchange, &first, stored);
        if is_late {
            let end = self.recorder.spool.end();
            self.recorder.places().ended.push((end, label.clone()));
        }
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
