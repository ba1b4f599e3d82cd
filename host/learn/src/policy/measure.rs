//! Success measures over several tries.

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

/// Mean reward of the first `k` tries; `None` if there are fewer or `k` is 0. Average over tasks.
pub fn mean_at_k(rewards: &[f64], k: usize) -> Option<f64> {
    let first = rewards.get(..k).filter(|first| !first.is_empty())?;
    Some(first.iter().sum::<f64>() / k as f64)
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

    #[test]
    fn mean_at_k_uses_exactly_k_rewards() {
        assert_eq!(mean_at_k(&[1.0, 0.0, 0.5, 1.0], 2), Some(0.5));
        assert_eq!(mean_at_k(&[1.0], 2), None);
        assert_eq!(mean_at_k(&[1.0], 0), None);
    }
}
