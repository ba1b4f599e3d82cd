//! Packs generators and scorers of the Python library reasoning-gym as components, and compares them with the library.

use crate::{root, say, target};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The library. Its output changes between versions.
const LIBRARY: &str = "reasoning-gym==0.1.25";
/// The group that CI builds: a few datasets, with all of what makes components of them.
pub(crate) const SMALL: &str = "small";

/// The Python that has the library, which is got if it is missing.
fn python() -> Result<PathBuf> {
    let folder = target()?.join("toolchains/reasoning-gym");
    let python = folder.join("bin/python");
    if has_library(&python) {
        return Ok(python);
    }
    say(&format!("getting {LIBRARY}"));
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut pip = Command::new(folder.join("bin/pip"));
    run(pip.args(["install", "--quiet", "--disable-pip-version-check", LIBRARY]))?;
    Ok(python)
}

fn has_library(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", "import reasoning_gym"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("{command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed ({status})");
    }
    Ok(())
}

/// Builds groups: those that are named, or all. Returns the folder with the components.
fn build(groups: &[String]) -> Result<PathBuf> {
    let (target, source) = (target()?, root().join("examples/reasoning-gym"));
    let output = target.join("guests/reasoning-gym");
    std::fs::create_dir_all(&output)?;
    let mut command = Command::new(python()?);
    command.arg(source.join("build.py")).arg(root().join("wit")).arg(&output);
    command.arg(target.join("language-build/reasoning-gym")).args(groups);
    command.env("COMPONENTIZE_PY", crate::languages::componentize_py(&target)?);
    run(&mut command)?;
    Ok(output)
}

/// `cargo xtask reasoning-gym [GROUP...]`: builds groups, and compares questions and scores with those of the library.
pub(crate) fn main(groups: &[String]) -> Result<()> {
    let output = build(groups)?;
    let target = target()?;
    let program = target.join("release/clawhost");
    let program = if program.exists() { program } else { target.join("debug/clawhost") };
    if !program.exists() {
        bail!("there is no clawhost to run them: `cargo build --release -p clawhost-cli`");
    }
    let mut command = Command::new(python()?);
    command.arg(root().join("examples/reasoning-gym/compare.py")).arg(program).arg(output);
    run(command.arg(target.join("reasoning-gym-data")).args(groups))
}

/// Builds the small group. A library that cannot be got is no error: its test says why it is skipped.
pub(crate) fn small() -> Result<()> {
    if let Err(error) = build(&[SMALL.to_owned()]) {
        say(&format!("examples/reasoning-gym is not built: {error:#}"));
    }
    Ok(())
}
