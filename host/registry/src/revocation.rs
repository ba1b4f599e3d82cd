//! Lists of revoked keys: one team signs a list, others take it over. A list only adds: no list makes a key trusted again.

use crate::trust::{TrustedKey, fingerprint};
use crate::{PrivateKey, PublicKey, RegistryError, Statement, Trust, statement_of};
use clawhost_core::{Digest, escaped};
use clawhost_package::PluginName;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What the statement of a list is.
const REVOCATIONS: &str = "https://github.com/clawhost/clawhost/revocations/v1";
/// What a list is about, as its statement says.
const SUBJECT: &str = "revoked keys";
/// Largest file of a list in bytes: as large as the file of trusted keys.
const LIST_BYTES: u64 = 4 << 20;
/// Bytes of a time in a list that are kept. It is for people.
const WHEN: usize = 60;

/// The predicate of a list.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    revoked: Vec<Revoked>,
}

/// A key in a list.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Revoked {
    /// What the author of the list calls it.
    name: PluginName,
    /// When it was revoked, for people.
    when: String,
    /// The key in PEM.
    key: String,
}

/// What a list changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RevocationReport {
    /// The key that signed the list, as it is called here.
    pub by: PluginName,
    /// Keys that are revoked from now on, as they are called here.
    pub revoked: Vec<PluginName>,
    /// Keys that were revoked before.
    pub known: Vec<PluginName>,
    /// Keys that the signer may not revoke: it is not trusted for all their teams. Named as in the list.
    pub passed_over: Vec<PluginName>,
}

impl Trust {
    /// The list of all keys that are revoked here, signed, and their number.
    ///
    /// # Errors
    /// None is revoked, or the system gives no random numbers.
    pub fn revocations(&self, signer: &PrivateKey) -> Result<(Vec<u8>, u64), RegistryError> {
        let revoked = self.keys().iter().filter_map(|one| {
            Some(Revoked { name: one.name.clone(), when: one.revoked.clone()?, key: one.key.clone() })
        });
        let list = List { revoked: revoked.collect() };
        if list.revoked.is_empty() {
            return Err(RegistryError::malformed("a list of revoked keys", "no key is revoked here"));
        }
        let count = list.revoked.len() as u64;
        let predicate = serde_json::to_value(&list).map_err(|error| RegistryError::malformed(SUBJECT, error))?;
        let about = Digest::of_json(&predicate);
        Ok((Statement::new(SUBJECT, &about, REVOCATIONS, predicate).sealed(Some(signer))?, count))
    }

    /// Takes over a list from a file. Its signer may revoke itself, keys of teams that it is trusted for, and any key if it is trusted for
    /// all teams: then a key that is unknown here is kept as revoked, so that it is never trusted.
    ///
    /// # Errors
    /// It cannot be read, is no list, or no key that is trusted has signed it. Nothing is changed then.
    pub fn take_revocations(&mut self, file: &Path) -> Result<RevocationReport, RegistryError> {
        let bytes = clawhost_files::read(file, LIST_BYTES).map_err(|error| RegistryError::file(file, &error))?;
        let trusted: Vec<(&TrustedKey, PublicKey)> = self
            .keys()
            .iter()
            .filter(|one| one.revoked.is_none())
            .filter_map(|one| Some((one, PublicKey::read(one.name.as_str(), &one.key).ok()?)))
            .collect();
        let (statement, by) = statement_of(&bytes, trusted.iter().map(|(_, public)| public))
            .map_err(|error| RegistryError::file(file, &error))?;
        let wrong = |why: String| RegistryError::file(file, &why);
        if statement.predicate_type != REVOCATIONS || !statement.is_about(&Digest::of_json(&statement.predicate)) {
            return Err(wrong("it is no list of revoked keys".to_owned()));
        }
        let signer = by.and_then(|by| trusted.iter().find(|(_, public)| public == by)).map(|(one, _)| (*one).clone());
        let signer = signer.ok_or_else(|| wrong("no key that is trusted here has signed it".to_owned()))?;
        let list: List = serde_json::from_value(statement.predicate).map_err(|error| wrong(error.to_string()))?;
        // All of it is read before anything is changed.
        let listed = list.revoked.into_iter().map(|one| Ok((PublicKey::read(one.name.as_str(), &one.key)?, one)));
        let listed = listed.collect::<Result<Vec<_>, RegistryError>>().map_err(|error| wrong(error.to_string()))?;
        let mut report = RevocationReport {
            by: signer.name.clone(),
            revoked: Vec::new(),
            known: Vec::new(),
            passed_over: Vec::new(),
        };
        let mut changed = self.clone();
        for (public, Revoked { name, when, .. }) in listed {
            let pem = public.pem();
            let own = changed.keys().iter().find(|one| one.key == pem).cloned();
            match own {
                Some(own) if own.revoked.is_some() => report.known.push(own.name),
                Some(own) if may_revoke(&signer, &own) => {
                    changed.revoke(&fingerprint(&own), &escaped(&when, WHEN))?;
                    report.revoked.push(own.name);
                }
                None if signer.teams.is_empty() => {
                    let name = changed.free_name(name, &public)?;
                    changed.trust(name.clone(), Vec::new(), &public)?;
                    changed.revoke(&public.fingerprint().to_string(), &escaped(&when, WHEN))?;
                    report.revoked.push(name);
                }
                _ => report.passed_over.push(name),
            }
        }
        *self = changed;
        Ok(report)
    }

    /// The name of a list for a key that is unknown here; with the beginning of its fingerprint if another key has the name.
    fn free_name(&self, name: PluginName, public: &PublicKey) -> Result<PluginName, RegistryError> {
        if self.keys().iter().all(|one| one.name != name) {
            return Ok(name);
        }
        let text = format!("{name}-{}", public.fingerprint().short());
        text.parse().map_err(|_| RegistryError::malformed(SUBJECT, format!("`{text}` is no name")))
    }
}

/// Whether a trusted key may revoke another one.
fn may_revoke(signer: &TrustedKey, other: &TrustedKey) -> bool {
    let is_of_its_teams = !other.teams.is_empty() && other.teams.iter().all(|team| signer.teams.contains(team));
    signer.key == other.key || signer.teams.is_empty() || is_of_its_teams
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyKind, Policy};

    fn key() -> PrivateKey {
        PrivateKey::generate(KeyKind::P256).unwrap()
    }

    fn trusting(keys: &[(&str, &[&str], &PrivateKey)]) -> Trust {
        let mut trust = Trust::new(Policy::Known);
        for (name, teams, key) in keys {
            let teams = teams.iter().map(|team| team.parse().unwrap()).collect();
            trust.trust(name.parse().unwrap(), teams, &key.public()).unwrap();
        }
        trust
    }

    /// A list of these keys, signed, as a file.
    fn list(folder: &Path, keys: &[(&str, &PrivateKey)], signer: &PrivateKey) -> std::path::PathBuf {
        let mut trust = Trust::default();
        for (name, key) in keys {
            trust.trust(name.parse().unwrap(), Vec::new(), &key.public()).unwrap();
            trust.revoke(name, "on Monday").unwrap();
        }
        let file = folder.join("revoked.json");
        std::fs::write(&file, trust.revocations(signer).unwrap().0).unwrap();
        file
    }

    fn names(all: &[PluginName]) -> Vec<&str> {
        all.iter().map(PluginName::as_str).collect()
    }

    #[test]
    fn a_signer_revokes_itself_and_keys_of_its_teams_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new, both, math, unknown) = (key(), key(), key(), key(), key());
        let listed = [("a", &old), ("b", &both), ("c", &math), ("d", &unknown)];
        let file = list(folder.path(), &listed, &new);
        let known: &[(&str, &[&str], &PrivateKey)] =
            &[("old", &["shop"], &old), ("both", &["shop", "math"], &both), ("math", &["math"], &math)];
        let check = |teams: &[&str], revoked: &[&str], passed_over: &[&str]| {
            let mut trust = trusting(&[known, &[("new", teams, &new)][..]].concat());
            let report = trust.take_revocations(&file).unwrap();
            assert_eq!((report.by.as_str(), names(&report.revoked)), ("new", revoked.to_vec()), "{teams:?}");
            assert_eq!(names(&report.passed_over), passed_over, "{teams:?}");
            let again = trust.take_revocations(&file).unwrap();
            assert_eq!((names(&again.known), again.revoked.len()), (revoked.to_vec(), 0), "{teams:?}");
        };
        check(&["shop"], &["old"], &["b", "c", "d"]);
        check(&["shop", "math"], &["old", "both", "math"], &["d"]);
        check(&["other"], &[], &["a", "b", "c", "d"]);
        // Trusted for all teams: what is unknown is kept as revoked.
        check(&[], &["old", "both", "math", "d"], &[]);
        let own = list(folder.path(), &[("a", &new)], &new);
        let report = trusting(&[("new", &["other"], &new)]).take_revocations(&own).unwrap();
        assert_eq!(names(&report.revoked), ["new"], "itself");
    }

    #[test]
    fn an_unknown_key_of_a_list_is_never_trusted_and_takes_no_name_of_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let (signer, unknown) = (key(), key());
        let file = list(folder.path(), &[("ours", &unknown)], &signer);
        let mut trust = trusting(&[("ours", &[], &signer)]);
        let report = trust.take_revocations(&file).unwrap();
        assert_eq!(report.revoked[0].as_str(), format!("ours-{}", unknown.public().fingerprint().short()));
        let error = trust.trust("x".parse().unwrap(), Vec::new(), &unknown.public()).unwrap_err().to_string();
        assert!(error.contains("a revoked key is never trusted again"), "{error}");
        assert!(trust.keys()[0].revoked.is_none(), "the signer is trusted as before");
    }

    #[test]
    fn a_list_without_a_signature_that_counts_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (signer, victim) = (key(), key());
        let file = list(folder.path(), &[("victim", &victim)], &signer);
        let refused = |mut trust: Trust, expect: &str| {
            let before = trust.clone();
            let error = trust.take_revocations(&file).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
            assert_eq!(trust, before);
        };
        let unsigned = "no key that is trusted here has signed it";
        refused(trusting(&[("victim", &[], &victim)]), unsigned);
        let mut revoked = trusting(&[("signer", &[], &signer), ("victim", &[], &victim)]);
        revoked.revoke("signer", "before").unwrap();
        refused(revoked, unsigned);
        let trusted = || trusting(&[("signer", &[], &signer), ("victim", &[], &victim)]);
        // Another statement by the same key is no list.
        let other = Statement::new("x", &Digest::of(b"x"), "https://example.com/other", serde_json::json!({}));
        std::fs::write(&file, other.sealed(Some(&signer)).unwrap()).unwrap();
        refused(trusted(), "it is no list of revoked keys");
        let list = serde_json::json!({ "revoked": [{ "name": "a", "when": "", "key": "no key" }] });
        let broken = Statement::new(SUBJECT, &Digest::of_json(&list), REVOCATIONS, list);
        std::fs::write(&file, broken.sealed(Some(&signer)).unwrap()).unwrap();
        refused(trusted(), "it is no PEM");
        std::fs::write(&file, "[]").unwrap();
        refused(trusted(), "revoked.json: ");
        let none = Trust::default().revocations(&signer).unwrap_err().to_string();
        assert!(none.contains("no key is revoked here"), "{none}");
    }
}
