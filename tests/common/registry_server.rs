//! A registry server in this process: the part of the OCI distribution protocol 1.0 that registries must have, and faults that they must not have.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
}

/// What goes wrong with requests whose path contains a text.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Another status, with a header and a body.
    Answer(u16, Vec<(String, String)>, Vec<u8>),
    /// The answer announces this length.
    Announce(u64),
    /// A byte of the answer is another one.
    Flip,
    /// Nothing is sent, and the connection stays open.
    Silence,
}

#[derive(Default)]
struct State {
    blobs: BTreeMap<String, Vec<u8>>,
    manifests: BTreeMap<String, (String, Vec<u8>)>,
    uploads: u64,
    seen: Vec<Seen>,
    faults: Vec<(String, Fault)>,
    /// User and password.
    basic: Option<(String, String)>,
    /// The address of a token service, and the token that is wanted.
    bearer: Option<(String, String)>,
}

/// A server that ends with this value.
pub(crate) struct RegistryServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    ends: Arc<AtomicBool>,
}

impl Drop for RegistryServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl RegistryServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (state, ends) = (Arc::new(Mutex::new(State::default())), Arc::new(AtomicBool::new(false)));
        let (shared, stop) = (state.clone(), ends.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let (state, stop) = (shared.clone(), stop.clone());
                std::thread::spawn(move || stream.map(|stream| serve(stream, &state, &stop)));
            }
        });
        Self { address, state, ends }
    }

    /// Host and port.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// The registry, as clawhost names it.
    pub(crate) fn location(&self) -> String {
        format!("oci://{}", self.address)
    }

    /// Requests whose path contains this fail from now on. A later fault takes the place of an earlier one.
    pub(crate) fn fault(&self, path: &str, fault: Fault) {
        self.state.lock().unwrap().faults.insert(0, (path.to_owned(), fault));
    }

    pub(crate) fn heal(&self) {
        self.state.lock().unwrap().faults.clear();
    }

    pub(crate) fn want_basic(&self, user: &str, key: &str) {
        self.state.lock().unwrap().basic = Some((user.to_owned(), key.to_owned()));
    }

    pub(crate) fn want_bearer(&self, realm: &str, token: &str) {
        self.state.lock().unwrap().bearer = Some((realm.to_owned(), token.to_owned()));
    }

    /// The requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    /// The names of stored manifests: `repository:reference`.
    pub(crate) fn manifests(&self) -> Vec<String> {
        self.state.lock().unwrap().manifests.keys().cloned().collect()
    }

    /// Changes a stored manifest.
    pub(crate) fn replace_manifest(&self, name: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
        let mut state = self.state.lock().unwrap();
        let (_, bytes) = state.manifests.get_mut(name).unwrap();
        *bytes = change(std::mem::take(bytes));
    }
}

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

fn answer(status: u16, body: impl Into<Vec<u8>>) -> Answer {
    Answer { status, headers: Vec::new(), body: body.into() }
}

impl Answer {
    fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>, ends: &AtomicBool) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut authorization, mut media_type) = (0_u64, None, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => authorization = Some(value.to_owned()),
            "content-type" => media_type = value.to_owned(),
            _ => {}
        }
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).ok()?;
    let (answer, fault) = {
        let mut state = state.lock().unwrap();
        state.seen.push(Seen { method: method.clone(), path: path.clone(), authorization: authorization.clone() });
        let fault = state.faults.iter().find(|(part, _)| path.contains(part)).map(|(_, fault)| fault.clone());
        let answer = state.refused(&path, authorization.as_deref());
        (answer.unwrap_or_else(|| state.answer(&method, &path, &media_type, body)), fault)
    };
    let (mut answer, mut announced) = (answer, None);
    match fault {
        Some(Fault::Answer(status, headers, body)) => answer = Answer { status, headers, body },
        Some(Fault::Announce(length)) => announced = Some(length),
        Some(Fault::Flip) => {
            if let Some(last) = answer.body.last_mut() {
                *last ^= 1;
            }
        }
        Some(Fault::Silence) => {
            // Until the client gives up: it closes its end.
            let mut rest = [0_u8; 1];
            let _ = stream.try_clone().ok()?.read(&mut rest);
            return (!ends.load(Ordering::SeqCst)).then_some(());
        }
        None => {}
    }
    let mut head = format!("HTTP/1.1 {} x\r\nconnection: close\r\n", answer.status);
    head += &format!("content-length: {}\r\n", announced.unwrap_or(answer.body.len() as u64));
    for (name, value) in answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let mut stream = stream;
    stream.write_all(format!("{head}\r\n").as_bytes()).ok()?;
    if method != "HEAD" {
        stream.write_all(&answer.body).ok()?;
    }
    Some(())
}

impl State {
    fn refused(&self, path: &str, authorization: Option<&str>) -> Option<Answer> {
        use base64::Engine as _;
        if path.starts_with("/token") {
            return None;
        }
        if let Some((user, key)) = &self.basic {
            let wanted = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{key}"));
            return (authorization != Some(&format!("Basic {wanted}")))
                .then(|| answer(401, "{}").with("www-authenticate", "Basic realm=\"test\""));
        }
        let (realm, token) = self.bearer.as_ref()?;
        let challenge = format!("Bearer realm=\"{realm}\",service=\"test\"");
        (authorization != Some(&format!("Bearer {token}")))
            .then(|| answer(401, "{}").with("www-authenticate", challenge))
    }

    fn answer(&mut self, method: &str, path: &str, media_type: &str, body: Vec<u8>) -> Answer {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if path == "/token" {
            let token = self.bearer.as_ref().map(|(_, token)| token.clone()).unwrap_or_default();
            return answer(200, format!("{{\"token\":\"{token}\"}}"));
        }
        let Some(path) = path.strip_prefix("/v2/") else { return answer(404, "") };
        if path == "_catalog" {
            let mut names: Vec<&str> = self.manifests.keys().filter_map(|name| Some(name.split_once(':')?.0)).collect();
            names.dedup();
            return answer(200, serde_json::json!({ "repositories": names }).to_string());
        }
        if let Some(repository) = path.strip_suffix("/tags/list") {
            let tag = |name: &String| {
                let (of, tag) = name.split_once(':')?;
                (of == repository && !tag.starts_with("sha256:")).then(|| tag.to_owned())
            };
            let tags: Vec<String> = self.manifests.keys().filter_map(tag).collect();
            return match tags.is_empty() {
                true => answer(404, ""),
                false => answer(200, serde_json::json!({ "name": repository, "tags": tags }).to_string()),
            };
        }
        if let Some((repository, name)) = path.split_once("/manifests/") {
            let key = format!("{repository}:{name}");
            if method == "PUT" {
                let digest = clawhost_core::Digest::of(&body).to_string();
                self.manifests.insert(format!("{repository}:{digest}"), (media_type.to_owned(), body.clone()));
                self.manifests.insert(key, (media_type.to_owned(), body));
                return answer(201, "");
            }
            return match self.manifests.get(&key) {
                Some((media_type, bytes)) => answer(200, bytes.clone()).with("content-type", media_type.clone()),
                None => answer(404, ""),
            };
        }
        if let Some((repository, _)) = path.split_once("/blobs/uploads/") {
            if method == "POST" {
                self.uploads += 1;
                return answer(202, "").with("location", format!("/v2/{repository}/blobs/uploads/{}", self.uploads));
            }
            let digest = query.split('&').find_map(|part| part.strip_prefix("digest=")).unwrap_or_default();
            let digest = digest.replace("%3A", ":");
            if clawhost_core::Digest::of(&body).to_string() != digest {
                return answer(400, "{\"errors\":[{\"code\":\"DIGEST_INVALID\"}]}");
            }
            self.blobs.insert(format!("{repository}@{digest}"), body);
            return answer(201, "");
        }
        if let Some((repository, digest)) = path.split_once("/blobs/") {
            return match self.blobs.get(&format!("{repository}@{digest}")) {
                Some(bytes) => answer(200, bytes.clone()),
                None => answer(404, ""),
            };
        }
        // Referrers, too: a registry of version 1.0 does not list them.
        answer(404, "")
    }
}
