//! `/v1/responses`: conversations that a request continues by an id, and responses that are read and deleted by theirs.

use super::answer::{Refusal, json};
use super::serve::Inner;
use crate::capture::{Begun, Chain, ChainError, StoredResponse};
use axum::body::Body;
use axum::http::Response;
use clawhost_core::LlmIdentity;
use clawhost_wire::responses::{ResponsesRequest, untranslatable, without_encrypted};
use clawhost_wire::{ClientRequest, ErrorKind, WireError};
use serde_json::{Map, Value, json as value};
use std::sync::Arc;

/// Items of a page of inputs, and the most that a client may ask for, as the dialect has them.
const PAGE: usize = 20;
const LARGEST_PAGE: usize = 100;

/// A request with the conversation that it continues.
pub(crate) struct Continued {
    asked: ResponsesRequest,
    chain: Chain,
}

/// What is kept of a response, until its object is there.
pub(crate) struct Keeper {
    previous: Option<String>,
    model: LlmIdentity,
    is_upstreams: bool,
    input: Vec<Value>,
}

impl Keeper {
    /// Keeps the response with the exchange.
    pub(crate) fn keep(self, begun: &mut Begun, object: Value) {
        let Self { previous, model, is_upstreams, input } = self;
        begun.keep(StoredResponse { previous, model, is_upstreams, input, object });
    }
}

impl Continued {
    /// Finds the conversation. The request is returned with all of it.
    pub(crate) async fn of(
        gateway: &Inner,
        owner: &str,
        asked: ResponsesRequest,
    ) -> Result<(ClientRequest, Self), Refusal> {
        let previous = asked.previous.as_deref();
        let chain = gateway.recorder.responses.chain(&gateway.store, owner, previous).await;
        let chain = chain.map_err(|error| refusal(&error))?;
        let client = asked.after(&chain.items)?;
        Ok((client, Self { asked, chain }))
    }

    /// The id that it continues.
    pub(crate) fn previous(&self) -> Option<&str> {
        self.asked.previous.as_deref()
    }

    /// Fields that a response repeats.
    pub(crate) fn repeated(&self) -> Map<String, Value> {
        self.asked.repeated.clone()
    }

    /// Whether an endpoint made the response that is continued, so that it may know it.
    pub(crate) fn is_known_to(&self, model: &LlmIdentity) -> bool {
        self.chain.last.as_ref().is_none_or(|last| last.is_upstreams && last.model == *model)
    }

    /// The edits by which an endpoint gets the whole conversation instead of an id that it does not know. What only another endpoint can
    /// read is left out.
    pub(crate) fn expanded(&self) -> Vec<(&'static str, String)> {
        let earlier = without_encrypted(self.chain.items.clone());
        let items: Vec<Value> = earlier.into_iter().chain(self.asked.input.iter().cloned()).collect();
        vec![("previous_response_id", Value::Null.to_string()), ("input", Value::Array(items).to_string())]
    }

    /// Checks that a model of another shape can answer.
    pub(crate) fn translatable(&self) -> Result<(), Refusal> {
        let cannot = |what: &str| {
            let why = format!("{what}: the model that is asked has no API of this shape, and the gateway cannot do it");
            Err(Refusal::new(ErrorKind::InvalidRequest, why))
        };
        if let Some(what) = &self.asked.foreign {
            return cannot(what);
        }
        match untranslatable(&self.asked.input).or_else(|| untranslatable(&self.chain.items)) {
            Some((_, kind)) => cannot(&format!("an item of the type `{kind}`")),
            None => Ok(()),
        }
    }

    /// What is to be kept of the response; nothing with `store: false`.
    pub(crate) fn keeper(&self, model: LlmIdentity, is_upstreams: bool) -> Option<Keeper> {
        let Self { asked, .. } = self;
        let keeper = Keeper { previous: asked.previous.clone(), model, is_upstreams, input: asked.input.clone() };
        asked.store.then_some(keeper)
    }
}

fn refusal(error: &ChainError) -> Refusal {
    match error {
        ChainError::Unknown(id) => unknown(id),
        ChainError::TooLong => {
            Refusal::new(ErrorKind::TooLong, "previous_response_id: the conversation is too long to be continued")
        }
        ChainError::Store(error) => {
            Refusal::new(ErrorKind::Internal, format!("stored responses cannot be read: {error}"))
        }
    }
}

fn unknown(id: &str) -> Refusal {
    let shown: String = id.chars().take(100).collect();
    Refusal::new(ErrorKind::NotFound, format!("there is no response `{shown}` here"))
}

async fn find(gateway: &Inner, owner: &str, id: &str) -> Result<Arc<StoredResponse>, Refusal> {
    let found = gateway.recorder.responses.find(&gateway.store, owner, id).await;
    found.map_err(|error| refusal(&ChainError::Store(error)))?.ok_or_else(|| unknown(id))
}

/// `GET /responses/{id}`.
pub(crate) async fn read(gateway: &Inner, owner: &str, id: &str) -> Result<Response<Body>, Refusal> {
    Ok(json(200, &find(gateway, owner, id).await?.object))
}

/// `DELETE /responses/{id}`.
pub(crate) async fn delete(gateway: &Inner, owner: &str, id: &str) -> Result<Response<Body>, Refusal> {
    find(gateway, owner, id).await?;
    let cannot = |error| Refusal::new(ErrorKind::Internal, format!("the deletion cannot be recorded: {error}"));
    gateway.recorder.delete_response(owner, id).map_err(cannot)?;
    Ok(json(200, &value!({"id": id, "object": "response.deleted", "deleted": true})))
}

/// `POST /responses/{id}/cancel`: nothing runs in the background here.
pub(crate) async fn cancel(gateway: &Inner, owner: &str, id: &str) -> Result<Response<Body>, Refusal> {
    find(gateway, owner, id).await?;
    Err(Refusal::new(ErrorKind::InvalidRequest, "only a response in the background can be cancelled"))
}

/// Which items of an input are wanted.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct Page {
    limit: Option<usize>,
    order: Option<String>,
    after: Option<String>,
}

/// `GET /responses/{id}/input_items`, the latest first unless `order` is `asc`.
pub(crate) async fn input_items(
    gateway: &Inner,
    owner: &str,
    id: &str,
    page: &Page,
) -> Result<Response<Body>, Refusal> {
    let limit = page.limit.unwrap_or(PAGE);
    if !(1..=LARGEST_PAGE).contains(&limit) {
        let why = format!("limit: must be from 1 to {LARGEST_PAGE}");
        return Err(WireError::Request("limit".to_owned(), why).into());
    }
    let response = find(gateway, owner, id).await?;
    let mut items: Vec<Value> = response.input.iter().enumerate().map(|(at, item)| named(id, at, item)).collect();
    if page.order.as_deref() != Some("asc") {
        items.reverse();
    }
    if let Some(after) = &page.after {
        let at = items.iter().position(|item| item.get("id").is_some_and(|id| id == after.as_str()));
        let at = at.ok_or_else(|| Refusal::new(ErrorKind::NotFound, "after: there is no such item"))?;
        items.drain(..=at);
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    let id = |item: Option<&Value>| item.and_then(|item| item.get("id")).cloned();
    let (first, last) = (id(items.first()), id(items.last()));
    Ok(json(200, &value!({"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": has_more})))
}

/// An item with the fields that the dialect gives it in a list: an id, a type, content as parts.
fn named(response: &str, at: usize, item: &Value) -> Value {
    let mut item = item.clone();
    let Some(fields) = item.as_object_mut() else { return item };
    fields.entry("id").or_insert_with(|| format!("item_{}{at:04x}", response.trim_start_matches("resp_")).into());
    fields.entry("type").or_insert_with(|| "message".into());
    let text = fields.get("content").and_then(Value::as_str).map(str::to_owned);
    if let Some(text) = text {
        let kind =
            if fields.get("role").is_some_and(|role| role == "assistant") { "output_text" } else { "input_text" };
        fields.insert("content".to_owned(), value!([{"type": kind, "text": text}]));
    }
    item
}
