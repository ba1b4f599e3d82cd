//! The tools of a request. Tools in a namespace get one name of both for models of other shapes, and calls get the two names back.

use super::request::Foreign;
use crate::WireError;
use crate::server::Fields;
use clawhost_core::{Digest, ToolSpec};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Most bytes of a tool's name, at endpoints of all dialects.
const NAME_BYTES: usize = 64;
/// Between a namespace and a name.
const SEPARATOR: &str = "__";
/// Hexadecimal digits of the digest at the end of a name that was too long.
const DIGITS: usize = 16;

/// The name of a tool as its client knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolName {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

/// The one name of a tool in a namespace.
pub(super) fn flat(namespace: &str, name: &str) -> String {
    let separator = if namespace.is_empty() || namespace.ends_with(SEPARATOR) { "" } else { SEPARATOR };
    let whole = format!("{namespace}{separator}{name}");
    if whole.len() <= NAME_BYTES {
        return whole;
    }
    let digest = Digest::of(whole.as_bytes()).to_string();
    let digits: String = digest.chars().rev().take(DIGITS).collect();
    let most = NAME_BYTES - DIGITS - 1;
    let end = (0..=most).rev().find(|at| whole.is_char_boundary(*at)).unwrap_or(0);
    format!("{}_{digits}", whole.get(..end).unwrap_or_default())
}

/// The names of the tools in namespaces, by their one name.
#[derive(Debug, Default)]
pub(super) struct Namespaces(HashMap<String, ToolName>);

impl Namespaces {
    /// Those of a request, from the fields that its response repeats.
    pub(super) fn of(repeated: &Map<String, Value>) -> Self {
        let mut names = HashMap::new();
        let text = |tool: &Value, field: &str| tool.get(field).and_then(Value::as_str).map(str::to_owned);
        let tools = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
        for space in tools(repeated.get("tools")) {
            if text(&space, "type").as_deref() != Some("namespace") {
                continue;
            }
            let namespace = text(&space, "name").unwrap_or_default();
            for name in tools(space.get("tools")).iter().filter_map(|tool| text(tool, "name")) {
                let known = ToolName { namespace: Some(namespace.clone()), name: name.clone() };
                names.insert(flat(&namespace, &name), known);
            }
        }
        Self(names)
    }

    /// The name of a called tool as its client knows it.
    pub(super) fn name(&self, called: &str) -> ToolName {
        let known = self.0.get(called).cloned();
        known.unwrap_or_else(|| ToolName { namespace: None, name: called.to_owned() })
    }
}

/// Functions, those in namespaces too. A tool that the endpoint runs itself is foreign.
pub(super) fn tools(fields: &mut Fields, foreign: &mut Foreign) -> Result<Vec<ToolSpec>, WireError> {
    let mut known: Vec<ToolSpec> = Vec::new();
    for (at, value) in fields.list("tools")?.unwrap_or_default().into_iter().enumerate() {
        let place = format!("tools[{at}]");
        let mut tool = Fields::of(place.clone(), value)?;
        match tool.text("type")?.unwrap_or_default().as_str() {
            "function" => add(&mut known, function(tool, "")?, &place, foreign),
            "namespace" => {
                let namespace = tool.needed("name")?;
                for (inner, value) in tool.list("tools")?.unwrap_or_default().into_iter().enumerate() {
                    let place = format!("{place}.tools[{inner}]");
                    let mut tool = Fields::of(place.clone(), value)?;
                    match tool.text("type")?.unwrap_or_default().as_str() {
                        "function" => add(&mut known, function(tool, &namespace)?, &place, foreign),
                        kind => foreign.note(|| format!("{place} of the type `{kind}`")),
                    }
                }
            }
            kind => foreign.note(|| format!("{place} of the type `{kind}`")),
        }
    }
    Ok(known)
}

/// Adds a tool. Two of one name could not be told apart in a call.
fn add(known: &mut Vec<ToolSpec>, tool: ToolSpec, place: &str, foreign: &mut Foreign) {
    if known.iter().any(|known| known.name == tool.name) {
        foreign.note(|| format!("{place}, whose name `{}` another tool has,", tool.name));
        return;
    }
    known.push(tool);
}

fn function(mut tool: Fields, namespace: &str) -> Result<ToolSpec, WireError> {
    let name = tool.needed("name")?;
    let name = if namespace.is_empty() { name } else { flat(namespace, &name) };
    let description = tool.text("description")?.unwrap_or_default();
    let schema = tool.take("parameters").unwrap_or_else(|| json!({}));
    if !schema.is_object() {
        return Err(tool.problem("parameters", "must be an object"));
    }
    Ok(ToolSpec { name, description, input_schema: schema.to_string(), extra: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_and_a_name_are_one_name_of_at_most_64_bytes() {
        let check = |namespace: &str, name: &str, expect: &str| assert_eq!(flat(namespace, name), expect);
        check("agents", "spawn", "agents__spawn");
        check("mcp__files__", "read", "mcp__files__read");
        let long = flat(&"a".repeat(60), "spawn");
        assert_eq!((long.len(), &long[..48]), (64, &*format!("{}_", "a".repeat(47))));
        assert_ne!(long, flat(&"a".repeat(60), "other"));
        assert!(flat(&"é".repeat(60), "spawn").len() <= 64);
    }

    #[test]
    fn calls_get_their_two_names_back() {
        let tools = json!([{"type": "function", "name": "f"}, {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}]);
        let names = Namespaces::of(json!({"tools": tools}).as_object().unwrap());
        let check = |called: &str, namespace: Option<&str>, name: &str| {
            let expect = ToolName { namespace: namespace.map(str::to_owned), name: name.to_owned() };
            assert_eq!(names.name(called), expect);
        };
        check("f", None, "f");
        check("n__f", Some("n"), "f");
        check("n__g", None, "n__g");
    }
}
