//! What a learning run would do at most, for people and for machines.

use crate::summary::{plugin, thousands};
use clawhost_app::{EpisodeBudget, ModelSize, Rehearsal};
use clawhost_core::escaped;
use clawhost_run_config::{Grant, HarnessSpec, Optimizer, RunSpec, WeightsSpec};
use serde_json::json;
use std::io::Write;

/// What all episodes ask of the policy at most: calls, and tokens that are written.
fn calls(rehearsal: &Rehearsal) -> (u64, u64) {
    let Rehearsal { spec, episodes, .. } = rehearsal;
    let calls = episodes.all().saturating_mul(u64::from(spec.play.max_turns));
    (calls, calls.saturating_mul(u64::from(spec.policy.max_tokens)))
}

/// The playbook that is learned, or read.
fn playbook(spec: &RunSpec) -> Option<&str> {
    let named = spec.playbook.as_ref().map(|playbook| playbook.name.as_str());
    // Without a name the harness learns the one that is called as the environment.
    let environment = || spec.environment.plugin.as_ref().map(|plugin| plugin.name.as_str());
    named.or_else(|| spec.harness().and_then(|_| environment()))
}

/// One JSON document.
pub(crate) fn json(rehearsal: &Rehearsal) -> anyhow::Result<()> {
    let Rehearsal { spec, plan, digest, model, episodes, .. } = rehearsal;
    let (calls, tokens) = calls(rehearsal);
    let mut at_most = json!(episodes);
    if let Some(at_most) = at_most.as_object_mut() {
        at_most.insert("episodes".to_owned(), episodes.all().into());
        at_most.insert("policy_calls".to_owned(), calls.into());
        at_most.insert("tokens_written".to_owned(), tokens.into());
    }
    let document = json!({
        "format": 1, "dry_run": true, "plan": plan, "digest": digest,
        "environment": spec.environment.plugin, "policy": spec.policy.identity, "playbook": playbook(spec),
        "parameters": model.map(|model| model.parameters), "config": spec.published(), "at_most": at_most,
    });
    writeln!(anstream::stdout(), "{document:#}")?;
    Ok(())
}

/// For people.
pub(crate) fn text(rehearsal: &Rehearsal) -> anyhow::Result<()> {
    let Rehearsal { spec, plan, digest, judges, model, episodes } = rehearsal;
    let mut out = anstream::stdout();
    writeln!(out, "environment {}", plugin(&spec.environment))?;
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
        writeln!(out, "evolution   of section {}: {evolution} episodes at most", evolve.section)?;
    }
    let refilled = match spec.weights() {
        Some(_) => format!(", and {refilled} at most in the place of others"),
        None => String::new(),
    };
    let how = match spec.learn().and_then(|learn| learn.from.as_ref()) {
        Some(run) => format!("{} groups of {} each, at most", plan.groups(), escaped(run, 100)),
        None => format!("{} episodes in groups of {}: {training}{refilled}", plan.play.episodes, plan.play.group),
    };
    writeln!(out, "training    {} iterations of {how}", plan.iterations)?;
    phases(&mut out, rehearsal)?;
    let (all, turns) = (episodes.all(), plan.play.max_turns);
    if model.is_some() {
        writeln!(out, "at most     {all} episodes of {turns} turns")?;
    } else {
        let (calls, tokens) = calls(rehearsal);
        writeln!(
            out,
            "at most     {all} episodes; {calls} calls of the policy (of {turns} turns each), which write {tokens} tokens"
        )?;
        budget(&mut out, spec)?;
    }
    writeln!(out, "digest      {digest}")?;
    writeln!(out, "nothing was played: leave --dry-run out")?;
    Ok(())
}

/// What of the model learns, and how.
fn learns(out: &mut impl Write, weights: &WeightsSpec) -> std::io::Result<()> {
    let what = match &weights.adapter {
        None => "all weights".to_owned(),
        Some(adapter) => format!("an adapter of rank {} and alpha {}", adapter.rank, adapter.alpha),
    };
    let rule = match weights.optimizer {
        Optimizer::Muon => "Muon and AdamW",
        Optimizer::AdamW => "AdamW",
    };
    writeln!(out, "learns      {what} by {}, {rule}, rate {}", weights.objective, weights.rate)
}

/// Episodes beside those of training.
fn phases(out: &mut impl Write, rehearsal: &Rehearsal) -> std::io::Result<()> {
    let Rehearsal { spec, plan, episodes, .. } = rehearsal;
    let EpisodeBudget { gate, gate_sessions, demonstrations, validation, test, .. } = episodes;
    if let Some(HarnessSpec { gate_pairs, .. }) = spec.harness() {
        writeln!(out, "gate        {gate_sessions} sessions of at most {gate_pairs} pairs: {gate} episodes at most")?;
    }
    if spec.weights().is_some() {
        writeln!(out, "shown       {demonstrations} episodes of demonstrations and looks at most")?;
        writeln!(out, "validation  {validation} episodes")?;
    }
    match (spec.harness(), spec.weights()) {
        (None, Some(_)) => {
            writeln!(out, "test        {test} episodes: {} before and as many after", plan.test_pairs)
        }
        _ => writeln!(out, "test        {} pairs: {test} episodes", plan.test_pairs),
    }
}

/// What models may cost.
fn budget(out: &mut impl Write, spec: &RunSpec) -> std::io::Result<()> {
    let grants_models = spec.grants.iter().any(|grant| matches!(grant, Grant::Model { .. }));
    if grants_models {
        writeln!(out, "            without what rewards and reflectors ask their models")?;
    }
    let is_free = |provider: &str| ["follower", "script"].contains(&provider);
    let pays = spec.policy.identity.as_ref().is_some_and(|model| !is_free(&model.provider));
    let tokens = spec.budget.max_tokens_total.map(|tokens| format!("{tokens} tokens"));
    let cost = spec.budget.max_cost.map(|cost| format!("cost {cost}"));
    let limits: Vec<String> = tokens.into_iter().chain(cost).collect();
    let limits = match (limits.is_empty(), pays, grants_models) {
        (false, ..) => limits.join(", "),
        (true, true, _) => "none: set --max-tokens-total, or --max-cost with --price".to_owned(),
        (true, false, true) => {
            "none, and plugins are granted models: set --max-tokens-total, or --max-cost with --price".to_owned()
        }
        (true, false, false) => "nothing to pay".to_owned(),
    };
    writeln!(out, "budget      {limits}")
}
