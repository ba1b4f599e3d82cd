//! The result of a request does not depend on the rest of its batch.

use super::{Cache, CpuModel, Work};
use crate::{Architecture, ModelConfig, RotaryScaling, initial};
use std::sync::Arc;

/// A small model with every switch of its family.
pub(crate) fn config(architecture: Architecture) -> ModelConfig {
    ModelConfig {
        architecture,
        vocabulary: 61,
        width: 48,
        layers: 2,
        heads: 4,
        key_value_heads: 2,
        head_width: 16,
        mlp_width: 70,
        context: 128,
        rotary_base: 10_000.0,
        rotary_scaling: RotaryScaling::None,
        norm_epsilon: 1e-6,
        tied: architecture != Architecture::Llama,
        query_bias: architecture == Architecture::Qwen2,
        output_bias: false,
        query_norm: architecture == Architecture::Qwen3,
        initial_deviation: 0.2,
        end_tokens: vec![1],
    }
}

fn model(architecture: Architecture) -> CpuModel {
    let config = Arc::new(config(architecture));
    CpuModel::new(config.clone(), &initial(&config, 7))
}

fn text(length: usize, salt: u32) -> Vec<u32> {
    (0..length as u32).map(|position| (position * 17 + salt * 31 + 5) % 61).collect()
}

/// Logits after every token of a text that is computed alone and at once.
fn alone(model: &CpuModel, tokens: &[u32]) -> Vec<f32> {
    let mut cache = model.cache();
    let mut work = [Work { cache: &mut cache, tokens, logits: Vec::new(), every: true }];
    model.forward(&mut work);
    let [work] = work;
    work.logits
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

#[test]
fn a_request_gives_equal_bits_alone_in_a_batch_in_chunks_and_after_a_prefix() {
    for architecture in [Architecture::Llama, Architecture::Qwen3] {
        let model = model(architecture);
        let tokens = text(100, 1);
        let right = alone(&model, &tokens);
        let vocabulary = model.config.vocabulary;

        // Among fifteen others, of other lengths.
        let others: Vec<Vec<u32>> = (0..15).map(|number| text(3 + 7 * number, number as u32 + 2)).collect();
        let mut caches: Vec<Cache> = (0..16).map(|_| model.cache()).collect();
        let texts = others.iter().take(7).chain([&tokens]).chain(&others[7..]);
        let mut work: Vec<Work<'_>> = caches
            .iter_mut()
            .zip(texts)
            .map(|(cache, tokens)| Work { cache, tokens, logits: Vec::new(), every: true })
            .collect();
        model.forward(&mut work);
        assert_eq!(bits(&work[7].logits), bits(&right), "among others");

        // In pieces of every size, and token by token.
        for size in [1, 2, 3, 5, 31, 64, 99] {
            let mut cache = model.cache();
            let mut found = Vec::new();
            for piece in tokens.chunks(size) {
                let mut work = [Work { cache: &mut cache, tokens: piece, logits: Vec::new(), every: true }];
                model.forward(&mut work);
                found.extend_from_slice(&work[0].logits);
            }
            assert_eq!(bits(&found), bits(&right), "in pieces of {size}");
        }

        // After a prefix that was computed for a longer text.
        let mut cache = model.cache();
        let longer = [&tokens[..60], &text(40, 9)].concat();
        model.forward(&mut [Work::last(&mut cache, &longer)]);
        cache.truncate(60);
        let mut work = [Work::last(&mut cache, &tokens[60..])];
        model.forward(&mut work);
        assert_eq!(bits(&work[0].logits), bits(&right[99 * vocabulary..]), "behind a prefix");
    }
}

#[test]
fn threads_change_no_bit() {
    // Large enough that threads share products.
    let config = Arc::new(ModelConfig {
        width: 256,
        heads: 8,
        head_width: 32,
        mlp_width: 512,
        vocabulary: 2048,
        ..config(Architecture::Qwen3)
    });
    let model = CpuModel::new(config.clone(), &initial(&config, 5));
    let tokens = text(64, 4);
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let right = pool(1).install(|| alone(&model, &tokens));
    for threads in [2, 3, 7] {
        assert_eq!(bits(&pool(threads).install(|| alone(&model, &tokens))), bits(&right), "{threads} threads");
    }
    assert_eq!(crate::digest(&initial(&config, 5)), crate::digest(&initial(&config, 5)));
    assert_ne!(crate::digest(&initial(&config, 5)), crate::digest(&initial(&config, 6)));
}
