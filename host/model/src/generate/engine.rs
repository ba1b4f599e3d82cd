//! Continuous batching: in each round, one thread computes the next token of every active request.
//!
//! A request joins at the next round and leaves when its answer ends; no request waits until another one has finished.
//! An answer does not depend on the other requests ([`crate::cpu`]; on a device, except for rounding). All of it is
//! computed with the weights that were current when the request joined. New weights apply to later requests.
//!
//! Keys and values of all active requests fit a bound ([`Room`]), even if every answer becomes as long as it may. Requests beyond it wait in order of
//! arrival.
//!
//! Requests of one partition share keys and values: of answers that ended, and of prompts that are computed now. Those of
//! two partitions share none, and neither waits for the other's prompt, so nobody learns from `reused` or from the time of an
//! answer what others have asked.

use super::model::{Memory, Model, NewTokens};
use super::prefixes::Prefixes;
use super::request::{Answer, Finish, Request};
use super::room::Room;
use super::sampler::{Drawn, Sampler};
use super::scores::{self, Scored};
use crate::{GrammarState, LocalModelError};
use clawhost_core::Digest;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::oneshot;

/// Prompt tokens of a request that are computed in one round.
pub(super) const PREFILL: usize = 256;
/// Multiply-adds of the prompt tokens of all requests that are computed in one round, about a second of a laptop's. It bounds how long other requests wait
/// for their next token, and how long the engine takes to end.
const PREFILL_WORK: u64 = 1 << 37;
/// Largest number of active requests, however small. Further requests wait in order of arrival.
pub const MOST_AT_ONCE: usize = 1024;

/// Largest number of active requests with a grammar: their masks are computed one after the other, and each takes up to 8 ms and 20 MB.
const MOST_WITHIN_GRAMMARS: usize = 64;

/// Weights with their version number.
#[derive(Debug)]
pub struct Version {
    /// Counts publications.
    pub number: u64,
    /// Identifies the weights.
    pub digest: Digest,
    /// The model.
    pub model: Model,
}

/// Sees every token of an answer as it is drawn, on the engine's thread. `Break` ends the answer with that token.
/// Tokens come in order; the function must be fast.
pub type Watch = Box<dyn FnMut(&Drawn) -> ControlFlow<()> + Send>;

struct Asked {
    request: Request,
    watch: Option<Watch>,
    reply: Reply,
}

/// A request that waits.
struct Waiting {
    version: Arc<Version>,
    asked: Asked,
    /// For capacity, before all that came later; else until another request has computed their common prompt.
    for_room: bool,
}

type Reply = oneshot::Sender<Result<Answer, LocalModelError>>;

/// Answers requests until it is dropped.
#[derive(Debug)]
pub struct Engine {
    asked: Option<Sender<Vec<Asked>>>,
    current: Arc<RwLock<Arc<Version>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Engine {
    /// Starts an engine with these weights.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn new(version: Version) -> Result<Self, LocalModelError> {
        Self::within(version, Room::of_machine())
    }

    /// The same with a bound on the memory of keys and values.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn within(version: Version, room: Room) -> Result<Self, LocalModelError> {
        Self::start(version, room, PREFILL_WORK)
    }

    /// The same with a bound on the multiply-adds of prompt tokens in one round.
    pub(super) fn start(version: Version, room: Room, prefill: u64) -> Result<Self, LocalModelError> {
        let current = Arc::new(RwLock::new(Arc::new(version)));
        let (asked, requests) = channel();
        let seen = current.clone();
        let thread = std::thread::Builder::new()
            .name("generate".to_owned())
            .spawn(move || {
                let (running, waiting, prefixes) = (Vec::new(), Vec::new(), Prefixes::default());
                Rounds { current: seen, requests, running, waiting, prefixes, room, prefill }.run();
            })
            .map_err(|error| LocalModelError::Device { name: "cpu".into(), why: error.to_string() })?;
        Ok(Self { asked: Some(asked), current, thread: Some(thread) })
    }

    /// The current weights: new requests are answered with them.
    pub fn current(&self) -> Arc<Version> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the weights from the next request on.
    pub fn publish(&self, version: Version) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(version);
    }

    /// Answers a request. Dropping the future cancels it.
    ///
    /// # Errors
    /// The prompt is empty, has a token outside of the vocabulary, or leaves no room for an answer; or the device
    /// failed.
    pub async fn ask(&self, request: Request) -> Result<Answer, LocalModelError> {
        self.ask_watched(request, None).await
    }

    /// The same, with a function that sees the tokens as they are drawn.
    ///
    /// # Errors
    /// As [`Engine::ask`].
    pub async fn ask_watched(&self, request: Request, watch: Option<Watch>) -> Result<Answer, LocalModelError> {
        match self.ask_many(vec![(request, watch)])?.pop() {
            Some(answer) => answer.await.map_err(|_| gone())?,
            None => Err(gone()),
        }
    }

    /// Answers several requests at once. A prompt that several of them share in one partition is computed once.
    ///
    /// # Errors
    /// As [`Engine::ask`].
    pub fn ask_many(
        &self,
        requests: Vec<(Request, Option<Watch>)>,
    ) -> Result<Vec<oneshot::Receiver<Result<Answer, LocalModelError>>>, LocalModelError> {
        let (mut asked, mut answers) = (Vec::with_capacity(requests.len()), Vec::with_capacity(requests.len()));
        for (request, watch) in requests {
            self.check(&request)?;
            let (reply, answer) = oneshot::channel();
            asked.push(Asked { request, watch, reply });
            answers.push(answer);
        }
        self.asked.as_ref().ok_or_else(gone)?.send(asked).map_err(|_| gone())?;
        Ok(answers)
    }

    pub(super) fn check(&self, request: &Request) -> Result<(), LocalModelError> {
        let config = self.current().model.config().clone();
        if request.prompt.is_empty() {
            return Err(LocalModelError::Samples("an empty prompt; at least one token is needed".into()));
        }
        if request.prompt.len() + request.max_tokens.min(1) > config.context {
            return Err(LocalModelError::TooLong { tokens: request.prompt.len(), context: config.context });
        }
        if let Some(token) = request.prompt.iter().find(|token| **token as usize >= config.vocabulary) {
            let why = format!("the prompt has the token {token}; the model knows {}", config.vocabulary);
            return Err(LocalModelError::Samples(why));
        }
        Ok(())
    }
}

/// The engine's thread has ended.
fn gone() -> LocalModelError {
    LocalModelError::Device { name: "cpu".into(), why: "the thread that answers has ended".into() }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.asked.take());
        if let Some(thread) = self.thread.take() {
            // The thread ends when it next reads the channel. If it panicked, its waiting requests were answered with
            // an error.
            let _ = thread.join();
        }
    }
}

/// An active request.
struct Running {
    version: Arc<Version>,
    request: Request,
    watch: Option<Watch>,
    /// The watcher ended the answer.
    stopped: bool,
    reply: Reply,
    sampler: Sampler,
    grammar: Option<GrammarState>,
    cache: Memory,
    /// The tokens to compute next: the rest of the prompt, or the last token.
    next: Vec<u32>,
    drawn: Vec<Drawn>,
    scores: Vec<Scored>,
    reused: usize,
    /// Bytes that its keys and values take when the answer is as long as it may be.
    bytes: u64,
}

struct Rounds {
    current: Arc<RwLock<Arc<Version>>>,
    requests: Receiver<Vec<Asked>>,
    running: Vec<Running>,
    waiting: Vec<Waiting>,
    prefixes: Prefixes,
    room: Room,
    prefill: u64,
}

impl Rounds {
    fn run(mut self) {
        loop {
            if !self.admit() {
                return;
            }
            // Cancelled requests free their capacity.
            self.running.retain(|one| !one.reply.is_closed());
            self.waiting.retain(|one| !one.asked.reply.is_closed());
            self.round();
        }
    }

    /// Accepts new requests. If none is active, waits for one. Returns false when all senders are gone.
    fn admit(&mut self) -> bool {
        self.join_waiting();
        if self.running.is_empty() {
            match self.requests.recv() {
                Ok(asked) => self.join_all(asked),
                Err(_) => return false,
            }
        }
        while self.running.len() + self.waiting.len() < self.most_at_once() {
            match self.requests.try_recv() {
                Ok(asked) => self.join_all(asked),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return !self.running.is_empty(),
            }
        }
        true
    }

    /// Requests that waited for another one's prompt join when it is computed, or when that request is gone; those that waited for capacity, in order, when
    /// there is enough.
    fn join_waiting(&mut self) {
        for Waiting { version, asked, .. } in std::mem::take(&mut self.waiting) {
            self.join(version, asked);
        }
    }

    fn most_at_once(&self) -> usize {
        self.current.read().unwrap_or_else(PoisonError::into_inner).model.most_at_once().min(MOST_AT_ONCE)
    }

    fn join_all(&mut self, asked: Vec<Asked>) {
        let version = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        asked.into_iter().for_each(|asked| self.join(version.clone(), asked));
    }

    fn join(&mut self, version: Arc<Version>, asked: Asked) {
        // Scores need the logits of every token, which no other request computes.
        let scores = asked.request.max_tokens == 0;
        let known = !scores && self.running.iter().any(|one| one.computes(&version, &asked.request));
        let whole = asked.request.prompt.len().saturating_add(asked.request.max_tokens);
        let bytes = version.model.bytes_of(whole.min(version.model.config().context));
        let fits = !self.waiting.iter().any(|one| one.for_room)
            && self.running.len() < self.most_at_once()
            && (asked.request.grammar.is_none() || self.within_grammars() < MOST_WITHIN_GRAMMARS)
            && self.room.fits(self.running.iter().map(|one| one.bytes), bytes);
        if known || !fits {
            self.waiting.push(Waiting { version, asked, for_room: !known });
            return;
        }
        let Asked { request, watch, reply } = asked;
        let weights = version.digest.prefix_u64();
        if Arc::ptr_eq(&version, &self.current.read().unwrap_or_else(PoisonError::into_inner)) {
            self.prefixes.only(weights);
        }
        let cache = if scores { None } else { self.known_beginning(&version, &request) };
        let cache = cache.unwrap_or_else(|| version.model.memory());
        let reused = cache.tokens().len();
        let next = request.prompt.get(reused..).unwrap_or_default().to_vec();
        let sampler = Sampler::new(request.sampling.clone(), &request.prompt, request.seed, request.choice);
        let grammar = request.grammar.as_ref().map(|grammar| grammar.begin());
        self.running.push(Running {
            version,
            request,
            watch,
            stopped: false,
            reply,
            sampler,
            grammar,
            cache,
            next,
            drawn: Vec::new(),
            scores: Vec::new(),
            reused,
            bytes,
        });
    }

    /// Active requests whose answers have a grammar.
    fn within_grammars(&self) -> usize {
        self.running.iter().filter(|one| one.grammar.is_some()).count()
    }

    /// A kept cache of the beginning of a prompt, or a copy of the state of an active request.
    fn known_beginning(&mut self, version: &Arc<Version>, request: &Request) -> Option<Memory> {
        let kept = self.prefixes.take(version.digest.prefix_u64(), request.partition, &request.prompt);
        kept.filter(|cache| version.model.knows(cache)).or_else(|| self.copied(version, request))
    }

    /// A copy of the state of an active request with the same prompt: members of a group share it.
    fn copied(&self, version: &Arc<Version>, request: &Request) -> Option<Memory> {
        let shared = |one: &&Running| one.cache.tokens().len() > WORTH_COPYING && one.shares(version, request);
        let one = self.running.iter().find(shared)?;
        version.model.copy(&one.cache, request.prompt.len() - 1)
    }

    /// Computes one more token of every active request.
    fn round(&mut self) {
        let mut versions: Vec<Arc<Version>> = Vec::new();
        for one in &self.running {
            if !versions.iter().any(|known| Arc::ptr_eq(known, &one.version)) {
                versions.push(one.version.clone());
            }
        }
        // Requests that drew a token, or have scored their prompt.
        let mut drawn: Vec<bool> = vec![false; self.running.len()];
        let mut failed: BTreeMap<usize, LocalModelError> = BTreeMap::new();
        for version in versions {
            let mut work = Vec::new();
            let mut places = Vec::new();
            let vocabulary = version.model.config().vocabulary;
            // Shared in the order of arrival: logits of many texts would fill the memory.
            let mut scored = scores::positions(vocabulary);
            let mut prompts = prompt_tokens(self.prefill, version.model.config().parameters());
            for (place, one) in self.running.iter_mut().enumerate() {
                if !Arc::ptr_eq(&one.version, &version) {
                    continue;
                }
                let mut count = one.next.len().min(PREFILL);
                let every = one.request.max_tokens == 0;
                if every {
                    count = count.min(version.model.scored_at_once()).min(scored);
                }
                if one.next.len() > 1 {
                    // In the order of arrival, too. The next token of an answer never waits.
                    count = count.min(prompts);
                    prompts -= count;
                }
                if every {
                    scored -= count;
                }
                if count > 0 {
                    work.push(NewTokens {
                        memory: &mut one.cache,
                        tokens: one.next.get(..count).unwrap_or_default(),
                        every,
                    });
                    places.push((place, count));
                }
            }
            let logits = match version.model.forward(work) {
                Ok(logits) => logits,
                Err(error) => {
                    for (place, _) in places {
                        failed.insert(place, again(&error));
                    }
                    continue;
                }
            };
            let mut drawing = Vec::new();
            for ((place, count), logits) in places.into_iter().zip(logits) {
                let Some(one) = self.running.get_mut(place) else { continue };
                one.next.drain(..count);
                let is_last = one.next.is_empty();
                if one.request.max_tokens > 0 && is_last {
                    drawing.push((place, logits));
                    continue;
                }
                if !logits.iter().all(|logit| logit.is_finite()) {
                    failed.insert(place, LocalModelError::Logits);
                    continue;
                }
                if one.request.max_tokens == 0 {
                    let from = one.request.prompt.len() - one.next.len() - count + 1;
                    let tokens = one.request.prompt.get(from..).unwrap_or_default();
                    let Request { sampling, alternatives, .. } = &one.request;
                    let logits = (logits.as_slice(), vocabulary);
                    one.scores.extend(scores::scores(logits, tokens, sampling.temperature, *alternatives));
                    drawn.get_mut(place).into_iter().for_each(|drawn| *drawn = is_last);
                }
            }
            for (place, token) in draw_all(&mut self.running, drawing) {
                let Some(one) = self.running.get_mut(place) else { continue };
                let token = match token {
                    Ok(token) => token,
                    Err(error) => {
                        failed.insert(place, error);
                        continue;
                    }
                };
                one.next.push(token.token);
                one.stopped = one.watch.as_mut().is_some_and(|watch| watch(&token).is_break());
                one.drawn.push(token);
                drawn.get_mut(place).into_iter().for_each(|drawn| *drawn = true);
            }
        }
        // Before the request that they waited for leaves: short answers end at once.
        self.join_waiting();
        drawn.resize(self.running.len(), false);
        let mut ends = Vec::new();
        let mut results = (0..).zip(drawn).map(|(place, drew)| (failed.remove(&place), drew));
        // Requests that go on stay where they are: most rounds end none.
        let ended = self.running.extract_if(.., |one| {
            let end = match results.next() {
                Some((Some(error), _)) => Some(Err(error)),
                Some((None, drew)) => drew.then(|| one.finish()).flatten().map(Ok),
                None => None,
            };
            let ends_now = end.is_some();
            ends.extend(end);
            ends_now
        });
        let ended: Vec<Running> = ended.collect();
        for (one, end) in ended.into_iter().zip(ends) {
            match end {
                Ok(finish) => self.answer(one, finish),
                Err(error) => {
                    // The receiver may be gone.
                    let _ = one.reply.send(Err(error));
                }
            }
        }
    }

    fn answer(&mut self, one: Running, finish: Finish) {
        let Running { version, request, reply, cache, drawn, scores, reused, .. } = one;
        // Nothing continues a text that was only scored.
        if request.max_tokens > 0 {
            self.prefixes.keep(version.digest.prefix_u64(), request.partition, cache);
        }
        let (version, weights) = (version.number, version.digest);
        // The receiver may be gone.
        let _ = reply.send(Ok(Answer { tokens: drawn, finish, version, weights, scores, reused }));
    }
}

/// Prompt tokens of all requests that one round computes, by the number of weights: always those of one request.
fn prompt_tokens(work: u64, parameters: u64) -> usize {
    usize::try_from(work / parameters.max(1)).unwrap_or(usize::MAX).max(PREFILL)
}

/// A copy of an error for each waiting request.
fn again(error: &LocalModelError) -> LocalModelError {
    match error {
        LocalModelError::DeviceLost { name, why } => {
            LocalModelError::DeviceLost { name: name.clone(), why: why.clone() }
        }
        other => LocalModelError::Device { name: "of the model".into(), why: other.to_string() },
    }
}

/// Prompts of more tokens are cheaper to copy than to compute again.
const WORTH_COPYING: usize = 8;

/// Below this number of logits, threads cost more than they save.
const WORTH_THREADS: usize = 1 << 12;

/// Draws the next token of some requests, which are in the order of their places. Each has a sampler and a grammar of its own, so threads change nothing.
fn draw_all(running: &mut [Running], drawing: Vec<(usize, Vec<f32>)>) -> Vec<(usize, Result<Drawn, LocalModelError>)> {
    let logits: usize = drawing.iter().map(|(_, logits)| logits.len()).sum();
    let mut drawing = drawing.into_iter().peekable();
    let of_place = |(place, one)| Some((place, one, drawing.next_if(|(next, _)| *next == place)?.1));
    let all: Vec<(usize, &mut Running, Vec<f32>)> = running.iter_mut().enumerate().filter_map(of_place).collect();
    let draw = |(place, one, logits): (usize, &mut Running, Vec<f32>)| (place, one.draw(&logits));
    match all.len() > 1 && logits >= WORTH_THREADS {
        true => all.into_par_iter().map(draw).collect(),
        false => all.into_iter().map(draw).collect(),
    }
}

impl Running {
    /// Draws the next token, within the grammar.
    ///
    /// # Errors
    /// A logit is not finite, no token of the vocabulary can follow, or the grammar reaches a limit.
    fn draw(&mut self, logits: &[f32]) -> Result<Drawn, LocalModelError> {
        if !logits.iter().all(|logit| logit.is_finite()) {
            return Err(LocalModelError::Logits);
        }
        let mut drawn = self.drawn_token(logits)?;
        drawn.alternatives = scores::alternatives(logits, self.request.alternatives);
        Ok(drawn)
    }

    fn drawn_token(&mut self, logits: &[f32]) -> Result<Drawn, LocalModelError> {
        let Some(grammar) = &mut self.grammar else { return Ok(self.sampler.draw(logits, None)) };
        let mask = grammar.mask()?;
        if mask.count() == 0 {
            let after = self.drawn.len();
            let why = format!("after {after} tokens no token of the model's vocabulary can follow");
            return Err(LocalModelError::Grammar(why));
        }
        let drawn = self.sampler.draw(logits, Some(&mask));
        grammar.accept(drawn.token)?;
        Ok(drawn)
    }

    /// Whether it has the prompt of this request, and their keys and values may be shared. Those of a text that is only scored
    /// never are: a request for scores has no partition.
    fn shares(&self, version: &Arc<Version>, request: &Request) -> bool {
        Arc::ptr_eq(&self.version, version)
            && self.request.max_tokens > 0
            && self.request.partition == request.partition
            && self.request.prompt == request.prompt
    }

    /// Whether it is computing the prompt of this request, so that waiting costs less than computing it too.
    fn computes(&self, version: &Arc<Version>, request: &Request) -> bool {
        self.drawn.is_empty() && request.prompt.len() > WORTH_COPYING && self.shares(version, request)
    }

    fn finish(&self) -> Option<Finish> {
        if self.request.max_tokens == 0 {
            return Some(Finish::Length);
        }
        let last = self.drawn.last()?.token;
        if self.stopped || self.request.end.contains(&last) {
            return Some(Finish::Stop);
        }
        let whole = self.request.prompt.len() + self.drawn.len();
        let full = self.drawn.len() >= self.request.max_tokens || whole >= self.version.model.config().context;
        full.then_some(Finish::Length)
    }
}
