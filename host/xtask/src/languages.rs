//! Builds the examples in other languages into `target/guests/languages`, if their toolchains are installed.
//!
//! A missing toolchain is not an error: the reason is written to a file `NAME.skipped`, and the test of the example prints it.
//! `cargo xtask languages` installs the toolchains that need no root into `target/toolchains`, and then builds.

use crate::{root, say, target};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// The compilers for interpreted languages. They are pinned, because their output changes between versions.
const COMPONENTIZE_PY: &str = "componentize-py==0.25.1";
const COMPONENTIZE_QJS: &str = "componentize-qjs@0.4.5";

/// An example and its toolchain.
struct Example {
    /// Folder under `examples`.
    folder: &'static str,
    /// Component under `target/guests/languages`.
    component: &'static str,
    /// The tool, and the variable from which `build.sh` reads it; or why there is none.
    tool: Result<(&'static str, PathBuf), String>,
}

fn runs(program: &Path) -> bool {
    let mut command = Command::new(program);
    // Not every tool supports `--version`.
    command.arg("--help").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The first of these programs that can be run.
fn first(variable: &str, candidates: &[PathBuf]) -> Option<PathBuf> {
    let chosen = std::env::var_os(variable).map(PathBuf::from);
    chosen.into_iter().chain(candidates.iter().cloned()).find(|program| runs(program))
}

fn python(toolchains: &Path) -> Result<(&'static str, PathBuf), String> {
    let candidates = ["componentize-py".into(), toolchains.join("python/bin/componentize-py")];
    let found = first("COMPONENTIZE_PY", &candidates);
    found
        .map(|tool| ("COMPONENTIZE_PY", tool))
        .ok_or_else(|| format!("no componentize-py: pip install {COMPONENTIZE_PY}"))
}

fn javascript(toolchains: &Path) -> Result<(&'static str, PathBuf), String> {
    let candidates = ["componentize-qjs".into(), toolchains.join("javascript/node_modules/.bin/componentize-qjs")];
    let found = first("COMPONENTIZE_QJS", &candidates);
    found
        .map(|tool| ("COMPONENTIZE_QJS", tool))
        .ok_or_else(|| format!("no componentize-qjs: npm install {COMPONENTIZE_QJS}"))
}

fn c() -> Result<(&'static str, PathBuf), String> {
    let get = "apt-get install --no-install-recommends clang-14 wasi-libc   # Debian, as root";
    let clang = first("CLANG", &["clang-14".into(), "clang".into()]).ok_or_else(|| format!("no clang: {get}"))?;
    let libc = ["/usr/include/wasm32-wasi/stdlib.h", "/usr/share/wasi-sysroot/include/stdlib.h"];
    if !libc.iter().any(|header| Path::new(header).exists()) {
        return Err(format!("clang, but no wasi-libc: {get}"));
    }
    Ok(("CLANG", clang))
}

fn examples(toolchains: &Path) -> [Example; 3] {
    [
        Example { folder: "python-quiz", component: "python_quiz", tool: python(toolchains) },
        Example { folder: "c-last-answer", component: "c_last_answer", tool: c() },
        Example { folder: "js-brevity", component: "js_brevity", tool: javascript(toolchains) },
    ]
}

/// The time of the newest file in these folders.
fn newest(folders: &[PathBuf]) -> Option<SystemTime> {
    let mut waiting = folders.to_vec();
    let mut newest = None;
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(std::fs::read_dir(&path).ok()?.flatten().map(|entry| entry.path()));
        } else {
            newest = newest.max(path.metadata().and_then(|facts| facts.modified()).ok());
        }
    }
    newest
}

/// Builds every example whose toolchain is installed.
pub(crate) fn build(guests: &Path) -> Result<()> {
    let target = target()?;
    let folder = guests.join("languages");
    std::fs::create_dir_all(&folder)?;
    for Example { folder: name, component, tool } in examples(&target.join("toolchains")) {
        let output = folder.join(format!("{component}.wasm"));
        let skipped = folder.join(format!("{component}.skipped"));
        let (variable, tool) = match tool {
            Ok(tool) => tool,
            Err(why) => {
                say(&format!("examples/{name} is not built: {why}"));
                std::fs::remove_file(&output).ok();
                std::fs::write(&skipped, why)?;
                continue;
            }
        };
        std::fs::remove_file(&skipped).ok();
        let source = root().join("examples").join(name);
        let (wit, bindings) = (root().join("wit"), root().join("sdk/c"));
        let made = output.metadata().and_then(|facts| facts.modified()).ok();
        if made.is_some() && made > newest(&[source.clone(), wit.clone(), bindings.clone()]) {
            continue;
        }
        say(&format!("building examples/{name}"));
        let mut command = Command::new("bash");
        command.arg(source.join("build.sh")).arg(&wit).arg(&output).arg(target.join("language-build").join(name));
        if name.starts_with("c-") {
            command.arg(&bindings);
        }
        let done = command.env(variable, &tool).stdout(Stdio::null()).status().context("bash cannot be started")?;
        if !done.success() {
            bail!("examples/{name}/build.sh failed ({done})");
        }
    }
    Ok(())
}

/// Installs the compilers that need no root, then builds.
pub(crate) fn main() -> Result<()> {
    let target = target()?;
    let toolchains = target.join("toolchains");
    if python(&toolchains).is_err() {
        let folder = toolchains.join("python");
        get("python", Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
        get("python", Command::new(folder.join("bin/pip")).args(["install", "--quiet", COMPONENTIZE_PY]));
    }
    if javascript(&toolchains).is_err() {
        let folder = toolchains.join("javascript");
        std::fs::create_dir_all(&folder)?;
        let npm = ["install", "--silent", "--no-fund", "--no-audit", "--prefix"];
        get("javascript", Command::new("npm").args(npm).arg(&folder).arg(COMPONENTIZE_QJS));
    }
    build(&crate::guests::build(crate::guests::Which::All)?)?;
    if python(&toolchains).is_ok() { crate::reasoning_gym::small() } else { Ok(()) }
}

/// The compiler of Python.
pub(crate) fn componentize_py(target: &Path) -> Result<PathBuf> {
    python(&target.join("toolchains")).map(|(_, tool)| tool).map_err(anyhow::Error::msg)
}

/// Runs a step. A failure is printed, and the example is skipped.
fn get(what: &str, command: &mut Command) {
    say(&format!("getting the compiler for {what}"));
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        Ok(status) => say(&format!("{what}: {command:?} failed ({status}); its example will be skipped")),
        Err(error) => say(&format!("{what}: {command:?}: {error}; its example will be skipped")),
    }
}
