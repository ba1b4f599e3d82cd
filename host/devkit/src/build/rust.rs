//! Builds plugins in Rust with cargo.

use super::shared::{Shared, Workspace, clean};
use super::{BuildOptions, Running};
use crate::DevkitError;
use crate::toolchain::{TARGET, has_std, says};
use clawhost_app::PluginFolder;
use clawhost_package::Language;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The linker that makes components. It ships with Rust, but is not the target's usual one.
const LINKER: &str = "target.wasm32-unknown-unknown.linker=\"wasm-component-ld\"";

fn no_tool(tool: &str, why: &str) -> DevkitError {
    DevkitError::NoTool { tool: tool.to_owned(), language: Language::Rust, why: why.to_owned() }
}

/// Builds a plugin. Returns what cargo made.
///
/// # Errors
/// cargo or the target is missing and cannot be added, the build fails, or it makes no component.
pub(super) fn build(plugin: &PluginFolder, options: &BuildOptions) -> Result<PathBuf, DevkitError> {
    have_target(options)?;
    let missing = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => no_tool("cargo", "install Rust from https://rustup.rs"),
        _ => super::failed(plugin, format!("cargo: {error}"), Vec::new()),
    };
    // Compiled libraries are shared between plugins; each has its own components.
    let shared = options.shared.as_ref().map(|folder| Shared::lock(folder.join("rust"))).transpose()?;
    let cargo = || {
        let mut command = Command::new("cargo");
        if let Some(shared) = &shared {
            command.env("CARGO_BUILD_BUILD_DIR", shared.folder());
        }
        command.current_dir(plugin.folder());
        command
    };
    if let (Some(shared), Some(workspace)) = (&shared, Workspace::of(plugin).map_err(missing)?) {
        shared.own(&workspace, |packages| clean(plugin, cargo(), packages))?;
    }
    let mut command = cargo();
    command.args(["build", "--release", "--target", TARGET, "--config", LINKER]);
    command.arg("--message-format=json-render-diagnostics");
    if ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"].iter().all(|name| std::env::var_os(name).is_none()) {
        command.env("CARGO_ENCODED_RUSTFLAGS", equal_everywhere());
    }
    let mut running = Running::start(&mut command, options).map_err(missing)?;
    // cargo names the real path, whatever links lead to it.
    let manifest = plugin.path("Cargo.toml");
    let manifest = manifest.canonicalize().unwrap_or(manifest);
    let mut made = None;
    while let Some(line) = running.line() {
        made = component(&line, &manifest).or(made);
    }
    running.finish(plugin)?;
    made.ok_or_else(|| {
        let how = "it made no component; Cargo.toml needs [lib] with crate-type = [\"cdylib\"]";
        super::failed(plugin, how.to_owned(), Vec::new())
    })
}

/// The component that a message of cargo names, if it is the one of this manifest.
fn component(message: &str, manifest: &Path) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let is_own =
        message.get("reason")? == "compiler-artifact" && Path::new(message.get("manifest_path")?.as_str()?) == manifest;
    let files = message.get("filenames")?.as_array()?;
    let wasm = files.iter().filter_map(|file| file.as_str()).find(|file| file.ends_with(".wasm"));
    wasm.filter(|_| is_own).map(PathBuf::from)
}

/// Fixed names for folders of this machine, so that equal sources give equal components everywhere. The plugin's own files need none: cargo
/// names them relative to its workspace. The flags are the same for all plugins, so that compiled libraries can be shared; they take the place
/// of `rustflags` in a plugin's own configuration of cargo. A character that no path has is between them.
fn equal_everywhere() -> String {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).map(|home| (home, "/cargo"));
    let sdk = match crate::own_sdk() {
        crate::Sdk::Folder(folder) => Some((folder, "/clawhost-sdk")),
        crate::Sdk::Version(_) => None,
    };
    let flag = |(folder, name): (PathBuf, &str)| format!("--remap-path-prefix={}={name}", folder.display());
    home.into_iter().chain(sdk).map(flag).collect::<Vec<_>>().join("\u{1f}")
}

/// Adds the target to the toolchain if it is missing.
fn have_target(options: &BuildOptions) -> Result<(), DevkitError> {
    let sysroot = says("rustc", &["--print", "sysroot"]);
    let sysroot = sysroot.ok_or_else(|| no_tool("rustc", "install Rust from https://rustup.rs"))?;
    if has_std(Path::new(&sysroot), TARGET) {
        return Ok(());
    }
    let mut command = Command::new("rustup");
    command.args(["target", "add", TARGET]);
    match super::run(&mut command, options) {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(no_tool(TARGET, &format!("`rustup target add {TARGET}` failed"))),
        Err(_) => {
            Err(no_tool(TARGET, &format!("install Rust from https://rustup.rs, then `rustup target add {TARGET}`")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_component_of_a_package_is_found_in_the_messages_of_cargo() {
        let message = |reason: &str, manifest: &str, file: &str| {
            format!(
                "{{\"reason\":\"{reason}\",\"manifest_path\":\"{manifest}\",\"filenames\":[\"/t/x.rlib\",\"{file}\"]}}"
            )
        };
        let check = |message: &str, expect: Option<&str>| {
            assert_eq!(component(message, Path::new("/p/Cargo.toml")), expect.map(PathBuf::from), "{message}");
        };
        check(&message("compiler-artifact", "/p/Cargo.toml", "/t/tower.wasm"), Some("/t/tower.wasm"));
        check(&message("compiler-artifact", "/p/reward/Cargo.toml", "/t/reward.wasm"), None);
        check(&message("compiler-message", "/p/Cargo.toml", "/t/tower.wasm"), None);
        check(&message("compiler-artifact", "/p/Cargo.toml", "/t/tower.d"), None);
        check("no message", None);
    }
}
