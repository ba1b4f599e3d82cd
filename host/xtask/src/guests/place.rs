//! Where guests are built, and the flags that keep the names of these folders out of the components.
//!
//! A compiler writes paths into what it makes: the places of panics, above all. Each folder that a guest's sources lie in gets a
//! fixed name instead: the workspace, the package folders of its dependencies (wherever the registry or a vendored copy keeps
//! them), build scripts' output, and the sources of the standard library. Cargo names a package of the workspace by its
//! place in it, so symbols do not depend on folders either. A path dependency *outside* the workspace is named by its whole
//! path, which no flag changes.

use crate::toolchain::{self, TARGET};
use anyhow::{Context as _, Result};
use cargo_metadata::{Metadata, MetadataCommand, PackageId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Stands between flags in `CARGO_ENCODED_RUSTFLAGS`: paths may have spaces.
const SEPARATOR: char = '\u{1f}';

/// A checkout of the workspace, and the folder that its artefacts go to.
pub(crate) struct Place {
    /// The workspace.
    pub(crate) root: PathBuf,
    /// The target folder.
    pub(crate) target: PathBuf,
    /// Variables that cargo runs with.
    environment: BTreeMap<&'static str, PathBuf>,
}

impl Place {
    /// Built as cargo does it here.
    pub(crate) fn new(root: PathBuf, target: PathBuf) -> Self {
        Self { root, target, environment: BTreeMap::new() }
    }

    /// With another home of cargo.
    #[cfg(test)]
    pub(crate) fn with_home(mut self, home: PathBuf) -> Self {
        self.environment.insert("CARGO_HOME", home);
        self
    }

    /// Cargo, in the workspace.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root).envs(&self.environment);
        command
    }

    /// `cargo metadata`, in the workspace.
    pub(crate) fn metadata(&self) -> MetadataCommand {
        let mut command = MetadataCommand::new();
        command.current_dir(&self.root);
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }

    /// Tells the compiler the fixed names of folders, in this build of guests alone. They take the place of the user's own flags
    /// (`RUSTFLAGS`, `build.rustflags`), which would change the components.
    pub(crate) fn without_folders(&self, command: &mut Command, packages: &[&str]) -> Result<()> {
        let metadata = self.metadata().other_options(["--filter-platform".to_owned(), TARGET.to_owned()]).exec();
        let metadata = metadata.context("cargo metadata")?;
        // Of several that fit, the last counts: from the outermost folder to the innermost.
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

/// A folder as it is called, and as it is called where links are followed.
fn both(folder: &Path, name: &str) -> Vec<(PathBuf, String)> {
    let real = folder.canonicalize().ok().filter(|real| real != folder);
    [Some(folder.to_owned()), real].into_iter().flatten().map(|folder| (folder, name.to_owned())).collect()
}

/// The folders of the packages that these ones are built from, those of the workspace left out.
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
