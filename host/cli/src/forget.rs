//! `clawhost forget`: removes what somebody said from the data folder.

use crate::context::Context;
use crate::exit::Exit;
use clap::Args;
use clawhost_app::{
    CitedLesson, ForgetReport, ForgetRequest, ForgetScope, ForgottenLessons, SystemClock, WithdrawnWeights, forget,
};
use clawhost_core::{Forgotten, counted, escaped};
use std::io::Write;
use std::sync::Arc;

const HELP: &str = "SCOPE is one of
  user:KEY/NAME      a user of the key KEY; user:/NAME of clients without a key, user:KEY/ if its clients name no user
  project:KEY/NAME   a project
  agent:KEY/NAME     an agent
  team:/NAME         the memory of a team
  key:KEY            everything of a key; key: of clients without one

Without --yes it shows what would be removed, and a gateway may run. With --yes none may: stop it, forget, and start it again. It can be interrupted: run it again.
Weights that a gateway trained from it answer no longer. Copies elsewhere (exports, backups, weights of runs) are not reached. The guide `live.md` says what goes and what
stays.";

#[derive(Debug, Clone, Args)]
#[command(after_help = HELP)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["scope", "session", "episode"])))]
pub(crate) struct ForgetArgs {
    /// Whose words are forgotten, with memory
    #[arg(value_name = "SCOPE", value_parser = scope)]
    scope: Option<ForgetScope>,
    /// Only the sessions with this name, and what came from them
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Only this episode (its id, or RUN/ID), and what came from it
    #[arg(long, value_name = "EPISODE")]
    episode: Option<String>,
    /// Remove it
    #[arg(long)]
    yes: bool,
    /// Show what would be removed, and remove nothing; this is the default
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

fn scope(text: &str) -> Result<ForgetScope, String> {
    text.parse().map_err(|error: clawhost_app::ForgetError| error.to_string())
}

pub(crate) async fn run(context: &Context, arguments: &ForgetArgs) -> anyhow::Result<Exit> {
    let ForgetArgs { scope, session, episode, yes, .. } = arguments.clone();
    let request = ForgetRequest { scope, session, episode, is_rehearsal: !yes };
    let report = forget(&context.folder()?, &request, Arc::new(SystemClock::default())).await?;
    if context.json() {
        crate::terminal::json(&serde_json::json!({ "format": 1, "forget": report }))?;
    } else {
        text(&mut crate::terminal::stdout(), &report)?;
    }
    Ok(Exit::Ok)
}

fn row(label: &str) -> String {
    format!("\x1b[2m{label:<12}\x1b[0m")
}

/// Counts that are not 0.
fn counts(all: &[(u64, &str)]) -> String {
    all.iter().filter(|(count, _)| *count > 0).map(|(count, what)| counted(*count, what)).collect::<Vec<_>>().join(", ")
}

fn text(out: &mut impl Write, report: &ForgetReport) -> std::io::Result<()> {
    let verb = if report.is_rehearsal { "would go" } else { "removed" };
    writeln!(out, "{}{}", row("forget"), report.what)?;
    if let Some(interrupted) = &report.interrupted {
        let then = if report.is_rehearsal { "forgetting finishes it, too" } else { "it is finished now" };
        writeln!(
            out,
            "{}{} of an earlier forgetting; {then}",
            row("interrupted"),
            counted(interrupted.len() as u64, "episode")
        )?;
    }
    let Forgotten {
        episodes,
        in_progress,
        verdicts,
        exchanges,
        feedback,
        responses,
        names,
        memories,
        trajectories,
        decisions,
        draws,
        anonymous,
        blobs,
        dictionaries,
        recompressed,
    } = report.removed;
    let ForgottenLessons { candidates, trials, ended } = report.lessons;
    let lines = [
        counts(&[(episodes, "episode"), (in_progress, "open session"), (verdicts, "verdict"), (exchanges, "exchange")]),
        counts(&[(feedback, "waiting verdict"), (responses, "stored response"), (names, "name"), (memories, "memory")]),
        counts(&[(trajectories, "trajectory"), (blobs, "file"), (report.logs, "gateway log")]),
        counts(&[(candidates, "waiting lesson"), (trials, "tried lesson"), (ended, "dropped lesson")]),
        counts(&[(decisions + report.logged_decisions, "router decision"), (draws, "waiting draw")]),
    ];
    for line in lines.iter().filter(|line| !line.is_empty()) {
        writeln!(out, "{}{line}", row(verb))?;
    }
    if lines.iter().all(String::is_empty) {
        writeln!(out, "{}nothing", row(verb))?;
    }
    if dictionaries > 0 {
        let what = counted(dictionaries, "dictionary");
        writeln!(
            out,
            "{}{what} of compression; {} compressed anew",
            row(verb),
            counted(recompressed, "other document")
        )?;
    }
    if anonymous > 0 {
        let what = counted(anonymous, "draw");
        writeln!(out, "{}{what} of trials, as numbers that name nobody", row("kept"))?;
    }
    for WithdrawnWeights { model, scope, versions, is_removed, serves } in &report.weights {
        let named = scope.as_ref().map_or_else(|| model.clone(), |scope| format!("{model}, {scope}"));
        let versions: Vec<String> = versions.iter().map(u64::to_string).collect();
        if *is_removed {
            let count = counted(versions.len() as u64, "version");
            writeln!(out, "{}adapter of {} with {count}; the model itself answers", row(verb), escaped(&named, 600))?;
            continue;
        }
        let answers = if *serves == 0 { "the configured model".to_owned() } else { format!("version {serves}") };
        writeln!(
            out,
            "{}weights of {}: {} {} learned from them, so {answers} answers; model rollback with --confirm serves one all the same",
            row(if report.is_rehearsal { "would go" } else { "withdrawn" }),
            escaped(&named, 600),
            if versions.len() == 1 { "version" } else { "versions" },
            versions.join(", "),
        )?;
    }
    for CitedLesson { playbook, entry, lesson, version, is_served, sessions } in &report.cited {
        let served = if *is_served { "which is served" } else { "an older one" };
        writeln!(
            out,
            "{}lesson {} of playbook {}, version {version}, {served}: it cites {} of them: {}",
            row("kept"),
            escaped(entry, 80),
            escaped(playbook, 80),
            counted(*sessions, "session"),
            escaped(lesson, 200),
        )?;
    }
    if !report.unreadable.is_empty() {
        let what = counted(report.unreadable.len() as u64, "episode");
        writeln!(
            out,
            "{}{what} that cannot be read, and may be theirs: {}",
            row("kept"),
            escaped(&report.unreadable.join(", "), 500)
        )?;
    }
    match report.bytes_after {
        Some(after) => {
            let (after, before) = (crate::data_folder::size(after), crate::data_folder::size(report.bytes_before));
            writeln!(out, "{}{after}, before {before}", row("size"))
        }
        None => writeln!(out, "{}nothing was removed; --yes removes it", row("")),
    }
}
