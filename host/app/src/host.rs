//! The host of plugins, as every operation sets it up.

use crate::AppError;
use clawhost_core::Limits;
use clawhost_engine::{
    Allocation, COMPILE_MEMORY_BYTES, COMPILE_SECONDS, CacheKey, Compiler, Host, HostConfig, guest_memory_bytes,
};
use std::ffi::OsString;
use std::path::PathBuf;

/// A program that compiles components for this one, within limits: it calls [`clawhost_engine::serve_compiler`] when it is started
/// with these arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerProgram {
    /// The program; this one, as a rule.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// How plugins are hosted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// Instantiate without a reserved pool: for machines with little address space.
    pub on_demand: bool,
    /// Load components that carry an interpreter (Python, JavaScript).
    pub allow_interpreters: bool,
    /// Who compiles; none: this process, without limits, which suits programs that trust their plugins.
    pub compiler: Option<CompilerProgram>,
}

/// A host. What it has not compiled before is compiled by a process of its own, where one is set.
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
