//! `clawhost score`: stored episodes under another reward.

use crate::args::{self, Common};
use crate::data;
use crate::exit::{Exit, UsageError};
use crate::hosting;
use crate::plugin::{PluginSpec, RewardSpec};
use crate::policy::Models;
use crate::progress::Count;
use crate::run::{Stopping, watch_signals};
use crate::stored::{Stored, choose};
use clawhost_core::{RunId, escaped};
use clawhost_runtime::{Cancel, Rescored, Rescoring, ScoreReport, StopReason, score_stored};
use clawhost_store::{Reader, RunRow, Store, StoreOptions};
use std::io::Write as _;

pub(crate) fn main(common: &Common, options: &args::Score) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let exit = runtime.block_on(score(common, options));
    runtime.shutdown_background();
    exit
}

async fn score(common: &Common, options: &args::Score) -> anyhow::Result<Exit> {
    let plain = |text: &String| Ok(RewardSpec { plugin: PluginSpec::parse(text)?, weight: 1.0, source: None });
    let specs = options.reward.iter().map(plain).collect::<Result<Vec<_>, UsageError>>()?;
    let models = Models::new(&options.models, usize::from(options.concurrency));
    let grants = models.grants()?;
    let folder = data::folder(common)?;
    let reader = Reader::open(&folder)?;
    let run = choose(&reader, options.run.as_deref())?;
    // While the run is played, episodes may take the places of others.
    let Some(_claim) = data::Claim::shared(&folder, &RunId(run.id.clone()))? else {
        let why = format!("{} is being played by another process; wait for it, or stop it", run.id);
        return Err(UsageError(why).into());
    };
    let host = hosting::host(Some(data::cache(&folder)?), options.host.on_demand, options.host.allow_interpreters)?;
    let store = Store::open(&folder, StoreOptions::default())?;
    let mut source = Stored::new(&reader, &run.id)?;
    let count = Count::new(source.len() as u64, options.quiet, "judged");
    let say = |text: &str| count.say(text);
    let rules = crate::setup::load_rewards(&host, &store, &specs, &grants, &say).await?;

    let cancel = Cancel::default();
    let stop_on_signal = tokio::spawn(watch_signals(cancel.clone(), Stopping::Scoring));
    let verdicts = source.len() as f64 * rules.len() as f64;
    let how = Rescoring {
        concurrency: usize::from(options.concurrency),
        again: options.again,
        failures_allowed: (options.failure_budget * verdicts + 1e-9).floor() as u64,
    };
    let done = |episodes| count.set(episodes);
    let report = score_stored(&mut source, &rules, &store, how, &cancel, done).await;
    stop_on_signal.abort();
    count.finish();
    let report = report?;
    if common.json {
        let document = serde_json::json!({
            "format": 1, "run": run.id, "rewards": rules.iter().map(crate::summary::rule).collect::<Vec<_>>(),
            "report": report,
        });
        writeln!(anstream::stdout(), "{document:#}")?;
    } else {
        text(&run, &report)?;
    }
    Ok(Exit::of_stop(report.stopped.as_ref()))
}

fn text(run: &RunRow, report: &ScoreReport) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let row = |label: &str| format!("\x1b[2m{label:<12}\x1b[0m");
    let left_out = match report.not_complete {
        0 => String::new(),
        some => format!("; {some} that had failed have no reward"),
    };
    writeln!(out, "{}{}", row("run"), run.id)?;
    writeln!(out, "{}{} judged{left_out}", row("episodes"), report.episodes)?;
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
        let before = mean_before.map(|before| format!("  (the run's own reward: {before:.3})")).unwrap_or_default();
        writeln!(out, "{}{mean}{interval}{before}", row("  reward"))?;
        let counts = [
            (rescored.added, "new"),
            (rescored.made_good, "made good"),
            (rescored.unchanged, "as before"),
            (rescored.differing, "would differ now (the old ones stay)"),
            (rescored.silent, "with nothing to say"),
            (rescored.failed, "failed"),
        ];
        let counts: Vec<String> =
            counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        writeln!(out, "{}{}", row("  verdicts"), if counts.is_empty() { "none".into() } else { counts.join(", ") })?;
        if rescored.added > 0 {
            writeln!(out, "{}new verdicts are kept beside the run's own reward, which stands", row(""))?;
        }
        if let Some(failure) = &rescored.failure {
            writeln!(out, "\x1b[31m  failed\x1b[0m    {}", escaped(failure, 1000))?;
        }
    }
    let stopped =
        |why: &str| format!("\x1b[1;33mstopped:\x1b[0m {why}; what was judged is recorded, the same command goes on");
    match &report.stopped {
        None => {}
        Some(StopReason::Cancelled) => writeln!(out, "{}", stopped("by you"))?,
        Some(StopReason::ModelBudget) => {
            writeln!(out, "{}", stopped("the token or cost budget is spent (--max-tokens-total, --max-cost)"))?;
        }
        // Of learning runs, which judge as they play.
        Some(StopReason::Unscored { why } | StopReason::Reflectors { why, .. }) => writeln!(out, "{}", stopped(why))?,
        Some(StopReason::FailureBudget { failed, allowed }) => {
            let why = format!("{failed} failed, {allowed} may; mend the cause above, or raise --failure-budget");
            writeln!(out, "{}", stopped(&why))?;
        }
    }
    Ok(())
}
