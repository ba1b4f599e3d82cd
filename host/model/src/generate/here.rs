//! Scores of given tokens on the thread that asks.

use super::engine::{Engine, PREFILL};
use super::model::NewTokens;
use super::request::Request;
use super::sampler::Sampling;
use super::scores::{self, Scored};
use crate::LocalModelError;
use clawhost_core::Partition;

impl Engine {
    /// The scores of given tokens from the second on, as a request without new tokens gets them. They are computed on this thread with the threads of
    /// its pool, and not on the engine's: work in the background keeps its priority and its number of threads. `temperature` is above 0; `alternatives`
    /// is the number of likely tokens that are named at every position.
    ///
    /// # Errors
    /// As [`Engine::ask`].
    pub fn score_here(
        &self,
        tokens: &[u32],
        temperature: f32,
        alternatives: usize,
    ) -> Result<Vec<Scored>, LocalModelError> {
        let version = self.current();
        let vocabulary = version.model.config().vocabulary;
        self.check(&Request {
            prompt: tokens.to_vec(),
            sampling: Sampling { temperature, ..Sampling::default() },
            grammar: None,
            seed: 0,
            choice: 0,
            max_tokens: 0,
            alternatives,
            end: Vec::new(),
            partition: Partition::OWN,
        })?;
        let most = PREFILL.min(version.model.scored_at_once()).min(scores::positions(vocabulary)).max(1);
        let mut memory = version.model.memory();
        let mut all = Vec::with_capacity(tokens.len());
        for (number, piece) in tokens.chunks(most).enumerate() {
            let work = NewTokens { memory: &mut memory, tokens: piece, every: true };
            let logits = version.model.forward(vec![work])?.pop().unwrap_or_default();
            if !logits.iter().all(|logit| logit.is_finite()) {
                return Err(LocalModelError::Logits);
            }
            // The last logits predict what follows, which nobody gave.
            let next = tokens.get(number * most + 1..).unwrap_or_default();
            all.extend(scores::scores((&logits, vocabulary), next, temperature, alternatives));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ComputeDevice;
    use crate::{TinyModel, TokenCalls};
    use clawhost_core::Teacher as _;

    #[tokio::test]
    async fn scores_of_this_thread_are_those_of_the_engine_bit_for_bit() {
        let tiny = TinyModel { context: 600, seed: 3, ..TinyModel::default() };
        let model = tiny.make().unwrap().open("tiny", &ComputeDevice::processor()).unwrap();
        let calls = TokenCalls::new(model.clone());
        // Longer than what is computed at once.
        let tokens: Vec<u32> = (0..PREFILL as u32 * 2 + 7).map(|number| number * 7 % 16).collect();
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let here = pool.install(|| model.engine().score_here(&tokens, 0.7, 3)).unwrap();
            let there = calls.teach(&tokens, 0.7, 3).await.unwrap();
            assert_eq!((here.len(), there.len()), (tokens.len() - 1, tokens.len() - 1));
            for (here, there) in here.iter().zip(&there) {
                assert_eq!(here.logprob.to_bits(), there.logprob.to_bits());
                assert_eq!(here.alternatives, there.likely);
            }
        }
        for wrong in [vec![], vec![99], vec![1; 601]] {
            assert!(model.engine().score_here(&wrong, 1.0, 0).is_err(), "{} tokens", wrong.len());
        }
    }
}
