//! `clawhost add`, `pull` and `update`: modules come from a registry.

use super::{SHOWN, registry, request, row};
use crate::args::MachineArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::terminal::Progress;
use clap::Args;
use clawhost_app::{AppError, Bench, Modules};
use clawhost_core::{counted, escaped};
use clawhost_devkit::{
    AddReport, AddRequest, CHECK_SEED, Change, ChangedScore, Checked, Outcome, RecordedScores, ScoreChanges,
};
use clawhost_package::{LOCK_FILE, ModuleKind, ModuleRequest};
use clawhost_registry::{Location, OciOptions, State};
use std::io::Write;

const ADD_HELP: &str = "MODULE is TEAM/NAME, with @VERSION behind it: 1.2.0 (that one), 1.2 or 1 (the newest that is compatible), or a range. It is pulled, \
checked on this machine, and pinned by its digest in claw.lock of the working folder; commit that file. From then on everything works offline, and \
the name stands wherever a path of a plugin can: `clawhost run shop/env-x --reward shop/reward-y`.

--registry REGISTRY, or the variable CLAWHOST_REGISTRY, names the registry that every command asks if none is named; without, it is the folder `registry` \
of the data folder.

What it may do is shown first; nothing is granted by adding it.";

const UPDATE_HELP: &str = "Without --accept it says what would change, and changes nothing: versions, permissions, results of checks, and for rewards the scores \
of up to 200 recorded episodes, of those that the pinned version has judged if there are some. These verdicts are not stored.";

#[derive(Debug, Args)]
#[command(after_help = ADD_HELP)]
pub(crate) struct AddArgs {
    /// The module
    #[arg(value_name = "MODULE")]
    module: String,
    /// The registry: oci://HOST/PATH or file:FOLDER [default: --registry]
    #[arg(long, value_name = "REGISTRY")]
    from: Option<String>,
    #[command(flatten)]
    checking: CheckingArgs,
}

/// How modules are checked.
#[derive(Debug, Args)]
struct CheckingArgs {
    /// Do not check the component
    #[arg(long)]
    no_check: bool,
    /// Seed of the check [default: as of `clawhost check`]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Load components that contain an interpreter (Python, JavaScript)
    #[arg(long)]
    allow_interpreters: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// The module: TEAM/NAME, with @VERSION behind it if you like
    #[arg(value_name = "MODULE")]
    module: String,
    /// The registry: oci://HOST/PATH or file:FOLDER [default: --registry]
    #[arg(long, value_name = "REGISTRY")]
    from: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = UPDATE_HELP)]
pub(crate) struct UpdateArgs {
    /// Modules of claw.lock [default: all]
    #[arg(value_name = "MODULE")]
    modules: Vec<String>,
    /// Pin what is found
    #[arg(long)]
    accept: bool,
    #[command(flatten)]
    checking: CheckingArgs,
}

/// Adds modules one after the other.
async fn added(
    context: &Context,
    wanted: Vec<(ModuleRequest, Location)>,
    accept: bool,
    checking: &CheckingArgs,
) -> anyhow::Result<Vec<AddReport>> {
    let machine = MachineArgs { allow_interpreters: checking.allow_interpreters, ..MachineArgs::default() };
    let (folder, host) = (context.folder()?, context.host_settings(&machine)?);
    let progress = Progress::new(context, false, "checked");
    let bench = Bench::open(&folder, &host, &progress)?;
    let failures = |one: &Checked| {
        if one.outcome == Outcome::Failed {
            progress.say(&format!("failed: {}: {}", one.check, escaped(&one.says, SHOWN)));
        }
    };
    let mut reports = Vec::new();
    for (module, registry) in wanted {
        let (with_check, seed) = (!checking.no_check, checking.seed.unwrap_or(CHECK_SEED));
        let request = AddRequest { module, registry, accept, with_check, seed };
        match clawhost_devkit::add(&bench, &request, &failures).await {
            Ok(report) => reports.push(report),
            Err(error) => {
                progress.finish();
                return Err(error.into());
            }
        }
    }
    progress.finish();
    Ok(reports)
}

pub(crate) async fn add(context: &Context, args: &AddArgs) -> anyhow::Result<Exit> {
    let modules = super::modules(context)?;
    let wanted = (request(&args.module)?, registry(&modules, args.from.as_deref())?);
    let reports = added(context, vec![wanted], true, &args.checking).await?;
    let mut out = crate::terminal::stdout();
    for report in &reports {
        match context.json() {
            true => crate::terminal::json(&serde_json::json!({ "format": 1, "added": report }))?,
            false => {
                text(&mut out, report)?;
                writeln!(out, "{}in {LOCK_FILE}", row("pinned"))?;
            }
        }
    }
    Ok(exit(&reports))
}

pub(crate) async fn update(context: &Context, args: &UpdateArgs) -> anyhow::Result<Exit> {
    let modules = super::modules(context)?;
    let lock = modules.project().lock().map_err(AppError::from)?;
    let chosen = args.modules.iter().map(|text| request(text)).collect::<Result<Vec<_>, _>>()?;
    let mut wanted = Vec::new();
    for pin in lock.modules() {
        let named = chosen.iter().find(|request| request.name == pin.name);
        if chosen.is_empty() || named.is_some() {
            // A range on the command line replaces the one of the lock.
            let range =
                named.map(|request| request.versions.clone()).filter(|range| *range != semver::VersionReq::STAR);
            let request =
                ModuleRequest { name: pin.name.clone(), versions: range.unwrap_or_else(|| pin.versions.clone()) };
            wanted.push((request, pin.registry.parse().map_err(AppError::from)?));
        }
    }
    if let Some(unknown) = chosen.iter().find(|request| lock.module(&request.name).is_none()) {
        let message = format!("{LOCK_FILE} has no {}; `clawhost add {}` adds it", unknown.name, unknown.name);
        return Err(crate::exit::UsageError(message).into());
    }
    let reports = added(context, wanted, args.accept, &args.checking).await?;
    if context.json() {
        crate::terminal::json(&serde_json::json!({ "format": 1, "updates": reports }))?;
        return Ok(exit(&reports));
    }
    let mut out = crate::terminal::stdout();
    let is_new = |report: &&AddReport| report.before.as_ref().is_none_or(|before| before.manifest != report.manifest);
    let new: Vec<&AddReport> = reports.iter().filter(is_new).collect();
    for report in &new {
        text(&mut out, report)?;
        if let Some(before) = report.before.as_ref().filter(|_| report.facts.kind == ModuleKind::Reward) {
            let file = |content| modules.shelf().blob_path(&report.facts.name, content).display().to_string();
            let (now, before) = (file(&report.content), file(&before.content));
            writeln!(out, "{}`clawhost score --reward {now} --against {before}` compares them further", row(""))?;
        }
        writeln!(out)?;
    }
    for report in &reports {
        let AddReport { facts, newer, state, .. } = report;
        if let Some(newer) = newer {
            let name = &facts.name;
            writeln!(
                out,
                "{}{name} {newer}, outside of what {LOCK_FILE} wants: `clawhost add {name}@{newer}`",
                row("newer")
            )?;
        }
        if let Some(State::Deprecated { why }) =
            state.as_ref().filter(|_| !new.iter().any(|one| std::ptr::eq(*one, report)))
        {
            writeln!(out, "{}{} {}: {}", row("deprecated"), facts.name, facts.version, escaped(why, SHOWN))?;
        }
    }
    match (new.len() as u64, args.accept) {
        (0, _) => writeln!(out, "{} up to date", counted(reports.len() as u64, "module"))?,
        (some, true) => writeln!(out, "{} updated in {LOCK_FILE}", counted(some, "module"))?,
        (some, false) => {
            writeln!(out, "{} can be updated: `clawhost update --accept` pins what is shown", counted(some, "module"))?
        }
    }
    Ok(exit(&reports))
}

/// A check that fails is an error, although the module is here: the publisher claimed otherwise.
fn exit(reports: &[AddReport]) -> Exit {
    let failed = reports.iter().any(|report| report.check.as_ref().is_some_and(|check| !check.passed));
    if failed { Exit::Other } else { Exit::Ok }
}

pub(crate) async fn pull(context: &Context, args: &PullArgs) -> anyhow::Result<Exit> {
    let modules = super::modules(context)?;
    let location = registry(&modules, args.from.as_deref())?;
    let registry = clawhost_registry::open(&location, OciOptions::default()).map_err(AppError::from)?;
    let pulled = modules.pull(&*registry, &request(&args.module)?).await.map_err(AppError::from)?;
    let pin = clawhost_app::pin_of(&pulled, &request(&args.module)?, &location);
    let file = shelf_file(&modules, &pin);
    if context.json() {
        crate::terminal::json(&serde_json::json!({ "format": 1, "pulled": pin, "file": file }))?;
        return Ok(Exit::Ok);
    }
    let mut out = crate::terminal::stdout();
    writeln!(out, "{}{} {} ({}), {} KiB", row("pulled"), pin.name, pin.version, pin.kind, pin.bytes.div_ceil(1024))?;
    writeln!(out, "{}{}", row("content"), pin.content)?;
    writeln!(out, "{}{file}", row("file"))?;
    Ok(Exit::Ok)
}

/// Where the content of a module lies.
fn shelf_file(modules: &Modules, pin: &clawhost_package::LockedModule) -> String {
    modules.shelf().blob_path(&pin.name, &pin.content).display().to_string()
}

fn changes(out: &mut impl Write, label: &str, all: &[Change]) -> std::io::Result<()> {
    for Change { what, before, after } in all {
        let what = escaped(what, SHOWN);
        match (before, after) {
            (None, Some(after)) if after == "yes" => writeln!(out, "{}\x1b[1m+ {what}\x1b[0m", row(label))?,
            (Some(_), None) => writeln!(out, "{}- {what}", row(label))?,
            (before, after) => {
                let shown = |side: &Option<String>| side.clone().unwrap_or_else(|| "none".to_owned());
                writeln!(out, "{}{what}: {} before, {} now", row(label), shown(before), shown(after))?;
            }
        }
    }
    Ok(())
}

/// What two versions of a reward say about recorded episodes.
fn scores(out: &mut impl Write, scores: &RecordedScores) -> std::io::Result<()> {
    let changes = match scores {
        RecordedScores::NotCompared(why) => {
            return writeln!(out, "{}not compared: {}", row("scores"), escaped(why, SHOWN));
        }
        RecordedScores::Compared(changes) => changes,
    };
    let ScoreChanges { both, same, only_before, only_after, mean_before, mean_after, most_changed } = changes;
    writeln!(
        out,
        "{}{same} of {} score the same; mean {mean_before:.3} before, {mean_after:.3} now",
        row("scores"),
        counted(*both, "recorded episode"),
    )?;
    if only_before + only_after > 0 {
        writeln!(out, "{}{only_before} scored only before, {only_after} only now", row(""))?;
    }
    if let Some(ChangedScore { episode, before, after }) = most_changed {
        let episode = escaped(episode, SHOWN);
        writeln!(out, "{}most changed: {before} before, {after} now (`clawhost episodes show {episode}`)", row(""))?;
    }
    Ok(())
}

fn text(out: &mut impl Write, report: &AddReport) -> std::io::Result<()> {
    let facts = &report.facts;
    let before = report.before.as_ref().filter(|before| before.manifest != report.manifest);
    let before = before.map(|before| format!(" (before: {})", before.version)).unwrap_or_default();
    writeln!(
        out,
        "{}\x1b[1m{}\x1b[0m {}{before}, from {}",
        row(facts.kind.name()),
        facts.name,
        facts.version,
        report.registry
    )?;
    if let Some(description) = &facts.description {
        writeln!(out, "{}{}", row("summary"), escaped(description, SHOWN))?;
    }
    writeln!(out, "{}{}, {} KiB", row("content"), report.content, report.bytes.div_ceil(1024))?;
    match &report.signer {
        Some(signer) => {
            let publisher =
                signer.publisher.as_deref().map(|name| format!(", who calls itself {}", escaped(name, 100)));
            writeln!(
                out,
                "{}{} ({}){}",
                row("signed by"),
                signer.name,
                signer.fingerprint,
                publisher.unwrap_or_default()
            )?;
        }
        None => writeln!(out, "{}nobody who is trusted; your policy permits that", row("signed by"))?,
    }
    if let Some(license) = &facts.license {
        writeln!(out, "{}{}", row("licence"), escaped(license, SHOWN))?;
    }
    match &report.state {
        Some(State::Deprecated { why }) => writeln!(out, "{}{}", row("deprecated"), escaped(why, SHOWN))?,
        Some(State::Yanked { why }) => writeln!(out, "{}{}", row("withdrawn"), escaped(why, SHOWN))?,
        None => {}
    }
    let imports: Vec<String> = report.imports.iter().map(|one| escaped(one, SHOWN)).collect();
    if !imports.is_empty() {
        writeln!(out, "{}{}", row("imports"), imports.join(", "))?;
    }
    let asks = if report.asks.is_empty() { "nothing".to_owned() } else { escaped(&report.asks.join(", "), SHOWN) };
    writeln!(out, "{}{asks}; nothing is granted yet", row("asks for"))?;
    if let Some(claim) = &report.claim {
        let passed = if claim.passed { "all checks passed" } else { "checks failed" };
        let by = if claim.is_signed { "signed by a trusted key" } else { "not signed by a trusted key" };
        writeln!(out, "{}{passed}, as its publisher says ({by})", row("claim"))?;
    }
    if let Some(check) = &report.check {
        let count = |outcome| check.checks.iter().filter(|one| one.outcome == outcome).count();
        let (passed, failed, skipped) = (count(Outcome::Passed), count(Outcome::Failed), count(Outcome::Skipped));
        writeln!(out, "{}{passed} passed, {failed} failed, {skipped} skipped, on this machine", row("check"))?;
    }
    if let Some(difference) = &report.difference {
        changes(out, "import", &difference.imports)?;
        changes(out, "asks for", &difference.grants)?;
        changes(out, "check", &difference.checks)?;
        if difference.is_empty() {
            writeln!(out, "{}same permissions, same results of checks", row("changes"))?;
        }
        difference.scores.iter().try_for_each(|one| scores(out, one))?;
    }
    Ok(())
}
