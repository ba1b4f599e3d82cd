//! Responses that clients may read, continue and delete by their ids: the recent ones in memory, all of them in the store.

use crate::store::CaptureStore;
use clawhost_capture::Redaction;
use clawhost_core::{LlmIdentity, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Responses in memory: those of the time until they are in the store, and some more.
const RECENT: usize = 512;
/// Their bytes in memory.
const RECENT_BYTES: usize = 32 << 20;
/// Responses of one conversation that a request may continue. Agents rarely take a thousand turns.
const CHAIN: usize = 2_000;
/// Bytes of the conversation that a request continues.
const CHAIN_BYTES: usize = 32 << 20;

/// A response that can be read later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredResponse {
    /// The response that it continued.
    pub(crate) previous: Option<String>,
    /// The model that was asked.
    pub(crate) model: LlmIdentity,
    /// Whether the endpoint of the model made it, and may know it by its id.
    pub(crate) is_upstreams: bool,
    /// Items of its input.
    pub(crate) input: Vec<Value>,
    /// The object that clients get.
    pub(crate) object: Value,
}

impl StoredResponse {
    /// A redacted copy, for the store.
    pub(crate) fn redacted(&self, redaction: &Redaction) -> Self {
        let mut copy = self.clone();
        copy.input.iter_mut().chain([&mut copy.object]).for_each(|value| redaction.document(value));
        copy
    }

    /// Items of its output.
    pub(crate) fn output(&self) -> &[Value] {
        self.object.get("output").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Why a conversation cannot be continued.
#[derive(Debug)]
pub(crate) enum ChainError {
    /// There is no such response of this client.
    Unknown(String),
    /// The conversation is too long.
    TooLong,
    /// The store cannot be read.
    Store(StoreError),
}

/// A conversation that a request continues.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// Its items, the oldest first.
    pub(crate) items: Vec<Value>,
    /// Its last response.
    pub(crate) last: Option<Arc<StoredResponse>>,
}

type Key = (String, String);

#[derive(Default)]
struct Recent {
    /// `None`: it was deleted.
    known: HashMap<Key, Option<Arc<StoredResponse>>>,
    /// The oldest first, with their bytes.
    order: VecDeque<(Key, usize)>,
    bytes: usize,
}

/// The responses of a gateway.
#[derive(Default)]
pub(crate) struct Responses {
    recent: Mutex<Recent>,
}

impl Responses {
    fn recent(&self) -> std::sync::MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers one, or its deletion. `bytes`: its size in the record.
    pub(crate) fn remember(&self, owner: &str, id: &str, response: Option<StoredResponse>, bytes: usize) {
        let key = (owner.to_owned(), id.to_owned());
        let mut recent = self.recent();
        recent.known.insert(key.clone(), response.map(Arc::new));
        recent.order.push_back((key, bytes));
        recent.bytes += bytes;
        while recent.order.len() > RECENT || recent.bytes > RECENT_BYTES {
            let Some((oldest, bytes)) = recent.order.pop_front() else { break };
            recent.bytes -= bytes;
            // Noted twice, it is kept for the later time.
            if !recent.order.iter().any(|(key, _)| *key == oldest) {
                recent.known.remove(&oldest);
            }
        }
    }

    /// Finds one.
    pub(crate) async fn find(
        &self,
        store: &Arc<CaptureStore>,
        owner: &str,
        id: &str,
    ) -> Result<Option<Arc<StoredResponse>>, StoreError> {
        if let Some(known) = self.recent().known.get(&(owner.to_owned(), id.to_owned())) {
            return Ok(known.clone());
        }
        let (store, owner, id) = (store.clone(), owner.to_owned(), id.to_owned());
        let read = move || store.reader()?.response(&owner, &id);
        match tokio::task::spawn_blocking(read).await {
            Ok(document) => Ok(document?.and_then(|text| serde_json::from_str(&text).ok()).map(Arc::new)),
            // The process ends.
            Err(_) => Ok(None),
        }
    }

    /// The conversation up to a response.
    pub(crate) async fn chain(
        &self,
        store: &Arc<CaptureStore>,
        owner: &str,
        last: Option<&str>,
    ) -> Result<Chain, ChainError> {
        let mut responses: Vec<Arc<StoredResponse>> = Vec::new();
        let mut next = last.map(str::to_owned);
        let mut bytes = 0;
        while let Some(id) = next {
            let found = self.find(store, owner, &id).await.map_err(ChainError::Store)?;
            let found = found.ok_or(ChainError::Unknown(id))?;
            let items = found.input.iter().chain(found.output());
            bytes += items.map(|item| item.to_string().len()).sum::<usize>();
            if responses.len() == CHAIN || bytes > CHAIN_BYTES {
                return Err(ChainError::TooLong);
            }
            next = found.previous.clone();
            responses.push(found);
        }
        let items = responses.iter().rev().flat_map(|response| response.input.iter().chain(response.output()));
        Ok(Chain { items: items.cloned().collect(), last: responses.into_iter().next() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stored(text: &str) -> StoredResponse {
        let model = LlmIdentity { provider: String::new(), model: String::new(), version: String::new() };
        let object = json!({"output": [{"role": "assistant", "content": text}]});
        StoredResponse { previous: None, model, is_upstreams: false, input: Vec::new(), object }
    }

    #[test]
    fn the_oldest_are_forgotten_and_deletions_are_remembered() {
        let responses = Responses::default();
        let known = |id: &str| responses.recent().known.get(&(String::new(), id.to_owned())).map(Option::is_some);
        responses.remember("", "a", Some(stored("a")), 10);
        responses.remember("", "a", None, 0);
        assert_eq!(known("a"), Some(false));
        for number in 0..RECENT - 1 {
            responses.remember("", &number.to_string(), Some(stored("x")), 10);
        }
        assert_eq!(known("a"), Some(false), "its later note is recent");
        responses.remember("", "b", Some(stored("b")), 10);
        assert_eq!((known("a"), known("b"), known("0")), (None, Some(true), Some(true)));
        responses.remember("", "large", Some(stored("c")), RECENT_BYTES);
        assert_eq!((known("b"), known("large")), (None, Some(true)));
        let recent = responses.recent();
        assert_eq!((recent.known.len(), recent.order.len(), recent.bytes), (1, 1, RECENT_BYTES));
    }
}
