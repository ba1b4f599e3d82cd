//! What two versions of a reward say about episodes that were recorded here. Nothing is stored.

use crate::DevkitError;
use clawhost_app::{AppError, Bench, StoredEpisodes, Trial, Workspace};
use clawhost_core::{Digest, Episode, RunFilter, Verdict};
use clawhost_engine::ModelGrants;
use clawhost_play::{Cancel, EpisodeSource as _, ScoringRule, judged};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Most episodes that both versions judge: enough for a look, and a second or two of computing.
const EPISODES: usize = 200;
/// Most episodes that are read to find those that the older version has judged.
const READ: usize = 2000;

/// Scores that differ by less are the same: rewards compute with `f64`, and another order of sums is no change.
const SAME: f64 = 1e-9;

/// What two versions of a reward say about recorded episodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedScores {
    /// Both judged.
    Compared(ScoreChanges),
    /// They did not judge, for this reason.
    NotCompared(String),
}

/// How scores of recorded episodes change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreChanges {
    /// Episodes that both versions scored.
    pub both: u64,
    /// Those of them whose score stays the same.
    pub same: u64,
    /// Episodes that only the version before scored.
    pub only_before: u64,
    /// Episodes that only the new version scored.
    pub only_after: u64,
    /// Mean score of the version before, over the episodes that both scored.
    pub mean_before: f64,
    /// Mean score of the new version, over the same episodes.
    pub mean_after: f64,
    /// The episode whose score changes most. `None`: none changes.
    pub most_changed: Option<ChangedScore>,
}

/// A recorded episode whose score changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangedScore {
    /// `RUN/EPISODE`.
    pub episode: String,
    /// The score of the version before.
    pub before: f64,
    /// The score of the new version.
    pub after: f64,
}

/// One episode: its name, and the scores of both versions.
type Scored = (String, Option<f64>, Option<f64>);

impl ScoreChanges {
    fn of(scored: &[Scored]) -> Self {
        let both: Vec<ChangedScore> = scored
            .iter()
            .filter_map(|(episode, before, after)| {
                Some(ChangedScore { episode: episode.clone(), before: (*before)?, after: (*after)? })
            })
            .collect();
        let change = |one: &ChangedScore| (one.after - one.before).abs();
        let mean = |side: fn(&ChangedScore) -> f64| both.iter().map(side).sum::<f64>() / both.len().max(1) as f64;
        let count = |fits: fn(&Scored) -> bool| scored.iter().filter(|one| fits(one)).count() as u64;
        Self {
            both: both.len() as u64,
            same: both.iter().filter(|one| change(one) <= SAME).count() as u64,
            only_before: count(|(_, before, after)| before.is_some() && after.is_none()),
            only_after: count(|(_, before, after)| before.is_none() && after.is_some()),
            mean_before: mean(|one| one.before),
            mean_after: mean(|one| one.after),
            most_changed: both
                .iter()
                .filter(|one| change(one) > SAME)
                .max_by(|one, other| change(one).total_cmp(&change(other)))
                .cloned(),
        }
    }
}

/// Groups of recorded episodes of the newest runs: of those that a component has judged, else of all.
fn recorded(folder: &Path, judge: &Digest) -> Result<Vec<Vec<Episode>>, AppError> {
    if !Workspace::is_used(folder) {
        return Ok(Vec::new());
    }
    let reader = Workspace::read(folder)?;
    let mut judged = Groups::default();
    let mut others = Groups::default();
    let mut read = 0;
    for run in reader.select_runs(&RunFilter::default())?.rows {
        let mut source = StoredEpisodes::of_run(&*reader, &run.id)?;
        while let Some(group) = source.next_group()? {
            read += group.len();
            let by_judge = |one: &Episode| one.verdicts.iter().any(|record| record.reward.digest == *judge);
            match group.iter().any(by_judge) {
                true => judged.add(group),
                false => others.add(group),
            }
            if read >= READ || judged.episodes >= EPISODES {
                return Ok(judged.or(others));
            }
        }
    }
    Ok(judged.or(others))
}

/// Groups, with the number of their episodes.
#[derive(Default)]
struct Groups {
    all: Vec<Vec<Episode>>,
    episodes: usize,
}

impl Groups {
    /// Adds a group, as long as there is room. The first one is always added.
    fn add(&mut self, group: Vec<Episode>) {
        if self.episodes == 0 || self.episodes + group.len() <= EPISODES {
            self.episodes += group.len();
            self.all.push(group);
        }
    }

    fn or(self, others: Self) -> Vec<Vec<Episode>> {
        if self.all.is_empty() { others.all } else { self.all }
    }
}

/// A version of a reward: the digest of its component, and the file of it.
pub(super) struct Version<'a> {
    pub(super) content: Digest,
    pub(super) file: &'a Path,
}

/// Lets two versions of a reward judge recorded episodes, with their default options and without grants.
///
/// # Errors
/// The data folder cannot be read.
pub(super) async fn recorded_scores(
    bench: &Bench<'_>,
    before: Version<'_>,
    after: Version<'_>,
) -> Result<RecordedScores, DevkitError> {
    let groups = recorded(bench.host().modules().data(), &before.content)?;
    if groups.is_empty() {
        return Ok(RecordedScores::NotCompared("no episode is recorded here".to_owned()));
    }
    let mut rules = Vec::new();
    for version in [before, after] {
        let plugin = Trial::of(&version.file.display().to_string(), &[])?.plugin;
        match bench.reward(&plugin, ModelGrants::default()).await {
            Ok(reward) => rules.push(ScoringRule::new(Arc::new(reward), Vec::new())),
            Err(error) => return Ok(RecordedScores::NotCompared(error.to_string())),
        }
    }
    let mut scored: Vec<Scored> = Vec::new();
    for group in groups {
        let names = group.iter().map(|one| (format!("{}/{}", one.run, one.id), None, None));
        let start = scored.len();
        scored.extend(names);
        for (position, rule) in rules.iter().enumerate() {
            let answers = judged(std::slice::from_ref(rule), group.clone(), &Cancel::default()).await;
            for ((_, before, after), episode) in scored.iter_mut().skip(start).zip(answers) {
                // A failed episode keeps the verdicts that it was stored with.
                let verdict = episode.verdicts.first().filter(|_| episode.ending.is_complete());
                let value = verdict.and_then(|record| match &record.verdict {
                    Verdict::Scored(card) => Some(card.value),
                    Verdict::NotApplicable(_) | Verdict::Failed(_) => None,
                });
                *(if position == 0 { before } else { after }) = value;
            }
        }
    }
    Ok(RecordedScores::Compared(ScoreChanges::of(&scored)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted_over_the_episodes_that_both_versions_scored() {
        let scored = |name: &str, before, after| (name.to_owned(), before, after);
        let changes = ScoreChanges::of(&[
            scored("r/1", Some(1.0), Some(1.0)),
            scored("r/2", Some(0.5), Some(0.25)),
            scored("r/3", Some(0.0), Some(1.0)),
            scored("r/4", Some(1.0), None),
            scored("r/5", None, Some(1.0)),
            scored("r/6", None, None),
        ]);
        assert_eq!((changes.both, changes.same, changes.only_before, changes.only_after), (3, 1, 1, 1));
        assert_eq!((changes.mean_before, changes.mean_after), (0.5, 0.75));
        let most = changes.most_changed.unwrap();
        assert_eq!((most.episode.as_str(), most.before, most.after), ("r/3", 0.0, 1.0));
        let none = ScoreChanges::of(&[]);
        assert_eq!((none.both, none.mean_before, none.most_changed), (0, 0.0, None));
    }
}
