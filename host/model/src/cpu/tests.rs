//! The result of a request does not depend on the rest of its batch.

use super::{Cache, CpuModel, Work};
use crate::{Architecture, Dtype, ModelConfig, RotaryScaling, digest, initial};
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

fn model(architecture: Architecture, dtype: Dtype) -> CpuModel {
    let config = Arc::new(config(architecture));
    CpuModel::new(config.clone(), &initial(&config, 7).kept_as(dtype).unwrap())
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
    for (architecture, dtype) in [
        (Architecture::Llama, Dtype::F32),
        (Architecture::Qwen3, Dtype::F32),
        (Architecture::Qwen2, Dtype::BF16),
        (Architecture::Llama, Dtype::Int8),
        (Architecture::Qwen3, Dtype::Int8),
    ] {
        let model = model(architecture, dtype);
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
    let tokens = text(64, 4);
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    for dtype in Dtype::ALL {
        let model = CpuModel::new(config.clone(), &initial(&config, 5).kept_as(dtype).unwrap());
        let right = pool(1).install(|| alone(&model, &tokens));
        for threads in [2, 3, 7] {
            let found = pool(threads).install(|| alone(&model, &tokens));
            assert_eq!(bits(&found), bits(&right), "{dtype:?}, {threads} threads");
        }
    }
    assert_eq!(digest(&initial(&config, 5)), digest(&initial(&config, 5)));
    assert_ne!(digest(&initial(&config, 5)), digest(&initial(&config, 6)));
}

#[test]
fn halves_answer_with_the_bits_of_their_numbers_in_f32_and_have_their_digest() {
    let config = Arc::new(config(Architecture::Qwen2));
    let tokens = text(40, 2);
    for dtype in [Dtype::BF16, Dtype::F16] {
        let kept = initial(&config, 3).kept_as(dtype).unwrap();
        let plain = kept.kept_as(Dtype::F32).unwrap();
        let [one, other] = [&kept, &plain].map(|weights| alone(&CpuModel::new(config.clone(), weights), &tokens));
        assert_eq!(bits(&one), bits(&other), "{dtype:?}");
        assert_eq!(digest(&kept), digest(&plain), "{dtype:?}");
        assert_eq!(digest(&plain), digest(&plain.in_rows()));
        assert_ne!(digest(&kept), digest(&initial(&config, 3)), "rounded");
    }
    let rounded = initial(&config, 3).kept_as(Dtype::Int8).unwrap();
    assert_ne!(digest(&rounded), digest(&rounded.in_rows()), "products with int8 have other results");
}

#[test]
fn an_adapter_beside_rounded_weights_answers_nearly_as_one_that_is_merged() {
    let config = Arc::new(config(Architecture::Qwen3));
    let host = initial(&config, 7);
    let settings = crate::AdapterSettings { rank: 4, ..Default::default() };
    let mut adapter = crate::AdapterFolder::of(&settings.attach(&host).unwrap(), "").unwrap();
    adapter.shake();
    let tokens = text(30, 3);
    let logits = |dtype| {
        let kept = adapter.attach(&host.kept_as(dtype).unwrap()).unwrap();
        let model = CpuModel::new(config.clone(), &kept);
        let beside = CpuModel::new(config.clone(), &host.kept_as(dtype).unwrap()).adapted(&adapter).unwrap();
        (alone(&model, &tokens), alone(&beside, &tokens))
    };
    let (merged, _) = logits(Dtype::F32);
    let far = |one: &[f32], other: &[f32]| {
        one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0f32, f32::max)
    };
    let plain = alone(&CpuModel::new(config.clone(), &host), &tokens);
    assert!(far(&merged, &plain) > 1.0, "the adapter moves the logits");
    for (dtype, limit) in [(Dtype::BF16, 0.3), (Dtype::Int8, 0.6)] {
        let (kept, beside) = logits(dtype);
        assert_eq!(bits(&kept), bits(&beside), "{dtype:?}: both compute beside the weights");
        let far = far(&kept, &merged);
        assert!(far < limit, "{dtype:?}: {far}");
    }
}
