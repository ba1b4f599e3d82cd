//! The order of evidence: a name, a response, ids that were issued, the history, the last answers.

use super::index::TurnPlace;
use super::{Asked, Session, Sessions, last_answer};
use crate::marks::Mark;
use crate::places::{Evidence, Relation};

/// Bytes of an answer's canonical form from which it tells a conversation by itself. "yes" and "4" are said in many.
const TELLING_BYTES: usize = 48;

/// Where a request belongs.
pub(super) struct Found {
    /// The session, with the number of its answered turns before the request. Of a request that opens a session, its parent.
    pub(super) at: Option<(u64, usize)>,
    pub(super) relation: Relation,
    pub(super) evidence: Evidence,
    pub(super) candidates: u32,
}

impl Found {
    fn opens(evidence: Evidence) -> Self {
        Self { at: None, relation: Relation::Opens, evidence, candidates: 1 }
    }
}

/// The sessions that may be meant.
#[derive(Clone, Copy)]
enum Scope {
    Family(u64),
    Conversation(Mark),
    Any,
}

impl<T: Clone> Sessions<T> {
    pub(super) fn find(&self, owner: Mark, asked: &Asked) -> Found {
        let found = match &asked.client.named {
            Some(name) => {
                let name = self.key.mark("name", name.as_bytes());
                match self.index.named(owner, name) {
                    Some(family) => self.find_named(owner, asked, family),
                    None => Found::opens(Evidence::Named),
                }
            }
            None => self.find_unnamed(owner, asked),
        };
        match found.at.and_then(|(id, _)| self.sessions.get(&id)) {
            // Full: the next one names it as its parent.
            Some(session) if !found.relation.opens() && session.turns.len() >= self.limits.turns => {
                Found { relation: Relation::Branches, ..found }
            }
            _ if asked.side == Some(true) && found.at.is_some() => Found { relation: Relation::Side, ..found },
            _ => found,
        }
    }

    fn find_named(&self, owner: Mark, asked: &Asked, family: u64) -> Found {
        let evidence = Evidence::Named;
        let scope = Scope::Family(family);
        let by_content = self.by_history(owner, asked, scope).or_else(|| self.by_answers(owner, asked, scope));
        if let Some(found) = by_content {
            return Found { evidence, candidates: 1, ..found };
        }
        let Some(main) = self.sessions.get(&family) else { return Found::opens(evidence) };
        let at = Some((family, main.turns.len()));
        let relation = match () {
            () if is_beside(main, asked) => Relation::Side,
            () if main.claimed.contains(&asked.marks.whole) => Relation::Repeats,
            () if main.turns.last().is_some_and(|head| head.asked == asked.marks.whole) => Relation::Repeats,
            () if !main.claimed.is_empty() => Relation::Branches,
            () => Relation::Continues,
        };
        Found { at, relation, evidence, candidates: 1 }
    }

    fn find_unnamed(&self, owner: Mark, asked: &Asked) -> Found {
        let conversation =
            asked.client.conversation.as_ref().map(|name| self.key.mark("conversation", name.as_bytes()));
        if let Some(previous) = &asked.previous {
            let places = self.index.issued(owner, self.key.mark("issued", previous.as_bytes()));
            if let Some(found) = self.choose(places, asked, Scope::Any) {
                return Found { evidence: Evidence::Response, ..found };
            }
        }
        // A client's own id narrows the search first; a client may also begin to send it in the middle.
        let scopes = conversation.map(Scope::Conversation).into_iter().chain([Scope::Any]);
        for scope in scopes {
            let found = self
                .by_history(owner, asked, scope)
                .or_else(|| self.by_issued(owner, asked, scope))
                .or_else(|| self.by_answers(owner, asked, scope))
                .or_else(|| self.by_earlier_history(owner, asked, scope));
            if let Some(found) = found {
                return found;
            }
        }
        let opening = self.index.opening(owner, asked.marks.whole).last();
        if let Some(id) = opening {
            return Found {
                at: Some((*id, 0)),
                relation: Relation::Continues,
                evidence: Evidence::Opening,
                candidates: 1,
            };
        }
        let main = conversation.and_then(|name| self.index.conversation(owner, name).first());
        if let Some((id, main)) = main.and_then(|id| Some((*id, self.sessions.get(id)?)))
            && is_beside(main, asked)
        {
            let at = Some((id, main.turns.len()));
            return Found { at, relation: Relation::Side, evidence: Evidence::Nothing, candidates: 1 };
        }
        Found::opens(Evidence::Nothing)
    }

    /// The whole history up to the last answer.
    fn by_history(&self, owner: Mark, asked: &Asked, scope: Scope) -> Option<Found> {
        let answer = last_answer(&asked.marks)?;
        let places = self.index.rolling(owner, answer.rolling);
        // Of equal histories, the ids of calls tell which one it is.
        let id = asked.issued.first().map(|id| self.key.mark("issued", id.as_bytes()));
        let narrowed: Vec<TurnPlace> = match id.map(|id| self.index.issued(owner, id)) {
            Some(issued) => places.iter().filter(|place| issued.contains(place)).copied().collect(),
            None => Vec::new(),
        };
        let found = match narrowed.is_empty() {
            true => self.choose(places, asked, scope),
            false => self.choose(&narrowed, asked, scope),
        }?;
        let session = found.at.and_then(|(session, _)| self.sessions.get(&session));
        let ended = match session.filter(|_| found.relation == Relation::Continues) {
            Some(session) => self.ended.with_history(answer.rolling, session, id.filter(|_| !narrowed.is_empty())),
            None => 0,
        };
        Some(Found { evidence: Evidence::History, candidates: found.candidates + ended, ..found })
    }

    /// Ids of calls, if only one session issued them. Servers that count from 0 issue the same ids in all.
    fn by_issued(&self, owner: Mark, asked: &Asked, scope: Scope) -> Option<Found> {
        let id = self.key.mark("issued", asked.issued.first()?.as_bytes());
        let places = self.index.issued(owner, id);
        let found = self.choose(places, asked, scope)?;
        let is_unique = sessions_in(places) + self.ended.with_issued(owner, id) == 1;
        (found.candidates == 1 && is_unique).then_some(Found { evidence: Evidence::IssuedId, ..found })
    }

    /// The last answers alone: the beginning was cut, or rewritten.
    fn by_answers(&self, owner: Mark, asked: &Asked, scope: Scope) -> Option<Found> {
        let last = last_answer(&asked.marks)?;
        let before = asked.marks.answers.iter().rev().find(|answer| answer.after < last.after);
        let follows = |(id, turn): &TurnPlace| {
            let earlier = turn.checked_sub(1).and_then(|turn| self.sessions.get(id)?.turns.get(turn));
            matches!((before, earlier), (Some(before), Some(earlier)) if before.own == earlier.own)
        };
        let places = self.index.own(owner, last.own);
        let mut fitting: Vec<TurnPlace> = places.iter().filter(|place| follows(place)).copied().collect();
        let tells = fitting.is_empty() && last.bytes >= TELLING_BYTES;
        if tells {
            fitting = places.to_vec();
        }
        fitting.retain(|(id, _)| self.is_in(*id, scope));
        // In one session the latest of equal answers is meant.
        let found = self.choose(fitting.get(fitting.len().saturating_sub(1)..)?, asked, scope)?;
        let ended = self.ended.with_answers(owner, last.own, before.map(|before| before.own), tells);
        let candidates = sessions_in(&fitting) + ended;
        if candidates > 1 {
            // Two different conversations fit: it belongs to neither for certain.
            return Some(Found { relation: Relation::Opens, evidence: Evidence::Answers, candidates, ..found });
        }
        Some(Found { evidence: Evidence::Answers, ..found })
    }

    /// An earlier part of the history: what followed it was never recorded here.
    fn by_earlier_history(&self, owner: Mark, asked: &Asked, scope: Scope) -> Option<Found> {
        let last = last_answer(&asked.marks)?;
        let earlier = asked.marks.answers.iter().rev().filter(|answer| answer.after < last.after);
        for answer in earlier {
            let places = self.index.rolling(owner, answer.rolling);
            if let Some(found) = self.choose(places, asked, scope) {
                return Some(Found { relation: Relation::Branches, evidence: Evidence::History, ..found });
            }
        }
        None
    }

    fn is_in(&self, id: u64, scope: Scope) -> bool {
        let Some(session) = self.sessions.get(&id) else { return false };
        match scope {
            Scope::Family(family) => session.family == family,
            Scope::Conversation(name) => session.conversation == Some(name),
            Scope::Any => true,
        }
    }

    /// The turns of sessions that are like this; all of them if none is.
    fn narrowed(&self, places: Vec<TurnPlace>, is_like: impl Fn(&Session<T>) -> bool) -> Vec<TurnPlace> {
        let like = |(id, _): &&TurnPlace| self.sessions.get(id).is_some_and(&is_like);
        let narrowed: Vec<TurnPlace> = places.iter().filter(like).copied().collect();
        if narrowed.is_empty() { places } else { narrowed }
    }

    /// Of turns behind which the request may stand, the session that waits for it; else the newest, as the parent of a branch.
    fn choose(&self, places: &[TurnPlace], asked: &Asked, scope: Scope) -> Option<Found> {
        let in_scope: Vec<TurnPlace> = places.iter().filter(|(id, _)| self.is_in(*id, scope)).copied().collect();
        let waits = |(id, turn): &TurnPlace| {
            self.sessions.get(id).is_some_and(|session| session.turns.len() == turn + 1 && session.claimed.is_empty())
        };
        let waiting: Vec<TurnPlace> = in_scope.iter().filter(|place| waits(place)).copied().collect();
        // Of equal histories, those with the same instructions and tools are meant. Both may change within a conversation.
        let waiting = self.narrowed(waiting, |session| session.system == Some(asked.marks.system));
        let waiting = self.narrowed(waiting, |session| session.tools == Some(asked.marks.tools));
        let found = |(id, turn): TurnPlace, relation, candidates| Found {
            at: Some((id, turn + 1)),
            relation,
            evidence: Evidence::History,
            candidates,
        };
        if let Some(first) = waiting.first() {
            return Some(found(*first, Relation::Continues, waiting.len() as u32));
        }
        let repeats = |(id, turn): &TurnPlace| {
            self.sessions.get(id).is_some_and(|session| {
                let answered = session.turns.get(turn + 1).is_some_and(|next| next.asked == asked.marks.whole);
                answered || session.claimed.contains(&asked.marks.whole)
            })
        };
        let repeated = in_scope.iter().find(|place| repeats(place));
        match repeated {
            Some(place) => Some(found(*place, Relation::Repeats, 1)),
            None => in_scope.last().map(|place| found(*place, Relation::Branches, sessions_in(&in_scope))),
        }
    }
}

fn sessions_in(places: &[TurnPlace]) -> u32 {
    let mut ids: Vec<u64> = places.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.len() as u32
}

/// Whether a request that shares nothing with a session is beside it: it has other instructions and other tools, as requests for titles
/// and summaries have.
fn is_beside<T>(main: &Session<T>, asked: &Asked) -> bool {
    match asked.side {
        Some(side) => side,
        None => {
            let differs = |known: Option<Mark>, asked| known.is_some_and(|known| known != asked);
            main.exchanges > 0 && differs(main.system, asked.marks.system) && differs(main.tools, asked.marks.tools)
        }
    }
}
