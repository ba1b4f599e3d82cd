//! Credentials of registries: those that `docker login` stored, and tokens that registries hand out for them.
//!
//! A registry answers 401 with a challenge. For `Basic` it gets the credentials themselves. For `Bearer` a token service does, which may be on
//! another host: it gets credentials only if it belongs to the registry, see [`may_see`].

use crate::RegistryError;
use crate::transport::{Transport, host_of};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use docker_credential::{CredentialRetrievalError, DockerCredential};
use reqwest::header::HeaderValue;
use serde::Deserialize;
use std::path::PathBuf;
use url::Url;

/// Longest challenge in bytes that is parsed.
const CHALLENGE_BYTES: usize = 8 << 10;
/// Longest answer of a token service in bytes.
const TOKEN_BYTES: u64 = 256 << 10;
/// What this program calls itself at token services.
const CLIENT: &str = "clawhost";
/// Registries whose token service is on another host, which is documented: Docker Hub.
const REALMS: [(&str, &str); 1] = [("registry-1.docker.io", "auth.docker.io")];

/// What a registry demands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User and password.
    Basic,
    /// A token of this service.
    Bearer { realm: Url, service: Option<String> },
}

impl Challenge {
    /// Reads the header `WWW-Authenticate`. `None`: it has nothing that is supported.
    pub(crate) fn read(header: &HeaderValue) -> Option<Self> {
        let text = header.to_str().ok().filter(|text| text.len() <= CHALLENGE_BYTES)?;
        let challenges = http_auth::parser::ChallengeParser::new(text);
        let mut basic = None;
        for challenge in challenges.map_while(Result::ok) {
            if challenge.scheme.eq_ignore_ascii_case("basic") {
                basic = Some(Self::Basic);
            }
            if challenge.scheme.eq_ignore_ascii_case("bearer") {
                let said = |name: &str| {
                    let of = challenge.params.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                    of.map(|(_, value)| value.to_unescaped())
                };
                let realm = said("realm").and_then(|realm| realm.parse().ok());
                if let Some(realm) = realm {
                    return Some(Self::Bearer { realm, service: said("service") });
                }
            }
        }
        basic
    }
}

/// Whether a token service may see the credentials of a registry: it is on the same host, or is known to belong to it.
fn may_see(registry: &str, realm: &str) -> bool {
    registry == realm || REALMS.contains(&(registry, realm))
}

/// The name under which `docker login` stores the credentials of a host.
fn stored_as(host: &str) -> &str {
    match host {
        "registry-1.docker.io" => "https://index.docker.io/v1/",
        host => host,
    }
}

/// Whether docker has a configuration: without one nobody has logged in anywhere.
fn is_configured() -> bool {
    let set = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = set.or_else(|| std::env::home_dir().map(|home| home.join(".docker")));
    folder.is_some_and(|folder| folder.join("config.json").exists())
}

/// The stored credentials of a host. `None`: there are none.
pub(crate) async fn stored(host: &str) -> Result<Option<DockerCredential>, RegistryError> {
    if !is_configured() {
        return Ok(None);
    }
    let name = stored_as(host).to_owned();
    // A helper is a program that may take its time.
    let found = tokio::task::spawn_blocking(move || docker_credential::get_credential(&name)).await;
    let wrong = |why: String| RegistryError::Credentials { host: host.to_owned(), why };
    match found.map_err(|error| wrong(error.to_string()))? {
        Ok(DockerCredential::UsernamePassword(user, key)) if user.is_empty() && key.is_empty() => Ok(None),
        Ok(found) => Ok(Some(found)),
        Err(CredentialRetrievalError::NoCredentialConfigured | CredentialRetrievalError::ConfigNotFound) => Ok(None),
        // What a helper prints may be a secret.
        Err(CredentialRetrievalError::HelperFailure { helper, .. }) => {
            Err(wrong(format!("the program docker-credential-{helper} failed")))
        }
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// The header of user and password.
pub(crate) fn basic(user: &str, key: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(format!("{user}:{key}")))).ok()?;
    header.set_sensitive(true);
    Some(header)
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
}

/// Gets the header that answers a challenge. `None`: there are no credentials, and none is handed out without.
pub(crate) async fn answer(
    transport: &Transport,
    challenge: &Challenge,
    scope: &str,
) -> Result<Option<HeaderValue>, RegistryError> {
    let host = transport.host();
    let credentials = stored(host).await?;
    let (realm, service) = match (challenge, &credentials) {
        (Challenge::Basic, Some(DockerCredential::UsernamePassword(user, key))) => return Ok(basic(user, key)),
        (Challenge::Basic, _) => return Ok(None),
        (Challenge::Bearer { realm, service }, _) => (realm, service),
    };
    transport.check_scheme("a token", realm)?;
    let realm_host = host_of(realm);
    if credentials.is_some() && !may_see(host, &realm_host) {
        return Err(RegistryError::ForeignRealm { host: host.to_owned(), realm: realm_host });
    }
    let mut fields: Vec<(&str, &str)> = vec![("scope", scope)];
    fields.extend(service.as_deref().map(|service| ("service", service)));
    let encoded = |fields: &[(&str, &str)]| {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields.iter().copied()).finish()
    };
    let request = match &credentials {
        Some(DockerCredential::IdentityToken(token)) => {
            fields.extend([("grant_type", "refresh_token"), ("client_id", CLIENT), ("refresh_token", token)]);
            let request = transport.client().post(realm.clone()).body(encoded(&fields));
            request.header(reqwest::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        }
        other => {
            let mut url = realm.clone();
            url.query_pairs_mut().extend_pairs(fields.iter().copied());
            let request = transport.client().get(url);
            match other {
                Some(DockerCredential::UsernamePassword(user, key)) => match basic(user, key) {
                    Some(header) => request.header(reqwest::header::AUTHORIZATION, header),
                    None => request,
                },
                _ => request,
            }
        }
    };
    let response = transport.direct(request, &realm_host).await?;
    let status = response.status().as_u16();
    if matches!(status, 401 | 403) {
        let (what, with_credentials) = ("a token".to_owned(), credentials.is_some());
        return Err(RegistryError::Denied { host: realm_host, what, status, with_credentials });
    }
    if !response.status().is_success() {
        return Err(transport.status("a token", response).await);
    }
    let bytes = transport.body("a token", response, TOKEN_BYTES).await?;
    let token: Token = serde_json::from_slice(&bytes)
        .map_err(|_| RegistryError::malformed("a token", "the answer of the token service is not understood"))?;
    let Some(token) = token.token.or(token.access_token) else { return Ok(None) };
    let Ok(mut header) = HeaderValue::from_str(&format!("Bearer {token}")) else { return Ok(None) };
    header.set_sensitive(true);
    Ok(Some(header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_read_from_the_header() {
        let check = |header: &str, expect: Option<Challenge>| {
            assert_eq!(Challenge::read(&HeaderValue::from_str(header).unwrap()), expect, "{header}");
        };
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.parse().unwrap(), service: service.map(str::to_owned) })
        };
        check("Basic realm=\"x\"", Some(Challenge::Basic));
        check(
            "Bearer realm=\"https://a/t\",service=\"r\",scope=\"repository:x:pull\"",
            bearer("https://a/t", Some("r")),
        );
        check("Basic realm=\"x\", Bearer realm=\"https://a/t\"", bearer("https://a/t", None));
        check("bearer realm=\"no address\"", None);
        check("Negotiate", None);
        check(&format!("Basic realm=\"{}\"", "x".repeat(CHALLENGE_BYTES)), None);
    }

    #[test]
    fn credentials_are_for_their_own_registry() {
        let check = |registry: &str, realm: &str, expect: bool| assert_eq!(may_see(registry, realm), expect, "{realm}");
        check("ghcr.io", "ghcr.io", true);
        check("registry-1.docker.io", "auth.docker.io", true);
        check("ghcr.io", "auth.docker.io", false);
        check("127.0.0.1:5000", "127.0.0.1:5001", false);
        check("ghcr.io", "ghcr.io.example.com", false);
    }
}
