//! Builds plugins in C: with a clang and a libc for WebAssembly, and the linker that ships with Rust.

use super::{BuildOptions, Running, embedded};
use crate::DevkitError;
use crate::toolchain::{component_linkers, says};
use clawhost_app::PluginFolder;
use clawhost_package::{Kind, Language};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An environment variable that names another compiler.
const VARIABLE: &str = "CLANG";
/// Compilers, the first that is there is taken.
const COMPILERS: [&str; 2] = ["clang", "clang-14"];
/// How the compiler and the libc are got.
pub(crate) const GET: &str =
    "install clang and wasi-libc with your system's package manager (Debian: apt-get install clang-14 wasi-libc)";
/// Where a libc for WebAssembly has its headers.
const HEADERS: [&str; 2] = ["/usr/include/wasm32-wasi/stdlib.h", "/usr/share/wasi-sysroot/include/stdlib.h"];
/// The flags of every source. A section for each function: what is not used is left out.
const FLAGS: [&str; 5] = ["--target=wasm32-wasi", "-std=c11", "-Oz", "-ffunction-sections", "-fdata-sections"];

fn no_tool(tool: &str, why: &str) -> DevkitError {
    DevkitError::NoTool { tool: tool.to_owned(), language: Language::C, why: why.to_owned() }
}

/// The compiler.
pub(crate) fn compiler() -> Option<String> {
    let named = std::env::var(VARIABLE).ok();
    let candidates = named.into_iter().chain(COMPILERS.map(str::to_owned));
    candidates.into_iter().find(|program| says(program, &["--version"]).is_some())
}

/// Whether there is a libc for WebAssembly.
pub(crate) fn has_libc() -> bool {
    HEADERS.iter().any(|header| Path::new(header).exists())
}

/// Builds a plugin. Returns what the linker made.
///
/// # Errors
/// A tool is missing, or the build fails.
pub(super) fn build(plugin: &PluginFolder, options: &BuildOptions) -> Result<PathBuf, DevkitError> {
    let interface = match plugin.manifest().plugin.kind {
        Kind::Environment => "environment",
        Kind::Reward => "reward",
        Kind::Reflector | Kind::Router => {
            let how = "the SDK of C has environments and rewards; name a `command` in claw.toml that builds it";
            return Err(super::failed(plugin, how.to_owned(), Vec::new()));
        }
    };
    let clang = compiler().ok_or_else(|| no_tool("clang", GET))?;
    if !has_libc() {
        return Err(no_tool("wasi-libc", GET));
    }
    let sysroot = says("rustc", &["--print", "sysroot"]).map(PathBuf::from);
    let linker = sysroot.and_then(|sysroot| component_linkers(&sysroot).next());
    let linker = linker
        .ok_or_else(|| no_tool("wasm-component-ld", "install Rust from https://rustup.rs: its linker is used"))?;
    let folder = plugin.path("build").join(Language::C.name());
    let layer = folder.join("sdk");
    embedded::write(embedded::C, &layer)?;
    let shared = ["clawhost.c".to_owned(), format!("clawhost_{interface}.c"), format!("{interface}_plugin.c")];
    let mut objects = Vec::new();
    for name in &shared {
        let object = layer.join(name).with_extension("o");
        compile(plugin, &clang, (&layer.join(name), &object), &[], options)?;
        objects.push(object);
    }
    for source in sources(plugin)? {
        let object = folder.join(source.file_name().unwrap_or_default()).with_extension("o");
        let warnings = ["-Wall".into(), "-Wextra".into(), "-I".into(), layer.clone()];
        compile(plugin, &clang, (&source, &object), &warnings, options)?;
        objects.push(object);
    }
    let made = folder.join("plugin.wasm");
    let mut command = Command::new(&clang);
    // reactor: a library without `main`. -nodefaultlibs: without clang's own runtime library, which is another package.
    command.args(FLAGS).args(["-mexec-model=reactor", "-nodefaultlibs"]);
    command.arg(format!("-fuse-ld={}", linker.display()));
    command.args(&objects).arg(layer.join(format!("{interface}_plugin_component_type.o"))).arg("-lc");
    // Should an import of WASI creep in, this fails here rather than in the host.
    command.arg("-Wl,--gc-sections,--strip-all,--wasi-adapter,none").arg("-o").arg(&made);
    // It calls the linker of modules, which lies beside it.
    let beside = linker.parent().unwrap_or(Path::new(".")).join("gcc-ld");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::env::join_paths(std::iter::once(beside).chain(std::env::split_paths(&path)));
    command.env("PATH", paths.unwrap_or(path));
    finish(plugin, command, options)?;
    Ok(made)
}

/// The plugin's own sources, in the order of their names.
fn sources(plugin: &PluginFolder) -> Result<Vec<PathBuf>, DevkitError> {
    let folder = plugin.path("src");
    let unreadable =
        |error: std::io::Error| super::failed(plugin, format!("{}: {error}", folder.display()), Vec::new());
    let entries = std::fs::read_dir(&folder).map_err(unreadable)?.flatten().map(|entry| entry.path());
    let mut sources: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "c")).collect();
    sources.sort();
    match sources.is_empty() {
        true => Err(super::failed(plugin, format!("{} has no file that ends with .c", folder.display()), Vec::new())),
        false => Ok(sources),
    }
}

fn compile(
    plugin: &PluginFolder,
    clang: &str,
    (source, object): (&Path, &Path),
    flags: &[PathBuf],
    options: &BuildOptions,
) -> Result<(), DevkitError> {
    let mut command = Command::new(clang);
    command.args(FLAGS).args(flags).arg("-c").arg(source).arg("-o").arg(object);
    finish(plugin, command, options)
}

fn finish(plugin: &PluginFolder, mut command: Command, options: &BuildOptions) -> Result<(), DevkitError> {
    let mut running = Running::start(&mut command, options)
        .map_err(|error| super::failed(plugin, format!("clang: {error}"), Vec::new()))?;
    while running.line().is_some() {}
    running.finish(plugin)
}
