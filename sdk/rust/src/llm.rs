//! Models that the operator granted (`--grant llm:ALIAS=SPEC`). For judges, reflectors and simulated users.

use crate::{Error, Message, Result, Role};

pub use crate::bindings::observer::clawhost::llm::llm::{LlmError, Request, Response};

/// A request with one question, at temperature 0.
pub fn request(alias: &str, question: &str) -> Request {
    Request {
        alias: alias.to_owned(),
        messages: vec![Message::text(Role::User, question)],
        tools: Vec::new(),
        max_tokens: 512,
        temperature: Some(0.0),
        seed: None,
        stop: Vec::new(),
        extra: Vec::new(),
    }
}

/// Sends one request.
///
/// # Errors
/// The alias is not granted, its budget is spent, or the model did not answer.
pub fn complete(request: &Request) -> Result<Response, LlmError> {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::observer::clawhost::llm::llm::complete(request);
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::answer(request)
}

/// Sends several requests at once, at most 64. Each answer fails on its own.
///
/// # Errors
/// There are too many requests. None was sent.
pub fn complete_batch(requests: &[Request]) -> Result<Vec<Result<Response, LlmError>>, LlmError> {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::observer::clawhost::llm::llm::complete_batch(requests);
    #[cfg(not(target_arch = "wasm32"))]
    Ok(requests.iter().map(crate::testing::answer).collect())
}

/// The text of an error.
pub fn error_text(error: LlmError) -> String {
    match error {
        LlmError::Denied(text)
        | LlmError::BudgetExhausted(text)
        | LlmError::InvalidRequest(text)
        | LlmError::Unavailable(text)
        | LlmError::Other(text) => text,
    }
}

/// Asks one question and returns the text of the answer.
///
/// # Errors
/// As [`complete`].
pub fn ask(alias: &str, question: &str) -> Result<String> {
    match complete(&request(alias, question)) {
        Ok(response) => Ok(response.message.plain_text()),
        Err(error) => Err(Error::model(error_text(error))),
    }
}
