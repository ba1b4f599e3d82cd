//! Random draws: the tasks of the fixed set, the items of a minibatch. All follow from the seed.

use crate::evolve::Item;
use clawhost_core::derive_seed;
use std::collections::BTreeSet;

/// A seeded permutation: sorted by a number drawn for each position.
fn shuffled<T: Clone>(things: impl IntoIterator<Item = T>, seed: u64, purpose: &str) -> Vec<T> {
    let mut drawn: Vec<(u64, T)> =
        (0..).zip(things).map(|(place, thing)| (derive_seed(seed, purpose, place), thing)).collect();
    drawn.sort_by_key(|(number, _)| *number);
    drawn.into_iter().map(|(_, thing)| thing).collect()
}

/// Splits items into the fixed set and training items. All items of a task are on the same side, so that no task is used for
/// both.
pub(super) fn split(items: &BTreeSet<Item>, tasks: usize, seed: u64) -> (Vec<Item>, Vec<Item>) {
    let all: BTreeSet<&str> = items.iter().map(|item| item.task.as_str()).collect();
    let fixed: BTreeSet<&str> = shuffled(all, seed, "evolve fixed set").into_iter().take(tasks).collect();
    items.iter().cloned().partition(|item| fixed.contains(item.task.as_str()))
}

/// The minibatch of an iteration. Every epoch permutes the training items anew. A remainder smaller than a minibatch is
/// skipped, so that no minibatch contains an item twice.
pub(super) fn minibatch(training: &[Item], size: usize, seed: u64, iteration: u64) -> Vec<Item> {
    let size = size.max(1);
    let per_epoch = (training.len() / size).max(1) as u64;
    let order = shuffled(training, derive_seed(seed, "evolve epoch", iteration / per_epoch), "evolve minibatch");
    order.into_iter().skip((iteration % per_epoch) as usize * size).take(size).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(tasks: u64, seeds: u64) -> BTreeSet<Item> {
        (0..tasks).flat_map(|task| (0..seeds).map(move |seed| Item { task: format!("t{task}"), seed })).collect()
    }

    #[test]
    fn a_task_is_either_in_the_fixed_set_or_used_for_training() {
        let items = items(10, 3);
        let (fixed, training) = split(&items, 4, 7);
        assert_eq!((fixed.len(), training.len()), (12, 18));
        assert!(fixed.iter().all(|item| training.iter().all(|other| item.task != other.task)));
        assert_eq!(split(&items, 4, 7).0, fixed);
        assert_ne!(split(&items, 4, 8).0, fixed, "the set depends on the seed");
    }

    #[test]
    fn an_epoch_contains_every_item_once_in_a_new_order() {
        let training: Vec<Item> = items(9, 1).into_iter().collect();
        let epoch = |number: u64| -> Vec<Item> {
            (0..3).flat_map(|place| minibatch(&training, 3, 5, number * 3 + place)).collect()
        };
        let sorted = |mut items: Vec<Item>| {
            items.sort();
            items
        };
        assert_eq!(sorted(epoch(0)), training);
        assert_eq!(sorted(epoch(1)), training);
        assert_ne!(epoch(0), epoch(1));
    }

    #[test]
    fn a_minibatch_contains_no_item_twice() {
        let check = |tasks: u64, size: usize, expect: usize| {
            let training: Vec<Item> = items(tasks, 1).into_iter().collect();
            for iteration in 0..20 {
                let drawn: BTreeSet<Item> = minibatch(&training, size, 1, iteration).into_iter().collect();
                assert_eq!(drawn.len(), expect, "{tasks} items, minibatches of {size}, iteration {iteration}");
            }
        };
        check(7, 3, 3);
        check(2, 3, 2);
        check(3, 3, 3);
    }
}
