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
                    Ok(Err(Trouble::Refused(message))) => Err(failed(message)),
                    Ok(Err(Trouble::Died(how))) => Err(EngineError::CompileLimit { name: name.to_owned(), how }),
                    Err(_) => {
                        let how = format!("it took more than {seconds} s");
                        Err(EngineError::CompileLimit { name: name.to_owned(), how })
                    }
                }
            }
        }
    }
}

/// Why a compiling process gave nothing.
enum Trouble {
    /// It says that the component cannot be compiled.
    Refused(String),
    /// It came to an end that it did not choose.
    Died(String),
}

async fn ask(mut command: tokio::process::Command, order: Order, bytes: &[u8]) -> Result<Vec<u8>, Trouble> {
    let refused = |error: std::io::Error| Trouble::Refused(format!("no compiling process: {error}"));
    let mut child = command.spawn().map_err(refused)?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(Trouble::Refused("the compiling process has no pipes".into()));
    };
    let mut head = serde_json::to_vec(&order).map_err(|error| Trouble::Refused(error.to_string()))?;
    head.push(b'\n');
    let (mut artefact, mut words) = (Vec::new(), Vec::new());
    let send = async move {
        // A process that dies before it has read everything is judged by how it died.
        let _ = stdin.write_all(&head).await;
        let _ = stdin.write_all(bytes).await;
    };
    let (mut stdout, mut stderr) = (stdout.take(ARTEFACT_BYTES), stderr.take(LAST_WORDS));
    let (_, read, _) = tokio::join!(send, stdout.read_to_end(&mut artefact), stderr.read_to_end(&mut words));
    read.map_err(refused)?;
    let status = child.wait().await.map_err(refused)?;
    let words = String::from_utf8_lossy(&words);
    let words = clawhost_core::escaped(words.trim(), 2000);
    match status.code() {
        Some(0) => Ok(artefact),
        Some(REFUSED) => Err(Trouble::Refused(words)),
        _ if words.contains(OUT_OF_MEMORY) => {
            Err(Trouble::Died(format!("it took more than {} MiB of memory", order.memory_bytes >> 20)))
        }
        _ if out_of_time(status) => Err(Trouble::Died(format!("it took more than {} s", order.seconds))),
        _ => Err(Trouble::Died(format!("the compiler died ({status}) {words}"))),
    }
}

/// What Rust says before it aborts for want of memory.
const OUT_OF_MEMORY: &str = "memory allocation of";

/// How a compiling process ends that refuses its component.
const REFUSED: i32 = 3;

#[cfg(unix)]
fn out_of_time(status: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal().is_some_and(|signal| {
        [rustix::process::Signal::XCPU, rustix::process::Signal::KILL].map(|s| s.as_raw()).contains(&signal)
    })
}

#[cfg(not(unix))]
fn out_of_time(_: std::process::ExitStatus) -> bool {
    false
}

/// The whole life of a compiling process: reads an order and a component, writes native code. Gives the code to exit with.
pub fn serve_compiler(mut input: impl Read, mut output: impl Write, mut last_words: impl Write) -> u8 {
    match compile_order(&mut input) {
        Ok(artefact) if output.write_all(&artefact).and_then(|()| output.flush()).is_ok() => 0,
        Ok(_) => 1,
        Err(message) => {
            // Where nobody listens the exit code says enough.
            let _ = writeln!(last_words, "{message}");
            u8::try_from(REFUSED).unwrap_or(1)
        }
    }
}

fn compile_order(input: &mut impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let end =
        bytes.iter().position(|byte| *byte == b'\n').ok_or("this is for the host itself: an order comes first")?;
    let (head, component) = bytes.split_at(end);
    let order: Order = serde_json::from_slice(head).map_err(|error| format!("this is for the host itself: {error}"))?;
    bound(&order);
    let allocation = if order.pooled { Allocation::Pooled } else { Allocation::OnDemand };
    // One slot: nothing is instantiated here.
    let limits = Limits { live_instances: 1, ..order.limits };
    let engine = config::engine(&limits, allocation).map_err(|error| error.to_string())?;
    if config::fingerprint(&engine) != order.fingerprint {
        return Err("the program was exchanged while it ran; start it again".into());
    }
    let component = component.get(1..).unwrap_or_default();
    engine.precompile_component(component).map_err(|error| format!("{error:#}"))
}

/// Bounds this process: writable memory, so that reserved address space does not count, and processor time.
#[cfg(unix)]
fn bound(order: &Order) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    for (resource, limit) in [(Resource::Data, order.memory_bytes), (Resource::Cpu, order.seconds), (Resource::Core, 0)]
    {
        // Where the system refuses, the clock on the wall is left.
        let _ = setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) });
    }
}

#[cfg(not(unix))]
fn bound(_: &Order) {}
