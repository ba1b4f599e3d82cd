//! Recorded streams of endpoints, one folder each: `stream.txt`, and either `whole.json`, the body of the equal unstreamed
//! answer, or `error.txt`, the expected error.

use clawhost_core::{ModelDelta, ModelResponse};
use clawhost_wire::{AnswerStream, StreamedAnswer, WireError, anthropic, openai};
use proptest::prelude::*;
use proptest::sample::Index;
use std::path::{Path, PathBuf};

pub(crate) fn reader(dialect: &str) -> StreamedAnswer {
    match dialect {
        "openai" => StreamedAnswer::new(openai::StreamReader::new()),
        _ => StreamedAnswer::new(anthropic::StreamReader::new()),
    }
}

/// Parses a stream in these fragments.
pub(crate) fn read<'a>(
    dialect: &str,
    fragments: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(Vec<ModelDelta>, ModelResponse), WireError> {
    let mut answer = reader(dialect);
    let mut deltas = Vec::new();
    for fragment in fragments {
        deltas.extend(answer.push(fragment)?);
    }
    let (last, response) = answer.finish()?;
    deltas.extend(last);
    Ok((deltas, response))
}

/// Bytes cut at these positions.
pub(crate) fn cut<'a>(bytes: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// Properties of the deltas of every answer: together they equal the whole answer.
pub(crate) fn check_pieces(deltas: &[ModelDelta], response: &ModelResponse) {
    let mut text = String::new();
    let mut calls: Vec<(String, String, String)> = Vec::new();
    let mut logprobs = Vec::new();
    for delta in deltas {
        match delta {
            ModelDelta::Text(more) => {
                assert!(!more.is_empty());
                text.push_str(more);
            }
            ModelDelta::ToolCall { index, id, name, arguments } => {
                assert_eq!(*index == calls.len(), name.is_some(), "only the first delta of a call has its name");
                assert_eq!(id.is_some(), name.is_some());
                if let (Some(id), Some(name)) = (id, name) {
                    calls.push((id.clone(), name.clone(), String::new()));
                }
                calls[*index].2.push_str(arguments);
            }
            ModelDelta::Logprobs(more) => logprobs.extend(more.iter().cloned()),
            ModelDelta::Reasoning(_) | ModelDelta::Usage(_) => {}
        }
    }
    assert_eq!(text, response.message.plain_text());
    assert_eq!(logprobs, response.logprobs);
    assert_eq!(calls.len(), response.message.tool_calls.len());
    for ((id, name, arguments), call) in calls.iter().zip(&response.message.tool_calls) {
        assert_eq!((id, name), (&call.id, &call.name));
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
        assert!(*arguments == call.arguments || json(arguments) == json(&call.arguments) || arguments.is_empty());
    }
}

fn cases() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/wire/streams");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    cases.into_iter().map(|path| (name(&path), path)).collect()
}

fn dialect(name: &str) -> &str {
    name.split('-').next().unwrap()
}

#[test]
fn a_streamed_answer_equals_the_unstreamed_one_for_any_fragmentation() {
    let cases = cases();
    assert!(cases.len() >= 10, "{} cases", cases.len());
    for (name, path) in cases {
        let stream = std::fs::read(path.join("stream.txt")).unwrap();
        let whole = std::fs::read_to_string(path.join("whole.json"));
        let error = std::fs::read_to_string(path.join("error.txt"));
        for size in [1, 2, 3, 7, 64, stream.len()] {
            match (read(dialect(&name), stream.chunks(size)), &whole, &error) {
                (Ok((deltas, response)), Ok(whole), Err(_)) => {
                    let unstreamed = match dialect(&name) {
                        "openai" => openai::response(whole),
                        _ => anthropic::response(whole),
                    };
                    assert_eq!(response, unstreamed.unwrap(), "{name} in fragments of {size}");
                    check_pieces(&deltas, &response);
                }
                (Err(error), Err(_), Ok(expected)) => assert_eq!(error.to_string(), expected.trim_end(), "{name}"),
                (got, ..) => panic!("{name}: {got:?}"),
            }
        }
    }
}

#[test]
fn a_stream_truncated_anywhere_is_an_error() {
    for (name, path) in cases() {
        let stream = std::fs::read(path.join("stream.txt")).unwrap();
        let end = stream.iter().rposition(|byte| !byte.is_ascii_whitespace()).unwrap();
        for cut in 0..end {
            let error = read(dialect(&name), [&stream[..cut]]).unwrap_err();
            let known = matches!(error, WireError::CutOff(_) | WireError::Endpoint(_));
            assert!(known, "{name} cut at byte {cut}: {error}");
        }
    }
}

#[test]
fn content_after_the_end_is_ignored() {
    for (name, path) in cases().into_iter().filter(|(_, path)| path.join("whole.json").exists()) {
        let stream = std::fs::read(path.join("stream.txt")).unwrap();
        let plain = read(dialect(&name), [stream.as_slice()]).unwrap();
        for behind in [&b"data: <html>\n\n"[..], b"data: {\"error\": 1}\n\n", b"\xff\xff\n\n", &stream] {
            assert_eq!(read(dialect(&name), [&stream, behind]).unwrap(), plain, "{name}");
        }
    }
}

/// A change of bytes at a position.
fn change() -> impl Strategy<Value = (Index, u8, Vec<u8>)> {
    const WORDS: [&[u8]; 12] = [
        b"null",
        b"-1",
        b"\"\"",
        b"{}",
        b"[]",
        b"\n\n",
        b"\r",
        b"data: ",
        b"event: error\n",
        b"\"index\":9,",
        b"18446744073709551616",
        b"[[[[[[",
    ];
    let bytes = prop_oneof![
        prop::sample::select(WORDS.to_vec()).prop_map(<[u8]>::to_vec),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    (any::<Index>(), 0u8..4, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_stream_panics(case in any::<Index>(), changes in prop::collection::vec(change(), 1..5), cuts in prop::collection::vec(any::<Index>(), 0..5)) {
        let cases = cases();
        let (name, path) = &cases[case.index(cases.len())];
        let mut stream = std::fs::read(path.join("stream.txt")).unwrap();
        for (place, kind, bytes) in changes {
            let at = place.index(stream.len() + 1);
            match kind {
                0 => stream.truncate(at),
                1 => drop(stream.splice(at..at, bytes)),
                2 => drop(stream.splice(at..(at + bytes.len()).min(stream.len()), bytes)),
                _ => {
                    let again = stream[at..].iter().copied().take(200).collect::<Vec<_>>();
                    drop(stream.splice(at..at, again));
                }
            }
        }
        for dialect in ["openai", "anthropic", dialect(name)] {
            if let Ok((_, response)) = read(dialect, cut(&stream, &cuts)) {
                for call in &response.message.tool_calls {
                    prop_assert!(!call.id.is_empty() && !call.name.is_empty());
                }
            }
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "(data: ?[\\[\\]{}\":,a-z0-9]{0,40}\n\n?){0,6}") {
        for dialect in ["openai", "anthropic"] {
            prop_assert!(read(dialect, [bytes.as_slice()]).is_err());
            prop_assert!(read(dialect, [text.as_bytes()]).is_err());
        }
    }
}

/// Both parsers are behind one trait, so that a client chooses the dialect once.
#[test]
fn a_parser_reports_the_final_event() {
    let readers: [(Box<dyn AnswerStream>, &[u8]); 2] = [
        (Box::new(openai::StreamReader::new()), b"data: [DONE]\n\n"),
        (Box::new(anthropic::StreamReader::new()), b"data: {\"type\":\"message_stop\"}\n\n"),
    ];
    for (mut reader, last) in readers {
        assert!(!reader.is_over());
        for event in clawhost_wire::sse::SseReader::new().push(last).unwrap() {
            assert_eq!(reader.event(&event).unwrap(), []);
        }
        assert!(reader.is_over());
    }
}
