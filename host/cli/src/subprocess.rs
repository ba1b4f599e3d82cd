//! Commands for child processes of this program: they compile components, try devices, and interpret the texts of model folders. They end
//! with their parent.

use crate::exit::Exit;
use clawhost_app::ChildProgram;
use clawhost_engine::serve_compiler;
use clawhost_model::device::answer_probe;
use clawhost_model::tokens::serve_texts;
use std::io::Write as _;

/// The command that compiles a component.
pub(crate) const COMPILE: &str = "compile-component";
/// The command that tries a device.
pub(crate) const PROBE: &str = "probe-device";

/// The command that interprets the texts of a model folder.
pub(crate) const TEXTS: &str = "interpret-texts";

/// This program as a child that compiles components, tries devices, or interprets texts.
///
/// # Errors
/// The path of this program is unknown.
pub(crate) fn child(command: &str) -> std::io::Result<ChildProgram> {
    Ok(ChildProgram { program: std::env::current_exe()?, arguments: vec![command.into()] })
}

/// `clawhost compile-component`, with a request and a component on standard input.
pub(crate) fn compile() -> std::process::ExitCode {
    use std::io::IsTerminal as _;
    let input = std::io::stdin().lock();
    if input.is_terminal() {
        return Exit::Usage.into();
    }
    clawhost_child::end_with_parent();
    serve_compiler(input, std::io::stdout().lock(), std::io::stderr().lock()).into()
}

/// `clawhost probe-device WHAT`. A driver may end the process.
pub(crate) fn probe(what: &str) -> anyhow::Result<Exit> {
    clawhost_child::end_with_parent();
    writeln!(std::io::stdout(), "{}", answer_probe(what, clawhost_app::drivers()))?;
    Ok(Exit::Ok)
}

/// `clawhost interpret-texts`, with requests on standard input.
pub(crate) fn texts() -> std::process::ExitCode {
    use std::io::IsTerminal as _;
    let input = std::io::stdin().lock();
    if input.is_terminal() {
        return Exit::Usage.into();
    }
    clawhost_child::end_with_parent();
    serve_texts(input, std::io::stdout().lock()).into()
}
