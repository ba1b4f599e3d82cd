//! The resolved run as a versioned document of the store. Older documents are migrated on reading.

use crate::RunSpec;
use serde_json::Value;

/// The version of documents of a [`RunSpec`], and of `run.toml`.
pub const SPEC_VERSION: u32 = 1;

/// Why a document is not a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// It was written by a newer program.
    #[error(
        "the run's document has version {found}, and this program reads versions up to {known}; use a newer program"
    )]
    Newer {
        /// Its version.
        found: u64,
        /// The newest version that this program knows.
        known: u64,
    },
    /// It lacks the version.
    #[error("the run's document has no version from 1")]
    NoVersion,
    /// Its version is known, but its content is invalid.
    #[error("the run's document is damaged: {0}")]
    Damaged(String),
}

/// Migrates a document to the next version. The caller sets the version number.
type Migration = fn(Value) -> Result<Value, SpecError>;

/// The migration at index n migrates from version n + 1 to version n + 2.
const MIGRATIONS: &[Migration] = &[];

/// Migrates a document to the newest version.
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
        // Every key is a text, and the validator accepts only finite numbers.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Reads a document of this or of an older version.
    ///
    /// # Errors
    /// Its version is newer or missing, or it is damaged.
    pub fn from_document(document: Value) -> Result<Self, SpecError> {
        let document = migrated(document, MIGRATIONS)?;
        serde_json::from_value(document).map_err(|error| SpecError::Damaged(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Renames the field `old` to `middle`.
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
    fn there_is_a_migration_between_each_two_versions() {
        assert_eq!(MIGRATIONS.len() + 1, SPEC_VERSION as usize);
    }

    #[test]
    fn a_document_is_migrated_from_its_own_version_on() {
        let check = |document: Value, expected: Value| assert_eq!(migrated(document, TWO), Ok(expected));
        let newest = json!({ "version": 3, "middle": 8 });
        check(json!({ "version": 1, "old": 4 }), newest.clone());
        check(json!({ "version": 2, "middle": 4 }), newest.clone());
        check(newest.clone(), newest);
    }

    #[test]
    fn newer_unversioned_and_damaged_documents_are_refused() {
        let check = |document: Value, expected: SpecError| assert_eq!(migrated(document, TWO), Err(expected));
        check(json!({ "version": 4 }), SpecError::Newer { found: 4, known: 3 });
        for odd in [json!({}), json!({ "version": 0 }), json!({ "version": "1" }), json!(null), json!([1])] {
            check(odd, SpecError::NoVersion);
        }
        check(json!({ "version": 1 }), SpecError::Damaged("no field `old`".into()));
    }
}
