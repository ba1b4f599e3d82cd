//! `clawhost score`: stored episodes under another reward.

use crate::args::{self, Common};
use crate::data;
use crate::exit::{Exit, UsageError};
use crate::plugin::RewardSpec;
use crate::policy::Models;
use crate::progress::Count;
use clawhost_core::{Episode, Limits, RunId, StoreError, escaped};
use clawhost_engine::{Allocation, Host, HostConfig};
use clawhost_runtime::{Cancel, EpisodeSource, Rescored, RunReport, ScoreReport, score_stored};
use clawhost_store::{Filter, Reader, RunRow, Store, StoreOptions};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;

/// The episodes of a run, group by group, read as they are needed.
struct Stored<'a> {
    reader: &'a Reader,
    run: String,
    ids: VecDeque<String>,
    next: Option<Episode>,
}

impl<'a> Stored<'a> {
    fn new(reader: &'a Reader, run: &str) -> Result<Self, StoreError> {
        let rows = reader.episodes(&Filter { run: Some(run.to_owned()), limit: None })?;
        let ids = rows.into_iter().map(|row| row.id).collect();
        Ok(Self { reader, run: run.to_owned(), ids, next: None })
    }

    fn read(&mut self) -> Result<Option<Episode>, StoreError> {
        while let Some(id) = self.ids.pop_front() {
            if let Some(episode) = self.reader.episode(&format!("{}/{id}", self.run))? {
                return Ok(Some(episode));
            }
        }
        Ok(None)
    }
}

impl EpisodeSource for Stored<'_> {
    fn next_group(&mut self) -> Result<Option<Vec<Episode>>, StoreError> {
        let first = match self.next.take() {
            Some(episode) => Some(episode),
            None => self.read()?,
        };
        let Some(first) = first else { return Ok(None) };
        let group = first.group;
        let mut episodes = vec![first];
        while let Some(episode) = self.read()? {
            if episode.group != group {
                self.next = Some(episode);
                break;
            }
            episodes.push(episode);
        }
        Ok(Some(episodes))
    }
}

pub(crate) fn main(common: &Common, options: &args::Score) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let exit = runtime.block_on(score(common, options));
    runtime.shutdown_background();
    exit
}

/// The run that is meant.
fn choose(reader: &Reader, name: Option<&str>) -> anyhow::Result<RunRow> {
    let runs = reader.runs(if name.is_none() { Some(1) } else { None })?;
    let found = match name {
        None => runs.into_iter().next(),
        Some(name) => runs.into_iter().find(|run| run.id == name),
    };
    found.ok_or_else(|| match name {
        Some(name) => UsageError(format!("no run `{name}` here; `clawhost episodes list --runs` shows all")).into(),
        None => UsageError("no runs here yet; play some episodes with `clawhost run`".into()).into(),
    })
}

async fn score(common: &Common, options: &args::Score) -> anyhow::Result<Exit> {
    let specs = options.reward.iter().map(|text| RewardSpec::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let models = Models::new(&options.models, usize::from(options.concurrency));
    let grants = models.grants()?;
    let folder = data::folder(common)?;
    let reader = Reader::open(&folder)?;
    let run = choose(&reader, options.run.as_deref())?;
    let host = Host::new(HostConfig {
        limits: Limits::default(),
        allocation: if options.host.on_demand { Allocation::OnDemand } else { Allocation::Pooled },
        cache: Some(data::cache(&folder)?),
        allow_interpreters: options.host.allow_interpreters,
    })?;
    let store = Store::open(&folder, StoreOptions::default())?;
    let mut source = Stored::new(&reader, &run.id)?;
    let count = Count::new(source.ids.len() as u64, options.quiet);
    let say = |text: &str| count.say(text);
    let rules = crate::run::load_rewards(&host, &store, &specs, &grants, &say).await?;

    let cancel = Cancel::default();
    let stop_on_signal = tokio::spawn(crate::run::watch_signals(cancel.clone()));
    let concurrency = usize::from(options.concurrency);
    let done = |episodes| count.set(episodes);
    let report = score_stored(&mut source, &rules, &store, concurrency, &cancel, done).await;
    stop_on_signal.abort();
    count.finish();
    let report = report?;
    if report.rewards.iter().any(|reward| reward.made_good > 0) {
        amend(&reader, &store, &run).await?;
    }
    if common.json {
        let document = serde_json::json!({
            "format": 1, "run": run.id, "rewards": rules.iter().map(crate::summary::rule).collect::<Vec<_>>(),
            "report": report,
        });
        writeln!(anstream::stdout(), "{document:#}")?;
    } else {
        text(&run, &report)?;
    }
    let judged_nothing = report.rewards.iter().any(|reward| reward.failed > 0 && reward.mean.is_none());
    Ok(match report.cancelled {
        true => Exit::Interrupted,
        false if judged_nothing => Exit::FailureBudget,
        false => Exit::Ok,
    })
}

/// Writes the run's summary anew after verdicts were made good.
async fn amend(reader: &Reader, store: &Store, run: &RunRow) -> anyhow::Result<()> {
    use clawhost_core::EpisodeStore as _;
    let mut episodes = Vec::new();
    let mut source = Stored::new(reader, &run.id)?;
    while let Some(group) = source.next_group()? {
        episodes.extend(group);
    }
    let report = RunReport::of_stored(&episodes);
    let mut summary = run.summary.clone().unwrap_or_else(|| serde_json::json!({}));
    if let (Some(fields), serde_json::Value::Object(now)) = (summary.as_object_mut(), report.summary()) {
        // Why it stopped is history.
        fields.extend(now.into_iter().filter(|(name, _)| name != "stopped"));
    }
    store.finish_run(&RunId(run.id.clone()), &summary, &BTreeMap::new()).await?;
    Ok(())
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
        if let Some(failure) = &rescored.failure {
            writeln!(out, "\x1b[31m  failed\x1b[0m    {}", escaped(failure, 1000))?;
        }
    }
    if report.cancelled {
        writeln!(out, "\x1b[1;33mstopped\x1b[0m by you; what was judged is recorded, the same command goes on")?;
    }
    Ok(())
}
