//! Bodies of requests to the data pool.

use crate::http::{Refusal, utf8};
use bytes::Bytes;
use clawhost_wire::ErrorKind;
use serde::de::DeserializeOwned;

/// Parses a body; an empty one is an empty object.
pub(crate) fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    let text = utf8(body)?;
    let text = if text.trim().is_empty() { "{}" } else { text };
    serde_json::from_str(text).map_err(|error| {
        let is_number =
            error.is_syntax() && (error.to_string().starts_with("number out of range") || has_no_number(text));
        let kind = match error.is_data() || is_number {
            true => ErrorKind::Unprocessable,
            false => ErrorKind::InvalidRequest,
        };
        let why = match (is_number, error.is_data()) {
            (true, _) => format!("{error}: numbers must be finite"),
            (false, true) => error.to_string(),
            (false, false) => format!("the body is no JSON: {error}"),
        };
        Refusal::new(kind, why)
    })
}

/// Whether a text has one of the words that some writers of JSON use for what is no number.
fn has_no_number(text: &str) -> bool {
    let (mut in_string, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if in_string => is_escaped = true,
            '"' => in_string = !in_string,
            'N' | 'I' if !in_string => {
                let rest = text.get(at..).unwrap_or_default();
                if rest.starts_with("NaN") || rest.starts_with("Infinity") {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Document {
        reward: Option<f64>,
    }

    #[test]
    fn what_is_no_number_is_told_from_what_is_no_json() {
        let check = |text: &str, expect: Result<Option<f64>, u16>| {
            let parsed = parse::<Document>(&Bytes::copy_from_slice(text.as_bytes()));
            let found = parsed.map(|document| document.reward).map_err(|refusal| refusal.kind.status());
            assert_eq!(found, expect, "{text}");
        };
        check("", Ok(None));
        check(" \n", Ok(None));
        check(r#"{"reward": 0.5}"#, Ok(Some(0.5)));
        check(r#"{"reward": NaN}"#, Err(422));
        check(r#"{"reward": -Infinity}"#, Err(422));
        check(r#"{"reward": 1e999}"#, Err(422));
        check(r#"{"reward": "high"}"#, Err(422));
        check(r#"{"other": "NaN" "#, Err(400));
        check(r#"{"other": "\"NaN"#, Err(400));
        check("{", Err(400));
        check("\u{0}", Err(400));
        let message = |text: &'static str| parse::<Document>(&Bytes::from_static(text.as_bytes())).unwrap_err().message;
        assert!(message("{bad").starts_with("the body is no JSON: "), "{}", message("{bad"));
        assert!(!message(r#"{"reward": "high"}"#).contains("no JSON"));
    }
}
