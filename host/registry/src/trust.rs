//! Whose signatures count: the file `trust.toml` of a data folder.

use crate::signature::Signature;
use crate::{PublicKey, RegistryError};
use clawhost_core::{Digest, did_you_mean, escaped};
use clawhost_package::{ModuleName, PluginName};
use semver::Version;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// The name of the file.
const FILE: &str = "trust.toml";
/// Largest file in bytes: thousands of keys.
const FILE_BYTES: u64 = 4 << 20;
/// Most keys.
const KEYS: usize = 4096;
/// Bytes of a text that a message shows.
const SHOWN: usize = 200;

/// What is required of modules before they are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Nothing. Signatures of trusted keys are shown.
    Unsigned,
    /// Modules of a team that has a trusted key are signed by one. Other teams may be unsigned.
    #[default]
    Known,
    /// Every module is signed by a trusted key of its team.
    Required,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Unsigned, Self::Known, Self::Required];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsigned => "unsigned",
            Self::Known => "known",
            Self::Required => "required",
        }
    }

    /// The policy of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A key that is trusted, or was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedKey {
    /// What it is called here.
    pub name: PluginName,
    /// The teams whose modules it may sign. Empty: all teams.
    #[serde(default)]
    pub teams: Vec<PluginName>,
    /// When it was revoked, for people. `None`: it is trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<String>,
    /// The key in PEM.
    pub key: String,
}

/// Who signed a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Signer {
    /// What the key is called here.
    pub name: PluginName,
    /// The fingerprint of the key.
    pub fingerprint: Digest,
    /// What the publisher calls itself. Only the key proves who it is.
    pub publisher: Option<String>,
}

/// Whose signatures count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// What is required.
    #[serde(default)]
    pub policy: Policy,
    #[serde(default, rename = "key")]
    keys: Vec<TrustedKey>,
}

fn key(what: &str, why: impl Into<String>) -> RegistryError {
    RegistryError::Key { what: what.to_owned(), why: why.into() }
}

impl Trust {
    /// Nobody is trusted yet.
    pub fn new(policy: Policy) -> Self {
        Self { policy, keys: Vec::new() }
    }

    /// Reads the file of a data folder. Without one, nobody is trusted, and nothing is required.
    ///
    /// # Errors
    /// The file is damaged: it is never taken for an empty one.
    pub fn read(folder: &Path) -> Result<Self, RegistryError> {
        let path = folder.join(FILE);
        let text = match clawhost_files::read_text(&path, FILE_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(RegistryError::file(&path, &error)),
        };
        let wrong = |why: String| RegistryError::file(&path, &why);
        let trust: Self = toml::from_str(&text)
            .map_err(|error| wrong(format!("{}{}", escaped(error.message(), SHOWN), did_you_mean(error.message()))))?;
        if trust.keys.len() > KEYS {
            return Err(wrong(format!("it has more than {KEYS} keys")));
        }
        for one in &trust.keys {
            PublicKey::read(one.name.as_str(), &one.key).map_err(|error| wrong(error.to_string()))?;
        }
        Ok(trust)
    }

    /// Writes the file of a data folder: all of it, or the old one stays.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), RegistryError> {
        use std::io::Write as _;
        let path = folder.join(FILE);
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(folder)?;
            let mut draft = tempfile::Builder::new().prefix(".trust-").tempfile_in(folder)?;
            draft.write_all(toml::to_string(self).unwrap_or_default().as_bytes())?;
            draft.as_file().sync_all()?;
            draft.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|error| RegistryError::file(&path, &error))
    }

    /// The keys that may sign for a team now.
    pub fn keys_of(&self, team: &PluginName) -> impl Iterator<Item = &TrustedKey> {
        self.keys.iter().filter(move |one| one.revoked.is_none() && (one.teams.is_empty() || one.teams.contains(team)))
    }

    /// All keys, those that were revoked too.
    pub fn keys(&self) -> &[TrustedKey] {
        &self.keys
    }

    /// Trusts a key for some teams; none: for all. A key that is trusted already gets this name and these teams.
    ///
    /// # Errors
    /// Another key has the name, or the key was revoked.
    pub fn trust(&mut self, name: PluginName, teams: Vec<PluginName>, public: &PublicKey) -> Result<(), RegistryError> {
        let pem = public.pem();
        if let Some(other) = self.keys.iter().find(|one| one.name == name && one.key != pem) {
            return Err(key(name.as_str(), format!("another key has this name: {}", fingerprint(other))));
        }
        if let Some(same) = self.keys.iter_mut().find(|one| one.key == pem) {
            if let Some(revoked) = &same.revoked {
                return Err(key(
                    name.as_str(),
                    format!("it was revoked {revoked}; a revoked key is never trusted again"),
                ));
            }
            same.name = name;
            same.teams = teams;
            return Ok(());
        }
        if self.keys.len() >= KEYS {
            return Err(key(name.as_str(), format!("{KEYS} keys are stored, and no more can be")));
        }
        self.keys.push(TrustedKey { name, teams, revoked: None, key: pem });
        Ok(())
    }

    /// Revokes a key, named by its name or by a beginning of its fingerprint. Returns it.
    ///
    /// # Errors
    /// There is no such key, or several fit.
    pub fn revoke(&mut self, named: &str, when: &str) -> Result<TrustedKey, RegistryError> {
        let hex = named.strip_prefix("sha256:").unwrap_or(named);
        // Eight digits, so that a short name is no fingerprint by chance.
        let is_beginning = |one: &TrustedKey| hex.len() >= 8 && fingerprint(one).starts_with(&format!("sha256:{hex}"));
        let mut fitting = self.keys.iter_mut().filter(|one| one.name.as_str() == named || is_beginning(one));
        let Some(first) = fitting.next() else {
            return Err(key(&escaped(named, SHOWN), "no key has this name or fingerprint"));
        };
        if fitting.next().is_some() {
            return Err(key(&escaped(named, SHOWN), "several keys have this name or fingerprint"));
        }
        first.revoked.get_or_insert_with(|| when.to_owned());
        Ok(first.clone())
    }

    /// Who signed a module, of those that are trusted for its team.
    ///
    /// # Errors
    /// The policy requires a signature that it does not have.
    pub fn judge(
        &self,
        module: &ModuleName,
        version: &Version,
        manifest: &Digest,
        signatures: &[Signature],
    ) -> Result<Option<Signer>, RegistryError> {
        let (mut why, mut revoked) = (None, false);
        for one in self.keys.iter().filter(|one| one.teams.is_empty() || one.teams.contains(module.team())) {
            let Ok(public) = PublicKey::read(one.name.as_str(), &one.key) else { continue };
            for signature in
                signatures.iter().filter(|signature| public.verifies(&signature.payload, &signature.signature))
            {
                match (signature.check(&public, manifest, module, version), &one.revoked) {
                    (Ok(said), None) => {
                        let (name, fingerprint) = (one.name.clone(), public.fingerprint());
                        return Ok(Some(Signer { name, fingerprint, publisher: said.publisher }));
                    }
                    (Ok(_), Some(when)) => {
                        revoked = true;
                        why = Some(format!(
                            "is signed by the key {}, which was revoked {}",
                            one.name,
                            escaped(when, SHOWN)
                        ));
                    }
                    (Err(reason), _) => {
                        why = Some(format!("has a signature of {} that does not fit: {reason}", one.name))
                    }
                }
            }
        }
        let has_keys = self.keys.iter().any(|one| one.teams.contains(module.team()));
        let required = match self.policy {
            Policy::Unsigned => why.is_some(),
            Policy::Known => why.is_some() || has_keys,
            Policy::Required => true,
        };
        if !required {
            return Ok(None);
        }
        let why = why.unwrap_or_else(|| match signatures.len() {
            0 => "is not signed".to_owned(),
            some => format!("has {some} signatures, none of them by a key that is trusted for {}", module.team()),
        });
        let why = format!("{why} (policy: {})", self.policy);
        Err(RegistryError::Untrusted { module: module.clone(), version: version.clone(), why, revoked })
    }
}

/// The fingerprint of a key, for people and for [`Trust::revoke`].
pub(crate) fn fingerprint(one: &TrustedKey) -> String {
    PublicKey::read(one.name.as_str(), &one.key)
        .map_or_else(|_| "unreadable".to_owned(), |key| key.fingerprint().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyKind, PrivateKey};

    struct Case {
        module: ModuleName,
        version: Version,
        manifest: Digest,
    }

    impl Case {
        fn new() -> Self {
            let (module, version) = ("shop/x".parse().unwrap(), "1.0.0".parse().unwrap());
            Self { module, version, manifest: Digest::of(b"manifest") }
        }

        fn signed(&self, key: &PrivateKey) -> Signature {
            Signature::new(key, self.manifest, "h/shop/x", (&self.module, &self.version), "Shop").unwrap()
        }

        fn judge(&self, trust: &Trust, signatures: &[Signature]) -> Result<Option<String>, String> {
            let judged = trust.judge(&self.module, &self.version, &self.manifest, signatures);
            judged.map(|signer| signer.map(|signer| signer.name.to_string())).map_err(|error| error.to_string())
        }
    }

    fn trusted(policy: Policy, teams: &[&str], key: &PrivateKey) -> Trust {
        let mut trust = Trust { policy, ..Trust::default() };
        let teams = teams.iter().map(|team| team.parse().unwrap()).collect();
        trust.trust("ours".parse().unwrap(), teams, &key.public()).unwrap();
        trust
    }

    #[test]
    fn a_policy_says_which_modules_must_be_signed() {
        let (key, other) = (PrivateKey::generate(KeyKind::P256).unwrap(), PrivateKey::generate(KeyKind::P256).unwrap());
        let case = Case::new();
        let check =
            |policy: Policy, teams: &[&str], signatures: &[Signature], expect: Result<Option<&str>, &str>| match (
                case.judge(&trusted(policy, teams, &key), signatures),
                expect,
            ) {
                (Ok(signer), Ok(expect)) => assert_eq!(signer.as_deref(), expect, "{policy} {teams:?}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (found, _) => panic!("{policy} {teams:?}: {found:?}"),
            };
        let (good, strange) = ([case.signed(&key)], [case.signed(&other)]);
        for policy in Policy::ALL {
            check(policy, &["shop"], &good, Ok(Some("ours")));
            check(policy, &[], &good, Ok(Some("ours")));
        }
        check(Policy::Unsigned, &["shop"], &[], Ok(None));
        check(Policy::Known, &["shop"], &[], Err("shop/x 1.0.0 is not signed (policy: known)"));
        check(
            Policy::Known,
            &["shop"],
            &strange,
            Err("has 1 signatures, none of them by a key that is trusted for shop"),
        );
        check(Policy::Known, &["math"], &[], Ok(None));
        // A key of another team counts for nothing.
        check(Policy::Known, &["math"], &good, Ok(None));
        check(Policy::Required, &["math"], &good, Err("none of them by a key that is trusted for shop"));
    }

    #[test]
    fn a_revoked_key_counts_for_nothing_and_is_never_trusted_again() {
        let key = PrivateKey::generate(KeyKind::P256).unwrap();
        let case = Case::new();
        for policy in Policy::ALL {
            let mut trust = trusted(policy, &["shop"], &key);
            let print = key.public().fingerprint().to_string();
            trust.revoke(&print[..20], "on Monday").unwrap();
            let error = case.judge(&trust, &[case.signed(&key)]).unwrap_err();
            assert!(error.contains("is signed by the key ours, which was revoked on Monday"), "{error}");
            let again = trust.trust("ours".parse().unwrap(), Vec::new(), &key.public()).unwrap_err().to_string();
            assert!(again.contains("a revoked key is never trusted again"), "{again}");
        }
        assert!(Trust::default().revoke("nobody", "").unwrap_err().to_string().contains("no key has this name"));
    }

    #[test]
    fn a_signature_that_does_not_fit_is_refused_whatever_the_policy() {
        let key = PrivateKey::generate(KeyKind::P256).unwrap();
        let mut case = Case::new();
        let signature = case.signed(&key);
        case.manifest = Digest::of(b"changed");
        for policy in Policy::ALL {
            let error = case.judge(&trusted(policy, &["shop"], &key), std::slice::from_ref(&signature)).unwrap_err();
            assert!(error.contains("has a signature of ours that does not fit: it is about sha256:"), "{error}");
        }
    }

    #[test]
    fn the_file_is_kept_and_a_damaged_one_is_never_taken_for_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Trust::read(folder.path()), Ok(Trust::default()));
        let trust = trusted(Policy::Required, &["shop"], &PrivateKey::generate(KeyKind::Ed25519).unwrap());
        trust.write(folder.path()).unwrap();
        assert_eq!(Trust::read(folder.path()), Ok(trust));
        let path = folder.path().join(FILE);
        let text = clawhost_files::read_text(&path, FILE_BYTES).unwrap();
        for (from, to) in [("policy", "polcy"), ("BEGIN PUBLIC", "BEGIN OTHER"), ("required", "sometimes")] {
            std::fs::write(&path, text.replace(from, to)).unwrap();
            let error = Trust::read(folder.path()).unwrap_err().to_string();
            assert!(error.contains("trust.toml: "), "{error}");
        }
    }
}
