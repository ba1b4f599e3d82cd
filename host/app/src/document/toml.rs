//! TOML.

use super::value_at;
use serde_json::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value as TomlValue};

/// A document.
pub(crate) struct Toml(DocumentMut);

/// The line of a place in a text, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}

/// A value in one line. TOML has no null: an empty text stands for it.
fn inline(value: &Value) -> TomlValue {
    match value {
        Value::Null => TomlValue::from(""),
        Value::Bool(value) => TomlValue::from(*value),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => TomlValue::from(integer),
            None => TomlValue::from(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => TomlValue::from(text.as_str()),
        Value::Array(items) => TomlValue::Array(items.iter().map(inline).collect::<Array>()),
        Value::Object(fields) => {
            let mut table = InlineTable::new();
            for (key, value) in fields {
                table.insert(key, inline(value));
            }
            TomlValue::InlineTable(table)
        }
    }
}

fn read_value(value: &TomlValue) -> Value {
    match value {
        TomlValue::String(text) => Value::from(text.value().as_str()),
        TomlValue::Integer(number) => Value::from(*number.value()),
        TomlValue::Float(number) => Value::from(*number.value()),
        TomlValue::Boolean(value) => Value::from(*value.value()),
        TomlValue::Datetime(time) => Value::from(time.value().to_string()),
        TomlValue::Array(items) => items.iter().map(read_value).collect(),
        TomlValue::InlineTable(table) => read_table(table),
    }
}

fn read_table(table: &dyn TableLike) -> Value {
    Value::Object(table.iter().filter_map(|(key, item)| Some((key.to_owned(), read(item)?))).collect())
}

fn read(item: &Item) -> Option<Value> {
    match item {
        Item::None => None,
        Item::Value(value) => Some(read_value(value)),
        Item::Table(table) => Some(read_table(table)),
        Item::ArrayOfTables(tables) => Some(tables.iter().map(|table| read_table(table)).collect()),
    }
}

impl Toml {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |error: toml_edit::TomlError| match error.span() {
            Some(span) => format!("line {}: {}", line_of(text, span.start), error.message()),
            None => error.message().to_owned(),
        };
        text.parse().map(Self).map_err(wrong)
    }

    pub(super) fn get(&self, path: &[&str]) -> Option<Value> {
        value_at(&read(self.0.as_item())?, path).cloned()
    }

    pub(super) fn set(&mut self, path: &[&str], value: &Value) -> Option<()> {
        let (last, tables) = path.split_last()?;
        let mut table: &mut dyn TableLike = self.0.as_table_mut();
        for key in tables {
            let mut new = Table::new();
            // Its header is written only if it has keys of its own.
            new.set_implicit(true);
            table = table.entry(key).or_insert(Item::Table(new)).as_table_like_mut()?;
        }
        let mut value = inline(value);
        match table.get_mut(last) {
            Some(Item::Value(known)) => {
                *value.decor_mut() = known.decor().clone();
                *known = value;
            }
            _ => {
                table.insert(last, Item::Value(value));
            }
        }
        Some(())
    }

    pub(super) fn remove(&mut self, path: &[&str]) {
        let Some((last, tables)) = path.split_last() else { return };
        let mut table: &mut dyn TableLike = self.0.as_table_mut();
        for key in tables {
            match table.get_mut(key).and_then(Item::as_table_like_mut) {
                Some(inner) => table = inner,
                None => return,
            }
        }
        table.remove(last);
    }

    pub(super) fn text(&self) -> String {
        self.0.to_string()
    }
}
