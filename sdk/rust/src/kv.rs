//! A small private key-value store, if the operator grants it (`--grant kv`).
//!
//! Reads see the writes of the same episode. The merged writes of all episodes are stored with the run.

use crate::Result;

#[cfg(target_arch = "wasm32")]
use crate::bindings::observer::clawhost::kv::kv as host;

#[cfg(target_arch = "wasm32")]
fn text(error: host::KvError) -> crate::Error {
    match error {
        host::KvError::Denied(text)
        | host::KvError::Quota(text)
        | host::KvError::InvalidKey(text)
        | host::KvError::Other(text) => text.into(),
    }
}

/// The value of a key, if there is one.
///
/// # Errors
/// kv was not granted, or the key is invalid.
pub fn get(key: &str) -> Result<Option<Vec<u8>>> {
    #[cfg(target_arch = "wasm32")]
    return host::get(key).map_err(text);
    #[cfg(not(target_arch = "wasm32"))]
    Ok(crate::testing::with_notes(|notes| notes.get(key).cloned()))
}

/// Stores a value.
///
/// # Errors
/// kv was not granted, the key is invalid, or the store is full.
pub fn set(key: &str, value: &[u8]) -> Result<()> {
    #[cfg(target_arch = "wasm32")]
    return host::set(key, value).map_err(text);
    #[cfg(not(target_arch = "wasm32"))]
    {
        crate::testing::with_notes(|notes| notes.insert(key.to_owned(), value.to_vec()));
        Ok(())
    }
}

/// Removes a value. Returns whether there was one.
///
/// # Errors
/// kv was not granted, or the key is invalid.
pub fn delete(key: &str) -> Result<bool> {
    #[cfg(target_arch = "wasm32")]
    return host::delete(key).map_err(text);
    #[cfg(not(target_arch = "wasm32"))]
    Ok(crate::testing::with_notes(|notes| notes.remove(key).is_some()))
}

/// Keys that begin with `prefix`, in byte order, at most `limit`.
///
/// # Errors
/// kv was not granted.
pub fn keys(prefix: &str, limit: u32) -> Result<Vec<String>> {
    #[cfg(target_arch = "wasm32")]
    return host::keys(prefix, limit).map_err(text);
    #[cfg(not(target_arch = "wasm32"))]
    Ok(crate::testing::with_notes(|notes| {
        notes.keys().filter(|key| key.starts_with(prefix)).take(limit as usize).cloned().collect()
    }))
}
