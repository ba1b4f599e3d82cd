//! Addresses of services, and what may be sent there.

use crate::ProviderError;
use crate::dialect::is_loopback;
use url::Url;

/// The address of Thinking Machines' service.
pub const TINKER_HOME: &str = "https://tinker.thinkingmachines.dev/services/tinker-prod";
/// The usual environment variable of its key.
pub const TINKER_KEY: &str = "TINKER_API_KEY";

fn parsed(address: &str) -> Result<Url, ProviderError> {
    let refuse = |why: &str| ProviderError::TinkerAddress(clawhost_core::escaped(address, 200), why.to_owned());
    let url = Url::parse(address.trim_end_matches('/')).map_err(|error| refuse(&error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ProviderError::PasswordInAddress);
    }
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(refuse("it is neither http nor https"));
    }
    Ok(url)
}

/// The address of the requests of a service.
///
/// # Errors
/// It is no address, or a key would be sent over it unencrypted, or Thinking Machines' own service is asked without one.
pub(super) fn base(address: &str, has_key: bool) -> Result<Url, ProviderError> {
    let mut url = parsed(address)?;
    let host = url.host_str().unwrap_or_default().to_owned();
    if has_key && url.scheme() == "http" && !is_loopback(&url) {
        return Err(ProviderError::KeyInTheClear(host, TINKER_KEY));
    }
    if !has_key && url.origin() == parsed(TINKER_HOME)?.origin() {
        return Err(ProviderError::NoKey { host, variable: TINKER_KEY });
    }
    let path = format!("{}/api/v1/", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

/// Scheme, host and port of an address, to which a key belongs, and whether it is Thinking Machines' own.
///
/// # Errors
/// It is no address.
pub fn tinker_origin(address: &str) -> Result<(String, bool), ProviderError> {
    let origin = parsed(address)?.origin();
    let is_own = origin == parsed(TINKER_HOME)?.origin();
    Ok((origin.ascii_serialization(), is_own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_below_the_address() {
        let check = |address: &str, expect: &str| assert_eq!(base(address, true).unwrap().as_str(), expect);
        check("http://127.0.0.1:8000", "http://127.0.0.1:8000/api/v1/");
        check("http://127.0.0.1:8000/", "http://127.0.0.1:8000/api/v1/");
        check(TINKER_HOME, "https://tinker.thinkingmachines.dev/services/tinker-prod/api/v1/");
    }

    #[test]
    fn wrong_addresses_and_open_keys_are_refused() {
        let check = |address: &str, has_key: bool, part: &str| {
            let why = base(address, has_key).unwrap_err().to_string();
            assert!(why.contains(part), "{why}");
        };
        check("127.0.0.1:8000", false, "`127.0.0.1:8000` is no address of a Tinker service");
        check("ftp://a", false, "neither http nor https");
        check("http://me:secret@127.0.0.1", false, "holds a user name or password");
        check("http://example.org", true, "refusing to send a key over plain http to example.org");
        check(TINKER_HOME, false, "answers only requests with a key; set TINKER_API_KEY");
    }

    #[test]
    fn a_key_belongs_to_the_service_of_thinking_machines() {
        assert_eq!(tinker_origin(TINKER_HOME).unwrap(), ("https://tinker.thinkingmachines.dev".to_owned(), true));
        assert_eq!(tinker_origin("http://127.0.0.1:8000/x").unwrap(), ("http://127.0.0.1:8000".to_owned(), false));
    }
}
