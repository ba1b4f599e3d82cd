//! Writes a GGUF file, version 3 and little-endian, as ggml's `docs/gguf.md` says: typed values by name, tensors with their places, then the numbers, each
//! tensor aligned.
//!
//! The file appears as a whole or not at all: it is written beside its place, flushed, and renamed.

use super::tensor::Tensor;
use crate::LocalModelError;
use crate::gguf::header::ALIGNMENT;
use crate::weight_files::file;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The version of the format.
const VERSION: u32 = 3;

/// The type of a value in the format.
const UNSIGNED: u32 = 4;
/// See [`UNSIGNED`].
const SIGNED: u32 = 5;
/// See [`UNSIGNED`].
const FLOAT: u32 = 6;
/// See [`UNSIGNED`].
const FLAG: u32 = 7;
/// See [`UNSIGNED`].
const TEXT: u32 = 8;
/// See [`UNSIGNED`].
const LIST: u32 = 9;

/// Values by name, as bytes.
#[derive(Debug, Default)]
pub(super) struct Values {
    bytes: Vec<u8>,
    count: u64,
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

impl Values {
    fn begin(&mut self, name: &str, kind: u32) {
        text(&mut self.bytes, name);
        self.bytes.extend(kind.to_le_bytes());
        self.count += 1;
    }

    fn list(&mut self, name: &str, kind: u32, length: usize) {
        self.begin(name, LIST);
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend((length as u64).to_le_bytes());
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.begin(name, TEXT);
        text(&mut self.bytes, value);
    }

    pub(super) fn whole(&mut self, name: &str, value: u32) {
        self.begin(name, UNSIGNED);
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn float(&mut self, name: &str, value: f32) {
        self.begin(name, FLOAT);
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn flag(&mut self, name: &str, value: bool) {
        self.begin(name, FLAG);
        self.bytes.push(u8::from(value));
    }

    pub(super) fn texts<T: AsRef<str>>(&mut self, name: &str, values: &[T]) {
        self.list(name, TEXT, values.len());
        values.iter().for_each(|value| text(&mut self.bytes, value.as_ref()));
    }

    pub(super) fn numbers(&mut self, name: &str, values: &[i32]) {
        self.list(name, SIGNED, values.len());
        values.iter().for_each(|value| self.bytes.extend(value.to_le_bytes()));
    }
}

/// Writes a file. One of the same name is replaced.
///
/// # Errors
/// The file cannot be written, or a value is too large for the format of its tensor.
pub(super) fn write(path: &Path, values: &Values, tensors: &[Tensor]) -> Result<(), LocalModelError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| file(folder, error))?;
    }
    let beside = path.with_file_name(format!(".{name}.new"));
    let written = write_beside(&beside, values, tensors)
        .and_then(|()| std::fs::rename(&beside, path).map_err(|error| file(path, error)));
    if written.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn write_beside(path: &Path, values: &Values, tensors: &[Tensor]) -> Result<(), LocalModelError> {
    let failed = |error: std::io::Error| file(path, format!("{error}; is there room, and may it be written to?"));
    let mut to = BufWriter::new(File::create(path).map_err(failed)?);
    let header = header(values, tensors);
    to.write_all(&header).and_then(|()| pad(&mut to, header.len() as u64)).map_err(failed)?;
    for tensor in tensors {
        let mut bytes = 0;
        tensor.pieces(&mut |piece| {
            bytes += piece.len() as u64;
            to.write_all(piece).map_err(failed)
        })?;
        pad(&mut to, bytes).map_err(failed)?;
    }
    let whole = to.into_inner().map_err(|error| failed(error.into_error()))?;
    whole.sync_all().map_err(failed)
}

/// Zeros up to the next place where a tensor may begin.
fn pad(to: &mut impl Write, written: u64) -> std::io::Result<()> {
    const ZEROS: [u8; ALIGNMENT as usize] = [0; ALIGNMENT as usize];
    let missing = written.next_multiple_of(ALIGNMENT) - written;
    to.write_all(ZEROS.get(..missing as usize).unwrap_or_default())
}

fn header(values: &Values, tensors: &[Tensor]) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend(values.count.to_le_bytes());
    out.extend(&values.bytes);
    let mut offset = 0u64;
    for tensor in tensors {
        text(&mut out, &tensor.name);
        let shape = tensor.shape();
        out.extend((shape.len() as u32).to_le_bytes());
        // The file has columns first.
        shape.iter().rev().for_each(|size| out.extend((*size as u64).to_le_bytes()));
        out.extend(tensor.format().kind().to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset += tensor.bytes().next_multiple_of(ALIGNMENT);
    }
    out
}
