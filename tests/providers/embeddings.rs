//! Embeddings over HTTP: what a server answers is a vector for each text, or an error with a name.

use crate::stub::{Reply, Stub};
use clawhost_core::{Embedding, EmbeddingModel as _, KnownSecrets, MOST_DIMENSIONS, ModelError, Secret};
use clawhost_providers::{Dialect, Upstream, UpstreamConfig, UpstreamEmbeddings};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn model(stub: &Stub, key: Option<&str>, silence: Duration) -> UpstreamEmbeddings {
    let (key, known) = (key.and_then(Secret::new), KnownSecrets::default());
    let config = UpstreamConfig { dialect: Dialect::OpenAi, base_url: stub.base_url(), key, silence, known };
    UpstreamEmbeddings::new(Arc::new(Upstream::new(config).unwrap()), "e")
}

fn answer(vectors: &Value) -> Reply {
    let data: Vec<Value> = vectors
        .as_array()
        .unwrap()
        .iter()
        .map(|numbers| json!({"object": "embedding", "embedding": numbers}))
        .collect();
    Reply::Http(200, vec![], json!({"object": "list", "data": data, "usage": {"prompt_tokens": 1}}).to_string())
}

async fn embedded(model: &UpstreamEmbeddings, texts: &[&str]) -> Result<Vec<Embedding>, ModelError> {
    model.embed(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).await
}

#[tokio::test]
async fn texts_get_vectors_of_length_1_from_the_endpoint_with_its_key() {
    let stub = Stub::start(|_, _| answer(&json!([[3, 4], [0, -2]])));
    let model = model(&stub, Some("sk-embed-0123456789"), Duration::from_secs(5));
    let found = embedded(&model, &["a", "b"]).await.unwrap();
    assert_eq!(found.iter().map(Embedding::numbers).collect::<Vec<_>>(), [[0.6, 0.8], [0.0, -1.0]]);
    let asked = &stub.requests()[0];
    assert_eq!((asked.path.as_str(), &asked.body["input"]), ("/v1/embeddings", &json!(["a", "b"])));
    assert!(asked.headers.iter().any(|(name, value)| name == "authorization" && value == "Bearer sk-embed-0123456789"));
}

#[tokio::test]
async fn invalid_vectors_are_refused_by_name() {
    let too_long: Vec<u8> = vec![1; MOST_DIMENSIONS + 1];
    for (vectors, expect) in [
        (json!([[], [1]]), "text 0: the vector of the text is empty"),
        (json!([[1, 2], [0, 0]]), "text 1: the vector of the text has only zeros"),
        (json!([[1, 1e300], [1, 2]]), "number out of range"),
        (json!([[1, 2], [1, 2, 3]]), "text 1: the vector of the text has 3 numbers, and an earlier one"),
        (json!([too_long, [1]]), "at most 8192 are read"),
        (json!([[1, 2]]), "1 vectors for 2 texts"),
        (json!([["NaN"], [1]]), "invalid type"),
    ] {
        let stub = Stub::start(move |_, _| answer(&vectors));
        let error = embedded(&model(&stub, None, Duration::from_secs(5)), &["a", "b"]).await.unwrap_err();
        let ModelError::InvalidResponse(why) = error else { panic!("{error:?}") };
        assert!(why.contains(expect), "{why}");
    }
}

#[tokio::test]
async fn a_vector_of_another_length_than_before_is_refused_once() {
    let stub = Stub::start(|number, _| answer(&if number == 0 { json!([[1, 2]]) } else { json!([[1, 2, 3]]) }));
    let model = model(&stub, None, Duration::from_secs(5));
    embedded(&model, &["a"]).await.unwrap();
    let error = embedded(&model, &["a"]).await.unwrap_err().to_string();
    assert!(error.contains("has 3 numbers, and an earlier one of the same model has 2"), "{error}");
    // The endpoint has another model now.
    assert_eq!(embedded(&model, &["a"]).await.unwrap()[0].numbers().len(), 3);
}

#[tokio::test]
async fn an_endpoint_that_fails_is_an_error_that_says_how() {
    let check = async |reply: fn() -> Reply, expect: &str| {
        let stub = Stub::start(move |_, _| reply());
        let error = embedded(&model(&stub, None, Duration::from_millis(200)), &["a"]).await.unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(|| Reply::Http(500, vec![], "out of order".into()), "did not answer: HTTP 500: out of order").await;
    check(|| Reply::Http(401, vec![], "no key".into()), "did not answer: HTTP 401").await;
    check(|| Reply::Http(400, vec![], "too long".into()), "refused the request: HTTP 400: too long").await;
    check(|| Reply::Http(200, vec![], "<html>".into()), "could not be read").await;
    check(|| Reply::Http(302, vec![("location", "http://a.example".into())], String::new()), "redirects").await;
    check(|| Reply::Half, "did not answer").await;
    check(|| Reply::Stall, "was silent").await;
    check(|| Reply::Http(200, vec![], " ".repeat(400_000)), "answers with more than").await;
}

#[tokio::test]
async fn a_key_that_an_endpoint_repeats_is_in_no_error() {
    let stub = Stub::start(|_, request| Reply::Http(500, vec![], format!("{:?}", request.headers)));
    let model = model(&stub, Some("sk-embed-0123456789"), Duration::from_secs(5));
    let error = embedded(&model, &["a"]).await.unwrap_err().to_string();
    assert!(error.contains("HTTP 500") && !error.contains("0123456789"), "{error}");
}
