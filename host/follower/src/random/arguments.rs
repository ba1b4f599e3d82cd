//! Arguments of a tool, drawn from its JSON Schema.
//!
//! Supported are `const`, `enum`, booleans, null, integers and other numbers in their range, arrays, objects with their required
//! properties, `anyOf` and `oneOf`. A string is the value of a fact in the conversation: one whose name shares a word with the
//! property's name (`order_id` matches `order`), or else any. `pattern`, `format`, `$ref` and `allOf` are ignored.

use super::chance::Chance;
use clawhost_core::Facts;
use serde_json::{Map, Number, Value};

/// Largest nesting of schemas: more than any readable schema has, and less than the stack allows.
const DEPTH: usize = 16;
/// The width of a number's range if it lacks a limit.
const SPAN: i64 = 100;
/// Largest number of items of an array without a limit, and of any array: each item costs a draw.
const FEW_ITEMS: u64 = 3;
const MOST_ITEMS: u64 = 32;
/// Number of steps into which the range of a non-integer number is divided.
const STEPS: i64 = 1_000_000;
/// Words in names of properties that do not describe the property.
const EMPTY_WORDS: [&str; 5] = ["id", "ids", "name", "number", "value"];

/// The source of drawn arguments: the known facts, and the random draws.
pub(crate) struct Drawing<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) chance: &'a mut Chance,
}

impl Drawing<'_> {
    /// The arguments of a call: a JSON object. It is empty if the schema cannot be parsed.
    pub(crate) fn arguments(&mut self, schema: &str) -> String {
        let schema: Value = serde_json::from_str(schema).unwrap_or_default();
        Value::Object(self.object(&schema, DEPTH)).to_string()
    }

    fn value(&mut self, schema: &Value, name: &str, depth: usize) -> Value {
        if let Some(only) = schema.get("const") {
            return only.clone();
        }
        if let Some(value) = list(schema, "enum").and_then(|all| self.chance.one_of(all)) {
            return value.clone();
        }
        let Some(depth) = depth.checked_sub(1) else { return Value::Null };
        for several in ["anyOf", "oneOf"] {
            if let Some(schema) = list(schema, several).and_then(|all| self.chance.one_of(all)) {
                return self.value(schema, name, depth);
            }
        }
        let kind = match schema.get("type") {
            Some(Value::Array(kinds)) => self.chance.one_of(kinds),
            other => other,
        };
        match kind.and_then(Value::as_str) {
            Some("object") => Value::Object(self.object(schema, depth)),
            Some("array") => self.array(schema, name, depth),
            Some("boolean") => self.chance.flip().into(),
            Some("integer") => self.whole(schema).into(),
            Some("number") => self.decimal(schema),
            Some("null") => Value::Null,
            None if schema.get("properties").is_some() => Value::Object(self.object(schema, depth)),
            _ => self.text(schema, name).into(),
        }
    }

    /// All required properties, and each optional one with probability 1/2.
    fn object(&mut self, schema: &Value, depth: usize) -> Map<String, Value> {
        let mut drawn = Map::new();
        let required: Vec<&str> =
            list(schema, "required").unwrap_or_default().iter().filter_map(Value::as_str).collect();
        let known = schema.get("properties").and_then(Value::as_object);
        for (name, schema) in known.into_iter().flatten() {
            if required.contains(&name.as_str()) || self.chance.flip() {
                drawn.insert(name.clone(), self.value(schema, name, depth));
            }
        }
        drawn
    }

    fn array(&mut self, schema: &Value, name: &str, depth: usize) -> Value {
        let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
        let least = bound("minItems").unwrap_or(0).min(MOST_ITEMS);
        let most = bound("maxItems").unwrap_or(FEW_ITEMS).min(MOST_ITEMS).max(least);
        let items = schema.get("items").cloned().unwrap_or_default();
        let count = self.chance.between(least as i64, most as i64);
        Value::Array((0..count).map(|_| self.value(&items, name, depth)).collect())
    }

    fn whole(&mut self, schema: &Value) -> i64 {
        let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
        // Conversions from floats saturate.
        let low = bound("minimum").map(|low| low.ceil() as i64);
        let low = low.or_else(|| bound("exclusiveMinimum").map(|low| (low.floor() as i64).saturating_add(1)));
        let high = bound("maximum").map(|high| high.floor() as i64);
        let high = high.or_else(|| bound("exclusiveMaximum").map(|high| (high.ceil() as i64).saturating_sub(1)));
        let (low, high) = match (low, high) {
            (Some(low), Some(high)) => (low, high),
            (Some(low), None) => (low, low.saturating_add(SPAN)),
            (None, Some(high)) => (high.saturating_sub(SPAN), high),
            (None, None) => (0, SPAN),
        };
        let step = schema.get("multipleOf").and_then(Value::as_i64).filter(|step| *step > 1);
        match step {
            None => self.chance.between(low, high),
            Some(step) => {
                let first = low.div_euclid(step) + i64::from(low.rem_euclid(step) > 0);
                self.chance.between(first, high.div_euclid(step)).saturating_mul(step)
            }
        }
    }

    fn decimal(&mut self, schema: &Value) -> Value {
        let bound = |key: &str, other: &str| schema.get(key).or_else(|| schema.get(other)).and_then(Value::as_f64);
        let (low, high) = (bound("minimum", "exclusiveMinimum"), bound("maximum", "exclusiveMaximum"));
        let span = SPAN as f64;
        let (low, high) = match (low, high) {
            (Some(low), Some(high)) => (low, high),
            (Some(low), None) => (low, low + span),
            (None, Some(high)) => (high - span, high),
            (None, None) => (0.0, span),
        };
        // The limits may be exclusive, so they are never drawn.
        let share = self.chance.between(1, STEPS - 1) as f64 / STEPS as f64;
        let drawn = low + (high - low) * share;
        Number::from_f64(drawn).map_or(Value::Null, Value::Number)
    }

    fn text(&mut self, schema: &Value, name: &str) -> String {
        let bound = |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|bound| usize::try_from(bound).ok());
        let (least, most) = (bound("minLength").unwrap_or(0), bound("maxLength").unwrap_or(usize::MAX));
        let fits = |value: &str| (least..=most).contains(&value.chars().count());
        let all: Vec<(&str, &str)> = self.facts.iter().filter(|(_, value)| fits(value)).collect();
        let wanted: Vec<String> = words(name).filter(|word| !EMPTY_WORDS.contains(&word.as_str())).collect();
        let near: Vec<(&str, &str)> =
            all.iter().filter(|(fact, _)| words(fact).any(|word| wanted.contains(&word))).copied().collect();
        let from = if near.is_empty() { all } else { near };
        let drawn = self.chance.one_of(&from).map(|(_, value)| (*value).to_owned());
        drawn.unwrap_or_else(|| "x".repeat(least.min(SPAN as usize)))
    }
}

/// A non-empty list in a schema.
fn list<'a>(schema: &'a Value, key: &str) -> Option<&'a [Value]> {
    schema.get(key).and_then(Value::as_array).map(Vec::as_slice).filter(|all| !all.is_empty())
}

/// The words of a name, in lower case.
fn words(name: &str) -> impl Iterator<Item = String> {
    name.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// All values of the property `field` of this schema in a hundred draws, as JSON texts.
    fn drawn(field: &str, schema: &str) -> BTreeSet<String> {
        let mut facts = Facts::default();
        facts.read("order: A7\npaid by: card\nshipping order: B2\namount: 12.50");
        let schema = format!(r#"{{"type": "object", "properties": {{"{field}": {schema}}}, "required": ["{field}"]}}"#);
        let one = |seed| {
            let mut chance = Chance::new(seed, &[]);
            let arguments = Drawing { facts: &facts, chance: &mut chance }.arguments(&schema);
            serde_json::from_str::<Value>(&arguments).unwrap()[field].to_string()
        };
        (0..100).map(one).collect()
    }

    fn check(field: &str, schema: &str, expect: &[&str]) {
        assert_eq!(drawn(field, schema), expect.iter().map(|&text| text.to_owned()).collect(), "{schema}");
    }

    #[test]
    fn values_conform_to_the_schema() {
        check("x", r#"{"const": 4}"#, &["4"]);
        check("x", r#"{"enum": ["a", 2, null]}"#, &["\"a\"", "2", "null"]);
        check("x", r#"{"type": "boolean"}"#, &["true", "false"]);
        check("x", r#"{"type": "integer", "minimum": -1, "maximum": 1.5}"#, &["-1", "0", "1"]);
        check("x", r#"{"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 4}"#, &["2", "3"]);
        check("x", r#"{"type": "integer", "minimum": 3, "maximum": 9, "multipleOf": 4}"#, &["4", "8"]);
        check("x", r#"{"type": ["null", "boolean"]}"#, &["null", "true", "false"]);
        check("x", r#"{"anyOf": [{"const": 1}, {"const": 2}]}"#, &["1", "2"]);
        check("x", r#"{"type": "array", "items": {"const": 1}, "maxItems": 2}"#, &["[]", "[1]", "[1,1]"]);
        check("x", r#"{"properties": {"y": {"const": 1}}, "required": ["y"]}"#, &["{\"y\":1}"]);
    }

    #[test]
    fn strings_are_values_of_facts_preferably_with_similar_names() {
        check("order_id", r#"{"type": "string"}"#, &["\"A7\"", "\"B2\""]);
        check("paid_by", r#"{"type": "string"}"#, &["\"card\""]);
        check("message", r#"{"type": "string"}"#, &["\"A7\"", "\"B2\"", "\"card\"", "\"12.50\""]);
        check("message", r#"{"type": "string", "minLength": 4}"#, &["\"card\"", "\"12.50\""]);
        check("message", r#"{"type": "string", "minLength": 9}"#, &["\"xxxxxxxxx\""]);
    }

    #[test]
    fn numbers_stay_in_their_range() {
        for text in drawn("x", r#"{"type": "number", "minimum": 0.25, "exclusiveMaximum": 0.5}"#) {
            assert!((0.25..0.5).contains(&text.parse::<f64>().unwrap()), "{text}");
        }
        let open = drawn("x", r#"{"type": "integer", "minimum": 9223372036854775807}"#);
        assert_eq!(open.into_iter().collect::<Vec<_>>(), ["9223372036854775807"]);
    }

    #[test]
    fn unusual_schemas_cause_no_error() {
        let facts = Facts::default();
        let arguments = |schema: &str| {
            let mut chance = Chance::new(1, &[]);
            Drawing { facts: &facts, chance: &mut chance }.arguments(schema)
        };
        let mut deep = "{\"type\": \"string\"}".to_owned();
        for _ in 0..60 {
            deep = format!(r#"{{"type": "object", "properties": {{"a": {deep}}}, "required": ["a"]}}"#);
        }
        for odd in ["", "no JSON", "[]", "true", "{\"properties\": 4}", "{\"required\": [\"a\"]}"] {
            assert_eq!(arguments(odd), "{}", "{odd}");
        }
        assert!(arguments(&deep).contains("null"));
    }
}
