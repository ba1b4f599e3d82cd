//! A registry that speaks the OCI distribution protocol 1.1, and registries of version 1.0 that list no referrers.

use crate::auth::{self, Challenge};
use crate::document::media;
use crate::port::{DOCUMENT_BYTES, length, referrers_tag, unchanged};
use crate::transport::{Transport, host_of};
use crate::{Descriptor, Document, Index, Location, Reference, Registry, RegistryError};
use async_trait::async_trait;
use clawhost_core::Digest;
use clawhost_package::ModuleName;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue, LINK, LOCATION, WWW_AUTHENTICATE};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use url::Url;

/// Default of [`OciOptions::patience`]: registries copy content to slow storage while a client waits.
const PATIENCE: Duration = Duration::from_secs(30);
/// Entries of a list that are requested at once.
const PAGE: usize = 1000;
/// Most pages of a list that are read.
const PAGES: usize = 100;
/// The header in which a registry says that it lists referrers itself.
const SUBJECT: &str = "oci-subject";

/// How a registry is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciOptions {
    /// Longest silence of the registry.
    pub patience: Duration,
}

impl Default for OciOptions {
    fn default() -> Self {
        Self { patience: PATIENCE }
    }
}

/// A registry behind HTTP.
#[derive(Debug)]
pub struct OciRegistry {
    location: Location,
    path: String,
    transport: Transport,
    /// Headers of authorisation by scope.
    authorized: Mutex<HashMap<String, HeaderValue>>,
}

#[derive(Deserialize)]
struct Tags {
    #[serde(default)]
    tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Catalog {
    #[serde(default)]
    repositories: Option<Vec<String>>,
}

impl OciRegistry {
    /// A registry. `path`: what stands in front of `team/name`.
    ///
    /// # Errors
    /// The HTTP client cannot be made.
    pub fn new(host: &str, path: &str, options: OciOptions) -> Result<Self, RegistryError> {
        Ok(Self {
            location: Location::Oci { host: host.to_owned(), path: path.to_owned() },
            path: path.to_owned(),
            transport: Transport::new(host, options.patience)?,
            authorized: Mutex::default(),
        })
    }

    fn repository(&self, module: &ModuleName) -> String {
        if self.path.is_empty() { module.to_string() } else { format!("{}/{module}", self.path) }
    }

    fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.transport.client().request(method, url)
    }

    fn known(&self, scope: &str) -> Option<HeaderValue> {
        self.authorized.lock().unwrap_or_else(PoisonError::into_inner).get(scope).cloned()
    }

    /// Sends a request with the authorisation of a scope, which is asked for when the registry wants one.
    async fn send(
        &self,
        what: &str,
        scope: &str,
        request: impl Fn() -> RequestBuilder + Send + Sync,
    ) -> Result<Response, RegistryError> {
        let known = self.known(scope);
        let response = self.transport.send(what, request(), known.as_ref()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return self.allowed(what, response, known.is_some());
        }
        let challenge = response.headers().get(WWW_AUTHENTICATE).and_then(Challenge::read);
        let answer = match &challenge {
            Some(challenge) => auth::answer(&self.transport, challenge, scope).await?,
            None => None,
        };
        let Some(answer) = answer else { return self.allowed(what, response, false) };
        let response = self.transport.send(what, request(), Some(&answer)).await?;
        let response = self.allowed(what, response, true)?;
        self.authorized.lock().unwrap_or_else(PoisonError::into_inner).insert(scope.to_owned(), answer);
        Ok(response)
    }

    fn allowed(&self, what: &str, response: Response, with_credentials: bool) -> Result<Response, RegistryError> {
        match response.status().as_u16() {
            status @ (401 | 403) => {
                let (host, what) = (self.transport.host().to_owned(), what.to_owned());
                Err(RegistryError::Denied { host, what, status, with_credentials })
            }
            _ => Ok(response),
        }
    }

    fn reads(&self, module: &ModuleName) -> String {
        format!("repository:{}:pull", self.repository(module))
    }

    fn writes(&self, module: &ModuleName) -> String {
        format!("repository:{}:pull,push", self.repository(module))
    }

    /// A list that comes in pages. `None`: there is none.
    async fn list(
        &self,
        what: &str,
        scope: &str,
        path: &str,
        read: impl Fn(&[u8]) -> Option<Vec<String>>,
    ) -> Result<Option<Vec<String>>, RegistryError> {
        let mut url = self.transport.url(&format!("{path}?n={PAGE}"))?;
        let mut all = Vec::new();
        for _ in 0..PAGES {
            let response = self.send(what, scope, || self.request(Method::GET, url.clone())).await?;
            match response.status() {
                StatusCode::NOT_FOUND => return Ok(None),
                status if !status.is_success() => return Err(self.transport.status(what, response).await),
                _ => {}
            }
            let next = response.headers().get(LINK).and_then(|link| link.to_str().ok()).and_then(next_page);
            let bytes = self.transport.body(what, response, DOCUMENT_BYTES).await?;
            let page = read(&bytes).ok_or_else(|| RegistryError::malformed(what, "it is no list"))?;
            all.extend(page);
            let Some(next) = next else { return Ok(Some(all)) };
            let to = url.join(&next).map_err(|error| RegistryError::malformed(what, error))?;
            if host_of(&to) != self.transport.host() || to == url {
                return Err(RegistryError::malformed(what, "its next page is elsewhere"));
            }
            url = to;
        }
        Err(RegistryError::Size { what: what.to_owned(), why: format!("it has more than {PAGES} pages") })
    }

    async fn has_blob(&self, module: &ModuleName, digest: &Digest) -> Result<bool, RegistryError> {
        let url = self.transport.url(&format!("v2/{}/blobs/{digest}", self.repository(module)))?;
        let scope = self.writes(module);
        let response = self.send("content", &scope, || self.request(Method::HEAD, url.clone())).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(false),
            status if status.is_success() => Ok(true),
            _ => Err(self.transport.status("content", response).await),
        }
    }

    /// Stores a manifest. Returns whether the registry lists it as a referrer of its subject.
    async fn put_manifest(
        &self,
        module: &ModuleName,
        media_type: &str,
        name: &str,
        bytes: &[u8],
    ) -> Result<bool, RegistryError> {
        let what = format!("the manifest {name} of {module}");
        let url = self.transport.url(&format!("v2/{}/manifests/{name}", self.repository(module)))?;
        let request = || self.request(Method::PUT, url.clone()).header(CONTENT_TYPE, media_type).body(bytes.to_vec());
        let response = self.send(&what, &self.writes(module), request).await?;
        match response.status().is_success() {
            true => Ok(response.headers().contains_key(SUBJECT)),
            false => Err(self.transport.status(&what, response).await),
        }
    }
}

/// The address of the next page in a header `Link`.
fn next_page(link: &str) -> Option<String> {
    let (target, parameters) = link.split_once('>')?;
    let is_next = parameters.replace([' ', '"'], "").split(';').any(|parameter| parameter == "rel=next");
    is_next.then(|| target.trim().trim_start_matches('<').to_owned())
}

#[async_trait]
impl Registry for OciRegistry {
    fn location(&self) -> &Location {
        &self.location
    }

    async fn tags(&self, module: &ModuleName) -> Result<Option<Vec<String>>, RegistryError> {
        let read = |bytes: &[u8]| Some(serde_json::from_slice::<Tags>(bytes).ok()?.tags.unwrap_or_default());
        let path = format!("v2/{}/tags/list", self.repository(module));
        self.list(&format!("the versions of {module}"), &self.reads(module), &path, read).await
    }

    async fn manifest(&self, module: &ModuleName, reference: &Reference) -> Result<Option<Vec<u8>>, RegistryError> {
        let what = format!("the manifest {reference} of {module}");
        let url = self.transport.url(&format!("v2/{}/manifests/{reference}", self.repository(module)))?;
        let accept = format!("{}, {}", media::MANIFEST, media::INDEX);
        let request = || self.request(Method::GET, url.clone()).header(ACCEPT, &accept);
        let response = self.send(&what, &self.reads(module), request).await?;
        match response.status() {
            StatusCode::NOT_FOUND => return Ok(None),
            status if !status.is_success() => return Err(self.transport.status(&what, response).await),
            _ => {}
        }
        let bytes = self.transport.body(&what, response, DOCUMENT_BYTES).await?;
        if let Reference::Digest(digest) = reference {
            unchanged(&what, digest, &bytes)?;
        }
        Ok(Some(bytes))
    }

    async fn blob(&self, module: &ModuleName, descriptor: &Descriptor) -> Result<Vec<u8>, RegistryError> {
        let what = format!("{} of {module}", descriptor.digest);
        length(&what, descriptor.size)?;
        let url = self.transport.url(&format!("v2/{}/blobs/{}", self.repository(module), descriptor.digest))?;
        let response = self.send(&what, &self.reads(module), || self.request(Method::GET, url.clone())).await?;
        if !response.status().is_success() {
            return Err(self.transport.status(&what, response).await);
        }
        let bytes = self.transport.body(&what, response, descriptor.size).await?;
        let found = bytes.len() as u64;
        if found != descriptor.size {
            let why = format!("{} sends {found} bytes, announced were {}", self.transport.host(), descriptor.size);
            return Err(RegistryError::Size { what, why });
        }
        unchanged(&what, &descriptor.digest, &bytes)?;
        Ok(bytes)
    }

    async fn push_blob(&self, module: &ModuleName, content: &[u8]) -> Result<(), RegistryError> {
        length("content", content.len() as u64)?;
        let digest = Digest::of(content);
        if self.has_blob(module, &digest).await? {
            return Ok(());
        }
        let scope = self.writes(module);
        let url = self.transport.url(&format!("v2/{}/blobs/uploads/", self.repository(module)))?;
        let response = self.send("an upload", &scope, || self.request(Method::POST, url.clone())).await?;
        if response.status() != StatusCode::ACCEPTED {
            return Err(self.transport.status("an upload", response).await);
        }
        let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
        let mut to = url.join(to).map_err(|error| RegistryError::malformed("the address of an upload", error))?;
        if host_of(&to) != self.transport.host() || to.scheme() != url.scheme() {
            let (host, what) = (self.transport.host().to_owned(), "an upload".to_owned());
            let why = "content is sent to the registry itself";
            return Err(RegistryError::Redirected { host, what, to: to.to_string(), why });
        }
        to.query_pairs_mut().append_pair("digest", &digest.to_string());
        let request = || {
            let request = self.request(Method::PUT, to.clone()).header(CONTENT_TYPE, "application/octet-stream");
            request.body(content.to_vec())
        };
        let response = self.send("an upload", &scope, request).await?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(self.transport.status("an upload", response).await),
        }
    }

    async fn push_manifest(
        &self,
        module: &ModuleName,
        media_type: &str,
        tag: Option<&str>,
        bytes: &[u8],
    ) -> Result<(), RegistryError> {
        let digest = Digest::of(bytes).to_string();
        self.put_manifest(module, media_type, tag.unwrap_or(&digest), bytes).await.map(|_| ())
    }

    async fn referrers(&self, module: &ModuleName, subject: &Digest) -> Result<Vec<Descriptor>, RegistryError> {
        let what = format!("what is attached to {module}");
        let url = self.transport.url(&format!("v2/{}/referrers/{subject}", self.repository(module)))?;
        let request = || self.request(Method::GET, url.clone()).header(ACCEPT, media::INDEX);
        let response = self.send(&what, &self.reads(module), request).await?;
        let bytes = match response.status() {
            // Registries of version 1.0 know no such address: some answer 404, some 405 or 400.
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::BAD_REQUEST => {
                self.manifest(module, &Reference::Tag(referrers_tag(subject))).await?
            }
            status if status.is_success() => Some(self.transport.body(&what, response, DOCUMENT_BYTES).await?),
            _ => return Err(self.transport.status(&what, response).await),
        };
        Ok(bytes.map(|bytes| Index::read(&what, &bytes)).transpose()?.unwrap_or_default().manifests)
    }

    async fn attach(&self, module: &ModuleName, subject: &Digest, bytes: &[u8]) -> Result<(), RegistryError> {
        let document = Document::read("an attachment", bytes)?;
        let digest = Digest::of(bytes).to_string();
        if self.put_manifest(module, media::MANIFEST, &digest, bytes).await? {
            return Ok(());
        }
        let tag = referrers_tag(subject);
        let what = format!("what is attached to {module}");
        let index = self.manifest(module, &Reference::Tag(tag.clone())).await?;
        let mut index = index.map(|bytes| Index::read(&what, &bytes)).transpose()?.unwrap_or_default();
        let mut descriptor = Descriptor::of(media::MANIFEST, bytes);
        descriptor.artifact_type = document.artifact_type;
        descriptor.annotations = document.annotations;
        index.add(descriptor);
        self.put_manifest(module, media::INDEX, &tag, &index.bytes()).await.map(|_| ())
    }

    async fn modules(&self) -> Result<Vec<ModuleName>, RegistryError> {
        let read = |bytes: &[u8]| Some(serde_json::from_slice::<Catalog>(bytes).ok()?.repositories.unwrap_or_default());
        let all = self.list("the list of modules", "registry:catalog:*", "v2/_catalog", read).await?;
        let own = |repository: &String| match self.path.as_str() {
            "" => repository.parse().ok(),
            path => repository.strip_prefix(path)?.strip_prefix('/')?.parse().ok(),
        };
        let mut modules: Vec<ModuleName> = all.unwrap_or_default().iter().filter_map(own).collect();
        modules.sort();
        Ok(modules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_of_a_list_is_named_in_a_header() {
        let check = |link: &str, expect: Option<&str>| assert_eq!(next_page(link).as_deref(), expect, "{link}");
        check("</v2/a/tags/list?n=2&last=b>; rel=\"next\"", Some("/v2/a/tags/list?n=2&last=b"));
        check("<x>; rel=next", Some("x"));
        check("<x>; rel=\"prev\"", None);
        check("x", None);
    }
}
