//! Compares recorded runs: rewards, lifts and costs of each, and the difference of every run from the first.
//!
//! What a run is compared by are its rewards by task and environment seed: of a run that played, all its episodes; of one that
//! learned or evaluated, the test episodes of the side that has learned.

mod cost;
mod curves;
mod difference;
mod reading;

pub(crate) use cost::money;
pub use cost::{PerPoint, Point, Ranged, RunCost, Spent};
pub use curves::draw_curves;
pub use difference::{Compared, Obstacle, RunDifference, Unlike};

use crate::runs::{Estimate, find_run};
use crate::{AppError, RequestError};
use clawhost_core::{DamagedRecord, EpisodeTally, RunId, RunKind, RunName, RunState, StoreReader};
use clawhost_play::Interval;
use clawhost_run_config::RunSpec;
use reading::Reading;
use serde::Serialize;
use serde_json::Value;

/// A run in a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRun {
    /// The run.
    pub run: RunId,
    /// Its name.
    pub name: Option<RunName>,
    /// Its purpose.
    pub kind: RunKind,
    /// Its progress. The numbers of a run that has not finished are those of what it recorded.
    pub state: RunState,
    /// Its specification, without values that depend on the machine.
    pub config: Value,
    /// How its episodes ended, including those of its phases.
    pub episodes: EpisodeTally,
    /// The mean reward that it is compared by. `None`: nothing is scored.
    pub reward: Option<Estimate>,
    /// Before learning, on the same test episodes. `None`: it played, or no test was recorded.
    pub before: Option<Estimate>,
    /// The lift, pair by pair. `None`: as for `before`.
    pub lift: Option<Estimate>,
    /// What it cost.
    pub cost: RunCost,
    /// Mean reward by number of episodes: of a run that played, a moving average; of one that learned, of its training episodes.
    pub curve: Vec<(f64, f64)>,
    /// Its specification with the paths of this machine.
    #[serde(skip)]
    pub spec: RunSpec,
}

/// A comparison of runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The runs, as they were named.
    pub runs: Vec<ComparedRun>,
    /// The difference of each from the first.
    pub differences: Vec<RunDifference>,
    /// Records that could not be read, and are left out.
    #[serde(skip)]
    pub damaged: Vec<DamagedRecord>,
}

/// A mean with its interval.
fn estimate((mean, interval): (Option<f64>, Option<Interval>)) -> Option<Estimate> {
    Some(Estimate { mean: mean?, interval: interval.map(|Interval { low, high }| (low, high)) })
}

/// Compares runs, each named by its id, its name or a beginning of its id. Pending episodes are determined at a time
/// (milliseconds since 1970).
///
/// # Errors
/// A run is unknown, was captured by a gateway, or has a specification that cannot be read; or the store cannot be read.
pub fn compare_runs(reader: &dyn StoreReader, names: &[String], now_ms: u64) -> Result<Comparison, AppError> {
    let mut readings = Vec::new();
    for name in names {
        let row = find_run(reader, name)?;
        if row.kind == RunKind::Live {
            return Err(RequestError::LiveRun { run: row.id.0 }.into());
        }
        readings.push(Reading::of(reader, row, now_ms)?);
    }
    let differences = match readings.split_first() {
        Some((first, others)) => others.iter().map(|other| RunDifference::between(first, other)).collect(),
        None => Vec::new(),
    };
    let mut damaged: Vec<DamagedRecord> = readings.iter_mut().flat_map(Reading::take_damaged).collect();
    // A run may be named twice.
    damaged.sort_by(|one, other| one.record.cmp(&other.record));
    damaged.dedup();
    Ok(Comparison { runs: readings.into_iter().map(ComparedRun::from).collect(), differences, damaged })
}

impl From<Reading> for ComparedRun {
    fn from(reading: Reading) -> Self {
        let cost = RunCost::of(&reading);
        let Reading { row, labels, spec, tally, reward, before, after, curve, .. } = reading;
        let lift = before.as_ref().and_then(|before| clawhost_play::contrast(before, &after, true));
        Self {
            run: row.id,
            name: labels.name,
            kind: row.kind,
            state: row.state,
            config: spec.published(),
            episodes: tally,
            reward,
            before: before.as_ref().and_then(|before| estimate(before.mean())),
            lift: lift.and_then(|lift| estimate((Some(lift.mean), lift.interval))),
            cost,
            curve,
            spec,
        }
    }
}
