//! Creates the host of plugins for all operations.

use crate::AppError;
use clawhost_core::Limits;
use clawhost_engine::{
    Allocation, COMPILE_MEMORY_BYTES, COMPILE_SECONDS, CacheKey, Compiler, Host, HostConfig, guest_memory_bytes,
};
use std::ffi::OsString;
use std::path::PathBuf;

/// A program that compiles components for this one, within limits. Started with these arguments, it calls
/// [`clawhost_engine::serve_compiler`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerProgram {
    /// The program, usually this one.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// The settings of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// Instantiate without a reserved pool, for machines with little address space.
    pub on_demand: bool,
    /// Load components that contain an interpreter (Python, JavaScript).
    pub allow_interpreters: bool,
    /// The compiler program. `None`: this process compiles, without limits; only for trusted plugins.
    pub compiler: Option<CompilerProgram>,
}

/// Creates a host. Uncached components are compiled in a separate process, if one is set.
pub(crate) fn host(settings: &HostSettings, cache: Option<(PathBuf, CacheKey)>) -> Result<Host, AppError> {
    let limits = Limits::default();
    let limits = Limits { host_memory_bytes: guest_memory_bytes(&limits), ..limits };
    let compiler = match &settings.compiler {
        None => Compiler::InProcess,
        Some(CompilerProgram { program, arguments }) => Compiler::Process {
            program: program.clone(),
            arguments: arguments.clone(),
            memory_bytes: COMPILE_MEMORY_BYTES,
            seconds: COMPILE_SECONDS,
        },
    };
    Ok(Host::new(HostConfig {
        limits,
        allocation: if settings.on_demand { Allocation::OnDemand } else { Allocation::Pooled },
        cache,
        compiler,
        allow_interpreters: settings.allow_interpreters,
    })?)
}
