//! `clawhost:kv`: notes private to the episode, over a read-only view of the run's.

use crate::state::State;
use clawhost_bindings::environment::clawhost::kv::kv;
use clawhost_core::Limits;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Notes of one instance.
#[derive(Debug)]
pub(crate) struct Notes {
    granted: bool,
    base: Arc<BTreeMap<String, Vec<u8>>>,
    writes: BTreeMap<String, Option<Vec<u8>>>,
    max_bytes: usize,
    max_keys: usize,
    max_key_bytes: usize,
}

impl Notes {
    pub(crate) fn new(granted: bool, limits: &Limits) -> Self {
        Self {
            granted,
            base: Arc::default(),
            writes: BTreeMap::new(),
            max_bytes: limits.kv_bytes,
            max_keys: limits.kv_keys,
            max_key_bytes: limits.kv_key_bytes,
        }
    }

    fn check(&self, key: &str) -> Result<(), kv::KvError> {
        if !self.granted {
            return Err(kv::KvError::Denied("clawhost:kv is not granted; the operator can add --grant kv".into()));
        }
        if key.is_empty() || key.len() > self.max_key_bytes || key.chars().any(char::is_control) {
            let message = format!("a key has 1 to {} bytes and no control characters", self.max_key_bytes);
            return Err(kv::KvError::InvalidKey(message));
        }
        Ok(())
    }

    fn get(&self, key: &str) -> Option<&Vec<u8>> {
        match self.writes.get(key) {
            Some(written) => written.as_ref(),
            None => self.base.get(key),
        }
    }

    /// Every key with its value, in byte order.
    fn all(&self) -> BTreeMap<&str, &Vec<u8>> {
        let mut all: BTreeMap<&str, &Vec<u8>> = self.base.iter().map(|(key, value)| (key.as_str(), value)).collect();
        for (key, value) in &self.writes {
            match value {
                Some(value) => all.insert(key, value),
                None => all.remove(key.as_str()),
            };
        }
        all
    }

    fn set(&mut self, key: String, value: Vec<u8>) -> Result<(), kv::KvError> {
        self.check(&key)?;
        let others = self.all().into_iter().filter(|(known, _)| *known != key);
        let (keys, bytes) = others.fold((1usize, key.len() + value.len()), |(keys, bytes), (known, value)| {
            (keys + 1, bytes + known.len() + value.len())
        });
        if keys > self.max_keys || bytes > self.max_bytes {
            let message = format!("notes are limited to {} keys and {} bytes", self.max_keys, self.max_bytes);
            return Err(kv::KvError::Quota(message));
        }
        self.writes.insert(key, Some(value));
        Ok(())
    }

    /// What was written; empties it.
    pub(crate) fn take_writes(&mut self) -> BTreeMap<String, Option<Vec<u8>>> {
        std::mem::take(&mut self.writes)
    }
}

impl kv::Host for State {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<Vec<u8>>, kv::KvError>> {
        self.host_call("kv.get", &[key.as_bytes()])?;
        if let Err(error) = self.notes.check(&key) {
            return Ok(Err(error));
        }
        let value = self.notes.get(&key).cloned();
        self.charge(value.as_ref().map_or(0, Vec::len))?;
        Ok(Ok(value))
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), kv::KvError>> {
        self.host_call("kv.set", &[key.as_bytes(), &value])?;
        Ok(self.notes.set(key, value))
    }

    async fn delete(&mut self, key: String) -> wasmtime::Result<Result<bool, kv::KvError>> {
        self.host_call("kv.delete", &[key.as_bytes()])?;
        if let Err(error) = self.notes.check(&key) {
            return Ok(Err(error));
        }
        let existed = self.notes.get(&key).is_some();
        if existed {
            self.notes.writes.insert(key, None);
        }
        Ok(Ok(existed))
    }

    async fn keys(&mut self, prefix: String, limit: u32) -> wasmtime::Result<Result<Vec<String>, kv::KvError>> {
        self.host_call("kv.keys", &[prefix.as_bytes(), &limit.to_le_bytes()])?;
        // A prefix may be empty, so only the grant is checked.
        if let Err(error) = self.notes.check("k") {
            return Ok(Err(error));
        }
        let limit = (limit as usize).min(self.notes.max_keys);
        let keys: Vec<String> = self
            .notes
            .all()
            .into_keys()
            .filter(|key| key.starts_with(&prefix))
            .take(limit)
            .map(str::to_owned)
            .collect();
        self.charge(keys.iter().map(String::len).sum())?;
        Ok(Ok(keys))
    }
}
