//! The client's side of embeddings in OpenAI's dialect: `POST /embeddings`.

use crate::{WireError, endpoint_error, malformed};
use serde::Deserialize;
use serde_json::{Value, json};

/// A request for the vectors of texts.
pub fn request(model: &str, texts: &[String]) -> Value {
    json!({"model": model, "input": texts, "encoding_format": "float"})
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    data: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    /// The place of its text in the request. Some servers leave it out, and keep the order.
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

/// Parses the vectors of an answer, in the order of the texts, of which there were so many. The numbers are not checked.
///
/// # Errors
/// The body is no answer of this shape, has not exactly one vector for each text, or contains an error.
pub fn vectors(body: &str, texts: usize) -> Result<Vec<Vec<f32>>, WireError> {
    let Answer { error, data } = serde_json::from_str(body).map_err(|error| malformed(body, &error))?;
    if let Some(error) = error.filter(|error| !error.is_null()) {
        return Err(endpoint_error(&error));
    }
    if data.len() != texts {
        let found = data.len();
        return Err(WireError::Unsupported(format!("the answer has {found} vectors for {texts} texts")));
    }
    let mut ordered: Vec<Option<Vec<f32>>> = vec![None; texts];
    for (place, Vector { index, embedding }) in data.into_iter().enumerate() {
        let index = index.unwrap_or(place);
        match ordered.get_mut(index) {
            Some(free) if free.is_none() => *free = Some(embedding),
            _ => {
                let why = format!("the answer has a vector for text {index}, which is none of the {texts} or has one");
                return Err(WireError::Unsupported(why));
            }
        }
    }
    Ok(ordered.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_model_and_the_texts() {
        let body = request("m", &["a".to_owned(), "b".to_owned()]);
        assert_eq!(body, json!({"model": "m", "input": ["a", "b"], "encoding_format": "float"}));
    }

    #[test]
    fn vectors_come_in_the_order_of_their_texts() {
        let check = |data: Value, expect: &[&[f32]]| {
            let found = vectors(&json!({"object": "list", "data": data}).to_string(), expect.len()).unwrap();
            assert_eq!(found, expect);
        };
        check(json!([{"index": 1, "embedding": [2, 0.5]}, {"index": 0, "embedding": [1]}]), &[&[1.0], &[2.0, 0.5]]);
        check(json!([{"embedding": [1]}, {"embedding": [2]}]), &[&[1.0], &[2.0]]);
    }

    #[test]
    fn what_is_no_answer_is_an_error_that_says_why() {
        let check = |body: &str, expect: &str| {
            let error = vectors(body, 2).unwrap_err().to_string();
            assert!(error.contains(expect), "{body}: {error}");
        };
        check("hello", "it begins with `hello`");
        check("{}", "0 vectors for 2 texts");
        check(r#"{"error": {"message": "no such model"}}"#, "no such model");
        check(r#"{"data": [{"embedding": [1]}]}"#, "1 vectors for 2 texts");
        check(r#"{"data": [{"embedding": [1]}, {"embedding": [1]}, {"embedding": [1]}]}"#, "3 vectors for 2 texts");
        check(r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}"#, "for text 0");
        check(r#"{"data": [{"index": 7, "embedding": [1]}, {"embedding": [1]}]}"#, "for text 7");
        check(r#"{"data": [{"embedding": "AACAPw=="}, {"embedding": [1]}]}"#, "invalid type");
        check(r#"{"data": [{"embedding": [1e300]}, {"embedding": [1]}]}"#, "number out of range");
        check(r#"{"data": [{"embedding": [null]}, {"embedding": [1]}]}"#, "invalid type");
    }
}
