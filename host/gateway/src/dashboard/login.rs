//! Who has shown the admin's key: a browser keeps a random token in a cookie, and this process its digest. A restart forgets all of them.

use crate::http::Refusal;
use axum::http::{HeaderMap, HeaderValue, header};
use clawhost_core::Digest;
use clawhost_wire::ErrorKind;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use subtle::ConstantTimeEq as _;

/// The cookie.
const COOKIE: &str = "clawhost_admin";
/// Seconds after which the key is asked for again: a working day.
const LASTS_SECONDS: u64 = 12 * 60 * 60;
/// Most logins at the same time; beyond, the oldest ends.
const MOST: usize = 64;
/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;
/// The field of a form that proves that the page made it.
const PROOF: &str = "proof";

/// Logins by the digests of their tokens, with the Unix time in milliseconds at which they end.
#[derive(Debug, Default)]
pub(crate) struct Logins(Mutex<HashMap<Digest, u64>>);

/// Somebody who has shown the admin's key.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    /// What forms of the page carry: another site cannot know it.
    pub(crate) proof: String,
    /// The id of the first event that may have changed what the page is about to show.
    pub(crate) from: String,
}

impl Visitor {
    fn of(token: &str) -> Self {
        Self { proof: Digest::of(format!("form {token}").as_bytes()).hex(), from: String::new() }
    }

    /// Checks that a form is one of the page.
    pub(crate) fn check(&self, fields: &HashMap<String, String>) -> Result<(), Refusal> {
        let given = fields.get(PROOF).map(String::as_bytes).unwrap_or_default();
        match given.ct_eq(self.proof.as_bytes()).into() {
            true => Ok(()),
            false => Err(Refusal::new(ErrorKind::Forbidden, "The form is not one of this page: load it again.")),
        }
    }
}

/// The token of a cookie.
fn token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, token)| token)
}

impl Logins {
    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new login as the value of a cookie.
    ///
    /// # Errors
    /// There is no randomness.
    pub(crate) fn add(&self, now_ms: u64, is_encrypted: bool) -> Result<HeaderValue, Refusal> {
        let mut bytes = [0; TOKEN_BYTES];
        let failed = |why: String| Refusal::new(ErrorKind::Internal, why);
        getrandom::fill(&mut bytes).map_err(|error| failed(format!("no randomness for a login: {error}")))?;
        let token = bytes.map(|byte| format!("{byte:02x}")).concat();
        let mut logins = self.lock();
        logins.retain(|_, ends| *ends > now_ms);
        if logins.len() >= MOST
            && let Some(oldest) = logins.iter().min_by_key(|(_, ends)| **ends).map(|(digest, _)| *digest)
        {
            logins.remove(&oldest);
        }
        logins.insert(Digest::of(token.as_bytes()), now_ms.saturating_add(LASTS_SECONDS * 1000));
        let secure = if is_encrypted { "; Secure" } else { "" };
        let cookie =
            format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/dashboard; Max-Age={LASTS_SECONDS}{secure}");
        HeaderValue::from_str(&cookie).map_err(|error| failed(error.to_string()))
    }

    /// Who sends a request, if the key was shown.
    pub(crate) fn visitor(&self, headers: &HeaderMap, now_ms: u64) -> Option<Visitor> {
        let token = token(headers)?;
        let ends = self.lock().get(&Digest::of(token.as_bytes())).copied();
        ends.filter(|ends| *ends > now_ms).map(|_| Visitor::of(token))
    }

    /// Ends a login.
    pub(crate) fn remove(&self, headers: &HeaderMap) {
        if let Some(token) = token(headers) {
            self.lock().remove(&Digest::of(token.as_bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(cookie: &str) -> HeaderMap {
        let token = cookie.split(';').next().unwrap();
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(&format!("a=b; {token}")).unwrap())])
    }

    #[test]
    fn a_login_ends_with_its_time_or_by_request() {
        let logins = Logins::default();
        let cookie = logins.add(0, true).unwrap().to_str().unwrap().to_owned();
        assert!(
            cookie.contains("HttpOnly; SameSite=Strict; Path=/dashboard") && cookie.ends_with("Secure"),
            "{cookie}"
        );
        let headers = with(&cookie);
        assert!(logins.visitor(&headers, LASTS_SECONDS * 1000 - 1).is_some());
        assert!(logins.visitor(&headers, LASTS_SECONDS * 1000).is_none());
        assert!(logins.visitor(&with("clawhost_admin=00"), 0).is_none());
        assert!(logins.visitor(&HeaderMap::new(), 0).is_none());
        logins.remove(&headers);
        assert!(logins.visitor(&headers, 0).is_none());
    }

    #[test]
    fn only_forms_of_the_page_count() {
        let logins = Logins::default();
        let cookie = logins.add(0, false).unwrap().to_str().unwrap().to_owned();
        let visitor = logins.visitor(&with(&cookie), 0).unwrap();
        let form = |proof: &str| HashMap::from([(PROOF.to_owned(), proof.to_owned())]);
        assert!(visitor.check(&form(&visitor.proof)).is_ok());
        assert!(visitor.check(&form("")).is_err() && visitor.check(&HashMap::new()).is_err());
        assert!(!cookie.contains(&visitor.proof), "the proof does not tell the token, nor the other way");
    }

    #[test]
    fn the_oldest_login_makes_room() {
        let logins = Logins::default();
        let first = with(logins.add(0, false).unwrap().to_str().unwrap());
        for at in 1..=MOST as u64 {
            logins.add(at, false).unwrap();
        }
        assert!(logins.visitor(&first, 1).is_none() && logins.lock().len() == MOST);
    }
}
