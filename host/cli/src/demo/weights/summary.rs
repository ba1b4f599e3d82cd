//! What the demo found, for people and for machines.

use super::Found;
use super::stage::Measured;
use crate::args::DemoWeights;
use crate::{data, learn_summary, plot};
use clawhost_model::device::{Chosen, DeviceName};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// What the demo does not show, in its own words.
const ADDITION: &str =
    "for addition, more demonstrations would have done it too: what is shown is that rewards alone do it";

pub(super) fn json(
    (options, device): (&DemoWeights, &Chosen),
    found: &[Found],
    started: u64,
    wall: Duration,
) -> anyhow::Result<()> {
    let mut weights = serde_json::Map::new();
    let mut seconds = serde_json::Map::new();
    for one in found {
        let part = serde_json::json!({
            "before": one.before,
            "after": one.after,
            "control_sft": one.control_sft,
            "control_shuffled": one.control_shuffled,
            "turns": one.after.turns,
            "curve": one.rewards.iterations.iter().map(|iteration| iteration.reward).collect::<Vec<_>>(),
            "imitation": one.imitation.warm_start,
            "iterations": one.part.iterations,
            "learned": one.rewards.learned,
            "seeds": [options.seed],
        });
        weights.insert(one.part.name.to_owned(), part);
        seconds.insert(one.part.name.to_owned(), one.seconds.into());
    }
    let document = serde_json::json!({
        "format": 1,
        "device": device.name,
        "weights": weights,
        "timing": {
            "started": data::time(started), "wall_seconds": wall.as_secs_f64(), "seconds_without_controls": seconds,
        },
    });
    writeln!(anstream::stdout(), "{document:#}")?;
    Ok(())
}

fn shown(measured: Option<&Measured>) -> String {
    measured.map_or("not measured".to_owned(), |one| {
        let Measured { sampled, greedy, low, high, turns } = one;
        format!("{sampled:.3}  ({low:.3} to {high:.3})   greedy {greedy:.3}   {turns:.2} turns")
    })
}

pub(super) fn text((options, device): (&DemoWeights, &Chosen), found: &[Found], wall: Duration) -> anyhow::Result<()> {
    let mut out = anstream::stdout();
    let Chosen { name, title, .. } = device;
    let place = if *name == DeviceName::CPU { title.clone() } else { format!("{name} ({title})") };
    writeln!(out, "A model of 99,456 weights, made from seed {}, learns on {place}.\n", options.seed)?;
    for one in found {
        writeln!(out, "{}: reward on {} test episodes (sampled, 95 % interval)", one.part.name, one.part.tests)?;
        if let Some(plot) = plot::text(&learn_summary::curve(&one.rewards), 0.0, 1.0) {
            writeln!(out, "{plot}")?;
        }
        let rows = [
            ("after demonstrations", Some(&one.before)),
            ("after rewards", Some(&one.after)),
            ("  more demonstrations instead", one.control_sft.as_ref()),
            ("  shuffled rewards instead", one.control_shuffled.as_ref()),
        ];
        for (name, measured) in rows {
            writeln!(out, "  {name:32}{}", shown(measured))?;
        }
        let steps = one.imitation.warm_start.as_ref().map_or(0, |warm| warm.steps);
        writeln!(out, "  {steps} steps of demonstrations, {} of rewards, {:.1} s\n", one.rewards.learned, one.seconds)?;
    }
    if found.iter().any(|one| one.control_sft.is_some()) {
        writeln!(out, "Note: {ADDITION}.")?;
    }
    writeln!(out, "curves      {}", options.svg.display())?;
    writeln!(out, "took        {:.1} s; nothing was recorded", wall.as_secs_f64())?;
    Ok(())
}

pub(super) fn draw(path: &Path, found: &[Found]) -> anyhow::Result<()> {
    let curve =
        |one: &Found| plot::Curve { name: one.part.name.to_owned(), points: learn_summary::curve(&one.rewards) };
    let curves: Vec<plot::Curve> = found.iter().map(curve).collect();
    plot::svg(path, "Training reward of a tiny model", ("iteration (512 episodes)", "mean reward"), &curves, &[])
}

/// Fails where a part did not get better by more than its intervals, or where a control did as well: shuffled rewards anywhere, and more
/// demonstrations where they are clumsy.
pub(super) fn check(found: &[Found]) -> anyhow::Result<()> {
    for one in found {
        if one.after.low <= one.before.high {
            anyhow::bail!(
                "the proof failed: {} went from {:.3} to {:.3}, which may be chance; try another --seed, and say so to its authors",
                one.part.name,
                one.before.sampled,
                one.after.sampled
            );
        }
        let clumsy =
            one.imitation.warm_start.as_ref().and_then(|warm| warm.demonstrated).is_some_and(|reward| reward < 1.0);
        let controls =
            [("more demonstrations", one.control_sft.filter(|_| clumsy)), ("shuffled rewards", one.control_shuffled)];
        for (name, control) in controls {
            if let Some(control) = control.filter(|control| control.high >= one.after.low) {
                anyhow::bail!(
                    "the proof failed: {} came to {:.3} by {name} and to {:.3} by rewards, which may be chance; try another --seed, and say so to its authors",
                    one.part.name,
                    control.sampled,
                    one.after.sampled
                );
            }
        }
    }
    Ok(())
}
