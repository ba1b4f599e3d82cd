//! Success measures over several tries at a task.

use crate::interval::{ClusteredMean, Interval};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A reward below the best possible one by less than this is a success: rewards are sums of rounded numbers.
const EQUAL: f64 = 1e-6;

/// The scored tries of a group: episodes of one task and environment seed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupTries {
    /// The task.
    pub task: String,
    /// Rewards of the scored tries.
    pub rewards: Vec<f64>,
}

/// A mean over groups.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Averaged {
    /// The mean.
    pub mean: f64,
    /// Its 95 % interval, with the task as the unit. `None`: fewer than two tasks.
    pub interval: Option<Interval>,
}

/// What `k` tries give, estimated from all tries of each group: the expectation over draws of k of them without replacement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TriesMeasure {
    /// The number of tries.
    pub k: u64,
    /// Groups with at least `k` scored tries. The others are left out.
    pub groups: u64,
    /// pass@k: the probability that at least one of k tries has the best possible reward.
    pub pass: Averaged,
    /// mean@k: the mean reward of k tries.
    pub mean: Averaged,
    /// Best of k: the expected largest reward of k tries.
    pub best: Averaged,
}

/// Unbiased estimate of the probability that at least one of `k` tries succeeds: `1 - C(n - c, k) / C(n, k)` with n tries
/// and c successes (Chen et al. 2021). The plug-in estimate `1 - (1 - c/n)^k` is biased. In 0 to 1; `None` if `k` is 0 or
/// greater than `tries`, or `successes` exceeds `tries`. Average over tasks.
pub fn pass_at_k(tries: u64, successes: u64, k: u64) -> Option<f64> {
    if k == 0 || k > tries || successes > tries {
        return None;
    }
    let failures = tries - successes;
    if failures < k {
        return Some(1.0);
    }
    // C(n - c, k) / C(n, k) as a product, which cannot overflow.
    let none = (failures + 1..=tries).map(|tried| 1.0 - k as f64 / tried as f64).product::<f64>();
    Some(1.0 - none)
}

/// Expected largest reward of `k` of these tries, drawn without replacement: the sum of `r_(i) C(i - 1, k - 1) / C(m, k)` over the m
/// rewards in ascending order. `None` if `k` is 0 or there are fewer tries.
fn best_of_k(rewards: &[f64], k: u64) -> Option<f64> {
    let tries = rewards.len() as u64;
    if k == 0 || k > tries {
        return None;
    }
    let mut sorted = rewards.to_vec();
    sorted.sort_by(|one, other| other.total_cmp(one));
    // The weight of the largest is k / m. Each next one follows from C(i - 2, k - 1) / C(i - 1, k - 1) = (i - k) / (i - 1).
    let mut weight = k as f64 / tries as f64;
    let mut sum = 0.0;
    for (place, reward) in (k..=tries).rev().zip(sorted) {
        sum += weight * reward;
        weight *= (place - k) as f64 / (place as f64 - 1.0).max(1.0);
    }
    Some(sum)
}

fn averaged(groups: &[(&str, f64)]) -> Option<Averaged> {
    let mut tasks: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (task, value) in groups {
        tasks.entry(task).or_default().push(*value);
    }
    let found = ClusteredMean::of(&tasks.into_values().collect::<Vec<_>>())?;
    Some(Averaged { mean: found.mean, interval: found.interval() })
}

fn measure(groups: &[GroupTries], best: f64, k: u64) -> Option<TriesMeasure> {
    let enough: Vec<&GroupTries> = groups.iter().filter(|group| group.rewards.len() as u64 >= k).collect();
    let average = |value: fn(&[f64], f64, u64) -> Option<f64>| {
        let values = enough.iter().filter_map(|group| Some((group.task.as_str(), value(&group.rewards, best, k)?)));
        averaged(&values.collect::<Vec<_>>())
    };
    Some(TriesMeasure {
        k,
        groups: enough.len() as u64,
        pass: average(|rewards, best, k| {
            let successes = rewards.iter().filter(|reward| **reward >= best - EQUAL).count();
            pass_at_k(rewards.len() as u64, successes as u64, k)
        })?,
        // The mean of all tries is the expectation for every k, and varies less than the mean of some.
        mean: average(|rewards, _, _| Some(rewards.iter().sum::<f64>() / rewards.len() as f64))?,
        best: average(|rewards, _, k| best_of_k(rewards, k))?,
    })
}

/// What 1, 2, 4, ... tries give, and as many as the largest group has. Empty: no group has two scored tries. `best` is the best
/// possible reward.
pub fn tries_measures(groups: &[GroupTries], best: f64) -> Vec<TriesMeasure> {
    let most = groups.iter().map(|group| group.rewards.len() as u64).max().unwrap_or(0);
    if most < 2 {
        return Vec::new();
    }
    let doubled = std::iter::successors(Some(1_u64), |k| k.checked_mul(2)).take_while(|k| *k < most);
    doubled.chain([most]).filter_map(|k| measure(groups, best, k)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_at_k_equals_known_values() {
        let check = |tries, successes, k, expect: Option<f64>| {
            let got = pass_at_k(tries, successes, k);
            let is_close = got.zip(expect).is_none_or(|(got, expect)| (got - expect).abs() < 1e-12);
            assert!(got.is_some() == expect.is_some() && is_close, "{tries}, {successes}, {k}: {got:?}");
        };
        check(10, 3, 1, Some(0.3));
        // 3 of the 10 pairs of 5 tries have no success.
        check(5, 2, 2, Some(1.0 - 3.0 / 10.0));
        check(5, 2, 4, Some(1.0));
        check(4, 0, 4, Some(0.0));
        check(4, 4, 1, Some(1.0));
        check(200, 10, 100, Some(1.0 - 0.0007710260627179));
        check(4, 1, 5, None);
        check(4, 1, 0, None);
        check(4, 5, 1, None);
    }

    #[test]
    fn pass_at_k_equals_the_count_over_all_draws() {
        for tries in 1..=8_u64 {
            for successes in 0..=tries {
                for k in 1..=tries {
                    let draws = (0..1_u64 << tries).filter(|draw| u64::from(draw.count_ones()) == k);
                    let (with, all) = draws.fold((0.0, 0.0), |(with, all), draw| {
                        (with + f64::from(u8::from(draw & ((1 << successes) - 1) != 0)), all + 1.0)
                    });
                    assert!((pass_at_k(tries, successes, k).unwrap() - with / all).abs() < 1e-12);
                }
            }
        }
    }

    fn group(task: &str, rewards: &[f64]) -> GroupTries {
        GroupTries { task: task.to_owned(), rewards: rewards.to_vec() }
    }

    #[test]
    fn the_best_of_k_is_the_mean_over_all_draws() {
        // python3: mean(max(d) for d in itertools.combinations([.1, .5, .9, .4], 2))
        assert!((best_of_k(&[0.1, 0.5, 0.9, 0.4], 2).unwrap() - 0.683_333_333_333_333_3).abs() < 1e-12);
        // python3: mean(max(d) for d in itertools.combinations([-1, .25, .25, 0, 1], 3))
        assert!((best_of_k(&[-1.0, 0.25, 0.25, 0.0, 1.0], 3).unwrap() - 0.7).abs() < 1e-12);
        assert_eq!(best_of_k(&[0.5], 2), None);
        assert_eq!(best_of_k(&[0.5], 0), None);
        for tries in 1..=7_u32 {
            let rewards: Vec<f64> = (0..tries).map(|one| f64::from((one * 5) % 7) / 7.0 - 0.3).collect();
            for k in 1..=tries {
                let draws = (0..1_u32 << tries).filter(|draw| draw.count_ones() == k);
                let largest = |draw: u32| {
                    let drawn = rewards.iter().enumerate().filter(|(place, _)| draw >> place & 1 == 1);
                    drawn.map(|(_, reward)| *reward).fold(f64::NEG_INFINITY, f64::max)
                };
                let (sum, count) = draws.fold((0.0, 0.0), |(sum, count), draw| (sum + largest(draw), count + 1.0));
                let got = best_of_k(&rewards, u64::from(k)).unwrap();
                assert!((got - sum / count).abs() < 1e-12, "{k} of {tries}: {got}");
            }
        }
    }

    #[test]
    fn measures_equal_an_independent_computation() {
        // from itertools import combinations as C; from statistics import mean
        // g = {"a": [[1, 0, 0, .5], [0, 0, 1, 1]], "b": [[0, 0, 0, 0]], "c": [[1, .5, 0]]}
        // for k in (1, 2, 4):
        //   all = [x for t in g.values() for x in t if len(x) >= k]
        //   print(k, mean(mean(max(d) >= 1 for d in C(x, k)) for x in all), mean(mean(x) for x in all),
        //         mean(mean(max(d) for d in C(x, k)) for x in all))
        let groups = [
            group("a", &[1.0, 0.0, 0.0, 0.5]),
            group("a", &[0.0, 0.0, 1.0, 1.0]),
            group("b", &[0.0; 4]),
            group("c", &[1.0, 0.5, 0.0]),
        ];
        let found = tries_measures(&groups, 1.0);
        let check = |at: usize, k: u64, count: u64, expect: [f64; 3]| {
            let TriesMeasure { pass, mean, best, .. } = found[at];
            assert_eq!((found[at].k, found[at].groups), (k, count));
            for (got, expect) in [pass, mean, best].into_iter().zip(expect) {
                assert!((got.mean - expect).abs() < 1e-12, "k = {k}: {} instead of {expect}", got.mean);
            }
        };
        check(0, 1, 4, [0.270_833_333_333_333_3, 0.34375, 0.34375]);
        check(1, 2, 4, [0.5, 0.34375, 0.583_333_333_333_333_4]);
        check(2, 4, 3, [2.0 / 3.0, 0.291_666_666_666_666_7, 2.0 / 3.0]);
        assert_eq!(found.len(), 3);
        // Two groups of one task are one unit: values .25, .5 | 0 | 1/3 about their mean 13/48.
        let residuals: f64 = [0.75 - 26.0 / 48.0, -13.0 / 48.0, 1.0 / 3.0 - 13.0 / 48.0].iter().map(|r| r * r).sum();
        let half = 4.303 * (residuals * 1.5 / 16.0_f64).sqrt();
        let interval = found[0].pass.interval.unwrap();
        assert!((interval.high - interval.low - 2.0 * half).abs() < 1e-9, "{interval:?}");
    }

    #[test]
    fn tries_are_doubled_up_to_the_largest_group_and_need_two() {
        let ks = |tries: usize| -> Vec<u64> {
            let groups = [group("a", &vec![1.0; tries]), group("b", &[0.0])];
            tries_measures(&groups, 1.0).iter().map(|measure| measure.k).collect()
        };
        assert!(ks(1).is_empty());
        assert_eq!(ks(2), [1, 2]);
        assert_eq!(ks(8), [1, 2, 4, 8]);
        assert_eq!(ks(10), [1, 2, 4, 8, 10]);
        assert!(tries_measures(&[], 1.0).is_empty());
        let graded = tries_measures(&[group("a", &[0.9, 1.0 - 1e-9])], 1.0);
        assert_eq!(graded[0].pass.mean, 0.5, "rounding is no failure");
        assert_eq!(graded[0].pass.interval, None, "one task has no interval");
    }

    #[test]
    fn of_rewards_that_are_0_or_1_the_best_of_k_is_pass_at_k() {
        for successes in 0..=6_u32 {
            let rewards: Vec<f64> = (0..6).map(|one| f64::from(u8::from(one < successes))).collect();
            for measure in tries_measures(&[group("a", &rewards)], 1.0) {
                assert!((measure.pass.mean - measure.best.mean).abs() < 1e-12, "{successes}: {measure:?}");
            }
        }
    }
}
