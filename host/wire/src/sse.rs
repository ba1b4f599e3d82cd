//! Server-sent events (`text/event-stream`): an incremental reader and a writer.
//!
//! The reader follows the WHATWG specification, except that it leaves out ids and times to reconnect: a request to a model is
//! not taken up again.

use crate::WireError;

/// Most bytes of one event. A server that does not really stream sends its whole answer in one event, so this is the size of
/// the longest whole answer that is read.
pub const EVENT_BYTES: usize = 10 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name; empty where none was sent.
    pub name: String,
    /// Its data: all `data:` lines, joined by line ends.
    pub data: String,
}

/// Reads events from bytes in any fragmentation.
#[derive(Debug, Default)]
pub struct SseReader {
    /// The line under way, without its end.
    line: Vec<u8>,
    event: Vec<u8>,
    data: Vec<u8>,
    /// Whether there was a `data:` line; one without text counts.
    has_data: bool,
    /// Whether the last byte was a carriage return: a line feed behind it belongs to the same line end.
    after_return: bool,
    /// Whether the first line has been read: a byte order mark may stand before it alone.
    begun: bool,
}

impl SseReader {
    /// At the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes, and gives the events that became complete by them.
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

    /// What was sent behind the last complete event: nothing, or an event that lacks its end. It may have been cut anywhere.
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
            // A comment (no field), or a field that means nothing here.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<SseEvent> {
        let (name, data) = (std::mem::take(&mut self.event), std::mem::take(&mut self.data));
        // Whole lines only, so a character that was spread over fragments is whole again.
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        std::mem::take(&mut self.has_data).then(|| SseEvent { name: text(&name), data: text(&data) })
    }
}

/// An event as it is sent. An empty name is left out; line ends in a name are too, since they would end it.
pub fn write(name: &str, data: &str) -> String {
    let mut text = String::new();
    if !name.is_empty() {
        text.push_str("event: ");
        text.extend(name.chars().filter(|character| !matches!(character, '\r' | '\n')));
        text.push('\n');
    }
    // A carriage return ends a line as well; a reader gives every line end back as a line feed.
    for line in data.replace("\r\n", "\n").split(['\n', '\r']) {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text
}

/// A comment: keeps a connection open while there is nothing to say.
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
    fn events_are_read_as_the_specification_says() {
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
    fn what_is_behind_the_last_empty_line_is_told_apart() {
        let mut reader = SseReader::new();
        assert_eq!(reader.push(b"data: a\n\ndata: b\n").unwrap().len(), 1);
        assert_eq!(reader.finish().map(|event| event.data), Some("b".into()));
        let mut reader = SseReader::new();
        assert_eq!(reader.push(b"data: a\n\n").unwrap().len(), 1);
        assert_eq!(reader.finish(), None);
    }

    #[test]
    fn an_event_without_an_end_is_refused_by_its_size() {
        for piece in ["data: ".repeat(1000), format!("data: {}\n", "x".repeat(6000))] {
            let mut reader = SseReader::new();
            let refused = (0..2000).find_map(|_| reader.push(piece.as_bytes()).err()).unwrap();
            assert_eq!(refused.to_string(), "an event is longer than 10485760 bytes");
        }
    }

    proptest! {
        #[test]
        fn fragments_do_not_matter(
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
        fn what_is_written_is_read(name in "[a-z_]{0,8}", data in "[a\n:\u{e4}]{0,12}") {
            prop_assert_eq!(read(write(&name, &data).as_bytes()), vec![(name, data)]);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            read(&bytes);
        }
    }
}
