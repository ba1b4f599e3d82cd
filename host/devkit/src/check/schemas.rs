//! Whether the tools of an environment can be offered to a model.

use clawhost_core::{ToolSpec, escaped};
use serde_json::Value;
use std::collections::BTreeSet;

/// Types of JSON schema.
const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];
/// Deepest schema that is looked into.
const DEPTH: usize = 32;
/// Longest name that the endpoints of OpenAI and Anthropic take.
const NAME_BYTES: usize = 64;

/// What is wrong with these tools. Empty: nothing.
pub(super) fn problems(tools: &[ToolSpec]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut names = BTreeSet::new();
    for tool in tools {
        let name = escaped(&tool.name, NAME_BYTES);
        let is_plain = |one: char| one.is_ascii_alphanumeric() || one == '_' || one == '-';
        if tool.name.is_empty() || tool.name.len() > NAME_BYTES || !tool.name.chars().all(is_plain) {
            problems.push(format!("`{name}`: endpoints take names of letters, digits, _ and -, at most {NAME_BYTES}"));
        }
        if !names.insert(&tool.name) {
            problems.push(format!("`{name}`: two tools have this name"));
        }
        if tool.description.trim().is_empty() {
            problems.push(format!("`{name}`: it has no description, so a model cannot know what it does"));
        }
        match serde_json::from_str::<Value>(&tool.input_schema) {
            Err(error) => problems.push(format!("`{name}`: its schema is not JSON ({error})")),
            Ok(schema) => {
                if schema.get("type").and_then(Value::as_str) != Some("object") {
                    problems.push(format!("`{name}`: the type of its schema must be \"object\""));
                }
                problems.extend(of_schema(&schema, DEPTH).into_iter().map(|why| format!("`{name}`: {why}")));
            }
        }
    }
    problems
}

fn of_schema(schema: &Value, depth: usize) -> Vec<String> {
    let Some(fields) = schema.as_object() else {
        return if schema.is_boolean() { Vec::new() } else { vec!["a schema must be an object".to_owned()] };
    };
    if depth == 0 {
        return vec![format!("its schema is deeper than {DEPTH} levels")];
    }
    let mut problems = Vec::new();
    let mut is_type = |kind: &Value| match kind.as_str() {
        Some(kind) if TYPES.contains(&kind) => {}
        _ => problems.push(format!("`{}` is no type of JSON schema", escaped(&kind.to_string(), 60))),
    };
    match fields.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().for_each(&mut is_type),
        Some(kind) => is_type(kind),
        None => {}
    }
    let properties = fields.get("properties").map(|all| all.as_object());
    if let Some(None) = properties {
        problems.push("`properties` must be an object".to_owned());
    }
    let properties = properties.flatten();
    if let Some(required) = fields.get("required") {
        match required.as_array() {
            None => problems.push("`required` must be a list".to_owned()),
            Some(names) => {
                for name in names {
                    let is_known =
                        name.as_str().is_some_and(|name| properties.is_some_and(|all| all.contains_key(name)));
                    if !is_known {
                        problems.push(format!("{} is required, and is no property", escaped(&name.to_string(), 60)));
                    }
                }
            }
        }
    }
    let inner = properties.into_iter().flat_map(|all| all.values());
    let items = fields.get("items").into_iter();
    let others = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| fields.get(*key)?.as_array()).flatten();
    for schema in inner.chain(items).chain(others) {
        problems.extend(of_schema(schema, depth.saturating_sub(1)));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_that_endpoints_refuse_are_named() {
        let check = |name: &str, description: &str, schema: &str, expect: &[&str]| {
            let tool = ToolSpec {
                name: name.into(),
                description: description.into(),
                input_schema: schema.into(),
                extra: Vec::new(),
            };
            let found = problems(&[tool]);
            assert_eq!(found.len(), expect.len(), "{found:?}");
            for (found, expect) in found.iter().zip(expect) {
                assert!(found.contains(expect), "{found}");
            }
        };
        let good = r#"{"type":"object","properties":{"a":{"type":["integer","null"]},"b":{"type":"array","items":{"type":"string"}}},"required":["a"]}"#;
        check("send", "Sends.", good, &[]);
        check("send it", "Sends.", good, &["endpoints take names"]);
        check("send", " ", good, &["no description"]);
        check("send", "Sends.", "{", &["not JSON"]);
        check("send", "Sends.", r#"{"type":"array"}"#, &["must be \"object\""]);
        check(
            "send",
            "Sends.",
            r#"{"type":"object","properties":{"a":{"type":"strin"}}}"#,
            &["`\"strin\"` is no type"],
        );
        check("send", "Sends.", r#"{"type":"object","required":["a"]}"#, &["\"a\" is required, and is no property"]);
        check("send", "Sends.", r#"{"type":"object","properties":[]}"#, &["`properties` must be an object"]);
        check("send", "Sends.", r#"{"type":"object","properties":{"a":3}}"#, &["a schema must be an object"]);
    }
}
