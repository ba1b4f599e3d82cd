//! Creates the host of plugins for all operations.

use crate::AppError;
use crate::modules::{ComponentHost, Modules};
use clawhost_child::ChildProgram;
use clawhost_core::Limits;
use clawhost_engine::{
    Allocation, COMPILE_MEMORY_BYTES, COMPILE_SECONDS, CacheKey, Compiler, Host, HostConfig,
    INTERPRETER_COMPILE_SECONDS, guest_memory_bytes,
};
use clawhost_registry::Location;
use std::path::{Path, PathBuf};

/// The settings of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// Instantiate without a reserved pool, for machines with little address space.
    pub on_demand: bool,
    /// Load components that contain an interpreter (Python, JavaScript).
    pub allow_interpreters: bool,
    /// A program that compiles components within limits: it calls [`clawhost_engine::serve_compiler`]. `None`: this process compiles,
    /// without limits; only for trusted plugins.
    pub compiler: Option<ChildProgram>,
    /// Where modules come from that were not pulled yet. `None`: the folder `registry` of the data folder.
    pub registry: Option<Location>,
}

/// Creates a host for a data folder. Uncached components are compiled in a separate process, if one is set.
pub(crate) fn host(
    settings: &HostSettings,
    data: &Path,
    cache: Option<(PathBuf, CacheKey)>,
) -> Result<ComponentHost, AppError> {
    let limits = Limits::default();
    let limits = Limits { host_memory_bytes: guest_memory_bytes(&limits), ..limits };
    let seconds = if settings.allow_interpreters { INTERPRETER_COMPILE_SECONDS } else { COMPILE_SECONDS };
    let compiler = match &settings.compiler {
        None => Compiler::InProcess,
        Some(program) => Compiler::Process { program: program.clone(), memory_bytes: COMPILE_MEMORY_BYTES, seconds },
    };
    let engine = Host::new(HostConfig {
        limits,
        allocation: if settings.on_demand { Allocation::OnDemand } else { Allocation::Pooled },
        cache,
        compiler,
        allow_interpreters: settings.allow_interpreters,
    })?;
    Ok(ComponentHost::new(engine, Modules::new(data, settings.registry.as_ref())))
}
