use super::*;
use clawhost_core::{Llm as _, Message, ModelError, ModelRequest, Origin, Role, Teacher as _};
use clawhost_model::device::ComputeDevice;
use clawhost_model::{TinyModel, TokenCalls};
use clawhost_testkit::{Reply, Stage, TINKER_BASE, TinkerStub};
use clawhost_wire::tinker::{SampleResponse, SampledSequence, float_bytes, read, token_bytes};
use std::time::Duration;

#[test]
fn a_text_has_the_base_model_the_folder_and_the_address() {
    let check = |spec: &str, expect: Option<(&str, &str, &str)>| {
        let found = TinkerModel::of(spec).unwrap();
        let expect = expect.map(|(base, folder, address)| TinkerModel {
            base: base.into(),
            folder: folder.into(),
            address: address.into(),
        });
        assert_eq!(found, expect, "{spec}");
    };
    let home = TINKER_HOME;
    check("tinker:Qwen/Qwen3-8B=/srv/qwen3-8b", Some(("Qwen/Qwen3-8B", "/srv/qwen3-8b", home)));
    check("tinker:a=b@http://127.0.0.1:8000", Some(("a", "b", "http://127.0.0.1:8000")));
    check("tinker:a=b@c@https://x.example/y", Some(("a", "b@c", "https://x.example/y")));
    check("local:a", None);
    for spec in ["tinker:", "tinker:a", "tinker:=b", "tinker:a=", "tinker:a=@http://127.0.0.1:8000"] {
        let why = TinkerModel::of(spec).unwrap_err().to_string();
        assert!(why.contains("write tinker:BASE=FOLDER"), "{why}");
    }
}

const KEY: &str = "tml-a-key-that-is-in-no-message";

/// A service with a tiny model, and a folder with its texts alone.
struct Bench {
    stub: TinkerStub,
    model: TinkerModel,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let tiny = TinyModel { seed: 3, ..TinyModel::default() }.make().unwrap();
        let folder = tempfile::tempdir().unwrap();
        tiny.write(folder.path()).unwrap();
        std::fs::remove_file(folder.path().join("model.safetensors")).unwrap();
        let stub = TinkerStub::start(tiny, Some(KEY));
        let spec = format!("tinker:{TINKER_BASE}={}@{}", folder.path().display(), stub.address());
        Self { stub, model: TinkerModel::of(&spec).unwrap().unwrap(), _folder: folder }
    }

    fn service(&self, change: impl FnOnce(&mut TinkerConfig)) -> Arc<TinkerService> {
        let mut config = TinkerConfig::new(self.model.address.clone(), Secret::new(KEY));
        config.retries = 1;
        change(&mut config);
        TinkerService::new(config).unwrap()
    }

    fn opened(&self, service: &Arc<TinkerService>) -> Result<Arc<ChatModel<TinkerGenerator>>, AppError> {
        self.model.open(self.model.texts(&ModelSettings::default()).unwrap(), service, None, 4)
    }
}

fn asked() -> ModelRequest {
    let question = Message::text(Role::User, Origin::User, "12+34=");
    ModelRequest {
        messages: vec![question],
        max_tokens: 5,
        temperature: Some(1.0),
        seed: Some(9),
        ..ModelRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_answers_with_exact_tokens_and_log_probs_as_a_local_model() {
    let bench = Bench::new();
    let model = bench.opened(&bench.service(|_| ())).unwrap();
    let identity = model.identity();
    assert_eq!(identity.provider, "tinker");
    let mut turns = vec![asked()];
    for _ in 0..2 {
        let request = turns.last().unwrap();
        let answer = model.complete(request).await.unwrap();
        let record = answer.tokens.clone().unwrap();
        assert_eq!((record.version, record.temperature, record.restricted), (4, 1.0, false));
        // The base model scores the same tokens alike.
        let local = TinyModel { seed: 3, ..TinyModel::default() }.make().unwrap();
        let local = local.open("tiny", &ComputeDevice::processor()).unwrap();
        let mut tokens = model.tokens_with_answer(&request.messages, &[], &[]).unwrap();
        if record.shared == 0 {
            assert_eq!(record.prompt, tokens);
        }
        tokens.extend(&record.tokens);
        let scored = TokenCalls::new(local).teach(&tokens, 1.0, 0).await.unwrap();
        for (found, expect) in record.logprob_sampled.iter().rev().zip(scored.iter().rev()) {
            assert!((f64::from(*found) - expect.logprob).abs() < 1e-4);
        }
        let mut next = request.clone();
        next.messages.push(answer.message);
        next.messages.push(Message::text(Role::User, Origin::User, "1"));
        turns.push(next);
    }
    // The tokens of the first answer, as they were sampled.
    assert!(model.complete(&turns[1]).await.unwrap().tokens.unwrap().shared > 0);
    let stopped = ModelRequest { stop: vec!["1".into(), "2".into(), "=".into(), "+".into()], ..asked() };
    let text = model.complete(&stopped).await.unwrap().message.plain_text();
    assert!(!text.contains(['1', '2', '=', '+']), "{text}");
}

/// A reply with another sample.
fn sampled(change: impl Fn(&mut SampledSequence) + Send + Sync) -> impl Fn(Stage, &str, Reply) -> Reply + Send + Sync {
    move |stage, path, reply| match reply {
        Reply::Http(200, kind, bytes) if path == "asample" && stage == Stage::Settled => {
            let mut response: SampleResponse = read(&bytes).unwrap();
            response.sequences.iter_mut().for_each(&change);
            Reply::Http(200, kind, prost::Message::encode_to_vec(&response))
        }
        other => other,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_answers_of_a_service_are_refused_by_name() {
    let bench = Bench::new();
    let model = bench.opened(&bench.service(|_| ())).unwrap();
    let why = async || match model.complete(&asked()).await.unwrap_err() {
        ModelError::InvalidResponse(why) => why,
        other => panic!("{other}"),
    };
    bench.stub.change(sampled(|one| one.logprobs = Some(float_bytes(&vec![f32::NAN; one.tokens.len() / 4]))));
    assert!(why().await.contains("expected a finite log-prob of every token"));
    bench.stub.change(sampled(|one| one.logprobs = Some(float_bytes(&[-1.0; 9]))));
    assert!(why().await.contains("expected a finite log-prob of every token"));
    bench.stub.change(sampled(|one| one.logprobs = None));
    assert!(why().await.contains("expected a finite log-prob of every token"));
    bench.stub.change(sampled(|one| one.tokens = token_bytes(&[1000; 3])));
    assert!(why().await.contains("the token 1000, and the vocabulary has 16; is this folder of the same model?"));
    bench.stub.change(sampled(|one| one.tokens = token_bytes(&[1; 6])));
    assert!(why().await.contains("an answer of 6 tokens; expected 1 to 5"));
    bench.stub.change(sampled(|one| one.tokens.clear()));
    assert!(why().await.contains("an answer of 0 tokens"));
    let settled = |kind: &'static str, body: &'static [u8]| {
        move |stage: Stage, _: &str, reply: Reply| match stage {
            Stage::Settled => Reply::Http(200, kind, body.to_vec()),
            Stage::Posted => reply,
        }
    };
    bench.stub.change(settled("application/x-protobuf", b"\xff\xff"));
    assert!(why().await.contains("protocol buffer"));
    // The answer to five tokens is not that long.
    bench.stub.change(settled("application/x-protobuf", &[0; 2 << 20]));
    assert!(why().await.contains("has more than 1048656 bytes"));
    bench.stub.change(settled("application/json", b"{}"));
    assert!(why().await.contains("is JSON and no protocol buffer"));
    bench.stub.change(settled("application/json", b"nonsense"));
    assert!(why().await.contains("is no JSON: nonsense"));
    bench.stub.change(|_, _, _| Reply::Http(200, "application/json", vec![b' '; 2 << 20]));
    assert!(why().await.contains("has more than 1048576 bytes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_fails_or_hangs_is_an_error_within_its_limits() {
    let bench = Bench::new();
    let service = bench.service(|config| config.silence = Duration::from_millis(300));
    let model = bench.opened(&service).unwrap();
    let status = |path: &'static str, status: u16| {
        move |_: Stage, at: &str, reply: Reply| match at == path {
            true => Reply::Http(status, "application/json", b"{\"detail\": \"so it is\"}".to_vec()),
            false => reply,
        }
    };
    let failed = async |part: &str| {
        let error = model.complete(&asked()).await.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        error
    };
    bench.stub.change(status("asample", 500));
    assert!(matches!(failed("asample: HTTP 500: so it is").await, ModelError::Unavailable(_)));
    bench.stub.change(status("asample", 410));
    assert!(matches!(failed("the service has lost the request").await, ModelError::Unavailable(_)));
    bench.stub.change(status("asample", 404));
    assert!(matches!(failed("HTTP 404: so it is").await, ModelError::Refused(_)));
    bench.stub.change(status("asample", 302));
    failed("HTTP 302").await;
    let settled = |category: &'static str| {
        move |stage: Stage, _: &str, reply: Reply| match stage {
            Stage::Settled => Reply::Http(
                200,
                "application/json",
                format!("{{\"error\": \"no\", \"category\": \"{category}\"}}").into_bytes(),
            ),
            Stage::Posted => reply,
        }
    };
    bench.stub.change(settled("user"));
    assert!(matches!(failed("asample failed: no").await, ModelError::Refused(_)));
    for category in ["server", "unknown", "Server"] {
        bench.stub.change(settled(category));
        assert!(matches!(failed("asample failed: no").await, ModelError::Unavailable(_)), "{category}");
    }
    bench.stub.change(|_, path, reply| if path == "asample" { Reply::Hang } else { reply });
    assert!(matches!(failed("no answer to ").await, ModelError::Unavailable(_)));
    let (settings, known, patience) = (ModelSettings::default(), KnownSecrets::default(), Duration::from_millis(300));
    let impatient = bench.model.service(&settings, &known, Secret::new(KEY), Some(patience)).unwrap();
    bench.stub.behave();
    let patient = bench.opened(&impatient).unwrap();
    let not_yet = || Reply::Http(408, "application/json", b"{}".to_vec());
    bench.stub.change(move |stage, _, reply| if stage == Stage::Settled { not_yet() } else { reply });
    let error = patient.complete(&asked()).await.unwrap_err().to_string();
    assert!(error.contains("no answer within 0.3 s") || error.contains("no result of asample within 0.3 s"), "{error}");
    // A session that is lost, at a service that opens no other.
    bench.stub.behave();
    bench.stub.restart();
    bench.stub.change(|_, path, reply| if path == "create_session" { Reply::Hang } else { reply });
    let request = asked();
    let waits = tokio::join!(patient.complete(&request), patient.complete(&request));
    for wait in [waits.0, waits.1] {
        let error = wait.unwrap_err().to_string();
        assert!(error.contains("no answer within 0.3 s"), "of all that was tried: {error}");
    }
    bench.stub.behave();
    model.complete(&asked()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_was_started_again_is_asked_in_a_new_session() {
    let bench = Bench::new();
    let model = bench.opened(&bench.service(|_| ())).unwrap();
    let before = model.complete(&asked()).await.unwrap();
    bench.stub.restart();
    let request = asked();
    let after = tokio::join!(model.complete(&request), model.complete(&request), model.complete(&request));
    for after in [after.0, after.1, after.2] {
        assert_eq!(after.unwrap().tokens, before.tokens, "the same seed");
    }
    let count = |path: &str| bench.stub.requests().iter().filter(|request| request.path == path).count();
    // Those that lost their session open one together. They learn that the session of the connection is lost by that.
    assert_eq!((count("create_session"), count("create_sampling_session")), (2, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_passes_is_asked_again() {
    let bench = Bench::new();
    let model = bench.opened(&bench.service(|_| ())).unwrap();
    let failures = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = failures.clone();
    bench.stub.change(move |stage, _, reply| match stage {
        Stage::Settled if counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 => {
            Reply::Http(503, "text/plain", Vec::new())
        }
        _ => reply,
    });
    model.complete(&asked()).await.unwrap();
    assert_eq!(failures.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_service_is_in_no_error_and_goes_where_it_may() {
    let bench = Bench::new();
    let service = bench.service(|_| ());
    let model = bench.opened(&service).unwrap();
    assert!(!format!("{service:?} {model:?}").contains(KEY));
    bench.stub.change(|_, _, _| Reply::Http(400, "text/plain", format!("you sent {KEY}").into_bytes()));
    let error = model.complete(&asked()).await.unwrap_err().to_string();
    assert!(error.contains("you sent [key]") && !error.contains(KEY), "{error}");
    bench.stub.behave();
    let keyless = TinkerService::new(TinkerConfig::new(bench.model.address.clone(), None)).unwrap();
    let error = bench.opened(&keyless).unwrap_err().to_string();
    assert!(error.contains("HTTP 401: unknown key; the service wants a key, and none was sent"), "{error}");
    let other = TinkerConfig::new(bench.model.address.clone(), Secret::new("tml-another-key"));
    let error = bench.opened(&TinkerService::new(other).unwrap()).unwrap_err().to_string();
    assert!(error.contains("the service did not accept the key"), "{error}");
    let unknown = TinkerModel { base: "other".to_owned(), ..bench.model.clone() };
    let texts = unknown.texts(&ModelSettings::default()).unwrap();
    let error = unknown.open(texts, &service, None, 0).unwrap_err().to_string();
    assert!(error.contains("create_sampling_session: HTTP 404: there are no such weights"), "{error}");
}
