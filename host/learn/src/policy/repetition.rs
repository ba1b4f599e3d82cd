//! How much the answers of an episode repeat themselves.

use std::collections::BTreeSet;

/// Tokens of an n-gram, as in the usual measure rep-4.
const TOKENS: usize = 4;

/// The share of n-grams of four tokens that occurred before in the same episode: `1 - distinct / all` (rep-n: Welleck et al.
/// 2020). N-grams do not cross answers. `None`: every answer is shorter than an n-gram.
pub fn repetition<'a>(answers: impl IntoIterator<Item = &'a [u32]>) -> Option<f64> {
    let (mut all, mut distinct) = (0_u64, BTreeSet::new());
    for gram in answers.into_iter().flat_map(|answer| answer.windows(TOKENS)) {
        all += 1;
        distinct.insert(gram);
    }
    (all > 0).then(|| 1.0 - distinct.len() as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_parts_are_counted_within_and_across_answers() {
        let check = |answers: &[&[u32]], expect: Option<f64>| {
            assert_eq!(repetition(answers.iter().copied()), expect, "{answers:?}");
        };
        check(&[], None);
        check(&[&[1, 2, 3], &[4, 5, 6]], None);
        check(&[&[1, 2, 3, 4, 5]], Some(0.0));
        check(&[&[1, 1, 1, 1, 1]], Some(0.5));
        check(&[&[1, 2, 3, 4], &[1, 2, 3, 4]], Some(0.5));
        check(&[&[1, 2], &[3, 4], &[1, 2, 3, 4]], Some(0.0));
    }
}
