//! Finds the session of a request. Bounded: the sessions that were not used for longest are ended first.

mod ended;
mod finding;
mod index;
#[cfg(test)]
mod tests;

use crate::exchange::{ClientSession, TurnMarks};
use crate::marks::{CaptureKey, Mark, Marks};
use crate::places::{Placed, Relation};
use clawhost_core::Message;
use ended::EndedHeads;
use finding::Found;
use index::Index;
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Limits of what is remembered of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionsLimits {
    /// Sessions. Some 700 bytes each, and 200 per turn. As many that ended are remembered by their last turn for the idle time. The default
    /// fills hash tables of 16,384 places; one more session would double them.
    pub sessions: usize,
    /// Turns of a session; the next request opens another one. Agents rarely take a thousand.
    pub turns: usize,
    /// Milliseconds after its last exchange at which a session ends.
    pub idle_ms: u64,
}

impl Default for SessionsLimits {
    fn default() -> Self {
        Self { sessions: 14_336, turns: 2_000, idle_ms: 30 * 60 * 1000 }
    }
}

/// A request, as far as it tells where it belongs.
#[derive(Debug, Clone)]
pub struct Asked {
    /// What the client says of its session.
    pub client: ClientSession,
    /// Id of the response that it continues.
    pub previous: Option<String>,
    /// Ids of tool calls in it, the latest first.
    pub issued: Vec<String>,
    /// Whether the client says that it is a side turn.
    pub side: Option<bool>,
    /// The conversation.
    pub marks: Marks,
    /// Milliseconds since any fixed point; never goes back.
    pub now: u64,
}

/// A place that is taken until the request is answered or has failed.
#[derive(Debug)]
#[must_use = "the session waits until the claim is given back"]
pub struct Claim {
    session: u64,
    base: usize,
    marks: Marks,
    asked_messages: Vec<u64>,
}

/// A recorded session that has not ended, after a restart.
#[derive(Debug)]
pub struct Restored<T> {
    /// What the client said of it.
    pub client: ClientSession,
    /// Its label.
    pub label: T,
    /// Its name, if the client or a parent gave it.
    pub name: Option<String>,
    /// Exchanges so far.
    pub exchanges: u32,
    /// Its answered turns.
    pub turns: Vec<TurnMarks>,
    /// Ids of calls and responses, by turn.
    pub issued: Vec<(usize, String)>,
    /// Recorded messages.
    pub known: Vec<Mark>,
}

/// A session that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended<T> {
    /// Its label.
    pub label: T,
}

#[derive(Debug)]
struct Session<T> {
    owner: Mark,
    /// The name that a client gave it, or its family's with a number. `None`: the caller named it.
    name: Option<String>,
    /// Sessions of its family so far, if it is the first.
    members: u32,
    label: T,
    /// The first session of its name; its own id for that one.
    family: u64,
    conversation: Option<Mark>,
    named: Option<Mark>,
    /// Many sessions have one turn: a program asked something.
    turns: SmallVec<[TurnMarks; 1]>,
    issued: SmallVec<[Mark; 1]>,
    /// Messages that were recorded.
    known: HashSet<u64>,
    /// The instructions and the tools of the last request. `None`: a restart has forgotten them.
    system: Option<Mark>,
    tools: Option<Mark>,
    opening: Mark,
    /// Requests without an answer yet.
    claimed: SmallVec<[Mark; 1]>,
    exchanges: u32,
    used: u64,
}

/// The sessions of a gateway.
#[derive(Debug)]
pub struct Sessions<T> {
    key: CaptureKey,
    limits: SessionsLimits,
    sessions: HashMap<u64, Session<T>>,
    index: Index,
    /// Those that ended less than the idle time ago.
    ended: EndedHeads,
    /// By their last use.
    order: BTreeSet<(u64, u64)>,
    next: u64,
}

impl<T: Clone> Sessions<T> {
    /// No sessions yet.
    pub fn new(key: CaptureKey, limits: SessionsLimits) -> Self {
        let (sessions, index, order) = (HashMap::new(), Index::default(), BTreeSet::new());
        Self { key, limits, sessions, index, ended: EndedHeads::default(), order, next: 1 }
    }

    /// The sessions that are remembered.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Finds the place of a request and takes it. `open` gives the label of a new session, by the name that the client or a parent gives
    /// it and the label of the session that it comes from. Sessions that had to end for it are returned too.
    pub fn place(
        &mut self,
        asked: Asked,
        open: impl FnOnce(Option<String>, Option<&T>) -> T,
    ) -> (Placed<T>, Claim, Vec<Ended<T>>) {
        let owner = self.whose(&asked.client.owner, asked.client.user.as_deref());
        self.forget_ended(asked.now);
        let found = self.find(owner, &asked);
        let Found { at, relation, evidence, candidates } = found;
        let mut ended = Vec::new();
        let parent_label = |sessions: &Self, (id, turns): (u64, usize)| {
            sessions.sessions.get(&id).map(|session| (session.label.clone(), turns as u32))
        };
        let parent = at.filter(|_| relation.opens()).and_then(|at| parent_label(self, at));
        let open = |name| open(name, parent.as_ref().map(|(label, _)| label));
        let (id, is_new) = match at.filter(|_| !relation.opens()) {
            Some((id, _)) => (id, false),
            None => (self.open(owner, &asked, at.map(|(id, _)| id), relation, open, &mut ended), true),
        };
        let Some(session) = self.sessions.get_mut(&id) else { unreachable!("the session was found or opened") };
        let base = session.turns.len();
        let is_plain = !is_new && evidence_is_exact(session, &asked.marks);
        let placed = Placed {
            label: session.label.clone(),
            position: session.exchanges,
            turn: base as u32,
            relation,
            evidence,
            candidates,
            parent,
            new_messages: new_messages(session, &asked.marks, is_new, is_plain),
            context_changed: !is_new && base > 0 && !is_plain,
            system_changed: is_new || session.system != Some(asked.marks.system),
            tools_changed: is_new || session.tools != Some(asked.marks.tools),
        };
        session.exchanges += 1;
        session.system = Some(asked.marks.system);
        session.tools = Some(asked.marks.tools);
        session.claimed.push(asked.marks.whole);
        let (was, owner, opening) = (session.used, session.owner, session.opening);
        session.used = asked.now.max(was);
        let used = session.used;
        self.order.remove(&(was, id));
        self.order.insert((used, id));
        self.index.take_opening(owner, opening, id);
        let asked_messages = asked.marks.messages.iter().map(|mark| mark.short()).collect();
        (placed, Claim { session: id, base, marks: asked.marks, asked_messages }, ended)
    }

    /// Records the answer of a request, with the ids that clients may repeat: of its tool calls and of the response.
    pub fn answered(&mut self, claim: Claim, answer: &Message, response: Option<&str>, now: u64) -> Option<TurnMarks> {
        let (rolling, own) = claim.marks.answered(answer);
        let asked = claim.marks.whole;
        let ids = answer.tool_calls.iter().map(|call| call.id.as_str()).chain(response);
        let ids: Vec<Mark> = ids.map(|id| self.key.mark("issued", id.as_bytes())).collect();
        let session = self.sessions.get_mut(&claim.session)?;
        release(session, asked);
        if session.turns.len() != claim.base {
            return None;
        }
        let turn = session.turns.len();
        session.turns.push(TurnMarks { asked, rolling, own });
        session.known.extend(claim.asked_messages);
        session.known.insert(own.short());
        session.issued.extend_from_slice(&ids);
        let owner = session.owner;
        self.index.add_turn(owner, (claim.session, turn), rolling, own, &ids);
        self.touch(claim.session, now);
        Some(TurnMarks { asked, rolling, own })
    }

    /// Whether the session of a request has not ended.
    pub fn is_open(&self, claim: &Claim) -> bool {
        self.sessions.contains_key(&claim.session)
    }

    /// Gives a place back: the request has no complete answer.
    pub fn unanswered(&mut self, claim: Claim, now: u64) {
        let Some(session) = self.sessions.get_mut(&claim.session) else { return };
        release(session, claim.marks.whole);
        if session.turns.is_empty() && session.claimed.is_empty() {
            let (owner, opening) = (session.owner, session.opening);
            self.index.add_opening(owner, opening, claim.session);
        }
        self.touch(claim.session, now);
    }

    /// Whose sessions a client may continue: those of its key, and of one user if it names one.
    fn whose(&self, owner: &str, user: Option<&str>) -> Mark {
        match user {
            None => self.key.mark("owner", owner.as_bytes()),
            // No name of a key has this character.
            Some(user) => self.key.mark("owner", format!("{owner}\0{user}").as_bytes()),
        }
    }

    /// Ends the session that a client names, with all that came from it. `user`: the user that the client names.
    pub fn end(&mut self, (owner, user): (&str, Option<&str>), name: &str) -> Vec<Ended<T>> {
        let (owner, name) = (self.whose(owner, user), self.key.mark("name", name.as_bytes()));
        let Some(family) = self.index.named(owner, name) else { return Vec::new() };
        let ids: Vec<u64> =
            self.sessions.iter().filter(|(_, session)| session.family == family).map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// The same for a session without a name of its client, by its label. A branch of it goes on.
    pub fn end_labelled(
        &mut self,
        (owner, user): (&str, Option<&str>),
        is_meant: impl Fn(&T) -> bool,
    ) -> Vec<Ended<T>> {
        let owner = self.whose(owner, user);
        let meant = |session: &Session<T>| session.owner == owner && is_meant(&session.label);
        let ids: Vec<u64> = self.sessions.iter().filter(|(_, session)| meant(session)).map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// The labels of all sessions.
    pub fn labels(&self) -> impl Iterator<Item = &T> {
        self.sessions.values().map(|session| &session.label)
    }

    /// Changes the time after which a session without a request ends, in milliseconds.
    pub fn set_idle(&mut self, idle_ms: u64) {
        self.limits.idle_ms = idle_ms;
    }

    /// Ends the sessions that were idle for too long.
    pub fn expire(&mut self, now: u64) -> Vec<Ended<T>> {
        let mut ended = Vec::new();
        let mut passed = Vec::new();
        while let Some((used, id)) = self.order.first().copied() {
            if used.saturating_add(self.limits.idle_ms) > now {
                break;
            }
            self.order.remove(&(used, id));
            match self.sessions.get(&id) {
                // An answer that takes long keeps its session.
                Some(session) if !session.claimed.is_empty() => passed.push((used, id)),
                _ => ended.extend(self.lapse(id, now)),
            }
        }
        self.order.extend(passed);
        self.forget_ended(now);
        ended
    }

    /// Ends all sessions that wait for no answer.
    pub fn end_all(&mut self) -> Vec<Ended<T>> {
        let ids: Vec<u64> =
            self.sessions.iter().filter(|(_, session)| session.claimed.is_empty()).map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    fn open(
        &mut self,
        owner: Mark,
        asked: &Asked,
        parent: Option<u64>,
        relation: Relation,
        open: impl FnOnce(Option<String>) -> T,
        ended: &mut Vec<Ended<T>>,
    ) -> u64 {
        while self.sessions.len() >= self.limits.sessions.max(1) {
            let oldest = self
                .order
                .iter()
                .map(|(_, id)| *id)
                .find(|id| self.sessions.get(id).is_none_or(|session| session.claimed.is_empty()));
            // All of them wait for answers: one more is allowed.
            let Some(oldest) = oldest else { break };
            ended.extend(self.lapse(oldest, asked.now));
        }
        let id = self.next;
        self.next += 1;
        let conversation =
            asked.client.conversation.as_ref().map(|name| self.key.mark("conversation", name.as_bytes()));
        let named = asked.client.named.as_ref().map(|name| self.key.mark("name", name.as_bytes()));
        let family = match (named, relation) {
            (Some(name), _) => self.index.named(owner, name).unwrap_or(id),
            (None, Relation::Opens) => id,
            (None, _) => parent.and_then(|parent| self.sessions.get(&parent)).map_or(id, |parent| parent.family),
        };
        let name = self.name(owner, asked, (id, family), conversation);
        let label = open(name.clone());
        let session = Session {
            owner,
            name,
            members: 1,
            label,
            family,
            conversation,
            named: named.filter(|_| family == id),
            turns: SmallVec::new(),
            issued: SmallVec::new(),
            known: HashSet::new(),
            system: Some(asked.marks.system),
            tools: Some(asked.marks.tools),
            opening: asked.marks.whole,
            claimed: SmallVec::new(),
            exchanges: 0,
            used: asked.now,
        };
        self.insert(id, session);
        id
    }

    fn insert(&mut self, id: u64, session: Session<T>) {
        if let Some(name) = session.named {
            self.index.add_name(session.owner, name, id);
        }
        if let Some(conversation) = session.conversation {
            self.index.add_conversation(session.owner, conversation, id);
        }
        self.order.insert((session.used, id));
        self.sessions.insert(id, session);
    }

    /// Takes a recorded session up again.
    pub fn restore(&mut self, restored: Restored<T>, now: u64) {
        let Restored { client, label, name, exchanges, turns, issued, known } = restored;
        let id = self.next;
        self.next += 1;
        let owner = self.whose(&client.owner, client.user.as_deref());
        let named = client.named.as_ref().map(|name| self.key.mark("name", name.as_bytes()));
        let family = named.and_then(|name| self.index.named(owner, name)).unwrap_or(id);
        let session = Session {
            owner,
            name,
            members: 1,
            label,
            family,
            conversation: client.conversation.as_ref().map(|name| self.key.mark("conversation", name.as_bytes())),
            named: named.filter(|_| family == id),
            turns: SmallVec::from_slice(&turns),
            issued: issued.iter().map(|(_, id)| self.key.mark("issued", id.as_bytes())).collect(),
            known: known.into_iter().map(Mark::short).collect(),
            system: None,
            tools: None,
            opening: self.key.mark("nothing", b""),
            claimed: SmallVec::new(),
            exchanges,
            used: now,
        };
        self.insert(id, session);
        for (turn, marks) in turns.iter().enumerate() {
            let ids = issued.iter().filter(|(of, _)| *of == turn).map(|(_, id)| self.key.mark("issued", id.as_bytes()));
            let ids: Vec<Mark> = ids.collect();
            self.index.add_turn(owner, (id, turn), marks.rolling, marks.own, &ids);
        }
    }

    /// The name of a new session: the client's; behind a parent or beside others of a conversation the same with a number.
    fn name(
        &mut self,
        owner: Mark,
        asked: &Asked,
        (id, family): (u64, u64),
        conversation: Option<Mark>,
    ) -> Option<String> {
        if let Some(first) = self.sessions.get_mut(&family).filter(|_| family != id) {
            first.members += 1;
            return first.name.as_ref().map(|name| format!("{name}~{}", first.members));
        }
        if let Some(name) = &asked.client.named {
            return Some(name.clone());
        }
        let others = conversation.map_or(0, |mark| self.index.conversation(owner, mark).len());
        asked.client.conversation.as_ref().map(|name| match others {
            0 => name.clone(),
            others => format!("{name}~{}", others + 1),
        })
    }

    fn touch(&mut self, id: u64, now: u64) {
        if let Some(session) = self.sessions.get_mut(&id) {
            self.order.remove(&(session.used, id));
            session.used = session.used.max(now);
            self.order.insert((session.used, id));
        }
    }

    /// Forgets sessions that ended longer ago than the idle time.
    fn forget_ended(&mut self, now: u64) {
        if let Some(until) = now.checked_sub(self.limits.idle_ms) {
            self.ended.forget_until(until);
        }
    }

    /// Ends a session without a word of its client, who may go on in it: its last turn is remembered.
    fn lapse(&mut self, id: u64, now: u64) -> Option<Ended<T>> {
        if let Some(session) = self.sessions.get(&id) {
            self.ended.remember(id, session, now, self.limits.sessions);
        }
        self.remove(id)
    }

    fn remove(&mut self, id: u64) -> Option<Ended<T>> {
        let session = self.sessions.remove(&id)?;
        self.order.remove(&(session.used, id));
        for (turn, mark) in session.turns.iter().enumerate() {
            self.index.remove_turn(session.owner, (id, turn), mark.rolling, mark.own);
        }
        self.index.remove_session(id, &session);
        Some(Ended { label: session.label })
    }
}

fn release<T>(session: &mut Session<T>, asked: Mark) {
    if let Some(at) = session.claimed.iter().position(|claimed| *claimed == asked) {
        session.claimed.swap_remove(at);
    }
}

/// The last answer in a request that has something behind it: an answer at the very end is the beginning of the next one.
fn last_answer(marks: &Marks) -> Option<crate::AnswerMark> {
    marks.answers.iter().rev().find(|answer| answer.after < marks.messages.len()).copied()
}

/// Whether the request is the recorded conversation up to the last answer, and more behind it.
fn evidence_is_exact<T>(session: &Session<T>, marks: &Marks) -> bool {
    match (session.turns.last(), last_answer(marks)) {
        (Some(head), Some(answer)) => head.rolling == answer.rolling,
        (None, _) => session.exchanges == 0,
        (Some(_), None) => false,
    }
}

/// Indexes of the messages to record. Of a session's first request all of them; behind the last answer if the history is as recorded;
/// else those that were never recorded, and those behind the last answer.
fn new_messages<T>(session: &Session<T>, marks: &Marks, is_new: bool, is_plain: bool) -> Vec<usize> {
    let all = 0..marks.messages.len();
    let after = last_answer(marks).map_or(0, |answer| answer.after);
    if is_new || session.turns.is_empty() {
        return all.collect();
    }
    if is_plain {
        return (after..marks.messages.len()).collect();
    }
    let is_unknown = |at: &usize| marks.messages.get(*at).is_some_and(|mark| !session.known.contains(&mark.short()));
    all.filter(|at| *at >= after || is_unknown(at)).collect()
}
