//! From logits to a token.
//!
//! A token is drawn from the distribution after bias, penalties, the mask of a grammar, temperature, top-k, top-p and min-p, in this order,
//! with a generator per request: a draw depends only on the request's seed and on the tokens before it. Two log-probs are
//! recorded: of the model (temperature 1, nothing changed) and of the distribution that was drawn from. Training
//! computes its ratios with the second.

use super::penalties::{Occurred, Penalties};
use crate::TokenMask;
use clawhost_core::derive_seed;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// How tokens are drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0: greedy. Otherwise logits are divided by it.
    pub temperature: f32,
    /// Only this number of most likely tokens. `None`: all.
    pub top_k: Option<usize>,
    /// Only the most likely tokens that together have this probability, 0 to 1. 1: all.
    pub top_p: f32,
    /// Only tokens with at least this share of the highest probability, 0 to 1. 0: all.
    pub min_p: f32,
    /// Added to the logits of single tokens.
    pub bias: Vec<(u32, f32)>,
    /// Make tokens that occurred before less likely.
    pub penalties: Penalties,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
            bias: Vec::new(),
            penalties: Penalties::default(),
        }
    }
}

impl Sampling {
    /// Whether it excludes tokens, so that a ratio of probabilities depends on which.
    pub fn restricts(&self) -> bool {
        self.top_k.is_some() || self.top_p < 1.0 || self.min_p > 0.0
    }

    /// Whether training computes the distribution that was drawn from again: the temperature, and the mask of a grammar, alone.
    pub fn is_trainable(&self) -> bool {
        !self.restricts() && self.bias.is_empty() && self.penalties.are_none()
    }
}

/// A drawn token with its log-probs.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    /// The token.
    pub token: u32,
    /// Natural logarithm of its probability under the model.
    pub logprob_model: f32,
    /// The same in the distribution that it was drawn from. 0 at temperature 0.
    pub logprob_sampled: f32,
    /// The tokens that could have been drawn, sorted, if some were excluded.
    pub kept: Option<Vec<u32>>,
    /// The most likely tokens with their log-probs under the model, the most likely first, as many as were requested.
    pub alternatives: Vec<(u32, f64)>,
}

/// Logarithm of the sum of exponentials, in f64, in the order of the values.
pub(crate) fn log_sum_exp(logits: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = logits.clone().fold(f64::NEG_INFINITY, f64::max);
    most + libm::log(logits.map(|logit| libm::exp(logit - most)).sum::<f64>())
}

/// Draws the tokens of one request.
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: Sampling,
    random: ChaCha8Rng,
    occurred: Occurred,
}

impl Sampler {
    /// A sampler for a request with this prompt and seed. `choice` distinguishes several answers to one request.
    pub fn new(sampling: Sampling, prompt: &[u32], seed: u64, choice: u64) -> Self {
        // Without penalties nothing depends on them.
        let occurred = if sampling.penalties.are_none() { Occurred::default() } else { Occurred::in_prompt(prompt) };
        Self { sampling, random: ChaCha8Rng::seed_from_u64(derive_seed(seed, "sample", choice)), occurred }
    }

    /// Draws the next token, of those that the mask allows. Every draw takes one number from the generator.
    pub fn draw(&mut self, logits: &[f32], mask: Option<&TokenMask>) -> Drawn {
        let drawn = self.drawn(logits, mask);
        if !self.sampling.penalties.are_none() {
            self.occurred.note(drawn.token);
        }
        drawn
    }

    fn drawn(&mut self, logits: &[f32], mask: Option<&TokenMask>) -> Drawn {
        let uniform = ((self.random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let model_sum = log_sum_exp(logits.iter().map(|logit| f64::from(*logit)));
        let logprob_model = |token: u32| {
            logits.get(token as usize).map_or(f32::NEG_INFINITY, |logit| (f64::from(*logit) - model_sum) as f32)
        };
        let mut biased = self.biased(logits);
        self.occurred.penalise(&self.sampling.penalties, &mut biased);
        if let Some(mask) = mask {
            mask.exclude(&mut biased, f64::NEG_INFINITY);
        }
        if self.sampling.temperature <= 0.0 {
            let token = most_likely(&biased);
            let logprob_model = logprob_model(token);
            return Drawn { token, logprob_model, logprob_sampled: 0.0, kept: None, alternatives: Vec::new() };
        }
        let scaled: Vec<f64> = biased.iter().map(|logit| logit / f64::from(self.sampling.temperature)).collect();
        let kept = self.sampling.restricts().then(|| self.kept(&scaled));
        let allowed = |token: usize| kept.as_ref().is_none_or(|kept| kept.binary_search(&(token as u32)).is_ok());
        let of = || scaled.iter().enumerate().filter(|(token, _)| allowed(*token));
        // The distribution may be the model's own, whose sum is known.
        let is_model = self.sampling.is_trainable() && mask.is_none() && self.sampling.temperature == 1.0;
        let sum = if is_model { model_sum } else { log_sum_exp(of().map(|(_, logit)| *logit)) };
        let mut passed = 0.0;
        let mut chosen = None;
        for (token, logit) in of() {
            // Rounding may leave the sum slightly below 1: the last possible token takes the rest.
            passed += libm::exp(logit - sum);
            if logit.is_finite() {
                chosen = Some((token as u32, *logit));
            }
            if uniform < passed && chosen.is_some() {
                break;
            }
        }
        let (token, logit) = chosen.unwrap_or((0, sum));
        let (logprob_model, logprob_sampled) = (logprob_model(token), (logit - sum) as f32);
        Drawn { token, logprob_model, logprob_sampled, kept, alternatives: Vec::new() }
    }

    fn biased(&self, logits: &[f32]) -> Vec<f64> {
        let mut biased: Vec<f64> = logits.iter().map(|logit| f64::from(*logit)).collect();
        for (token, bias) in &self.sampling.bias {
            if let Some(logit) = biased.get_mut(*token as usize) {
                *logit += f64::from(*bias);
            }
        }
        biased
    }

    /// The tokens that may be drawn, sorted. Of equally likely ones the smaller numbers come first.
    fn kept(&self, scaled: &[f64]) -> Vec<u32> {
        let sum = log_sum_exp(scaled.iter().copied());
        let mut order: Vec<(u32, f64)> =
            (0..).zip(scaled).map(|(token, logit)| (token, libm::exp(logit - sum))).collect();
        order.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        order.truncate(self.sampling.top_k.unwrap_or(usize::MAX).max(1));
        let most = order.first().map_or(0.0, |(_, share)| *share);
        // Top-p is a share of what top-k left, as in transformers.
        let whole: f64 = order.iter().map(|(_, share)| share).sum();
        let mut passed = 0.0;
        let mut kept: Vec<u32> = Vec::new();
        for (token, share) in order {
            let enough =
                passed >= f64::from(self.sampling.top_p) * whole || share < most * f64::from(self.sampling.min_p);
            if enough && !kept.is_empty() {
                break;
            }
            passed += share;
            kept.push(token);
        }
        kept.sort_unstable();
        kept
    }
}

/// The most likely token. Of equally likely ones the smallest number.
fn most_likely(logits: &[f64]) -> u32 {
    let mut best = (0, f64::NEG_INFINITY);
    for (token, logit) in (0..).zip(logits) {
        if *logit > best.1 {
            best = (token, *logit);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(sampling: Sampling, logits: &[f32], seed: u64) -> Drawn {
        Sampler::new(sampling, &[], seed, 0).draw(logits, None)
    }

    #[test]
    fn tokens_are_drawn_with_their_probabilities() {
        let logits = [0.0f32, 1.0, 2.0, -1.0];
        let mut sampler = Sampler::new(Sampling::default(), &[], 7, 0);
        let mut counts = [0.0f64; 4];
        (0..20_000).for_each(|_| counts[sampler.draw(&logits, None).token as usize] += 1.0 / 20_000.0);
        let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
        for (count, logit) in counts.iter().zip(logits) {
            assert!((count - f64::from(logit).exp() / sum).abs() < 0.012, "{counts:?}");
        }
    }

    #[test]
    fn both_log_probs_match_their_distributions() {
        let logits = [0.0f32, 2.0, 1.0];
        let drawn = draw(Sampling { temperature: 0.5, top_k: Some(1), ..Sampling::default() }, &logits, 1);
        let model = 2.0 - (1.0f64 + 2.0f64.exp() + 1.0f64.exp()).ln();
        assert_eq!((drawn.token, drawn.logprob_sampled, drawn.kept), (1, 0.0, Some(vec![1])));
        assert!((f64::from(drawn.logprob_model) - model).abs() < 1e-6);
        let drawn = draw(
            Sampling { temperature: 2.0, bias: vec![(0, -100.0), (2, -100.0)], ..Sampling::default() },
            &logits,
            1,
        );
        assert_eq!((drawn.token, drawn.kept.clone()), (1, None));
        assert!(
            drawn.logprob_sampled.abs() < 1e-6 && (f64::from(drawn.logprob_model) - model).abs() < 1e-6,
            "{drawn:?}"
        );
    }

    #[test]
    fn a_mask_that_allows_all_changes_nothing() {
        let logits: Vec<f32> = (0..50u16).map(|token| f32::from(token * 37 % 50) / 7.0).collect();
        let mask = TokenMask::of(50, &(0..50).collect::<Vec<u32>>());
        for seed in 0..50 {
            let drawn = |mask| Sampler::new(Sampling::default(), &[], seed, 0).draw(&logits, mask);
            assert_eq!(drawn(None), drawn(Some(&mask)), "{seed}");
        }
    }

    #[test]
    fn restrictions_keep_the_most_likely_tokens() {
        let logits = [0.0f32, 2.0, 1.0, 2.0];
        let check = |sampling: Sampling, expect: &[u32]| {
            let drawn = draw(sampling.clone(), &logits, 3);
            assert_eq!(drawn.kept.as_deref(), Some(expect), "{sampling:?}");
            assert!(expect.contains(&drawn.token));
        };
        check(Sampling { top_k: Some(2), ..Sampling::default() }, &[1, 3]);
        check(Sampling { top_k: Some(0), ..Sampling::default() }, &[1]);
        check(Sampling { top_p: 0.5, ..Sampling::default() }, &[1, 3]);
        check(Sampling { top_p: 0.0, ..Sampling::default() }, &[1]);
        check(Sampling { min_p: 0.2, ..Sampling::default() }, &[1, 2, 3]);
        check(Sampling { top_k: Some(9), top_p: 0.99999, ..Sampling::default() }, &[0, 1, 2, 3]);
    }

    #[test]
    fn temperature_0_is_greedy_and_otherwise_the_seed_decides() {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        assert_eq!(draw(greedy, &[1.0, 3.0, 3.0], 1).token, 1);
        let row = |seed, choice| {
            let mut sampler = Sampler::new(Sampling::default(), &[], seed, choice);
            (0..20).map(|_| sampler.draw(&[0.0; 8], None).token).collect::<Vec<_>>()
        };
        assert_eq!(row(1, 0), row(1, 0));
        assert_ne!(row(1, 0), row(1, 1));
        assert_ne!(row(1, 0), row(2, 0));
    }
    #[test]
    fn a_mask_excludes_tokens_and_the_models_own_log_prob_stays() {
        let logits = [0.0f32, 2.0, 1.0, 2.0];
        let mask = TokenMask::of(4, &[0, 2]);
        let mut sampler = Sampler::new(Sampling::default(), &[], 1, 0);
        let all: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
        for _ in 0..50 {
            let drawn = sampler.draw(&logits, Some(&mask));
            let own = f64::from(logits[drawn.token as usize]);
            assert!([0, 2].contains(&drawn.token), "{drawn:?}");
            assert!((f64::from(drawn.logprob_model) - (own - all.ln())).abs() < 1e-6);
            assert!((f64::from(drawn.logprob_sampled) - (own - (1.0 + 1.0f64.exp()).ln())).abs() < 1e-6);
        }
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        assert_eq!(Sampler::new(greedy, &[], 1, 0).draw(&logits, Some(&mask)).token, 2);
    }

    #[test]
    fn penalties_follow_the_prompt_and_the_answer() {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        let row = |penalties: Penalties, prompt: &[u32]| {
            let mut sampler = Sampler::new(Sampling { penalties, ..greedy.clone() }, prompt, 1, 0);
            (0..4).map(|_| sampler.draw(&[3.0, 2.5, 1.0], None).token).collect::<Vec<_>>()
        };
        let none = Penalties::default();
        assert_eq!(row(none, &[0]), [0, 0, 0, 0]);
        assert_eq!(row(Penalties { presence: 1.0, ..none }, &[0]), [0, 1, 0, 0]);
        assert_eq!(row(Penalties { frequency: 1.0, ..none }, &[0]), [0, 1, 0, 1]);
        assert_eq!(row(Penalties { repetition: 4.0, ..none }, &[0]), [1, 2, 0, 0]);
    }
}
