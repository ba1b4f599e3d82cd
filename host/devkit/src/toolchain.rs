//! Checks of the toolchains that build plugins, in Rust and in other languages.

use crate::build::c;
use crate::build::compiler::{Compiler, JAVASCRIPT, PYTHON};
use crate::doctor::Finding;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The target of plugins.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";
/// The target of plugins that use the clock and the output of the standard library.
const STD_TARGET: &str = "wasm32-wasip2";

/// The first line of a program's output about its version. `None`: there is no such program.
pub(crate) fn says(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_owned();
    output.status.success().then_some(text)
}

pub(crate) fn has_std(sysroot: &Path, target: &str) -> bool {
    let folder = sysroot.join("lib/rustlib").join(target).join("lib");
    std::fs::read_dir(folder)
        .is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-")))
}

/// The linker that creates components. It ships with Rust, outside of the path.
pub(crate) fn component_linkers(sysroot: &Path) -> impl Iterator<Item = PathBuf> {
    let hosts = std::fs::read_dir(sysroot.join("lib/rustlib")).into_iter().flatten().flatten();
    hosts.map(|host| host.path().join("bin/wasm-component-ld")).filter(|path| path.exists())
}

/// How to install the standard library of a target. Rust packages of Linux distributions have no `rustup`.
fn target_remedy(target: &str) -> String {
    let add = format!("rustup target add {target}");
    match says("rustup", &["--version"]) {
        Some(_) => add,
        None => format!("install Rust from https://rustup.rs, then `{add}`"),
    }
}

/// The C compiler with which Rust links. Plugins need it too, because procedural macros and build scripts run on this machine.
fn c_compiler() -> Finding {
    const TOPIC: &str = "c compiler";
    let install = match std::env::consts::OS {
        "macos" => "install the command line tools of Xcode",
        "windows" => "install the C++ build tools of Visual Studio",
        _ => "install gcc or clang with your system's package manager (Debian: apt-get install gcc libc6-dev)",
    };
    // On Windows the linker is not on the path; Rust searches for it.
    if cfg!(windows) {
        return Finding::good(TOPIC, "Rust looks for the one of Visual Studio");
    }
    match says("cc", &["--version"]) {
        Some(version) => Finding::good(TOPIC, version),
        None => {
            let costs = "neither plugins in Rust nor clawhost itself can be built (running them needs none)";
            Finding::missing(TOPIC, "no cc on the path", costs, install)
        }
    }
}

pub(crate) fn rust() -> Vec<Finding> {
    [from_rustc(), vec![c_compiler()]].concat()
}

fn from_rustc() -> Vec<Finding> {
    let Some(version) = says("rustc", &["--version"]) else {
        let costs = "no plugins can be built in Rust (running them needs none)";
        return vec![Finding::missing("rust", "no rustc on the path", costs, "install it from https://rustup.rs")];
    };
    let mut findings = vec![Finding::good("rust", version)];
    let sysroot = says("rustc", &["--print", "sysroot"]).map(PathBuf::from).unwrap_or_default();
    findings.push(if has_std(&sysroot, TARGET) {
        Finding::good("wasm target", format!("{TARGET} is installed"))
    } else {
        let (says, costs) = (format!("{TARGET} is not installed"), "no plugins can be built in Rust");
        Finding::missing("wasm target", says, costs, target_remedy(TARGET))
    });
    findings.push(if component_linkers(&sysroot).next().is_some() {
        Finding::good("linker", "wasm-component-ld ships with this Rust")
    } else {
        let costs = "what is built is a core module, not a component";
        let remedy = "use rustup's toolchain, or `cargo install wasm-component-ld`";
        Finding::missing("linker", "no wasm-component-ld beside rustc", costs, remedy)
    });
    findings.push(if has_std(&sysroot, STD_TARGET) {
        Finding::good("std target", format!("{STD_TARGET} is installed"))
    } else {
        let costs = "plugins cannot use println! or Instant (most need neither)";
        let says = format!("{STD_TARGET} is not installed");
        Finding::missing("std target", says, costs, target_remedy(STD_TARGET))
    });
    findings
}

pub(crate) fn other_languages() -> Vec<Finding> {
    vec![interpreted("python", &PYTHON), interpreted("javascript", &JAVASCRIPT), of_c()]
}

/// A compiler that the first build gets, if it is missing.
fn interpreted(topic: &str, compiler: &Compiler) -> Finding {
    match compiler.find(None) {
        Some(program) => Finding::good(topic, program.display().to_string()),
        None => Finding::missing(
            topic,
            format!("no {} on the path", compiler.program),
            &format!("the first build of a plugin in {} gets it", compiler.language),
            compiler.get,
        ),
    }
}

fn of_c() -> Finding {
    const COSTS: &str = "no plugins in C can be built";
    match (c::compiler(), c::has_libc()) {
        (Some(compiler), true) => Finding::good("c", format!("{compiler} and wasi-libc")),
        (None, _) => Finding::missing("c", "no clang on the path", COSTS, c::GET),
        (_, false) => Finding::missing("c", "clang, but no wasi-libc", COSTS, c::GET),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn a_missing_tool_is_reported_with_a_remedy() {
        let nowhere =
            Compiler { program: "no-such-program-4711", variable: "NO_SUCH_PROGRAM_4711", get: "write one", ..PYTHON };
        let absent = interpreted("nonsense", &nowhere);
        assert_eq!(absent.state, State::Missing);
        assert_eq!(absent.says, "no no-such-program-4711 on the path");
        assert_eq!(absent.remedy.as_deref(), Some("write one"));
        assert!(!has_std(Path::new("/nowhere"), TARGET) && component_linkers(Path::new("/nowhere")).next().is_none());
    }
}
