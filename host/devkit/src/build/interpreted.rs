//! Builds plugins in Python and JavaScript: the sources, the SDK and the interpreter become one component.

use super::{BuildOptions, Running, compiler, embedded};
use crate::DevkitError;
use clawhost_app::PluginFolder;
use clawhost_package::Kind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the sources.
const SOURCES: &str = "src";
/// Most files of a plugin: more is a mistake, as a folder of installed packages.
const MOST_FILES: usize = 10_000;
/// Deepest folder of the sources.
const MOST_DEPTH: usize = 32;

/// The module of an interface, which the host calls: the SDK has one for each of these kinds.
fn interface(plugin: &PluginFolder) -> Result<&'static str, DevkitError> {
    match plugin.manifest().plugin.kind {
        Kind::Environment => Ok("environment"),
        Kind::Reward => Ok("reward"),
        Kind::Reflector => Ok("reflector"),
        Kind::Router => {
            let how = "the SDK of this language has no routers; name a `command` in claw.toml that builds it";
            Err(super::failed(plugin, how.to_owned(), Vec::new()))
        }
    }
}

/// A folder for the build, with the sources of the plugin and the WIT.
///
/// Copies, because the compilers pack the folder in which a program lies.
fn prepared(plugin: &PluginFolder, own: &[&str]) -> Result<PathBuf, DevkitError> {
    let manifest = plugin.manifest();
    let folder = plugin.path("build").join(manifest.build.language.unwrap_or_default().name());
    let unwritable =
        |error: std::io::Error| DevkitError::Unwritable { path: folder.display().to_string(), why: error.to_string() };
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(unwritable(error)),
        _ => {}
    }
    let app = folder.join("app");
    std::fs::create_dir_all(&app).map_err(unwritable)?;
    let sources = plugin.path(SOURCES);
    let mut copied = 0;
    copy(plugin, &sources, &app, (0, &mut copied))?;
    for name in own {
        if app.join(name).exists() {
            let how = format!("{SOURCES}/{name} has a name of the SDK; rename it");
            return Err(super::failed(plugin, how, Vec::new()));
        }
    }
    embedded::write_wit(manifest.plugin.kind, &manifest.grants, &folder.join("wit"))?;
    Ok(folder)
}

/// Copies files and folders. Links are followed only if they stay inside the plugin's folder, as everywhere.
fn copy(
    plugin: &PluginFolder,
    from: &Path,
    to: &Path,
    (depth, copied): (usize, &mut usize),
) -> Result<(), DevkitError> {
    let unreadable = |error: std::io::Error| super::failed(plugin, format!("{}: {error}", from.display()), Vec::new());
    if depth > MOST_DEPTH {
        return Err(super::failed(plugin, format!("{}: too deep", from.display()), Vec::new()));
    }
    for entry in std::fs::read_dir(from).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let (kind, name) = (entry.file_type().map_err(unreadable)?, entry.file_name());
        // What interpreters and editors leave.
        if name == "__pycache__" || name.to_string_lossy().starts_with('.') {
            continue;
        }
        *copied += 1;
        if *copied > MOST_FILES {
            let how = format!("{} has more than {MOST_FILES} files", from.display());
            return Err(super::failed(plugin, how, Vec::new()));
        }
        let (from, to) = (entry.path(), to.join(&name));
        if kind.is_symlink() {
            let how = format!("{} is a link; sources are files and folders", from.display());
            return Err(super::failed(plugin, how, Vec::new()));
        }
        if kind.is_dir() {
            std::fs::create_dir_all(&to).map_err(unreadable)?;
            copy(plugin, &from, &to, (depth + 1, copied))?;
        } else {
            std::fs::copy(&from, &to).map_err(unreadable)?;
        }
    }
    Ok(())
}

/// Runs a compiler.
fn compile(plugin: &PluginFolder, mut command: Command, options: &BuildOptions) -> Result<(), DevkitError> {
    let started = Running::start(&mut command, options);
    let mut running = started.map_err(|error| super::failed(plugin, format!("the compiler: {error}"), Vec::new()))?;
    while running.line().is_some() {}
    running.finish(plugin)
}

/// Builds a plugin in Python with componentize-py. Returns what it made.
///
/// # Errors
/// The compiler is missing and cannot be got, or the build fails.
pub(super) fn python(plugin: &PluginFolder, options: &BuildOptions) -> Result<PathBuf, DevkitError> {
    let interface = interface(plugin)?;
    let compiler = compiler::PYTHON.get(options)?;
    let folder = prepared(plugin, &["clawhost", "environment.py", "reward.py", "reflector.py", "wit_world"])?;
    embedded::write(embedded::PYTHON, &folder.join("app"))?;
    // An empty environment: installed packages stay out.
    let none = folder.join("none");
    std::fs::create_dir_all(none.join("lib/python3/site-packages"))
        .map_err(|error| DevkitError::Unwritable { path: none.display().to_string(), why: error.to_string() })?;
    let made = folder.join("plugin.wasm");
    let mut command = Command::new(compiler);
    command.current_dir(&folder).env("VIRTUAL_ENV", std::path::absolute(&none).unwrap_or(none));
    command.args(["--quiet", "--wit-path", "wit", "--world", "plugin", "componentize"]);
    command.args(["--python-path", "app", "--output", "plugin.wasm", interface]);
    compile(plugin, command, options)?;
    Ok(made)
}

/// Builds a plugin in JavaScript with componentize-qjs. Returns what it made.
///
/// # Errors
/// The compiler is missing and cannot be got, or the build fails.
pub(super) fn javascript(plugin: &PluginFolder, options: &BuildOptions) -> Result<PathBuf, DevkitError> {
    let interface = interface(plugin)?;
    let compiler = compiler::JAVASCRIPT.get(options)?;
    let folder = prepared(plugin, &["environment.js", "reward.js", "reflector.js"])?;
    let app = folder.join("app");
    for (path, content) in embedded::JAVASCRIPT {
        // The package lies where programs in JavaScript look for packages.
        let place = if path.contains('/') { app.join("node_modules").join(path) } else { app.join(path) };
        crate::write::replace(&place, content)?;
    }
    let made = folder.join("plugin.wasm");
    let mut command = Command::new(compiler);
    command.current_dir(&app).args(["--wit", "../wit", "--world", "plugin", "--module-root", "."]);
    command.arg("--js").arg(format!("{interface}.js")).args(["--output", "../plugin.wasm"]);
    // --stub-wasi: no WASI; what would need it ends the plugin. --sync: the host calls plugins synchronously. --opt-size and --minify: a third
    // smaller, somewhat slower.
    command.args(["--stub-wasi", "--sync", "--opt-size", "--minify"]);
    compile(plugin, command, options)?;
    match made.exists() {
        // It reports a failure, and exits with 0.
        true => Ok(made),
        false => Err(super::failed(plugin, "the compiler made no component".to_owned(), Vec::new())),
    }
}
