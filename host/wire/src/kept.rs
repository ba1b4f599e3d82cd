//! Client content that this program's message types cannot represent. It is kept, and written unchanged to endpoints of the
//! client's dialect.
//!
//! It is stored in three places. Unknown fields of a request are in [`ModelRequest::unknown`]. An unknown content part is a
//! [`Part::Other`] with the JSON text of an object whose single field is the dialect's name. Additional fields of a message,
//! a part or a call are an attribute with the dialect's name, as JSON text.
//!
//! Plugins can write parts and attributes too, and an image part could make an endpoint fetch an address, which a plugin
//! must not do. So parts and attributes are only written for messages whose origin is a client, the model or a client's
//! tool.
//!
//! [`ModelRequest::unknown`]: clawhost_core::ModelRequest::unknown

use clawhost_core::{Attributes, Message, Origin, Part};
use serde_json::{Map, Value};

/// Whether kept content of a message may be written.
pub(crate) fn is_trusted(message: &Message) -> bool {
    match message.origin {
        Origin::User | Origin::Policy | Origin::Tool => true,
        Origin::Task | Origin::Environment | Origin::Host => false,
    }
}

/// An unknown part, unchanged.
pub(crate) fn part(dialect: &str, part: Value) -> Part {
    let kept: Map<String, Value> = [(dialect.to_owned(), part)].into_iter().collect();
    Part::Other(Value::Object(kept).to_string())
}

/// The kept part of this dialect, if there is one.
pub(crate) fn kept_part(dialect: &str, message: &Message, part: &Part) -> Option<Value> {
    let Part::Other(text) = part else { return None };
    let mut kept: Map<String, Value> = serde_json::from_str(text).ok().filter(|_| is_trusted(message))?;
    kept.remove(dialect).filter(Value::is_object)
}

/// Additional fields as an attribute; `None` if there are none.
pub(crate) fn fields(dialect: &str, fields: Map<String, Value>) -> Option<(String, String)> {
    (!fields.is_empty()).then(|| (dialect.to_owned(), Value::Object(fields).to_string()))
}

/// The kept additional fields of this dialect.
pub(crate) fn kept_fields(dialect: &str, attributes: &Attributes) -> Map<String, Value> {
    let kept = attributes.iter().find(|(name, _)| name == dialect);
    kept.and_then(|(_, text)| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Adds missing fields, also inside of objects; existing fields are not changed.
pub(crate) fn add_missing(fields: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (name, value) in more {
        match (fields.get_mut(name), value) {
            (None, value) => drop(fields.insert(name.clone(), value.clone())),
            (Some(Value::Object(inner)), Value::Object(more)) => add_missing(inner, more),
            _ => {}
        }
    }
}

/// The same for a field that may be absent.
pub(crate) fn add_missing_to(field: &mut Option<Value>, more: &Value) {
    match (field, more) {
        (Some(Value::Object(inner)), Value::Object(more)) => add_missing(inner, more),
        (Some(_), _) => {}
        (absent @ None, more) => *absent = Some(more.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::Role;
    use serde_json::json;

    #[test]
    fn missing_fields_are_added_and_existing_ones_unchanged() {
        let check = |known: Value, more: Value, expected: Value| {
            let (Value::Object(mut fields), Value::Object(more)) = (known, more) else { panic!("objects") };
            add_missing(&mut fields, &more);
            assert_eq!(Value::Object(fields), expected);
        };
        check(json!({}), json!({"a": 1}), json!({"a": 1}));
        check(json!({"a": 1}), json!({"a": 2, "b": 3}), json!({"a": 1, "b": 3}));
        check(json!({"a": {"b": 1}}), json!({"a": {"b": 2, "c": 3}}), json!({"a": {"b": 1, "c": 3}}));
        check(json!({"a": {"b": 1}}), json!({"a": 2}), json!({"a": {"b": 1}}));
    }

    #[test]
    fn parts_of_plugins_or_other_dialects_are_not_written() {
        let image = json!({"type": "image_url", "image_url": {"url": "http://a.example/?secret"}});
        let kept = part("openai", image.clone());
        let check = |origin, dialect, expected| {
            let message = Message { parts: vec![kept.clone()], ..Message::text(Role::User, origin, "") };
            assert_eq!(kept_part(dialect, &message, &kept), expected, "{origin:?} {dialect}");
        };
        check(Origin::User, "openai", Some(image));
        check(Origin::User, "anthropic", None);
        check(Origin::Environment, "openai", None);
        check(Origin::Task, "openai", None);
        check(Origin::Host, "openai", None);
    }
}
