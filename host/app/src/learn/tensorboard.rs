//! Metrics for TensorBoard, in TensorFlow's event file format.
//!
//! A record is its length (u64), a checksum of the length, the event, and a checksum of the event. Checksums are
//! CRC-32C, masked, because events may contain records. An event is a Protocol Buffers message
//! (tensorflow/core/util/event.proto) of which these fields are used: 1 `wall_time` (double), 2 `step` (varint), 3
//! `file_version` (text), 5 `summary`, and 7 `session_log`, which makes the reader of a resumed run drop earlier events
//! at or after this step.

use crate::SystemClock;
use clawhost_core::Clock as _;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Largest number of files that may begin in one second: their names are numbered.
const NAMES: u32 = 1000;

/// An event file.
pub(super) struct Events(File);

/// Bytes of a Protocol Buffers message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u64, kind: u64) {
        self.varint(field << 3 | kind);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.key(field, 0);
        self.varint(value);
        self
    }

    fn double(mut self, field: u64, value: f64) -> Self {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn float(mut self, field: u64, value: f32) -> Self {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

fn record(event: &Message) -> Vec<u8> {
    let length = (event.0.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), &event.0, &masked(&event.0)].concat()
}

fn event(seconds: f64, step: u64) -> Message {
    Message::default().double(1, seconds).number(2, step)
}

fn seconds() -> f64 {
    SystemClock::default().now_ms() as f64 / 1e3
}

impl Events {
    /// Creates a file in a folder. Events of other files at or after this step no longer count.
    pub(super) fn begin(folder: &Path, step: u64) -> std::io::Result<Self> {
        let now = seconds();
        let name = |number: u32| format!("events.out.tfevents.{:010}.clawhost.{number}", now as u64);
        let open = |number| File::options().write(true).create_new(true).open(folder.join(name(number)));
        let mut file = open(0);
        for number in 1..NAMES {
            match &file {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => file = open(number),
                _ => break,
            }
        }
        let mut file = file?;
        file.write_all(&record(&Message::default().double(1, now).bytes(3, b"brain.Event:2")))?;
        let starts = Message::default().number(1, 1);
        file.write_all(&record(&event(now, step).bytes(7, &starts.0)))?;
        Ok(Self(file))
    }

    /// Writes the metrics of one step.
    pub(super) fn write<'a>(
        &mut self,
        step: u64,
        numbers: impl Iterator<Item = (&'a str, f64)>,
    ) -> std::io::Result<()> {
        let mut summary = Message::default();
        for (name, value) in numbers {
            let value = Message::default().bytes(1, name.as_bytes()).float(2, value as f32);
            summary = summary.bytes(1, &value.0);
        }
        self.0.write_all(&record(&event(seconds(), step).bytes(5, &summary.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_equal_those_of_tensorflow() {
        // The output of TensorFlow's own writer for Event(wall_time=1.5, step=300, summary={a: 0.25}).
        let value = Message::default().bytes(1, b"a").float(2, 0.25);
        let summary = Message::default().bytes(1, &value.0);
        let event = event(1.5, 300).bytes(5, &summary.0);
        let hex: String = event.0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "09000000000000f83f10ac022a0a0a080a0161150000803e");
        // RFC 3720, B.4: thirty-two bytes of zeros.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        let record = record(&event);
        assert_eq!(record.len(), 8 + 4 + event.0.len() + 4);
        assert_eq!(record[8..12], masked(&record[..8]));
    }

    #[test]
    fn a_resumed_run_gets_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        for step in [1, 4] {
            let mut events = Events::begin(folder.path(), step).unwrap();
            events.write(step, [("reward", 0.5)].into_iter()).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
