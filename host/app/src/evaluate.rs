//! Evaluates a playbook on the test split, pair by pair, against no playbook or against another version.

use crate::events::{Event, EventSink, Warning, Watch};
use crate::resume;
use crate::run::Clocked;
use crate::session::Session;
use crate::{AppError, Evaluated, RequestError, Workspace, playbooks};
use clawhost_learn::harness::PlaybookView;
use clawhost_learn::playbook::Playbook;
use clawhost_learning::{Outcome, evaluate_playbooks};
use clawhost_play::{Cancel, Plan};
use clawhost_run_config::{EvaluateSpec, PlaybookSpec, RunSpec, Work};

/// Evaluates a playbook. An evaluation that was stopped early has numbers and no outcome.
///
/// # Errors
/// The specification is not an evaluation, something cannot be loaded, or the store cannot be written.
pub async fn evaluate(
    workspace: &Workspace,
    spec: RunSpec,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<Evaluated, AppError> {
    let Work::Evaluate(EvaluateSpec { pairs, tries, version, against }) = spec.work.clone() else {
        return Err(RequestError::Other("this run is not an evaluation of a playbook".to_owned()).into());
    };
    let mut session = Session::open(workspace, spec, None, events).await?;
    session.needs_system_prompt("a playbook")?;
    let name = session.playbook_name();
    playbooks::check_name(&name)?;
    let token_budget = session.spec.token_budget;
    let (before, after, views) = {
        let reader = workspace.reader()?;
        let after = playbooks::pick(reader.as_ref(), &name, version)?;
        let before = against.map(|number| playbooks::pick(reader.as_ref(), &name, Some(number))).transpose()?;
        if let Some(before) = before.as_ref().filter(|before| before.digest == after.digest) {
            return Err(RequestError::SameVersion { one: before.number, other: after.number }.into());
        }
        let mut warnings = Vec::new();
        for version in before.iter().chain([&after]) {
            warnings.extend(playbooks::warnings(reader.as_ref(), &session.spec, version, token_budget)?);
        }
        // Both versions may have the same origin.
        warnings.dedup();
        warnings.into_iter().for_each(|warning| events.event(Event::Warning(warning)));
        let worth = playbooks::worth(reader.as_ref(), &name)?;
        let view = |playbook: Playbook| PlaybookView::serving(playbook, &worth, token_budget);
        let first = before.as_ref().map(playbooks::document).transpose()?.unwrap_or_default();
        let views = [view(first), view(playbooks::document(&after)?)];
        (before, after, views)
    };
    session.spec.playbook = Some(PlaybookSpec { name, number: Some(after.number), digest: Some(after.digest) });
    resume::check_name(workspace, &session.spec)?;
    let (run, lease) = workspace.new_run()?;
    events.event(Event::Begun { run: run.clone(), resumed: false, title: session.title(), out: None });
    let clocked = Clocked::start(workspace);
    let (plan, ports) = (Plan { tries, ..session.plan() }, session.ports());
    let document = (session.document(), session.spec.labels());
    let watch = Watch(events);
    let (evaluation, report) =
        evaluate_playbooks(run.clone(), &plan, pairs, ports, views, document, (cancel, &watch)).await?;
    report.unread.iter().for_each(|unread| events.event(Event::Warning(Warning::NothingToRead(unread.clone()))));
    if report.stopped.is_none() {
        lease.complete();
    }
    // A stopped evaluation has no outcome: the time of the stop may depend on the numbers.
    let outcome = if report.stopped.is_none() { evaluation.outcome() } else { Outcome::NotMeasured };
    session.models.warn_of_routers(events);
    let timing = clocked.timing(&session);
    Ok(Evaluated { run, spec: session.spec, before, after, evaluation, outcome, report, timing })
}
