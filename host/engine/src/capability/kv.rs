//! `clawhost:kv`: notes private to the episode.

use crate::state::State;
use clawhost_bindings::environment::clawhost::kv::kv;
use clawhost_core::Limits;
use std::collections::BTreeMap;

/// The notes of one instance. A run starts without notes; those of its episodes are merged at its end.
#[derive(Debug)]
pub(crate) struct Notes {
    granted: bool,
    /// `None` marks a deletion, which the merge repeats.
    writes: BTreeMap<String, Option<Vec<u8>>>,
    keys: usize,
    bytes: usize,
    max_bytes: usize,
    max_keys: usize,
    max_key_bytes: usize,
}

impl Notes {
    pub(crate) fn new(granted: bool, limits: &Limits) -> Self {
        Self {
            granted,
            writes: BTreeMap::new(),
            keys: 0,
            bytes: 0,
            max_bytes: limits.kv_bytes,
            max_keys: limits.kv_keys,
            max_key_bytes: limits.kv_key_bytes,
        }
    }

    fn granted(&self) -> Result<(), kv::KvError> {
        if self.granted {
            return Ok(());
        }
        Err(kv::KvError::Denied("clawhost:kv is not granted".into()))
    }

    fn check(&self, key: &str) -> Result<(), kv::KvError> {
        self.granted()?;
        if key.is_empty() || key.len() > self.max_key_bytes || key.chars().any(char::is_control) {
            let message = format!("a key has 1 to {} bytes and no control characters", self.max_key_bytes);
            return Err(kv::KvError::InvalidKey(message));
        }
        Ok(())
    }

    fn get(&self, key: &str) -> Option<&Vec<u8>> {
        self.writes.get(key)?.as_ref()
    }

    fn set(&mut self, key: String, value: Vec<u8>) -> Result<(), kv::KvError> {
        self.check(&key)?;
        let replaced = self.get(&key).map(|old| key.len() + old.len());
        let keys = self.keys + usize::from(replaced.is_none());
        let bytes = self.bytes - replaced.unwrap_or(0) + key.len() + value.len();
        // Deletions are recorded too, so they count as keys.
        let remembered = self.writes.len() + usize::from(!self.writes.contains_key(&key));
        if keys > self.max_keys || remembered > self.max_keys || bytes > self.max_bytes {
            let message = format!("notes are limited to {} keys and {} bytes", self.max_keys, self.max_bytes);
            return Err(kv::KvError::Quota(message));
        }
        (self.keys, self.bytes) = (keys, bytes);
        self.writes.insert(key, Some(value));
        Ok(())
    }

    /// Removes a value; returns whether it existed.
    fn delete(&mut self, key: String) -> Result<bool, kv::KvError> {
        self.check(&key)?;
        let Some(old) = self.get(&key).map(Vec::len) else { return Ok(false) };
        self.keys -= 1;
        self.bytes -= key.len() + old;
        self.writes.insert(key, None);
        Ok(true)
    }

    /// All writes so far.
    pub(crate) fn writes(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        self.writes.clone()
    }

    /// Continues from earlier writes.
    pub(crate) fn resume(&mut self, writes: BTreeMap<String, Option<Vec<u8>>>) {
        let held = || writes.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        self.keys = held().count();
        self.bytes = held().map(|(key, value)| key.len() + value.len()).sum();
        self.writes = writes;
    }

    /// Takes all writes.
    pub(crate) fn take_writes(&mut self) -> BTreeMap<String, Option<Vec<u8>>> {
        (self.keys, self.bytes) = (0, 0);
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
        Ok(self.notes.delete(key))
    }

    async fn keys(&mut self, prefix: String, limit: u32) -> wasmtime::Result<Result<Vec<String>, kv::KvError>> {
        self.host_call("kv.keys", &[prefix.as_bytes(), &limit.to_le_bytes()])?;
        if let Err(error) = self.notes.granted() {
            return Ok(Err(error));
        }
        let limit = (limit as usize).min(self.notes.max_keys);
        let live = self.notes.writes.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
        let live = live.filter(|(_, value)| value.is_some()).map(|(key, _)| key.clone());
        let keys: Vec<String> = live.take(limit).collect();
        self.charge(keys.iter().map(String::len).sum())?;
        Ok(Ok(keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_and_bytes_are_limited_and_freed_by_deletion() {
        let limits = Limits { kv_keys: 2, kv_bytes: 10, kv_key_bytes: 3, ..Limits::default() };
        let mut notes = Notes::new(true, &limits);
        assert!(matches!(notes.set("long".into(), vec![]), Err(kv::KvError::InvalidKey(_))));
        assert!(matches!(notes.set("".into(), vec![]), Err(kv::KvError::InvalidKey(_))));
        assert!(matches!(notes.set("a\n".into(), vec![]), Err(kv::KvError::InvalidKey(_))));
        notes.set("a".into(), vec![0; 8]).unwrap();
        assert!(matches!(notes.set("b".into(), vec![0; 8]), Err(kv::KvError::Quota(_))));
        notes.set("a".into(), vec![0; 2]).unwrap();
        notes.set("b".into(), vec![0; 2]).unwrap();
        assert!(matches!(notes.set("c".into(), vec![]), Err(kv::KvError::Quota(_))));
        assert!(notes.delete("a".into()).unwrap() && !notes.delete("a".into()).unwrap());
        assert_eq!(notes.take_writes(), BTreeMap::from([("a".into(), None), ("b".into(), Some(vec![0; 2]))]));
    }

    proptest! {
        #[test]
        fn totals_agree_with_a_plain_map(steps in prop::collection::vec(("[a-c]{1,2}", 0usize..40, any::<bool>()), 0..60)) {
            let limits = Limits { kv_keys: 5, kv_bytes: 100, ..Limits::default() };
            let mut notes = Notes::new(true, &limits);
            let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
            for (key, length, delete) in steps {
                if delete {
                    prop_assert_eq!(notes.delete(key.clone()).unwrap(), model.remove(&key).is_some());
                } else if notes.set(key.clone(), vec![1; length]).is_ok() {
                    model.insert(key, vec![1; length]);
                }
                prop_assert_eq!(notes.keys, model.len());
                prop_assert_eq!(notes.bytes, model.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>());
                prop_assert!(notes.bytes <= 100 && notes.keys <= 5);
            }
        }
    }
}
