//! The protocol buffers of the Tinker protocol: what is trained on, and what comes of training and sampling. (Its other bodies are plain JSON.)
//!
//! Written after `tinker_public.proto` of the SDK 0.38; fields that are not used here are skipped when they are read. Lists of numbers are bytes,
//! little-endian. Both sides are here: a client writes requests and reads answers, a server the reverse.

use crate::WireError;
use clawhost_core::escaped;
use prost::Message as _;
use std::collections::BTreeMap;

/// The content type of these messages.
pub const PROTOBUF: &str = "application/x-protobuf";
/// The field of [`ForwardBackwardOutput`] with the log-probs of target tokens.
pub const LOGPROBS: &str = "logprobs";
/// Data of a request, so that a damaged message cannot ask for memory: more than the SDK ever sends at once.
pub const MOST_DATA: usize = 1 << 16;
/// Longest part of a foreign name in a message, in bytes.
const SHOWN_BYTES: usize = 60;

/// The type of numbers, as [`Tensor::dtype`].
pub mod dtype {
    /// 32-bit floats.
    pub const FLOAT32: i32 = 1;
    /// 64-bit integers.
    pub const INT64: i32 = 2;
}

/// Why a sampled sequence ended: at a stop token, as [`SampledSequence::stop_reason`].
pub const STOPPED: i32 = 0;
/// At the limit of tokens.
pub const AT_LENGTH: i32 = 1;

/// A request for a pass over data: a loss, and its gradients unless [`Self::forward_only`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct ForwardBackwardRequest {
    /// The model that is trained.
    #[prost(string, tag = "1")]
    pub model_id: String,
    /// Orders the requests of the model, from 1 on.
    #[prost(int32, tag = "2")]
    pub seq_id: i32,
    /// The data.
    #[prost(message, repeated, tag = "3")]
    pub data: Vec<Datum>,
    /// The loss: `cross_entropy`, `importance_sampling`, ...
    #[prost(string, tag = "4")]
    pub loss_fn: String,
    /// Whether no gradients are accumulated.
    #[prost(bool, tag = "6")]
    pub forward_only: bool,
}

/// A sequence with what its loss needs.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Datum {
    /// The input in pieces.
    #[prost(message, repeated, tag = "1")]
    pub model_input: Vec<Chunk>,
    /// By name: `target_tokens`, `weights`, `logprobs`, `advantages`; one number for each token of the input.
    #[prost(btree_map = "string, message", tag = "2")]
    pub loss_fn_inputs: BTreeMap<String, Tensor>,
}

/// A piece of an input. Images and sound are not used here.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Chunk {
    /// Tokens.
    #[prost(message, optional, tag = "1")]
    pub encoded_text: Option<EncodedText>,
}

/// Tokens of a text.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EncodedText {
    /// 32-bit integers.
    #[prost(bytes = "vec", tag = "1")]
    pub tokens: Vec<u8>,
}

/// Numbers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Tensor {
    /// The numbers. (Sparse ones are not used here.)
    #[prost(bytes = "vec", optional, tag = "1")]
    pub dense: Option<Vec<u8>>,
    /// Their type, of [`dtype`].
    #[prost(int32, tag = "3")]
    pub dtype: i32,
    /// The lengths of the dimensions.
    #[prost(int64, repeated, tag = "4")]
    pub shape: Vec<i64>,
}

/// What came of a pass.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ForwardBackwardOutput {
    /// The kind of the records.
    #[prost(string, tag = "1")]
    pub loss_fn_output_type: String,
    /// Records, whose data follow each other.
    #[prost(message, repeated, tag = "2")]
    pub loss_fn_outputs: Vec<ArrayRecord>,
    /// What was measured: `loss:sum`, ...
    #[prost(btree_map = "string, double", tag = "3")]
    pub metrics: BTreeMap<String, f64>,
}

/// Numbers of several data, by name.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ArrayRecord {
    /// The kind of the record.
    #[prost(string, tag = "1")]
    pub type_tag: String,
    /// By name: [`LOGPROBS`], ...
    #[prost(btree_map = "string, message", tag = "2")]
    pub fields: BTreeMap<String, BatchedTensor>,
    /// The number of data.
    #[prost(int64, tag = "3")]
    pub num_datums: i64,
}

/// Numbers of several data, one after the other.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BatchedTensor {
    /// The numbers of all.
    #[prost(bytes = "vec", tag = "1")]
    pub data: Vec<u8>,
    /// Where each begins and the last one ends, in bytes: 64-bit integers.
    #[prost(bytes = "vec", tag = "2")]
    pub offsets: Vec<u8>,
    /// Their type, of [`dtype`].
    #[prost(int32, tag = "3")]
    pub dtype: i32,
    /// The lengths of the dimensions behind the first.
    #[prost(int64, repeated, tag = "4")]
    pub trailing_shape: Vec<i64>,
}

/// Sampled sequences.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SampleResponse {
    /// The sequences.
    #[prost(message, repeated, tag = "1")]
    pub sequences: Vec<SampledSequence>,
    /// Log-probs of the prompt's tokens, 32-bit floats; NaN where there is none.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub prompt_logprobs: Option<Vec<u8>>,
    /// The most likely tokens at every position of the prompt.
    #[prost(message, optional, tag = "3")]
    pub topk_prompt_logprobs: Option<TopkLogprobs>,
}

/// A sampled sequence.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SampledSequence {
    /// [`STOPPED`] or [`AT_LENGTH`].
    #[prost(int32, tag = "1")]
    pub stop_reason: i32,
    /// 32-bit integers.
    #[prost(bytes = "vec", tag = "2")]
    pub tokens: Vec<u8>,
    /// 32-bit floats, one for each token.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub logprobs: Option<Vec<u8>>,
}

/// The most likely tokens, row by row.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TopkLogprobs {
    /// 32-bit integers; 0 in an empty cell.
    #[prost(bytes = "vec", tag = "1")]
    pub token_ids: Vec<u8>,
    /// 32-bit floats; -99999 in an empty cell.
    #[prost(bytes = "vec", tag = "2")]
    pub logprobs: Vec<u8>,
    /// Cells of a row.
    #[prost(uint32, tag = "3")]
    pub k: u32,
    /// Rows.
    #[prost(uint32, tag = "4")]
    pub length: u32,
}

fn wrong(what: &str, why: impl std::fmt::Display) -> WireError {
    WireError::Request(what.to_owned(), why.to_string())
}

/// 32-bit integers as bytes.
pub fn token_bytes(tokens: &[u32]) -> Vec<u8> {
    tokens.iter().flat_map(|token| token.to_le_bytes()).collect()
}

/// 32-bit floats as bytes.
pub fn float_bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Tokens from 32-bit integers.
///
/// # Errors
/// The bytes are no whole numbers of them, or one is negative.
pub fn tokens(bytes: &[u8]) -> Result<Vec<u32>, WireError> {
    let (all, rest) = bytes.as_chunks::<4>();
    let all = all.iter().map(|bytes| u32::try_from(i32::from_le_bytes(*bytes)).ok()).collect::<Option<Vec<u32>>>();
    all.filter(|_| rest.is_empty()).ok_or_else(|| wrong("tokens", "expected 32-bit numbers from 0 on"))
}

/// Numbers from 32-bit floats.
///
/// # Errors
/// The bytes are no whole numbers of them.
pub fn floats(bytes: &[u8]) -> Result<Vec<f32>, WireError> {
    let (all, rest) = bytes.as_chunks::<4>();
    if rest.is_empty() {
        return Ok(all.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect());
    }
    Err(wrong("floats", "expected 32-bit floats"))
}

/// Reads a message.
///
/// # Errors
/// The bytes are no such message.
pub fn read<M: prost::Message + Default>(bytes: &[u8]) -> Result<M, WireError> {
    // What the library says names fields of the message, and nothing of its content.
    M::decode(bytes).map_err(|error| wrong("protocol buffer", escaped(&error.to_string(), SHOWN_BYTES)))
}

impl Tensor {
    /// Floats.
    pub fn of_floats(numbers: &[f32]) -> Self {
        Self { dense: Some(float_bytes(numbers)), dtype: dtype::FLOAT32, shape: vec![numbers.len() as i64] }
    }

    /// Tokens.
    pub fn of_tokens(tokens: &[u32]) -> Self {
        let bytes = tokens.iter().flat_map(|token| i64::from(*token).to_le_bytes()).collect();
        Self { dense: Some(bytes), dtype: dtype::INT64, shape: vec![tokens.len() as i64] }
    }

    fn numbers(&self, wanted: i32) -> Result<&[u8], WireError> {
        let dense = self.dense.as_deref().filter(|_| self.dtype == wanted);
        dense.ok_or_else(|| wrong("tensor", "expected a dense one of another type"))
    }

    /// Floats of a tensor of such.
    ///
    /// # Errors
    /// It has others, or is sparse.
    pub fn floats(&self) -> Result<Vec<f32>, WireError> {
        floats(self.numbers(dtype::FLOAT32)?)
    }

    /// Tokens of a tensor of 64-bit integers.
    ///
    /// # Errors
    /// It has others, or is sparse.
    pub fn tokens(&self) -> Result<Vec<u32>, WireError> {
        let (all, rest) = self.numbers(dtype::INT64)?.as_chunks::<8>();
        let all = all.iter().map(|bytes| u32::try_from(i64::from_le_bytes(*bytes)).ok()).collect::<Option<Vec<u32>>>();
        all.filter(|_| rest.is_empty()).ok_or_else(|| wrong("tensor", "expected tokens from 0 on"))
    }
}

impl Datum {
    /// A sequence whose tokens predict these targets, one for each, with the weights of their log-probs.
    pub fn weighted(input: &[u32], targets: &[u32], weights: &[f32]) -> Self {
        let inputs = [("target_tokens", Tensor::of_tokens(targets)), ("weights", Tensor::of_floats(weights))];
        Self {
            model_input: vec![Chunk { encoded_text: Some(EncodedText { tokens: token_bytes(input) }) }],
            loss_fn_inputs: inputs.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect(),
        }
    }

    /// The tokens of the input.
    ///
    /// # Errors
    /// A piece is no text.
    pub fn input(&self) -> Result<Vec<u32>, WireError> {
        let mut all = Vec::new();
        for chunk in &self.model_input {
            let text = chunk.encoded_text.as_ref().ok_or_else(|| wrong("model_input", "expected tokens of text"))?;
            all.extend(tokens(&text.tokens)?);
        }
        Ok(all)
    }
}

impl ForwardBackwardOutput {
    /// An answer with the log-probs of each datum's targets.
    pub fn of_logprobs(logprobs: &[Vec<f32>], metrics: BTreeMap<String, f64>) -> Self {
        let mut offset = 0_i64;
        let ends = logprobs.iter().map(|one| {
            offset += one.len() as i64 * size_of::<f32>() as i64;
            offset
        });
        let offsets = std::iter::once(0).chain(ends).flat_map(i64::to_le_bytes).collect();
        let data = float_bytes(&logprobs.concat());
        let batched = BatchedTensor { data, offsets, dtype: dtype::FLOAT32, trailing_shape: Vec::new() };
        let fields = BTreeMap::from([(LOGPROBS.to_owned(), batched)]);
        let type_tag = "ArrayRecord".to_owned();
        let record = ArrayRecord { type_tag: type_tag.clone(), fields, num_datums: logprobs.len() as i64 };
        Self { loss_fn_output_type: type_tag, loss_fn_outputs: vec![record], metrics }
    }

    /// The log-probs of each datum's targets.
    ///
    /// # Errors
    /// There are none, they are of another type, or a place is outside of them.
    pub fn logprobs(&self) -> Result<Vec<Vec<f32>>, WireError> {
        let mut all = Vec::new();
        for record in &self.loss_fn_outputs {
            let field = record.fields.get(LOGPROBS).filter(|field| field.dtype == dtype::FLOAT32);
            let field = field.ok_or_else(|| wrong("loss_fn_outputs", "expected log-probs as 32-bit floats"))?;
            let (places, rest) = field.offsets.as_chunks::<8>();
            let places: Option<Vec<usize>> =
                places.iter().map(|bytes| usize::try_from(i64::from_le_bytes(*bytes)).ok()).collect();
            let outside = || wrong("offsets", "expected places in the data, in order");
            let places = places.filter(|_| rest.is_empty()).ok_or_else(outside)?;
            for (start, end) in places.iter().zip(places.iter().skip(1)) {
                all.push(floats(field.data.get(*start..*end).ok_or_else(outside)?)?);
            }
        }
        Ok(all)
    }
}

impl ForwardBackwardRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// The bytes are none, or it has more than [`MOST_DATA`] data.
    pub fn read(bytes: &[u8]) -> Result<Self, WireError> {
        let request: Self = read(bytes)?;
        if request.data.len() > MOST_DATA {
            return Err(WireError::TooLarge(format!(
                "{} data at once; expected at most {MOST_DATA}",
                request.data.len()
            )));
        }
        Ok(request)
    }

    /// The request as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_has_the_bytes_that_the_sdk_writes() {
        let request = ForwardBackwardRequest {
            model_id: "m".into(),
            seq_id: 3,
            data: vec![Datum::weighted(&[7], &[8], &[0.5])],
            loss_fn: "cross_entropy".into(),
            forward_only: true,
        };
        // What the SDK 0.38 writes for the same request.
        let expect = "0a016d10031a440a080a060a040700000012200a0d7461726765745f746f6b656e73120f0a0808000000000000001802220101\
                      12160a0777656967687473120b0a040000003f1801220101220d63726f73735f656e74726f70793001";
        let found = request.to_bytes();
        assert_eq!(found.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expect);
        assert_eq!(ForwardBackwardRequest::read(&found).unwrap(), request);
    }

    #[test]
    fn logprobs_of_several_records_follow_each_other() {
        let one = ForwardBackwardOutput::of_logprobs(&[vec![-1.0, -2.0], vec![]], BTreeMap::new());
        let mut both = one.clone();
        both.loss_fn_outputs.extend(ForwardBackwardOutput::of_logprobs(&[vec![-3.0]], BTreeMap::new()).loss_fn_outputs);
        assert_eq!(both.logprobs().unwrap(), [vec![-1.0, -2.0], vec![], vec![-3.0]]);
        let check = |change: fn(&mut BatchedTensor), part: &str| {
            let mut output = one.clone();
            change(output.loss_fn_outputs[0].fields.get_mut(LOGPROBS).unwrap());
            let why = output.logprobs().unwrap_err().to_string();
            assert!(why.contains(part), "{why}");
        };
        check(|field| field.dtype = dtype::INT64, "expected log-probs as 32-bit floats");
        check(|field| field.offsets.truncate(7), "expected places in the data");
        check(|field| field.data.truncate(5), "expected places in the data");
        check(|field| field.offsets = [0_i64, 3].into_iter().flat_map(i64::to_le_bytes).collect(), "32-bit floats");
        check(|field| field.offsets = [8_i64, 0].into_iter().flat_map(i64::to_le_bytes).collect(), "in order");
        check(|field| field.offsets = [-8_i64, 0].into_iter().flat_map(i64::to_le_bytes).collect(), "in order");
    }

    #[test]
    fn numbers_are_read_in_their_own_type_alone() {
        let tokens_of = Tensor::of_tokens(&[1, 70_000]);
        assert_eq!(tokens_of.tokens().unwrap(), [1, 70_000]);
        assert!(tokens_of.floats().is_err() && Tensor::of_floats(&[1.0]).tokens().is_err());
        assert!(tokens(&(-1_i32).to_le_bytes()).is_err() && tokens(&[0; 5]).is_err() && floats(&[0; 3]).is_err());
        let negative = Tensor { dense: Some((-1_i64).to_le_bytes().to_vec()), ..Tensor::of_tokens(&[1]) };
        assert!(negative.tokens().is_err() && Tensor { dense: None, ..negative }.tokens().is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = ForwardBackwardRequest::read(&bytes).map(|request| request.data.iter().map(Datum::input).collect::<Vec<_>>());
            let _ = read::<ForwardBackwardOutput>(&bytes).map(|output| output.logprobs());
            let _ = read::<SampleResponse>(&bytes);
        }
    }
}
