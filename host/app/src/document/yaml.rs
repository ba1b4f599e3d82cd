//! YAML: one document with a mapping at its root.

use super::value_at;
use serde_json::Value;
use std::str::FromStr as _;
use yaml_edit::{Document as YamlDocument, Mapping, YamlFile, YamlNode};

/// A document. One without a mapping is a text of comments, or empty.
pub(crate) enum Yaml {
    /// With a mapping.
    Mapping(YamlFile, Mapping),
    /// Comments, or nothing.
    Empty(String),
}

/// A text as a scalar of YAML: plain if every reader takes it for a text, else quoted.
fn scalar(text: &str) -> String {
    let is_plain_start = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '~'));
    let words = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let is_word = words.iter().any(|word| text.eq_ignore_ascii_case(word));
    match is_plain_start && is_plain && !is_word && !text.ends_with(':') {
        true => text.to_owned(),
        false if text.chars().any(char::is_control) => Value::from(text).to_string(),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

/// A value behind its key, with what follows it on lines of their own. `indent`: of the key.
fn write(value: &Value, indent: usize) -> String {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let pad = " ".repeat(indent + 2);
            let line = |(key, value): (&String, &Value)| format!("\n{pad}{}:{}", scalar(key), write(value, indent + 2));
            fields.iter().map(line).collect()
        }
        Value::String(text) => format!(" {}", scalar(text)),
        // JSON is YAML.
        other => format!(" {other}"),
    }
}

fn read(node: &YamlNode) -> Option<Value> {
    if let Some(mapping) = node.as_mapping() {
        return Some(read_mapping(mapping));
    }
    if let Some(items) = node.as_sequence() {
        return items.values().map(|item| read(&item)).collect();
    }
    let scalar = node.as_scalar()?;
    if scalar.is_quoted() || scalar.is_block() {
        return Some(scalar.as_string().into());
    }
    let number = || scalar.as_i64().map(Value::from).or_else(|| scalar.as_f64().map(Value::from));
    let plain = if scalar.is_null() { Some(Value::Null) } else { scalar.as_bool().map(Value::from).or_else(number) };
    Some(plain.unwrap_or_else(|| scalar.as_string().into()))
}

fn read_mapping(mapping: &Mapping) -> Value {
    let field = |(key, value): (YamlNode, YamlNode)| Some((key.as_scalar()?.as_string(), read(&value)?));
    Value::Object(mapping.iter().filter_map(field).collect())
}

impl Yaml {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_comment = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        if text.lines().all(is_comment) {
            return Ok(Self::Empty(text.to_owned()));
        }
        let file = YamlFile::from_str(text).map_err(|error| error.to_string())?;
        let mut documents = file.documents();
        let mapping = documents.next().and_then(|document| document.as_mapping());
        if documents.next().is_some() {
            return Err("it has several documents".to_owned());
        }
        drop(documents);
        let mapping = mapping.ok_or_else(|| "it has no mapping at its root".to_owned())?;
        Ok(Self::Mapping(file, mapping))
    }

    pub(super) fn get(&self, path: &[&str]) -> Option<Value> {
        let Self::Mapping(_, mapping) = self else { return None };
        value_at(&read_mapping(mapping), path).cloned()
    }

    pub(super) fn set(&mut self, path: &[&str], value: &Value) -> Option<()> {
        let (last, tables) = path.split_last()?;
        // The value, inside of the tables that are missing.
        let nested = |missing: &[&str]| {
            let inner = |value: Value, key: &&str| Value::Object([((*key).to_owned(), value)].into_iter().collect());
            missing.iter().rev().fold(value.clone(), inner)
        };
        let root = match self {
            Self::Mapping(_, mapping) => mapping.clone(),
            Self::Empty(text) => {
                let (first, rest) = path.split_first()?;
                let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
                let text = format!("{text}{end}{}:{}\n", scalar(first), write(&nested(rest), 0));
                *self = Self::parse(&text).ok()?;
                return Some(());
            }
        };
        let mut table = root;
        for (at, key) in tables.iter().enumerate() {
            match table.get(*key) {
                Some(node) if node.as_mapping().is_some() => table = node.as_mapping()?.clone(),
                Some(node) if !node.as_scalar().is_some_and(yaml_edit::Scalar::is_null) => return None,
                _ => return put(&table, key, &nested(path.get(at + 1..)?)),
            }
        }
        put(&table, last, value)
    }

    pub(super) fn remove(&mut self, path: &[&str]) {
        let (Some((last, tables)), Self::Mapping(_, root)) = (path.split_last(), &*self) else { return };
        let table = tables.iter().try_fold(root.clone(), |table, key| table.get_mapping(*key));
        if let Some(table) = table {
            table.remove(*last);
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Mapping(file, _) => file.to_string(),
            Self::Empty(text) => text.clone(),
        }
    }
}

/// Sets a key of a mapping.
fn put(table: &Mapping, key: &str, value: &Value) -> Option<()> {
    let text = format!("{}:{}\n", scalar(key), write(value, 0));
    let document = YamlDocument::from_str(&text).ok()?;
    table.set(key, document.get(key)?);
    Some(())
}
