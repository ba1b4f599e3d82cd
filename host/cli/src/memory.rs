//! `clawhost memory`: what gateways remember of users, projects, agents and teams.

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use clap::{Args, Subcommand};
use clawhost_app::{
    MemoryItem, MemoryKind, NewMemory, PromotedMemory, Scope, SystemClock, Workspace, WorkspaceSettings, export_memory,
    forget_memory, import_memory, list_memory, memory_scopes, promote_memory, remember, time,
};
use clawhost_core::Clock as _;
use serde_json::json;
use std::io::Write as _;
use std::path::PathBuf;

/// Largest file for an import: a full scope takes a tenth of it.
const MOST_BYTES: u64 = 2 << 20;

const HELP: &str = "A scope is LEVEL:OWNER/NAME. OWNER is the name of the key whose clients mean it, and empty without keys:
  user:/ada        the user ada of clients without a key
  user:shop/ada    the user ada of the key `shop`; `user:shop/` if its clients name no user
  project:shop/x   a project, by the header X-Clawhost-Project
  agent:shop/shop  an agent: the key's name, or the header X-Clawhost-Agent
  team:/core       all keys that were made with --team core

Gateways with `--mode skills` show it in the sessions of its scope, from the next one on, and nowhere else. It is no measured lesson.";

#[derive(Debug, Subcommand)]
#[command(after_help = HELP)]
pub(crate) enum MemoryCommand {
    /// List what is remembered of a scope, without what has expired; without a scope, the scopes
    #[command(after_help = HELP)]
    List(ListArgs),
    /// Remember a text
    #[command(after_help = HELP)]
    Add(AddArgs),
    /// Forget one; what it had replaced is used again
    Forget {
        /// The scope
        #[arg(value_name = "SCOPE", value_parser = scope)]
        scope: Scope,
        /// Its id, as `clawhost memory list SCOPE` shows it
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Make one a lesson of the playbook, for the sessions of everybody
    Promote {
        /// Its id, as `clawhost memory list SCOPE` shows it
        #[arg(value_name = "ID")]
        id: String,
        /// The playbook [default: `skills.playbook` of gateway.toml, or the only one; where there is none, `live` begins]
        #[arg(long, value_name = "NAME")]
        playbook: Option<String>,
    },
    /// Write what is remembered and used of a scope as JSON
    Export {
        /// The scope
        #[arg(value_name = "SCOPE", value_parser = scope)]
        scope: Scope,
        /// The file [default: standard output]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Remember what an exported file has, without what has expired since
    Import {
        /// The scope
        #[arg(value_name = "SCOPE", value_parser = scope)]
        scope: Scope,
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The scope
    #[arg(value_name = "SCOPE", value_parser = scope)]
    scope: Option<Scope>,
    /// Only what has all of these words
    #[arg(long, value_name = "WORDS", requires = "scope")]
    search: Option<String>,
    /// Also what has expired: it is not used, and goes with the next text of the scope
    #[arg(long, requires = "scope")]
    all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The scope
    #[arg(value_name = "SCOPE", value_parser = scope)]
    scope: Scope,
    /// The text; `when X: Y` is used where X holds
    #[arg(value_name = "TEXT")]
    text: String,
    /// What kind of knowledge it is [default: preference]
    #[arg(long, value_parser = MemoryKind::ALL.map(MemoryKind::name))]
    kind: Option<String>,
    /// Stop using it after this many days; what it replaces is used again then
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    expires_days: Option<u32>,
    /// The id of what it replaces
    #[arg(long, value_name = "ID")]
    supersedes: Option<String>,
}

fn scope(text: &str) -> Result<Scope, String> {
    text.parse().map_err(|error: clawhost_app::InvalidScope| error.to_string())
}

fn workspace(context: &Context) -> anyhow::Result<Workspace> {
    Ok(Workspace::open(WorkspaceSettings::new(context.folder()?))?)
}

pub(crate) async fn run(context: &Context, command: &MemoryCommand) -> anyhow::Result<Exit> {
    let mut out = crate::terminal::stdout();
    let told = |json: serde_json::Value, text: String| -> anyhow::Result<()> {
        match context.json() {
            true => crate::terminal::json(&json)?,
            false => writeln!(crate::terminal::stdout(), "{text}")?,
        }
        Ok(())
    };
    match command {
        MemoryCommand::List(ListArgs { scope: None, .. }) => scopes(context)?,
        MemoryCommand::List(ListArgs { scope: Some(scope), search, all }) => {
            list(context, scope, (search.as_deref(), *all))?;
        }
        MemoryCommand::Add(add) => {
            let new = NewMemory {
                level: None,
                kind: add.kind.clone(),
                text: add.text.clone(),
                episode: None,
                supersedes: add.supersedes.clone(),
                expires_days: add.expires_days,
            };
            let item = remember(&workspace(context)?, add.scope.clone(), new).await?;
            let text = format!("{}: {} {}", item.scope, item.id, item.text);
            told(json!({"format": 1, "memory": item}), text)?;
        }
        MemoryCommand::Forget { scope, id } => {
            forget_memory(&workspace(context)?, scope, id).await?;
            told(json!({"format": 1, "forgotten": id}), format!("{scope}: forgot {id}"))?;
        }
        MemoryCommand::Promote { id, playbook } => {
            let promoted = promote_memory(&workspace(context)?, id, playbook.as_deref()).await?;
            let text = promotion(&promoted);
            told(json!({"format": 1, "promoted": promoted}), text)?;
        }
        MemoryCommand::Export { scope, file } => {
            let text = export_memory(&*context.reader()?, scope, SystemClock::default().now_ms())?;
            match file {
                None => writeln!(out, "{text}")?,
                Some(file) => std::fs::write(file, text).map_err(|error| unusable(file, &error))?,
            }
        }
        MemoryCommand::Import { scope, file } => {
            let text = clawhost_files::read_text(file, MOST_BYTES).map_err(|error| unusable(file, &error))?;
            let count = import_memory(&workspace(context)?, scope, &text).await?;
            told(json!({"format": 1, "imported": count}), format!("{scope}: remembered {count}"))?;
        }
    }
    Ok(Exit::Ok)
}

/// What a promotion did, for people.
fn promotion(promoted: &PromotedMemory) -> String {
    let PromotedMemory { scope, id, playbook, version, text, .. } = promoted;
    let (scope, text, before) = (crate::episodes::safe(scope), crate::episodes::safe(text), version.saturating_sub(1));
    format!(
        "{playbook}, version {version} is served from now on, with what {id} of {scope} says: {text}\n\
         everybody gets it, in the sessions to which it applies; `clawhost playbook rollback {playbook} --to {before}` takes it back"
    )
}

fn unusable(file: &std::path::Path, error: &dyn std::fmt::Display) -> UsageError {
    UsageError(format!("{}: {error}", file.display()))
}

fn scopes(context: &Context) -> anyhow::Result<()> {
    let all = memory_scopes(&*context.reader()?, SystemClock::default().now_ms())?;
    if context.json() {
        return Ok(crate::terminal::json(&json!({"format": 1, "scopes": all}))?);
    }
    let mut out = crate::terminal::stdout();
    if all.is_empty() {
        writeln!(out, "nothing is remembered; `clawhost memory add user:/ TEXT` adds a first one")?;
        return Ok(());
    }
    let mut table = crate::episodes::table(&["scope", "memories"]);
    for scope in all {
        table.add_row([crate::episodes::safe(&scope.scope), scope.memories.to_string()]);
    }
    Ok(crate::episodes::print(&mut out, &table)?)
}

fn list(context: &Context, scope: &Scope, asked: (Option<&str>, bool)) -> anyhow::Result<()> {
    let items = list_memory(&*context.reader()?, scope, asked, SystemClock::default().now_ms())?;
    if context.json() {
        return Ok(crate::terminal::json(&json!({"format": 1, "scope": scope.to_string(), "memories": items}))?);
    }
    let mut out = crate::terminal::stdout();
    if items.is_empty() {
        writeln!(out, "nothing is remembered of {scope}")?;
        return Ok(());
    }
    let mut table = crate::episodes::table(&["id", "kind", "text", "written", "used"]);
    for MemoryItem { id, kind, text, written_at, expires_at, expired, superseded_by, .. } in items {
        let used = match (superseded_by, expires_at) {
            (_, Some(at)) if expired => format!("no: it expired {}", time(at)),
            (Some(by), _) => format!("no: {by} replaced it"),
            (None, Some(until)) => format!("until {}", time(until)),
            (None, None) => "yes".to_owned(),
        };
        table.add_row([id, kind, crate::episodes::safe(&text), time(written_at), used]);
    }
    Ok(crate::episodes::print(&mut out, &table)?)
}
