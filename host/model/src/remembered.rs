//! Answered conversations in their exact tokens.

use clawhost_core::Digest;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Answers whose tokens are remembered: many times the number of episodes that the largest run plays at once.
const REMEMBERED: usize = 16_384;

/// An answered conversation.
#[derive(Debug)]
pub(crate) struct AnsweredConversation {
    /// The text that the template rendered, with the answer.
    pub(crate) text: String,
    /// The tokens, from the beginning of the conversation.
    pub(crate) tokens: Arc<[u32]>,
}

/// Tokens by conversation. The least recently used are dropped.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// With the number of the last use.
    said: HashMap<Digest, (u64, AnsweredConversation)>,
    /// All uses, the oldest first.
    order: VecDeque<(u64, Digest)>,
    times: u64,
}

impl Memory {
    /// A conversation continues within the next [`REMEMBERED`] answers. A repeated answer renews its entry: several
    /// episodes may have the same conversation, and each must find it, whatever their order.
    pub(crate) fn keep(&mut self, conversation: Digest, said: AnsweredConversation) {
        self.times += 1;
        self.said.insert(conversation, (self.times, said));
        self.order.push_back((self.times, conversation));
        while self.order.len() > REMEMBERED
            && let Some((time, oldest)) = self.order.pop_front()
        {
            if self.said.get(&oldest).is_some_and(|(last, _)| *last == time) {
                self.said.remove(&oldest);
            }
        }
    }

    pub(crate) fn get(&self, conversation: &Digest) -> Option<&AnsweredConversation> {
        self.said.get(conversation).map(|(_, said)| said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_answer_renews_its_entry() {
        let mut memory = Memory::default();
        let name = |number: usize| Digest::of(&number.to_le_bytes());
        let mut keep =
            |number| memory.keep(name(number), AnsweredConversation { text: String::new(), tokens: [].into() });
        keep(0);
        (1..REMEMBERED).for_each(&mut keep);
        keep(0);
        (REMEMBERED..2 * REMEMBERED - 1).for_each(&mut keep);
        let known = [0, 1, REMEMBERED - 1, REMEMBERED].map(|number| memory.get(&name(number)).is_some());
        assert_eq!(known, [true, false, false, true]);
        assert_eq!((memory.said.len(), memory.order.len()), (REMEMBERED, REMEMBERED));
    }
}
