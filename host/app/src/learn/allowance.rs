//! A budget in tokens or money, as the number of episodes that it pays for.
//!
//! What an episode costs follows from an earlier run of the same environment with the same policy: the newest learning run that is large enough,
//! or else the newest other one. Its mean is an estimate: lessons lengthen prompts. Training ends early where the gate needs the rest
//! ([`clawhost_learning::Allowance`]); the limits of tokens and money stop a run exactly.

use super::harness;
use crate::compare::money;
use crate::resume::Start;
use crate::routers::router_name;
use crate::runs::run_id;
use crate::session::Session;
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{RunKind, RunRow, RunState, StoreReader, Usage};
use clawhost_learn::budget::FEWEST;
use clawhost_run_config::{AllowanceSpec, Amount, EpisodeCost, HarnessSpec, Key, Price, RunSpec};

/// Fewest episodes of a run that says what an episode costs: the standard error of the mean is then a third of the deviation of an episode.
const FEWEST_MEASURED: u64 = 8;
/// Most episodes of a budget; the same bound as that of the option `budget`.
const MOST: u64 = 1_000_000;

/// Converts the allowance of a run, if it has one and no episodes yet. A run that is resumed keeps its number of episodes, whatever was played since.
///
/// # Errors
/// No earlier run says what an episode costs, or the amount pays for too few episodes.
pub(super) fn convert(workspace: &Workspace, session: &mut Session<'_>, start: &Start) -> Result<(), AppError> {
    let Some(AllowanceSpec { amount, .. }) = session.spec.harness().and_then(|harness| harness.allowance.clone())
    else {
        return Ok(());
    };
    let reader = workspace.reader()?;
    let reader = reader.as_ref();
    let (spec, now) = (&session.spec, workspace.clock().now_ms());
    let converted = match resumed(reader, spec, amount, start)? {
        Some(rate) => rate,
        None => measured(reader, spec, amount, now)?.ok_or_else(|| {
            let environment = spec.environment_name().unwrap_or_default();
            AppError::from(RequestError::CostUnknown { environment, fewest: FEWEST_MEASURED }).of_option(key(amount))
        })?,
    };
    let episodes = (amount.number() / converted.mean).floor().clamp(0.0, MOST as f64) as u64;
    if episodes < FEWEST {
        let (each, run) = (amount.worded(converted.mean), converted.run);
        let error = RequestError::SmallAllowance { episodes, each, run, fewest: FEWEST };
        return Err(AppError::from(error).of_option(key(amount)));
    }
    if let Some(harness) = session.spec.harness_mut() {
        harness.budget = Some(episodes);
        harness.allowance = Some(AllowanceSpec { amount, rate: Some(converted) });
    }
    harness::divide(&mut session.spec)?;
    session.check_shares()
}

fn key(amount: Amount) -> Key {
    match amount {
        Amount::Tokens(_) => Key::BudgetTokens,
        Amount::Money(_) => Key::BudgetMoney,
    }
}

/// The specification of a run. `None`: this version cannot read it.
fn specification(row: &RunRow) -> Option<RunSpec> {
    RunSpec::from_document(row.config.0.clone()).ok()
}

/// The rate of the run that is resumed. `None`: a new run begins.
fn resumed(
    reader: &dyn StoreReader,
    spec: &RunSpec,
    amount: Amount,
    start: &Start,
) -> Result<Option<EpisodeCost>, AppError> {
    let Start::Resume(wanted) = start else { return Ok(None) };
    let wanted = wanted.as_ref().map(|wanted| run_id(reader, wanted)).transpose()?;
    let environment = spec.environment_name();
    let is_wanted = |row: &RunRow| match &wanted {
        Some(wanted) => row.id == *wanted,
        None => Some(&row.environment) == environment.as_ref(),
    };
    let runs = reader.runs(None)?;
    // One that is complete has its rate, too, so that it is found again.
    let by_state = [false, true]
        .into_iter()
        .flat_map(|finished| runs.iter().filter(move |row| (row.state == RunState::Finished) == finished));
    let candidates = by_state.filter(|row| row.kind == RunKind::Learn && is_wanted(row)).filter_map(specification);
    let rate = |then: RunSpec| {
        let (allowance, rate) = then.harness().and_then(HarnessSpec::converted)?;
        (allowance.amount == amount && is_alike(&then, spec)).then(|| rate.clone())
    };
    Ok(candidates.into_iter().find_map(rate))
}

/// Whether the policies of two runs cost alike: they are the same, or the same router in any of its states.
fn is_alike(one: &RunSpec, other: &RunSpec) -> bool {
    let router = |spec: &RunSpec| router_name(&spec.policy.model).map(str::to_owned);
    match (router(one), router(other)) {
        (None, None) => one.policy.identity == other.policy.identity,
        (one, other) => one == other,
    }
}

/// What an episode cost in the newest run with enough episodes: one that learned, if there is any, because lessons make episodes longer.
fn measured(
    reader: &dyn StoreReader,
    spec: &RunSpec,
    amount: Amount,
    now_ms: u64,
) -> Result<Option<EpisodeCost>, AppError> {
    let environment = spec.environment_name();
    let runs = reader.runs(None)?;
    let runs = [true, false].into_iter().flat_map(|learned| runs.iter().map(move |row| (learned, row)));
    for (learned, row) in runs {
        let is_like = matches!(row.kind, RunKind::Play | RunKind::Learn | RunKind::Evaluate)
            && Some(&row.environment) == environment.as_ref()
            && specification(row).is_some_and(|then| is_alike(&then, spec));
        let is_of_kind = learned == (row.kind == RunKind::Learn && row.state == RunState::Finished);
        if !is_like || !is_of_kind {
            continue;
        }
        let episodes = reader.tally(&row.id, now_ms)?.episodes;
        let mean = cost(amount, spec.budget.price, row.spent) / episodes.max(1) as f64;
        if episodes >= FEWEST_MEASURED && mean > 0.0 {
            return Ok(Some(EpisodeCost { mean, episodes, run: row.id.0.clone() }));
        }
    }
    Ok(None)
}

fn cost(amount: Amount, price: Option<Price>, used: Usage) -> f64 {
    match amount {
        Amount::Tokens(_) => used.tokens() as f64,
        // A run without a price is refused when it is specified.
        Amount::Money(_) => money(price, used).unwrap_or(0.0),
    }
}
