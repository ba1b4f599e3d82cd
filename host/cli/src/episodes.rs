//! `clawhost episodes list|show|export`.

use crate::args::{EpisodesCommand, MachineArgs};
use crate::context::Context;
use crate::exit::Exit;
use anyhow::Context as _;
use clawhost_app::{
    AppError, EpisodeList, EpisodeQuery, Exported, LIST_LIMIT, ListedEpisode, RequestError, SystemClock,
    explain_no_runs, export_episodes, find_episode, has_unsettled, list_episodes, settle_live, time,
};
use clawhost_core::{
    AnsweringModel, Clock as _, DamagedRecord, Ending, Episode, EpisodeOrigin, EpisodeState, IgnoredRequest, Live,
    LiveSession, Message, Origin, PluginIdentity, Revision, RunId, Simulated, StoreReader, Verdict, Withheld,
    answer_lines, counted, escaped, history, json_escaped, standing, thousands,
};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use std::io::{BufWriter, Write};

pub(crate) async fn run(context: &Context, command: &EpisodesCommand) -> anyhow::Result<Exit> {
    ran(context, command).await.map_err(|error| explained(context, error))
}

/// An error as it concerns the gateway of the data folder.
pub(crate) fn explained(context: &Context, error: anyhow::Error) -> anyhow::Error {
    let Ok(folder) = context.folder() else { return error };
    let explained = error.downcast_ref::<AppError>().and_then(|error| explain_no_runs(&folder, error));
    explained.map_or(error, |explained| AppError::from(explained).into())
}

async fn ran(context: &Context, command: &EpisodesCommand) -> anyhow::Result<Exit> {
    // The data folder must exist.
    drop(context.reader()?);
    match command {
        EpisodesCommand::Close => return close(context).await,
        EpisodesCommand::Tail => return crate::tail::run(context).await,
        _ => {}
    }
    settle(context).await;
    let reader = context.reader()?;
    match command {
        EpisodesCommand::Close | EpisodesCommand::Tail => Ok(Exit::Ok),
        EpisodesCommand::List { runs, filter, limit } => {
            list(context, &*reader, &filter.query(runs), limit.unwrap_or(LIST_LIMIT))
        }
        EpisodesCommand::Show { episode } => show(context, &*reader, episode),
        EpisodesCommand::Export { runs, filter, output } => {
            let query = filter.query(runs);
            match output {
                None => export(&*reader, &query, &mut BufWriter::new(std::io::stdout().lock())),
                Some(path) => {
                    let name = path.display().to_string();
                    let file = std::fs::File::create(path).with_context(|| format!("{name}: cannot be written"))?;
                    export(&*reader, &query, &mut BufWriter::new(file))
                }
            }
        }
    }
}

/// Takes over what a gateway left that was killed, and waits for one that runs, so that every answer is seen that an agent has. A folder
/// that cannot be written is read as it is.
async fn settle(context: &Context) {
    let unsettled = context.folder().is_ok_and(|folder| has_unsettled(&folder));
    if let (true, Ok(workspace)) = (unsettled, context.workspace(&MachineArgs::default())) {
        let _ = settle_live(&workspace, false).await;
    }
}

/// Ends all open sessions.
async fn close(context: &Context) -> anyhow::Result<Exit> {
    let workspace = context.workspace(&MachineArgs::default())?;
    let folder = workspace.folder().display().to_string();
    let Some(closed) = settle_live(&workspace, true).await? else {
        return Err(AppError::from(RequestError::GatewayRuns { folder }).into());
    };
    match context.json() {
        true => crate::terminal::json(&serde_json::json!({ "format": 1, "closed": closed }))?,
        false => writeln!(crate::terminal::stdout(), "closed {}", counted(closed, "session"))?,
    }
    Ok(Exit::Ok)
}

/// Prints a table without trailing spaces.
pub(crate) fn print(out: &mut impl Write, table: &Table) -> std::io::Result<()> {
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header.to_vec());
    table
}

/// Names the records that could not be read, on standard error.
pub(crate) fn tell_damaged(damaged: &[DamagedRecord]) {
    for DamagedRecord { record, why } in damaged {
        let (record, why) = (escaped(record, 200), escaped(why, 500));
        let _ = writeln!(crate::terminal::stderr(), "\x1b[33mdamaged\x1b[0m     {record}: {why}; it was left out");
    }
}

/// Names the selected runs.
fn named(runs: Option<&[RunId]>) -> String {
    match runs {
        None => "all runs".to_owned(),
        Some([run]) => run.to_string(),
        Some(runs) => format!("{} live runs; each key of the gateway has its own for each day", runs.len()),
    }
}

/// The names of the columns for the environment and the task. Live episodes have an agent and a session in these places.
fn place_columns(episodes: &[ListedEpisode]) -> [&'static str; 2] {
    let live = episodes.iter().filter(|one| one.row.live).count();
    match live {
        0 => ["environment", "task"],
        all if all == episodes.len() => ["agent", "session"],
        _ => ["environment or agent", "task or session"],
    }
}

fn list(context: &Context, reader: &dyn StoreReader, query: &EpisodeQuery, limit: u64) -> anyhow::Result<Exit> {
    let now = SystemClock::default().now_ms();
    let EpisodeList { runs, episodes, matching, damaged } = list_episodes(reader, query, Some(limit), now)?;
    tell_damaged(&damaged);
    let mut out = crate::terminal::stdout();
    if context.json() {
        crate::terminal::json(&serde_json::to_value(&episodes)?)?;
        return Ok(Exit::Ok);
    }
    let shown = episodes.len() as u64;
    let open_elsewhere = match &runs {
        Some(runs) => {
            reader.open_episodes(None)?.iter().filter(|open| !runs.contains(&open.episode.run)).count() as u64
        }
        None => 0,
    };
    let elsewhere = if runs.is_some() { "; --all looks at every run" } else { "" };
    let of = named(runs.as_deref());
    if episodes.is_empty() {
        writeln!(out, "no such episodes of {of}{elsewhere}")?;
        return Ok(Exit::Ok);
    }
    writeln!(out, "episodes of {of}")?;
    let [environment, task] = place_columns(&episodes);
    let mut table = table(&["episode", environment, task, "reward", "turns", "ending", "state", "run"]);
    for ListedEpisode { row, state, .. } in episodes {
        let reward = row.reward.map_or_else(|| "-".to_owned(), |reward| format!("{reward:.3}"));
        let state = match row.revision {
            0 => state.name().to_owned(),
            revision => format!("{}, revision {revision}", state.name()),
        };
        table.add_row([
            row.id,
            escaped(&row.environment, 60),
            escaped(&row.task, 60),
            reward,
            row.turns.to_string(),
            row.ending,
            state,
            row.run,
        ]);
    }
    for column in [3, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    print(&mut out, &table)?;
    let hidden = matching.saturating_sub(shown + damaged.len() as u64);
    if hidden > 0 {
        writeln!(out, "and {} more; --limit N shows them", thousands(hidden))?;
    }
    if open_elsewhere > 0 {
        writeln!(out, "{} of agents are open in other runs: --all lists them", counted(open_elsewhere, "session"))?;
    }
    Ok(Exit::Ok)
}

fn show(context: &Context, reader: &dyn StoreReader, name: &str) -> anyhow::Result<Exit> {
    let episode = find_episode(reader, name)?;
    let mut out = crate::terminal::stdout();
    if context.json() {
        crate::terminal::json(&serde_json::to_value(&episode)?)?;
        return Ok(Exit::Ok);
    }
    let open = reader.open_episodes(Some(&episode.run))?;
    transcript(&mut out, &episode, open.iter().any(|open| open.episode.id == episode.id))?;
    Ok(Exit::Ok)
}

/// External text, safe to print: characters that could hide or move text are made visible. Line ends stay.
pub(crate) fn safe(text: &str) -> String {
    text.split('\n').map(|line| escaped(line, usize::MAX)).collect::<Vec<_>>().join("\n")
}

/// The same, with its lines indented below a label, so that no line can imitate one of the program's own.
fn below(text: &str) -> String {
    safe(text).replace('\n', "\n            ")
}

fn said(out: &mut impl Write, who: &str, message: &Message) -> std::io::Result<()> {
    let text = safe(&message.plain_text()).replace('\n', "\n             ");
    if !text.is_empty() {
        writeln!(out, "  \x1b[2m{who:<10}\x1b[0m {text}")?;
    }
    Ok(())
}

/// The policy's answer in the format of scripts.
fn answered(out: &mut impl Write, answer: &Message) -> std::io::Result<()> {
    let lines = answer_lines(answer);
    let lines = if lines.iter().all(String::is_empty) { &[] } else { lines.as_slice() };
    for (index, line) in lines.iter().enumerate() {
        let label = if index == 0 || line.starts_with("calls ") { "answered" } else { "" };
        writeln!(out, "  \x1b[2m{label:<10}\x1b[0m {line}")?;
    }
    Ok(())
}

fn transcript(out: &mut impl Write, episode: &Episode, is_open: bool) -> std::io::Result<()> {
    let row = |label: &str| format!("\x1b[2m{label:<12}\x1b[0m");
    writeln!(out, "{}{} of {}", row("episode"), episode.id, episode.run)?;
    match &episode.origin {
        EpisodeOrigin::Simulated(Simulated { environment: PluginIdentity { name, version, digest }, seed, .. }) => {
            writeln!(out, "{}{name} {version} ({})", row("environment"), digest.short())?;
            writeln!(out, "{}{}, seed {seed}", row("task"), safe(&episode.task.key()))?;
        }
        EpisodeOrigin::Live(Live { live: LiveSession { session, agent, alias, user, project }, withheld }) => {
            writeln!(out, "{}{}, which asked for the model {}", row("agent"), safe(agent), safe(alias))?;
            writeln!(out, "{}{}", row("session"), safe(session))?;
            for (label, name) in [("user", user), ("project", project)] {
                if let Some(name) = name {
                    writeln!(out, "{}{}", row(label), safe(name))?;
                }
            }
            let why = withheld.map(|withheld| match withheld {
                Withheld::NoTrain => "the client or its key said so",
                Withheld::Ambiguous => "several conversations fitted one of its requests",
                Withheld::Repetition => "it asks again what another episode asked",
                Withheld::SideTurn => "it is beside a conversation",
                Withheld::Redacted => "a part of an answer was redacted",
            });
            if let Some(why) = why {
                writeln!(out, "{}no: {why}", row("learning"))?;
            }
        }
    }
    let model = &episode.policy.model;
    writeln!(out, "{}{} {} ({})", row("policy"), model.provider, model.model, model.version)?;
    if let Some(branch) = episode.branch() {
        let how = match (branch.at, branch.way) {
            (0, _) => "shares no turn with its group".to_owned(),
            (at, clawhost_core::BranchWay::Snapshot) => {
                format!("shares its first {}, restored from a snapshot", counted(u64::from(at), "turn"))
            }
            (at, clawhost_core::BranchWay::Replay) => {
                format!("shares its first {}, played again", counted(u64::from(at), "turn"))
            }
        };
        let reason = branch.reason.as_ref().map(|reason| format!(": {}", escaped(reason, 500))).unwrap_or_default();
        writeln!(out, "{}{how}{reason}", row("branch"))?;
    }
    if let Some(hint) = &episode.policy.system_prompt {
        writeln!(out, "{}{}", row("prompt"), below(hint))?;
    }
    for (index, turn) in episode.turns.iter().enumerate() {
        writeln!(out, "\x1b[1mturn {index}\x1b[0m")?;
        turn.observation.iter().try_for_each(|message| said(out, "observed", message))?;
        answered(out, &turn.action)?;
        turn.others.iter().try_for_each(|other| said(out, "or", &other.message))?;
        if !["stop", "tool_calls"].contains(&turn.finish.as_str()) {
            writeln!(out, "  \x1b[33m{:<10}\x1b[0m {}", "cut short", safe(&turn.finish))?;
        }
        if let Some(AnsweringModel { model, version }) = &turn.answered_by {
            let version = version.as_ref().map(|version| format!(" ({})", safe(version))).unwrap_or_default();
            writeln!(out, "  \x1b[2m{:<10}\x1b[0m {}{version}", "by", safe(model))?;
        }
        // A dialect without seeds ignores them in every turn. That is recorded, and would hide other entries here.
        let ignored = turn.ignored.iter().filter(|what| **what != IgnoredRequest::Seed);
        let ignored: Vec<&str> = ignored.map(|what| what.name()).collect();
        if !ignored.is_empty() {
            writeln!(out, "  \x1b[33m{:<10}\x1b[0m {}, which was asked for", "ignored", ignored.join(", "))?;
        }
        for result in &turn.tool_results {
            let who = if result.origin == Origin::Host { "refused" } else { "result" };
            said(out, who, result)?;
        }
        let signals: Vec<String> =
            turn.signals.iter().map(|signal| format!("{} {}", safe(&signal.name), signal.value)).collect();
        if !signals.is_empty() {
            writeln!(out, "  \x1b[2m{:<10}\x1b[0m {}", "signals", signals.join(", "))?;
        }
    }
    if !episode.closing.is_empty() {
        writeln!(out, "\x1b[1mafter that\x1b[0m")?;
        episode.closing.iter().try_for_each(|message| said(out, "observed", message))?;
    }
    if let Some(untaken) = &episode.untaken {
        writeln!(out, "\x1b[1mnot taken\x1b[0m (the step failed)")?;
        answered(out, &untaken.action)?;
    }
    if is_open {
        writeln!(out, "{}none yet: the session is open", row("ending"))?;
        return log(out, episode);
    }
    writeln!(out, "{}{}", row("ending"), safe(&episode.ending.to_string()))?;
    if let Ending::Failed(failure) = &episode.ending
        && let Some(report) = &failure.report
    {
        writeln!(out, "{report}")?;
    }
    for record in &episode.verdicts {
        let place = match &record.later {
            Some(later) => format!(", revision {} of {}", later.revision, time(later.at)),
            None => String::new(),
        };
        let replaced = !standing(&episode.verdicts).any(|one| std::ptr::eq(one, record));
        let role = match (replaced, record.post_hoc) {
            (true, _) => ", replaced by a later one",
            (false, true) => ", no part of the reward",
            (false, false) => "",
        };
        let later = format!("{place}{role}");
        let options: Vec<String> = record.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let query = if options.is_empty() { String::new() } else { format!("?{}", safe(&options.join("&"))) };
        let reward = format!("{}{query} ({}{later})", record.reward.name, record.source.name());
        match &record.verdict {
            Verdict::Scored(card) => {
                writeln!(out, "{}{} by {reward}: {}", row("verdict"), card.value, below(&card.rationale))?;
                let parts: Vec<String> =
                    card.parts.iter().map(|part| format!("{} {}", safe(&part.name), part.value)).collect();
                if !parts.is_empty() {
                    writeln!(out, "{}made of {}", row(""), parts.join(", "))?;
                }
            }
            Verdict::NotApplicable(why) => writeln!(out, "{}none by {reward}: {}", row("verdict"), below(why))?,
            Verdict::Failed(failure) => {
                writeln!(out, "{}none by {reward}: {}", row("verdict"), below(&failure.to_string()))?;
                if let Some(report) = &failure.report {
                    writeln!(out, "{report}")?;
                }
            }
        }
    }
    for record in &episode.verdicts {
        for line in &record.log {
            writeln!(out, "{}{}: {line}", row("log"), record.reward.name)?;
        }
    }
    let reward = episode.reward.map_or_else(|| "not scored".to_owned(), |reward| reward.to_string());
    writeln!(out, "{}{reward}", row("reward"))?;
    let revisions = history(&episode.verdicts);
    if revisions.len() > 1 {
        let shown = |one: &Revision| one.reward.map_or_else(|| "not scored".to_owned(), |reward| reward.to_string());
        let all: Vec<String> = revisions.iter().map(shown).collect();
        writeln!(out, "{}{} (revision 0 to {})", row("history"), all.join(" -> "), revisions.len() - 1)?;
    }
    if let EpisodeState::Pending { until } = episode.state(SystemClock::default().now_ms()) {
        writeln!(out, "{}waits for a verdict until {}", row("pending"), time(until))?;
    }
    log(out, episode)
}

/// What an episode records beside its turns: of a live one, requests without an answer, cut histories and where it branches off.
fn log(out: &mut impl Write, episode: &Episode) -> std::io::Result<()> {
    episode.log.iter().try_for_each(|line| writeln!(out, "\x1b[2m{:<12}\x1b[0m{line}", "log"))
}

fn export(reader: &dyn StoreReader, query: &EpisodeQuery, out: &mut impl Write) -> anyhow::Result<Exit> {
    let now = SystemClock::default().now_ms();
    let Exported { runs, episodes } = export_episodes(reader, query, now, |episode| -> anyhow::Result<()> {
        writeln!(out, "{}", json_escaped(&serde_json::to_string(episode)?))?;
        Ok(())
    })?;
    out.flush()?;
    // Written to standard error: another program may read the episodes.
    let of = named(runs.as_deref());
    let _ = writeln!(crate::terminal::stderr(), "exported {} of {of}", counted(episodes, "episode"));
    Ok(Exit::Ok)
}
