//! Where a component comes from: the commit of its sources, and the tools that built it (SLSA provenance, version 1).

use crate::build::c;
use crate::build::compiler::{JAVASCRIPT, PYTHON};
use crate::toolchain::says;
use clawhost_app::PluginFolder;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

/// What a build of this program is, for readers of provenance.
const BUILD_TYPE: &str = "https://github.com/clawhost/clawhost/build/v1";
/// Who built: this program, on a machine of the publisher.
const BUILDER: &str = "https://github.com/clawhost/clawhost";
/// Longest answer of git that is kept, in bytes.
const ANSWER_BYTES: usize = 1000;

/// The answer of git about a folder. `None`: there is no git, or no repository.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    let output =
        command.arg("-C").arg(folder).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && text.len() <= ANSWER_BYTES).then_some(text)
}

/// An address without what may be a secret: user and password.
fn without_user(address: &str) -> String {
    match address.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (host, path) = rest.split_at(end);
            format!("{scheme}://{}{path}", host.rsplit_once('@').map_or(host, |(_, host)| host))
        }
        None => address.to_owned(),
    }
}

/// The provenance of a plugin's component. What is not known is left out.
pub(super) fn provenance(plugin: &PluginFolder) -> Value {
    let folder = plugin.folder();
    let commit = git(folder, &["rev-parse", "HEAD"]);
    let is_changed = commit
        .is_some()
        .then(|| git(folder, &["status", "--porcelain", "--", "."]).is_none_or(|text| !text.is_empty()));
    let repository = git(folder, &["remote", "get-url", "origin"]).map(|address| without_user(&address));
    let language = plugin.manifest().build.language.map(|language| language.to_string());
    let compiler = match language.as_deref() {
        Some("rust") => says("rustc", &["--version"]),
        Some("python") => PYTHON.find(None).and_then(|program| says(&program.display().to_string(), &["--version"])),
        // It has no version to ask for: the pinned one, unless a person got another.
        Some("js") => Some(JAVASCRIPT.get.rsplit(' ').next().unwrap_or_default().to_owned()),
        Some("c") => c::compiler().and_then(|program| says(&program, &["--version"])),
        _ => None,
    };
    let sources = commit.map(|commit| {
        json!({ "uri": repository, "digest": { "gitCommit": commit }, "annotations": { "changedAfterCommit": is_changed } })
    });
    json!({
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": { "language": language, "command": plugin.manifest().build.command },
            "internalParameters": { "compiler": compiler },
            "resolvedDependencies": sources.into_iter().collect::<Vec<_>>(),
        },
        "runDetails": { "builder": { "id": BUILDER, "version": { "clawhost": env!("CARGO_PKG_VERSION") } } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_no_user() {
        let check = |address: &str, expect: &str| assert_eq!(without_user(address), expect);
        check("https://user:key@example.com/a@b", "https://example.com/a@b");
        check("https://example.com/a", "https://example.com/a");
        check("git@example.com:a/b", "git@example.com:a/b");
    }
}
