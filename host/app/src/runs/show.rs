//! The details of one run.

use super::{ListedRun, RunChoice, choose_runs};
use crate::data::{HeldRun, held_run};
use crate::{AppError, Workspace};
use clawhost_core::{Digest, EpisodeTally, PhaseRow, RunRow, recorded_root};
use clawhost_run_config::RunSpec;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// A number with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The interval. `None`: unknown.
    pub interval: Option<(f64, f64)>,
}

/// The details of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunDetails {
    /// Its row in a list.
    #[serde(flatten)]
    pub run: ListedRun,
    /// How its episodes ended, including those of its phases.
    pub episodes: EpisodeTally,
    /// The current mean reward of its episodes. The interval is the recorded one, and is present only while the mean
    /// equals the recorded one.
    pub reward: Option<Estimate>,
    /// The lift on the test split: of learning, or of the evaluated playbook.
    pub lift: Option<Estimate>,
    /// One digest of the content of its episodes, which equal runs share. `None`: it did not end.
    pub content_root: Option<Digest>,
    /// Its phases, in order.
    pub phases: Vec<PhaseRow>,
    /// What it contains in the data folder.
    pub held: HeldRun,
    /// Its specification with the paths of this machine. `None`: it cannot be read here.
    #[serde(skip)]
    pub spec: Option<RunSpec>,
}

/// The details of the newest or a named run. Pending episodes are determined at a time (milliseconds since 1970).
///
/// # Errors
/// There is no such run, the store cannot be read, or another process removes records from the folder.
pub async fn show_run(folder: &Path, run: Option<&str>, now_ms: u64) -> Result<RunDetails, AppError> {
    let choice = run.map_or(RunChoice::Newest, |run| RunChoice::One(run.to_owned()));
    let (row, labels, episodes, phases) = {
        let reader = Workspace::read(folder)?;
        let mut runs = choose_runs(&*reader, &choice)?;
        let row = runs.swap_remove(0);
        let (labels, episodes) = (reader.labels(&row.id)?, reader.tally(&row.id, now_ms)?);
        let phases = reader.phases(&row.id)?;
        (row, labels, episodes, phases)
    };
    let held = held_run(folder, &row.id).await?;
    let spec = RunSpec::from_document(row.config.0.clone()).ok();
    let (reward, lift) = (reward(&row), lift(&row));
    let content_root = row.summary.as_ref().and_then(recorded_root);
    Ok(RunDetails { run: ListedRun::of(row, labels), episodes, reward, lift, content_root, phases, held, spec })
}

/// Means of the same rewards differ by less than this if they are added in another order.
const TOLERANCE: f64 = 1e-9;

fn reward(row: &RunRow) -> Option<Estimate> {
    let mean = row.reward_mean?;
    let summary = row.summary.as_ref();
    let recorded = summary.and_then(|summary| summary.get("reward_mean")?.as_f64());
    let is_same = recorded.is_some_and(|recorded| (recorded - mean).abs() < TOLERANCE);
    let interval = summary.filter(|_| is_same).and_then(|summary| interval(summary.get("reward_interval")?));
    Some(Estimate { mean, interval })
}

fn lift(row: &RunRow) -> Option<Estimate> {
    let lift = row.summary.as_ref()?.get("evaluation")?.get("lift")?;
    Some(Estimate { mean: lift.get("mean")?.as_f64()?, interval: interval(lift) })
}

fn interval(value: &Value) -> Option<(f64, f64)> {
    Some((value.get("low")?.as_f64()?, value.get("high")?.as_f64()?))
}
