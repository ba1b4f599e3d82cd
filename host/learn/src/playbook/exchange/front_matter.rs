//! The front matter of a `SKILL.md`: a subset of YAML.
//!
//! ```text
//! ---
//! name: refund-gold
//! description: "when to use it: in quotes"
//! metadata:
//!   key: value
//! ---
//! ```
//!
//! Values are texts on one line, plain or quoted. All other YAML is rejected, so that nothing is misread.

use std::collections::BTreeMap;

/// The fields of a front matter.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FrontMatter {
    pub(super) fields: BTreeMap<String, String>,
    /// Fields under `metadata`.
    pub(super) metadata: BTreeMap<String, String>,
}

/// The line that opens and closes the front matter.
const FENCE: &str = "---";

/// First characters of YAML values that are not plain text: lists, maps, blocks, anchors, tags.
const INDICATORS: [char; 17] = ['[', ']', '{', '}', '&', '*', '!', '|', '>', '%', '@', '`', ',', '#', '?', '-', ':'];

impl FrontMatter {
    /// Serialised, with fences. Values are quoted as JSON strings, which YAML reads too.
    pub(super) fn write(&self) -> String {
        let quoted = |text: &String| serde_json::Value::from(text.as_str()).to_string();
        let mut out = format!("{FENCE}\n");
        // Readers expect the name first.
        let (names, others): (Vec<_>, Vec<_>) = self.fields.iter().partition(|(key, _)| *key == "name");
        for (key, value) in names.into_iter().chain(others) {
            out.push_str(&format!("{key}: {}\n", quoted(value)));
        }
        if !self.metadata.is_empty() {
            out.push_str("metadata:\n");
        }
        for (key, value) in &self.metadata {
            out.push_str(&format!("  {key}: {}\n", quoted(value)));
        }
        out.push_str(FENCE);
        out.push('\n');
        out
    }

    /// Parses the front matter at the start of a text; returns it and the rest.
    ///
    /// # Errors
    /// A description of the problem, with the line.
    pub(super) fn read(text: &str) -> Result<(Self, &str), String> {
        let text = text.trim_start_matches('\u{feff}');
        let mut head = Self::default();
        let mut in_metadata = false;
        let mut read = 0;
        for (position, line) in text.split_inclusive('\n').enumerate() {
            read += line.len();
            let line = line.trim_end();
            let at = |what: &str| format!("line {}: {what}", position + 1);
            match (position, line) {
                (0, FENCE) => {}
                (0, _) => return Err(at("a skill begins with a line `---`, then its name and description")),
                (_, FENCE) => return Ok((head, text.get(read..).unwrap_or_default())),
                (_, line) if line.is_empty() || line.trim_start().starts_with('#') => {}
                (_, "metadata:") => in_metadata = true,
                (_, line) => {
                    let is_nested = line.starts_with([' ', '\t']);
                    if is_nested && !in_metadata {
                        return Err(at("lists, blocks and nested values are not read; write `key: value` in one line"));
                    }
                    in_metadata = is_nested;
                    let (key, value) = field(line.trim_start()).map_err(|what| at(&what))?;
                    let fields = if is_nested { &mut head.metadata } else { &mut head.fields };
                    if fields.insert(key.clone(), value).is_some() {
                        return Err(at(&format!("`{key}` is given twice; remove one")));
                    }
                }
            }
        }
        Err("the front matter has no end; close it with a line `---`".to_owned())
    }
}

fn field(line: &str) -> Result<(String, String), String> {
    let (key, value) = match line.split_once(": ") {
        Some((key, value)) => (key, value.trim()),
        None => (line.strip_suffix(':').ok_or("expected `key: value`")?, ""),
    };
    let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.');
    if key.is_empty() || !key.chars().all(is_plain) {
        return Err(format!("expected `key: value`, where the key has letters, digits, `_`, `-` and `.`, not `{key}`"));
    }
    Ok((key.to_owned(), scalar(value).map_err(|what| format!("`{key}`: {what}"))?))
}

/// A text on one line: double-quoted, single-quoted, or plain.
fn scalar(value: &str) -> Result<String, String> {
    if let Some(quoted) = value.strip_prefix('"') {
        let mut escaped = false;
        let is_end = |character: char| {
            let ends = character == '"' && !escaped;
            escaped = character == '\\' && !escaped;
            ends
        };
        let end = quoted.find(is_end).ok_or("the text has no closing quote")?;
        nothing_behind(quoted.get(end + 1..))?;
        let inside = quoted.get(..end).unwrap_or_default();
        return serde_json::from_str(&format!("\"{inside}\""))
            .map_err(|_| "unknown escape in double quotes; use those of JSON, or single quotes".to_owned());
    }
    if let Some(quoted) = value.strip_prefix('\'') {
        // Two quotes stand for one.
        let doubled = quoted.replace("''", "\u{0}");
        let (inside, behind) = doubled.split_once('\'').ok_or("the text has no closing quote")?;
        nothing_behind(Some(behind))?;
        return Ok(inside.replace('\u{0}', "'"));
    }
    let plain = value.split(" #").next().unwrap_or_default().trim_end();
    if plain.starts_with(INDICATORS) {
        return Err("lists, blocks, anchors and the like are not read; write a text in one line, in quotes".to_owned());
    }
    if plain.contains(": ") || plain.ends_with(':') {
        return Err("a text with a colon needs quotes".to_owned());
    }
    Ok(plain.to_owned())
}

fn nothing_behind(behind: Option<&str>) -> Result<(), String> {
    let behind = behind.unwrap_or_default();
    let is_comment = behind.trim_start().starts_with('#') && behind.starts_with([' ', '\t']);
    if behind.trim().is_empty() || is_comment {
        Ok(())
    } else {
        Err("unexpected text after the closing quote".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(head: &str, expect: &[(&str, &str)]) {
        let text = format!("---\n{head}\n---\nbody\n---\n");
        let (read, body) = FrontMatter::read(&text).unwrap();
        let metadata = read.metadata.iter().map(|(key, value)| (format!("metadata.{key}"), value.clone()));
        let fields: Vec<_> = read.fields.clone().into_iter().chain(metadata).collect();
        let expect: Vec<_> = expect.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        assert_eq!(fields, expect, "{head}");
        assert_eq!(body, "body\n---\n");
    }

    #[test]
    fn simple_front_matter_parses() {
        check("name: a\ndescription: Does b, c # and d", &[("description", "Does b, c"), ("name", "a")]);
        check("name: \"a: \\\"b\\\" \\u00fc\\n\" # x", &[("name", "a: \"b\" ü\n")]);
        check("name: 'it''s: # \"so\"'", &[("name", "it's: # \"so\"")]);
        check("# comment\n\nname:\nurl: http://x#y", &[("name", ""), ("url", "http://x#y")]);
        check("metadata:\n  a: 1\n\n  b: \"2\"\nname: x", &[("name", "x"), ("metadata.a", "1"), ("metadata.b", "2")]);
        check("metadata:", &[]);
    }

    #[test]
    fn other_yaml_is_rejected_with_the_reason() {
        let check = |text: &str, expect: &str| {
            let error = FrontMatter::read(text).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("", "the front matter has no end");
        check("name: x", "line 1: a skill begins with a line `---`");
        check("---\nname: x\n", "the front matter has no end; close it");
        let refused = |head: &str, expect: &str| check(&format!("---\nname: x\n{head}\n---\n"), expect);
        refused("name: y", "line 3: `name` is given twice");
        refused("a: [b]", "line 3: `a`: lists, blocks, anchors");
        refused("a: |\n  b", "line 3: `a`: lists, blocks");
        refused("a: >-\n  b", "`a`: lists, blocks");
        refused("a:\n  - b", "line 4: lists, blocks and nested values are not read");
        refused("a: b\n  c", "line 4: lists, blocks and nested values");
        refused("metadata:\n  a: b\nc: d\n  e: f", "line 6: lists, blocks and nested values");
        refused("- a: b", "where the key has letters");
        refused("a b: c", "not `a b`");
        refused("words", "expected `key: value`");
        refused("a: b: c", "`a`: a text with a colon needs quotes");
        refused("a: b:", "needs quotes");
        refused("a: \"b", "no closing quote");
        refused("a: 'b", "no closing quote");
        refused("a: \"b\" c", "unexpected text after");
        refused("a: 'b'c", "unexpected text after");
        refused("a: \"\\x41\"", "unknown escape in double quotes");
    }

    proptest! {
        #[test]
        fn front_matter_round_trips(
            fields in prop::collection::btree_map("[a-z]{1,5}", any::<String>(), 0..4),
            metadata in prop::collection::btree_map("[a-z-]{1,5}", any::<String>(), 0..4),
            body in "[a-z\n-]{0,20}",
        ) {
            prop_assume!(!fields.contains_key("metadata"));
            let head = FrontMatter { fields, metadata };
            let text = format!("{}{body}", head.write());
            prop_assert_eq!(FrontMatter::read(&text), Ok((head, body.as_str())));
        }
    }
}
