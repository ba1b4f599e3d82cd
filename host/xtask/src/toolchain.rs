//! Finds a toolchain that can build guests. Installs at most a rustup target.

use crate::say;
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The target of all guests. A component for it imports only the interfaces of its world.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// Time limit of `rustup target add`. It takes seconds with a fast connection, and should fail soon without one.
const RUSTUP_PATIENCE: Duration = Duration::from_secs(120);

/// The way in which guests are built on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// With the standard library of the active toolchain for the target.
    Installed,
    /// With a Linux distribution's rustc, which builds the standard library from sources.
    Distribution { rustc: PathBuf },
}

const NOTHING: &str = "no toolchain here can build WebAssembly guests. Run one of these and try again:

  rustup target add wasm32-unknown-unknown
  apt-get install --no-install-recommends rustc-web libstd-rust-web-dev rust-web-src   # Debian, as root";

fn output(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = command.stderr(Stdio::null()).output().with_context(|| format!("{shown} cannot be started"))?;
    if !output.status.success() {
        bail!("{shown} failed ({})", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The compiler that cargo uses.
fn rustc() -> PathBuf {
    std::env::var_os("RUSTC").map_or_else(|| "rustc".into(), PathBuf::from)
}

/// The folder of a compiler's libraries and tools (its sysroot).
pub(crate) fn sysroot() -> Result<PathBuf> {
    Ok(output(Command::new(rustc()).args(["--print", "sysroot"]).current_dir(crate::root()))?.into())
}

/// A field of the compiler's verbose version, as in `host: x86_64-unknown-linux-gnu`.
fn described(name: &str) -> Result<String> {
    let text = output(Command::new(rustc()).arg("-vV").current_dir(crate::root()))?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    Ok(value.with_context(|| format!("rustc names no {name}"))?.to_owned())
}

/// The commit from which the compiler was built. The source paths in a precompiled standard library contain it.
pub(crate) fn compiler() -> Result<String> {
    described("commit-hash")
}

/// The folder of the toolchain's linkers.
pub(crate) fn linkers() -> Result<PathBuf> {
    Ok(sysroot()?.join("lib/rustlib").join(described("host")?).join("bin"))
}

/// The target of guests that use the clock and the output of the standard library. Optional: without it these guests are skipped.
pub(crate) const STD_TARGET: &str = "wasm32-wasip2";

/// Whether the active toolchain has the target of all guests.
#[cfg(test)]
pub(crate) fn is_installed() -> bool {
    sysroot().is_ok_and(|sysroot| has_std(&sysroot, TARGET))
}

/// Whether the active toolchain has the optional target.
pub(crate) fn has_std_target() -> bool {
    sysroot().is_ok_and(|sysroot| has_std(&sysroot, STD_TARGET))
}

fn has_std(sysroot: &Path, target: &str) -> bool {
    let folder = sysroot.join("lib/rustlib").join(target).join("lib");
    std::fs::read_dir(folder)
        .is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-")))
}

/// Installs the target with rustup, with a time limit.
fn add_target() -> Result<()> {
    say(&format!("the toolchain has no {TARGET}: asking rustup for it"));
    let mut child = Command::new("rustup")
        .args(["target", "add", TARGET])
        .current_dir(crate::root())
        .spawn()
        .context("rustup cannot be started")?;
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            if status.success() {
                return Ok(());
            }
            bail!("rustup target add failed ({status})");
        }
        if began.elapsed() > RUSTUP_PATIENCE {
            child.kill().ok();
            child.wait().ok();
            bail!("rustup target add took longer than {} s", RUSTUP_PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A Linux distribution's rustc with library sources of the same version.
fn distribution() -> Result<PathBuf> {
    let rustc = PathBuf::from("/usr/bin/rustc");
    let version = output(Command::new(&rustc).arg("--version")).context("no rustc in /usr/bin")?;
    let number = version.split_whitespace().nth(1).unwrap_or_default();
    let sysroot = output(Command::new(&rustc).args(["--print", "sysroot"]))?;
    let sources = Path::new(&sysroot).join("lib/rustlib/src/rust/library/std/Cargo.toml");
    let sources = sources.canonicalize().with_context(|| format!("no rust-src beside {version}"))?;
    // Debian has them in a folder whose name contains the version.
    let named = sources.to_string_lossy().contains(number);
    if !named && sources.starts_with("/usr/src") {
        bail!("{} is not of {version}", sources.display());
    }
    Ok(rustc)
}

/// Tries the ways of building guests in the documented order.
pub(crate) fn find() -> Result<Route> {
    let forced = std::env::var("CLAWHOST_GUEST_ROUTE").unwrap_or_default();
    let may = |route: &str| forced.is_empty() || forced == route;
    if !["", "installed", "rustup", "distribution"].contains(&forced.as_str()) {
        bail!("CLAWHOST_GUEST_ROUTE={forced}: choose installed, rustup or distribution");
    }
    if may("installed") && has_std(&sysroot()?, TARGET) {
        return Ok(Route::Installed);
    }
    if may("rustup") {
        match add_target() {
            Ok(()) if has_std(&sysroot()?, TARGET) => return Ok(Route::Installed),
            Ok(()) => say("rustup added the target to a toolchain that is not the active one"),
            Err(error) => say(&format!("{error:#}")),
        }
    }
    if may("distribution") {
        match distribution() {
            Ok(rustc) => {
                say(&format!("guests are built with {} and its sources", rustc.display()));
                return Ok(Route::Distribution { rustc });
            }
            Err(error) => say(&format!("{error:#}")),
        }
    }
    bail!("{NOTHING}")
}
