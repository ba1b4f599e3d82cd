//! Practice for local models: cases of many houses, each with a handbook of its own, and demonstrations that follow it.
//!
//! A model that practises learns to follow a handbook, and nothing about any house that is played without practice.

use crate::case::Case;
use crate::desk::Talk;
use crate::handbook::Line;
use clawhost_sdk::{LARGEST_WORLD, Random};

/// Lines of 100 that a handbook for practice keeps: experience never knows all rules.
const KEPT: u64 = 90;

/// The house of a position: beyond all that can be asked for, so that none of them is ever played otherwise.
pub(crate) fn house(position: u64) -> u64 {
    LARGEST_WORLD + 1 + position
}

/// Of 100 lines with one condition, those that get a second one. Reflectors often propose such rules.
const NARROWED: u64 = 30;

/// The handbook of an episode: some of the house's lines, in any order. Conditions have any order, and some lines have one too many, as in
/// learned playbooks. Lines that contradict a visible fact of the case are left out, as a playbook leaves them out.
pub(crate) fn handbook(case: &Case, random: &mut Random) -> Vec<Line> {
    let mut lines = Line::all(&case.house);
    for line in &mut lines {
        line.reword(case, random.below(100) < NARROWED, random);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewording_varies_the_order_of_conditions_and_adds_some() {
        let (mut as_it_was, mut turned, mut narrowed, mut single) = (0, 0, 0, 0);
        for position in 0..200 {
            let case = Case::new(house(position), "train", position);
            let mut random = Random::new(position);
            for line in Line::all(&case.house) {
                let before = line.text(Talk::Terse);
                let mut line = line;
                line.reword(&case, position % 2 == 0, &mut random);
                let after = line.text(Talk::Terse);
                let had = before.matches(" and ").count();
                match (had, after.matches(" and ").count()) {
                    (1, 1) if before == after => as_it_was += 1,
                    (1, 1) => turned += 1,
                    (0, 1) => narrowed += 1,
                    (0, 0) => single += 1,
                    other => panic!("{other:?}: {after}"),
                }
            }
        }
        assert!(as_it_was > 100 && turned > 100, "both orders: {as_it_was} and {turned}");
        // Of every second house, the four rules on one fact; not the two look-ups.
        assert_eq!((narrowed, single), (100 * 4, 100 * 4 + 200 * 2));
    }
}
