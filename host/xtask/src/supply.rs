//! What the program is made of: `cargo xtask licences` checks licences, sources, bans and advisories of everything that is built in, and
//! `cargo xtask sbom` lists it. Both tools are pinned, and are installed into `target/tools` if they are not there.

use crate::{cargo, root, run, say, target};
use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A tool of cargo, with the version that is installed. One that is in the path already may have another.
struct Tool {
    name: &'static str,
    version: &'static str,
}

const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };
const CYCLONEDX: Tool = Tool { name: "cargo-cyclonedx", version: "0.5.9" };

/// The list of the program's parts, beside the program.
const SBOM: &str = "clawhost.cdx.json";

impl Tool {
    /// The tool as a program. Installs it if need be.
    fn get(&self) -> Result<PathBuf> {
        let tools = target()?.join("tools");
        let runs = |program: &PathBuf| {
            let mut command = Command::new(program);
            command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let installed = tools.join("bin").join(self.name);
        if let Some(found) = [PathBuf::from(self.name), installed.clone()].into_iter().find(runs) {
            return Ok(found);
        }
        say(&format!("installing {} {} into {}", self.name, self.version, tools.display()));
        // Its own target folder: features and profile of this workspace are not those of the tool.
        let mut install = cargo();
        // Without optimisation: they run once, and building them takes longer than that.
        install.args(["install", "--quiet", "--locked", "--debug", self.name, "--version", self.version, "--root"]);
        install.arg(&tools).env("CARGO_TARGET_DIR", tools.join("build"));
        run(&mut install).with_context(|| format!("{} is not there and cannot be installed", self.name))?;
        // Only the program is needed again.
        std::fs::remove_dir_all(tools.join("build")).unwrap_or_default();
        Ok(installed)
    }
}

/// Checks everything that is built in.
pub(crate) fn licences() -> Result<()> {
    let tool = DENY.get()?;
    let deny = |arguments: &[&str]| {
        let mut command = Command::new(&tool);
        command.current_dir(root()).args(["--log-level", "error"]).args(arguments);
        command
    };
    run(&mut deny(&["check", "--hide-inclusion-graph", "licenses", "bans", "sources"]))?;
    let fetched = deny(&["fetch", "db"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !fetched.context("cargo-deny")?.success() {
        say("advisories: not checked, because their database cannot be reached");
        return Ok(());
    }
    run(&mut deny(&["check", "--disable-fetch", "--hide-inclusion-graph", "advisories"]))
}

/// Writes the list of the program's parts in the format CycloneDX, and returns its path.
pub(crate) fn sbom() -> Result<PathBuf> {
    let tool = CYCLONEDX.get()?;
    let mut command = Command::new(tool);
    command.current_dir(root()).args(["cyclonedx", "--format", "json", "--spec-version", "1.5"]);
    command.args(["--override-filename", "clawhost.cdx", "--manifest-path", "host/cli/Cargo.toml"]);
    run(&mut command)?;
    let to = target()?.join(SBOM);
    std::fs::rename(root().join("host/cli").join(SBOM), &to).with_context(|| to.display().to_string())?;
    say(&format!("{}", to.display()));
    Ok(to)
}

/// A name that every program contains, so that a search that finds nothing at all is noticed.
const READ_BY_ALL: &str = "CLAWHOST_HOME";

/// The environment variable with which a program that has failpoints dies at a commit.
const FAILPOINT: &str = "CLAWHOST_ABORT_AFTER_COMMIT";

/// Refuses a program with failpoints: nothing may make a program that ships die at a commit.
fn no_failpoints(program: &[u8]) -> Result<()> {
    let holds = |text: &str| program.windows(text.len()).any(|window| window == text.as_bytes());
    if !holds(READ_BY_ALL) {
        bail!("the program does not contain {READ_BY_ALL}, so its texts cannot be searched");
    }
    if holds(FAILPOINT) {
        bail!("the program reads {FAILPOINT}: it was built with failpoints, and must not ship");
    }
    Ok(())
}

/// Builds the program as it ships, and the list of its parts beside it.
pub(crate) fn release() -> Result<()> {
    run(cargo().args(["build", "--locked", "--profile", "dist", "--package", "clawhost-cli"]))?;
    let folder = target()?.join("dist");
    let program = folder.join(format!("clawhost{}", std::env::consts::EXE_SUFFIX));
    no_failpoints(&std::fs::read(&program).with_context(|| program.display().to_string())?)?;
    let list = sbom()?;
    std::fs::copy(&list, folder.join(SBOM)).with_context(|| folder.display().to_string())?;
    say(&format!("{}: the program and {SBOM}", folder.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_failpoints_does_not_ship() {
        let check = |program: &[u8], expect: &str| match no_failpoints(program) {
            Ok(()) => assert_eq!("ships", expect),
            Err(error) => assert!(error.to_string().contains(expect), "{error}"),
        };
        check(b"\x7fELF CLAWHOST_HOME CLAWHOST_KEY", "ships");
        check(b"\x7fELF CLAWHOST_HOME CLAWHOST_ABORT_AFTER_COMMIT", "built with failpoints");
        check(b"\x7fELF", "cannot be searched");
    }
}
