//! How Python prints a value: chat templates were written for Jinja2, where `{{ value }}` is `str(value)`.

use super::json::float;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, Output, State};
use std::borrow::Cow;

/// Deepest value that is printed. Arguments of tools are as deep as their author wants, and each level takes a part of the stack.
const DEEPEST: usize = 128;

/// The formatter of `{{ value }}`.
pub(super) fn print(out: &mut Output<'_>, _: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    out.write_str(&text(value)).map_err(Error::from)
}

/// The filter `string`.
pub(super) fn string(value: &Value) -> Value {
    Value::from(text(value).into_owned())
}

/// The filter `join`.
pub(super) fn join(values: &Value, between: Option<Cow<'_, str>>, options: Kwargs) -> Result<String, Error> {
    let between = match between {
        Some(between) => between.into_owned(),
        None => options.get::<Option<String>>("d")?.unwrap_or_default(),
    };
    let attribute: Option<String> = options.get("attribute")?;
    options.assert_all_used()?;
    let mut joined = String::new();
    for (place, value) in values.try_iter()?.enumerate() {
        let value = attribute.as_ref().map_or(Ok(value.clone()), |name| value.get_attr(name))?;
        joined.push_str(if place > 0 { &between } else { "" });
        joined.push_str(&text(&value));
    }
    Ok(joined)
}

/// Python's `str`: a text is itself.
fn text(value: &Value) -> Cow<'_, str> {
    match value.as_str() {
        Some(text) => Cow::Borrowed(text),
        None => {
            let mut out = String::new();
            if !value.is_undefined() {
                write(value, 0, &mut out);
            }
            Cow::Owned(out)
        }
    }
}

/// Python's `repr`.
fn write(value: &Value, depth: usize, out: &mut String) {
    if depth > DEEPEST {
        return out.push_str("...");
    }
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => out.push_str(&float(number)),
            Err(_) => out.push_str(&value.to_string()),
        },
        ValueKind::String => quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (place, item) in value.try_iter().into_iter().flatten().enumerate() {
                out.push_str(if place > 0 { ", " } else { "" });
                write(&item, depth + 1, out);
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (place, key) in value.try_iter().into_iter().flatten().enumerate() {
                out.push_str(if place > 0 { ", " } else { "" });
                write(&key, depth + 1, out);
                out.push_str(": ");
                write(&value.get_item(&key).unwrap_or_default(), depth + 1, out);
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
}

/// Python's `repr` of a text. It escapes what is not printable; so does Rust, after a first character that hides combining ones.
fn quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            character if character == quote => out.extend(['\\', quote]),
            '\'' | '"' => out.push(character),
            character if is_printable(character) => out.push(character),
            character => out.push_str(&match u32::from(character) {
                code @ 0..=0xff => format!("\\x{code:02x}"),
                code @ 0x100..=0xffff => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
        }
    }
    out.push(quote);
}

fn is_printable(character: char) -> bool {
    let mut pair = String::from("a");
    pair.push(character);
    pair.escape_debug().nth(1) == Some(character)
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::{Environment, context};

    fn rendered(source: &str, json: &str) -> String {
        let mut environment = Environment::new();
        environment.set_formatter(print);
        environment.add_filter("string", string);
        environment.add_filter("join", join);
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        environment.render_str(source, context! { v => Value::from_serialize(&value) }).unwrap()
    }

    #[test]
    fn values_are_printed_as_python_prints_them() {
        let check = |json: &str, expect: &str| assert_eq!(rendered("{{ v }}", json), expect, "{json}");
        check(r#""a 'text'""#, "a 'text'");
        check("[]", "[]");
        check(r#"["a", 1, 1.0, true, false, null, 1e20, -3]"#, "['a', 1, 1.0, True, False, None, 1e+20, -3]");
        check(r#"{"a": ["b"], "c": {}}"#, "{'a': ['b'], 'c': {}}");
        check("true", "True");
        check("null", "None");
        check(
            r#"["it's", "\"", "'\"", "\n\t\\", "é你🦀", "\u0000\u0085\u200b\ue000", "e\u0301"]"#,
            "[\"it's\", '\"', '\\'\"', '\\n\\t\\\\', 'é你🦀', '\\x00\\x85\\u200b\\ue000', 'e\u{301}']",
        );
        assert_eq!(
            rendered("{{ missing }}|{{ v|string }}|{{ [true, 'x', none]|join('-') }}", "[true]"),
            "|[True]|True-x-None"
        );
        assert_eq!(rendered("{{ v|join(', ', attribute='a') }}", r#"[{"a": 1}, {"a": [2]}]"#), "1, [2]");
    }

    #[test]
    fn a_value_that_is_too_deep_is_cut() {
        let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
        assert_eq!(rendered("{{ v }}", &deep), deep);
        let nested = rendered(
            "{% set ns = namespace(x=v) %}{% for i in range(300) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
            "1",
        );
        assert!(nested.contains("[...]"), "{nested}");
    }
}
