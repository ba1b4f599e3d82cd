//! The last turns of sessions that ended a short time ago. Nothing continues them, but a request that fits one of them and an open session
//! belongs to neither for certain.

use super::Session;
use crate::marks::Mark;
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};

/// Ids of a session's last calls that are remembered.
const IDS: usize = 8;

/// The last turn of a session.
#[derive(Debug)]
struct Head {
    owner: Mark,
    rolling: Mark,
    own: Mark,
    /// The answer before the last one.
    before: Option<Mark>,
    issued: Vec<Mark>,
    system: Option<Mark>,
    tools: Option<Mark>,
}

/// Nearly always there is one, which needs no memory of its own.
type Under = HashMap<(Mark, Mark), SmallVec<[u64; 1]>>;

/// Sessions that ended a short time ago.
#[derive(Debug, Default)]
pub(super) struct EndedHeads {
    heads: HashMap<u64, Head>,
    /// When each ended, the first to be forgotten first.
    order: VecDeque<(u64, u64)>,
    rolling: Under,
    own: Under,
    issued: Under,
}

fn forget(under: &mut Under, key: (Mark, Mark), id: u64) {
    if let Some(ids) = under.get_mut(&key) {
        ids.retain(|known| *known != id);
        if ids.is_empty() {
            under.remove(&key);
        }
    }
}

impl EndedHeads {
    /// Remembers a session that has ended at `now`. At most so many are remembered.
    pub(super) fn remember<T>(&mut self, id: u64, session: &Session<T>, now: u64, most: usize) {
        let Some(last) = session.turns.last() else { return };
        while self.order.len() >= most.max(1) {
            self.forget_first();
        }
        let owner = session.owner;
        let before = session.turns.iter().rev().nth(1).map(|turn| turn.own);
        let issued: Vec<Mark> = session.issued.iter().rev().take(IDS).copied().collect();
        self.rolling.entry((owner, last.rolling)).or_default().push(id);
        self.own.entry((owner, last.own)).or_default().push(id);
        issued.iter().for_each(|mark| self.issued.entry((owner, *mark)).or_default().push(id));
        let (system, tools) = (session.system, session.tools);
        let head = Head { owner, rolling: last.rolling, own: last.own, before, issued, system, tools };
        self.heads.insert(id, head);
        self.order.push_back((now, id));
    }

    /// Forgets those that ended at `until` or before.
    pub(super) fn forget_until(&mut self, until: u64) {
        while self.order.front().is_some_and(|(at, _)| *at <= until) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((_, id)) = self.order.pop_front() else { return };
        let Some(head) = self.heads.remove(&id) else { return };
        forget(&mut self.rolling, (head.owner, head.rolling), id);
        forget(&mut self.own, (head.owner, head.own), id);
        head.issued.iter().for_each(|mark| forget(&mut self.issued, (head.owner, *mark), id));
    }

    fn count(&self, under: &Under, key: (Mark, Mark), is_meant: impl Fn(&Head) -> bool) -> u32 {
        let ids = under.get(&key).map_or(&[][..], SmallVec::as_slice);
        ids.iter().filter(|id| self.heads.get(id).is_some_and(&is_meant)).count() as u32
    }

    /// Those with this history, and the same instructions and tools as an open session. `issued`: an id that tells equal ones apart.
    pub(super) fn with_history<T>(&self, rolling: Mark, like: &Session<T>, issued: Option<Mark>) -> u32 {
        self.count(&self.rolling, (like.owner, rolling), |head| {
            let is_alike = head.system == like.system && head.tools == like.tools;
            is_alike && issued.is_none_or(|id| head.issued.contains(&id))
        })
    }

    /// Those whose last answer is this one. `before`: the answer before it, unless the last one tells enough.
    pub(super) fn with_answers(&self, owner: Mark, own: Mark, before: Option<Mark>, tells: bool) -> u32 {
        self.count(&self.own, (owner, own), |head| tells || (before.is_some() && head.before == before))
    }

    /// Those that issued an id.
    pub(super) fn with_issued(&self, owner: Mark, id: Mark) -> u32 {
        self.count(&self.issued, (owner, id), |_| true)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.rolling.is_empty() && self.own.is_empty() && self.issued.is_empty()
    }
}
