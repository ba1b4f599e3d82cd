//! Edits of single fields in the text of a JSON object. Everything else stays byte for byte: a gateway forwards what its client wrote.

use crate::{WireError, malformed};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::ops::Range;

/// Most fields at the top of a request. The dialects have some fifty.
const FIELDS: usize = 4096;

/// The top-level fields of a JSON object, with the places of their values in its text.
#[derive(Debug, Clone)]
pub struct TopLevel<'a> {
    text: &'a str,
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Spans<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Spans<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    if fields.len() == FIELDS {
                        return Err(serde::de::Error::custom(format!("more than {FIELDS} fields")));
                    }
                    fields.push((name, value));
                }
                Ok(Spans(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

struct Spans<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// A field's name, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> TopLevel<'a> {
    /// The fields of an object's text.
    ///
    /// # Errors
    /// [`WireError::Malformed`]: the text is not one JSON object. [`WireError::Request`]: a field in `single` is named twice, so that two
    /// readers could see two values.
    pub fn of(text: &'a str, single: &[&str]) -> Result<Self, WireError> {
        let Spans(fields) = serde_json::from_str(text).map_err(|error| malformed(text, &error))?;
        for name in single {
            if fields.iter().filter(|(known, _)| known == name).count() > 1 {
                return Err(WireError::Request((*name).to_owned(), "is named twice".to_owned()));
            }
        }
        Ok(Self { text, fields })
    }

    /// The text of a field's value.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        self.fields.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.get())
    }

    /// A field's value, if it has this type.
    pub fn read<T: Deserialize<'a>>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.value(name)?).ok()
    }

    /// The place of a value, which is a part of the text.
    fn place(&self, value: &'a str) -> Range<usize> {
        let start = (value.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        start..start + value.len()
    }

    /// The text with these fields set to these values, which are JSON texts. A field that is absent is added at the beginning.
    pub fn with(&self, edits: &[(&str, String)]) -> String {
        let mut placed: Vec<(Range<usize>, Cow<'_, str>)> = Vec::with_capacity(edits.len());
        let mut added = String::new();
        for (name, new) in edits {
            match self.value(name) {
                Some(value) => placed.push((self.place(value), Cow::Borrowed(new.as_str()))),
                None => {
                    let name = serde_json::Value::from(*name);
                    added.push_str(&format!("{name}:{new}{}", if self.fields.is_empty() { "" } else { "," }));
                }
            }
        }
        if !added.is_empty() {
            // The object's own brace is the first byte that is no white space.
            let begins = self.text.find('{').map_or(0, |at| at + 1);
            placed.push((begins..begins, Cow::Owned(added)));
        }
        placed.sort_by_key(|(range, _)| range.start);
        let mut out = String::with_capacity(self.text.len() + 64);
        let mut at = 0;
        for (range, new) in placed {
            out.push_str(self.text.get(at..range.start).unwrap_or_default());
            out.push_str(&new);
            at = range.end;
        }
        out.push_str(self.text.get(at..).unwrap_or_default());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn only_the_edited_bytes_change() {
        let check = |text: &str, edits: &[(&str, &str)], expect: &str| {
            let edits: Vec<(&str, String)> = edits.iter().map(|(name, new)| (*name, (*new).to_owned())).collect();
            assert_eq!(TopLevel::of(text, &[]).unwrap().with(&edits), expect, "{text}");
        };
        check(r#"{"model": "a", "x": 1.50}"#, &[("model", "\"b\"")], r#"{"model": "b", "x": 1.50}"#);
        check(r#"{ "x":1e3 ,"m\u006fdel" : "a"}"#, &[("model", "\"b\"")], r#"{ "x":1e3 ,"m\u006fdel" : "b"}"#);
        check(r#" {"x": {"model": "a"}}"#, &[("model", "\"b\"")], r#" {"model":"b","x": {"model": "a"}}"#);
        check("{}", &[("a", "1")], r#"{"a":1}"#);
        check(r#"{"b":2,"a":1}"#, &[("a", "7"), ("b", "8"), ("c", "9")], r#"{"c":9,"b":8,"a":7}"#);
        check(r#"{"é":"ü","a":[1, 2]}"#, &[("a", "[]")], r#"{"é":"ü","a":[]}"#);
    }

    #[test]
    fn what_is_not_one_object_or_names_a_field_twice_is_refused() {
        for text in ["", "[]", "7", "{", "{} {}", r#"{"a":1,}"#] {
            assert!(matches!(TopLevel::of(text, &[]), Err(WireError::Malformed(..))), "{text}");
        }
        let twice = r#"{"model":"a","model":"b"}"#;
        assert_eq!(TopLevel::of(twice, &["model"]).unwrap_err().to_string(), "model: is named twice");
        assert_eq!(TopLevel::of(twice, &[]).unwrap().read::<String>("model").as_deref(), Some("b"));
    }

    proptest! {
        #[test]
        fn an_edit_sets_the_field_and_nothing_else(
            values in proptest::collection::btree_map("[a-d\"\\\\é]{0,3}", any::<(i32, bool)>(), 0..6),
            name in "[a-d\"\\\\é]{0,3}",
        ) {
            let object: serde_json::Map<String, Value> =
                values.into_iter().map(|(name, value)| (name, json!(value))).collect();
            let text = serde_json::to_string_pretty(&object).unwrap();
            let edited = TopLevel::of(&text, &[]).unwrap().with(&[(&name, "\"new\"".to_owned())]);
            let mut expect = object;
            expect.insert(name, json!("new"));
            prop_assert_eq!(serde_json::from_str::<Value>(&edited).unwrap(), Value::Object(expect));
        }

        #[test]
        fn no_text_panics(text in "[{}\\[\\]\":,a1 \\\\]{0,24}") {
            if let Ok(fields) = TopLevel::of(&text, &[]) {
                fields.with(&[("a", "1".to_owned())]);
            }
        }
    }
}
