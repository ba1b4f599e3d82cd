//! The most common part of JSON Schema for tool arguments: required and unknown fields, and types of the top level.

use serde_json::{Map, Value};

/// The faults. An unknown keyword or a schema of another form is not a fault of the policy.
pub(crate) fn faults<'a>(schema: &'a Value, arguments: &'a Map<String, Value>) -> impl Iterator<Item = String> + 'a {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let missing = required.filter(|field| !arguments.contains_key(*field)).map(|field| format!("`{field}` is missing"));
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let others = arguments.iter().filter_map(move |(field, value)| {
        let shown: String = field.chars().take(64).collect();
        match properties.and_then(|known| known.get(field)) {
            Some(property) => wrong_type(property, value).map(|kind| format!("`{shown}` is no {kind}")),
            None => closed.then(|| format!("`{shown}` is unknown")),
        }
    });
    missing.chain(others)
}

/// The expected type of a value, if the value does not have it.
fn wrong_type(property: &Value, value: &Value) -> Option<String> {
    let one = |kind: &str| match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    };
    match property.get("type")? {
        Value::String(kind) => (!one(kind)).then(|| kind.clone()),
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            (!kinds.iter().any(|kind| one(kind))).then(|| kinds.join(" or "))
        }
        _ => None,
    }
}
