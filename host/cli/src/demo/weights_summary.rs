//! The result of the weights demo, as text and as JSON.

use crate::{learn_summary, plot};
use clawhost_app::demo::{GameProof, Measured, WeightsDemo, WeightsProof};
use clawhost_app::plot::{Curve, svg};
use clawhost_app::time;
use clawhost_core::{counted, thousands};
use clawhost_learning::WarmStartReport;
use clawhost_model::device::{Chosen, DeviceName};
use std::io::Write as _;
use std::path::Path;

/// A note on what the demo does not prove.
const ADDITION: &str =
    "for addition, more demonstrations would have done it too: what is shown is that rewards alone do it";

/// The report of learning from demonstrations.
fn imitation(one: &GameProof) -> Option<&WarmStartReport> {
    one.imitation.weights().and_then(|weights| weights.warm_start.as_ref())
}

pub(super) fn json(demo: &WeightsDemo, found: &WeightsProof, drawing: &Path) -> anyhow::Result<()> {
    let mut weights = serde_json::Map::new();
    let mut seconds = serde_json::Map::new();
    for one in &found.games {
        let part = serde_json::json!({
            "before": one.before,
            "after": one.after,
            "control_sft": one.more_demonstrations,
            "control_shuffled": one.shuffled_rewards,
            "turns": one.after.turns,
            "curve": one.rewards.iterations.iter().map(|iteration| iteration.reward).collect::<Vec<_>>(),
            "imitation": imitation(one),
            "iterations": one.game.iterations,
            "learned": one.rewards.learned,
            "seeds": [demo.seed],
        });
        weights.insert(one.game.name.to_owned(), part);
        seconds.insert(one.game.name.to_owned(), one.seconds.into());
    }
    let document = serde_json::json!({
        "format": 1,
        "device": found.device.name,
        "weights": weights,
        "timing": {
            "started": time(found.started_ms), "wall_seconds": found.wall.as_secs_f64(), "drawing": drawing,
            "seconds_without_controls": seconds,
        },
    });
    crate::terminal::json(&document)?;
    Ok(())
}

fn shown(measured: Option<&Measured>) -> String {
    measured.map_or("not measured".to_owned(), |one| {
        let Measured { sampled, greedy, low, high, turns } = one;
        format!("{sampled:.3}  ({low:.3} to {high:.3})   greedy {greedy:.3}   {turns:.2} turns")
    })
}

pub(super) fn text(demo: &WeightsDemo, found: &WeightsProof, drawing: &Path) -> anyhow::Result<()> {
    let mut out = crate::terminal::stdout();
    let Chosen { name, title, .. } = &found.device;
    let place = if *name == DeviceName::CPU { title.clone() } else { format!("{name} ({title})") };
    writeln!(out, "A model of 99,456 weights, made from seed {}, learns on {place}.\n", demo.seed)?;
    for one in &found.games {
        writeln!(out, "{}: reward on {} test episodes (sampled, 95 % interval)", one.game.name, one.game.tests)?;
        if let Some(plot) = plot::text(&learn_summary::curve(&one.rewards), 0.0, 1.0) {
            writeln!(out, "{plot}")?;
        }
        let rows = [
            ("after demonstrations", Some(&one.before)),
            ("after rewards", Some(&one.after)),
            ("  more demonstrations instead", one.more_demonstrations.as_ref()),
            ("  shuffled rewards instead", one.shuffled_rewards.as_ref()),
        ];
        for (name, measured) in rows {
            writeln!(out, "  {name:32}{}", shown(measured))?;
        }
        let steps = imitation(one).map_or(0, |warm| warm.steps);
        let (steps, rewards) = (counted(steps, "step"), thousands(one.rewards.learned));
        writeln!(out, "  {steps} of demonstrations, {rewards} of rewards, {:.1} s\n", one.seconds)?;
    }
    if found.games.iter().any(|one| one.more_demonstrations.is_some()) {
        writeln!(out, "Note: {ADDITION}.")?;
    }
    writeln!(out, "curves      {}", drawing.display())?;
    writeln!(out, "took        {:.1} s; nothing was recorded", found.wall.as_secs_f64())?;
    Ok(())
}

pub(super) fn draw(path: &Path, found: &WeightsProof) -> anyhow::Result<()> {
    let curve = |one: &GameProof| Curve { name: one.game.name.to_owned(), points: learn_summary::curve(&one.rewards) };
    let curves: Vec<Curve> = found.games.iter().map(curve).collect();
    Ok(svg(path, "Training reward of a tiny model", ("iteration", "mean reward"), &curves, &[])?)
}
