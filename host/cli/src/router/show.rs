//! `clawhost router show`: what a router knows.

use super::{money, number, promote};
use crate::context::Context;
use crate::exit::Exit;
use clawhost_app::routers::{DaySpent, StoredRouter, read_router, waiting_candidates, waiting_decisions};
use clawhost_core::{counted, escaped, thousands};
use clawhost_learn::router::{CostWeight, Fixed, LearnedAction, Policy, Router, Tiers};
use std::io::Write;

/// Longest name that is shown.
const NAME: usize = 80;
/// Days of spending that a person is shown; a document has all that are kept.
const DAYS: usize = 7;

pub(super) fn run(context: &Context, named: Option<&str>) -> anyhow::Result<Exit> {
    let folder = context.folder()?;
    let stored = read_router(&folder, named)?;
    let candidates = waiting_candidates(&stored)?;
    let plugin = stored.plugin()?;
    let StoredRouter { name, path, router, book } = stored;
    let waiting = waiting_decisions(&folder, &name)?;
    let log = path.with_extension("jsonl");
    let log = log.is_file().then_some(log);
    if context.json() {
        let models: Vec<_> = router.table().models().collect();
        let price = |model: &&str| serde_json::json!({ "model": model, "price": router.table().price(model) });
        let document = serde_json::json!({
            "format": 1,
            "router": name,
            "path": path,
            "log": log,
            "version": router.version(),
            "identity": router.identity(),
            "settings": router.settings(),
            "plugin": plugin,
            "fallbacks": book.live.fallbacks,
            "cost_weight": router.cost_weight(),
            "budget_per_day": budget(&router),
            "spent": book.spending.days().map(|(day, spent)| spent_on(day, spent, &router)).collect::<Vec<_>>(),
            "models": models.iter().map(price).collect::<Vec<_>>(),
            "actions": router.actions(),
            "features": router.names(),
            "learned": router.learned(),
            "gone": router.gone(),
            "waiting": waiting,
            "expired": book.live.expired,
            "unusable": book.live.unusable,
            "candidate": candidates.first(),
            "behind": candidates.get(1),
            "judged": book.gate.judged,
            "warm_up_left": router.warm_up_left(),
        });
        crate::terminal::json(&document)?;
        return Ok(Exit::Ok);
    }
    let mut out = crate::terminal::stdout();
    let named = escaped(&name, NAME);
    writeln!(out, "{named}, version {} ({})", thousands(router.version()), router.identity().short())?;
    match &plugin {
        Some(plugin) => writeln!(out, "policy      the plugin {}; the router learns beside it", escaped(plugin, NAME))?,
        None => writeln!(out, "policy      {}", policy(&router))?,
    }
    writeln!(out, "cost        {}", cost(&router))?;
    let gone = match router.gone() {
        0 => String::new(),
        gone => format!("; {} of models that have left the table taught nothing", thousands(gone)),
    };
    writeln!(out, "outcomes    {}{gone}", thousands(router.learned()))?;
    if waiting + book.live.expired + book.live.unusable > 0 {
        let [waiting, expired, unusable] = [waiting, book.live.expired, book.live.unusable].map(thousands);
        writeln!(
            out,
            "live        {waiting} decisions wait for a reward; {expired} expired, {unusable} could not be used"
        )?;
    }
    if book.live.fallbacks > 0 {
        let times = counted(book.live.fallbacks, "outcome");
        writeln!(out, "failed      {times} of sessions that the incumbent got because the plugin failed")?;
    }
    if let Some(log) = log {
        writeln!(out, "log         {}", log.display())?;
    }
    if let Some(candidate) = candidates.first() {
        writeln!(out, "candidate   {}", promote::told(candidate))?;
        writeln!(out, "            `clawhost router promote {named}` judges it")?;
    }
    if let Some(behind) = candidates.get(1) {
        writeln!(out, "behind it   {}", promote::told(behind))?;
    }
    writeln!(out)?;
    if book.spending.days().next().is_some() {
        spent(&mut out, book.spending.days().take(DAYS), &router)?;
        writeln!(out)?;
    }
    models(&mut out, &router)?;
    writeln!(out)?;
    let actions = router.actions();
    known(&mut out, &actions)?;
    weights(&mut out, &actions)?;
    Ok(Exit::Ok)
}

fn fixed(policy: &Fixed) -> String {
    match policy {
        Fixed::Model(model) => format!("always {}", escaped(model, NAME)),
        Fixed::Tiers(tiers) => tiers_of(tiers),
    }
}

/// Tiers with their models. A tier without one takes the next higher one.
fn tiers_of(tiers: &Tiers) -> String {
    let named =
        [("light", &tiers.light), ("medium", &tiers.medium), ("heavy", &tiers.heavy), ("reasoning", &tiers.reasoning)];
    let named = named.into_iter().filter_map(|(tier, model)| Some((tier, model.as_ref()?)));
    let fallback = tiers.fallback.iter().map(|model| ("fallback", model));
    let all: Vec<String> =
        named.chain(fallback).map(|(tier, model)| format!("{tier} {}", escaped(model, NAME))).collect();
    format!("tiers by complexity ({})", all.join(", "))
}

fn policy(router: &Router) -> String {
    match (&router.settings().policy, router.warm_up_left()) {
        (Policy::Fixed(policy), _) => fixed(policy),
        (Policy::Random, _) => "every action equally often".to_owned(),
        (Policy::Greedy, _) => "the best expected utility, without exploration".to_owned(),
        (Policy::Learned, 0) => "what was learned, with exploration".to_owned(),
        (Policy::Learned, left) => {
            let incumbent = fixed(&router.settings().incumbent);
            format!("warms up for {} more outcomes: mostly {incumbent}", thousands(left))
        }
    }
}

fn cost(router: &Router) -> String {
    let (weight, reference) = (number(router.cost_weight()), money(router.settings().reference_cost));
    let budget = match budget(router) {
        None => String::new(),
        Some(per_day) => format!("; it follows a budget of {} a day", money(per_day)),
    };
    format!("{reference} is worth a reward of {weight}{budget}")
}

/// The budget of a day, if there is one.
fn budget(router: &Router) -> Option<f64> {
    match &router.settings().cost_weight {
        CostWeight::Fixed(_) => None,
        CostWeight::Budget(budget) => Some(budget.per_day),
    }
}

/// What was spent on a day, as a document. `of_budget`: the share of the budget of today, if there is one.
fn spent_on(day: &str, spent: &DaySpent, router: &Router) -> serde_json::Value {
    let of_budget = budget(router).map(|budget| spent.total() / budget);
    serde_json::json!({ "day": day, "sessions": spent.sessions, "learning": spent.learning, "of_budget": of_budget })
}

fn spent<'s>(
    out: &mut impl Write,
    days: impl Iterator<Item = (&'s str, &'s DaySpent)>,
    router: &Router,
) -> std::io::Result<()> {
    let mut table = crate::episodes::table(&["spent on", "sessions", "learning", "of the budget"]);
    for (day, spent) in days {
        let share =
            budget(router).map_or_else(String::new, |budget| format!("{:.0} %", spent.total() / budget * 100.0));
        table.add_row([escaped(day, NAME), money(spent.sessions), money(spent.learning), share]);
    }
    crate::episodes::print(out, &table)?;
    writeln!(out, "by sessions of a gateway and by training episodes, at the prices of then")
}

fn models(out: &mut impl Write, router: &Router) -> std::io::Result<()> {
    let mut table = crate::episodes::table(&["model", "price per unit"]);
    for model in router.table().models() {
        table.add_row([escaped(model, NAME), router.table().price(model).map_or_else(String::new, money)]);
    }
    crate::episodes::print(out, &table)
}

fn known(out: &mut impl Write, actions: &[LearnedAction]) -> std::io::Result<()> {
    let mut table = crate::episodes::table(&["action", "outcomes", "reward", "cost", "utility", ""]);
    for known in actions {
        table.add_row([
            escaped(&known.action.to_string(), NAME),
            thousands(known.outcomes),
            number(known.reward),
            money(known.cost),
            number(known.utility),
            if known.is_new { "new: tried more often".to_owned() } else { String::new() },
        ]);
    }
    crate::episodes::print(out, &table)?;
    writeln!(out, "reward, cost and utility are those of an average request")
}

/// What each feature weighs in each action.
fn weights(out: &mut impl Write, actions: &[LearnedAction]) -> std::io::Result<()> {
    let Some(first) = actions.first().filter(|first| !first.weights.is_empty()) else {
        return writeln!(out, "\nit sees no features");
    };
    writeln!(out)?;
    let names: Vec<String> = actions.iter().map(|known| escaped(&known.action.to_string(), NAME)).collect();
    let header: Vec<&str> = std::iter::once("feature").chain(names.iter().map(String::as_str)).collect();
    let mut table = crate::episodes::table(&header);
    for (at, (feature, _)) in first.weights.iter().enumerate() {
        let weight = |known: &LearnedAction| {
            known.weights.get(at).map_or_else(String::new, |(_, weight)| format!("{weight:+.2}"))
        };
        table.add_row(std::iter::once(escaped(feature, NAME)).chain(actions.iter().map(weight)));
    }
    crate::episodes::print(out, &table)?;
    writeln!(out, "by how much one deviation of a feature changes the log-odds of the reward")
}
