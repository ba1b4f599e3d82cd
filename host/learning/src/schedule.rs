//! Which layers learn in an iteration, and from how many episodes.

use clawhost_play::Plan;
use serde::Serialize;

/// Which layers learn in an iteration. A layer that does not learn acts in its current state, which does not change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// All layers learn in every iteration, from the same episodes.
    #[default]
    Joint,
    /// The layers learn one after the other, in this order; then the first begins again. A layer without a turn never learns.
    Turns(Vec<Turn>),
}

/// The iterations in which one layer learns before the next one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Turn {
    /// The name of the layer.
    pub layer: &'static str,
    /// Number of iterations.
    pub iterations: u64,
    /// Training episodes of each.
    pub episodes: u64,
    /// Episodes of a group, which have equal tasks and seeds.
    pub group: u32,
}

impl Turn {
    fn groups(&self) -> u64 {
        self.episodes.div_ceil(u64::from(self.group.max(1)))
    }
}

/// An iteration of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// Iterations in which its layer has learned before.
    pub(crate) own: u64,
    /// `None`: all layers learn.
    turn: Option<Turn>,
}

impl Position {
    /// Whether the layer with this name learns.
    pub(crate) fn is_active(&self, layer: &str) -> bool {
        self.turn.is_none_or(|turn| turn.layer == layer)
    }

    /// The training episodes of the iteration.
    pub(crate) fn play(&self, play: &Plan) -> Plan {
        match self.turn {
            Some(Turn { episodes, group, .. }) => Plan { episodes, group, ..play.clone() },
            None => play.clone(),
        }
    }
}

impl Schedule {
    /// The turns, and the iterations of a round of them. `None`: all layers learn together, also if no turn has an iteration.
    fn turns(&self) -> Option<(&[Turn], u64)> {
        let Self::Turns(turns) = self else { return None };
        let round = turns.iter().map(|turn| turn.iterations).sum();
        (round > 0).then_some((turns, round))
    }

    /// The iteration with this number, from 0.
    pub(crate) fn at(&self, iteration: u64) -> Position {
        let turn = self.turns().and_then(|(turns, round)| {
            let mut left = iteration % round;
            turns.iter().find(|turn| match left.checked_sub(turn.iterations) {
                Some(rest) => {
                    left = rest;
                    false
                }
                None => true,
            })
        });
        let own = turn.map_or(iteration, |turn| self.iterations_of(turn.layer, iteration));
        Position { own, turn: turn.copied() }
    }

    /// Iterations, of the first ones of a run, in which a layer learns.
    pub fn iterations_of(&self, layer: &str, iterations: u64) -> u64 {
        self.count(iterations, |turn| u64::from(turn.layer == layer)).unwrap_or(iterations)
    }

    /// The first iteration after the turn that this iteration is in. Without turns that is the end of the run.
    pub(crate) fn end_of_turn(&self, iteration: u64, iterations: u64) -> u64 {
        let Some((turns, round)) = self.turns() else { return iterations };
        let mut end = iteration - iteration % round;
        for turn in turns {
            end += turn.iterations;
            if end > iteration {
                break;
            }
        }
        end.min(iterations)
    }

    /// Whether the layers that learn in this iteration learn in no later one.
    pub(crate) fn is_last(&self, iteration: u64, iterations: u64) -> bool {
        let Position { own, turn } = self.at(iteration);
        own + 1 >= turn.map_or(iterations, |turn| self.iterations_of(turn.layer, iterations))
    }

    /// Groups of training tasks in the first iterations of a run.
    pub(crate) fn groups(&self, iterations: u64, play: &Plan) -> u64 {
        let joint = || iterations.saturating_mul(play.episodes.div_ceil(u64::from(play.group.max(1))));
        self.count(iterations, Turn::groups).unwrap_or_else(joint)
    }

    /// Training episodes in the first iterations of a run.
    pub fn episodes(&self, iterations: u64, episodes: u64) -> u64 {
        self.count(iterations, |turn| turn.episodes).unwrap_or_else(|| iterations.saturating_mul(episodes))
    }

    /// The sum of a number of each of the first iterations. `None`: the schedule has no turns.
    fn count(&self, iterations: u64, of: impl Fn(&Turn) -> u64) -> Option<u64> {
        let (turns, round) = self.turns()?;
        let (rounds, mut left) = (iterations / round, iterations % round);
        let mut sum = 0u64;
        for turn in turns {
            let again = left.min(turn.iterations);
            left -= again;
            let times = rounds.saturating_mul(turn.iterations).saturating_add(again);
            sum = sum.saturating_add(times.saturating_mul(of(turn)));
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(layer: &'static str, iterations: u64, episodes: u64, group: u32) -> Turn {
        Turn { layer, iterations, episodes, group }
    }

    #[test]
    fn layers_take_turns_and_count_their_own_iterations() {
        let schedule =
            Schedule::Turns(vec![turn("harness", 2, 15, 1), turn("router", 0, 8, 8), turn("weights", 3, 64, 8)]);
        let names = ["harness", "router", "weights"];
        let active = |iteration: u64| {
            let position = schedule.at(iteration);
            let active: Vec<_> = names.into_iter().filter(|name| position.is_active(name)).collect();
            (active, position.own)
        };
        let found: Vec<_> = (0..12).map(active).collect();
        let expect = [
            ("harness", 0),
            ("harness", 1),
            ("weights", 0),
            ("weights", 1),
            ("weights", 2),
            ("harness", 2),
            ("harness", 3),
            ("weights", 3),
            ("weights", 4),
            ("weights", 5),
            ("harness", 4),
            ("harness", 5),
        ];
        assert_eq!(found, expect.map(|(layer, own)| (vec![layer], own)));
        let plan = Plan::new(64, 4, 1);
        for iterations in 0..12 {
            for layer in names {
                let counted = (0..iterations).filter(|one| schedule.at(*one).is_active(layer)).count() as u64;
                assert_eq!(schedule.iterations_of(layer, iterations), counted, "{layer} of {iterations}");
            }
            let plans: Vec<Plan> = (0..iterations).map(|one| schedule.at(one).play(&plan)).collect();
            let groups: u64 = plans.iter().map(|plan| plan.episodes.div_ceil(u64::from(plan.group))).sum();
            assert_eq!(schedule.groups(iterations, &plan), groups, "{iterations}");
            let episodes: u64 = plans.iter().map(|plan| plan.episodes).sum();
            assert_eq!(schedule.episodes(iterations, 64), episodes, "{iterations}");
        }
        let ends: Vec<u64> = (0..12).map(|iteration| schedule.end_of_turn(iteration, 9)).collect();
        assert_eq!(ends, [2, 2, 5, 5, 5, 7, 7, 9, 9, 9, 9, 9]);
        assert_eq!(Schedule::Joint.end_of_turn(3, 9), 9);
        let last: Vec<u64> = (0..9).filter(|iteration| schedule.is_last(*iteration, 9)).collect();
        assert_eq!(last, [6, 8], "the last of the harness, and the last of the weights");
    }

    #[test]
    fn all_layers_learn_together_in_a_joint_schedule() {
        let plan = Plan::new(64, 4, 1);
        let empty = Schedule::Turns(vec![turn("harness", 0, 1, 1)]);
        for schedule in [Schedule::Joint, Schedule::Turns(Vec::new()), empty] {
            let position = schedule.at(7);
            assert!(position.is_active("harness") && position.is_active("weights"));
            assert_eq!((position.own, position.play(&plan)), (7, plan.clone()));
            assert_eq!(schedule.iterations_of("weights", 9), 9);
            assert!(schedule.is_last(8, 9) && !schedule.is_last(7, 9));
            assert_eq!((schedule.groups(3, &plan), schedule.episodes(3, 64)), (48, 192));
        }
    }

    #[test]
    fn a_turn_has_its_own_episodes() {
        let schedule = Schedule::Turns(vec![turn("harness", 1, 15, 1), turn("weights", 1, 64, 8)]);
        let plan = Plan::new(4, 4, 9);
        let played = [0, 1].map(|iteration| schedule.at(iteration).play(&plan));
        assert_eq!(played.clone().map(|plan| (plan.episodes, plan.group)), [(15, 1), (64, 8)]);
        assert!(played.iter().all(|one| one.seed == plan.seed));
    }
}
