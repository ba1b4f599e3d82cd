//! What several tries at a task give, for people.

use clawhost_core::counted;
use clawhost_play::{Averaged, Interval, TriesMeasure};
use std::io::Write;

/// What the columns mean.
const LEGEND: &str = "k tries at one task and seed: pass@k (one has the best possible reward), mean@k, best of k; 95 % intervals by task";

fn averaged(Averaged { mean, interval }: &Averaged) -> String {
    let interval = interval.map(|Interval { low, high }| format!(" ({low:.3} to {high:.3})"));
    format!("{mean:.3}{}", interval.unwrap_or_default())
}

/// A line for each number of tries, behind a legend. Nothing without measures.
pub(crate) fn lines(out: &mut impl Write, label: &str, tries: &[TriesMeasure]) -> std::io::Result<()> {
    if tries.is_empty() {
        return Ok(());
    }
    writeln!(out, "{label}{LEGEND}")?;
    for TriesMeasure { k, groups, pass, mean, best } in tries {
        writeln!(
            out,
            "            k {k:<4} pass {}  mean {}  best {}  ({})",
            averaged(pass),
            averaged(mean),
            averaged(best),
            counted(*groups, "group")
        )?;
    }
    Ok(())
}
