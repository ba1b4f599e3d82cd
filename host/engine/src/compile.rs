//! Compiles components, isolated from the serving process.
//!
//! Compilers give no guarantees for hostile input: they may take minutes or gigabytes, or crash. A component that this host
//! has not compiled before is first measured (`walk`), and then compiled by a separate process with limits on memory and
//! time. That process returns native code made by this same program, which the cache authenticates.

use crate::EngineError;
use crate::config::{self, Allocation};
use clawhost_child::{ChildProgram, How, how_it_ended};
use clawhost_core::{Digest, Limits};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wasmtime::Engine;

/// Memory limit of a compiling process in bytes. The largest known component, a CPython of 18 MiB, takes 450 MiB on two
/// cores, and more with more threads.
pub const COMPILE_MEMORY_BYTES: u64 = 3 << 30;

/// Processor time in seconds of a process that compiles a component of a compiled language, of at most 16 MiB. What the estimate lets pass takes
/// about as long. A program that was built without optimisation compiles at a third of the speed.
pub const COMPILE_SECONDS: u64 = if cfg!(debug_assertions) { 60 } else { 20 };

/// The same for components that contain an interpreter, which the operator allows: a CPython takes 15 to 19 s, a StarlingMonkey 73 s. Without
/// optimisation a CPython has taken more than 180 s on a machine whose cores were shared.
pub const INTERPRETER_COMPILE_SECONDS: u64 = if cfg!(debug_assertions) { 600 } else { 180 };

/// Wall-clock limit as a multiple of the processor time, because machines have other work.
const PATIENCE: u32 = 3;

/// Native code is about four times as long as the component. Bounds what is read from the pipe.
const ARTEFACT_BYTES: u64 = 512 << 20;

/// Most bytes read from a failed compiler's stderr.
const LAST_WORDS: u64 = 64 << 10;

/// How new components are compiled.
#[derive(Debug, Clone, Default)]
pub enum Compiler {
    /// In this process, on a separate thread, without limits. For programs that load trusted components, and for tests.
    #[default]
    InProcess,
    /// In a separate process that calls [`serve_compiler`].
    Process {
        /// The program.
        program: ChildProgram,
        /// Memory limit in bytes.
        memory_bytes: u64,
        /// Processor time in seconds. The wall-clock limit is three times as long.
        seconds: u64,
    },
}

/// The first line of a compiling process's input, as JSON. The component follows.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    limits: Limits,
    pooled: bool,
    /// Fingerprint of the engine that will load the code.
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
            Self::Process { program, memory_bytes, seconds } => {
                let (memory_bytes, seconds) = (*memory_bytes, *seconds);
                let pooled = allocation == Allocation::Pooled;
                let order = Order { limits: limits.clone(), pooled, fingerprint, memory_bytes, seconds };
                let mut command = tokio::process::Command::from(program.command());
                command.kill_on_drop(true);
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

/// Why a compiling process failed.
enum CompileFailure {
    /// The component cannot be compiled.
    Refused(String),
    /// The process cannot be started, or does not match this one: not a fault of the component.
    Here(String),
    /// The process crashed or exceeded a limit.
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
        // If the process dies before it has read everything, its exit status tells why.
        let _ = stdin.write_all(&head).await;
        let _ = stdin.write_all(bytes).await;
    };
    // Read stderr to its end so that the process does not block; only the first part is kept.
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
        // Dropping the handle kills the process.
        return Err(CompileFailure::Died(format!("it made more than {} MiB of native code", ARTEFACT_BYTES >> 20)));
    }
    let status = child.wait().await.map_err(here)?;
    let words = listening.await.unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    let words = clawhost_core::escaped(words.trim(), SHOWN_WORDS);
    match how_it_ended(status) {
        How::Code(0) => Ok(artefact),
        How::Code(NOT_HERE) => Err(CompileFailure::Here(words)),
        _ if OUT_OF_MEMORY.iter().any(|said| words.contains(said)) => {
            Err(CompileFailure::Died(format!("it took more than {} MiB of memory", order.memory_bytes >> 20)))
        }
        How::Code(REFUSED) => Err(CompileFailure::Refused(words)),
        How::OutOfTime => Err(CompileFailure::Died(format!("it took more than {} s of processor time", order.seconds))),
        How::Killed => Err(CompileFailure::Died("the compiler was killed, perhaps for want of memory".into())),
        _ => Err(CompileFailure::Died(format!("the compiler died ({status}) {words}"))),
    }
}

/// Messages of Rust and of the system when memory is exhausted.
const OUT_OF_MEMORY: [&str; 3] = ["memory allocation of", "Cannot allocate memory", "os error 12"];

/// Exit code of a compiling process whose component cannot be compiled.
const REFUSED: i32 = 3;

/// Exit code of a compiling process that cannot serve this host.
const NOT_HERE: i32 = 4;

/// Most bytes of a compiler's message that are shown.
const SHOWN_WORDS: usize = 2000;

/// Why an order fails.
enum Refusal {
    /// The component cannot be compiled.
    Component(String),
    /// This process does not match the requesting host.
    NotHere(String),
}

/// Entry point of a compiling process: reads an order and a component, writes native code. Returns the exit code.
pub fn serve_compiler(mut input: impl Read, mut output: impl Write, mut last_words: impl Write) -> u8 {
    match compile_order(&mut input) {
        Ok(artefact) if output.write_all(&artefact).and_then(|()| output.flush()).is_ok() => 0,
        Ok(_) => 1,
        Err(refusal) => {
            let (message, code) = match &refusal {
                Refusal::Component(message) => (message, REFUSED),
                Refusal::NotHere(message) => (message, NOT_HERE),
            };
            // If stderr is closed, the exit code is sufficient. Names in a component may be very long.
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
    clawhost_child::bound_memory(order.memory_bytes);
    clawhost_child::bound_processor_time(order.seconds);
    let allocation = if order.pooled { Allocation::Pooled } else { Allocation::OnDemand };
    // One slot is enough: nothing is instantiated here.
    let limits = Limits { live_instances: 1, ..order.limits };
    let engine = config::engine(&limits, allocation).map_err(|error| Refusal::NotHere(error.to_string()))?;
    if config::fingerprint(&engine) != order.fingerprint {
        return Err(Refusal::NotHere("the program was exchanged while it ran; start it again".into()));
    }
    let component = component.get(1..).unwrap_or_default();
    engine.precompile_component(component).map_err(|error| Refusal::Component(format!("{error:#}")))
}
