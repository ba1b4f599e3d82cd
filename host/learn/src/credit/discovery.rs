//! Who is admitted when many were tried.

/// Who is admitted by these e-values so that the expected share of false ones among the admitted is at most `q` (e-BH,
/// Wang and Ramdas 2022): the k largest, for the largest k of which the smallest is at least `K / (k q)`, however they
/// depend on each other.
///
/// `values` are those of *all* entries tried so far in the run, K of them: who was decided is there with the value it
/// was decided with, or old failures would be forgotten and luck would look like skill. What is no number admits
/// nobody.
pub fn e_bh(values: &[f64], q: f64) -> Vec<bool> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_by(|one, other| other.total_cmp(one));
    let required = |count: usize| values.len() as f64 / (count as f64 * q);
    let smallest = sorted.iter().enumerate().rev().find(|(place, value)| **value >= required(place + 1));
    values.iter().map(|value| smallest.is_some_and(|(_, smallest)| value >= smallest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_more_are_tried_the_more_is_asked_and_the_more_help_the_less() {
        let check = |values: &[f64], expect: &[bool]| assert_eq!(e_bh(values, 0.1), expect, "{values:?}");
        check(&[], &[]);
        check(&[9.9], &[false]);
        check(&[10.0], &[true]);
        check(&[10.0, 1.0], &[false, false]);
        check(&[1.0, 20.0], &[false, true]);
        // Two together need half as much each.
        check(&[10.0, 10.0], &[true, true]);
        // The second alone would be too little, and the first carries nobody: 30 / 3 = 10 for three, 15 for two.
        check(&[30.0, 14.0, 1.0], &[true, false, false]);
        check(&[29.0, 15.0, 1.0], &[true, true, false]);
        // A smaller k may fail where a larger one holds.
        check(&[12.0, 11.0, 10.0], &[true, true, true]);
        check(&[f64::NAN, 20.0], &[false, true]);
        check(&[f64::NAN, 19.0], &[false, false]);
    }

    proptest! {
        #[test]
        fn who_has_more_evidence_is_never_refused_before_who_has_less(
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
