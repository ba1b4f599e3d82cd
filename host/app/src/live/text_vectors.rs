//! The vectors of texts that guidance is made of, and of what sessions ask.
//!
//! Texts are embedded in the background, each once, and kept in memory. A session waits for the vector of its own text for a short time alone. If
//! the endpoint fails or is slow, the session is guided by words, and the endpoint is left alone for a while: a session is never refused for it.

use clawhost_core::{Digest, Embedding, EmbeddingModel, ModelError};
use clawhost_learn::guidance::GuidanceSources;
use clawhost_learn::memory::ScopeMemory;
use clawhost_learn::playbook::prose_text;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Longest time that a session waits for the vector of its text: hardly noticed before an answer that takes seconds, and some ten times what an
/// endpoint needs for one text.
const SESSION_TIME: Duration = Duration::from_millis(300);
/// Longest time for the vectors of a batch.
const BATCH_TIME: Duration = Duration::from_secs(60);
/// Texts that are embedded with one request: well below what any endpoint takes.
const BATCH: usize = 32;
/// Most bytes of a text that are embedded: some 500 tokens, the context of common small models. The rest of a longer text is cut off.
pub(super) const TEXT_BYTES: usize = 2_000;
/// Most texts that wait.
const WAITING: usize = 10_000;
/// Most numbers of all vectors that are kept: 64 MiB, some 10,000 texts of 1,536 numbers. What was used least recently goes first.
const NUMBERS: usize = 16 << 20;
/// Texts that are refused one after the other until the endpoint counts as out of order: it may have another model, or none that has vectors.
const DOUBTFUL: usize = 8;
/// Milliseconds for which an endpoint that failed is left alone.
const REST_MS: u64 = 10_000;

/// A vector that is kept.
struct Kept {
    vector: Arc<Embedding>,
    /// The number of its last use.
    used: u64,
}

/// Texts that wait for a request.
#[derive(Clone)]
struct Waiting {
    key: Digest,
    text: String,
    /// Whether it is asked for alone, because a batch with it was refused.
    alone: bool,
}

#[derive(Default)]
struct State {
    /// The model, with the digest of its identity. `None`: there are no vectors.
    model: Option<(Arc<dyn EmbeddingModel>, Digest)>,
    /// How often the model was replaced. What an earlier one answers late is of no use.
    generation: u64,
    kept: BTreeMap<Digest, Kept>,
    numbers: usize,
    /// The length of the vectors that are kept.
    dimensions: usize,
    /// Whether vectors were dropped because the endpoint has a model with others now.
    is_emptied: bool,
    /// Texts that the model refused. They are not sent again.
    refused: BTreeSet<Digest>,
    /// Texts that it refused since it took one. It may refuse all.
    doubtful: Vec<Waiting>,
    uses: u64,
    waiting: VecDeque<Waiting>,
    /// The keys of the texts in `waiting` and in the request under way.
    queued: BTreeSet<Digest>,
    outage: Outage,
}

/// Failures since the last answer.
#[derive(Default)]
struct Outage {
    /// Unix time in milliseconds before which sessions do not ask.
    rests_until: u64,
    has_failed: bool,
    /// Whether it refuses texts of guidance.
    refuses: bool,
    /// Sessions that were guided by words alone.
    sessions: u64,
}

/// The vectors of texts by an embedding model that may change.
#[derive(Default)]
pub(super) struct TextVectors {
    state: Mutex<State>,
    asked: Notify,
}

/// The vector of what a session asks.
pub(super) enum Asked {
    /// There is no embedding model, or nothing to compare with.
    Nothing,
    /// The vector.
    Vector(Embedding),
    /// The endpoint did not give it in time.
    Failed,
}

/// The beginning of a text that is embedded.
fn cut(text: &str) -> &str {
    let end = (0..=TEXT_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default().trim()
}

/// The texts that may be compared with what a session asks.
pub(super) fn texts<'a>(sources: &'a GuidanceSources, memory: &'a [ScopeMemory]) -> impl Iterator<Item = &'a str> {
    sources.prose_texts().chain(remembered_texts(memory))
}

/// Those of them that are remembered.
pub(super) fn remembered_texts(memory: &[ScopeMemory]) -> impl Iterator<Item = &str> {
    memory.iter().flat_map(|scope| &scope.memories).filter_map(|memory| prose_text(&memory.lesson))
}

impl State {
    /// The key of a text: two models give two vectors.
    fn key(&self, text: &str) -> Option<Digest> {
        self.model.as_ref().map(|(_, model)| model.extended(cut(text).as_bytes()))
    }

    fn vector(&mut self, text: &str) -> Option<Arc<Embedding>> {
        let key = self.key(text)?;
        self.uses += 1;
        let uses = self.uses;
        let kept = self.kept.get_mut(&key)?;
        kept.used = uses;
        Some(kept.vector.clone())
    }

    /// Drops all vectors if this one cannot be compared with them: the endpoint has another model. Returns whether it can.
    fn compare(&mut self, vector: &Embedding) -> bool {
        let dimensions = vector.numbers().len();
        let before = std::mem::replace(&mut self.dimensions, dimensions);
        if before == 0 || before == dimensions {
            return true;
        }
        tracing::warn!("the model of skills.embeddings gives vectors of another length; all are made anew");
        self.kept.clear();
        self.refused.clear();
        (self.numbers, self.is_emptied) = (0, true);
        false
    }

    fn keep(&mut self, key: Digest, vector: Embedding) {
        self.compare(&vector);
        self.uses += 1;
        self.numbers += vector.numbers().len();
        let before = self.kept.insert(key, Kept { vector: Arc::new(vector), used: self.uses });
        self.numbers -= before.map_or(0, |kept| kept.vector.numbers().len());
        while self.numbers > NUMBERS
            && let Some(oldest) = self.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| *key)
        {
            self.numbers -= self.kept.remove(&oldest).map_or(0, |kept| kept.vector.numbers().len());
        }
    }

    /// Puts texts that have no vector into the queue. Returns whether there are some.
    fn want<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> bool {
        for text in texts {
            let Some(key) = self.key(text) else { return false };
            if self.kept.contains_key(&key)
                || self.refused.contains(&key)
                || self.queued.len() >= WAITING
                || !self.queued.insert(key)
            {
                continue;
            }
            self.waiting.push_back(Waiting { key, text: cut(text).to_owned(), alone: false });
        }
        !self.waiting.is_empty()
    }

    /// The texts of the next request.
    fn batch(&mut self) -> Option<(Arc<dyn EmbeddingModel>, Vec<Waiting>)> {
        let (model, _) = self.model.as_ref()?;
        let alone = self.waiting.front()?.alone;
        let together = self.waiting.iter().take(BATCH).take_while(|waiting| !waiting.alone).count();
        let batch = self.waiting.drain(..if alone { 1 } else { together }).collect();
        Some((model.clone(), batch))
    }

    fn answered(&mut self) {
        if std::mem::take(&mut self.outage.has_failed) {
            let sessions = std::mem::take(&mut self.outage.sessions);
            tracing::info!("guidance is found by meaning again; {sessions} sessions were guided by words alone");
        }
        (self.outage.rests_until, self.outage.refuses) = (0, false);
        // It takes others, so these are not sent again.
        for Waiting { key, .. } in std::mem::take(&mut self.doubtful) {
            self.queued.remove(&key);
            if self.refused.len() < WAITING {
                self.refused.insert(key);
            }
        }
    }

    /// Notes that a text was refused alone. Returns whether others may be taken.
    fn refused(&mut self, text: Vec<Waiting>, why: &ModelError, now_ms: u64) -> bool {
        self.doubtful.extend(text);
        if self.doubtful.len() < DOUBTFUL {
            self.warn_of_refusal(why);
            return true;
        }
        let doubtful = std::mem::take(&mut self.doubtful);
        doubtful.into_iter().rev().for_each(|waiting| self.waiting.push_front(waiting));
        self.failed(&why.to_string(), now_ms);
        false
    }

    /// Leaves texts out until they are wanted again.
    fn left_out(&mut self, texts: &[Waiting], why: &ModelError) {
        for Waiting { key, .. } in texts {
            self.queued.remove(key);
        }
        self.warn_of_refusal(why);
    }

    fn warn_of_refusal(&mut self, why: &ModelError) {
        if !std::mem::replace(&mut self.outage.refuses, true) {
            tracing::warn!("a text of guidance has no vector and is found by words alone: {why}");
        }
    }

    /// Notes a failure. It is logged once for each outage.
    fn failed(&mut self, why: &str, now_ms: u64) {
        self.outage.rests_until = now_ms.saturating_add(REST_MS);
        if !std::mem::replace(&mut self.outage.has_failed, true) {
            tracing::warn!("guidance is found by words alone until the model of skills.embeddings answers: {why}");
        }
    }
}

impl TextVectors {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes another model. Returns whether it is another one.
    pub(super) fn set_model(&self, model: Option<Arc<dyn EmbeddingModel>>) -> bool {
        let mut state = self.lock();
        let is_same = match (&state.model, &model) {
            (None, None) => true,
            (Some((one, _)), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        if is_same {
            return false;
        }
        state.model = model.map(|model| {
            let identity = model.identity();
            let digest = Digest::of_json(&serde_json::json!(identity));
            (model, digest)
        });
        state.generation += 1;
        state.dimensions = 0;
        state.waiting.clear();
        state.queued.clear();
        state.refused.clear();
        state.doubtful.clear();
        state.outage = Outage::default();
        true
    }

    /// Has vectors made of texts that have none. It does not wait for them.
    pub(super) fn want<'t>(&self, texts: impl Iterator<Item = &'t str>) {
        if self.lock().want(texts) {
            self.asked.notify_one();
        }
    }

    /// Whether vectors were dropped since the last question, and must be wanted again.
    pub(super) fn is_emptied(&self) -> bool {
        std::mem::take(&mut self.lock().is_emptied)
    }

    /// The vector of a text, if it was made.
    pub(super) fn vector(&self, text: &str) -> Option<Arc<Embedding>> {
        self.lock().vector(text)
    }

    /// The vector of what a session asks, which is compared with these texts. Without one of them that has a vector, nothing is sent.
    pub(super) async fn asked<'t>(&self, text: &str, mut texts: impl Iterator<Item = &'t str>, now_ms: u64) -> Asked {
        let (model, generation) = {
            let mut state = self.lock();
            let Some((model, _)) = state.model.clone().filter(|_| !cut(text).is_empty()) else { return Asked::Nothing };
            if !texts.any(|text| state.vector(text).is_some()) {
                return Asked::Nothing;
            }
            if now_ms < state.outage.rests_until {
                state.outage.sessions += 1;
                return Asked::Failed;
            }
            (model, state.generation)
        };
        let answer = match tokio::time::timeout(SESSION_TIME, model.embed(&[cut(text).to_owned()])).await {
            Ok(answer) => answer,
            Err(_) => Err(ModelError::Unavailable(format!("no answer within {} ms", SESSION_TIME.as_millis()))),
        };
        let mut state = self.lock();
        if state.generation != generation {
            return Asked::Failed;
        }
        match answer.map(|vectors| vectors.into_iter().next()) {
            Ok(Some(vector)) => {
                state.answered();
                if state.compare(&vector) { Asked::Vector(vector) } else { Asked::Failed }
            }
            Ok(None) => Asked::Nothing,
            // It is the text of this session that the model does not take.
            Err(ModelError::Refused(_)) => Asked::Failed,
            Err(why) => {
                state.outage.sessions += 1;
                state.failed(&why.to_string(), now_ms);
                Asked::Failed
            }
        }
    }

    /// Makes vectors until it is dropped. `now_ms`: Unix time in milliseconds.
    pub(super) async fn run(&self, now_ms: impl Fn() -> u64 + Send) {
        loop {
            match self.make(&now_ms).await {
                None => self.asked.notified().await,
                Some(true) => {}
                Some(false) => tokio::time::sleep(Duration::from_millis(REST_MS)).await,
            }
        }
    }

    /// Makes the vectors of the next batch. `None`: nothing waits. Returns whether the endpoint answered.
    pub(super) async fn make(&self, now_ms: impl Fn() -> u64) -> Option<bool> {
        let ((model, batch), generation) = {
            let mut state = self.lock();
            (state.batch()?, state.generation)
        };
        let texts: Vec<String> = batch.iter().map(|waiting| waiting.text.clone()).collect();
        let answer = match tokio::time::timeout(BATCH_TIME, model.embed(&texts)).await {
            Ok(answer) => answer,
            Err(_) => Err(ModelError::Unavailable(format!("no answer within {} s", BATCH_TIME.as_secs()))),
        };
        let mut state = self.lock();
        if state.generation != generation {
            return Some(true);
        }
        match answer {
            Ok(vectors) => {
                for (waiting, vector) in batch.into_iter().zip(vectors) {
                    state.queued.remove(&waiting.key);
                    state.keep(waiting.key, vector);
                }
                state.answered();
                Some(true)
            }
            // One text of it may be the reason.
            Err(ModelError::Refused(_) | ModelError::InvalidResponse(_)) if batch.len() > 1 => {
                let alone = batch.into_iter().map(|waiting| Waiting { alone: true, ..waiting });
                state.waiting.extend(alone);
                Some(true)
            }
            Err(error @ ModelError::Refused(_)) => Some(state.refused(batch, &error, now_ms())),
            Err(error @ ModelError::InvalidResponse(_)) => {
                state.left_out(&batch, &error);
                Some(false)
            }
            Err(error) => {
                batch.into_iter().rev().for_each(|waiting| state.waiting.push_front(waiting));
                state.failed(&error.to_string(), now_ms());
                Some(false)
            }
        }
    }
}

#[cfg(test)]
mod tests;
