//! Who asks: the key of a client, and its limits.

use super::answer::Refusal;
use crate::keys::{ClientKey, ClientKeys};
use axum::http::{HeaderMap, header};
use clawhost_core::Clock;
use clawhost_wire::ErrorKind;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Microseconds of a minute.
const MINUTE_US: u64 = 60 * 1_000_000;
/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A client that may ask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Client {
    /// Name of its key; empty without one.
    pub(crate) owner: String,
    pub(crate) no_train: bool,
    pub(crate) no_record: bool,
}

/// What a key has used.
#[derive(Debug, Default)]
struct Used {
    /// Requests that it may still send, and when that was counted.
    requests: f64,
    counted_us: Option<u64>,
    day: u64,
    tokens: u64,
}

/// The keys, and what they have used.
pub(crate) struct Access {
    keys: RwLock<Arc<ClientKeys>>,
    /// Whether every client needs a key: others than those of this machine can reach the gateway.
    needs_key: bool,
    used: Mutex<HashMap<String, Used>>,
    clock: Arc<dyn Clock>,
}

/// The key that a request carries, in any of the headers of the dialects.
fn carried(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let bearer = text(header::AUTHORIZATION.as_str()).and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    bearer.or_else(|| text("x-api-key")).or_else(|| text("api-key")).filter(|key| !key.is_empty())
}

impl Access {
    pub(crate) fn new(keys: ClientKeys, needs_key: bool, clock: Arc<dyn Clock>) -> Self {
        Self { keys: RwLock::new(Arc::new(keys)), needs_key, used: Mutex::default(), clock }
    }

    /// Replaces the keys. What they have used stays.
    pub(crate) fn replace(&self, keys: ClientKeys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Finds the client of a request. Where nobody has a key, clients of this machine send whatever their SDK needs.
    pub(crate) fn client(&self, headers: &HeaderMap) -> Result<Client, Refusal> {
        Ok(self.key(headers)?.map(|key| client(&key)).unwrap_or_default())
    }

    /// The same for a request that counts against the limits of its key.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<Client, Refusal> {
        let Some(key) = self.key(headers)? else { return Ok(Client::default()) };
        self.count(&key)?;
        Ok(client(&key))
    }

    fn key(&self, headers: &HeaderMap) -> Result<Option<ClientKey>, Refusal> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner).clone();
        let refuse = |why: &str| Err(Refusal::new(ErrorKind::Unauthenticated, why));
        if keys.is_empty() && !self.needs_key {
            return Ok(None);
        }
        match carried(headers) {
            None if self.needs_key => refuse("a key is needed, in the header Authorization or x-api-key"),
            None => Ok(None),
            Some(key) => match keys.find(key) {
                Some(key) => Ok(Some(key.clone())),
                None => refuse("this gateway does not know the key"),
            },
        }
    }

    fn count(&self, key: &ClientKey) -> Result<(), Refusal> {
        let (now_us, day) = (self.clock.monotonic_us(), self.clock.now_ms() / DAY_MS);
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let used = used.entry(key.name.clone()).or_default();
        if let Some(most) = key.tokens_per_day
            && used.day == day
            && used.tokens >= most
        {
            let why = format!("the key has used its {most} tokens of today");
            return Err(Refusal::new(ErrorKind::Budget, why));
        }
        if let Some(most) = key.requests_per_minute {
            // A bucket that fills steadily: no burst at the turn of a minute.
            let most = f64::from(most);
            let since = used.counted_us.map(|at| now_us.saturating_sub(at));
            used.requests = match since {
                None => most,
                Some(since) => (used.requests + most * since as f64 / MINUTE_US as f64).min(most),
            };
            used.counted_us = Some(now_us);
            if used.requests < 1.0 {
                let seconds = ((1.0 - used.requests) / most * 60.0).ceil();
                let why = format!("the key may send {most} requests per minute");
                return Err(Refusal {
                    retry_after: Some(seconds.max(1.0) as u64),
                    ..Refusal::new(ErrorKind::TooMany, why)
                });
            }
            used.requests -= 1.0;
        }
        Ok(())
    }

    /// Counts tokens of a key's request at a Unix time in milliseconds.
    pub(crate) fn spend(&self, owner: &str, at: u64, tokens: u64) {
        if owner.is_empty() {
            return;
        }
        let day = at / DAY_MS;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let used = used.entry(owner.to_owned()).or_default();
        if used.day < day {
            (used.day, used.tokens) = (day, 0);
        }
        if used.day == day {
            used.tokens = used.tokens.saturating_add(tokens);
        }
    }
}

fn client(key: &ClientKey) -> Client {
    Client { owner: key.name.clone(), no_train: key.no_train, no_record: key.no_record }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};
    use clawhost_core::Digest;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct TestClock(AtomicU64);

    impl Clock for TestClock {
        fn now_ms(&self) -> u64 {
            self.monotonic_us() / 1000
        }
        fn monotonic_us(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn key(name: &str) -> ClientKey {
        ClientKey {
            name: name.into(),
            digest: Digest::of(format!("ch-{name}").as_bytes()),
            created_at: 0,
            no_train: false,
            no_record: false,
            requests_per_minute: None,
            tokens_per_day: None,
        }
    }

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn a_known_key_names_its_client_in_every_header_of_the_dialects() {
        let access = |keys, needs| Access::new(ClientKeys::new(keys), needs, Arc::new(TestClock::default()));
        let check = |access: &Access, headers: HeaderMap, expect: Option<&str>| {
            let client = access.client(&headers).ok().map(|client| client.owner);
            assert_eq!(client.as_deref(), expect, "{headers:?}");
        };
        let with = access(vec![key("a"), key("b")], false);
        check(&with, headers("authorization", "Bearer ch-b"), Some("b"));
        check(&with, headers("authorization", "bearer  ch-a "), Some("a"));
        check(&with, headers("x-api-key", "ch-a"), Some("a"));
        check(&with, headers("api-key", "ch-a"), Some("a"));
        check(&with, headers("x-api-key", "ch-c"), None);
        check(&with, headers("authorization", "Basic ch-a"), Some(""));
        check(&with, HeaderMap::new(), Some(""));
        let nobody = access(vec![], false);
        check(&nobody, headers("x-api-key", "none"), Some(""));
        let strict = access(vec![key("a")], true);
        check(&strict, HeaderMap::new(), None);
        check(&strict, headers("x-api-key", "ch-a"), Some("a"));
        with.replace(ClientKeys::new(vec![key("c")]));
        check(&with, headers("x-api-key", "ch-a"), None);
        check(&with, headers("x-api-key", "ch-c"), Some("c"));
    }

    #[test]
    fn requests_per_minute_fill_up_steadily() {
        let clock = Arc::new(TestClock::default());
        let limited = ClientKey { requests_per_minute: Some(2), ..key("a") };
        let access = Access::new(ClientKeys::new(vec![limited]), false, clock.clone());
        let headers = headers("x-api-key", "ch-a");
        let check = |after_s: u64, expect: Option<u64>| {
            clock.0.fetch_add(after_s * 1_000_000, Ordering::Relaxed);
            let refusal = access.admit(&headers).err();
            assert_eq!(refusal.as_ref().and_then(|refusal| refusal.retry_after), expect, "{refusal:?}");
            assert!(refusal.is_none_or(|refusal| refusal.kind == ErrorKind::TooMany));
        };
        check(0, None);
        check(0, None);
        check(0, Some(30));
        check(29, Some(1));
        check(1, None);
        check(600, None);
        check(0, None);
        check(0, Some(30));
    }

    #[test]
    fn tokens_of_a_day_end_with_the_day() {
        let clock = Arc::new(TestClock::default());
        let limited = ClientKey { tokens_per_day: Some(100), ..key("a") };
        let access = Access::new(ClientKeys::new(vec![limited]), false, clock.clone());
        let headers = headers("x-api-key", "ch-a");
        let is_admitted =
            || access.admit(&headers).map_err(|refusal| assert_eq!(refusal.kind, ErrorKind::Budget)).is_ok();
        access.spend("a", 0, 99);
        assert!(is_admitted());
        access.spend("a", 5, 1);
        access.spend("b", 5, 1_000);
        assert!(!is_admitted());
        clock.0.store(DAY_MS * 1000, Ordering::Relaxed);
        assert!(is_admitted(), "it is another day");
        access.spend("a", 7, 1_000);
        assert!(is_admitted(), "tokens of yesterday");
    }
}
