//! Commands for child processes of this program: they compile components, and try devices.

use crate::exit::Exit;
use clawhost_app::{CompilerProgram, ProbeProgram};
use clawhost_engine::serve_compiler;
use clawhost_model::device::answer_probe;
use std::io::Write as _;

/// The command that compiles a component.
pub(crate) const COMPILE: &str = "compile-component";
/// The command that tries a device.
pub(crate) const PROBE: &str = "probe-device";

/// This program as the compiler.
///
/// # Errors
/// The path of this program is unknown.
pub(crate) fn compiler() -> std::io::Result<CompilerProgram> {
    Ok(CompilerProgram { program: std::env::current_exe()?, arguments: vec![COMPILE.into()] })
}

/// This program as the one that tries devices.
///
/// # Errors
/// The path of this program is unknown.
pub(crate) fn probe_program() -> std::io::Result<ProbeProgram> {
    Ok(ProbeProgram { program: std::env::current_exe()?, arguments: vec![PROBE.into()] })
}

/// `clawhost compile-component`, with a request and a component on standard input.
pub(crate) fn compile() -> std::process::ExitCode {
    use std::io::IsTerminal as _;
    let input = std::io::stdin().lock();
    if input.is_terminal() {
        return Exit::Usage.into();
    }
    serve_compiler(input, std::io::stdout().lock(), std::io::stderr().lock()).into()
}

/// `clawhost probe-device WHAT`. A driver may end the process.
pub(crate) fn probe(what: &str) -> anyhow::Result<Exit> {
    writeln!(std::io::stdout(), "{}", answer_probe(what, clawhost_app::drivers()))?;
    Ok(Exit::Ok)
}
