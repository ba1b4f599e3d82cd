//! `clawhost score`: scores stored episodes with other rewards. With another judge it compares, with a name it shows a history.

use crate::args::{ScoreArgs, placed_by_flag};
use crate::context::Context;
use crate::episodes::{explained, tell_damaged};
use crate::exit::{Exit, UsageError};
use crate::signals::{Stopping, cancel_on_signal};
use crate::terminal::Progress;
use crate::{reward_comparison, reward_history};
use clawhost_app::{
    Against, ClosedSessions, RewardComparisonRequest, RunChoice, SCORE_CONCURRENCY, SCORE_FAILURE_BUDGET, ScoreRequest,
    Scored, ScoredRun, Workspace, close_sessions, denied_alias, plugin_spec,
};
use clawhost_core::{RunId, counted, escaped, thousands};
use clawhost_play::{DISAGREEMENTS, Rescored, StopReason};
use clawhost_run_config::{BudgetSpec, Grant, Price};
use std::io::Write;
use std::ops::RangeInclusive;

/// The range of `--max-cost`.
const MONEY: RangeInclusive<f64> = 0.0..=1e9;

impl ScoreArgs {
    fn budget(&self) -> Result<BudgetSpec, UsageError> {
        let price = self.price.as_deref().map(str::parse::<Price>).transpose();
        let price = price.map_err(|expected| UsageError(format!("--price: expected {expected}")))?;
        if self.max_cost.is_some_and(|money| !MONEY.contains(&money)) {
            let (least, most) = (MONEY.start(), MONEY.end());
            return Err(UsageError(format!("--max-cost: expected a number between {least} and {most}")));
        }
        Ok(BudgetSpec {
            max_tokens_total: self.max_tokens_total,
            max_grant_tokens: None,
            max_cost: self.max_cost,
            price,
        })
    }

    /// The selected runs.
    fn choice(&self) -> RunChoice {
        match &self.named[..] {
            [] => self.runs.choice(),
            [one] => RunChoice::One(one.clone()),
            named => RunChoice::These(named.iter().cloned().map(RunId).collect()),
        }
    }

    fn request(&self) -> anyhow::Result<ScoreRequest> {
        let grant = |text: &String| {
            text.parse::<Grant>().map_err(|expected| UsageError(format!("`{text}` is not a grant; write {expected}")))
        };
        Ok(ScoreRequest {
            runs: self.choice(),
            rewards: self.reward.iter().map(|text| plugin_spec(text)).collect::<Result<_, _>>()?,
            grants: self.grant.iter().map(grant).collect::<Result<_, _>>()?,
            budget: self.budget()?,
            concurrency: self.concurrency.unwrap_or(SCORE_CONCURRENCY),
            again: self.again,
            failure_budget: self.failure_budget.unwrap_or(SCORE_FAILURE_BUDGET),
        })
    }
}

pub(crate) async fn run(context: &Context, args: &ScoreArgs) -> anyhow::Result<Exit> {
    let ran = match (&args.history, &args.against) {
        // A history is that of the data folder, unless runs are named.
        (Some(name), _) => reward_history::run(
            context,
            name,
            &match args.choice() {
                RunChoice::Newest => RunChoice::All,
                runs => runs,
            },
        ),
        (None, Some(against)) => compare(context, args, against).await,
        (None, None) => judge(context, args).await,
    };
    ran.map_err(|error| explained(context, error))
}

/// Ends open sessions, and says which of them are judged.
async fn close(workspace: &Workspace, runs: &RunChoice, progress: &Progress) -> anyhow::Result<RunChoice> {
    let ClosedSessions { closed, runs, elsewhere, other_runs } = close_sessions(workspace, runs).await?;
    match closed {
        Some(0) => {}
        Some(closed) => progress.say(&format!("note: {} of agents became episodes", counted(closed, "open session"))),
        None => progress.say("note: a gateway runs: sessions that are open there are judged once they have ended"),
    }
    if elsewhere > 0 {
        let (of_them, others) = (thousands(elsewhere), counted(other_runs, "other run"));
        progress
            .say(&format!("note: {of_them} of them are in {others} and are not judged now; --all judges every run"));
    }
    Ok(runs)
}

/// Compares the reward with another judge.
async fn compare(context: &Context, args: &ScoreArgs, against: &str) -> anyhow::Result<Exit> {
    let mut request = RewardComparisonRequest {
        scoring: args.request()?,
        against: Against::parse(against)?,
        thresholds: args.threshold,
        disagreements: args.disagreements.map_or(DISAGREEMENTS, usize::from),
    };
    // The data folder must exist: scoring needs recorded episodes.
    context.reader()?;
    let workspace =
        context.workspace(&args.machine.with(args.reward.iter().chain(&args.against).map(String::as_str)))?;
    let progress = Progress::new(context, args.machine.quiet, "judged");
    request.scoring.runs = close(&workspace, &request.scoring.runs, &progress).await?;
    let signals = cancel_on_signal(Stopping::Scoring);
    let compared = clawhost_app::compare_rewards(&workspace, request, signals.cancel(), &progress).await;
    drop(signals);
    progress.finish();
    let compared = compared.map_err(placed_by_flag)?;
    match context.json() {
        true => {
            let mut document = serde_json::to_value(&compared)?;
            if let Some(fields) = document.as_object_mut() {
                fields.insert("format".to_owned(), 1.into());
            }
            crate::terminal::json(&document)?;
        }
        false => reward_comparison::text(&mut crate::terminal::stdout(), &compared)?,
    }
    tell_damaged(&compared.damaged);
    Ok(match Exit::of_stop(compared.stopped()) {
        Exit::Ok if !compared.damaged.is_empty() => Exit::Store,
        exit => exit,
    })
}

async fn judge(context: &Context, args: &ScoreArgs) -> anyhow::Result<Exit> {
    let mut request = args.request()?;
    // The data folder must exist: scoring needs recorded episodes.
    context.reader()?;
    let workspace =
        context.workspace(&args.machine.with(args.reward.iter().chain(&args.against).map(String::as_str)))?;
    let progress = Progress::new(context, args.machine.quiet, "judged");
    request.runs = close(&workspace, &request.runs, &progress).await?;
    let signals = cancel_on_signal(Stopping::Scoring);
    let scored = clawhost_app::score(&workspace, request, signals.cancel(), &progress).await;
    drop(signals);
    progress.finish();
    let scored = scored.map_err(placed_by_flag)?;
    let Scored { rewards, runs, .. } = &scored;
    match (context.json(), &runs[..]) {
        (true, [ScoredRun { run, report, .. }]) if !args.runs.is_all() => {
            let document = serde_json::json!({ "format": 1, "run": run, "rewards": rewards, "report": report, "damaged": scored.damaged });
            crate::terminal::json(&document)?;
        }
        (true, runs) => {
            let document =
                serde_json::json!({ "format": 1, "rewards": rewards, "runs": runs, "damaged": scored.damaged });
            crate::terminal::json(&document)?;
        }
        (false, runs) => {
            for (position, scored) in runs.iter().enumerate() {
                if position > 0 {
                    writeln!(crate::terminal::stdout())?;
                }
                text(scored)?;
            }
            if runs.len() > 1 {
                let judged = runs.iter().map(|run| run.report.episodes).sum();
                writeln!(
                    crate::terminal::stdout(),
                    "\n{} of {} judged",
                    counted(judged, "episode"),
                    counted(runs.len() as u64, "run")
                )?;
            }
        }
    }
    tell_damaged(&scored.damaged);
    Ok(match Exit::of_stop(scored.stopped()) {
        Exit::Ok if !scored.damaged.is_empty() => Exit::Store,
        exit => exit,
    })
}

fn text(scored: &ScoredRun) -> anyhow::Result<()> {
    let ScoredRun { run, is_live, report } = scored;
    let mut out = crate::terminal::stdout();
    let row = |label: &str| format!("\x1b[2m{label:<12}\x1b[0m");
    let left_out = match report.not_complete {
        0 => String::new(),
        some => format!("; {some} that had failed have no reward"),
    };
    writeln!(out, "{}{run}", row("run"))?;
    writeln!(out, "{}{} judged{left_out}", row("episodes"), thousands(report.episodes))?;
    for rescored in &report.rewards {
        let Rescored { reward, source, mean, interval, mean_before, .. } = rescored;
        writeln!(
            out,
            "{}{} {} ({}), {}",
            row("scored by"),
            reward.name,
            reward.version,
            reward.digest.short(),
            source.name()
        )?;
        let mean = mean.map_or_else(|| "not scored".to_owned(), |mean| format!("\x1b[1m{mean:.3}\x1b[0m"));
        let interval = interval.map(|i| format!("  95 % interval {:.3} to {:.3}", i.low, i.high)).unwrap_or_default();
        let judged = if rescored.failed + rescored.silent > 0 { " in the same episodes" } else { "" };
        let before = mean_before.map(|before| format!("  (the run's own reward{judged}: {before:.3})"));
        let before = before.unwrap_or_default();
        writeln!(out, "{}{mean}{interval}{before}", row("  reward"))?;
        writeln!(out, "{}{}", row("  verdicts"), verdicts(rescored))?;
        if rescored.added > 0 {
            let counts = match is_live {
                true => "new verdicts count: they are part of the episodes' rewards",
                false => "new verdicts are stored beside the run's own reward, which is unchanged",
            };
            writeln!(out, "{}{counts}", row(""))?;
        }
        if let Some(failure) = &rescored.failure {
            let grant = denied_alias(failure).map(|alias| format!("; grant one with --grant llm:{alias}=SPEC"));
            writeln!(out, "\x1b[31m  failed\x1b[0m    {}{}", escaped(failure, 1000), grant.unwrap_or_default())?;
        }
    }
    stopped(&mut out, report.stopped.as_ref())?;
    Ok(())
}

/// Says why scoring stopped, if it did.
pub(crate) fn stopped(out: &mut impl Write, reason: Option<&StopReason>) -> std::io::Result<()> {
    let stopped =
        |why: &str| format!("\x1b[1;33mstopped:\x1b[0m {why}; what was judged is recorded, the same command continues");
    match reason {
        None => {}
        Some(StopReason::Cancelled) => writeln!(out, "{}", stopped("by you"))?,
        Some(StopReason::ModelBudget) => {
            writeln!(out, "{}", stopped("the token or cost budget is spent (--max-tokens-total, --max-cost)"))?;
        }
        // Only learning runs stop for this reason.
        Some(StopReason::Unscored { why } | StopReason::Reflectors { why, .. }) => writeln!(out, "{}", stopped(why))?,
        Some(StopReason::FailureBudget { failed, allowed }) => {
            let why = format!("{failed} failed, {allowed} may; fix the cause above, or raise --failure-budget");
            writeln!(out, "{}", stopped(&why))?;
        }
    }
    Ok(())
}

/// The number of each outcome.
fn verdicts(rescored: &Rescored) -> String {
    let counts = [
        (rescored.added, "new"),
        (rescored.made_good, "replaced failures"),
        (rescored.unchanged, "as before"),
        (rescored.differing, "would differ now (the old ones stay)"),
        (rescored.silent, "not applicable"),
        (rescored.failed, "failed"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", thousands(count)))
        .collect();
    if counts.is_empty() { "none".into() } else { counts.join(", ") }
}
