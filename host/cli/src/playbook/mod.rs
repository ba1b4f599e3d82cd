//! `clawhost playbook`: all there are, entries, versions, rollback, export and import.

mod exchange;
mod list;
mod show;
mod versions;

use crate::context::Context;
use crate::exit::Exit;
use clap::Subcommand;
use clawhost_app::{Workspace, WorkspaceSettings};
use serde::Serialize;
use std::io::Write as _;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum PlaybookCommand {
    /// Every playbook: its newest version, how many entries are served, and where they were learned
    List,
    /// Every entry: status, groups, lift with its interval, e-value, tokens
    Show {
        /// The playbook [default: the only one]
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// What this version says, instead
        #[arg(long, value_name = "N")]
        version: Option<u64>,
        /// Whole lessons, on a terminal too; elsewhere they are never cut
        #[arg(long, conflicts_with = "version")]
        full: bool,
    },
    /// Every version, and how it came about
    Log {
        /// The playbook [default: the only one]
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// What changed between two versions
    Diff {
        /// The playbook [default: the only one]
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// From this version; before the first, as version 0, nothing is said [default: the one before]
        #[arg(value_name = "FROM")]
        from: Option<u64>,
        /// To this one [default: the newest]
        #[arg(value_name = "TO")]
        to: Option<u64>,
    },
    /// Serve what an older version says, as a new version
    Rollback {
        /// The playbook
        #[arg(value_name = "NAME")]
        name: String,
        /// To this version [default: the one before]
        #[arg(long, value_name = "N")]
        to: Option<u64>,
    },
    /// Write what is served: as JSON into a file, or as a folder of skills (SKILL.md)
    Export {
        /// The playbook
        #[arg(value_name = "NAME")]
        name: String,
        /// A file ending in .json, or a folder that is made (a name without an extension, or with a `/` behind it)
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// What this version says [default: the newest]
        #[arg(long, value_name = "N")]
        version: Option<u64>,
    },
    /// Serve what a JSON file, a skill or a folder of skills says, as a new version. Evidence does not come with it: it is measured anew
    Import {
        /// The playbook
        #[arg(value_name = "NAME")]
        name: String,
        /// A file ending in .json, a folder with SKILL.md files, or one file of a skill, ending in .md
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

/// The data folder, open for a change of a playbook: nothing is played.
fn workspace(context: &Context) -> anyhow::Result<Workspace> {
    Ok(Workspace::open(WorkspaceSettings::new(context.folder()?))?)
}

fn print_json(report: &impl Serialize) -> anyhow::Result<Exit> {
    // By way of a value, so that keys are in the order of all other documents.
    writeln!(anstream::stdout(), "{:#}", serde_json::to_value(report)?)?;
    Ok(Exit::Ok)
}
