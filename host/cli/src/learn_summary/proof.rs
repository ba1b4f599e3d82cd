//! The results before and after, and the lift.

use super::numbers::signed;
use clawhost_core::{counted, thousands};
use clawhost_learning::{ArmReport, Evaluation, LayerEffect, Mean, PartEvaluation, SideTries};

/// A mean with its interval.
pub(crate) fn mean(value: Option<&Mean>) -> String {
    value.map_or("not measured".to_owned(), |mean| format!("{:.3} ({:.3} to {:.3})", mean.mean, mean.low, mean.high))
}

/// A lift with its interval.
pub(crate) fn lift(value: Option<&Mean>) -> String {
    value.map_or("not measured".to_owned(), |lift| {
        format!("{} ({} to {}, 95 %)", signed(lift.mean, 3), signed(lift.low, 3), signed(lift.high, 3))
    })
}

/// Prints the results before and after, and the lift.
pub(crate) fn proof(
    out: &mut impl std::io::Write,
    evaluation: &Evaluation,
    [first, second]: [&str; 2],
) -> std::io::Result<()> {
    let Evaluation {
        split,
        pairs,
        tasks,
        reused,
        missing,
        before,
        after,
        lift: difference,
        parts,
        arms,
        effects,
        tries,
    } = evaluation;
    let lost = match missing.all() {
        0 => String::new(),
        all => format!(
            ", {} without a score ({} before, {} after)",
            thousands(all),
            thousands(missing.before),
            thousands(missing.after)
        ),
    };
    let about =
        if tasks == pairs { String::new() } else { format!(" about {}, which are the unit", counted(*tasks, "task")) };
    writeln!(
        out,
        "test        {split}, {}{about}{lost}: both on the same tasks with the same seeds",
        counted(*pairs, "pair")
    )?;
    if *reused > 0 {
        writeln!(
            out,
            "  reused    {} that earlier runs of the playbook tested: the split has no others",
            counted(*reused, "task")
        )?;
    }
    writeln!(out, "  before    {}, {first}", mean(before.as_ref()))?;
    writeln!(out, "  after     {}, {second}", mean(after.as_ref()))?;
    writeln!(out, "  lift      {}", lift(difference.as_ref()))?;
    for PartEvaluation { part, pairs, before, after, lift: difference, .. } in parts {
        let (before, after) = (mean(before.as_ref()), mean(after.as_ref()));
        let worse = difference.as_ref().is_some_and(|lift| lift.high < 0.0);
        let worse = if worse { "; this part got WORSE" } else { "" };
        writeln!(
            out,
            "  of part {part}, {}: {before}, then {after}; lift {}{worse}",
            counted(*pairs, "pair"),
            lift(difference.as_ref())
        )?;
    }
    for ArmReport { layers, mean: reward, lift: difference, .. } in arms {
        writeln!(out, "  {:<9} {}, lift {}", layers.join("+"), mean(reward.as_ref()), lift(difference.as_ref()))?;
    }
    for LayerEffect { layer, mean, added_last, outcome } in effects {
        writeln!(
            out,
            "  {layer:<9} {}: {} over all sets of the others, {} on top of all others",
            outcome.words(),
            lift(mean.as_ref()),
            lift(added_last.as_ref())
        )?;
    }
    if let Some(SideTries { before, after }) = tries {
        crate::tries::lines(out, "  before    ", before)?;
        crate::tries::lines(out, "  after     ", after)?;
    }
    Ok(())
}
