//! Keys belong to addresses: a key from the environment goes to its provider's own address, and to addresses that the operator confirmed
//! once. A run file from a stranger may name any address.

use crate::{AppError, RequestError, small_files};
use clawhost_providers::Dialect;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// The file in the data folder with confirmed addresses.
const FILE: &str = "endpoints.json";
/// The format of the file.
const FORMAT: u32 = 1;

/// The addresses that the operator confirmed: scheme, host and port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfirmedEndpoints(BTreeSet<String>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    confirmed: BTreeSet<String>,
}

/// The address of a model's text, or the text itself.
fn address(text: &str) -> &str {
    text.split_once('@').map_or(text, |(_, address)| address)
}

impl ConfirmedEndpoints {
    /// Those of a data folder.
    ///
    /// # Errors
    /// The file is damaged or cannot be read.
    pub fn read(folder: &Path) -> Result<Self, AppError> {
        let document = small_files::read(&folder.join(FILE), FORMAT, |document: &Document| document.format)?;
        Ok(document.map(|document| Self(document.confirmed)).unwrap_or_default())
    }

    /// The addresses, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether a key of this kind may be sent to an address without the operator naming its file: it is the provider's own, or confirmed.
    ///
    /// # Errors
    /// It is not an address.
    pub fn may_have_key(&self, dialect: Dialect, address: &str) -> Result<bool, AppError> {
        Ok(dialect.is_own(address)? || self.0.contains(&dialect.origin(address)?))
    }

    /// Confirms an address of a data folder, which may be given as a model's text. Returns scheme, host and port.
    ///
    /// # Errors
    /// It is not an address, a key would be sent to it unencrypted, or the file cannot be written.
    pub fn confirm(folder: &Path, text: &str) -> Result<String, AppError> {
        let origin = Dialect::OpenAi.encrypted_origin(address(text))?;
        let mut all = Self::read(folder)?;
        if all.0.insert(origin.clone()) {
            all.write(folder)?;
        }
        Ok(origin)
    }

    /// Takes a confirmation back. Returns scheme, host and port.
    ///
    /// # Errors
    /// It is not an address, it was not confirmed, or the file cannot be written.
    pub fn forget(folder: &Path, text: &str) -> Result<String, AppError> {
        let origin = Dialect::OpenAi.origin(address(text))?;
        let mut all = Self::read(folder)?;
        if !all.0.remove(&origin) {
            return Err(RequestError::NotConfirmed { address: origin }.into());
        }
        all.write(folder)?;
        Ok(origin)
    }

    fn write(&self, folder: &Path) -> Result<(), AppError> {
        small_files::write(folder, FILE, &Document { format: FORMAT, confirmed: self.0.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_belongs_to_its_provider_and_to_confirmed_addresses() {
        let folder = tempfile::tempdir().unwrap();
        let may = |dialect: Dialect, address: &str| {
            ConfirmedEndpoints::read(folder.path()).unwrap().may_have_key(dialect, address).unwrap()
        };
        assert!(may(Dialect::OpenAi, "https://api.openai.com/v1"));
        for other in [
            "https://api.anthropic.com/v1",
            "https://api.openai.com.example/v1",
            "https://api.openai.com:444/v1",
            "http://api.openai.com/v1",
            "http://127.0.0.1:8000/v1",
        ] {
            assert!(!may(Dialect::OpenAi, other), "{other}");
        }
        let confirmed = ConfirmedEndpoints::confirm(folder.path(), "openai:m@http://127.0.0.1:8000/v1").unwrap();
        assert_eq!(confirmed, "http://127.0.0.1:8000");
        assert!(may(Dialect::OpenAi, "http://127.0.0.1:8000/v1") && may(Dialect::Anthropic, "http://127.0.0.1:8000"));
        assert!(!may(Dialect::OpenAi, "http://127.0.0.1:8001/v1") && !may(Dialect::OpenAi, "http://localhost:8000/v1"));
        let refused = |text: &str| ConfirmedEndpoints::confirm(folder.path(), text).unwrap_err().to_string();
        assert!(refused("http://example.org/v1").contains("over plain http"), "{}", refused("http://example.org/v1"));
        assert!(refused("example").contains("example"));
        ConfirmedEndpoints::forget(folder.path(), "http://127.0.0.1:8000").unwrap();
        assert!(!may(Dialect::OpenAi, "http://127.0.0.1:8000/v1"));
        let again = ConfirmedEndpoints::forget(folder.path(), "http://127.0.0.1:8000").unwrap_err().to_string();
        assert!(again.contains("http://127.0.0.1:8000 is not confirmed"), "{again}");
        std::fs::write(folder.path().join(FILE), "{\"format\":2,\"confirmed\":[]}").unwrap();
        let newer = ConfirmedEndpoints::read(folder.path()).unwrap_err().to_string();
        assert!(newer.contains("this program reads format 1"), "{newer}");
    }
}
