//! The result of the router demo, as text and as JSON.

use crate::shell::{program, quoted};
use clawhost_app::demo::{
    BEST_POLICY, NOTICING, RECOVERED, REGRET_DECISIONS, ROUTER_POLICY, RouterDemo, RouterProof, SLOPE, mean_earned,
};
use clawhost_app::time;
use clawhost_core::thousands;
use clawhost_learn::router::{SimulationReport, WorldSettings};
use std::io::Write;

pub(super) fn json(demo: &RouterDemo, found: &RouterProof) -> anyhow::Result<()> {
    let usual = WorldSettings::default();
    let trial = |reports: &[SimulationReport]| serde_json::json!({ "mean": mean_earned(reports), "worlds": reports, "recovered": shares(reports) });
    let regret = |report: &SimulationReport| {
        let (seed, slope, notes) = (report.seed, report.slope, &report.regret);
        serde_json::json!({ "seed": seed, "slope": slope, "regret": notes })
    };
    let document = serde_json::json!({
        "format": 1,
        "router": {
            "seed": demo.seed,
            "world": usual,
            "noticing": NOTICING,
            "models": trial(&found.plain),
            "escalation": trial(&found.escalation),
            "regret": found.regret.iter().map(regret).collect::<Vec<_>>(),
        },
        "timing": {
            "started": time(found.started_ms), "wall_seconds": found.wall.as_secs_f64(),
            "state": found.state, "log": found.log, "decision_microseconds": found.decision,
        },
    });
    crate::terminal::json(&document)?;
    Ok(())
}

/// The share that the router earned in every world.
fn shares(reports: &[SimulationReport]) -> Vec<Option<f64>> {
    reports.iter().map(|report| report.recovered).collect()
}

/// Numbers in a row, with as many decimals.
fn row(numbers: impl Iterator<Item = Option<f64>>, decimals: usize) -> String {
    let shown = numbers.map(|number| number.map_or("-".to_owned(), |number| format!("{number:.decimals$}")));
    shown.collect::<Vec<_>>().join(" ")
}

fn trial(out: &mut impl Write, title: &str, reports: &[SimulationReport]) -> std::io::Result<()> {
    writeln!(out, "{title}: per request, mean of {} worlds", reports.len())?;
    let mut table = crate::episodes::table(&["policy", "reward", "cost", "utility"]);
    for earned in mean_earned(reports) {
        let number = |value: f64| format!("{value:.3}");
        table.add_row([
            earned.policy.clone(),
            number(earned.reward),
            format!("{:.2}", earned.cost),
            number(earned.utility),
        ]);
    }
    crate::episodes::print(out, &table)?;
    let reached = reports.iter().filter(|report| report.recovered.is_some_and(|share| share >= RECOVERED)).count();
    writeln!(out, "recovered   {}", row(shares(reports).into_iter(), 2))?;
    writeln!(out, "            at least {RECOVERED:.2} in {reached} of {} worlds\n", reports.len())
}

pub(super) fn text(demo: &RouterDemo, found: &RouterProof) -> anyhow::Result<()> {
    let mut out = crate::terminal::stdout();
    let WorldSettings { decisions, fresh, auc, cost_weight, .. } = WorldSettings::default();
    writeln!(
        out,
        "Simulated worlds from seed {}: the model `cheap` costs 1 and is right in 60 % of the requests, `dear` costs 10 and is right in \
         90 %.\nThe features tell the requests that `cheap` gets right with an AUC of {auc}. Utility is reward minus {cost_weight} per \
         reference cost.\nA router learns from {} decisions, is frozen, and answers {} fresh requests. Recovered is its share of the \
         utility\nbetween the best model alone and the best policy that the features allow.\n",
        demo.seed,
        thousands(decisions),
        thousands(fresh),
    )?;
    trial(&mut out, "Models alone", &found.plain)?;
    trial(&mut out, "With escalation from `cheap` to `dear`", &found.escalation)?;
    let slopes = row(found.regret.iter().map(|report| report.slope), 2);
    writeln!(
        out,
        "regret      slope of its logarithm from 500 to {} decisions: {slopes}",
        thousands(REGRET_DECISIONS)
    )?;
    writeln!(out, "            at most {SLOPE:.2} is wanted; floor and forgetting are off")?;
    let decision = found.decision;
    writeln!(
        out,
        "decision    {:.1} us at the median, {:.1} us at the 99th percentile",
        decision.median, decision.p99
    )?;
    writeln!(out, "router      {}", found.state.display())?;
    writeln!(out, "log         {}", found.log.display())?;
    writeln!(out, "took        {:.1} s; no model was asked", found.wall.as_secs_f64())?;
    writeln!(
        out,
        "\nNote: the worlds follow the form of model that the router assumes. `{BEST_POLICY}` knows the truth of the world;"
    )?;
    writeln!(out, "`{ROUTER_POLICY}` and all others are measured by the same truth.")?;
    let (program, state) = (quoted(&program()), quoted(&found.state.display().to_string()));
    let log = quoted(&found.log.display().to_string());
    writeln!(out, "\nLook into the router, and judge other policies on its log:")?;
    writeln!(out, "{program} router show {state}")?;
    writeln!(out, "{program} router explain 'Prove that this query is slow.' --router {state}")?;
    writeln!(out, "{program} router replay {log}")?;
    Ok(())
}
