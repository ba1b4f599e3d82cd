//! The promises of the gateway's readers: what clients and upstreams send, what the spool holds, and where a request belongs.

use clawhost_capture::{Asked, CaptureKey, ClientSession, Exchange, Marks, Placed, Sessions, SessionsLimits, assemble};
use clawhost_core::{Message, ModelRequest, Origin, Role};
use clawhost_wire::splice::TopLevel;
use clawhost_wire::sse::{SseCutter, SseReader};
use clawhost_wire::{AnswerStream, StreamedAnswer, anthropic, completions, openai, responses};
use serde_json::{Map, Value};

/// Bytes of an episode, in the assembly of an exchange.
const EPISODE_BYTES: usize = 1 << 20;

/// The body of a request. An edit changes its field and nothing else, and what a reader takes can be written in both dialects.
pub fn client_request(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(top) = TopLevel::of(text, &["model", "stream"]) {
        edited(text, &top);
    }
    let read = [
        openai::read_request(text, 9).ok(),
        anthropic::read_request(text).ok(),
        completions::read_request(text).ok().map(|asked| asked.client),
        responses::read_request(text, 9).ok().map(|asked| asked.client),
    ];
    read.into_iter().flatten().for_each(|client| written(&client.request));
}

fn edited(text: &str, top: &TopLevel<'_>) {
    assert_eq!(top.with(&[]), text, "no edit is no change");
    let after = top.with(&[("model", "\"edited\"".to_owned())]);
    let of = |text: &str| serde_json::from_str::<Map<String, Value>>(text);
    // Nested more deeply than the reader of values goes.
    let Ok(mut expect) = of(text) else { return };
    expect.insert("model".to_owned(), "edited".into());
    let after = of(&after).unwrap_or_else(|error| panic!("{error}: {after}"));
    assert_eq!(after, expect);
}

fn written(request: &ModelRequest) {
    let chat = openai::request("m", request, openai::TokenLimit::MaxTokens);
    assert!(serde_json::to_string(&chat).is_ok());
    if let Ok(messages) = anthropic::request("m", request) {
        assert!(serde_json::to_string(&messages).is_ok());
    }
}

/// A streamed answer in any shape. Cut into events it has the same bytes and the same events, and the reader does not depend on how the
/// bytes came.
pub fn answer_stream(bytes: &[u8]) {
    let mut cutter = SseCutter::default();
    let mut parser = SseReader::new();
    if let (Ok(events), Ok(expect)) = (cutter.push(bytes), parser.push(bytes)) {
        let mut again = SseReader::new();
        let parsed = events.iter().flat_map(|event| again.push(event).unwrap_or_default()).count();
        assert_eq!(parsed, expect.len());
        let mut all = events.concat();
        all.extend(cutter.rest());
        assert_eq!(all, bytes);
    }
    same_in_pieces(bytes, openai::StreamReader::new);
    same_in_pieces(bytes, anthropic::StreamReader::new);
    same_in_pieces(bytes, completions::StreamReader::new);
    same_in_pieces(bytes, responses::StreamReader::new);
}

fn same_in_pieces<R: AnswerStream + 'static>(bytes: &[u8], reader: impl Fn() -> R) {
    let read = |size: usize| {
        let mut answer = StreamedAnswer::new(reader());
        for piece in bytes.chunks(size.max(1)) {
            answer.push(piece).map_err(|error| error.to_string())?;
        }
        answer.finish().map(|(_, response)| response).map_err(|error| error.to_string())
    };
    match (read(bytes.len()), read(7)) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        (Err(_), Err(_)) => {}
        (one, other) => panic!("{one:?} and then {other:?}"),
    }
}

/// A record of the spool: it survives a round trip, and what it makes of an episode is an episode or an error.
pub fn exchange(bytes: &[u8]) {
    let Ok(exchange) = serde_json::from_slice::<Exchange>(bytes) else { return };
    let written = serde_json::to_string(&exchange).unwrap_or_else(|error| panic!("{error}"));
    let again: Exchange = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(again, exchange);
    if let Ok(episode) = assemble(&[exchange], EPISODE_BYTES, 0) {
        assert!(episode.turns.len() <= 1);
    }
}

/// Conversations of a byte per step: each step continues, edits or opens one. Positions of a session have no gap and no repetition, and no
/// more sessions are kept than were allowed.
pub fn placement(bytes: &[u8]) {
    const SESSIONS: usize = 4;
    let key = CaptureKey::new([7; 32]);
    let limits = SessionsLimits { sessions: SESSIONS, turns: 6, idle_ms: 1000 };
    let mut sessions: Sessions<u64> = Sessions::new(key, limits);
    let mut exchanges: Vec<u32> = Vec::new();
    let mut history: Vec<Message> = Vec::new();
    let (mut opened, mut now) = (0, 0);
    for byte in bytes.iter().take(200) {
        match byte % 5 {
            0 => history.clear(),
            1 => history.truncate(history.len().saturating_sub(2)),
            2 => drop(history.drain(..history.len().min(2))),
            _ => {}
        }
        now += u64::from(*byte);
        history.push(Message::text(Role::User, Origin::User, format!("{}", byte >> 6)));
        let named = (byte & 0x20 != 0).then(|| format!("s{}", byte >> 6));
        let asked = Asked {
            client: ClientSession { named, ..ClientSession::default() },
            previous: None,
            issued: Vec::new(),
            side: (byte & 0x10 != 0).then_some(byte & 0x08 != 0),
            marks: Marks::of(&key, &history, &[]),
            now,
        };
        let (placed, claim, _ended) = sessions.place(asked, |_, _| {
            opened += 1;
            opened - 1
        });
        let Placed { label, position, .. } = placed;
        let at = usize::try_from(label).unwrap_or(usize::MAX);
        if at == exchanges.len() {
            exchanges.push(0);
        }
        let Some(next) = exchanges.get_mut(at) else { panic!("session {label} was never opened") };
        assert_eq!(position, *next, "session {label}");
        *next += 1;
        assert!(sessions.len() <= SESSIONS, "{} sessions", sessions.len());
        let answer = Message::text(Role::Assistant, Origin::Policy, format!("{}", byte & 3));
        sessions.answered(claim, &answer, None, now);
        history.push(answer);
    }
}
