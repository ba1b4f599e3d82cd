//! Tensors in files, which are read piece by piece: a model takes the memory of the format in which it is kept, and little more.

use crate::cpu::{BLOCK, Bf16, F16, Half, Laid, Unkept};
use crate::weight_files::file;
use crate::{Convert, gguf, host_weights};
use crate::{Decoder, Dtype, HostDecoder, HostMatrix, LocalModelError, ModelConfig, Weight, memory};
use clawhost_core::escaped;
use safetensors::tensor::Metadata;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest header of a safetensors file. A model of a thousand layers has one of a megabyte.
const HEADER_BYTES: u64 = 16 << 20;

/// Values that are read at once, of whole rows. A piece passes through f32, if it is not copied.
const PIECE: usize = 2 << 20;

/// Largest magnitude of a weight. Known models stay below 1e4; from about 1e18 on squares overflow, and answers would be uniform.
const LARGEST_WEIGHT: f32 = 1e9;

/// The number format of a tensor in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    F32,
    F16,
    BF16,
    /// Blocks of 32 values of 8 bits with a scale: those of int8.
    Q8_0,
    /// Blocks of 32 values of 4 bits with a scale.
    Q4_0,
    /// Blocks of 256 values of 4 bits; each 32 have a scale and a minimum.
    Q4K,
    /// Blocks of 256 values of 6 bits; each 16 have a scale.
    Q6K,
}

impl Format {
    /// The format of safetensors with this name. `None`: it is not read.
    pub(crate) fn of(dtype: safetensors::Dtype) -> Option<Self> {
        match dtype {
            safetensors::Dtype::F32 => Some(Self::F32),
            safetensors::Dtype::F16 => Some(Self::F16),
            safetensors::Dtype::BF16 => Some(Self::BF16),
            _ => None,
        }
    }

    /// How it is kept, unless something else is asked for.
    fn kept(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::BF16 => Dtype::BF16,
            Self::Q8_0 | Self::Q4_0 => Dtype::Int8,
            // Two levels of scales: int8 would round the numbers once more.
            Self::Q4K | Self::Q6K => Dtype::F32,
        }
    }

    /// Values of a block, and its bytes.
    fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::BF16 => (1, 2),
            Self::Q8_0 => (BLOCK, gguf::Q8_0),
            Self::Q4_0 => (BLOCK, gguf::Q4_0),
            Self::Q4K => (gguf::SUPER, gguf::Q4_K),
            Self::Q6K => (gguf::SUPER, gguf::Q6_K),
        }
    }

    /// Bytes of a row. `None`: it is not made of whole blocks.
    fn row_bytes(self, values: usize) -> Option<usize> {
        let (block, bytes) = self.block();
        if values.is_multiple_of(block) { (values / block).checked_mul(bytes) } else { None }
    }

    /// Bytes of a tensor. `None`: its rows are not made of whole blocks, or it is too large to count.
    pub(crate) fn bytes(self, shape: &[usize]) -> Option<u64> {
        let (columns, rows) = shape.split_last()?;
        let rows = rows.iter().try_fold(1u64, |all, size| all.checked_mul(*size as u64))?;
        rows.checked_mul(self.row_bytes(*columns)? as u64)
    }

    /// Whether int8 keeps its blocks as they are.
    fn has_codes(self) -> bool {
        matches!(self, Self::Q8_0 | Self::Q4_0)
    }

    /// The codes and the scale of a block that int8 keeps as it is.
    fn codes(self, block: &[u8]) -> Option<([i8; BLOCK], u16)> {
        match self {
            Self::Q8_0 => block.first_chunk().map(gguf::q8_0),
            Self::Q4_0 => block.first_chunk().map(gguf::q4_0),
            _ => None,
        }
    }

    /// Reads values.
    ///
    /// # Errors
    /// A value is not finite, or too large to compute with.
    pub(crate) fn read(self, name: &str, bytes: &[u8], to: &mut Vec<f32>) -> Result<(), LocalModelError> {
        to.clear();
        match self {
            Self::F32 => to.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))),
            Self::BF16 => to.extend(bytes.as_chunks::<2>().0.iter().map(|bytes| Bf16::read(*bytes))),
            Self::F16 => to.extend(bytes.as_chunks::<2>().0.iter().map(|bytes| F16::read(*bytes))),
            Self::Q8_0 | Self::Q4_0 => {
                for (codes, scale) in bytes.chunks(self.block().1).filter_map(|block| self.codes(block)) {
                    let scale = F16::read(scale.to_le_bytes());
                    to.extend(codes.iter().map(|code| f32::from(*code) * scale));
                }
            }
            Self::Q4K => bytes.as_chunks().0.iter().for_each(|block| gguf::q4_k(block, to)),
            Self::Q6K => bytes.as_chunks().0.iter().for_each(|block| gguf::q6_k(block, to)),
        }
        // Of something that is not a number no comparison holds. All are looked at, so that the loop becomes vector code.
        match to.iter().fold(true, |fits, value| fits & (value.abs() <= LARGEST_WEIGHT)) {
            true => Ok(()),
            false => Err(LocalModelError::NotFinite(name.to_owned())),
        }
    }
}

/// A tensor in a file.
#[derive(Debug, Clone)]
struct Stored {
    file: usize,
    offset: u64,
    bytes: u64,
    /// `Err`: its name in the file, of a format that is not read.
    format: Result<Format, String>,
    shape: Vec<usize>,
    /// Rows of a head, if they are in pairs: see [`StoredTensors::pair`].
    paired: Option<usize>,
}

/// The tensors of a model's files by name.
#[derive(Debug, Default)]
pub(crate) struct StoredTensors {
    files: Vec<(PathBuf, File)>,
    tensors: BTreeMap<String, Stored>,
}

impl StoredTensors {
    /// Opens safetensors files, and reads their headers.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub(crate) fn open(paths: &[PathBuf]) -> Result<Self, LocalModelError> {
        let mut all = Self::default();
        for path in paths {
            all.add_safetensors(path)?;
        }
        Ok(all)
    }

    /// Adds a file without tensors. Returns its number.
    pub(crate) fn add_file(&mut self, path: &Path, opened: File) -> usize {
        self.files.push((path.to_owned(), opened));
        self.files.len() - 1
    }

    /// Adds a tensor, with its place in a file: its beginning and its bytes.
    ///
    /// # Errors
    /// There is one with this name.
    pub(crate) fn add(
        &mut self,
        name: String,
        file: usize,
        (offset, bytes): (u64, u64),
        format: Result<Format, String>,
        shape: Vec<usize>,
    ) -> Result<(), LocalModelError> {
        let stored = Stored { file, offset, bytes, format, shape, paired: None };
        match self.tensors.insert(name.clone(), stored) {
            None => Ok(()),
            Some(_) => Err(self.damaged(file, format!("the weight {} is there twice", escaped(&name, SHOWN)))),
        }
    }

    /// An error of a file.
    fn damaged(&self, number: usize, why: String) -> LocalModelError {
        let path = self.files.get(number).map(|(path, _)| path.clone()).unwrap_or_default();
        LocalModelError::File { path, why }
    }

    /// The shape of a tensor.
    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|stored| stored.shape.as_slice())
    }

    /// Says that in a tensor the two rows of a frequency follow each other, in heads of this many rows. They are read in the order in which all first
    /// rows of a head come before all second ones.
    pub(crate) fn pair(&mut self, name: &str, head: usize) {
        if let Some(stored) = self.tensors.get_mut(name) {
            stored.paired = Some(head);
        }
    }

    /// Takes a vector out. `None`: it is not there.
    ///
    /// # Errors
    /// It cannot be read, or has more than `most` values.
    pub(crate) fn take_numbers(&mut self, name: &str, most: usize) -> Result<Option<Vec<f32>>, LocalModelError> {
        let Some(stored) = self.tensors.remove(name) else { return Ok(None) };
        let mut values = Vec::new();
        let format = self.format(name, &stored)?;
        let rows = stored.shape.iter().try_fold(1usize, |all, size| all.checked_mul(*size));
        let Some(rows) = rows.filter(|rows| *rows <= most) else {
            return Err(self.damaged(stored.file, format!("{name} has more than {most} values")));
        };
        let mut bytes = Vec::new();
        self.rows(name, &stored, (0, rows), 1, &mut bytes)?;
        format.read(name, &bytes, &mut values)?;
        Ok(Some(values))
    }

    fn add_safetensors(&mut self, path: &Path) -> Result<(), LocalModelError> {
        let failed = |error| file(path, format!("{error}; a shard of the model"));
        let damaged =
            |why: &dyn std::fmt::Display| file(path, format!("no safetensors ({why}); is the download complete?"));
        let (opened, size) = clawhost_files::open(path, u64::MAX).map_err(failed)?;
        let mut start = [0; 8];
        (&opened).read_exact(&mut start).map_err(|error| damaged(&error))?;
        let length = u64::from_le_bytes(start);
        if length > HEADER_BYTES || length > size.saturating_sub(8) {
            return Err(damaged(&format!("a header of {length} bytes")));
        }
        let mut header = vec![0; length as usize];
        (&opened).read_exact(&mut header).map_err(|error| damaged(&error))?;
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|error| damaged(&error))?;
        if metadata.data_len() as u64 != size - 8 - length {
            let (needed, found) = (metadata.data_len(), size - 8 - length);
            return Err(damaged(&format!("{found} bytes of weights where the header says {needed}")));
        }
        let number = self.add_file(path, opened);
        for (name, info) in metadata.tensors() {
            let (begin, end) = info.data_offsets;
            let format = Format::of(info.dtype).ok_or_else(|| format!("{:?}", info.dtype));
            let (offset, bytes) = (8 + length + begin as u64, (end - begin) as u64);
            self.add(name, number, (offset, bytes), format, info.shape.clone())?;
        }
        Ok(())
    }

    /// Bytes of a model when it is kept in this format; `None`: as it is stored. Weights that are in no file count as f32.
    fn kept_bytes(&self, config: &ModelConfig, dtype: Option<Dtype>) -> u64 {
        let stored = |name: &str| self.tensors.get(name).and_then(|stored| stored.format.as_ref().ok());
        let weights = Decoder::blueprint(config).weights().into_iter();
        let bytes = weights.map(|(name, weight)| match weight {
            Weight::Matrix(shape) => {
                let kept = dtype.or(stored(&name).map(|format| format.kept())).unwrap_or(Dtype::F32);
                // A head that repeats the embedding is compared with it.
                let times = 1 + u64::from(name == EMBEDDING && config.tied && self.tensors.contains_key(HEAD));
                kept.padded_bytes(shape).saturating_mul(times)
            }
            Weight::Vector(length) => (length as u64).saturating_mul(4),
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// Reads a model. Every weight of the architecture must be there with its shape, and no unknown one.
    ///
    /// # Errors
    /// The memory does not suffice; a weight is missing, unknown, damaged, or has another shape; or the format cannot keep a value.
    pub(crate) fn read(mut self, config: &ModelConfig, dtype: Option<Dtype>) -> Result<HostDecoder, LocalModelError> {
        // Bytes of a piece, in the order of the file and in ours.
        let pieces = (PIECE * 2 * size_of::<f32>()) as u64;
        memory::check("the model", self.kept_bytes(config, dtype).saturating_add(pieces))?;
        let weights = Decoder::blueprint(config).convert(&mut Take { stored: &mut self, dtype })?;
        if config.tied && self.tensors.contains_key(HEAD) && !self.is_embedding(HEAD, &weights)? {
            return Err(LocalModelError::TwoHeads);
        }
        match self.tensors.into_keys().find(|name| !is_derived(name)) {
            Some(name) => Err(LocalModelError::UnknownWeight(escaped(&name, SHOWN))),
            None => Ok(weights),
        }
    }

    /// Whether a tensor has the values of the embedding. It is removed.
    fn is_embedding(&mut self, name: &str, weights: &HostDecoder) -> Result<bool, LocalModelError> {
        let mut take = Take { stored: self, dtype: Some(weights.embedding.dtype()) };
        Ok(take.matrix(name, &weights.embedding.shape)? == weights.embedding)
    }

    fn format(&self, name: &str, stored: &Stored) -> Result<Format, LocalModelError> {
        stored.format.clone().map_err(|found| {
            let read = "F32, F16, BF16, and of GGUF Q8_0, Q4_0, Q4_K and Q6_K are read";
            LocalModelError::Config(format!("the weight {name} is stored as {found}; {read}"))
        })
    }

    /// Reads the bytes of rows of `columns` values: from the first on, as many as said. Where rows are in pairs, both are multiples of a head.
    fn rows(
        &self,
        name: &str,
        stored: &Stored,
        (first, count): (usize, usize),
        columns: usize,
        piece: &mut Vec<u8>,
    ) -> Result<(), LocalModelError> {
        let (format, found) = (self.format(name, stored)?, self.files.get(stored.file));
        let Some((path, opened)) = found else { return Err(LocalModelError::MissingWeight(name.to_owned())) };
        let Some(width) = format.row_bytes(columns) else {
            return Err(file(
                path,
                format!("the rows of the weight {name} have {columns} values, which are no whole blocks"),
            ));
        };
        let (skip, bytes) = (first as u64 * width as u64, count * width);
        if skip + bytes as u64 > stored.bytes {
            return Err(file(path, format!("the weight {name} is shorter than its shape")));
        }
        piece.resize(bytes, 0);
        let mut reader = opened;
        reader.seek(SeekFrom::Start(stored.offset + skip)).map_err(|error| file(path, error))?;
        reader.read_exact(piece).map_err(|error| file(path, format!("{error}; did the file change?")))?;
        if let Some(head) = stored.paired {
            *piece = unpaired(piece, width, head);
        }
        Ok(())
    }
}

/// The least common multiple of two numbers from 1.
fn common_multiple(one: usize, other: usize) -> usize {
    let (mut large, mut small) = (one, other.max(1));
    while small > 0 {
        (large, small) = (small, large % small);
    }
    one / large * other.max(1)
}

/// Rows in the order in which all first ones of pairs come before all second ones, head by head.
fn unpaired(rows: &[u8], width: usize, head: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(rows.len());
    for head in rows.chunks((width * head).max(1)) {
        for second in 0..2 {
            head.chunks(width.max(1)).skip(second).step_by(2).for_each(|row| out.extend_from_slice(row));
        }
    }
    out
}

/// The name of the embedding.
const EMBEDDING: &str = "model.embed_tokens.weight";

/// Characters of a name in an error.
const SHOWN: usize = 200;

/// The name of the head. Some files of tied models repeat the embedding under it.
const HEAD: &str = "lm_head.weight";

/// Whether a file may contain this weight although it is not needed: angles that follow from the configuration.
fn is_derived(name: &str) -> bool {
    name.ends_with(".rotary_emb.inv_freq")
}

/// Takes tensors out, one after the other.
struct Take<'a> {
    stored: &'a mut StoredTensors,
    dtype: Option<Dtype>,
}

/// Why rows are not kept.
enum Unread {
    Error(LocalModelError),
    Unkept(Unkept),
}

impl From<Unkept> for Unread {
    fn from(unkept: Unkept) -> Self {
        Self::Unkept(unkept)
    }
}

impl Take<'_> {
    fn take(&mut self, name: &str, expected: &[usize]) -> Result<Stored, LocalModelError> {
        let stored = self.stored.tensors.remove(name).ok_or_else(|| LocalModelError::MissingWeight(name.to_owned()))?;
        if stored.shape != expected {
            let (found, expected) = (stored.shape, expected.to_vec());
            return Err(LocalModelError::Shape { name: name.to_owned(), found, expected });
        }
        Ok(stored)
    }
}

impl Convert<[usize; 2], usize> for Take<'_> {
    type Matrix = HostMatrix;
    type Vector = Arc<[f32]>;
    type Error = LocalModelError;

    fn matrix(&mut self, name: &str, shape: &[usize; 2]) -> Result<HostMatrix, LocalModelError> {
        let stored = self.take(name, shape)?;
        let [rows, columns] = *shape;
        let format = self.stored.format(name, &stored)?;
        let dtype = self.dtype.unwrap_or(format.kept());
        let mut laid = Laid::zeros(dtype, *shape);
        // Whole panels and heads of rows.
        let whole = common_multiple(host_weights::PANEL_ROWS, stored.paired.unwrap_or(1));
        let at_once = (PIECE / columns.max(1)).next_multiple_of(whole).max(whole);
        // One buffer for all pieces: fresh memory would be cleared for each.
        let mut bytes = Vec::new();
        for first in (0..rows).step_by(at_once) {
            self.stored.rows(name, &stored, (first, at_once.min(rows - first)), columns, &mut bytes)?;
            if let (Format::BF16, Dtype::BF16) | (Format::F16, Dtype::F16) = (format, dtype) {
                let largest = laid.put_halves(first, bytes.as_chunks::<2>().0);
                // Of something that is not a number no comparison holds.
                match largest <= LARGEST_WEIGHT {
                    true => continue,
                    false => return Err(LocalModelError::NotFinite(name.to_owned())),
                }
            }
            match format.has_codes() && dtype == Dtype::Int8 {
                true => {
                    let (width, size) = (format.row_bytes(columns).unwrap_or_default(), format.block().1);
                    laid.put_blocks(first, at_once.min(rows - first), |row, block| {
                        let codes = bytes.get(row * width + block * size..).and_then(|bytes| format.codes(bytes));
                        // 128 times the largest finite scale is below the largest weight.
                        let finite = codes.filter(|(_, scale)| half::f16::from_bits(*scale).is_finite());
                        finite.ok_or_else(|| LocalModelError::NotFinite(name.to_owned()))
                    })?;
                }
                false => {
                    let width = format.row_bytes(columns).unwrap_or_default();
                    let read = |place: usize, count: usize, to: &mut Vec<f32>| {
                        let rows = bytes.get(place * width..(place + count) * width).unwrap_or_default();
                        format.read(name, rows, to).map_err(Unread::Error)
                    };
                    laid.fill(first, at_once.min(rows - first), read).map_err(|error| match error {
                        Unread::Error(error) => error,
                        Unread::Unkept(error) => error.of(name, dtype),
                    })?;
                }
            }
        }
        Ok(HostMatrix::laid_out(Arc::new(laid)))
    }

    fn vector(&mut self, name: &str, length: &usize) -> Result<Arc<[f32]>, LocalModelError> {
        let stored = self.take(name, &[*length])?;
        let mut values = Vec::new();
        let format = self.stored.format(name, &stored)?;
        let mut bytes = Vec::new();
        self.stored.rows(name, &stored, (0, *length), 1, &mut bytes)?;
        format.read(name, &bytes, &mut values)?;
        Ok(values.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weight_files::Stored as Written;
    use crate::{TinyModel, digest};

    fn written(stored: Written) -> (ModelConfig, HostDecoder, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let made = TinyModel::default().make().unwrap();
        made.write_as(folder.path(), stored, None).unwrap();
        (made.config, made.weights, folder)
    }

    fn read(folder: &Path, config: &ModelConfig, dtype: Option<Dtype>) -> Result<HostDecoder, LocalModelError> {
        StoredTensors::open(&[folder.join("model.safetensors")])?.read(config, dtype)
    }

    #[test]
    fn matrices_are_kept_as_they_are_stored_or_as_asked_for() {
        for (stored, dtype) in [(Written::F32, Dtype::F32), (Written::BF16, Dtype::BF16), (Written::F16, Dtype::F16)] {
            let (config, weights, folder) = written(stored);
            let found = read(folder.path(), &config, None).unwrap();
            let right = weights.kept_as(dtype).unwrap();
            assert!(found.weights().iter().all(|(_, weight)| match weight {
                Weight::Matrix(matrix) => matrix.dtype() == dtype,
                Weight::Vector(_) => true,
            }));
            assert_eq!((&found.embedding, &found.blocks), (&right.embedding, &right.blocks));
            for asked in Dtype::ALL {
                let found = read(folder.path(), &config, Some(asked)).unwrap();
                let right = right.kept_as(asked).unwrap();
                assert_eq!(digest(&found), digest(&right), "{stored:?} as {asked:?}");
                assert_eq!(found.bytes(), right.bytes());
            }
        }
    }

    #[test]
    fn lying_headers_of_safetensors_are_refused() {
        let check = |change: &dyn Fn(Vec<u8>) -> Vec<u8>, expect: &str| {
            let (config, _, folder) = written(Written::F32);
            let path = folder.path().join("model.safetensors");
            std::fs::write(&path, change(std::fs::read(&path).unwrap())).unwrap();
            let error = read(folder.path(), &config, None).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        let replaced = |from: &'static str, to: &'static str| {
            move |bytes: Vec<u8>| {
                assert_eq!(from.len(), to.len());
                let place = bytes.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
                [&bytes[..place], to.as_bytes(), &bytes[place + from.len()..]].concat()
            }
        };
        check(&|_| Vec::new(), "is the download complete?");
        check(
            &|mut bytes| {
                bytes[7] = 1;
                bytes
            },
            "a header of 72057594037",
        );
        check(
            &|mut bytes| {
                bytes.pop();
                bytes
            },
            "bytes of weights where the header says",
        );
        check(
            &|mut bytes| {
                bytes.push(0);
                bytes
            },
            "bytes of weights where the header says",
        );
        check(&replaced("\"F32\"", "\"F16\""), "no safetensors");
        check(&replaced("\"F32\"", "\"I32\""), "is stored as I32; F32, F16, BF16, and of GGUF");
        check(&replaced("data_offsets\":[0,", "data_offsets\":[4,"), "no safetensors");
        check(&replaced("q_proj.weight", "q_prxj.weight"), "q_proj.weight is in no file");
        check(
            &|mut bytes| {
                let end = bytes.len();
                bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
                bytes
            },
            "holds a value that is not finite, or above 1e9",
        );
        check(
            &|mut bytes| {
                let end = bytes.len();
                bytes[end - 4..].copy_from_slice(&2e9f32.to_le_bytes());
                bytes
            },
            "holds a value that is not finite, or above 1e9",
        );
    }

    #[test]
    fn rows_in_pairs_are_put_in_order_head_by_head() {
        assert_eq!(unpaired(&[0, 2, 1, 3, 4, 6, 5, 7], 1, 4), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(unpaired(&[0, 0, 1, 1], 2, 2), [0, 0, 1, 1]);
        for (one, other, expect) in [(16, 1, 16), (16, 32, 32), (16, 24, 48), (16, 128, 128)] {
            assert_eq!(common_multiple(one, other), expect);
        }
    }

    #[test]
    fn a_weight_that_a_format_cannot_keep_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let mut made = TinyModel::default().make().unwrap();
        let mut values = made.weights.embedding.values().into_owned();
        values[0] = 9e8;
        made.weights.embedding = HostMatrix::new("embedding", made.weights.embedding.shape, values).unwrap();
        made.write(folder.path()).unwrap();
        let check = |dtype, expect: Option<&str>| {
            let found = read(folder.path(), &made.config, Some(dtype)).map(|_| ()).map_err(|error| error.to_string());
            match expect {
                None => assert_eq!(found, Ok(()), "{dtype:?}"),
                Some(expect) => assert!(found.clone().is_err_and(|error| error.contains(expect)), "{found:?}"),
            }
        };
        check(Dtype::F32, None);
        check(Dtype::BF16, None);
        check(Dtype::F16, Some("model.embed_tokens.weight holds 900000000, too large for f16; keep it as bf16 or f32"));
        check(Dtype::Int8, Some("too large for int8"));
    }
}
