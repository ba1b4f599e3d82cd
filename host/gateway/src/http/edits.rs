//! What the gateway changes in a request that it forwards. Everything else stays byte for byte.

use super::shape::Shape;
use clawhost_wire::ClientRequest;
use clawhost_wire::splice::TopLevel;
use serde_json::{Map, Value};

/// The fields that the gateway changes in a request that it forwards: the model's name, and a stream's report of usage, which it needs for
/// the record. Whether the report was added.
pub(crate) fn edits(
    top: &TopLevel<'_>,
    client: &ClientRequest,
    shape: Shape,
    model: &str,
) -> (Vec<(&'static str, String)>, bool) {
    let mut edits = Vec::new();
    if client.model != model {
        edits.push(("model", Value::from(model).to_string()));
    }
    let adds_usage = shape.asks_for_usage() && client.stream && !client.include_usage;
    if adds_usage {
        let mut options: Map<String, Value> = top.read("stream_options").unwrap_or_default();
        options.insert("include_usage".to_owned(), true.into());
        edits.push(("stream_options", Value::Object(options).to_string()));
    }
    (edits, adds_usage)
}
