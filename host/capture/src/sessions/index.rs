//! Looks sessions and their turns up by marks. Everything is looked up under its owner.

use super::Session;
use crate::marks::Mark;
use smallvec::SmallVec;
use std::collections::HashMap;

/// Most sessions and turns under one mark. Thousands of conversations may be equal; which of the newest is continued does not matter.
const PER_MARK: usize = 64;

/// A turn of a session: the session, and the turn's index.
pub(super) type TurnPlace = (u64, usize);

/// Nearly always there is one, which needs no memory of its own.
type Under<T> = HashMap<(Mark, Mark), SmallVec<[T; 1]>>;

#[derive(Debug, Default)]
pub(super) struct Index {
    names: HashMap<(Mark, Mark), u64>,
    rolling: Under<TurnPlace>,
    own: Under<TurnPlace>,
    issued: Under<TurnPlace>,
    conversations: Under<u64>,
    openings: Under<u64>,
}

fn add<T: PartialEq>(under: &mut Under<T>, key: (Mark, Mark), value: T) {
    let values = under.entry(key).or_default();
    if values.contains(&value) {
        return;
    }
    if values.len() == PER_MARK {
        values.remove(0);
    }
    values.push(value);
}

fn remove<T>(under: &mut Under<T>, key: (Mark, Mark), is_gone: impl Fn(&T) -> bool) {
    if let Some(values) = under.get_mut(&key) {
        values.retain(|value| !is_gone(value));
        if values.is_empty() {
            under.remove(&key);
        }
    }
}

fn all<T>(under: &Under<T>, key: (Mark, Mark)) -> &[T] {
    under.get(&key).map_or(&[], SmallVec::as_slice)
}

impl Index {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let maps =
            [self.rolling.len(), self.own.len(), self.issued.len(), self.conversations.len(), self.openings.len()];
        self.names.is_empty() && maps == [0; 5]
    }

    pub(super) fn named(&self, owner: Mark, name: Mark) -> Option<u64> {
        self.names.get(&(owner, name)).copied()
    }

    pub(super) fn rolling(&self, owner: Mark, mark: Mark) -> &[TurnPlace] {
        all(&self.rolling, (owner, mark))
    }

    pub(super) fn own(&self, owner: Mark, mark: Mark) -> &[TurnPlace] {
        all(&self.own, (owner, mark))
    }

    pub(super) fn issued(&self, owner: Mark, mark: Mark) -> &[TurnPlace] {
        all(&self.issued, (owner, mark))
    }

    pub(super) fn conversation(&self, owner: Mark, mark: Mark) -> &[u64] {
        all(&self.conversations, (owner, mark))
    }

    pub(super) fn opening(&self, owner: Mark, mark: Mark) -> &[u64] {
        all(&self.openings, (owner, mark))
    }

    pub(super) fn add_name(&mut self, owner: Mark, name: Mark, id: u64) {
        self.names.insert((owner, name), id);
    }

    pub(super) fn add_conversation(&mut self, owner: Mark, mark: Mark, id: u64) {
        add(&mut self.conversations, (owner, mark), id);
    }

    pub(super) fn add_opening(&mut self, owner: Mark, mark: Mark, id: u64) {
        add(&mut self.openings, (owner, mark), id);
    }

    pub(super) fn take_opening(&mut self, owner: Mark, mark: Mark, id: u64) {
        remove(&mut self.openings, (owner, mark), |known| *known == id);
    }

    pub(super) fn add_turn(&mut self, owner: Mark, at: TurnPlace, rolling: Mark, own: Mark, issued: &[Mark]) {
        add(&mut self.rolling, (owner, rolling), at);
        add(&mut self.own, (owner, own), at);
        issued.iter().for_each(|id| add(&mut self.issued, (owner, *id), at));
    }

    pub(super) fn remove_turn(&mut self, owner: Mark, at: TurnPlace, rolling: Mark, own: Mark) {
        remove(&mut self.rolling, (owner, rolling), |known| *known == at);
        remove(&mut self.own, (owner, own), |known| *known == at);
    }

    pub(super) fn remove_session<T>(&mut self, id: u64, session: &Session<T>) {
        let owner = session.owner;
        for mark in &session.issued {
            remove(&mut self.issued, (owner, *mark), |(known, _)| *known == id);
        }
        remove(&mut self.openings, (owner, session.opening), |known| *known == id);
        if let Some(name) = session.named
            && self.named(owner, name) == Some(id)
        {
            self.names.remove(&(owner, name));
        }
        if let Some(conversation) = session.conversation {
            remove(&mut self.conversations, (owner, conversation), |known| *known == id);
        }
    }
}
