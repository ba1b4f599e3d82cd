//! Installs real clients of the gateway for the suite `sdks`: the SDKs of OpenAI and Anthropic for Python and Node with LiteLLM, that of Tinker, and Puppeteer for its page, into
//! `target/toolchains/sdks`, agents into `target/toolchains/agents`.
//!
//! What cannot be installed is not an error: the suite skips its tests with the reason.

use crate::{say, target};
use anyhow::Result;
use std::process::{Command, Stdio};

/// Pinned: an SDK that changes must change a test, not break one.
const PYTHON: [&str; 3] = ["openai==3.54.0", "anthropic==2.12.0", "litellm==1.110.2"];
/// In an environment of its own: it pins what the others need.
const TINKER: [&str; 1] = ["tinker==0.38.0"];
const NODE: [&str; 3] = ["openai@7.57.0", "@anthropic-ai/sdk@1.12.0", "puppeteer-core@25.16.0"];
/// Agents by their folder.
const AGENTS: [(&str, &str); 3] = [
    ("codex", "@openai/codex@0.169.0"),
    ("claude-code", "@anthropic-ai/claude-code@2.1.331"),
    ("openclaw", "openclaw@2026.9.6"),
];
/// OpenClaw needs a later Node than most systems have; npm has it as a package.
const NODE_OF_AGENTS: &str = "node@24.21.0";
/// A file with the versions, written when all of them are installed.
const INSTALLED: &str = "installed";

/// Installs them.
pub(crate) fn main() -> Result<()> {
    let folder = target()?.join("toolchains/sdks");
    let node = folder.join("node");
    std::fs::create_dir_all(&node)?;
    for (name, versions) in [("python", &PYTHON[..]), ("tinker", &TINKER[..])] {
        let python = folder.join(name);
        let pip = python.join("bin/pip");
        install(name, &python.join(INSTALLED), versions, || {
            vec![
                command("python3", &["-m", "venv"], &[&python.display().to_string()]),
                command(&pip.display().to_string(), &["install", "--quiet", "--disable-pip-version-check"], versions),
            ]
        })?;
    }
    install("node", &node.join(INSTALLED), &NODE, || {
        let into = node.display().to_string();
        vec![npm(&into, &NODE)]
    })
}

/// Installs agents: 1.6 GB.
pub(crate) fn agents() -> Result<()> {
    let folder = target()?.join("toolchains/agents");
    std::fs::create_dir_all(&folder)?;
    let into = |name: &str| folder.join(name).display().to_string();
    install("agents (Node)", &folder.join("node").join(INSTALLED), &[NODE_OF_AGENTS], || {
        vec![npm(&into("node"), &[NODE_OF_AGENTS])]
    })?;
    // Their own scripts look for the Node that runs them.
    let node = folder.join("node/node_modules/node/bin").display().to_string();
    let path = format!("{node}:{}", std::env::var("PATH").unwrap_or_default());
    for (name, version) in AGENTS {
        install(name, &folder.join(name).join(INSTALLED), &[version], || {
            let mut command = npm(&into(name), &[version]);
            command.env("PATH", &path);
            vec![command]
        })?;
    }
    Ok(())
}

fn npm(into: &str, versions: &[&str]) -> Command {
    command("npm", &["install", "--silent", "--no-fund", "--no-audit", "--prefix", into], versions)
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
    say(&format!("getting clients: {what}"));
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
