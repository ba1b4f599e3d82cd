//! Judges live episodes by themselves, soon after their sessions have ended.

use crate::events::EventSink;
use crate::models::ModelFactory;
use crate::plugins::Plugins;
use crate::{AppError, RequestError, Workspace, plugin_spec, small_files};
use clawhost_core::{Clock, Episode, Expectation, LiveReader as _, RewardSource, StoreError, StoreReader, Withheld};
use clawhost_engine::ModelGrants;
use clawhost_play::{Cancel, EpisodeSource, Rescoring, ScoringRule, score_stored};
use clawhost_run_config::{BudgetSpec, Grant, PluginSpec, RewardSpec};
use clawhost_store::{Reader, Store};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The file in the data folder that says how far it is.
const FILE: &str = "scoring.json";
/// The format of the file.
const FORMAT: u32 = 1;
/// How often it looks for episodes.
const LOOK: Duration = Duration::from_secs(1);
/// Episodes that are read and judged together.
const AT_ONCE: usize = 16;
/// Concurrent calls of one model.
const CONCURRENCY: usize = 4;
/// Milliseconds for which an ended session waits for the verdicts of these rewards: ten minutes. A judge that is down for longer gives revisions.
const VERDICTS_MS: u64 = 10 * 60 * 1000;

/// The rewards that judge every live episode.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoringSection {
    /// The rewards, as of `clawhost score`.
    #[serde(default)]
    pub rewards: Vec<String>,
    /// Their permissions, as of `--grant`.
    #[serde(default)]
    pub grants: Vec<String>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    /// Number of the last live episode that was judged.
    through: u64,
}

/// Episodes that were read.
struct Batch(VecDeque<Episode>);

impl EpisodeSource for Batch {
    fn next_group(&mut self) -> Result<Option<Vec<Episode>>, StoreError> {
        Ok(self.0.pop_front().map(|episode| vec![episode]))
    }
}

/// Judges what ends.
pub(crate) struct LiveScoring {
    folder: PathBuf,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    rules: Vec<ScoringRule>,
    through: u64,
}

impl LiveScoring {
    /// Scoring as a configuration says. `None`: it names no reward. Episodes that ended before the first start with a reward are left to
    /// `clawhost score`.
    ///
    /// # Errors
    /// A reward, a grant or a model cannot be used.
    pub(crate) async fn new(
        workspace: &Workspace,
        section: &ScoringSection,
        events: &dyn EventSink,
    ) -> Result<Option<Self>, AppError> {
        if section.rewards.is_empty() {
            return Ok(None);
        }
        let wrong = |key: &str, why: String| {
            let path = crate::GATEWAY_FILE.to_owned();
            AppError::from(RequestError::File { path, why: format!("scoring.{key}: {why}") })
        };
        let specs: Vec<PluginSpec> = section
            .rewards
            .iter()
            .map(|text| plugin_spec(text).map_err(|error| wrong("rewards", error.to_string())))
            .collect::<Result<_, _>>()?;
        let grants: Vec<Grant> = section
            .grants
            .iter()
            .map(|text| text.parse().map_err(|expected: &str| wrong("grants", format!("expected {expected}"))))
            .collect::<Result<_, _>>()?;
        let settings = workspace.settings().models.clone();
        let models = ModelFactory::new(settings, &BudgetSpec::default(), CONCURRENCY, workspace.secrets().clone());
        let granted: ModelGrants = models.grants(&grants, events)?;
        let (host, store) = (workspace.host()?, workspace.store());
        let plain = |plugin| RewardSpec { plugin, weight: 1.0, source: None, part: None };
        let specs: Vec<RewardSpec> = specs.into_iter().map(plain).collect();
        let rules = Plugins { host: &host, store: &store, grants: &granted, events }.rewards(&specs).await?;
        let folder = workspace.folder().to_owned();
        let known = small_files::read(&folder.join(FILE), FORMAT, |document: &Document| document.format)?;
        let newest = Reader::open(&folder)?.newest_ended()?;
        let through = known.map_or(newest, |known| known.through);
        // What ends before the next start is judged after it.
        small_files::write(&folder, FILE, &Document { format: FORMAT, through })?;
        Ok(Some(Self { folder, store, clock: workspace.clock(), rules, through }))
    }

    /// The verdicts that sessions wait for when they have ended.
    pub(crate) fn expects(&self) -> Vec<Expectation> {
        let mut sources: Vec<RewardSource> = self.rules.iter().map(|rule| rule.source).collect();
        sources.sort_unstable();
        sources.dedup();
        sources.into_iter().map(|source| Expectation { source, within_ms: VERDICTS_MS }).collect()
    }

    /// Judges what ends, until it is dropped. What was not judged by then is judged after the next start.
    pub(crate) async fn run(mut self) {
        loop {
            match self.look().await {
                Ok(0) => tokio::time::sleep(LOOK).await,
                Ok(_) => {}
                Err(error) => {
                    tracing::error!("live episodes were not judged: {error}");
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
    }

    /// Judges the oldest episodes that were not judged. Returns how many there were.
    async fn look(&mut self) -> Result<usize, AppError> {
        let (folder, through) = (self.folder.clone(), self.through);
        let read = move || -> Result<(u64, Vec<Episode>, usize), AppError> {
            let reader: Box<dyn StoreReader> = Box::new(Reader::open(&folder)?);
            let ended = reader.ended_after(through, AT_ONCE)?;
            let last = ended.last().map_or(through, |(number, _)| *number);
            let mut episodes = Vec::with_capacity(ended.len());
            for name in ended.iter().filter_map(|(_, name)| name.as_ref()) {
                match reader.episode(name) {
                    Ok(episode) => episodes.extend(episode.filter(is_judged)),
                    // One damaged record hides no other.
                    Err(error) => tracing::error!("episode {name} was not judged: {error}"),
                }
            }
            Ok((last, episodes, ended.len()))
        };
        let read = tokio::task::spawn_blocking(read).await;
        let (last, episodes, count) = read.map_err(|error| AppError::Host(error.to_string()))??;
        if count == 0 {
            return Ok(0);
        }
        self.judge(episodes).await?;
        self.through = last;
        small_files::write(&self.folder, FILE, &Document { format: FORMAT, through: last })?;
        Ok(count)
    }

    async fn judge(&self, episodes: Vec<Episode>) -> Result<(), AppError> {
        if episodes.is_empty() {
            return Ok(());
        }
        let how = Rescoring { concurrency: CONCURRENCY, again: false, failures_allowed: u64::MAX };
        let mut batch = Batch(episodes.into());
        let to = (&*self.store as &dyn clawhost_core::EpisodeStore, &*self.clock);
        let report = score_stored(&mut batch, &self.rules, to, how, &Cancel::default(), |_| {}).await?;
        for failed in report.rewards.iter().filter(|reward| reward.failed > 0) {
            let why = failed.failure.as_deref().unwrap_or_default();
            tracing::warn!("{} failed for {} live episodes: {why}", failed.reward.name, failed.failed);
        }
        Ok(())
    }
}

/// Whether rewards judge an episode.
fn is_judged(episode: &Episode) -> bool {
    episode.origin.withheld().is_none_or(Withheld::is_judged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{EpisodeOrigin, Live, LiveSession};

    #[test]
    fn side_turns_repetitions_and_what_is_kept_out_of_learning_are_not_judged() {
        let golden: Episode =
            serde_json::from_str(include_str!("../../../../tests/golden/episode-2.json")).expect("an episode");
        let kinds = [
            None,
            Some(Withheld::NoTrain),
            Some(Withheld::Ambiguous),
            Some(Withheld::Repetition),
            Some(Withheld::SideTurn),
            Some(Withheld::Redacted),
        ];
        for withheld in kinds {
            // A new kind must be listed here.
            let expect = match withheld {
                None | Some(Withheld::Ambiguous | Withheld::Redacted) => true,
                Some(Withheld::NoTrain | Withheld::Repetition | Withheld::SideTurn) => false,
            };
            let origin = EpisodeOrigin::Live(Live { live: LiveSession::new("s", "a", "m"), withheld });
            assert_eq!(is_judged(&Episode { origin, ..golden.clone() }), expect, "{withheld:?}");
        }
        assert!(is_judged(&golden), "an episode that was played");
    }
}
