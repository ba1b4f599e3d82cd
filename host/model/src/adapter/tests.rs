//! What an adapter changes, and what it leaves unchanged.

use super::{AdapterFolder, AdapterSettings, Learned, Targets};
use crate::cpu::{CpuModel, Work};
use crate::device::ComputeDevice;
use crate::train::{OptimizerSettings, Schedule, Sequence, TokenScores, Trained, Trainer, Wanted};
use crate::{Architecture, HostDecoder, LearningSettings, LocalModelError, ModelConfig, ModelFolder, TinyModel};
use crate::{Weight, cpu::tests::config, digest, initial};
use clawhost_core::{Digest, EpisodeId, Llm, Message, ModelRequest, Origin, Role, StateId};
use clawhost_learn::policy::{Generated, GeneratedSequence, PolicyGradient, Updates};
use clawhost_learn::{Batch, Group, Layer, Member, Removed};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

fn small() -> (Arc<ModelConfig>, HostDecoder) {
    let config = Arc::new(config(Architecture::Qwen3));
    let host = initial(&config, 3);
    (config, host)
}

fn settings() -> AdapterSettings {
    AdapterSettings { rank: 4, alpha: 8.0, seed: 5, ..AdapterSettings::default() }
}

fn trainer(config: &Arc<ModelConfig>, host: &HostDecoder) -> Trainer {
    let (optimizer, schedule) = (OptimizerSettings::default(), Schedule::constant(1e-2));
    Trainer::on_processor(config.clone(), host, Trained::Adapters, optimizer, schedule)
}

fn sequence() -> Sequence {
    let tokens: Vec<u32> = (0..14).map(|place| (place * 7 + 3) % 61).collect();
    let mask: Vec<bool> = (0..14).map(|place| place > 3).collect();
    Sequence::new(tokens, &mask, 1.0).unwrap()
}

/// Makes the trained tokens more likely.
fn learn(trainer: &mut Trainer) -> f64 {
    let sequence = sequence();
    let loss = |_: usize, scores: &[Vec<TokenScores>]| {
        let of = |scores: &Vec<TokenScores>| vec![-0.1; scores.iter().map(|one| one.logprobs.len()).sum()];
        let all = scores.iter().flatten().flat_map(|one| &one.logprobs).sum::<f64>();
        Ok::<Wanted<f64>, LocalModelError>((scores.iter().map(of).collect(), -all))
    };
    let told = trainer.accumulate(&[std::slice::from_ref(&sequence)], &loss).unwrap();
    trainer.step().unwrap().unwrap();
    told.iter().sum()
}

#[test]
fn a_fresh_adapter_follows_from_its_seed_and_changes_no_answer() {
    let (_, host) = small();
    let fresh = settings().attach(&host).unwrap();
    assert_eq!(digest(&fresh.merged()), digest(&host));
    assert_eq!(digest(&fresh), digest(&settings().attach(&host).unwrap()));
    let other = AdapterSettings { seed: 6, ..settings() }.attach(&host).unwrap();
    assert_ne!(digest(&fresh), digest(&other));
    let louder = AdapterSettings { alpha: 9.0, ..settings() }.attach(&host).unwrap();
    assert_ne!(digest(&fresh), digest(&louder), "the digest depends on alpha");
    let a = &fresh.blocks[0].down.adapter.as_ref().unwrap().a;
    let most = a.values().iter().fold(0.0f32, |most, value| most.max(value.abs()));
    assert!(most <= 1.0 / 70f32.sqrt() && most > 0.9 / 70f32.sqrt(), "{most}");
    let few = Targets::named(["v_proj", "q_proj"]).unwrap();
    let thin = AdapterSettings { targets: few, ..settings() }.attach(&host).unwrap();
    assert_eq!(few.names().collect::<Vec<_>>(), ["q_proj", "v_proj"]);
    assert!(thin.blocks.iter().all(|block| block.query.adapter.is_some() && block.key.adapter.is_none()));
}

#[test]
fn invalid_adapter_settings_are_refused() {
    let (_, host) = small();
    let check = |settings: AdapterSettings, expect: &str| {
        let error = settings.attach(&host).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(AdapterSettings { rank: 0, ..settings() }, "a rank of 0");
    check(AdapterSettings { alpha: f64::NAN, ..settings() }, "alpha of NaN");
    let error = Targets::named(["q_proj", "qkv"]).unwrap_err().to_string();
    assert!(error.contains("no projection `qkv`; a block has q_proj, k_proj"), "{error}");
    assert!(Targets::named([]).is_err());
}

#[test]
fn an_adapter_learns_and_the_base_weights_do_not_change() {
    let (config, host) = small();
    let mut one = trainer(&config, &settings().attach(&host).unwrap());
    let losses: Vec<f64> = (0..20).map(|_| learn(&mut one)).collect();
    assert!(losses[19] < 0.7 * losses[0], "{losses:?}");
    let learned = one.host().unwrap();
    assert_eq!(digest(&learned.without_adapters()), digest(&host), "the base weights are unchanged");
    assert_ne!(digest(&learned.merged()), digest(&host));

    // The reference is the model without the adapter.
    let sequence = sequence();
    let reference = one.reference_scores(&[&sequence]).unwrap();
    assert!(one.has_reference());
    let plain = trainer(&config, &host);
    assert_eq!(reference, plain.scores(&[&sequence]).unwrap());
    assert_ne!(reference, one.scores(&[&sequence]).unwrap());

    // A snapshot holds the trained weights. Training continues from it.
    let bytes = one.to_bytes().unwrap();
    let whole: usize = host.weights().len();
    assert!(bytes.len() < 4 * config.parameters() as usize, "{} bytes, {whole} weights", bytes.len());
    let mut other = trainer(&config, &AdapterSettings { seed: 99, ..settings() }.attach(&host).unwrap());
    other.restore(&bytes).unwrap();
    assert!(other.to_bytes().unwrap() == bytes);
    assert_eq!((learn(&mut one), one.to_bytes().unwrap()), (learn(&mut other), other.to_bytes().unwrap()));
}

/// The logits after some tokens.
fn logits(model: &CpuModel, tokens: &[u32]) -> Vec<f32> {
    let mut cache = model.cache();
    let mut work = [Work::last(&mut cache, tokens)];
    model.forward(&mut work);
    std::mem::take(&mut work[0].logits)
}

#[test]
fn adapted_models_share_the_base_in_memory_and_answer_as_merged_ones() {
    let (config, host) = small();
    let base = CpuModel::new(config.clone(), &host);
    let before = logits(&base, &[5, 9, 2]);
    let far = |one: &[f32], other: &[f32]| one.iter().zip(other).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
    let of_seed = |seed: u64| {
        let mut trainer = trainer(&config, &AdapterSettings { seed, ..settings() }.attach(&host).unwrap());
        for _ in 0..20 {
            learn(&mut trainer);
        }
        let learned = trainer.host().unwrap();
        let adapter = AdapterFolder::of(&learned, "").unwrap();
        (adapter.clone(), base.adapted(&adapter).unwrap(), CpuModel::new(config.clone(), &learned))
    };
    let (first, second) = (of_seed(1), of_seed(2));
    for (_, adapted, merged) in [&first, &second] {
        assert!(adapted.shares_with(&base) && !merged.shares_with(&base));
        let (adapted, merged) = (logits(adapted, &[5, 9, 2]), logits(merged, &[5, 9, 2]));
        assert!(far(&adapted, &merged) < 1e-4, "{}", far(&adapted, &merged));
        assert!(far(&adapted, &before) > 0.1, "{}", far(&adapted, &before));
    }
    assert_ne!(logits(&first.1, &[5, 9, 2]), logits(&second.1, &[5, 9, 2]));
    assert_eq!(logits(&base, &[5, 9, 2]), before, "the base is as it was");
    let (one, other) = (digest(&host), digest(&initial(&config, 4)));
    assert_ne!(first.0.digest_with(one), second.0.digest_with(one));
    assert_ne!(first.0.digest_with(one), first.0.digest_with(other));
    assert_eq!(first.0.digest_with(one), first.0.clone().digest_with(one));
}

#[test]
fn a_snapshot_of_an_adapter_fits_only_its_model() {
    let (config, host) = small();
    let bytes = trainer(&config, &settings().attach(&host).unwrap()).to_bytes().unwrap();
    let elsewhere = settings().attach(&initial(&config, 4)).unwrap();
    let louder = AdapterSettings { alpha: 9.0, ..settings() }.attach(&host).unwrap();
    let wider = AdapterSettings { rank: 5, alpha: 10.0, ..settings() }.attach(&host).unwrap();
    for other in [elsewhere, louder, wider] {
        let error = trainer(&config, &other).restore(&bytes).unwrap_err().to_string();
        assert!(error.contains("it belongs to another model"), "{error}");
    }
    let (optimizer, schedule) = (OptimizerSettings::default(), Schedule::constant(1e-2));
    let mut full = Trainer::on_processor(config, &host, Trained::Full, optimizer, schedule);
    assert!(full.restore(&bytes).unwrap_err().to_string().contains("it belongs to another model"));
}

#[test]
fn adapters_are_stored_in_the_folder_of_their_model_and_read_back() {
    let (config, host) = small();
    let mut trainer = trainer(&config, &settings().attach(&host).unwrap());
    learn(&mut trainer);
    let learned = trainer.host().unwrap();
    let folder = tempfile::tempdir().unwrap();
    AdapterFolder::of(&learned, "base").unwrap().write(folder.path()).unwrap();
    let read = AdapterFolder::read(folder.path()).unwrap();
    assert_eq!((read.settings.rank, read.settings.alpha, read.base.as_str()), (4, 8.0, "base"));
    assert_eq!(digest(&read.attach(&host).unwrap()), digest(&learned));
    assert!(AdapterFolder::of(&host, "").unwrap_err().to_string().contains("the model has no adapter"));

    let tiny = TinyModel::default().make().unwrap();
    let with = ModelFolder { weights: settings().attach(&tiny.weights).unwrap(), ..tiny };
    with.write(folder.path()).unwrap();
    let permissions = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().permissions();
    assert_eq!(permissions("model.safetensors"), permissions("config.json"), "one group of readers");
    assert_eq!(
        digest(&ModelFolder::read(folder.path(), &crate::tokens::TextHost::InProcess).unwrap().weights),
        digest(&with.weights)
    );
}

#[test]
fn a_model_is_written_in_the_shortest_format_that_holds_its_weights_unchanged() {
    let check = |dtype: crate::Dtype, norm: f32, expect: (&str, usize)| {
        let tiny = TinyModel::default().make().unwrap();
        let mut weights = settings().attach(&tiny.weights.kept_as(dtype).unwrap()).unwrap();
        let norms: Vec<f32> = vec![norm; weights.norm.len()];
        weights.norm = norms.into();
        let model = ModelFolder { weights, ..tiny };
        let folder = tempfile::tempdir().unwrap();
        model.write(folder.path()).unwrap();
        let file = std::fs::read(folder.path().join("model.safetensors")).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&file).unwrap();
        let values = |view: safetensors::tensor::TensorView<'_>| view.shape().iter().product::<usize>();
        let [bytes, count] = tensors
            .tensors()
            .into_iter()
            .fold([0, 0], |[bytes, count], (_, view)| [bytes + view.data().len(), count + values(view)]);
        let config = std::fs::read_to_string(folder.path().join("config.json")).unwrap();
        assert!(config.contains(&format!("\"{}\"", expect.0)), "{config}");
        assert_eq!(bytes, count * expect.1);
        let read = ModelFolder::read(folder.path(), &crate::tokens::TextHost::InProcess).unwrap().weights;
        for ((name, one), (_, other)) in read.weights().into_iter().zip(model.weights.weights()) {
            match (one, other) {
                (Weight::Matrix(one), Weight::Matrix(other)) => assert_eq!(one.values(), other.values(), "{name}"),
                (one, other) => assert_eq!(one, other, "{name}"),
            }
        }
    };
    check(crate::Dtype::F32, 1.0, ("float32", 4));
    check(crate::Dtype::BF16, 1.0, ("bfloat16", 2));
    check(crate::Dtype::F16, 1.0, ("float16", 2));
    check(crate::Dtype::Int8, 1.0, ("float32", 4));
    // Norms that 16 bits would round.
    check(crate::Dtype::BF16, 1.000_1, ("float32", 4));
    check(crate::Dtype::F16, 1e6, ("float32", 4));
}

#[test]
fn an_adapter_is_refused_beside_other_weights_of_the_same_shapes() {
    let (config, host) = small();
    let folder = tempfile::tempdir().unwrap();
    let adapter = AdapterFolder::bound(&settings().attach(&host).unwrap(), "base").unwrap();
    adapter.write(folder.path()).unwrap();
    let read = AdapterFolder::read(folder.path()).unwrap();
    assert_eq!(read, adapter);
    let other = initial(&config, 4);
    for adapter in [&adapter, &read] {
        adapter.attach(&host).unwrap();
        let error = adapter.attach(&other).unwrap_err().to_string();
        assert!(error.contains("it was written beside other weights: "), "{error}");
        // Rounded to another format, its own weights have another digest, too.
        adapter.attach(&host.kept_as(crate::Dtype::BF16).unwrap()).unwrap();
        adapter.attach(&other.kept_as(crate::Dtype::Int8).unwrap()).unwrap();
    }
    // Equal adapters are equal files.
    let bytes = || std::fs::read(folder.path().join("adapter_model.safetensors")).unwrap();
    let first = bytes();
    for _ in 0..8 {
        adapter.write(folder.path()).unwrap();
        assert_eq!(bytes(), first);
    }
}

#[test]
fn adapters_of_other_models_and_of_other_kinds_are_refused() {
    let (config, host) = small();
    let folder = tempfile::tempdir().unwrap();
    let adapter = AdapterFolder::of(&settings().attach(&host).unwrap(), "base").unwrap();
    let check = |config: ModelConfig, expect: &str| {
        let error = adapter.attach(&initial(&config, 3)).unwrap_err().to_string();
        assert!(error.contains(expect) && error.contains("it belongs to another model"), "{error}");
    };
    let down =
        "the weight model.layers.0.mlp.gate_proj.lora_B.weight has the shape [70, 4] where this model needs [71, 4]";
    check(ModelConfig { mlp_width: 71, ..(*config).clone() }, down);
    let deeper = "the weight model.layers.1.mlp.down_proj.lora_A.weight has no projection here";
    check(ModelConfig { layers: 1, ..(*config).clone() }, deeper);

    let path = folder.path().join("adapter_config.json");
    let check = |find: &str, put: &str, expect: &str| {
        adapter.write(folder.path()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(find), "{text}");
        std::fs::write(&path, text.replace(find, put)).unwrap();
        let error = AdapterFolder::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check("\"use_dora\": false", "\"use_dora\": true", "says use_dora is true; adapters with it are not supported");
    check("\"bias\": \"none\"", "\"bias\": \"all\"", "says bias is \"all\"");
    check("\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]", "modules_to_save is [\"lm_head\"]");
    check("\"peft_type\": \"LORA\"", "\"peft_type\": \"IA3\"", "peft_type is \"IA3\"; this version supports LORA");
    check("\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"", "it changes the base weights");
    check("\"r\": 4", "\"r\": 5", "but adapter_config.json says r is 5");
    check("\"lora_alpha\": 8", "\"lora_alpha\": 0", "no lora_alpha above 0");
    check("{", "", "no JSON object");
    std::fs::remove_file(folder.path().join("adapter_model.safetensors")).unwrap();
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap_or_default()).unwrap();
    adapter.write(folder.path()).unwrap();
    std::fs::remove_file(folder.path().join("adapter_model.safetensors")).unwrap();
    let error = AdapterFolder::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("adapter_model.safetensors: "), "{error}");
    assert!(AdapterFolder::read(Path::new("nowhere")).is_err());
}

fn rewards(kl: f64) -> PolicyGradient {
    PolicyGradient { kl, ..PolicyGradient::named("dapo", NonZeroU32::MIN).unwrap() }
}

#[test]
fn an_existing_adapter_continues_with_its_own_settings_only() {
    let tiny = TinyModel::default().make().unwrap();
    let found = AdapterSettings { rank: 4, alpha: 8.0, ..AdapterSettings::default() };
    let with = ModelFolder { weights: found.attach(&tiny.weights).unwrap(), ..tiny };
    let asked = |targets: Targets, rank, alpha, expect: Option<&str>| {
        let settings = LearningSettings {
            learned: Learned::Adapter(AdapterSettings { rank, alpha, targets, ..AdapterSettings::default() }),
            objective: rewards(0.0),
            updates: Updates::default(),
            optimizer: OptimizerSettings::default(),
            schedule: Schedule::constant(1e-3),
        };
        let opened = with.open_learning("tiny", &settings, &ComputeDevice::processor());
        match expect {
            None => drop(opened.unwrap()),
            Some(expect) => assert!(opened.err().unwrap().to_string().contains(expect)),
        }
    };
    let check = |rank, alpha, expect| asked(Targets::ALL, rank, alpha, expect);
    check(4, 8.0, None);
    asked(
        Targets::named(["q_proj", "v_proj"]).unwrap(),
        4,
        8.0,
        Some("not one of rank 4 and alpha 8 on q_proj,v_proj; use its settings"),
    );
    check(
        8,
        16.0,
        Some(
            "has one of rank 4 and alpha 8 on q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj already, which learning would continue, not one of rank 8 and alpha 16",
        ),
    );
    check(
        4,
        99.0,
        Some(
            "not one of rank 4 and alpha 99 on q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj; use its settings, or remove the folder `adapter`",
        ),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_learns_from_rewards() {
    let adapter = AdapterSettings { rank: 4, alpha: 8.0, ..AdapterSettings::default() };
    let settings = LearningSettings {
        learned: Learned::Adapter(adapter),
        objective: rewards(0.001),
        updates: Updates::default(),
        optimizer: OptimizerSettings::default(),
        schedule: Schedule::constant(2e-2),
    };
    let folder = TinyModel { seed: 1, width: 128, ..TinyModel::default() }.make().unwrap();
    let (model, mut layer) = folder.open_learning("tiny", &settings, &ComputeDevice::processor()).unwrap();
    let mut means = Vec::new();
    for step in 0..80u64 {
        let mut members = Vec::new();
        for number in 0..16u64 {
            let request = ModelRequest {
                messages: vec![Message::text(Role::User, Origin::Task, "3+4=")],
                tools: Vec::new(),
                max_tokens: 1,
                temperature: Some(1.0),
                seed: Some(step * 100 + number),
                stop: Vec::new(),
                ..ModelRequest::default()
            };
            let answer = model.complete(&request).await.unwrap();
            let record = answer.tokens.unwrap();
            let mask = (0..record.prompt.len()).map(|_| false).chain([true]).collect();
            let generated = Generated {
                sequences: vec![GeneratedSequence { tokens: [&record.prompt[..], &record.tokens].concat(), mask }],
                rollout: record.logprob_sampled.clone(),
                turn_ends: vec![1],
                states: Vec::new(),
                turn_rewards: None,
                temperature: 1.0,
                version: record.version,
                restricted: false,
                grammars: Vec::new(),
                truncated: false,
                taught: Vec::new(),
                unrewarded: false,
            };
            let reward = f64::from(u8::from([5, 6, 7].contains(&record.tokens[0])));
            let episode = EpisodeId::new(&Digest::of(b"test"), step * 100 + number);
            members.push(Member { episode, reward, shown: 0, generated: Some(Arc::new(generated)) });
        }
        means.push(members.iter().map(|member| member.reward).sum::<f64>() / 16.0);
        let group = Group { task: "sum".into(), seed: step, drawn: Vec::new(), propensity: 0.5, members };
        let batch = Batch {
            number: step,
            state_id: StateId(Digest::of(b"test")),
            groups: vec![group],
            answers: Vec::new(),
            removed: Removed::default(),
        };
        let forward = layer.forward_backward(&batch).unwrap();
        if step == 5 {
            assert!(
                forward.metrics.by_name()["kl"] > 0.0,
                "it is held near to the model without it: {:?}",
                forward.metrics
            );
        }
        layer.optim_step().unwrap();
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    assert!(mean(&means[60..]) > mean(&means[..3]) + 0.2, "{means:?}");
    assert_eq!(digest(&layer.host().without_adapters()), digest(&folder.weights));
}
