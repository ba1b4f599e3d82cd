//! The host as every command sets it up.

use crate::exit::Exit;
use clawhost_core::Limits;
use clawhost_engine::{
    Allocation, COMPILE_MEMORY_BYTES, COMPILE_SECONDS, CacheKey, Compiler, Host, HostConfig, guest_memory_bytes,
    serve_compiler,
};
use std::path::PathBuf;

/// The command by which this program compiles a component for another process of itself.
pub(crate) const COMPILE: &str = "compile-component";

/// A host. What it has not compiled before is compiled by a process of its own.
pub(crate) fn host(
    cache: Option<(PathBuf, CacheKey)>,
    on_demand: bool,
    allow_interpreters: bool,
) -> anyhow::Result<Host> {
    let limits = Limits::default();
    let limits = Limits { host_memory_bytes: guest_memory_bytes(&limits), ..limits };
    Ok(Host::new(HostConfig {
        limits,
        allocation: if on_demand { Allocation::OnDemand } else { Allocation::Pooled },
        cache,
        compiler: Compiler::Process {
            program: std::env::current_exe()?,
            arguments: vec![COMPILE.into()],
            memory_bytes: COMPILE_MEMORY_BYTES,
            seconds: COMPILE_SECONDS,
        },
        allow_interpreters,
    })?)
}

/// `clawhost compile-component`: for the program itself, with an order and a component on standard input.
pub(crate) fn compile() -> std::process::ExitCode {
    use std::io::IsTerminal as _;
    let input = std::io::stdin().lock();
    if input.is_terminal() {
        return Exit::Usage.into();
    }
    serve_compiler(input, std::io::stdout().lock(), std::io::stderr().lock()).into()
}
