//! Learning at a service, which is a stub with the real arithmetic: it learns what the local trainer learns.

use super::*;
use crate::live::weights::material::LiveSession;
use crate::live::weights::section::WeightsPlan;
use crate::live::weights::step::{Aged, Learner, Stepped, step};
use crate::live::weights::tests::{
    OWN_BATCH, OWN_SESSIONS, RATE, SIGNALS, answer, plan, question, satisfied, session, share, shuffled, taught_model,
};
use crate::models::ModelSettings;
use crate::tinker::TinkerModel;
use clawhost_core::{KnownSecrets, derive_seed};
use clawhost_model::device::ComputeDevice;
use clawhost_model::{AdapterSettings, HostDecoder, Learned, LocalModel, ModelFolder};
use clawhost_testkit::{Reply, Stage, TINKER_BASE, TinkerStub};
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn likely_tokens_are_targets_of_further_data_with_the_same_input() {
    let sequence = Sequence::new(vec![5, 6, 7, 8], &[false, true, false, true], 1.0).unwrap();
    let sequence = sequence.with_beside(vec![vec![1], vec![2, 3]]).unwrap();
    let all = data(&sequence, &[0.1, 0.2, 0.3, 0.4, 0.5]);
    let expect = [
        Datum::weighted(&[5, 6, 7], &[6, 7, 8], &[0.1, 0.0, 0.3]),
        Datum::weighted(&[5, 6, 7], &[1, 7, 2], &[0.2, 0.0, 0.4]),
        Datum::weighted(&[5, 6, 7], &[6, 7, 3], &[0.0, 0.0, 0.5]),
    ];
    assert_eq!(all, expect);
    let logprobs = [vec![-1.0, -9.0, -2.0], vec![-3.0, -9.0, -4.0], vec![-9.0, -9.0, -5.0]];
    let scores = of_targets(&sequence, &logprobs).unwrap();
    assert_eq!((scores.logprobs, scores.beside), (vec![-1.0, -2.0], vec![vec![-3.0], vec![-4.0, -5.0]]));
    assert!(of_targets(&sequence, &logprobs[..2]).is_none());
    let plain = Sequence::new(vec![5, 6], &[false, true], 1.0).unwrap();
    assert_eq!(data(&plain, &[]), [Datum::weighted(&[5], &[6], &[0.0])]);
}

const RANK: usize = 8;

/// A service, and a folder with the texts of its base model alone.
struct Bench {
    stub: TinkerStub,
    base: ModelFolder,
    model: TinkerModel,
    service: Arc<TinkerService>,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let base = taught_model(seed);
        let folder = tempfile::tempdir().unwrap();
        base.write(folder.path()).unwrap();
        std::fs::remove_file(folder.path().join("model.safetensors")).unwrap();
        let stub = TinkerStub::start(base.clone(), None);
        let spec = format!("tinker:{TINKER_BASE}={}@{}", folder.path().display(), stub.address());
        let model = TinkerModel::of(&spec).unwrap().unwrap();
        let service = model.service(&ModelSettings::default(), &KnownSecrets::default(), None, None).unwrap();
        Self { stub, base, model, service, _folder: folder }
    }

    fn opened(&self, version: Option<&TinkerVersion>, number: u64) -> Arc<ChatModel<TinkerGenerator>> {
        let texts = self.model.texts(&ModelSettings::default()).unwrap();
        self.model.open(texts, &self.service, version, number).unwrap()
    }

    async fn learner(&self, version: Option<&TinkerVersion>, number: u64, plan: &WeightsPlan) -> TinkerLearner {
        let service = (&self.service, self.model.base.as_str());
        TinkerLearner::begin(self.opened(version, number), service, version, plan).await.unwrap()
    }

    /// The local model of weights of the stub.
    fn local(&self, weights: HostDecoder) -> Arc<LocalModel> {
        ModelFolder { weights, ..self.base.clone() }.open("tiny", &ComputeDevice::processor()).unwrap()
    }
}

fn adapter_plan(signal: &str, rate: f64) -> WeightsPlan {
    let adapter = AdapterSettings { rank: RANK, alpha: 2.0 * RANK as f64, ..AdapterSettings::default() };
    WeightsPlan { learned: Learned::Adapter(adapter), rate, ..plan(signal) }
}

async fn sessions(
    model: &dyn clawhost_core::Llm,
    numbers: std::ops::Range<u64>,
    signal: &str,
    seed: u64,
) -> Vec<LiveSession> {
    let mut sessions = Vec::new();
    for number in numbers {
        let said = answer(model, &question(number), derive_seed(seed, "session", number)).await;
        sessions.push(session(number, said, signal));
    }
    sessions
}

fn aged(sessions: Vec<LiveSession>) -> Vec<Aged> {
    let useful = sessions.into_iter().filter(|one| one.reward.is_some() || !one.hints.is_empty());
    useful.map(|session| (session, Some(0))).collect()
}

fn numbers(weights: &HostDecoder) -> Vec<f32> {
    let merged = weights.merged();
    let all = merged.weights();
    let values = all.iter().flat_map(|(_, weight)| match weight {
        clawhost_model::Weight::Matrix(matrix) => matrix.values().into_owned(),
        clawhost_model::Weight::Vector(values) => values.to_vec(),
    });
    values.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_at_a_service_gives_the_weights_of_the_local_trainer() {
    let bench = Bench::new(101);
    for signal in SIGNALS {
        let plan = adapter_plan(signal, RATE);
        let mut here = Learner::open(&bench.base, "tiny", &plan, &ComputeDevice::processor(), None).unwrap();
        let mut there = bench.learner(None, 0, &plan).await;
        // Answers of the service, with its log-probs.
        let sessions = sessions(&*there.model, 0..12, signal, 5).await;
        let teacher = there.model.engine().sampler().clone();
        let stepped = step(&mut there, (plan.signal, &*teacher), 1, aged(sessions.clone())).await.unwrap();
        assert!(matches!(stepped, Stepped::Taken(_)), "{signal}: {stepped:?}");
        let local = here.step(1, aged(sessions)).await.unwrap();
        assert!(matches!(local, Stepped::Taken(_)), "{signal}: {local:?}");
        let version = there.keep(1).await.unwrap();
        let found = numbers(&bench.stub.sampled_from(&version.sampler));
        let (expect, before) = (numbers(here.layer().host()), numbers(&bench.base.weights));
        let largest = |one: &[f32], other: &[f32]| {
            one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
        };
        let (moved, apart) = (largest(&before, &expect), largest(&expect, &found));
        assert!(moved > 0.01 && apart < 0.005 * moved, "{signal}: moved by {moved}, apart by {apart}");
    }
}

/// The weights behind all sessions, which the service answered and learned from.
async fn learned(bench: &Bench, signal: &str, shuffles: bool, seed: u64) -> Arc<LocalModel> {
    let plan = adapter_plan(signal, RATE);
    let (mut version, mut corrected) = (None, [0, 1]);
    for number in 0..(OWN_SESSIONS / OWN_BATCH) as u64 {
        let mut learner = bench.learner(version.as_ref(), number, &plan).await;
        let first = 200 + number * OWN_BATCH as u64;
        let mut sessions = sessions(&*learner.model, first..first + OWN_BATCH as u64, signal, seed).await;
        if shuffles {
            sessions = shuffled(sessions, derive_seed(seed, "step", number), &mut corrected);
        }
        let teacher = learner.model.engine().sampler().clone();
        let stepped = step(&mut learner, (plan.signal, &*teacher), number + 1, aged(sessions)).await.unwrap();
        assert!(!matches!(stepped, Stepped::Refused(_)), "{signal}: {stepped:?}");
        if matches!(stepped, Stepped::Taken(_)) {
            version = Some(learner.keep(number + 1).await.unwrap());
        }
        learner.end().await;
    }
    bench.local(version.map_or(bench.base.weights.clone(), |version| bench.stub.sampled_from(&version.sampler)))
}

#[tokio::test(flavor = "multi_thread")]
async fn eighty_sessions_at_a_service_make_held_out_users_content_and_shuffled_feedback_does_not() {
    let seeds: u64 = std::env::var("CLAWHOST_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let (mut before, mut after, mut control) = (Vec::new(), Vec::new(), Vec::new());
    for seed in 101..101 + seeds {
        let bench = Bench::new(seed);
        before.push(satisfied(&bench.local(bench.base.weights.clone()), seed).await);
        after.push(satisfied(&learned(&bench, "combined", false, seed).await, seed).await);
        control.push(satisfied(&learned(&bench, "combined", true, seed).await, seed).await);
    }
    eprintln!("before {:.2?}, after {:.2?}, shuffled {:.2?}", share(&before), share(&after), share(&control));
    let (before, after, control) = (share(&before), share(&after), share(&control));
    assert!(after.1 > before.2, "{before:?} to {after:?}");
    assert!(control.1 <= before.2, "shuffled feedback improves nothing: {before:?} to {control:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_at_a_service_that_diverges_is_taken_back() {
    let bench = Bench::new(7);
    let plan = adapter_plan("binary", 10.0);
    let mut learner = bench.learner(None, 0, &plan).await;
    let sessions = aged(sessions(&*learner.model, 0..8, "binary", 1).await);
    let before = learner.scores_of(&sessions).await;
    let teacher = learner.model.engine().sampler().clone();
    let stepped = step(&mut learner, (plan.signal, &*teacher), 1, sessions.clone()).await.unwrap();
    let Stepped::Refused(why) = stepped else { panic!("it was taken: {stepped:?}") };
    assert!(why.contains("use a smaller rate"), "{why}");
    assert_eq!(learner.scores_of(&sessions).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_numbers_of_a_service_take_the_step_back() {
    let bench = Bench::new(7);
    let plan = adapter_plan("binary", 0.01);
    let check = async |change: fn(Stage, &str, Reply) -> Reply, part: &str| {
        bench.stub.behave();
        let mut learner = bench.learner(None, 0, &plan).await;
        let sessions = aged(sessions(&*learner.model, 0..8, "binary", 1).await);
        let before = learner.scores_of(&sessions).await;
        let count = bench.stub.requests().len();
        bench.stub.change(change);
        let teacher = learner.model.engine().sampler().clone();
        let stepped = step(&mut learner, (plan.signal, &*teacher), 1, sessions.clone()).await.unwrap();
        bench.stub.behave();
        let Stepped::Refused(why) = stepped else { panic!("it was taken: {stepped:?}") };
        assert!(why.contains(part), "{why}");
        assert_eq!(learner.scores_of(&sessions).await, before, "{part}");
        let requests = bench.stub.requests();
        let twice = |path: &str| requests[count..].iter().filter(|request| request.path == path).count();
        assert!(twice("optim_step") <= 1, "what changes weights is sent once");
    };
    let nan = |_: Stage, path: &str, reply: Reply| match (path, reply) {
        ("forward_backward", Reply::Http(200, "application/x-protobuf", _)) => {
            let output =
                clawhost_wire::tinker::ForwardBackwardOutput::of_logprobs(&[vec![f32::NAN; 3]], BTreeMap::new());
            Reply::Http(200, "application/x-protobuf", prost::Message::encode_to_vec(&output))
        }
        (_, reply) => reply,
    };
    check(nan, "log-probs of 1 sequences, and 8 were sent").await;
    check(
        |_, path, reply| if path == "optim_step" { Reply::Http(400, "text/plain", b"no".to_vec()) } else { reply },
        "HTTP 400: no",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_a_service_takes_no_step_so_that_the_sessions_are_taken_again() {
    let bench = Bench::new(7);
    let plan = adapter_plan("binary", 0.01);
    // The log-probs before, the pass, the step, and the log-probs after it.
    for failing in 0..4 {
        bench.stub.behave();
        let mut learner = bench.learner(None, 0, &plan).await;
        let sessions = aged(sessions(&*learner.model, 0..8, "binary", 1).await);
        let teacher = learner.model.engine().sampler().clone();
        let count = AtomicUsize::new(0);
        bench.stub.change(move |stage, path, reply| {
            let computes = stage == Stage::Posted && ["forward_backward", "optim_step"].contains(&path);
            match computes && count.fetch_add(1, Ordering::Relaxed) == failing {
                true => Reply::Http(410, "text/plain", b"down".to_vec()),
                false => reply,
            }
        });
        let stepped = step(&mut learner, (plan.signal, &*teacher), 1, sessions).await;
        let why = stepped.map_err(|error| error.to_string()).unwrap_err();
        assert!(why.contains("cannot be reached") && why.contains("HTTP 410: down"), "{failing}: {why}");
    }
    bench.stub.behave();
    // A service that was started again knows no model in training.
    let mut learner = bench.learner(None, 0, &plan).await;
    let sessions = aged(sessions(&*learner.model, 0..8, "binary", 1).await);
    let teacher = learner.model.engine().sampler().clone();
    bench.stub.restart();
    let stepped = step(&mut learner, (plan.signal, &*teacher), 1, sessions).await;
    let why = stepped.map_err(|error| error.to_string()).unwrap_err();
    assert!(why.contains("HTTP 404: there is no such model"), "{why}");
}

impl TinkerLearner {
    /// The log-probs of all sampled tokens of some sessions.
    async fn scores_of(&self, sessions: &[Aged]) -> Vec<Vec<f64>> {
        let units: Vec<Vec<Sequence>> =
            sessions.iter().map(|(session, _)| sequences(&session.generated).unwrap()).collect();
        let units: Vec<&[Sequence]> = units.iter().map(Vec::as_slice).collect();
        self.columns(&units).await.unwrap().into_iter().map(|column| column.logprobs).collect()
    }
}
