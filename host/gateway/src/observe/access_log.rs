//! The access log: a JSON line for each request, without anything that was said and without keys.

use super::observation::{Details, InRecord, Observation};
use clawhost_core::{escaped, json_escaped};
use serde::Serialize;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

/// The target of the lines in `tracing`; each event has the line as its message, at the level `INFO`.
pub const ACCESS_LOG: &str = "clawhost::access";

/// Longest text of a client in a line, in bytes.
const TEXT_BYTES: usize = 200;

/// A line.
#[derive(Serialize)]
struct Line<'a> {
    /// When the request came.
    time: String,
    method: &'a str,
    /// Without the query.
    path: String,
    shape: &'static str,
    /// `None`: the client has gone before an answer.
    status: Option<u16>,
    alias: Option<&'a str>,
    /// The model that answered, or the last one that was asked.
    model: Option<String>,
    key: Option<&'a str>,
    session: Option<String>,
    stream: bool,
    request_bytes: u64,
    answer_bytes: u64,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    /// Microseconds from the request to the end of the answer.
    total_us: u64,
    added_us: Option<u64>,
    first_token_us: Option<u64>,
    upstream_us: u64,
    /// `null`: nothing of it is recorded.
    record: Option<&'static str>,
    complete: bool,
}

/// The line of a request that ends at a Unix time in milliseconds.
pub(crate) fn line(request: &Observation, details: &Details, now_ms: u64) -> String {
    let total_us = request.since_us();
    let began = UNIX_EPOCH + Duration::from_millis(now_ms.saturating_sub(total_us / 1000));
    let shown = |text: &str| escaped(text, TEXT_BYTES);
    let asked = details.model.as_ref().map(|model| model.model.as_str());
    let line = Line {
        time: humantime::format_rfc3339_millis(began).to_string(),
        method: request.method.as_str(),
        path: shown(&request.path),
        shape: details.route.name(),
        status: request.status(),
        alias: details.alias.as_ref().map(|(alias, _)| alias.as_str()),
        model: details.answered_by.as_deref().or(asked).map(shown),
        key: Some(details.owner.as_str()).filter(|owner| !owner.is_empty()),
        session: details.session.as_deref().map(shown),
        stream: details.is_stream,
        request_bytes: request.request_bytes.load(Ordering::Relaxed),
        answer_bytes: request.answer_bytes.load(Ordering::Relaxed),
        input_tokens: details.usage.map(|usage| usage.prompt_tokens),
        output_tokens: details.usage.map(|usage| usage.completion_tokens),
        total_us,
        added_us: request.added_us(),
        first_token_us: request.first_us(),
        upstream_us: request.upstream_us(),
        record: match details.record {
            InRecord::None => None,
            InRecord::Off => Some("off"),
            InRecord::Recorded => Some("recorded"),
            InRecord::Missed => Some("missed"),
        },
        complete: !details.is_incomplete,
    };
    let text = serde_json::to_string(&line).unwrap_or_default();
    json_escaped(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Observer, Route, Settings};
    use axum::http::Method;
    use clawhost_core::{Clock, KnownSecrets, Secret};
    use serde_json::{Value, json};
    use std::sync::Arc;

    struct Fixed;

    impl Clock for Fixed {
        fn now_ms(&self) -> u64 {
            1_800_000_000_123
        }
        fn monotonic_us(&self) -> u64 {
            7
        }
    }

    fn observer() -> Arc<Observer> {
        let secrets = KnownSecrets::default();
        secrets.add(&Secret::new("sk-of-the-upstream").unwrap());
        Observer::new(Arc::new(Fixed), secrets, Arc::default(), Settings { logs: true, traces: None })
    }

    fn written(observation: &Observation) -> String {
        observation.observer.line(observation, &observation.details())
    }

    #[test]
    fn a_line_has_what_is_known_of_a_request() {
        let observation = Observation::new(observer(), Method::POST, "/v1/chat/completions".into(), None);
        observation.asks(Route::Chat);
        observation.client("laptop");
        observation.alias("fast");
        observation.received(12);
        observation.head(429);
        let line: Value = serde_json::from_str(&written(&observation)).unwrap();
        let expect = json!({
            "time": "2027-01-15T08:00:00.123Z", "method": "POST", "path": "/v1/chat/completions", "shape": "chat",
            "status": 429, "alias": "fast", "model": null, "key": "laptop", "session": null, "stream": false,
            "request_bytes": 12, "answer_bytes": 0, "input_tokens": null, "output_tokens": null, "total_us": 0,
            "added_us": 1, "first_token_us": null, "upstream_us": 0, "record": null, "complete": true,
        });
        assert_eq!(line, expect);
    }

    #[test]
    fn a_line_is_one_line_without_hidden_characters_and_keys() {
        let path = "/s/a\n\u{1b}[2J\u{202e}sk-of-the-upstream/v1/messages";
        let observation = Observation::new(observer(), Method::POST, path.into(), None);
        observation.begins(
            Some("s\u{9b}\n"),
            &clawhost_core::LlmIdentity { provider: String::new(), model: "m\u{7}".into(), version: String::new() },
        );
        let line = written(&observation);
        assert!(!line.contains(clawhost_core::is_hidden) && !line.contains("sk-of"), "{line}");
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&line["session"], &line["complete"]), (&json!("s\\u{9b}\\n"), &json!(false)));
    }
}
