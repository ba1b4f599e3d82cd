//! Trying devices out in a process of its own: a driver that crashes takes nobody with it.

use super::child::Report;
use super::{Backend, DeviceName, FoundDevice};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest time that a backend may take to say which devices it has: drivers that are loaded from a slow disk take seconds.
pub const LIST_SECONDS: u64 = 20;
/// Longest time that a device may take for its first product: the first kernels of a process are compiled, and timed against each other.
pub const PROBE_SECONDS: u64 = 90;
/// How often it is looked whether the child has ended.
const GLANCE: Duration = Duration::from_millis(10);

/// A device that computed what it should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worked {
    /// Which.
    pub name: DeviceName,
    /// Until the first product was there, its kernels compiled.
    pub milliseconds: u64,
}

/// Why a device, or its whole backend, is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeFailure {
    /// As a crash ends.
    #[error("its driver died with signal {}", named(*.0))]
    Died(i32),
    /// As programs end that gave up.
    #[error("the process that tried it ended with code {0} and no word")]
    Ended(i32),
    /// It was stopped.
    #[error("it gave no answer within {0} seconds")]
    TooSlow(u64),
    /// In words.
    #[error("{0}")]
    Said(String),
    /// Nothing was tried.
    #[error("the process that tries it cannot be started ({0})")]
    NotStarted(String),
}

fn named(signal: i32) -> String {
    let name = match signal {
        4 => " (illegal instruction)",
        6 => " (abort)",
        7 => " (bus error)",
        8 => " (arithmetic)",
        9 => " (killed)",
        11 => " (segmentation fault)",
        _ => "",
    };
    format!("{signal}{name}")
}

/// Whoever looks at devices.
pub trait Prober {
    /// The devices of a backend, in its order.
    ///
    /// # Errors
    /// Its driver is broken.
    fn list(&self, backend: Backend) -> Result<Vec<FoundDevice>, ProbeFailure>;

    /// Has a device compute something.
    ///
    /// # Errors
    /// It does not, or comes to something else.
    fn probe(&self, name: DeviceName) -> Result<Worked, ProbeFailure>;
}

/// Looks by starting a program, this one as a rule, that ends by printing what [`super::answer_probe`] gives.
#[derive(Debug, Clone)]
pub struct ChildProber {
    /// The program.
    pub program: PathBuf,
    /// What stands before the backend or device.
    pub arguments: Vec<OsString>,
    /// Longest time for [`Prober::list`], as a rule [`LIST_SECONDS`].
    pub list_seconds: u64,
    /// Longest time for [`Prober::probe`], as a rule [`PROBE_SECONDS`].
    pub probe_seconds: u64,
}

impl ChildProber {
    /// By this program, with the times that are the rule.
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self { program, arguments, list_seconds: LIST_SECONDS, probe_seconds: PROBE_SECONDS }
    }

    fn ask(&self, about: &str, seconds: u64) -> Result<Report, ProbeFailure> {
        let not_started = |error: std::io::Error| ProbeFailure::NotStarted(error.to_string());
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .arg(about)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Drivers talk a lot; what matters is said in the report.
            .stderr(Stdio::null())
            .spawn()
            .map_err(not_started)?;
        let Some(mut out) = child.stdout.take() else { return Err(ProbeFailure::NotStarted("no pipe".into())) };
        // Read beside waiting: who writes much must not wait for us.
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut out, &mut text).map(|_| text)
        });
        let until = Instant::now() + Duration::from_secs(seconds);
        let status = loop {
            if let Some(status) = child.try_wait().map_err(not_started)? {
                break status;
            }
            if Instant::now() >= until {
                // Either it is gone already, or it goes now.
                let _ = child.kill();
                let _ = child.wait();
                return Err(ProbeFailure::TooSlow(seconds));
            }
            std::thread::sleep(GLANCE);
        };
        if let Some(signal) = signal(status) {
            return Err(ProbeFailure::Died(signal));
        }
        let text = reading.join().ok().and_then(Result::ok).unwrap_or_default();
        let report = text.lines().rev().find_map(|line| serde_json::from_str(line).ok());
        report.ok_or(ProbeFailure::Ended(status.code().unwrap_or(-1)))
    }
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
}

impl Prober for ChildProber {
    fn list(&self, backend: Backend) -> Result<Vec<FoundDevice>, ProbeFailure> {
        match self.ask(backend.word(), self.list_seconds)? {
            Report::Devices(devices) => Ok(devices),
            Report::Failed(why) => Err(ProbeFailure::Said(why)),
            Report::Works(_) => Err(ProbeFailure::Said("it answered another question".into())),
        }
    }

    fn probe(&self, name: DeviceName) -> Result<Worked, ProbeFailure> {
        match self.ask(&name.to_string(), self.probe_seconds)? {
            Report::Works(worked) => Ok(worked),
            Report::Failed(why) => Err(ProbeFailure::Said(why)),
            Report::Devices(_) => Err(ProbeFailure::Said("it answered another question".into())),
        }
    }
}
