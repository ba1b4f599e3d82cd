//! Rewards by episodes, as curves.

use super::{ComparedRun, Comparison};
use crate::AppError;
use crate::plot::{self, Curve, SMOOTHING};
use clawhost_core::escaped;
use std::path::Path;

/// Most points of a curve: about one for two pixels of a drawing.
const POINTS: usize = 400;
/// Longest text in a legend, in bytes.
const LEGEND_BYTES: usize = 60;

/// A moving average over a share of the points, of which evenly spaced ones remain.
pub(super) fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (places, values): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let smooth = plot::smoothed(&values, (values.len() / SMOOTHING).max(1));
    let all: Vec<(f64, f64)> = places.into_iter().zip(smooth).map(|(place, (_, value))| (place, value)).collect();
    let step = all.len().div_ceil(POINTS).max(1);
    let last = all.len().saturating_sub(1);
    // The last point is always there.
    let kept = all.into_iter().enumerate().filter(|(at, _)| (last - at).is_multiple_of(step));
    kept.map(|(_, point)| point).collect()
}

fn label(run: &ComparedRun) -> String {
    let name = run.name.as_ref().map_or(run.run.0.as_str(), |name| name.as_str());
    escaped(name, LEGEND_BYTES)
}

/// Draws the curves of a comparison into an SVG file. A run without a curve is a line at its mean reward.
///
/// # Errors
/// The file cannot be written.
pub fn draw_curves(path: &Path, comparison: &Comparison) -> Result<(), AppError> {
    let (with, without): (Vec<&ComparedRun>, Vec<&ComparedRun>) =
        comparison.runs.iter().partition(|run| run.curve.len() >= 2);
    let curves: Vec<Curve> =
        with.into_iter().map(|run| Curve { name: label(run), points: run.curve.clone() }).collect();
    let levels: Vec<(String, f64)> =
        without.into_iter().filter_map(|run| Some((label(run), run.reward?.mean))).collect();
    plot::svg(path, "Reward by episodes", ("episodes", "mean reward"), &curves, &levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_curve_keeps_evenly_spaced_points_and_its_last_one() {
        let points: Vec<(f64, f64)> = (1..=10_001).map(|at| (f64::from(at), f64::from(at % 2))).collect();
        let found = smoothed(&points);
        assert!(found.len() <= POINTS && found.len() > POINTS / 2, "{}", found.len());
        assert_eq!(found.last().map(|(place, _)| *place), Some(10_001.0));
        assert!(found.iter().skip(20).all(|(_, value)| (value - 0.5).abs() < 0.01), "alternating rewards average out");
        assert_eq!(smoothed(&[]), []);
        assert_eq!(smoothed(&[(3.0, 0.5)]), [(3.0, 0.5)]);
    }
}
