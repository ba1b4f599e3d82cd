//! The plan of a learning run, for people and for machines.

use crate::summary::{environments, mixed};
use clawhost_app::{EpisodeBudget, ModelSize, Rehearsal};
use clawhost_core::{counted, escaped, thousands};
use clawhost_learn::budget::BudgetPlan;
use clawhost_learning::{Schedule, Turn};
use clawhost_run_config::{AllowanceSpec, CreditUnit, Grant, HarnessSpec, Optimizer, RunSpec, WeightsSpec};
use serde_json::json;
use std::io::Write;

/// Upper bounds for the policy's calls and generated tokens.
fn calls(rehearsal: &Rehearsal) -> (u64, u64) {
    let Rehearsal { spec, episodes, .. } = rehearsal;
    let calls = episodes.all().saturating_mul(u64::from(spec.play.max_turns));
    (calls, calls.saturating_mul(u64::from(spec.policy.max_tokens)))
}

/// The playbook that is learned or read.
fn playbook(spec: &RunSpec) -> Option<String> {
    // Without a name, the harness learns the playbook with the environment's name; other layers read none.
    spec.playbook_name().filter(|_| spec.playbook.is_some() || spec.harness().is_some())
}

/// One JSON document.
pub(crate) fn json(rehearsal: &Rehearsal) -> anyhow::Result<()> {
    let Rehearsal { spec, plan, digest, model, episodes, budget, .. } = rehearsal;
    let (calls, tokens) = calls(rehearsal);
    let mut at_most = json!(episodes);
    if let Some(at_most) = at_most.as_object_mut() {
        at_most.insert("episodes".to_owned(), episodes.all().into());
        at_most.insert("policy_calls".to_owned(), calls.into());
        at_most.insert("tokens_written".to_owned(), tokens.into());
    }
    let mut document = json!({
        "format": 1, "dry_run": true, "plan": plan, "digest": digest,
        "environment": spec.environment.plugin, "policy": spec.policy.identity, "playbook": playbook(spec),
        "parameters": model.map(|model| model.parameters), "config": spec.published(), "at_most": at_most,
        "budget": budget, "allowance": spec.harness().and_then(|harness| harness.allowance.as_ref()),
    });
    if let (Some(document), Some(mixed)) = (document.as_object_mut(), mixed(spec)) {
        document.insert("mixture".to_owned(), mixed);
    }
    crate::terminal::json(&document)?;
    Ok(())
}

/// The text for people.
pub(crate) fn text(rehearsal: &Rehearsal) -> anyhow::Result<()> {
    let Rehearsal { spec, plan, digest, judges, model, episodes, budget: division } = rehearsal;
    let mut out = crate::terminal::stdout();
    writeln!(out, "environment {}", environments(spec))?;
    match (model, &spec.policy.identity) {
        (Some(ModelSize { parameters, context }), _) => {
            writeln!(out, "model       {} weights, context {context}", thousands(*parameters))?;
        }
        (None, Some(model)) => writeln!(out, "policy      {}:{}", model.provider, model.model)?,
        (None, None) => {}
    }
    if let Some(weights) = spec.weights() {
        learns(&mut out, weights)?;
        writeln!(out, "judged by   {}", judges.join(", "))?;
    }
    if let Some(playbook) = playbook(spec) {
        writeln!(out, "playbook    {playbook}")?;
    }
    let EpisodeBudget { training, refilled, evolution, .. } = episodes;
    if let Some(evolve) = spec.harness().and_then(|harness| harness.evolve.as_ref()) {
        writeln!(out, "evolution   of section {}: {} at most", evolve.section, counted(*evolution, "episode"))?;
    }
    let refilled = match spec.weights() {
        Some(_) => format!(", and {} at most in the place of others", thousands(*refilled)),
        None => String::new(),
    };
    let how = match spec.learn().and_then(|learn| learn.from.as_ref()) {
        Some(run) => format!("{} of {} each, at most", counted(plan.groups(), "group"), escaped(run, 100)),
        None if plan.schedule != Schedule::Joint => {
            format!("layers in turns: {}{refilled}", counted(*training, "episode"))
        }
        None => format!(
            "{} in groups of {}: {}{refilled}",
            counted(plan.play.episodes, "episode"),
            plan.play.group,
            thousands(*training)
        ),
    };
    writeln!(out, "training    {} of {how}", counted(plan.iterations, "iteration"))?;
    if let Schedule::Turns(turns) = &plan.schedule {
        for Turn { layer, episodes, group, .. } in turns {
            let iterations = counted(plan.schedule.iterations_of(layer, plan.iterations), "iteration");
            writeln!(
                out,
                "            {layer}: {iterations} of {} in groups of {group}",
                counted(*episodes, "episode")
            )?;
        }
    }
    phases(&mut out, rehearsal)?;
    if let Some(BudgetPlan { budget, pairs, power, smallest_lift, .. }) = division {
        let finds = match smallest_lift {
            Some(lift) => {
                format!(
                    "{} find a lift of {lift:.2} in {:.0} % of such runs, if rewards have two values",
                    counted(*pairs, "pair"),
                    power * 100.0
                )
            }
            None => format!("{} find no lift", counted(*pairs, "pair")),
        };
        let whose = if spec.learn().is_some_and(|learn| learn.layers.len() > 1) { " of the harness" } else { "" };
        writeln!(out, "budget      {}{whose} for training and gate; {finds}", counted(*budget, "episode"))?;
        if let Some((AllowanceSpec { amount, .. }, rate)) = spec.harness().and_then(HarnessSpec::converted) {
            let (whole, each) = (amount.worded(amount.number()), amount.worded(rate.mean));
            let (episodes, run) = (counted(rate.episodes, "episode"), escaped(&rate.run, 100));
            writeln!(out, "            an estimate for {whole}: an episode cost {each} in the {episodes} of {run}")?;
        }
    }
    let (all, turns) = (episodes.all(), plan.play.max_turns);
    if model.is_some() {
        writeln!(out, "at most     {} of {}", counted(all, "episode"), counted(u64::from(turns), "turn"))?;
    } else {
        let (calls, tokens) = calls(rehearsal);
        writeln!(
            out,
            "at most     {}; {} of the policy (of {} each), which write {}",
            counted(all, "episode"),
            counted(calls, "call"),
            counted(u64::from(turns), "turn"),
            counted(tokens, "token")
        )?;
        limits(&mut out, spec)?;
    }
    writeln!(out, "digest      {digest}")?;
    writeln!(out, "nothing was played: leave --dry-run out")?;
    Ok(())
}

/// What part of the model learns, and how.
fn learns(out: &mut impl Write, weights: &WeightsSpec) -> std::io::Result<()> {
    let what = match &weights.adapter {
        None => "all weights".to_owned(),
        Some(adapter) => format!("an adapter of rank {} and alpha {}", adapter.rank, adapter.alpha),
    };
    let rule = match weights.optimizer {
        Optimizer::Muon => "Muon and AdamW",
        Optimizer::AdamW => "AdamW",
    };
    let steps = match u64::from(weights.epochs) * u64::from(weights.minibatches) {
        1 => String::new(),
        steps => format!(", at most {} an iteration", counted(steps, "step")),
    };
    writeln!(out, "learns      {what} by {}, {rule}, rate {}{steps}", weights.objective, weights.rate)?;
    match &weights.teacher {
        Some(teacher) => writeln!(out, "teacher     {}, {}", escaped(teacher, 200), compared(weights.teacher_top)),
        None => writeln!(out, "credit      {}{}", credited(weights.credit), weighted(weights)),
    }
}

/// Which tokens of a teacher are compared.
fn compared(top: u8) -> String {
    match top {
        0 => "by the drawn tokens".to_owned(),
        top => format!("by its {} at every position and the rest", counted(u64::from(top), "most likely token")),
    }
}

/// The weight of credit for turns, if it is not the usual one.
fn weighted(weights: &WeightsSpec) -> String {
    let weight = weights.credit_weight;
    if weight == 1.0 { String::new() } else { format!(", with weight {weight}") }
}

/// What answers are credited with.
fn credited(credit: CreditUnit) -> &'static str {
    match credit {
        CreditUnit::Episode => "of the episode, for all of its turns",
        CreditUnit::Turn => "of the episode, and of each turn among turns after the same observation",
        CreditUnit::Judge => "of the episode, and what rewards say of each turn",
    }
}

/// Episodes other than those of training.
fn phases(out: &mut impl Write, rehearsal: &Rehearsal) -> std::io::Result<()> {
    let Rehearsal { spec, plan, episodes, .. } = rehearsal;
    let EpisodeBudget { gate, gate_sessions, demonstrations, validation, test, .. } = episodes;
    if let Some(HarnessSpec { gate_pairs, .. }) = spec.harness() {
        match gate_sessions {
            0 => writeln!(out, "gate        no session: lessons from recorded episodes are tried in a run that plays")?,
            some => {
                let (sessions, pairs) = (counted(*some, "session"), counted(*gate_pairs, "pair"));
                writeln!(out, "gate        {sessions} of at most {pairs}: {} at most", counted(*gate, "episode"))?;
            }
        }
    }
    if spec.weights().is_some() {
        writeln!(out, "shown       {} of demonstrations and looks at most", counted(*demonstrations, "episode"))?;
        let is_off = spec.weights().is_some_and(|weights| weights.evaluate_every == 0);
        let why = match (validation, is_off) {
            (0, true) => ", because --evaluate-every is 0",
            (0, false) => ", because the weights have fewer iterations than --evaluate-every",
            _ => "",
        };
        writeln!(out, "validation  {}{why}", counted(*validation, "episode"))?;
    }
    match (spec.harness(), spec.weights()) {
        (None, Some(_)) => {
            let (test, pairs) = (counted(*test, "episode"), thousands(plan.test_pairs));
            writeln!(out, "test        {test}: {pairs} before and as many after")
        }
        _ => {
            let sets = test.checked_div(plan.test_pairs).filter(|sets| *sets > 2);
            let sets = sets.map(|sets| format!(", one for each of the {sets} sets of layers")).unwrap_or_default();
            writeln!(out, "test        {}: {}{sets}", counted(plan.test_pairs, "pair"), counted(*test, "episode"))
        }
    }
}

/// The limits of models.
fn limits(out: &mut impl Write, spec: &RunSpec) -> std::io::Result<()> {
    let grants_models = spec.grants.iter().any(|grant| matches!(grant, Grant::Model { .. }));
    if grants_models {
        writeln!(out, "            without the requests of rewards and reflectors to their models")?;
    }
    let is_free = |provider: &str| ["follower", "random", "script"].contains(&provider);
    let pays = spec.policy.identity.as_ref().is_some_and(|model| !is_free(&model.provider));
    let tokens = spec.budget.max_tokens_total.map(|tokens| counted(tokens, "token"));
    let cost = spec.budget.max_cost.map(|cost| format!("cost {cost}"));
    let limits: Vec<String> = tokens.into_iter().chain(cost).collect();
    let limits = match (limits.is_empty(), pays, grants_models) {
        (false, ..) => limits.join(", "),
        (true, true, _) => "none: set --max-tokens-total, or --max-cost with --price".to_owned(),
        (true, false, true) => {
            "none, and plugins are granted models: set --max-tokens-total, or --max-cost with --price".to_owned()
        }
        (true, false, false) => "none, and none is needed: this policy costs nothing".to_owned(),
    };
    writeln!(out, "limits      {limits}")
}
