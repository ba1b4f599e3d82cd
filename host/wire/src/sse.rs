//! Server-sent events (`text/event-stream`): an incremental parser and a writer.
//!
//! The parser follows the WHATWG specification, except that it ignores ids and reconnection times: a model request is never
//! resumed.

use crate::WireError;

/// Most bytes of one event. A server that does not really stream sends its whole answer in one event, so this equals the
/// limit for whole answers.
pub const EVENT_BYTES: usize = 10 * 1024 * 1024;

/// An event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Name; empty if none was sent.
    pub name: String,
    /// Data: all `data:` lines, joined by line ends.
    pub data: String,
}

/// Parses events from bytes in any fragmentation.
#[derive(Debug, Default)]
pub struct SseReader {
    /// The current line, without its end.
    line: Vec<u8>,
    event: Vec<u8>,
    data: Vec<u8>,
    /// Whether there was a `data:` line, possibly empty.
    has_data: bool,
    /// Whether the last byte was a carriage return: a following line feed belongs to the same line end.
    after_return: bool,
    /// Whether the first line has been read, which may start with a byte order mark.
    begun: bool,
}

impl SseReader {
    /// A parser at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes; returns the events that they complete.
    ///
    /// # Errors
    /// An event is longer than [`EVENT_BYTES`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, WireError> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_return)
                && let Some(behind) = rest.strip_prefix(b"\n")
            {
                rest = behind;
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (piece, behind) = rest.split_at_checked(end.unwrap_or(rest.len())).unwrap_or((rest, &[]));
            if self.line.len() + self.data.len() + self.event.len() + piece.len() > EVENT_BYTES {
                return Err(WireError::TooLarge(format!("an event is longer than {EVENT_BYTES} bytes")));
            }
            self.line.extend_from_slice(piece);
            if let Some((ended_by, behind)) = behind.split_first() {
                self.after_return = *ended_by == b'\r';
                events.extend(self.end_line());
                rest = behind;
            } else {
                rest = &[];
            }
        }
        Ok(events)
    }

    /// The content after the last complete event: nothing, or an event without its end, possibly truncated.
    pub fn finish(mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.end_event()
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.begun, true) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => line.split_at_checked(colon).unwrap_or((&line, &[])),
            None => (line.as_slice(), [].as_slice()),
        };
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => self.event = value.to_vec(),
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            // A comment (empty field name) or an ignored field.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<SseEvent> {
        let (name, data) = (std::mem::take(&mut self.event), std::mem::take(&mut self.data));
        // Only whole lines are decoded, so characters split over fragments are complete.
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        std::mem::take(&mut self.has_data).then(|| SseEvent { name: text(&name), data: text(&data) })
    }
}

/// Cuts a stream into whole events, byte for byte as they came, for a gateway that passes them on.
#[derive(Debug, Default)]
pub struct SseCutter {
    waiting: Vec<u8>,
    /// Where the search for the end of the first event goes on.
    seen: usize,
}

impl SseCutter {
    /// Adds bytes; returns the events that they complete, each with the empty line that ends it.
    ///
    /// # Errors
    /// An event is longer than [`EVENT_BYTES`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, WireError> {
        self.waiting.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.end_of_event() {
            let rest = self.waiting.split_off(end);
            events.push(std::mem::replace(&mut self.waiting, rest));
            self.seen = 0;
        }
        if self.waiting.len() > EVENT_BYTES {
            return Err(WireError::TooLarge(format!("an event is longer than {EVENT_BYTES} bytes")));
        }
        Ok(events)
    }

    /// The bytes after the last whole event.
    pub fn rest(self) -> Vec<u8> {
        self.waiting
    }

    /// The place behind the first empty line. A carriage return at the end of what came may be the first half of a line end, so it waits.
    fn end_of_event(&mut self) -> Option<usize> {
        let line_end = |at: usize| match (self.waiting.get(at), self.waiting.get(at + 1)) {
            (Some(b'\n'), _) => Some(Some(1)),
            (Some(b'\r'), Some(b'\n')) => Some(Some(2)),
            (Some(b'\r'), Some(_)) => Some(Some(1)),
            (Some(b'\r'), None) => None,
            _ => Some(None),
        };
        let mut at = self.seen;
        while at < self.waiting.len() {
            let Some(length) = line_end(at)? else {
                at += 1;
                continue;
            };
            match line_end(at + length)? {
                Some(second) if at + length < self.waiting.len() => return Some(at + length + second),
                _ => {}
            }
            if at + length >= self.waiting.len() {
                break;
            }
            at += length;
        }
        self.seen = at;
        None
    }
}

/// Serialises an event. An empty name is omitted; line ends in a name are removed, since they would end it.
pub fn write(name: &str, data: &str) -> String {
    let mut text = String::new();
    if !name.is_empty() {
        text.push_str("event: ");
        text.extend(name.chars().filter(|character| !matches!(character, '\r' | '\n')));
        text.push('\n');
    }
    // A carriage return ends a line too; parsers return every line end as a line feed.
    for line in data.replace("\r\n", "\n").split(['\n', '\r']) {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text
}

/// A comment, which keeps an idle connection open.
pub fn comment() -> &'static str {
    ":\n\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Vec<(String, String)> {
        let mut reader = SseReader::new();
        let mut events = reader.push(bytes).unwrap();
        events.extend(reader.finish());
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    #[test]
    fn events_parse_as_specified() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let found = read(text.as_bytes());
            let found: Vec<(&str, &str)> = found.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("", &[]);
        check("data: a\n\n", &[("", "a")]);
        check("data:a\n\ndata:  b\n\n", &[("", "a"), ("", " b")]);
        check("event: e\ndata: a\ndata: b\n\n", &[("e", "a\nb")]);
        check("data: a\r\n\r\ndata: b\r\rdata: c\n\n", &[("", "a"), ("", "b"), ("", "c")]);
        check("\u{feff}data: a\n\n", &[("", "a")]);
        check(": ping\n\n:\n\ndata: a\n\n", &[("", "a")]);
        check("event: lonely\n\ndata: a\n\n", &[("", "a")]);
        check("data\n\n", &[("", "")]);
        check("data: \n\ndata:\ndata:\n\n", &[("", ""), ("", "\n")]);
        check("id: 1\nretry: 5\nother: x\ndata: a\n\n", &[("", "a")]);
        check("data: a: b\n\n", &[("", "a: b")]);
        check("data: [DONE]", &[("", "[DONE]")]);
        check("data: a\n\ndata: cu", &[("", "a"), ("", "cu")]);
    }

    #[test]
    fn an_incomplete_last_event_is_returned_separately() {
        let mut reader = SseReader::new();
        assert_eq!(reader.push(b"data: a\n\ndata: b\n").unwrap().len(), 1);
        assert_eq!(reader.finish().map(|event| event.data), Some("b".into()));
        let mut reader = SseReader::new();
        assert_eq!(reader.push(b"data: a\n\n").unwrap().len(), 1);
        assert_eq!(reader.finish(), None);
    }

    #[test]
    fn an_endless_event_exceeds_the_limit() {
        for piece in ["data: ".repeat(1000), format!("data: {}\n", "x".repeat(6000))] {
            let mut reader = SseReader::new();
            let refused = (0..2000).find_map(|_| reader.push(piece.as_bytes()).err()).unwrap();
            assert_eq!(refused.to_string(), "an event is longer than 10485760 bytes");
        }
    }

    #[test]
    fn whole_events_are_cut_as_they_came() {
        let check = |pieces: &[&str], events: &[&str], rest: &str| {
            let mut cutter = SseCutter::default();
            let found: Vec<Vec<u8>> = pieces.iter().flat_map(|piece| cutter.push(piece.as_bytes()).unwrap()).collect();
            let found: Vec<String> = found.into_iter().map(|event| String::from_utf8(event).unwrap()).collect();
            assert_eq!(found, events, "{pieces:?}");
            assert_eq!(String::from_utf8(cutter.rest()).unwrap(), rest, "{pieces:?}");
        };
        check(&["data: a\n\nda", "ta: b\n", "\n"], &["data: a\n\n", "data: b\n\n"], "");
        check(&["data: a\r\n\r", "\ndata: b"], &["data: a\r\n\r\n"], "data: b");
        check(&["data: a\r\rx"], &["data: a\r\r"], "x");
        check(&[": c\n\n", "\n", "data: a\n"], &[": c\n\n"], "\ndata: a\n");
        let long = "x".repeat(6 << 20);
        let mut cutter = SseCutter::default();
        assert!(cutter.push(long.as_bytes()).is_ok() && cutter.push(long.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn cut_events_hold_every_byte_and_parse_alike(
            text in "(data: [aä]{0,3}(\n|\r|\r\n)|event: e\n|\n|\r\n|: c\n){0,12}",
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut cutter = SseCutter::default();
            let mut events: Vec<Vec<u8>> = Vec::new();
            for pair in cuts.windows(2) {
                events.extend(cutter.push(&bytes[pair[0]..pair[1]]).unwrap());
            }
            events.push(cutter.rest());
            let one_by_one: Vec<(String, String)> = events.iter().flat_map(|event| read(event)).collect();
            prop_assert_eq!(one_by_one, read(bytes));
            prop_assert_eq!(events.concat(), bytes);
        }

        #[test]
        fn fragmentation_does_not_matter(
            text in "(data: [a\u{e4}\u{1f600}]{0,4}(\n|\r|\r\n)|event: e\n|\n|\r\n|: c\n|\u{feff}){0,12}",
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut reader = SseReader::new();
            let mut events = Vec::new();
            for pair in cuts.windows(2) {
                events.extend(reader.push(&bytes[pair[0]..pair[1]]).unwrap());
            }
            events.extend(reader.finish());
            let events: Vec<(String, String)> = events.into_iter().map(|event| (event.name, event.data)).collect();
            prop_assert_eq!(events, read(bytes));
        }

        #[test]
        fn events_round_trip(name in "[a-z_]{0,8}", data in "[a\n:\u{e4}]{0,12}") {
            prop_assert_eq!(read(write(&name, &data).as_bytes()), vec![(name, data)]);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            read(&bytes);
        }
    }
}
