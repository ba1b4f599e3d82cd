//! `clawhost replay`: stored episodes played again, and compared with their record.

use crate::args::{self, Common};
use crate::data::{self, SystemClock};
use crate::exit::{Exit, UsageError};
use crate::hosting;
use crate::progress::Count;
use crate::stored::{Stored, choose};
use async_trait::async_trait;
use clawhost_core::{
    Digest, Environment, Episode, Grants, Llm, LlmIdentity, ModelError, ModelRequest, ModelResponse, PluginIdentity,
    Question, Reward, RewardRecord, RewardScope, StoreError, escaped,
};
use clawhost_engine::{Host, ModelGrants};
use clawhost_runtime::{Difference, EpisodeSource as _, Outcome, replay_episode, replay_verdicts};
use clawhost_store::Reader;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Differences that are shown; the rest is counted.
const SHOWN: usize = 5;

/// A model that was granted then. A replay has its answers, so nobody asks it.
struct Granted(LlmIdentity);

#[async_trait]
impl Llm for Granted {
    fn identity(&self) -> LlmIdentity {
        self.0.clone()
    }

    async fn complete(&self, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
        Err(ModelError::Refused("models are not asked in a replay".into()))
    }
}

fn granted(grants: &Grants) -> ModelGrants {
    let model = |(alias, identity): (&String, &LlmIdentity)| (alias.clone(), Arc::new(Granted(identity.clone())) as _);
    ModelGrants { kv: grants.kv, models: grants.models.iter().map(model).collect() }
}

/// A plugin with what it was allowed.
type Wanted = (Digest, String);

/// A plugin, or why it cannot be had.
type Loaded<T> = Result<Arc<T>, String>;

fn gone(plugin: &PluginIdentity) -> String {
    format!("{} {} is not kept here", plugin.name, plugin.digest.short())
}

fn damaged(plugin: &PluginIdentity) -> String {
    format!("what is kept of {} is not what {} names: it is damaged", plugin.name, plugin.digest.short())
}

/// The plugins of the episodes at hand, loaded once.
struct Plugins<'a> {
    host: &'a Host,
    reader: &'a Reader,
    environments: HashMap<Wanted, Loaded<dyn Environment>>,
    rewards: HashMap<Wanted, Loaded<dyn Reward>>,
}

impl<'a> Plugins<'a> {
    fn new(host: &'a Host, reader: &'a Reader) -> Self {
        Self { host, reader, environments: HashMap::new(), rewards: HashMap::new() }
    }

    fn wanted(plugin: &PluginIdentity, grants: &Grants) -> Wanted {
        (plugin.digest, serde_json::json!(grants).to_string())
    }

    async fn environment(&mut self, episode: &Episode) -> Result<Loaded<dyn Environment>, StoreError> {
        let wanted = Self::wanted(&episode.environment, &episode.grants);
        if let Some(known) = self.environments.get(&wanted) {
            return Ok(known.clone());
        }
        let loaded: Loaded<dyn Environment> = match self.reader.plugin(&episode.environment.digest)? {
            None => Err(gone(&episode.environment)),
            Some(kept) if Digest::of(&kept.bytes) != episode.environment.digest => Err(damaged(&episode.environment)),
            Some(kept) => match self.host.environment(&kept.name, &kept.bytes, granted(&episode.grants)).await {
                Ok(plugin) => Ok(Arc::new(plugin)),
                Err(error) => Err(error.to_string()),
            },
        };
        self.environments.insert(wanted, loaded.clone());
        Ok(loaded)
    }

    async fn reward(&mut self, record: &RewardRecord) -> Result<Loaded<dyn Reward>, StoreError> {
        let wanted = Self::wanted(&record.reward, &record.grants);
        if let Some(known) = self.rewards.get(&wanted) {
            return Ok(known.clone());
        }
        let own = crate::weights::finished::reward();
        let loaded: Loaded<dyn Reward> = match self.reader.plugin(&record.reward.digest)? {
            None if record.reward == *own.identity() => Ok(own),
            None => Err(gone(&record.reward)),
            Some(kept) if Digest::of(&kept.bytes) != record.reward.digest => Err(damaged(&record.reward)),
            Some(kept) => match self.host.reward(&kept.name, &kept.bytes, granted(&record.grants)).await {
                Ok(plugin) => Ok(Arc::new(plugin)),
                Err(error) => Err(error.to_string()),
            },
        };
        self.rewards.insert(wanted, loaded.clone());
        Ok(loaded)
    }
}

/// A group with the plugins to replay it.
struct Assembled {
    group: Vec<Arc<Episode>>,
    environments: Vec<Loaded<dyn Environment>>,
    /// One entry per verdict of the group: whose, and by which plugin.
    verdicts: Vec<(usize, usize, Loaded<dyn Reward>)>,
}

/// What came of one episode: its own replay, and those of its verdicts with the names of the rewards.
type Replayed = (Arc<Episode>, Outcome, Vec<(String, Outcome)>);

impl Assembled {
    /// `only`: this episode of the group, and no other.
    async fn replay(self, episode_bytes: usize, only: Option<String>) -> Vec<Replayed> {
        let clock = SystemClock::new();
        let wanted = |episode: &Episode| only.as_ref().is_none_or(|id| *id == episode.id.0);
        let mut replayed: Vec<Replayed> = Vec::new();
        for (episode, environment) in self.group.iter().zip(&self.environments) {
            let outcome = match environment {
                _ if !wanted(episode) => continue,
                Ok(environment) => replay_episode(environment.as_ref(), episode, episode_bytes, &clock).await,
                Err(why) => Outcome::NotReplayed(why.clone()),
            };
            replayed.push((episode.clone(), outcome, Vec::new()));
        }
        // A reward that judges groups is asked once about the group.
        let mut of_group: Vec<(Question, Vec<Outcome>)> = Vec::new();
        for (of, position, reward) in &self.verdicts {
            let Some(episode) = self.group.get(*of).filter(|episode| wanted(episode)) else { continue };
            let Some(record) = episode.verdicts.get(*position) else { continue };
            let outcome = match reward {
                Err(why) => Outcome::NotReplayed(why.clone()),
                Ok(reward) if reward.description().scope == RewardScope::Each => {
                    let alone = std::slice::from_ref(episode);
                    replay_verdicts(reward.as_ref(), &[record], alone).await.pop().unwrap_or(no_verdict())
                }
                Ok(reward) => {
                    let question = record.question();
                    if !of_group.iter().any(|(known, _)| *known == question) {
                        of_group.push((question.clone(), self.replay_group(reward.as_ref(), &question).await));
                    }
                    let known = of_group.iter().find(|(known, _)| *known == question);
                    let member = self.complete().position(|member| member.id == episode.id);
                    known
                        .zip(member)
                        .and_then(|((_, outcomes), member)| outcomes.get(member).cloned())
                        .unwrap_or(no_verdict())
                }
            };
            if let Some((_, _, verdicts)) = replayed.iter_mut().find(|(known, ..)| known.id == episode.id) {
                verdicts.push((record.reward.name.clone(), outcome));
            }
        }
        replayed
    }

    /// Those that were judged.
    fn complete(&self) -> impl Iterator<Item = &Arc<Episode>> {
        self.group.iter().filter(|member| member.ending.is_complete())
    }

    async fn replay_group(&self, reward: &dyn Reward, question: &Question) -> Vec<Outcome> {
        let complete: Vec<Arc<Episode>> = self.complete().cloned().collect();
        let records: Vec<&RewardRecord> = self
            .complete()
            .filter_map(|member| member.verdicts.iter().find(|known| known.question() == *question))
            .collect();
        replay_verdicts(reward, &records, &complete).await
    }
}

fn no_verdict() -> Outcome {
    Outcome::NotReplayed("not every episode of its group has this verdict".into())
}

/// How many came out how.
#[derive(Debug, Default, Serialize)]
struct Tally {
    exact: u64,
    exact_turns: u64,
    /// The host stopped it before its first turn: there is nothing to compare.
    not_begun: u64,
    differ: u64,
    not_replayed: u64,
}

impl Tally {
    fn count(&mut self, outcome: &Outcome, turns: usize) {
        match outcome {
            Outcome::Exact => self.exact += 1,
            Outcome::ExactTurns(_) if turns == 0 => self.not_begun += 1,
            Outcome::ExactTurns(_) => self.exact_turns += 1,
            Outcome::Differs(_) => self.differ += 1,
            Outcome::NotReplayed(_) => self.not_replayed += 1,
        }
    }

    fn all(&self) -> u64 {
        self.exact + self.exact_turns + self.not_begun + self.differ + self.not_replayed
    }

    fn clean(&self) -> bool {
        self.differ == 0 && self.not_replayed == 0
    }
}

/// Something that did not come out as it should.
#[derive(Debug, Serialize)]
struct Finding {
    episode: String,
    plugin: String,
    outcome: Outcome,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    episodes: Tally,
    turns: u64,
    verdicts: Tally,
    /// Episodes of a finished run that are not there any more.
    missing: u64,
    /// By the host's word for it: endings that could not be replayed, because the host caused them.
    host_endings: BTreeMap<String, u64>,
    findings: Vec<Finding>,
}

impl Report {
    fn take(&mut self, (episode, outcome, verdicts): Replayed) {
        let turns = episode.turns.len();
        self.episodes.count(&outcome, turns);
        if !matches!(outcome, Outcome::NotReplayed(_)) {
            self.turns += turns as u64;
        }
        if let Outcome::ExactTurns(_) = &outcome {
            *self.host_endings.entry(episode.ending.label()).or_default() += 1;
        }
        let id = format!("{}/{}", episode.run, episode.id);
        let mut note = |plugin: &str, outcome: &Outcome| {
            if matches!(outcome, Outcome::Differs(_) | Outcome::NotReplayed(_)) {
                let (episode, plugin, outcome) = (id.clone(), plugin.to_owned(), outcome.clone());
                self.findings.push(Finding { episode, plugin, outcome });
            }
        };
        note(&episode.environment.name, &outcome);
        verdicts.iter().for_each(|(reward, outcome)| note(reward, outcome));
        verdicts.iter().for_each(|(_, outcome)| self.verdicts.count(outcome, turns));
    }

    fn exit(&self) -> Exit {
        if self.episodes.clean() && self.verdicts.clean() && self.missing == 0 { Exit::Ok } else { Exit::Differs }
    }
}

pub(crate) fn main(common: &Common, options: &args::Replay) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let exit = runtime.block_on(replay(common, options));
    runtime.shutdown_background();
    exit
}

async fn replay(common: &Common, options: &args::Replay) -> anyhow::Result<Exit> {
    if options.episode.is_none() && !options.all && options.run.is_none() {
        let message = "name an episode (`clawhost episodes list` shows them), or say --all for a whole run";
        return Err(UsageError(message.into()).into());
    }
    let folder = data::folder(common)?;
    let reader = Reader::open(&folder)?;
    // One episode is found by its name; its group comes along, because a verdict may be about the group.
    let only = match &options.episode {
        None => None,
        Some(name) => {
            let found = reader.episode(name)?;
            let hint = "`clawhost episodes list` shows the latest; a whole run is named with --run";
            Some(found.ok_or_else(|| UsageError(format!("no episode `{name}` here; {hint}")))?)
        }
    };
    let run = match &only {
        Some(episode) => episode.run.0.clone(),
        None => choose(&reader, options.run.as_deref())?.id,
    };
    // Whatever was played here may be played again.
    let host = hosting::host(Some(data::cache(&folder)?), options.on_demand, true)?;
    let mut source = match &only {
        Some(episode) => Stored::group_of(&reader, episode)?,
        None => Stored::new(&reader, &run)?,
    };
    source.damaged = Some(Vec::new());
    let total = source.len() as u64;
    if total == 0 {
        return Err(UsageError(format!("{run} holds no episodes: nothing was recorded before it ended")).into());
    }
    let count = Count::new(total, options.quiet || only.is_some(), "replayed");
    let mut plugins = Plugins::new(&host, &reader);
    let mut report = Report::default();
    let mut replaying: JoinSet<Vec<Replayed>> = JoinSet::new();
    let mut finished = false;
    loop {
        while !finished && replaying.len() < usize::from(options.concurrency) {
            match next(&mut source, &mut plugins).await? {
                Some(group) => {
                    let only = only.as_ref().map(|episode| episode.id.0.clone());
                    replaying.spawn(group.replay(host.limits().episode_bytes, only));
                }
                None => finished = true,
            }
        }
        let Some(replayed) = replaying.join_next().await else { break };
        replayed?.into_iter().for_each(|replayed| report.take(replayed));
        count.set(report.episodes.all());
    }
    count.finish();
    for (episode, why) in source.damaged.take().unwrap_or_default() {
        let outcome = Outcome::NotReplayed(format!("its record is damaged: {why}"));
        report.episodes.count(&outcome, 0);
        report.findings.push(Finding { episode, plugin: "the store".into(), outcome });
    }
    if only.is_none() {
        report.missing = missing(&reader, &run, &report)?;
    }
    report.findings.sort_by(|one, other| one.episode.cmp(&other.episode));
    if common.json {
        let document = serde_json::json!({ "format": 1, "run": run, "report": report });
        writeln!(anstream::stdout(), "{document:#}")?;
    } else {
        text(&run, only.as_ref(), &report)?;
    }
    Ok(report.exit())
}

/// How many episodes a run that came to its end should have, and has not.
fn missing(reader: &Reader, run: &str, report: &Report) -> Result<u64, StoreError> {
    let row = reader.runs(None)?.into_iter().find(|row| row.id == run);
    let whole = row.filter(|row| {
        row.summary.as_ref().is_some_and(|summary| summary.get("stopped").is_none_or(serde_json::Value::is_null))
    });
    let planned = whole.and_then(|row| row.config.pointer("/plan/episodes")?.as_u64()).unwrap_or(0);
    Ok(planned.saturating_sub(report.episodes.all()))
}

/// The next group with its plugins.
async fn next(source: &mut Stored<'_>, plugins: &mut Plugins<'_>) -> anyhow::Result<Option<Assembled>> {
    let Some(group) = source.next_group()? else { return Ok(None) };
    let mut assembled =
        Assembled { group: group.into_iter().map(Arc::new).collect(), environments: Vec::new(), verdicts: Vec::new() };
    for (of, episode) in assembled.group.iter().enumerate() {
        assembled.environments.push(plugins.environment(episode).await?);
        for (position, record) in episode.verdicts.iter().enumerate() {
            assembled.verdicts.push((of, position, plugins.reward(record).await?));
        }
    }
    Ok(Some(assembled))
}

fn text(run: &str, only: Option<&Episode>, report: &Report) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let row = |label: &str| format!("\x1b[2m{label:<12}\x1b[0m");
    let what = only.map_or_else(|| run.to_owned(), |episode| format!("{run}/{}", episode.id));
    writeln!(out, "{}{what}", row("replayed"))?;
    let tally = |tally: &Tally| {
        let counts = [
            (tally.exact, "exact"),
            (tally.exact_turns, "exact up to an ending that the host caused"),
            (tally.not_begun, "stopped before there was anything to compare"),
            (tally.differ, "differ"),
            (tally.not_replayed, "not replayed"),
        ];
        let counts: Vec<String> =
            counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
    };
    writeln!(out, "{}{} ({} turns)", row("episodes"), tally(&report.episodes), report.turns)?;
    for (ending, count) in &report.host_endings {
        writeln!(out, "{}{count} x {}", row(""), escaped(ending, 200))?;
    }
    if report.missing > 0 {
        writeln!(out, "\x1b[31mmissing\x1b[0m     {} episodes of this run are not there any more", report.missing)?;
    }
    writeln!(out, "{}{}", row("verdicts"), tally(&report.verdicts))?;
    for Finding { episode, plugin, outcome } in report.findings.iter().take(SHOWN) {
        match outcome {
            Outcome::Differs(Difference { turn, what, recorded, replayed }) => {
                let at = turn.map_or_else(|| "after its turns".to_owned(), |turn| format!("in turn {turn}"));
                writeln!(out, "\x1b[31mdiffers\x1b[0m     {episode}, {} {at}: {what}", escaped(plugin, 80))?;
                writeln!(out, "{}recorded {recorded}", row(""))?;
                writeln!(out, "{}replayed {replayed}", row(""))?;
                if what == "host_calls" {
                    writeln!(out, "{}from this turn on it calls the host otherwise than it did", row(""))?;
                }
            }
            Outcome::NotReplayed(why) => {
                writeln!(out, "\x1b[33mnot replayed\x1b[0m {episode}, {}: {}", escaped(plugin, 80), escaped(why, 500))?;
            }
            Outcome::Exact | Outcome::ExactTurns(_) => {}
        }
    }
    if report.findings.len() > SHOWN {
        writeln!(out, "{}and {} more; --json lists all", row(""), report.findings.len() - SHOWN)?;
    }
    Ok(())
}
