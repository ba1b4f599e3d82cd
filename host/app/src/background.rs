//! Gateways in the background: where the one of a data folder listens, how one is started, and how it is stopped.

use crate::{AppError, RequestError, small_files};
use clawhost_core::{Digest, LeaseMode, LeaseSubject, Leases as _, escaped};
use clawhost_store::FileLeases;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The file in the data folder that says where a gateway listens.
const FILE: &str = "gateway.json";
/// The format of the file.
const FORMAT: u32 = 1;
/// What a gateway in the background writes, and what the one before it wrote.
const LOG: &str = "gateway.log";
const EARLIER_LOG: &str = "gateway.log.1";
/// How often the state of a gateway is looked at that starts or stops.
const LOOK: Duration = Duration::from_millis(50);
/// How long a gateway may take to listen: a large model is read before.
const START_TIME: Duration = Duration::from_secs(120);
/// How long a gateway may take to end: its requests have half a minute, and records are taken over then.
const STOP_TIME: Duration = Duration::from_secs(60);
/// Largest size of a log that is read for an error.
const LOG_BYTES: u64 = 1 << 30;
/// What begins the line of an error in the log.
const ERROR: &str = "error: ";
/// Bytes of the beginning of the log in which notes of the start are looked for.
const START_BYTES: u64 = 64 << 10;
/// Bytes of the log in the error of a gateway that did not start.
const SHOWN_BYTES: u64 = 2000;

/// A gateway that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundGateway {
    format: u32,
    /// Its process.
    pub process: u32,
    /// Address and port on which it listens.
    pub address: SocketAddr,
    /// Digest of the certificate (DER) that it shows. `None`: connections are not encrypted.
    #[serde(default)]
    pub certificate: Option<Digest>,
    /// Unix time in milliseconds.
    pub started_at: u64,
    /// What became of its configuration since.
    #[serde(default)]
    pub configuration: ConfigurationState,
}

/// What became of changes of a gateway's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigurationState {
    /// How often the file was read after the start.
    pub reads: u64,
    /// Why the last one was not taken over. The one before it counts.
    pub problem: Option<String>,
    /// Keys of the file that count from the next start only.
    pub waits_for_restart: Vec<String>,
    /// Local models whose changed files cannot be used.
    pub former_weights: Vec<FormerWeights>,
    /// The aliases of all models that it serves.
    pub models: Vec<String>,
    /// Those of models that are asked over the network and have no prices.
    pub without_prices: Vec<String>,
}

impl ConfigurationState {
    fn aliases(&self) -> Aliases {
        Aliases { all: self.models.clone(), without_prices: self.without_prices.clone() }
    }
}

/// The aliases of the models that a gateway serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Aliases {
    pub(crate) all: Vec<String>,
    /// Those of models that are asked over the network and have no prices.
    pub(crate) without_prices: Vec<String>,
}

/// A local model that answers with the weights that it had, because the changed files of its folder cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormerWeights {
    /// Its alias.
    pub alias: String,
    /// Why.
    pub why: String,
}

impl From<FormerWeights> for RequestError {
    fn from(FormerWeights { alias, why }: FormerWeights) -> Self {
        Self::FormerWeights { alias, why }
    }
}

/// The file of a gateway that runs. Dropped, it is removed.
#[derive(Debug)]
pub(crate) struct Announced {
    folder: PathBuf,
    gateway: Mutex<BackgroundGateway>,
}

impl Announced {
    /// Says what became of changed weights.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn weights(&self, former: Vec<FormerWeights>) -> Result<(), AppError> {
        let mut gateway = self.gateway.lock().unwrap_or_else(PoisonError::into_inner);
        gateway.configuration.former_weights = shown(former);
        small_files::write(&self.folder, FILE, &*gateway)
    }

    /// Says what became of a change of the configuration, and of weights that changed with it. `aliases`: `None` if they are as before.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn configured(
        &self,
        taken: Result<Vec<String>, String>,
        certificate: Option<Digest>,
        former: Vec<FormerWeights>,
        aliases: Option<Aliases>,
    ) -> Result<(), AppError> {
        let mut gateway = self.gateway.lock().unwrap_or_else(PoisonError::into_inner);
        // Whether it speaks TLS at all does not change while it runs.
        gateway.certificate = gateway.certificate.map(|known| certificate.unwrap_or(known));
        let reads = gateway.configuration.reads + 1;
        let (problem, waits_for_restart) = match taken {
            Ok(waiting) => (None, waiting),
            Err(why) => (Some(escaped(&why, SHOWN_BYTES as usize)), Vec::new()),
        };
        let former_weights = shown(former);
        let Aliases { all: models, without_prices } = aliases.unwrap_or_else(|| gateway.configuration.aliases());
        gateway.configuration =
            ConfigurationState { reads, problem, waits_for_restart, former_weights, models, without_prices };
        small_files::write(&self.folder, FILE, &*gateway)
    }
}

/// Reasons as they may be shown. They come from files.
fn shown(mut former: Vec<FormerWeights>) -> Vec<FormerWeights> {
    former.iter_mut().for_each(|model| model.why = escaped(&model.why, SHOWN_BYTES as usize));
    former
}

impl Drop for Announced {
    fn drop(&mut self) {
        // A file that is left is known by the lease, which its gateway no longer holds.
        let _ = std::fs::remove_file(self.folder.join(FILE));
    }
}

/// Says where this process listens.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn announce(
    folder: &Path,
    (address, certificate): (SocketAddr, Option<Digest>),
    started_at: u64,
    Aliases { all: models, without_prices }: Aliases,
) -> Result<Announced, AppError> {
    let process = std::process::id();
    let configuration = ConfigurationState { models, without_prices, ..ConfigurationState::default() };
    let gateway = BackgroundGateway { format: FORMAT, process, address, certificate, started_at, configuration };
    small_files::write(folder, FILE, &gateway)?;
    Ok(Announced { folder: folder.to_owned(), gateway: Mutex::new(gateway) })
}

/// Whether a gateway records into a data folder.
fn is_held(folder: &Path) -> Result<bool, AppError> {
    if !folder.is_dir() {
        return Ok(false);
    }
    Ok(FileLeases::new(folder).acquire(&LeaseSubject::Gateway, LeaseMode::Shared)?.is_none())
}

fn announced(folder: &Path) -> Result<Option<BackgroundGateway>, AppError> {
    small_files::read(&folder.join(FILE), FORMAT, |document: &BackgroundGateway| document.format)
}

/// The gateway of a data folder, if one runs.
///
/// # Errors
/// The data folder cannot be read.
pub fn running_gateway(folder: &Path) -> Result<Option<BackgroundGateway>, AppError> {
    // A process that was killed leaves the file, and not the lease.
    if is_held(folder)? { announced(folder) } else { Ok(None) }
}

/// The address under which this machine reaches a gateway.
pub(crate) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    address
}

/// Where clients reach a gateway: scheme, host and port.
pub(crate) fn origin(address: impl std::fmt::Display, is_encrypted: bool) -> String {
    format!("{}://{address}", if is_encrypted { "https" } else { "http" })
}

impl BackgroundGateway {
    /// Where clients of this machine reach it: scheme, host and port.
    pub fn origin(&self) -> String {
        origin(reachable(self.address), self.certificate.is_some())
    }
}

/// Whether a gateway answers that it is ready.
pub async fn gateway_is_ready(gateway: &BackgroundGateway) -> bool {
    clawhost_providers::is_ready(gateway.address, gateway.certificate).await
}

/// Starts a program with arguments that make it a gateway for a data folder, and waits until it listens. It goes on when this process
/// ends. What it writes is in `gateway.log` of the folder.
///
/// # Errors
/// A gateway runs already, or the program ended or did not listen in time.
pub async fn start_gateway(
    program: &Path,
    arguments: &[OsString],
    folder: &Path,
) -> Result<BackgroundGateway, AppError> {
    if is_held(folder)? {
        return Err(RequestError::GatewayRuns { folder: folder.display().to_string() }.into());
    }
    crate::workspace::make(folder)?;
    let path = folder.join(LOG);
    let unusable = |error: std::io::Error| {
        AppError::from(RequestError::File { path: path.display().to_string(), why: error.to_string() })
    };
    if path.exists() {
        std::fs::rename(&path, folder.join(EARLIER_LOG)).map_err(unusable)?;
    }
    let log = File::create(&path).map_err(unusable)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone().map_err(unusable)?).stderr(log);
    // Ctrl-C in the terminal is not for it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let failed = |why: String| AppError::from(RequestError::GatewayDidNotStart { why });
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let give_up = tokio::time::Instant::now() + START_TIME;
    loop {
        if let Some(gateway) = announced(folder)?.filter(|gateway| gateway.process == child.id()) {
            return Ok(gateway);
        }
        match child.try_wait() {
            Ok(None) if tokio::time::Instant::now() < give_up => tokio::time::sleep(LOOK).await,
            Ok(None) => {
                // It ends at once or not at all.
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!("it did not listen within {} s; {}", START_TIME.as_secs(), tail(&path))));
            }
            Ok(Some(_)) => return Err(failed(tail(&path))),
            Err(error) => return Err(failed(error.to_string())),
        }
    }
}

/// The files of what gateways of a data folder wrote in the background.
pub(crate) fn background_logs(folder: &Path) -> Vec<PathBuf> {
    [LOG, EARLIER_LOG].map(|name| folder.join(name)).into_iter().filter(|path| path.is_file()).collect()
}

/// What a gateway wrote while it started in the background, without hidden characters.
pub fn start_log(folder: &Path) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let (file, _) = clawhost_files::open(&folder.join(LOG), LOG_BYTES)?;
        let mut bytes = Vec::new();
        file.take(START_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = read().unwrap_or_default();
    String::from_utf8_lossy(&text).lines().map(|line| escaped(line, SHOWN_BYTES as usize)).collect()
}

/// The end of a log, as one line.
fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let (mut file, length) = clawhost_files::open(path, LOG_BYTES)?;
        file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(SHOWN_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // What comes before the error says less, and the message says that it is one.
    let error = lines.iter().rposition(|line| line.starts_with(ERROR)).unwrap_or_default();
    let lines = lines.get(error..).unwrap_or_default();
    let lines: Vec<&str> = lines.iter().map(|line| line.strip_prefix(ERROR).unwrap_or(line)).collect();
    escaped(&lines.join("; "), SHOWN_BYTES as usize)
}

/// Stops the gateway of a data folder in order, and waits until everything is recorded. `None`: there was none.
///
/// # Errors
/// It cannot be told, or does not end in time.
pub async fn stop_gateway(folder: &Path) -> Result<Option<BackgroundGateway>, AppError> {
    let Some(gateway) = running_gateway(folder)? else { return Ok(None) };
    let cannot = |why: String| AppError::from(RequestError::GatewayDoesNotStop { process: gateway.process, why });
    signal(gateway.process, Told::End).map_err(cannot)?;
    let give_up = tokio::time::Instant::now() + STOP_TIME;
    while is_held(folder)? {
        if tokio::time::Instant::now() > give_up {
            return Err(cannot(format!("requests are still under way after {} s", STOP_TIME.as_secs())));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(Some(gateway))
}

/// Makes the gateway of a data folder read its configuration, its keys and changed weights again, and waits until it has. `None`: there
/// is none.
///
/// # Errors
/// It cannot be told, it has ended, or the configuration or the weights of a model were not taken over: then those before them count.
pub async fn reload_gateway(folder: &Path) -> Result<Option<BackgroundGateway>, AppError> {
    let Some(before) = running_gateway(folder)? else { return Ok(None) };
    let cannot = |why: String| AppError::from(RequestError::NotReloaded { why });
    signal(before.process, Told::Reload).map_err(cannot)?;
    let give_up = tokio::time::Instant::now() + START_TIME;
    while tokio::time::Instant::now() < give_up {
        match running_gateway(folder)? {
            None => return Err(cannot("the gateway has ended".to_owned())),
            Some(now) if now.configuration.reads > before.configuration.reads => {
                let ConfigurationState { problem, former_weights, .. } = &now.configuration;
                return match (problem, former_weights.first()) {
                    (Some(why), _) => Err(cannot(why.clone())),
                    (None, Some(former)) => Err(RequestError::from(former.clone()).into()),
                    (None, None) => Ok(Some(now)),
                };
            }
            Some(_) => tokio::time::sleep(LOOK).await,
        }
    }
    Err(cannot(format!("the gateway was not done within {} s", START_TIME.as_secs())))
}

/// A signal for a running gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    End,
    Reload,
}

/// Tells a process something.
#[cfg(unix)]
fn signal(process: u32, told: Told) -> Result<(), String> {
    use rustix::process::Signal;
    let id = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    let id = id.ok_or_else(|| "its process has no valid number".to_owned())?;
    let signal = match told {
        Told::End => Signal::TERM,
        Told::Reload => Signal::HUP,
    };
    rustix::process::kill_process(id, signal).map_err(|error| error.to_string())
}

#[cfg(not(unix))]
fn signal(_: u32, told: Told) -> Result<(), String> {
    Err(match told {
        Told::End => "this system has no signal for that; end the process by its number".to_owned(),
        Told::Reload => "this system has no signal for that; a changed file is read within a second".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attempts at a lease before a test gives up.
    const LOOKS: usize = 1_000_000;

    #[test]
    fn a_file_that_a_killed_gateway_left_is_no_gateway() {
        let folder = tempfile::tempdir().unwrap();
        let address: SocketAddr = "127.0.0.1:8700".parse().unwrap();
        let announced = announce(folder.path(), (address, None), 7, Aliases::default()).unwrap();
        assert_eq!(running_gateway(folder.path()).unwrap(), None, "nobody holds the lease");
        let leases = FileLeases::new(folder.path());
        // A process that another test starts has the file open until it is another program.
        let acquire = || leases.acquire(&LeaseSubject::Gateway, LeaseMode::Exclusive).unwrap();
        let lease = std::iter::repeat_with(acquire).take(LOOKS).flatten().next().unwrap();
        let found = running_gateway(folder.path()).unwrap().unwrap();
        assert_eq!((found.process, found.address, found.started_at), (std::process::id(), address, 7));
        drop(announced);
        assert_eq!(running_gateway(folder.path()).unwrap(), None, "it has not said yet where it listens");
        drop(lease);
        assert_eq!(running_gateway(&folder.path().join("none")).unwrap(), None);
    }

    #[tokio::test]
    async fn a_program_that_ends_is_reported_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let check = async |says: &str| {
            let arguments = ["-c".into(), format!("echo {says} >&2; exit 2").into()];
            let error = start_gateway(Path::new("sh"), &arguments, folder.path()).await.unwrap_err();
            assert_eq!(error.to_string(), "the gateway did not start: the model is missing");
        };
        check("the model is missing").await;
        check("note: no key is sent; echo error: the model is missing").await;
        assert!(folder.path().join(LOG).exists());
    }
}
