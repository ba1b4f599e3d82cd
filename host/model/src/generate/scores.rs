//! Log-probs of given tokens, and the most likely tokens beside them.

use super::sampler::log_sum_exp;
use rayon::prelude::*;

/// Logits of scored tokens that are held at once, of all requests together: 64 MiB.
const LOGITS_AT_ONCE: usize = 16 << 20;

/// The score of a given token.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// Natural logarithm of its probability under the model.
    pub logprob: f64,
    /// The most likely tokens at its position with their log-probs, the most likely first.
    pub alternatives: Vec<(u32, f64)>,
}

/// Positions that may be scored in one round, of all requests together: at least one.
pub(super) fn positions(vocabulary: usize) -> usize {
    (LOGITS_AT_ONCE / vocabulary.max(1)).max(1)
}

/// The scores of tokens, each with the logits that predict it. Logits are divided by `temperature`, which is above 0.
pub(super) fn scores(
    (logits, vocabulary): (&[f32], usize),
    tokens: &[u32],
    temperature: f32,
    alternatives: usize,
) -> Vec<Scored> {
    let rows = logits.par_chunks_exact(vocabulary.max(1)).zip(tokens);
    let divided = move |logit: &f32| f64::from(*logit) / f64::from(temperature);
    rows.map(|(row, token)| {
        let sum = log_sum_exp(row.iter().map(divided));
        let logit = row.get(*token as usize).map_or(f64::NEG_INFINITY, divided);
        Scored { logprob: (logit - sum).min(0.0), alternatives: most_likely(row, divided, sum, alternatives) }
    })
    .collect()
}

/// The most likely tokens with their log-probs. Of equally likely ones the smaller numbers come first.
pub(super) fn alternatives(logits: &[f32], count: usize) -> Vec<(u32, f64)> {
    if count == 0 {
        return Vec::new();
    }
    let plain = |logit: &f32| f64::from(*logit);
    most_likely(logits, plain, log_sum_exp(logits.iter().map(plain)), count)
}

/// `value` is what a logit counts for, and `sum` the logarithm of the sum of all of their exponentials.
fn most_likely(logits: &[f32], value: impl Fn(&f32) -> f64, sum: f64, count: usize) -> Vec<(u32, f64)> {
    let mut best: Vec<(u32, f32)> = Vec::with_capacity(count + 1);
    for (token, logit) in (0..).zip(logits) {
        if best.len() == count && best.last().is_none_or(|(_, least)| logit <= least) {
            continue;
        }
        let place = best.partition_point(|(_, known)| known >= logit);
        best.insert(place, (token, *logit));
        best.truncate(count);
    }
    best.into_iter().map(|(token, logit)| (token, (value(&logit) - sum).min(0.0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_likely_tokens_come_in_order() {
        let logits = [0.0f32, 2.0, 1.0, 2.0];
        let check = |count: usize, expect: &[u32]| {
            let found = alternatives(&logits, count);
            assert_eq!(found.iter().map(|(token, _)| *token).collect::<Vec<_>>(), expect);
            let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
            for (token, logprob) in found {
                assert!((logprob - (f64::from(logits[token as usize]).exp() / sum).ln()).abs() < 1e-12);
            }
        };
        check(0, &[]);
        check(1, &[1]);
        check(3, &[1, 3, 2]);
        check(9, &[1, 3, 2, 0]);
    }

    #[test]
    fn scores_are_those_at_the_temperature() {
        let logits = [0.0f32, 2.0, 1.0, 2.0];
        let found = scores((&logits, 4), &[2], 0.5, 2);
        let sum: f64 = logits.iter().map(|logit| (2.0 * f64::from(*logit)).exp()).sum();
        assert!((found[0].logprob - (2.0 - sum.ln())).abs() < 1e-12, "{found:?}");
        assert!((found[0].alternatives[0].1 - (4.0 - sum.ln())).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn the_logits_of_a_round_are_bounded() {
        assert_eq!(positions(1 << 18) * (1 << 18), LOGITS_AT_ONCE);
        assert_eq!(positions(usize::MAX), 1);
    }
}
