//! The secrets that a process has read, for the doors that texts pass through.

use super::{Secret, Secrets};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::{Arc, PoisonError, RwLock};

/// All secrets that a process has read so far. Clones share them.
///
/// An endpoint scrubs its own key from what it receives. A door scrubs all keys from what passes it, whatever it is and wherever it
/// comes from: one stands before the store, one before the guests.
#[derive(Debug, Clone, Default)]
pub struct KnownSecrets(Arc<RwLock<Known>>);

#[derive(Debug, Default)]
struct Known {
    secrets: Vec<Secret>,
    spelled: Secrets,
}

/// A value repeats a secret and cannot be written without it.
#[derive(Debug, thiserror::Error)]
#[error("it repeats a key, and has no valid form without it: {0}")]
pub struct KeptSecret(#[from] serde_json::Error);

impl KnownSecrets {
    /// Adds a secret that was read.
    pub fn add(&self, secret: &Secret) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !known.secrets.contains(secret) {
            known.secrets.push(secret.clone());
            known.spelled = Secrets::of(&known.secrets);
        }
    }

    /// The secrets, as far as they are scrubbed.
    pub fn secrets(&self) -> Secrets {
        self.0.read().unwrap_or_else(PoisonError::into_inner).spelled.clone()
    }
}

impl Secrets {
    /// Scrubs every text of a JSON value, names of fields included.
    pub fn scrub_value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.scrub_in(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.scrub_value(value)),
            Value::Object(fields) => {
                if fields.keys().any(|name| self.are_in(name)) {
                    let old = std::mem::take(fields);
                    fields.extend(old.into_iter().map(|(name, value)| (self.scrub(&name).into_owned(), value)));
                }
                fields.values_mut().for_each(|value| self.scrub_value(value));
            }
        }
    }

    /// A JSON document without secrets, and whether it had any. A document without any is returned as it is.
    ///
    /// # Errors
    /// It has a secret and is not valid JSON.
    pub fn scrub_document(&self, document: String) -> Result<(String, bool), KeptSecret> {
        if !self.are_in(&document) {
            return Ok((document, false));
        }
        let mut value: Value = serde_json::from_str(&document)?;
        self.scrub_value(&mut value);
        Ok((value.to_string(), true))
    }

    /// A value without secrets in any of its texts. A value without any is returned as it is.
    ///
    /// # Errors
    /// It has a secret and cannot be written as JSON, or read again without the secret.
    pub fn scrub_all<T: Serialize + DeserializeOwned>(&self, value: T) -> Result<T, KeptSecret> {
        if self.is_empty() {
            return Ok(value);
        }
        let (document, found) = self.scrub_document(serde_json::to_string(&value)?)?;
        if found { Ok(serde_json::from_str(&document)?) } else { Ok(value) }
    }
}
