//! `clawhost playbook`: lists, shows, compares, rolls back, exports and imports playbooks.

mod exchange;
mod list;
mod show;
mod versions;

use crate::context::Context;
use crate::exit::Exit;
use clap::Subcommand;
use clawhost_app::{Workspace, WorkspaceSettings};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum PlaybookCommand {
    /// List all playbooks: newest version, number of served entries, and origin
    List,
    /// Show all entries: status, groups, lift with its interval, e-value, tokens
    Show {
        /// The playbook [default: the only one]
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Show the content of this version instead
        #[arg(long, value_name = "N")]
        version: Option<u64>,
        /// Show whole lessons on a terminal too; otherwise they are cut only there
        #[arg(long, conflicts_with = "version")]
        full: bool,
    },
    /// List all versions, and why they were added
    Log {
        /// The playbook [default: the only one]
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Show the differences between two versions
    Diff {
        /// The playbook [default: the only one]
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// The earlier version; 0 is the empty playbook before the first version [default: the one before]
        #[arg(value_name = "FROM")]
        from: Option<u64>,
        /// The later version [default: the newest]
        #[arg(value_name = "TO")]
        to: Option<u64>,
    },
    /// Serve the content of an older version as a new version
    Rollback {
        /// The playbook
        #[arg(value_name = "NAME")]
        name: String,
        /// The older version [default: the one before]
        #[arg(long, value_name = "N")]
        to: Option<u64>,
    },
    /// Export a version: as JSON into a file, or as a folder of skills (SKILL.md)
    Export {
        /// The playbook
        #[arg(value_name = "NAME")]
        name: String,
        /// A file ending in .json, or a folder to create (a name without an extension, or followed by `/`)
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// The version [default: the newest]
        #[arg(long, value_name = "N")]
        version: Option<u64>,
    },
    /// Serve the content of a JSON file, a skill or a folder of skills as a new version. Evidence is not imported: it
    /// is measured anew
    Import {
        /// The playbook
        #[arg(value_name = "NAME")]
        name: String,
        /// A file ending in .json, a folder with SKILL.md files, a single skill file ending in .md, or a module: TEAM/NAME
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
}

pub(crate) async fn run(context: &Context, command: &PlaybookCommand) -> anyhow::Result<Exit> {
    match command {
        PlaybookCommand::List => list::list(context),
        PlaybookCommand::Show { name, version: None, full } => show::show(context, name.as_deref(), *full),
        PlaybookCommand::Show { name, version: Some(number), .. } => show::version(context, name.as_deref(), *number),
        PlaybookCommand::Log { name } => versions::log(context, name.as_deref()),
        PlaybookCommand::Diff { name, from, to } => versions::diff(context, name.as_deref(), *from, *to),
        PlaybookCommand::Rollback { name, to } => versions::rollback(context, name, *to).await,
        PlaybookCommand::Export { name, path, version } => exchange::export(context, name, path, *version),
        PlaybookCommand::Import { name, path } => exchange::import(context, name, path).await,
    }
}

/// The data folder, open for changing a playbook.
fn workspace(context: &Context) -> anyhow::Result<Workspace> {
    Ok(Workspace::open(WorkspaceSettings::new(context.folder()?))?)
}

fn print_json(report: &impl Serialize) -> anyhow::Result<Exit> {
    // Via a value, so that keys have the order of all other documents.
    crate::terminal::json(&serde_json::to_value(report)?)?;
    Ok(Exit::Ok)
}
