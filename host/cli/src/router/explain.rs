//! `clawhost router explain`: which model a request would get, and why.

use super::{money, number};
use crate::args::MachineArgs;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use anyhow::Context as _;
use clawhost_app::Silent;
use clawhost_app::routers::{EXPLAINED_SEED, Explained, ROUTED_REQUEST_BYTES, RoutedRequest, explain_request};
use clawhost_core::escaped;
use clawhost_learn::router::{Considered, Explanation, Reason};
use std::io::{Read as _, Write};

/// Longest name that is shown.
const NAME: usize = 80;

/// The request that is named on the command line.
fn request(named: &str) -> anyhow::Result<RoutedRequest> {
    if named != "-" {
        return Ok(RoutedRequest::named(named)?);
    }
    let mut text = String::new();
    std::io::stdin().take(ROUTED_REQUEST_BYTES + 1).read_to_string(&mut text).context("standard input")?;
    if text.len() as u64 > ROUTED_REQUEST_BYTES {
        let most = ROUTED_REQUEST_BYTES;
        return Err(UsageError(format!("the request has more than {most} bytes; no gateway accepts it")).into());
    }
    Ok(RoutedRequest::read(&text)?)
}

pub(super) async fn run(
    context: &Context,
    named: &str,
    router: Option<&str>,
    seed: Option<u64>,
) -> anyhow::Result<Exit> {
    let request = request(named)?;
    let (folder, host) = (context.folder()?, context.host_settings(&MachineArgs::default())?);
    let (seed, events) = (seed.unwrap_or(EXPLAINED_SEED), Silent);
    let explained = explain_request(&folder, &host, router, &request, seed, &events).await?;
    let Explanation { decision, considered, best, reason } = &explained.explanation;
    if context.json() {
        let features: serde_json::Map<_, _> =
            decision.features.names().map(str::to_owned).zip(decision.features.values().map(Into::into)).collect();
        let document = serde_json::json!({
            "format": 1,
            "router": explained.name,
            "version": decision.version,
            "parameters": decision.parameters,
            "request": request.form,
            "features": features,
            "actions": considered,
            "chosen": decision.chosen,
            "best": best,
            "reason": reason,
            "plugin": decision.plugin,
            "failure": explained.failure.as_ref().map(ToString::to_string),
            "warm_up_left": explained.router.warm_up_left(),
            "cost_weight": explained.router.cost_weight(),
        });
        crate::terminal::json(&document)?;
        return Ok(Exit::Ok);
    }
    text(&explained)?;
    Ok(Exit::Ok)
}

fn text(explained: &Explained) -> anyhow::Result<()> {
    let mut out = crate::terminal::stdout();
    let Explained { router, explanation, failure, .. } = explained;
    let Explanation { decision, considered, best, reason } = explanation;
    let mut table = crate::episodes::table(&["feature", "value"]);
    for (name, value) in decision.features.names().zip(decision.features.values()) {
        table.add_row([escaped(name, NAME), number(value)]);
    }
    crate::episodes::print(&mut out, &table)?;
    writeln!(out)?;
    let mut table = crate::episodes::table(&["", "action", "probability", "reward", "cost", "utility", "outcomes"]);
    for (at, one) in considered.iter().enumerate() {
        table.add_row([
            if at == decision.chosen { "*".to_owned() } else { String::new() },
            escaped(&one.action.to_string(), NAME),
            number(one.propensity),
            number(one.reward),
            money(one.cost),
            number(one.utility),
            one.outcomes.to_string(),
        ]);
    }
    crate::episodes::print(&mut out, &table)?;
    let Some(chosen) = considered.get(decision.chosen) else { return Ok(()) };
    writeln!(out)?;
    writeln!(
        out,
        "chosen      {}: {}",
        escaped(&chosen.action.to_string(), NAME),
        why(*reason, considered.get(*best))
    )?;
    if let Some(plugin) = &decision.plugin {
        writeln!(out, "plugin      {} {}", escaped(&plugin.name, NAME), plugin.digest)?;
    }
    if let Some(failure) = failure {
        writeln!(out, "failed      {failure}")?;
    }
    if decision.plugin.is_none() && router.warm_up_left() > 0 {
        writeln!(out, "            the router still warms up: {} outcomes are missing", router.warm_up_left())?;
    }
    for (_, other) in considered.iter().enumerate().filter(|(at, _)| *at != decision.chosen) {
        writeln!(out, "instead     {}", instead(other, chosen))?;
    }
    Ok(())
}

fn why(reason: Reason, best: Option<&Considered>) -> String {
    let best = best.map(|best| escaped(&best.action.to_string(), NAME)).unwrap_or_default();
    match reason {
        Reason::Plugin => "a plugin decides, and not what was learned".to_owned(),
        Reason::Fallback => "the incumbent decides where the plugin fails".to_owned(),
        Reason::Policy => "the policy is set, and not learned".to_owned(),
        Reason::Incumbent => "it was here before; until enough is learned it gets most requests".to_owned(),
        Reason::WarmUp => "drawn by chance while the router warms up".to_owned(),
        Reason::Best => "the highest expected utility".to_owned(),
        Reason::Exploration => format!("drawn to learn about it; {best} has a higher expected utility"),
    }
}

/// What another action would have meant.
fn instead(other: &Considered, chosen: &Considered) -> String {
    let cost = match other.cost - chosen.cost {
        more if more > 0.0 => format!("costs {} more", money(more)),
        less if less < 0.0 => format!("costs {} less", money(-less)),
        _ => "costs the same".to_owned(),
    };
    let (reward, utility) = (other.reward - chosen.reward, other.utility - chosen.utility);
    format!("{} {cost}; reward {reward:+.3}, utility {utility:+.3}", escaped(&other.action.to_string(), NAME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learn::router::Action;

    #[test]
    fn what_another_action_would_have_cost_is_a_difference() {
        let one = |model: &str, cost: f64, reward: f64| Considered {
            action: Action { model: model.into(), then: None },
            propensity: 0.5,
            reward,
            cost,
            utility: reward - cost / 10.0,
            outcomes: 1,
        };
        let check = |other: Considered, expect: &str| assert_eq!(instead(&other, &one("own", 1.0, 0.5)), expect);
        check(one("dear", 3.0, 0.75), "dear costs 2.000 more; reward +0.250, utility +0.050");
        check(one("free", 0.0, 0.25), "free costs 1.000 less; reward -0.250, utility -0.150");
        check(one("a\u{1b}b", 1.0, 0.5), "a\\u{1b}b costs the same; reward +0.000, utility +0.000");
    }
}
