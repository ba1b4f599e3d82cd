//! What the program is made of: `cargo xtask licences` checks licences, sources, bans and advisories of everything that is built in, and
//! `cargo xtask sbom` lists it. Both tools are pinned, and are installed into `target/tools` if they are not there.

use crate::{cargo, root, run, say, target};
use anyhow::{Context as _, Result};
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
        install.args(["install", "--quiet", "--locked", self.name, "--version", self.version, "--root"]);
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

/// Builds the program as it ships, and the list of its parts beside it.
pub(crate) fn release() -> Result<()> {
    run(cargo().args(["build", "--locked", "--profile", "dist", "--package", "clawhost-cli"]))?;
    let list = sbom()?;
    let folder = target()?.join("dist");
    std::fs::copy(&list, folder.join(SBOM)).with_context(|| folder.display().to_string())?;
    say(&format!("{}: the program and {SBOM}", folder.display()));
    Ok(())
}
