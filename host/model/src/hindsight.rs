//! The tokens of an answer after another conversation than its own, for example one with the correction that came later: how likely they are then is
//! what a model teaches itself in hindsight.

use crate::generate::Generator;
use crate::{ChatModel, LocalModelError};
use clawhost_core::{Message, ToolSpec};

impl<G: Generator> ChatModel<G> {
    /// The tokens of a conversation as the model reads it, followed by those of an answer.
    ///
    /// # Errors
    /// The template refuses the conversation, the tokenizer cannot read it, or all of it is longer than the context.
    pub fn tokens_with_answer(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
        answer: &[u32],
    ) -> Result<Vec<u32>, LocalModelError> {
        let format = self.chat_format();
        let text = format.template.render(messages, tools, &format.arguments)?;
        let mut tokens = format.tokenizer.encode(&text)?;
        tokens.extend(answer);
        let context = self.engine().context();
        if tokens.len() > context {
            return Err(LocalModelError::TooLong { tokens: tokens.len(), context });
        }
        Ok(tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ComputeDevice;
    use crate::{TinyModel, TokenCalls};
    use clawhost_core::{Llm as _, ModelRequest, Origin, Role, Teacher as _};

    #[tokio::test]
    async fn an_answer_has_its_own_logprobs_after_its_own_conversation_and_others_after_another() {
        let folder = TinyModel { seed: 4, ..TinyModel::default() }.make().unwrap();
        let model = folder.open("tiny", &ComputeDevice::processor()).unwrap();
        let asked = |text: &str| vec![Message::text(Role::User, Origin::User, text)];
        let request = ModelRequest {
            messages: asked("1+1="),
            max_tokens: 6,
            temperature: Some(0.7),
            seed: Some(3),
            ..ModelRequest::default()
        };
        let answer = model.complete(&request).await.unwrap().tokens.unwrap();
        let after = async |text: &str| {
            let tokens = model.tokens_with_answer(&asked(text), &[], &answer.tokens).unwrap();
            let taught = TokenCalls::new(model.clone()).teach(&tokens, 0.7, 0).await.unwrap();
            taught[taught.len() - answer.tokens.len()..].iter().map(|token| token.logprob).collect::<Vec<_>>()
        };
        let (same, other) = (after("1+1=").await, after("2+2=").await);
        for (found, drawn) in same.iter().zip(&answer.logprob_sampled) {
            assert!((found - f64::from(*drawn)).abs() < 1e-4, "{same:?} {:?}", answer.logprob_sampled);
        }
        assert_ne!(same, other);
        let longer = model.tokens_with_answer(&asked(&"1".repeat(4000)), &[], &answer.tokens);
        assert!(matches!(longer, Err(LocalModelError::TooLong { .. })), "{longer:?}");
    }
}
