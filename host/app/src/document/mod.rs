//! Configuration files that people write and this program changes: a value is set or removed, and everything else stays as it was written,
//! comments and unknown keys included.

mod json5;
mod toml;
mod yaml;

use serde_json::Value;
use std::path::Path;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON with comments, trailing commas and the other liberties of JSON5.
    Json5,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// A document that can be changed. Keys are paths from its root.
pub(crate) enum Document {
    /// Of [`Format::Json5`].
    Json5(json5::Json5),
    /// Of [`Format::Toml`].
    Toml(toml::Toml),
    /// Of [`Format::Yaml`].
    Yaml(yaml::Yaml),
}

impl Document {
    /// Reads a text. An empty one is an empty document.
    ///
    /// # Errors
    /// It is none of the format. The error says what is wrong, and where if that is known.
    pub(crate) fn parse(format: Format, text: &str) -> Result<Self, String> {
        match format {
            Format::Json5 => json5::Json5::parse(text).map(Self::Json5),
            Format::Toml => toml::Toml::parse(text).map(Self::Toml),
            Format::Yaml => yaml::Yaml::parse(text).map(Self::Yaml),
        }
    }

    /// The value of a key. `None`: there is none.
    pub(crate) fn get(&self, path: &[&str]) -> Option<Value> {
        match self {
            Self::Json5(document) => document.get(path),
            Self::Toml(document) => document.get(path),
            Self::Yaml(document) => document.get(path),
        }
    }

    /// Sets a key. Tables on the way to it are made.
    ///
    /// # Errors
    /// A value on the way to it is no table.
    pub(crate) fn set(&mut self, path: &[&str], value: &Value) -> Result<(), String> {
        let set = match self {
            Self::Json5(document) => document.set(path, value),
            Self::Toml(document) => document.set(path, value),
            Self::Yaml(document) => document.set(path, value),
        };
        set.ok_or_else(|| format!("{} cannot be set: something else than a table is on the way to it", path.join(".")))
    }

    /// Removes a key, if it is there.
    pub(crate) fn remove(&mut self, path: &[&str]) {
        match self {
            Self::Json5(document) => document.remove(path),
            Self::Toml(document) => document.remove(path),
            Self::Yaml(document) => document.remove(path),
        }
    }

    /// The text of the document.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Json5(document) => document.text(),
            Self::Toml(document) => document.text(),
            Self::Yaml(document) => document.text(),
        }
    }
}

/// The value at a path inside of a value.
fn value_at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// Replaces a file by a text, whole or not at all. An existing file keeps its permissions; a new one is for its owner alone.
///
/// # Errors
/// It cannot be written.
pub(crate) fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let permissions = std::fs::metadata(path).ok().map(|file| file.permissions());
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Sets one key, and compares the text. Removing the key gives a document with the values of the first one.
    fn check(format: Format, before: &str, path: &[&str], value: &Value, expect: &str) {
        let mut document = Document::parse(format, before).unwrap();
        let was = document.get(path);
        document.set(path, value).unwrap();
        assert_eq!(document.text(), expect, "{before}");
        assert_eq!(Document::parse(format, expect).unwrap().get(path).as_ref(), Some(value), "{expect}");
        if was.is_none() {
            document.remove(path);
            let removed = Document::parse(format, &document.text()).unwrap();
            assert_eq!(removed.get(path), None, "{}", document.text());
        }
    }

    #[test]
    fn json_keeps_comments_quotes_and_unknown_keys() {
        let check = |before: &str, path: &[&str], value: Value, expect: &str| {
            check(Format::Json5, before, path, &value, expect);
        };
        check("", &["a"], json!("x"), "{\n  \"a\": \"x\"\n}\n");
        check("{}", &["a", "b"], json!("x"), "{\n  \"a\": {\n    \"b\": \"x\"\n  }\n}");
        check(
            "// mine\n{\n  a: 'one', // here\n  other: [1, 2,],\n}\n",
            &["a"],
            json!("two"),
            "// mine\n{\n  a: \"two\", // here\n  other: [1, 2,],\n}\n",
        );
        check(
            "{\n  \"a\": {\"b\": 1}\n}\n",
            &["c"],
            json!([{"id": "m"}]),
            "{\n  \"a\": {\"b\": 1},\n  \"c\": [\n    {\n      \"id\": \"m\"\n    }\n  ]\n}\n",
        );
    }

    #[test]
    fn toml_keeps_comments_and_unknown_keys() {
        let check = |before: &str, path: &[&str], value: Value, expect: &str| {
            check(Format::Toml, before, path, &value, expect);
        };
        check("", &["a"], json!("x"), "a = \"x\"\n");
        check("", &["t", "n", "a"], json!("x"), "[t.n]\na = \"x\"\n");
        check("a = 'one' # here\n[t]\nb = 1\n", &["a"], json!("two"), "a = \"two\" # here\n[t]\nb = 1\n");
        check("[t]\nb = 1\n", &["a"], json!(true), "a = true\n[t]\nb = 1\n");
        check("[t]\n# first\nb = 1\n\n[u]\n", &["t", "c"], json!(["x"]), "[t]\n# first\nb = 1\nc = [\"x\"]\n\n[u]\n");
        check("t = { b = 1 }\n", &["t", "c"], json!(2), "t = { b = 1 , c = 2 }\n");
    }

    #[test]
    fn yaml_keeps_comments_and_unknown_keys() {
        let check = |before: &str, path: &[&str], value: Value, expect: &str| {
            check(Format::Yaml, before, path, &value, expect);
        };
        check("", &["a", "b"], json!("x"), "a:\n  b: x\n");
        check("# only this\n", &["a"], json!("x"), "# only this\na: x\n");
        check("a: one # here\nb: [1, 2]\n", &["a"], json!("two"), "a: two # here\nb: [1, 2]\n");
        check(
            "# mine\nm:\n  a: one   # here\n\n# more\nt:\n  - x\n",
            &["m", "a"],
            json!("http://127.0.0.1:1/v1"),
            "# mine\nm:\n  a: http://127.0.0.1:1/v1   # here\n\n# more\nt:\n  - x\n",
        );
        check("a: one\n", &["a"], json!("yes"), "a: 'yes'\n");
    }

    #[test]
    fn what_is_no_document_is_named() {
        let check = |format: Format, text: &str, says: &str| {
            let error = Document::parse(format, text).err().unwrap_or_default();
            assert!(error.contains(says), "{text}: {error}");
        };
        check(Format::Json5, "{\"a\": }", "line 1");
        check(Format::Json5, "[1]", "no object");
        check(Format::Toml, "a = \n", "line 1");
        check(Format::Yaml, "- a\n- b\n", "no mapping");
        check(Format::Yaml, "a: [1, 2\n", "");
        check(Format::Json5, &"[".repeat(2000), "nesting");
    }

    #[test]
    fn a_value_on_the_way_that_is_no_table_is_not_replaced() {
        for (format, text) in [(Format::Json5, "{\"a\": 1}"), (Format::Toml, "a = 1\n"), (Format::Yaml, "a: 1\n")] {
            let mut document = Document::parse(format, text).unwrap();
            assert!(document.set(&["a", "b"], &json!("x")).unwrap_err().starts_with("a.b cannot be set"));
            assert_eq!(document.text(), text);
        }
    }
}
