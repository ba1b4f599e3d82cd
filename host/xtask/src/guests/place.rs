//! The build of guests, and the compiler flags that keep folder names out of the components.
//!
//! The compiler writes source paths into its output, mainly as locations of panics. Every folder with sources of a guest is
//! mapped to a fixed name: the workspace, the package folders of its dependencies (in the registry or vendored), the output of
//! build scripts, and the sources of the standard library. Cargo identifies a package of the workspace by its relative path, so
//! symbols do not depend on folders either. A path dependency *outside* of the workspace is identified by its absolute path,
//! which no flag changes.

use crate::toolchain::{self, TARGET};
use anyhow::{Context as _, Result};
use cargo_metadata::{Metadata, MetadataCommand, PackageId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Separates flags in `CARGO_ENCODED_RUSTFLAGS`, because paths may have spaces.
const SEPARATOR: char = '\u{1f}';

/// A checkout of the workspace, and its target folder.
pub(crate) struct Place {
    /// The workspace.
    pub(crate) root: PathBuf,
    /// The target folder.
    pub(crate) target: PathBuf,
    /// Environment variables of cargo.
    environment: BTreeMap<&'static str, PathBuf>,
}

impl Place {
    /// A place with the current environment of cargo.
    pub(crate) fn new(root: PathBuf, target: PathBuf) -> Self {
        Self { root, target, environment: BTreeMap::new() }
    }

    /// Sets another home folder of cargo.
    #[cfg(test)]
    pub(crate) fn with_home(mut self, home: PathBuf) -> Self {
        self.environment.insert("CARGO_HOME", home);
        self
    }

    /// A cargo command in the workspace.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root).envs(&self.environment);
        command
    }

    /// `cargo metadata` in the workspace.
    pub(crate) fn metadata(&self) -> MetadataCommand {
        let mut command = MetadataCommand::new();
        command.current_dir(&self.root);
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }

    /// Passes the fixed names of folders to the compiler, for this build of guests only. They replace the user's flags (`RUSTFLAGS`,
    /// `build.rustflags`), which would change the components.
    pub(crate) fn without_folders(&self, command: &mut Command, packages: &[&str]) -> Result<()> {
        let metadata = self.metadata().other_options(["--filter-platform".to_owned(), TARGET.to_owned()]).exec();
        let metadata = metadata.context("cargo metadata")?;
        // The last matching flag applies, so outer folders come before inner ones.
        let mut names: Vec<(PathBuf, String)> = both(&self.root, ".");
        names.extend(both(&self.target, "/target"));
        names.extend(dependencies(&metadata, packages));
        let sources = toolchain::sysroot()?.join("lib/rustlib/src/rust");
        names.extend(both(&sources, &format!("/rustc/{}", toolchain::compiler()?)));
        let flag = |(folder, name): (PathBuf, String)| format!("--remap-path-prefix={}={name}", folder.display());
        let flags: Vec<String> = names.into_iter().map(flag).collect();
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join(&SEPARATOR.to_string()));
        Ok(())
    }
}

/// The path of a folder as given, and with links resolved.
fn both(folder: &Path, name: &str) -> Vec<(PathBuf, String)> {
    let real = folder.canonicalize().ok().filter(|real| real != folder);
    [Some(folder.to_owned()), real].into_iter().flatten().map(|folder| (folder, name.to_owned())).collect()
}

/// The folders of the dependencies of these packages, except those in the workspace.
fn dependencies(metadata: &Metadata, packages: &[&str]) -> Vec<(PathBuf, String)> {
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let needs: BTreeMap<&PackageId, &[PackageId]> =
        nodes.map(|node| (&node.id, node.dependencies.as_slice())).collect();
    let named = metadata.packages.iter().filter(|package| packages.contains(&package.name.as_str()));
    let mut waiting: Vec<&PackageId> = named.map(|package| &package.id).collect();
    let mut wanted = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if wanted.insert(id) {
            waiting.extend(needs.get(id).into_iter().flat_map(|needs| needs.iter()));
        }
    }
    let foreign = metadata.packages.iter().filter(|package| wanted.contains(&package.id) && package.source.is_some());
    let folders = foreign.filter_map(|package| {
        let folder = package.manifest_path.parent()?.as_std_path();
        Some(both(folder, &format!("/dependencies/{}-{}", package.name, package.version)))
    });
    folders.flatten().collect()
}
