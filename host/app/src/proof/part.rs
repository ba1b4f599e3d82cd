//! Checks a part of the episodes: decodes, compares with the run, plays again, judges again.

use super::ProofError;
use super::adapter::TestedWeights;
use super::components::{Components, Published};
use super::episodes::{DigestOnly, Line};
use super::playbook::ShownPlaybooks;
use super::sample::Drawn;
use crate::ReplayReport;
use crate::replay::group::Assembled;
use clawhost_bundle::EntryName;
use clawhost_core::{Clock, Digest, Discrepancy, EPISODE_FORMAT, Episode, Llm, LlmIdentity, RunId, standing};
use clawhost_learning::RecordedResult;
use clawhost_play::{Basis, EpisodeSummary, ReplayOutcome, check_episode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What every part is checked against.
pub(super) struct Against {
    pub(super) components: Components,
    /// The rows that have episodes, with their places in the manifest.
    pub(super) runs: BTreeMap<RunId, (usize, Basis)>,
    /// Models that answer again, because they compute and need nothing else.
    pub(super) answering: Vec<Arc<dyn Llm>>,
    pub(super) playbooks: Option<ShownPlaybooks>,
    /// The weights that answered the test after learning, where the bundle has an adapter.
    pub(super) weights: Option<TestedWeights>,
    /// `None`: everything is played again.
    pub(super) drawn: Option<Drawn>,
    pub(super) episode_bytes: usize,
    pub(super) clock: Arc<dyn Clock>,
}

/// What is known of the episodes of a row.
#[derive(Debug, Default)]
pub(super) struct OfRun {
    pub(super) summaries: Vec<EpisodeSummary>,
    pub(super) results: Vec<RecordedResult>,
    /// Group, index and content of each.
    pub(super) contents: Vec<(u64, u64, Digest)>,
    /// Episodes of which only the digest is known.
    pub(super) digests_only: u64,
}

/// Answers that models gave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// To the policy.
    pub(super) policy: u64,
    /// To plugins.
    pub(super) plugins: u64,
}

/// The result of a part.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) replay: ReplayReport,
    pub(super) runs: BTreeMap<RunId, OfRun>,
    pub(super) found: Vec<Discrepancy>,
    /// Episodes that were not drawn.
    pub(super) not_drawn: u64,
    /// Episodes and verdicts that could not be played again, by reason.
    pub(super) not_replayed: BTreeMap<String, u64>,
    /// Answers of the policy that a built-in model computed again.
    pub(super) recomputed: u64,
    /// Answers of the policy that a local model generated again, by model.
    pub(super) generated: BTreeMap<String, u64>,
    /// Answers that are only recorded, by model.
    pub(super) recorded: BTreeMap<String, Answers>,
    /// Test episodes that showed the playbook of their side.
    pub(super) shown: u64,
    /// Tasks that are equal to those that the environment publishes.
    pub(super) published: u64,
}

impl Against {
    /// Checks a part.
    pub(super) async fn check(&self, part: u32, bytes: &[u8]) -> Result<Checked, ProofError> {
        let mut checked = Checked::default();
        let mut group: Vec<Arc<Episode>> = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match self.line(part, line, &mut checked)? {
                None => {}
                Some(episode) => {
                    let of = |episode: &Episode| (episode.run.clone(), episode.group());
                    if group.first().is_some_and(|first| of(first) != of(&episode)) {
                        self.group(std::mem::take(&mut group), &mut checked).await;
                    }
                    group.push(Arc::new(episode));
                }
            }
        }
        self.group(group, &mut checked).await;
        Ok(checked)
    }

    /// Reads a line. Returns the episode, if it can be played again.
    fn line(&self, part: u32, line: &[u8], checked: &mut Checked) -> Result<Option<Episode>, ProofError> {
        let damaged = |why: String| ProofError::Entry { entry: EntryName::Episodes(part).to_string(), why };
        let line: Line = serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))?;
        let (mut episode, lacks_reference) = match line {
            Line::DigestOnly(only) => {
                self.digest_only(only, checked);
                return Ok(None);
            }
            Line::Whole(episode) => (*episode, false),
            Line::WithoutReference(episode) => (*episode, true),
        };
        if episode.format > EPISODE_FORMAT {
            let why = format!("an episode has format {}, and this program reads {EPISODE_FORMAT}", episode.format);
            return Err(damaged(why));
        }
        let name = format!("{}/{}", episode.run, episode.id);
        let Some((_, basis)) = self.runs.get(&episode.run) else {
            checked.found.push(surplus(name));
            return Ok(None);
        };
        let mut why_not = None;
        match self.components.published(basis, &episode.task) {
            Published::As(digest, reference) => {
                if lacks_reference {
                    episode.task.reference = reference;
                }
                let (recorded, expected) = (episode.task_hash.to_string(), digest.to_string());
                checked.published += u64::from(recorded == expected);
                checked.found.extend(Discrepancy::between(&name, "its task", recorded, expected));
            }
            Published::No => checked.found.push(Discrepancy {
                record: name.clone(),
                what: "its task".to_owned(),
                recorded: Some(clawhost_core::escaped(&episode.task.id, 100)),
                expected: None,
            }),
            Published::Unknown(why) if lacks_reference => {
                why_not = Some(format!("its reference was left out, and {why}"));
            }
            Published::Unknown(_) => {}
        }
        checked.found.extend(check_episode(basis, &episode));
        // What was judged later is no part of a claim, so nothing of it can raise a reward.
        checked.found.extend(episode.verdicts.iter().filter(|record| record.later.is_some()).map(|record| {
            Discrepancy {
                record: name.clone(),
                what: "a later verdict".to_owned(),
                recorded: Some(clawhost_core::escaped(&record.reward.name, 100)),
                expected: None,
            }
        }));
        let summary = EpisodeSummary::of(&episode);
        let of_run = checked.runs.entry(episode.run.clone()).or_default();
        of_run.contents.push((episode.group(), episode.index, summary.content));
        of_run.results.push(RecordedResult {
            group: episode.group(),
            index: episode.index,
            task: episode.task.key(),
            reward: episode.reward,
        });
        of_run.summaries.push(summary);
        match self.playbooks.as_ref().and_then(|playbooks| playbooks.check(&episode)) {
            Some(Ok(())) => checked.shown += 1,
            Some(Err(unlike)) => checked.found.push(unlike),
            None => {}
        }
        checked.found.extend(self.weights.as_ref().and_then(|weights| weights.check(&episode)));
        if let Some(why) = why_not {
            checked.replay.episodes.not_replayed += 1;
            *checked.not_replayed.entry(why).or_default() += 1;
            return Ok(None);
        }
        Ok(Some(episode))
    }

    fn digest_only(&self, only: DigestOnly, checked: &mut Checked) {
        let DigestOnly { run, index, group, task, reward, content } = only;
        if !self.runs.contains_key(&run) {
            checked.found.push(surplus(format!("{run}/{index}")));
            return;
        }
        let of_run = checked.runs.entry(run).or_default();
        of_run.digests_only += 1;
        of_run.contents.push((group, index, content));
        of_run.results.push(RecordedResult { group, index, task, reward });
        checked.replay.episodes.not_replayed += 1;
        *checked.not_replayed.entry("only its digest is in the bundle".to_owned()).or_default() += 1;
    }

    /// Plays a group again and judges it again, if it was drawn.
    async fn group(&self, group: Vec<Arc<Episode>>, checked: &mut Checked) {
        let Some(first) = group.first() else { return };
        let place = self.runs.get(&first.run).map_or(usize::MAX, |(place, _)| *place);
        if self.drawn.as_ref().is_some_and(|drawn| !drawn.has(place, first.group())) {
            checked.not_drawn += group.len() as u64;
            group.iter().for_each(|episode| self.answers(episode, false, checked));
            return;
        }
        let assembled = self.assembled(group);
        for replayed in assembled.replay(self.episode_bytes, None, &self.answering, self.clock.clone()).await {
            let is_equal = matches!(replayed.outcome, ReplayOutcome::Exact | ReplayOutcome::ExactTurns(_));
            self.answers(&replayed.episode, is_equal, checked);
            let outcomes =
                std::iter::once(&replayed.outcome).chain(replayed.verdicts.iter().map(|(_, outcome)| outcome));
            for outcome in outcomes {
                if let ReplayOutcome::NotReplayed(why) = outcome {
                    *checked.not_replayed.entry(why.clone()).or_default() += 1;
                }
            }
            checked.replay.take(replayed);
        }
    }

    fn assembled(&self, group: Vec<Arc<Episode>>) -> Assembled {
        let environment = |episode: &Arc<Episode>| match episode.simulated() {
            Some(simulated) => self.components.environment(simulated.environment.digest, &simulated.grants),
            None => Err(clawhost_play::outside(episode)),
        };
        let environments = group.iter().map(environment).collect();
        let mut verdicts = Vec::new();
        for (of, episode) in group.iter().enumerate() {
            for (position, record) in episode.verdicts.iter().enumerate() {
                if standing(&episode.verdicts).any(|one| std::ptr::eq(one, record)) {
                    verdicts.push((of, position, self.components.reward(record.reward.digest, &record.grants)));
                }
            }
        }
        Assembled { group, environments, verdicts }
    }

    /// Counts the answers of an episode. `is_equal`: it was played again with equal results.
    fn answers(&self, episode: &Episode, is_equal: bool, checked: &mut Checked) {
        let turns = episode.turns.len() as u64;
        let model = &episode.policy.model;
        match is_equal && self.answering.iter().any(|known| known.identity() == *model) {
            true if model.provider == LOCAL => *checked.generated.entry(named(model)).or_default() += turns,
            true => checked.recomputed += turns,
            false => checked.recorded.entry(named(model)).or_default().policy += turns,
        }
        let of_plugins = episode.journal.iter().chain(episode.verdicts.iter().flat_map(|record| &record.journal));
        let asked = of_plugins.filter(|entry| entry.import == "llm").count() as u64;
        if asked > 0 {
            checked.recorded.entry("models of plugins".to_owned()).or_default().plugins += asked;
        }
    }
}

/// What identities of local models call what computes.
const LOCAL: &str = "local";
/// Digits of a digest of weights that are shown, as of other digests.
const SHORT: usize = 12;

/// A model for people. Two local models may have one name, and never one version.
pub(super) fn named(LlmIdentity { provider, model, version }: &LlmIdentity) -> String {
    match provider.as_str() {
        LOCAL => {
            let (weights, texts) = version.split_once('+').unwrap_or((version, ""));
            let weights = weights.strip_prefix("sha256:").unwrap_or(weights);
            let weights: String = weights.chars().take(SHORT).collect();
            format!("{provider} {model} ({weights}+{texts})")
        }
        same if same == model => model.clone(),
        _ => format!("{provider} {model}"),
    }
}

fn surplus(record: String) -> Discrepancy {
    Discrepancy { record, what: "its run".to_owned(), recorded: Some("there".to_owned()), expected: None }
}

impl Checked {
    /// Adds the result of the next part.
    pub(super) fn add(&mut self, other: Self) {
        let Self { replay, runs, found, not_drawn, not_replayed, recomputed, generated, recorded, shown, published } =
            other;
        self.replay.add(replay);
        for (run, of) in runs {
            let own = self.runs.entry(run).or_default();
            own.summaries.extend(of.summaries);
            own.results.extend(of.results);
            own.contents.extend(of.contents);
            own.digests_only += of.digests_only;
        }
        self.found.extend(found);
        self.not_drawn += not_drawn;
        for (why, count) in not_replayed {
            *self.not_replayed.entry(why).or_default() += count;
        }
        self.recomputed += recomputed;
        for (model, turns) in generated {
            *self.generated.entry(model).or_default() += turns;
        }
        for (model, Answers { policy, plugins }) in recorded {
            let own = self.recorded.entry(model).or_default();
            own.policy += policy;
            own.plugins += plugins;
        }
        self.shown += shown;
        self.published += published;
    }
}
