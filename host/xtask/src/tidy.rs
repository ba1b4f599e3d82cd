//! `cargo xtask tidy`: checks the rules of this repository that the compiler does not check. Also run as a test.

use crate::{root, say};
use anyhow::{Context as _, Result, bail};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Floors of the crates under `host/`. A crate imports only crates of lower floors.
const FLOORS: [(&str, u8); 24] = [
    ("clawhost-core", 0),
    ("clawhost-files", 0),
    ("clawhost-child", 0),
    ("clawhost-wire", 1),
    ("clawhost-capture", 1),
    ("clawhost-follower", 1),
    ("clawhost-learn", 1),
    ("clawhost-run-config", 1),
    ("clawhost-package", 1),
    ("clawhost-bundle", 1),
    ("clawhost-bindings", 1),
    ("clawhost-engine", 2),
    ("clawhost-store", 2),
    ("clawhost-providers", 2),
    ("clawhost-registry", 2),
    ("clawhost-model", 2),
    ("clawhost-play", 3),
    ("clawhost-learning", 3),
    ("clawhost-burn", 3),
    ("clawhost-gateway", 3),
    ("clawhost-app", 4),
    ("clawhost-devkit", 5),
    ("clawhost-cli", 6),
    ("xtask", 9),
];

/// Pairs of crates on the same floor, of which the first may import the second.
const BESIDE: [(&str, &str); 2] = [("clawhost-learning", "clawhost-play"), ("clawhost-run-config", "clawhost-package")];

/// The crate for tests only. It may import everything below the application library.
const TESTKIT: &str = "clawhost-testkit";

/// The loops, with the crates that they may import: ports and pure arithmetic, but no adapters.
const LOOPS: [(&str, &[&str]); 2] = [
    ("clawhost-play", &["clawhost-core"]),
    ("clawhost-learning", &["clawhost-core", "clawhost-learn", "clawhost-play"]),
];

/// Libraries that only these crates may import.
const ONLY: [(&str, &[&str]); 23] = [
    ("wasmtime", &["clawhost-bindings", "clawhost-engine"]),
    ("wasmtime-wasi", &["clawhost-engine"]),
    ("wasmparser", &["clawhost-engine"]),
    ("rusqlite", &["clawhost-store"]),
    ("zstd", &["clawhost-bundle", "clawhost-store"]),
    ("tar", &["clawhost-bundle"]),
    ("burn", &["clawhost-burn"]),
    ("burn-flex", &["clawhost-burn"]),
    ("burn-wgpu", &["clawhost-burn"]),
    ("cubecl", &["clawhost-burn"]),
    ("libloading", &["clawhost-burn"]),
    ("tokenizers", &["clawhost-model"]),
    ("regex", &["clawhost-capture"]),
    ("reqwest", &["clawhost-providers", "clawhost-registry"]),
    // The gateway is a server of it, `providers` are clients.
    ("rustls", &["clawhost-gateway", "clawhost-providers", "clawhost-registry"]),
    ("tokio-rustls", &["clawhost-gateway"]),
    ("axum", &["clawhost-gateway"]),
    ("hyper", &["clawhost-gateway"]),
    ("hyper-util", &["clawhost-gateway"]),
    ("clap", &["clawhost-cli"]),
    ("clap_complete", &["clawhost-cli"]),
    ("indicatif", &["clawhost-cli"]),
    ("anyhow", &["clawhost-cli", "xtask"]),
];

/// Crates without I/O. They may not depend on any of [`IMPURE`], directly or indirectly.
const PURE: [&str; 7] = [
    "clawhost-core",
    "clawhost-wire",
    "clawhost-capture",
    "clawhost-follower",
    "clawhost-learn",
    "clawhost-run-config",
    "clawhost-package",
];
const IMPURE: [&str; 7] = ["tokio", "mio", "reqwest", "hyper", "rusqlite", "wasmtime", "socket2"];

/// Names that may not occur in the code of pure crates.
const IMPURE_NAMES: [&str; 6] =
    ["std::fs", "std::net", "std::thread", "std::process", "time::Instant", "time::SystemTime"];

/// The allowed entries of the top level. Hidden files are allowed, too.
const TOP: [&str; 10] =
    ["Cargo.toml", "Cargo.lock", "host", "wit", "plugins", "sdk", "examples", "tests", "README.md", "target"];

/// Largest number of lines of a source file. Longer files should be split. Generated code is exempt.
const LINES: usize = 600;

struct Findings(Vec<String>);

impl Findings {
    fn add(&mut self, finding: impl Into<String>) {
        self.0.push(finding.into());
    }
}

pub(crate) fn main() -> Result<()> {
    let findings = check()?;
    if findings.is_empty() {
        say("tidy");
        return Ok(());
    }
    bail!("{} findings:\n  {}", findings.len(), findings.join("\n  "))
}

/// All violations.
pub(crate) fn check() -> Result<Vec<String>> {
    let metadata = MetadataCommand::new().current_dir(root()).exec().context("cargo metadata")?;
    let mut findings = Findings(Vec::new());
    floors(&metadata, &mut findings);
    only(&metadata, &mut findings);
    bare_build(&metadata, &mut findings)?;
    pure(&metadata, &mut findings)?;
    top(&mut findings)?;
    sources(&mut findings)?;
    follower(&mut findings)?;
    architecture(&mut findings)?;
    promises(&mut findings)?;
    reasons(&mut findings)?;
    front_ends(&mut findings)?;
    opened(&mut findings)?;
    failpoints(&metadata, &mut findings);
    crate::messages::check(&mut findings.0)?;
    crate::documents::check(&mut findings.0)?;
    Ok(findings.0)
}

/// Crates that a bare `cargo build` may not compile.
const NOT_BARE: [&str; 4] = ["burn", "burn-flex", "cubecl", "clawhost-burn"];

/// The default program links no tensor framework: no crate of a bare `cargo build` depends on one, or has default features that could.
fn bare_build(metadata: &Metadata, findings: &mut Findings) -> Result<()> {
    for member in metadata.workspace_default_packages() {
        let reached = reachable(metadata, &member.id)?;
        for name in NOT_BARE.iter().filter(|name| reached.contains(**name)) {
            findings.add(format!("a bare `cargo build` builds {name}, through {}", member.name));
        }
        if member.features.get("default").is_some_and(|features| !features.is_empty()) {
            findings.add(format!("{} has default features: a bare `cargo build` must not enable any", member.name));
        }
    }
    Ok(())
}

fn floor(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(known, _)| *known == name).map(|(_, floor)| *floor)
}

fn floors(metadata: &Metadata, findings: &mut Findings) {
    for package in metadata.workspace_packages() {
        let Ok(folder) = package.manifest_path.strip_prefix(&metadata.workspace_root) else { continue };
        let Some(folder) = folder.as_str().strip_prefix("host/").and_then(|rest| rest.split('/').next()) else {
            continue;
        };
        let name = package.name.as_str();
        if name != format!("clawhost-{folder}") && name != "xtask" {
            findings.add(format!("host/{folder} holds {name}: crates are named clawhost-<folder>"));
        }
        if name == TESTKIT {
            continue;
        }
        let Some(own) = floor(name) else {
            findings
                .add(format!("{name} has no floor: add it to FLOORS in host/xtask/src/tidy.rs and to ARCHITECTURE.md"));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal) {
            if let Some(other) = floor(&dependency.name)
                && other >= own
                && !BESIDE.contains(&(name, dependency.name.as_str()))
            {
                findings.add(format!("{name} (floor {own}) imports {} (floor {other})", dependency.name));
            }
            let of_a_loop = LOOPS.iter().find(|(known, _)| *known == name);
            if let Some((_, allowed)) = of_a_loop
                && dependency.name.starts_with("clawhost-")
                && !allowed.contains(&dependency.name.as_str())
            {
                findings.add(format!(
                    "{name} sees {}, and no adapter, but imports {}",
                    allowed.join(", "),
                    dependency.name
                ));
            }
            if dependency.name == TESTKIT {
                findings.add(format!("{name} imports {TESTKIT}, which is for tests alone"));
            }
        }
    }
}

fn only(metadata: &Metadata, findings: &mut Findings) {
    for package in metadata.workspace_packages() {
        for dependency in package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal) {
            if let Some((library, owners)) = ONLY.iter().find(|(library, _)| *library == dependency.name)
                && !owners.contains(&package.name.as_str())
            {
                findings.add(format!("{} imports {library}: only {} may", package.name, owners.join(", ")));
            }
        }
    }
}

/// The names of a package and of all its direct and indirect dependencies.
fn reachable<'a>(metadata: &'a Metadata, package: &'a PackageId) -> Result<BTreeSet<&'a str>> {
    let resolve = metadata.resolve.as_ref().context("cargo metadata resolved nothing")?;
    let nodes: BTreeMap<&PackageId, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let mut seen = BTreeSet::new();
    let mut waiting = vec![package];
    while let Some(id) = waiting.pop() {
        if !seen.insert(id) {
            continue;
        }
        let Some(node) = nodes.get(id) else { continue };
        let normal = node
            .deps
            .iter()
            .filter(|dependency| dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal));
        waiting.extend(normal.map(|dependency| &dependency.pkg));
    }
    let built = metadata.packages.iter().filter(|package| seen.contains(&package.id));
    Ok(built.map(|package| package.name.as_str()).collect())
}

fn pure(metadata: &Metadata, findings: &mut Findings) -> Result<()> {
    for package in metadata.workspace_packages().into_iter().filter(|package| PURE.contains(&package.name.as_str())) {
        let reached = reachable(metadata, &package.id)?;
        for name in IMPURE.iter().filter(|name| reached.contains(**name)) {
            findings.add(format!("{} is pure, but reaches {name}", package.name));
        }
        let folder = root().join("host").join(package.name.trim_start_matches("clawhost-")).join("src");
        for (path, text) in files(&folder, "rs")? {
            for name in IMPURE_NAMES.iter().filter(|name| text.contains(*name)) {
                findings.add(format!("{}: {} is pure, but names {name}", shown(&path), package.name));
            }
        }
    }
    Ok(())
}

fn top(findings: &mut Findings) -> Result<()> {
    for entry in std::fs::read_dir(root())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && !name.starts_with("LICENSE") && !TOP.contains(&name.as_str()) {
            findings.add(format!("{name} lies at the top level, which holds {}", TOP.join(", ")));
        }
    }
    Ok(())
}

/// All files with this extension in a folder and its subfolders, with their text.
pub(crate) fn files(folder: &Path, ending: &str) -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                let text = std::fs::read_to_string(&path).with_context(|| shown(&path))?;
                found.push((path, text));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

pub(crate) fn all_sources() -> Result<Vec<(PathBuf, String)>> {
    let mut all = Vec::new();
    for folder in ["host", "sdk", "plugins", "examples", "tests"] {
        all.extend(files(&root().join(folder), "rs")?);
    }
    let generated = root().join("sdk/rust/src/bindings");
    // Templates are other people's sources: they begin as these want to begin.
    let templates = root().join("host/devkit/templates");
    all.retain(|(path, _)| !path.starts_with(&generated) && !path.starts_with(&templates));
    Ok(all)
}

fn sources(findings: &mut Findings) -> Result<()> {
    for (path, text) in all_sources()? {
        let lines = text.lines().count();
        if lines > LINES {
            findings.add(format!("{}: {lines} lines; split it along a seam ({LINES} at most)", shown(&path)));
        }
        let is_crate = path.ends_with("src/lib.rs") && path.starts_with(root().join("host"));
        if is_crate && !text.lines().take(6).any(|line| line.starts_with("//!") && line.contains("floor")) {
            findings.add(format!("{}: a crate opens with what it is and its floor", shown(&path)));
        }
    }
    Ok(())
}

/// The follower knows no environment: neither the name of one nor the word `reference` occurs in its code.
fn follower(findings: &mut Findings) -> Result<()> {
    let mut forbidden = BTreeSet::from(["reference".to_owned()]);
    for entry in std::fs::read_dir(root().join("plugins"))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(subject) = name.strip_prefix("env-") {
            forbidden.insert(subject.to_owned());
            forbidden.insert(name);
        }
    }
    for (path, text) in files(&root().join("host/follower"), "rs")? {
        let words: BTreeSet<String> = text
            .split(|character: char| !character.is_alphanumeric() && character != '-')
            .map(str::to_lowercase)
            .collect();
        for word in forbidden.iter().filter(|word| words.contains(*word)) {
            findings.add(format!("{}: the follower knows no environment, but names `{word}`", shown(&path)));
        }
    }
    Ok(())
}

/// Every test that ARCHITECTURE.md names for an invariant exists, and every crate is on its map.
fn architecture(findings: &mut Findings) -> Result<()> {
    let path = root().join("host/ARCHITECTURE.md");
    let text = std::fs::read_to_string(&path).with_context(|| shown(&path))?;
    let sources: String = all_sources()?.into_iter().map(|(_, text)| text).collect();
    let mut kept = 0;
    for line in text.lines() {
        let Some((_, keepers)) = line.split_once("held by ") else { continue };
        for name in keepers.split('`').skip(1).step_by(2) {
            kept += 1;
            if !sources.contains(&format!("fn {name}(")) {
                findings.add(format!("{}: no test `{name}`", shown(&path)));
            }
        }
    }
    if kept == 0 {
        findings.add(format!("{}: no invariant names its test", shown(&path)));
    }
    for (name, _) in FLOORS {
        let folder = name.trim_start_matches("clawhost-");
        if !text.contains(&format!("`{folder}`")) {
            findings.add(format!("{}: crate `{folder}` is not on the map", shown(&path)));
        }
    }
    Ok(())
}

/// Every promise of SECURITY.md names existing tests, and the day on which somebody last tried to break it. Promises are the rows of tables with
/// the columns `promise`, `test` and `attacked`.
fn promises(findings: &mut Findings) -> Result<()> {
    let path = root().join("host/SECURITY.md");
    let text = std::fs::read_to_string(&path).with_context(|| shown(&path))?;
    let sources: String = all_sources()?.into_iter().map(|(_, text)| text).collect();
    let (mut inside, mut promised) = (false, 0);
    for line in text.lines() {
        inside = line == "| promise | test | attacked |" || (inside && line.starts_with('|'));
        let row = line.trim_end_matches(['|', ' ']).rsplit_once(" | ").filter(|_| inside);
        let Some(((promise, tests), attacked)) = row.and_then(|(row, day)| Some((row.rsplit_once(" | ")?, day))) else {
            continue;
        };
        if promise == "| promise" || promise.starts_with("|---") {
            continue;
        }
        promised += 1;
        let is_day = attacked.len() == 10 && attacked.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        if !is_day && attacked != "—" {
            findings.add(format!("{}: no day of the last attack for{}", shown(&path), promise.trim_start_matches('|')));
        }
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            findings.add(format!("{}: no test for{}", shown(&path), promise.trim_start_matches('|')));
        }
        for name in names.into_iter().filter(|name| !sources.contains(&format!("fn {name}("))) {
            findings.add(format!("{}: no test `{name}`", shown(&path)));
        }
    }
    if promised == 0 {
        findings.add(format!("{}: promises nothing", shown(&path)));
    }
    Ok(())
}

/// Every dependency has a one-line comment with its purpose.
fn reasons(findings: &mut Findings) -> Result<()> {
    let text = std::fs::read_to_string(root().join("Cargo.toml"))?;
    let table = text.split("[workspace.dependencies]").nth(1).unwrap_or_default();
    let table = table.split("\n[").next().unwrap_or_default();
    let mut above = false;
    for line in table.lines() {
        let entry = line.split('=').next().unwrap_or_default().trim();
        let begins = !line.starts_with([' ', ']', '#']) && !entry.is_empty();
        if begins && !entry.starts_with("clawhost-") && !above && !line.contains(" # ") {
            findings.add(format!("Cargo.toml: {entry} does not say why it is there"));
        }
        // A comment applies to the entries directly below it.
        above = line.starts_with('#') || (above && !line.is_empty());
    }
    Ok(())
}

/// The lines of a source file without tests and comments, with their numbers.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().enumerate().map(|(number, line)| (number + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// The ways to set a default in clap.
const DEFAULTS: [&str; 3] = ["default_value =", "default_value_t", ".default_value("];

/// Texts before flags of other programs, and before commands in hints.
const OTHERS: [&str; 5] = ["cargo ", "rustc", "says(", "git(", "Hint::command("];

/// Whether a line has a flag of this program inside a string.
fn names_a_flag(line: &str) -> bool {
    if OTHERS.iter().any(|other| line.contains(other)) {
        return false;
    }
    line.match_indices("--").any(|(at, _)| {
        let before = line.get(..at).unwrap_or_default();
        let follows = line.get(at + 2..).and_then(|rest| rest.chars().next());
        let leads = before.chars().next_back().is_none_or(|last| " `\"(".contains(last));
        leads && before.contains('"') && follows.is_some_and(|next| next.is_ascii_lowercase())
    })
}

/// Only the command line names flags, and only the crates below it set defaults.
fn front_ends(findings: &mut Findings) -> Result<()> {
    let host = root().join("host");
    for (path, text) in files(&host, "rs")? {
        let Ok(inside) = path.strip_prefix(&host) else { continue };
        let mut parts = inside.components().map(|part| part.as_os_str().to_string_lossy());
        let (folder, kind) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if kind != "src" || folder == "xtask" {
            continue;
        }
        // It runs compilers, whose flags these are.
        let runs_tools = inside.starts_with("devkit/src/build") || inside.ends_with("devkit/src/scaffold.rs");
        for (number, line) in code(&text) {
            if folder == "cli" && DEFAULTS.iter().any(|default| line.contains(default)) {
                findings.add(format!("{}:{number}: a default of its own: it belongs below", shown(&path)));
            }
            if folder != "cli" && !runs_tools && !path.ends_with("tests.rs") && names_a_flag(line) {
                findings.add(format!("{}:{number}: names a flag, which the command line alone does", shown(&path)));
            }
        }
    }
    Ok(())
}

/// How a file would be opened beside the one place for it.
const OPENINGS: [&str; 4] = ["fs::read(", "read_to_string(", "File::open(", ".read(true)"];

/// Crates whose files do not come from outside: the one place itself, and what tests and contributors run.
const OPENERS: [&str; 4] = ["files", "xtask", "testkit", "burn"];

/// Every file is opened in one place, which guards size and kind.
fn opened(findings: &mut Findings) -> Result<()> {
    let host = root().join("host");
    for (path, text) in files(&host, "rs")? {
        let Ok(inside) = path.strip_prefix(&host) else { continue };
        let parts: Vec<_> = inside.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        let [folder, kind, ..] = parts.as_slice() else { continue };
        let is_test = inside.to_string_lossy().contains("test");
        if kind != "src" || is_test || OPENERS.contains(&&**folder) {
            continue;
        }
        for (number, line) in code(&text).filter(|(_, line)| OPENINGS.iter().any(|opening| line.contains(opening))) {
            if !OPENED_ELSEWHERE.iter().any(|(file, part)| path.ends_with(file) && line.contains(part)) {
                findings
                    .add(format!("{}:{number}: opens a file; `clawhost_files` guards its kind and size", shown(&path)));
            }
        }
    }
    Ok(())
}

/// Openings that are no files from outside, by file and text.
const OPENED_ELSEWHERE: [(&str, &str); 10] = [
    // The answer of a child, bounded by its reader.
    ("device/probe.rs", "read_to_string"),
    // Standard input.
    ("model/generate.rs", "stdin()"),
    ("router/explain.rs", "stdin()"),
    // A lock file that is created here, and is not read.
    ("store/src/leases.rs", ".read(true)"),
    // Of its tests.
    ("store/src/leases.rs", "File::open(&path)"),
    // Weights that this program wrote, and their folders, to bring them to the disk. Nothing is read.
    ("app/src/live/weights/versions.rs", "File::open(path)?.sync_all()"),
    ("app/src/live/weights/versions.rs", "File::open(folder)?.sync_all()"),
    // A picture that this program wrote, to draw it again.
    ("app/src/plot.rs", ".read(true)"),
    // Folders, to write their entries to disk.
    ("store/src/blobs.rs", "File::open(folder)"),
    ("model/src/checkpoint_writer.rs", "File::open"),
];

/// Distributed builds have no failpoints: no crate enables them by default.
fn failpoints(metadata: &Metadata, findings: &mut Findings) {
    for package in metadata.workspace_packages() {
        let mut waiting = vec!["default".to_owned()];
        let mut seen = BTreeSet::new();
        while let Some(feature) = waiting.pop() {
            if feature.ends_with("failpoints") {
                findings.add(format!("{} has failpoints by default", package.name));
            }
            if seen.insert(feature.clone()) {
                waiting.extend(package.features.get(&feature).into_iter().flatten().cloned());
            }
        }
        let turned_on = |dependency: &&cargo_metadata::Dependency| {
            dependency.kind == DependencyKind::Normal && dependency.features.iter().any(|one| one == "failpoints")
        };
        for dependency in package.dependencies.iter().filter(turned_on) {
            findings.add(format!("{} turns on failpoints of {}", package.name, dependency.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::names_a_flag;

    #[test]
    fn flags_are_found_in_messages_only() {
        let check = |line: &str, expect| assert_eq!(names_a_flag(line), expect, "{line}");
        check(r#"    format!("say --group 8")"#, true);
        check(r#"    "--group""#, true);
        check(r#"    "use `--data`""#, true);
        check(r#"    "a -- b", "---", "x--y""#, false);
        check("    let a = b - --c;", false);
    }

    #[test]
    fn the_repository_is_tidy() {
        let findings = super::check().unwrap();
        assert!(findings.is_empty(), "{} findings:\n  {}", findings.len(), findings.join("\n  "));
    }
}
