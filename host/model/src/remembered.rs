//! Answered conversations in their exact tokens.

use clawhost_core::{Digest, Partition};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Answers whose tokens are remembered, of all partitions together: many times the number of episodes that the largest run plays at once.
const REMEMBERED: usize = 16_384;

/// An answered conversation.
#[derive(Debug)]
pub(crate) struct AnsweredConversation {
    /// The text that the template rendered, with the answer.
    pub(crate) text: String,
    /// The tokens, from the beginning of the conversation.
    pub(crate) tokens: Arc<[u32]>,
}

/// A conversation of a partition.
type Place = (Partition, Digest);

/// Tokens by conversation, apart for each partition. The least recently used are dropped.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// With the number of the last use.
    said: HashMap<Place, (u64, AnsweredConversation)>,
    /// All uses, the oldest first.
    order: VecDeque<(u64, Place)>,
    times: u64,
}

impl Memory {
    /// A conversation continues within the next [`REMEMBERED`] answers. A repeated answer renews its entry: several
    /// episodes may have the same conversation, and each must find it, whatever their order.
    pub(crate) fn keep(&mut self, partition: Partition, conversation: Digest, said: AnsweredConversation) {
        let place = (partition, conversation);
        self.times += 1;
        self.said.insert(place, (self.times, said));
        self.order.push_back((self.times, place));
        while self.order.len() > REMEMBERED
            && let Some((time, oldest)) = self.order.pop_front()
        {
            if self.said.get(&oldest).is_some_and(|(last, _)| *last == time) {
                self.said.remove(&oldest);
            }
        }
    }

    pub(crate) fn get(&self, partition: Partition, conversation: &Digest) -> Option<&AnsweredConversation> {
        self.said.get(&(partition, *conversation)).map(|(_, said)| said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    fn nothing() -> AnsweredConversation {
        AnsweredConversation { text: String::new(), tokens: [].into() }
    }

    #[test]
    fn a_repeated_answer_renews_its_entry() {
        let mut memory = Memory::default();
        let mut keep = |number| memory.keep(Partition::OWN, name(number), nothing());
        keep(0);
        (1..REMEMBERED).for_each(&mut keep);
        keep(0);
        (REMEMBERED..2 * REMEMBERED - 1).for_each(&mut keep);
        let known =
            [0, 1, REMEMBERED - 1, REMEMBERED].map(|number| memory.get(Partition::OWN, &name(number)).is_some());
        assert_eq!(known, [true, false, false, true]);
        assert_eq!((memory.said.len(), memory.order.len()), (REMEMBERED, REMEMBERED));
    }

    #[test]
    fn a_conversation_is_found_in_its_own_partition_alone() {
        let [a, b] = ["a", "b"].map(Partition::of_client);
        let mut memory = Memory::default();
        memory.keep(a, name(0), nothing());
        assert_eq!([a, b, Partition::OWN].map(|one| memory.get(one, &name(0)).is_some()), [true, false, false]);
    }

    #[test]
    fn all_partitions_together_remember_a_limited_number_of_answers() {
        let [a, b] = ["a", "b"].map(Partition::of_client);
        let mut memory = Memory::default();
        memory.keep(a, name(0), nothing());
        (0..REMEMBERED).for_each(|number| memory.keep(b, name(number), nothing()));
        assert!(memory.get(a, &name(0)).is_none() && memory.get(b, &name(0)).is_some());
        assert_eq!((memory.said.len(), memory.order.len()), (REMEMBERED, REMEMBERED));
    }
}
