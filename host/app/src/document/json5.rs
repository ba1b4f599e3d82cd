//! JSON as people write it, with comments and trailing commas.

use super::value_at;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;

/// A document.
pub(crate) struct Json5(CstRootNode);

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}

impl Json5 {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let options = ParseOptions { allow_missing_commas: false, ..ParseOptions::default() };
        let text = if text.trim().is_empty() { "{}\n" } else { text };
        let root = CstRootNode::parse(text, &options).map_err(|error| error.to_string())?;
        match root.object_value() {
            Some(_) => Ok(Self(root)),
            None => Err("it has no object at its root".to_owned()),
        }
    }

    pub(super) fn get(&self, path: &[&str]) -> Option<Value> {
        value_at(&self.0.to_serde_value()?, path).cloned()
    }

    pub(super) fn set(&self, path: &[&str], value: &Value) -> Option<()> {
        let (last, tables) = path.split_last()?;
        let table = tables.iter().try_fold(self.0.object_value()?, |table, key| table.object_value_or_create(key))?;
        match table.get(last) {
            Some(property) => property.set_value(input(value)),
            None => {
                table.append(last, input(value));
            }
        }
        Some(())
    }

    pub(super) fn remove(&self, path: &[&str]) {
        let Some((last, tables)) = path.split_last() else { return };
        let found = tables.iter().try_fold(self.0.object_value(), |table, key| Some(table?.object_value(key)));
        if let Some(property) = found.flatten().and_then(|table: CstObject| table.get(last)) {
            property.remove();
        }
    }

    pub(super) fn text(&self) -> String {
        self.0.to_string()
    }
}
