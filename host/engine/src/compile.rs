//! Compiling, away from everything that serves.
//!
//! The engine promises nothing about compilers that are given hostile input: they may take minutes, gigabytes, or crash. So a
//! component that this host has not compiled before is walked through first, and then compiled by a process of its own,
//! with limits on its memory and its time. What that process gives back is native code made by this very program, which the
//! cache marks as ours.

use crate::EngineError;
use crate::config::{self, Allocation};
use clawhost_core::{Digest, Limits};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wasmtime::Engine;

/// Memory of a compiling process: the largest known component, a CPython of 18 MiB, takes 450 MiB on two cores, and more
/// where more threads work at once.
pub const COMPILE_MEMORY_BYTES: u64 = 3 << 30;

/// Processor time of a compiling process: that CPython takes 24 s in a development build.
pub const COMPILE_SECONDS: u64 = 180;

/// How much longer than its processor time a compiling process may live: machines have other things to do too.
const PATIENCE: u32 = 3;

/// Native code is about four times as long as the component; a pipe that never ends must not fill our memory.
const ARTEFACT_BYTES: u64 = 512 << 20;

/// What is read of a dying compiler's last words.
const LAST_WORDS: u64 = 64 << 10;

/// How components are compiled that this host has not compiled before.
#[derive(Debug, Clone, Default)]
pub enum Compiler {
    /// Here, on a thread of its own. For programs that load what they trust, and for tests: nothing bounds it.
    #[default]
    InProcess,
    /// By a process that calls [`serve_compiler`], and nothing else.
    Process {
        /// The program.
        program: PathBuf,
        /// What makes it call that function.
        arguments: Vec<OsString>,
        /// Its memory, in bytes.
        memory_bytes: u64,
        /// Its processor time, in seconds. By the clock on the wall it may take three times as long.
        seconds: u64,
    },
}

/// What a compiling process is told first, in one line of JSON. The component follows.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    limits: Limits,
    pooled: bool,
    /// What it makes must fit this engine.
    fingerprint: Digest,
    memory_bytes: u64,
    seconds: u64,
}

impl Compiler {
    /// Native code for an engine.
    ///
    /// # Errors
    /// The component cannot be compiled, or not within the limits.
    pub(crate) async fn compile(
        &self,
        engine: &Engine,
        allocation: Allocation,
        fingerprint: Digest,
        limits: &Limits,
        name: &str,
        bytes: &[u8],
    ) -> Result<Vec<u8>, EngineError> {
        let failed = |message: String| EngineError::Compile { name: name.to_owned(), message };
        match self {
            Self::InProcess => {
                let (engine, bytes) = (engine.clone(), bytes.to_vec());
                let compiled = tokio::task::spawn_blocking(move || engine.precompile_component(&bytes)).await;
                let compiled = compiled.map_err(|error| failed(error.to_string()))?;
                compiled.map_err(|error| EngineError::compile(name, &error))
            }
            Self::Process { program, arguments, memory_bytes, seconds } => {
                let (memory_bytes, seconds) = (*memory_bytes, *seconds);
                let pooled = allocation == Allocation::Pooled;
                let order = Order { limits: limits.clone(), pooled, fingerprint, memory_bytes, seconds };
                let mut command = tokio::process::Command::new(program);
                command.args(arguments).env_clear().kill_on_drop(true);
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let asking = ask(command, order, bytes);
                match tokio::time::timeout(PATIENCE * Duration::from_secs(seconds), asking).await {
                    Ok(Ok(artefact)) => Ok(artefact),
                    Ok(Err(CompileFailure::Refused(message))) => Err(failed(message)),
                    Ok(Err(CompileFailure::Here(message))) => Err(EngineError::Compiler(message)),
                    Ok(Err(CompileFailure::Died(how))) => Err(EngineError::CompileLimit { name: name.to_owned(), how }),
                    Err(_) => {
                        let how = format!("it took more than {} s by the clock", u64::from(PATIENCE) * seconds);
                        Err(EngineError::CompileLimit { name: name.to_owned(), how })
                    }
                }
            }
        }
    }
}

/// Why a compiling process gave nothing.
enum CompileFailure {
    /// It says that the component cannot be compiled.
    Refused(String),
    /// It cannot be started, or does not fit this process: no fault of the component.
    Here(String),
    /// It came to an end that it did not choose.
    Died(String),
}

async fn ask(mut command: tokio::process::Command, order: Order, bytes: &[u8]) -> Result<Vec<u8>, CompileFailure> {
    let here = |error: std::io::Error| CompileFailure::Here(format!("no compiling process: {error}"));
    let mut child = command.spawn().map_err(here)?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(CompileFailure::Here("the compiling process has no pipes".into()));
    };
    let mut head = serde_json::to_vec(&order).map_err(|error| CompileFailure::Here(error.to_string()))?;
    head.push(b'\n');
    let mut artefact = Vec::new();
    let send = async move {
        // A process that dies before it has read everything is judged by how it died.
        let _ = stdin.write_all(&head).await;
        let _ = stdin.write_all(bytes).await;
    };
    // Whatever it says is read to its end, or it would wait for us for ever; only the first of it is kept.
    let listening = tokio::spawn(async move {
        let mut words = Vec::new();
        let mut stderr = stderr.take(LAST_WORDS);
        let _ = stderr.read_to_end(&mut words).await;
        let _ = tokio::io::copy(&mut stderr.into_inner(), &mut tokio::io::sink()).await;
        words
    });
    let mut stdout = stdout.take(ARTEFACT_BYTES + 1);
    let (_, read) = tokio::join!(send, stdout.read_to_end(&mut artefact));
    read.map_err(here)?;
    if artefact.len() as u64 > ARTEFACT_BYTES {
        // It is killed when its handle is dropped.
        return Err(CompileFailure::Died(format!("it made more than {} MiB of native code", ARTEFACT_BYTES >> 20)));
    }
    let status = child.wait().await.map_err(here)?;
    let words = listening.await.unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    let words = clawhost_core::escaped(words.trim(), SHOWN_WORDS);
    match (status.code(), signal(status)) {
        (Some(0), _) => Ok(artefact),
        (Some(NOT_HERE), _) => Err(CompileFailure::Here(words)),
        _ if OUT_OF_MEMORY.iter().any(|said| words.contains(said)) => {
            Err(CompileFailure::Died(format!("it took more than {} MiB of memory", order.memory_bytes >> 20)))
        }
        (Some(REFUSED), _) => Err(CompileFailure::Refused(words)),
        (_, Some(Ended::OutOfTime)) => {
            Err(CompileFailure::Died(format!("it took more than {} s of processor time", order.seconds)))
        }
        (_, Some(Ended::Killed)) => {
            Err(CompileFailure::Died("the compiler was killed, perhaps for want of memory".into()))
        }
        _ => Err(CompileFailure::Died(format!("the compiler died ({status}) {words}"))),
    }
}

/// How a compiling process was ended.
enum Ended {
    OutOfTime,
    Killed,
}

#[cfg(unix)]
fn signal(status: std::process::ExitStatus) -> Option<Ended> {
    use rustix::process::Signal;
    use std::os::unix::process::ExitStatusExt as _;
    match status.signal()? {
        signal if signal == Signal::XCPU.as_raw() => Some(Ended::OutOfTime),
        signal if signal == Signal::KILL.as_raw() => Some(Ended::Killed),
        _ => None,
    }
}

#[cfg(not(unix))]
fn signal(_: std::process::ExitStatus) -> Option<Ended> {
    None
}

/// What Rust says before it aborts for want of memory, and what the system says where the engine asks it itself.
const OUT_OF_MEMORY: [&str; 3] = ["memory allocation of", "Cannot allocate memory", "os error 12"];

/// How a compiling process ends that refuses its component.
const REFUSED: i32 = 3;

/// How it ends that cannot serve this process.
const NOT_HERE: i32 = 4;

/// Bytes of a compiler's words that are shown.
const SHOWN_WORDS: usize = 2000;

/// Why an order is not carried out.
enum Refusal {
    /// The component cannot be compiled.
    Component(String),
    /// This process cannot compile for that one.
    NotHere(String),
}

/// The whole life of a compiling process: reads an order and a component, writes native code. Gives the code to exit with.
pub fn serve_compiler(mut input: impl Read, mut output: impl Write, mut last_words: impl Write) -> u8 {
    match compile_order(&mut input) {
        Ok(artefact) if output.write_all(&artefact).and_then(|()| output.flush()).is_ok() => 0,
        Ok(_) => 1,
        Err(refusal) => {
            let (message, code) = match &refusal {
                Refusal::Component(message) => (message, REFUSED),
                Refusal::NotHere(message) => (message, NOT_HERE),
            };
            // Where nobody listens the exit code says enough. A component's names may be as long as the component.
            let _ = writeln!(last_words, "{}", clawhost_core::escaped(message, SHOWN_WORDS));
            u8::try_from(code).unwrap_or(1)
        }
    }
}

fn compile_order(input: &mut impl Read) -> Result<Vec<u8>, Refusal> {
    let not_here =
        |message: &dyn std::fmt::Display| Refusal::NotHere(format!("this is for the host itself: {message}"));
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(|error| not_here(&error))?;
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| not_here(&"an order comes first"))?;
    let (head, component) = bytes.split_at(end);
    let order: Order = serde_json::from_slice(head).map_err(|error| not_here(&error))?;
    bound(&order);
    let allocation = if order.pooled { Allocation::Pooled } else { Allocation::OnDemand };
    // One slot: nothing is instantiated here.
    let limits = Limits { live_instances: 1, ..order.limits };
    let engine = config::engine(&limits, allocation).map_err(|error| Refusal::NotHere(error.to_string()))?;
    if config::fingerprint(&engine) != order.fingerprint {
        return Err(Refusal::NotHere("the program was exchanged while it ran; start it again".into()));
    }
    let component = component.get(1..).unwrap_or_default();
    engine.precompile_component(component).map_err(|error| Refusal::Component(format!("{error:#}")))
}

/// Bounds this process: writable memory, so that reserved address space does not count, and processor time.
#[cfg(unix)]
fn bound(order: &Order) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // Some seconds more before it is killed: first it is told that its time is up, so that we can tell.
    let limits = [
        (Resource::Data, order.memory_bytes, order.memory_bytes),
        (Resource::Cpu, order.seconds, order.seconds.saturating_add(5)),
        (Resource::Core, 0, 0),
    ];
    for (resource, current, maximum) in limits {
        // Where the system refuses, the clock on the wall is left.
        let _ = setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) });
    }
}

#[cfg(not(unix))]
fn bound(_: &Order) {}
