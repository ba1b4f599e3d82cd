//! Plays or learns many variants of one run within a budget of episodes, and continues where it was interrupted.
//!
//! A run of a sweep is found again by a tag: the digest of its specification, with the digests of its plugins and models. A finished
//! run is taken as it is, an interrupted one is resumed.

use crate::compare::{Comparison, compare_runs};
use crate::events::EventSink;
use crate::learn::most_episodes;
use crate::resume::Start;
use crate::session::Session;
use crate::{AppError, RequestError, Workspace, learn, rehearse, run};
use clawhost_core::{Digest, RunFilter, RunId, RunKind, RunRow, RunState, RunTag};
use clawhost_learn::budget::FEWEST;
use clawhost_play::{Cancel, StopReason};
use clawhost_run_config::{
    Key, PlaybookSpec, RunSpec, RunSpecPatch, Source, SweepMethod, SweepPatch, SweepPoint, Value, Verb,
};
use serde::Serialize;

/// The tag of the runs of a sweep, before the digest of the run.
const TAG: &str = "sweep=";
/// Digits of that digest: 64 bits, so that two runs of a data folder never share them by chance.
const TAG_DIGITS: usize = 16;

/// A round of a sweep: its runs can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RoundPlan {
    /// Number of runs.
    pub runs: u64,
    /// Most episodes of all of them.
    pub episodes: u64,
}

/// The plan of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepPlan {
    /// Every combination, by its varied options.
    pub points: Vec<Vec<(String, String)>>,
    /// The rounds. A grid has one.
    pub rounds: Vec<RoundPlan>,
    /// Most episodes of all runs.
    pub episodes: u64,
    /// Most episodes that are allowed.
    pub budget: u64,
}

/// A run of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweptRun {
    /// The round, from 1.
    pub round: u64,
    /// The varied options.
    pub values: Vec<(String, String)>,
    /// The run.
    pub run: RunId,
    /// What the rounds choose by: of a run that played its mean reward; of one that learned the mean reward of its last training
    /// episodes, because test tasks decide nothing. `None`: nothing was scored.
    pub score: Option<f64>,
    /// Whether it had finished before this call.
    pub found: bool,
    /// Why it ended early.
    pub stopped: Option<StopReason>,
}

/// The result of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Swept {
    /// The plan.
    pub plan: SweepPlan,
    /// All runs, in the order in which they were played.
    pub runs: Vec<SweptRun>,
    /// Whether the operator stopped it.
    pub is_interrupted: bool,
    /// The runs of the last round, the best first. `None`: there are none yet.
    pub comparison: Option<Comparison>,
}

/// The key that says how long a run is.
fn length(spec: &RunSpec) -> Key {
    match (spec.learn(), spec.harness().and_then(|harness| harness.budget)) {
        (None, _) => Key::Episodes,
        (Some(_), Some(_)) => Key::Budget,
        (Some(_), None) => Key::Iterations,
    }
}

/// The options of a run of a share of the length: at least one group, and whole groups. The first is the one that [`length`] names; where other
/// layers learn after lessons with a budget, their iterations are shortened, too.
fn shortened(spec: &RunSpec, halvings: u32) -> Vec<(Key, u64)> {
    let share = |whole: u64| whole.checked_shr(halvings).unwrap_or(0).max(1);
    let iterations = || (Key::Iterations, share(spec.learn().map_or(0, |learn| learn.iterations)));
    match length(spec) {
        Key::Episodes => {
            let group = u64::from(spec.play.group.max(1));
            vec![(Key::Episodes, share(spec.play.episodes).div_ceil(group) * group)]
        }
        Key::Budget => {
            let budget = share(spec.harness().and_then(|harness| harness.budget).unwrap_or(0));
            let has_others = spec.learn().is_some_and(|learn| learn.layers.len() > 1);
            std::iter::once((Key::Budget, budget)).chain(has_others.then(iterations)).collect()
        }
        _ => vec![iterations()],
    }
}

/// The number of runs of every round: all, then the better half, until one is left.
fn sizes(points: usize, method: SweepMethod) -> Vec<usize> {
    let next = |size: &usize| (*size > 1 && method == SweepMethod::Halving).then(|| size.div_ceil(2));
    std::iter::successors(Some(points), next).collect()
}

/// A sweep that is ready to begin.
struct Sweep<'a> {
    workspace: &'a Workspace,
    patch: &'a SweepPatch,
    points: Vec<SweepPoint>,
    sizes: Vec<usize>,
    exists: &'a dyn Fn(&str) -> bool,
    events: &'a dyn EventSink,
}

impl Sweep<'_> {
    /// The run of a combination in a round.
    fn spec(&self, point: &SweepPoint, round: usize) -> Result<RunSpec, AppError> {
        let resolve = |patch: RunSpecPatch| patch.resolve_with(self.patch.verb, self.exists);
        let spec = resolve(point.patch.clone())?;
        if spec.harness().is_some_and(|harness| harness.allowance.is_some()) {
            return Err(AppError::from(RequestError::SweepAllowance).of_option(Key::Budget));
        }
        let halvings = u32::try_from(self.sizes.len().saturating_sub(round + 1)).unwrap_or(u32::MAX);
        if halvings == 0 {
            return Ok(spec);
        }
        let shortened = shortened(&spec, halvings);
        if shortened.iter().any(|(key, value)| *key == Key::Budget && *value < FEWEST) {
            let whole = spec.harness().and_then(|harness| harness.budget).unwrap_or(0);
            let why = format!(
                "round {} of the halving divides the budget of {whole} episodes by {}; the smallest budget is {FEWEST}",
                round + 1,
                1u64 << halvings.min(63)
            );
            return Err(AppError::from(RequestError::Other(why)).of_option(Key::Budget));
        }
        let mut patch = point.patch.clone();
        for (key, value) in shortened {
            patch.set(key, Value::Whole(value), Source::Flag);
        }
        Ok(resolve(patch)?)
    }

    /// A run with its tag. Everything that it needs is loaded and checked.
    async fn tagged(&self, mut spec: RunSpec) -> Result<(RunSpec, RunTag), AppError> {
        let known = match self.patch.verb {
            Verb::Learn => rehearse(self.workspace, spec.clone(), self.events).await?.spec,
            Verb::Play | Verb::Evaluate => Session::open(self.workspace, spec.clone(), None, self.events).await?.spec,
        };
        let digest: String = Digest::of_json(&known.published()).hex().chars().take(TAG_DIGITS).collect();
        let invalid = |_| AppError::Host("the tag of a run of a sweep is not valid".to_owned());
        let tag: RunTag = format!("{TAG}{digest}").parse().map_err(invalid)?;
        if spec.harness().is_some() {
            // Each run learns a playbook of its own, which begins empty: what one learned must not help another.
            spec.playbook = Some(PlaybookSpec { name: format!("sweep-{digest}"), number: None, digest: None });
        }
        spec.tags.insert(tag.clone());
        Ok((spec, tag))
    }

    /// The plan. Every combination is loaded and checked.
    async fn plan(&self) -> Result<SweepPlan, AppError> {
        let mut rounds = Vec::new();
        for (round, size) in self.sizes.iter().enumerate() {
            let mut episodes = Vec::new();
            for point in &self.points {
                let spec = self.spec(point, round)?;
                let most = match self.patch.verb {
                    Verb::Learn => most_episodes(spec.clone())?,
                    Verb::Play | Verb::Evaluate => spec.play.episodes,
                };
                episodes.push(most);
                if round == 0 {
                    self.tagged(spec).await?;
                }
            }
            // Nobody knows which ones go on: perhaps the longest.
            episodes.sort_unstable_by(|one, other| other.cmp(one));
            let episodes = episodes.into_iter().take(*size).fold(0, u64::saturating_add);
            rounds.push(RoundPlan { runs: *size as u64, episodes });
        }
        let episodes = rounds.iter().map(|round| round.episodes).fold(0, u64::saturating_add);
        let points = self.points.iter().map(|point| point.values.clone()).collect();
        Ok(SweepPlan { points, rounds, episodes, budget: self.patch.budget })
    }

    /// The newest run with a tag.
    fn recorded(&self, tag: &RunTag) -> Result<Option<RunRow>, AppError> {
        let filter = RunFilter {
            tags: [tag.clone()].into(),
            kinds: [RunKind::Play, RunKind::Learn].into(),
            limit: Some(1),
            ..RunFilter::default()
        };
        Ok(self.workspace.reader()?.select_runs(&filter)?.rows.pop().filter(|row| !row.pruned))
    }

    /// Plays a run, or takes it as it is recorded. Returns its id, whether it had finished before, and why it ended early.
    async fn play(
        &self,
        (spec, tag): (RunSpec, RunTag),
        cancel: &Cancel,
    ) -> Result<(RunId, bool, Option<StopReason>), AppError> {
        let start = match self.recorded(&tag)? {
            Some(row) if row.state == RunState::Finished => return Ok((row.id, true, None)),
            Some(row) => Start::Resume(Some(row.id.0)),
            None => Start::New,
        };
        match self.patch.verb {
            Verb::Learn => {
                let learned = learn(self.workspace, spec, start, cancel, self.events).await?;
                Ok((learned.run, false, learned.report.stopped))
            }
            Verb::Play | Verb::Evaluate => {
                let played = run(self.workspace, spec, start, cancel, self.events).await?;
                Ok((played.run, false, played.report.stopped))
            }
        }
    }

    /// The score of every run.
    fn scores(&self, runs: &[RunId]) -> Result<Vec<Option<f64>>, AppError> {
        let names: Vec<String> = runs.iter().map(|run| run.0.clone()).collect();
        let compared = compare_runs(&*self.workspace.reader()?, &names, self.workspace.clock().now_ms())?;
        let score = |run: &crate::ComparedRun| match run.kind {
            RunKind::Learn => run.curve.last().map(|(_, reward)| *reward),
            _ => run.reward.map(|reward| reward.mean),
        };
        Ok(compared.runs.iter().map(score).collect())
    }
}

/// Points by their scores, the best first; without a score last. Equal ones stay in their order.
fn ranked(mut scored: Vec<(usize, Option<f64>)>) -> Vec<usize> {
    let value = |score: &Option<f64>| score.unwrap_or(f64::NEG_INFINITY);
    scored.sort_by(|(_, one), (_, other)| value(other).total_cmp(&value(one)));
    scored.into_iter().map(|(point, _)| point).collect()
}

async fn ready<'a>(
    workspace: &'a Workspace,
    patch: &'a SweepPatch,
    exists: &'a dyn Fn(&str) -> bool,
    events: &'a dyn EventSink,
) -> Result<(Sweep<'a>, SweepPlan), AppError> {
    let points = patch.points();
    let sizes = sizes(points.len(), patch.method);
    let sweep = Sweep { workspace, patch, points, sizes, exists, events };
    let plan = sweep.plan().await?;
    if plan.episodes > plan.budget {
        return Err(RequestError::SweepBudget { episodes: plan.episodes, budget: plan.budget }.into());
    }
    Ok((sweep, plan))
}

/// The plan of a sweep. Nothing is played. `exists` returns whether a file of a name exists.
///
/// # Errors
/// A run is invalid, something cannot be loaded, or the runs may play more episodes than the budget.
pub async fn plan_sweep(
    workspace: &Workspace,
    patch: &SweepPatch,
    exists: &dyn Fn(&str) -> bool,
    events: &dyn EventSink,
) -> Result<SweepPlan, AppError> {
    Ok(ready(workspace, patch, exists, events).await?.1)
}

/// Executes a sweep, or continues it. Calls `done` after each run, with that run and the number of all runs.
///
/// # Errors
/// As [`plan_sweep`]; or a run cannot be played, resumed or recorded.
pub async fn sweep(
    workspace: &Workspace,
    patch: &SweepPatch,
    exists: &dyn Fn(&str) -> bool,
    (cancel, events): (&Cancel, &dyn EventSink),
    done: &mut dyn FnMut(&SweptRun, u64),
) -> Result<Swept, AppError> {
    let (sweep, plan) = ready(workspace, patch, exists, events).await?;
    let all = plan.rounds.iter().map(|round| round.runs).sum();
    let mut swept = Swept { plan, runs: Vec::new(), is_interrupted: false, comparison: None };
    let mut going: Vec<usize> = (0..sweep.points.len()).collect();
    for (round, size) in sweep.sizes.iter().enumerate() {
        going.truncate(*size);
        // In the order of the file, so that an interrupted sweep continues alike.
        going.sort_unstable();
        let mut scored = Vec::new();
        let mut of_round = Vec::new();
        for point in &going {
            if cancel.is_requested() {
                swept.is_interrupted = true;
                break;
            }
            let Some(known) = sweep.points.get(*point) else { continue };
            let tagged = sweep.tagged(sweep.spec(known, round)?).await?;
            let values = known.values.clone();
            let (run, found, stopped) = sweep.play(tagged, cancel).await?;
            swept.is_interrupted = stopped == Some(StopReason::Cancelled);
            let score = sweep.scores(std::slice::from_ref(&run))?.pop().flatten();
            scored.push((*point, score));
            of_round.push((*point, run.clone()));
            let one = SweptRun { round: round as u64 + 1, values, run, score, found, stopped };
            done(&one, all);
            swept.runs.push(one);
            if swept.is_interrupted {
                break;
            }
        }
        going = ranked(scored);
        let run_of = |point: &usize| of_round.iter().find(|(known, _)| known == point).map(|(_, run)| run.0.clone());
        let names: Vec<String> = going.iter().filter_map(run_of).collect();
        // The last round of halving has one run: the round before shows what it was better than.
        if names.len() > 1 || swept.comparison.is_none() {
            let compared = compare_runs(&*workspace.reader()?, &names, workspace.clock().now_ms())?;
            swept.comparison = Some(compared).filter(|found| !found.runs.is_empty());
        }
        if swept.is_interrupted {
            break;
        }
    }
    Ok(swept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_of_halving_has_the_better_half() {
        assert_eq!(sizes(8, SweepMethod::Halving), [8, 4, 2, 1]);
        assert_eq!(sizes(5, SweepMethod::Halving), [5, 3, 2, 1]);
        assert_eq!(sizes(1, SweepMethod::Halving), [1]);
        assert_eq!(sizes(8, SweepMethod::Grid), [8]);
    }

    #[test]
    fn a_short_run_has_a_share_of_what_says_how_long_it_is() {
        let check = |layers: &[&str], set: &[(Key, u64)], expect: &[(Key, u64)]| {
            let mut patch = RunSpecPatch::new();
            patch.set(Key::Plugin, Value::Text("p.wasm".to_owned()), Source::Flag);
            patch.set(Key::Rewards, Value::Texts(vec!["r.wasm".to_owned()]), Source::Flag);
            if layers.contains(&"harness") {
                patch.set(Key::Reflectors, Value::Texts(vec!["reflector.wasm".to_owned()]), Source::Flag);
            }
            if layers.contains(&"weights") {
                patch.set(Key::Model, Value::Text("tiny".to_owned()), Source::Flag);
            }
            set.iter().for_each(|(key, value)| patch.set(*key, Value::Whole(*value), Source::Flag));
            let verb = if layers.is_empty() { Verb::Play } else { Verb::Learn };
            patch.set_layers(layers.iter().map(|layer| (*layer).to_owned()).collect(), Source::Flag);
            assert_eq!(shortened(&patch.resolve(verb).unwrap(), 2), expect, "{layers:?} {set:?}");
        };
        check(&[], &[(Key::Episodes, 40), (Key::Group, 4)], &[(Key::Episodes, 12)]);
        check(&["harness"], &[(Key::Budget, 400)], &[(Key::Budget, 100)]);
        check(&["harness"], &[(Key::Iterations, 40)], &[(Key::Iterations, 10)]);
        check(&["weights"], &[(Key::Iterations, 40)], &[(Key::Iterations, 10)]);
        // Lessons with a budget, then weights.
        let both = [(Key::Budget, 400), (Key::Iterations, 40)];
        check(&["harness", "weights"], &both, &[(Key::Budget, 100), (Key::Iterations, 10)]);
    }

    #[test]
    fn the_best_go_on_and_a_run_without_a_score_is_last() {
        let scored = vec![(0, Some(0.5)), (1, None), (2, Some(0.9)), (3, Some(0.5)), (4, Some(-0.5))];
        assert_eq!(ranked(scored), [2, 0, 3, 4, 1]);
    }
}
