//! How Python prints a value: chat templates were written for Jinja2, where `{{ value }}` is `str(value)`.

use super::json::float;
use super::limits::RENDERED_BYTES;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, Output, State};
use std::borrow::Cow;
use std::fmt::{self, Write};

/// Deepest value that is printed. Arguments of tools are as deep as their author wants, and each level takes a part of the stack.
const DEEPEST: usize = 128;

/// The formatter of `{{ value }}`. What it writes to stops it when the text is too long.
pub(super) fn print(out: &mut Output<'_>, _: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    text(value, out).map_err(Error::from)
}

/// The filter `string`.
pub(super) fn string(value: &Value) -> Result<Value, Error> {
    let mut out = Bounded::default();
    text(value, &mut out).map_err(Error::from)?;
    Ok(Value::from(out.0))
}

/// The filter `join`.
pub(super) fn join(values: &Value, between: Option<Cow<'_, str>>, options: Kwargs) -> Result<String, Error> {
    let between = match between {
        Some(between) => between.into_owned(),
        None => options.get::<Option<String>>("d")?.unwrap_or_default(),
    };
    let attribute: Option<String> = options.get("attribute")?;
    options.assert_all_used()?;
    let mut out = Bounded::default();
    for (place, value) in values.try_iter()?.enumerate() {
        let value = attribute.as_ref().map_or(Ok(value.clone()), |name| value.get_attr(name))?;
        out.write_str(if place > 0 { &between } else { "" }).map_err(Error::from)?;
        text(&value, &mut out).map_err(Error::from)?;
    }
    Ok(out.0)
}

/// A text that grows up to the limit of a rendered conversation.
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > RENDERED_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Python's `str`: a text is itself.
fn text(value: &Value, out: &mut dyn Write) -> fmt::Result {
    match value.as_str() {
        Some(text) => out.write_str(text),
        None if value.is_undefined() => Ok(()),
        None => write(value, 0, out),
    }
}

/// Python's `repr`.
fn write(value: &Value, depth: usize, out: &mut dyn Write) -> fmt::Result {
    if depth > DEEPEST {
        return out.write_str("...");
    }
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => out.write_str("None"),
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => out.write_str(&float(number)),
            Err(_) => write!(out, "{value}"),
        },
        ValueKind::String => quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            out.write_str("[")?;
            for (place, item) in value.try_iter().into_iter().flatten().enumerate() {
                out.write_str(if place > 0 { ", " } else { "" })?;
                write(&item, depth + 1, out)?;
            }
            out.write_str("]")
        }
        ValueKind::Map => {
            out.write_str("{")?;
            for (place, key) in value.try_iter().into_iter().flatten().enumerate() {
                out.write_str(if place > 0 { ", " } else { "" })?;
                write(&key, depth + 1, out)?;
                out.write_str(": ")?;
                write(&value.get_item(&key).unwrap_or_default(), depth + 1, out)?;
            }
            out.write_str("}")
        }
        _ => write!(out, "{value}"),
    }
}

/// Python's `repr` of a text. It escapes what is not printable; so does Rust, after a first character that hides combining ones.
fn quoted(text: &str, out: &mut dyn Write) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.write_char(quote)?;
    for character in text.chars() {
        match character {
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            '\\' => out.write_str("\\\\"),
            character if character == quote => write!(out, "\\{quote}"),
            '\'' | '"' => out.write_char(character),
            character if is_printable(character) => out.write_char(character),
            character => match u32::from(character) {
                code @ 0..=0xff => write!(out, "\\x{code:02x}"),
                code @ 0x100..=0xffff => write!(out, "\\u{code:04x}"),
                code => write!(out, "\\U{code:08x}"),
            },
        }?;
    }
    out.write_char(quote)
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
