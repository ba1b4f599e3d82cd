//! Reads requests for an answer, of each shape.

use super::answer::Refusal;
use super::exchange::Call;
use super::responses::Continued;
use super::serve::Inner;
use super::shape::Shape;
use clawhost_core::{Message, ModelRequest, Origin, Part, Role};
use clawhost_wire::splice::TopLevel;
use clawhost_wire::{ClientRequest, WireError, anthropic, completions, openai, responses};
use serde_json::json;

/// A request as it was read.
pub(super) struct Asked {
    pub(super) client: ClientRequest,
    /// Of the responses shape.
    pub(super) continued: Option<Continued>,
}

/// Reads a request.
pub(super) async fn read(
    gateway: &Inner,
    call: &Call,
    top: &TopLevel<'_>,
    text: &str,
    forwards: bool,
) -> Result<Asked, Refusal> {
    let most = gateway.config.max_tokens;
    let read = match call.shape {
        Shape::Chat => openai::read_request(text, most),
        Shape::Messages => anthropic::read_request(text),
        Shape::Completions => completions::read_request(text).map(|asked| asked.client),
        Shape::Responses => match responses::read_request(text, most) {
            Ok(asked) => {
                let (client, continued) = Continued::of(gateway, &call.client.owner, asked).await?;
                return Ok(Asked { client, continued: Some(continued) });
            }
            Err(error) => Err(error),
        },
    };
    match read {
        Ok(client) => Ok(Asked { client, continued: None }),
        // An upstream of the same dialect may know what this program does not: it decides. Nothing is lost from the record.
        Err(WireError::Request(..)) if forwards => {
            let model = top.read("model").unwrap_or_default();
            Ok(Asked { client: unread(top, text, call.shape, model), continued: None })
        }
        Err(error) => Err(error.into()),
    }
}

/// A request that this program cannot read, as one message.
fn unread(top: &TopLevel<'_>, text: &str, shape: Shape, model: String) -> ClientRequest {
    let kept = json!({ shape.dialect().name(): { "type": "unread_request", "request": text } });
    let message = Message { parts: vec![Part::Other(kept.to_string())], ..Message::text(Role::User, Origin::User, "") };
    ClientRequest {
        model,
        request: ModelRequest { messages: vec![message], ..ModelRequest::default() },
        stream: top.read("stream").unwrap_or(false),
        include_usage: false,
        answers: 1,
    }
}
