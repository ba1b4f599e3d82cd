//! The decoder over several sequences at once.

#![allow(clippy::indexing_slicing, reason = "sizes follow from the model's shape, which made all of the buffers")]

use super::attention::{Heads, Scratch, attend};
use super::cache::Cache;
use super::elementwise::{add, add_bias, gated, normalise, turn};
use super::laid::Laid;
use super::rotary_table::RotaryTable;
use crate::adapter::AdapterFolder;
use crate::decoder::{LowRank, Projection};
use crate::host_weights::{HostDecoder, HostMatrix};
use crate::{Decoder, Dtype, LocalModelError, ModelConfig};
use rayon::prelude::*;
use std::sync::Arc;

/// Below this number of weights, sequences are distributed over threads: each core's cache holds all weights. Above it,
/// threads share each product, so that weights are read from memory once.
const SMALL: u64 = 400_000;
/// Below this number of multiply-adds of scores, threads cost more than they save.
const WORTH_THREADS: usize = 1 << 17;
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
    /// `[vocabulary, width]` as it is kept; where it is the head, shared with that. Here the head is always present, and `weights.embedding` is empty.
    embedding: Arc<Laid>,
    /// Shared with the model on the host, and by what adapters make of it.
    weights: Decoder<Arc<Laid>, Arc<[f32]>>,
    turns: Arc<RotaryTable>,
    heads: Heads,
    small: bool,
}

impl CpuModel {
    /// Lays out the weights of a model, unless they are kept so. Adapters of matrices in f32 are merged. Others compute beside their matrix, which may not
    /// hold the sum.
    pub fn new(config: Arc<ModelConfig>, host: &HostDecoder) -> Self {
        let host = host.merged_where(|matrix| matrix.dtype() == Dtype::F32);
        let embedding = host.embedding.laid();
        let empty = HostMatrix::of_rows([0, 1], Arc::from([]));
        let mut weights =
            Decoder { embedding: empty, ..host }.map(&mut |_, matrix| matrix.laid(), &mut |_, vector| vector.clone());
        weights.head.get_or_insert_with(|| embedding.clone());
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
        let shape = |matrix: &Arc<Laid>| [matrix.outputs, matrix.inputs];
        adapter.attach_to(&mut weights, &shape, &HostMatrix::laid)?;
        Ok(Self { weights, ..self.clone() })
    }

    /// Whether the weights of both are the same memory.
    #[cfg(test)]
    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        let own = |model: &Self| -> Vec<*const Laid> {
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
        if !self.small {
            // On a thread of the pool: from another one, every product would sleep until the pool has woken up.
            return rayon::scope(|_| self.forward_here(work, true));
        }
        let threads = rayon::current_num_threads();
        if work.len() >= 2 * threads && threads > 1 {
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
                let token = *token as usize;
                if let (Some(to), true) = (to.next(), token < self.embedding.outputs) {
                    self.embedding.row(token, to);
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
        let hidden = vec![0.0; rows * config.mlp_width];
        let (mut gate, mut up, mut inner) = (hidden.clone(), hidden.clone(), hidden);
        let mut raw = Vec::new();
        let epsilon = config.norm_epsilon as f32;
        for (number, block) in self.weights.blocks.iter().enumerate() {
            normalise(&x, &block.input_norm, epsilon, &mut normal);
            apply(&block.query, &normal, &mut query, threads);
            apply(&block.key, &normal, &mut key, threads);
            apply(&block.value, &normal, &mut value, threads);
            for (norm, rows) in [(&block.query_norm, &mut query), (&block.key_norm, &mut key)] {
                if let Some(norm) = norm {
                    raw.resize(rows.len(), 0.0);
                    std::mem::swap(&mut raw, rows);
                    normalise(&raw, norm, epsilon, rows);
                }
            }
            turn(&mut query, queries, heads.width, &turns, false);
            turn(&mut key, keys, heads.width, &turns, false);
            mix(heads, piece, number, Inputs { query: &query, key: &key, value: &value }, &mut mixed, threads);
            apply(&block.output, &mixed, &mut normal, threads);
            add(&mut x, &normal);
            normalise(&x, &block.post_norm, epsilon, &mut normal);
            apply(&block.gate, &normal, &mut gate, threads);
            apply(&block.up, &normal, &mut up, threads);
            gated(&gate, &up, &mut inner);
            apply(&block.down, &inner, &mut normal, threads);
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

/// What attention reads of the new tokens: `[rows, queries]`, and twice `[rows, keys]`.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    query: &'a [f32],
    key: &'a [f32],
    value: &'a [f32],
}

/// Keeps keys and values of one layer, and attends with every new token over its sequence: `mixed` is `[rows, queries]`.
///
/// On one thread, each sequence is written and read in turn, while its lines are in the nearest cache. Otherwise rows are distributed over threads.
fn mix(
    heads: Heads,
    piece: &mut [(usize, &mut Work<'_>)],
    layer: usize,
    Inputs { query, key, value }: Inputs<'_>,
    mixed: &mut [f32],
    threads: bool,
) {
    let (width, keys) = (heads.queries * heads.width, heads.shared * heads.width);
    let places = |(count, one): &(usize, &mut Work<'_>)| {
        let start = one.cache.tokens.len();
        start..start + count
    };
    let work: usize = piece.iter().flat_map(&places).map(|position| (position + 1) * width).sum();
    let threads = threads && work > WORTH_THREADS;
    let (mut rows, mut scratch) = (0, Scratch::default());
    for one in piece.iter_mut() {
        let places = places(one);
        let first = rows;
        rows += places.len();
        let layer = &mut one.1.cache.layers[layer];
        for (row, position) in (first..).zip(places.clone()) {
            let of = row * keys..(row + 1) * keys;
            layer.put(heads, position, &key[of.clone()], &value[of]);
        }
        if !threads {
            for (row, position) in (first..).zip(places) {
                let of = row * width..(row + 1) * width;
                attend(heads, &query[of.clone()], layer, position + 1, &mut scratch, &mut mixed[of]);
            }
        }
    }
    if threads {
        let seen: Vec<_> = piece
            .iter()
            .flat_map(|one| places(one).map(|position| (&one.1.cache.layers[layer], position + 1)))
            .collect();
        let rows = query.par_chunks_exact(width).zip(mixed.par_chunks_exact_mut(width)).zip(&seen);
        rows.for_each_init(Scratch::default, |scratch, ((query, out), (layer, length))| {
            attend(heads, query, layer, *length, scratch, out);
        });
    }
}

fn apply(projection: &Projection<Arc<Laid>, Arc<[f32]>>, x: &[f32], out: &mut [f32], threads: bool) {
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
