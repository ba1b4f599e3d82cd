//! The client's side of scoring given tokens: a request whose answer begins with its prompt and generates nothing. vLLM, SGLang and the
//! gateway of this program answer it.

use crate::{WireError, endpoint_error, malformed};
use serde_json::{Map, Value, json};

/// What comes before the number of a token that is named by its id.
const ID_MARK: &str = "token_id:";

/// How an answer names a token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenName {
    /// By its id.
    Id(u32),
    /// By its text.
    Text(String),
}

impl TokenName {
    fn read(name: &str) -> Self {
        let id = name.strip_prefix(ID_MARK).and_then(|number| number.parse().ok());
        id.map_or_else(|| Self::Text(name.to_owned()), Self::Id)
    }

    /// The name of a token by its id.
    pub(super) fn of_id(id: u32) -> String {
        format!("{ID_MARK}{id}")
    }
}

/// A token of the prompt in an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct EchoedToken {
    /// The token.
    pub name: TokenName,
    /// Natural logarithm of its probability, at most 0. `None`: the first token, or the endpoint gave none.
    pub logprob: Option<f64>,
    /// The most likely tokens at its position with their log-probs, the most likely first. The token itself may be among them.
    pub likely: Vec<(TokenName, f64)>,
}

/// A request for the log-probs of given tokens, with this many alternatives, at least 1: some endpoints take 0 for none at all.
/// `names_ids`: tokens are named by their ids, where the endpoint can. `max_tokens` is 0, or 1 for endpoints that refuse 0.
pub fn score_request(model: &str, tokens: &[u32], alternatives: u8, names_ids: bool, max_tokens: u32) -> Value {
    let mut body = json!({
        "model": model,
        "prompt": tokens,
        "max_tokens": max_tokens,
        "echo": true,
        "logprobs": alternatives.max(1),
    });
    if let Value::Object(fields) = &mut body {
        // Only if it is wanted: an endpoint may refuse fields that it does not know.
        names_ids.then(|| fields.insert("return_tokens_as_token_ids".to_owned(), Value::Bool(true)));
    }
    body
}

/// Parses the tokens of an answer, those of the prompt first.
///
/// # Errors
/// The body is not an answer of this shape, has no log-probs of tokens, or contains an error.
pub fn echoed_tokens(body: &str) -> Result<Vec<EchoedToken>, WireError> {
    let object: Map<String, Value> = serde_json::from_str(body).map_err(|error| malformed(body, &error))?;
    if let Some(error) = object.get("error").filter(|error| !error.is_null()) {
        return Err(endpoint_error(error));
    }
    let choice = object.get("choices").and_then(Value::as_array).and_then(|choices| choices.first());
    let logprobs = choice.ok_or(WireError::Empty)?.get("logprobs");
    let list = |name: &str| logprobs.and_then(|logprobs| logprobs.get(name)).and_then(Value::as_array);
    let (Some(names), Some(numbers)) = (list("tokens"), list("token_logprobs")) else {
        return Err(WireError::Unsupported("the answer has no log-probs of the tokens of its prompt".to_owned()));
    };
    let tops = list("top_logprobs").map(Vec::as_slice).unwrap_or_default();
    let token = |(place, (name, number)): (usize, (&Value, &Value))| {
        let name =
            name.as_str().ok_or_else(|| WireError::Unsupported("a token in the answer is no text".to_owned()))?;
        let likely = tops.get(place).and_then(Value::as_object).map(likely).unwrap_or_default();
        Ok(EchoedToken { name: TokenName::read(name), logprob: number.as_f64().map(|number| number.min(0.0)), likely })
    };
    names.iter().zip(numbers).enumerate().map(token).collect()
}

/// The tokens of an object of names and log-probs. Of equally likely ones the smaller names come first.
fn likely(top: &Map<String, Value>) -> Vec<(TokenName, f64)> {
    let token = |(name, number): (&String, &Value)| Some((TokenName::read(name), number.as_f64()?.min(0.0)));
    let mut likely: Vec<(TokenName, f64)> = top.iter().filter_map(token).collect();
    likely.sort_by(|(one, first), (other, second)| second.total_cmp(first).then_with(|| one.cmp(other)));
    likely
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completions::TextRequest;

    #[test]
    fn a_request_for_scores_is_one_that_this_program_answers() {
        let body = score_request("m", &[3, 4], 0, true, 0);
        let read = TextRequest::read(&body.to_string()).unwrap();
        assert!(read.scores_prompts() && read.names_ids && read.max_tokens == 0);
        assert_eq!(read.logprobs, Some(1));
        let by_text = score_request("m", &[3], 5, false, 1);
        assert_eq!((&by_text["max_tokens"], &by_text["logprobs"]), (&1.into(), &5.into()));
        assert_eq!(by_text.get("return_tokens_as_token_ids"), None);
    }

    #[test]
    fn tokens_have_their_log_probs_and_the_most_likely_first() {
        let body = json!({"choices": [{"logprobs": {
            "tokens": ["token_id:3", " a", "token_id:x"],
            "token_logprobs": [null, -0.5, 1e-9],
            "top_logprobs": [null, {"token_id:12": -3.0, "token_id:2": -3.0, " a": -0.5, "b": null}, {}],
        }}]});
        let found = echoed_tokens(&body.to_string()).unwrap();
        let text = |text: &str| TokenName::Text(text.to_owned());
        let names: Vec<_> = found.iter().map(|token| token.name.clone()).collect();
        assert_eq!(names, [TokenName::Id(3), text(" a"), text("token_id:x")]);
        assert_eq!(found.iter().map(|token| token.logprob).collect::<Vec<_>>(), [None, Some(-0.5), Some(0.0)]);
        let likely = [(text(" a"), -0.5), (TokenName::Id(2), -3.0), (TokenName::Id(12), -3.0)];
        assert_eq!((found[1].likely.as_slice(), found[0].likely.len()), (&likely[..], 0));
    }

    #[test]
    fn answers_without_scores_are_errors() {
        let check = |body: Value, expect: &str| {
            let error = echoed_tokens(&body.to_string()).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(json!({"choices": []}), "holds no answer");
        check(json!({"choices": [{"text": "ab", "logprobs": null}]}), "no log-probs of the tokens");
        check(json!({"error": {"message": "echo is not supported"}}), "echo is not supported");
        check(json!({"choices": [{"logprobs": {"tokens": [1], "token_logprobs": [null]}}]}), "is no text");
    }
}
