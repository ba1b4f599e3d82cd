//! The cache of compiled artefacts. They are native code, so only artefacts that this host wrote are loaded.
//!
//! A file is named by the component's digest and the engine's fingerprint. It contains an HMAC-SHA256 tag under a key that
//! only this host knows, followed by the artefact. A missing, short, foreign or stale file is a miss: the component is
//! compiled again. Deleting the folder loses nothing.

use clawhost_core::Digest;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use std::io::Write as _;
use std::path::PathBuf;

/// The secret key that authenticates artefacts of this host.
#[derive(Clone)]
pub struct CacheKey(pub [u8; 32]);

impl std::fmt::Debug for CacheKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CacheKey(..)")
    }
}

const TAG_BYTES: usize = 32;
/// Largest compiled component that is read: an interpreter of 32 MiB compiles to about 150 MB.
const ARTEFACT_BYTES: u64 = 1 << 30;

/// A folder of compiled artefacts.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    key: CacheKey,
}

impl Cache {
    pub(crate) fn new(folder: PathBuf, key: CacheKey) -> Self {
        Self { folder, key }
    }

    fn path(&self, component: &Digest, engine: &Digest) -> PathBuf {
        self.folder.join(format!("{}-{}.cwasm", component.hex(), engine.short()))
    }

    fn mac(&self, component: &Digest, engine: &Digest, artefact: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key.0).ok()?;
        // The tag covers the names too, so that a renamed file is foreign.
        mac.update(component.hex().as_bytes());
        mac.update(engine.hex().as_bytes());
        mac.update(artefact);
        Some(mac)
    }

    /// The artefact, if this host wrote it for this component and engine.
    pub(crate) fn get(&self, component: &Digest, engine: &Digest) -> Option<Vec<u8>> {
        let mut bytes = clawhost_files::read(&self.path(component, engine), ARTEFACT_BYTES).ok()?;
        let (tag, artefact) = bytes.split_at_checked(TAG_BYTES)?;
        self.mac(component, engine, artefact)?.verify_slice(tag).ok()?;
        bytes.drain(..TAG_BYTES);
        Some(bytes)
    }

    /// Stores an artefact. Errors are only traced, because a cache that cannot be written makes loading slow but not wrong.
    pub(crate) fn put(&self, component: &Digest, engine: &Digest, artefact: &[u8]) {
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(&self.folder)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            if let Some(mac) = self.mac(component, engine, artefact) {
                file.write_all(&mac.finalize().into_bytes())?;
                file.write_all(artefact)?;
                file.persist(self.path(component, engine))?;
            }
            Ok(())
        };
        if let Err(error) = write() {
            tracing::warn!(folder = %self.folder.display(), %error, "compiled artefact not kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_authentic_artefacts_for_this_component_and_engine_are_returned() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().into(), CacheKey([1; 32]));
        let (component, engine, other) = (Digest::of(b"c"), Digest::of(b"e"), Digest::of(b"o"));
        assert_eq!(cache.get(&component, &engine), None, "an empty cache");
        cache.put(&component, &engine, b"code");
        assert_eq!(cache.get(&component, &engine).as_deref(), Some(&b"code"[..]));

        let path = cache.path(&component, &engine);
        std::fs::copy(&path, cache.path(&other, &engine)).unwrap();
        assert_eq!(cache.get(&other, &engine), None, "a renamed file");
        let foreign = Cache::new(folder.path().into(), CacheKey([2; 32]));
        assert_eq!(foreign.get(&component, &engine), None, "another host's file");
        let mut bytes = std::fs::read(&path).unwrap();
        for bad in [vec![], bytes[..40.min(bytes.len() - 1)].to_vec(), {
            *bytes.last_mut().unwrap() ^= 1;
            bytes.clone()
        }] {
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(cache.get(&component, &engine), None, "{} bytes", bad.len());
        }
    }
}
