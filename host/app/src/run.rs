//! Plays a run: episodes are played, judged and recorded.

use crate::events::{Event, EventSink, Warning, Watch};
use crate::resume::{self, Begun, Start};
use crate::session::Session;
use crate::{AppError, Played, Timing, Workspace, playbooks};
use clawhost_core::PlaybookVersion;
use clawhost_play::{Cancel, ChatPolicy, RunRequest, play_run, run_digest};
use clawhost_run_config::{PlaybookSpec, RunSpec};
use std::time::Instant;

/// Measures the time and cost of a run.
pub(crate) struct Clocked {
    started_ms: u64,
    began: Instant,
}

impl Clocked {
    pub(crate) fn start(workspace: &Workspace) -> Self {
        Self { started_ms: workspace.clock().now_ms(), began: Instant::now() }
    }

    pub(crate) fn timing(&self, session: &Session<'_>) -> Timing {
        Timing {
            started_ms: self.started_ms,
            wall: self.began.elapsed(),
            spent: session.models.spent(),
            is_priced: session.models.is_priced(),
        }
    }
}

/// The policy with the playbook of the specification, and its current version. Warns if the playbook does not fit.
pub(crate) fn serve_playbook(
    session: &mut Session<'_>,
    policy: &ChatPolicy,
    events: &dyn EventSink,
) -> Result<Option<(ChatPolicy, PlaybookVersion)>, AppError> {
    let Some(named) = session.spec.playbook.clone() else { return Ok(None) };
    playbooks::check_name(&named.name)?;
    session.needs_system_prompt("a playbook")?;
    let reader = session.workspace.reader()?;
    let version = playbooks::pick(reader.as_ref(), &named.name, None)?;
    let warnings = playbooks::warnings(reader.as_ref(), &session.spec, &version, session.spec.token_budget)?;
    warnings.into_iter().for_each(|warning| events.event(Event::Warning(warning)));
    let guided = playbooks::guided(reader.as_ref(), policy, &version, session.spec.token_budget)?;
    let (number, digest) = (Some(version.number), Some(version.digest));
    session.spec.playbook = Some(PlaybookSpec { name: named.name, number, digest });
    Ok(Some((guided, version)))
}

/// Plays a run, or resumes it. A run that stops early is a result, not an error: `report.stopped` has the reason.
///
/// # Errors
/// Something cannot be loaded, a run cannot be resumed, or the store cannot be written.
pub async fn run(
    workspace: &Workspace,
    spec: RunSpec,
    start: Start,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<Played, AppError> {
    let mut session = Session::open(workspace, spec, None, events).await?;
    let mut ports = session.ports();
    let served = serve_playbook(&mut session, &ports.policy, events)?;
    let playbook = served.map(|(policy, version)| {
        ports.policy = policy;
        version
    });
    let plan = session.plan();
    let digest = run_digest(&plan, &ports)?;
    let Begun { run, lease, is_resumed } =
        resume::begin(workspace, &session.spec, &digest, &start, &session.models, events)?;
    let recorded = match is_resumed {
        true => Some(resume::recorded(workspace.reader()?.as_ref(), &run)?),
        false => None,
    };
    let title = session.title();
    events.event(Event::Begun { run: run.clone(), resumed: is_resumed, title, out: None });
    if let Some(recorded) = &recorded {
        events.event(Event::AlreadyRecorded { episodes: recorded.len() as u64 });
    }
    let clocked = Clocked::start(workspace);
    let (config, labels) = (session.document(), session.spec.labels());
    let request = RunRequest { config, labels, recorded, ..RunRequest::new(run.clone(), plan, ports) };
    let report = play_run(request, cancel, &Watch(events)).await?.report;
    report.unread.iter().for_each(|unread| events.event(Event::Warning(Warning::NothingToRead(unread.clone()))));
    session.warn_of_policy(events);
    if report.stopped.is_none() {
        lease.complete();
    }
    Ok(Played {
        run,
        is_resumed,
        report,
        playbook,
        database: workspace.database().to_owned(),
        step_fuel: session.host.limits().step.fuel,
        timing: clocked.timing(&session),
        spec: session.spec,
    })
}
