//! The port of what is learned from live sessions, as the page shows it.

use async_trait::async_trait;
use serde::Serialize;

/// A measured effect, on a scale of rewards of 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(into = "LiftShown")]
pub struct Lift {
    /// What it adds to the reward.
    pub effect: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of its 95 % interval.
    pub high: f64,
    /// Sessions with feedback behind it; 0 where only a learning run knows.
    pub sessions: u64,
    /// The bias of feedback, as an odds ratio above 1, at which it is no finding any more. `None`: it is none, or a learning run measured it.
    pub flip_point: Option<f64>,
    /// Whether nothing can be decided, because sessions with it and without it give feedback differently often.
    pub is_blocked: bool,
}

/// An effect with its text for people.
#[derive(Serialize)]
struct LiftShown {
    effect: f64,
    low: f64,
    high: f64,
    sessions: u64,
    flip_point: Option<f64>,
    is_blocked: bool,
    text: String,
}

impl From<Lift> for LiftShown {
    fn from(lift: Lift) -> Self {
        let Lift { effect, low, high, sessions, flip_point, is_blocked } = lift;
        let mut text = format!("{effect:+.2} ({low:+.2} to {high:+.2})");
        if sessions > 0 {
            text += &format!(", {sessions} sessions");
        }
        if let Some(flip_point) = flip_point {
            text += &format!("; biased feedback would undo it from an odds ratio of {flip_point:.1} on");
        }
        if is_blocked {
            text += "; not decided, because sessions with it and without it give feedback differently often";
        }
        Self { effect, low, high, sessions, flip_point, is_blocked, text }
    }
}

/// An entry of the served playbook.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EntryView {
    /// Its id.
    pub id: String,
    /// The lesson on one line.
    pub text: String,
    /// Estimated tokens.
    pub tokens: u64,
    /// Episodes that it was drawn from, the first few.
    pub sources: Vec<String>,
    /// Who proposed it.
    pub by: String,
    /// What is known of its effect. `None`: nothing.
    pub lift: Option<Lift>,
    /// Whether it is held out in some sessions.
    pub held_out: bool,
}

/// A lesson on trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialView {
    /// The lesson on one line.
    pub text: String,
    /// Users whose sessions led to it.
    pub teachers: usize,
    /// Sessions with feedback that it was planned for.
    pub planned: u64,
    /// Those so far.
    pub rewarded: u64,
    /// Sessions that are still needed at the present share of feedback. `None`: none has given feedback yet.
    pub remaining: Option<u64>,
    /// What is known of its effect.
    pub lift: Option<Lift>,
    /// What a judge prefers of shadow answers. `None`: there are none. It decides nothing.
    pub shadow: Option<ShadowView>,
}

/// What a judge prefers of shadow answers with a lesson and without it, which nobody sees.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(into = "ShadowShown")]
pub struct ShadowView {
    /// Pairs of which the answer with the lesson is better.
    pub with: u64,
    /// Pairs of which the answer without it is better.
    pub without: u64,
    /// Pairs of equally good answers.
    pub neither: u64,
    /// Pairs about which the judge gave no vote.
    pub without_vote: u64,
    /// Pairs of which an answer or the judge failed.
    pub failed: u64,
    /// Mean preference for the lesson, -1 to 1. `None`: there is no vote.
    pub preference: Option<f64>,
    /// 95 % confidence sequence of it.
    pub interval: Option<(f64, f64)>,
    /// E-value of the lesson being preferred.
    pub better: Option<f64>,
    /// E-value of its being preferred less than none.
    pub worse: Option<f64>,
}

/// Shadow answers with their text for people.
#[derive(Serialize)]
struct ShadowShown {
    with: u64,
    without: u64,
    neither: u64,
    without_vote: u64,
    failed: u64,
    preference: Option<f64>,
    interval: Option<(f64, f64)>,
    better: Option<f64>,
    worse: Option<f64>,
    text: String,
}

impl From<ShadowView> for ShadowShown {
    fn from(view: ShadowView) -> Self {
        let ShadowView { with, without, neither, without_vote, failed, preference, interval, better, worse } = view;
        let mean =
            preference.zip(interval).map(|(mean, (low, high))| format!("{mean:+.2} ({low:+.2} to {high:+.2}), "));
        // The exact value of very strong evidence does not matter.
        let short = |value: f64| if value < 1e6 { format!("{value:.3}") } else { "over 1000000".to_owned() };
        let evidence = better.zip(worse);
        let evidence =
            evidence.map(|(better, worse)| format!("; e-value {} for it, {} against", short(better), short(worse)));
        let pairs = format!("{} for it, {without} against, {neither} equal", clawhost_core::counted(with, "pair"));
        let lost = (without_vote + failed > 0).then(|| format!("; {without_vote} without a vote, {failed} failed"));
        let text = mean.into_iter().chain([pairs]).chain(evidence).chain(lost).collect();
        Self { with, without, neither, without_vote, failed, preference, interval, better, worse, text }
    }
}

/// What shadow answers cost today.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ShadowDayView {
    /// What was spent of the budget, for people.
    pub spent: String,
    /// Why there are none now, if there are none.
    pub problem: Option<String>,
}

/// A lesson that waits, or that was dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LessonView {
    /// The lesson on one line.
    pub text: String,
    /// How many users led to it, or why it was dropped.
    pub note: String,
}

/// A version of the playbook.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VersionView {
    /// Its number.
    pub number: u64,
    /// Unix time in milliseconds.
    pub at: u64,
    /// Its reason.
    pub why: String,
    /// What it changed.
    pub differences: Vec<String>,
}

/// The rewards of the sessions that got a version.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct VersionReward {
    /// The version; 0 is the empty playbook.
    pub version: u64,
    /// Sessions.
    pub sessions: u64,
    /// Those with feedback in time.
    pub rewarded: u64,
    /// Mean reward on a scale of 0 to 1. `None`: of fewer than two sessions.
    pub mean: Option<f64>,
    /// How far a 95 % interval goes to either side.
    pub margin: Option<f64>,
}

/// What is learned from live sessions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LearnedView {
    /// The playbook. `None`: none is served.
    pub playbook: Option<String>,
    /// The newest version; 0 is the empty playbook.
    pub version: u64,
    /// Whether lessons are tried on live sessions.
    pub tries: bool,
    /// Its entries.
    pub entries: Vec<EntryView>,
    /// Lessons on trial.
    pub trials: Vec<TrialView>,
    /// Lessons that wait for a trial.
    pub candidates: Vec<LessonView>,
    /// Lessons that are neither tried nor served any more, the latest first.
    pub dropped: Vec<LessonView>,
    /// Proposals that were refused, the latest first.
    pub refused: Vec<LessonView>,
    /// The version before the newest one, while both are compared, with what it would add.
    pub previous: Option<(u64, Option<Lift>)>,
    /// The newest versions, the newest first.
    pub versions: Vec<VersionView>,
    /// Rewards by version.
    pub rewards: Vec<VersionReward>,
    /// Shadow answers today. `None`: there is no budget for them.
    pub shadow: Option<ShadowDayView>,
    /// Sessions that have not entered the trials yet.
    pub waiting: u64,
    /// What keeps it from learning, if something does.
    pub problem: Option<String>,
}

/// A step of weights that learn while they serve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WeightsStepView {
    /// Whose adapter learned. `None`: weights that answer everybody.
    pub scope: Option<String>,
    /// The number of the version.
    pub number: u64,
    /// Unix time in milliseconds.
    pub at: u64,
    /// Sessions that it learned from.
    pub sessions: usize,
    /// What was measured, as text.
    pub metrics: Vec<(String, String)>,
    /// What happened.
    pub note: String,
    /// Whether it made a version.
    pub is_kept: bool,
    /// Whether its weights are on disk, so that it can be served again.
    pub is_on_disk: bool,
    /// Whether it answers now.
    pub serves: bool,
    /// Whether it learned from something that was forgotten since.
    pub is_withdrawn: bool,
}

/// Weights that learn while they serve.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WeightsView {
    /// The alias of their model.
    pub model: String,
    /// What they learn from.
    pub signal: String,
    /// The version that answers everybody; 0 is what the operator configured. `None`: scopes have adapters of their own.
    pub serves: Option<u64>,
    /// Sessions of a step.
    pub batch: usize,
    /// Sessions that wait for a step.
    pub waiting: usize,
    /// Whether a step is computed now.
    pub trains: bool,
    /// What keeps them from learning, if something does.
    pub problem: Option<String>,
    /// The newest steps, and older ones whose weights are on disk; the newest first.
    pub steps: Vec<WeightsStepView>,
}

/// Shows what is learned, and serves older versions again.
#[async_trait]
pub trait LearnedBook: Send + Sync {
    /// What is learned now.
    ///
    /// # Errors
    /// Why it cannot be read.
    async fn learned(&self) -> Result<LearnedView, String>;
    /// The weights that learn. `None`: none do.
    ///
    /// # Errors
    /// Why it cannot be read.
    async fn weights(&self) -> Result<Option<WeightsView>, String> {
        Ok(None)
    }
    /// Serves the content of an older version in a new one; 0 is the empty playbook. Returns the number of the version that is served.
    ///
    /// # Errors
    /// Why it cannot be served.
    async fn serve_version(&self, number: u64) -> Result<u64, String>;
    /// Serves an earlier version of weights again; 0 is what the operator configured. `scope`: whose adapter; `None`: weights that answer everybody.
    ///
    /// # Errors
    /// Why it cannot be served.
    async fn serve_weights(&self, scope: Option<&str>, number: u64) -> Result<(), String> {
        let _ = (scope, number);
        Err("no weights learn here".to_owned())
    }
}
