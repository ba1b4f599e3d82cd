//! The playbook on the page: what is served and tried, with the evidence, and older versions to serve again.

use super::login::Visitor;
use super::{Shared, for_admin, for_form, go_to, page, template};
use crate::http::{Inner, Refusal};
use crate::learned::{LearnedBook, LearnedView, VersionReward};
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use clawhost_wire::ErrorKind;
use serde::Serialize;

/// Where the playbook is.
const PLAYBOOK: &str = "/dashboard/playbook";
/// Size of the plot in its own units.
const PLOT: (f64, f64) = (600.0, 160.0);
/// Versions in the plot: marks of more would overlap.
const PLOTTED: usize = 30;

/// A version in the plot: its place, and the ends of its interval.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Mark {
    version: u64,
    x: f64,
    mean: f64,
    low: f64,
    high: f64,
    text: String,
}

/// The playbook as the page shows it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct PlaybookShown {
    learned: LearnedView,
    plot: Vec<Mark>,
    width: f64,
    height: f64,
}

pub(super) fn unavailable(why: String) -> Refusal {
    Refusal::new(ErrorKind::Unavailable, why)
}

fn book(gateway: &Inner) -> Result<&dyn LearnedBook, Refusal> {
    let why = "this gateway serves no playbook";
    gateway.learned.as_deref().ok_or_else(|| Refusal::new(ErrorKind::NotFound, why))
}

fn plot(rewards: &[VersionReward]) -> Vec<Mark> {
    let known: Vec<(&VersionReward, f64, f64)> =
        rewards.iter().filter_map(|one| Some((one, one.mean?, one.margin?))).collect();
    let shown = known.get(known.len().saturating_sub(PLOTTED)..).unwrap_or_default();
    let step = PLOT.0 / (shown.len() as f64 + 1.0);
    let height = |reward: f64| (PLOT.1 * (1.0 - reward.clamp(0.0, 1.0)) * 10.0).round() / 10.0;
    let mark = |(place, (reward, mean, margin)): (usize, &(&VersionReward, f64, f64))| Mark {
        version: reward.version,
        x: (step * (place as f64 + 1.0) * 10.0).round() / 10.0,
        mean: height(*mean),
        low: height(mean - margin),
        high: height(mean + margin),
        text: format!("version {}: {mean:.2} ± {margin:.2}, {} sessions", reward.version, reward.rewarded),
    };
    shown.iter().enumerate().map(mark).collect()
}

/// The playbook.
pub(super) async fn show(State(gateway): Shared, headers: HeaderMap) -> Response<Body> {
    for_admin(&gateway, &headers, async |visitor: Visitor| {
        let learned = book(&gateway)?.learned().await.map_err(unavailable)?;
        let plot = plot(&learned.rewards);
        let shown = PlaybookShown { learned, plot, width: PLOT.0, height: PLOT.1 };
        Ok(page(StatusCode::OK, template::playbook(&shown, &visitor)))
    })
    .await
}

/// Asks whether an older version shall be served again.
pub(super) async fn ask(State(gateway): Shared, Path(number): Path<u64>, headers: HeaderMap) -> Response<Body> {
    for_admin(&gateway, &headers, async |visitor: Visitor| {
        let learned = book(&gateway)?.learned().await.map_err(unavailable)?;
        let is_known = number == 0 || learned.versions.iter().any(|version| version.number == number);
        if !is_known || number == learned.version {
            let why = format!("version {number} is served already, or is none of the newest versions");
            return Err(Refusal::new(ErrorKind::NotFound, why));
        }
        Ok(page(StatusCode::OK, template::rollback(&learned, number, &visitor)))
    })
    .await
}

/// Serves an older version again.
pub(super) async fn serve(State(gateway): Shared, Path(number): Path<u64>, request: Request) -> Response<Body> {
    for_form(&gateway, request, async |_, _| {
        book(&gateway)?.serve_version(number).await.map_err(|why| Refusal::new(ErrorKind::Conflict, why))?;
        Ok(go_to(PLAYBOOK))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plot_has_a_mark_for_each_version_with_rewards() {
        let of = |version, mean, margin| VersionReward { version, sessions: 10, rewarded: 5, mean, margin };
        let marks = plot(&[of(0, Some(0.5), Some(0.25)), of(1, None, None), of(2, Some(1.0), Some(0.5))]);
        let places: Vec<(u64, f64, f64, f64, f64)> =
            marks.iter().map(|mark| (mark.version, mark.x, mark.mean, mark.low, mark.high)).collect();
        assert_eq!(places, [(0, 200.0, 80.0, 120.0, 40.0), (2, 400.0, 0.0, 80.0, 0.0)]);
        assert_eq!(marks[0].text, "version 0: 0.50 ± 0.25, 5 sessions");
        assert!(plot(&[]).is_empty());
    }
}
