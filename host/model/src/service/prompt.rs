//! The prompt of a request: the conversation as its template renders it, in the tokens of earlier answers.

use super::{ChatModel, Overlong, WRITTEN, offered};
use crate::LocalModelError;
use crate::answers::RequestFields;
use crate::generate::Generator;
use clawhost_core::{Digest, Message, ModelRequest, Part, Role};
use serde_json::{Map, Value};
use std::sync::PoisonError;

pub(super) fn conversation<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Digest {
    let mut all = Vec::new();
    for message in messages {
        // The parts of a message that the template sees, and their tokens. A vector takes every write.
        let written = message.extra.iter().find(|(name, _)| name == WRITTEN).map(|(_, tokens)| tokens);
        let seen = (message.role, &message.parts, &message.tool_calls, &message.tool_call_id, written);
        let _ = serde_json::to_writer(&mut all, &seen);
    }
    Digest::of(&all)
}

/// A prompt in tokens.
pub(super) struct Prompt {
    pub(super) text: String,
    pub(super) tokens: Vec<u32>,
    /// Tokens of the conversation that ended with an answer of this model.
    pub(super) shared: usize,
    /// Messages that were dropped.
    pub(super) left_out: usize,
    /// Whether the template has opened the answer's reasoning.
    pub(super) reasons: bool,
}

/// The conversation without its oldest turn. The system prompt stays, and a user message comes first. `None`: one turn
/// is left.
fn without_oldest(messages: &[Message]) -> Option<Vec<Message>> {
    let system = messages.iter().take_while(|message| message.role == Role::System).count();
    let rest = messages.get(system..)?;
    let next = rest.iter().skip(1).position(|message| message.role == Role::User)? + 1;
    Some([messages.get(..system)?, rest.get(next..)?].concat())
}

impl<G: Generator> ChatModel<G> {
    pub(super) fn prompt(&self, request: &ModelRequest) -> Result<Prompt, LocalModelError> {
        let mut prompt = self.whole_prompt(&request.messages, request)?;
        if self.chat_format.overlong == Overlong::LeaveOut {
            let context = self.engine.context();
            let room = (request.max_tokens.max(1) as usize).min(context / 2);
            let mut messages = request.messages.clone();
            while prompt.tokens.len() + room > context
                && let Some(fewer) = without_oldest(&messages)
            {
                prompt = self.whole_prompt(&fewer, request)?;
                prompt.left_out = request.messages.len() - fewer.len();
                messages = fewer;
            }
        }
        Ok(prompt)
    }

    fn whole_prompt(&self, messages: &[Message], request: &ModelRequest) -> Result<Prompt, LocalModelError> {
        messages.iter().flat_map(|message| &message.parts).try_for_each(is_text)?;
        let arguments = RequestFields::of(request).template(&self.chat_format.arguments)?;
        let text = self.chat_format.template.render(messages, offered(request), &arguments)?;
        let answered = messages.iter().rposition(|message| message.role == Role::Assistant);
        let known = answered.and_then(|last| {
            let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            let said = memory.get(request.partition, &conversation(messages.get(..=last)?))?;
            // A template may render an answer differently when messages follow it.
            text.starts_with(&said.text).then(|| (said.text.len(), said.tokens.clone()))
        });
        let (mut tokens, from) = known.map_or((Vec::new(), 0), |(from, tokens)| (tokens.to_vec(), from));
        let shared = tokens.len();
        tokens.extend(self.chat_format.tokenizer.encode(text.get(from..).unwrap_or_default())?);
        let reasons = self.chat_format.template.answers().reasons_at_the_end_of(&text);
        Ok(Prompt { text, tokens, shared, left_out: 0, reasons })
    }
}

/// Blocks of clients that a model of text cannot read. As text they would be long and without meaning.
const NO_TEXT: [&str; 10] = [
    "image",
    "image_url",
    "input_image",
    "audio",
    "input_audio",
    "video",
    "video_url",
    "file",
    "input_file",
    "document",
];

/// Refuses a part that no model of text can read.
fn is_text(part: &Part) -> Result<(), LocalModelError> {
    let Part::Other(text) = part else { return Ok(()) };
    // A block stands in the field of its dialect.
    let kept = serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
    let mut kinds = kept.values().filter_map(|block| block.get("type")?.as_str());
    match kinds.find(|kind| NO_TEXT.contains(kind)) {
        None => Ok(()),
        Some(kind) => Err(LocalModelError::Request(format!(
            "messages: a part has the type {kind}, and this model reads text alone"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::Origin;

    #[test]
    fn parts_that_are_no_text_are_refused() {
        let image = r#"{"openai":{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}}"#;
        let error = is_text(&Part::Other(image.into())).unwrap_err().to_string();
        assert_eq!(error, "messages: a part has the type image_url, and this model reads text alone");
        for text in [
            r#"{"anthropic":{"type":"thinking","thinking":"Hm."}}"#,
            r#"{"openai":{"type":"refusal","refusal":"No."}}"#,
            "any text",
            "{}",
        ] {
            is_text(&Part::Other(text.into())).unwrap();
        }
        is_text(&Part::Text(image.into())).unwrap();
    }

    fn said(role: Role, text: &str) -> Message {
        Message::text(role, Origin::Host, text)
    }

    #[test]
    fn the_oldest_turn_is_dropped_and_never_the_system_prompt() {
        use Role::{Assistant, System, Tool, User};
        let check = |roles: &[Role], expect: Option<&[usize]>| {
            let talk: Vec<Message> =
                roles.iter().enumerate().map(|(place, role)| said(*role, &place.to_string())).collect();
            let left = without_oldest(&talk)
                .map(|left| left.iter().map(|one| one.plain_text().parse().unwrap()).collect::<Vec<usize>>());
            assert_eq!(left.as_deref(), expect, "{roles:?}");
        };
        check(&[System, User, Assistant, User], Some(&[0, 3]));
        check(&[System, System, User, Assistant, Tool, Assistant, User, Assistant, User], Some(&[0, 1, 6, 7, 8]));
        check(&[User, Assistant, User], Some(&[2]));
        check(&[System, User], None);
        check(&[System, User, Assistant], None);
        check(&[System], None);
        check(&[], None);
    }
}
