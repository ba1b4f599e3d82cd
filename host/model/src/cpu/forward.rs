//! The decoder over several sequences at once.

#![allow(clippy::indexing_slicing, reason = "sizes follow from the model's shape, which made all of the buffers")]

use super::attention::{Heads, attend};
use super::cache::Cache;
use super::elementwise::{add, add_bias, gated, normalise, turn};
use super::panels::Panels;
use super::rotary_table::RotaryTable;
use crate::adapter::AdapterFolder;
use crate::decoder::{LowRank, Projection};
use crate::host_weights::{HostDecoder, HostMatrix};
use crate::{Decoder, LocalModelError, ModelConfig};
use rayon::prelude::*;
use std::sync::Arc;

/// Below this number of weights, sequences are distributed over threads: each core's cache holds all weights. Above it,
/// threads share each product, so that weights are read from memory once.
const SMALL: u64 = 400_000;
/// Tokens that are computed at once. Longer texts are computed in chunks, which changes no bit.
const CHUNK: usize = 64;

/// New tokens of one sequence.
#[derive(Debug)]
pub struct Work<'a> {
    /// The cache of the tokens so far. It grows by `tokens`.
    pub cache: &'a mut Cache,
    /// At least one.
    pub tokens: &'a [u32],
    /// The logits after the last token, `[vocabulary]`, or after every token.
    pub logits: Vec<f32>,
    /// Whether logits are wanted after every token.
    pub every: bool,
}

impl<'a> Work<'a> {
    /// Requests the logits after the last token.
    pub fn last(cache: &'a mut Cache, tokens: &'a [u32]) -> Self {
        Self { cache, tokens, logits: Vec::new(), every: false }
    }
}

/// A model whose weights are laid out for this processor.
#[derive(Debug, Clone)]
pub struct CpuModel {
    /// Its shape.
    pub config: Arc<ModelConfig>,
    /// `[vocabulary, width]`, row by row.
    embedding: Arc<[f32]>,
    /// Shared by the model and what adapters make of it.
    weights: Decoder<Arc<Panels>, Arc<[f32]>>,
    turns: Arc<RotaryTable>,
    heads: Heads,
    small: bool,
}

impl CpuModel {
    /// Lays out the weights of a model. Adapters are merged.
    pub fn new(config: Arc<ModelConfig>, host: &HostDecoder) -> Self {
        let host = host.merged();
        // The head is a matrix product. If it is the embedding, the embedding is laid out as panels too.
        let head = host.head.clone().unwrap_or_else(|| host.embedding.clone());
        let embedding = host.embedding.values.clone();
        let host = Decoder { head: Some(head), embedding: HostMatrix { shape: [0, 1], values: Arc::from([]) }, ..host };
        let weights = host.map(&mut |_, matrix| Arc::new(Panels::of(matrix)), &mut |_, vector| vector.clone());
        let heads = Heads { queries: config.heads, shared: config.key_value_heads, width: config.head_width };
        let turns = Arc::new(RotaryTable::new(config.rotary_frequencies()));
        let small = config.parameters() < SMALL;
        Self { config, embedding, weights, turns, heads, small }
    }

    /// The same model with an adapter beside its weights. Both share the weights in memory.
    ///
    /// # Errors
    /// The adapter belongs to another model.
    pub fn adapted(&self, adapter: &AdapterFolder) -> Result<Self, LocalModelError> {
        let mut weights = self.weights.clone();
        let shape = |matrix: &Arc<Panels>| [matrix.outputs, matrix.inputs];
        adapter.attach_to(&mut weights, &shape, &|matrix| Arc::new(Panels::of(matrix)))?;
        Ok(Self { weights, ..self.clone() })
    }

    /// Whether the weights of both are the same memory.
    #[cfg(test)]
    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        let own = |model: &Self| -> Vec<*const Panels> {
            let projections = model.weights.blocks.iter().flat_map(|block| block.projections());
            projections.map(|(_, one)| Arc::as_ptr(&one.weight)).collect()
        };
        own(self) == own(other) && Arc::ptr_eq(&self.embedding, &other.embedding)
    }

    /// An empty cache for one sequence.
    pub fn cache(&self) -> Cache {
        Cache::new(self.config.layers)
    }

    /// Computes the new tokens of several sequences. The result of one sequence does not depend on the others.
    pub fn forward(&self, work: &mut [Work<'_>]) {
        let threads = rayon::current_num_threads();
        if self.small && work.len() >= 2 * threads && threads > 1 {
            let share = work.len().div_ceil(threads * 2);
            work.par_chunks_mut(share).for_each(|part| self.forward_here(part, false));
        } else {
            self.forward_here(work, true);
        }
    }

    fn forward_here(&self, work: &mut [Work<'_>], threads: bool) {
        let mut done = 0;
        let longest = work.iter().map(|one| one.tokens.len()).max().unwrap_or(0);
        while done < longest {
            let mut piece: Vec<(usize, &mut Work<'_>)> = Vec::with_capacity(work.len());
            for one in work.iter_mut() {
                let count = one.tokens.len().saturating_sub(done).min(CHUNK);
                if count > 0 {
                    piece.push((count, one));
                }
            }
            self.piece(&mut piece, done, threads);
            done += CHUNK;
        }
    }

    /// Computes the tokens from `done` on, at most one chunk of each sequence.
    fn piece(&self, piece: &mut [(usize, &mut Work<'_>)], done: usize, threads: bool) {
        let config = &self.config;
        let (width, heads) = (config.width, self.heads);
        let (queries, keys) = (heads.queries * heads.width, heads.shared * heads.width);
        let rows: usize = piece.iter().map(|(count, _)| count).sum();
        let mut x = vec![0.0; rows * width];
        let mut turns: Vec<(f32, f32)> = Vec::with_capacity(rows * heads.width / 2);
        let ends = piece.iter().map(|(count, one)| one.cache.tokens.len() + count);
        let table = self.turns.of(ends.max().unwrap_or(0));
        let half = heads.width / 2;
        let mut to = x.chunks_exact_mut(width);
        for (count, one) in piece.iter_mut() {
            let start = one.cache.tokens.len();
            turns.extend_from_slice(&table[start * half..(start + *count) * half]);
            for token in &one.tokens[done..done + *count] {
                let from = *token as usize * width;
                if let (Some(to), Some(from)) = (to.next(), self.embedding.get(from..from + width)) {
                    to.copy_from_slice(from);
                }
            }
            let capacity = Cache::capacity(start + *count);
            for layer in &mut one.cache.layers {
                layer.grow((heads.shared, heads.width), capacity, start);
            }
        }
        let mut normal = vec![0.0; rows * width];
        let (mut query, mut key, mut value) =
            (vec![0.0; rows * queries], vec![0.0; rows * keys], vec![0.0; rows * keys]);
        let mut mixed = vec![0.0; rows * queries];
        let (mut gate, mut up) = (vec![0.0; rows * config.mlp_width], vec![0.0; rows * config.mlp_width]);
        let mut scores = Vec::new();
        let epsilon = config.norm_epsilon as f32;
        for (number, block) in self.weights.blocks.iter().enumerate() {
            normalise(&x, &block.input_norm, epsilon, &mut normal);
            apply(&block.query, &normal, &mut query, threads);
            apply(&block.key, &normal, &mut key, threads);
            apply(&block.value, &normal, &mut value, threads);
            for (norm, rows) in [(&block.query_norm, &mut query), (&block.key_norm, &mut key)] {
                if let Some(norm) = norm {
                    let before = rows.clone();
                    normalise(&before, norm, epsilon, rows);
                }
            }
            turn(&mut query, queries, heads.width, &turns, false);
            turn(&mut key, keys, heads.width, &turns, false);
            let mut row = 0;
            for (count, one) in piece.iter_mut() {
                let start = one.cache.tokens.len();
                let layer = &mut one.cache.layers[number];
                for position in start..start + *count {
                    layer.put(
                        heads,
                        position,
                        &key[row * keys..(row + 1) * keys],
                        &value[row * keys..(row + 1) * keys],
                    );
                    let out = &mut mixed[row * queries..(row + 1) * queries];
                    attend(heads, &query[row * queries..(row + 1) * queries], layer, position + 1, &mut scores, out);
                    row += 1;
                }
            }
            apply(&block.output, &mixed, &mut normal, threads);
            add(&mut x, &normal);
            normalise(&x, &block.post_norm, epsilon, &mut normal);
            apply(&block.gate, &normal, &mut gate, threads);
            apply(&block.up, &normal, &mut up, threads);
            gated(&mut gate, &up);
            apply(&block.down, &gate, &mut normal, threads);
            add(&mut x, &normal);
        }
        self.finish(piece, done, &x, threads);
    }

    /// Logits of the rows that need them.
    fn finish(&self, piece: &mut [(usize, &mut Work<'_>)], done: usize, x: &[f32], threads: bool) {
        let width = self.config.width;
        let mut wanted = Vec::new();
        let mut row = 0;
        for (count, one) in piece.iter_mut() {
            let ends = done + *count == one.tokens.len();
            for index in 0..*count {
                if one.every || (ends && index + 1 == *count) {
                    wanted.extend_from_slice(&x[(row + index) * width..(row + index + 1) * width]);
                }
            }
            row += *count;
        }
        let mut normal = vec![0.0; wanted.len()];
        normalise(&wanted, &self.weights.norm, self.config.norm_epsilon as f32, &mut normal);
        let vocabulary = self.config.vocabulary;
        let mut logits = vec![0.0; wanted.len() / width * vocabulary];
        if let Some(head) = &self.weights.head {
            head.multiply(&normal, &mut logits, threads);
        }
        let mut logits = logits.chunks_exact(vocabulary);
        for (count, one) in piece.iter_mut() {
            let ends = done + *count == one.tokens.len();
            let rows = if one.every { *count } else { usize::from(ends) };
            (&mut logits).take(rows).for_each(|row| one.logits.extend_from_slice(row));
            one.cache.tokens.extend_from_slice(&one.tokens[done..done + *count]);
        }
    }
}

fn apply(projection: &Projection<Arc<Panels>, Arc<[f32]>>, x: &[f32], out: &mut [f32], threads: bool) {
    projection.weight.multiply(x, out, threads);
    if let Some(LowRank { a, b, scale }) = &projection.adapter {
        let rows = x.len() / a.inputs.max(1);
        let (mut low, mut more) = (vec![0.0; rows * a.outputs], vec![0.0; out.len()]);
        a.multiply(x, &mut low, threads);
        low.iter_mut().for_each(|value| *value *= *scale as f32);
        b.multiply(&low, &mut more, threads);
        add(out, &more);
    }
    if let Some(bias) = &projection.bias {
        add_bias(out, bias);
    }
}
