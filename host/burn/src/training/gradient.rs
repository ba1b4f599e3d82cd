//! Log-probs of sequences, and the gradients of weights from the derivatives of a loss with respect to log-probs.
//!
//! Every policy-gradient loss depends on the weights only through the log-probs of the trained tokens. So a
//! loss is a function of these numbers, and returns its derivative with respect to each of them, `g`. The output head is differentiated
//! by hand, chunk by chunk, because the logits of all tokens at once would be by far the largest tensor:
//!
//! ```text
//! dL/dlogits = g · (one-hot(token) - softmax) / temperature
//! dL/dhidden = dL/dlogits · headᵀ        dL/dhead = hiddenᵀ · dL/dlogits
//! ```
//!
//! For the layers below the head, burn differentiates `sum(hidden · dL/dhidden)`, which has the required gradient.

use crate::network::{Network, Rows, values};
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};
use clawhost_model::train::{LossError, Sequence, TokenScores};
use clawhost_model::{LocalModelError, TokenMask, Weight};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of rows of logits in memory at the same time.
const CHUNK: usize = 4096;

/// Sums of gradients by the name of the weight. Copies share memory.
#[derive(Debug, Clone, Default)]
pub struct GradientSum {
    pub(super) of: BTreeMap<String, Weight<Tensor<2>, Tensor<1>>>,
}

impl GradientSum {
    fn add_matrix(&mut self, name: &str, gradient: Tensor<2>) {
        let sum = match self.of.remove(name) {
            Some(Weight::Matrix(sum)) => sum + gradient,
            _ => gradient,
        };
        self.of.insert(name.to_owned(), Weight::Matrix(sum));
    }

    fn add_vector(&mut self, name: &str, gradient: Tensor<1>) {
        let sum = match self.of.remove(name) {
            Some(Weight::Vector(sum)) => sum + gradient,
            _ => gradient,
        };
        self.of.insert(name.to_owned(), Weight::Vector(sum));
    }

    /// Adds another sum.
    pub fn add(&mut self, other: Self) {
        for (name, gradient) in other.of {
            match gradient {
                Weight::Matrix(matrix) => self.add_matrix(&name, matrix),
                Weight::Vector(vector) => self.add_vector(&name, vector),
            }
        }
    }

    /// Waits until the sum is computed. A device reports a failure only to the next read: without this read, the failure would
    /// appear in a later step.
    ///
    /// # Errors
    /// The device gives nothing back.
    pub(super) fn wait(&self) -> Result<(), LocalModelError> {
        let first = |gradient: &Weight<Tensor<2>, Tensor<1>>| match gradient {
            Weight::Matrix(matrix) => matrix.clone().slice([0..1, 0..1]).reshape([1]),
            Weight::Vector(vector) => vector.clone().slice(0..1),
        };
        match self.of.values().map(first).reduce(|sum, one| sum + one) {
            Some(sum) => values(&sum).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}

/// The scored tokens of a batch: the hidden row that predicts each, its id, and its temperature. Tokens beside a trained one have its
/// row.
struct Targets {
    /// Indices of the flattened hidden rows.
    places: Vec<i32>,
    tokens: Vec<i32>,
    scale: Vec<f32>,
    /// The tokens that were allowed at the position of each target.
    masks: Vec<Option<Arc<TokenMask>>>,
    /// Number of targets of each sequence.
    counts: Vec<usize>,
}

impl Targets {
    fn of(sequences: &[&Sequence], rows: &Rows) -> Self {
        let mut targets =
            Self { places: Vec::new(), tokens: Vec::new(), scale: Vec::new(), masks: Vec::new(), counts: Vec::new() };
        for (sequence, place) in sequences.iter().zip(&rows.places) {
            let start = place.row * rows.shape[1] + place.start;
            for (position, token) in sequence.targets() {
                targets.places.push((start + position - 1) as i32);
                targets.tokens.push(token as i32);
                targets.scale.push(1.0 / sequence.temperature());
            }
            targets.masks.extend(sequence.masks().map(|mask| mask.cloned()));
            targets.masks.resize(targets.tokens.len(), None);
            targets.counts.push(sequence.scored());
        }
        targets
    }

    /// One number for each target, by sequence.
    fn by_sequence(&self, flat: &[f32]) -> Vec<Vec<f64>> {
        let mut flat = flat.iter().map(|value| f64::from(*value));
        self.counts.iter().map(|count| (&mut flat).take(*count).collect()).collect()
    }
}

fn vector(numbers: Vec<f32>, device: &Device) -> Tensor<1> {
    let length = numbers.len();
    Tensor::from_data(TensorData::new(numbers, [length]), device)
}

fn indices(numbers: &[i32], device: &Device) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(numbers.to_vec(), [numbers.len()]), device)
}

/// One chunk of the head's computation.
struct Piece {
    hidden: Tensor<2>,
    tokens: Tensor<2, Int>,
    scale: Tensor<2>,
    /// The tokens that were allowed in place of each. Their rows of the whole vocabulary are made when they are needed.
    masks: Vec<Option<Arc<TokenMask>>>,
    length: usize,
}

/// What is added to the logit of an excluded token, as on the processor.
const EXCLUDED: f32 = -1e6;

/// Rows of the vocabulary with [`EXCLUDED`] at tokens that are not allowed. `None`: all are, everywhere.
fn excluded(masks: &[Option<Arc<TokenMask>>], vocabulary: usize, device: &Device) -> Option<Tensor<2>> {
    masks.iter().any(Option::is_some).then(|| {
        let mut rows = vec![0.0f32; masks.len() * vocabulary];
        for (mask, row) in masks.iter().zip(rows.chunks_exact_mut(vocabulary)) {
            if let Some(mask) = mask {
                mask.exclude(row, EXCLUDED);
            }
        }
        vector(rows, device).reshape([masks.len(), vocabulary])
    })
}

fn pieces(hidden: &Tensor<2>, targets: &Targets, device: &Device) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let masks = targets.masks.chunks(CHUNK);
    for ((tokens, scale), masks) in targets.tokens.chunks(CHUNK).zip(targets.scale.chunks(CHUNK)).zip(masks) {
        let length = tokens.len();
        pieces.push(Piece {
            hidden: hidden.clone().narrow(0, start, length),
            tokens: indices(tokens, device).reshape([length, 1]),
            scale: vector(scale.to_vec(), device).reshape([length, 1]),
            masks: masks.to_vec(),
            length,
        });
        start += length;
    }
    pieces
}

impl Piece {
    fn log_shares(&self, head: &Tensor<2>) -> Tensor<2> {
        let logits = self.hidden.clone().matmul(head.clone()) * self.scale.clone();
        log_softmax(
            match excluded(&self.masks, logits.dims()[1], &logits.device()) {
                None => logits,
                Some(excluded) => logits + excluded,
            },
            1,
        )
    }
}

/// Scores of the trained tokens, without gradients.
///
/// # Errors
/// The device gives nothing back.
pub fn scores(network: &Network, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
    let device = network.device();
    let tokens: Vec<&[u32]> = sequences.iter().map(|sequence| sequence.tokens()).collect();
    let rows = Rows::padded(&tokens, &device);
    let targets = Targets::of(sequences, &rows);
    if targets.places.is_empty() {
        return Ok(vec![TokenScores::default(); sequences.len()]);
    }
    let hidden = flat(network.hidden(&rows)).select(0, indices(&targets.places, &device));
    let (logprobs, entropies) = score(&pieces(&hidden, &targets, &device), &network.head())?;
    Ok(joined(sequences, &targets, &logprobs, &entropies))
}

fn joined(sequences: &[&Sequence], targets: &Targets, logprobs: &[f32], entropies: &[f32]) -> Vec<TokenScores> {
    let both = targets.by_sequence(logprobs).into_iter().zip(targets.by_sequence(entropies));
    let scores = |(sequence, (logprobs, entropies)): (&&Sequence, (Vec<f64>, Vec<f64>))| {
        sequence.token_scores(logprobs.into_iter().zip(entropies))
    };
    sequences.iter().zip(both).map(scores).collect()
}

fn score(pieces: &[Piece], head: &Tensor<2>) -> Result<(Vec<f32>, Vec<f32>), LocalModelError> {
    let (mut logprobs, mut entropies) = (Vec::new(), Vec::new());
    for piece in pieces {
        let log_shares = piece.log_shares(head);
        let chosen = log_shares.clone().gather(1, piece.tokens.clone()).reshape([piece.length]);
        let entropy = (log_shares.clone().exp() * log_shares).sum_dim(1).neg().reshape([piece.length]);
        let both = values(&Tensor::cat(vec![chosen, entropy], 0))?;
        let (chosen, entropy) = both.split_at(piece.length.min(both.len()));
        logprobs.extend_from_slice(chosen);
        entropies.extend_from_slice(entropy);
    }
    Ok((logprobs, entropies))
}

fn flat(hidden: Tensor<3>) -> Tensor<2> {
    let [rows, length, width] = hidden.dims();
    hidden.reshape([rows * length, width])
}

/// Gradients of `loss`, which returns its derivative by each log-prob of these sequences. `network` has tracked weights.
///
/// # Errors
/// Errors of the loss, or the device returns nothing.
pub fn gradients(
    network: &Network,
    sequences: &[&Sequence],
    loss: impl FnOnce(&[TokenScores]) -> Result<Vec<Vec<f64>>, LossError>,
) -> Result<GradientSum, LossError> {
    // Separate leaves, because other threads may differentiate the same weights at the same time.
    let network = &network.with_own_leaves();
    let mut sum = GradientSum::default();
    let device = network.device();
    let tokens: Vec<&[u32]> = sequences.iter().map(|sequence| sequence.tokens()).collect();
    let rows = Rows::padded(&tokens, &device);
    let targets = Targets::of(sequences, &rows);
    if targets.places.is_empty() {
        loss(&vec![TokenScores::default(); sequences.len()])?;
        return Ok(sum);
    }
    let hidden = flat(network.hidden(&rows)).select(0, indices(&targets.places, &device));
    // The head is differentiated by hand, outside of burn's graph.
    let plain = hidden.clone().inner();
    let outside = plain.device();
    let head = network.head().inner();
    let pieces = pieces(&plain, &targets, &outside);
    let (logprobs, entropies) = score(&pieces, &head)?;
    let wanted = loss(&joined(sequences, &targets, &logprobs, &entropies))?;
    let wanted: Vec<f32> = wanted.into_iter().flatten().map(|one| one as f32).collect();
    let mut wanted = wanted.chunks(CHUNK);
    let mut of_hidden = Vec::with_capacity(pieces.len());
    let mut of_head: Option<Tensor<2>> = None;
    for piece in &pieces {
        let weight = vector(wanted.next().unwrap_or_default().to_vec(), &outside).reshape([piece.length, 1]);
        let weight = weight * piece.scale.clone();
        // g (one-hot - softmax): minus g times the softmax everywhere, plus g at the token.
        let logits = (piece.log_shares(&head).exp() * weight.clone()).neg().scatter(
            1,
            piece.tokens.clone(),
            weight,
            burn::tensor::IndexingUpdateOp::Add,
        );
        of_hidden.push(logits.clone().matmul(head.clone().transpose()));
        let part = piece.hidden.clone().transpose().matmul(logits);
        of_head = Some(match of_head {
            None => part,
            Some(sum) => sum + part,
        });
    }
    let of_hidden = Tensor::from_inner(Tensor::cat(of_hidden, 0));
    let mut gradients = (hidden * of_hidden).sum().backward();
    for (name, weight) in network.weights.weights() {
        match weight {
            Weight::Matrix(matrix) => {
                if let Some(gradient) = matrix.grad_remove(&mut gradients) {
                    sum.add_matrix(&name, gradient);
                }
                let head = match (name.as_str(), &network.weights.head) {
                    ("model.embed_tokens.weight", None) => of_head.clone().map(Tensor::transpose),
                    ("lm_head.weight", Some(_)) => of_head.clone(),
                    _ => None,
                };
                if let Some(gradient) = head.filter(|_| matrix.is_require_grad()) {
                    sum.add_matrix(&name, gradient);
                }
            }
            Weight::Vector(vector) => {
                if let Some(gradient) = vector.grad_remove(&mut gradients) {
                    sum.add_vector(&name, gradient);
                }
            }
        }
    }
    Ok(sum)
}
