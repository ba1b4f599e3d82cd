//! Who asks: the key of a client and its limits, or the key of the admin.

use super::answer::Refusal;
use crate::keys::{ClientKey, ClientKeys, PLACEHOLDER_KEY, dollars};
use crate::record_policy::RecordPolicy;
use axum::http::{HeaderMap, header};
use clawhost_core::{Clock, Digest, Usage};
use clawhost_wire::ErrorKind;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use subtle::ConstantTimeEq as _;

/// Microseconds of a minute.
const MINUTE_US: u64 = 60 * 1_000_000;
/// The refusal of a request that only the admin may send, and that has no key.
const ADMIN_NEEDED: &str =
    "the admin's key is needed, in the header Authorization or x-api-key; it is in admin.key of the data folder";
/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A client that may ask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Client {
    /// Name of its key; empty without one.
    pub(crate) owner: String,
    pub(crate) no_train: bool,
    pub(crate) no_record: bool,
    /// The team whose memory its sessions see.
    pub(crate) team: Option<String>,
}

/// Whose events a client may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sees {
    All,
    /// Those of a key.
    Of(String),
}

/// What a key has used on a day (UTC).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyUse {
    pub(crate) key: ClientKey,
    pub(crate) usage: Usage,
}

/// What a key has used.
#[derive(Debug, Default)]
struct Used {
    /// Requests that it may still send, and when that was counted.
    requests: f64,
    counted_us: Option<u64>,
    day: u64,
    /// On that day.
    usage: Usage,
}

/// The keys, and what they have used.
pub(crate) struct Access {
    keys: RwLock<Arc<ClientKeys>>,
    /// Digest of the admin's key. `None`: nobody is the admin.
    admin: Option<Digest>,
    /// What is recorded of clients without a key.
    record: RwLock<RecordPolicy>,
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
        let (keys, record, used) = (RwLock::new(Arc::new(keys)), RwLock::default(), Mutex::default());
        Self { keys, admin: None, record, needs_key, used, clock }
    }

    /// The same with the digest of the admin's key.
    pub(crate) fn with_admin(self, admin: Option<Digest>) -> Self {
        Self { admin, ..self }
    }

    /// Lets the admin pass. No client's key does.
    pub(crate) fn admin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let refuse = |why: &str| Err(Refusal::new(ErrorKind::Unauthenticated, why));
        let Some(key) = carried(headers) else {
            return refuse(ADMIN_NEEDED);
        };
        if self.is_admins_key(key) { Ok(()) } else { refuse("this is not the admin's key") }
    }

    /// Whether a text is the admin's key.
    pub(crate) fn is_admins_key(&self, key: &str) -> bool {
        let digest = Digest::of(key.as_bytes());
        self.admin.is_some_and(|admin| admin.as_bytes().ct_eq(digest.as_bytes()).into())
    }

    /// Lets those pass who may read the counts of the gateway: the admin, and clients of this machine if no other machine reaches it.
    pub(crate) fn reads_counts(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match self.admin(headers) {
            Ok(()) => Ok(()),
            Err(refusal) if self.needs_key => Err(refusal),
            Err(_) => self.client(headers).map(drop),
        }
    }

    /// Whose events a client may see: the admin all of them, a client with a key its own.
    pub(crate) fn sees(&self, headers: &HeaderMap) -> Result<Sees, Refusal> {
        let Err(refusal) = self.admin(headers) else { return Ok(Sees::All) };
        match self.client(headers)?.owner {
            owner if owner.is_empty() => Err(refusal),
            owner => Ok(Sees::Of(owner)),
        }
    }

    /// Replaces the keys. What they have used stays.
    pub(crate) fn replace(&self, keys: ClientKeys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Replaces what is recorded of clients without a key.
    pub(crate) fn set_record(&self, record: RecordPolicy) {
        *self.record.write().unwrap_or_else(PoisonError::into_inner) = record;
    }

    /// A client without a key.
    fn nobody(&self) -> Client {
        let record = *self.record.read().unwrap_or_else(PoisonError::into_inner);
        let (no_train, no_record) = (record == RecordPolicy::NoTrain, record == RecordPolicy::Off);
        Client { no_train, no_record, ..Client::default() }
    }

    /// Finds the client of a request. Where nobody has a key, clients of this machine send whatever their SDK needs.
    pub(crate) fn client(&self, headers: &HeaderMap) -> Result<Client, Refusal> {
        Ok(self.key(headers)?.map_or_else(|| self.nobody(), |key| client(&key)))
    }

    /// The same for a request that counts against the limits of its key.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<Client, Refusal> {
        let Some(key) = self.key(headers)? else { return Ok(self.nobody()) };
        self.count(&key)?;
        Ok(client(&key))
    }

    fn key(&self, headers: &HeaderMap) -> Result<Option<ClientKey>, Refusal> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner).clone();
        let refuse = |why: &str| Err(Refusal::new(ErrorKind::Unauthenticated, why));
        if keys.is_empty() && !self.needs_key {
            return Ok(None);
        }
        match carried(headers).filter(|key| self.needs_key || *key != PLACEHOLDER_KEY) {
            None if self.needs_key => refuse(
                "a key of this gateway is needed, in the header Authorization or x-api-key (`clawhost keys add NAME` makes one)",
            ),
            None => Ok(None),
            Some(key) => match keys.find(key) {
                Some(key) => Ok(Some(key.clone())),
                None if self.needs_key => refuse(
                    "this gateway does not know the key; send a key of this gateway (`clawhost keys add NAME` makes one)",
                ),
                None => refuse(
                    "this gateway does not know the key; send a key of this gateway (`clawhost keys add NAME` makes one), or `clawhost` or none from this machine",
                ),
            },
        }
    }

    fn count(&self, key: &ClientKey) -> Result<(), Refusal> {
        let (now_us, now_ms) = (self.clock.monotonic_us(), self.clock.now_ms());
        let day = now_ms / DAY_MS;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let used = used.entry(key.name.clone()).or_default();
        if used.day == day {
            within_budget(key, used.usage, now_ms)?;
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

    /// What every key has used today.
    pub(crate) fn used_today(&self) -> Vec<KeyUse> {
        let day = self.clock.now_ms() / DAY_MS;
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner).clone();
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let usage = |key: &ClientKey| used.get(&key.name).filter(|used| used.day == day).map(|used| used.usage);
        keys.iter().map(|key| KeyUse { usage: usage(key).unwrap_or_default(), key: key.clone() }).collect()
    }

    /// Counts what a key's request used at a Unix time in milliseconds.
    pub(crate) fn spend(&self, owner: &str, at: u64, usage: Usage) {
        if owner.is_empty() {
            return;
        }
        let day = at / DAY_MS;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let used = used.entry(owner.to_owned()).or_default();
        if used.day < day {
            (used.day, used.usage) = (day, Usage::default());
        }
        if used.day == day {
            used.usage += usage;
        }
    }
}

/// Refuses a key that has used what it may on a day, until the day ends. `now_ms`: Unix time in milliseconds.
fn within_budget(key: &ClientKey, used: Usage, now_ms: u64) -> Result<(), Refusal> {
    let rest_of_day = (DAY_MS - now_ms % DAY_MS).div_ceil(1000);
    let refuse = |why: String| Err(Refusal { retry_after: Some(rest_of_day), ..Refusal::new(ErrorKind::Budget, why) });
    if let Some(most) = key.tokens_per_day.filter(|most| used.tokens() >= *most) {
        return refuse(format!("the key has used its {most} tokens of today"));
    }
    if let Some(most) = key.usd_micros_per_day.filter(|most| used.cost_micros >= *most) {
        return refuse(format!("the key has used its {} US dollars of today", dollars(most)));
    }
    Ok(())
}

fn client(key: &ClientKey) -> Client {
    let ClientKey { name, no_train, no_record, team, .. } = key;
    Client { owner: name.clone(), no_train: *no_train, no_record: *no_record, team: team.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};
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
        ClientKey::new(name, Digest::of(format!("ch-{name}").as_bytes()), 0)
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
        check(&with, headers("authorization", "Bearer clawhost"), Some(""));
        check(&with, headers("x-api-key", "clawhost"), Some(""));
        let nobody = access(vec![], false);
        check(&nobody, headers("x-api-key", "none"), Some(""));
        let strict = access(vec![key("a")], true);
        check(&strict, HeaderMap::new(), None);
        check(&strict, headers("x-api-key", "clawhost"), None);
        check(&strict, headers("x-api-key", "ch-a"), Some("a"));
        with.replace(ClientKeys::new(vec![key("c")]));
        check(&with, headers("x-api-key", "ch-a"), None);
        check(&with, headers("x-api-key", "ch-c"), Some("c"));
    }

    #[test]
    fn only_the_admins_key_opens_what_is_the_admins() {
        let check = |access: &Access, headers: HeaderMap, expect: Result<(), &str>| {
            let found = access.admin(&headers).map_err(|refusal| {
                assert_eq!(refusal.kind, ErrorKind::Unauthenticated);
                refusal.message
            });
            assert_eq!(found, expect.map_err(str::to_owned), "{headers:?}");
        };
        let access = || Access::new(ClientKeys::new(vec![key("a")]), false, Arc::new(TestClock::default()));
        let admin = access().with_admin(Some(Digest::of(b"ch-admin-1")));
        let (needed, wrong) = (ADMIN_NEEDED, "this is not the admin's key");
        assert!(needed.contains("admin.key"), "{needed}");
        check(&admin, headers("authorization", "Bearer ch-admin-1"), Ok(()));
        check(&admin, headers("x-api-key", "ch-admin-1"), Ok(()));
        check(&admin, headers("x-api-key", "ch-admin-2"), Err(wrong));
        check(&admin, headers("x-api-key", "ch-a"), Err(wrong));
        check(&admin, headers("authorization", "Basic ch-admin-1"), Err(needed));
        check(&admin, HeaderMap::new(), Err(needed));
        check(&access(), headers("x-api-key", "ch-admin-1"), Err(wrong));
        assert!(admin.client(&headers("x-api-key", "ch-admin-1")).is_err(), "it is no client's key");
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

    fn tokens(count: u64) -> Usage {
        Usage { prompt_tokens: count, ..Usage::default() }
    }

    #[test]
    fn money_of_a_day_is_counted_to_the_last_millionth() {
        let limited = ClientKey { usd_micros_per_day: Some(2_500_000), ..key("a") };
        let clock = Arc::new(TestClock::default());
        let access = Access::new(ClientKeys::new(vec![limited]), false, clock.clone());
        let headers = headers("x-api-key", "ch-a");
        access.spend("a", 0, Usage { cost_micros: 2_499_999, ..tokens(1_000_000) });
        assert!(access.admit(&headers).is_ok());
        access.spend("a", 0, Usage { cost_micros: 1, ..tokens(1) });
        let refusal = access.admit(&headers).unwrap_err();
        let why = "the key has used its 2.5 US dollars of today";
        assert_eq!((refusal.kind, refusal.message.as_str()), (ErrorKind::Budget, why));
        assert_eq!(refusal.retry_after, Some(24 * 60 * 60), "until the end of the day");
        clock.0.store(DAY_MS * 1000 - 1, Ordering::Relaxed);
        assert_eq!(access.admit(&headers).unwrap_err().retry_after, Some(1));
    }

    #[test]
    fn tokens_of_a_day_end_with_the_day() {
        let clock = Arc::new(TestClock::default());
        let limited = ClientKey { tokens_per_day: Some(100), ..key("a") };
        let access = Access::new(ClientKeys::new(vec![limited]), false, clock.clone());
        let headers = headers("x-api-key", "ch-a");
        let is_admitted =
            || access.admit(&headers).map_err(|refusal| assert_eq!(refusal.kind, ErrorKind::Budget)).is_ok();
        access.spend("a", 0, tokens(99));
        assert!(is_admitted());
        access.spend("a", 5, tokens(1));
        access.spend("b", 5, tokens(1_000));
        assert!(!is_admitted());
        clock.0.store(DAY_MS * 1000, Ordering::Relaxed);
        assert!(is_admitted(), "it is another day");
        access.spend("a", 7, tokens(1_000));
        assert!(is_admitted(), "tokens of yesterday");
    }
}
