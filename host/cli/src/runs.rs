//! `clawhost runs list|show|rename|tag|rm`.

use crate::args::{LAYER, MachineArgs, RunListArgs, RunsCommand};
use crate::context::Context;
use crate::data_folder::{remove, size};
use crate::episodes::{print, table, tell_damaged};
use crate::exit::Exit;
use crate::summary;
use crate::words::Words;
use clawhost_app::{
    Estimate, LIST_LIMIT, ListedRun, PruneRule, RunDetails, RunQuery, SystemClock, list_runs, rename_run, show_run,
    tag_run, time,
};
use clawhost_core::{
    Clock as _, EpisodeTally, LlmIdentity, PhaseRow, RunFilter, RunId, RunKind, RunLabels, RunRow, RunState, counted,
    escaped, thousands,
};
use clawhost_run_config::{Key, RunSpec};
use comfy_table::CellAlignment;
use std::io::Write;

pub(crate) async fn run(context: &Context, command: &RunsCommand) -> anyhow::Result<Exit> {
    match command {
        RunsCommand::List(arguments) => list(context, arguments),
        RunsCommand::Show { run } => show(context, run.as_deref()).await,
        RunsCommand::Rename { run, name, .. } => {
            let workspace = existing(context)?;
            told(context, rename_run(&workspace, run, name.clone()).await?)
        }
        RunsCommand::Tag { run, tags, remove } => {
            let workspace = existing(context)?;
            let (added, removed) = (tags.iter().cloned().collect(), remove.iter().cloned().collect());
            told(context, tag_run(&workspace, run, added, removed).await?)
        }
        RunsCommand::Rm { runs, dry_run } => {
            let rule = PruneRule::Runs(runs.iter().cloned().map(RunId).collect());
            remove(context, rule, *dry_run).await
        }
    }
}

/// The data folder for writing. It must exist.
fn existing(context: &Context) -> anyhow::Result<clawhost_app::Workspace> {
    context.reader()?;
    context.workspace(&MachineArgs::default())
}

/// Prints the labels of a run.
fn told(context: &Context, (run, labels): (RunId, RunLabels)) -> anyhow::Result<Exit> {
    let mut out = crate::terminal::stdout();
    if context.json() {
        let document = serde_json::json!({ "format": 1, "run": run, "name": labels.name, "tags": labels.tags });
        crate::terminal::json(&document)?;
        return Ok(Exit::Ok);
    }
    writeln!(out, "{}{run}", row("run"))?;
    called(&mut out, &labels)?;
    Ok(Exit::Ok)
}

fn called(out: &mut impl Write, RunLabels { name, tags }: &RunLabels) -> std::io::Result<()> {
    let name = name.as_ref().map_or("none", |name| name.as_str());
    writeln!(out, "{}{name}", row("name"))?;
    let tags: Vec<&str> = tags.iter().map(|tag| tag.as_str()).collect();
    let tags = if tags.is_empty() { "none".to_owned() } else { tags.join(", ") };
    writeln!(out, "{}{tags}", row("tags"))
}

fn row(label: &str) -> String {
    format!("\x1b[2m{label:<12}\x1b[0m")
}

/// The text of an absent value in a list.
const NOTHING: &str = "-";

impl RunListArgs {
    fn query(&self, now_ms: u64) -> RunQuery {
        let filter = RunFilter {
            tags: self.tag.iter().cloned().collect(),
            states: self.state.iter().map(|state| (*state).into()).collect(),
            kinds: self.kind.iter().map(|kind| (*kind).into()).collect(),
            begun_from: self.newer_than.map(|age| now_ms.saturating_sub(age)),
            begun_to: self.older_than.map(|age| now_ms.saturating_sub(age)),
            limit: Some(self.limit.unwrap_or(LIST_LIMIT)),
        };
        RunQuery { filter, environment: self.environment.clone() }
    }
}

fn state(row: &RunRow) -> &'static str {
    match row.state {
        RunState::Open => "open",
        RunState::Stopped => "stopped",
        RunState::Finished if row.pruned => "finished, pruned",
        RunState::Finished => "finished",
    }
}

/// Why a run stopped, from its recorded summary: a name, or a name with details.
fn stop_words(why: &serde_json::Value) -> String {
    if let Some(budget) = why.get("failure_budget") {
        let number = |name: &str| budget.get(name).and_then(serde_json::Value::as_u64).map(thousands);
        if let (Some(failed), Some(allowed)) = (number("failed"), number("allowed")) {
            return format!("{failed} failed, {allowed} may");
        }
    }
    why.as_str().map_or_else(|| why.to_string(), |name| name.replace('_', " "))
}

fn list(context: &Context, arguments: &RunListArgs) -> anyhow::Result<Exit> {
    let listed = list_runs(&*context.reader()?, &arguments.query(SystemClock::default().now_ms()))?;
    tell_damaged(&listed.damaged);
    let runs = listed.rows;
    let mut out = crate::terminal::stdout();
    if context.json() {
        crate::terminal::json(&serde_json::to_value(&runs)?)?;
        return Ok(Exit::Ok);
    }
    let mut table = table(&["run", "name", "begun", "kind", "environment", "policy", "reward", "state", "tags"]);
    for ListedRun { row, labels, model } in runs {
        let is_live = row.kind == RunKind::Live;
        let tags: Vec<&str> = labels.tags.iter().map(|tag| tag.as_str()).collect();
        table.add_row([
            row.id.to_string(),
            labels.name.map_or_else(|| NOTHING.to_owned(), |name| name.to_string()),
            time(row.created_at),
            row.kind.name().to_owned(),
            escaped(&row.environment, 60),
            // In a live run each agent names its model.
            model.map_or_else(|| if is_live { NOTHING } else { "?" }.to_owned(), |model| escaped(&model, 60)),
            row.reward_mean.map_or_else(|| NOTHING.to_owned(), |reward| format!("{reward:.3}")),
            state(&row).to_owned(),
            tags.join(", "),
        ]);
    }
    if let Some(column) = table.column_mut(6) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    print(&mut out, &table)?;
    Ok(Exit::Ok)
}

async fn show(context: &Context, run: Option<&str>) -> anyhow::Result<Exit> {
    context.reader()?;
    let details = show_run(&context.folder()?, run, SystemClock::default().now_ms()).await?;
    let resume = resume(context, &details);
    let mut out = crate::terminal::stdout();
    if context.json() {
        let document = serde_json::json!({ "format": 1, "run": details, "resume": resume });
        crate::terminal::json(&document)?;
        return Ok(Exit::Ok);
    }
    text(&mut out, &details, resume.as_deref())?;
    Ok(Exit::Ok)
}

/// The command that resumes a run. `None`: it cannot be resumed.
fn resume(context: &Context, details: &RunDetails) -> Option<String> {
    if !details.held.can_be_resumed {
        return None;
    }
    let row = &details.run.row;
    let verb = match row.kind {
        RunKind::Play => "run",
        RunKind::Learn => "learn",
        // These runs cannot be resumed with a command.
        RunKind::Evaluate | RunKind::Phase | RunKind::Live => return None,
    };
    let named = format!("--resume={}", row.id);
    let Some(spec) = &details.spec else { return Some(format!("the command that began it, with {named}")) };
    let short = spec.to_short_patch();
    let mut words = Words::of(verb);
    words.word(spec.environment.to_string());
    if let Some((layers, _)) = short.layers() {
        layers.iter().for_each(|layer| words.option(&format!("--{LAYER}"), layer));
    }
    short.keys().filter(|key| *key != Key::Plugin).for_each(|key| words.said(&short, key));
    if let Some(data) = &context.common.data {
        words.option("--data", &data.display().to_string());
    }
    words.word(named);
    Some(words.line())
}

fn estimate(Estimate { mean, interval }: Estimate) -> String {
    let interval = interval.map(|(low, high)| format!("  95 % interval {low:.3} to {high:.3}")).unwrap_or_default();
    format!("{mean:.3}{interval}")
}

fn text(out: &mut impl Write, details: &RunDetails, resume: Option<&str>) -> std::io::Result<()> {
    let RunDetails {
        run: ListedRun { row: run, labels, .. },
        episodes,
        reward,
        lift,
        content_root,
        phases,
        held,
        spec,
    } = details;
    writeln!(out, "{}{}", row("run"), run.id)?;
    called(out, labels)?;
    writeln!(out, "{}{}, begun {}", row("kind"), run.kind.name(), time(run.created_at))?;
    match spec {
        Some(spec) => described(out, spec)?,
        None => writeln!(out, "{}{}", row("environment"), escaped(&run.environment, 80))?,
    }
    let stopped = run.summary.as_ref().and_then(|summary| summary.get("stopped")).filter(|why| !why.is_null());
    let why = stopped.map(|why| format!(": {}", escaped(&stop_words(why), 300))).unwrap_or_default();
    let how = match run.state {
        RunState::Open => "; it is being played, or its process died",
        _ => "",
    };
    writeln!(out, "{}{}{why}{how}", row("state"), state(run))?;
    recorded(out, episodes, run)?;
    if let Some(reward) = reward {
        writeln!(out, "{}{}  ({} scored)", row("reward"), estimate(*reward), thousands(episodes.scored))?;
    }
    if let Some(lift) = lift {
        writeln!(out, "{}{} on the test split", row("lift"), estimate(*lift))?;
    }
    if let Some(root) = content_root {
        writeln!(out, "{}{root}", row("content"))?;
    }
    let usage = run.spent;
    if usage.prompt_tokens + usage.completion_tokens > 0 {
        let (read, written) = (thousands(usage.prompt_tokens), thousands(usage.completion_tokens));
        writeln!(out, "{}{read} tokens read, {written} written", row("models"))?;
    }
    let (records, files) = (held.holdings.bytes, held.holdings.blob_bytes);
    writeln!(out, "{}records {}, files {}", row("disk"), size(records), size(files))?;
    if let Some(resume) = resume {
        writeln!(out, "{}{resume}", row("resume"))?;
    }
    if !phases.is_empty() {
        writeln!(out)?;
        shown(out, phases)?;
    }
    Ok(())
}

/// The environment, the policy and the rewards.
fn described(out: &mut impl Write, spec: &RunSpec) -> std::io::Result<()> {
    let split = spec.play.tasks.as_ref().map(|split| format!(", split {}", escaped(split, 80))).unwrap_or_default();
    let environment = summary::environments(spec);
    writeln!(out, "{}{environment}{split}, seed {}", row("environment"), spec.play.seed)?;
    let policy = match &spec.policy.identity {
        Some(LlmIdentity { provider, model, .. }) if provider == model => provider.clone(),
        Some(LlmIdentity { provider, model, version }) => format!("{provider} {model} at {version}"),
        None => spec.policy.model.clone(),
    };
    writeln!(out, "{}{}", row("policy"), escaped(&policy, 200))?;
    if let Some(playbook) = &spec.playbook {
        let number = playbook.number.map(|number| format!(", version {number}")).unwrap_or_default();
        writeln!(out, "{}{}{number}", row("playbook"), playbook.name)?;
    }
    for reward in &spec.rewards {
        let source = reward.source.map(|source| format!(", {}", source.name())).unwrap_or_default();
        let weight = if reward.weight == 1.0 { String::new() } else { format!(", weight {}", reward.weight) };
        let part = reward.part.as_ref().map(|part| format!(" for {part}")).unwrap_or_default();
        let named = summary::plugin(&reward.plugin) + &summary::query(&reward.plugin.options) + &part;
        writeln!(out, "{}{named}{source}{weight}", row("scored by"))?;
    }
    let Some(learn) = spec.learn() else { return Ok(()) };
    let layers: Vec<&str> = learn.layers.iter().map(|layer| layer.layer().name()).collect();
    let iterations = counted(learn.iterations, "iteration");
    let of = counted(spec.play.episodes, "episode");
    writeln!(out, "{}{}: {iterations} of {of}", row("learns"), layers.join(" and "))?;
    if let Some(from) = &learn.from {
        writeln!(out, "{}{}", row("from"), escaped(from, 100))?;
    }
    Ok(())
}

/// How its episodes ended.
fn recorded(out: &mut impl Write, tally: &EpisodeTally, run: &RunRow) -> std::io::Result<()> {
    let planned = run.planned;
    let EpisodeTally { episodes, pending, failed, endings, .. } = tally;
    let of = if planned > 0 { format!(" of {}", thousands(planned)) } else { String::new() };
    let endings: Vec<String> =
        endings.iter().map(|(ending, count)| format!("{} {}", thousands(*count), escaped(ending, 80))).collect();
    let endings = if endings.is_empty() { String::new() } else { format!(": {}", endings.join(", ")) };
    writeln!(out, "{}{}{of}{endings}", row("episodes"), thousands(*episodes))?;
    if *failed > 0 {
        let failed = counted(*failed, "episode");
        let see = format!("`clawhost episodes list --run {} --failure` lists them", run.id);
        writeln!(out, "{}{failed} could not be completed; {see}", row(""))?;
    }
    if *pending > 0 {
        writeln!(out, "{}{} wait for a verdict", row(""), thousands(*pending))?;
    }
    Ok(())
}

fn shown(out: &mut impl Write, phases: &[PhaseRow]) -> std::io::Result<()> {
    let mut table = table(&["phase", "state", "episodes", "of", "reward"]);
    for PhaseRow { id, state, planned, episodes, reward_mean, .. } in phases {
        let state = match state {
            RunState::Open => "open",
            RunState::Stopped => "stopped",
            RunState::Finished => "finished",
        };
        table.add_row([
            id.to_string(),
            state.to_owned(),
            thousands(*episodes),
            thousands(*planned),
            reward_mean.map_or_else(|| NOTHING.to_owned(), |reward| format!("{reward:.3}")),
        ]);
    }
    for column in [2, 3, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    print(out, &table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_reason_is_shown_in_words() {
        let check = |why: serde_json::Value, expect: &str| assert_eq!(stop_words(&why), expect);
        check(serde_json::json!({"failure_budget": {"failed": 1200, "allowed": 1}}), "1,200 failed, 1 may");
        check(serde_json::json!("model_budget"), "model budget");
        check(serde_json::json!({"unscored": {"why": "x"}}), "{\"unscored\":{\"why\":\"x\"}}");
    }
}
