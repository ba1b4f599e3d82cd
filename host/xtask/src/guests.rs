//! Builds every guest of the workspace into `target/guests`.
//!
//! Equal sources, lock file, toolchain and target give equal bytes in any folder: see [`place`].

mod place;
#[cfg(test)]
mod tests;

use crate::toolchain::{self, Route, STD_TARGET, TARGET};
use crate::{root, run, say, target};
use anyhow::{Context as _, Result, bail};
use cargo_metadata::CrateType;
use place::Place;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// First bytes of a component. They differ from those of a core module.
const COMPONENT: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];

/// Which guests are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// All of the workspace.
    All,
    /// The plugins that ship. A demo needs no guests of tests, which take most of the time.
    Plugins,
}

/// Guest packages with the names of their components.
fn packages(place: &Place, which: Which) -> Result<BTreeMap<String, Vec<String>>> {
    let plugins = root().join("plugins");
    let is_wanted = |manifest: &Path| which == Which::All || manifest.starts_with(&plugins);
    let metadata = place.metadata().no_deps().exec().context("cargo metadata")?;
    let mut packages = BTreeMap::new();
    for package in metadata.packages {
        let components: Vec<String> = package
            .targets
            .iter()
            .filter(|target| target.crate_types.contains(&CrateType::CDyLib))
            .map(|target| target.name.replace('-', "_"))
            .collect();
        if !components.is_empty() && is_wanted(package.manifest_path.as_std_path()) {
            packages.insert(package.name.to_string(), components);
        }
    }
    Ok(packages)
}

/// Builds guests. Returns their folder.
pub(crate) fn build(which: Which) -> Result<PathBuf> {
    let route = toolchain::find()?;
    let target = target()?;
    let place = Place::new(root(), target.clone());
    let packages = packages(&place, which)?;
    say("building guests");
    let names: Vec<&str> = packages.keys().map(String::as_str).collect();
    let built = compile(&place, &route, &names)?;
    let folder = target.join("guests");
    collect(&built, &folder, &packages, which)?;
    if route == Route::Installed && which == Which::All {
        with_std(&place, &folder)?;
    }
    Ok(folder)
}

/// The target folder of guests. It is separate, so that builds of the host and of guests do not wait for each other's
/// lock.
fn work(place: &Place, route: &Route) -> PathBuf {
    place.target.join(match route {
        Route::Installed => "guest-build",
        Route::Distribution { .. } => "guest-build-distribution",
    })
}

/// Compiles the guests of these packages. Returns the folder of the components.
fn compile(place: &Place, route: &Route, packages: &[&str]) -> Result<PathBuf> {
    let work = work(place, route);
    let mut command = place.cargo();
    command.args(["build", "--profile", "guest", "--target", TARGET, "--lib", "--examples", "--target-dir"]).arg(&work);
    for package in packages {
        command.args(["--package", package]);
    }
    place.without_folders(&mut command, packages)?;
    if let Route::Distribution { rustc } = route {
        let linkers = toolchain::linkers()?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(
            [linkers.join("gcc-ld"), linkers.clone()].into_iter().chain(std::env::split_paths(&path)),
        )?;
        command
            .arg("-Zbuild-std=std,panic_abort")
            .env("RUSTC", rustc)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("PATH", path)
            .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linkers.join("wasm-component-ld"));
    }
    run(&mut command)?;
    Ok(work.join(TARGET).join("guest"))
}

/// Builds one guest for the optional target, if the toolchain has it: `wasip2/odd_std.wasm`.
fn with_std(place: &Place, folder: &Path) -> Result<()> {
    let folder = folder.join("wasip2");
    if !toolchain::has_std_target() {
        say(&format!("no {STD_TARGET} here: its one test will be skipped (rustup target add {STD_TARGET})"));
        std::fs::remove_dir_all(&folder).ok();
        return Ok(());
    }
    let work = work(place, &Route::Installed);
    let mut command = place.cargo();
    command.args(["build", "--profile", "guest", "--target", STD_TARGET, "--target-dir"]).arg(&work);
    place.without_folders(&mut command, &["test-guests"])?;
    run(command.args(["--package", "test-guests", "--example", "odd_std"]))?;
    let built = work.join(STD_TARGET).join("guest/examples/odd_std.wasm");
    std::fs::create_dir_all(&folder)?;
    std::fs::copy(&built, folder.join("odd_std.wasm")).with_context(|| built.display().to_string())?;
    Ok(())
}

/// Copies the components, and removes those that no package builds any more.
fn collect(built: &Path, folder: &Path, packages: &BTreeMap<String, Vec<String>>, which: Which) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut wanted = Vec::new();
    for (package, components) in packages {
        for component in components {
            let file = format!("{component}.wasm");
            let candidates = [built.join(&file), built.join("examples").join(&file)];
            let found = candidates.iter().find(|path| path.exists());
            let path = found.with_context(|| format!("{package} gave no {file}"))?;
            let bytes = std::fs::read(path)?;
            if !bytes.starts_with(&COMPONENT) {
                bail!("{}: not a component; is wasm-component-ld its linker?", path.display());
            }
            // Equal files are not written, so that nothing that depends on them is rebuilt.
            let to = folder.join(&file);
            if std::fs::read(&to).ok().as_deref() != Some(&bytes[..]) {
                std::fs::write(&to, &bytes)?;
            }
            wanted.push(file);
        }
    }
    for entry in std::fs::read_dir(folder)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if which == Which::All && name.ends_with(".wasm") && !wanted.contains(&name) {
            std::fs::remove_file(entry.path())?;
        }
    }
    say(&format!("{} guests in {}", wanted.len(), folder.display()));
    Ok(())
}
