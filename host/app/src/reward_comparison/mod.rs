//! Compares two judges of stored episodes: a reward with another one, with the runs' own reward, or with the feedback of people.
//!
//! Rewards judge as [`score`](crate::score()) does: existing verdicts are used, new ones are stored. The arithmetic is
//! [`clawhost_play::agreement`].

mod cost;
mod error;
mod judges;
mod pairs;

pub use cost::{JudgeCost, MeasuredCalls};
pub use error::ComparisonError;
pub use judges::{Against, ComparedJudge, JudgedBy};

use crate::replay::KeptPlugins;
use crate::score::{RewardInUse, ScoreRequest, ScoredRun, score_watched};
use crate::{AppError, EventSink, RequestError, Workspace};
use clawhost_core::{DamagedRecord, StoreError, StoreReader};
use clawhost_play::{Agreement, Cancel, Comparing, Disagreement, Sides, StopReason, agreement};
use judges::{OwnRange, rationale};
use pairs::Pairing;
use serde::Serialize;

/// The comparison of two judges.
#[derive(Debug, Clone, PartialEq)]
pub struct RewardComparisonRequest {
    /// The runs and how their episodes are judged, with one reward: the first judge.
    pub scoring: ScoreRequest,
    /// The second judge.
    pub against: Against,
    /// A score passes if it is this or more. `None`: the middle of the range of the judge.
    pub thresholds: Option<Sides<f64>>,
    /// Most disagreements in the report.
    pub disagreements: usize,
}

/// How far two judges agree about stored episodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RewardComparison {
    /// The first judge.
    pub a: ComparedJudge,
    /// The second judge.
    pub b: ComparedJudge,
    /// Failed episodes, which no judge judges.
    pub not_complete: u64,
    /// How far they agree.
    #[serde(flatten)]
    pub agreement: Agreement,
    /// What was judged for it, by run. New verdicts are stored.
    pub runs: Vec<ScoredRun>,
    /// Records that could not be read, and were passed over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedRecord>,
}

impl RewardComparison {
    /// Why it stopped early. It is about the episodes that were judged until then.
    pub fn stopped(&self) -> Option<&StopReason> {
        self.runs.last().and_then(|last| last.report.stopped.as_ref())
    }
}

/// Judges the episodes of runs where verdicts are missing, and compares. If it is stopped, the verdicts until then are stored and
/// compared; the same request continues.
///
/// # Errors
/// Both judges are the same, or no episode has a score of both; or as [`score`](crate::score()).
pub async fn compare_rewards(
    workspace: &Workspace,
    request: RewardComparisonRequest,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<RewardComparison, AppError> {
    let RewardComparisonRequest { mut scoring, against, thresholds, disagreements } = request;
    if scoring.rewards.len() != 1 {
        return Err(ComparisonError::OneReward { given: scoring.rewards.len() }.into());
    }
    if let Against::Reward(other) = &against {
        scoring.rewards.push(other.clone());
    }
    let price = scoring.budget.price;
    let mut pairing = Pairing::new(&against);
    let scored = score_watched(workspace, scoring, cancel, events, &mut pairing).await.map_err(same_reward)?;
    let Pairing { pairs, used, metered, ranges, own, first, .. } = pairing;
    let reader = workspace.reader()?;
    let of_b = match (&against, ranges.get(1).copied()) {
        (Against::Own, _) => own_range(workspace, &*reader, events, own).await?,
        (Against::Reward(_), Some(range)) => range,
        (Against::Reward(_) | Against::Feedback, _) => WHOLE,
    };
    let ranges = Sides { a: ranges.first().copied().unwrap_or(WHOLE), b: of_b };
    let middle = |(least, most): (f64, f64)| f64::midpoint(least, most);
    let thresholds = thresholds.unwrap_or(Sides { a: middle(ranges.a), b: middle(ranges.b) });
    let how = Comparing { thresholds, disagreements };
    let mut rewards = scored.rewards.into_iter();
    let judge = |reward: Option<RewardInUse>| reward.map_or_else(|| JudgedBy::of_stored(&against), JudgedBy::Reward);
    let [cost_a, cost_b] = [0, 1].map(|side| used.get(side).map(|used| used.cost(metered.get(side), price)));
    let a = ComparedJudge { judge: judge(rewards.next()), range: ranges.a, cost: cost_a.unwrap_or_default() };
    let b = ComparedJudge { judge: judge(rewards.next()), range: ranges.b, cost: cost_b.unwrap_or_default() };
    // The bootstrap takes seconds for very many episodes.
    let compared = tokio::task::spawn_blocking(move || agreement(&pairs.into_values().collect::<Vec<_>>(), &how)).await;
    let mut agreement = compared.map_err(|error| AppError::Host(error.to_string()))?;
    for one in &mut agreement.disagreements {
        explain(&*reader, one, &a.judge, &b.judge, first)?;
    }
    let not_complete = scored.runs.iter().map(|run| run.report.not_complete).sum();
    let compared = RewardComparison { a, b, not_complete, agreement, runs: scored.runs, damaged: scored.damaged };
    match compared.agreement.coverage.both {
        0 if compared.stopped().is_none() => Err(ComparisonError::nothing_in_common(&compared).into()),
        _ => Ok(compared),
    }
}

/// The range of every reward: see [`clawhost_core::RewardDescription`].
const WHOLE: (f64, f64) = (-1.0, 1.0);

/// Scoring refuses two equal rewards, because they would count twice. Here they would agree in everything.
fn same_reward(error: AppError) -> AppError {
    match error.cause() {
        AppError::Request(RequestError::RewardTwice { reward }) => {
            ComparisonError::SameReward { reward: reward.clone() }.into()
        }
        _ => error,
    }
}

/// The range of the runs' own reward: from the least to the most that the rewards declare that decided. A reward whose component cannot be
/// loaded may have any range.
async fn own_range(
    workspace: &Workspace,
    reader: &dyn StoreReader,
    events: &dyn EventSink,
    own: OwnRange,
) -> Result<(f64, f64), AppError> {
    let host = workspace.host()?;
    let mut kept = KeptPlugins::new(&host, reader, events);
    let mut ranges = Vec::new();
    for record in own.into_records() {
        ranges.push(match kept.reward(&record).await? {
            Ok(reward) => (reward.description().minimum, reward.description().maximum),
            Err(_) => WHOLE,
        });
    }
    let both = |one: (f64, f64), other: (f64, f64)| (one.0.min(other.0), one.1.max(other.1));
    Ok(ranges.into_iter().reduce(both).unwrap_or(WHOLE))
}

/// Adds what the judges say about an episode. One that was removed meanwhile stays without.
fn explain(
    reader: &dyn StoreReader,
    one: &mut Disagreement,
    a: &JudgedBy,
    b: &JudgedBy,
    first: Option<judges::RewardKey>,
) -> Result<(), StoreError> {
    if let Some(episode) = reader.episode(&format!("{}/{}", one.run, one.episode))? {
        let said = |judge: &JudgedBy, score| rationale(judge, &episode, score, first.as_ref());
        one.rationales = Sides { a: said(a, one.scores.a), b: said(b, one.scores.b) };
    }
    Ok(())
}
