//! The effect of each layer in a full factorial design: every set of layers plays every test task with the same seed.

use crate::evaluation::Tested;
use crate::report::{LayerEffect, Mean, Outcome};
use std::collections::BTreeMap;

/// The effects of layers. `arms` are all sets of layers, as flags in the order of `names`, and `tested` their results. A position counts
/// if every arm is scored there.
pub(crate) fn effects(names: &[&str], arms: &[Vec<bool>], tested: &[Tested]) -> Vec<LayerEffect> {
    let effect = |(layer, name): (usize, &&str)| {
        let has = |arm: &[bool]| arm.get(layer).copied().unwrap_or(false);
        let mut mean: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut last: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut positions = 0;
        for (position, (task, _)) in tested.first().into_iter().flatten() {
            let reward = |results: &Tested| results.get(position).and_then(|(_, reward)| *reward);
            let rewards: Option<Vec<f64>> = tested.iter().map(reward).collect();
            let Some(rewards) = rewards else { continue };
            positions += 1;
            let (mut with, mut without) = (0.0, 0.0);
            let (mut all, mut all_others) = (0.0, 0.0);
            for (arm, reward) in arms.iter().zip(&rewards) {
                *(if has(arm) { &mut with } else { &mut without }) += reward;
                if arm.iter().enumerate().all(|(one, now)| *now || one == layer) {
                    *(if has(arm) { &mut all } else { &mut all_others }) = *reward;
                }
            }
            let sets = (arms.len() as f64 / 2.0).max(1.0);
            mean.entry(task.clone()).or_default().push((with - without) / sets);
            last.entry(task.clone()).or_default().push(all - all_others);
        }
        let interval = |values| Mean::of(values).map(|mean| mean.widened(positions));
        let (mean, added_last) = (interval(mean), interval(last));
        LayerEffect { layer: (*name).to_owned(), outcome: Outcome::of(mean.as_ref()), mean, added_last }
    };
    names.iter().enumerate().map(effect).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four arms of two layers: none, the first, the second, both.
    fn design() -> Vec<Vec<bool>> {
        vec![vec![false, false], vec![true, false], vec![false, true], vec![true, true]]
    }

    fn tested(reward: impl Fn(u64) -> Option<f64>) -> Tested {
        (0..100).map(|place| (place, (format!("task-{place}"), reward(place)))).collect()
    }

    #[test]
    fn a_layer_is_measured_over_all_sets_of_the_others_and_on_top_of_them() {
        // The first layer gives .4 alone and .1 beside the second; the second gives .5 alone and .2 beside the first.
        let arms = [0.2, 0.6, 0.7, 0.8].map(|reward| tested(move |_| Some(reward)));
        let found = effects(&["harness", "weights"], &design(), &arms);
        let means = |of: fn(&LayerEffect) -> Option<Mean>| -> Vec<f64> {
            found.iter().filter_map(of).map(|mean| (mean.mean * 1e6).round() / 1e6).collect()
        };
        assert_eq!(means(|effect| effect.mean), [0.25, 0.35]);
        assert_eq!(means(|effect| effect.added_last), [0.1, 0.2]);
        assert!(found.iter().all(|effect| effect.outcome == Outcome::Improved));
    }

    #[test]
    fn an_effect_without_a_clear_sign_is_no_change_and_a_harmful_one_is_worse() {
        let coin = |place: u64| Some(f64::from(u32::from(place.is_multiple_of(2))));
        let arms = [
            tested(|_| Some(0.5)),
            tested(coin),
            tested(|_| Some(0.2)),
            tested(|place| coin(place).map(|one| one - 0.3)),
        ];
        let found = effects(&["harness", "weights"], &design(), &arms);
        assert_eq!(found[0].outcome, Outcome::NoSignificantChange, "{found:?}");
        assert_eq!(found[1].outcome, Outcome::Worse, "{found:?}");
    }

    #[test]
    fn a_position_counts_only_where_every_arm_is_scored() {
        let half = |reward: f64| tested(move |place| place.is_multiple_of(2).then_some(reward));
        let misleading = tested(|place| Some(if place.is_multiple_of(2) { 0.5 } else { 100.0 }));
        let arms = [half(0.5), half(0.5), half(0.5), misleading];
        let found = effects(&["harness", "weights"], &design(), &arms);
        assert!(found.iter().all(|effect| effect.mean.unwrap().mean.abs() < 1e-9), "{found:?}");
        let nothing = [(); 4].map(|()| tested(|_| None));
        assert_eq!(effects(&["a", "b"], &design(), &nothing)[0].outcome, Outcome::NotMeasured);
    }
}
