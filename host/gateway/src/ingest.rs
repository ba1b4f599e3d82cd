//! Conversations that somebody else had with a model, as messages: each becomes an episode as if it had passed the gateway. The shapes are
//! those of ClawLoop's server, so that its n8n workflows work by changing the address.

use crate::capture::{Done, Seen};
use crate::http::{Inner, Refusal, body_of, json, open_client, plain, wants_no_train};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use clawhost_capture::ClientSession;
use clawhost_core::{Digest, LlmIdentity, Message, ModelRequest, ModelResponse, Role};
use clawhost_wire::{ErrorKind, openai};
use serde::Serialize;
use serde_json::{Map, Value, json as value};
use std::sync::Arc;

/// Most messages of a conversation.
const MESSAGES: usize = 10_000;
/// The model of a conversation that names none.
const UNNAMED: &str = "unknown";
/// The roles of messages.
const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

/// What a playbook says, for programs that put it into their own prompts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Guidance {
    /// The text for a prompt.
    #[serde(rename = "system_prompt")]
    pub prompt: String,
    /// Its lessons.
    #[serde(rename = "playbook_entries")]
    pub entries: Vec<GuidanceEntry>,
    /// Its version; 0: there is none.
    #[serde(rename = "playbook_version")]
    pub version: u64,
    /// When that version was made, as RFC 3339.
    #[serde(rename = "prompt_updated_at")]
    pub updated_at: Option<String>,
}

/// A lesson of a playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GuidanceEntry {
    /// Its id.
    pub id: String,
    /// Its text.
    pub content: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Episodes that its proposals cited.
    pub source_episode_ids: Vec<String>,
}

/// Reads the guidance that is served now. An error says why it cannot be read.
pub type GuidanceSource = Box<dyn Fn() -> Result<Guidance, String> + Send + Sync>;

pub(crate) fn routes() -> Router<Arc<Inner>> {
    Router::new().route("/ingest", post(ingest)).route("/state", get(state))
}

/// An error in ClawLoop's shape, with the message where other clients look for it, too.
fn refused(refusal: &Refusal) -> Response<Body> {
    let word = match refusal.kind {
        ErrorKind::Unprocessable => "validation_error",
        ErrorKind::Unauthenticated => "unauthorized",
        _ => "error",
    };
    json(refusal.kind.status(), &value!({"error": word, "detail": refusal.message}))
}

fn invalid(why: impl Into<String>) -> Refusal {
    Refusal::new(ErrorKind::Unprocessable, why)
}

async fn ingest(State(gateway): State<Arc<Inner>>, request: Request) -> Response<Body> {
    let answer = async {
        let (headers, body) = body_of(&gateway, request).await?;
        let client = gateway.access.admit(&headers)?;
        let conversation = Conversation::read(&body, gateway.config.max_tokens)?;
        let guidance = guidance(&gateway).await?;
        let episode = conversation.record(&gateway, client, &headers)?;
        Ok(json(200, &value!({"episode_id": episode, "playbook_version": guidance.version, "learning_status": "idle"})))
    };
    answer.await.unwrap_or_else(|refusal: Refusal| refused(&refusal))
}

/// A conversation from outside.
struct Conversation {
    /// Its messages in OpenAI's shape.
    raw: Vec<Map<String, Value>>,
    /// The same.
    messages: Vec<Message>,
    /// Its name, by which further parts of it are found.
    name: Option<String>,
    model: String,
    usage: Option<Value>,
    digest: Digest,
}

impl Conversation {
    fn read(body: &Bytes, most: u32) -> Result<Self, Refusal> {
        let text = crate::http::utf8(body)?;
        let mut document: Map<String, Value> = serde_json::from_str(text).map_err(|error| match error.is_data() {
            true => invalid("the body must be an object"),
            false => Refusal::new(ErrorKind::InvalidRequest, format!("the body is no JSON: {error}")),
        })?;
        let Some(Value::Array(all)) = document.remove("messages") else {
            return Err(invalid("messages: must be a list of messages"));
        };
        if all.is_empty() || all.len() > MESSAGES {
            return Err(invalid(format!("messages: must have from 1 to {MESSAGES} messages")));
        }
        let raw = all.into_iter().enumerate().map(|(at, message)| checked(at, message));
        let raw: Vec<Map<String, Value>> = raw.collect::<Result<_, _>>()?;
        let metadata = match document.remove("metadata") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(metadata)) => metadata,
            Some(_) => return Err(invalid("metadata: must be an object")),
        };
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).and_then(plain);
        let model = text("model").or_else(|| {
            let named = |message: &Map<String, Value>| message.get("model").and_then(Value::as_str).and_then(plain);
            raw.iter().rev().find_map(named)
        });
        let request = value!({"model": UNNAMED, "messages": raw});
        let read = openai::read_request(&request.to_string(), most).map_err(|error| invalid(error.to_string()))?;
        if read.request.messages.len() != raw.len() {
            return Err(invalid("messages: a message holds nothing"));
        }
        Ok(Self {
            raw,
            messages: read.request.messages,
            name: text("conversation_id"),
            model: model.unwrap_or_else(|| UNNAMED.to_owned()),
            usage: metadata.get("usage").filter(|usage| usage.is_object()).cloned(),
            digest: Digest::of(body),
        })
    }

    /// Records its answers: of a named conversation the last one, because those before it were sent before; of another one all, and it has
    /// ended then. Returns the episode as `RUN/EPISODE`.
    fn record(
        &self,
        gateway: &Arc<Inner>,
        client: crate::http::Client,
        headers: &HeaderMap,
    ) -> Result<String, Refusal> {
        let name = self.name.clone().unwrap_or_else(|| gateway.new_id("ingested-"));
        let answers = (0..self.messages.len())
            .filter(|at| self.messages.get(*at).is_some_and(|message| message.role == Role::Assistant));
        let mut answers: Vec<usize> = answers.collect();
        if self.name.is_some() {
            answers.drain(..answers.len().saturating_sub(1));
        }
        if answers.is_empty() {
            return Err(invalid("messages: there is no message of the assistant"));
        }
        let no_train = client.no_train || wants_no_train(headers);
        let mut episode = None;
        for at in answers {
            let request = ModelRequest {
                messages: self.messages.get(..at).unwrap_or_default().to_vec(),
                ..ModelRequest::default()
            };
            let begun = gateway.recorder.begin(Seen {
                client: ClientSession {
                    owner: client.owner.clone(),
                    user: None,
                    named: Some(name.clone()),
                    conversation: None,
                    group: None,
                },
                agent: if client.owner.is_empty() { "ingested".to_owned() } else { client.owner.clone() },
                alias: self.model.clone(),
                dialect: "ingested",
                model: LlmIdentity { provider: String::new(), model: self.model.clone(), version: String::new() },
                request: &request,
                digest: self.digest,
                previous: None,
                side: None,
                project: None,
                no_train,
                no_record: client.no_record,
                observation: None,
            });
            let known = begun.label.as_ref().map(|label| format!("{}/{}", label.run, label.episode));
            episode = episode.or(known);
            let is_last = at + 1 == self.messages.len();
            let answer = self.answer(at, is_last).unwrap_or_else(|| self.plain_answer(at));
            if let Done::Missed(why) = begun.end(crate::http::complete(answer, request.bytes()), None) {
                let refusal = Refusal::new(ErrorKind::Unavailable, format!("the conversation was not recorded: {why}"));
                return Err(Refusal { retry_after: Some(5), ..refusal });
            }
        }
        if self.name.is_none() {
            gateway.recorder.end((&client.owner, None), &name);
        }
        Ok(episode.unwrap_or_default())
    }

    /// An answer with everything that OpenAI's shape says of it: tool calls, log-probs, reasoning.
    fn answer(&self, at: usize, is_last: bool) -> Option<ModelResponse> {
        let mut message = self.raw.get(at)?.clone();
        let logprobs = message.remove("logprobs");
        let finish =
            if message.get("tool_calls").is_some_and(|calls| !calls.is_null()) { "tool_calls" } else { "stop" };
        let choice = value!({"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish});
        let usage = self.usage.clone().filter(|_| is_last);
        let body = value!({"model": self.model, "choices": [choice], "usage": usage});
        openai::response(&body.to_string()).ok()
    }

    /// An answer with its message alone.
    fn plain_answer(&self, at: usize) -> ModelResponse {
        let message = self.messages.get(at).cloned();
        let message = message.unwrap_or_else(|| Message::text(Role::Assistant, clawhost_core::Origin::Policy, ""));
        ModelResponse::new(message, clawhost_core::Usage::default(), "stop")
    }
}

/// A message of an ingested conversation in OpenAI's shape.
fn checked(at: usize, message: Value) -> Result<Map<String, Value>, Refusal> {
    let Value::Object(mut message) = message else { return Err(invalid(format!("messages[{at}]: must be an object"))) };
    match message.get("role").and_then(Value::as_str) {
        Some(role) if ROLES.contains(&role) => {}
        Some(_) => return Err(invalid(format!("messages[{at}].role: must be system, user, assistant or tool"))),
        None => return Err(invalid(format!("messages[{at}].role: must be there"))),
    }
    let has_calls = message.get("tool_calls").is_some_and(|calls| calls.as_array().is_some_and(|all| !all.is_empty()));
    if message.get("content").is_none_or(Value::is_null) && !has_calls {
        return Err(invalid(format!("messages[{at}].content: must be there")));
    }
    if let Some(reasoning) = message.remove("reasoning") {
        message.entry("reasoning_content").or_insert(reasoning);
    }
    Ok(message)
}

/// The guidance that is served now.
async fn guidance(gateway: &Arc<Inner>) -> Result<Guidance, Refusal> {
    let source = gateway.clone();
    let read = tokio::task::spawn_blocking(move || (source.guidance)()).await;
    let failed = |why: String| Refusal::new(ErrorKind::Unavailable, format!("the playbook: {why}"));
    read.map_err(|_| failed("the gateway is stopping".to_owned()))?.map_err(failed)
}

async fn state(State(gateway): State<Arc<Inner>>, headers: HeaderMap) -> Response<Body> {
    let answer = async {
        open_client(&gateway, &headers)?;
        let mut shown = serde_json::to_value(guidance(&gateway).await?).unwrap_or_default();
        let counts = gateway.counts();
        if let Some(object) = shown.as_object_mut() {
            object.insert("learning_status".to_owned(), "idle".into());
            object.insert("last_error".to_owned(), Value::Null);
            let metrics = value!({
                "episodes_collected": counts.episodes, "exchanges_recorded": counts.recorded,
                "exchanges_missed": counts.missed, "sessions_open": counts.sessions,
            });
            object.insert("metrics".to_owned(), metrics);
        }
        Ok(json(200, &shown))
    };
    answer.await.unwrap_or_else(|refusal: Refusal| refused(&refusal))
}
