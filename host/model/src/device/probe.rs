//! Tries devices in a separate process, so that a crashing driver does not end this one.

use super::child::Report;
use super::{Backend, DeviceName, FoundDevice};
use clawhost_child::{ChildProgram, How, how_it_ended};
use serde::{Deserialize, Serialize};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Longest time in seconds for listing the devices of a backend. Loading drivers from a slow disk takes seconds.
pub const LIST_SECONDS: u64 = 20;
/// Longest time in seconds for a device's first product. The first kernels of a process are compiled, and timed against
/// each other.
pub const PROBE_SECONDS: u64 = 90;
/// How often the child is polled for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A device that computed the expected product.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worked {
    /// The device.
    pub name: DeviceName,
    /// Time until the first product, including the compilation of its kernels.
    pub milliseconds: u64,
}

/// Why a device, or its whole backend, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeFailure {
    /// The driver crashed.
    #[error("its driver crashed with signal {}", named(*.0))]
    Died(i32),
    /// The process ended without a report.
    #[error("the process that tried it ended with code {0} and no report")]
    Ended(i32),
    /// The process was stopped.
    #[error("it gave no answer within {0} seconds")]
    TooSlow(u64),
    /// The reported failure.
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

/// Lists and tries devices.
pub trait Prober {
    /// The devices of a backend, in the backend's order.
    ///
    /// # Errors
    /// Its driver is broken.
    fn list(&self, backend: Backend) -> Result<Vec<FoundDevice>, ProbeFailure>;

    /// Lets a device compute a product.
    ///
    /// # Errors
    /// It fails, or the result is wrong.
    fn probe(&self, name: DeviceName) -> Result<Worked, ProbeFailure>;
}

/// Probes with a child process: usually this program, which ends by printing the result of [`super::answer_probe`].
#[derive(Debug, Clone)]
pub struct ChildProber {
    /// The program. The backend or device follows its arguments.
    pub program: ChildProgram,
    /// Longest time in seconds for [`Prober::list`]; the default is [`LIST_SECONDS`].
    pub list_seconds: u64,
    /// Longest time in seconds for [`Prober::probe`]; the default is [`PROBE_SECONDS`].
    pub probe_seconds: u64,
}

impl ChildProber {
    /// Probes with this program and the default times.
    pub fn new(program: ChildProgram) -> Self {
        Self { program, list_seconds: LIST_SECONDS, probe_seconds: PROBE_SECONDS }
    }

    fn ask(&self, about: &str, seconds: u64) -> Result<Report, ProbeFailure> {
        let not_started = |error: std::io::Error| ProbeFailure::NotStarted(error.to_string());
        let mut child = self
            .program
            .command_with_environment()
            .arg(about)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Drivers write a lot. The report has everything relevant.
            .stderr(Stdio::null())
            .spawn()
            .map_err(not_started)?;
        let Some(mut out) = child.stdout.take() else { return Err(ProbeFailure::NotStarted("no pipe".into())) };
        // Read concurrently: a child that writes much must not block.
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
                // The child has ended already, or is killed now.
                let _ = child.kill();
                let _ = child.wait();
                return Err(ProbeFailure::TooSlow(seconds));
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        match how_it_ended(status) {
            How::Code(_) => {}
            How::Aborted => return Err(ProbeFailure::Died(6)),
            How::Killed => return Err(ProbeFailure::Died(9)),
            How::OutOfTime => return Err(ProbeFailure::TooSlow(seconds)),
            How::Signal(signal) => return Err(ProbeFailure::Died(signal)),
        }
        let text = reading.join().ok().and_then(Result::ok).unwrap_or_default();
        let report = text.lines().rev().find_map(|line| serde_json::from_str(line).ok());
        report.ok_or(ProbeFailure::Ended(status.code().unwrap_or(-1)))
    }
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
