//! Control of the false discovery rate when many entries are tried.

/// Selects by e-values so that the expected share of false discoveries among the selected is at most `q`, under any
/// dependence (e-BH: Wang and Ramdas 2022). It selects the k largest of K values, for the largest k whose k-th largest value
/// is at least `K / (k q)`.
///
/// `values` must contain *all* trials of entries so far in the run. A trial that was decided before keeps the value it was
/// decided with, also if its entry is tried again; without the failures of the past, chance findings would be admitted. NaN is never selected.
pub fn e_bh(values: &[f64], q: f64) -> Vec<bool> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_by(|one, other| other.total_cmp(one));
    let required = |count: usize| values.len() as f64 / (count as f64 * q);
    let smallest = sorted.iter().enumerate().rev().find(|(place, value)| **value >= required(place + 1));
    values.iter().map(|value| smallest.is_some_and(|(_, smallest)| value >= smallest)).collect()
}

/// The least e-value with which one more trial would be selected beside these others by [`e_bh`], which control the false discovery rate at `q`.
pub fn e_bh_threshold(others: &[f64], q: f64) -> f64 {
    let trials = others.len() + 1;
    let required = |count: usize| trials as f64 / (count as f64 * q);
    let is_enough = |count: &usize| others.iter().filter(|value| **value >= required(*count)).count() + 1 >= *count;
    (1..=trials).rev().find(is_enough).map_or(f64::INFINITY, required)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_is_selected_from_its_threshold_on(others in prop::collection::vec(0.0..400.0_f64, 0..12), q in 0.01..0.3_f64) {
            let threshold = e_bh_threshold(&others, q);
            let selects = |own: f64| e_bh(&[&[own][..], &others].concat(), q)[0];
            prop_assert!(selects(threshold));
            prop_assert!(!selects(threshold * (1.0 - 1e-9)));
        }
    }

    #[test]
    fn the_threshold_rises_with_the_number_tried_and_falls_with_the_number_selected() {
        let check = |values: &[f64], expect: &[bool]| assert_eq!(e_bh(values, 0.1), expect, "{values:?}");
        check(&[], &[]);
        check(&[9.9], &[false]);
        check(&[10.0], &[true]);
        check(&[10.0, 1.0], &[false, false]);
        check(&[1.0, 20.0], &[false, true]);
        // Two together need half the value each.
        check(&[10.0, 10.0], &[true, true]);
        // The threshold is 30 / 2 = 15 for two and 30 / 3 = 10 for all three: the second value is too small.
        check(&[30.0, 14.0, 1.0], &[true, false, false]);
        check(&[29.0, 15.0, 1.0], &[true, true, false]);
        // A smaller k may fail where a larger one passes.
        check(&[12.0, 11.0, 10.0], &[true, true, true]);
        check(&[f64::NAN, 20.0], &[false, true]);
        check(&[f64::NAN, 19.0], &[false, false]);
    }

    proptest! {
        #[test]
        fn selection_is_monotone_in_the_evidence(
            values in prop::collection::vec(0.0..200.0_f64, 0..30),
            q in 0.01..0.5_f64,
        ) {
            let admitted = e_bh(&values, q);
            let count = admitted.iter().filter(|admitted| **admitted).count();
            for (value, admitted) in values.iter().zip(&admitted) {
                let enough = count > 0 && *value >= values.len() as f64 / (count as f64 * q);
                prop_assert_eq!(*admitted, enough);
            }
        }
    }
}
