//! The result of the demo of all layers, as text and as JSON.

use crate::learn_summary::{lift, mean, proof};
use clawhost_app::demo::{FULL_TEST_PAIRS, FullDemo, FullProof, LESSON_BUDGET};
use clawhost_app::time;
use clawhost_core::{counted, thousands};
use std::io::Write as _;

pub(super) fn json(demo: &FullDemo, found: &FullProof) -> anyhow::Result<()> {
    let document = serde_json::json!({
        "format": 1,
        "full": {
            "seed": demo.seed,
            "practice": found.practice,
            "episodes": found.full.episodes(),
            "learn": found.full.published(),
            "foreign_playbook": found.foreign,
            "routing": found.routing,
        },
        "timing": { "started": time(found.started_ms), "wall_seconds": found.wall.as_secs_f64() },
    });
    crate::terminal::json(&document)?;
    Ok(())
}

pub(super) fn text(demo: &FullDemo, found: &FullProof) -> anyhow::Result<()> {
    let mut out = crate::terminal::stdout();
    let practice = &found.practice;
    writeln!(
        out,
        "A shop with hidden rules, house {}. A tiny model on {} has practised in other houses to follow a handbook, for {}\n(sampled \
         reward there {}). Then three layers learn in one run, one after the other: a playbook of lessons\n({LESSON_BUDGET} episodes of \
         training and gate), the weights of the tiny model, which reads the playbook, and a router between it and\nthe built-in rule \
         follower, which stands for a dear model: its price is ten times as high.\n",
        demo.seed,
        found.device.name,
        counted(practice.steps, "step"),
        practice.looks.last().and_then(|(_, reward)| *reward).map_or("unknown".to_owned(), |one| format!("{one:.2}")),
    )?;
    if let Some(evaluation) = &found.full.evaluation {
        proof(&mut out, evaluation, ["no layer", "all layers"])?;
        for arm in evaluation.arms.iter().filter(|arm| arm.layers.len() == 1) {
            writeln!(out, "  all over  {}: {}", arm.layers.join("+"), lift(arm.behind.as_ref()))?;
        }
    }
    writeln!(out, "\nplaybook    {}:", counted(found.playbook.entries.len() as u64, "lesson"))?;
    for entry in &found.playbook.entries {
        writeln!(out, "  {}", entry.lesson.prompt())?;
    }
    let foreign = &found.foreign;
    writeln!(out, "\ncontrol     the playbook of another house, in place of the learned one")?;
    writeln!(
        out,
        "  learned   {}\n  foreign   {}\n  lift      {}",
        mean(foreign.before.as_ref()),
        mean(foreign.after.as_ref()),
        lift(foreign.lift.as_ref())
    )?;
    writeln!(out, "\nrouting     {FULL_TEST_PAIRS} other test episodes each, with the learned playbook and weights")?;
    let mut table = crate::episodes::table(&["routing", "reward", "dear", "cost", "utility"]);
    for one in &found.routing {
        table.add_row([
            one.routing.words().to_owned(),
            format!("{:.3}", one.reward),
            format!("{:.0} %", one.dear * 100.0),
            format!("{:.2}", one.cost),
            format!("{:.3}", one.utility),
        ]);
    }
    crate::episodes::print(&mut out, &table)?;
    let episodes = found.full.episodes();
    writeln!(
        out,
        "\nepisodes    {} of training, {} of the gate, {} of the test",
        thousands(episodes.train),
        thousands(episodes.gate),
        thousands(episodes.test)
    )?;
    writeln!(out, "took        {:.1} s", found.wall.as_secs_f64())?;
    Ok(())
}
