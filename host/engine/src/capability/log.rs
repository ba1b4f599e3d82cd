//! `clawhost:log`: log lines with a quota. Exceeding it loses log lines and has no other effect.

use crate::state::State;
use clawhost_bindings::environment::clawhost::log::log;
use clawhost_core::{Limits, LogState, escaped};

/// The log of one instance.
#[derive(Debug)]
pub(crate) struct Log {
    line_bytes: usize,
    max_lines: usize,
    max_bytes: usize,
    state: LogState,
}

/// The output streams of a WASI guest.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Log {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            line_bytes: limits.log_line_bytes,
            max_lines: limits.log_lines,
            max_bytes: limits.log_bytes,
            state: LogState::default(),
        }
    }

    pub(crate) fn state(&self) -> &LogState {
        &self.state
    }

    /// Continues from another log.
    pub(crate) fn resume(&mut self, state: LogState) {
        self.state = state;
    }

    /// Counts a line that exceeds the quota; returns whether it does.
    fn suppress_if_full(&mut self) -> bool {
        let full = !self.has_room();
        self.state.suppressed += u64::from(full);
        full
    }

    fn has_room(&self) -> bool {
        self.state.lines.len() < self.max_lines && self.state.bytes < self.max_bytes
    }

    pub(crate) fn line(&mut self, level: &str, text: &str) {
        // Interpreters print errors to stderr: the last line of a traceback is the message.
        let printed = level == "stderr" && !text.trim().is_empty();
        if level == "error" || (printed && !self.state.logged_error) {
            self.state.logged_error |= level == "error";
            // Recorded even beyond the quota, for trap reports.
            // On one line: it becomes a part of messages. Rust writes a panic on two.
            let line: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            self.state.last_error = Some(escaped(&line.join(" "), self.line_bytes));
        }
        if self.suppress_if_full() {
            return;
        }
        let line = format!("{level}: {}", escaped(text, self.line_bytes.min(self.max_bytes - self.state.bytes)));
        self.state.bytes += line.len();
        self.state.lines.push(line);
    }

    /// Adds bytes of a stream: complete lines are logged, the rest is buffered.
    pub(crate) fn stream(&mut self, stream: Stream, bytes: &[u8]) {
        let (level, index) = match stream {
            Stream::Stdout => ("stdout", 0),
            Stream::Stderr => ("stderr", 1),
        };
        for byte in bytes {
            let Some(partial) = self.state.partial.get_mut(index) else { return };
            if *byte == b'\n' {
                let line = std::mem::take(partial);
                self.line(level, &String::from_utf8_lossy(&line));
            } else if partial.len() < self.line_bytes {
                partial.push(*byte);
            }
        }
    }

    pub(crate) fn last_error(&self) -> Option<&str> {
        self.state.last_error.as_deref()
    }

    /// Takes all lines, with a final one that reports how many were dropped.
    pub(crate) fn take(&mut self) -> Vec<String> {
        self.finish_lines();
        let mut lines = std::mem::take(&mut self.state.lines);
        let suppressed = std::mem::take(&mut self.state.suppressed);
        if suppressed > 0 {
            lines.push(format!("host: suppressed {suppressed} lines over the quota of the episode"));
        }
        lines
    }

    /// The last lines, oldest first.
    pub(crate) fn last(&self, most: usize) -> Vec<String> {
        self.state.lines.iter().skip(self.state.lines.len().saturating_sub(most)).cloned().collect()
    }

    /// Logs the incomplete lines of streams.
    pub(crate) fn finish_lines(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if self.state.partial.get(stream as usize).is_some_and(|partial| !partial.is_empty()) {
                self.stream(stream, b"\n");
            }
        }
    }
}

impl log::Host for State {
    async fn write(&mut self, level: log::Level, text: String) -> wasmtime::Result<()> {
        // Logging never fails an episode: lines are not charged, and beyond the quota only counted.
        if self.log().has_room() {
            self.note("log.write", &[text.as_bytes()]);
        }
        let level = match level {
            log::Level::Trace => "trace",
            log::Level::Debug => "debug",
            log::Level::Info => "info",
            log::Level::Warn => "warn",
            log::Level::Error => "error",
        };
        self.log().line(level, &text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_quota_lines_are_counted() {
        let limits = Limits { log_lines: 3, log_line_bytes: 8, ..Limits::default() };
        let mut log = Log::new(&limits);
        for number in 0..10 {
            log.line("info", &format!("line {number}"));
        }
        log.line("error", "a line that is too long");
        assert_eq!(log.last_error(), Some("a line t…"));
        assert_eq!(
            log.take(),
            ["info: line 0", "info: line 1", "info: line 2", "host: suppressed 8 lines over the quota of the episode"]
        );
    }

    #[test]
    fn the_last_error_is_one_line() {
        let mut log = Log::new(&Limits::default());
        log.line("error", "panicked at src/lib.rs:3:5:\nno such tier\r\n\n  note: \x1b[1m");
        assert_eq!(log.last_error(), Some("panicked at src/lib.rs:3:5: no such tier note: \\u{1b}[1m"));
    }

    #[test]
    fn streams_are_split_into_lines_and_escaped() {
        let mut log = Log::new(&Limits::default());
        log.stream(Stream::Stdout, b"one\ntw");
        log.stream(Stream::Stdout, b"o\n\x1b[31mred");
        assert_eq!(log.take(), ["stdout: one", "stdout: two", "stdout: \\u{1b}[31mred"]);
    }
}
