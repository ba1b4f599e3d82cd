//! Feedback of people and programs about answers: a score, a comment, a correction. A score is a verdict about the episode; a correction is
//! remembered for its own user, too.

use crate::guiding::{MemoryParty, NewMemory, NotRemembered};
use crate::http::{Inner, Refusal, answered, body_of, json, user_in, wants_no_train};
use crate::observe::{GatewayEvent, SessionEvent};
use crate::pool::{caught_up, parse, read};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response};
use axum::routing::post;
use clawhost_capture::Exchange;
use clawhost_core::{
    Admission, AnswerPlace, Episode, FEEDBACK_KEY_BYTES, Feedback, FeedbackKept, Judged, LiveSession, NotAdmitted,
    StoreError, StoreReader, WaitingFeedback, Withheld,
};
use clawhost_providers::Dialect;
use clawhost_wire::ErrorKind;
use serde::Deserialize;
use serde_json::{Value, json as value};
use std::sync::Arc;

/// Most bytes of a request: texts of their largest size, with room for their escapes.
const BODY_BYTES: usize = 64 << 10;
/// The header in which clients send a key for idempotence.
const KEY_HEADER: &str = "idempotency-key";

/// Why a text is not remembered that has something that records do not keep.
const REDACTED: &str = "it has something that is redacted in records, as a key";

/// The route.
pub(crate) fn routes() -> Router<Arc<Inner>> {
    Router::new().route("/v1/feedback", post(give))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Given {
    /// Id of the answer that it is about, as the endpoint gave it.
    response_id: Option<String>,
    /// Or the session, by its name.
    session: Option<String>,
    /// Whose session it is, for the admin.
    owner: Option<String>,
    /// From -1 to 1.
    score: Option<f64>,
    /// `up` or `down`.
    thumb: Option<Value>,
    /// A comment for people.
    text: Option<String>,
    /// What the answer should have been.
    correction: Option<String>,
    /// The caller's id of the feedback: the same once more changes nothing.
    key: Option<String>,
}

fn invalid(why: impl Into<String>) -> Refusal {
    Refusal::new(ErrorKind::Unprocessable, why)
}

impl Given {
    fn score(&self) -> Result<Option<f64>, Refusal> {
        let thumb = match self.thumb.as_ref().map(Value::as_str) {
            None => None,
            Some(Some("up")) => Some(1.0),
            Some(Some("down")) => Some(-1.0),
            Some(_) => return Err(invalid("thumb: must be up or down")),
        };
        match (self.score, thumb) {
            (Some(score), Some(thumb)) if (score > 0.0) != (thumb > 0.0) => {
                Err(invalid("score and thumb: they contradict each other; send one of them"))
            }
            (Some(score), _) => Ok(Some(score)),
            (None, thumb) => Ok(thumb),
        }
    }

    /// The feedback, as it is recorded.
    fn feedback(&self, redact: impl Fn(&str) -> String) -> Result<Feedback, Refusal> {
        let text = self.text.as_deref().map(&redact).unwrap_or_default();
        let correction = self.correction.as_deref().filter(|text| !text.trim().is_empty()).map(&redact);
        let made = match (self.score()?, correction) {
            (Some(score), correction) => Feedback::new(score, text).and_then(|made| made.correcting(correction)),
            (None, Some(correction)) => Feedback::correction(correction),
            (None, None) => return Err(invalid("a score, a thumb or a correction must be there")),
        };
        made.map_err(|error| invalid(error.to_string()))
    }

    /// The key for idempotence.
    fn key(&self, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
        let header = headers.get(KEY_HEADER).and_then(|key| key.to_str().ok()).map(str::to_owned);
        match self.key.clone().or(header) {
            Some(key) if key.is_empty() || key.len() > FEEDBACK_KEY_BYTES => {
                Err(invalid(format!("key: must have from 1 to {FEEDBACK_KEY_BYTES} bytes")))
            }
            key => Ok(key),
        }
    }
}

/// Who gives feedback.
enum Giver {
    Admin,
    /// The client of a key; without one the name is empty.
    Client(crate::http::Client),
}

async fn give(State(gateway): State<Arc<Inner>>, request: Request) -> Response<Body> {
    let answer = async {
        let (headers, body) = body_of(&gateway, request).await?;
        let giver = match gateway.access.admin(&headers) {
            Ok(()) => Giver::Admin,
            Err(_) => Giver::Client(gateway.access.admit(&headers)?),
        };
        if body.len() > BODY_BYTES {
            return Err(Refusal::new(ErrorKind::TooLarge, format!("feedback has at most {BODY_BYTES} bytes")));
        }
        let given: Given = parse(&body)?;
        let redact = |text: &str| gateway.config.redaction.text(text).unwrap_or_else(|| text.to_owned());
        let (feedback, key) = (given.feedback(redact)?, given.key(&headers)?);
        let place = find(&gateway, &giver, &given, &headers).await?;
        let judged = session_at(&gateway, &place).await?;
        let added = add(&gateway, (&place, &judged), feedback.at_turn(place.turn), key).await?;
        let correction = given.correction.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let remembered = match correction {
            None => Value::Null,
            Some(text) if redact(text) != text => value!({"remembered": false, "why": REDACTED}),
            Some(text) => remember(&gateway, &giver, &place, &judged, text.to_owned(), &headers).await,
        };
        let episode = format!("{}/{}", place.run, place.episode);
        let mut shown = value!({"episode": episode, "session": judged.session.session, "turn": place.turn});
        if let Some(object) = shown.as_object_mut() {
            object.extend(added);
            if !remembered.is_null() {
                object.insert("memory".to_owned(), remembered);
            }
        }
        Ok(json(200, &shown))
    };
    answered(Dialect::OpenAi, answer.await)
}

/// Records feedback that the admin gives on the page about a turn: a thumb, a correction, or both.
///
/// # Errors
/// There is neither a thumb nor a correction, a text is too long, or the store cannot be written.
pub(crate) async fn of_admin(
    gateway: &Inner,
    place: &AnswerPlace,
    thumb: Option<&str>,
    correction: Option<&str>,
) -> Result<(), Refusal> {
    let redact = |text: &str| gateway.config.redaction.text(text).unwrap_or_else(|| text.to_owned());
    let given = Given { thumb: thumb.map(Value::from), correction: correction.map(str::to_owned), ..Given::default() };
    let feedback = given.feedback(redact)?.at_turn(place.turn);
    let judged = session_at(gateway, place).await?;
    add(gateway, (place, &judged), feedback, None).await?;
    if let Some(text) = correction.filter(|text| redact(text) == **text) {
        remember(gateway, &Giver::Admin, place, &judged, text.to_owned(), &HeaderMap::new()).await;
    }
    Ok(())
}

/// The place that feedback is about, if its giver may give feedback there.
async fn find(gateway: &Inner, giver: &Giver, given: &Given, headers: &HeaderMap) -> Result<AnswerPlace, Refusal> {
    let (what, name, is_answer) = match (&given.response_id, &given.session) {
        (Some(id), None) => ("answer", id.clone(), true),
        (None, Some(name)) => ("session", name.clone(), false),
        _ => return Err(invalid("either response_id or session must be there")),
    };
    let places = move |reader: &dyn StoreReader, name: &str| match is_answer {
        true => reader.answer_places(name),
        false => reader.session_places(name),
    };
    // Its exchange may be under way to the store.
    caught_up(gateway).await?;
    let asked = name.clone();
    let found = read(gateway, move |reader| places(reader, &asked)).await?;
    let owner = match giver {
        Giver::Client(_) if given.owner.is_some() => return Err(invalid("owner: only the admin may name one")),
        Giver::Client(client) => Some(client.owner.as_str()),
        Giver::Admin => given.owner.as_deref(),
    };
    let shown: String = name.chars().take(100).collect();
    if found.is_empty() {
        return Err(Refusal::new(ErrorKind::NotFound, format!("there is no {what} `{shown}` here")));
    }
    let own: Vec<AnswerPlace> =
        found.into_iter().filter(|place| owner.is_none_or(|owner| place.owner == owner)).collect();
    if own.is_empty() {
        return Err(match giver {
            Giver::Admin => {
                Refusal::new(ErrorKind::NotFound, format!("no session of this owner has the {what} `{shown}`"))
            }
            Giver::Client(_) => {
                let why = "belongs to another key; only that key or the admin may judge it";
                Refusal::new(ErrorKind::Forbidden, format!("the {what} `{shown}` {why}"))
            }
        });
    }
    let user = user_in(headers);
    let mut own = own.into_iter().filter(|place| user.is_none() || place.user == user);
    let Some(place) = own.next() else {
        let why = format!("the {what} `{shown}` is of another user than the header x-clawhost-user names");
        return Err(Refusal::new(ErrorKind::Forbidden, why));
    };
    // An endpoint may use an id again, and the newest answer is meant. A name of a session may be that of several users.
    if !is_answer && own.next().is_some() {
        let why = format!(
            "several sessions have the name `{shown}`: name the user in the header x-clawhost-user, or the owner"
        );
        return Err(Refusal::new(ErrorKind::Conflict, why));
    }
    Ok(place)
}

/// The session of a place, as far as feedback needs it.
struct JudgedSession {
    session: LiveSession,
    /// Whether its client keeps it out of learning.
    no_train: bool,
}

fn of_episode(episode: &Episode) -> Option<JudgedSession> {
    let session = episode.origin.session()?.clone();
    Some(JudgedSession { session, no_train: episode.origin.withheld() == Some(Withheld::NoTrain) })
}

fn of_open(reader: &dyn StoreReader, place: &AnswerPlace) -> Result<Option<JudgedSession>, StoreError> {
    let Some(session) = reader.open_session(&place.run, &place.episode)? else { return Ok(None) };
    let documents = reader.exchanges(&place.run, &place.episode)?;
    let says_so =
        |document: &String| serde_json::from_str::<Exchange>(document).is_ok_and(|exchange| exchange.no_train);
    Ok(Some(JudgedSession { session, no_train: documents.iter().any(says_so) }))
}

/// The session of a place: in progress or ended.
async fn session_at(gateway: &Inner, place: &AnswerPlace) -> Result<JudgedSession, Refusal> {
    let asked = place.clone();
    let found = read(gateway, move |reader| {
        if let Some(open) = of_open(reader, &asked)? {
            return Ok(Some(open));
        }
        Ok(reader.episode(&format!("{}/{}", asked.run, asked.episode))?.as_ref().and_then(of_episode))
    });
    found.await?.ok_or_else(|| Refusal::new(ErrorKind::NotFound, "the episode was removed"))
}

/// The answer for a store that failed.
fn failed(error: &StoreError) -> Refusal {
    tracing::error!("feedback: {error}");
    Refusal { retry_after: Some(1), ..Refusal::new(ErrorKind::Unavailable, format!("feedback: {error}")) }
}

fn key_reused() -> Refusal {
    Refusal::new(ErrorKind::Conflict, "key: it belongs to other feedback")
}

/// Tells the readers of events that feedback was taken.
fn tell(gateway: &Inner, place: &AnswerPlace, judged: &JudgedSession, at: u64) {
    let LiveSession { session, agent, alias, .. } = judged.session.clone();
    let (run, episode) = (place.run.clone(), place.episode.clone());
    let event = GatewayEvent::FeedbackGiven(SessionEvent { session, agent, alias, run, episode });
    gateway.recorder.events.push(at, Some(&place.owner), event);
}

/// Adds feedback to the episode, or keeps it until the session ends. Returns what the answer says of it.
async fn add(
    gateway: &Inner,
    (place, of): (&AnswerPlace, &JudgedSession),
    feedback: Feedback,
    key: Option<String>,
) -> Result<serde_json::Map<String, Value>, Refusal> {
    let (run, episode, at) = (place.run.clone(), place.episode.clone(), gateway.now_ms());
    let record = feedback.record();
    let waiting = WaitingFeedback {
        number: 0,
        run: run.clone(),
        episode: episode.clone(),
        record: record.clone(),
        at,
        key: key.clone(),
    };
    let kept = gateway.store.feedback.keep_feedback(waiting).await.map_err(|error| failed(&error))?;
    let state = |state: &str, revision: Option<u32>, reward: Option<f64>| {
        let shown = value!({"state": state, "revision": revision, "reward": reward});
        Ok(shown.as_object().cloned().unwrap_or_default())
    };
    match kept {
        FeedbackKept::Waits => {
            tell(gateway, place, of, at);
            return state("waits", None, None);
        }
        FeedbackKept::Repeated => return state("unchanged", None, None),
        FeedbackKept::KeyReused => return Err(key_reused()),
        FeedbackKept::TooMuch => {
            return Err(Refusal::new(ErrorKind::Conflict, "the session has so much feedback that no more is kept"));
        }
        FeedbackKept::Ended => {}
    }
    let judged = Judged { run, episode, record, at, key };
    let admissions = gateway.store.episodes.judge(vec![judged]).await.map_err(|error| failed(&error))?;
    match admissions.into_iter().next() {
        Some(Admission::Added { revision, reward }) => {
            tell(gateway, place, of, at);
            state("added", Some(revision), reward)
        }
        Some(Admission::Unchanged { revision, reward }) => state("unchanged", Some(revision), reward),
        Some(Admission::Refused(NotAdmitted::KeyReused { .. })) => Err(key_reused()),
        Some(Admission::Refused(why)) => Err(Refusal::new(ErrorKind::Conflict, why.to_string())),
        None => Err(Refusal::new(ErrorKind::NotFound, "the episode was removed")),
    }
}

/// Remembers a correction for the user of its session alone. Says what became of it: feedback is recorded in any case.
async fn remember(
    gateway: &Inner,
    giver: &Giver,
    place: &AnswerPlace,
    judged: &JudgedSession,
    text: String,
    headers: &HeaderMap,
) -> Value {
    let refused = |why: &str| value!({"remembered": false, "why": why});
    let Some(memory) = &gateway.memory else { return refused("this gateway has no memory") };
    let is_kept_out = match giver {
        Giver::Client(client) => client.no_train || client.no_record,
        Giver::Admin => false,
    };
    if judged.no_train || wants_no_train(headers) || is_kept_out {
        return refused("its client keeps the session out of learning");
    }
    let episode = format!("{}/{}", place.run, place.episode);
    let new = NewMemory { level: None, kind: None, text, episode: Some(episode), supersedes: None, expires_days: None };
    let party = MemoryParty { owner: &place.owner, team: None, session: &judged.session };
    match memory.remember(party, new).await {
        Ok(item) => {
            let undo = format!("DELETE /v1/memory/{}", item.id);
            value!({"remembered": true, "id": item.id, "scope": item.scope, "undo": undo})
        }
        Err(NotRemembered::Refused(why) | NotRemembered::Unavailable(why)) => refused(&why),
        Err(NotRemembered::Unknown) => refused("there is no such memory"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feedback_is_read_or_refused_with_the_reason() {
        let check = |body: &str, expect: Result<Option<f64>, &str>| {
            let given: Result<Given, Refusal> = parse(&bytes::Bytes::copy_from_slice(body.as_bytes()));
            let found = given.and_then(|given| given.feedback(str::to_owned).map(|_| given.score().ok().flatten()));
            match (found, expect) {
                (Ok(score), Ok(expect)) => assert_eq!(score, expect, "{body}"),
                (Err(refusal), Err(part)) => assert!(refusal.message.contains(part), "{body}: {}", refusal.message),
                (found, _) => panic!("{body}: {found:?}"),
            }
        };
        check(r#"{"score": 0.5}"#, Ok(Some(0.5)));
        check(r#"{"thumb": "up"}"#, Ok(Some(1.0)));
        check(r#"{"thumb": "down", "score": -0.5}"#, Ok(Some(-0.5)));
        check(r#"{"correction": "use metres"}"#, Ok(None));
        check(r#"{"thumb": "down", "score": 0.5}"#, Err("contradict"));
        check(r#"{"score": 2}"#, Err("from -1 to 1"));
        check(r#"{"score": NaN}"#, Err("finite"));
        check(r#"{"thumb": "sideways"}"#, Err("thumb: must be up or down"));
        check(r#"{"thumb": 1}"#, Err("thumb: must be up or down"));
        check(r#"{"text": "nice"}"#, Err("a score, a thumb or a correction"));
        check(r#"{"correction": " "}"#, Err("a score, a thumb or a correction"));
        check(r#"{"rating": 1}"#, Err("unknown field"));
        check(&format!(r#"{{"score": 1, "text": "{}"}}"#, "x".repeat(20_000)), Err("at most"));
    }
}
