//! Vectors as specifications: a model that answers, refuses, is slow or out of order.

use super::*;
use async_trait::async_trait;
use clawhost_core::LlmIdentity;
use std::sync::atomic::{AtomicU8, Ordering};

/// How the model behaves.
#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
enum Behaves {
    Well,
    Unavailable,
    Never,
    RefusesBad,
    RefusesAll,
    /// Its vectors have one number more.
    Longer,
    /// It fails, and not at once.
    FailsLate,
}

/// A model whose vector of a text is its number of bytes and 1.
struct Model {
    name: &'static str,
    behaves: AtomicU8,
    requests: Mutex<Vec<Vec<String>>>,
}

impl Model {
    fn new(name: &'static str) -> Arc<Self> {
        Arc::new(Self { name, behaves: AtomicU8::new(0), requests: Mutex::default() })
    }

    fn behave(&self, how: Behaves) {
        self.behaves.store(how as u8, Ordering::Relaxed);
    }

    /// The requests since the last look.
    fn asked(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

#[async_trait]
impl EmbeddingModel for Model {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "openai".into(), model: self.name.into(), version: String::new() }
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, ModelError> {
        self.requests.lock().unwrap().push(texts.to_vec());
        let now = self.behaves.load(Ordering::Relaxed);
        if now == Behaves::Unavailable as u8 {
            return Err(ModelError::Unavailable("out of order".into()));
        }
        if now == Behaves::Never as u8 {
            std::future::pending::<()>().await;
        }
        if now == Behaves::FailsLate as u8 {
            tokio::task::yield_now().await;
            return Err(ModelError::Unavailable("out of order".into()));
        }
        if now == Behaves::RefusesBad as u8 && texts.iter().any(|text| text.starts_with("bad")) {
            return Err(ModelError::Refused("too long".into()));
        }
        if now == Behaves::RefusesAll as u8 {
            return Err(ModelError::Refused("this model has no vectors".into()));
        }
        let longer: &[f32] = if now == Behaves::Longer as u8 { &[1.0] } else { &[] };
        Ok(texts.iter().map(|text| Embedding::new(&[&[text.len() as f32, 1.0], longer].concat()).unwrap()).collect())
    }
}

fn with(model: &Arc<Model>) -> TextVectors {
    let vectors = TextVectors::default();
    assert!(vectors.set_model(Some(model.clone())));
    vectors
}

/// Makes vectors until nothing waits or the endpoint does not answer.
async fn make(vectors: &TextVectors) -> Option<bool> {
    loop {
        match vectors.make(|| 0).await {
            Some(true) => {}
            other => return other,
        }
    }
}

async fn asked(vectors: &TextVectors, text: &str, now_ms: u64) -> &'static str {
    match vectors.asked(text, ["known"].into_iter(), now_ms).await {
        Asked::Nothing => "nothing",
        Asked::Vector(_) => "vector",
        Asked::Failed => "failed",
    }
}

#[tokio::test]
async fn each_text_is_embedded_once_in_batches() {
    let model = Model::new("m");
    let vectors = with(&model);
    let texts: Vec<String> = (0..BATCH + 3).map(|number| format!("text {number}")).collect();
    let all = || texts.iter().map(String::as_str);
    vectors.want(all().chain(all()));
    assert!(vectors.vector("text 0").is_none(), "it does not wait");
    assert_eq!(make(&vectors).await, None);
    let sizes: Vec<usize> = model.asked().iter().map(Vec::len).collect();
    assert_eq!(sizes, [BATCH, 3]);
    assert!(all().all(|text| vectors.vector(text).is_some()));
    vectors.want(all());
    assert_eq!((make(&vectors).await, model.asked().len()), (None, 0));
}

#[tokio::test]
async fn another_model_gives_other_vectors_and_the_same_one_keeps_them() {
    let (one, other) = (Model::new("one"), Model::new("other"));
    let vectors = with(&one);
    vectors.want(["a"].into_iter());
    make(&vectors).await;
    assert!(!vectors.set_model(Some(one.clone())) && vectors.vector("a").is_some());
    assert!(vectors.set_model(Some(other)) && vectors.vector("a").is_none());
    assert!(vectors.set_model(None) && vectors.vector("a").is_none());
    assert!(vectors.set_model(Some(one)) && vectors.vector("a").is_some());
    assert!(matches!(vectors.asked("b", ["a"].into_iter(), 0).await, Asked::Vector(_)));
    assert!(vectors.vector("a").is_some(), "its length is the same");
}

#[tokio::test]
async fn a_long_text_is_cut_at_a_character() {
    let model = Model::new("m");
    let vectors = with(&model);
    let long = format!("a{}", "ä".repeat(TEXT_BYTES));
    vectors.want([long.as_str()].into_iter());
    make(&vectors).await;
    assert_eq!(model.asked()[0][0].len(), TEXT_BYTES - 1);
    assert!(vectors.vector(&long).is_some());
}

#[tokio::test]
async fn a_text_that_is_refused_keeps_no_other_from_its_vector() {
    let model = Model::new("m");
    let vectors = with(&model);
    model.behave(Behaves::RefusesBad);
    vectors.want(["one", "bad", "two"].into_iter());
    assert_eq!(make(&vectors).await, None, "the endpoint is in order");
    assert!(vectors.vector("one").is_some() && vectors.vector("two").is_some() && vectors.vector("bad").is_none());
    assert_eq!(model.asked().len(), 4, "together, then each alone");
    // Every session of a user wants what is remembered of them.
    vectors.want(["bad"].into_iter());
    assert_eq!((make(&vectors).await, model.asked().len()), (None, 0), "it is not sent again");
    let better = Model::new("better");
    assert!(vectors.set_model(Some(better)));
    vectors.want(["bad"].into_iter());
    make(&vectors).await;
    assert!(vectors.vector("bad").is_some());
}

#[tokio::test]
async fn an_endpoint_that_refuses_everything_is_asked_again_after_a_while() {
    let model = Model::new("m");
    let vectors = with(&model);
    model.behave(Behaves::RefusesAll);
    let texts: Vec<String> = (0..100).map(|number| format!("text {number}")).collect();
    let all = || texts.iter().map(String::as_str);
    vectors.want(all());
    assert_eq!(make(&vectors).await, Some(false), "it rests");
    assert!(model.asked().len() <= DOUBTFUL + texts.len().div_ceil(BATCH), "it is not asked for each text");
    model.behave(Behaves::Well);
    assert_eq!(make(&vectors).await, None);
    assert!(all().all(|text| vectors.vector(text).is_some()));
}

#[tokio::test]
async fn a_text_of_a_session_that_is_refused_is_no_outage() {
    let model = Model::new("m");
    let vectors = with(&model);
    vectors.want(["known"].into_iter());
    make(&vectors).await;
    model.behave(Behaves::RefusesBad);
    assert_eq!((asked(&vectors, "bad", 0).await, asked(&vectors, "good", 0).await), ("failed", "vector"));
}

#[tokio::test]
async fn vectors_are_made_anew_when_an_endpoint_has_another_model() {
    let model = Model::new("m");
    let vectors = with(&model);
    vectors.want(["known"].into_iter());
    make(&vectors).await;
    assert!(!vectors.is_emptied());
    model.behave(Behaves::Longer);
    assert_eq!(asked(&vectors, "x", 0).await, "failed", "there is nothing to compare with");
    assert!(vectors.vector("known").is_none() && vectors.is_emptied() && !vectors.is_emptied());
    vectors.want(["known"].into_iter());
    make(&vectors).await;
    assert_eq!(vectors.vector("known").unwrap().numbers().len(), 3);
}

#[tokio::test]
async fn what_a_replaced_model_answers_late_says_nothing_about_the_next_one() {
    let (late, next) = (Model::new("late"), Model::new("next"));
    let vectors = with(&late);
    vectors.want(["known"].into_iter());
    make(&vectors).await;
    late.behave(Behaves::FailsLate);
    // The next model has answered by then, so that nothing else ends its rest.
    let replaced = async {
        assert!(vectors.set_model(Some(next.clone())));
        vectors.want(["known"].into_iter());
        make(&vectors).await
    };
    assert_eq!(tokio::join!(asked(&vectors, "x", 0), replaced), ("failed", None));
    assert_eq!(asked(&vectors, "x", 0).await, "vector", "it does not rest");
}

#[tokio::test]
async fn texts_wait_for_an_endpoint_that_is_out_of_order() {
    let model = Model::new("m");
    let vectors = with(&model);
    model.behave(Behaves::Unavailable);
    vectors.want(["one", "two"].into_iter());
    assert_eq!(vectors.make(|| 0).await, Some(false));
    model.behave(Behaves::Well);
    assert_eq!(make(&vectors).await, None);
    assert!(vectors.vector("one").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_session_waits_for_a_short_time_and_leaves_an_endpoint_alone_that_failed() {
    let model = Model::new("m");
    let vectors = with(&model);
    assert_eq!(asked(&vectors, "x", 0).await, "nothing", "there is nothing to compare with");
    vectors.want(["known"].into_iter());
    make(&vectors).await;
    model.asked();
    for text in ["", " \n"] {
        assert_eq!(asked(&vectors, text, 0).await, "nothing");
    }
    assert_eq!((asked(&vectors, "x", 0).await, model.asked().len()), ("vector", 1));
    for how in [Behaves::Never, Behaves::Unavailable] {
        model.behave(how);
        assert_eq!((asked(&vectors, "x", 100).await, model.asked().len()), ("failed", 1));
        model.behave(Behaves::Well);
        assert_eq!((asked(&vectors, "x", 100 + REST_MS - 1).await, model.asked().len()), ("failed", 0), "it rests");
        assert_eq!((asked(&vectors, "x", 100 + REST_MS).await, model.asked().len()), ("vector", 1));
    }
    vectors.set_model(None);
    assert_eq!(asked(&vectors, "x", 0).await, "nothing");
}

#[test]
fn vectors_that_were_used_least_recently_go_first() {
    let vectors = with(&Model::new("m"));
    let mut state = vectors.lock();
    let dimensions = clawhost_core::MOST_DIMENSIONS;
    let vector = Embedding::new(&vec![1.0; dimensions]).unwrap();
    let key = |text: &str, state: &State| state.key(text).unwrap();
    let most = NUMBERS / dimensions;
    for number in 0..most {
        let key = key(&number.to_string(), &state);
        state.keep(key, vector.clone());
    }
    assert!(state.vector("0").is_some() && state.vector("1").is_some());
    assert!(state.vector("0").is_some());
    for text in ["new", "newer"] {
        let key = key(text, &state);
        state.keep(key, vector.clone());
    }
    assert!(state.vector("2").is_none() && state.vector("3").is_none(), "the oldest");
    assert!(state.vector("0").is_some() && state.vector("1").is_some() && state.vector("newer").is_some());
    assert_eq!((state.kept.len(), state.numbers), (most, NUMBERS));
}
