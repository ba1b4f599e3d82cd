//! Learning runs: layers learn from episodes, or rehearse what that would take.

mod allowance;
mod budget;
mod completions;
mod curve;
mod harness;
mod journal;
mod pace;
mod readings;
mod recorder;
mod router;
mod tensorboard;
mod turns;
mod weights;

pub use curve::training as training_curve;
pub use pace::{Known, Pace};
pub use turns::iterations as learning_iterations;
pub(crate) use weights::learned_by;

use crate::events::{Event, EventSink, Warning, Watch};
use crate::playbooks::Beginning;
use crate::resume::{self, Begun, Start};
use crate::routers::RouterResult;
use crate::run::{Clocked, serve_playbook};
use crate::runs::find_run;
use crate::session::Session;
use crate::{AppError, Learned, LearnedWeights, Rehearsal, RequestError, Workspace, playbooks};
use clawhost_core::{EpisodeFilter, EpisodeState, RunId, RunKind, counted};
use clawhost_learn::CheckpointKind;
use clawhost_learn::budget::BudgetPlan;
use clawhost_learning::{
    EpisodePool, ExperienceSource, LearnPlan, LearnPorts, LearnReport, LearnStart, LearningStage, Schedule,
    learn_digest,
};
use clawhost_model::CheckpointWriter;
use clawhost_play::{Cancel, ScoringRule, finished_reward};
use clawhost_run_config::{Key, LearnSpec, RunSpec, Work};
use readings::FirstReadings;
use recorder::{COMPLETIONS, METRICS, Recorder};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weights::LearningModel;

/// The folder inside a data folder for the output of weights, by default.
const LEARNED: &str = "learned";

/// A learning run that is ready to begin.
struct Prepared<'a> {
    session: Session<'a>,
    plan: LearnPlan,
    ports: LearnPorts,
    model: Option<LearningModel>,
    /// The playbook that is learned.
    playbook: Option<String>,
    /// Takes the result of the router that is learned.
    routed: Option<Arc<RouterResult>>,
}

/// Loads everything that a learning run needs. Layers that act in one state at a time come first.
async fn prepare<'a>(
    workspace: &'a Workspace,
    mut spec: RunSpec,
    start: &Start,
    events: &dyn EventSink,
) -> Result<Prepared<'a>, AppError> {
    harness::divide(&mut spec)?;
    let model = LearningModel::open(&spec, &workspace.settings().models, events)
        .map_err(|error| error.of_option(Key::Policy))?;
    let learning = model.as_ref().map(|model| (model.model.clone(), model.alias()));
    let mut session = Session::open(workspace, spec, learning, events).await?;
    allowance::convert(workspace, &mut session, start)?;
    let Some(LearnSpec { test_pairs, from, .. }) = session.spec.learn().cloned() else {
        return Err(RequestError::Other("this run names no layer that learns".to_owned()).into());
    };
    let mut play = session.ports();
    let mut stages: Vec<Box<dyn LearningStage>> = Vec::new();
    if let (Some(model), Some(weights)) = (&model, session.spec.weights().cloned()) {
        stages.push(Box::new(model.stage(&session, &weights, events).await?));
        if let Some(named) = session.spec.weights_mut() {
            named.before = Some(model.before);
        }
        if play.rewards.is_empty() {
            events.event(Event::Warning(Warning::FinishedReward));
            play.rewards = vec![ScoringRule::new(finished_reward(), Vec::new())];
        }
    }
    let router = match session.spec.routes() {
        true => Some(router::stage(&session, events)?),
        false => None,
    };
    let (router, routed) = router.unzip();
    stages.extend(router.map(|stage| Box::new(stage) as Box<dyn LearningStage>));
    let playbook = match session.spec.harness() {
        Some(_) => {
            let name = session.playbook_name();
            playbooks::check_name(&name)?;
            session.needs_system_prompt("a playbook")?;
            Some(name)
        }
        None => {
            if let Some((policy, _)) = serve_playbook(&mut session, &play.policy, events)? {
                play.policy = policy;
            }
            None
        }
    };
    if let Some(name) = &playbook {
        let stage = harness::stage(&mut session, name, events).await?;
        stages.extend(stage.map(|stage| Box::new(stage) as Box<dyn LearningStage>));
    }
    let (iterations, schedule) = (turns::iterations(&session.spec), turns::schedule(&session.spec));
    let plan = LearnPlan { iterations, play: session.plan(), test_pairs, schedule };
    let source = match from {
        None => None,
        Some(run) => {
            let (run, pool) = pool(workspace, &session, &run, &plan, events)?;
            // The id, however the run was named: another run may have the name when this one is resumed.
            if let Work::Learn(learn) = &mut session.spec.work {
                learn.from = Some(run.0);
            }
            Some(Box::new(pool) as Box<dyn ExperienceSource>)
        }
    };
    let ports = LearnPorts { play, learning: workspace.store(), stages, source };
    Ok(Prepared { session, plan, ports, model, playbook, routed })
}

/// The decided episodes of a recorded run, as they are now.
fn pool(
    workspace: &Workspace,
    session: &Session<'_>,
    run: &str,
    plan: &LearnPlan,
    events: &dyn EventSink,
) -> Result<(RunId, EpisodePool), AppError> {
    let reader = workspace.reader()?;
    let row = find_run(&*reader, run)?;
    let environment = &session.loaded.environments.identity().name;
    // Phases of one run use the same group numbers, so groups of several phases would be confused.
    if !matches!(row.kind, RunKind::Play | RunKind::Live) {
        return Err(RequestError::NotPlayed { run: row.id.0 }.into());
    }
    // A live run captures agents whose environment is unknown here.
    if row.kind != RunKind::Live && row.environment != *environment {
        let (run, recorded, wanted) = (row.id.0, row.environment, environment.clone());
        return Err(RequestError::OtherEnvironment { run, recorded, wanted }.into());
    }
    if row.pruned {
        return Err(RequestError::Pruned { run: row.id.0 }.into());
    }
    let now = workspace.clock().now_ms();
    let (mut teaching, mut pending, mut unscored, mut withheld) = (0, 0, 0, 0);
    for episode in reader.episodes(&EpisodeFilter::of(&row.id))? {
        // Only live episodes can be withheld, and only their records say so.
        let record = if episode.live { reader.episode(&format!("{}/{}", episode.run, episode.id))? } else { None };
        if record.is_some_and(|record| record.origin.withheld().is_some()) {
            withheld += 1;
            continue;
        }
        let count = match (episode.state(now), episode.reward) {
            (EpisodeState::Decided, Some(_)) => &mut teaching,
            (EpisodeState::Decided, None) => &mut unscored,
            (EpisodeState::Open | EpisodeState::Pending { .. }, _) => &mut pending,
        };
        *count += 1;
    }
    if teaching == 0 {
        return Err(RequestError::NothingDecided { run: row.id.0, pending, unscored, withheld }.into());
    }
    if pending + unscored + withheld > 0 {
        let run = row.id.clone();
        events.event(Event::Warning(Warning::LeftOut { run, teaching, pending, unscored, withheld }));
    }
    let recorded = RunSpec::from_document(row.config.0.clone()).ok();
    if row.kind == RunKind::Play && recorded.is_some_and(|spec| spec.play.group == 1) {
        events.event(Event::Warning(Warning::NothingToCompare { run: row.id.clone() }));
    }
    Ok((row.id.clone(), EpisodePool::of_run(row.id, plan.groups(), now)))
}

/// The plan of a learning run. Nothing is played.
///
/// # Errors
/// As [`learn`], for everything that is loaded.
pub async fn rehearse(workspace: &Workspace, spec: RunSpec, events: &dyn EventSink) -> Result<Rehearsal, AppError> {
    let Prepared { session, plan, ports, model, playbook, .. } = prepare(workspace, spec, &Start::New, events).await?;
    let mut budget = None;
    if let Some(name) = &playbook {
        let beginning = Beginning::of(workspace.reader()?.as_ref(), name, None)?;
        budget = harness::budget_after(&session.spec, beginning.candidates())?;
        beginning.warnings(&session.spec)?.into_iter().for_each(|warning| events.event(Event::Warning(warning)));
    }
    let digest = learn_digest(&plan, &ports)?;
    let judges = ports.play.rewards.iter().map(|rule| rule.reward.identity().name.clone()).collect();
    let episodes = budget::episodes(&session.spec);
    let model = model.map(|model| model.size());
    Ok(Rehearsal { spec: session.spec, plan, digest, judges, model, episodes, budget })
}

/// Most episodes that a learning run plays, its test included. Nothing is loaded.
///
/// # Errors
/// Its budget cannot be divided.
pub(crate) fn most_episodes(mut spec: RunSpec) -> Result<u64, AppError> {
    harness::divide(&mut spec)?;
    Ok(budget::episodes(&spec).all())
}

/// Learns, or resumes a learning run. A run that stops early is a result, not an error: `report.stopped` has the
/// reason.
///
/// # Errors
/// Something cannot be loaded, another process learns the playbook, a run cannot be resumed, or the store cannot be
/// written.
pub async fn learn(
    workspace: &Workspace,
    spec: RunSpec,
    start: Start,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<Learned, AppError> {
    let Prepared { session, plan, ports, model, playbook, routed } = prepare(workspace, spec, &start, events).await?;
    let digest = learn_digest(&plan, &ports)?;
    // Two runs that learn one playbook would overwrite each other's evidence.
    let _playbook_lease = playbook.as_ref().map(|name| workspace.hold_playbook(name)).transpose()?;
    // And so would two runs that learn one router.
    let router = session.spec.routes().then(|| router::named(&session)).transpose()?;
    let _router_lease = router.map(|name| workspace.hold_router(&name)).transpose()?;
    let readings = FirstReadings::new(events, &ports.play.rewards);
    let events: &dyn EventSink = &readings;
    let Begun { run, lease, is_resumed } =
        resume::begin(workspace, &session.spec, &digest, &start, &session.models, events)?;
    let beginning = match &playbook {
        Some(name) => Some(Beginning::of(workspace.reader()?.as_ref(), name, is_resumed.then_some(&run))?),
        None => None,
    };
    if let Some(beginning) = beginning.as_ref().filter(|_| !is_resumed) {
        // Before anything is paid for.
        harness::budget_after(&session.spec, beginning.candidates())?;
    }
    let playbook_before = beginning.as_ref().and_then(Beginning::number);
    let out = match (&model, session.spec.weights()) {
        (Some(model), Some(weights)) => {
            let out = folder(workspace, weights.out.as_deref(), &run, is_resumed)?;
            model.write_into(&out);
            Some(out)
        }
        _ => None,
    };
    for warning in beginning.iter().map(|beginning| beginning.warnings(&session.spec)) {
        warning?.into_iter().for_each(|warning| events.event(Event::Warning(warning)));
    }
    let title = title(&session, &plan, beginning.as_ref())?;
    events.event(Event::Begun { run: run.clone(), resumed: is_resumed, title, out: out.clone() });
    let clocked = Clocked::start(workspace);
    let start = match is_resumed {
        true => LearnStart::Resumed,
        false => LearnStart::Labelled(session.document(), session.spec.labels()),
    };
    let completions = session.spec.weights().map_or(0, |weights| weights.completions);
    let (report, weights) = match (out, model) {
        (Some(out), Some(model)) => {
            let recorder = Recorder::new(events, &out, completions);
            let report = clawhost_learning::learn(run.clone(), plan, ports, start, cancel, &recorder).await?;
            recorder.complete(&report.iterations);
            if let Err(error) = curve::draw(&out, &report) {
                events.event(Event::Warning(Warning::NotWritten { why: error.to_string() }));
            }
            let weights = learned_weights(&model, out, &recorder);
            (report, Some(weights))
        }
        _ => {
            let watch = Watch(events);
            (clawhost_learning::learn(run.clone(), plan, ports, start, cancel, &watch).await?, None)
        }
    };
    session.warn_of_policy(events);
    // Before the run counts as complete: it is resumed if this fails.
    let routed = routed.filter(|_| report.stopped.is_none());
    let router = routed.map(|routed| routed.write(&run, workspace.clock().now_ms())).transpose()?;
    finish(&report, lease);
    let timing = clocked.timing(&session);
    Ok(Learned { run, is_resumed, spec: session.spec, report, playbook_before, weights, router, timing })
}

/// A finished run is never resumed.
fn finish(report: &LearnReport, lease: Box<dyn clawhost_core::Lease>) {
    if report.stopped.is_none() {
        lease.complete();
    }
}

fn learned_weights(model: &LearningModel, out: PathBuf, recorder: &Recorder<'_>) -> LearnedWeights {
    let [last, best] = [CheckpointKind::Last, CheckpointKind::Best].map(|kind| {
        let place = CheckpointWriter::place(&out, kind);
        place.exists().then_some(place)
    });
    LearnedWeights {
        before: model.before,
        after: model.digest(),
        is_adapter: model.is_adapter(),
        last,
        // If an empty folder was created to resume the run, the earlier best weights are lost.
        best,
        routed_as: model.alias().map(str::to_owned),
        samples: recorder.samples(),
        files: [METRICS, COMPLETIONS, curve::CURVE].into_iter().filter(|name| out.join(name).exists()).collect(),
        out,
    }
}

/// Where a run writes its weights. `out`: where its specification says.
pub(crate) fn output_of(workspace: &Workspace, out: Option<&str>, run: &RunId) -> PathBuf {
    out.map_or_else(|| workspace.folder().join(LEARNED), |out| Path::new(out).to_owned()).join(&run.0)
}

/// The run's own folder. It must exist if the run is resumed.
fn folder(workspace: &Workspace, out: Option<&str>, run: &RunId, is_resumed: bool) -> Result<PathBuf, AppError> {
    let folder = output_of(workspace, out, run);
    if is_resumed && !folder.exists() {
        return Err(RequestError::OutGone { out: folder.display().to_string() }.into());
    }
    std::fs::create_dir_all(&folder)
        .map_err(|error| RequestError::File { path: folder.display().to_string(), why: error.to_string() })?;
    Ok(folder)
}

/// A summary in one line.
fn title(session: &Session<'_>, plan: &LearnPlan, beginning: Option<&Beginning>) -> Result<String, AppError> {
    let playbook = match beginning {
        None => String::new(),
        Some(beginning) => format!("; {}", beginning.title()?),
    };
    let LearnPlan { iterations, play, .. } = plan;
    let title = session.title();
    let what = match session.spec.learn().and_then(|learn| learn.from.as_ref()) {
        None if plan.schedule != Schedule::Joint => {
            let episodes = plan.schedule.episodes(*iterations, play.episodes);
            format!("layers in turns, {} in all", counted(episodes, "episode"))
        }
        Some(run) => format!("{} of {run}, while there are any", counted(plan.groups(), "group")),
        None => format!("{} in groups of {}", counted(play.episodes, "episode"), play.group),
    };
    let gate = match session.spec.harness().and_then(harness::budget) {
        Some(BudgetPlan { pairs, smallest_lift: Some(lift), power, .. }) => format!(
            "; then {} that find a lift of {lift:.2} in {:.0} % of such runs, if rewards have two values",
            counted(pairs, "pair"),
            power * 100.0
        ),
        _ => String::new(),
    };
    Ok(format!("{title}{playbook}; {} of {what}{gate}", counted(*iterations, "iteration")))
}
