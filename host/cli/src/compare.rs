//! `clawhost compare`: runs side by side, and the difference of each from the first.

use crate::context::Context;
use crate::episodes::{print, table, tell_damaged};
use crate::exit::Exit;
use crate::learn_summary::signed;
use crate::summary;
use clap::Args;
use clawhost_app::{
    Compared, ComparedRun, Comparison, Estimate, Obstacle, PerPoint, Point, Ranged, RunDifference, SystemClock, Unlike,
    compare_runs, draw_curves, plot,
};
use clawhost_core::{Clock as _, LlmIdentity, RunId, RunState, counted, escaped, thousands};
use clawhost_play::{Contrast, Design, Interval};
use clawhost_run_config::RunSpec;
use comfy_table::CellAlignment;
use std::io::Write;
use std::path::PathBuf;

const HELP: &str = "RUN is the id of a run, its name, a unique beginning of its id, or `last` for the newest. Runs of `run`, `learn` and `eval` can be \
compared; of the last two the test episodes are. Differences are from the first run: pair by pair where both played equal tasks with equal seeds, \
otherwise between the means.

  clawhost compare baseline last
  clawhost compare small large --svg curves.svg";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct CompareArgs {
    /// The runs; the others are compared with the first
    #[arg(value_name = "RUN", required = true, num_args = 2..)]
    runs: Vec<String>,
    /// Draw the mean reward by episodes into this file
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, arguments: &CompareArgs) -> anyhow::Result<Exit> {
    let reader = context.reader()?;
    if let Some(path) = &arguments.svg {
        plot::check(path)?;
    }
    let comparison = compare_runs(&*reader, &arguments.runs, SystemClock::default().now_ms())?;
    tell_damaged(&comparison.damaged);
    if let Some(path) = &arguments.svg {
        draw_curves(path, &comparison)?;
    }
    if context.json() {
        let Comparison { runs, differences, .. } = &comparison;
        let document = serde_json::json!({ "format": 1, "runs": runs, "differences": differences });
        crate::terminal::json(&document)?;
        return Ok(Exit::Ok);
    }
    let mut out = crate::terminal::stdout();
    text(&mut out, &comparison)?;
    if let Some(path) = &arguments.svg {
        writeln!(out, "\nthe curves are in {}", path.display())?;
    }
    Ok(Exit::Ok)
}

/// The text of an absent value.
const NOTHING: &str = "-";
/// Longest name of an environment or a policy, in bytes.
const SHOWN_BYTES: usize = 60;

/// Prints a comparison.
pub(crate) fn text(out: &mut impl Write, comparison: &Comparison) -> std::io::Result<()> {
    let Comparison { runs, differences, .. } = comparison;
    let has_lift = runs.iter().any(|run| run.before.is_some());
    let header =
        ["run", "environment", "policy", "episodes", "reward", "before", "lift", "tokens", "cost", "per point"];
    let is_shown = |name: &&str| has_lift || !["before", "lift"].contains(name);
    let shown: Vec<&str> = header.into_iter().filter(is_shown).collect();
    let mut rows = table(&shown);
    for run in runs {
        rows.add_row(row(run).into_iter().zip(header).filter(|(_, name)| is_shown(name)).map(|(cell, _)| cell));
    }
    if let Some(column) = rows.column_mut(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    print(out, &rows)?;
    for run in runs.iter().filter(|run| run.state != RunState::Finished) {
        writeln!(out, "{} has not finished: its numbers are those of what it recorded", name(run))?;
    }
    if let Some(first) = runs.first() {
        writeln!(out, "\ndifferences from {}, with 95 % intervals", name(first))?;
    }
    let named = |id: &RunId| runs.iter().find(|run| run.run == *id).map_or_else(|| id.0.clone(), name);
    for RunDifference { run, compared, .. } in differences {
        difference(out, &named(run), compared, &named)?;
    }
    Ok(())
}

/// The name of a run, or its id.
fn name(run: &ComparedRun) -> String {
    run.name.as_ref().map_or_else(|| run.run.0.clone(), |name| name.to_string())
}

fn row(run: &ComparedRun) -> [String; 10] {
    let ComparedRun { spec, episodes, reward, before, lift, cost, .. } = run;
    let environment = summary::environments(spec);
    let spent = cost.spent.tokens.saturating_add(cost.test.tokens);
    let money = cost.spent.money.zip(cost.test.money).map(|(one, other)| one + other);
    [
        name(run),
        environment,
        policy(spec),
        thousands(episodes.episodes),
        estimate(*reward, |value| format!("{value:.3}")),
        estimate(*before, |value| format!("{value:.3}")),
        estimate(*lift, |value| signed(value, 3)),
        thousands(spent),
        money.map_or_else(|| NOTHING.to_owned(), |money| format!("{money:.6}")),
        cost.per_point.as_ref().map_or_else(|| NOTHING.to_owned(), per_point),
    ]
}

/// The policy, what it reads, and what learned.
fn policy(spec: &RunSpec) -> String {
    let mut words = match &spec.policy.identity {
        Some(LlmIdentity { provider, model, .. }) if provider == model => escaped(provider, SHOWN_BYTES),
        Some(LlmIdentity { provider, model, .. }) => escaped(&format!("{provider} {model}"), SHOWN_BYTES),
        None => escaped(&spec.policy.model, SHOWN_BYTES),
    };
    if let Some(playbook) = &spec.playbook {
        let number = playbook.number.map(|number| format!(" version {number}")).unwrap_or_default();
        words += &format!(", playbook {}{number}", playbook.name);
    }
    if let Some(learn) = spec.learn() {
        let layers: Vec<&str> = learn.layers.iter().map(|layer| layer.layer().name()).collect();
        words += &format!(", learns {}", layers.join(" and "));
    }
    words
}

fn estimate(value: Option<Estimate>, written: impl Fn(f64) -> String) -> String {
    let Some(Estimate { mean, interval }) = value else { return NOTHING.to_owned() };
    let interval = interval.map(|(low, high)| format!(" ({} to {})", written(low), written(high)));
    written(mean) + &interval.unwrap_or_default()
}

/// The cost of a point: money if it is known, else tokens if there are any, else episodes.
fn per_point(cost: &PerPoint) -> String {
    let PerPoint { of, episodes, tokens, money } = cost;
    let (Ranged { value, low, high }, unit) = match money {
        Some(money) => (*money, ""),
        None if tokens.value > 0.0 => (*tokens, " tokens"),
        None => (*episodes, " episodes"),
    };
    let of = match of {
        Point::Reward => "reward",
        Point::Lift => "lift",
    };
    let high = high.map_or_else(|| "no limit".to_owned(), amount);
    format!("{}{unit} of {of} ({} to {high})", amount(value), amount(low))
}

/// An amount for people.
fn amount(value: f64) -> String {
    match value {
        100.0.. => thousands(value.round() as u64),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.6}"),
    }
}

fn difference(
    out: &mut impl Write,
    run: &str,
    compared: &Compared,
    named: &impl Fn(&RunId) -> String,
) -> std::io::Result<()> {
    match compared {
        Compared::NotComparable { obstacles } => {
            let why: Vec<String> = obstacles.iter().map(|obstacle| obstacle_words(obstacle, named)).collect();
            writeln!(out, "  {run}  not comparable: {}", why.join("; "))
        }
        Compared::Measured { reward, lift, unlike } => {
            writeln!(out, "  {run}  reward {}, {}", contrast(reward), verdict(reward))?;
            if let Some(lift) = lift {
                writeln!(out, "    lift {}, {}", contrast(lift), verdict(lift))?;
            }
            writeln!(out, "    {}", design(reward.design, *unlike))
        }
    }
}

fn contrast(Contrast { mean, interval, .. }: &Contrast) -> String {
    let interval = interval.map(|Interval { low, high }| format!(" ({} to {})", signed(low, 3), signed(high, 3)));
    signed(*mean, 3) + &interval.unwrap_or_default()
}

fn verdict(found: &Contrast) -> &'static str {
    match found.interval {
        Some(Interval { low, .. }) if low > 0.0 => "higher",
        Some(Interval { high, .. }) if high < 0.0 => "lower",
        Some(_) => "no significant difference",
        None => "one task alone has no interval",
    }
}

fn design(design: Design, unlike: Option<Unlike>) -> String {
    match design {
        Design::Paired { pairs, tasks, missing_first, missing_second } => {
            let missing = match missing_first + missing_second {
                0 => String::new(),
                all => format!(", {} without a score on one side", thousands(all)),
            };
            let (pairs, tasks) = (counted(pairs, "pair"), counted(tasks, "shared task"));
            format!("paired: {pairs} of equal task and seed, {tasks}{missing}; Student's t over tasks")
        }
        Design::Unpaired { tasks_first, tasks_second } => {
            let why = match unlike {
                Some(Unlike::Options) => "the environment has other options, so its tasks may be others",
                Some(Unlike::Split) => "they played other splits",
                Some(Unlike::Seed) => "they have other seeds",
                Some(Unlike::Tasks) | None => "they share too few tasks and seeds",
            };
            format!("unpaired, because {why}: {tasks_first} and {}; Welch's t", counted(tasks_second, "task"))
        }
    }
}

fn obstacle_words(obstacle: &Obstacle, named: &impl Fn(&RunId) -> String) -> String {
    match obstacle {
        Obstacle::Environment { first, second } => {
            format!("other environments, or models that they ask: {first} and {second}")
        }
        Obstacle::Rewards { first, second } => format!("other rewards, or models that they ask: {first} and {second}"),
        Obstacle::Unscored { run } => {
            format!("{} has no score to compare; of a run that learned, the test is compared", named(run))
        }
        Obstacle::UnequalFailures { first, second } => {
            format!("one run lacks scores where the other has them ({first} and {second}): failures could hide losses")
        }
    }
}
