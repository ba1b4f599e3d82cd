//! A device gives the results of the processor path: forward passes, answers, gradients, and one iteration of GRPO.
//!
//! `CLAWHOST_TEST_DEVICE` names the device: `software` (Mesa's software driver of Vulkan, used by `cargo xtask wgsl`), or any device of
//! this build, such as `cuda:0` (used by the bundle of `cargo xtask gpu-check`). Without it the device is burn's processor device, which
//! runs the same code.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and one that is skipped says so"
)]

#[path = "devices/figures.rs"]
mod figures;

use clawhost_burn::network::{DeviceModel, Network, Rows, values};
use clawhost_burn::{Burn, BurnDevice};
use clawhost_core::{Digest, EpisodeId, Partition, StateId};
use clawhost_learn::policy::{Generated, GeneratedSequence, PolicyGradient, Updates};
use clawhost_learn::{Batch, Group, Layer as _, Member, Removed};
use clawhost_model::cpu::{CpuModel, Work};
use clawhost_model::device::{
    AUTO_PARAMETERS, AcceleratedModel as _, Backend, ChildProber, ComputeDevice, DeviceChoice, DeviceKind, DeviceName,
    Drivers as _, FoundDevice, ProbeFailure, Prober, Slot, Worked, answer_probe, choose,
};
use clawhost_model::generate::{Answer, Engine, Model, Request, Sampling, Version};
use clawhost_model::train::{OptimizerSettings, Rule, Schedule, Sequence, TokenScores, Trained, Trainer, Wanted};
use clawhost_model::{
    Architecture, HostDecoder, Learned, LearningSettings, LocalModelError, ModelConfig, RotaryScaling, TinyModel,
    TokenMask, Weight, WeightsLayer, digest, initial,
};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The variable that names the device under test.
const VARIABLE: &str = "CLAWHOST_TEST_DEVICE";

/// Tries devices in this process, because the driver under test is known to work.
struct Here;

impl Prober for Here {
    fn list(&self, backend: Backend) -> Result<Vec<FoundDevice>, ProbeFailure> {
        let said: serde_json::Value = serde_json::from_str(&answer_probe(backend.word(), &Burn)).unwrap();
        Ok(serde_json::from_value(said["devices"].clone()).unwrap())
    }

    fn probe(&self, name: DeviceName) -> Result<Worked, ProbeFailure> {
        let said: serde_json::Value = serde_json::from_str(&answer_probe(&name.to_string(), &Burn)).unwrap();
        serde_json::from_value(said["works"].clone()).map_err(|_| ProbeFailure::Said(said.to_string()))
    }
}

/// The device under test.
struct Tested {
    device: BurnDevice,
    compute: ComputeDevice,
    /// The largest difference of a logit or a log-prob from the processor's.
    logit: f32,
    /// The largest difference of a gradient, as a share of the largest gradient of its weight.
    gradient: f32,
    /// The largest difference of a loss.
    loss: f64,
    /// The largest difference of a weight after a step of Muon, as a share of the largest movement.
    step: f32,
    /// Whether sampled tokens may differ after the first choice between two nearly equal probabilities.
    may_part: bool,
}

fn tested() -> &'static Tested {
    static TESTED: OnceLock<Tested> = OnceLock::new();
    TESTED.get_or_init(|| {
        let named = std::env::var(VARIABLE).ok();
        let device = match named.as_deref() {
            None => BurnDevice::processor(),
            Some("software") => {
                let found = Here.list(Backend::Vulkan).unwrap();
                let software = found.iter().find(|one| one.kind == DeviceKind::Software);
                BurnDevice::open(software.unwrap().name).unwrap()
            }
            Some(name) => BurnDevice::open(name.parse().unwrap()).unwrap(),
        };
        // The tensor cores of a GPU multiply with 10 bits of mantissa. Muon scales small directions of a gradient up to the size of large
        // ones, and with them their rounding errors.
        let (logit, gradient, loss, step, may_part) = match named.as_deref() {
            None | Some("software") => (1e-4, 1e-3, 1e-5, 0.05, false),
            Some(_) => (2e-2, 5e-2, 2e-3, 0.5, true),
        };
        println!("device under test: {}", named.as_deref().unwrap_or("burn's own on this processor"));
        let compute = ComputeDevice::accelerator(Arc::new(device.clone()));
        Tested { compute, device, logit, gradient, loss, step, may_part }
    })
}

/// Whether the device under test is Mesa's software driver. If not, prints that the test, which is specific to that driver, is skipped.
fn is_software(test: &str) -> bool {
    let is_software = std::env::var(VARIABLE).is_ok_and(|name| name == "software");
    if !is_software {
        println!("skipped {test}: it needs {VARIABLE}=software, as `cargo xtask wgsl` sets it");
    }
    is_software
}

fn config(architecture: Architecture) -> Arc<ModelConfig> {
    Arc::new(ModelConfig {
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
        end_tokens: vec![60],
    })
}

const ARCHITECTURES: [Architecture; 3] = [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3];

fn text(length: usize, salt: u32) -> Vec<u32> {
    (0..length as u32).map(|position| (position * 17 + salt * 31 + 5) % 61).collect()
}

fn worst(found: &[f32], right: &[f32]) -> f32 {
    assert_eq!(found.len(), right.len());
    let worst = found.iter().zip(right).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
    assert!(found.iter().all(|one| one.is_finite()));
    worst
}

/// The processor's logits after every token.
fn right(model: &CpuModel, tokens: &[u32]) -> Vec<f32> {
    let mut cache = model.cache();
    let mut work = [Work { cache: &mut cache, tokens, logits: Vec::new(), every: true }];
    model.forward(&mut work);
    let [work] = work;
    work.logits
}

#[test]
fn a_software_device_is_used_only_by_its_number() {
    if !is_software("a_software_device_is_listed") {
        return;
    }
    let device = &tested().compute;
    let found = Here.list(Backend::Vulkan).unwrap();
    println!("devices: {found:?}");
    let auto = choose(DeviceChoice::Auto, AUTO_PARAMETERS, &Burn.built(), &Here).unwrap();
    let hardware = |one: &FoundDevice| matches!(one.kind, DeviceKind::Discrete | DeviceKind::Integrated);
    assert!(found.iter().any(hardware) || auto.name == DeviceName::CPU, "{auto:?}");
    let named = choose(DeviceChoice::Named(device.name()), 1, &Burn.built(), &Here).unwrap();
    assert_eq!(named.name, device.name());
    // The first product includes the compilation of its kernel; the second does not.
    println!("products: {:?}, then {:?}", Here.probe(device.name()), Here.probe(device.name()));
    let nowhere = DeviceName { backend: Backend::Vulkan, number: 99 };
    assert!(ComputeDevice::open(nowhere, &Burn).unwrap_err().to_string().contains("vulkan:99: it is not there"));
    let prober = ChildProber::new(clawhost_child::ChildProgram { program: "/nowhere".into(), arguments: Vec::new() });
    assert!(choose(DeviceChoice::Any(Backend::Vulkan), 1, &Burn.built(), &prober).is_err());
}

#[test]
fn forward_passes_give_the_processors_logits() {
    let Tested { device, logit, .. } = tested();
    for architecture in ARCHITECTURES {
        let config = config(architecture);
        let host = initial(&config, 3);
        let network = Network::new(config.clone(), &host, device.burn());
        let texts = [text(90, 1), text(17, 2), text(1, 3)];
        let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        for rows in [Rows::padded(&texts, device.burn()), Rows::packed(&texts, 110, device.burn())] {
            let began = Instant::now();
            let logits = values(&network.logits(&rows)).unwrap();
            let mut most = 0.0f32;
            for (tokens, place) in texts.iter().zip(&rows.places) {
                let right = right(&CpuModel::new(config.clone(), &host), tokens);
                let start = (place.row * rows.shape[1] + place.start) * config.vocabulary;
                most = most.max(worst(&logits[start..start + right.len()], &right));
            }
            println!("{architecture:?}: logits differ by {most:.1e} at most, {:.2?}", began.elapsed());
            assert!(most < *logit);
        }
    }
}

#[test]
fn answers_have_the_processors_logits_in_every_batch() {
    let Tested { device, logit, .. } = tested();
    for architecture in ARCHITECTURES {
        let config = config(architecture);
        let host = initial(&config, 7);
        let cpu = CpuModel::new(config.clone(), &host);
        let model = DeviceModel::new(device, config.clone(), &host);
        let texts: Vec<Vec<u32>> =
            (0..).zip([1, 2, 16, 17, 70, 100]).map(|(salt, length)| text(length, salt)).collect();
        let all: Vec<Vec<f32>> = texts.iter().map(|text| right(&cpu, text)).collect();
        let behind = |number: usize, length: usize| &all[number][(length - 1) * 61..length * 61];
        let mut held: Vec<Slot> = texts.iter().map(|_| model.begin()).collect();
        let begin = |text: &[u32]| text.len().saturating_sub(5).max(1);
        let began = Instant::now();
        let mut work: Vec<_> = held.iter_mut().zip(&texts).map(|(held, text)| (held, &text[..begin(text)])).collect();
        let found = model.forward(&mut work).unwrap();
        let mut most = 0.0f32;
        for (number, (found, text)) in found.iter().zip(&texts).enumerate() {
            most = most.max(worst(found, behind(number, begin(text))));
        }
        for step in 0..6 {
            let mut work = Vec::new();
            let mut expect = Vec::new();
            for (number, (held, text)) in held.iter_mut().zip(&texts).enumerate() {
                let at = held.tokens().len();
                if at < text.len() && (number + step) % 4 != 0 {
                    expect.push(behind(number, at + 1));
                    work.push((held, &text[at..at + 1]));
                }
            }
            for (found, right) in model.forward(&mut work).unwrap().iter().zip(expect) {
                most = most.max(worst(found, right));
            }
        }
        // The prompt of a group is computed once and copied.
        let mut copy = model.copy(&held[5], 50).unwrap();
        let found = model.forward(&mut [(&mut copy, &texts[5][50..53])]).unwrap();
        most = most.max(worst(&found[0], behind(5, 53)));
        println!("{architecture:?}: logits of answers differ by {most:.1e} at most, {:.2?}", began.elapsed());
        assert!(most < *logit);
    }
}

fn request(seed: u64, temperature: f32) -> Request {
    Request {
        prompt: text(12, 3),
        sampling: Sampling { temperature, ..Sampling::default() },
        seed,
        choice: 0,
        max_tokens: 16,
        alternatives: 0,
        grammar: None,
        end: vec![60],
        partition: Partition::OWN,
    }
}

fn ask(engine: &Arc<Engine>, requests: Vec<Request>) -> Vec<Answer> {
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    runtime.block_on(async {
        let asking: Vec<_> = requests
            .into_iter()
            .map(|request| {
                let engine = engine.clone();
                tokio::spawn(async move { engine.ask(request).await.unwrap() })
            })
            .collect();
        let mut answers = Vec::new();
        for one in asking {
            answers.push(one.await.unwrap());
        }
        answers
    })
}

#[test]
fn an_engine_gives_the_same_answers_on_both() {
    let Tested { compute, logit, may_part, .. } = tested();
    let config = config(Architecture::Qwen3);
    let host = initial(&config, 7);
    let engine = |model: Model| Arc::new(Engine::new(Version { number: 1, digest: digest(&host), model }).unwrap());
    let requests = || (0..6).map(|seed| request(seed, if seed % 2 == 0 { 0.0 } else { 1.0 })).collect::<Vec<_>>();
    let right = ask(&engine(CpuModel::new(config.clone(), &host).into()), requests());
    let began = Instant::now();
    let found = ask(&engine(compute.model(config.clone(), &host).unwrap()), requests());
    let took = began.elapsed();
    let (mut most, mut same) = (0.0f32, 0);
    for (found, right) in found.iter().zip(&right) {
        let tokens = |answer: &Answer| answer.tokens.iter().map(|one| one.token).collect::<Vec<_>>();
        assert!(*may_part || tokens(found) == tokens(right));
        for (found, right) in found.tokens.iter().zip(&right.tokens).take_while(|(one, other)| one.token == other.token)
        {
            most = most.max((found.logprob_sampled - right.logprob_sampled).abs());
        }
        same += usize::from(tokens(found) == tokens(right));
    }
    println!("six answers: {same} have the same tokens, log-probs differ by {most:.1e} at most, {took:.2?}");
    assert!(same >= 3);
    assert!(most < *logit);
}

/// Mean negative log-prob.
fn likelihood(scores: &[Vec<TokenScores>], total: f64) -> Result<Wanted<f64>, LocalModelError> {
    let all = scores.iter().map(|unit| unit.iter().flat_map(|one| &one.logprobs).copied().collect::<Vec<f64>>());
    let all: Vec<Vec<f64>> = all.collect();
    let loss = -all.iter().flatten().sum::<f64>() / total;
    Ok((all.iter().map(|unit| vec![-1.0 / total; unit.len()]).collect(), loss))
}

/// First moments of a trainer's snapshot, by the weight's name.
fn moments(snapshot: &[u8]) -> BTreeMap<String, Vec<f32>> {
    let tensors = safetensors::SafeTensors::deserialize(snapshot).unwrap();
    let first = tensors.tensors().into_iter().filter_map(|(name, view)| {
        let name = name.strip_prefix("first.")?.to_owned();
        Some((name, view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()))
    });
    first.collect()
}

#[test]
fn gradients_equal_the_processors() {
    let Tested { compute, gradient, loss: loss_limit, .. } = tested();
    for architecture in ARCHITECTURES {
        let config = config(architecture);
        let host = initial(&config, 3);
        let sequences: Vec<Sequence> = (0..5u32)
            .map(|number| {
                let tokens = text(6 + 3 * number as usize, number);
                let mask: Vec<bool> = (0..tokens.len()).map(|place| place >= 3 && place % 4 != 1).collect();
                let sequence = Sequence::new(tokens, &mask, if number % 2 == 0 { 1.0 } else { 0.7 }).unwrap();
                // Grammars allowed a third of the tokens in some of them.
                let allowed =
                    |own: u32| (0..config.vocabulary as u32).filter(|token| token % 3 == own % 3).collect::<Vec<_>>();
                let mask = |place: &usize| TokenMask::of(config.vocabulary, &allowed(sequence.tokens()[*place]));
                let masks = sequence.trained().iter().map(|place| Some(Arc::new(mask(place)))).collect();
                if number % 3 == 0 { sequence.clone().with_masks(masks).unwrap() } else { sequence }
            })
            .collect();
        let total: f64 = sequences.iter().map(|one| one.trained().len() as f64).sum();
        let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
        let of = |device: &ComputeDevice| {
            // After the first step of AdamW, the first moment is the gradient times a constant that is the same on both devices.
            let settings = OptimizerSettings { rule: Rule::AdamW, clip: 1e9, ..OptimizerSettings::default() };
            let schedule = Schedule::constant(1e-3);
            let mut trainer = device.trainer(&config, &host, Trained::Full, settings, schedule).unwrap();
            let began = Instant::now();
            let told = trainer.accumulate(&units, &|_, scores: &[Vec<TokenScores>]| likelihood(scores, total)).unwrap();
            let norm = trainer.step().unwrap().unwrap().gradient_norm;
            let took = began.elapsed();
            (moments(&trainer.to_bytes().unwrap()), told.iter().sum::<f64>(), norm, took)
        };
        let (found, loss, norm, took) = of(compute);
        let (right, right_loss, right_norm, _) = of(&ComputeDevice::processor());
        assert_eq!(found.keys().collect::<Vec<_>>(), right.keys().collect::<Vec<_>>());
        let mut most = 0.0f32;
        for (name, right) in &right {
            let largest = right.iter().fold(0.0f32, |most, one| most.max(one.abs()));
            let share = worst(&found[name], right) / largest.max(1e-6);
            assert!(share < *gradient, "{name}: {share}");
            most = most.max(share);
        }
        println!(
            "{architecture:?}: loss {loss:.7} against {right_loss:.7}; gradients differ by {most:.1e} of the largest at most, their length is {norm:.6} against {right_norm:.6}, {took:.2?}"
        );
        assert!((norm / right_norm - 1.0).abs() < f64::from(*gradient));
        assert!((loss - right_loss).abs() < *loss_limit);
    }
}

/// The batch from which both layers learn: the device's answers, rewarded by the number of their even tokens.
fn batch(answers: &[Vec<Answer>], prompt: &[u32]) -> Batch {
    let groups = answers.iter().enumerate().map(|(number, answers)| {
        let members = answers.iter().enumerate().map(|(member, answer)| {
            let written: Vec<u32> = answer.tokens.iter().map(|one| one.token).collect();
            let mut mask = vec![false; prompt.len()];
            mask.resize(prompt.len() + written.len(), true);
            let even = written.iter().filter(|token| *token % 2 == 0).count() as f64 / written.len() as f64;
            let generated = Generated {
                sequences: vec![GeneratedSequence { tokens: [prompt, &written].concat(), mask }],
                rollout: answer.tokens.iter().map(|one| one.logprob_sampled).collect(),
                turn_ends: vec![written.len()],
                states: Vec::new(),
                turn_rewards: None,
                temperature: 1.0,
                version: answer.version,
                restricted: false,
                grammars: Vec::new(),
                truncated: false,
                taught: Vec::new(),
                unrewarded: false,
            };
            Member {
                episode: EpisodeId(format!("ep-{number}-{member}")),
                reward: even,
                shown: 0,
                generated: Some(Arc::new(generated)),
            }
        });
        Group {
            task: format!("task-{number}"),
            seed: number as u64,
            drawn: Vec::new(),
            propensity: 0.5,
            members: members.collect(),
        }
    });
    Batch {
        number: 0,
        state_id: StateId(Digest::of(b"test")),
        groups: groups.collect(),
        answers: Vec::new(),
        removed: Removed::default(),
    }
}

/// All weights, concatenated.
fn flat(host: &HostDecoder) -> Vec<f32> {
    let weights = host.weights().into_iter();
    weights
        .flat_map(|(_, weight)| match weight {
            Weight::Matrix(matrix) => matrix.values().into_owned(),
            Weight::Vector(values) => values.to_vec(),
        })
        .collect()
}

#[test]
fn an_iteration_of_grpo_gives_the_processors_weights_and_they_answer() {
    let Tested { compute, logit, gradient, loss, step: step_limit, .. } = tested();
    let folder = TinyModel { seed: 5, ..TinyModel::default() }.make().unwrap();
    let objective = PolicyGradient::named("grpo", NonZeroU32::new(16).unwrap()).unwrap();
    let schedule = Schedule::constant(2e-3);
    let (updates, optimizer) = (Updates::default(), OptimizerSettings::default());
    let settings = LearningSettings { learned: Learned::Full, objective, updates, optimizer, schedule };
    let prompt = [1, 10, 2, 11];
    let open = |device: &ComputeDevice| folder.open_learning("tiny", &settings, device).unwrap();
    let (model, mut layer) = open(compute);
    let (_, mut right) = open(&ComputeDevice::processor());
    let asked = |group: u64, member: u64| Request {
        prompt: prompt.to_vec(),
        sampling: Sampling::default(),
        seed: group,
        choice: member,
        max_tokens: 8,
        alternatives: 0,
        grammar: None,
        end: vec![15],
        partition: Partition::OWN,
    };
    let began = Instant::now();
    let answers: Vec<Vec<Answer>> =
        (0..4).map(|group| ask(model.engine(), (0..8).map(|member| asked(group, member)).collect())).collect();
    let played = began.elapsed();
    let batch = batch(&answers, &prompt);
    let step = |layer: &mut WeightsLayer| {
        let began = Instant::now();
        let forward = layer.forward_backward(&batch).unwrap();
        let step = layer.optim_step().unwrap();
        assert_eq!(step.updates, 1);
        (forward.metrics.by_name(), step.metrics.by_name()["gradient_norm"], began.elapsed())
    };
    let (found, norm, took) = step(&mut layer);
    let (expect, right_norm, _) = step(&mut right);
    let mismatch = found["logprob_mismatch_max"];
    let (found_weights, right_weights) = (flat(layer.host()), flat(right.host()));
    let apart = worst(&found_weights, &right_weights);
    let moved = worst(&flat(&folder.weights), &right_weights);
    println!("GRPO, 4 groups of 8: answers {played:.2?}, step {took:.2?}");
    println!("  loss {:.7} against {:.7}; gradient {norm:.6} against {right_norm:.6}", found["loss"], expect["loss"]);
    println!(
        "  answers and trainer differ by {mismatch:.1e} at most; weights moved by {moved:.1e} and are {apart:.1e} apart"
    );
    assert!((found["loss"] - expect["loss"]).abs() < *loss && (norm / right_norm - 1.0).abs() < f64::from(*gradient));
    assert!(mismatch < f64::from(*logit) && apart < step_limit * moved);
    // Answers come from the new weights, and a snapshot restores them.
    let bytes = layer.snapshot().unwrap();
    assert_eq!(ask(model.engine(), vec![asked(9, 0)])[0].version, 1);
    let before = layer.digest();
    layer.restore(&bytes).unwrap();
    assert_eq!(layer.digest(), before);
}

/// This driver supports buffers up to 128 MiB. The logits of one sequence fit; those of two, or of one with twice the length, do not.
#[test]
fn where_memory_is_short_smaller_pieces_are_computed_and_one_too_long_is_refused() {
    if !is_software("where_memory_is_short") {
        return;
    }
    let device = &tested().compute;
    let config = Arc::new(ModelConfig {
        vocabulary: 60_000,
        width: 16,
        layers: 1,
        mlp_width: 16,
        context: 1024,
        ..(*config(Architecture::Qwen3)).clone()
    });
    let host = initial(&config, 3);
    let settings = OptimizerSettings { rule: Rule::AdamW, clip: 1e9, ..OptimizerSettings::default() };
    let schedule = Schedule::constant(1e-3);
    let sequence = |length: usize, salt: u32| {
        let mask: Vec<bool> = (0..length).map(|place| place > 0).collect();
        Sequence::new(text(length, salt), &mask, 1.0).unwrap()
    };
    let sequences: Vec<Sequence> = (0..5).map(|salt| sequence(300, salt)).collect();
    let units: Vec<&[Sequence]> = sequences.iter().map(std::slice::from_ref).collect();
    let total = 5.0 * 299.0;
    let loss = |_: usize, scores: &[Vec<TokenScores>]| likelihood(scores, total);
    let mut there = device.trainer(&config, &host, Trained::Full, settings, schedule).unwrap();
    let mut here = Trainer::on_processor(config.clone(), &host, Trained::Full, settings, schedule);

    let began = Instant::now();
    let too_long = sequence(600, 9);
    let error = device.guarded(|| there.accumulate(&[std::slice::from_ref(&too_long)], &loss)).flatten().unwrap_err();
    println!("too long, after {:.1?}: {error}", began.elapsed());
    assert!(matches!(error, LocalModelError::DeviceMemory { .. }), "{error}");

    let began = Instant::now();
    let told = device.guarded(|| there.accumulate(&units, &loss)).flatten().unwrap();
    println!("{} passes instead of 3, after {:.1?}", told.len(), began.elapsed());
    assert_eq!(told.len(), 5);
    let right: f64 = here.accumulate(&units, &loss).unwrap().iter().sum();
    assert!((told.iter().sum::<f64>() / right - 1.0).abs() < 1e-5, "{told:?} {right}");
    let [found, right] = [&mut there, &mut here].map(|trainer| trainer.step().unwrap().unwrap().gradient_norm);
    assert!((found / right - 1.0).abs() < 1e-4, "{found} {right}");
}
