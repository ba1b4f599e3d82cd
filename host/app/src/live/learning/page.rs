//! What is learned, as the page of the gateway shows it.

use super::state::TrialsState;
use crate::live::guide::LiveGuide;
use crate::live::shadow::ShadowPage;
use crate::live::weights::TrainingPage;
use crate::playbooks::{PlaybookWriter, document, show};
use crate::{AppError, Workspace};
use async_trait::async_trait;
use clawhost_core::{StoreReader, counted};
use clawhost_gateway::{
    EntryView, LearnedBook, LearnedView, LessonView, Lift, TrialView, VersionReward, VersionView, WeightsView,
};
use clawhost_learn::EntryId;
use clawhost_learn::harness::EntryRow;
use clawhost_learn::live::trials::{
    Ended, LiveTrials, Refused, Tally, Trial, TrialNeeds, TrialSettings, version_flip_point,
};
use clawhost_learn::live::{LiveEstimate, OddsRatio};
use clawhost_learn::memory::{InvalidScope, Scope};
use clawhost_learn::playbook::Playbook;
use clawhost_store::Reader;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Versions that are shown with their differences.
const VERSIONS: usize = 30;
/// Lessons in a list.
const LISTED: usize = 100;

/// What a learner knows, for others. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Insight(Arc<Mutex<Known>>);

#[derive(Debug, Clone, Default)]
struct Known {
    trials: LiveTrials,
    lifts: BTreeMap<EntryId, Lift>,
    needs: BTreeMap<EntryId, TrialNeeds>,
    previous: Option<Lift>,
    rewards: Vec<VersionReward>,
    /// Reflector calls that failed in a row.
    failures: u32,
    /// Why nothing can be learned.
    failure: Option<String>,
}

impl Known {
    /// What keeps it from learning, for people.
    fn problem(&self) -> Option<String> {
        let calls = self.failures;
        let rests = || (calls > 0).then(|| format!("reflectors have failed {calls} times in a row; the log says why"));
        self.failure.clone().or_else(rests)
    }
}

fn lift(estimate: &LiveEstimate, flip_point: Option<OddsRatio>) -> Lift {
    let (low, high) = estimate.interval;
    let is_blocked = estimate.feedback.blocks();
    let flip_point = flip_point.map(OddsRatio::value);
    Lift { effect: estimate.effect, low, high, sessions: estimate.rewarded(), flip_point, is_blocked }
}

impl Insight {
    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what is known now.
    pub(super) fn update(&self, state: &TrialsState, tally: &Tally, settings: &TrialSettings) {
        let trials = &state.trials;
        let tried = trials.on_trial().iter().map(|trial| &trial.entry.id);
        let needs = |id: &EntryId| Some((id.clone(), trials.needs(id, tally, settings).ok()?));
        let needs = tried.clone().filter_map(needs).collect();
        let known = tried.chain(trials.admitted().iter().map(|one| &one.entry.id));
        let of = |id: &EntryId| Some(lift(&tally.estimate(id)?, tally.flip_point(id, settings.alpha)));
        let lifts = known.filter_map(|id| Some((id.clone(), of(id)?))).collect();
        let reward = |(version, rewards): (&u64, &clawhost_learn::live::trials::VersionRewards)| {
            let (mean, margin) = rewards.mean().unzip();
            VersionReward { version: *version, sessions: rewards.sessions, rewarded: rewards.rewarded, mean, margin }
        };
        let known = Known {
            trials: trials.clone(),
            lifts,
            needs,
            previous: tally.previous().map(|estimate| lift(&estimate, version_flip_point(&estimate))),
            rewards: tally.by_version().iter().map(reward).collect(),
            failures: state.progress.failures,
            failure: self.lock().failure.take(),
        };
        *self.lock() = known;
    }

    /// Why nothing can be learned. `None`: it can.
    pub(super) fn set_failure(&self, failure: Option<String>) {
        self.lock().failure = failure;
    }
}

/// The playbook of a gateway, for its page.
pub(crate) struct LivePlaybook {
    folder: PathBuf,
    guide: Arc<LiveGuide>,
    insight: Insight,
    tries: bool,
    writer: PlaybookWriter,
    training: Option<Arc<TrainingPage>>,
    shadow: Option<ShadowPage>,
}

impl LivePlaybook {
    /// Of a gateway whose learner gives this insight. `tries`: whether lessons are tried on live sessions. `training`: of weights, if they learn;
    /// `shadow`: of shadow answers, if there are some.
    pub(crate) fn new(
        workspace: &Workspace,
        guide: Arc<LiveGuide>,
        (insight, tries): (Insight, bool),
        (training, shadow): (Option<TrainingPage>, Option<ShadowPage>),
    ) -> Self {
        let writer = PlaybookWriter::new(workspace);
        let training = training.map(Arc::new);
        Self { folder: workspace.folder().to_owned(), guide, insight, tries, writer, training, shadow }
    }
}

/// An effect that a learning run measured.
fn measured(row: &EntryRow) -> Option<Lift> {
    let (low, high) = row.interval?;
    Some(Lift { effect: row.lift?, low, high, sessions: 0, flip_point: None, is_blocked: false })
}

fn dropped(one: &Ended) -> LessonView {
    LessonView { text: one.entry.lesson.line(), note: one.shown() }
}

fn refused(one: &Refused) -> LessonView {
    let text = if one.text.is_empty() { format!("a proposal of {}", one.by) } else { one.text.clone() };
    LessonView { text, note: one.why.clone() }
}

fn versions(reader: &dyn StoreReader, name: &str) -> Result<Vec<VersionView>, AppError> {
    let all = reader.versions(name)?;
    let mut shown = Vec::new();
    for (place, version) in all.iter().enumerate().take(VERSIONS) {
        let before = all.get(place + 1).map(document).transpose()?.unwrap_or_default();
        let differences = before.diff(&document(version)?).iter().map(ToString::to_string).collect();
        let (number, at, why) = (version.number, version.created_at, version.why.clone());
        shown.push(VersionView { number, at, why, differences });
    }
    Ok(shown)
}

fn view(
    reader: &dyn StoreReader,
    name: String,
    (known, tries): (Known, bool),
    shadow: Option<&ShadowPage>,
) -> Result<LearnedView, AppError> {
    let shown = show(reader, &name)?;
    let rows: BTreeMap<&EntryId, &EntryRow> = shown.entries.iter().map(|row| (&row.id, row)).collect();
    let problem = known.problem();
    let Known { trials, lifts, needs, previous, rewards, .. } = known;
    let held_out: Vec<&EntryId> = trials.held_out().collect();
    let served: Playbook = shown.deployed.unwrap_or_default();
    let entry = |entry: &clawhost_learn::Entry| EntryView {
        id: entry.id.0.clone(),
        text: entry.lesson.line(),
        tokens: entry.lesson.tokens(),
        sources: entry.sources.iter().take(3).map(|source| source.episode.clone()).collect(),
        by: entry.created_by.clone(),
        lift: lifts.get(&entry.id).copied().or_else(|| measured(rows.get(&entry.id)?)),
        held_out: tries && held_out.contains(&&entry.id),
    };
    let trial = |trial: &Trial| {
        let needs = needs.get(&trial.entry.id);
        TrialView {
            text: trial.entry.lesson.line(),
            teachers: trial.teachers,
            planned: needs.map_or(0, |needs| needs.planned),
            rewarded: needs.map_or(0, |needs| needs.rewarded),
            remaining: needs.and_then(|needs| needs.remaining),
            lift: lifts.get(&trial.entry.id).copied(),
            shadow: shadow.and_then(|shadow| shadow.of_lesson(&trial.entry.id)),
        }
    };
    let candidate = |one: &clawhost_learn::live::trials::LiveCandidate| LessonView {
        text: one.entry.lesson.line(),
        note: counted(one.teachers.len() as u64, "user"),
    };
    Ok(LearnedView {
        version: shown.version.unwrap_or(0),
        tries,
        entries: served.entries.iter().map(entry).collect(),
        trials: trials.on_trial().iter().filter(|_| tries).map(trial).collect(),
        candidates: trials.candidates().iter().take(LISTED).map(candidate).collect(),
        dropped: trials.ended().iter().rev().take(LISTED).map(dropped).collect(),
        refused: trials.refused().iter().rev().map(refused).collect(),
        previous: trials.watch().filter(|_| tries).map(|watch| (watch.previous, previous)),
        versions: versions(reader, &name)?,
        rewards,
        shadow: shadow.map(ShadowPage::day),
        waiting: reader.count_waiting_draws(&name)?,
        problem,
        playbook: Some(name),
    })
}

#[async_trait]
impl LearnedBook for LivePlaybook {
    async fn learned(&self) -> Result<LearnedView, String> {
        let name = self.guide.served_playbook().map_err(|error| error.to_string())?;
        let Some(name) = name else { return Ok(LearnedView::default()) };
        let (folder, known, shadow) =
            (self.folder.clone(), (self.insight.lock().clone(), self.tries), self.shadow.clone());
        let read =
            tokio::task::spawn_blocking(move || view(&Reader::open(&folder)?, name, known, shadow.as_ref())).await;
        read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    async fn weights(&self) -> Result<Option<WeightsView>, String> {
        let Some(training) = self.training.clone() else { return Ok(None) };
        let read = tokio::task::spawn_blocking(move || training.view()).await;
        read.map_err(|error| error.to_string())?.map(Some).map_err(|error| error.to_string())
    }

    async fn serve_weights(&self, scope: Option<&str>, number: u64) -> Result<(), String> {
        let training = self.training.clone().ok_or_else(|| "no weights learn here".to_owned())?;
        let scope = scope.map(str::parse::<Scope>).transpose().map_err(|error: InvalidScope| error.to_string())?;
        let served = tokio::task::spawn_blocking(move || training.serve(scope.as_ref(), number)).await;
        served.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    async fn serve_version(&self, number: u64) -> Result<u64, String> {
        let name = self.guide.served_playbook().map_err(|error| error.to_string())?;
        let name = name.ok_or_else(|| "no playbook is served".to_owned())?;
        let served = self.writer.rollback(&name, Some(number)).await.map_err(|error| error.to_string())?;
        Ok(served.version)
    }
}
