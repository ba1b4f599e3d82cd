//! Measures how fast a model in a folder or a GGUF file loads and answers on this processor, and the memory that it takes. Each prints one line of JSON;
//! `tests/torch/llama.py` makes the model, and runs it alternately with llama.cpp and PyTorch.
//!
//! ```text
//! cargo bench -p clawhost-model --bench inference -- PATH DTYPE [word | decode | prefill | batch | copy]
//! ```
//!
//! DTYPE is f32, bf16, f16, int8, or `stored`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a bench stops where it fails, and tells"
)]

use clawhost_model::cpu::{Cache, CpuModel, Work};
use clawhost_model::tokens::TextHost;
use clawhost_model::{Dtype, ModelFolder, digest};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Tokens of a prompt, and those that are answered one by one.
const PROMPT: usize = 512;
const ANSWER: usize = 64;
/// Sequences of a batch.
const BATCH: usize = 16;
/// Tokens of a prompt in the batch.
const SHORT: usize = 32;

/// The peak memory of this process in MiB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()).unwrap_or_default() / 1024.0
}

fn text(length: usize, salt: usize) -> Vec<u32> {
    (0..length).map(|place| ((place * 7919 + salt * 104_729 + 13) % 300) as u32).collect()
}

fn step(model: &CpuModel, caches: &mut [Cache], tokens: &[u32]) -> Vec<u32> {
    let mut work: Vec<Work<'_>> =
        caches.iter_mut().zip(tokens).map(|(cache, token)| Work::last(cache, std::slice::from_ref(token))).collect();
    model.forward(&mut work);
    // The tokens follow from the logits, so nothing can be left out.
    work.iter()
        .map(|one| one.logits.iter().enumerate().max_by(|one, other| one.1.total_cmp(other.1)).unwrap().0 as u32 % 300)
        .collect()
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (Some(path), Some(dtype)) = (arguments.next(), arguments.next()) else {
        return println!("name a model and a number format: see the comment of this file");
    };
    let dtype = (dtype != "stored").then(|| Dtype::named(&dtype).unwrap());
    let wanted: Vec<String> = arguments.collect();
    let wants = |name: &str| wanted.iter().any(|one| one == name);
    let started = Instant::now();
    let folder = ModelFolder::read_as(Path::new(&path), &TextHost::InProcess, dtype).unwrap();
    let read = started.elapsed().as_secs_f64();
    let named = digest(&folder.weights).short();
    let (bytes, kept) = (folder.weights.bytes(), folder.weights.embedding.dtype().name());
    let model = CpuModel::new(Arc::new(folder.config.clone()), &folder.weights);
    drop(folder);
    let load = started.elapsed().as_secs_f64();
    if wants("word") {
        step(&model, &mut [model.cache()], &[5]);
        let stored = bytes as f64 / f64::from(1 << 20);
        println!(
            "{}",
            json!({
                "what": "word", "dtype": kept, "read_s": read, "load_s": load, "stored_mib": stored, "peak_mib": peak(),
                "peak_share": peak() / stored, "digest": named,
            })
        );
    }
    if wants("prefill") {
        let tokens = text(PROMPT, 1);
        let times: Vec<f64> = (0..3)
            .map(|_| {
                let mut cache = model.cache();
                let start = Instant::now();
                model.forward(&mut [Work::last(&mut cache, &tokens)]);
                start.elapsed().as_secs_f64()
            })
            .collect();
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        println!("{}", json!({ "what": "prefill", "dtype": kept, "tokens_per_s": PROMPT as f64 / best }));
    }
    if wants("decode") {
        let mut caches = [model.cache()];
        model.forward(&mut [Work::last(&mut caches[0], &text(SHORT, 2))]);
        let mut next = step(&model, &mut caches, &[5]);
        let mut times = Vec::new();
        for _ in 0..ANSWER {
            let start = Instant::now();
            next = step(&model, &mut caches, &next);
            times.push(start.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        println!(
            "{}",
            json!({
                "what": "decode", "dtype": kept, "tokens_per_s": 1.0 / median, "gb_per_s": bytes as f64 / median / 1e9,
            })
        );
    }
    if wants("batch") {
        let mut caches: Vec<Cache> = (0..BATCH).map(|_| model.cache()).collect();
        let texts: Vec<Vec<u32>> = (0..BATCH).map(|salt| text(SHORT, salt)).collect();
        let mut work: Vec<Work<'_>> =
            caches.iter_mut().zip(&texts).map(|(cache, tokens)| Work::last(cache, tokens)).collect();
        model.forward(&mut work);
        let mut next = vec![5; BATCH];
        let start = Instant::now();
        for _ in 0..ANSWER / 4 {
            next = step(&model, &mut caches, &next);
        }
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{}",
            json!({ "what": "batch", "dtype": kept, "tokens_per_s": (BATCH * ANSWER / 4) as f64 / seconds })
        );
    }
    if wants("copy") {
        println!("{}", json!({ "what": "copy", "gb_per_s": reading(bytes as usize) }));
    }
}

/// Gigabytes per second that all threads read from memory together: the sum of as many bytes as the model has.
fn reading(bytes: usize) -> f64 {
    use rayon::prelude::*;
    let values: Vec<u64> = (0..bytes / 8).map(|value| value as u64).collect();
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        let sum: u64 =
            values.par_chunks(1 << 16).map(|part| part.iter().fold(0u64, |sum, value| sum.wrapping_add(*value))).sum();
        assert!(sum != 1);
        best = best.min(start.elapsed().as_secs_f64());
    }
    bytes as f64 / best / 1e9
}
