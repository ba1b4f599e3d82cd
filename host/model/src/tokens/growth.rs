//! How much longer the steps of a normaliser or a decoder can make a text, from the document alone. Steps in a row multiply: 32 steps that
//! double a text make 4 GB of one byte.

use super::limits::{ADDED_TOKENS, GROWTH, STEPS, VOCABULARY};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The parts of `tokenizer.json` that decide what it costs. The rest is passed over without being kept.
#[derive(Deserialize)]
struct Outline {
    #[serde(default)]
    added_tokens: Count,
    normalizer: Option<Value>,
    decoder: Option<Value>,
    model: Option<ModelOutline>,
}

#[derive(Deserialize)]
struct ModelOutline {
    #[serde(default)]
    vocab: Count,
}

/// The number of entries of an array or an object.
#[derive(Default)]
struct Count(usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Counting;
        impl<'de> Visitor<'de> for Counting {
            type Value = Count;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an array or an object")
            }
            fn visit_unit<E>(self) -> Result<Count, E> {
                Ok(Count(0))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while entries.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }
        from.deserialize_any(Counting)
    }
}

/// Checks that a tokenizer can be read and used at a bounded cost.
///
/// # Errors
/// Why not.
pub(super) fn check(tokenizer_json: &str) -> Result<(), String> {
    let outline: Outline = serde_json::from_str(tokenizer_json).map_err(|error| format!("no tokenizer: {error}"))?;
    if outline.added_tokens.0 > ADDED_TOKENS {
        return Err(format!("{} added tokens; at most {ADDED_TOKENS} are read", outline.added_tokens.0));
    }
    let vocabulary = outline.model.map_or(0, |model| model.vocab.0);
    if vocabulary > VOCABULARY {
        return Err(format!("{vocabulary} tokens; at most {VOCABULARY} are read"));
    }
    for (name, document) in [("normalizer", outline.normalizer), ("decoder", outline.decoder)] {
        let mut bound = Bound { steps: 0, growth: 1 };
        bound.take(&document.unwrap_or_default());
        if bound.steps > STEPS {
            return Err(format!("the {name} has {} steps; at most {STEPS} are read", bound.steps));
        }
        if bound.growth > GROWTH {
            return Err(format!("the {name} can make a text more than {GROWTH} times longer"));
        }
    }
    Ok(())
}

struct Bound {
    steps: usize,
    /// Bytes after all steps for one byte before them, at most; saturating.
    growth: u64,
}

impl Bound {
    fn take(&mut self, document: &Value) {
        match document {
            Value::Array(all) => all.iter().for_each(|one| self.take(one)),
            Value::Object(fields) => {
                if let Some(kind) = fields.get("type") {
                    self.steps += 1;
                    self.growth = self.growth.saturating_mul(growth(kind.as_str().unwrap_or_default(), fields));
                }
                // Sequences name their steps in a field, some of them in a nested one.
                fields.values().for_each(|value| self.take(value));
            }
            _ => {}
        }
    }
}

/// How much longer one step makes a text of one byte or more.
fn growth(kind: &str, fields: &serde_json::Map<String, Value>) -> u64 {
    let length = |name: &str| fields.get(name).and_then(Value::as_str).map_or(0, |text| text.len() as u64);
    match kind {
        "Replace" => {
            let content = length("content");
            let replaced = fields.get("pattern").and_then(|pattern| pattern.get("String")).and_then(Value::as_str);
            match replaced {
                Some(text) if !text.is_empty() => content.div_ceil(text.len() as u64).max(1),
                // A regular expression may match nothing, between all characters.
                _ => content.saturating_add(1),
            }
        }
        "Prepend" => length("prepend").saturating_add(1),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_costs_too_much_is_refused_before_the_library_reads_it() {
        let check = |document: Value, expect: Option<&str>| match (check(&document.to_string()), expect) {
            (Ok(()), None) => {}
            (Err(why), Some(expect)) if why.contains(expect) => {}
            (found, expect) => panic!("{found:?} instead of {expect:?}"),
        };
        let replace =
            |pattern: Value, content: &str| json!({ "type": "Replace", "pattern": pattern, "content": content });
        let sequence = |steps: Vec<Value>| json!({ "normalizer": { "type": "Sequence", "normalizers": steps } });
        // As Llama has it.
        let usual = [json!({ "type": "Prepend", "prepend": "▁" }), replace(json!({ "String": " " }), "▁")];
        check(sequence(usual.to_vec()), None);
        check(json!({ "normalizer": null, "decoder": { "type": "Fuse" }, "added_tokens": [] }), None);
        let doubling = replace(json!({ "String": "a" }), "aa");
        check(sequence(vec![doubling.clone(); 6]), None);
        check(sequence(vec![doubling.clone(); 7]), Some("the normalizer can make a text more than 64 times longer"));
        check(sequence(vec![doubling; 32]), Some("64 times longer"));
        check(sequence(vec![json!({ "type": "Lowercase" }); 64]), Some("has 65 steps"));
        check(json!({ "normalizer": replace(json!({ "Regex": "" }), &"x".repeat(64)) }), Some("64 times longer"));
        check(json!({ "decoder": replace(json!({ "String": "a" }), &"x".repeat(65)) }), Some("the decoder can make"));
        check(json!({ "added_tokens": vec![0; 16_385] }), Some("16385 added tokens; at most 16384"));
        check(json!({ "model": { "vocab": vec![0; (1 << 20) + 1] } }), Some("1048577 tokens; at most 1048576"));
        check(json!([]), Some("no tokenizer"));
    }
}
