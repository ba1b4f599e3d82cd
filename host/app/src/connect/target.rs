//! What a client is connected to, and where clients have their files.

use crate::background::{origin, reachable, running_gateway};
use crate::gateway_file::GatewayFile;
use crate::{AppError, GATEWAY_LISTEN, RequestError};
use clawhost_core::escaped;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Longest name of a model or a variable in bytes.
const NAME_BYTES: usize = 200;

/// The name of a variable of the environment that has a client's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyName(String);

impl KeyName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyName {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let is_name =
            starts && text.len() <= NAME_BYTES && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        is_name.then(|| Self(text.to_owned())).ok_or_else(|| RequestError::VariableName { name: escaped(text, 60) })
    }
}

/// A request to connect a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectRequest {
    /// The client's file. `None`: where the client has it.
    pub file: Option<PathBuf>,
    /// The gateway's address, as in `http://127.0.0.1:8700`.
    pub address: String,
    /// The alias of the model.
    pub model: String,
    /// The variable that has the client's key. `None`: the gateway needs none.
    pub key: Option<KeyName>,
    /// Whether the model's endpoint surely has `/responses` with all tools.
    pub has_responses: bool,
}

impl ConnectRequest {
    /// A request for the gateway of a data folder: the one that runs, or the one of its configuration. `model`: `None` for the only one.
    /// `address`: that of another gateway, whose models are not known.
    ///
    /// # Errors
    /// The configuration cannot be read, it has not exactly one model and none is named, or it has others than the one that is named.
    pub fn of_folder(folder: &Path, model: Option<String>, address: Option<String>) -> Result<Self, AppError> {
        let file = GatewayFile::of(folder)?;
        let running = running_gateway(folder)?;
        let known = match &running {
            Some(gateway) => gateway.configuration.models.clone(),
            None => file.models.keys().cloned().collect(),
        };
        let is_elsewhere = address.is_some();
        let address = address.unwrap_or_else(|| match &running {
            Some(gateway) => gateway.origin(),
            None => {
                let listen = file.gateway.listen.clone().unwrap_or_else(|| GATEWAY_LISTEN.to_owned());
                let listen = listen.parse().map_or(listen, |address: SocketAddr| reachable(address).to_string());
                origin(listen, file.tls.is_some())
            }
        });
        let is_unknown = |model: &String| !is_elsewhere && !known.is_empty() && !known.contains(model);
        let model = match (model, known.as_slice()) {
            (Some(model), _) if is_unknown(&model) => {
                return Err(RequestError::WhichModel { unknown: Some(model), known }.into());
            }
            (Some(model), _) => model,
            (None, [only]) => only.clone(),
            (None, _) => return Err(RequestError::WhichModel { unknown: None, known }.into()),
        };
        let spec = file.models.get(&model).and_then(|section| section.model.as_deref());
        let has_responses = spec.is_some_and(|spec| {
            spec.strip_prefix("openai:")
                .is_some_and(|rest| !rest.contains('@') || rest.contains("@https://api.openai.com/"))
        });
        Ok(Self { file: None, address, model, key: None, has_responses })
    }
}

/// What the clients' files say of a gateway.
pub(super) struct Target {
    /// Scheme, host and port.
    origin: String,
    pub(super) model: String,
    pub(super) key: Option<KeyName>,
    pub(super) has_responses: bool,
}

impl Target {
    pub(super) fn of(request: &ConnectRequest) -> Result<Self, RequestError> {
        let text = request.address.trim_end_matches('/');
        let text = text.strip_suffix("/v1").unwrap_or(text);
        let wrong = || RequestError::GatewayAddress { address: escaped(&request.address, 100) };
        let url = url::Url::parse(text).map_err(|_| wrong())?;
        let is_plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        if !matches!(url.scheme(), "http" | "https")
            || !is_plain
            || !url.username().is_empty()
            || url.password().is_some()
        {
            return Err(wrong());
        }
        let is_name = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '\\' | '$' | '`' | '{' | '}');
        let ConnectRequest { model, key, has_responses, .. } = request.clone();
        if model.is_empty() || model.len() > NAME_BYTES || !model.chars().all(is_name) {
            return Err(RequestError::ModelAlias { alias: escaped(&model, 60) });
        }
        Ok(Self { origin: url.as_str().trim_end_matches('/').to_owned(), model, key, has_responses })
    }

    /// The address for clients of Anthropic's dialect.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// The address for clients of OpenAI's dialect.
    pub(super) fn base_url(&self) -> String {
        format!("{}/v1", self.origin)
    }

    /// The variable that has the key.
    pub(super) fn variable(&self) -> Option<&str> {
        self.key.as_ref().map(KeyName::as_str)
    }
}

/// Where clients have their files: the home folder and the environment.
pub struct Surroundings {
    /// The home folder.
    pub home: PathBuf,
    /// A variable of the environment, if it is set.
    pub variable: Box<dyn Fn(&str) -> Option<String>>,
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("home", &self.home).finish_non_exhaustive()
    }
}

impl Surroundings {
    /// Those of this process. `None`: there is no home folder.
    pub fn of_process() -> Option<Self> {
        let home = directories::BaseDirs::new()?.home_dir().to_owned();
        Some(Self { home, variable: Box::new(|name| std::env::var(name).ok()) })
    }

    /// The path that a variable names.
    pub(super) fn path(&self, variable: &str) -> Option<PathBuf> {
        let text = (self.variable)(variable).filter(|text| !text.trim().is_empty())?;
        match text.strip_prefix("~/") {
            Some(rest) => Some(self.home.join(rest)),
            None => Some(text.into()),
        }
    }

    /// The folder that a variable names, or one of the home folder.
    pub(super) fn folder(&self, variable: &str, default: &str) -> PathBuf {
        self.path(variable).unwrap_or_else(|| self.home.join(default))
    }
}
