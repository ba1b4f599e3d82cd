//! The promises of every reader of external bytes, for all bytes: it does not panic, it terminates, and a parsed value
//! survives a round trip.
//!
//! Each function is a fuzz target (`cargo xtask fuzz`); the ordinary tests try it with seeds and changed seeds.
#![allow(clippy::panic, reason = "a promise that is broken is a panic: that is what a fuzzer looks for")]

use clawhost_core::{Episode, Limits, Message, ModelResponse, Part, Snapshot};

mod traffic;

pub use traffic::{answer_stream, client_request, exchange, placement};

/// A target's name and promise.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 9] = [
    ("component", component),
    ("episode", episode),
    ("snapshot", snapshot),
    ("message", message),
    ("reply", reply),
    ("client_request", client_request),
    ("answer_stream", answer_stream),
    ("exchange", exchange),
    ("placement", placement),
];

/// A component before it is compiled: its outline and walk.
pub fn component(bytes: &[u8]) {
    let looked = || clawhost_engine::examine("fuzz", bytes, &Limits::default(), false);
    match (looked(), looked()) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        (Err(one), Err(other)) => {
            assert_eq!(one.to_string(), other.to_string());
            assert!(one.to_string().len() < 100_000, "a message for people: {one}");
        }
        (one, other) => panic!("{one:?} and then {other:?}"),
    }
}

/// An episode's JSON: a parsed value is serialised and parsed to the same value.
pub fn episode(bytes: &[u8]) {
    let Ok(episode) = serde_json::from_slice::<Episode>(bytes) else { return };
    let written = serde_json::to_string(&episode).unwrap_or_else(|error| panic!("{error}"));
    let again: Episode = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(again, episode);
    let summary = clawhost_play::EpisodeSummary::of(&episode);
    assert!(!summary.failed() || summary.failure.is_some());
    if !episode.ending.is_complete() {
        assert!(summary.failed() || summary.cancelled || summary.out_of_budget);
    }
}

/// A snapshot's JSON.
pub fn snapshot(bytes: &[u8]) {
    let Ok(snapshot) = serde_json::from_slice::<Snapshot>(bytes) else { return };
    let written = serde_json::to_string(&snapshot).unwrap_or_else(|error| panic!("{error}"));
    let again: Snapshot = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(again, snapshot);
}

/// A message over the boundary and back: only the values that the boundary sets itself may change.
pub fn message(bytes: &[u8]) {
    let Ok(message) = serde_json::from_slice::<Message>(bytes) else { return };
    let back = clawhost_engine::round_trip(&message);
    assert_eq!(back, message);
}

/// A reply of an endpoint in either dialect. A parsed reply can be sent in both.
pub fn reply(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let replies = [clawhost_wire::openai::response(text), clawhost_wire::anthropic::response(text)];
    for ModelResponse { message, .. } in replies.into_iter().flatten() {
        let long = message.parts.iter().any(|part| matches!(part, Part::Text(text) if text.len() > bytes.len() * 6));
        assert!(!long, "more text than was sent");
        let request = clawhost_core::ModelRequest {
            messages: vec![message],
            tools: Vec::new(),
            max_tokens: 1,
            temperature: None,
            seed: None,
            stop: Vec::new(),
            ..clawhost_core::ModelRequest::default()
        };
        let limit = clawhost_wire::openai::TokenLimit::MaxTokens;
        let openai = clawhost_wire::openai::request("m", &request, limit);
        assert!(serde_json::to_string(&openai).is_ok());
        if let Ok(anthropic) = clawhost_wire::anthropic::request("m", &request) {
            assert!(serde_json::to_string(&anthropic).is_ok());
        }
    }
}
