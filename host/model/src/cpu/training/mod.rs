//! Training on this machine's processor: the forward pass with the values that the backward pass needs, and the
//! backward pass.
//!
//! ```text
//! sequences ─▶ blocks of whole sequences ─▶ forward, layer by layer ─▶ log-probs of trained tokens ─▶ the loss
//!                                                │ kept: inputs of layers, queries, keys, values,      │
//!                                                ▼ what was mixed, gate and up                         ▼
//!     gradients of weights ◀── outer products ◀── backward, layer by layer ◀── head ◀── a derivative per log-prob
//! ```
//!
//! Sequences are contiguous, without padding. The forward pass computes the same bits as [`super::CpuModel`] if no
//! weight has an adapter. Norms, the MLP's inner product and attention weights are computed again in the backward pass:
//! that costs less than keeping them. Of a large model only the inputs of layers are kept, and the rest is computed
//! again, with the same bits. Sums over tokens run in the order of the tokens, block after block. Threads share
//! blocks, or rows of a gradient, so their number changes no bit.

mod attention;
mod backward;
mod forward;
mod frozen_head;
mod gradients;
mod head;
mod matrix;
mod text;
mod watch;

pub(crate) use gradients::Gradients;

use super::attention::{Heads, Softmax};
use super::rotary_table::RotaryTable;
use crate::host_weights::{HostDecoder, HostMatrix};
use crate::train::{Sequence, TokenScores};
use crate::{Decoder, LocalModelError, LowRank, ModelConfig, Projection};
use clawhost_learn::Interrupt;
use matrix::Matrix;
use rayon::prelude::*;
use std::sync::Arc;
use text::Text;
use watch::Watch;

/// Tokens of a block, unless one sequence is longer: enough to use each weight that is read, few enough to distribute.
const BLOCK: usize = 256;
/// Projections of a layer.
const PROJECTIONS: usize = 7;
/// Bytes that a token may keep in all layers. Above it only the inputs of layers are kept: else few blocks would fit into the memory of a piece, too few for
/// the threads of a processor. Computing a layer again costs a third of the time.
const KEPT_OF_A_TOKEN: usize = 1 << 20;

/// A block of the decoder.
type Weights = crate::Block<Matrix, Arc<[f32]>>;

/// Weights for both passes.
#[derive(Debug)]
pub(crate) struct TrainingModel {
    config: Arc<ModelConfig>,
    /// `[vocabulary, width]`, shared with the model on the host.
    embedding: HostMatrix,
    /// Here the head is always present; the embedding is empty.
    weights: Decoder<Matrix, Arc<[f32]>>,
    turns: Arc<RotaryTable>,
    heads: Heads,
    /// Whether only the inputs of layers are kept.
    recomputes: bool,
}

/// What a layer keeps for the backward pass.
#[derive(Debug, Default)]
struct Layer {
    input: Vec<f32>,
    /// Empty, if it is computed again.
    kept: Activations,
}

/// Values of a layer that the backward pass needs. Rows are tokens.
#[derive(Debug, Default)]
struct Activations {
    /// Before norms and rotation, if there are norms.
    raw_query: Vec<f32>,
    raw_key: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    softmax: Vec<Softmax>,
    mixed: Vec<f32>,
    /// After the attention.
    middle: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    /// The outputs of the adapters' first matrices, times the scale; by projection.
    low: [Vec<f32>; PROJECTIONS],
}

/// The factors of a layer's matrix gradients. Written in the backward pass, layer after layer.
#[derive(Debug, Default)]
struct Factors {
    /// By projection: the gradient with respect to its output.
    upstream: [Vec<f32>; PROJECTIONS],
    /// Inputs as columns of panels: of q, k and v; of o; of gate and up; of down.
    given: [Vec<f32>; 4],
    /// By projection: the gradient with respect to the output of its adapter's first matrix.
    of_low: [Vec<f32>; PROJECTIONS],
    /// The inputs of the adapter's second matrix, as columns of panels.
    low: [Vec<f32>; PROJECTIONS],
}

/// The index in [`Factors::given`] of each projection's input.
const GIVEN: [usize; PROJECTIONS] = [0, 0, 0, 1, 2, 2, 3];

/// Gradients of a layer's vectors, of one block.
#[derive(Debug, Default)]
struct OfVectors {
    input_norm: Vec<f32>,
    post_norm: Vec<f32>,
    query_norm: Vec<f32>,
    key_norm: Vec<f32>,
}

/// Buffers that are used within one layer.
#[derive(Debug, Default)]
struct Buffers {
    normal: Vec<f32>,
    wide: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    attention: attention::Scratch,
}

/// Some whole sequences in a forward or backward pass.
#[derive(Debug, Default)]
pub(crate) struct Block {
    text: Text,
    layers: Vec<Layer>,
    /// Those of one layer, where they are not kept.
    recomputed: Activations,
    /// Forward: the output of the last layer. Backward: the gradient with respect to the current layer's output.
    x: Vec<f32>,
    /// Rows after the last layer that predict a trained token, before and after the last norm.
    foretelling: Vec<f32>,
    hidden: Vec<f32>,
    /// The normalisation of their logits.
    wholes: Vec<Softmax>,
    /// Log-probs and entropies of the targets, by sequence.
    scores: Vec<Vec<(f64, f64)>>,
    factors: Factors,
    of_vectors: OfVectors,
    buffers: Buffers,
}

/// Sets a buffer's length. Its contents will be overwritten.
fn fit(buffer: &mut Vec<f32>, length: usize) -> &mut Vec<f32> {
    buffer.resize(length, 0.0);
    buffer
}

/// Runs an action for each item, on several threads or in sequence.
fn each<T: Send>(threads: bool, items: &mut [T], act: impl Fn(&mut T) + Sync + Send) {
    if threads && items.len() > 1 { items.par_iter_mut().for_each(act) } else { items.iter_mut().for_each(act) }
}

/// Sequences after their forward pass.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    blocks: Vec<Block>,
}

impl Pass {
    /// Bytes that layers keep of its tokens.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        let kept = |one: &Activations| {
            let short = [&one.raw_query, &one.raw_key, &one.query, &one.key, &one.value, &one.mixed, &one.middle];
            let values: usize = short.into_iter().chain([&one.gate, &one.up]).map(Vec::len).sum();
            values + one.softmax.len() * 2
        };
        let layers = self.blocks.iter().flat_map(|block| &block.layers);
        layers.map(|layer| layer.input.len() + kept(&layer.kept)).sum::<usize>() * size_of::<f32>()
    }
}

impl TrainingModel {
    /// Lays out the weights that learn, by name. The others stay as they are kept.
    pub(crate) fn new(
        config: Arc<ModelConfig>,
        turns: Arc<RotaryTable>,
        host: &HostDecoder,
        learns: impl Fn(&str) -> bool,
    ) -> Self {
        let head = host.head.clone().unwrap_or_else(|| host.embedding.clone());
        let empty = HostMatrix::of_rows([0, 0], Arc::from([]));
        let embedding = host.embedding.clone();
        let host = Decoder { head: Some(head), embedding: empty, ..host.clone() };
        let weights = host.map(&mut |name, matrix| Matrix::of(matrix, learns(name)), &mut |_, vector| vector.clone());
        let heads = Heads { queries: config.heads, shared: config.key_value_heads, width: config.head_width };
        let recomputes = Self::kept_of_a_token(&config) > KEPT_OF_A_TOKEN;
        Self { config, embedding, weights, turns, heads, recomputes }
    }

    /// Where the matrices that do not learn are in memory: projections in the order of layers, and the head.
    #[cfg(test)]
    pub(crate) fn frozen(&self) -> Vec<*const super::Laid> {
        let projections = self.weights.blocks.iter().flat_map(|block| block.projections());
        let matrices = projections.map(|(_, one)| &one.weight).chain(&self.weights.head);
        matrices.filter_map(|one| if let Matrix::Frozen(laid) = one { Some(Arc::as_ptr(laid)) } else { None }).collect()
    }

    /// The same model, where the activations of layers are kept or computed again.
    #[cfg(test)]
    pub(crate) fn recomputing(self, recomputes: bool) -> Self {
        Self { recomputes, ..self }
    }

    /// Bytes that all layers would keep of a token.
    fn kept_of_a_token(config: &ModelConfig) -> usize {
        config.layers * (config.width + Self::values_of_a_layer(config)) * size_of::<f32>()
    }

    /// Values of a token in the [`Activations`] of a layer.
    fn values_of_a_layer(config: &ModelConfig) -> usize {
        let (queries, keys) = (config.heads * config.head_width, config.key_value_heads * config.head_width);
        config.width + 3 * queries + 3 * keys + 2 * config.mlp_width + 2 * config.heads
    }

    /// Bytes of the logits that all threads compute at once.
    pub(crate) fn bytes_of_logits(config: &ModelConfig) -> u64 {
        let rows = head::CHUNK * rayon::current_num_threads();
        (rows as u64).saturating_mul(config.vocabulary as u64).saturating_mul(size_of::<f32>() as u64)
    }

    /// Bytes of a token in a pass: what is kept for the backward pass, and the buffers of one layer.
    pub(crate) fn bytes_of_a_token(config: &ModelConfig) -> usize {
        let (queries, keys) = (config.heads * config.head_width, config.key_value_heads * config.head_width);
        let moment = 6 * config.width + 5 * queries + 4 * keys + 4 * config.mlp_width;
        let kept = match Self::kept_of_a_token(config) {
            kept if kept > KEPT_OF_A_TOKEN => {
                (config.layers * config.width + Self::values_of_a_layer(config)) * size_of::<f32>()
            }
            kept => kept,
        };
        kept + moment * size_of::<f32>()
    }

    /// Scores of the trained tokens of each sequence. `pass` is an earlier result, whose memory is reused.
    ///
    /// # Errors
    /// It was stopped between two layers, or two chunks of the head.
    pub(crate) fn forward(
        &self,
        sequences: &[&Sequence],
        pass: &mut Pass,
        threads: bool,
        interrupt: &Interrupt,
    ) -> Result<Vec<TokenScores>, LocalModelError> {
        let watch = Watch::new(interrupt);
        let mut parts: Vec<&[&Sequence]> = Vec::new();
        let (mut start, mut tokens) = (0, 0);
        for (place, sequence) in sequences.iter().enumerate() {
            let length = sequence.tokens().len();
            if place > start && tokens + length > BLOCK && threads {
                parts.extend(sequences.get(start..place));
                (start, tokens) = (place, 0);
            }
            tokens += length;
        }
        parts.extend(sequences.get(start..));
        pass.blocks.resize_with(parts.len(), Block::default);
        let mut both: Vec<(&mut Block, &[&Sequence])> = pass.blocks.iter_mut().zip(parts).collect();
        each(threads, &mut both, |(block, sequences)| {
            block.text.set(sequences, &self.turns, self.heads.width / 2);
            forward::forward(self, block, &watch);
            head::score(self, block, &watch);
        });
        watch.result()?;
        let scores = pass.blocks.iter_mut().flat_map(|block| std::mem::take(&mut block.scores));
        Ok(sequences.iter().zip(scores).map(|(sequence, scores)| sequence.token_scores(scores)).collect())
    }

    /// Adds gradients of a loss. `wanted` is its derivative by the log-prob of each target, in their order.
    ///
    /// # Errors
    /// As [`TrainingModel::forward`]. The gradients are of no use then.
    pub(crate) fn backward(
        &self,
        pass: &mut Pass,
        wanted: &[f32],
        to: &mut Gradients,
        threads: bool,
        interrupt: &Interrupt,
    ) -> Result<(), LocalModelError> {
        let watch = Watch::new(interrupt);
        head::backward(self, &mut pass.blocks, wanted, to, (threads, &watch));
        watch.result()?;
        let Some(lowest) = to.lowest() else { return Ok(()) };
        for layer in (lowest..self.weights.blocks.len()).rev() {
            each(threads, &mut pass.blocks, |block| {
                if !watch.stops() {
                    backward::backward(self, layer, block);
                }
            });
            watch.result()?;
            gradients::add_layer(&pass.blocks, layer, to, threads);
        }
        gradients::add_embedding(&pass.blocks, self.config.width, to);
        Ok(())
    }
}

/// Projections in the order of [`GIVEN`].
fn projections<M, V>(block: &crate::Block<M, V>) -> [&Projection<M, V>; PROJECTIONS] {
    [&block.query, &block.key, &block.value, &block.output, &block.gate, &block.up, &block.down]
}

impl Projection<Matrix, Arc<[f32]>> {
    /// `x Wᵀ + b`, plus the output of the adapter.
    fn apply(&self, x: &[f32], out: &mut Vec<f32>, low: &mut Vec<f32>) {
        let [outputs, inputs] = self.weight.shape();
        let rows = x.len() / inputs.max(1);
        fit(out, rows * outputs);
        self.weight.product::<false>(x, out);
        if let Some(bias) = &self.bias {
            super::elementwise::add_bias(out, bias);
        }
        self.lower(x, low);
        if let Some(LowRank { b, .. }) = &self.adapter {
            b.product::<true>(low, out);
        }
    }

    /// The output of the adapter's first matrix, times the scale.
    fn lower(&self, x: &[f32], low: &mut Vec<f32>) {
        if let Some(LowRank { a, scale, .. }) = &self.adapter {
            let [rank, inputs] = a.shape();
            fit(low, x.len() / inputs.max(1) * rank);
            a.product::<false>(x, low);
            low.iter_mut().for_each(|value| *value *= *scale as f32);
        }
    }

    /// From the gradient with respect to the output to the one with respect to the input, which is written or added.
    fn apply_back<const ADD: bool>(&self, upstream: &[f32], out: &mut [f32], of_low: &mut Vec<f32>) {
        self.weight.back_product::<ADD>(upstream, out);
        if let Some(LowRank { a, b, scale }) = &self.adapter {
            let [outputs, rank] = b.shape();
            fit(of_low, upstream.len() / outputs.max(1) * rank);
            b.back_product::<false>(upstream, of_low);
            of_low.iter_mut().for_each(|value| *value *= *scale as f32);
            a.back_product::<true>(of_low, out);
        }
    }
}
