//! JSON in chat templates, exactly as Python's `json.dumps` writes it: models were trained on that format.

use minijinja::value::{Kwargs, Value};
use minijinja::{Error, ErrorKind};
use serde_json::Value as Json;

/// The arguments of `json.dumps`.
struct Style {
    indent: Option<usize>,
    item: String,
    key: String,
    sorted: bool,
}

/// The filter `tojson` as in transformers: `ensure_ascii` is off, and HTML is not escaped.
pub(super) fn tojson(value: &Value, indent: Option<usize>, options: Kwargs) -> Result<String, Error> {
    let value = serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, format!("no JSON: {error}")))?;
    let indent = indent.or(options.get("indent")?);
    let separators: Option<(String, String)> = match options.get::<Option<Value>>("separators")? {
        None => None,
        Some(pair) if pair.is_none() => None,
        Some(pair) => Some((pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string())),
    };
    if options.get::<Option<bool>>("ensure_ascii")? == Some(true) {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson with ensure_ascii is not supported"));
    }
    let sorted = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let plain = if indent.is_some() { "," } else { ", " };
    let (item, key) = separators.unwrap_or_else(|| (plain.to_owned(), ": ".to_owned()));
    let mut out = String::new();
    Style { indent, item, key, sorted }.write(&value, 0, &mut out);
    Ok(out)
}

impl Style {
    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn write(&self, value: &Json, depth: usize, out: &mut String) {
        match value {
            Json::Array(items) if !items.is_empty() => {
                out.push('[');
                for (place, item) in items.iter().enumerate() {
                    out.push_str(if place > 0 { &self.item } else { "" });
                    self.line(depth + 1, out);
                    self.write(item, depth + 1, out);
                }
                self.line(depth, out);
                out.push(']');
            }
            Json::Object(members) if !members.is_empty() => {
                let mut members: Vec<(&String, &Json)> = members.iter().collect();
                if self.sorted {
                    members.sort_by_key(|(name, _)| *name);
                }
                out.push('{');
                for (place, (name, member)) in members.into_iter().enumerate() {
                    out.push_str(if place > 0 { &self.item } else { "" });
                    self.line(depth + 1, out);
                    out.push_str(&Json::from(name.as_str()).to_string());
                    out.push_str(&self.key);
                    self.write(member, depth + 1, out);
                }
                self.line(depth, out);
                out.push('}');
            }
            Json::Number(number) if number.is_f64() => out.push_str(&float(number.as_f64().unwrap_or_default())),
            other => out.push_str(&other.to_string()),
        }
    }
}

/// The shortest digits that parse to the same number, with an exponent below 1e-4 and from 1e16 on: Python's `repr`.
pub(super) fn float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if number == 0.0 || (-4..16).contains(&exponent) {
        let plain = format!("{number}");
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::{Environment, context};

    fn dumped(call: &str, text: &str) -> Result<String, Error> {
        let mut environment = Environment::new();
        environment.add_filter("tojson", tojson);
        let value: Json = serde_json::from_str(text).unwrap();
        environment
            .render_str(&format!("{{{{ value | {call} }}}}"), context! { value => Value::from_serialize(&value) })
    }

    #[test]
    fn json_equals_the_output_of_python() {
        let check = |call: &str, text: &str, expect: &str| assert_eq!(dumped(call, text).unwrap(), expect, "{text}");
        check("tojson", r#"{"b":[1,2.0,null,true],"a":{}}"#, r#"{"b": [1, 2.0, null, true], "a": {}}"#);
        check("tojson", r#"["é <b> & 'x' \u0001 \n \u007f"]"#, "[\"é <b> & 'x' \\u0001 \\n \u{7f}\"]");
        check("tojson(indent=2)", r#"{"b":[1],"a":[]}"#, "{\n  \"b\": [\n    1\n  ],\n  \"a\": []\n}");
        check("tojson(sort_keys=true)", r#"{"b":1,"a":2}"#, r#"{"a": 2, "b": 1}"#);
        check("tojson(separators=(',', ':'))", r#"{"b":[1,2]}"#, r#"{"b":[1,2]}"#);
        let floats = "[0.1, 1e16, 1e15, 1e-4, 1e-5, 1.5e-7, -2.5e300, 123456.0, 0.0]";
        let expect = "[0.1, 1e+16, 1000000000000000.0, 0.0001, 1e-05, 1.5e-07, -2.5e+300, 123456.0, 0.0]";
        check("tojson", floats, expect);
    }

    #[test]
    fn json_settings_that_change_the_output_are_refused() {
        assert!(dumped("tojson(ensure_ascii=true)", "1").is_err());
        assert!(dumped("tojson(default=1)", "1").is_err());
    }
}
