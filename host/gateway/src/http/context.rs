//! Requests that are longer than a model's context: what is left out for it, so that the rest fits.

use super::answer::Refusal;
use super::shape::Shape;
use clawhost_core::ModelRequest;
use clawhost_wire::context::{Context, ContextShape, list_of_kept};
use clawhost_wire::splice::TopLevel;
use clawhost_wire::{ClientRequest, ErrorKind};
use std::borrow::Cow;

/// The header that counts the messages that a model did not see.
pub(crate) const CUT: &str = "x-clawhost-cut";

/// Where a shape has its conversation. Plain text has none.
pub(crate) fn of(shape: Shape) -> Option<ContextShape> {
    match shape {
        Shape::Chat => Some(ContextShape::Chat),
        Shape::Responses => Some(ContextShape::Responses),
        Shape::Messages => Some(ContextShape::Messages),
        Shape::Completions => None,
    }
}

/// The refusal of a conversation that cannot be cut to fit.
pub(crate) fn too_long(model: &str, tokens: u64, limit: u64) -> Refusal {
    let why = format!(
        "the conversation has about {tokens} tokens, but `{model}` reads {limit}, and what must stay of it does not fit: the instructions and the last turn"
    );
    Refusal::new(ErrorKind::TooLong, why)
}

/// The list of messages of a body as it fits, with the number of those that were left out. `None`: it fits as it is, or cannot be cut.
pub(crate) fn cut_body(shape: Shape, body: &str, limit: u64) -> Option<(&'static str, String, u32)> {
    let shape = of(shape)?;
    let top = TopLevel::of(body, &[]).ok()?;
    let kept = Context::of_body(shape, &top)?.cut(limit)?;
    let cut = count(&kept)?;
    Some((shape.field(), list_of_kept(top.value(shape.field())?, &kept)?, cut))
}

/// The request as it fits, with the number of messages that were left out.
pub(crate) fn cut_request(client: &ClientRequest, limit: Option<u64>) -> (Cow<'_, ClientRequest>, u32) {
    let ModelRequest { messages, tools, .. } = &client.request;
    let kept = limit.and_then(|limit| Context::of_request(messages, tools).cut(limit));
    let Some((cut, kept)) = kept.and_then(|kept| Some((count(&kept)?, kept))) else {
        return (Cow::Borrowed(client), 0);
    };
    let left = messages.iter().zip(kept).filter(|(_, kept)| *kept).map(|(message, _)| message.clone());
    let request = ModelRequest { messages: left.collect(), ..client.request.clone() };
    (Cow::Owned(ClientRequest { request, ..client.clone() }), cut)
}

/// How many are left out. `None`: nothing is.
fn count(kept: &[bool]) -> Option<u32> {
    let cut = kept.iter().filter(|kept| !**kept).count();
    u32::try_from(cut).ok().filter(|cut| *cut > 0)
}

/// The conversation of a request: as it is forwarded, or with all that it continues.
pub(crate) fn context(shape: Shape, top: &TopLevel<'_>, client: &ClientRequest, is_whole: bool) -> Context {
    let of_body = of(shape).filter(|_| is_whole).and_then(|shape| Context::of_body(shape, top));
    of_body.unwrap_or_else(|| Context::of_request(&client.request.messages, &client.request.tools))
}
