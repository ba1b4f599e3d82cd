//! The resolved run as a document of the store: versioned, and led to the newest version when it is read.

use crate::RunSpec;
use serde_json::Value;

/// The version of documents of a [`RunSpec`], and of `run.toml`.
pub const SPEC_VERSION: u32 = 1;

/// A document is no run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// It was written by a newer program.
    #[error(
        "the run's document has version {found}, and this program reads versions up to {known}; use a newer program"
    )]
    Newer {
        /// Its version.
        found: u64,
        /// The newest version that is known here.
        known: u64,
    },
    /// It does not have the version that every document has.
    #[error("the run's document has no version from 1")]
    NoVersion,
    /// It has a known version and another content.
    #[error("the run's document is damaged: {0}")]
    Damaged(String),
}

/// Leads a document to the next version. The machinery sets the number.
type Migration = fn(Value) -> Result<Value, SpecError>;

/// The migration at index n leads a document of version n + 1 to version n + 2.
const MIGRATIONS: &[Migration] = &[];

/// A document of the newest version: migrations run from its own version on.
fn migrated(mut document: Value, migrations: &[Migration]) -> Result<Value, SpecError> {
    let known = migrations.len() as u64 + 1;
    let found = document.get("version").and_then(Value::as_u64).filter(|found| *found > 0);
    let found = found.ok_or(SpecError::NoVersion)?;
    if found > known {
        return Err(SpecError::Newer { found, known });
    }
    for (version, migration) in (1_u64..).zip(migrations).filter(|(version, _)| *version >= found) {
        document = migration(document)?;
        if let Some(fields) = document.as_object_mut() {
            fields.insert("version".to_owned(), (version + 1).into());
        }
    }
    Ok(document)
}

impl RunSpec {
    /// The document that the store keeps.
    pub fn to_document(&self) -> Value {
        // Every key is a text, and the validator lets no other number in than finite ones.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Reads a document of this or of an older version.
    ///
    /// # Errors
    /// It is of a newer version, of none, or damaged.
    pub fn from_document(document: Value) -> Result<Self, SpecError> {
        let document = migrated(document, MIGRATIONS)?;
        serde_json::from_value(document).map_err(|error| SpecError::Damaged(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Calls the field `old` by the name `middle`.
    fn first(mut document: Value) -> Result<Value, SpecError> {
        let fields = document.as_object_mut().ok_or(SpecError::NoVersion)?;
        let old = fields.remove("old").ok_or_else(|| SpecError::Damaged("no field `old`".into()))?;
        fields.insert("middle".into(), old);
        Ok(document)
    }

    /// Doubles the field `middle`.
    fn second(mut document: Value) -> Result<Value, SpecError> {
        let middle = document["middle"].as_u64().ok_or_else(|| SpecError::Damaged("no field `middle`".into()))?;
        document["middle"] = json!(2 * middle);
        Ok(document)
    }

    const TWO: &[Migration] = &[first, second];

    #[test]
    fn there_is_one_migration_less_than_there_are_versions() {
        assert_eq!(MIGRATIONS.len() + 1, SPEC_VERSION as usize);
    }

    #[test]
    fn a_document_passes_every_migration_from_its_own_version_on() {
        let check = |document: Value, expected: Value| assert_eq!(migrated(document, TWO), Ok(expected));
        let newest = json!({ "version": 3, "middle": 8 });
        check(json!({ "version": 1, "old": 4 }), newest.clone());
        check(json!({ "version": 2, "middle": 4 }), newest.clone());
        check(newest.clone(), newest);
    }

    #[test]
    fn a_document_that_is_newer_or_without_a_version_or_damaged_is_refused_by_name() {
        let check = |document: Value, expected: SpecError| assert_eq!(migrated(document, TWO), Err(expected));
        check(json!({ "version": 4 }), SpecError::Newer { found: 4, known: 3 });
        for odd in [json!({}), json!({ "version": 0 }), json!({ "version": "1" }), json!(null), json!([1])] {
            check(odd, SpecError::NoVersion);
        }
        check(json!({ "version": 1 }), SpecError::Damaged("no field `old`".into()));
    }
}
