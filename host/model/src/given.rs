//! Given conversations as training data: the tokens that a model would have written, with a mask of what it is to learn.

use crate::train::Sequence;
use crate::{ChatFormat, LocalModelError};
use clawhost_core::{Message, Role, ToolSpec};

/// Given answers are learned as they would be drawn from the whole distribution.
const TEMPERATURE: f32 = 1.0;

impl ChatFormat {
    /// The tokens of a conversation. Trained are the assistant's messages from the index `from` on, each with the token that
    /// ends an answer: without it the model would not learn to stop. Earlier ones are context.
    ///
    /// Each answer follows the prompt that the model would have read. Usually a prompt begins with all earlier tokens, so one
    /// sequence has the whole conversation. Where it does not (a template that drops reasoning), a new sequence starts.
    ///
    /// # Errors
    /// The template refuses the conversation, the tokenizer cannot read it, or it is longer than `context` tokens.
    pub fn given(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
        from: usize,
        context: usize,
    ) -> Result<Vec<Sequence>, LocalModelError> {
        let mut all: Vec<(Vec<u32>, Vec<bool>)> = Vec::new();
        // The text of the last sequence.
        let mut so_far = String::new();
        for (place, message) in messages.iter().enumerate().skip(from) {
            if message.role != Role::Assistant {
                continue;
            }
            let text = self.template.render(messages.get(..place).unwrap_or_default(), tools, &self.arguments)?;
            // The text comes from anywhere, and must not insert control words.
            let harmless = |text: &str| self.template.harmless(text);
            let reply = self.template.answers().written(&message.plain_text(), &message.tool_calls, harmless);
            let mut ids = self.tokenizer.encode(&reply)?;
            ids.extend(self.end.first());
            let more = text.strip_prefix(so_far.as_str()).filter(|_| !all.is_empty());
            if more.is_none() {
                all.push((Vec::new(), Vec::new()));
            }
            let Some((tokens, mask)) = all.last_mut() else { continue };
            tokens.extend(self.tokenizer.encode(more.unwrap_or(text.as_str()))?);
            mask.resize(tokens.len(), false);
            so_far = format!("{text}{}", self.tokenizer.decode(&ids, false)?);
            tokens.extend(ids);
            mask.resize(tokens.len(), true);
            if tokens.len() > context {
                return Err(LocalModelError::TooLong { tokens: tokens.len(), context });
            }
        }
        all.into_iter().map(|(tokens, mask)| Sequence::new(tokens, &mask, TEMPERATURE)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::TextHost;
    use crate::{ModelFolder, TinyModel};
    use clawhost_core::{Origin, ToolCall};
    use std::path::Path;

    fn said(role: Role, text: &str) -> Message {
        Message::text(role, Origin::User, text)
    }

    fn qwen() -> ChatFormat {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transformers/reference/qwen2");
        ModelFolder::read(&folder, &TextHost::InProcess).unwrap().chat_format("qwen").unwrap()
    }

    /// The texts of the trained parts of each sequence.
    fn trained(format: &ChatFormat, sequences: &[Sequence]) -> Vec<String> {
        let text = |one: &Sequence| {
            let ids: Vec<u32> = one.trained().iter().map(|place| one.tokens()[*place]).collect();
            format.tokenizer.decode(&ids, false).unwrap()
        };
        sequences.iter().map(text).collect()
    }

    #[test]
    fn only_answers_with_their_end_are_trained() {
        let format = TinyModel::default().make().unwrap().chat_format("tiny").unwrap();
        let talk = [
            said(Role::User, "1+1="),
            said(Role::Assistant, "2"),
            said(Role::User, "2+3="),
            said(Role::Assistant, "5"),
        ];
        let check = |from: usize, expect: &str| {
            let sequences = format.given(&talk, &[], from, 64).unwrap();
            assert_eq!(trained(&format, &sequences), [expect], "from {from}");
            let whole = format.tokenizer.decode(sequences[0].tokens(), false).unwrap();
            let prompt = format.template.render(&talk[..3], &[], &format.arguments).unwrap();
            assert_eq!(whole, format!("{prompt}5#"), "one sequence has the whole conversation");
        };
        check(0, "2#5#");
        check(2, "5#");
        assert_eq!(format.given(&talk[..1], &[], 0, 64).unwrap(), [], "nothing is answered");
        let error = format.given(&talk, &[], 0, 4).unwrap_err();
        assert!(matches!(error, LocalModelError::TooLong { context: 4, .. }), "{error}");
    }

    #[test]
    fn the_template_of_the_model_and_its_end_of_a_turn_are_used() {
        let format = qwen();
        let talk = [said(Role::System, "Be brief."), said(Role::User, "Hi"), said(Role::Assistant, "Yes<|im_end|>")];
        let sequences = format.given(&talk, &[], 0, 4096).unwrap();
        let told = trained(&format, &sequences);
        assert!(told[0].ends_with("<|im_end|>") && told[0].starts_with("Yes"), "{told:?}");
        assert_eq!(told[0].matches("<|im_end|>").count(), 1, "control words in an answer are inert: {told:?}");
        let whole = format.tokenizer.decode(sequences[0].tokens(), false).unwrap();
        assert!(whole.starts_with(&format.template.render(&talk[..2], &[], &format.arguments).unwrap()), "{whole}");
    }

    #[test]
    fn tool_calls_are_trained_as_the_model_writes_them() {
        let format = qwen();
        let call = ToolCall { id: "1".into(), name: "look".into(), arguments: "{\"at\": 1}".into(), extra: vec![] };
        let act = Message { tool_calls: vec![call], ..said(Role::Assistant, "I look.") };
        let sequences = format.given(&[said(Role::User, "Look."), act], &[], 0, 4096).unwrap();
        let told = trained(&format, &sequences);
        let written = "I look.\n<tool_call>\n{\"name\":\"look\",\"arguments\":{\"at\":1}}\n</tool_call><|im_end|>";
        assert_eq!(told, [written]);
    }
}
