//! Installs the SDKs of OpenAI and Anthropic for Python and Node into `target/toolchains/sdks`, for the suite `sdks`.
//!
//! What cannot be installed is not an error: the suite skips its tests with the reason.

use crate::{say, target};
use anyhow::Result;
use std::process::{Command, Stdio};

/// Pinned: an SDK that changes must change a test, not break one.
const PYTHON: [&str; 2] = ["openai==3.54.0", "anthropic==2.12.0"];
const NODE: [&str; 2] = ["openai@7.57.0", "@anthropic-ai/sdk@1.12.0"];
/// A file with the versions, written when all of them are installed.
const INSTALLED: &str = "installed";

/// Installs them.
pub(crate) fn main() -> Result<()> {
    let folder = target()?.join("toolchains/sdks");
    let (python, node) = (folder.join("python"), folder.join("node"));
    std::fs::create_dir_all(&node)?;
    let pip = python.join("bin/pip");
    install("python", &python.join(INSTALLED), &PYTHON, || {
        vec![
            command("python3", &["-m", "venv"], &[&python.display().to_string()]),
            command(&pip.display().to_string(), &["install", "--quiet", "--disable-pip-version-check"], &PYTHON),
        ]
    })?;
    install("node", &node.join(INSTALLED), &NODE, || {
        let into = node.display().to_string();
        vec![command("npm", &["install", "--silent", "--no-fund", "--no-audit", "--prefix", &into], &NODE)]
    })
}

fn command(program: &str, arguments: &[&str], more: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).args(more).stdin(Stdio::null());
    command
}

fn install(
    what: &str,
    installed: &std::path::Path,
    versions: &[&str],
    steps: impl FnOnce() -> Vec<Command>,
) -> Result<()> {
    let versions = versions.join("\n");
    if std::fs::read_to_string(installed).is_ok_and(|known| known == versions) {
        return Ok(());
    }
    say(&format!("getting the SDKs for {what}"));
    for mut step in steps() {
        match step.status() {
            Ok(status) if status.success() => {}
            Ok(status) => {
                say(&format!("{what}: {step:?} failed ({status}); its tests will be skipped"));
                return Ok(());
            }
            Err(error) => {
                say(&format!("{what}: {step:?}: {error}; its tests will be skipped"));
                return Ok(());
            }
        }
    }
    Ok(std::fs::write(installed, versions)?)
}
