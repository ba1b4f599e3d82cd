//! Converts engine errors to failures: the only place that knows wasmtime's error messages.
//!
//! `tests/hostile` has one guest per row of [`classify`].

use crate::call::fuel_used;
use crate::state::{LimitHit, State};
use clawhost_core::{CallBudget, Failure, FailureKind, PluginIdentity, TrapReport, code};
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, WasmBacktrace};

/// Most guest frames in a report.
const FRAMES: usize = 16;

/// Most log lines in a report: about as many as an interpreter's traceback.
const LOG_LINES: usize = 12;

/// wasmtime's message when a value exceeds the transfer budget; its error type is private.
const TRANSFER_EXHAUSTED: &str = "fuel allocated for hostcalls has been exhausted";

/// wasmtime's message when a component has more core instances, memories or tables than allowed.
const COUNT_EXCEEDED: &str = "count too high at";

/// Kind, code and cause of an engine error.
pub(crate) fn classify(error: &wasmtime::Error) -> (FailureKind, &'static str, String) {
    use FailureKind::{Host, Limit, Trap as Trapped};
    if let Some(hit) = error.downcast_ref::<LimitHit>() {
        let kind = if [code::HOST_MEMORY, code::JOURNAL].contains(&hit.code) { Host } else { Limit };
        return (kind, hit.code, hit.message.clone());
    }
    if let Some(exit) = error.downcast_ref::<wasmtime_wasi::I32Exit>() {
        return (Trapped, code::EXIT, format!("called exit({}); an environment ends by its status", exit.0));
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return match trap {
            Trap::OutOfFuel => (Limit, code::FUEL, "used up its fuel: too much computing in one call".into()),
            Trap::StackOverflow => (Limit, code::STACK, "recursed too deeply: the stack is used up".into()),
            Trap::Interrupt => (Limit, code::BUSY, "kept a processor busy for too long".into()),
            Trap::UnreachableCodeReached => {
                (Trapped, code::UNREACHABLE, "stopped at `unreachable`: a panic or an abort".into())
            }
            other => (Trapped, code::TRAP, other.to_string()),
        };
    }
    if let Some(table) = error.downcast_ref::<ResourceTableError>() {
        return match table {
            ResourceTableError::Full => (Limit, code::HANDLES, "holds too many host resources".into()),
            other => (Trapped, code::TRAP, other.to_string()),
        };
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return (Host, code::HOST_MEMORY, format!("no place left for another instance: {error}"));
    }
    if error.chain().any(|cause| cause.to_string().contains(TRANSFER_EXHAUSTED)) {
        return (Limit, code::TRANSFER, "gave a value larger than may cross the boundary".into());
    }
    let cause = error.root_cause().to_string();
    if cause.contains(COUNT_EXCEEDED) {
        return (Limit, code::INSTANCES, format!("holds too many core instances, memories or tables: {cause}"));
    }
    (Trapped, code::TRAP, cause)
}

/// The failure with its trap report.
pub(crate) fn from_error(store: &Store<State>, plugin: &PluginIdentity, error: &wasmtime::Error) -> Failure {
    let (kind, code, cause) = classify(error);
    let state = store.data();
    let mut log = state.log();
    // A stream may end without a line end when a guest dies.
    log.finish_lines();
    let said = log.last_error().map(str::to_owned);
    let last_lines = log.last(LOG_LINES);
    drop(log);
    let mut message = format!("{} {} in `{}`: {cause}", plugin.name, plugin.digest.short(), state.call.export);
    if let Some(line) = &said {
        message.push_str("; it said: ");
        message.push_str(line);
    }
    let frames = error.downcast_ref::<WasmBacktrace>().map_or_else(Vec::new, |trace| {
        let name = |frame: &wasmtime::FrameInfo| {
            frame.func_name().map_or_else(|| format!("function {}", frame.func_index()), demangled)
        };
        trace.frames().iter().take(FRAMES).map(name).collect()
    });
    let report = TrapReport {
        cause,
        plugin: format!("{} {} ({})", plugin.name, plugin.version, plugin.digest),
        export: state.call.export.to_owned(),
        last_error_line: said,
        log: last_lines,
        frames,
        host_calls: state.recent.iter().cloned().collect(),
        budget: CallBudget {
            fuel_limit: state.call.fuel,
            fuel_used: fuel_used(store),
            memory_bytes: state.memory.held() as u64,
            host_calls: state.call.host_calls,
        },
    };
    Failure { report: Some(Box::new(report)), ..Failure::new(kind, code, message) }
}

/// A readable function name, with hidden characters escaped.
fn demangled(name: &str) -> String {
    let name = format!("{:#}", rustc_demangle::demangle(name));
    clawhost_core::escaped(&name, 200)
}

/// The plugin returned an error.
pub(crate) fn plugin_error(plugin: &PluginIdentity, export: &str, case: &str, text: &str) -> Failure {
    let text = clawhost_core::escaped(text, 2000);
    let message = format!("{} {} answered `{export}` with {case}: {text}", plugin.name, plugin.digest.short());
    Failure::new(FailureKind::Plugin, code::PLUGIN_ERROR, message)
}

/// A value that the boundary rejects.
pub(crate) fn invalid(plugin: &PluginIdentity, export: &str, code: &str, what: &str) -> Failure {
    let message = format!("{} {} gave `{export}` a value that is refused: {what}", plugin.name, plugin.digest.short());
    Failure::new(FailureKind::Invalid, code, message)
}

/// The operator's budget is exhausted.
pub(crate) fn budget(spent: &str) -> Failure {
    Failure::new(FailureKind::Llm, code::BUDGET, format!("the budget is spent: {spent}"))
}

/// A defect of the host.
pub(crate) fn host(what: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Host, code::HOST, what.to_string())
}
