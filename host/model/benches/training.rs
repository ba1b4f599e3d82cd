//! Measures how fast a model answers and learns on this processor. Each part runs in a process of its own, so that its
//! peak memory is its own. Each prints one line of JSON. `tests/torch/bench.py` runs it alternately with PyTorch.
//!
//! ```text
//! cargo bench -p clawhost-model --bench training --profile dev -- grpo | train | decode
//! cargo bench -p clawhost-model --bench training --profile dev -- lora PATH DTYPE SEQUENCES
//! ```
//!
//! `lora` trains an adapter of rank 16 beside the model of a folder: texts of 256 tokens, of which the last 128 are trained.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a bench stops where it fails, and tells"
)]

use clawhost_model::cpu::{Cache, CpuModel, Work};
use clawhost_model::generate::{Engine, Request, Sampling, Version};
use clawhost_model::tokens::TextHost;
use clawhost_model::train::{OptimizerSettings, Rule, Schedule, Sequence, TokenScores, Trained, Trainer, Wanted};
use clawhost_model::{
    AdapterSettings, Architecture, Dtype, Learned, LocalModelError, ModelConfig, ModelFolder, RotaryScaling, digest,
    initial,
};
use std::sync::Arc;
use std::time::Instant;

fn tiny() -> ModelConfig {
    ModelConfig {
        architecture: Architecture::Qwen3,
        vocabulary: 16,
        width: 64,
        layers: 2,
        heads: 4,
        key_value_heads: 4,
        head_width: 16,
        mlp_width: 170,
        context: 128,
        rotary_base: 10_000.0,
        rotary_scaling: RotaryScaling::None,
        norm_epsilon: 1e-6,
        tied: true,
        query_bias: false,
        output_bias: false,
        query_norm: true,
        initial_deviation: 0.02,
        end_tokens: vec![],
    }
}

/// 11 million weights.
fn larger() -> ModelConfig {
    ModelConfig {
        vocabulary: 4096,
        width: 384,
        layers: 6,
        heads: 6,
        key_value_heads: 2,
        head_width: 64,
        mlp_width: 1024,
        context: 512,
        ..tiny()
    }
}

/// The peak memory of this process in MiB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: Option<f64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.unwrap_or_default() / 1024.0
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// 512 games of 6 turns (3 tokens are read, 2 answered), then one update. Returns the seconds of playing, learning and
/// publishing.
fn grpo(rounds: usize) {
    const GAMES: u32 = 512;
    let config = Arc::new(tiny());
    let host = initial(&config, 1);
    let version = Version { number: 0, digest: digest(&host), model: CpuModel::new(config.clone(), &host).into() };
    let engine = Arc::new(Engine::new(version).unwrap());
    let settings = OptimizerSettings { rule: Rule::Muon, ..OptimizerSettings::default() };
    let mut trainer = Trainer::on_processor(config.clone(), &host, Trained::Full, settings, Schedule::constant(1e-3));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let mut times = [const { Vec::new() }; 4];
    for round in 0..=rounds as u64 {
        let start = Instant::now();
        let playing: Vec<_> = (0..GAMES)
            .map(|game| {
                let engine = engine.clone();
                runtime.spawn(async move {
                    let (mut tokens, mut mask) = (vec![1, game % 16], vec![false; 2]);
                    for turn in 0..6 {
                        let seed = round << 32 | u64::from(game) << 8 | turn;
                        let sampling = Sampling::default();
                        let request = Request {
                            prompt: tokens.clone(),
                            sampling,
                            seed,
                            choice: 0,
                            max_tokens: 3,
                            alternatives: 0,
                            grammar: None,
                            end: vec![],
                            partition: clawhost_core::Partition::OWN,
                        };
                        let answer = engine.ask(request).await.unwrap();
                        tokens.extend(answer.tokens.iter().map(|drawn| drawn.token));
                        tokens.extend([2, 3]);
                        mask.extend([true, true, true, false, false]);
                    }
                    Sequence::new(tokens, &mask, 1.0).unwrap()
                })
            })
            .collect();
        let sequences: Vec<Sequence> = runtime.block_on(async { in_order(playing).await });
        let played = start.elapsed().as_secs_f64();
        let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
        let total = f64::from(GAMES) * 18.0;
        let loss = |first: usize, scores: &[Vec<TokenScores>]| -> Result<Wanted<()>, LocalModelError> {
            let advantage = |game: usize| if (game * 7 + 3) % 16 < 8 { 1.0 } else { -1.0 };
            let wanted = (first..).zip(scores).map(|(game, unit)| {
                let count = unit.iter().map(|one| one.logprobs.len()).sum();
                vec![-advantage(game) / total; count]
            });
            Ok((wanted.collect(), ()))
        };
        trainer.accumulate(&units, &loss).unwrap();
        let differentiated = start.elapsed().as_secs_f64();
        trainer.step().unwrap().unwrap();
        let stepped = start.elapsed().as_secs_f64();
        let host = trainer.host().unwrap();
        let model = CpuModel::new(config.clone(), &host);
        engine.publish(Version { number: round + 1, digest: digest(&host), model: model.into() });
        let published = start.elapsed().as_secs_f64();
        if round > 0 {
            let parts = [played, differentiated - played, stepped - differentiated, published - stepped];
            times.iter_mut().zip(parts).for_each(|(times, part)| times.push(part * 1e3));
        }
    }
    let [play, gradients, step, publish] = times.map(median);
    println!(
        "{{\"ms\": {:.2}, \"play\": {play:.2}, \"gradients\": {gradients:.2}, \"step\": {step:.2}, \"publish\": {publish:.2}}}",
        play + gradients + step + publish
    );
}

async fn in_order<T>(tasks: Vec<tokio::task::JoinHandle<T>>) -> Vec<T> {
    let mut all = Vec::with_capacity(tasks.len());
    for task in tasks {
        all.push(task.await.unwrap());
    }
    all
}

/// Eight texts of 256 tokens, AdamW.
fn train(rounds: usize) {
    let config = Arc::new(larger());
    let host = initial(&config, 1);
    let settings = OptimizerSettings { rule: Rule::AdamW, ..OptimizerSettings::default() };
    let mut trainer = Trainer::on_processor(config.clone(), &host, Trained::Full, settings, Schedule::constant(1e-4));
    drop(host);
    let sequences: Vec<Sequence> = (0..8u32)
        .map(|text| {
            let tokens: Vec<u32> = (0..256u32).map(|place| (place * 97 + text * 1009) % 4096).collect();
            let mask: Vec<bool> = (0..256).map(|place| place > 0).collect();
            Sequence::new(tokens, &mask, 1.0).unwrap()
        })
        .collect();
    let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
    let loss = |_: usize, scores: &[Vec<TokenScores>]| -> Result<Wanted<()>, LocalModelError> {
        let wanted = scores.iter().map(|unit| vec![-1.0 / 2040.0; unit.iter().map(|one| one.logprobs.len()).sum()]);
        Ok((wanted.collect(), ()))
    };
    let (mut times, mut steps) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let start = Instant::now();
        trainer.accumulate(&units, &loss).unwrap();
        let differentiated = start.elapsed().as_secs_f64();
        trainer.step().unwrap().unwrap();
        if round > 0 {
            times.push(start.elapsed().as_secs_f64());
            steps.push((start.elapsed().as_secs_f64() - differentiated) * 1e3);
        }
    }
    println!("{{\"tokens\": {:.0}, \"step\": {:.1}, \"peak\": {:.0}}}", 2048.0 / median(times), median(steps), peak());
}

/// An adapter beside the model of a folder.
fn lora(path: &str, dtype: &str, count: u32, rounds: usize) {
    let folder = ModelFolder::read_as(std::path::Path::new(path), &TextHost::InProcess, Dtype::named(dtype)).unwrap();
    let learned = folder.before_learning(Learned::Adapter(AdapterSettings::default())).unwrap();
    drop(folder);
    let (config, host) = (Arc::new(learned.config), learned.weights);
    let settings = OptimizerSettings { rule: Rule::AdamW, ..OptimizerSettings::default() };
    let schedule = Schedule::constant(1e-4);
    let mut trainer = Trainer::on_processor(config, &host, Trained::Adapters, settings, schedule);
    drop(host);
    let sequences: Vec<Sequence> = (0..count)
        .map(|text| {
            let tokens: Vec<u32> = (0..256u32).map(|place| (place * 97 + text * 1009) % 300).collect();
            let mask: Vec<bool> = (0..256).map(|place| place >= 128).collect();
            Sequence::new(tokens, &mask, 1.0).unwrap()
        })
        .collect();
    let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
    let loss = |_: usize, scores: &[Vec<TokenScores>]| -> Result<Wanted<()>, LocalModelError> {
        let count = |unit: &Vec<TokenScores>| unit.iter().map(|one| one.logprobs.len()).sum();
        Ok((scores.iter().map(|unit| vec![-1.0 / 8192.0; count(unit)]).collect(), ()))
    };
    let loaded = peak();
    let mut times = Vec::new();
    for round in 0..=rounds {
        let start = Instant::now();
        trainer.accumulate(&units, &loss).unwrap();
        trainer.step().unwrap().unwrap();
        if round > 0 || rounds == 0 {
            times.push(start.elapsed().as_secs_f64());
        }
    }
    let speed = f64::from(count) * 256.0 / median(times);
    println!("{{\"tokens\": {speed:.1}, \"loaded\": {loaded:.0}, \"peak\": {:.0}}}", peak());
}

/// 64 tokens after a prompt of 32, greedily.
fn decode(rounds: usize) {
    let config = Arc::new(larger());
    let model = CpuModel::new(config.clone(), &initial(&config, 1));
    let speed = |batch: usize| {
        let mut times = Vec::new();
        for _ in 0..=rounds {
            let mut caches: Vec<Cache> = (0..batch).map(|_| model.cache()).collect();
            let prompt: Vec<u32> = (0..32).map(|place| place * 97 % 4096).collect();
            let mut next: Vec<Vec<u32>> = vec![prompt; batch];
            let start = Instant::now();
            for _ in 0..64 {
                let mut work: Vec<Work<'_>> =
                    caches.iter_mut().zip(&next).map(|(cache, tokens)| Work::last(cache, tokens)).collect();
                model.forward(&mut work);
                let best =
                    |logits: &[f32]| (0u32..).zip(logits).max_by(|one, other| one.1.total_cmp(other.1)).unwrap().0;
                next = work.iter().map(|work| vec![best(&work.logits)]).collect();
            }
            times.push(start.elapsed().as_secs_f64());
        }
        (batch * 64) as f64 / median(times)
    };
    println!("{{\"alone\": {:.0}, \"sixteen\": {:.0}}}", speed(1), speed(16));
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let asked = |part: &str| arguments.iter().any(|argument| argument == part);
    if asked("grpo") {
        grpo(15);
    }
    if asked("train") {
        train(5);
    }
    if asked("decode") {
        decode(5);
    }
    if let Some(place) = arguments.iter().position(|argument| argument == "lora") {
        let [path, dtype, count] = [1, 2, 3].map(|number| arguments[place + number].as_str());
        lora(path, dtype, count.parse().unwrap(), 1);
    }
}
