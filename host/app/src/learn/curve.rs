//! Plots the training reward and the validation results.

use crate::AppError;
use crate::plot::{self, Curve, SMOOTHING};
use clawhost_learning::LearnReport;
use std::path::Path;

/// The file name of the plot.
pub(crate) const CURVE: &str = "curve.svg";

/// Training rewards by iteration, smoothed.
pub fn training(report: &LearnReport) -> Vec<(f64, f64)> {
    let scored = report.iterations.iter().filter_map(|one| Some((one.iteration as f64, one.reward?)));
    let (numbers, rewards): (Vec<f64>, Vec<f64>) = scored.unzip();
    let smoothed = plot::smoothed(&rewards, (rewards.len() / SMOOTHING).max(1));
    numbers.into_iter().zip(smoothed).map(|(number, (_, reward))| (number, reward)).collect()
}

/// Draws both curves, if there are at least two points.
pub(crate) fn draw(folder: &Path, report: &LearnReport) -> Result<(), AppError> {
    let validated = |one: &clawhost_learning::IterationReport| {
        Some((one.iteration as f64, one.weights().and_then(|(_, weights)| weights.validation)?))
    };
    let curves =
        [("training", training(report)), ("validation", report.iterations.iter().filter_map(validated).collect())];
    let curves: Vec<Curve> = curves
        .into_iter()
        .filter(|(_, points)| points.len() >= 2)
        .map(|(name, points)| Curve { name: name.to_owned(), points })
        .collect();
    if curves.is_empty() {
        return Ok(());
    }
    plot::svg(&folder.join(CURVE), "Reward while weights learn", ("iteration", "mean reward"), &curves, &[])
}
