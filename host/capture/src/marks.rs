//! Keyed digests of a conversation and of its parts.

use crate::canonical;
use clawhost_core::{Digest, Message, Role, ToolSpec};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The key of the digests: without it, nobody can test a guess of what was said.
#[derive(Clone, Copy)]
pub struct CaptureKey(Digest);

impl fmt::Debug for CaptureKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CaptureKey(..)")
    }
}

impl CaptureKey {
    /// A key of 32 secret bytes.
    pub fn new(secret: [u8; 32]) -> Self {
        Self(Digest::of(&secret).extended(b"clawhost capture"))
    }

    /// A keyed digest of some bytes, for one purpose.
    pub fn mark(&self, purpose: &str, bytes: &[u8]) -> Mark {
        Mark::of(&self.digest(purpose, bytes))
    }

    /// The same with all its bits.
    pub fn digest(&self, purpose: &str, bytes: &[u8]) -> Digest {
        self.0.extended(purpose.as_bytes()).extended(bytes)
    }
}

/// The first 128 bits of a keyed digest: two of a billion conversations are equal with a chance of 10^-20.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark(u128);

impl Mark {
    fn of(digest: &Digest) -> Self {
        Self(digest.as_bytes().iter().take(16).fold(0, |value, byte| value << 8 | u128::from(*byte)))
    }

    /// 64 bits of it, for sets of messages inside one session.
    pub(crate) fn short(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Mark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Self).map_err(serde::de::Error::custom)
    }
}

/// An answer in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerMark {
    /// Everything up to this answer, the answer included.
    pub rolling: Mark,
    /// The answer alone.
    pub own: Mark,
    /// Bytes of its canonical form: a short answer says little about whose it is.
    pub bytes: usize,
    /// Index of the message behind it.
    pub after: usize,
}

/// The digests of one request's conversation.
#[derive(Debug, Clone)]
pub struct Marks {
    key: CaptureKey,
    state: Digest,
    /// Its answers, in order.
    pub answers: Vec<AnswerMark>,
    /// Every message alone, in order, system messages included.
    pub messages: Vec<Mark>,
    /// Everything except system text.
    pub whole: Mark,
    /// The system text.
    pub system: Mark,
    /// The tools.
    pub tools: Mark,
}

impl Marks {
    /// The digests of a conversation. Results of parallel calls may stand in any order.
    pub fn of(key: &CaptureKey, messages: &[Message], tools: &[ToolSpec]) -> Self {
        let mut state = key.0;
        let (mut answers, mut each) = (Vec::new(), Vec::with_capacity(messages.len()));
        let mut system = key.0.extended(b"system");
        let mut results: Vec<Digest> = Vec::new();
        let mut form = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            form.clear();
            canonical::write(message, &mut form);
            let own = key.0.extended(&form);
            each.push(Mark::of(&own));
            match message.role {
                Role::System => system = system.extended(&form),
                Role::Tool => results.push(own),
                Role::User | Role::Assistant => {
                    take_results(&mut state, &mut results);
                    state = state.extended(own.as_bytes());
                }
            }
            if message.role == Role::Assistant {
                let (rolling, own) = (Mark::of(&state), Mark::of(&own));
                answers.push(AnswerMark { rolling, own, bytes: form.len(), after: at + 1 });
            }
        }
        take_results(&mut state, &mut results);
        let mut declared = key.0.extended(b"tools");
        for tool in tools {
            declared = declared.extended(tool.name.as_bytes());
        }
        let (whole, system, tools) = (Mark::of(&state), Mark::of(&system), Mark::of(&declared));
        Self { key: *key, state, answers, messages: each, whole, system, tools }
    }

    /// The marks of an answer to this request: everything up to it, and the answer alone.
    pub fn answered(&self, answer: &Message) -> (Mark, Mark) {
        let mut form = Vec::new();
        canonical::write(answer, &mut form);
        let own = self.key.0.extended(&form);
        (Mark::of(&self.state.extended(own.as_bytes())), Mark::of(&own))
    }
}

fn take_results(state: &mut Digest, results: &mut Vec<Digest>) {
    results.sort_unstable();
    for result in results.drain(..) {
        *state = state.extended(result.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::Origin;

    fn key() -> CaptureKey {
        CaptureKey::new([7; 32])
    }

    fn message(role: Role, text: &str) -> Message {
        Message::text(role, Origin::User, text)
    }

    fn marks(messages: &[Message]) -> Marks {
        Marks::of(&key(), messages, &[])
    }

    #[test]
    fn an_answer_has_the_mark_with_which_it_comes_back() {
        let opening = [message(Role::System, "now: 12:00"), message(Role::User, "hi")];
        let answer = message(Role::Assistant, "hello");
        let (rolling, own) = marks(&opening).answered(&answer);
        let later =
            [message(Role::System, "now: 12:01"), message(Role::User, "hi"), answer, message(Role::User, "more")];
        let found = marks(&later).answers[0];
        assert_eq!((found.rolling, found.own, found.after), (rolling, own, 3));
        assert_ne!(marks(&later).system, marks(&opening).system);
    }

    #[test]
    fn the_order_of_parallel_results_does_not_matter_and_that_of_messages_does() {
        let results = |texts: [&str; 2]| {
            let mut all = vec![message(Role::User, "hi"), message(Role::Assistant, "")];
            all.extend(texts.map(|text| message(Role::Tool, text)));
            marks(&all).whole
        };
        assert_eq!(results(["a", "b"]), results(["b", "a"]));
        assert_ne!(results(["a", "b"]), results(["a", "c"]));
        let users = |texts: [&str; 2]| marks(&texts.map(|text| message(Role::User, text))).whole;
        assert_ne!(users(["a", "b"]), users(["b", "a"]));
    }

    #[test]
    fn marks_depend_on_the_key_and_read_back() {
        let other = Marks::of(&CaptureKey::new([8; 32]), &[message(Role::User, "hi")], &[]);
        let mark = marks(&[message(Role::User, "hi")]).whole;
        assert_ne!(other.whole, mark);
        let text = serde_json::to_string(&mark).unwrap();
        assert_eq!(serde_json::from_str::<Mark>(&text).unwrap(), mark);
        assert_eq!(format!("{:?}", key()), "CaptureKey(..)");
    }
}
