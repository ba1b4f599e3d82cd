//! `clawhost feedback`: a person's verdict about an episode.

use crate::args::{FeedbackArgs, Thumbs};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use clawhost_app::{
    AppError, FeedbackReport, FeedbackRequest, RequestError, Workspace, WorkspaceSettings, give_feedback, settle_live,
    time,
};
use clawhost_core::{EpisodeState, Feedback};
use std::io::Write as _;

impl FeedbackArgs {
    fn request(&self) -> anyhow::Result<FeedbackRequest> {
        let score = match (self.score, self.thumbs) {
            (Some(score), None) => score,
            (None, Some(Thumbs::Up)) => 1.0,
            (None, Some(Thumbs::Down)) => -1.0,
            // The parser requires one of both.
            _ => return Err(UsageError("use --score or --thumbs".to_owned()).into()),
        };
        let feedback = Feedback::new(score, self.text.clone().unwrap_or_default())
            .map_err(|error| AppError::from(RequestError::from(error)))?;
        Ok(FeedbackRequest { episode: self.episode.clone(), feedback, key: self.key.clone() })
    }
}

pub(crate) async fn run(context: &Context, args: &FeedbackArgs) -> anyhow::Result<Exit> {
    let request = args.request()?;
    // The data folder must exist: feedback needs a recorded episode.
    context.reader()?;
    let workspace = Workspace::open(WorkspaceSettings::new(context.folder()?))?;
    // A gateway may have answered just now.
    settle_live(&workspace, false).await?;
    let report = give_feedback(&workspace, request).await?;
    let mut out = crate::terminal::stdout();
    if context.json() {
        crate::terminal::json(&serde_json::json!({ "format": 1, "feedback": report }))?;
    } else {
        writeln!(out, "{}", text(&report))?;
    }
    Ok(Exit::Ok)
}

fn text(report: &FeedbackReport) -> String {
    let FeedbackReport { run, episode, added, revision, reward_before, reward, state } = report;
    let shown = |reward: &Option<f64>| reward.map_or_else(|| "not scored".to_owned(), |reward| reward.to_string());
    let waits = match state {
        EpisodeState::Pending { until } => format!("; it waits for another verdict until {}", time(*until)),
        EpisodeState::Open | EpisodeState::Decided => String::new(),
    };
    let (before, now) = (shown(reward_before), shown(reward));
    match added {
        true => format!("{run}/{episode}: revision {revision}, reward {before} -> {now}{waits}"),
        false => format!("{run}/{episode}: that is recorded already (revision {revision}); the reward is {now}{waits}"),
    }
}
