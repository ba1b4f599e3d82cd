//! Resolves playbook names and versions, and applies a version to a policy.

use crate::{AppError, RequestError};
use clawhost_core::{PlaybookReader, PlaybookVersion, counted, escaped, nearest};
use clawhost_learn::harness::PlaybookView;
use clawhost_learn::playbook::Playbook;
use clawhost_learn::{EntryId, LearnError};
use clawhost_learning::{Ledger, UniformPlaybook};
use clawhost_play::ChatPolicy;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest name of a playbook: it is part of a file name.
const NAME_BYTES: usize = 128;
/// Longest part of a name that a message repeats, in bytes.
const SHOWN_BYTES: usize = 80;

/// Refuses names that cannot be part of a file name.
///
/// # Errors
/// [`RequestError::PlaybookName`].
pub fn check_name(name: &str) -> Result<(), RequestError> {
    let fits = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if name.is_empty() || name.len() > NAME_BYTES || !name.chars().all(fits) || name.starts_with('.') {
        return Err(RequestError::PlaybookName { name: escaped(name, SHOWN_BYTES) });
    }
    Ok(())
}

/// Resolves the name of a playbook. Without a name, the only playbook is chosen.
///
/// # Errors
/// There is no playbook with this name, there is none at all, several exist and none is named, or the store cannot be
/// read.
pub fn chosen(reader: &dyn PlaybookReader, name: Option<&str>) -> Result<String, AppError> {
    let known = reader.playbooks()?;
    match (name, known.as_slice()) {
        (Some(name), _) if known.iter().any(|one| one == name) => Ok(name.to_owned()),
        (Some(name), _) => Err(RequestError::NoPlaybook {
            name: escaped(name, SHOWN_BYTES),
            known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
            nearest: nearest(name, known.iter().map(String::as_str)).map(str::to_owned),
        }
        .into()),
        (None, [only]) => Ok(only.clone()),
        (None, []) => Err(RequestError::NoPlaybooks.into()),
        (None, several) => Err(RequestError::WhichPlaybook { known: several.join(", ") }.into()),
    }
}

/// The content of a version.
///
/// # Errors
/// It is not a playbook, or another version of the program wrote it.
pub fn document(version: &PlaybookVersion) -> Result<Playbook, AppError> {
    serde_json::from_value(version.document.clone()).map_err(|error| {
        let PlaybookVersion { name, number, .. } = version;
        LearnError::Document(format!("version {number} of playbook {name} cannot be read: {error}")).into()
    })
}

/// The size of a playbook: `3 entries, 1 section`.
pub fn contents(entries: usize, sections: usize) -> String {
    let said = counted(entries as u64, "entry");
    match sections {
        0 => said,
        sections => format!("{said}, {}", counted(sections as u64, "section")),
    }
}

/// A version in one line: name, number and size.
///
/// # Errors
/// As [`document`].
pub fn described(version: &PlaybookVersion) -> Result<String, AppError> {
    let playbook = document(version)?;
    let said = contents(playbook.entries.len(), playbook.sections.len());
    Ok(format!("{}, version {}, {said}", version.name, version.number))
}

/// A version of a playbook. Without a number, the newest.
///
/// # Errors
/// [`RequestError::NoVersion`], or the store cannot be read.
pub fn pick(reader: &dyn PlaybookReader, name: &str, number: Option<u64>) -> Result<PlaybookVersion, AppError> {
    let versions = reader.versions(name)?;
    let known = versions.iter().map(|version| version.number.to_string()).collect::<Vec<_>>().join(", ");
    let found = versions.into_iter().find(|version| number.is_none_or(|number| version.number == number));
    found.ok_or_else(|| {
        let why = match number {
            Some(number) if !known.is_empty() => format!("playbook {name} has no version {number}; it has {known}"),
            _ => format!("playbook {name} has no version yet: nothing has passed the gate, nothing was imported"),
        };
        RequestError::NoVersion { why }.into()
    })
}

/// The ledger of the last learning run. `None`: the playbook was not learned here.
pub(super) fn ledger(reader: &dyn PlaybookReader, name: &str) -> Result<Option<Ledger>, AppError> {
    let stored = reader.ledger(name)?;
    let read = stored.map(|ledger| serde_json::from_value(ledger.document)).transpose();
    read.map_err(|error| LearnError::Document(format!("the ledger of playbook {name}: {error}")).into())
}

/// The measured effects of entries.
///
/// # Errors
/// The ledger cannot be read.
pub fn worth(reader: &dyn PlaybookReader, name: &str) -> Result<BTreeMap<EntryId, f64>, AppError> {
    Ok(ledger(reader, name)?.map(|ledger| ledger.worth).unwrap_or_default())
}

/// The policy with a version of a playbook, as it is served.
///
/// # Errors
/// The version or its ledger cannot be read.
pub fn guided(
    reader: &dyn PlaybookReader,
    policy: &ChatPolicy,
    version: &PlaybookVersion,
    token_budget: u64,
) -> Result<ChatPolicy, AppError> {
    // The same selection of entries as in the gate.
    let worth = worth(reader, &version.name)?;
    Ok(policy.guided(Arc::new(UniformPlaybook(PlaybookView::serving(document(version)?, &worth, token_budget)))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Digest, PlaybookLedger, StoreError};

    /// Names of playbooks, and the number of versions of one.
    struct Known(&'static [&'static str], u64);

    impl PlaybookReader for Known {
        fn playbooks(&self) -> Result<Vec<String>, StoreError> {
            Ok(self.0.iter().map(|&name| name.to_owned()).collect())
        }

        fn versions(&self, name: &str) -> Result<Vec<PlaybookVersion>, StoreError> {
            Ok((1..=self.1).rev().map(|number| version(name, number, serde_json::json!({}))).collect())
        }

        fn newest_version(&self, name: &str) -> Result<Option<PlaybookVersion>, StoreError> {
            Ok(self.versions(name)?.into_iter().next())
        }

        fn ledger(&self, _: &str) -> Result<Option<PlaybookLedger>, StoreError> {
            Ok(None)
        }
    }

    fn version(name: &str, number: u64, document: serde_json::Value) -> PlaybookVersion {
        let (name, why) = (name.to_owned(), String::new());
        PlaybookVersion { name, number, digest: Digest::of(b""), document, why, run: None, created_at: 0 }
    }

    #[test]
    fn names_that_cannot_be_part_of_a_file_name_are_refused() {
        let check = |name: &str, fits: bool| assert_eq!(check_name(name).is_ok(), fits, "{name}");
        check("env-shop_2.1", true);
        check("", false);
        check(".hidden", false);
        check("a/b", false);
        check("größe", false);
        check(&"a".repeat(NAME_BYTES), true);
        check(&"a".repeat(NAME_BYTES + 1), false);
        assert!(!check_name("\u{1b}[31m").unwrap_err().to_string().contains('\u{1b}'));
    }

    #[test]
    fn the_only_playbook_need_not_be_named() {
        let check = |known: &'static [&'static str], name: Option<&str>, expect: Result<&str, &str>| {
            let found = chosen(&Known(known, 0), name);
            match (found, expect) {
                (Ok(found), Ok(expect)) => assert_eq!(found, expect),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, _) => panic!("{name:?}: {found:?}"),
            }
        };
        check(&["shop"], None, Ok("shop"));
        check(&["math", "shop"], Some("shop"), Ok("shop"));
        check(&["math", "shop"], None, Err("which playbook? There are math, shop"));
        check(&[], None, Err("there is no playbook yet"));
        check(&["math", "shop"], Some("shap"), Err("there is math, shop; did you mean `shop`?"));
        check(&[], Some("shop"), Err("there is no playbook `shop`; there is none"));
    }

    #[test]
    fn a_missing_version_is_reported_with_the_existing_ones() {
        let number = |versions, number| pick(&Known(&["p"], versions), "p", number).map(|version| version.number);
        assert_eq!(number(2, None).unwrap(), 2);
        assert_eq!(number(2, Some(1)).unwrap(), 1);
        assert_eq!(number(2, Some(3)).unwrap_err().to_string(), "playbook p has no version 3; it has 2, 1");
        assert!(number(0, None).unwrap_err().to_string().contains("has no version yet"));
        assert!(number(0, Some(1)).unwrap_err().to_string().contains("has no version yet"));
    }

    #[test]
    fn a_version_is_described_by_its_size() {
        let check = |entries, sections, expect: &str| assert_eq!(contents(entries, sections), expect);
        check(0, 0, "0 entries");
        check(1, 1, "1 entry, 1 section");
        check(3, 2, "3 entries, 2 sections");
        let one = version("p", 4, serde_json::json!({ "sections": { "house": "Be kind." } }));
        assert_eq!(described(&one).unwrap(), "p, version 4, 0 entries, 1 section");
        let odd = described(&version("p", 4, serde_json::json!([1]))).unwrap_err().to_string();
        assert!(odd.starts_with("version 4 of playbook p cannot be read: "), "{odd}");
    }
}
