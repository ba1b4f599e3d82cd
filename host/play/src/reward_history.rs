//! The history of a reward: which components of its name have judged episodes, and when.

use crate::interval::{Interval, mean_interval};
use clawhost_core::{Attributes, Digest, Episode, PluginIdentity, RunId, Verdict, standing};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A component with options that has judged episodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RewardUse {
    /// The reward.
    #[serde(flatten)]
    pub reward: PluginIdentity,
    /// Its options.
    pub options: Attributes,
    /// When it gave the first of these verdicts (Unix time in milliseconds). A verdict that was recorded with its episode has the time of
    /// the episode's end.
    pub first_at: u64,
    /// When it gave the last one.
    pub last_at: u64,
    /// Runs with such verdicts. The phases of a learning run are runs.
    pub runs: u64,
    /// Verdicts. Of one question the last one is counted.
    pub verdicts: u64,
    /// Verdicts with a score.
    pub scored: u64,
    /// Verdicts that say that it does not apply.
    pub not_applicable: u64,
    /// Verdicts that failed.
    pub failed: u64,
    /// Mean of the scores.
    pub mean: Option<f64>,
    /// Its 95 % interval, clustered by task.
    pub interval: Option<Interval>,
}

#[derive(Default)]
struct Tally {
    reward: Option<PluginIdentity>,
    options: Attributes,
    first_at: Option<u64>,
    last_at: u64,
    runs: BTreeSet<String>,
    not_applicable: u64,
    failed: u64,
    /// Scores by environment or agent, and task.
    scores: BTreeMap<(String, String), Vec<f64>>,
}

/// The verdicts of all rewards with one name.
pub struct RewardHistory {
    name: String,
    /// By digest, and digest of the options.
    uses: BTreeMap<(Digest, Digest), Tally>,
    /// The names of all rewards that were seen.
    names: BTreeSet<String>,
}

impl RewardHistory {
    /// Of rewards with this name. Nothing was judged yet.
    pub fn of(name: &str) -> Self {
        Self { name: name.to_owned(), uses: BTreeMap::new(), names: BTreeSet::new() }
    }

    /// Adds the verdicts about an episode.
    pub fn add(&mut self, episode: &Episode) {
        for record in standing(&episode.verdicts) {
            if !self.names.contains(&record.reward.name) {
                self.names.insert(record.reward.name.clone());
            }
            if record.reward.name != self.name {
                continue;
            }
            let tally = self.uses.entry((record.reward.digest, record.options_digest)).or_default();
            if tally.reward.is_none() {
                tally.reward = Some(record.reward.clone());
                tally.options.clone_from(&record.options);
            }
            let at = record.later.as_ref().map_or(episode.created_at, |later| later.at);
            tally.first_at = Some(tally.first_at.map_or(at, |first| first.min(at)));
            tally.last_at = tally.last_at.max(at);
            let RunId(run) = &episode.run;
            if !tally.runs.contains(run) {
                tally.runs.insert(run.clone());
            }
            match &record.verdict {
                Verdict::Scored(card) => {
                    let task = (episode.origin.name().to_owned(), episode.task.key());
                    tally.scores.entry(task).or_default().push(card.value);
                }
                Verdict::NotApplicable(_) => tally.not_applicable += 1,
                Verdict::Failed(_) => tally.failed += 1,
            }
        }
    }

    /// The names of all rewards whose verdicts were seen.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The uses, in the order of their last verdicts: the newest is the last one.
    pub fn uses(self) -> Vec<RewardUse> {
        let of = |tally: Tally| {
            let scores: Vec<Vec<f64>> = tally.scores.into_values().collect();
            let (mean, interval) = mean_interval(&scores);
            let scored = scores.iter().map(Vec::len).sum::<usize>() as u64;
            Some(RewardUse {
                reward: tally.reward?,
                options: tally.options,
                first_at: tally.first_at?,
                last_at: tally.last_at,
                runs: tally.runs.len() as u64,
                verdicts: scored + tally.not_applicable + tally.failed,
                scored,
                not_applicable: tally.not_applicable,
                failed: tally.failed,
                mean,
                interval,
            })
        };
        let mut uses: Vec<RewardUse> = self.uses.into_values().filter_map(of).collect();
        uses.sort_by_key(|one| (one.last_at, one.first_at));
        uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Failure, FailureKind, LaterVerdict, RewardRecord, ScoreCard, code};

    /// A verdict of the component with this digest: recorded with the episode, or later at this time.
    fn verdict(digest: &str, verdict: Verdict, later: Option<u64>) -> RewardRecord {
        let golden: Episode = serde_json::from_str(include_str!("../../../tests/golden/episode-2.json")).unwrap();
        let mut record = golden.verdicts.into_iter().next().unwrap();
        record.reward =
            PluginIdentity { name: "tone".into(), version: "1".into(), digest: Digest::of(digest.as_bytes()) };
        record.group_digest = None;
        record.later = later.map(|at| LaterVerdict { revision: 1, at, key: None });
        RewardRecord { verdict, ..record }
    }

    fn scored(value: f64) -> Verdict {
        Verdict::Scored(ScoreCard::plain(value))
    }

    fn episode(run: &str, task: &str, created_at: u64, verdicts: Vec<RewardRecord>) -> Episode {
        let golden: Episode = serde_json::from_str(include_str!("../../../tests/golden/episode-2.json")).unwrap();
        let mut task_of = golden.task.clone();
        task_of.id = task.into();
        Episode { run: RunId(run.into()), task: task_of, created_at, verdicts, ..golden }
    }

    #[test]
    fn each_component_has_a_row_with_its_times_and_the_newest_is_the_last() {
        let failed = || Verdict::Failed(Failure::new(FailureKind::Trap, code::TRAP, "trapped"));
        let silent = Verdict::NotApplicable("nothing to say".into());
        let mut history = RewardHistory::of("tone");
        // The old component judged while the episodes were played, the new one later.
        let of_both = vec![verdict("old", scored(1.0), None), verdict("new", scored(0.5), Some(900))];
        history.add(&episode("run-1", "one", 100, of_both));
        history.add(&episode("run-1", "two", 200, vec![verdict("old", scored(0.0), None)]));
        // A later verdict on the same question replaces the failed one.
        let again = vec![verdict("old", failed(), None), verdict("old", silent, Some(700))];
        history.add(&episode("run-2", "three", 300, again));
        history.add(&episode("run-2", "four", 50, vec![verdict("old", failed(), None)]));
        let mut other = verdict("other", scored(1.0), None);
        other.reward.name = "taste".into();
        history.add(&episode("run-2", "five", 950, vec![other]));
        assert_eq!(history.names().collect::<Vec<_>>(), ["taste", "tone"]);
        let uses = history.uses();
        let digests: Vec<Digest> = uses.iter().map(|one| one.reward.digest).collect();
        assert_eq!(digests, [Digest::of(b"old"), Digest::of(b"new")]);
        let old = &uses[0];
        assert_eq!((old.first_at, old.last_at, old.runs), (50, 700, 2));
        assert_eq!((old.verdicts, old.scored, old.not_applicable, old.failed), (4, 2, 1, 1));
        assert_eq!((old.mean, uses[1].mean), (Some(0.5), Some(0.5)));
        assert!(old.interval.is_some() && uses[1].interval.is_none(), "one task has no interval");
        assert_eq!((uses[1].first_at, uses[1].last_at, uses[1].verdicts), (900, 900, 1));
    }

    #[test]
    fn other_options_are_another_row() {
        let mut strict = verdict("one", scored(0.0), None);
        strict.options = vec![("tolerance".into(), "0".into())];
        strict.options_digest = Digest::of_json(&serde_json::json!(strict.options));
        let mut history = RewardHistory::of("tone");
        history.add(&episode("run-1", "one", 5, vec![verdict("one", scored(1.0), None), strict]));
        let uses = history.uses();
        assert_eq!(uses.len(), 2);
        assert!(
            uses.iter().any(|one| one.options == [("tolerance".to_owned(), "0".to_owned())] && one.mean == Some(0.0))
        );
        assert_eq!(RewardHistory::of("tone").uses(), []);
    }
}
