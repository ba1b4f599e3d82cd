//! Intervals by the bootstrap over clusters: whole tasks are drawn with replacement (the cluster bootstrap: Field and Welsh,
//! Bootstrapping clustered data, 2007), and the interval is between the percentiles of what the resamples give (Efron and Tibshirani, An
//! Introduction to the Bootstrap, 1993, chapter 13).

use super::Lacking;
use crate::interval::Interval;

/// Resamples: enough for the ends of a 95 % interval, of which 25 lie beyond each.
pub const RESAMPLES: usize = 1000;

/// Fewest tasks for an interval. Four tasks have only 35 different resamples, so that the percentiles would be a few of them.
pub const TASKS_NEEDED: usize = 5;

/// Largest share of resamples without a value. The interval is that of the others, and would be too narrow if these were many.
const UNDEFINED: f64 = 0.1;

/// Share of the resamples beyond each end.
const TAIL: f64 = 0.025;

/// Seed of the draws: equal episodes have equal intervals, and all measures use the same resamples.
const SEED: u64 = 0x636c_6177;

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Draws(u64);

impl Draws {
    /// Uniform in 0..`count`. The bias is below `count` / 2^64.
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mixed = mixed ^ (mixed >> 31);
        ((u128::from(mixed) * count as u128) >> 64) as usize
    }
}

/// The 95 % interval of a statistic, which gets how often each unit was drawn.
pub(super) fn interval(units: usize, mut statistic: impl FnMut(&[u32]) -> Option<f64>) -> Result<Interval, Lacking> {
    if units < TASKS_NEEDED {
        return Err(Lacking::TooFewTasks);
    }
    let mut draws = Draws(SEED);
    let mut drawn = vec![0u32; units];
    let mut found = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        drawn.fill(0);
        for _ in 0..units {
            if let Some(times) = drawn.get_mut(draws.below(units)) {
                *times += 1;
            }
        }
        found.extend(statistic(&drawn));
    }
    if ((RESAMPLES - found.len()) as f64) > UNDEFINED * RESAMPLES as f64 {
        return Err(Lacking::RarelyVaries);
    }
    found.sort_by(f64::total_cmp);
    match (found.first(), found.last(), quantile(&found, TAIL), quantile(&found, 1.0 - TAIL)) {
        (Some(least), Some(most), Some(low), Some(high)) if least < most => Ok(Interval { low, high }),
        _ => Err(Lacking::NoSpread),
    }
}

/// A quantile of sorted values, between neighbours in proportion (Hyndman and Fan 1996, definition 7).
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let below = sorted.get(place.floor() as usize)?;
    let above = sorted.get(place.ceil() as usize)?;
    Some(below + (above - below) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resample_draws_as_many_units_as_there_are_and_equal_calls_draw_the_same() {
        let all = |units: usize| {
            let mut all = Vec::new();
            let _ = interval(units, |drawn| {
                all.push(drawn.to_vec());
                None
            });
            all
        };
        let first = all(7);
        assert_eq!(first.len(), RESAMPLES);
        assert!(first.iter().all(|drawn| drawn.len() == 7 && drawn.iter().sum::<u32>() == 7));
        assert_eq!(first, all(7));
        // Each unit is drawn once on average: 1000 times in all, with a standard deviation of 32.
        for unit in 0..7 {
            let times: u32 = first.iter().map(|drawn| drawn[unit]).sum();
            assert!((850..=1150).contains(&times), "unit {unit}: {times}");
        }
        assert!(all(TASKS_NEEDED - 1).is_empty());
    }

    #[test]
    fn the_interval_of_a_mean_is_near_that_of_the_normal_distribution() {
        // The mean of 0 to 99: its standard error is 28.87 / 10.
        let mean =
            |drawn: &[u32]| Some(drawn.iter().zip(0..).map(|(times, value)| times * value).sum::<u32>() as f64 / 100.0);
        let Interval { low, high } = interval(100, mean).unwrap();
        assert!(
            (low - (49.5 - 1.96 * 2.887)).abs() < 0.6 && (high - (49.5 + 1.96 * 2.887)).abs() < 0.6,
            "{low} {high}"
        );
    }

    #[test]
    fn an_interval_that_the_resamples_do_not_show_is_refused_with_its_reason() {
        assert_eq!(interval(4, |_| Some(1.0)), Err(Lacking::TooFewTasks));
        assert_eq!(interval(9, |_| Some(1.0)), Err(Lacking::NoSpread));
        assert_eq!(interval(9, |_| None), Err(Lacking::RarelyVaries));
        let mut number = 0;
        let mut sometimes = |undefined: u32| {
            interval(9, |_| {
                number += 1;
                (number % 20 >= undefined).then_some(f64::from(number))
            })
        };
        assert!(sometimes(1).is_ok(), "5 % have no value");
        assert_eq!(sometimes(3), Err(Lacking::RarelyVaries), "15 % have no value");
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        let check = |share: f64, expect: Option<f64>| assert_eq!(quantile(&[1.0, 2.0, 4.0], share), expect, "{share}");
        check(0.0, Some(1.0));
        check(0.25, Some(1.5));
        check(0.5, Some(2.0));
        check(0.75, Some(3.0));
        check(1.0, Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
