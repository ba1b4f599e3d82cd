//! Advantages of single trajectories, which have no group.

use super::advantage::{GroupAdvantages, STANDARD_DEVIATION_FLOOR, standard_deviation, varies};
use std::collections::BTreeMap;

/// A trajectory that was played once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Single<'a> {
    /// Class of its task. Trajectories of a class are compared with each other.
    pub class: &'a str,
    /// Its reward, -1 to 1.
    pub reward: f64,
}

/// Sum and number of rewards.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    sum: f64,
    count: f64,
}

impl Total {
    fn with(self, reward: f64) -> Self {
        Self { sum: self.sum + reward, count: self.count + 1.0 }
    }

    /// The mean without one of the rewards; `None` if there is no other.
    fn without(self, reward: f64) -> Option<f64> {
        (self.count > 1.0).then(|| (self.sum - reward) / (self.count - 1.0))
    }
}

/// The advantages of a batch of trajectories, each of its own task: the reward minus the mean reward of the others of its class (RLOO's
/// baseline, which does not depend on the own reward), or of all others if it is the only one of its class; divided by the sample standard
/// deviation of these differences over the whole batch, plus 1e-4 (a normalisation over the batch instead of over a group, as in REINFORCE++: Hu
/// 2025).
///
/// There is no baseline for fewer than two trajectories ([`GroupAdvantages::TooFew`]). There is nothing to learn if all rewards, or all
/// differences, are equal ([`GroupAdvantages::ZeroVariance`]): classes that differ from each other, but not within, teach nothing.
pub fn single_advantages(batch: &[Single<'_>]) -> GroupAdvantages {
    if batch.len() < 2 {
        return GroupAdvantages::TooFew;
    }
    let mut classes: BTreeMap<&str, Total> = BTreeMap::new();
    let mut all = Total::default();
    for Single { class, reward } in batch {
        let total = classes.entry(class).or_default();
        *total = total.with(*reward);
        all = all.with(*reward);
    }
    let baseline = |single: &Single<'_>| {
        let class = classes.get(single.class).copied().unwrap_or_default();
        class.without(single.reward).or_else(|| all.without(single.reward)).unwrap_or_default()
    };
    let differences: Vec<f64> = batch.iter().map(|single| single.reward - baseline(single)).collect();
    if !varies(&differences) {
        return GroupAdvantages::ZeroVariance;
    }
    let scale = 1.0 / (standard_deviation(&differences) + STANDARD_DEVIATION_FLOOR);
    GroupAdvantages::Advantages(differences.into_iter().map(|difference| difference * scale).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(batch: &[(&'static str, f64)]) -> GroupAdvantages {
        let batch: Vec<Single<'_>> = batch.iter().map(|(class, reward)| Single { class, reward: *reward }).collect();
        single_advantages(&batch)
    }

    fn check(batch: &[(&'static str, f64)], expect: &[f64]) {
        let GroupAdvantages::Advantages(got) = of(batch) else { panic!("{batch:?} has no advantages") };
        assert_eq!(got.len(), expect.len());
        got.iter().zip(expect).for_each(|(got, expect)| assert!((got - expect).abs() < 5e-7, "{got} is not {expect}"));
    }

    #[test]
    fn advantages_equal_those_computed_by_hand() {
        // Differences 1 and -1 within the class; sample deviation sqrt 2.
        check(&[("a", 1.0), ("a", 0.0)], &[0.707_057, -0.707_057]);
        // Class a: 1 - 0.5, 0 - 1 twice over two others: (1, 0, 1): 1 - 1/2, 0 - 1, 1 - 1/2. Class b: 0.2 - 0.6, 0.6 - 0.2.
        // Differences 0.5, -1, 0.5, -0.4, 0.4: mean 0, squares 0.25 + 1 + 0.25 + 0.16 + 0.16 = 1.82, deviation sqrt(1.82/4) = 0.674537.
        let scale = 1.0 / (0.674_536_9 + 1e-4);
        let expect = [0.5, -1.0, 0.5, -0.4, 0.4].map(|difference: f64| difference * scale);
        check(&[("a", 1.0), ("a", 0.0), ("a", 1.0), ("b", 0.2), ("b", 0.6)], &expect);
    }

    #[test]
    fn one_of_a_class_is_compared_with_all_others() {
        // 1 - (0 + 0.5)/2 = 0.75; 0 - 0.5 and 0.5 - 0 within class b. Mean 0.25, squares 0.25 + 0.5625 + 0.0625 = 0.875, deviation 0.661438.
        let scale = 1.0 / (0.661_437_8 + 1e-4);
        check(&[("a", 1.0), ("b", 0.0), ("b", 0.5)], &[0.75 * scale, -0.5 * scale, 0.5 * scale]);
    }

    #[test]
    fn one_normalisation_serves_the_whole_batch() {
        // A class of small differences keeps small advantages: no class is blown up to the size of the others.
        let GroupAdvantages::Advantages(got) = of(&[("a", 1.0), ("a", 0.0), ("b", 0.51), ("b", 0.5)]) else { panic!() };
        assert!((got[2] / got[0] - 0.01).abs() < 1e-9, "{got:?}");
    }

    #[test]
    fn the_order_changes_nothing() {
        let GroupAdvantages::Advantages(one) = of(&[("a", 1.0), ("b", 0.0), ("a", 0.25), ("b", 0.5)]) else { panic!() };
        let GroupAdvantages::Advantages(other) = of(&[("b", 0.5), ("a", 0.25), ("b", 0.0), ("a", 1.0)]) else {
            panic!()
        };
        one.iter().zip(other.iter().rev()).for_each(|(one, other)| assert!((one - other).abs() < 1e-12));
    }

    #[test]
    fn batches_without_variance_or_of_one_trajectory_have_no_advantages() {
        assert_eq!(of(&[]), GroupAdvantages::TooFew);
        assert_eq!(of(&[("a", 1.0)]), GroupAdvantages::TooFew);
        assert_eq!(of(&[("a", 1.0), ("a", 1.0)]), GroupAdvantages::ZeroVariance);
        assert_eq!(of(&[("a", 0.5), ("b", 0.5), ("b", 0.5 + 4e-7)]), GroupAdvantages::ZeroVariance);
        // Nothing differs within a class.
        assert_eq!(of(&[("a", 1.0), ("a", 1.0), ("b", 0.0), ("b", 0.0)]), GroupAdvantages::ZeroVariance);
    }
}
