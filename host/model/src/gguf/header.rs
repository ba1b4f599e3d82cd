//! The header of a GGUF file: typed values by name, then the tensors with their places. Versions 2 and 3, little-endian, as ggml's `docs/gguf.md` says.

use crate::LocalModelError;
use crate::weight_files::file;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Largest header in bytes. The largest known vocabularies, of a quarter of a million tokens with their merges, take 12 MB.
const HEADER_BYTES: u64 = 64 << 20;
/// Most values by name. Known files have 50.
const MOST_VALUES: u64 = 4096;
/// Most tensors: a model of 2,048 layers with twenty each has fewer.
const MOST_TENSORS: u64 = 65_536;
/// Most dimensions of a tensor in the format.
const MOST_DIMENSIONS: u32 = 4;
/// Largest alignment of tensors. Files use 32.
const LARGEST_ALIGNMENT: u64 = 1 << 20;
/// Where tensors are aligned unless the file says otherwise.
pub(super) const ALIGNMENT: u64 = 32;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum GgufValue {
    Whole(i128),
    Float(f64),
    Flag(bool),
    Text(String),
    Texts(Vec<String>),
    /// Whole numbers.
    Numbers(Vec<i64>),
    /// Other lists: their length.
    List(usize),
}

/// A tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TensorInfo {
    pub(super) name: String,
    /// Rows first, as in safetensors; the file has the reverse order.
    pub(super) shape: Vec<usize>,
    pub(super) kind: u32,
    /// From the beginning of the tensors.
    pub(super) offset: u64,
}

/// The header.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Header {
    pub(super) values: BTreeMap<String, GgufValue>,
    pub(super) tensors: Vec<TensorInfo>,
    /// Where the tensors begin.
    pub(super) start: u64,
}

/// Reads numbers, and counts bytes.
struct Bytes<R> {
    from: R,
    read: u64,
}

type Outcome<T> = Result<T, String>;

impl<R: Read> Bytes<R> {
    fn array<const N: usize>(&mut self) -> Outcome<[u8; N]> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes).map_err(|_| "the header ends early, or is too long".to_owned())?;
        self.read += N as u64;
        Ok(bytes)
    }

    fn u32(&mut self) -> Outcome<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Outcome<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number of things, which take at least a byte each.
    fn count(&mut self, what: &str, most: u64) -> Outcome<u64> {
        match self.u64()? {
            count if count <= most => Ok(count),
            count => Err(format!("{count} {what}; at most {most} are read")),
        }
    }

    fn text(&mut self) -> Outcome<String> {
        let length = self.count("bytes in a text", HEADER_BYTES)?;
        let mut bytes = Vec::new();
        let read = self.from.by_ref().take(length).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if read as u64 != length {
            return Err("the header ends early, or is too long".to_owned());
        }
        self.read += length;
        String::from_utf8(bytes).map_err(|_| "a text is not UTF-8".to_owned())
    }

    fn whole(&mut self, kind: u32) -> Outcome<Option<i128>> {
        Ok(Some(match kind {
            0 => self.array::<1>().map(u8::from_le_bytes)?.into(),
            1 => self.array::<1>().map(i8::from_le_bytes)?.into(),
            2 => self.array::<2>().map(u16::from_le_bytes)?.into(),
            3 => self.array::<2>().map(i16::from_le_bytes)?.into(),
            4 => self.u32()?.into(),
            5 => self.array::<4>().map(i32::from_le_bytes)?.into(),
            10 => self.u64()?.into(),
            11 => self.array::<8>().map(i64::from_le_bytes)?.into(),
            _ => return Ok(None),
        }))
    }

    fn value(&mut self, kind: u32) -> Outcome<GgufValue> {
        if let Some(whole) = self.whole(kind)? {
            return Ok(GgufValue::Whole(whole));
        }
        match kind {
            6 => Ok(GgufValue::Float(self.array::<4>().map(f32::from_le_bytes)?.into())),
            7 => Ok(GgufValue::Flag(self.array::<1>()? != [0])),
            8 => Ok(GgufValue::Text(self.text()?)),
            9 => self.list(),
            12 => Ok(GgufValue::Float(self.array::<8>().map(f64::from_le_bytes)?)),
            _ => Err(format!("a value of the unknown type {kind}")),
        }
    }

    fn list(&mut self) -> Outcome<GgufValue> {
        let kind = self.u32()?;
        let count = self.count("values in a list", HEADER_BYTES)?;
        match kind {
            8 => (0..count).map(|_| self.text()).collect::<Result<_, _>>().map(GgufValue::Texts),
            9 => Err("a list of lists".to_owned()),
            0..=5 | 10 | 11 => {
                let number = |_| {
                    let whole = self.whole(kind)?.unwrap_or_default();
                    i64::try_from(whole).map_err(|_| format!("{whole} in a list"))
                };
                (0..count).map(number).collect::<Result<_, _>>().map(GgufValue::Numbers)
            }
            _ => {
                (0..count).try_for_each(|_| self.value(kind).map(|_| ()))?;
                Ok(GgufValue::List(count as usize))
            }
        }
    }

    fn tensor(&mut self) -> Outcome<TensorInfo> {
        let name = self.text()?;
        let dimensions = self.u32()?;
        if dimensions > MOST_DIMENSIONS {
            return Err(format!("{dimensions} dimensions of a tensor; at most {MOST_DIMENSIONS} are read"));
        }
        let size = |_| self.u64().and_then(|size| usize::try_from(size).map_err(|_| format!("a dimension of {size}")));
        let mut shape: Vec<usize> = (0..dimensions).map(size).collect::<Result<_, _>>()?;
        shape.reverse();
        Ok(TensorInfo { name, shape, kind: self.u32()?, offset: self.u64()? })
    }

    fn header(&mut self) -> Outcome<Header> {
        if self.array()? != *b"GGUF" {
            return Err("it does not begin with the letters GGUF".to_owned());
        }
        match self.u32()? {
            2 | 3 => {}
            other => return Err(format!("version {} of the format; 2 and 3 are read", other.min(other.swap_bytes()))),
        }
        let tensors = self.count("tensors", MOST_TENSORS)?;
        let count = self.count("values", MOST_VALUES)?;
        let mut values = BTreeMap::new();
        for _ in 0..count {
            let (name, kind) = (self.text()?, self.u32()?);
            let value = self.value(kind)?;
            if values.insert(name.clone(), value).is_some() {
                return Err(format!("the value {} twice", clawhost_core::escaped(&name, 80)));
            }
        }
        let tensors = (0..tensors).map(|_| self.tensor()).collect::<Result<Vec<_>, _>>()?;
        let alignment = match values.get("general.alignment") {
            None => ALIGNMENT,
            Some(GgufValue::Whole(alignment)) => u64::try_from(*alignment)
                .ok()
                .filter(|alignment| alignment.is_power_of_two() && *alignment <= LARGEST_ALIGNMENT)
                .ok_or_else(|| format!("an alignment of {alignment}"))?,
            Some(_) => return Err("an alignment that is no number".to_owned()),
        };
        if let Some(tensor) = tensors.iter().find(|tensor| !tensor.offset.is_multiple_of(alignment)) {
            let name = clawhost_core::escaped(&tensor.name, 80);
            return Err(format!("the tensor {name} is not aligned"));
        }
        Ok(Header { values, tensors, start: self.read.next_multiple_of(alignment) })
    }
}

impl Header {
    /// Reads the header of an open file.
    ///
    /// # Errors
    /// It is damaged, or reaches a limit.
    pub(super) fn read(path: &Path, opened: &File) -> Result<Self, LocalModelError> {
        Self::of(opened)
            .map_err(|why| file(path, format!("no GGUF file that is read here ({why}); is the download complete?")))
    }

    fn of(from: impl Read) -> Outcome<Self> {
        Bytes { from: BufReader::new(from.take(HEADER_BYTES)), read: 0 }.header()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes headers for tests.
    #[derive(Default)]
    pub(in crate::gguf) struct Written {
        pub(in crate::gguf) values: Vec<u8>,
        pub(in crate::gguf) count: u64,
        pub(in crate::gguf) tensors: Vec<(String, Vec<usize>, u32, Vec<u8>)>,
    }

    pub(in crate::gguf) fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
    }

    impl Written {
        pub(in crate::gguf) fn value(&mut self, name: &str, kind: u32, bytes: &[u8]) -> &mut Self {
            self.values.extend([&text(name), &kind.to_le_bytes()[..], bytes].concat());
            self.count += 1;
            self
        }

        pub(in crate::gguf) fn bytes(&self) -> Vec<u8> {
            let mut out = b"GGUF".to_vec();
            out.extend(3u32.to_le_bytes());
            out.extend((self.tensors.len() as u64).to_le_bytes());
            out.extend(self.count.to_le_bytes());
            out.extend(&self.values);
            let mut offset = 0u64;
            for (name, shape, kind, bytes) in &self.tensors {
                out.extend(text(name));
                out.extend((shape.len() as u32).to_le_bytes());
                shape.iter().rev().for_each(|size| out.extend((*size as u64).to_le_bytes()));
                out.extend(kind.to_le_bytes());
                out.extend(offset.to_le_bytes());
                offset += (bytes.len() as u64).next_multiple_of(ALIGNMENT);
            }
            let padded = |out: &mut Vec<u8>| out.resize(out.len().next_multiple_of(ALIGNMENT as usize), 0);
            padded(&mut out);
            for (_, _, _, bytes) in &self.tensors {
                out.extend(bytes);
                padded(&mut out);
            }
            out
        }
    }

    fn list(kind: u32, count: u64, bytes: &[u8]) -> Vec<u8> {
        [&kind.to_le_bytes()[..], &count.to_le_bytes(), bytes].concat()
    }

    #[test]
    fn values_of_every_type_are_read() {
        let mut written = Written::default();
        written.value("a", 4, &7u32.to_le_bytes()).value("b", 1, &[0xff]).value("c", 6, &0.5f32.to_le_bytes());
        written.value("d", 7, &[1]).value("e", 8, &text("é")).value("f", 12, &2.0f64.to_le_bytes());
        written.value("g", 9, &list(8, 2, &[text("x"), text("")].concat()));
        written.value("h", 9, &list(5, 2, &[1i32.to_le_bytes(), (-1i32).to_le_bytes()].concat()));
        written.value("i", 9, &list(6, 1, &1f32.to_le_bytes())).value("general.alignment", 10, &64u64.to_le_bytes());
        written.tensors.push(("t".to_owned(), vec![2, 3], 0, vec![0; 24]));
        let header = Header::of(&written.bytes()[..]).unwrap();
        use GgufValue::{Flag, Float, List, Numbers, Text, Texts, Whole};
        let right = [
            ("a", Whole(7)),
            ("b", Whole(-1)),
            ("c", Float(0.5)),
            ("d", Flag(true)),
            ("e", Text("é".into())),
            ("f", Float(2.0)),
            ("g", Texts(vec!["x".into(), "".into()])),
            ("h", Numbers(vec![1, -1])),
            ("i", List(1)),
            ("general.alignment", Whole(64)),
        ];
        assert_eq!(header.values, right.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        assert_eq!(header.tensors, [TensorInfo { name: "t".into(), shape: vec![2, 3], kind: 0, offset: 0 }]);
        assert_eq!(header.start % 64, 0);
    }

    #[test]
    fn lying_headers_of_gguf_are_refused() {
        let check = |bytes: &[u8], expect: &str| {
            let error = Header::of(bytes).unwrap_err();
            assert!(error.contains(expect), "{error}");
        };
        let start = |version: u32, tensors: u64, values: u64| {
            [b"GGUF", &version.to_le_bytes()[..], &tensors.to_le_bytes(), &values.to_le_bytes()].concat()
        };
        check(b"", "ends early");
        check(b"GGML....", "does not begin with");
        check(&start(1, 0, 0), "version 1");
        check(&start(3u32.swap_bytes(), 0, 0), "version 3 of the format");
        check(&start(3, 1 << 40, 0), "tensors; at most");
        check(&start(3, 0, 1 << 40), "values; at most");
        check(&start(3, 1, 0), "ends early");
        check(&[start(3, 0, 1), (1u64 << 50).to_le_bytes().to_vec()].concat(), "bytes in a text");
        check(&[start(3, 0, 1), text("a"), 13u32.to_le_bytes().to_vec()].concat(), "unknown type 13");
        check(&[start(3, 0, 1), text("a"), 9u32.to_le_bytes().to_vec(), list(9, 1, &[])].concat(), "a list of lists");
        check(&[start(3, 0, 1), text("a"), 9u32.to_le_bytes().to_vec(), list(4, 1 << 60, &[])].concat(), "in a list");
        check(
            &[
                start(3, 0, 2),
                text("a"),
                7u32.to_le_bytes().to_vec(),
                vec![1],
                text("a"),
                7u32.to_le_bytes().to_vec(),
                vec![1],
            ]
            .concat(),
            "the value a twice",
        );
        check(&[start(3, 1, 0), text("t"), 9u32.to_le_bytes().to_vec()].concat(), "9 dimensions");
        let tensor = [text("t"), 1u32.to_le_bytes().to_vec(), 1u64.to_le_bytes().to_vec(), 0u32.to_le_bytes().to_vec()];
        check(&[start(3, 1, 0), tensor.concat(), 7u64.to_le_bytes().to_vec()].concat(), "not aligned");
        let mut zero = Written::default();
        check(&zero.value("general.alignment", 4, &0u32.to_le_bytes()).bytes(), "an alignment of 0");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), whole in any::<bool>()) {
            if whole {
                bytes.splice(0..bytes.len().min(8), *b"GGUF\x03\0\0\0");
            }
            let _ = Header::of(&bytes[..]);
        }
    }
}
