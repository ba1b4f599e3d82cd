//! Conversations that were answered, in their exact tokens.

use clawhost_core::Digest;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Answers whose tokens are remembered: many times those that the largest run plays at once.
const REMEMBERED: usize = 16_384;

/// A conversation that was answered.
#[derive(Debug)]
pub(crate) struct Said {
    /// As the template rendered it, with the answer.
    pub(crate) text: String,
    /// From the beginning of the conversation.
    pub(crate) tokens: Arc<[u32]>,
}

/// Tokens by conversation; those that were said longest ago are forgotten.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// With the number of the last time that it was said.
    said: HashMap<Digest, (u64, Said)>,
    /// All times, the oldest first.
    order: VecDeque<(u64, Digest)>,
    times: u64,
}

impl Memory {
    /// Whoever said it goes on within the next [`REMEMBERED`] answers. What many say has to stay as long after the last of them as after
    /// the first: else it would be chance whether it is still known.
    pub(crate) fn keep(&mut self, conversation: Digest, said: Said) {
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

    pub(crate) fn get(&self, conversation: &Digest) -> Option<&Said> {
        self.said.get(conversation).map(|(_, said)| said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_again_is_remembered_from_then_on() {
        let mut memory = Memory::default();
        let name = |number: usize| Digest::of(&number.to_le_bytes());
        let mut keep = |number| memory.keep(name(number), Said { text: String::new(), tokens: [].into() });
        keep(0);
        (1..REMEMBERED).for_each(&mut keep);
        keep(0);
        (REMEMBERED..2 * REMEMBERED - 1).for_each(&mut keep);
        let known = [0, 1, REMEMBERED - 1, REMEMBERED].map(|number| memory.get(&name(number)).is_some());
        assert_eq!(known, [true, false, false, true]);
        assert_eq!((memory.said.len(), memory.order.len()), (REMEMBERED, REMEMBERED));
    }
}
