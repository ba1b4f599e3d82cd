//! One iteration of learning an adapter, as `clawhost learn` computes it: the engine answers, then the transaction steps.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "shared by a test and a bench, which stop where it fails"
)]

use clawhost_core::{Digest, EpisodeId, Partition, StateId};
use clawhost_learn::policy::{Generated, GeneratedSequence, PolicyGradient, Updates};
use clawhost_learn::{Batch, Group, LayerOutcome, Member, Removed, learn};
use clawhost_model::device::ComputeDevice;
use clawhost_model::generate::{Request, Sampling};
use clawhost_model::train::{OptimizerSettings, Schedule};
use clawhost_model::{
    AdapterSettings, Architecture, Decoder, Dtype, HostMatrix, Learned, LearningSettings, ModelConfig, ModelFolder,
    RotaryScaling, TinyModel,
};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

/// Answers of a group, which share their prompt.
const MEMBERS: usize = 8;

/// The work of an iteration.
#[derive(Debug, Clone)]
pub(crate) struct Iteration {
    /// The shape of the model; its weights are random.
    pub(crate) shape: ModelConfig,
    /// How the model is kept.
    pub(crate) dtype: Dtype,
    /// Answers, a multiple of eight.
    pub(crate) answers: usize,
    /// Tokens of a prompt.
    pub(crate) prompt: usize,
    /// Tokens of an answer.
    pub(crate) answer: usize,
}

/// What an iteration took.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code, reason = "the test measures no time")]
pub(crate) struct Took {
    /// Bytes of the model as it is kept.
    pub(crate) model: u64,
    /// Bytes that this program says that a step needs, the model included.
    pub(crate) stated: u64,
    /// Seconds of answering.
    pub(crate) answering: f64,
    /// Seconds of the transaction.
    pub(crate) learning: f64,
    /// The largest difference of a log-prob between engine and trainer, nats.
    pub(crate) mismatch: f64,
    /// The peak memory of this process in bytes. `None`: this system does not say.
    pub(crate) peak: Option<u64>,
}

/// The shape of Qwen3 with this size.
pub(crate) fn shape(
    vocabulary: usize,
    width: usize,
    layers: usize,
    (heads, shared, head_width): (usize, usize, usize),
) -> ModelConfig {
    ModelConfig {
        architecture: Architecture::Qwen3,
        vocabulary,
        width,
        layers,
        heads,
        key_value_heads: shared,
        head_width,
        mlp_width: 3 * width,
        context: 40_960,
        rotary_base: 1e6,
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

/// The peak memory of this process in bytes.
pub(crate) fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Evenly distributed numbers with the deviation of initial weights, by a hash of name and place (splitmix64).
fn random(name: &str, count: usize, deviation: f64) -> Vec<f32> {
    let seed = Digest::of(name.as_bytes()).prefix_u64();
    let one = |place: usize| {
        let mut bits = seed.wrapping_add((place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((bits ^ bits >> 31) >> 11) as f64 / (1u64 << 53) as f64 - 0.5) as f32
    };
    let size = (deviation * 12f64.sqrt()) as f32;
    (0..count).map(|place| one(place) * size).collect()
}

/// A model of a shape with random weights, matrix after matrix in its format.
fn model(iteration: &Iteration) -> ModelFolder {
    let config = iteration.shape.clone();
    let (dtype, deviation) = (iteration.dtype, config.initial_deviation);
    let weights = Decoder::blueprint(&config).map(
        &mut |name, shape| {
            let values = random(name, shape[0] * shape[1], deviation);
            HostMatrix::new(name, *shape, values).unwrap().kept_as(name, dtype).unwrap()
        },
        &mut |_, length| vec![1.0; *length].into(),
    );
    ModelFolder { config, weights, ..TinyModel::default().make().unwrap() }
}

/// Runs one iteration.
pub(crate) fn run(iteration: &Iteration) -> Took {
    let learned = Learned::Adapter(AdapterSettings::default());
    let settings = LearningSettings {
        learned,
        objective: PolicyGradient::named("dapo", NonZeroU32::MIN).unwrap(),
        updates: Updates::default(),
        optimizer: OptimizerSettings::default(),
        schedule: Schedule::constant(1e-4),
    };
    let folder = model(iteration);
    let (model_bytes, stated) = (folder.weights.bytes(), folder.step_bytes(learned).unwrap());
    let (model, mut layer) = folder.open_learning("random", &settings, &ComputeDevice::processor()).unwrap();
    drop(folder);
    let vocabulary = iteration.shape.vocabulary as u32;
    let request = |number: usize| {
        let group = (number / MEMBERS) as u32;
        Request {
            prompt: (0..iteration.prompt as u32)
                .map(|place| (place * 7919 + group * 104_729 + 13) % vocabulary)
                .collect(),
            sampling: Sampling::default(),
            seed: 1,
            choice: number as u64,
            max_tokens: iteration.answer,
            alternatives: 0,
            grammar: None,
            end: vec![],
            partition: Partition::OWN,
        }
    };
    let begun = Instant::now();
    let requests: Vec<Request> = (0..iteration.answers).map(request).collect();
    let answers = model.engine().ask_many(requests.iter().map(|one| (one.clone(), None)).collect()).unwrap();
    let mut groups: Vec<Group> = Vec::new();
    for (number, (request, answer)) in requests.into_iter().zip(answers).enumerate() {
        let answer = answer.blocking_recv().unwrap().unwrap();
        let drawn: Vec<u32> = answer.tokens.iter().map(|one| one.token).collect();
        let mask = (0..request.prompt.len()).map(|_| false).chain(drawn.iter().map(|_| true)).collect();
        let reward = f64::from(drawn.iter().sum::<u32>() % 2);
        let generated = Generated {
            sequences: vec![GeneratedSequence { tokens: [request.prompt, drawn].concat(), mask }],
            rollout: answer.tokens.iter().map(|one| one.logprob_sampled).collect(),
            turn_ends: vec![iteration.answer],
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
        let episode = EpisodeId::new(&Digest::of(b"iteration"), number as u64);
        if number % MEMBERS == 0 {
            let task = format!("task-{}", number / MEMBERS);
            groups.push(Group { task, seed: 0, drawn: Vec::new(), propensity: 0.5, members: Vec::new() });
        }
        let member = Member { episode, reward, shown: 0, generated: Some(Arc::new(generated)) };
        groups.last_mut().unwrap().members.push(member);
    }
    let answering = begun.elapsed().as_secs_f64();
    let batch = Batch {
        number: 0,
        state_id: StateId(Digest::of(b"iteration")),
        groups,
        answers: Vec::new(),
        removed: Removed::default(),
    };
    let begun = Instant::now();
    let applied = learn(&mut [&mut layer], &batch).unwrap();
    let learning = begun.elapsed().as_secs_f64();
    let LayerOutcome::Stepped(forward, step) = &applied.outcomes[0] else { panic!("no step: {applied:?}") };
    assert_eq!(step.updates, 1, "{applied:?}");
    let metrics = forward.metrics.by_name();
    let mismatch = metrics.get("logprob_mismatch_max").copied().unwrap_or(f64::NAN);
    Took { model: model_bytes, stated, answering, learning, mismatch, peak: peak() }
}
