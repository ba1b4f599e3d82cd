//! Practice for local models: cases of many houses, each with a handbook of its own, and demonstrations that follow it.
//!
//! A model that practises learns to follow a handbook, and nothing about any house that is played without practice.

use crate::case::Case;
use crate::desk::Talk;
use crate::handbook::Line;
use clawhost_sdk::{LARGEST_WORLD, Random};

/// Lines of 100 that a handbook for practice keeps: experience never knows all rules.
const KEPT: u64 = 75;

/// The house of a position: beyond all that can be asked for, so that none of them is ever played otherwise.
pub(crate) fn house(position: u64) -> u64 {
    LARGEST_WORLD + 1 + position
}

/// The handbook of an episode: some of the house's lines, in any order. As in a playbook, only lines are shown that may apply to the case by
/// what is visible of it.
pub(crate) fn handbook(case: &Case, random: &mut Random) -> Vec<Line> {
    let mut lines = Line::all(&case.house);
    lines.retain(|line| random.below(100) < KEPT && line.may_apply(case));
    for position in (1..lines.len()).rev() {
        lines.swap(position, random.below(position as u64 + 1) as usize);
    }
    lines
}

/// The text of a handbook, as a playbook of lessons is shown.
pub(crate) fn text(lines: &[Line], talk: Talk) -> String {
    let lines: String = lines.iter().map(|line| format!("- {}\n", line.text(talk))).collect();
    if lines.is_empty() { lines } else { format!("\n\nLessons from experience:\n{}", lines.trim_end()) }
}
