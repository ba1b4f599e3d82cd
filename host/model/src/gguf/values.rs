//! Metadata of a GGUF file by name, with errors that name the value.

use super::header::GgufValue;
use crate::LocalModelError;
use std::collections::BTreeMap;

/// Values by name.
pub(super) struct Values<'a>(pub(super) &'a BTreeMap<String, GgufValue>);

fn wrong(name: &str, expected: &str) -> LocalModelError {
    LocalModelError::Config(format!("{} is not {expected}", clawhost_core::escaped(name, 80)))
}

impl<'a> Values<'a> {
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, LocalModelError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(GgufValue::Text(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(name, "a text")),
        }
    }

    pub(super) fn texts(&self, name: &str) -> Result<Option<&'a [String]>, LocalModelError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(GgufValue::Texts(texts)) => Ok(Some(texts)),
            Some(_) => Err(wrong(name, "a list of texts")),
        }
    }

    pub(super) fn numbers(&self, name: &str) -> Result<Option<&'a [i64]>, LocalModelError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(GgufValue::Numbers(numbers)) => Ok(Some(numbers)),
            Some(_) => Err(wrong(name, "a list of whole numbers")),
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, LocalModelError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(GgufValue::Flag(flag)) => Ok(Some(*flag)),
            Some(_) => Err(wrong(name, "true or false")),
        }
    }

    /// A whole number from 0.
    pub(super) fn whole(&self, name: &str) -> Result<Option<u64>, LocalModelError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(GgufValue::Whole(whole)) => match u64::try_from(*whole) {
                Ok(whole) => Ok(Some(whole)),
                Err(_) => Err(wrong(name, "a whole number from 0")),
            },
            Some(_) => Err(wrong(name, "a whole number from 0")),
        }
    }

    /// A number.
    pub(super) fn number(&self, name: &str) -> Result<Option<f64>, LocalModelError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(GgufValue::Float(number)) if number.is_finite() => Ok(Some(*number)),
            Some(GgufValue::Whole(whole)) => Ok(Some(*whole as f64)),
            Some(_) => Err(wrong(name, "a number")),
        }
    }
}
